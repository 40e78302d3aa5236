//! The health of an event subscription's endpoint: what it is, what it does to events, and its reset.

use gridpost_core::{
    retry::{
        Rules,
        health::{Cause, Health, Probe},
        lane::Slowness,
    },
    subscription::{EventSubscription, ProvisioningState, SubscriptionKey},
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
    let health = context.healths.load(key, subscription.endpoint_uid()).await?;
    answer(context, &topic, &subscription, &health).await
}

/// Ends its wait, whatever that is, and its row of failures. Instances of dispatch see it within two
/// seconds; an attempt that fails from then on counts anew.
pub(super) async fn reset(context: &Context, key: &SubscriptionKey) -> Answer {
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    for _ in 0..TRIES_MAX {
        let health = context.healths.load(key, subscription.endpoint_uid()).await?;
        let Some(next) = health.reset(context.clock.now()) else {
            return answer(context, &topic, &subscription, &health).await;
        };
        if context.healths.save(key, subscription.endpoint_uid(), &next).await? == Saved::Written {
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
        "newEvents": new_events(subscription, health, rules, now),
        "failuresInRow": health.row.failures,
    });
    let mut set = |name: &str, value: Value| document[name] = value;
    if let Some(pause) = subscription.pauses.current(now) {
        set("pause", pause.write());
    }
    if let Some(at) = health.row.last_at {
        set("lastFailureTime", json!(at.to_iso_8601()));
    }
    if let Some(recovery) = health.recovered {
        set("recoveredTime", json!(recovery.at.to_iso_8601()));
    }
    if let Some(Cause { outcome, status }) = health.cause() {
        let mut cause = json!({"outcome": outcome});
        if let Some(status) = status {
            cause["httpStatusCode"] = json!(status);
        }
        set("cause", cause);
    }
    if let Some(wait) = health.probation {
        set("probation", interval(wait.since, wait.until));
    }
    if let Some(wait) = health.delayed {
        let mut delayed = interval(wait.since, wait.until);
        delayed["step"] = json!(wait.step);
        set("delayedDelivery", delayed);
    }
    if health.slow.is_slow(now) {
        set("slow", slow(&health.slow, now));
    }
    if let Some((since, until)) = health.since().zip(health.until()) {
        set("since", json!(since.to_iso_8601()));
        set("until", json!(until.to_iso_8601()));
        let mut probe = json!({"notBefore": until.to_iso_8601()});
        if let Some(Probe { delivery, .. }) = health.probe.filter(|probe| now < probe.lease_until) {
            probe["delivery"] = json!(delivery);
        }
        set("nextProbe", probe);
    }
    document
}

/// What becomes of an event that comes now. While no event is for the event subscription, that its
/// endpoint is healthy means nothing.
fn new_events(
    subscription: &EventSubscription,
    health: &Health,
    rules: Rules<'_>,
    now: Timestamp,
) -> Value {
    let is_open = subscription.state(now) == ProvisioningState::Succeeded;
    let is_matched = is_open && !subscription.is_expired(now);
    if is_matched && subscription.pauses.current(now).is_some() {
        return json!("Held");
    }
    match is_matched {
        true => json!(health.effect(rules, subscription.probation_policy, now)),
        false => json!("NotMatched"),
    }
}

fn interval(since: Timestamp, until: Timestamp) -> Value {
    json!({"since": since.to_iso_8601(), "until": until.to_iso_8601()})
}

/// A slow endpoint: until when it is taken for one, unless slow answers go on, and how many requests
/// it has and may have under way.
fn slow(slow: &Slowness, now: Timestamp) -> Value {
    let mut document = json!({"requestsUnderWay": slow.under_way(now)});
    if let Some(until) = slow.marked_until {
        document["until"] = json!(until.to_iso_8601());
    }
    if let Some(bound) = slow.bound {
        document["requestsAtMost"] = json!(bound);
    }
    document
}
