//! The journal: what became of events. It has an [`Entry`] for each attempt and each end of a delivery, and
//! [counts](Count) of events by event subscription, by the hour of their publish ([`Ledger`]) and by the
//! minute in which they were counted ([`Series`]).
//!
//! Counts of what became of deliveries follow from entries ([`Entry::count`]), so that both agree.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;
use uuid::Uuid;

pub use crate::ledger::{Count, Counted, Owner};

use crate::{
    delivery::Delivery,
    ledger::{Account, Ledger},
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[derive(strum::Display, strum::EnumString, strum::VariantArray, strum::VariantNames)]
pub enum EntryKind {
    /// An attempt that delivered events.
    Success,
    /// A response after the attempt had timed out that delivered them all the same.
    LateSuccess,
    /// A success of a delivery that had ended before, or that another copy has counted: it counts nothing.
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

    /// Returns the message of its log line. A stored dead letter has no line, but a count.
    pub fn message(self) -> &'static str {
        match self {
            Self::Success => "attempt succeeded",
            Self::LateSuccess => "attempt succeeded late and is taken out of retry",
            Self::SuccessAfterEnd => "attempt succeeded after its events had ended",
            Self::Failure => "attempt failed",
            Self::Ending => "ended undelivered, goes to its dead-letter destination",
            Self::DeadLettered => "dead letter written",
            Self::Dropped => "events dropped",
        }
    }

    /// Returns the kind whose log line has that message.
    pub fn of_message(message: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|kind| kind.message() == message)
    }

    /// Returns the decision after an attempt, `Retry`, `End` or `Delivered`; `None` for an end.
    pub fn decision(self, is_due: bool) -> Option<&'static str> {
        match self {
            Self::Failure if is_due => Some("Retry"),
            Self::Failure => Some("End"),
            _ => (!self.is_end()).then_some("Delivered"),
        }
    }
}

impl Entry {
    /// Makes an entry about a delivery with its defaults, and without event ids.
    pub fn of(delivery: &Delivery, kind: EntryKind) -> Self {
        Self {
            kind,
            at: delivery.publish_time,
            delivery: delivery.id,
            subscription: delivery.subscription.clone(),
            publish_time: delivery.publish_time,
            attempt: delivery.attempts.made,
            part: 0,
            outcome: None,
            status: None,
            took: None,
            due: None,
            because: None,
            reason: None,
            receives: None,
            events: u32::try_from(delivery.event_count()).unwrap_or(u32::MAX),
            event_ids: String::new(),
            trace_parent: delivery.traceparent,
            response: None,
        }
    }

    /// Makes the entry of an end without delivery, of all events that are not done.
    pub fn end(delivery: &Delivery, kind: EntryKind, reason: String, at: Timestamp) -> Self {
        Self {
            at,
            part: delivery.done.number(),
            outcome: delivery.attempts.last_outcome,
            status: delivery.attempts.last_status,
            reason: Some(reason),
            event_ids: delivery.event_ids(),
            ..Self::of(delivery, kind)
        }
    }

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

/// The counts of one owner in one step of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    pub accepted: u64,
    pub unmatched: u64,
    pub account: Account,
    /// Failed attempts, by outcome.
    pub failed: BTreeMap<String, u64>,
}

impl Flow {
    /// Adds events that are counted as that.
    fn count(&mut self, counted: &Counted, events: u64) {
        let sum = match counted {
            Counted::Accepted => &mut self.accepted,
            Counted::Unmatched => &mut self.unmatched,
            Counted::Failed(outcome) => self.failed.entry(outcome.to_string()).or_default(),
            counted => return self.account.count(counted, events),
        };
        *sum = sum.saturating_add(events);
    }
}

/// Counts by the beginning of the step in which they were counted, and by owner: `None` for all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    pub by: By,
    pub flows: BTreeMap<(Timestamp, Option<Owner>), Flow>,
}

impl Series {
    /// Makes an empty one.
    pub fn of(by: By) -> Self {
        Self { by, flows: BTreeMap::new() }
    }

    /// Adds counts that were made in the step that begins then.
    pub fn add(&mut self, begins: Timestamp, count: &Count) {
        let owner = match self.by {
            By::EventSubscription => Some(count.owner.clone()),
            By::Topic => Some(Owner::Topic(count.owner.topic().to_owned())),
            By::All => None,
        };
        self.flows.entry((begins, owner)).or_default().count(&count.counted, count.events);
    }
}

/// The owners whose counts a series has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[derive(strum::Display, strum::EnumString, strum::VariantArray, strum::VariantNames)]
pub enum By {
    /// Topics, and event subscriptions.
    #[default]
    EventSubscription,
    /// Topics, each together with its event subscriptions.
    Topic,
    /// All together.
    All,
}

/// The length of a step of a series. Steps begin at multiples of it, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[derive(strum::Display, strum::EnumString, strum::VariantArray, strum::VariantNames)]
pub enum Step {
    Minute,
    FiveMinutes,
    HalfHour,
    #[default]
    Hour,
    ThreeHours,
}

impl Step {
    pub fn minutes(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::HalfHour => 30,
            Self::Hour => 60,
            Self::ThreeHours => 180,
        }
    }

    /// Returns the beginning of the step of a time.
    pub fn begin(self, at: Timestamp) -> Timestamp {
        let since = at.as_millis().rem_euclid(i64::from(self.minutes()) * 60_000);
        Timestamp::from_millis(at.as_millis().saturating_sub(since))
    }
}

/// A question to the journal. Names are found in any spelling; without one, all are meant.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    Attempts(AttemptsQuestion),
    Ledger(LedgerQuestion),
    Series(SeriesQuestion),
}

impl Question {
    /// Returns the topic that it is about; `None` for all.
    pub fn topic(&self) -> Option<&str> {
        let topic = match self {
            Self::Attempts(question) => &question.topic,
            Self::Ledger(question) => &question.topic,
            Self::Series(question) => &question.topic,
        };
        topic.as_deref()
    }
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
    pub by: By,
    /// Sums all steps.
    pub total: bool,
}

impl SeriesQuestion {
    /// Returns the beginning of the step that has what was counted then.
    pub fn begin(&self, at: Timestamp) -> Timestamp {
        self.step.begin(if self.total { self.from } else { at })
    }
}

/// The journal's answer to a question.
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
