//! Lines about deliveries: their attempts and ends, by the journal.

use gridpost_api::{delivery::AttemptReason, journal::JournalEntry};
use gridpost_core::journal::EntryKind;
use serde::Serialize;

use crate::output::in_line;

/// A line about a delivery. `--json` prints it with the names that it has in the log.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize)]
pub struct AttemptLine {
    /// The journal's own id of it: the same each time it is read.
    #[serde(skip)]
    pub id: String,
    /// When it happened, in milliseconds since the Unix epoch.
    #[serde(skip)]
    pub at_ms: i64,
    #[serde(skip)]
    pub kind: EntryKind,
    #[serde(rename = "delivery.id")]
    pub delivery: String,
    pub timestamp: String,
    pub message: &'static str,
    /// Its topic and name, with a slash.
    pub subscription: String,
    /// The number of the attempt; not there for an end.
    pub attempt: Option<u32>,
    pub outcome: Option<String>,
    pub status: Option<u16>,
    pub duration_ms: Option<u64>,
    /// `Retry`, `End` or `Delivered`.
    pub decision: Option<&'static str>,
    pub due: Option<String>,
    /// An [`AttemptReason`], of a deployment that may know more of them.
    pub because: Option<String>,
    /// The reason why the delivery ended.
    pub reason: Option<String>,
    pub events: u32,
    /// How many attempts a delivery had that ended.
    pub attempts: Option<u32>,
    /// How often the message had been received.
    pub receives: Option<u32>,
    /// A JSON array, of 100 ids at most.
    event_ids: String,
    pub publish_time: String,
    pub traceparent: Option<String>,
    /// How a failed response began.
    pub response: Option<String>,
}

impl From<JournalEntry> for AttemptLine {
    fn from(entry: JournalEntry) -> Self {
        let (kind, is_end) = (entry.kind, entry.kind.is_end());
        let (message, decision) = match kind {
            EntryKind::Success => ("attempt succeeded", Some("Delivered")),
            EntryKind::LateSuccess => {
                ("attempt succeeded late and is taken out of retry", Some("Delivered"))
            }
            EntryKind::SuccessAfterEnd => ("attempt succeeded after its events had ended", None),
            EntryKind::Failure if entry.due.is_some() => ("attempt failed", Some("Retry")),
            EntryKind::Failure => ("attempt failed", Some("End")),
            EntryKind::Ending => ("ended undelivered, goes to its dead-letter destination", None),
            EntryKind::DeadLettered => ("dead letter written", None),
            EntryKind::Dropped => ("events dropped", None),
        };
        let has_number = matches!(kind, EntryKind::Success | EntryKind::Failure);
        Self {
            id: entry.id,
            at_ms: entry.time.0.as_millis(),
            kind,
            delivery: entry.delivery_id.to_string(),
            timestamp: entry.time.to_string(),
            message,
            subscription: format!("{}/{}", entry.topic, entry.event_subscription),
            attempt: has_number.then_some(entry.attempt),
            outcome: entry.outcome,
            status: entry.http_status_code,
            duration_ms: entry.duration_in_ms,
            decision,
            due: entry.due.map(|due| due.to_string()),
            because: entry.wait_because.map(|because| because.to_string()),
            reason: entry.reason,
            events: entry.events,
            attempts: is_end.then_some(entry.attempt),
            receives: entry.receives,
            event_ids: serde_json::to_string(&entry.event_ids).unwrap_or_default(),
            publish_time: entry.publish_time.to_string(),
            traceparent: entry.traceparent,
            response: entry.response,
        }
    }
}

impl AttemptLine {
    /// Whether it is about an attempt, and not about an end.
    pub fn is_attempt(&self) -> bool {
        !self.is_end()
    }

    /// Whether it is about how a delivery ended undelivered.
    pub fn is_end(&self) -> bool {
        self.kind.is_end()
    }

    /// Whether it is about a success that came after its attempt had timed out.
    pub fn is_late_success(&self) -> bool {
        self.kind == EntryKind::LateSuccess
    }

    /// Whether it says that the events that it names were delivered.
    pub fn is_success(&self) -> bool {
        matches!(self.kind, EntryKind::Success | EntryKind::LateSuccess)
    }

    /// Returns the ids of the events that its delivery carries.
    pub fn event_ids(&self) -> Vec<String> {
        serde_json::from_str(&self.event_ids).unwrap_or_default()
    }

    /// Returns the topic and the name of its event subscription.
    pub fn subscription(&self) -> (&str, &str) {
        self.subscription.split_once('/').unwrap_or_default()
    }

    /// Describes the outcome, what follows and when.
    pub fn describe(&self) -> String {
        if self.is_end() {
            return self.describe_end();
        }
        let mut text = describe_outcome(self.outcome.as_deref().unwrap_or("-"), self.status);
        if let Some(duration) = self.duration_ms {
            text.push_str(&format!(" after {duration} ms"));
        }
        if self.is_late_success() {
            text.push_str(
                ", too late for its attempt, which had timed out: it is taken out of retry",
            );
        }
        if self.kind == EntryKind::SuccessAfterEnd {
            text.push_str(", too late: its events had ended, and this counts nothing");
        }
        match (&self.due, &self.reason) {
            (Some(due), _) => {
                text.push_str(&format!("; again at {due}"));
                if let Some(because) = &self.because {
                    let because = because.parse().map(describe_reason).unwrap_or(because);
                    text.push_str(&format!(", {because}"));
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

    /// Describes how a delivery ended undelivered: a loss looks like nothing else.
    fn describe_end(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("-");
        let last = match (self.outcome.as_deref(), self.status) {
            (Some("Probation"), _) => " (no attempt: its endpoint was on probation)".to_owned(),
            (Some(outcome), Some(status)) => format!(" (last attempt: {outcome}, {status})"),
            (Some(outcome), None) => format!(" (last attempt: {outcome})"),
            (None, _) => String::new(),
        };
        match self.kind {
            EntryKind::Dropped => format!("LOST FOR GOOD, dropped for {reason}{last}"),
            EntryKind::DeadLettered => format!("in a dead letter for {reason}{last}"),
            _ => format!("to its dead-letter destination for {reason}{last}"),
        }
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
        serde_json::from_value::<JournalEntry>(entry).expect("an entry").into()
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
            "timestamp": "2026-01-01T00:00:00.000Z", "message": "attempt failed",
            "delivery.id": "00000000-0000-0000-0000-000000000001", "subscription": "orders/one",
            "attempt": 1, "outcome": "Busy", "status": 503, "duration_ms": 41, "decision": "Retry",
            "due": "2026-01-01T00:00:00.000Z", "because": "LeastWait", "receives": 2, "events": 1,
            "event_ids": "[\"e-1\",\"e \\\"2\\\"\"]", "traceparent": "t", "response": "no",
            "publish_time": "2026-01-01T00:00:00.000Z",
        });
        assert_eq!(json!(line(&failed)), want);
        assert_eq!(line(&failed).event_ids(), ["e-1", "e \"2\""]);
        let ended = json!(line(&json!({"kind": "Dropped", "reason": "R"})));
        assert_eq!((&ended["attempts"], &ended["attempt"]), (&json!(1), &Value::Null));
    }
}
