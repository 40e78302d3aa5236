//! One log line for each attempt, which reads alone: whose delivery, which attempt, what it met, what
//! follows and when. Neither the events nor the endpoint's URL are in it.

use std::borrow::Cow;

use gridpost::{
    delivery::{Delivery, outcome::Answer, retry::Decision},
    time::Timestamp,
};
use serde::Deserialize;
use serde_json::json;

use crate::prepare::Work;

/// Ids of events in one line, at most.
const IDS_MAX: usize = 100;

/// Bytes of these ids together, at most.
const IDS_BYTES_MAX: usize = 4_096;

/// Logs a failed attempt, which the delivery's attempts count already.
pub fn failed(
    work: &Work,
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
    decision: Decision,
) {
    let (what, due, because, reason) = match decision {
        Decision::Retry { due, because } => ("Retry", Some(due), Some(because), None),
        Decision::End(reason) => ("End", None, None, Some(reason)),
    };
    let delivery = &work.delivery;
    tracing::info!(
        delivery.id = %delivery.id,
        subscription = %work.subscription.key,
        attempt = delivery.attempts.made,
        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = duration_ms(began_at, ended_at),
        decision = what,
        due = due.map(|due| tracing::field::display(due.to_iso_8601())),
        because = because.map(tracing::field::display),
        reason = reason.map(tracing::field::display),
        events = delivery.event_count(),
        event_ids = event_ids(delivery),
        publish_time = %delivery.publish_time.to_iso_8601(),
        traceparent = delivery.traceparent.map(tracing::field::display),
        "attempt failed",
    );
}

/// Logs a successful attempt, which the delivery's attempts do not count.
pub fn succeeded(work: &Work, answer: Answer, (began_at, ended_at): (Timestamp, Timestamp)) {
    let delivery = &work.delivery;
    tracing::info!(
        delivery.id = %delivery.id,
        subscription = %work.subscription.key,
        attempt = delivery.attempts.made + 1,
        outcome = %answer.outcome,
        status = answer.status,
        duration_ms = duration_ms(began_at, ended_at),
        decision = "Delivered",
        events = delivery.event_count(),
        event_ids = event_ids(delivery),
        publish_time = %delivery.publish_time.to_iso_8601(),
        traceparent = delivery.traceparent.map(tracing::field::display),
        "attempt succeeded",
    );
}

/// Milliseconds that an attempt took.
pub fn duration_ms(began_at: Timestamp, ended_at: Timestamp) -> u64 {
    u64::try_from(ended_at.since(began_at).as_millis()).unwrap_or(u64::MAX)
}

/// The ids of a delivery's events as a JSON array, as many as fit. Events of a publisher's own schema
/// have none that is known here, and events that are not in hand either.
pub fn event_ids(delivery: &Delivery) -> String {
    #[derive(Deserialize)]
    struct Named<'e> {
        #[serde(borrow)]
        id: Cow<'e, str>,
    }
    let mut bytes = 0;
    let ids = delivery.events().iter().take(IDS_MAX);
    let ids = ids.filter_map(|event| serde_json::from_str::<Named<'_>>(event.get()).ok());
    let ids = ids.map(|named| named.id).take_while(|id| {
        bytes += id.len();
        bytes <= IDS_BYTES_MAX
    });
    json!(ids.collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests;
