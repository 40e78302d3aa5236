//! Has a waiting delivery attempted now.
//!
//! First its state is written: from then on any receiver of the message attempts it, whatever the
//! endpoint's health. Then a parked message is sent, or a hidden one is shown. If neither works, the
//! attempt waits for the queue. A crash in between leaves the message where it was.

use std::{collections::BTreeSet, time::Duration};

use gridpost_api::delivery::{ResendResult, Resent};
use gridpost_core::{
    delivery::{
        Delivery,
        parking::{self, Parked, SPREAD_MAX},
        queue::Queue,
        state::{DeliveryState, DeliveryStatus, Resend},
    },
    error::chain,
    retry::health::Health,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, Saved};
use uuid::Uuid;

use super::{Answer, InContext, deliveries, openapi::*, pauses, sent::Sent, subscriptions};
use crate::{Context, Reply, TRIES_MAX};

/// How late a due delivery is received at most: queues count in seconds, and wake sends page by page.
const LATE: Duration = Duration::from_secs(6);

/// The same if it may be in the slow queue, at which Lambda looks every 20 s. Source: Lambda's guide, "Batching
/// behavior" of SQS.
const LATE_IN_SLOW_QUEUE: Duration = Duration::from_secs(26);

/// Have a waiting delivery attempted now, whatever its wait and the endpoint's health
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}/resend",
    operation_id = "resendDelivery",
    params(InSubscription, OfDelivery),
    responses(
        (status = 200, description = "Whether its message was reached.", body = Resent),
        Refused, Missing, Conflicts
    )
)]
pub(super) async fn resend(context: InContext, sent: Sent) -> Answer {
    let (context, key, id) = (&context, &sent.key()?, sent.delivery_id()?);
    let (_, subscription) = subscriptions::existing(context, key).await?;
    pauses::refuse_paused(context, &subscription)?;
    for _ in 0..TRIES_MAX {
        let state = deliveries::existing(context, &subscription, id).await?;
        let DeliveryStatus::Waiting { due } = state.status else {
            return Err(Reply::not_waiting(id));
        };
        let now = context.clock.now();
        // After a second request, its message still waits for the original due time.
        let was_due = state.resend.map_or(due, |resend| resend.was_due);
        let next = DeliveryState {
            status: DeliveryStatus::Waiting { due: now },
            resend: Some(Resend { at: now, was_due }),
            ..state
        };
        if context.states.save(&next).await? == Saved::Conflict {
            context.back_off().await;
            continue;
        }
        tracing::info!(delivery.id = %id, subscription = %subscription.key, "an attempt was asked for now");
        let health = context.healths.load(key, subscription.endpoint_uid()).await?;
        // Deliveries that wait for their endpoint come back spread over some time.
        let until = health.until().map_or(was_due, |until| was_due.max(until + SPREAD_MAX));
        let mut resent =
            Resent { id, result: ResendResult::Sent, expected_by: None, message: None };
        if !reach(context, &next, was_due, &health).await? {
            let message = "Its queue can't give it out before: it is attempted then, even if the \
                           endpoint is on probation or delayed.";
            resent.result = ResendResult::Requested;
            let late = if context.settings.has_slow_queue { LATE_IN_SLOW_QUEUE } else { LATE };
            resent.expected_by = Some((until.max(now) + late).into());
            resent.message = Some(message.to_owned());
        }
        return Ok(Reply::ok(resent));
    }
    Err(Reply::too_many_changes())
}

/// Sends or shows the message. Returns whether that worked.
async fn reach(
    context: &Context,
    state: &DeliveryState,
    was_due: Timestamp,
    health: &Health,
) -> Result<bool, PortError> {
    if let Some(parked) = find_parked(context, state.id, was_due, health).await? {
        send_parked(context, &parked).await?;
        return Ok(true);
    }
    let Some(receipt) = &state.receipt else { return Ok(false) };
    let shards = context.settings.retry_shards;
    let retry_queue = Delivery::retry_queue_of(state.subscription_uid, shards);
    let slow_queue = context.settings.has_slow_queue.then_some(Queue::Slow);
    for queue in [retry_queue].into_iter().chain(slow_queue) {
        match context.receiver.hide(queue, receipt, 0).await {
            Ok(()) => return Ok(true),
            // It was received meanwhile and hidden again, or is in the other queue.
            Err(error) => {
                tracing::info!(delivery.id = %state.id, %queue, error = %chain(&error), "not shown");
            }
        }
    }
    Ok(false)
}

/// Finds the parked delivery. It is stored by the minute of its due time or of the end of its
/// endpoint's wait, or by a later one.
async fn find_parked(
    context: &Context,
    id: Uuid,
    was_due: Timestamp,
    health: &Health,
) -> Result<Option<Parked>, PortError> {
    let minutes_between = |from: Timestamp, until: Timestamp| {
        from.as_minutes()..=(until + LATE + parking::PARKED_LATER_MAX).as_minutes()
    };
    let after_wait = health.until().map(|until| minutes_between(until, until + SPREAD_MAX));
    let minutes = minutes_between(was_due, was_due).chain(after_wait.into_iter().flatten());
    let mut looked_at = BTreeSet::new();
    let minutes = minutes.filter(|minute| looked_at.insert(*minute));
    for minute in minutes {
        let found = context.parked.find(id, minute).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Sends first: if the removal fails, wake sends it again, and the copies share the state.
async fn send_parked(context: &Context, parked: &Parked) -> Result<(), PortError> {
    let now = context.clock.now();
    let delivery = Delivery::decode(&parked.body);
    let body = delivery.map_or_else(|_| parked.body.clone(), |it| it.due_at(now).encode());
    let delay_s = super::parked::delay_s(context);
    let outgoing = Outgoing::new(body, parked.group.clone(), delay_s);
    super::send_back(context, super::retry_queue(context, parked)?, outgoing).await?;
    context.parking.remove(parked).await
}
