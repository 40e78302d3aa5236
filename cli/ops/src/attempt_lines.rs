//! Lines about deliveries in the logs of dispatch, which attempts and ends them, and of dead-letter, which may
//! have to drop their events. The logs are CloudWatch Logs, or the local stack's.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use gridpost_api::delivery::AttemptReason;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    audit::logs::{LogEvent, LogQuery, each_event, group_of, no_group},
    aws_api::{AwsApi, Service},
    aws_refusal::AwsRefusal,
    output::in_line,
    progress::Progress,
    target::Target,
};

/// A filter pattern that each line about a delivery matches.
const OF_A_DELIVERY: &str = "\"delivery.id\"";

/// The logs of a deployment's dispatch and dead-letter.
#[derive(Clone, Debug)]
pub struct AttemptLog {
    logs: AwsApi,
    group: String,
    /// Does not exist before something ends for the first time.
    dead_letter_group: String,
    /// Whether a note has said that the latter may not be read.
    is_noted: Arc<AtomicBool>,
}

/// A line about a delivery, as it was logged.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AttemptLine {
    /// The log's own id of it: the same each time it is read.
    #[serde(skip)]
    pub id: String,
    /// When it was logged, in milliseconds since the Unix epoch.
    #[serde(skip)]
    pub at_ms: i64,
    #[serde(rename = "delivery.id")]
    pub delivery: String,
    pub timestamp: String,
    pub message: String,
    /// Its topic and name, with a slash.
    pub subscription: Option<String>,
    /// The number of the attempt; not there for an end.
    pub attempt: Option<u32>,
    pub outcome: Option<String>,
    pub status: Option<u16>,
    pub duration_ms: Option<u64>,
    /// `Retry`, `End` or `Delivered`.
    pub decision: Option<String>,
    pub due: Option<String>,
    /// An [`AttemptReason`], of a deployment that may know more of them.
    pub because: Option<String>,
    /// The reason why the delivery ended.
    pub reason: Option<String>,
    pub events: Option<u32>,
    /// How many attempts a delivery had that ended.
    pub attempts: Option<u32>,
    /// How often the message had been received.
    pub receives: Option<u64>,
    /// A JSON array, of 100 ids at most.
    pub(crate) event_ids: Option<String>,
    pub traceparent: Option<String>,
    /// How a failed response began.
    pub response: Option<String>,
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl AttemptLog {
    /// Opens the logs of a deployment.
    pub async fn connect(target: &Target) -> anyhow::Result<Self> {
        Ok(Self::of(AwsApi::connect(Service::Logs, target).await?, target.name_prefix()))
    }

    fn of(logs: AwsApi, name_prefix: &str) -> Self {
        Self {
            logs,
            group: group_of(name_prefix, "dispatch"),
            dead_letter_group: group_of(name_prefix, "dead-letter"),
            is_noted: Arc::default(),
        }
    }

    /// Reads the lines from `since_ms` on that contain a text, in their order; without one, all lines about
    /// deliveries.
    pub async fn read(
        &self,
        since_ms: i64,
        text: Option<&str>,
    ) -> anyhow::Result<Vec<AttemptLine>> {
        let pattern = text.map_or_else(|| OF_A_DELIVERY.to_owned(), quoted);
        self.query(since_ms, None, pattern).await
    }

    /// Reads the lines about deliveries from one time on and before another one, in their order.
    pub async fn between(&self, from_ms: i64, to_ms: i64) -> anyhow::Result<Vec<AttemptLine>> {
        // The local stack's log does not stop there.
        let mut lines = self.query(from_ms, Some(to_ms), OF_A_DELIVERY.to_owned()).await?;
        lines.retain(|line| line.at_ms < to_ms);
        Ok(lines)
    }

    async fn query(
        &self,
        start_time: i64,
        end_time: Option<i64>,
        filter_pattern: String,
    ) -> anyhow::Result<Vec<AttemptLine>> {
        let query = LogQuery { start_time, end_time, filter_pattern, ..LogQuery::default() };
        let lines = self.lines_of(&self.group, query.clone()).await?;
        let mut lines = lines.ok_or_else(|| no_group(&self.group))?;
        // Dead-letter may lose what dispatch handed over: without its lines that would seem to be kept.
        match self.lines_of(&self.dead_letter_group, query).await {
            Ok(dropped) => lines.extend(dropped.unwrap_or_default()),
            // An identity may be allowed to read dispatch's log alone.
            Err(error) if error.downcast_ref().is_some_and(AwsRefusal::is_denied) => {
                if !self.is_noted.swap(true, Ordering::Relaxed) {
                    Progress::on_stderr().line(&format!(
                        "! events that dead-letter had to drop are not shown: {error:#}"
                    ));
                }
            }
            Err(error) => return Err(error),
        }
        lines.sort_by_key(|line| line.at_ms);
        Ok(lines)
    }

    /// Reads lines of a log group. Returns `None` if the group does not exist.
    async fn lines_of(
        &self,
        group: &str,
        query: LogQuery,
    ) -> anyhow::Result<Option<Vec<AttemptLine>>> {
        let query = LogQuery { log_group_name: group.to_owned(), ..query };
        let mut lines = Vec::new();
        let take = |event: LogEvent| {
            lines.extend(AttemptLine::read(event));
            true
        };
        Ok(each_event(&self.logs, query, take).await?.then_some(lines))
    }
}

/// Returns a text as one term of a filter pattern.
///
/// Source: Amazon CloudWatch Logs user guide, "Filter pattern syntax". A term can't have a quotation
/// mark, and a line has what JSON escapes in another form. So a term is what stands before the first of
/// these; the lines are looked at afterwards.
fn quoted(text: &str) -> String {
    let is_escaped = |one: char| matches!(one, '"' | '\\') || one.is_control();
    let plain = text.split(is_escaped).next().unwrap_or_default();
    if plain.is_empty() { OF_A_DELIVERY.to_owned() } else { format!("\"{plain}\"") }
}

impl AttemptLine {
    /// Reads an event of the log. Returns `None` if it is not about a delivery.
    fn read(LogEvent { event_id, timestamp, message }: LogEvent) -> Option<Self> {
        let line: Self = serde_json::from_str(&message).ok()?;
        Some(Self { id: event_id.unwrap_or(message), at_ms: timestamp, ..line })
    }

    /// Whether it is about an attempt, and not about an end or something else.
    pub fn is_attempt(&self) -> bool {
        self.message.starts_with("attempt ")
    }

    /// Whether it is about how a delivery ended undelivered.
    pub fn is_end(&self) -> bool {
        !self.is_attempt() && self.reason.is_some()
    }

    /// Whether it is about a success that came after its attempt had timed out.
    pub fn is_late_success(&self) -> bool {
        self.message.starts_with("attempt succeeded late")
    }

    /// Whether it says that the events that it names were delivered.
    pub fn is_success(&self) -> bool {
        self.decision.as_deref() == Some("Delivered")
    }

    /// Whether its delivery carries an event of that id.
    pub fn has_event(&self, id: &str) -> bool {
        self.event_ids().iter().any(|one| one == id)
    }

    /// Returns the ids of the events that its delivery carries.
    pub fn event_ids(&self) -> Vec<String> {
        let ids = self.event_ids.as_deref().and_then(|ids| serde_json::from_str(ids).ok());
        ids.unwrap_or_default()
    }

    /// Whether it says that events are lost: no dead letter has them.
    pub fn is_loss(&self) -> bool {
        self.message.starts_with("events dropped")
    }

    /// Returns the topic and the name of its event subscription.
    pub fn subscription(&self) -> Option<(&str, &str)> {
        self.subscription.as_deref()?.split_once('/')
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
        match (self.decision.as_deref(), &self.due, &self.reason) {
            (Some("Retry"), Some(due), _) => {
                text.push_str(&format!("; again at {due}"));
                if let Some(because) = &self.because {
                    let because = because.parse().map(describe_reason).unwrap_or(because);
                    text.push_str(&format!(", {because}"));
                }
            }
            (_, _, Some(reason)) => text.push_str(&format!("; ends: {reason}")),
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
        match self.is_loss() {
            true => format!("LOST FOR GOOD, dropped for {reason}{last}"),
            false => format!("to its dead-letter destination for {reason}{last}"),
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
    use serde_json::json;

    use super::*;
    use crate::{failure::Misuse, testkit::FakeApi};

    /// A line as a log gives it.
    fn event(at_ms: i64, line: &Value) -> Value {
        let mut line = line.clone();
        line["timestamp"] = json!("T");
        json!({"eventId": at_ms.to_string(), "timestamp": at_ms, "message": line.to_string()})
    }

    fn line(line: &Value) -> Option<AttemptLine> {
        AttemptLine::read(serde_json::from_value(event(5, line)).expect("an event"))
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
        let failed = json!({
            "message": "attempt failed", "delivery.id": "d", "subscription": "orders/billing",
            "outcome": "Busy", "status": 503, "duration_ms": 41, "decision": "Retry", "due": "D",
            "because": "LeastWait", "event_ids": "[\"e-1\",\"e \\\"2\\\"\"]",
        });
        let read = line(&failed).expect("a line");
        assert_eq!(
            read.describe(),
            "Busy (503) after 41 ms; again at D, the least wait of its outcome"
        );
        assert!(read.is_attempt() && !read.is_end());
        let mut logged = failed;
        logged["timestamp"] = json!("T");
        assert_eq!(json!(read), logged);
        assert!(read.has_event("e-1") && read.has_event("e \"2\"") && !read.has_event("e"));
        assert_eq!(read.subscription(), Some(("orders", "billing")));
        let saying = json!({"delivery.id": "d", "message": "attempt failed", "outcome": "BadRequest",
            "reason": "R", "response": "no such order"});
        let told = line(&saying).expect("a line").describe();
        assert_eq!(told, "BadRequest; ends: R; it said: no such order");
        let late = json!({"delivery.id": "d", "outcome": "Delivered", "status": 200,
            "message": "attempt succeeded late and is taken out of retry", "decision": "Delivered",
            "duration_ms": 40_003, "event_ids": "[\"e-1\"]"});
        let read = line(&late).expect("a line");
        assert_eq!(
            read.describe(),
            "Delivered (200) after 40003 ms, too late for its attempt, which had timed out: it is taken out of retry"
        );
        assert!(read.is_late_success() && read.has_event("e-1"));
        let dropped = json!({
            "message": "events dropped", "delivery.id": "d", "outcome": "BadRequest",
            "reason": "UndeliverableDueToHttpBadRequest",
        });
        let read = line(&dropped).expect("a line");
        let lost = "LOST FOR GOOD, dropped for UndeliverableDueToHttpBadRequest (last attempt: BadRequest)";
        assert_eq!(read.describe(), lost);
        assert!(read.is_end() && read.is_loss() && !read.has_event("e-1"));
        let stored = json!({
            "message": "ended undelivered, goes to its dead-letter destination", "delivery.id": "d",
            "outcome": "Busy", "status": 503, "reason": "TimeToLiveExceeded",
        });
        let read = line(&stored).expect("a line");
        let kept =
            "to its dead-letter destination for TimeToLiveExceeded (last attempt: Busy, 503)";
        assert_eq!((read.describe().as_str(), read.is_loss()), (kept, false));
        assert!(line(&json!({"message": "dead letters written"})).is_none());
        let start = LogEvent { message: "START RequestId: 1".to_owned(), ..LogEvent::default() };
        assert!(AttemptLine::read(start).is_none());
    }

    #[tokio::test]
    async fn what_dead_letter_had_to_drop_is_read_too() {
        let handed_over = json!({
            "message": "ended undelivered, goes to its dead-letter destination", "delivery.id": "d",
            "outcome": "BadRequest", "reason": "UndeliverableDueToHttpBadRequest",
        });
        let dropped = json!({
            "message": "events dropped instead of dead-lettered", "delivery.id": "d",
            "reason": "DeadLetterDestinationNotFound", "event_ids": "[\"e-1\"]",
        });
        let missing = json!({"__type": "ResourceNotFoundException", "message": "no such group"});
        let of_dispatch = json!({"events": [event(7, &handed_over)]});
        let of_dead_letter = json!({"events": [event(9, &dropped)]});
        let denied = json!({"__type": "AccessDeniedException", "message": "no"});
        // (what dead-letter's log group answers, the lines told last)
        let table = [
            (200, of_dead_letter, "LOST FOR GOOD, dropped for DeadLetterDestinationNotFound"),
            (400, missing.clone(), "to its dead-letter destination for"),
            (400, denied, "to its dead-letter destination for"),
        ];
        for (status, answer, want) in table {
            let rows =
                [("-dispatch\"", 200, of_dispatch.clone()), ("-dead-letter\"", status, answer)];
            let api = FakeApi::naming(&rows).await;
            let log = AttemptLog::of(AwsApi::at(Service::Logs, &api.url()), "g");
            let lines = log.read(0, None).await.expect("read");
            let last = lines.last().expect("a line").describe();
            assert!(last.starts_with(want), "{last}");
            assert_eq!(lines[0].at_ms, 7);
        }
        let api = FakeApi::naming(&[("", 400, missing)]).await;
        let log = AttemptLog::of(AwsApi::at(Service::Logs, &api.url()), "g");
        let refused = log.read(0, None).await.expect_err("no log group at all");
        assert!(refused.is::<Misuse>(), "{refused}");
    }

    #[test]
    fn patterns_are_one_term() {
        for (text, want) in [
            ("order-1", "\"order-1\""),
            ("a b", "\"a b\""),
            ("a\"b", "\"a\""),
            ("a\\b", "\"a\""),
            ("a b\tc", "\"a b\""),
            ("é\u{1b}[2K", "\"é\""),
            ("a\u{7f}", "\"a\""),
            ("\"", OF_A_DELIVERY),
            ("\n", OF_A_DELIVERY),
        ] {
            assert_eq!(quoted(text), want, "{text}");
        }
    }
}
