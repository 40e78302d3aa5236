//! Input schema mappings: the sources of Event Grid's envelope in a publisher's own schema.
//!
//! Source: Event Grid, "Map custom fields to Event Grid schema", `JsonInputSchemaMapping`.

use super::notation::path_notation;
use crate::text::quoted;
use serde::{Deserialize, Serialize};

/// The event type if a mapping gives none.
pub const EVENT_TYPE_DEFAULT: &str = "CustomEvent";

/// The sources of the envelope's members. An unmapped member gets the service's value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSchemaMapping {
    /// The member with the id; `None` generates one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The member with the topic; `None` means the topic's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The member with the time; `None` means the time of the publish.
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Field {
    /// The member of the publisher's event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_field: Option<String>,
    /// Its value without that member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_value: Option<String>,
}

impl Field {
    pub fn is_unmapped(&self) -> bool {
        *self == Self::default()
    }
}
