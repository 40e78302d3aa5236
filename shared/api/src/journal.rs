//! The journal as documents: what is asked of it ([`query`]), and its answers.

pub mod latency;
pub mod query;

use std::collections::BTreeMap;

use gridpost_core::{
    journal::{Answer, By, Entry, EntryKind, Flow, Known, Owner},
    ledger::{Account, Intake, Ledger},
    retry::DelayReason,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use strum::Display;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Ref, RefOr, Schema, schema::AnyOfBuilder},
};
use uuid::Uuid;

use self::latency::LatencyDocument;
use crate::schema::{Time, stand_in};

/// The text that [`JournalQuery::leaves_out`] has where first attempts that succeed are not logged.
pub const FIRST_SUCCESSES: &str = "successes at the first attempt are not logged here";

/// A question to the journal, and its answer as far as it is known. It has the member that was asked for:
/// attempts, ledger or series.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalQuery {
    /// Looks again, and names the pages.
    pub id: String,
    /// Running: look again in a second or more. TooDear: the answer would cost more than maxDollars, and
    /// nothing was read.
    pub status: JournalQueryStatus,
    /// Read for the answer, about.
    pub gigabytes: f64,
    /// The price of the answer in U.S. dollars, about.
    pub dollars: f64,
    /// Up to when the answer is whole: what happened later may be missing.
    pub known_until: Option<Time>,
    /// Before this time nothing is kept, although it was asked for.
    pub begins: Option<Time>,
    /// In words: what happened and is not in the answer.
    #[serde(default)]
    pub leaves_out: Vec<String>,
    /// The newest first.
    pub attempts: Option<Vec<JournalEntry>>,
    pub ledger: Option<Vec<LedgerEntry>>,
    pub series: Option<Vec<SeriesEntry>>,
    /// Where the next page is.
    #[schema(format = "uri")]
    pub next_link: Option<String>,
}

/// How far the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum JournalQueryStatus {
    Succeeded,
    Running,
    TooDear,
}

impl JournalQuery {
    /// Makes a question without an answer.
    pub fn new(id: String, status: JournalQueryStatus, gigabytes: f64, dollars: f64) -> Self {
        Self {
            id,
            status,
            gigabytes,
            dollars,
            known_until: None,
            begins: None,
            leaves_out: Vec::new(),
            attempts: None,
            ledger: None,
            series: None,
            next_link: None,
        }
    }

    /// Adds an answer; pages of it are the caller's matter.
    #[must_use]
    pub fn answered(mut self, answer: Answer) -> Self {
        self.known_until = Some(answer.known_until.into());
        self.begins = answer.begins.map(Into::into);
        let lacks_some = answer.lacks_first_successes;
        self.leaves_out.extend(lacks_some.then(|| FIRST_SUCCESSES.to_owned()));
        match answer.known {
            Known::Attempts(entries) => {
                self.attempts = Some(entries.into_iter().map(Into::into).collect());
            }
            Known::Ledger(periods) => {
                let periods = (0..).zip(&periods);
                self.ledger =
                    Some(periods.flat_map(|(period, ledger)| entries(period, ledger)).collect());
            }
            Known::Series(series) => {
                let entry =
                    |((begins, owner), flow)| SeriesEntry::of(series.by, begins, owner, flow);
                self.series = Some(series.flows.into_iter().map(entry).collect());
            }
        }
        self
    }

    /// Adds the next page, with the beginning that only a later page may know.
    pub fn extend(&mut self, next: Self) {
        fn join<T>(own: &mut Option<Vec<T>>, next: Option<Vec<T>>) {
            own.get_or_insert_default().extend(next.into_iter().flatten());
        }
        join(&mut self.attempts, next.attempts);
        join(&mut self.ledger, next.ledger);
        join(&mut self.series, next.series);
        self.begins = next.begins.or(self.begins);
        self.next_link = next.next_link;
    }

    /// Says in words what it does not have.
    pub fn gaps(&self) -> Vec<String> {
        let begins = self.begins.map(|begins| format!("nothing is kept from before {begins}"));
        self.leaves_out.iter().cloned().chain(begins).collect()
    }

    /// How many entries it has.
    pub fn entries(&self) -> usize {
        let of = |entries: Option<usize>| entries.unwrap_or_default();
        of(self.attempts.as_ref().map(Vec::len))
            + of(self.ledger.as_ref().map(Vec::len))
            + of(self.series.as_ref().map(Vec::len))
    }

    /// Returns the ledgers of an answer that was read whole, one more than there were cuts.
    pub fn ledgers(&self, cuts: usize) -> Vec<Ledger> {
        let mut ledgers = vec![Ledger::default(); cuts + 1];
        for entry in self.ledger.iter().flatten() {
            if let Some(ledger) = ledgers.get_mut(entry.period) {
                entry.post(ledger);
            }
        }
        ledgers
    }
}

/// Something that became of a delivery.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// The same whenever it is read.
    pub id: String,
    pub time: Time,
    /// Success, LateSuccess and Failure: an attempt. SuccessAfterEnd: a success that came too late to
    /// count. Ending: it ended undelivered, and its dead letter is on its way. DeadLettered: its dead
    /// letter is stored. Dropped: the events are lost.
    #[schema(value_type = stand_in::EntryKind)]
    pub kind: EntryKind,
    pub topic: String,
    pub event_subscription: String,
    pub delivery_id: Uuid,
    pub publish_time: Time,
    /// The number of the attempt, from 1. For an end, how many were made.
    pub attempt: u32,
    /// For an end, that of the last attempt.
    pub outcome: Option<String>,
    pub http_status_code: Option<u16>,
    pub duration_in_ms: Option<u64>,
    /// When the next attempt is due.
    pub due: Option<Time>,
    #[schema(value_type = Option<stand_in::DelayReason>)]
    pub wait_because: Option<DelayReason>,
    /// The reason of an end.
    pub reason: Option<String>,
    /// How often its message had been received.
    pub receives: Option<u32>,
    pub events: u32,
    /// Of the first hundred.
    #[schema(max_items = 100)]
    pub event_ids: Vec<String>,
    pub traceparent: Option<String>,
    /// How its failed response began, escaped. It may hold personal data.
    #[schema(max_length = 1_024)]
    pub response: Option<String>,
}

impl From<(String, Entry)> for JournalEntry {
    fn from((id, entry): (String, Entry)) -> Self {
        let SubscriptionKey { topic, name } = entry.subscription;
        Self {
            id,
            time: entry.at.into(),
            kind: entry.kind,
            topic,
            event_subscription: name,
            delivery_id: entry.delivery,
            publish_time: entry.publish_time.into(),
            attempt: entry.attempt,
            outcome: entry.outcome.map(|outcome| outcome.to_string()),
            http_status_code: entry.status,
            duration_in_ms: entry
                .took
                .map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            due: entry.due.map(Into::into),
            wait_because: entry.because,
            reason: entry.reason,
            receives: entry.receives,
            events: entry.events,
            event_ids: serde_json::from_str(&entry.event_ids).unwrap_or_default(),
            traceparent: entry.trace_parent.map(|trace| trace.to_string()),
            response: entry.response,
        }
    }
}

/// What was counted of the events of one hour that a topic accepted, or an event subscription matched.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Between which cuts it was counted: 0 before the first one.
    pub period: usize,
    pub topic: String,
    pub event_subscription: Option<String>,
    /// The beginning of the hour, UTC, in which the events were published.
    pub publish_hour: Time,
    /// Of an event subscription: matched or redriven, and not ended. Negative where more ended in this
    /// period than were matched in it, or a delivery was counted twice.
    pub waiting: Option<i64>,
    #[serde(flatten)]
    pub counts: JournalCounts,
}

impl LedgerEntry {
    fn post(&self, ledger: &mut Ledger) {
        let (topic, hour) = (self.topic.clone(), self.publish_hour.0);
        match (&self.event_subscription, &self.counts) {
            (None, JournalCounts { topic: Some(intake), .. }) => {
                ledger.intakes.insert((topic, hour), intake.into());
            }
            (Some(name), JournalCounts { event_subscription: Some(counts), .. }) => {
                let key = SubscriptionKey { topic, name: name.clone() };
                ledger.accounts.insert((key, hour), (&**counts).into());
            }
            _ => {}
        }
    }
}

/// What was counted in one step of time of a topic, an event subscription, a topic with its event subscriptions,
/// or all together.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeriesEntry {
    /// Unless it is of all together.
    pub topic: Option<String>,
    /// Of an event subscription alone.
    pub event_subscription: Option<String>,
    /// The beginning of the step, UTC; of all steps, that of the first.
    pub time: Time,
    /// Unless it is of a topic alone: failed attempts, by outcome.
    pub failed_attempts: Option<BTreeMap<String, u64>>,
    #[serde(flatten)]
    pub counts: JournalCounts,
}

/// Counts of a topic, of an event subscription, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalCounts {
    #[serde(flatten)]
    pub topic: Option<TopicCounts>,
    #[serde(flatten)]
    pub event_subscription: Option<Box<Counts>>,
}

impl PartialSchema for JournalCounts {
    fn schema() -> RefOr<Schema> {
        let kinds = [Counts::name(), TopicCounts::name()].map(Ref::from_schema_name);
        let any = AnyOfBuilder::new()
            .description(Some("Counts of a topic, of an event subscription, or both."));
        kinds.into_iter().fold(any, AnyOfBuilder::item).into()
    }
}

impl ToSchema for JournalCounts {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.extend([
            (Counts::name().into_owned(), Counts::schema()),
            (TopicCounts::name().into_owned(), TopicCounts::schema()),
        ]);
        Counts::schemas(schemas);
    }
}

/// Events that a topic accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicCounts {
    pub accepted: u64,
    /// Those for no event subscription.
    pub unmatched: u64,
}

/// Events that an event subscription matched, and what became of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub matched: u64,
    /// Dead letters that were sent again.
    pub redriven: u64,
    pub delivered: u64,
    pub dead_lettered: ReasonCounts,
    pub dropped: ReasonCounts,
    pub latency: LatencyDocument,
}

/// Events that ended undelivered, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonCounts {
    pub total: u64,
    pub by_reason: BTreeMap<String, u64>,
}

impl From<&BTreeMap<String, u64>> for ReasonCounts {
    fn from(by_reason: &BTreeMap<String, u64>) -> Self {
        let total = by_reason.values().copied().fold(0, u64::saturating_add);
        Self { total, by_reason: by_reason.clone() }
    }
}

impl From<&Intake> for TopicCounts {
    fn from(&Intake { accepted, unmatched }: &Intake) -> Self {
        Self { accepted, unmatched }
    }
}

impl From<&TopicCounts> for Intake {
    fn from(&TopicCounts { accepted, unmatched }: &TopicCounts) -> Self {
        Self { accepted, unmatched }
    }
}

impl From<&Account> for Counts {
    fn from(account: &Account) -> Self {
        Self {
            matched: account.matched,
            redriven: account.redriven,
            delivered: account.delivered,
            dead_lettered: (&account.dead_lettered).into(),
            dropped: (&account.dropped).into(),
            latency: (&account.latencies).into(),
        }
    }
}

/// Reads the counts; none says how many wait.
impl From<&Counts> for Account {
    fn from(counts: &Counts) -> Self {
        Self {
            matched: counts.matched,
            redriven: counts.redriven,
            delivered: counts.delivered,
            dead_lettered: counts.dead_lettered.by_reason.clone(),
            dropped: counts.dropped.by_reason.clone(),
            waiting: 0,
            latencies: counts.latency.buckets.clone(),
        }
    }
}

fn entries(period: usize, ledger: &Ledger) -> impl Iterator<Item = LedgerEntry> {
    let intakes = ledger.intakes.iter().map(move |((topic, hour), intake)| LedgerEntry {
        period,
        topic: topic.clone(),
        event_subscription: None,
        publish_hour: (*hour).into(),
        waiting: None,
        counts: JournalCounts { topic: Some(intake.into()), ..JournalCounts::default() },
    });
    let accounts = ledger.accounts.iter().map(move |((key, hour), account)| LedgerEntry {
        period,
        topic: key.topic.clone(),
        event_subscription: Some(key.name.clone()),
        publish_hour: (*hour).into(),
        waiting: Some(account.difference()),
        counts: JournalCounts {
            event_subscription: Some(Box::new(account.into())),
            ..JournalCounts::default()
        },
    });
    intakes.chain(accounts)
}

impl SeriesEntry {
    fn of(by: By, begins: Timestamp, owner: Option<Owner>, flow: Flow) -> Self {
        let Flow { accepted, unmatched, account, failed } = flow;
        let name = owner.as_ref().and_then(Owner::name).map(str::to_owned);
        let is_topic_alone = by == By::EventSubscription && name.is_none();
        Self {
            topic: owner.map(|owner| owner.topic().to_owned()),
            time: begins.into(),
            failed_attempts: (!is_topic_alone).then_some(failed),
            counts: JournalCounts {
                topic: name.is_none().then_some(TopicCounts { accepted, unmatched }),
                event_subscription: (!is_topic_alone).then(|| Box::new((&account).into())),
            },
            event_subscription: name,
        }
    }
}

#[cfg(test)]
mod tests;
