//! The last step, which alone writes states and sends deliveries on: carries out the decision in an
//! order that can duplicate but never lose. The state comes first, then the successor (a message, a
//! hidden message, a parked delivery, a dead letter), and the record is deleted last.
//!
//! If the state can't be written, the message carries it, or the end is carried out at once: a
//! failed write never causes an attempt before the next one is due.

mod end;
mod wait;

use futures::stream::{self, StreamExt};
use gridpost_core::{
    delivery::{
        DecodeError, Delivery,
        queue::Queue,
        state::{AttemptRecord, DeliveryState, DeliveryStatus, PartRecord},
    },
    error::chain,
    journal::{Entry, EntryKind},
    metric, poison as poison_queue,
    retry::{EndReason, outcome::Answer},
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, Record, Result, Saved};

use crate::{
    Context,
    decide::{NextStep, Verdict},
    entry,
    loaded::{Disposition, LoadedDelivery, Settled},
    payload,
    response::{Response, Times, Try},
};

pub use end::drop_delivery;
pub use wait::{ATTEMPT_MAX, Wait, may_move, wait_all, wait_one};

/// How many successor messages may carry on a delivery whose state can't be written.
const RESENT_MAX: u8 = 8;

/// How many successors may move a delivery between its retry queue and the slow queue.
const MOVED_MAX: u8 = 4;
const _: () = assert!(MOVED_MAX < RESENT_MAX);

/// The number of sends after which Lambda stops a recursive loop. Source: Lambda developer guide,
/// "Recursive loop detection".
const LAMBDA_LOOP_SENDS: u8 = 16;
const _: () = assert!(RESENT_MAX < LAMBDA_LOOP_SENDS);

/// Parts of a batch that end concurrently: each may be a message of the largest size.
const ENDS_AT_ONCE: usize = 10;

const WRITES_MAX: u32 = 3;

/// Settles a delivery that its first attempt delivered, without a write or a wait. Returns `None`,
/// with no effect, for every other delivery.
pub fn at_once(
    context: &Context,
    loaded: &LoadedDelivery,
    verdict: &Verdict,
    times: Times,
) -> Option<Disposition> {
    let Verdict { delivered, ends, next_step, answer, .. } = verdict;
    let is_whole = *next_step == NextStep::Delivered && delivered.is_empty() && ends.is_empty();
    if !is_whole || loaded.revision > 0 || loaded.delivery.is_claimed() {
        return None;
    }
    let success = success(context, loaded, *answer, times);
    context.journal.note(success, Some(&loaded.record.receipt));
    Some(Disposition::Delete)
}

fn success(context: &Context, loaded: &LoadedDelivery, answer: Answer, times: Times) -> Entry {
    let is_kept = context.journal.keeps_first_successes();
    entry::succeeded(loaded, None, answer, times, is_kept)
}

/// Carries out the decision about a delivery after an attempt.
pub async fn settle(
    context: &Context,
    mut loaded: LoadedDelivery,
    verdict: Verdict,
    Response { times, response_text, .. }: &Response,
) -> Settled {
    let Verdict { delivered, accepted, ends, mut answer, mut requests, .. } = verdict;
    let Verdict { mut last_at, tries, mut next_step, .. } = verdict;
    let times = *times;
    // Attempts after a split record their events, too.
    let is_part = loaded.past.iter().any(|past| past.part.is_some());
    let events = u32::try_from(loaded.delivery.event_count()).unwrap_or(u32::MAX);
    let whole = PartRecord(loaded.delivery.attempts.made + 1, events);
    let last = tries.last().copied().unwrap_or(Try { answer, times, part: whole });
    let part = (is_part || !tries.is_empty()).then_some(last.part);
    let mut sending = Vec::with_capacity(ends.len());
    for part in &ends {
        sending.push(end::end_part(context, &loaded, part, times.0));
    }
    let sent: Vec<_> = stream::iter(sending).buffered(ENDS_AT_ONCE).collect().await;
    for (part, sent) in ends.iter().zip(sent) {
        let Err(error) = sent else {
            loaded.delivery.done.add_all(&part.events);
            continue;
        };
        // The part stays in the delivery; what this attempt delivered is still recorded.
        let (id, error) = (loaded.delivery.id, chain(&error));
        tracing::warn!(delivery.id = %id, %error, "failed to end some events; they go on with the rest");
        if next_step == NextStep::Delivered {
            // Nothing else is left: the delivery ends for the reason of this part.
            next_step = NextStep::End(part.reason);
            (answer, requests, last_at) = (part.answer, part.requests, part.last_at);
        }
        // Its events had that many requests: fewer would exceed their retry policy.
        requests = requests.max(part.requests);
    }
    if let Some(accepted) = accepted {
        let success = entry::succeeded(&loaded, Some(&delivered), accepted, times, true);
        context.journal.note(success, Some(&loaded.record.receipt));
        // Before the state is written: a crash in between delivers and counts the events twice, and the
        // reverse order would lose the count.
        context.meter.flush(context.clock.now());
        loaded.delivery.done.add_all(&delivered);
    }
    if next_step == NextStep::Delivered {
        let success = success(context, &loaded, answer, times);
        if loaded.revision > 0 {
            AttemptRecord::of(answer, times, None).of_part(part).add_to(&mut loaded.past);
        }
        return self::delivered(context, loaded, Some(success)).await;
    }
    let attempts = &loaded.delivery.attempts;
    let began_at = (times.0, last_at.unwrap_or(times.0));
    loaded.delivery.attempts = attempts.with_requests(began_at, answer, requests);
    let failure = entry::failed(&loaded, answer, times, next_step, response_text.clone());
    context.journal.note(failure, Some(&loaded.record.receipt));
    let because = match next_step {
        NextStep::Retry { because, .. } => Some(because),
        NextStep::Delivered | NextStep::End(_) => None,
    };
    for earlier in &tries[..tries.len().saturating_sub(1)] {
        AttemptRecord::of(earlier.answer, earlier.times, None)
            .of_part(Some(earlier.part))
            .add_to(&mut loaded.past);
    }
    AttemptRecord::of(last.answer, last.times, because)
        .of_part(part)
        .with_response_text(response_text.clone())
        .add_to(&mut loaded.past);
    match next_step {
        NextStep::Retry { due, .. } => retry(context, loaded, due).await,
        NextStep::End(reason) => end(context, loaded, reason).await,
        NextStep::Delivered => Ok(Disposition::Delete),
    }
}

/// Settles a delivered delivery, with the entry of its success, if this copy has made one. If nothing had
/// failed before, no state is written.
pub(crate) async fn delivered(
    context: &Context,
    loaded: LoadedDelivery,
    success: Option<Entry>,
) -> Settled {
    let delivery = &loaded.delivery;
    let receipt = Some(&*loaded.record.receipt);
    if loaded.revision == 0 {
        success.into_iter().for_each(|success| context.journal.note(success, receipt));
    } else {
        let state = loaded.state(DeliveryStatus::Delivered);
        match mark_delivered(context, &state, success, receipt).await {
            Ok(Marked::Delivered) => {}
            // Its dead letter may still need the payload, and counts.
            Ok(Marked::HasEnded) => return Ok(Disposition::Delete),
            // Only late copies of the message read the mark.
            Err(error) => {
                let (id, error) = (delivery.id, chain(&error));
                tracing::warn!(delivery.id = %id, %error, "failed to record a success");
            }
        }
    }
    payload::release(context, delivery).await;
    Ok(Disposition::Delete)
}

/// The result of recording a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    Delivered,
    /// The delivery had ended undelivered before, and counts so.
    HasEnded,
}

/// Marks a delivery that has failed before as delivered, and counts it. If it has ended meanwhile, it
/// stays so: only one of a late success and a concurrent attempt counts.
///
/// It is counted first: after a crash before the mark it is delivered and counted again; in the
/// reverse order it would never be counted.
/// After an error, the delivery is still delivered and counted.
pub async fn mark_delivered(
    context: &Context,
    known: &DeliveryState,
    mut success: Option<Entry>,
    receipt: Option<&str>,
) -> Result<Marked> {
    let mut counted = false;
    let mut note = |kind: Option<EntryKind>| {
        if let Some(entry) = success.take() {
            let kind = kind.unwrap_or(entry.kind);
            context.journal.note(Entry { kind, ..entry }, receipt);
        }
    };
    for _ in 0..WRITES_MAX {
        let stored = context.states.load(known.id).await;
        match stored.as_ref().ok().and_then(Option::as_ref).map(|state| state.status) {
            Some(DeliveryStatus::Ending { .. } | DeliveryStatus::Ended) if !counted => {
                note(Some(EntryKind::SuccessAfterEnd));
                return Ok(Marked::HasEnded);
            }
            None | Some(DeliveryStatus::Waiting { .. }) => {}
            // Another copy has counted it.
            Some(_) => {
                note(Some(EntryKind::SuccessAfterEnd));
                return Ok(Marked::Delivered);
            }
        }
        if !counted {
            note(None);
            context.meter.flush(context.clock.now());
            counted = true;
        }
        let Some(stored) = stored? else { return Ok(Marked::Delivered) };
        let copies_until = stored.last_copy_at();
        // `known` includes the attempt that succeeded, unless others have written meanwhile.
        let state = if stored.revision == known.revision { known.clone() } else { stored };
        let state = DeliveryState { copies_until, ..state };
        let state = state.over(DeliveryStatus::Delivered, context.clock.now());
        if context.states.save(&state).await? == Saved::Written {
            return Ok(Marked::Delivered);
        }
    }
    Err(PortError::new("recording a success", "others wrote at the same time"))
}

/// Settles a failed delivery that is attempted again. Its attempts include the failed one.
async fn retry(context: &Context, mut loaded: LoadedDelivery, due: Timestamp) -> Settled {
    let status = DeliveryStatus::Waiting { due };
    match write(context, &mut loaded, status).await {
        Ok(Some(_)) if loaded.resend.is_some() => wait::beside_another(context, loaded, due).await,
        Ok(Some(written)) => apply(context, loaded, written).await,
        Ok(None) => follow_stored(context, loaded).await,
        Err(error) => {
            not_written(&loaded, &error, "its message carries it on");
            wait::in_message(context, loaded, due).await
        }
    }
}

/// Settles a delivery that ends undelivered.
pub async fn end(context: &Context, mut loaded: LoadedDelivery, reason: EndReason) -> Settled {
    let at = context.clock.now();
    let status = DeliveryStatus::Ending { reason, at };
    match write(context, &mut loaded, status).await {
        Ok(Some(_)) => {
            loaded.revision += 1;
            apply(context, loaded, status).await
        }
        Ok(None) => follow_stored(context, loaded).await,
        Err(error) => {
            not_written(&loaded, &error, "its end is carried out at once");
            end::carry_out_unwritten(context, loaded, reason, at).await
        }
    }
}

/// Writes what follows a failed attempt. Returns the status in force, or `None` if another copy has
/// written first. Sets `resend` if an operator's request is still unanswered.
async fn write(
    context: &Context,
    loaded: &mut LoadedDelivery,
    status: DeliveryStatus,
) -> Result<Option<DeliveryStatus>> {
    let mut next = loaded.state(status);
    for _ in 0..WRITES_MAX {
        if context.states.save(&next).await? == Saved::Written {
            loaded.resend = next.resend;
            return Ok(Some(next.status));
        }
        let Some(stored) = context.states.load(next.id).await? else { return Ok(None) };
        let Some(over) = loaded.state_over(&stored, status) else { return Ok(None) };
        next = over;
    }
    Ok(None)
}

fn not_written(loaded: &LoadedDelivery, error: &PortError, instead: &str) {
    let (id, error) = (loaded.delivery.id, chain(error));
    tracing::warn!(delivery.id = %id, %error, instead, "failed to write a delivery's state");
}

/// Follows the state that another copy of the message has written.
async fn follow_stored(context: &Context, mut loaded: LoadedDelivery) -> Settled {
    let stored = context.states.load(loaded.delivery.id).await?;
    let Some(state) = stored else {
        let reason = "it was deleted while it was being written";
        return Err(PortError::new("reading a delivery's state", reason));
    };
    loaded.merge_state(&state);
    let waits = matches!(state.status, DeliveryStatus::Waiting { .. });
    if waits && loaded.delivery.event_count() == 0 {
        // The other copy has delivered what this one has not: together, nothing is left.
        return delivered(context, loaded, None).await;
    }
    apply(context, loaded, state.status).await
}

/// Carries out a stored state, again if need be: a state proves what was decided, not that it was
/// done.
pub async fn apply(context: &Context, loaded: LoadedDelivery, status: DeliveryStatus) -> Settled {
    match status {
        DeliveryStatus::Delivered | DeliveryStatus::Ended => {
            forget(context, &loaded.delivery, status).await
        }
        DeliveryStatus::Waiting { due } => wait_one(context, loaded, Wait::UntilDue(due)).await,
        DeliveryStatus::Ending { reason, at } => end::carry_out(context, loaded, reason, at).await,
    }
}

/// Settles a late copy of a delivery that was delivered or has ended.
pub async fn forget(context: &Context, delivery: &Delivery, status: DeliveryStatus) -> Settled {
    if status == DeliveryStatus::Delivered {
        // A late success has no message, and can't release the payload.
        payload::release(context, delivery).await;
    }
    Ok(Disposition::Delete)
}

/// Hides a record that could not be settled, for longer each time.
pub async fn retry_soon(context: &Context, record: &Record) {
    let seconds = (5 * record.receive_count).clamp(5, 120);
    if let Err(error) = context.receiver.hide(record.queue, &record.receipt, seconds).await {
        tracing::warn!(message.id = %record.message_id, error = %chain(&error), "not hidden");
    }
}

/// Moves a record that this code can't read to the poison queue.
pub async fn poison(context: &Context, record: &Record, error: &DecodeError) -> Settled {
    tracing::error!(
        message.id = %record.message_id,
        queue = ?record.queue,
        error = %chain(error),
        "undecodable message moved to the poison queue",
    );
    let group = poison_queue::group(record.queue);
    let message = Outgoing::new(record.body.clone(), group, 0);
    send_one(context, Queue::Poison, message).await?;
    let queue = format!("{:?}", record.queue);
    context.meter.count(metric::POISON_COUNT, &[("Queue", &queue)], 1);
    Ok(Disposition::Delete)
}

/// Sends one message. A failure is tried once more, which may send it twice.
async fn send_one(context: &Context, queue: Queue, message: Outgoing) -> Result<()> {
    if let Some(Ok(())) = context.sender.send(queue, vec![message.clone()]).await.pop() {
        return Ok(());
    }
    let answer = context.sender.send(queue, vec![message]).await.pop();
    answer.unwrap_or_else(|| Err(PortError::new("sending a message", "no answer came")))
}

#[cfg(test)]
mod tests;
