//! Input schema mappings: the sources of Event Grid's envelope members in a publisher's own schema.
//!
//! Source: Event Grid, "Map custom fields to Event Grid schema"; resource model,
//! `JsonInputSchemaMapping`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::notation::path_notation;
use crate::document::{Code, Object, Problems, quoted};

/// Longest name of a source field, and longest default, in characters.
const TEXT_CHARS_MAX: usize = 256;

/// Most bytes of a mapping as a document: it travels with every dead letter.
const MAPPING_BYTES_MAX: usize = 2_048;

/// The only supported type of mapping.
const TYPE: &str = "Json";

/// The event type if the mapping gives none.
pub const EVENT_TYPE_DEFAULT: &str = "CustomEvent";

/// The sources of the envelope's members. An unmapped member gets the service's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSchemaMapping {
    /// The member with the id; without one, an id is generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The member with the topic; without one, it is the topic's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The member with the time; without one, it is the time of the publish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_time: Option<String>,
    /// The event type, else [`EVENT_TYPE_DEFAULT`].
    #[serde(skip_serializing_if = "Field::is_unmapped")]
    pub event_type: Field,
    /// The subject, else an empty one.
    #[serde(skip_serializing_if = "Field::is_unmapped")]
    pub subject: Field,
    /// The data version, else an empty one.
    #[serde(skip_serializing_if = "Field::is_unmapped")]
    pub data_version: Field,
}

impl InputSchemaMapping {
    /// The type of all events, if no member of theirs gives it.
    pub fn only_event_type(&self) -> Option<&str> {
        let Field { source_field, default_value } = &self.event_type;
        let default = default_value.as_deref().unwrap_or(EVENT_TYPE_DEFAULT);
        source_field.is_none().then_some(default)
    }

    /// Lists source fields that find nothing, unless a publisher's member has such a name after all:
    /// the name of the envelope's member, what is given, and why.
    pub fn warnings(&self) -> Vec<String> {
        let Self { id, topic, event_time, event_type, subject, data_version } = self;
        let all = [
            ("id", id),
            ("topic", topic),
            ("eventTime", event_time),
            ("eventType", &event_type.source_field),
            ("subject", &subject.source_field),
            ("dataVersion", &data_version.source_field),
        ];
        let warning = |(name, field): (&str, &Option<String>)| {
            let field = field.as_deref()?;
            let why = match path_notation(field) {
                Some(why) => why,
                None if field.contains('.') => "a dot is part of the name".to_owned(),
                None => return None,
            };
            Some(format!(
                "inputSchemaMapping.properties.{name}.sourceField: {} names a member at the top of an event, \
                 and none further down; {why}",
                quoted(field)
            ))
        };
        all.into_iter().filter_map(warning).collect()
    }
}

/// A member of the envelope that may have a default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Field {
    /// The member of the publisher's event that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_field: Option<String>,
    /// Its value if the event does not have that member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_value: Option<String>,
}

impl Field {
    pub(crate) fn is_unmapped(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads a mapping: `{"inputSchemaMappingType": "Json", "properties": {…}}`.
pub(crate) fn read(mut mapping: Object<'_>, problems: &mut Problems) -> InputSchemaMapping {
    let path = mapping.path_of("properties");
    let given = mapping.required_text("inputSchemaMappingType", "'Json'", problems).is_some();
    if given {
        mapping.choice("inputSchemaMappingType", &[(TYPE, ())], None, problems);
    }
    let properties = mapping.object("properties", problems);
    mapping.finish(problems);
    let Some(mut properties) = properties else { return InputSchemaMapping::default() };
    let mut source = |name| {
        let mut member = properties.object(name, problems)?;
        let field = text(&mut member, "sourceField", problems);
        member.finish(problems);
        field
    };
    let (id, topic, event_time) = (source("id"), source("topic"), source("eventTime"));
    let mut field = |name| {
        let Some(mut member) = properties.object(name, problems) else { return Field::default() };
        let source_field = text(&mut member, "sourceField", problems);
        let default_value = text(&mut member, "defaultValue", problems);
        member.finish(problems);
        Field { source_field, default_value }
    };
    let (event_type, subject) = (field("eventType"), field("subject"));
    let data_version = field("dataVersion");
    properties.finish(problems);
    let mapping = InputSchemaMapping { id, topic, event_time, event_type, subject, data_version };
    let bytes = serde_json::to_string(&mapping).map_or(0, |text| text.len());
    if bytes > MAPPING_BYTES_MAX {
        let rule = format!("must take at most {MAPPING_BYTES_MAX} bytes in all, but takes {bytes}");
        problems.add(Code::OutOfRange, path, rule);
    }
    mapping
}

fn text(member: &mut Object<'_>, name: &'static str, problems: &mut Problems) -> Option<String> {
    let path = member.path_of(name);
    let given = member.text(name, problems)?;
    if (1..=TEXT_CHARS_MAX).contains(&given.chars().count()) {
        return Some(given.to_owned());
    }
    let rule = format!("must have 1 to {TEXT_CHARS_MAX} characters, but is {}", quoted(given));
    problems.add(Code::OutOfRange, path, rule);
    None
}

pub(crate) fn write(mapping: &InputSchemaMapping) -> Value {
    let mut properties = Map::new();
    let sources =
        [("id", &mapping.id), ("topic", &mapping.topic), ("eventTime", &mapping.event_time)];
    for (name, source) in sources {
        if let Some(source) = source {
            properties.insert(name.to_owned(), json!({"sourceField": source}));
        }
    }
    let fields = [
        ("eventType", &mapping.event_type),
        ("subject", &mapping.subject),
        ("dataVersion", &mapping.data_version),
    ];
    for (name, field) in fields {
        if !field.is_unmapped() {
            properties.insert(name.to_owned(), json!(field));
        }
    }
    json!({"inputSchemaMappingType": TYPE, "properties": properties})
}
