//! Warnings about what is allowed but probably a mistake: keys that match nothing in any event.

use gridpost_api::{subscription::properties_of, topic as topics};
use gridpost_core::{event::mapping::InputSchemaMapping, topic::InputSchema};
use serde::Serialize;

use crate::progress::Progress;

/// Lists what finds nothing in the events of a topic, by the documents of event subscription and topic.
/// A topic that can't be read has no warnings.
pub fn unmatched(topic: &impl Serialize, subscription: &impl Serialize) -> Vec<String> {
    match read(topic) {
        Some(topic) => {
            unmatched_in(topic.input_schema, topic.input_schema_mapping.as_ref(), subscription)
        }
        None => Vec::new(),
    }
}

/// Warns by a schema and a mapping.
pub fn unmatched_in(
    schema: InputSchema,
    mapping: Option<&InputSchemaMapping>,
    subscription: &impl Serialize,
) -> Vec<String> {
    let document = serde_json::to_value(subscription).unwrap_or_default();
    let properties = properties_of(&document).unwrap_or_default();
    gridpost_api::subscription::warnings(&properties, schema, mapping)
}

/// Lists source fields of a topic's mapping that match nothing.
pub fn unmapped(topic: &impl Serialize) -> Vec<String> {
    let mapping = read(topic).and_then(|topic| topic.input_schema_mapping);
    mapping.map(|mapping| mapping.warnings()).unwrap_or_default()
}

fn read(topic: &impl Serialize) -> Option<topics::Settings> {
    topics::read(&serde_json::to_value(topic).ok()?).ok()
}

/// Prints warnings to standard error.
pub fn print(warnings: impl IntoIterator<Item = String>) {
    let progress = Progress::on_stderr();
    for warning in warnings {
        progress.line(&format!("! {warning}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_topics_document_says_what_events_have() {
        let keyed = |key: &str| {
            json!({"properties": {"filter": {"advancedFilters":
                [{"operatorType": "IsNotNull", "key": key}]}}})
        };
        let topic = |schema: &str| {
            json!({"id": "/topics/t", "name": "t", "type": "Gridpost/topics", "kind": "custom",
                "properties": {"inputSchema": schema, "endpoint": "https://p/x",
                    "provisioningState": "Succeeded", "disableLocalAuth": false}})
        };
        for (topic, key, count) in [
            (topic("EventGridSchema"), "eventType", 0),
            (topic("EventGridSchema"), "type", 1),
            (topic("CloudEventSchemaV1_0"), "eventtype", 1),
            (topic("CloudEventSchemaV1_0"), "type", 0),
            (topic("Unknown"), "$.data.k", 0),
            (json!(null), "$.data.k", 0),
        ] {
            assert_eq!(unmatched(&topic, &keyed(key)).len(), count, "{topic} {key}");
        }
        let mapping = json!({"inputSchemaMappingType": "Json",
            "properties": {"id": {"sourceField": "$.data.v"}}});
        let mapped = json!({"kind": "custom", "properties":
            {"inputSchema": "CustomEventSchema", "inputSchemaMapping": mapping}});
        assert_eq!(unmapped(&mapped).len(), 1);
        assert!(unmapped(&json!(null)).is_empty());
    }
}
