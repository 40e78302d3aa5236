//! A delivery that has failed, in words.

use serde_json::Value;

use crate::{
    attempt_lines::{because_of, met},
    output::{self, text_at},
};

/// A delivery in words: its status, its attempts, and what comes next.
pub fn describe(delivery: &Value) -> String {
    let at = |pointer| text_at(delivery, pointer);
    let mut text = format!(
        "delivery {}: {}, {} published at {}\n",
        at("/id"),
        status(delivery),
        output::count(delivery["events"].as_u64().unwrap_or(0), "event"),
        at("/publishTime"),
    );
    let row = |attempt: &Value| {
        let at = |pointer| text_at(attempt, pointer).to_owned();
        let met = met(&at("/outcome"), attempt["httpStatusCode"].as_u64());
        let met = format!("{met} after {} ms", attempt["durationInMs"]);
        let met = match attempt["events"].as_u64() {
            Some(events) => format!("{met}, of {}", output::count(events, "event")),
            None => met,
        };
        let met = match attempt["response"].as_str() {
            Some(said) => format!("{met}; it said: {said}"),
            None => met,
        };
        [format!("  {}", attempt["attempt"]), at("/startTime"), met]
    };
    let rows: Vec<_> = delivery["attempts"].as_array().into_iter().flatten().map(row).collect();
    text.push_str(&output::columns(&rows));
    if let Some(next) = delivery.get("next") {
        text.push_str(&format!("\n{}", next_in_words(next)));
    }
    text
}

fn status(delivery: &Value) -> String {
    match text_at(delivery, "/status") {
        "Waiting" => "waits".to_owned(),
        "Ending" => format!("ends: {}", text_at(delivery, "/reason")),
        "Ended" => "ended undelivered".to_owned(),
        "Delivered" => "delivered".to_owned(),
        other => other.to_owned(),
    }
}

fn next_in_words(next: &Value) -> String {
    let at = |pointer| text_at(next, pointer);
    let (not_before, expires) = (at("/notBefore"), at("/expires"));
    let from = match next["endpointWaitsUntil"].as_str() {
        Some(until) => until,
        None => not_before,
    };
    // Both are UTC in one form: as texts they are in the order of time.
    if from >= expires {
        return format!(
            "next: its time-to-live ends at {expires}, before attempt {}",
            next["attempt"]
        );
    }
    let because = next["because"].as_str().map(|because| format!(", {}", because_of(because)));
    format!(
        "next: attempt {} not before {from}{}; its time-to-live ends at {expires}",
        next["attempt"],
        because.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delivery_is_told_in_words() {
        let mut delivery = json!({
            "id": "d-1", "status": "Waiting", "events": 3, "publishTime": "P",
            "attempts": [{"attempt": 2, "startTime": "S", "durationInMs": 41, "outcome": "Busy",
                "httpStatusCode": 503}],
            "next": {"attempt": 3, "notBefore": "2026-01-01", "because": "LeastWait",
                "expires": "2026-01-02"},
        });
        let text = describe(&delivery);
        assert_eq!(
            text,
            "delivery d-1: waits, 3 events published at P\n  2  S  Busy (503) after 41 ms\n\
             next: attempt 3 not before 2026-01-01, the least wait of its outcome; its time-to-live \
             ends at 2026-01-02"
        );
        delivery["attempts"][0]["response"] = json!("no \\n such order");
        let text = describe(&delivery);
        assert!(text.contains("after 41 ms; it said: no \\n such order\n"), "{text}");
        delivery["next"]["endpointWaitsUntil"] = json!("2026-01-03");
        let text = describe(&delivery);
        assert!(text.ends_with("its time-to-live ends at 2026-01-02, before attempt 3"), "{text}");
    }
}
