//! The functions' log lines as entries and counts.

use gridpost_core::{
    journal::{
        AttemptsQuestion, Count, Entry, EntryKind, Known, LedgerQuestion, Question, Series,
        SeriesQuestion,
    },
    ledger::{Ledger, counts_of},
    metric::{DELIVERY_ATTEMPT_FAIL_COUNT, PUBLISH_HOUR},
    name,
    subscription::SubscriptionKey,
    time::Timestamp,
    trace::TraceParent,
};
use gridpost_ports::log_store::LogLine;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A filter pattern has 1,024 characters at most. Source: Amazon CloudWatch Logs API reference.
const PLAIN_BYTES_MAX: usize = 500;

/// A field that each line about a delivery has.
pub(super) const DELIVERY_ID: &str = "delivery.id";

/// A line about a delivery.
#[derive(Deserialize)]
struct AttemptLine {
    message: String,
    #[serde(rename = "delivery.id")]
    delivery: Uuid,
    /// Its topic and name, with a slash.
    subscription: String,
    attempt: Option<u32>,
    /// Of an end.
    attempts: Option<u32>,
    outcome: Option<String>,
    status: Option<u16>,
    duration_ms: Option<u64>,
    due: Option<String>,
    because: Option<Value>,
    reason: Option<String>,
    events: Option<u32>,
    receives: Option<u32>,
    event_ids: Option<String>,
    publish_time: Option<String>,
    traceparent: Option<String>,
    response: Option<String>,
}

/// Reads a line of a function. Returns its entry with an id that is the same however the line
/// is read; `None` if it is not about an attempt or an end. Where it does not have the time of the publish,
/// the entry has its own.
pub(super) fn entry(line: &LogLine) -> Option<(String, Entry)> {
    let read: AttemptLine = serde_json::from_str(&line.text).ok()?;
    let (topic, name) = read.subscription.split_once('/')?;
    let time = |text: Option<String>| Timestamp::parse_rfc_3339(&text?);
    let event_ids = read.event_ids.unwrap_or_else(|| "[]".to_owned());
    let entry = Entry {
        kind: EntryKind::of_message(&read.message)?,
        at: line.at,
        delivery: read.delivery,
        subscription: SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() },
        publish_time: time(read.publish_time).unwrap_or(line.at),
        attempt: read.attempt.or(read.attempts).unwrap_or_default(),
        part: 0,
        outcome: read.outcome.and_then(|outcome| outcome.parse().ok()),
        status: read.status,
        took: read.duration_ms.map(std::time::Duration::from_millis),
        due: time(read.due),
        because: read.because.and_then(|because| serde_json::from_value(because).ok()),
        reason: read.reason,
        receives: read.receives,
        events: read.events.unwrap_or_else(|| ids(&event_ids).len().try_into().unwrap_or(u32::MAX)),
        event_ids,
        trace_parent: read.traceparent.and_then(|trace| TraceParent::parse(&trace)),
        response: read.response,
    };
    let mut id = hex(line.text.trim_end());
    id.truncate(32);
    Some((id, entry))
}

fn ids(event_ids: &str) -> Vec<String> {
    serde_json::from_str(event_ids).unwrap_or_default()
}

/// Returns a text's hash.
pub(super) fn hex(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether an entry is one that is asked for.
pub(super) fn is_wanted(entry: &Entry, question: &AttemptsQuestion) -> bool {
    let SubscriptionKey { topic, name } = &entry.subscription;
    is_named(topic, Some(name), &question.topic, &question.subscription)
        && (question.from <= entry.at && entry.at < question.to)
        && (!question.failed || entry.kind.is_failed())
        && (question.outcomes.is_empty()
            || entry.outcome.is_some_and(|outcome| question.outcomes.contains(&outcome)))
        && (question.event_id.as_ref()).is_none_or(|id| ids(&entry.event_ids).contains(id))
}

fn is_named(
    topic: &str,
    name: Option<&str>,
    wanted_topic: &Option<String>,
    wanted_name: &Option<String>,
) -> bool {
    wanted_topic.as_ref().is_none_or(|wanted| name::is_same(wanted, topic))
        && wanted_name
            .as_ref()
            .is_none_or(|wanted| name.is_some_and(|name| name::is_same(wanted, name)))
}

/// A question that counts answer, with what is counted so far.
#[derive(Debug)]
pub(super) enum Counts<'q> {
    Ledger(&'q LedgerQuestion, Vec<Ledger>),
    Series(&'q SeriesQuestion, Series),
}

impl<'q> Counts<'q> {
    /// Begins to count; `None` if the question asks for entries.
    pub(super) fn of(question: &'q Question) -> Option<Self> {
        match question {
            Question::Attempts(_) => None,
            Question::Ledger(asked) => {
                Some(Self::Ledger(asked, vec![Ledger::default(); asked.cuts.len() + 1]))
            }
            Question::Series(asked) => Some(Self::Series(asked, Series::of(asked.by))),
        }
    }

    /// Adds what a line that was logged then counts of the names that are asked for.
    pub(super) fn take(&mut self, at: Timestamp, line: &str) {
        let (topic, name) = match self {
            Self::Ledger(asked, _) => (&asked.topic, &asked.subscription),
            Self::Series(asked, _) => (&asked.topic, &asked.subscription),
        };
        let counts = counts_of(line).into_iter();
        let is_asked =
            |Count { owner, .. }: &Count| is_named(owner.topic(), owner.name(), topic, name);
        let counts: Vec<_> = counts.filter(is_asked).collect();
        self.add(at, counts);
    }

    /// Adds counts of the names that are asked for, or sums of these.
    pub(super) fn add(&mut self, at: Timestamp, counts: Vec<Count>) {
        match self {
            Self::Ledger(asked, ledgers) => {
                let ledger = &mut ledgers[asked.cuts.partition_point(|cut| *cut <= at)];
                let counts = counts.iter();
                let counts = counts.filter(|count| count.publish_time >= asked.from.hour());
                counts.for_each(|count| ledger.count(count));
            }
            Self::Series(asked, series) => {
                counts.iter().for_each(|count| series.add(asked.begin(at), count));
            }
        }
    }

    /// Returns what was counted.
    pub(super) fn known(self) -> Known {
        match self {
            Self::Ledger(_, ledgers) => Known::Ledger(ledgers),
            Self::Series(_, series) => Known::Series(series),
        }
    }

    /// Returns a filter pattern that the lines match.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Ledger(..) => PUBLISH_HOUR.to_owned(),
            Self::Series(..) => format!("?{PUBLISH_HOUR} ?{DELIVERY_ATTEMPT_FAIL_COUNT}"),
        }
    }
}

/// Returns the longest part of a text that JSON does not escape and that has no special meaning in a filter
/// pattern or a query, or its first [`PLAIN_BYTES_MAX`] bytes. Lines that contain it are compared with the
/// whole text afterwards.
pub(super) fn plain_part(text: &str) -> Option<&str> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.:/".contains(one);
    let longest = text.split(|one| !is_plain(one)).max_by_key(|part| part.len())?;
    longest.get(..longest.len().min(PLAIN_BYTES_MAX)).filter(|part| !part.is_empty())
}

/// Returns a filter pattern that the lines about deliveries match.
pub(super) fn attempts_pattern(question: &AttemptsQuestion) -> String {
    let mut pattern = format!("\"{DELIVERY_ID}\"");
    if let Some(part) = question.event_id.as_deref().and_then(plain_part) {
        pattern.push_str(&format!(" \"{part}\""));
    }
    pattern
}
