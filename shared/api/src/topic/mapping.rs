//! `inputSchemaMapping`: where members of Event Grid's envelope stand in a publisher's own schema.

use gridpost_core::event::mapping::{Field, InputSchemaMapping};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::{Code, Problems};

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
    pub(super) fn read(self, path: &str, problems: &mut Problems) -> InputSchemaMapping {
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
            problems.add(Code::OutOfRange, format!("{path}.properties"), rule);
        }
        mapping
    }

    pub(super) fn of(mapping: &InputSchemaMapping) -> Self {
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
