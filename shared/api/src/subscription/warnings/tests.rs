use InputSchema::{CloudEventSchemaV1_0, CustomEventSchema, EventGridSchema};
use gridpost_core::event::mapping::Field;
use serde_json::json;

use super::*;

fn key(key: &str) -> Value {
    json!({"filter": {"advancedFilters": [{"operatorType": "IsNotNull", "key": key}]}})
}

fn types(types: Value) -> Value {
    json!({"filter": { "includedEventTypes": types }})
}

fn attribute(field: &str) -> Value {
    json!({"destination": {"endpointType": "WebHook", "properties": {"deliveryAttributeMappings":
        [{"name": "X", "type": "Dynamic", "properties": { "sourceField": field }}]}}})
}

/// Each row: the topic's schema, the properties, and a part of the only warning (empty: no warning).
///
/// Sources of keys: MicrosoftDocs/azure-docs#116396 (Event Grid's documentation had `eventid`,
/// `eventtype` and `eventtypeversion` for CloudEvents), #49942 (names that are URIs), #5455 (types);
/// pm7y/AzureEventGridSimulator#181 (`Data.Key1`); JSONPath, RFC 9535; JSON Pointer, RFC 6901.
#[test]
fn what_finds_nothing_is_named() {
    let late = |field: &str, schema: &str| {
        let mut properties = attribute(field);
        properties["eventDeliverySchema"] = json!(schema);
        properties
    };
    let group = |field: &str| {
        json!({"destination": {"endpointType": "SqsQueue", "properties": {"messageGroupId":
            {"type": "Dynamic", "properties": {"sourceField": field}}}}})
    };
    let subject = |text: &str| json!({"filter": { "subjectEndsWith": text }});
    let table = [
        (EventGridSchema, types(json!(["All"])), ""),
        (
            EventGridSchema,
            types(json!(["all"])),
            "[0]: \"all\" is an exact event type; all of them",
        ),
        (EventGridSchema, types(json!(["ALL"])), "all of them are [\"All\"]"),
        (EventGridSchema, types(json!(["T", "*"])), "[1]: \"*\" is an exact event type"),
        (CloudEventSchemaV1_0, types(json!(["com.example.*"])), "* stands for itself"),
        (CloudEventSchemaV1_0, types(json!(["T "])), "the space at its ends"),
        (CloudEventSchemaV1_0, types(json!(["T"])), ""),
        (CustomEventSchema, types(json!(["CustomEvent"])), ""),
        (CustomEventSchema, types(json!(["Order"])), "gives all events the type \"CustomEvent\""),
        (EventGridSchema, subject(".jpg"), ""),
        (EventGridSchema, subject("*.jpg"), "subjectEndsWith: \"*.jpg\" is no pattern"),
        (EventGridSchema, key("data.k"), ""),
        (EventGridSchema, key("Data.k"), ""),
        (EventGridSchema, key("EventType"), ""),
        (EventGridSchema, key("$.data.k"), "names with dots between them: data.k"),
        (EventGridSchema, key("$['data']['k']"), "between them: data.k"),
        (EventGridSchema, key("/data/k"), "between them: data.k"),
        (EventGridSchema, key("#/data/k"), "between them: data.k"),
        (EventGridSchema, key("{{data.k}}"), "between them: data.k"),
        (EventGridSchema, key("${data.k}"), "between them: data.k"),
        (EventGridSchema, key("data.${k}"), ""),
        (EventGridSchema, key("data.k[0]"), "without an index: data.k"),
        (EventGridSchema, key("data.k[*].id"), "without an index: data.k.id"),
        (EventGridSchema, key("data[\"k\"]"), "between them: data.k"),
        (EventGridSchema, key("data.*"), "* stands for itself"),
        (EventGridSchema, key(" data.k"), "the space at its ends"),
        (
            EventGridSchema,
            key("data.claims.http://schemas.example.org/claims/name"),
            "no name that contains one can be reached",
        ),
        (EventGridSchema, key("k"), "no member \"k\"; members of their data are written data.k"),
        (EventGridSchema, key("type"), "have eventType instead"),
        (EventGridSchema, key("source"), "have topic instead"),
        (EventGridSchema, key("time"), "have eventTime instead"),
        (EventGridSchema, key("subject.a"), "a text, without members"),
        (CloudEventSchemaV1_0, key("data.k"), ""),
        (CloudEventSchemaV1_0, key("Type"), ""),
        (CloudEventSchemaV1_0, key("tenant"), ""),
        (CloudEventSchemaV1_0, key("eventtype"), "in CloudEvents it is type"),
        (CloudEventSchemaV1_0, key("eventType"), "in CloudEvents it is type"),
        (CloudEventSchemaV1_0, key("eventid"), "in CloudEvents it is id"),
        (CloudEventSchemaV1_0, key("eventtypeversion"), "in CloudEvents it is specversion"),
        (CloudEventSchemaV1_0, key("topic"), "in CloudEvents it is source"),
        (CloudEventSchemaV1_0, key("order_id"), "written data.order_id"),
        (CloudEventSchemaV1_0, key("order.id"), "a text, without members"),
        (CustomEventSchema, key("kind"), ""),
        (CustomEventSchema, key("a.b.c"), ""),
        (CustomEventSchema, key("$.kind"), "between them: kind"),
        (EventGridSchema, attribute("data.k"), ""),
        (EventGridSchema, attribute("$.data.k"), ""),
        (EventGridSchema, attribute("Data.k"), "case counts here, and events have data"),
        (EventGridSchema, attribute("eventtype"), "case counts here, and events have eventType"),
        (EventGridSchema, attribute("type"), "have eventType instead"),
        (EventGridSchema, attribute("k"), "written data.k"),
        (EventGridSchema, late("eventType", "CloudEventSchemaV1_0"), "have type instead"),
        (EventGridSchema, late("type", "CloudEventSchemaV1_0"), ""),
        (CloudEventSchemaV1_0, attribute("Type"), "no member \"Type\""),
        (CustomEventSchema, attribute("kind"), "written data.kind"),
        (CustomEventSchema, late("kind", "CustomInputSchema"), ""),
        (
            EventGridSchema,
            group("customer"),
            "messageGroupId.sourceField: \"customer\" finds nothing",
        ),
        (EventGridSchema, group("subject"), ""),
    ];
    for (schema, properties, want) in table {
        let told = warnings(&properties, schema, None);
        assert_eq!(told.len(), usize::from(!want.is_empty()), "{properties}: {told:?}");
        assert!(told.concat().contains(want), "{properties}: {told:?}");
    }
}

#[test]
fn a_mapping_says_which_types_there_are() {
    let mapped = |source: Option<&str>, default: Option<&str>| InputSchemaMapping {
        event_type: Field {
            source_field: source.map(str::to_owned),
            default_value: default.map(str::to_owned),
        },
        ..InputSchemaMapping::default()
    };
    let properties = types(json!(["Order"]));
    let table = [
        (mapped(Some("kind"), None), true),
        (mapped(Some("kind"), Some("Other")), true),
        (mapped(None, Some("Order")), true),
        (mapped(None, Some("Other")), false),
        (mapped(None, None), false),
    ];
    for (mapping, is_fine) in table {
        let told = warnings(&properties, CustomEventSchema, Some(&mapping));
        assert_eq!(told.is_empty(), is_fine, "{mapping:?}: {told:?}");
    }
}

#[test]
fn source_fields_of_a_mapping_are_names_at_the_top() {
    for (field, want) in [
        ("kind", ""),
        ("$.kind", "between them: kind"),
        ("$.data.v", "between them: data.v"),
        ("data.v", "a dot is part of the name"),
        ("/kind", "between them: kind"),
        ("items[0]", "without an index: items"),
        ("['kind']", "between them: kind"),
        ("kind ", "the space at its ends"),
    ] {
        let mapping = InputSchemaMapping { id: Some(field.to_owned()), ..Default::default() };
        let told = mapping.warnings();
        assert_eq!(told.len(), usize::from(!want.is_empty()), "{field}: {told:?}");
        assert!(told.concat().contains(want), "{field}: {told:?}");
    }
}

#[test]
fn what_can_not_be_read_is_left_out() {
    for properties in [json!(null), json!([]), json!({"filter": 1}), json!({"destination": []})] {
        assert_eq!(warnings(&properties, EventGridSchema, None), Vec::<String>::new());
    }
}
