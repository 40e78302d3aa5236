//! Input schema mappings: the sources of Event Grid's envelope in a publisher's own schema.
//!
//! Source: Event Grid, "Map custom fields to Event Grid schema", `JsonInputSchemaMapping`.

use serde::{Deserialize, Serialize};

use crate::text::quoted;

/// The event type if a mapping gives none.
pub const EVENT_TYPE_DEFAULT: &str = "CustomEvent";

/// The sources of the envelope's members. An unmapped member gets the service's value.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSchemaMapping {
    /// The member with the id; `None` generates one.
    pub id: Option<String>,
    /// The member with the topic; `None` means the topic's id.
    pub topic: Option<String>,
    /// The member with the time; `None` means the time of the publish.
    pub event_time: Option<String>,
    /// By default [`EVENT_TYPE_DEFAULT`].
    #[serde(skip_serializing_if = "Field::is_unmapped")]
    pub event_type: Field,
    /// By default empty.
    #[serde(skip_serializing_if = "Field::is_unmapped")]
    pub subject: Field,
    /// By default empty.
    #[serde(skip_serializing_if = "Field::is_unmapped")]
    pub data_version: Field,
}

impl InputSchemaMapping {
    /// Returns the type of all events, if it does not depend on them.
    pub fn only_event_type(&self) -> Option<&str> {
        let Field { source_field, default_value } = &self.event_type;
        let default = default_value.as_deref().unwrap_or(EVENT_TYPE_DEFAULT);
        source_field.is_none().then_some(default)
    }

    /// Warns of source fields that look like paths: they find nothing.
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
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Field {
    /// The member of the publisher's event.
    pub source_field: Option<String>,
    /// Its value without that member.
    pub default_value: Option<String>,
}

impl Field {
    pub fn is_unmapped(&self) -> bool {
        *self == Self::default()
    }
}

/// Describes a path in another notation, such as JSONPath. `None` for names with dots between them.
pub fn path_notation(path: &str) -> Option<String> {
    if path.trim() != path {
        return Some("the space at its ends counts as part of a name".to_owned());
    }
    if path.contains("://") {
        return Some("dots part names, so no name that contains one can be reached".to_owned());
    }
    if path.split('.').any(|name| name == "*") {
        return Some("* stands for itself".to_owned());
    }
    let inner = match path.trim_start_matches(['$', '{', '@']) {
        same if same == path => path,
        inner => inner.trim_end_matches('}').trim(),
    };
    let inner = inner.trim_start_matches(['.', '/']);
    let is_pointer = path.starts_with('/') || path.starts_with('#');
    let inner = inner.trim_start_matches("#/");
    let plain = if is_pointer { inner.replace('/', ".") } else { without_brackets(inner) };
    if plain == path {
        return None;
    }
    let what = "it is written as names with dots between them";
    let instead = if plain.is_empty() { String::new() } else { format!(": {plain}") };
    match has_index(path) {
        true => Some(format!("{what}, without an index{instead}")),
        false => Some(format!("{what}{instead}")),
    }
}

/// Writes `['name']` as `.name`, and drops indexes.
fn without_brackets(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('[') {
        let Some((inside, behind)) = behind.split_once(']') else { break };
        plain.push_str(before);
        if let Some(name) = quoted_name(inside) {
            plain.push('.');
            plain.push_str(name);
        }
        rest = behind;
    }
    plain.push_str(rest);
    plain.trim_start_matches('.').to_owned()
}

fn quoted_name(inside: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|mark| inside.strip_prefix(mark)?.strip_suffix(mark))
}

fn has_index(path: &str) -> bool {
    let insides = path.split('[').skip(1).filter_map(|behind| behind.split(']').next());
    insides.into_iter().any(|inside| quoted_name(inside).is_none())
}
