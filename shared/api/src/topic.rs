//! Topics as documents of the resource API: `{"kind", "properties": {…}}`, with a default for
//! everything.

mod azure;
mod mapping;

use std::ops::RangeInclusive;

use gridpost_core::topic::{AccessKeys, Idempotency, InputSchema, Kind, Topic};
use gridpost_core::{event::mapping::InputSchemaMapping, retry::profile::ProfileName};
use serde_json::{Value, json};

use crate::document::{Code, Object, Problem, Problems, merge, name_of, quoted};

/// The resource type that documents carry.
pub const TYPE: &str = "Gridpost/topics";

pub(crate) const KINDS: [(&str, Kind); 2] =
    [("custom", Kind::Custom), ("namespace", Kind::Namespace)];

const SCHEMAS: [(&str, InputSchema); 3] = [
    ("EventGridSchema", InputSchema::EventGridSchema),
    ("CloudEventSchemaV1_0", InputSchema::CloudEventSchemaV1_0),
    ("CustomEventSchema", InputSchema::CustomEventSchema),
];

const PROFILES: [(&str, ProfileName); 3] = [
    ("basic", ProfileName::Basic),
    ("basic2021", ProfileName::Basic2021),
    ("namespace", ProfileName::Namespace),
];

/// How long keys of publishes may be remembered: longer than any publish takes, and at most a day.
const WINDOW_S: RangeInclusive<u32> = 60..=86_400;

/// Five minutes, as SQS's FIFO queues have.
const WINDOW_S_DEFAULT: u32 = 300;

/// Reserved first words. Source: Event Grid, "Troubleshoot errors".
const RESERVED: [&str; 3] = ["Microsoft", "EventGrid", "System"];

/// The settings of a topic's document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub kind: Kind,
    /// The schema in which it takes events.
    pub input_schema: InputSchema,
    /// The mapping of the publisher's own schema.
    pub input_schema_mapping: Option<InputSchemaMapping>,
    pub disable_local_auth: bool,
    pub delivery_profile: ProfileName,
    /// How it heeds the keys of publishes, if it does.
    pub idempotency: Option<Idempotency>,
}

/// Checks a topic's name: 3 to 50 of `[A-Za-z0-9-]`, no reserved first word.
///
/// Source: Event Grid, "Troubleshoot errors".
pub fn check_name(name: &str) -> Result<(), Problem> {
    crate::document::check_name(name, "a topic's name", 3..=50)?;
    let reserved = RESERVED
        .iter()
        .find(|word| name.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)));
    match reserved {
        None => Ok(()),
        Some(word) => Err(Problem {
            code: Code::InvalidValue,
            path: "name".to_owned(),
            rule: format!(
                "must not begin with {word}, in any case: {} is reserved by Event Grid",
                quoted(name)
            ),
        }),
    }
}

/// Reads a topic's document.
///
/// Documents as Azure's tools print them are read like those of the resource API: without
/// `properties`, with what only reads have.
pub fn read(document: &Value) -> Result<Settings, Problems> {
    azure::form(document).read(read_whole)
}

fn read_whole(document: &Value) -> Result<Settings, Problems> {
    let mut problems = Problems::default();
    let settings = Object::root(document, &mut problems).map(|mut root| {
        azure::read_root(&mut root, &mut problems);
        let kind = azure::kind(&mut root, document, &mut problems);
        let properties = root.object("properties", &mut problems);
        root.finish(&mut problems);
        settings(kind, properties, &mut problems)
    });
    problems.or(settings)
}

/// Reads a patch of an existing topic: its members replace the old ones, `null` restores the
/// default, and the whole is checked like any document.
pub fn read_patch(patch: &Value, existing: &Topic) -> Result<Settings, Problems> {
    let mut problems = Problems::default();
    if Object::root(patch, &mut problems).is_none() {
        return Err(problems);
    }
    azure::form(patch).read(|patch| {
        let mut document = write(existing, "");
        merge(&mut document, patch);
        read_whole(&document)
    })
}

fn settings(kind: Kind, properties: Option<Object<'_>>, problems: &mut Problems) -> Settings {
    let mut settings = defaults(kind);
    let Some(mut properties) = properties else { return settings };
    azure::read_properties(&mut properties, problems);
    if let Some(schema) = input_schema(&mut properties, kind, problems) {
        settings.input_schema = schema;
    }
    settings.input_schema_mapping =
        input_schema_mapping(&mut properties, settings.input_schema, problems);
    settings.disable_local_auth = properties.flag("disableLocalAuth", problems);
    let default = name_of(&PROFILES, settings.delivery_profile);
    if let Some(profile) = properties.choice("deliveryProfile", &PROFILES, Some(default), problems)
    {
        settings.delivery_profile = profile;
    }
    settings.idempotency = idempotency(&mut properties, problems);
    properties.finish(problems);
    settings
}

/// The defaults for a topic of that kind.
pub fn defaults(kind: Kind) -> Settings {
    let (input_schema, delivery_profile) = match kind {
        Kind::Custom => (InputSchema::EventGridSchema, ProfileName::Basic),
        Kind::Namespace => (InputSchema::CloudEventSchemaV1_0, ProfileName::Namespace),
    };
    let input_schema_mapping = None;
    Settings {
        kind,
        input_schema,
        input_schema_mapping,
        disable_local_auth: false,
        delivery_profile,
        idempotency: None,
    }
}

fn input_schema(
    properties: &mut Object<'_>,
    kind: Kind,
    problems: &mut Problems,
) -> Option<InputSchema> {
    const NAME: &str = "inputSchema";
    let default = name_of(&SCHEMAS, defaults(kind).input_schema);
    let schema = properties.choice(NAME, &SCHEMAS, Some(default), problems)?;
    if kind == Kind::Namespace && schema != InputSchema::CloudEventSchemaV1_0 {
        let rule = "must be 'CloudEventSchemaV1_0' (the default) for a topic of kind namespace: \
                    namespace topics take CloudEvents alone";
        problems.add(Code::InvalidValue, properties.path_of(NAME), rule);
    }
    Some(schema)
}

fn input_schema_mapping(
    properties: &mut Object<'_>,
    schema: InputSchema,
    problems: &mut Problems,
) -> Option<InputSchemaMapping> {
    const NAME: &str = "inputSchemaMapping";
    let path = properties.path_of(NAME);
    let mapping = properties.object(NAME, problems)?;
    if schema != InputSchema::CustomEventSchema {
        let rule = format!(
            "must be left out: it explains events of inputSchema 'CustomEventSchema', and the \
             topic takes '{}'",
            name_of(&SCHEMAS, schema)
        );
        problems.add(Code::InvalidValue, path, rule);
        return None;
    }
    Some(mapping::read(mapping, problems))
}

fn idempotency(properties: &mut Object<'_>, problems: &mut Problems) -> Option<Idempotency> {
    let mut idempotency = properties.object("idempotency", problems)?;
    let window_in_seconds =
        idempotency.whole("windowInSeconds", WINDOW_S, WINDOW_S_DEFAULT, problems);
    idempotency.finish(problems);
    Some(Idempotency { window_in_seconds })
}

/// Writes a topic as a document, without its keys. `publish_url` is the base URL of the publish
/// API.
pub fn write(topic: &Topic, publish_url: &str) -> Value {
    let endpoint = format!("{}{}", publish_url.trim_end_matches('/'), topic.publish_path());
    let mut document = json!({
        "id": topic.id(),
        "name": topic.name,
        "type": TYPE,
        "kind": name_of(&KINDS, topic.kind),
        "properties": {
            "inputSchema": name_of(&SCHEMAS, topic.input_schema),
            "disableLocalAuth": topic.disable_local_auth,
            "deliveryProfile": name_of(&PROFILES, topic.delivery_profile),
            "endpoint": endpoint,
            "provisioningState": "Succeeded",
        },
    });
    if let Some(mapping) = &topic.input_schema_mapping {
        document["properties"]["inputSchemaMapping"] = mapping::write(mapping);
    }
    if let Some(Idempotency { window_in_seconds }) = topic.idempotency {
        document["properties"]["idempotency"] = json!({"windowInSeconds": window_in_seconds});
    }
    document
}

/// A topic's access keys, as `listKeys` and `regenerateKey` answer them.
pub fn write_keys(AccessKeys([key1, key2]): &AccessKeys) -> Value {
    json!({"key1": key1.expose(), "key2": key2.expose()})
}

/// Reads `{"keyName": "key1"}`: the index of the key to regenerate.
pub fn read_key_name(document: &Value) -> Result<usize, Problems> {
    let mut problems = Problems::default();
    let index = Object::root(document, &mut problems).and_then(|mut root| {
        root.required("keyName", "'key1' or 'key2'", &mut problems);
        let index = root.choice("keyName", &[("key1", 0), ("key2", 1)], None, &mut problems);
        root.finish(&mut problems);
        index
    });
    problems.or(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_core::{event::mapping::Field, secret::Secret, time::Timestamp, topic::Changes};

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
                "must be 'EventGridSchema', 'CloudEventSchemaV1_0' or 'CustomEventSchema' (default \
                 EventGridSchema)",
            ),
            (
                json!({"properties": {"inputSchemaMapping": {}}}),
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
                "'basic', 'basic2021' or 'namespace' (default basic)",
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
            Settings {
                idempotency: Some(Idempotency { window_in_seconds }),
                ..defaults(Kind::Custom)
            },
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
        assert_eq!(write_keys(&keys), json!({"key1": "k1secret", "key2": "k2secret"}));
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
}
