use gridpost_core::{
    event::mapping::Field,
    time::Timestamp,
    topic::{Changes, Topic},
};
use serde_json::json;

use super::*;

fn write(topic: &Topic, publish_url: &str) -> Value {
    json!(super::write(topic, publish_url))
}

#[test]
fn names_are_checked() {
    let long = "a".repeat(50);
    for name in ["abc", "a-b", "---", "Orders-2", "sys", long.as_str()] {
        check_name(name).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
    let longer = "a".repeat(51);
    let table = [
        ("", "3 to 50"),
        ("ab", "3 to 50"),
        (longer.as_str(), "3 to 50"),
        ("a b", "A-Z, a-z, 0-9 and '-'"),
        ("tópic", "A-Z, a-z, 0-9 and '-'"),
        ("a_b", "A-Z, a-z, 0-9 and '-'"),
        ("Microsoft-orders", "must not begin with Microsoft"),
        ("eventgridtopic", "must not begin with EventGrid"),
        ("SYSTEM1", "must not begin with System"),
    ];
    for (name, rule) in table {
        let problem = check_name(name).expect_err(name);
        assert!(problem.to_string().contains(rule), "{name}: {problem}");
    }
}

#[test]
fn refused_documents() {
    let table = [
        (json!([]), "$", "must be an object"),
        (json!({"kind": "domain"}), "kind", "'custom' or 'namespace' (default custom)"),
        (json!({"kind": 1}), "kind", "must be a string"),
        (json!({"colour": "red"}), "colour", "is not known; members here are kind, properties"),
        (json!({"properties": []}), "properties", "must be an object"),
        (
            json!({"properties": {"inputSchema": "Xml"}}),
            "properties.inputSchema",
            "must be 'EventGridSchema', 'CloudEventSchemaV1_0' or 'CustomEventSchema', but is",
        ),
        (
            json!({"properties": {"inputSchemaMapping": {"inputSchemaMappingType": "Json"}}}),
            "properties.inputSchemaMapping",
            "must be left out: it explains events of inputSchema 'CustomEventSchema', and the \
             topic takes 'EventGridSchema'",
        ),
        (
            mapped(json!({"properties": {}})),
            "properties.inputSchemaMapping.inputSchemaMappingType",
            "is required: 'Json'",
        ),
        (
            mapped(json!({"inputSchemaMappingType": "Xml"})),
            "properties.inputSchemaMapping.inputSchemaMappingType",
            "must be 'Json', but is \"Xml\"",
        ),
        (
            mapping(json!({"data": {"sourceField": "d"}})),
            "properties.inputSchemaMapping.properties.data",
            "is not known; members here are dataVersion, eventTime, eventType, id, subject, topic",
        ),
        (
            mapping(json!({"id": "myId"})),
            "properties.inputSchemaMapping.properties.id",
            "must be an object",
        ),
        (
            mapping(json!({"id": {"defaultValue": "1"}})),
            "properties.inputSchemaMapping.properties.id.defaultValue",
            "is not known; members here are sourceField",
        ),
        (
            mapping(json!({"subject": {"sourceField": ""}})),
            "properties.inputSchemaMapping.properties.subject.sourceField",
            "must have 1 to 256 characters",
        ),
        (
            mapping(json!({"subject": {"defaultValue": 7}})),
            "properties.inputSchemaMapping.properties.subject.defaultValue",
            "must be a string",
        ),
        (
            mapping(json!({
                "subject": {"defaultValue": "\u{1}".repeat(256)},
                "eventType": {"defaultValue": "\u{1}".repeat(256)},
            })),
            "properties.inputSchemaMapping.properties",
            "must take at most 2048 bytes in all, but takes 31",
        ),
        (
            json!({"kind": "namespace", "properties": {"inputSchema": "EventGridSchema"}}),
            "properties.inputSchema",
            "namespace topics take CloudEvents alone",
        ),
        (
            json!({"properties": {"disableLocalAuth": "yes"}}),
            "properties.disableLocalAuth",
            "must be true or false (default false)",
        ),
        (
            json!({"properties": {"deliveryProfile": "premium"}}),
            "properties.deliveryProfile",
            "'basic', 'basic2021' or 'namespace', but is",
        ),
        (
            json!({"properties": {"idempotency": true}}),
            "properties.idempotency",
            "must be an object",
        ),
        (
            json!({"properties": {"idempotency": {"windowInSeconds": 59}}}),
            "properties.idempotency.windowInSeconds",
            "must be a whole number from 60 to 86400 (default 300), but is 59",
        ),
        (
            json!({"properties": {"idempotency": {"windowInMinutes": 1}}}),
            "properties.idempotency.windowInMinutes",
            "is not known",
        ),
        (
            json!({"properties": {"publicNetworkAcces": "Enabled"}}),
            "properties.publicNetworkAcces",
            "is not known",
        ),
    ];
    for (document, path, rule) in table {
        let problems = read(&document).expect_err("refused");
        let listed: Vec<_> = problems.iter().collect();
        assert_eq!(listed.len(), 1, "{document}: {listed:?}");
        assert_eq!(listed[0].path, path, "{document}");
        assert!(listed[0].rule.contains(rule), "{document}: {}", listed[0]);
    }
}

#[test]
fn documents_survive_a_round_trip() {
    let kinds = [(json!({}), defaults(Kind::Custom))];
    let namespace = [(json!({"kind": "namespace"}), defaults(Kind::Namespace))];
    let custom = json!({
        "id": {"sourceField": "key"}, "topic": {"sourceField": "t"},
        "eventTime": {"sourceField": "at"},
        "eventType": {"sourceField": "kind", "defaultValue": "T"},
        "subject": {"defaultValue": "s"}, "dataVersion": {"sourceField": "v"},
    });
    let field = |source: Option<&str>, default: Option<&str>| Field {
        source_field: source.map(str::to_owned),
        default_value: default.map(str::to_owned),
    };
    let input_schema_mapping = Some(InputSchemaMapping {
        id: Some("key".to_owned()),
        topic: Some("t".to_owned()),
        event_time: Some("at".to_owned()),
        event_type: field(Some("kind"), Some("T")),
        subject: field(None, Some("s")),
        data_version: field(Some("v"), None),
    });
    let custom = [(
        mapping(custom),
        Settings {
            input_schema: InputSchema::CustomEventSchema,
            input_schema_mapping,
            ..defaults(Kind::Custom)
        },
    )];
    let full = json!({"kind": "custom", "properties": {
        "inputSchema": "CloudEventSchemaV1_0", "disableLocalAuth": true,
        "deliveryProfile": "basic2021", "idempotency": {"windowInSeconds": 86_400},
    }});
    let full = [(
        full,
        Settings {
            kind: Kind::Custom,
            input_schema: InputSchema::CloudEventSchemaV1_0,
            input_schema_mapping: None,
            disable_local_auth: true,
            delivery_profile: ProfileName::Basic2021,
            idempotency: Some(Idempotency { window_in_seconds: 86_400 }),
        },
    )];
    let window_in_seconds = WINDOW_S_DEFAULT;
    let repeatable = [(
        json!({"properties": {"idempotency": {}}}),
        Settings { idempotency: Some(Idempotency { window_in_seconds }), ..defaults(Kind::Custom) },
    )];
    let all = kinds.into_iter().chain(namespace).chain(full).chain(custom).chain(repeatable);
    for (document, want) in all {
        let settings = read(&document).expect("valid");
        assert_eq!(settings, want);
        let written = write(&topic(settings), "http://127.0.0.1:1/x/");
        assert_eq!(read(&written).expect("what a read answers can be written back"), want);
    }
    let topic = topic(defaults(Kind::Namespace));
    let endpoint = &write(&topic, "https://p")["properties"]["endpoint"];
    assert_eq!(endpoint, "https://p/topics/demo:publish");
    let keys = AccessKeys([Secret::new("k1secret"), Secret::new("k2secret")]);
    assert_eq!(json!(Keys::from(keys)), json!({"key1": "k1secret", "key2": "k2secret"}));
}

#[test]
fn a_key_is_named() {
    assert_eq!(read_key_name(&json!({"keyName": "key2"})), Ok(1));
    let table = [
        (json!({}), "keyName is required: 'key1' or 'key2'"),
        (json!({"keyName": "key3"}), "keyName must be 'key1' or 'key2', but is \"key3\""),
        (json!({"keyName": 1}), "keyName must be a string, but is a number"),
    ];
    for (document, want) in table {
        let problems = read_key_name(&document).expect_err("refused");
        let listed: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(listed, [want]);
    }
}

fn mapped(mapping: Value) -> Value {
    json!({"properties": {"inputSchema": "CustomEventSchema", "inputSchemaMapping": mapping}})
}

fn mapping(properties: Value) -> Value {
    mapped(json!({"inputSchemaMappingType": "Json", "properties": properties}))
}

fn topic(settings: Settings) -> Topic {
    Topic {
        name: "demo".to_owned(),
        kind: settings.kind,
        input_schema: settings.input_schema,
        input_schema_mapping: settings.input_schema_mapping,
        disable_local_auth: settings.disable_local_auth,
        delivery_profile: settings.delivery_profile,
        idempotency: settings.idempotency,
        etag: uuid::Uuid::nil(),
        created_at: Timestamp::default(),
        revision: 1,
        changes: Changes::default(),
    }
}
