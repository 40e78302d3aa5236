//! The health of an event subscription's endpoint: what it is, what it does to events, and its reset.

use gridpost_core::{
    retry::{
        Rules,
        probation::{Health, Probe},
    },
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::Topic,
};
use gridpost_ports::Saved;
use serde_json::{Value, json};

use super::{Answer, subscriptions};
use crate::{Context, Reply, TRIES_MAX};

/// Waiting deliveries are counted up to here: about 20 reads of an index.
const COUNTED_MAX: usize = 20_000;

/// What is known of its health.
pub(super) async fn show(context: &Context, key: &SubscriptionKey) -> Answer {
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    let health = context.healths.load(key, subscription.uid).await?;
    answer(context, &topic, &subscription, &health).await
}

/// Ends its wait, whatever that is, and its row of failures. Instances of dispatch see it within two
/// seconds; an attempt that fails from then on counts anew.
pub(super) async fn reset(context: &Context, key: &SubscriptionKey) -> Answer {
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    for _ in 0..TRIES_MAX {
        let health = context.healths.load(key, subscription.uid).await?;
        let Some(next) = health.reset(context.clock.now()) else {
            return answer(context, &topic, &subscription, &health).await;
        };
        if context.healths.save(key, subscription.uid, &next).await? == Saved::Written {
            tracing::info!(subscription = %key, "the health of its endpoint was reset");
            return answer(context, &topic, &subscription, &next).await;
        }
        context.back_off().await;
    }
    Err(Reply::health_keeps_changing())
}

async fn answer(
    context: &Context,
    topic: &Topic,
    subscription: &EventSubscription,
    health: &Health,
) -> Answer {
    let now = context.clock.now();
    let mut document = document(topic, subscription, health, now);
    let count = context.deliveries.count(subscription.uid, COUNTED_MAX + 1).await?;
    let is_complete = count <= COUNTED_MAX;
    document["waitingDeliveries"] =
        json!({"count": count.min(COUNTED_MAX), "isComplete": is_complete});
    let oldest = context.deliveries.waiting(subscription.uid, None, 1).await?;
    if let Some(oldest) = oldest.first() {
        document["waitingDeliveries"]["oldestPublishTime"] =
            json!(oldest.publish_time.to_iso_8601());
    }
    Ok(Reply::ok(document))
}

fn document(
    topic: &Topic,
    subscription: &EventSubscription,
    health: &Health,
    now: Timestamp,
) -> Value {
    let rules = Rules {
        profile: topic.delivery_profile,
        kind: subscription.endpoint.kind(),
        policy: &subscription.retry_policy,
    };
    let mut document = json!({
        "state": health.condition(now),
        "newEvents": health.effect(rules, subscription.probation_policy, now),
        "failuresInRow": health.failures_in_row,
    });
    let mut set = |name: &str, value: Value| document[name] = value;
    if let Some(at) = health.last_failure_at {
        set("lastFailureTime", json!(at.to_iso_8601()));
    }
    if let Some(at) = health.recovered_at {
        set("recoveredTime", json!(at.to_iso_8601()));
    }
    if let Some(wait) = health.wait {
        let mut cause = json!({"outcome": wait.outcome});
        if let Some(status) = wait.status {
            cause["httpStatusCode"] = json!(status);
        }
        set("cause", cause);
        set("since", json!(wait.since.to_iso_8601()));
        set("until", json!(wait.until.to_iso_8601()));
        let mut probe = json!({"notBefore": wait.until.to_iso_8601()});
        if let Some(Probe { delivery, .. }) = health.probe.filter(|probe| now < probe.lease_until) {
            probe["delivery"] = json!(delivery);
        }
        set("nextProbe", probe);
    }
    document
}
