//! Lists, counts and shows failed deliveries of an event subscription.

use gridpost_api::{
    delivery::{
        self, Attempt, AttemptReason, Delivery, DeliveryCount, DeliveryList, DeliveryShown,
        NextAttempt,
    },
    schema::Time,
};
use gridpost_core::{
    delivery::state::{AttemptRecord, DeliveryState, DeliveryStatus, PartRecord},
    retry::{health::Health, outcome::Outcome},
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::WaitingCount;
use uuid::Uuid;

use super::{Answer, InContext, openapi::*, sent::Sent, subscriptions};
use crate::{Context, Reply};

/// A page of the event subscription's deliveries that have failed and not ended, by publish time
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries",
    operation_id = "listDeliveries",
    params(InSubscription, Paging),
    responses(
        (status = 200, body = DeliveryList,
            description = "The page. What failed or ended in the last second may be missing or \
                still be in it."),
        Refused, Missing
    )
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, key, page) = (&context, &sent.key()?, &sent.page()?);
    let (_, subscription) = subscriptions::existing(context, key).await?;
    let (after, most) = (page.after.as_deref(), page.most() + 1);
    let found = context.deliveries.waiting(subscription.uid, after, most).await?;
    let places: Vec<_> = found.iter().map(DeliveryState::place).collect();
    let found = places.iter().map(String::as_str).zip(found.iter().map(Delivery::from));
    let url = context.url_of(&subscription.key, "deliveries");
    Ok(Reply::ok(page.write(&url, found.collect())))
}

/// The most deliveries that one request counts. `nextLink` counts the rest.
const TALLIED_MAX: usize = 10_000;

/// How many have failed and not ended, by the hour of their publish
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries:count",
    operation_id = "countDeliveries",
    params(InSubscription, Paging),
    responses(
        (status = 200, body = DeliveryCount,
            description = "The counts of those that one request gets through; to be added to those \
                behind nextLink."),
        Refused, Missing
    )
)]
pub(super) async fn count(context: InContext, sent: Sent) -> Answer {
    let (context, key, page) = (&context, &sent.key()?, &sent.page()?);
    let (_, subscription) = subscriptions::existing(context, key).await?;
    let after = page.after.as_deref();
    let tally = context.deliveries.tally(subscription.uid, after, TALLIED_MAX).await?;
    let counts =
        |WaitingCount { deliveries, events }| delivery::WaitingCount { deliveries, events };
    let hours = tally.hours.iter().map(|(hour, count)| (Time(*hour), counts(*count)));
    let url = context.url_of(&subscription.key, "deliveries:count");
    Ok(Reply::ok(DeliveryCount {
        total: counts(tally.total()),
        by_publish_hour: hours.collect(),
        next_link: tally.next.as_ref().map(|next| page.next_link(&url, next)),
    }))
}

/// A delivery that has failed, with every attempt and what comes next
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}",
    operation_id = "getDelivery",
    params(InSubscription, OfDelivery),
    responses(
        (status = 200, body = DeliveryShown,
            description = "The delivery. It is known for two days after its end."),
        Refused, Missing
    )
)]
pub(super) async fn show(context: InContext, sent: Sent) -> Answer {
    let (context, key, id) = (&context, &sent.key()?, sent.delivery_id()?);
    let (_, subscription) = subscriptions::existing(context, key).await?;
    let state = existing(context, &subscription, id).await?;
    let health = context.healths.load(key, subscription.endpoint_uid()).await?;
    let next = match state.status {
        DeliveryStatus::Waiting { due } => {
            Some(next(&state, &subscription, &health, due, context.clock.now()))
        }
        _ => None,
    };
    let delivery = Delivery::from(&state);
    Ok(Reply::ok(DeliveryShown { delivery, attempts: attempts(&state), next }))
}

/// Fails with 404 if the event subscription has no state of that delivery.
pub(super) async fn existing(
    context: &Context,
    subscription: &EventSubscription,
    id: Uuid,
) -> Result<DeliveryState, Reply> {
    let found = context.states.load(id).await?;
    let own = found.filter(|state| state.subscription_uid == subscription.uid);
    own.ok_or_else(|| Reply::no_delivery(&id.to_string()))
}

/// Returns the recorded attempts. A success is not in the state's count. Attempts of parts have their
/// own numbers, because some events had more attempts than others.
fn attempts(state: &DeliveryState) -> Vec<Attempt> {
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
    let attempt = |(index, past): (usize, &AttemptRecord)| Attempt {
        attempt: past.part.map_or_else(
            || u32::try_from(before + index + 1).unwrap_or(u32::MAX),
            |PartRecord(number, _)| number,
        ),
        start_time: past.at.into(),
        duration_in_ms: past.took_ms,
        outcome: past.outcome.to_string(),
        events: past.part.map(|PartRecord(_, events)| events),
        http_status_code: past.status,
        wait_because: past.because,
        response: past.response_text.clone(),
    };
    state.past.iter().enumerate().map(attempt).collect()
}

/// Returns what follows when, and why it waits.
fn next(
    state: &DeliveryState,
    subscription: &EventSubscription,
    health: &Health,
    due: Timestamp,
    now: Timestamp,
) -> NextAttempt {
    let expires_at = subscription.time_to_live_ends(state.ttl_starts_at());
    let mut next = NextAttempt {
        attempt: state.attempts.made + 1,
        not_before: due.into(),
        expires: expires_at.into(),
        because: state.past.last().and_then(|past| past.because).map(Into::into),
        resend_time: None,
        paused_until: None,
        endpoint_waits_until: None,
    };
    // Later failures of others may make it wait longer.
    let endpoint = health.until().filter(|until| *until > due.max(now));
    if let Some(resend) = state.resend {
        next.because = Some(AttemptReason::Resend);
        next.resend_time = Some(resend.at.into());
    } else if let Some(pause) = subscription.pauses.current(now) {
        next.because = Some(AttemptReason::Pause);
        next.paused_until = Some(pause.until.into());
    } else if let Some(until) = endpoint {
        next.because = Some(AttemptReason::EndpointWaits);
        next.endpoint_waits_until = Some(until.into());
    }
    next
}
