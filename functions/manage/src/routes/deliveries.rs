//! Deliveries of an event subscription that have failed and not ended.

use gridpost::{
    delivery::state::{DeliveryState, Standing},
    subscription::SubscriptionKey,
};
use serde_json::{Value, json};

use super::{Answer, subscriptions};
use crate::{Context, Reply, page::Page};

/// A page of them, what was published first before the rest.
pub(super) async fn list(context: &Context, key: &SubscriptionKey, page: &Page) -> Answer {
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    let (after, most) = (page.after.as_deref(), page.most() + 1);
    let found = context.deliveries.waiting(subscription.uid, after, most).await?;
    let places: Vec<_> = found.iter().map(DeliveryState::place).collect();
    let found = places.iter().map(String::as_str).zip(found.iter().map(document));
    let (base, id, name) = (&context.settings.manage_url, topic.id(), &key.name);
    let url = format!("{base}{id}/eventSubscriptions/{name}/deliveries");
    Ok(Reply::ok(page.write(&url, found.collect())))
}

/// A delivery in the words of a dead letter, as far as that has them.
fn document(state: &DeliveryState) -> Value {
    let attempts = &state.attempts;
    let mut document = json!({
        "id": state.id,
        "publishTime": state.publish_time.to_iso_8601(),
        "events": state.events,
        "deliveryAttempts": attempts.made,
    });
    let mut set = |name: &str, value: Value| document[name] = value;
    if let Some(at) = attempts.last_at {
        set("lastDeliveryAttemptTime", json!(at.to_iso_8601()));
    }
    if let Some(outcome) = attempts.last_outcome {
        set("lastDeliveryOutcome", json!(outcome));
    }
    if let Some(status) = attempts.last_status {
        set("lastHttpStatusCode", json!(status));
    }
    match state.standing {
        Standing::Waiting { due } => {
            set("standing", json!("Waiting"));
            set("due", json!(due.to_iso_8601()));
        }
        Standing::Ending { reason, at } => {
            set("standing", json!("Ending"));
            set("reason", json!(reason.to_string()));
            set("endedAt", json!(at.to_iso_8601()));
        }
        // The index had not heard of its end when it was asked.
        Standing::Ended => set("standing", json!("Ended")),
        Standing::Delivered => set("standing", json!("Delivered")),
    }
    document
}
