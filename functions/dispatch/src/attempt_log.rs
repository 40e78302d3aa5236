//! Writes one self-contained log line per attempt: the delivery, the attempt's number, its outcome,
//! and what follows when. Events and the endpoint's URL are left out, unless the response repeats
//! them and the deployment keeps the beginning of responses.

use crate::{
    decide::NextStep,
    loaded::LoadedDelivery,
    response::{Times, Try},
};
use gridpost_core::{delivery::event_set::EventSet, retry::outcome::Answer, time::Timestamp};

/// Logs a failed attempt, which the delivery's attempts already include.
pub fn failed(
    loaded: &LoadedDelivery,
    answer: Answer,
    (began_at, ended_at): Times,
    then: NextStep,
    response_text: Option<&str>,
) {
    let (what, due, because, reason) = match then {
        NextStep::Retry { due, because } => ("Retry", Some(due), Some(because), None),
        NextStep::End(reason) => ("End", None, None, Some(reason)),
        NextStep::Delivered => ("Delivered", None, None, None),
    };
    let delivery = &loaded.delivery;
    tracing::info!(
        delivery.id = %delivery.id,
        subscription = %loaded.subscription().key,
        attempt = delivery.attempts.made,
        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = duration_ms(began_at, ended_at),
        decision = what,
        receives = loaded.record.receive_count,
        due = due.map(|due| tracing::field::display(due.to_iso_8601())),
        because = because.map(tracing::field::display),
        reason = reason.map(tracing::field::display),
        events = delivery.event_count(),
        event_ids = delivery.event_ids(),
        publish_time = %delivery.publish_time.to_iso_8601(),
        traceparent = delivery.traceparent.map(tracing::field::display),
        response = response_text,
        "attempt failed",
    );
}

/// Logs a successful attempt, which the delivery's attempts do not include. `part` names its events
/// if it failed for the rest.
pub fn succeeded(
    loaded: &LoadedDelivery,
    part: Option<&EventSet>,
    answer: Answer,
    (began_at, ended_at): Times,
) {
    let delivery = &loaded.delivery;
    let whole = || (delivery.event_count(), delivery.event_ids());
    let (events, event_ids) =
        part.map_or_else(whole, |part| (part.len(), delivery.event_ids_of(part)));
    tracing::info!(
        delivery.id = %delivery.id,
        subscription = %loaded.subscription().key,
        attempt = delivery.attempts.made + 1,
        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = duration_ms(began_at, ended_at),
        decision = "Delivered",
        events,
        event_ids,
        publish_time = %delivery.publish_time.to_iso_8601(),
        traceparent = delivery.traceparent.map(tracing::field::display),
        "attempt succeeded",
    );
}

/// Logs the request of a part of a batch that is being split.
pub fn part(deliveries: &[LoadedDelivery], Try { answer, times, .. }: Try) {
    let Some(first) = deliveries.first() else { return };
    tracing::info!(
        delivery.id = %first.delivery.id,
        subscription = %first.subscription().key,
        attempt = first.delivery.attempts.made + 1,
        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = duration_ms(times.0, times.1),
        deliveries = deliveries.len(),
        events = deliveries.iter().map(|loaded| loaded.delivery.event_count()).sum::<usize>(),
        "part of a refused batch attempted",
    );
}

pub fn duration_ms(began_at: Timestamp, ended_at: Timestamp) -> u64 {
    u64::try_from(ended_at.since(began_at).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
