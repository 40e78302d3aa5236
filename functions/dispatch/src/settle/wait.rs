//! Makes deliveries wait. The dispatch queue hides nothing, so its deliveries move to a retry queue, or to
//! the slow queue; there a message is hidden, or its delivery is parked.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use gridpost_core::{
    delivery::{
        Delivery,
        parking::{self, Parked, Place},
        queue::{DELAY_S_MAX, Queue},
    },
    error::chain,
    metric,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, Record, Result};
use uuid::Uuid;

use super::{MOVED_MAX, RESENT_MAX, send_one};
use crate::{
    Context,
    loaded::{Disposition, LoadedDelivery, Settled, SettledRecord},
    payload,
};

/// The longest time that another copy needs to connect, wait for the response and settle.
pub const ATTEMPT_MAX: Duration = Duration::from_secs(50);

/// How long a delivery waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    /// Until its next attempt is due. It may come back up to a second early.
    UntilDue(Timestamp),
    /// Until about then, or until its time-to-live ends.
    RecheckAt(Timestamp),
    /// Until the pause of its event subscription ends, at this time at the latest.
    WhilePaused(Timestamp),
    /// Not at all: it moves to the slow lane.
    NotAtAll,
}

/// Makes deliveries of one event subscription wait. Sends those from the dispatch queue in as few
/// calls as possible.
pub async fn wait_all(
    context: &Context,
    deliveries: Vec<(LoadedDelivery, Wait)>,
) -> Vec<SettledRecord> {
    let now = context.clock.now();
    let mut moved: BTreeMap<Queue, Vec<(LoadedDelivery, Wait)>> = BTreeMap::new();
    let mut others = Vec::new();
    for (loaded, wait) in deliveries {
        match next_queue(context, &loaded, wait, now) {
            Some(queue) => moved.entry(queue).or_default().push((loaded, wait)),
            None => others.push((loaded, wait)),
        }
    }
    let others = join_all(others.into_iter().map(|(loaded, wait)| async move {
        let record = loaded.record.without_body();
        let settled = match wait {
            Wait::WhilePaused(until) => into_lot(context, loaded, until, now).await,
            _ => in_place(context, loaded, wait, now).await,
        };
        (record, settled)
    }));
    let moved = join_all(moved.into_iter().map(|(queue, all)| send_on(context, queue, all, now)));
    let (moved, others) = futures::join!(moved, others);
    moved.into_iter().flatten().chain(others).collect()
}

/// Whether a delivery may move from its retry queue to the slow queue or back. It was never moved, or a few
/// times: Lambda stops what goes round for long.
pub fn may_move(delivery: &Delivery) -> bool {
    delivery.resent < MOVED_MAX
}

/// Returns the queue that a delivery moves to; `None` if it waits where it is.
///
/// Only the slow queue waits for its batches to be filled, so what is due at a time is in a retry queue. What
/// waits for its endpoint is in the slow queue if that hangs or has many requests under way, or if it waits for
/// longer than a quarter of an hour.
/// A wait that is longer than SQS delays a message is never moved from one to the other: it would be
/// received once more.
fn next_queue(
    context: &Context,
    loaded: &LoadedDelivery,
    wait: Wait,
    now: Timestamp,
) -> Option<Queue> {
    let settings = &context.settings;
    let own = loaded.delivery.retry_queue(settings.retry_shards);
    let is_short = end_of(loaded, wait, now).1 <= Duration::from_secs(u64::from(DELAY_S_MAX));
    let may_move = is_short && may_move(&loaded.delivery);
    let slow = context.healths.of(loaded.subscription()).known().slow;
    let is_held_back = settings.sends_to_slow
        && matches!(wait, Wait::RecheckAt(_) | Wait::NotAtAll)
        && (slow.is_slow(now) && slow.shares_invocations(now) || !is_short);
    match (loaded.record.queue, wait) {
        (_, Wait::WhilePaused(_)) => None,
        (Queue::Dispatch, _) => Some(if is_held_back { Queue::Slow } else { own }),
        (Queue::Retry(_), _) if is_held_back && may_move => Some(Queue::Slow),
        // It is removed once it is empty.
        (Queue::Retry(shard), _) if shard >= settings.retry_shards => Some(own),
        (Queue::Slow, Wait::UntilDue(_)) if may_move => Some(own),
        (Queue::Slow, _) if !settings.sends_to_slow && is_short => Some(own),
        _ => None,
    }
}

/// Makes one delivery wait.
pub async fn wait_one(context: &Context, loaded: LoadedDelivery, wait: Wait) -> Settled {
    let settled = wait_all(context, vec![(loaded, wait)]).await.pop();
    settled.map_or_else(|| Ok(Disposition::Keep), |(_, settled)| settled)
}

/// Hides a delivery for which an operator requested an attempt during this copy's. The request made
/// its message visible, if possible, so another copy may be attempting it now and must not receive
/// it twice. The message comes back after that copy would be done, or when it is due. Nothing is
/// sent.
pub(super) async fn beside_another(
    context: &Context,
    loaded: LoadedDelivery,
    due: Timestamp,
) -> Settled {
    let now = context.clock.now();
    let attempt_max = context.clock.pace().to_clock(ATTEMPT_MAX);
    let left = parking::queue_wait(due.since(now).min(attempt_max));
    let seconds = parking::hidden_s(left, now.since(loaded.record.received_at));
    let Record { queue, receipt, .. } = &loaded.record;
    if let Err(error) = context.receiver.hide(*queue, receipt, seconds).await {
        let id = loaded.delivery.id;
        tracing::info!(delivery.id = %id, error = %chain(&error), "left to another copy");
    }
    Ok(Disposition::Keep)
}

/// Makes a delivery wait whose state can't be written: a new message carries its attempts and due
/// time. If that can't be sent, or was sent too often, this message is hidden until then: its count
/// is one attempt behind.
pub(super) async fn in_message(
    context: &Context,
    mut loaded: LoadedDelivery,
    due: Timestamp,
) -> Settled {
    let now = context.clock.now();
    let left = parking::queue_wait(due.since(now));
    if loaded.delivery.resent < RESENT_MAX {
        loaded.delivery.resent += 1;
        let queue = loaded.delivery.retry_queue(context.settings.retry_shards);
        let sent = match successor(context, &loaded, Some(due), left).await {
            Ok(message) => send_one(context, queue, message).await,
            Err(error) => Err(error),
        };
        let Err(error) = sent else { return Ok(Disposition::Delete) };
        let id = loaded.delivery.id;
        tracing::warn!(delivery.id = %id, error = %chain(&error), "failed to send a delivery's successor");
    }
    let seconds = parking::hidden_s(left, now.since(loaded.record.received_at));
    context.receiver.hide(loaded.record.queue, &loaded.record.receipt, seconds).await?;
    Ok(Disposition::Keep)
}

/// Returns when a wait ends, and how long the queue holds the message.
fn end_of(loaded: &LoadedDelivery, wait: Wait, now: Timestamp) -> (Option<Timestamp>, Duration) {
    match wait {
        Wait::UntilDue(due) | Wait::WhilePaused(due) => {
            (Some(due), parking::queue_wait(due.since(now)))
        }
        Wait::RecheckAt(until) => {
            let until = until.min(loaded.expires_at());
            (Some(until), until.since(now))
        }
        Wait::NotAtAll => (None, Duration::ZERO),
    }
}

async fn successor(
    context: &Context,
    loaded: &LoadedDelivery,
    due: Option<Timestamp>,
    left: Duration,
) -> Result<Outgoing> {
    let mut delivery = loaded.delivery.clone();
    delivery.due = due;
    let body = payload::fitting(context, delivery).await?;
    let group = loaded.subscription().key.to_string();
    Ok(Outgoing::new(body, group, parking::delay_s(left)))
}

async fn send_on(
    context: &Context,
    queue: Queue,
    deliveries: Vec<(LoadedDelivery, Wait)>,
    now: Timestamp,
) -> Vec<SettledRecord> {
    let (mut moved, mut messages, mut settled) = (Vec::new(), Vec::new(), Vec::new());
    for (mut loaded, wait) in deliveries {
        let (due, left) = end_of(&loaded, wait, now);
        if !loaded.is_first() {
            loaded.delivery.resent = loaded.delivery.resent.saturating_add(1);
        }
        match successor(context, &loaded, due, left).await {
            Ok(message) => {
                moved.push(loaded);
                messages.push(message);
            }
            Err(error) => settled.push((loaded.record, Err(error))),
        }
    }
    let answers = context.sender.send(queue, messages.clone()).await;
    for ((loaded, message), answer) in moved.into_iter().zip(messages).zip(answers) {
        // A failure is tried once more, in the retry queue, which may send it twice.
        let own = loaded.delivery.retry_queue(context.settings.retry_shards);
        let answer = match answer {
            Ok(()) => Ok(()),
            Err(_) => send_one(context, own, message).await,
        };
        settled.push((loaded.record, answer.map(|()| Disposition::Delete)));
    }
    settled
}

async fn in_place(
    context: &Context,
    loaded: LoadedDelivery,
    wait: Wait,
    now: Timestamp,
) -> Settled {
    let (due, left) = end_of(&loaded, wait, now);
    let in_flight = match parking::is_parkable(left) {
        true => context.in_flight.of(loaded.record.queue, now).await,
        false => 0,
    };
    let since_received = now.since(loaded.record.received_at);
    let limit = context.settings.retry_in_flight_limit;
    match parking::place(left, since_received, loaded.record.receive_count, in_flight, limit) {
        Place::Hide { seconds } => hide(context, loaded, seconds, due).await,
        Place::Park => {
            let (due, roll) = (due.unwrap_or(now), context.dice.roll());
            let due = parking::parked_until(due, now, in_flight, roll);
            store(context, &loaded, loaded.delivery.due_at(due), (due, None)).await
        }
    }
}

/// Parks a delivery in the lot of its event subscription. Writes no state: nothing was attempted. If
/// that fails, a delivery from the dispatch queue moves to its retry queue: with enough messages
/// hidden in the dispatch queue, SQS would deliver no first attempts at all.
async fn into_lot(
    context: &Context,
    loaded: LoadedDelivery,
    until: Timestamp,
    now: Timestamp,
) -> Settled {
    let lot = Some(loaded.delivery.subscription_uid);
    let error = match store(context, &loaded, loaded.delivery.clone(), (until, lot)).await {
        Err(error) if loaded.is_first() => error,
        settled => return settled,
    };
    let id = loaded.delivery.id;
    tracing::warn!(delivery.id = %id, error = %chain(&error), "not parked; it waits in its retry queue");
    let queue = loaded.delivery.retry_queue(context.settings.retry_shards);
    let moved = send_on(context, queue, vec![(loaded, Wait::NotAtAll)], now).await.pop();
    moved.map_or(Err(error), |(_, settled)| settled)
}

async fn store(
    context: &Context,
    loaded: &LoadedDelivery,
    message: Delivery,
    (due, lot): (Timestamp, Option<Uuid>),
) -> Settled {
    // What wake sends is the first of a chain: Lambda counts anew.
    let mut message = message;
    message.resent = 0;
    // It returns to the queue that it came from, or would have moved to.
    let queue = match loaded.record.queue {
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
        id: loaded.delivery.id,
        due,
        parked_at: context.clock.now(),
        shard,
        group: loaded.subscription().key.to_string(),
        postponed: 0,
        lot,
        watch: None,
        body,
    };
    context.parking.park(&parked).await?;
    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Disposition::Delete)
}

/// Hides a record. If SQS refuses a short wait, sends a delayed successor: this message would come
/// back late, after the queue's timeout. A longer wait then comes back early and is hidden again.
async fn hide(
    context: &Context,
    loaded: LoadedDelivery,
    seconds: u32,
    due: Option<Timestamp>,
) -> Settled {
    let record = &loaded.record;
    let mut hidden = context.receiver.hide(record.queue, &record.receipt, seconds).await;
    if hidden.is_err() {
        hidden = context.receiver.hide(record.queue, &record.receipt, seconds).await;
    }
    let Err(error) = hidden else { return Ok(Disposition::Keep) };
    context.meter.count(metric::HIDE_FAIL_COUNT, &[], 1);
    tracing::warn!(message.id = %record.message_id, error = %chain(&error), "not hidden");
    // If it is contended, another copy may have the message, and carries the delivery on.
    if loaded.is_contended || seconds > DELAY_S_MAX || loaded.delivery.resent >= RESENT_MAX {
        return Ok(Disposition::Keep);
    }
    let mut next = loaded.clone();
    next.delivery.resent += 1;
    let message = successor(context, &next, due, Duration::from_secs(u64::from(seconds))).await?;
    // Otherwise the message comes back late.
    let is_sent = send_one(context, record.queue, message).await.is_ok();
    Ok(if is_sent { Disposition::Delete } else { Disposition::Keep })
}
