//! Holds deliveries back. The dispatch queue holds nothing back, so its deliveries move to a retry
//! queue; there a message is hidden, or its delivery is parked.

use std::time::Duration;

use futures::future::join_all;
use gridpost_core::{
    delivery::{
        Delivery,
        parking::{self, Hold as Held, Parked},
        plan::Lane,
        queue::{DELAY_S_MAX, Queue},
    },
    error::chain,
    metric,
    retry::outcome::RESPONSE_WAIT,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, Record};
use uuid::Uuid;

use super::{RESENT_MAX, send_one};
use crate::{
    Context,
    in_hand::{DeliveryInHand, Disposition, Settled},
    payload,
};

/// The longest time that another copy needs for an attempt: to connect, to wait for the response and
/// to settle.
const ATTEMPT_MAX: Duration = Duration::from_secs(45);
const _: () = assert!(ATTEMPT_MAX.as_secs() > RESPONSE_WAIT.as_secs() + 12);

/// For how long a delivery is held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hold {
    /// Until its next attempt is due. It may come back up to a second early.
    Until(Timestamp),
    /// Until about then: a second more does not matter, but a delivery whose time-to-live ends
    /// during the wait ends at that moment, not later.
    About(Timestamp),
    /// By the pause of its event subscription, until that is over: at this time at the latest.
    Paused(Timestamp),
    /// Not at all: it goes on in its retry queue.
    Move,
}

/// Holds back deliveries of one event subscription. Those from the dispatch queue are sent in as
/// few calls as possible.
pub async fn hold_all(
    context: &Context,
    hands: Vec<(DeliveryInHand, Hold)>,
) -> Vec<(Record, Settled)> {
    let now = context.clock.now();
    let is_paused = |hand: &(_, Hold)| matches!(hand.1, Hold::Paused(_));
    let (paused, hands): (Vec<_>, Vec<_>) = hands.into_iter().partition(is_paused);
    let paused = join_all(paused.into_iter().map(|(hand, hold)| async move {
        let record = hand.record.without_body();
        (record, into_lot_at_last(context, hand, hold, now).await)
    }));
    let moves = |(hand, _): &(DeliveryInHand, Hold)| {
        hand.lane() == Lane::First || is_emptied(context, hand.record.queue)
    };
    let (first, retry): (Vec<_>, Vec<_>) = hands.into_iter().partition(moves);
    let retry = join_all(retry.into_iter().map(|(hand, hold)| async move {
        let record = hand.record.without_body();
        (record, in_retry_queue(context, hand, hold, now).await)
    }));
    let (mut settled, retry, paused) =
        futures::join!(to_retry_queue(context, first, now), retry, paused);
    settled.extend(retry);
    settled.extend(paused);
    settled
}

/// Whether it is a retry queue to which nothing is sent any more: it is removed once it is empty.
fn is_emptied(context: &Context, queue: Queue) -> bool {
    matches!(queue, Queue::Retry(shard) if shard >= context.settings.retry_shards)
}

pub(super) async fn one(context: &Context, hand: DeliveryInHand, hold: Hold) -> Settled {
    let settled = hold_all(context, vec![(hand, hold)]).await.pop();
    settled.map_or_else(|| Ok(Disposition::Keep), |(_, settled)| settled)
}

/// Holds a delivery for which an operator requested an attempt while another one, this copy's, was
/// under way. The operator has shown its message, if it could be reached: another copy may be making
/// the attempt now, and must not be given the message a second time. Otherwise it comes back after
/// that copy would be done, or when it is due anyway. Nothing is sent: the message is still there.
pub(super) async fn beside_another(
    context: &Context,
    hand: DeliveryInHand,
    due: Timestamp,
) -> Settled {
    let now = context.clock.now();
    let attempt_max = context.clock.pace().to_clock(ATTEMPT_MAX);
    let left = parking::held(due.since(now).min(attempt_max));
    let seconds = parking::hidden_s(left, now.since(hand.record.received_at));
    let Record { queue, receipt, .. } = &hand.record;
    if let Err(error) = context.receiver.hide(*queue, receipt, seconds).await {
        let id = hand.delivery.id;
        tracing::info!(delivery.id = %id, error = %chain(&error), "left to another copy");
    }
    Ok(Disposition::Keep)
}

/// Holds a delivery whose state can't be written: a message carries its attempts and due time. If
/// that can't be sent, or was sent too often, this message waits as it is: its count is one attempt
/// behind, but it comes back when it is due.
pub(super) async fn in_message(
    context: &Context,
    mut hand: DeliveryInHand,
    due: Timestamp,
) -> Settled {
    let now = context.clock.now();
    let left = parking::held(due.since(now));
    if hand.delivery.resent < RESENT_MAX {
        hand.delivery.resent += 1;
        let queue = hand.delivery.retry_queue(context.settings.retry_shards);
        let sent = match successor(context, &hand, Some(due), left).await {
            Ok(message) => send_one(context, queue, message).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) => return Ok(Disposition::Delete),
            Err(error) => {
                let id = hand.delivery.id;
                tracing::warn!(delivery.id = %id, error = %chain(&error), "failed to send a delivery's successor");
            }
        }
    }
    let seconds = parking::hidden_s(left, now.since(hand.record.received_at));
    context.receiver.hide(hand.record.queue, &hand.record.receipt, seconds).await?;
    Ok(Disposition::Keep)
}

/// When a hold ends, and how long the queue holds it.
fn wait(hand: &DeliveryInHand, hold: Hold, now: Timestamp) -> (Option<Timestamp>, Duration) {
    match hold {
        Hold::Until(due) | Hold::Paused(due) => (Some(due), parking::held(due.since(now))),
        Hold::About(until) => {
            let until = until.min(hand.expires_at());
            (Some(until), until.since(now))
        }
        Hold::Move => (None, Duration::ZERO),
    }
}

/// The message that carries a delivery on.
async fn successor(
    context: &Context,
    hand: &DeliveryInHand,
    due: Option<Timestamp>,
    left: Duration,
) -> Result<Outgoing, PortError> {
    let mut delivery = hand.delivery.clone();
    delivery.due = due;
    let body = payload::fitting(context, delivery).await?;
    let group = hand.subscription().key.to_string();
    Ok(Outgoing { body, group, delay_s: parking::delay_s(left) })
}

async fn to_retry_queue(
    context: &Context,
    hands: Vec<(DeliveryInHand, Hold)>,
    now: Timestamp,
) -> Vec<(Record, Settled)> {
    let Some((first, _)) = hands.first() else { return Vec::new() };
    let queue = first.delivery.retry_queue(context.settings.retry_shards);
    let (mut moved, mut messages, mut settled) = (Vec::new(), Vec::new(), Vec::new());
    for (hand, hold) in hands {
        let (due, left) = wait(&hand, hold, now);
        match successor(context, &hand, due, left).await {
            Ok(message) => {
                moved.push(hand);
                messages.push(message);
            }
            Err(error) => settled.push((hand.record, Err(error))),
        }
    }
    let answers = context.sender.send(queue, messages.clone()).await;
    for ((hand, message), answer) in moved.into_iter().zip(messages).zip(answers) {
        // A failure is tried once more, which may send it twice.
        let answer = match answer {
            Ok(()) => Ok(()),
            Err(_) => send_one(context, queue, message).await,
        };
        settled.push((hand.record, answer.map(|()| Disposition::Delete)));
    }
    settled
}

async fn in_retry_queue(
    context: &Context,
    hand: DeliveryInHand,
    hold: Hold,
    now: Timestamp,
) -> Settled {
    let (due, left) = wait(&hand, hold, now);
    let in_flight = if parking::is_parkable(left) {
        context.in_flight.of(hand.record.queue, now).await
    } else {
        0
    };
    let since_received = now.since(hand.record.received_at);
    let limit = context.settings.retry_in_flight_limit;
    match parking::hold(left, since_received, hand.record.receive_count, in_flight, limit) {
        Held::Hide { seconds } => hide(context, hand, seconds, due).await,
        Held::Park => {
            let (due, roll) = (due.unwrap_or(now), context.dice.roll());
            park(context, hand, parking::parked_until(due, now, in_flight, roll)).await
        }
    }
}

async fn park(context: &Context, hand: DeliveryInHand, due: Timestamp) -> Settled {
    let message = hand.delivery.due_at(due);
    store(context, &hand, message, (due, None)).await
}

/// Parks a delivery in the lot of its event subscription. Where that fails, one of the dispatch queue goes
/// on in its retry queue: there it would be hidden, and with enough of them hidden SQS hands out no first
/// attempt of any event subscription.
async fn into_lot_at_last(
    context: &Context,
    hand: DeliveryInHand,
    hold: Hold,
    now: Timestamp,
) -> Settled {
    let error = match into_lot(context, &hand, hold, now).await {
        Err(error) if hand.lane() == Lane::First => error,
        settled => return settled,
    };
    let id = hand.delivery.id;
    tracing::warn!(delivery.id = %id, error = %chain(&error), "not parked; it waits in its retry queue");
    let moved = to_retry_queue(context, vec![(hand, Hold::Move)], now).await.pop();
    moved.map_or(Err(error), |(_, settled)| settled)
}

/// Parks a delivery in the lot of its event subscription, as it is: nothing was attempted, so no
/// state is written. It is found there when the pause is over, or at `until`.
async fn into_lot(context: &Context, hand: &DeliveryInHand, hold: Hold, now: Timestamp) -> Settled {
    let (until, _) = wait(hand, hold, now);
    let lot = Some(hand.delivery.subscription_uid);
    let message = hand.delivery.clone();
    store(context, hand, message, (until.unwrap_or(now), lot)).await
}

async fn store(
    context: &Context,
    hand: &DeliveryInHand,
    message: Delivery,
    (due, lot): (Timestamp, Option<Uuid>),
) -> Settled {
    // It goes back to the queue that it came from, or would have moved to.
    let queue = match hand.record.queue {
        queue @ Queue::Retry(_) => queue,
        _ => message.retry_queue(context.settings.retry_shards),
    };
    let Queue::Retry(shard) = queue else {
        return Err(PortError::new("parking a delivery", "it has no retry queue"));
    };
    let mut body = message.encode();
    if body.len() > parking::BODY_BYTES_MAX {
        body = payload::set_apart(context, message).await?.encode();
    }
    let parked = Parked {
        id: hand.delivery.id,
        due,
        parked_at: context.clock.now(),
        shard,
        group: hand.subscription().key.to_string(),
        postponed: 0,
        lot,
        watch: None,
        body,
    };
    context.parking.park(&parked).await?;
    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Disposition::Delete)
}

/// Hides a record. If SQS refuses a short wait, a delayed message carries the delivery on: this one
/// would come back only after the queue's own timeout, which is late. A longer wait comes back
/// early then and is hidden again: the due time decides, not the queue.
async fn hide(
    context: &Context,
    hand: DeliveryInHand,
    seconds: u32,
    due: Option<Timestamp>,
) -> Settled {
    let record = &hand.record;
    let mut refused = None;
    for _ in 0..2 {
        match context.receiver.hide(record.queue, &record.receipt, seconds).await {
            Ok(()) => return Ok(Disposition::Keep),
            Err(error) => refused = Some(error),
        }
    }
    context.meter.count(metric::HIDE_FAIL_COUNT, &[], 1);
    if let Some(error) = &refused {
        tracing::warn!(message.id = %record.message_id, error = %chain(error), "not hidden");
    }
    // Another copy of the message may have it: it carries the delivery on.
    let is_left = hand.is_contended;
    if is_left || seconds > DELAY_S_MAX || hand.delivery.resent >= RESENT_MAX {
        return Ok(Disposition::Keep);
    }
    let mut next = hand.clone();
    next.delivery.resent += 1;
    let message = successor(context, &next, due, Duration::from_secs(u64::from(seconds))).await?;
    match send_one(context, record.queue, message).await {
        Ok(()) => Ok(Disposition::Delete),
        // The message comes back late.
        Err(_) => Ok(Disposition::Keep),
    }
}
