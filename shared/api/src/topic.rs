//! Topics as documents: `{"kind", "properties": {…}}`, with a default for everything.

mod azure;

use gridpost_core::{
    event::mapping::{Field, InputSchemaMapping},
    retry::profile::ProfileName,
    secret::Secret,
    topic::{self, AccessKeys, Idempotency, InputSchema, Kind},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use crate::{
    document::{self, At, Code, Problem, Problems, merge, quoted, read as read_as},
    schema::{List, shown, stand_in},
};

/// The resource type that documents carry.
pub const TYPE: &str = "Gridpost/topics";

/// A page of topics.
pub type TopicList = List<Topic>;

/// A topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Topic {
    pub id: String,
    #[schema(pattern = "^[A-Za-z0-9-]{3,50}$")]
    pub name: String,
    #[serde(rename = "type")]
    #[schema(pattern = "^Gridpost/topics$")]
    pub resource_type: String,
    #[schema(value_type = stand_in::Kind)]
    pub kind: Kind,
    pub properties: TopicProperties,
}

/// The properties of a topic, as a read shows them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopicProperties {
    #[serde(flatten)]
    #[schema(schema_with = shown_settings)]
    pub settings: TopicSettings,
    /// Where to publish.
    #[schema(format = "uri")]
    pub endpoint: String,
    #[schema(value_type = stand_in::Succeeded)]
    pub provisioning_state: String,
}

fn shown_settings() -> RefOr<Schema> {
    shown::<TopicSettings>(&["inputSchema", "disableLocalAuth", "deliveryProfile"])
}

/// The settings to give a topic. Names are read in any case. Documents as Azure's tools print them are
/// taken, too: without properties, with members that only reads have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicInput {
    /// The kind of Event Grid's topics that it is like.
    #[schema(value_type = Option<stand_in::Kind>, default = "custom")]
    pub kind: Option<Kind>,
    pub properties: Option<TopicSettings>,
}

/// Changes of a topic. Named members replace the old ones; null restores the default.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicPatch {
    #[schema(value_type = Option<stand_in::Kind>)]
    pub kind: Option<Kind>,
    pub properties: Option<TopicSettings>,
}

/// The settings of a topic.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopicSettings {
    /// The schema in which it takes events. It can't be changed.
    #[schema(value_type = Option<stand_in::InputSchema>)]
    pub input_schema: Option<InputSchema>,
    /// Explains events of CustomEventSchema.
    pub input_schema_mapping: Option<Mapping>,
    /// Whether publishes by access keys and tokens of them are refused.
    #[schema(default = false)]
    pub disable_local_auth: Option<bool>,
    /// The table of rules by which events are delivered.
    #[schema(value_type = Option<stand_in::ProfileName>)]
    pub delivery_profile: Option<ProfileName>,
    /// Whether publishes with a key that was used before are answered without being taken again.
    pub idempotency: Option<IdempotencySettings>,
}

/// How a topic heeds the keys of publishes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdempotencySettings {
    /// For how long they are remembered: longer than any publish takes, and at most a day.
    #[schema(minimum = 60, maximum = 86_400, default = 300)]
    pub window_in_seconds: Option<u32>,
}

/// Five minutes, as SQS's FIFO queues have.
const WINDOW_S_DEFAULT: u32 = 300;

/// The access keys of a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Keys {
    #[schema(value_type = String)]
    pub key1: Secret,
    #[schema(value_type = String)]
    pub key2: Secret,
}

impl From<AccessKeys> for Keys {
    fn from(AccessKeys([key1, key2]): AccessKeys) -> Self {
        Self { key1, key2 }
    }
}

/// The access key to regenerate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyName {
    /// 'key1' or 'key2'.
    #[schema(required = true)]
    pub key_name: Option<AccessKey>,
}

/// One of the two access keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessKey {
    Key1,
    Key2,
}

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
    document::check_name(name, "a topic's name", 3..=50)?;
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
    azure::form(document).read(|document, problems| Some(read_whole(document, problems)))
}

/// Reads as much of a topic's document as follows the rules; the rest is as by default.
pub fn read_partly(document: &Value) -> Settings {
    let mut settings = defaults(Kind::Custom);
    // Problems are reported by `read`.
    drop(azure::form(document).read(|document, problems| {
        settings = read_whole(document, problems);
        Some(())
    }));
    settings
}

/// Reads a patch of an existing topic: its members replace the old ones, `null` restores the
/// default, and the whole is checked like any document.
pub fn read_patch(patch: &Value, existing: &topic::Topic) -> Result<Settings, Problems> {
    let mut problems = Problems::default();
    if !patch.is_object() {
        read_as::<TopicInput>(patch, &mut problems);
        return Err(problems);
    }
    azure::form(patch).read(|patch, problems| {
        let existing =
            TopicInput { kind: Some(existing.kind), properties: Some(settings_of(existing)) };
        let mut document = serde_json::to_value(existing).unwrap_or_default();
        merge(&mut document, patch);
        Some(read_whole(&document, problems))
    })
}

fn read_whole(document: &Value, problems: &mut Problems) -> Settings {
    let TopicInput { kind, properties } = read_as(document, problems);
    let mut settings = defaults(kind.unwrap_or(Kind::Custom));
    let given = properties.unwrap_or_default();
    if let Some(schema) = given.input_schema {
        settings.input_schema = schema;
    }
    if settings.kind == Kind::Namespace
        && settings.input_schema != InputSchema::CloudEventSchemaV1_0
    {
        let rule = "must be 'CloudEventSchemaV1_0' (the default) for a topic of kind namespace: \
                    namespace topics take CloudEvents alone";
        problems.add(Code::InvalidValue, "properties.inputSchema", rule);
    }
    if let Some(mapping) = given.input_schema_mapping {
        let mut at = problems.at("properties.inputSchemaMapping");
        if settings.input_schema == InputSchema::CustomEventSchema {
            settings.input_schema_mapping = Some(mapping.read(&mut at));
        } else {
            let schema: &str = settings.input_schema.into();
            let rule = format!(
                "must be left out: it explains events of inputSchema 'CustomEventSchema', and the \
                 topic takes '{schema}'"
            );
            at.invalid(rule);
        }
    }
    settings.disable_local_auth = given.disable_local_auth.unwrap_or(false);
    settings.delivery_profile = given.delivery_profile.unwrap_or(settings.delivery_profile);
    settings.idempotency = given.idempotency.map(|given| Idempotency {
        window_in_seconds: given.window_in_seconds.unwrap_or(WINDOW_S_DEFAULT),
    });
    settings
}

/// Returns the defaults for a topic of that kind.
pub fn defaults(kind: Kind) -> Settings {
    let (input_schema, delivery_profile) = match kind {
        Kind::Custom => (InputSchema::EventGridSchema, ProfileName::Basic),
        Kind::Namespace => (InputSchema::CloudEventSchemaV1_0, ProfileName::Namespace),
    };
    Settings {
        kind,
        input_schema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile,
        idempotency: None,
    }
}

/// Writes a topic as a document, without its keys. `publish_url` is the base URL of the publish
/// API.
pub fn write(topic: &topic::Topic, publish_url: &str) -> Topic {
    let endpoint = format!("{}{}", publish_url.trim_end_matches('/'), topic.publish_path());
    Topic {
        id: topic.id(),
        name: topic.name.clone(),
        resource_type: TYPE.to_owned(),
        kind: topic.kind,
        properties: TopicProperties {
            settings: settings_of(topic),
            endpoint,
            provisioning_state: "Succeeded".to_owned(),
        },
    }
}

fn settings_of(topic: &topic::Topic) -> TopicSettings {
    TopicSettings {
        input_schema: Some(topic.input_schema),
        input_schema_mapping: topic.input_schema_mapping.as_ref().map(Mapping::of),
        disable_local_auth: Some(topic.disable_local_auth),
        delivery_profile: Some(topic.delivery_profile),
        idempotency: topic.idempotency.map(|Idempotency { window_in_seconds }| {
            IdempotencySettings { window_in_seconds: Some(window_in_seconds) }
        }),
    }
}

/// Reads `{"keyName": "key1"}`: the index of the key to regenerate.
pub fn read_key_name(document: &Value) -> Result<usize, Problems> {
    let mut problems = Problems::default();
    let KeyName { key_name } = read_as(document, &mut problems);
    problems.or(key_name.map(|name| name as usize))
}

/// Most bytes of a mapping as a document: it travels with every dead letter.
const MAPPING_BYTES_MAX: usize = 2_048;

/// A mapping of a publisher's own schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "inputSchemaMappingType", content = "properties")]
pub enum Mapping {
    Json(JsonMapping),
}

/// Where members of the envelope stand.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonMapping {
    pub id: Option<Source>,
    pub topic: Option<Source>,
    pub event_time: Option<Source>,
    pub event_type: Option<SourceOrDefault>,
    pub subject: Option<SourceOrDefault>,
    pub data_version: Option<SourceOrDefault>,
}

/// The member of a publisher's event that a value comes from.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    #[schema(min_length = 1, max_length = 256)]
    pub source_field: Option<String>,
}

/// The same, with the value of events that do not have that member.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceOrDefault {
    #[schema(min_length = 1, max_length = 256)]
    pub source_field: Option<String>,
    #[schema(min_length = 1, max_length = 256)]
    pub default_value: Option<String>,
}

impl Mapping {
    fn read(self, at: &mut At<'_>) -> InputSchemaMapping {
        let Self::Json(given) = self;
        let source = |source: Option<Source>| source.and_then(|source| source.source_field);
        let field = |field: Option<SourceOrDefault>| {
            let SourceOrDefault { source_field, default_value } = field.unwrap_or_default();
            Field { source_field, default_value }
        };
        let mapping = InputSchemaMapping {
            id: source(given.id),
            topic: source(given.topic),
            event_time: source(given.event_time),
            event_type: field(given.event_type),
            subject: field(given.subject),
            data_version: field(given.data_version),
        };
        let bytes = serde_json::to_string(&mapping).map_or(0, |text| text.len());
        if bytes > MAPPING_BYTES_MAX {
            let rule =
                format!("must take at most {MAPPING_BYTES_MAX} bytes in all, but takes {bytes}");
            at.member("properties").add(Code::OutOfRange, rule);
        }
        mapping
    }

    fn of(mapping: &InputSchemaMapping) -> Self {
        let source = |field: &Option<String>| {
            field.clone().map(|field| Source { source_field: Some(field) })
        };
        let field = |field: &Field| {
            let Field { source_field, default_value } = field.clone();
            (!field.is_unmapped()).then_some(SourceOrDefault { source_field, default_value })
        };
        Self::Json(JsonMapping {
            id: source(&mapping.id),
            topic: source(&mapping.topic),
            event_time: source(&mapping.event_time),
            event_type: field(&mapping.event_type),
            subject: field(&mapping.subject),
            data_version: field(&mapping.data_version),
        })
    }
}

#[cfg(test)]
mod tests;
