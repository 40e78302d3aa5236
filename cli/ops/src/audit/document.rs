//! An audit as `--json` prints it.

use std::collections::BTreeMap;

use gridpost_api::{journal::Counts, schema::Time};
use gridpost_core::{
    ledger::{Account, Intake},
    subscription::SubscriptionKey,
};
use serde::Serialize;

use super::verdict::{Audit, Cell, Queues, Standing, Verdict};

/// An audit as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditDocument {
    pub since: Time,
    pub until: Time,
    pub topics: Vec<TopicCounts>,
    pub event_subscriptions: Vec<SubscriptionCounts>,
    /// None if the queues can't be read.
    pub queues: Option<Queues>,
    pub verdict: &'static str,
    pub is_complete: bool,
    pub events_without_end: u64,
    pub events_missing: u64,
    pub events_under_way: u64,
    pub ends_too_many: u64,
    pub events_lost: u64,
    /// Always empty: the journal knows of all functions.
    pub functions_without_log: [&'static str; 0],
    pub leaves_out: Vec<String>,
}

/// The events that a topic accepted.
#[derive(Clone, Debug, Serialize)]
pub struct TopicCounts {
    pub name: String,
    pub accepted: u64,
    pub unmatched: u64,
}

/// The account of an event subscription, in all and by the hour of the publish.
#[derive(Clone, Debug, Serialize)]
pub struct SubscriptionCounts {
    #[serde(flatten)]
    pub key: SubscriptionKey,
    pub filtered: u64,
    #[serde(flatten)]
    pub counts: Balance,
    pub hours: Vec<HourCounts>,
}

/// The account of an event subscription and an hour, judged.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HourCounts {
    pub publish_hour: Time,
    pub is_open: bool,
    pub verdict: &'static str,
    /// Events without a known end, or ends too many.
    pub events: u64,
    #[serde(flatten)]
    pub counts: Balance,
}

/// The counts of an account, and what waits.
#[derive(Clone, Debug, Serialize)]
pub struct Balance {
    #[serde(flatten)]
    pub counts: Counts,
    pub waiting: u64,
    pub difference: i64,
}

impl Audit {
    /// Returns the audit as `--json` prints it.
    pub fn document(&self) -> AuditDocument {
        let topics = self.topics().into_iter().map(|(name, Intake { accepted, unmatched })| {
            TopicCounts { name: name.to_owned(), accepted, unmatched }
        });
        let cells = self.cells();
        let totals = self.ledger.totals();
        let subscriptions = totals.iter().map(|(key, account)| SubscriptionCounts {
            key: (*key).clone(),
            filtered: self.filtered(key),
            counts: account.into(),
            hours: cells.iter().filter(|cell| cell.key == *key).map(HourCounts::from).collect(),
        });
        let verdict = match self.verdict() {
            Verdict::Balances => "balances",
            Verdict::UnderWay { .. } => "underWay",
            Verdict::Missing { .. } => "missing",
        };
        let (missing, under_way) = (self.missing(), self.under_way());
        AuditDocument {
            since: self.since.into(),
            until: self.until.into(),
            topics: topics.collect(),
            event_subscriptions: subscriptions.collect(),
            queues: self.queues.as_ref().ok().copied(),
            verdict,
            is_complete: self.is_complete(),
            events_without_end: missing.saturating_add(under_way),
            events_missing: missing,
            events_under_way: under_way,
            ends_too_many: self.ends_too_many(),
            events_lost: self.lost(),
            functions_without_log: [],
            leaves_out: self.left_out.clone(),
        }
    }
}

impl From<&Cell<'_>> for HourCounts {
    fn from(cell: &Cell<'_>) -> Self {
        let (verdict, events) = match cell.standing {
            Standing::Balanced => ("balances", 0),
            Standing::UnderWay { events } => ("underWay", events),
            Standing::Missing { events } => ("missing", events),
            Standing::TooMany { ends } => ("endsTooMany", ends),
        };
        let (publish_hour, counts) = (cell.hour.into(), cell.account.into());
        Self { publish_hour, is_open: cell.is_open, verdict, events, counts }
    }
}

impl From<&Account> for Balance {
    fn from(account: &Account) -> Self {
        let (waiting, difference) = (account.waiting, account.difference());
        Self { counts: account.into(), waiting, difference }
    }
}

/// Sums the counts of all reasons.
pub fn total(reasons: &BTreeMap<String, u64>) -> u64 {
    reasons.values().copied().fold(0, u64::saturating_add)
}
