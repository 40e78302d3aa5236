//! The ledger: compares what was published with what became of it, per event subscription and hour.
//!
//! Each count is a log line of a function, summed over the events of one invocation with the same
//! topic, event subscription and hour of publish. Every event matched or redriven is delivered,
//! dead-lettered, dropped or waiting: the rest is [`Account::difference`].

pub mod latencies;

use std::collections::BTreeMap;

use latencies::Latencies;
use serde::{Deserialize, Deserializer};

use crate::{metric::PUBLISH_HOUR, subscription::SubscriptionKey, time::Timestamp};

/// The events published to one topic in one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    pub accepted: u64,
    /// Events without an event subscription.
    pub unmatched: u64,
}

/// What became of the events of one hour that one event subscription matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub matched: u64,
    /// Dead letters redriven to it.
    pub redriven: u64,
    /// A duplicate counts again.
    pub delivered: u64,
    /// By reason.
    pub dead_lettered: BTreeMap<String, u64>,
    /// By reason.
    pub dropped: BTreeMap<String, u64>,
    /// For their next attempt, or for their end to be carried out.
    pub waiting: u64,
    pub latencies: Latencies,
}

impl Account {
    /// Counts the events without a known end: matched or redriven, but neither delivered,
    /// dead-lettered, dropped nor waiting. Negative if there are more ends than events.
    pub fn difference(&self) -> i64 {
        let Self { matched, redriven, delivered, dead_lettered, dropped, waiting, latencies: _ } =
            self;
        let reasons = dead_lettered.values().chain(dropped.values());
        let known =
            reasons.fold(delivered.saturating_add(*waiting), |sum, one| sum.saturating_add(*one));
        let difference = i128::from(matched.saturating_add(*redriven)) - i128::from(known);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    /// Adds another account.
    pub fn add(&mut self, other: &Self) {
        let Self { matched, redriven, delivered, dead_lettered, dropped, waiting, latencies } =
            other;
        add(&mut self.matched, *matched);
        add(&mut self.redriven, *redriven);
        add(&mut self.delivered, *delivered);
        add(&mut self.waiting, *waiting);
        self.latencies.add_all(latencies);
        for (own, others) in
            [(&mut self.dead_lettered, dead_lettered), (&mut self.dropped, dropped)]
        {
            for (reason, count) in others {
                add(own.entry(reason.clone()).or_default(), *count);
            }
        }
    }
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// All accounts of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By topic and hour.
    pub intakes: BTreeMap<(String, Timestamp), Intake>,
    /// By event subscription and hour.
    pub accounts: BTreeMap<(SubscriptionKey, Timestamp), Account>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    #[serde(deserialize_with = "hour")]
    publish_hour: Timestamp,
    topic: String,
    event_subscription_name: Option<String>,
    dead_letter_reason: Option<String>,
    drop_reason: Option<String>,
    #[serde(default)]
    publish_success_count: u64,
    #[serde(default)]
    unmatched_event_count: u64,
    #[serde(default)]
    matched_event_count: u64,
    #[serde(default)]
    redriven_event_count: u64,
    #[serde(default)]
    delivery_success_count: u64,
    #[serde(default)]
    latency_ms: Latencies,
    #[serde(default)]
    dead_lettered_count: u64,
    #[serde(default)]
    dropped_event_count: u64,
}

fn hour<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let at = Timestamp::parse_rfc_3339(&text).map(Timestamp::hour);
    at.ok_or_else(|| serde::de::Error::custom("the publish hour is no date and time"))
}

impl Ledger {
    /// Adds a log line's counts of events published since then. Returns whether it is the ledger's.
    pub fn read(&mut self, line: &str, since: Timestamp) -> bool {
        if !line.contains(PUBLISH_HOUR) {
            return false;
        }
        let Ok(line) = serde_json::from_str::<Line>(line) else { return false };
        if line.publish_hour >= since.hour() {
            self.post(line);
        }
        true
    }

    fn post(&mut self, line: Line) {
        let hour = line.publish_hour;
        let Some(name) = line.event_subscription_name else {
            let intake = self.intakes.entry((line.topic, hour)).or_default();
            add(&mut intake.accepted, line.publish_success_count);
            add(&mut intake.unmatched, line.unmatched_event_count);
            return;
        };
        let key = SubscriptionKey { topic: line.topic, name };
        let account = self.accounts.entry((key, hour)).or_default();
        add(&mut account.matched, line.matched_event_count);
        add(&mut account.redriven, line.redriven_event_count);
        add(&mut account.delivered, line.delivery_success_count);
        account.latencies.add_all(&line.latency_ms);
        if let Some(reason) = line.dead_letter_reason {
            add(account.dead_lettered.entry(reason).or_default(), line.dead_lettered_count);
        }
        if let Some(reason) = line.drop_reason {
            add(account.dropped.entry(reason).or_default(), line.dropped_event_count);
        }
    }

    pub fn wait(&mut self, key: &SubscriptionKey, published_at: Timestamp, events: u64) {
        let account = self.accounts.entry((key.clone(), published_at.hour())).or_default();
        add(&mut account.waiting, events);
    }

    /// Sums the accounts of all hours, by event subscription.
    pub fn totals(&self) -> BTreeMap<&SubscriptionKey, Account> {
        let mut totals: BTreeMap<_, Account> = BTreeMap::new();
        for ((key, _), account) in &self.accounts {
            totals.entry(key).or_default().add(account);
        }
        totals
    }
}
