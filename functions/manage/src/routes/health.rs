//! Shows, lists and resets the health of endpoints.

use std::slice;

use futures::future::try_join_all;
use gridpost_api::{
    health::{
        self, DelayedDelivery, EndpointState, HealthList, Interval, NamedHealth, NewEvents,
        NextProbe, SlowEndpoint, WaitCause, WaitingDeliveries,
    },
    subscription,
};
use gridpost_core::{
    retry::{
        Rules,
        health::{Cause, Health},
    },
    subscription::{EventSubscription, ProvisioningState},
    time::Timestamp,
    topic::Topic,
};
use gridpost_ports::{PortError, Saved};

use super::{Answer, InContext, openapi::*, sent::Sent, subscriptions, topics};
use crate::{Context, Reply, TRIES_MAX};

/// The most waiting deliveries counted: about 20 reads of an index.
const COUNTED_MAX: usize = 20_000;

/// Event subscriptions read concurrently.
const AT_ONCE: usize = 8;

/// The health of the event subscription's endpoint, and what it does to events
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/health",
    operation_id = "getHealth",
    params(InSubscription),
    responses((status = 200, description = "The health.", body = health::Health), Refused, Missing)
)]
pub(super) async fn show(context: InContext, sent: Sent) -> Answer {
    let (context, key) = (&context, &sent.key()?);
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    let health = context.healths.load(key, subscription.endpoint_uid()).await?;
    answer(context, &topic, &subscription, &health).await
}

/// End the endpoint's probation or delayed delivery, and its row of failures
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/health:reset",
    operation_id = "resetHealth",
    params(InSubscription),
    responses(
        (status = 200, body = health::Health,
            description = "The health as it is now. What waits in queues comes when it is due."),
        Refused, Missing, Conflicts
    )
)]
// Ends the endpoint's wait and its row of failures. Instances of dispatch see it within two seconds;
// a later failure starts a new row.
pub(super) async fn reset(context: InContext, sent: Sent) -> Answer {
    let (context, key) = (&context, &sent.key()?);
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
    let waiting = waiting(context, subscription).await?;
    let mut health = document(topic, subscription, health, waiting, context.clock.now());
    let events = context.journal_reader.waiting(slice::from_ref(&subscription.key)).await?;
    set_waiting_events([&mut health], events);
    Ok(Reply::ok(health))
}

/// Sets how many events wait. What has failed may be in the ledger no more.
fn set_waiting_events<'h>(
    healths: impl IntoIterator<Item = &'h mut health::Health>,
    events: Option<Vec<u64>>,
) {
    for (health, events) in healths.into_iter().zip(events.into_iter().flatten()) {
        health.waiting_events = Some(events.max(health.waiting_deliveries.count as u64));
    }
}

/// Counts waiting deliveries. Most event subscriptions have none, which one read shows.
async fn waiting(
    context: &Context,
    subscription: &EventSubscription,
) -> Result<WaitingDeliveries, PortError> {
    let oldest = context.deliveries.waiting(subscription.uid, None, 1).await?;
    let Some(oldest) = oldest.first() else {
        return Ok(WaitingDeliveries { count: 0, is_complete: true, oldest_publish_time: None });
    };
    let count = context.deliveries.count(subscription.uid, COUNTED_MAX + 1).await?;
    Ok(WaitingDeliveries {
        count: count.clamp(1, COUNTED_MAX),
        is_complete: count <= COUNTED_MAX,
        oldest_publish_time: Some(oldest.publish_time.into()),
    })
}

/// A page of the healths of a topic's event subscriptions, by name
#[utoipa::path(
    get,
    path = "/topics/{topic}/healths",
    operation_id = "listHealths",
    params(InTopics, Paging),
    responses((status = 200, description = "The page.", body = HealthList), Refused, Missing)
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, topic, page) = (&context, &sent.topic()?, &sent.page()?);
    let topic = topics::existing(context, topic).await?;
    let some = subscriptions::page_of(context, &topic, page).await?;
    let mut found = Vec::new();
    for together in some[..some.len().min(page.most())].chunks(AT_ONCE) {
        let each = together.iter().map(|one| named(context, &topic, one));
        found.extend(try_join_all(each).await?);
    }
    let keys: Vec<_> = some[..found.len()].iter().map(|one| one.key.clone()).collect();
    let events = context.journal_reader.waiting(&keys).await?;
    set_waiting_events(found.iter_mut().map(|one| &mut one.health), events);
    // One more, a placeholder, says that there is a next page.
    found.extend(found.last().cloned().filter(|_| some.len() > page.most()));
    let names = some.iter().map(|one| one.key.name.as_str());
    let url = format!("{}{}/healths", context.settings.manage_url, topic.id());
    Ok(Reply::ok(page.write(&url, names.zip(found).collect())))
}

async fn named(
    context: &Context,
    topic: &Topic,
    one: &EventSubscription,
) -> Result<NamedHealth, PortError> {
    let health = context.healths.load(&one.key, one.endpoint_uid()).await?;
    let waiting = waiting(context, one).await?;
    let health = document(topic, one, &health, waiting, context.clock.now());
    Ok(NamedHealth { name: one.key.name.clone(), health })
}

fn document(
    topic: &Topic,
    subscription: &EventSubscription,
    health: &Health,
    waiting_deliveries: WaitingDeliveries,
    now: Timestamp,
) -> health::Health {
    let rules = Rules {
        profile: topic.delivery_profile,
        kind: subscription.endpoint.kind(),
        policy: &subscription.retry_policy,
    };
    let state = match subscription.state(now) {
        ProvisioningState::Succeeded => health.condition(now).into(),
        ProvisioningState::AwaitingManualAction | ProvisioningState::Failed => {
            EndpointState::NotValidated
        }
    };
    let wait = health.since().zip(health.until());
    let probe = health.probe.filter(|probe| now < probe.lease_until);
    health::Health {
        state,
        new_events: new_events(subscription, health, rules, now),
        failures_in_row: health.row.failures,
        failing_since: health.row.since.map(Into::into),
        last_failure_time: health.row.last_at.map(Into::into),
        cause: health.cause().map(|Cause { outcome, status }| WaitCause {
            outcome: outcome.to_string(),
            http_status_code: status,
        }),
        probation: health
            .probation
            .map(|wait| Interval { since: wait.since.into(), until: wait.until.into() }),
        delayed_delivery: health.delayed.map(|wait| DelayedDelivery {
            step: wait.step,
            since: wait.since.into(),
            until: wait.until.into(),
        }),
        since: wait.map(|(since, _)| since.into()),
        until: wait.map(|(_, until)| until.into()),
        next_probe: wait.map(|(_, until)| NextProbe {
            not_before: until.into(),
            delivery: probe.map(|probe| probe.delivery),
        }),
        recovered_time: health.recovered.map(|recovery| recovery.at.into()),
        slow: health.slow.is_slow(now).then(|| SlowEndpoint {
            until: health.slow.marked_until.map(Into::into),
            requests_under_way: health.slow.under_way(now),
            requests_at_most: health.slow.bound,
        }),
        pause: subscription.pauses.current(now).map(Into::into),
        validation: subscription::validation(subscription),
        waiting_events: None,
        waiting_deliveries,
    }
}

/// Returns what happens to new events. If none match, the endpoint's health does not matter.
fn new_events(
    subscription: &EventSubscription,
    health: &Health,
    rules: Rules<'_>,
    now: Timestamp,
) -> NewEvents {
    let is_open = subscription.state(now) == ProvisioningState::Succeeded;
    if !is_open || subscription.is_expired(now) {
        return NewEvents::NotMatched;
    }
    match subscription.pauses.current(now) {
        Some(_) => NewEvents::Held,
        None => health.effect(rules, subscription.probation_policy, now).into(),
    }
}
