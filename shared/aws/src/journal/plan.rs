//! Plans what a question reads: which log groups, which times, how much.

use gridpost_core::{
    journal::{AttemptsQuestion, By, Question, Step},
    name,
    time::Timestamp,
};
use gridpost_ports::{JournalError, Reads, log_store::LogGroup};

use super::lines::hex;

/// The price in U.S. dollars of a gigabyte that Logs Insights reads. Source: Amazon CloudWatch pricing,
/// us-east-1. `FilterLogEvents` is free.
const DOLLARS_A_GIGABYTE: f64 = 0.005;

/// The size of stored lines as a part of their size before compression, which is what queries read. Source:
/// the assumption of AWS's price calculator.
const COMPRESSED: f64 = 0.15;

/// The functions that attempt and end deliveries; manage those that are purged.
const ATTEMPTING: &[&str] = &["dispatch", "dead-letter", "manage"];

/// The functions that count events; manage those that are purged. `intake` is there only with AWS sources.
const COUNTING: &[&str] = &["ingest", "intake", "dispatch", "dead-letter", "redrive", "manage"];

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// The size of lines in the first slice that is read.
const SLICE_BYTES: f64 = 2e6;

/// The data that a question reads.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) groups: Vec<String>,
    pub(super) from: Timestamp,
    /// Before this time.
    pub(super) to: Timestamp,
    pub(super) bytes_a_ms: f64,
    /// The first hour that all groups have whole, if it is after the beginning.
    pub(super) begins: Option<Timestamp>,
}

impl Plan {
    /// Plans to read those of the groups that the question is about.
    pub(super) fn of(
        question: &Question,
        groups: Vec<LogGroup>,
        prefix: &str,
        now: Timestamp,
    ) -> Self {
        let (functions, from, to) = match question {
            Question::Attempts(asked) => (ATTEMPTING, asked.from, asked.to),
            Question::Ledger(asked) => (COUNTING, asked.from.hour(), asked.to),
            Question::Series(asked) => (COUNTING, asked.from, asked.to),
        };
        // Another deployment's names may begin with the same words.
        let own: Vec<_> = functions.iter().map(|function| group(prefix, function)).collect();
        let groups: Vec<_> = groups.into_iter().filter(|it| own.contains(&it.name)).collect();
        let kept_days = groups.iter().filter_map(|group| group.kept_days).min();
        let begins = kept_days.map(|days| first_whole_hour(days, now));
        let mut bytes_a_ms = 0.0;
        let mut first = now;
        for group in &groups {
            let kept = group.kept_days.map(|days| before(now, i64::from(days) * 24 * HOUR_MS));
            let since = kept.unwrap_or(group.created).max(group.created).min(now);
            first = first.min(since);
            let held_ms = (now.as_millis() - since.as_millis()).max(HOUR_MS);
            bytes_a_ms += group.stored_bytes as f64 / COMPRESSED / held_ms as f64;
        }
        Self {
            groups: groups.into_iter().map(|group| group.name).collect(),
            from: from.max(first).min(to),
            to,
            bytes_a_ms,
            begins: begins.filter(|begins| *begins > from),
        }
    }

    /// Returns how much it reads until then, about.
    pub(super) fn reads(&self, now: Timestamp) -> Reads {
        let length_ms = self.to.min(now).as_millis() - self.from.as_millis();
        reads(self.bytes_a_ms * length_ms.max(0) as f64)
    }

    /// Returns the length of the first slice in milliseconds.
    pub(super) fn slice_ms(&self) -> i64 {
        if self.bytes_a_ms <= 0.0 {
            return MINUTE_MS;
        }
        ((SLICE_BYTES / self.bytes_a_ms) as i64).max(SECOND_MS)
    }
}

/// Returns what it costs to read that many bytes.
pub(super) fn reads(bytes: f64) -> Reads {
    let gigabytes = bytes / 1e9;
    Reads { gigabytes, dollars: gigabytes * DOLLARS_A_GIGABYTE }
}

/// Returns the name of a function's log group.
pub(super) fn group(prefix: &str, function: &str) -> String {
    format!("/aws/lambda/{prefix}-{function}")
}

fn before(at: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - millis)
}

fn first_whole_hour(days: u32, now: Timestamp) -> Timestamp {
    before(now, i64::from(days) * 24 * HOUR_MS - HOUR_MS + 1).hour()
}

/// Refuses a question that has too many results for Logs Insights: those by steps of less than an hour, unless a
/// step has one owner.
pub(super) fn check_size(question: &Question) -> Result<(), JournalError> {
    let Question::Series(asked) = question else { return Ok(()) };
    let is_of_one = match asked.by {
        By::EventSubscription => asked.topic.is_some() && asked.subscription.is_some(),
        By::Topic => asked.topic.is_some(),
        By::All => true,
    };
    if is_of_one || asked.total || asked.step.minutes() >= Step::Hour.minutes() {
        return Ok(());
    }
    Err(JournalError::TooMuch(format!(
        "this deployment logs so much that {} goes with one event subscription of a topic, with one topic by \
         Topic, or with all by All: ask for one of these, for a total, or for hours",
        asked.step
    )))
}

/// Returns the same key for questions that have the same answer, whatever its pages. A version with other
/// members of questions has other keys: it refuses the pages of its predecessor's answers and pays its runs
/// once more.
pub(super) fn key(question: &Question) -> String {
    let mut question = question.clone();
    let (topic, subscription) = match &mut question {
        Question::Attempts(asked) => {
            asked.most = 0;
            asked.outcomes.sort_unstable();
            (&mut asked.topic, &mut asked.subscription)
        }
        Question::Ledger(asked) => {
            asked.from = asked.from.hour();
            (&mut asked.topic, &mut asked.subscription)
        }
        Question::Series(asked) => (&mut asked.topic, &mut asked.subscription),
    };
    for name in [topic, subscription].into_iter().flatten() {
        *name = name::folded(name);
    }
    hex(&format!("{question:?}"))
}

/// A place in the order of entries: those that are older come after it, and of the same time those with a
/// lower id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) at: Timestamp,
    pub(super) id: String,
}

impl Position {
    /// Writes the token of the page that begins after it.
    pub(super) fn token(&self, question: &Question) -> String {
        format!("{}.{}.{}", self.at.as_millis(), self.id, &key(question)[..16])
    }

    /// Reads the token of a page of a question's answer.
    pub(super) fn read(token: &str, question: &Question) -> Result<Self, JournalError> {
        let Question::Attempts(AttemptsQuestion { from, to, .. }) = question else {
            return Err(JournalError::Page);
        };
        let read = || {
            let (at, rest) = token.split_once('.')?;
            let (id, _) = rest.split_once('.')?;
            let position = Self { at: Timestamp::from_millis(at.parse().ok()?), id: id.to_owned() };
            let is_hex = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let is_whole = is_hex && (*from..=*to).contains(&position.at);
            (is_whole && position.token(question) == token).then_some(position)
        };
        read().ok_or(JournalError::Page)
    }
}
