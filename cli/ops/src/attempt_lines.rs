//! What dispatch logged of attempts and ends, and dead-letter of events that it had to drop: read out of
//! their lines in CloudWatch Logs, or in the local stack's.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};

use crate::{
    aws_api::{AwsApi, Service},
    aws_refusal::{AwsRefusal, if_found},
    failure::Misuse,
    output::in_line,
    progress::Progress,
    target::Target,
};

/// Every line about a delivery contains it.
const OF_A_DELIVERY: &str = "\"delivery.id\"";

/// What the messages of lines about an attempt begin with.
const ATTEMPT: &str = "attempt ";

/// What the messages of lines about successes after an attempt had timed out begin with.
const LATE: &str = "attempt succeeded late";

/// What the messages of lines about events that are given up begin with.
const DROPPED: &str = "events dropped";

/// The logs of a deployment's dispatch and dead-letter.
#[derive(Clone, Debug)]
pub struct AttemptLog {
    logs: AwsApi,
    group: String,
    /// It is made when something ends for the first time.
    dead_letter_group: String,
    /// Whether it was said that the latter may not be read.
    has_told: Arc<AtomicBool>,
}

/// A line about a delivery.
#[derive(Clone, Debug)]
pub struct AttemptLine {
    /// The log's own id of it: the same each time it is read.
    pub id: String,
    /// When it was logged, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    pub line: Value,
}

impl AttemptLog {
    /// The logs of the deployment of that name prefix.
    pub async fn connect(target: &Target) -> anyhow::Result<Self> {
        Ok(Self::of(AwsApi::connect(Service::Logs, target).await?, target.name_prefix()))
    }

    fn of(logs: AwsApi, name_prefix: &str) -> Self {
        let group = |function: &str| format!("/aws/lambda/{name_prefix}-{function}");
        Self {
            logs,
            group: group("dispatch"),
            dead_letter_group: group("dead-letter"),
            has_told: Arc::default(),
        }
    }

    /// The lines from `since_ms` on that contain a text, in their order; without one all that are
    /// about a delivery.
    pub async fn read(
        &self,
        since_ms: i64,
        text: Option<&str>,
    ) -> anyhow::Result<Vec<AttemptLine>> {
        let pattern = text.map_or_else(|| OF_A_DELIVERY.to_owned(), quoted);
        self.ask(json!({"startTime": since_ms, "filterPattern": pattern})).await
    }

    /// The lines about deliveries from one time on and before another one, in their order.
    pub async fn between(&self, from_ms: i64, to_ms: i64) -> anyhow::Result<Vec<AttemptLine>> {
        let ask = json!({
            "startTime": from_ms, "endTime": to_ms, "filterPattern": OF_A_DELIVERY,
        });
        // Not every log that is read stops there.
        let mut found = self.ask(ask).await?;
        found.retain(|line| line.at_ms < to_ms);
        Ok(found)
    }

    async fn ask(&self, ask: Value) -> anyhow::Result<Vec<AttemptLine>> {
        let mut found = self.of_group(&self.group, ask.clone()).await?.ok_or_else(|| {
            Misuse(format!(
                "there is no log group {}: give the deployment's --name-prefix \
                 (GRIDPOST_NAME_PREFIX), and its region by --manage-url or AWS_REGION",
                self.group
            ))
        })?;
        // What dispatch handed over may be lost there: without these lines it would seem to be kept.
        match self.of_group(&self.dead_letter_group, ask).await {
            Ok(lines) => found.extend(lines.unwrap_or_default()),
            // An identity may be allowed to read dispatch's alone.
            Err(error) if is_denied(&error) => self.tell_once(&error),
            Err(error) => return Err(error),
        }
        found.sort_by_key(|line| line.at_ms);
        Ok(found)
    }

    fn tell_once(&self, error: &anyhow::Error) {
        if !self.has_told.swap(true, Ordering::Relaxed) {
            let told = format!("! events that dead-letter had to drop are not shown: {error:#}");
            Progress::on_stderr().line(&told);
        }
    }

    /// What is asked for of one log group, over its pages; nothing where there is no such group.
    async fn of_group(
        &self,
        group: &str,
        mut ask: Value,
    ) -> anyhow::Result<Option<Vec<AttemptLine>>> {
        ask["logGroupName"] = json!(group);
        let mut found = Vec::new();
        loop {
            let page = self.logs.call("FilterLogEvents", &ask).await;
            let Some(page) = if_found(page)? else { return Ok(None) };
            let events = page["events"].as_array().into_iter().flatten();
            found.extend(events.filter_map(AttemptLine::of));
            match page["nextToken"].as_str() {
                Some(token) => ask["nextToken"] = json!(token),
                None => return Ok(Some(found)),
            }
        }
    }
}

fn is_denied(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(AwsRefusal::is_denied)
}

/// A text as one term of a filter pattern.
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
    /// An event of the log, if it is about a delivery.
    fn of(event: &Value) -> Option<Self> {
        let line: Value = serde_json::from_str(event["message"].as_str()?).ok()?;
        line["delivery.id"].as_str()?;
        let id = match event["eventId"].as_str() {
            Some(id) => id.to_owned(),
            None => line.to_string(),
        };
        Some(Self { id, at_ms: event["timestamp"].as_i64()?, line })
    }

    /// A text of it.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.line[name].as_str()
    }

    /// Whether it is about an attempt, and not about an end or something else.
    pub fn is_attempt(&self) -> bool {
        self.text("message").is_some_and(|message| message.starts_with(ATTEMPT))
    }

    /// Whether it is about how a delivery ended undelivered.
    pub fn is_end(&self) -> bool {
        !self.is_attempt() && self.text("reason").is_some()
    }

    /// Whether it is about a success that came after its attempt had timed out.
    pub fn is_late_success(&self) -> bool {
        self.text("message").is_some_and(|message| message.starts_with(LATE))
    }

    /// Whether it says that the events that it names were delivered.
    pub fn is_success(&self) -> bool {
        self.text("decision") == Some("Delivered")
    }

    /// Whether its delivery carries an event of that id.
    pub fn has_event(&self, id: &str) -> bool {
        self.event_ids().iter().any(|one| one == id)
    }

    /// The ids of the events that its delivery carries.
    pub fn event_ids(&self) -> Vec<String> {
        let ids = self.text("event_ids").and_then(|ids| serde_json::from_str(ids).ok());
        ids.unwrap_or_default()
    }

    /// Whether it says that events are lost: no dead letter has them.
    pub fn is_loss(&self) -> bool {
        self.text("message").is_some_and(|message| message.starts_with(DROPPED))
    }

    /// Its event subscription: the topic and the name.
    pub fn subscription(&self) -> Option<(&str, &str)> {
        self.text("subscription")?.split_once('/')
    }

    /// What was met, what follows and when, in words.
    pub fn told(&self) -> String {
        if self.is_end() {
            return self.end_told();
        }
        let number = |name: &str| self.line[name].as_u64();
        let mut text = met(self.text("outcome").unwrap_or("-"), number("status"));
        if let Some(took) = number("duration_ms") {
            text.push_str(&format!(" after {took} ms"));
        }
        if self.is_late_success() {
            text.push_str(
                ", too late for its attempt, which had timed out: it is taken out of retry",
            );
        }
        match (self.text("decision"), self.text("due"), self.text("reason")) {
            (Some("Retry"), Some(due), _) => {
                text.push_str(&format!("; again at {due}"));
                if let Some(because) = self.text("because") {
                    text.push_str(&format!(", {}", because_of(because)));
                }
            }
            (_, _, Some(reason)) => text.push_str(&format!("; ends: {reason}")),
            _ => {}
        }
        if let Some(said) = self.text("response") {
            text.push_str(&format!("; it said: {said}"));
        }
        in_line(&text).into_owned()
    }
}

impl AttemptLine {
    /// How a delivery ended undelivered: a loss looks like nothing else.
    fn end_told(&self) -> String {
        let reason = self.text("reason").unwrap_or("-");
        let last = match (self.text("outcome"), self.line["status"].as_u64()) {
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

/// An attempt's outcome with the HTTP status, and what a redirect means.
pub fn met(outcome: &str, status: Option<u64>) -> String {
    match status {
        None => outcome.to_owned(),
        Some(status @ (301..=303 | 307 | 308)) => {
            format!("{outcome} ({status}, a redirect: none is followed)")
        }
        Some(status) => format!("{outcome} ({status})"),
    }
}

/// What asked for a wait, in words.
pub fn because_of(because: &str) -> &str {
    match because {
        "Schedule" => "the next step of its schedule",
        "LeastWait" => "the least wait of its outcome",
        "RetryAfter" => "which its Retry-After asks for",
        "EndpointWaits" => "when the endpoint's probation or delayed delivery ends",
        "Resend" => "because an operator asked for it",
        "Pause" => "once the event subscription is resumed",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeApi;

    fn line(line: &Value) -> Option<AttemptLine> {
        AttemptLine::of(&json!({"eventId": "1", "timestamp": 5, "message": line.to_string()}))
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
            assert_eq!(met("ServerError", status), want);
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
            read.told(),
            "Busy (503) after 41 ms; again at D, the least wait of its outcome"
        );
        assert!(read.is_attempt() && !read.is_end());
        assert!(read.has_event("e-1") && read.has_event("e \"2\"") && !read.has_event("e"));
        assert_eq!(read.subscription(), Some(("orders", "billing")));
        let saying = json!({"delivery.id": "d", "message": "attempt failed", "outcome": "BadRequest",
            "reason": "R", "response": "no such order"});
        let told = line(&saying).expect("a line").told();
        assert_eq!(told, "BadRequest; ends: R; it said: no such order");
        let late = json!({"delivery.id": "d", "outcome": "Delivered", "status": 200,
            "message": "attempt succeeded late and is taken out of retry", "decision": "Delivered",
            "duration_ms": 40_003, "event_ids": "[\"e-1\"]"});
        let read = line(&late).expect("a line");
        assert_eq!(
            read.told(),
            "Delivered (200) after 40003 ms, too late for its attempt, which had timed out: it is taken out of retry"
        );
        assert!(read.is_late_success() && read.has_event("e-1"));
        let dropped = json!({
            "message": "events dropped", "delivery.id": "d", "outcome": "BadRequest",
            "reason": "UndeliverableDueToHttpBadRequest",
        });
        let read = line(&dropped).expect("a line");
        let lost = "LOST FOR GOOD, dropped for UndeliverableDueToHttpBadRequest (last attempt: BadRequest)";
        assert_eq!(read.told(), lost);
        assert!(read.is_end() && read.is_loss() && !read.has_event("e-1"));
        let stored = json!({
            "message": "ended undelivered, goes to its dead-letter destination", "delivery.id": "d",
            "outcome": "Busy", "status": 503, "reason": "TimeToLiveExceeded",
        });
        let read = line(&stored).expect("a line");
        let kept =
            "to its dead-letter destination for TimeToLiveExceeded (last attempt: Busy, 503)";
        assert_eq!((read.told().as_str(), read.is_loss()), (kept, false));
        assert!(line(&json!({"message": "dead letters written"})).is_none());
        assert!(AttemptLine::of(&json!({"message": "START RequestId: 1"})).is_none());
    }

    /// A line as a log gives it.
    fn event(at_ms: i64, line: &Value) -> Value {
        json!({"eventId": at_ms.to_string(), "timestamp": at_ms, "message": line.to_string()})
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
            let last = lines.last().expect("a line").told();
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
