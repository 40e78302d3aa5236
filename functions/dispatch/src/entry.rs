//! Makes the journal's entries about attempts and ends of deliveries.

use std::time::Duration;

use gridpost_core::{
    delivery::{Delivery, event_set::EventSet, state::DeliveryState},
    journal::{Entry, EntryKind},
    retry::{
        EndReason,
        outcome::{Answer, Outcome},
    },
    time::Timestamp,
};

use crate::{
    decide::NextStep,
    loaded::LoadedDelivery,
    response::{Times, Try},
};

/// Makes the entry of a failed attempt, which the delivery's attempts already include.
pub fn failed(
    loaded: &LoadedDelivery,
    answer: Answer,
    times: Times,
    then: NextStep,
    response: Option<String>,
) -> Entry {
    let (due, because, reason) = match then {
        NextStep::Retry { due, because } => (Some(due), Some(because), None),
        NextStep::End(reason) => (None, None, Some(reason.to_string())),
        NextStep::Delivered => (None, None, None),
    };
    let delivery = &loaded.delivery;
    Entry {
        attempt: delivery.attempts.made,
        due,
        because,
        reason,
        receives: Some(loaded.record.receive_count),
        event_ids: delivery.event_ids(),
        response,
        ..of_attempt(loaded, EntryKind::Failure, answer, times)
    }
}

/// Makes the entry of a successful attempt, which the delivery's attempts do not include. `part` has its
/// events if it failed for the rest.
pub fn succeeded(
    loaded: &LoadedDelivery,
    part: Option<&EventSet>,
    answer: Answer,
    times: Times,
    is_kept: bool,
) -> Entry {
    let delivery = &loaded.delivery;
    let whole = of_attempt(loaded, EntryKind::Success, answer, times);
    match part {
        Some(part) => Entry {
            part: part.number(),
            events: count(part.len()),
            event_ids: delivery.event_ids_of(part),
            ..whole
        },
        // Of each delivery that succeeds at once, which must not cost more than it has to.
        None if whole.attempt == 1 && !is_kept => whole,
        None => Entry { event_ids: delivery.event_ids(), ..whole },
    }
}

fn of_attempt(
    loaded: &LoadedDelivery,
    kind: EntryKind,
    answer: Answer,
    (began_at, ended_at): Times,
) -> Entry {
    let delivery = &loaded.delivery;
    Entry {
        at: ended_at,
        attempt: delivery.attempts.made + 1,
        outcome: Some(answer.outcome),
        status: answer.status,
        took: Some(ended_at.since(began_at)),
        ..Entry::of(delivery, kind)
    }
}

/// Makes the entry of a success that came after its attempt had timed out.
pub fn late_success(
    state: &DeliveryState,
    event_ids: String,
    (status, took): (Option<u16>, Duration),
    at: Timestamp,
) -> Entry {
    Entry {
        kind: EntryKind::LateSuccess,
        at,
        delivery: state.id,
        subscription: state.subscription.clone(),
        publish_time: state.publish_time,
        attempt: state.attempts.made,
        part: 0,
        outcome: Some(Outcome::Delivered),
        status,
        took: Some(took),
        due: None,
        because: None,
        reason: None,
        receives: None,
        events: state.events,
        event_ids,
        trace_parent: None,
        response: None,
    }
}

/// Makes the entry of an end without delivery.
pub fn ended(delivery: &Delivery, kind: EntryKind, reason: EndReason, at: Timestamp) -> Entry {
    Entry::end(delivery, kind, reason.to_string(), at)
}

/// Logs the request of a part of a batch that is being split.
pub fn log_part(deliveries: &[LoadedDelivery], Try { answer, times, .. }: Try) {
    let Some(first) = deliveries.first() else { return };
    tracing::info!(
        delivery.id = %first.delivery.id,
        subscription = %first.subscription().key,
        attempt = first.delivery.attempts.made + 1,
        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = u64::try_from(times.1.since(times.0).as_millis()).unwrap_or(u64::MAX),
        deliveries = deliveries.len(),
        events = deliveries.iter().map(|loaded| loaded.delivery.event_count()).sum::<usize>(),
        "part of a refused batch attempted",
    );
}

fn count(events: usize) -> u32 {
    u32::try_from(events).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
