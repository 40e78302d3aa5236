//! The journal: what became of events. It has an [`Entry`] for each attempt and each end of a delivery, and
//! [counts](Count) of events by event subscription, by the hour of their publish ([`Ledger`]) and by the
//! minute in which they were counted ([`Series`]).
//!
//! Counts of what became of deliveries follow from entries ([`Entry::count`]), so that both agree.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use uuid::Uuid;

use crate::{
    ledger::{Account, Latencies, Ledger},
    retry::{DelayReason, outcome::Outcome},
    subscription::SubscriptionKey,
    time::Timestamp,
    trace::TraceParent,
};

/// Something that became of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub kind: EntryKind,
    /// When it happened: an attempt when its response came.
    pub at: Timestamp,
    pub delivery: Uuid,
    pub subscription: SubscriptionKey,
    pub publish_time: Timestamp,
    /// The number of the attempt, from 1. For an end, how many were made.
    pub attempt: u32,
    /// Tells apart the ends of parts of one delivery; 0 for the whole.
    pub part: u32,
    /// For an end, that of the last attempt.
    pub outcome: Option<Outcome>,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    pub took: Option<Duration>,
    /// When the next attempt is due.
    pub due: Option<Timestamp>,
    pub because: Option<DelayReason>,
    /// The reason of an end, which a failed attempt may have decided.
    pub reason: Option<String>,
    /// How often the message had been received.
    pub receives: Option<u32>,
    pub events: u32,
    /// A JSON array, of 100 ids at most.
    pub event_ids: String,
    pub trace_parent: Option<TraceParent>,
    /// The beginning of a failed response.
    pub response: Option<String>,
}

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(strum::Display, strum::EnumString, strum::VariantArray)]
pub enum EntryKind {
    /// An attempt that delivered events.
    Success,
    /// A response after the attempt had timed out that delivered them all the same.
    LateSuccess,
    /// A success after the events had ended undelivered, which does not count.
    SuccessAfterEnd,
    Failure,
    /// The delivery ended undelivered, and its dead letter is on its way.
    Ending,
    /// Its dead letter is stored.
    DeadLettered,
    /// The events are lost: no dead letter has them.
    Dropped,
}

impl EntryKind {
    /// Whether it tells of an end without delivery.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Ending | Self::DeadLettered | Self::Dropped)
    }

    /// Whether it belongs to a list of failures.
    pub fn is_failed(self) -> bool {
        self != Self::Success
    }
}

impl Entry {
    /// Returns what it counts.
    pub fn count(&self) -> Option<Count> {
        let reason = || self.reason.clone().unwrap_or_default();
        let (counted, events) = match self.kind {
            EntryKind::Success | EntryKind::LateSuccess => {
                let took = self.at.since(self.publish_time);
                (Counted::Delivered { took }, self.events)
            }
            EntryKind::Failure => (Counted::Failed(self.outcome?), 1),
            EntryKind::DeadLettered => (Counted::DeadLettered(reason()), self.events),
            EntryKind::Dropped => (Counted::Dropped(reason()), self.events),
            EntryKind::SuccessAfterEnd | EntryKind::Ending => return None,
        };
        (events > 0).then(|| Count {
            owner: Owner::Subscription(self.subscription.clone()),
            publish_time: self.publish_time,
            counted,
            events: u64::from(events),
            once: None,
        })
    }
}

/// Whose events are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// What a topic accepted.
    Topic(String),
    /// What an event subscription matched.
    Subscription(SubscriptionKey),
}

impl Owner {
    /// Returns the name of the topic.
    pub fn topic(&self) -> &str {
        match self {
            Self::Topic(topic) => topic,
            Self::Subscription(key) => &key.topic,
        }
    }

    /// Returns the name of the event subscription.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Topic(_) => None,
            Self::Subscription(key) => Some(&key.name),
        }
    }
}

/// Events that are counted together.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    pub owner: Owner,
    pub publish_time: Timestamp,
    pub counted: Counted,
    /// Events; of failed attempts, attempts.
    pub events: u64,
    /// The delivery or publish whose id is the same when the work is repeated after a fault: counted once
    /// where the journal can know.
    pub once: Option<Uuid>,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    Accepted,
    /// Accepted for no event subscription.
    Unmatched,
    Matched,
    /// Dead letters that were sent again.
    Redriven,
    /// This long after the publish.
    Delivered {
        took: Duration,
    },
    /// By reason.
    DeadLettered(String),
    /// By reason.
    Dropped(String),
    /// Failed attempts, by outcome.
    Failed(Outcome),
}

/// Writes a word, with the details behind a slash: `delivered/50`, the bucket of a latency.
impl fmt::Display for Counted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => formatter.write_str("accepted"),
            Self::Unmatched => formatter.write_str("unmatched"),
            Self::Matched => formatter.write_str("matched"),
            Self::Redriven => formatter.write_str("redriven"),
            Self::Delivered { took } => {
                match Latencies::bound_ms(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)) {
                    Some(bound) => write!(formatter, "delivered/{bound}"),
                    None => formatter.write_str("delivered/"),
                }
            }
            Self::DeadLettered(reason) => write!(formatter, "deadLettered/{reason}"),
            Self::Dropped(reason) => write!(formatter, "dropped/{reason}"),
            Self::Failed(outcome) => write!(formatter, "failed/{outcome}"),
        }
    }
}

/// Reads what [`Counted`] writes; a latency is that of its bucket's bound.
impl FromStr for Counted {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const UNKNOWN: &str = "it is not counted by this version";
        let (word, detail) = text.split_once('/').unwrap_or((text, ""));
        Ok(match word {
            "accepted" => Self::Accepted,
            "unmatched" => Self::Unmatched,
            "matched" => Self::Matched,
            "redriven" => Self::Redriven,
            "delivered" => {
                Self::Delivered { took: Duration::from_millis(detail.parse().unwrap_or(u64::MAX)) }
            }
            "deadLettered" => Self::DeadLettered(detail.to_owned()),
            "dropped" => Self::Dropped(detail.to_owned()),
            "failed" => Self::Failed(detail.parse().map_err(|_| UNKNOWN)?),
            _ => return Err(UNKNOWN),
        })
    }
}

/// What was counted of one owner in one step of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    pub accepted: u64,
    pub unmatched: u64,
    pub account: Account,
    /// Failed attempts, by outcome.
    pub failed: BTreeMap<String, u64>,
}

/// Counts by owner and the beginning of the step in which they were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series(pub BTreeMap<(Owner, Timestamp), Flow>);

impl Series {
    /// Adds counts that were made in the step that begins then.
    pub fn add(&mut self, begins: Timestamp, count: &Count) {
        let flow = self.0.entry((count.owner.clone(), begins)).or_default();
        match &count.counted {
            Counted::Accepted => flow.accepted = flow.accepted.saturating_add(count.events),
            Counted::Unmatched => flow.unmatched = flow.unmatched.saturating_add(count.events),
            Counted::Failed(outcome) => {
                let failed = flow.failed.entry(outcome.to_string()).or_default();
                *failed = failed.saturating_add(count.events);
            }
            counted => flow.account.count(counted, count.events),
        }
    }
}

/// The length of a step of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[derive(strum::Display, strum::EnumString, strum::VariantArray)]
pub enum Step {
    Minute,
    #[default]
    Hour,
}

impl Step {
    /// Returns the beginning of the step of a time, UTC.
    pub fn begin(self, at: Timestamp) -> Timestamp {
        match self {
            Self::Minute => Timestamp::from_millis(at.as_minutes().saturating_mul(60_000)),
            Self::Hour => at.hour(),
        }
    }
}

/// A question to the journal. Names are found in any spelling; without one, all are meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    Attempts(AttemptsQuestion),
    Ledger(LedgerQuestion),
    Series(SeriesQuestion),
}

/// Asks for entries, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttemptsQuestion {
    pub topic: Option<String>,
    pub subscription: Option<String>,
    pub event_id: Option<String>,
    pub from: Timestamp,
    /// Before this time.
    pub to: Timestamp,
    /// Leaves out successes, but late ones.
    pub failed: bool,
    /// With one of these outcomes; none for all.
    pub outcomes: Vec<Outcome>,
    /// Entries on a page, at least 1.
    pub most: usize,
}

/// Asks for the ledger of events that were published from that hour on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerQuestion {
    pub topic: Option<String>,
    pub subscription: Option<String>,
    pub from: Timestamp,
    /// Counts that were made before this time.
    pub to: Timestamp,
    /// Ascending times at which the counts are divided.
    pub cuts: Vec<Timestamp>,
}

/// Asks for counts by the time at which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesQuestion {
    pub topic: Option<String>,
    pub subscription: Option<String>,
    pub from: Timestamp,
    /// Before this time.
    pub to: Timestamp,
    pub step: Step,
}

/// What the journal knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub known: Known,
    /// The time up to which it is whole: what happened later may be missing.
    pub known_until: Timestamp,
    /// The time before which nothing is kept, if it lies in the time that was asked for.
    pub begins: Option<Timestamp>,
    /// Whether first attempts that succeed are left out.
    pub lacks_first_successes: bool,
    /// The token of the next page.
    pub next: Option<String>,
}

/// The parts of an answer, by question.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// Each with an id, the same whenever it is read.
    Attempts(Vec<(String, Entry)>),
    /// One more than there were cuts, oldest first. Where the journal can't divide them, the first has all.
    Ledger(Vec<Ledger>),
    Series(Series),
}

#[cfg(test)]
mod tests;
