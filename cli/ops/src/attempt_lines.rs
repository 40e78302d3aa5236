//! Lines about deliveries: their attempts and ends, by the journal.

use std::ops::Deref;

use gridpost_api::{delivery::AttemptReason, journal::JournalEntry, schema::Time};
use gridpost_core::{journal::EntryKind, retry::DelayReason};
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::output::in_line;

/// An entry of the journal as a line. `--json` prints it as the log has it.
#[derive(Clone, Debug)]
pub struct AttemptLine(pub JournalEntry);

impl Deref for AttemptLine {
    type Target = JournalEntry;

    fn deref(&self) -> &JournalEntry {
        &self.0
    }
}

impl Serialize for AttemptLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = Line {
            delivery: self.delivery_id,
            timestamp: self.time,
            level: if self.kind.is_end() { "WARN" } else { "INFO" },
            target: "gridpost_ports::journal",
            message: self.kind.message(),
            subscription: self.subscription(),
            attempt: self.number(),
            outcome: self.outcome.as_deref(),
            status: self.http_status_code,
            duration_ms: self.duration_in_ms,
            decision: self.kind.decision(self.due.is_some()),
            due: self.due,
            because: self.wait_because,
            reason: self.reason.as_deref(),
            events: self.events,
            attempts: self.kind.is_end().then_some(self.attempt),
            receives: self.receives,
            event_ids: serde_json::to_string(&self.event_ids).unwrap_or_default(),
            publish_time: self.publish_time,
            traceparent: self.traceparent.as_deref(),
            response: self.response.as_deref(),
        };
        line.serialize(serializer)
    }
}

/// A line with the names of the log.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "delivery.id")]
    delivery: Uuid,
    timestamp: Time,
    level: &'static str,
    target: &'static str,
    message: &'static str,
    subscription: String,
    attempt: Option<u32>,
    outcome: Option<&'a str>,
    status: Option<u16>,
    duration_ms: Option<u64>,
    decision: Option<&'static str>,
    due: Option<Time>,
    because: Option<DelayReason>,
    reason: Option<&'a str>,
    events: u32,
    attempts: Option<u32>,
    receives: Option<u32>,
    /// A JSON array, of 100 ids at most.
    event_ids: String,
    publish_time: Time,
    traceparent: Option<&'a str>,
    response: Option<&'a str>,
}

impl AttemptLine {
    /// Returns the number of the attempt; `None` for an end, and for a success that came late.
    pub fn number(&self) -> Option<u32> {
        let has_number = matches!(self.kind, EntryKind::Success | EntryKind::Failure);
        has_number.then_some(self.attempt)
    }

    /// Returns the number of the attempt in words: `#2`, `late` or `end`.
    pub fn label(&self) -> String {
        match self.number() {
            Some(number) => format!("#{number}"),
            None => if self.kind.is_end() { "end" } else { "late" }.to_owned(),
        }
    }

    /// Returns the topic and the name of its event subscription, with a slash.
    pub fn subscription(&self) -> String {
        format!("{}/{}", self.topic, self.event_subscription)
    }

    /// Whether it says that the events that it names were delivered.
    pub fn is_success(&self) -> bool {
        matches!(self.kind, EntryKind::Success | EntryKind::LateSuccess)
    }

    /// Describes the outcome, what follows and when.
    pub fn describe(&self) -> String {
        let fate = self.describe_fate();
        if self.kind.is_end() {
            return fate.unwrap_or_default();
        }
        let mut text =
            describe_outcome(self.outcome.as_deref().unwrap_or("-"), self.http_status_code);
        if let Some(duration) = self.duration_in_ms {
            text.push_str(&format!(" after {duration} ms"));
        }
        if let Some(fate) = fate {
            text.push_str(&format!(", {fate}"));
        }
        match (&self.due, &self.reason) {
            (Some(due), _) => {
                text.push_str(&format!("; again at {due}"));
                if let Some(because) = self.wait_because {
                    text.push_str(&format!(", {}", describe_reason(because.into())));
                }
            }
            (None, Some(reason)) => text.push_str(&format!("; ends: {reason}")),
            _ => {}
        }
        if let Some(response) = &self.response {
            text.push_str(&format!("; it said: {response}"));
        }
        in_line(&text).into_owned()
    }

    /// Describes a success that came late, or how a delivery ended undelivered: a loss looks like
    /// nothing else. Returns `None` for other attempts.
    pub fn describe_fate(&self) -> Option<String> {
        let reason = self.reason.as_deref().unwrap_or("-");
        let last = match (self.outcome.as_deref(), self.http_status_code) {
            (Some("Probation"), _) => " (no attempt: its endpoint was on probation)".to_owned(),
            (Some(outcome), Some(status)) => format!(" (last attempt: {outcome}, {status})"),
            (Some(outcome), None) => format!(" (last attempt: {outcome})"),
            (None, _) => String::new(),
        };
        Some(match self.kind {
            EntryKind::Success | EntryKind::Failure => return None,
            EntryKind::LateSuccess => {
                "too late for its attempt, which had timed out: it is taken out of retry".to_owned()
            }
            EntryKind::SuccessAfterEnd => {
                "too late: its events had ended, and this counts nothing".to_owned()
            }
            EntryKind::Ending => format!("to its dead-letter destination for {reason}{last}"),
            EntryKind::DeadLettered => format!("in a dead letter for {reason}{last}"),
            EntryKind::Dropped => format!("LOST FOR GOOD, dropped for {reason}{last}"),
        })
    }
}

/// Describes an attempt's outcome with the HTTP status, and what a redirect means.
pub fn describe_outcome(outcome: &str, status: Option<u16>) -> String {
    match status {
        None => outcome.to_owned(),
        Some(status @ (301..=303 | 307 | 308)) => {
            format!("{outcome} ({status}, a redirect: none is followed)")
        }
        Some(status) => format!("{outcome} ({status})"),
    }
}

/// Describes why an attempt is made when it is.
pub fn describe_reason(reason: AttemptReason) -> &'static str {
    match reason {
        AttemptReason::Schedule => "the next step of its schedule",
        AttemptReason::LeastWait => "the least wait of its outcome",
        AttemptReason::RetryAfter => "which its Retry-After asks for",
        AttemptReason::EndpointWaits => "when the endpoint's probation or delayed delivery ends",
        AttemptReason::Resend => "because an operator asked for it",
        AttemptReason::Pause => "once the event subscription is resumed",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::documents;

    fn line(patch: &Value) -> AttemptLine {
        let entry = documents::journal_entry(patch);
        AttemptLine(serde_json::from_value(entry).expect("an entry"))
    }

    #[test]
    fn a_redirect_is_told_as_one() {
        let table = [
            (None, "ServerError"),
            (Some(308), "ServerError (308, a redirect: none is followed)"),
            (Some(304), "ServerError (304)"),
            (Some(500), "ServerError (500)"),
        ];
        for (status, want) in table {
            assert_eq!(describe_outcome("ServerError", status), want);
        }
    }

    #[test]
    fn lines_are_told_in_words() {
        let reason = json!("UndeliverableDueToHttpBadRequest");
        // (entry, what is told)
        let table = [
            (
                json!({"due": documents::TIME, "waitBecause": "LeastWait"}),
                "Busy (503) after 41 ms; again at 2026-01-01T00:00:00.000Z, the least wait of its outcome",
            ),
            (
                json!({"reason": "R", "response": "no such\u{1b}[2J order"}),
                "Busy (503) after 41 ms; ends: R; it said: no such\\u001b[2J order",
            ),
            (
                json!({"kind": "LateSuccess", "outcome": "Delivered", "httpStatusCode": 200}),
                "Delivered (200) after 41 ms, too late for its attempt, which had timed out: it is taken \
                 out of retry",
            ),
            (
                json!({"kind": "SuccessAfterEnd", "outcome": "Delivered", "httpStatusCode": null}),
                "Delivered after 41 ms, too late: its events had ended, and this counts nothing",
            ),
            (
                json!({"kind": "Dropped", "reason": reason, "outcome": "BadRequest", "httpStatusCode": null}),
                "LOST FOR GOOD, dropped for UndeliverableDueToHttpBadRequest (last attempt: BadRequest)",
            ),
            (
                json!({"kind": "Ending", "reason": "TimeToLiveExceeded"}),
                "to its dead-letter destination for TimeToLiveExceeded (last attempt: Busy, 503)",
            ),
            (
                json!({"kind": "DeadLettered", "reason": "R", "outcome": "Probation"}),
                "in a dead letter for R (no attempt: its endpoint was on probation)",
            ),
        ];
        for (patch, want) in table {
            assert_eq!(line(&patch).describe(), want, "{patch}");
        }
    }

    #[test]
    fn a_line_has_the_names_of_the_log() {
        let failed = json!({"due": documents::TIME, "waitBecause": "LeastWait", "receives": 2,
            "eventIds": ["e-1", "e \"2\""], "traceparent": "t", "response": "no"});
        let want = json!({
            "timestamp": "2026-01-01T00:00:00.000Z", "message": "attempt failed", "level": "INFO",
            "target": "gridpost_ports::journal",
            "delivery.id": "00000000-0000-0000-0000-000000000001", "subscription": "orders/one",
            "attempt": 1, "outcome": "Busy", "status": 503, "duration_ms": 41, "decision": "Retry",
            "due": "2026-01-01T00:00:00.000Z", "because": "LeastWait", "receives": 2, "events": 1,
            "event_ids": "[\"e-1\",\"e \\\"2\\\"\"]", "traceparent": "t", "response": "no",
            "publish_time": "2026-01-01T00:00:00.000Z",
        });
        assert_eq!(json!(line(&failed)), want);
        let ended = json!(line(&json!({"kind": "Dropped", "reason": "R"})));
        assert_eq!((&ended["attempts"], &ended["attempt"]), (&json!(1), &Value::Null));
        assert_eq!(
            (&ended["level"], &ended["message"]),
            (&json!("WARN"), &json!("events dropped"))
        );
    }

    #[test]
    fn each_kind_has_its_label() {
        let label = |kind: &str| line(&json!({"kind": kind, "attempt": 2})).label();
        let kinds = ["Success", "Failure", "LateSuccess", "SuccessAfterEnd", "Ending", "Dropped"];
        assert_eq!(kinds.map(label), ["#2", "#2", "late", "late", "end", "end"]);
    }
}
