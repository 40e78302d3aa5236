//! Delivery attributes and signing in documents.

use gridpost_core::subscription::attributes::AttributeValue;

use super::*;

const PATH: &str = "properties.destination.properties.deliveryAttributeMappings";

fn mappings(mappings: Value) -> Value {
    webhook_with("deliveryAttributeMappings", mappings)
}

fn fixed(name: &str, value: Value, is_secret: bool) -> Value {
    json!({"name": name, "type": "Static",
        "properties": {"value": value, "isSecret": is_secret}})
}

fn dynamic(field: Value) -> Value {
    mappings(json!([{"name": "X", "type": "Dynamic", "properties": {"sourceField": field}}]))
}

fn named(name: &str) -> Value {
    mappings(json!([fixed(name, json!("v"), false)]))
}

fn valued(value: Value) -> Value {
    mappings(json!([fixed("X", value, true)]))
}

/// Every row has one problem: of this code, at this path, with these words.
fn assert_problems(base: &str, table: Vec<(Value, Code, &str, &str)>) {
    for (document, code, path, rule) in table {
        let problems = read_for(Kind::Custom, &document).expect_err(&document.to_string());
        let listed: Vec<_> = problems.iter().collect();
        assert_eq!(listed.len(), 1, "{document}: {listed:?}");
        let found = (listed[0].code, listed[0].path.clone());
        assert_eq!(found, (code, format!("{base}{path}")), "{document}: {}", listed[0]);
        assert!(listed[0].rule.contains(rule), "{document}: {}", listed[0]);
        assert!(!listed[0].rule.contains("hush"), "{document} gives a secret away");
    }
}

#[test]
fn delivery_attributes_are_refused() {
    use Code::*;
    let many: Vec<_> = (0..11).map(|n| fixed(&format!("X-{n}"), json!("v"), false)).collect();
    let twice = json!([fixed("X-A", json!("v"), false), fixed("x-a", json!("w"), true)]);
    let properties = json!({"value": "v", "isSecret": false});
    let token = "must be a header's name";
    let reserved = "the request or its connection has that header";
    let own = "such headers are Gridpost's own";
    let plain = "names with single dots between them";
    assert_problems(
        PATH,
        vec![
            (mappings(json!({})), WrongType, "", "must be an array"),
            (
                mappings(json!(many)),
                OutOfRange,
                "",
                "at most 10 delivery attribute mappings, but has 11",
            ),
            (mappings(json!([5])), WrongType, "[0]", "must be an object"),
            (mappings(twice), InvalidValue, "[1].name", "is given twice (in any case)"),
            (
                mappings(json!([{"type": "Static", "properties": properties}])),
                MissingMember,
                "[0].name",
                "the header's name",
            ),
            (
                mappings(json!([{"name": "X", "properties": properties}])),
                MissingMember,
                "[0].type",
                "'Static' or 'Dynamic'",
            ),
            (
                mappings(json!([{"name": "X", "type": "Fixed", "properties": properties}])),
                InvalidValue,
                "[0].type",
                "must be 'Static' or 'Dynamic'",
            ),
            (
                mappings(json!([{"name": "X", "type": "Static"}])),
                MissingMember,
                "[0].properties",
                "an object with value and isSecret",
            ),
            (
                mappings(json!([{"name": "X", "type": "Dynamic", "properties": {}}])),
                MissingMember,
                "[0].properties.sourceField",
                "data.key",
            ),
            (named(""), InvalidValue, "[0].name", token),
            (named("X Y"), InvalidValue, "[0].name", token),
            (named("X:"), InvalidValue, "[0].name", token),
            (named("Größe"), InvalidValue, "[0].name", token),
            (named(&"x".repeat(257)), InvalidValue, "[0].name", token),
            (named("aeg-event-type"), InvalidValue, "[0].name", own),
            (named("AEG-x"), InvalidValue, "[0].name", own),
            (named("Webhook-Signature"), InvalidValue, "[0].name", own),
            (named("Host"), InvalidValue, "[0].name", reserved),
            (named("CONTENT-LENGTH"), InvalidValue, "[0].name", reserved),
            (named("Transfer-Encoding"), InvalidValue, "[0].name", reserved),
            (named("connection"), InvalidValue, "[0].name", reserved),
            (named("Origin"), InvalidValue, "[0].name", reserved),
            (valued(json!(5)), WrongType, "[0].properties.value", "must be a string"),
            (valued(json!(null)), MissingMember, "[0].properties.value", "keeps the stored value"),
            (valued(json!("")), OutOfRange, "[0].properties.value", "1 to 4096 bytes"),
            (valued(json!("v".repeat(4_097))), OutOfRange, "[0].properties.value", "but has 4097"),
            (valued(json!("hush\r\nx: y")), InvalidValue, "[0].properties.value", "printable"),
            (valued(json!("hush é")), InvalidValue, "[0].properties.value", "printable ASCII"),
            (valued(json!(" hush")), InvalidValue, "[0].properties.value", "spaces at its ends"),
            (dynamic(json!(5)), WrongType, "[0].properties.sourceField", "must be a string"),
            (dynamic(json!("")), InvalidValue, "[0].properties.sourceField", plain),
            (dynamic(json!("data..k")), InvalidValue, "[0].properties.sourceField", plain),
            (dynamic(json!("data[0]")), InvalidValue, "[0].properties.sourceField", plain),
            (dynamic(json!("$..k")), InvalidValue, "[0].properties.sourceField", plain),
        ],
    );
}

#[test]
fn signing_is_refused() {
    use Code::*;
    assert_problems(
        "properties.signing",
        vec![
            (with("signing", json!(true)), WrongType, "", "must be an object"),
            (with("signing", json!({})), MissingMember, ".scheme", "'StandardWebhooks'"),
            (
                with("signing", json!({"scheme": "hmac"})),
                InvalidValue,
                ".scheme",
                "must be 'StandardWebhooks'",
            ),
            (
                with("signing", json!({"scheme": "StandardWebhooks", "secret": "whsec_hush"})),
                UnknownMember,
                ".secret",
                "is not known",
            ),
        ],
    );
    for (document, path) in [
        (json!({"overlapInSeconds": 604_801}), "overlapInSeconds"),
        (json!({"overlapInSeconds": -1}), "overlapInSeconds"),
        (json!({"overlapInSeconds": "1"}), "overlapInSeconds"),
        (json!({"overlap": 1}), "overlap"),
        (json!(5), "$"),
    ] {
        let problems = signing::read_rotation(&document).expect_err("refused");
        assert_eq!(problems.iter().next().map(|one| one.path.as_str()), Some(path), "{document}");
    }
    let default = signing::read_rotation(&json!({})).expect("valid");
    assert_eq!(default.as_secs(), 86_400);
}

#[test]
fn secrets_are_kept_and_never_written() {
    let document = {
        let mut document = mappings(json!([
            fixed("Authorization", json!("hush"), true),
            fixed("X-Plain", json!("v"), false),
            {"name": "X-D", "type": "Dynamic", "properties": {"sourceField": "$.data.k"}},
        ]));
        document["properties"]["signing"] = json!({"scheme": "StandardWebhooks"});
        document
    };
    let mut settings = read_for(Kind::Custom, &document).expect("valid");
    settings.make_secret(|| [7; 32]);
    let existing = stored(settings);
    let secret = existing.signing.clone().expect("made").secret.expose().to_owned();
    let written = write(&existing, topic(Kind::Custom).delivery_profile);
    assert!(!written.to_string().contains("hush") && !written.to_string().contains(&secret));
    let (topic, allowed) = (topic(Kind::Custom), Allowed::default());
    let context = Context { topic: &topic, existing: Some(&existing), now: NOW, allowed: &allowed };
    let mut again = read(&written, &context).expect("what a read answers can be written back");
    again.make_secret(|| panic!("there is one"));
    assert_eq!(again.delivery_attributes, existing.delivery_attributes);
    assert_eq!(again.signing, existing.signing);
    let all = json!(delivery_attributes(&existing));
    assert_eq!(all["value"][0]["properties"]["value"], "hush");
    assert_eq!(all["value"][2]["properties"]["sourceField"], "data.k");
    assert_eq!(
        json!(signing::SigningSecrets::from(existing.signing.as_ref().expect("made")))["secret"],
        secret
    );
    // A stored subscription keeps both, one that was stored before there were any has none.
    let json = serde_json::to_value(&existing).expect("JSON");
    assert_eq!(serde_json::from_value::<EventSubscription>(json.clone()).expect("read"), existing);
    let mut old = json;
    let members = old.as_object_mut().expect("an object");
    members.remove("deliveryAttributes");
    members.remove("signing");
    let old: EventSubscription = serde_json::from_value(old).expect("read");
    assert!(old.delivery_attributes.is_empty() && old.signing.is_none());
    // What was plain can't be kept as a secret, and nothing is kept for a document without signing.
    let plain = mappings(json!([fixed("X-Plain", Value::Null, true)]));
    assert!(read(&plain, &context).is_err());
    let unsigned = read(&mappings(json!([])), &context).expect("valid");
    assert_eq!((unsigned.is_signed, unsigned.signing), (false, None));
    assert!(!format!("{:?}", existing.delivery_attributes).contains("hush"));
    assert!(matches!(existing.delivery_attributes[0].value, AttributeValue::Secret { .. }));
}
