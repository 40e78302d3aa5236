//! Describes deliveries that have failed.

use gridpost_api::delivery::{Attempt, Delivery, DeliveryShown, DeliveryStatus, NextAttempt};

use crate::{
    attempt_lines::{describe_outcome, describe_reason},
    output::{self, or_dash},
};

/// Describes a delivery: its status, its attempts, and what comes next.
pub fn describe(delivery: &DeliveryShown) -> String {
    let DeliveryShown { delivery, attempts, next } = delivery;
    let Delivery { id, publish_time, events, .. } = delivery;
    let status = describe_status(delivery);
    let events = output::count(u64::from(*events), "event");
    let rows: Vec<_> = attempts.iter().map(row).collect();
    let rows = output::columns(&rows);
    let next = next.as_ref().map(describe_next).unwrap_or_default();
    format!("delivery {id}: {status}, {events} published at {publish_time}\n{rows}{next}")
}

fn row(attempt: &Attempt) -> [String; 3] {
    let outcome = describe_outcome(&attempt.outcome, attempt.http_status_code);
    let mut text = format!("{outcome} after {} ms", attempt.duration_in_ms);
    if let Some(events) = attempt.events {
        text.push_str(&format!(", of {}", output::count(u64::from(events), "event")));
    }
    if let Some(response) = &attempt.response {
        text.push_str(&format!("; it said: {response}"));
    }
    [format!("  {}", attempt.attempt), attempt.start_time.to_string(), text]
}

fn describe_status(delivery: &Delivery) -> String {
    match delivery.status {
        DeliveryStatus::Waiting => "waits".to_owned(),
        DeliveryStatus::Ending => format!("ends: {}", or_dash(delivery.reason.as_ref())),
        DeliveryStatus::Ended => "ended undelivered".to_owned(),
        DeliveryStatus::Delivered => "delivered".to_owned(),
    }
}

fn describe_next(next: &NextAttempt) -> String {
    let NextAttempt { attempt, not_before, expires, because, endpoint_waits_until, .. } = next;
    let from = endpoint_waits_until.as_ref().unwrap_or(not_before);
    if from >= expires {
        return format!("\nnext: its time-to-live ends at {expires}, before attempt {attempt}");
    }
    let because = because.map(|reason| format!(", {}", describe_reason(reason)));
    format!(
        "\nnext: attempt {attempt} not before {from}{}; its time-to-live ends at {expires}",
        because.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::documents;

    #[test]
    fn a_delivery_is_told_in_words() {
        let [first, second, third] =
            ["01", "02", "03"].map(|day| format!("2026-01-{day}T00:00:00.000Z"));
        let id = "00000000-0000-0000-0000-000000000001";
        let mut delivery = documents::delivery(&json!({
            "events": 3, "publishTime": first,
            "attempts": [{"attempt": 2, "startTime": first, "durationInMs": 41, "outcome": "Busy",
                "httpStatusCode": 503}],
            "next": {"attempt": 3, "notBefore": first, "because": "LeastWait", "expires": second},
        }));
        let describe = |delivery: &serde_json::Value| {
            let delivery: DeliveryShown = serde_json::from_value(delivery.clone()).expect("whole");
            describe(&delivery)
        };
        assert_eq!(
            describe(&delivery),
            format!(
                "delivery {id}: waits, 3 events published at {first}\n  2  {first}  Busy (503) after \
                 41 ms\nnext: attempt 3 not before {first}, the least wait of its outcome; its \
                 time-to-live ends at {second}"
            )
        );
        delivery["attempts"][0]["response"] = json!("no \\n such order");
        let text = describe(&delivery);
        assert!(text.contains("after 41 ms; it said: no \\n such order\n"), "{text}");
        delivery["next"]["endpointWaitsUntil"] = json!(third);
        let text = describe(&delivery);
        let want = format!("its time-to-live ends at {second}, before attempt 3");
        assert!(text.ends_with(&want), "{text}");
    }
}
