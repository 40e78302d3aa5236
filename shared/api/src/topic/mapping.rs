//! Reads and writes `inputSchemaMapping`.

use gridpost_core::event::mapping::{Field, InputSchemaMapping};
use serde_json::{Map, Value, json};

use crate::document::{Code, Object, Problems, quoted};

/// Longest name of a source field, and longest default, in characters.
const TEXT_CHARS_MAX: usize = 256;

/// Most bytes of a mapping as a document: it travels with every dead letter.
const MAPPING_BYTES_MAX: usize = 2_048;

/// The only supported type of mapping.
const TYPE: &str = "Json";

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
