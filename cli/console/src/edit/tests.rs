use maud::Markup;
use serde_json::{Value, json};

use super::fields::{
    AUTHENTICATION, TYPE, arranged, field_of_rule, fields_of, has_secrets, shown, without_secrets,
};
use super::*;
use gridpost_ops::failure::Refusal;

/// A document with every member, as a read answers it.
fn whole() -> Value {
    json!({"properties": {
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointBaseUrl": "https://e/h", "maxEventsPerBatch": 10, "preferredBatchSizeInKilobytes": 64,
            "onBatchFailure": "Bisect", "partialResults": true,
            "deliveryAttributeMappings": [
                {"name": "X-A", "type": "Static", "properties": {"value": "a b", "isSecret": false}},
                {"name": "X-S", "type": "Static", "properties": {"value": null, "isSecret": true}},
                {"name": "X-D", "type": "Dynamic", "properties": {"sourceField": "data.k"}},
            ]}},
        "filter": {"includedEventTypes": ["A", " B\n", ""], "subjectBeginsWith": "\u{202e}", "subjectEndsWith": "",
            "isSubjectCaseSensitive": true, "enableAdvancedFilteringOnArrays": false,
            "advancedFilters": [
                {"operatorType": "StringIn", "key": "data.a", "values": ["x", "\"y"]},
                {"operatorType": "NumberInRange", "key": "data.b", "values": [[1, 2.5], [3, 4]]},
                {"operatorType": "NumberLessThan", "key": "data.c", "value": -1},
                {"operatorType": "BoolEquals", "key": "data.d", "value": true},
                {"operatorType": "NumberIn", "key": "data.e", "values": [1, 2]},
                {"operatorType": "IsNotNull", "key": "data.f"},
            ]},
        "eventDeliverySchema": "EventGridSchema",
        "retryPolicy": {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440, "schedule": [1, 5],
            "statusRules": {"404": "deadLetter", "5xx": {"retryAfterSeconds": 10}}},
        "probationPolicy": "EventGrid",
        "deadLetterDestination": {"endpointType": "S3Bucket", "properties": {"bucketName": "b", "prefix": ""}},
        "labels": ["l"], "expirationTimeUtc": null, "signing": {"scheme": "StandardWebhooks"},
    }})
}

/// The document that fields mean, and its problems.
fn document(fields: &Fields, was: &Value, page: Page) -> (Value, Placed) {
    let (document, problems) = super::fields::document(fields, was, &page.settings());
    (document.into_document(), problems)
}

/// The document that fields mean, on top of nothing.
fn anew(fields: &Fields) -> Value {
    document(fields, &json!({}), Page::NewSubscription).0
}

#[test]
fn an_empty_operand_stays_and_more_operands_than_one_are_refused() {
    let filter = |filters: Value| json!({"properties": {"filter": {"advancedFilters": filters}}});
    let was = filter(json!([
        {"operatorType": "StringNotIn", "key": "data.a", "values": ["", "x"]},
        {"operatorType": "NumberLessThan", "key": "data.b", "value": 6},
    ]));
    let mut fields = fields_of(&was);
    fields.set("filter.advancedFilters.0.key", "data.z");
    fields.set("filter.advancedFilters.1.values", "6\n7");
    let changed = filter(json!([
        {"operatorType": "StringNotIn", "key": "data.z", "values": ["", "x"]},
        {"operatorType": "NumberLessThan", "key": "data.b", "value": "6, 7"},
    ]));
    assert_eq!(document(&fields, &was, Page::Subscription).0, changed);
}

/// The groups of fields on a page, and the list of its problems.
fn rendered(fields: &Fields, problems: &Placed) -> [String; 2] {
    let form = View { fields, problems, focus: None, may_change: true, is_live: false };
    let settings = Page::Subscription.settings();
    let all = view::of_subscription(form, &settings, "basic", &Document::of(&whole()));
    [all, form.summary("No.")].map(Markup::into_string)
}

/// A form sends the fields that are on its page, and no others.
#[test]
fn a_page_that_is_sent_as_it_is_changes_nothing() {
    let assertion = json!({"type": "AwsWebIdentity",
        "properties": {"audience": "b", "signingAlgorithm": "ES384"}});
    let to = |kind: &str, member: &str| {
        let key = json!({"type": "Dynamic", "properties": {"sourceField": "data.k"}});
        json!({"properties": {"destination": {"endpointType": kind,
            "properties": {"resourceId": "arn", member: key}}}})
    };
    for was in [
        whole(),
        to("SqsQueue", "messageGroupId"),
        to("KinesisStream", "partitionKey"),
        oauth(),
        certificate(),
        authenticated("AwsSigV4", json!({"service": "es", "region": null, "roleArn": "arn:r"})),
        authenticated("AwsWebIdentity", json!({"audience": "a", "signingAlgorithm": "RS256"})),
        authenticated(
            "EntraId",
            json!({"tenantId": "t", "applicationIdOrUri": "a", "clientId": "c",
            "clientSecret": null, "clientAssertion": assertion}),
        ),
    ] {
        let all = fields_of(&was);
        let [page, _] = rendered(&all, &Placed::default());
        let names = page.split(" name=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let sent = names.map(|name| (name.to_owned(), all.get(name).to_owned()));
        let sent = Posted::of(sent.filter(|(_, text)| !text.is_empty()).collect()).fields;
        let (same, problems) = document(&sent, &was, Page::Subscription);
        assert!(same == was && problems.is_empty(), "{same}");
    }
}

#[test]
fn fields_mean_what_they_were_made_from() {
    let mut want = whole();
    let properties = &mut want["properties"];
    // What a read has and a write has not, or the other way round; and what is a default.
    properties["destination"]["properties"]
        .as_object_mut()
        .map(|members| members.remove("endpointBaseUrl"));
    properties["destination"]["properties"]["deliveryAttributeMappings"][1]["properties"] =
        json!({"isSecret": true});
    for (at, member) in [
        ("/filter", "subjectEndsWith"),
        ("/filter", "enableAdvancedFilteringOnArrays"),
        ("/deadLetterDestination/properties", "prefix"),
        ("", "expirationTimeUtc"),
    ] {
        let members = properties.pointer_mut(at).and_then(Value::as_object_mut);
        members.map(|members| members.remove(member));
    }
    assert_eq!(anew(&fields_of(&whole())), want);
}

#[test]
fn what_is_emptied_goes_back_to_its_default() {
    let was = whole();
    let mut fields = fields_of(&was);
    fields.keep_rows("deadLetterDestination", |_, _| false);
    fields.keep_rows("filter.advancedFilters", |_, _| false);
    let patch = patch_of(&was, &document(&fields, &was, Page::Subscription).0);
    let properties = &patch["properties"];
    assert_eq!(properties["deadLetterDestination"], Value::Null);
    assert!(properties["filter"].get("advancedFilters").is_none());
    assert_eq!(properties["filter"]["isSubjectCaseSensitive"], true, "a filter is sent whole");
}

#[test]
fn another_type_of_destination_begins_anew() {
    let was = whole();
    let mut fields = fields_of(&was);
    fields.set(TYPE, "SqsQueue");
    fields.set("destination.resourceId", "arn:aws:sqs:r:123456789012:q");
    let (document, _) = document(&fields, &was, Page::Subscription);
    let destination = &document["properties"]["destination"];
    assert_eq!(destination["endpointType"], "SqsQueue");
    assert_eq!(destination["properties"]["resourceId"], "arn:aws:sqs:r:123456789012:q");
    assert!(destination["properties"].get("maxEventsPerBatch").is_none());
}

#[test]
fn a_status_has_one_rule() {
    let mut fields = Fields::default();
    for row in 0..2 {
        fields.set(format!("retryPolicy.statusRules.{row}.which"), "404");
        fields.set(format!("retryPolicy.statusRules.{row}.action"), "deadLetter");
    }
    assert!(!document(&fields, &json!({}), Page::NewSubscription).1.is_empty());
    let found = field_of_rule(&fields, "retryPolicy.statusRules.404.retryAfterSeconds");
    assert_eq!(found.as_deref(), Some("retryPolicy.statusRules.0.seconds"));
    assert_eq!(field_of_rule(&fields, "retryPolicy.statusRules.405"), None);
}

#[test]
fn problems_stand_at_the_fields_of_a_rendered_form() {
    let mut was = whole();
    was["properties"]["destination"]["properties"]["authentication"] =
        oauth()["properties"]["destination"]["properties"]["authentication"].take();
    let fields = fields_of(&was);
    let authentication = "destination.properties.authentication";
    let [token_url, kind] =
        ["properties.tokenUrl", "type"].map(|it| format!("{authentication}.{it}"));
    let table = [
        ("destination.properties.endpointUrl", "destination-endpointUrl"),
        (
            "destination.properties.deliveryAttributeMappings[1].properties.value",
            "destination-deliveryAttributeMappings-1-value",
        ),
        ("filter.includedEventTypes[1]", "filter-includedEventTypes"),
        ("filter.advancedFilters[2].value", "filter-advancedFilters-2-values"),
        ("filter.advancedFilters", "filter-advancedFilters"),
        ("retryPolicy.schedule[1]", "retryPolicy-schedule"),
        ("retryPolicy.statusRules['404']", "retryPolicy-statusRules-0-which"),
        ("deadLetterDestination.properties.bucketName", "deadLetterDestination-bucketName"),
        ("labels[0]", "labels"),
        ("expirationTimeUtc", "expirationTimeUtc"),
        ("signing.scheme", "signing"),
        (&token_url, "destination-authentication-tokenUrl"),
        (&kind, "destination-authentication-type"),
    ];
    let table = table.map(|(target, id)| (format!("properties.{target}"), format!("f-{id}")));
    let detail = |(target, _): &(String, _)| json!({"target": target, "message": target});
    let details = json!({"details": table.iter().map(detail).collect::<Value>()});
    let mut problems = Placed::of(&Refusal::from_answer(400, &details.to_string()).into());
    problems.rename(|path| field_of_rule(&fields, path));
    let [shown, summary] = rendered(&fields, &problems);
    let summary = summary.replace("<wbr>", "");
    for (target, id) in table {
        let link = format!("<a href=\"#{id}\">{target}");
        assert!(summary.contains(&link), "{link} is not in {summary}");
        assert!(shown.contains(&format!(" id=\"{id}\"")), "{id}");
    }
    // A group of rows is no field.
    assert_eq!(shown.matches("-problem\" aria-invalid=\"true\"").count(), 12, "{shown}");
}

/// A webhook with an authentication, as a read answers it.
fn authenticated(kind: &str, properties: Value) -> Value {
    json!({"properties": {"destination": {"endpointType": "WebHook", "properties": {
        "endpointBaseUrl": "https://e/h",
        "authentication": {"type": kind, "properties": properties}}}}})
}

fn oauth() -> Value {
    let properties = json!({"tokenUrl": "https://id/t", "clientId": "c", "scope": "a b", "audience": null,
        "clientAuthentication": "Post", "clientSecret": null});
    authenticated("OAuth2ClientCredentials", properties)
}

fn certificate() -> Value {
    let pem = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
    let properties = json!({"certificate": pem, "privateKey": null, "trustedCertificates": null});
    authenticated("ClientCertificate", properties)
}

#[test]
fn authentications_are_changed_by_fields_and_their_secrets_are_only_written() {
    let of = |name: &str| format!("destination.authentication.{name}");
    let patch = |was: &Value, changes: &[(&str, &str)]| {
        let mut fields = fields_of(was);
        fields.set(shown(AUTHENTICATION), fields.get(AUTHENTICATION).to_owned());
        for (name, text) in changes {
            fields.clear(&of(name));
            fields.set(of(name), *text);
        }
        let patch = patch_of(was, &document(&fields, was, Page::Subscription).0);
        patch.pointer("/properties/destination/properties/authentication").cloned()
    };
    let assertion = json!({"type": "AwsWebIdentity",
        "properties": {"audience": "api://x", "signingAlgorithm": "ES384"}});
    let was = authenticated("EntraId", json!({"tenantId": "t", "clientAssertion": assertion}));
    let other = patch(&was, &[("clientAssertion.audience", "api://y")]).expect("a change");
    let changed = &other["properties"]["clientAssertion"]["properties"];
    assert_eq!(changed, &json!({"audience": "api://y"}), "{other}");
    let none = patch(&was, &[("clientAssertion.audience", "")]).expect("a change");
    assert_eq!(none["properties"]["clientAssertion"], Value::Null, "{none}");
    let was = oauth();
    let scope = patch(&was, &[("scope", "c")]).expect("a change");
    assert_eq!(scope["properties"]["scope"], "c");
    assert_eq!((scope.get("type"), scope["properties"].get("clientId")), (None, None), "{scope}");
    let secret = patch(&was, &[("clientSecret", " hush ")]).expect("a change");
    assert_eq!(secret["properties"]["clientSecret"], " hush ");
    // Another type is sent whole.
    let entra = [("type", "EntraId"), ("tenantId", "t"), ("applicationIdOrUri", "a")];
    let entra = patch(&was, &entra).expect("a change");
    assert_eq!(
        entra,
        json!({"type": "EntraId", "properties":
        {"tenantId": "t", "applicationIdOrUri": "a", "clientId": "c"}})
    );
    let was = certificate();
    let key = patch(&was, &[("privateKey", "hush\n\n")]).expect("a change");
    assert_eq!(key["properties"]["privateKey"], "hush\n");
    assert_eq!(key["properties"].get("certificate"), None, "{key}");
    // No page shows a secret, however it came into the form.
    let mut fields = fields_of(&was);
    fields.set(of("privateKey"), "hush");
    let [shown, _] = rendered(&fields, &Placed::default());
    for part in ["BEGIN CERTIFICATE", "f-destination-authentication-privateKey"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(!shown.contains("hush"), "{shown}");
    assert!(has_secrets(&fields) && !has_secrets(&fields_of(&was)));
    let mine = document(&fields, &was, Page::Subscription).0;
    assert!(mine.to_string().contains("hush"));
    let (shown, had_any) = without_secrets(&mine);
    assert!(had_any && !shown.to_string().contains("hush"));
    assert!(!without_secrets(&shown).1, "{shown}");
}

/// A form with those fields and buttons.
fn posted(pairs: &[(&str, &str)]) -> Posted {
    Posted::of(pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

#[test]
fn a_type_whose_fields_are_not_on_the_page_is_not_saved_yet() {
    let focus = |by: &str| {
        let [own, shown_by] = [TYPE, AUTHENTICATION].map(shown);
        let of_types =
            [(TYPE, "WebHook"), (&own, "WebHook"), (AUTHENTICATION, "EntraId"), (&shown_by, by)];
        arranged(&mut posted(&of_types), &json!({}))
    };
    assert_eq!(focus("").as_deref(), Some(AUTHENTICATION));
    assert_eq!(focus("EntraId"), None);
}

/// A key is what its type says: the field of the other type is not taken for it.
#[test]
fn a_key_that_is_chosen_away_is_not_taken_for_a_text() {
    let key =
        |of_type: &str, member: &str| json!({"type": of_type, "properties": {member: "data.k"}});
    let was = json!({"properties": {"destination": {"endpointType": "KinesisStream",
        "properties": {"resourceId": "arn", "partitionKey": key("Dynamic", "sourceField")}}}});
    let posted = |of_type: &str, member: &str| {
        let mut fields = fields_of(&was);
        fields.clear("destination.partitionKey");
        fields.set("destination.partitionKey.type", of_type);
        fields.set(format!("destination.partitionKey.{member}"), "data.k");
        let (document, problems) = document(&fields, &was, Page::Subscription);
        assert!(problems.is_empty());
        document.pointer("/properties/destination/properties/partitionKey").cloned()
    };
    assert_eq!(posted("", "sourceField"), None);
    assert_eq!(posted("Static", "sourceField"), Some(json!({"type": "Static", "properties": {}})));
    assert_eq!(posted("Static", "value"), Some(key("Static", "value")));
    assert_eq!(posted("Dynamic", "sourceField"), Some(key("Dynamic", "sourceField")));
}

#[test]
fn a_type_that_is_chosen_again_has_what_is_saved() {
    let was = whole();
    let choose = |shown: &str, kind: &str| {
        let mut posted = posted(&[(TYPE, kind), ("destination.shown", shown), ("do", "choose")]);
        arranged(&mut posted, &was);
        posted.fields
    };
    let back = choose("KinesisStream", "WebHook");
    assert_eq!(
        document(&back, &was, Page::Subscription).0["properties"]["destination"],
        was["properties"]["destination"]
    );
    assert_eq!(choose("WebHook", "KinesisStream").rows("destination.deliveryAttributeMappings"), 0);
    let webhook = [(TYPE, "WebHook"), ("destination.shown", "WebHook"), ("do", "choose")];
    let mut back = posted(&[&webhook[..], &[(AUTHENTICATION, "OAuth2ClientCredentials")]].concat());
    arranged(&mut back, &oauth());
    let scope = "destination.authentication.scope";
    assert!(back.fields.has(scope) && back.fields.is_same(&fields_of(&oauth()), scope));
}

#[test]
fn a_text_that_is_not_in_the_form_stays() {
    let was = json!({"properties": {"retryPolicy": {"maxDeliveryAttempts": 5, "schedule": [1]}}});
    let mut posted = posted(&[("retryPolicy.schedule", "")]);
    assert_eq!(arranged(&mut posted, &was), None);
    let want = json!({"properties": {"retryPolicy": {"schedule": null}}});
    assert_eq!(patch_of(&was, &document(&posted.fields, &was, Page::Retry).0), want);
}

#[test]
fn buttons_that_no_page_has_save_nothing() {
    for button in ["add bogus", "remove bogus 0"] {
        assert!(arranged(&mut posted(&[("do", button)]), &json!({})).is_some(), "{button}");
    }
}

/// Each page sends what was typed into its fields, and nothing else.
#[test]
fn what_is_not_touched_is_not_sent() {
    const WINDOW: &str = "idempotency.windowInSeconds";
    const ATTEMPTS: &str = "retryPolicy.maxDeliveryAttempts";
    let id = json!({"inputSchemaMappingType": "Json", "properties": {"id": {"sourceField": "a"}}});
    let mapped = json!({"properties": {"deliveryProfile": "basic", "disableLocalAuth": false,
        "inputSchema": "CustomEventSchema", "inputSchemaMapping": id}});
    let window = |seconds: Value| json!({"idempotency": {"windowInSeconds": seconds}});
    let keyed = json!({"properties": window(json!(300))});
    let retry = |policy: Value| json!({ "retryPolicy": policy });
    let limited = json!({"properties": retry(json!({"maxDeliveryAttempts": 5}))});
    let queues =
        json!({"properties": retry(json!({"maxDeliveryCount": 10, "eventTimeToLive": "P7D"}))});
    let subject = json!({"properties": {"subject": {"defaultValue": "s"}}});
    let url = json!({"destination": {"properties": {"endpointUrl": "https://f"}}});
    let rule = json!({"404": {"retryAfterSeconds": ""}});
    let [of_topic, new_topic, of_retry, edit] =
        [Page::Topic, Page::NewTopic, Page::Retry, Page::Subscription];
    let (whole, none, same) = (whole(), json!({}), json!({}));
    // A page, what it was made from, a field and its text, and what changes.
    let table = [
        (of_topic, &mapped, "", "", &same),
        (of_topic, &mapped, "disableLocalAuth", "yes", &json!({"disableLocalAuth": true})),
        (of_topic, &mapped, "inputSchema", "EventGridSchema", &same),
        (
            of_topic,
            &mapped,
            "inputSchemaMapping.subject.defaultValue",
            "s",
            &json!({ "inputSchemaMapping": subject }),
        ),
        (of_topic, &keyed, "", "", &same),
        (of_topic, &keyed, WINDOW, "60", &window(json!(60))),
        // The API refuses it in its own words.
        (of_topic, &keyed, WINDOW, "soon", &window(json!("soon"))),
        (of_topic, &keyed, WINDOW, "", &json!({"idempotency": null})),
        (
            new_topic,
            &none,
            "inputSchemaMapping.id.sourceField",
            "a",
            &json!({ "inputSchemaMapping": id }),
        ),
        (of_retry, &whole, "filter.subjectBeginsWith", "x", &same),
        (of_retry, &queues, "", "", &same),
        (
            of_retry,
            &whole,
            "retryPolicy.schedule",
            "1, 5 30",
            &retry(json!({"schedule": [1, 5, 30]})),
        ),
        (edit, &whole, ATTEMPTS, "5", &retry(json!({"maxDeliveryAttempts": 5}))),
        (edit, &whole, ATTEMPTS, "x", &retry(json!({"maxDeliveryAttempts": "x"}))),
        (
            edit,
            &whole,
            "retryPolicy.statusRules.0.action",
            "retry",
            &retry(json!({ "statusRules": rule })),
        ),
        // Members that another operator adds meanwhile are kept.
        (
            of_retry,
            &limited,
            "retryPolicy.maxDeliveryAttempts",
            "",
            &retry(json!({"maxDeliveryAttempts": null})),
        ),
        (edit, &whole, "labels", "l\nm", &json!({"labels": ["l", "m"]})),
        (edit, &whole, "expirationTimeUtc", "2030", &json!({"expirationTimeUtc": "2030"})),
        (edit, &whole, "destination.endpointUrl", "https://f", &url),
        (edit, &whole, "eventDeliverySchema", "CloudEventSchemaV1_0", &same),
    ];
    for (page, was, name, text, want) in table {
        let mut fields = fields_of(was);
        fields.clear(name);
        fields.set(name, text);
        let (mine, problems) = document(&fields, was, page);
        let want = if *want == same { same.clone() } else { json!({ "properties": want }) };
        assert!(problems.is_empty());
        assert_eq!(patch_of(was, &mine), want, "{page:?}: {name} {text}");
    }
}
