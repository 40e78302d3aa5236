//! Patches of event subscriptions.

use gridpost_core::{subscription::EventSubscription, topic::Kind};
use serde_json::{Map, Value, json};

use super::{Context, Settings, form, namespace, read_whole, write};
use crate::document::{Object, Problems, merge};

const PROPERTIES: &str = "properties";

const FILTER: &str = "filter";

/// Reads a patch of an existing event subscription: its members replace the old ones, `null`
/// restores the default, and the whole is checked like any document. A filter replaces the whole
/// filter: Event Grid's clients send all of it, without the parts they removed.
///
/// The patch has Event Grid's flat shape (`{"labels": [], "retryPolicy": {…}}`); one with
/// `properties` around it, like a document, works too. Paths of problems are the patch's.
///
/// Source: Event Grid's resource model, `EventSubscriptionUpdateParameters`.
pub fn read_patch(
    patch: &Value,
    existing: &EventSubscription,
    context: &Context<'_>,
) -> Result<Settings, Problems> {
    let mut problems = Problems::default();
    if Object::root(patch, &mut problems).is_none() {
        return Err(problems);
    }
    form(patch, |_| true).read(|patch| {
        let mut document = write(existing, context.topic.delivery_profile);
        let changes = patch.get(PROPERTIES).and_then(Value::as_object);
        if let (Some(changes), Some(Value::Object(members))) =
            (changes, document.get_mut(PROPERTIES))
        {
            prepare(members, changes, context.topic.kind);
        }
        merge(&mut document, patch);
        read_whole(&document, context)
    })
}

/// Converts the existing document to the form that the patch uses.
fn prepare(members: &mut Map<String, Value>, changes: &Map<String, Value>, kind: Kind) {
    // Properties of one type of destination mean nothing to another.
    let destination_type = |members: &Map<String, Value>| {
        let given = members.get("destination")?.get("endpointType")?;
        Some(given.as_str().map_or(given.to_string(), str::to_ascii_lowercase))
    };
    let other =
        destination_type(changes).filter(|new| destination_type(members).as_ref() != Some(new));
    if other.is_some() {
        members.remove("destination");
    }
    if changes.contains_key(FILTER) {
        members.remove(FILTER);
    }
    // One that says its type takes the place of the whole: each type has members of its own.
    let authentication = "/properties/authentication";
    let says_type = changes
        .get("destination")
        .and_then(|it| it.pointer(authentication)?.get("type"))
        .is_some_and(Value::is_string);
    let properties = members.get_mut("destination").and_then(|it| it.get_mut("properties"));
    if let Some(properties) = properties.and_then(Value::as_object_mut).filter(|_| says_type) {
        properties.remove("authentication");
    }
    // For other topics the form is refused, and null means nothing.
    if kind != Kind::Namespace {
        return;
    }
    if changes.contains_key(namespace::DELIVERY) {
        let mut push = match members.remove("retryPolicy") {
            Some(Value::Object(policy)) => policy,
            _ => Map::new(),
        };
        for name in ["destination", "deadLetterDestination"] {
            push.extend(members.remove(name).map(|value| (name.to_owned(), value)));
        }
        members
            .insert(namespace::DELIVERY.to_owned(), json!({"deliveryMode": "Push", "push": push}));
    }
    if changes.contains_key(namespace::FILTERS) {
        members.remove(FILTER);
    }
}
