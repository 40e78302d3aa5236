//! Patches of event subscriptions.

use gridpost_core::subscription::EventSubscription;
use serde_json::{Map, Value};

use super::{Context, EventSubscriptionInput, Settings, form, read_whole, write};
use crate::document::{Problems, merge, read};

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
    if !patch.is_object() {
        read::<EventSubscriptionInput>(patch, &mut problems);
        return Err(problems);
    }
    form(patch, context, |_| true).read(|patch, problems| {
        let settings = write(existing, context.topic.delivery_profile).properties.settings;
        let existing = EventSubscriptionInput { properties: Some(settings) };
        let mut document = serde_json::to_value(existing).unwrap_or_default();
        let changes = patch.get("properties").and_then(Value::as_object);
        let members = document.get_mut("properties").and_then(Value::as_object_mut);
        if let Some((changes, members)) = changes.zip(members) {
            drop_replaced(members, changes);
        }
        merge(&mut document, patch);
        read_whole(&document, context, problems)
    })
}

/// Takes out what the patch replaces as a whole.
fn drop_replaced(members: &mut Map<String, Value>, changes: &Map<String, Value>) {
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
    if changes.contains_key("filter") {
        members.remove("filter");
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
}
