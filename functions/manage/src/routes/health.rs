//! The health of an event subscription's endpoint: what it is, what it does to events, and its reset.

use futures::future::try_join_all;
use gridpost_api::subscription::pause;
use gridpost_core::{
    name,
    retry::{
        Rules,
        health::{Cause, Health, Probe},
        slow_endpoint::Slowness,
    },
    subscription::{EventSubscription, ProvisioningState, SubscriptionKey},
    time::Timestamp,
    topic::Topic,
};
use gridpost_ports::{PortError, Saved};
use serde_json::{Value, json};

use super::{Answer, subscriptions, topics};
use crate::{Context, Reply, TRIES_MAX, page::Page};

/// Waiting deliveries are counted up to here: about 20 reads of an index.
const COUNTED_MAX: usize = 20_000;

/// Event subscriptions of a page that are looked at at the same time.
const AT_ONCE: usize = 8;

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
            tracing::info!(subscription = %subscription.key, "the health of its endpoint was reset");
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
    let mut document = document(topic, subscription, health, context.clock.now());
    document["waitingDeliveries"] = waiting(context, subscription).await?;
    Ok(Reply::ok(document))
}

/// How many wait, and since when. Most event subscriptions have none, which one look tells.
async fn waiting(context: &Context, subscription: &EventSubscription) -> Result<Value, PortError> {
    let oldest = context.deliveries.waiting(subscription.uid, None, 1).await?;
    let Some(oldest) = oldest.first() else { return Ok(json!({"count": 0, "isComplete": true})) };
    let count = context.deliveries.count(subscription.uid, COUNTED_MAX + 1).await?;
    Ok(json!({
        "count": count.clamp(1, COUNTED_MAX),
        "isComplete": count <= COUNTED_MAX,
        "oldestPublishTime": oldest.publish_time.to_iso_8601(),
    }))
}

pub(super) async fn list(context: &Context, topic: &str, page: &Page) -> Answer {
    let topic = topics::existing(context, topic).await?;
    // At most 500, in the order of their names.
    let all = context.configuration.subscriptions(&topic.name).await?;
    let behind = |one: &&EventSubscription| {
        page.after.as_ref().is_none_or(|at| name::compare(&one.key.name, at).is_gt())
    };
    let some: Vec<_> = all.iter().filter(behind).take(page.most() + 1).collect();
    let mut found = Vec::new();
    for together in some[..some.len().min(page.most())].chunks(AT_ONCE) {
        let each = together.iter().map(|one| named(context, &topic, one));
        found.extend(try_join_all(each).await?);
    }
    // One more tells that there is a next page, and is not looked at.
    found.resize(some.len(), Value::Null);
    let names = some.iter().map(|one| one.key.name.as_str());
    let url = format!("{}{}/healths", context.settings.manage_url, topic.id());
    Ok(Reply::ok(page.write(&url, names.zip(found).collect())))
}

/// The health of one, with its name.
async fn named(
    context: &Context,
    topic: &Topic,
    one: &EventSubscription,
) -> Result<Value, PortError> {
    let health = context.healths.load(&one.key, one.endpoint_uid()).await?;
    let mut document = document(topic, one, &health, context.clock.now());
    document["waitingDeliveries"] = waiting(context, one).await?;
    Ok(json!({"name": one.key.name, "health": document}))
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
    let state = match subscription.state(now) {
        ProvisioningState::Succeeded => json!(health.condition(now)),
        ProvisioningState::AwaitingManualAction | ProvisioningState::Failed => {
            json!("NotValidated")
        }
    };
    let mut document = json!({
        "state": state,
        "newEvents": new_events(subscription, health, rules, now),
        "failuresInRow": health.row.failures,
    });
    let mut set = |name: &str, value: Value| document[name] = value;
    if let Some(pause) = subscription.pauses.current(now) {
        set("pause", pause::write(pause));
    }
    if let Some(validation) = gridpost_api::subscription::validation(subscription) {
        set("validation", validation);
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
