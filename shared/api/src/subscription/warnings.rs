//! Warns about event types, keys and source fields that probably match nothing. They are not refused,
//! because a publisher may use such names after all.

use gridpost_core::{
    event::{
        DeliverySchema,
        mapping::{EVENT_TYPE_DEFAULT, InputSchemaMapping, path_notation},
    },
    subscription::Filter,
    topic::InputSchema,
};
use serde_json::Value;

use super::{Destination, EventSubscriptionSettings, read_filter};
use crate::document::{Problems, quoted, read};

/// Event Grid's members, by names that its documentation has had as well, and attributes of CloudEvents
/// that say the same.
const ALIKE: [(&str, &str); 6] = [
    ("eventType", "type"),
    ("topic", "source"),
    ("eventTime", "time"),
    ("dataVersion", "dataschema"),
    ("eventId", "id"),
    ("eventTypeVersion", "specversion"),
];

/// Members of Event Grid's schema that have no members of their own.
const SCALARS: [&str; 7] =
    ["id", "topic", "subject", "eventType", "eventTime", "dataVersion", "metadataVersion"];

const DATA: &str = "data";

/// The schema whose members a path may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    EventGrid,
    CloudEvents,
    /// Any names: the publisher's own schema.
    Own,
}

/// Lists what matches nothing in events of a topic with that schema and mapping, each with its path and
/// what to write instead. `properties` are those of an event subscription's document; parts that can't
/// be read are left out.
pub fn warnings(
    properties: &Value,
    schema: InputSchema,
    mapping: Option<&InputSchemaMapping>,
) -> Vec<String> {
    let filter = read_filter(properties).unwrap_or_default();
    let given = read(properties, &mut Problems::default());
    let mut found = event_types(&filter, schema, mapping);
    found.extend(subjects(&filter));
    let members = match schema {
        InputSchema::EventGridSchema => Members::EventGrid,
        InputSchema::CloudEventSchemaV1_0 => Members::CloudEvents,
        InputSchema::CustomEventSchema => Members::Own,
    };
    for (index, one) in filter.advanced.iter().enumerate() {
        let why = in_path(&one.key, members, false);
        let path = format!("filter.advancedFilters[{index}].key");
        found.extend(why.map(|why| warning(&path, &one.key, &why)));
    }
    found.extend(source_fields(&given, members));
    found
}

fn warning(path: &str, given: &str, why: &str) -> String {
    format!("{path}: {} {why}", quoted(given))
}

fn event_types(
    filter: &Filter,
    schema: InputSchema,
    mapping: Option<&InputSchemaMapping>,
) -> Vec<String> {
    let types = filter.included_event_types.iter().flatten().enumerate();
    // Without a source, all events have one type.
    let only = match schema {
        InputSchema::CustomEventSchema => {
            mapping.map_or(Some(EVENT_TYPE_DEFAULT), InputSchemaMapping::only_event_type)
        }
        _ => None,
    };
    let why = |name: &str| match only {
        _ if name == "*" || name.eq_ignore_ascii_case("All") => {
            Some("is an exact event type; all of them are [\"All\"], or no list at all".to_owned())
        }
        _ if name.contains('*') => Some(
            "is an exact event type, and * stands for itself; an advanced filter of \
             StringBeginsWith takes beginnings"
                .to_owned(),
        ),
        _ if name.trim() != name => {
            Some("is an exact event type, the space at its ends included".to_owned())
        }
        Some(only) if name != only => Some(format!(
            "is no type of an event: without a sourceField for eventType, the topic's mapping gives all \
             events the type {}",
            quoted(only)
        )),
        _ => None,
    };
    let found = types.filter_map(|(index, name)| {
        let path = format!("filter.includedEventTypes[{index}]");
        why(name).map(|why| warning(&path, name, &why))
    });
    found.collect()
}

fn subjects(filter: &Filter) -> Vec<String> {
    let parts = [("Begins", &filter.subject_begins_with), ("Ends", &filter.subject_ends_with)];
    let is_pattern =
        |text: &str| text.contains('*') || text.starts_with('^') || text.ends_with('$');
    let patterns = parts.into_iter().filter(|(_, text)| is_pattern(text));
    let why = "is no pattern: *, ^ and $ stand for themselves";
    patterns.map(|(end, text)| warning(&format!("filter.subject{end}With"), text, why)).collect()
}

/// Source fields of delivery attributes, of a group or partition key: paths in the event as it is
/// delivered.
fn source_fields(given: &EventSubscriptionSettings, published: Members) -> Vec<String> {
    let by_default = if published == Members::Own { Members::EventGrid } else { published };
    let members = match given.event_delivery_schema {
        Some(DeliverySchema::EventGridSchema) => Members::EventGrid,
        Some(DeliverySchema::CloudEventSchemaV1_0) => Members::CloudEvents,
        Some(DeliverySchema::CustomInputSchema) => Members::Own,
        None => by_default,
    };
    let found = given.destination.iter().flat_map(Destination::source_fields);
    let found = found.filter_map(|(path, given)| {
        // The root is taken off when it is stored.
        let why = in_path(given.strip_prefix("$.").unwrap_or(&given), members, true)?;
        Some(warning(&format!("destination.properties.{path}.sourceField"), &given, &why))
    });
    found.collect()
}

/// Says why a path matches nothing. Names of the envelope may be in any case, unless `is_exact`.
fn in_path(path: &str, members: Members, is_exact: bool) -> Option<String> {
    if let Some(why) = path_notation(path) {
        return Some(format!("finds nothing in an event: {why}"));
    }
    let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
    let is = |name: &str| if is_exact { name == first } else { name.eq_ignore_ascii_case(first) };
    if members == Members::Own || is(DATA) {
        return None;
    }
    let schema = match members {
        Members::EventGrid => "Event Grid's schema",
        _ => "CloudEvents",
    };
    let is_known = match members {
        Members::EventGrid => SCALARS.into_iter().any(is),
        // Extension attributes have any name of these letters.
        _ => first.bytes().all(|byte| {
            let upper = !is_exact && byte.is_ascii_uppercase();
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || upper || first == "data_base64"
        }),
    };
    let other = ALIKE.into_iter().find_map(|(event_grid, cloud_events)| match members {
        Members::EventGrid => first.eq_ignore_ascii_case(cloud_events).then_some(event_grid),
        _ => first.eq_ignore_ascii_case(event_grid).then_some(cloud_events),
    });
    let spelt = SCALARS.into_iter().chain([DATA]).find(|name| name.eq_ignore_ascii_case(first));
    match (is_known, other, spelt, rest) {
        (false, Some(other), _, _) => {
            Some(format!("finds nothing: events of {schema} have {other} instead"))
        }
        (false, None, Some(spelt), _) => {
            Some(format!("finds nothing: case counts here, and events have {spelt}"))
        }
        (false, None, None, _) => Some(format!(
            "finds nothing: events of {schema} have no member {}; members of their data are written \
             data.{path}",
            quoted(first)
        )),
        (true, _, _, Some(_)) => {
            Some(format!("finds nothing: {} is a text, without members", quoted(first)))
        }
        // A publisher may send an extension attribute of that name.
        (true, Some(other), _, None) if members == Members::CloudEvents => Some(format!(
            "finds nothing, unless publishers send an extension attribute of that name: in {schema} it is \
             {other}"
        )),
        (true, _, _, None) => None,
    }
}

#[cfg(test)]
mod tests;
