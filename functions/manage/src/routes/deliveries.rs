//! Deliveries of an event subscription that have failed: those that have not ended as a list, and one
//! by itself with every attempt.

use gridpost_core::{
    delivery::state::{AttemptRecord, DeliveryState, DeliveryStatus, PartRecord},
    retry::{DelayReason, health::Health, outcome::Outcome},
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
};
use gridpost_ports::WaitingCount;
use serde_json::{Value, json};
use uuid::Uuid;

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

/// Deliveries that one request counts. The rest are counted behind `nextLink`.
const TALLIED_MAX: usize = 10_000;

/// How many there are, by the hour of their publish, of those that one request gets through.
pub(super) async fn count(context: &Context, key: &SubscriptionKey, page: &Page) -> Answer {
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    let after = page.after.as_deref();
    let tally = context.deliveries.tally(subscription.uid, after, TALLIED_MAX).await?;
    let counts =
        |count: &WaitingCount| json!({"deliveries": count.deliveries, "events": count.events});
    let hours = tally.hours.iter().map(|(hour, count)| (hour.to_iso_8601(), counts(count)));
    let mut document = counts(&tally.total());
    document["byPublishHour"] = Value::Object(hours.collect());
    if let Some(next) = &tally.next {
        let (base, id, name) = (&context.settings.manage_url, topic.id(), &key.name);
        let url = format!("{base}{id}/eventSubscriptions/{name}/deliveries:count");
        document["nextLink"] = json!(page.next_link(&url, next));
    }
    Ok(Reply::ok(document))
}

/// One of them, or one that has ended lately, with its attempts and what comes next.
pub(super) async fn show(context: &Context, key: &SubscriptionKey, id: Uuid) -> Answer {
    let (_, subscription) = subscriptions::existing(context, key).await?;
    let state = existing(context, &subscription, id).await?;
    let health = context.healths.load(key, subscription.endpoint_uid()).await?;
    let mut document = document(&state);
    document["attempts"] = attempts(&state);
    if let DeliveryStatus::Waiting { due } = state.status {
        document["next"] = next(&state, &subscription, &health, due, context.clock.now());
    }
    Ok(Reply::ok(document))
}

/// The state of a delivery of that event subscription.
/// Fails with 404 if it has none.
pub(super) async fn existing(
    context: &Context,
    subscription: &EventSubscription,
    id: Uuid,
) -> Result<DeliveryState, Reply> {
    let found = context.states.load(id).await?;
    let own = found.filter(|state| state.subscription_uid == subscription.uid);
    own.ok_or_else(|| Reply::no_delivery(&id.to_string()))
}

/// Its attempts as far as they are known one by one. A success is none of those that are counted.
/// Those of parts have their own numbers: some events have had more attempts than others.
fn attempts(state: &DeliveryState) -> Value {
    let parts = state.past.iter().position(|past| past.part.is_some());
    let before = match parts.and_then(|at| Some((at, state.past[at].part?))) {
        Some((at, PartRecord(number, _))) => (number as usize).saturating_sub(at + 1),
        None => {
            let succeeded =
                state.past.last().is_some_and(|past| past.outcome == Outcome::Delivered);
            let made = state.attempts.made as usize + usize::from(succeeded);
            made.saturating_sub(state.past.len())
        }
    };
    let attempt = |(index, past): (usize, &AttemptRecord)| {
        let mut attempt = json!({
            "attempt": before + index + 1,
            "startTime": past.at.to_iso_8601(),
            "durationInMs": past.took_ms,
            "outcome": past.outcome,
        });
        if let Some(PartRecord(number, events)) = past.part {
            attempt["attempt"] = json!(number);
            attempt["events"] = json!(events);
        }
        if let Some(status) = past.status {
            attempt["httpStatusCode"] = json!(status);
        }
        if let Some(because) = past.because {
            attempt["waitBecause"] = json!(because);
        }
        if let Some(response_text) = &past.response_text {
            attempt["response"] = json!(response_text);
        }
        attempt
    };
    state.past.iter().enumerate().map(attempt).collect()
}

/// What follows, when, and what asked for that wait.
fn next(
    state: &DeliveryState,
    subscription: &EventSubscription,
    health: &Health,
    due: Timestamp,
    now: Timestamp,
) -> Value {
    let expires_at = subscription.time_to_live_ends(state.ttl_starts_at());
    let mut next = json!({
        "attempt": state.attempts.made + 1,
        "notBefore": due.to_iso_8601(),
        "expires": expires_at.to_iso_8601(),
    });
    if let Some(resend) = state.resend {
        next["because"] = json!("Resend");
        next["resendTime"] = json!(resend.at.to_iso_8601());
        return next;
    }
    if let Some(because) = state.past.last().and_then(|past| past.because) {
        next["because"] = json!(because);
    }
    if let Some(pause) = subscription.pauses.current(now) {
        next["because"] = json!("Pause");
        next["pausedUntil"] = json!(pause.until.to_iso_8601());
        return next;
    }
    // What others met since then may make it wait longer.
    if let Some(until) = health.until().filter(|until| *until > due.max(now)) {
        next["because"] = json!(DelayReason::Probation);
        next["endpointWaitsUntil"] = json!(until.to_iso_8601());
    }
    next
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
    if let Some(at) = state.redriven_at {
        set("redrivenTime", json!(at.to_iso_8601()));
    }
    if let Some(at) = attempts.last_at {
        set("lastDeliveryAttemptTime", json!(at.to_iso_8601()));
    }
    if let Some(outcome) = attempts.last_outcome {
        set("lastDeliveryOutcome", json!(outcome));
    }
    if let Some(status) = attempts.last_status {
        set("lastHttpStatusCode", json!(status));
    }
    match state.status {
        DeliveryStatus::Waiting { due } => {
            set("status", json!("Waiting"));
            set("due", json!(due.to_iso_8601()));
        }
        DeliveryStatus::Ending { reason, at } => {
            set("status", json!("Ending"));
            set("reason", json!(reason.to_string()));
            set("endedAt", json!(at.to_iso_8601()));
        }
        // The index had not heard of its end when it was asked.
        DeliveryStatus::Ended => set("status", json!("Ended")),
        DeliveryStatus::Delivered => set("status", json!("Delivered")),
    }
    document
}
