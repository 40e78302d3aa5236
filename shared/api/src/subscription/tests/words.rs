//! Names of enumerations in any case, booleans as text.

use super::*;

/// The same document with every name in another case and every boolean as text. Texts of other
/// members stay.
fn in_another_case(value: &Value) -> Value {
    const NAMES: [&str; 10] = [
        "clientAuthentication",
        "deliveryMode",
        "endpointType",
        "eventDeliverySchema",
        "onBatchFailure",
        "operatorType",
        "probationPolicy",
        "scheme",
        "signingAlgorithm",
        "type",
    ];
    match value {
        Value::Bool(flag) => json!(if *flag { "TRUE" } else { "False" }),
        Value::Array(items) => items.iter().map(in_another_case).collect(),
        Value::Object(members) => {
            let each = members.iter().map(|(name, value)| match (name.as_str(), value) {
                ("statusRules", Value::Object(rules)) => {
                    // Rows have names as members have, of one case.
                    let rules = rules.iter().map(|(row, rule)| match rule {
                        Value::String(end) => (row.clone(), json!(end.to_uppercase())),
                        rule => (row.clone(), rule.clone()),
                    });
                    (name.clone(), rules.collect())
                }
                (named, Value::String(text)) if NAMES.contains(&named) => {
                    (name.clone(), json!(text.to_uppercase()))
                }
                _ => (name.clone(), in_another_case(value)),
            });
            each.collect()
        }
        other => other.clone(),
    }
}

fn every_word() -> Value {
    let mut document = full_document(Kind::Custom);
    let properties = &mut document["properties"];
    properties["signing"] = json!({"scheme": "StandardWebhooks"});
    properties["retryPolicy"]["statusRules"] = json!({
        "404": "deadLetter", "5xx": {"retryAfterSeconds": 60}, "SocketError": "deadLetter",
    });
    let webhook = &mut properties["destination"]["properties"];
    webhook["onBatchFailure"] = json!("Bisect");
    webhook["partialResults"] = json!(true);
    webhook["authentication"] = json!({"type": "OAuth2ClientCredentials", "properties": {
        "tokenUrl": "https://id.example.com/token", "clientId": "c", "clientSecret": "s",
        "clientAuthentication": "Basic",
    }});
    webhook["deliveryAttributeMappings"] = json!([
        {"name": "x-a", "type": "Static", "properties": {"value": "v", "isSecret": true}},
        {"name": "x-b", "type": "Dynamic", "properties": {"sourceField": "data.k"}},
    ]);
    document
}

#[test]
fn every_word_may_be_in_any_case() {
    for (kind, document) in [
        (Kind::Custom, every_word()),
        (Kind::Custom, full_document(Kind::Custom)),
        (Kind::Namespace, full_document(Kind::Namespace)),
        (Kind::Namespace, namespace_form()),
    ] {
        let want = read_for(kind, &document).expect("valid");
        let other = in_another_case(&document);
        assert_ne!(other, document);
        assert_eq!(read_for(kind, &other), Ok(want.clone()), "{other}");
        let by_patch = patched(kind, &document, &other);
        assert_eq!(by_patch.map(|read| read.endpoint), Ok(want.endpoint), "{other}");
        // Flat, as patches are.
        let by_patch = patched(kind, &document, &other["properties"]);
        assert_eq!(by_patch.map(|read| read.filter), Ok(want.filter), "{other}");
    }
}

#[test]
fn a_type_in_another_case_is_no_other_type() {
    let patch = json!({"destination": {"endpointType": "webhook", "maxEventsPerBatch": 9}});
    let after = patched(Kind::Custom, &to_be_patched(), &patch).expect("the URL stays");
    assert_eq!(after.batching.map(|batching| batching.max_events), Some(9));
    assert_eq!(after.endpoint, read_for(Kind::Custom, &to_be_patched()).expect("valid").endpoint);
}

#[test]
fn other_words_are_refused() {
    let flag = |value| with("filter", json!({"isSubjectCaseSensitive": value}));
    const CASE: &str = "properties.filter.isSubjectCaseSensitive";
    assert_refused(
        Kind::Custom,
        vec![
            (flag(json!("yes")), CASE, "must be true or false"),
            (flag(json!("")), CASE, "must be true or false"),
            (flag(json!(1)), CASE, "must be true or false"),
            (with("probationPolicy", json!("Event Grid")), "properties.probationPolicy", "must be"),
        ],
    );
}
