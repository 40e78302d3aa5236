//! The ledger: compares what was published with what became of it, per event subscription and hour.
//!
//! Each count is a log line of a function, summed over the events of one invocation with the same
//! topic, event subscription and hour of publish. Every event matched or redriven is delivered,
//! dead-lettered, dropped or waiting: the rest is [`Account::difference`].

use std::{
    borrow::Cow, collections::BTreeMap, fmt, num::ParseIntError, str::FromStr, time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::{
    metric::{self, DELIVERY_ATTEMPT_FAIL_COUNT, PUBLISH_HOUR},
    retry::outcome::Outcome,
    subscription::SubscriptionKey,
    time::Timestamp,
};

/// Whose events are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A topic, for events that it accepted.
    Topic(String),
    /// An event subscription, for events that it matched.
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

impl Count {
    /// Returns its metric and the metric's dimensions.
    pub fn metric(&self) -> (&'static str, Vec<(&'static str, Cow<'_, str>)>) {
        let (metric, detail) = match &self.counted {
            Counted::Accepted => (metric::PUBLISH_SUCCESS_COUNT, None),
            Counted::Unmatched => (metric::UNMATCHED_EVENT_COUNT, None),
            Counted::Matched => (metric::MATCHED_EVENT_COUNT, None),
            Counted::Redriven => (metric::REDRIVEN_EVENT_COUNT, None),
            Counted::Delivered { .. } => (metric::DELIVERY_SUCCESS_COUNT, None),
            Counted::DeadLettered(reason) => {
                (metric::DEAD_LETTERED_COUNT, Some((metric::DEAD_LETTER_REASON, Cow::from(reason))))
            }
            Counted::Dropped(reason) => {
                (metric::DROPPED_EVENT_COUNT, Some((metric::DROP_REASON, reason.into())))
            }
            Counted::Failed(outcome) => {
                (metric::DELIVERY_ATTEMPT_FAIL_COUNT, Some(("Error", outcome.to_string().into())))
            }
        };
        let name = match &self.owner {
            Owner::Topic(_) => None,
            Owner::Subscription(key) => {
                Some((metric::EVENT_SUBSCRIPTION_NAME, Cow::from(&key.name)))
            }
        };
        let topic = Some((metric::TOPIC, Cow::from(self.owner.topic())));
        (metric, [detail, topic, name].into_iter().flatten().collect())
    }
}

/// The kinds of counts.
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

impl Counted {
    /// Returns by how much one event that is counted as that changes how many wait: 1, -1 or 0.
    pub fn waiting_change(&self) -> i64 {
        match self {
            Self::Matched | Self::Redriven => 1,
            Self::Delivered { .. } | Self::DeadLettered(_) | Self::Dropped(_) => -1,
            Self::Accepted | Self::Unmatched | Self::Failed(_) => 0,
        }
    }
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

/// The events published to one topic in one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    pub accepted: u64,
    /// Events without an event subscription.
    pub unmatched: u64,
}

/// The ends of the events of one hour that one event subscription matched.
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

    /// Adds events that are counted as that; those of a topic are not in an account.
    pub fn count(&mut self, counted: &Counted, events: u64) {
        match counted {
            Counted::Accepted | Counted::Unmatched | Counted::Failed(_) => {}
            Counted::Matched => add(&mut self.matched, events),
            Counted::Redriven => add(&mut self.redriven, events),
            Counted::Delivered { took } => {
                add(&mut self.delivered, events);
                self.latencies.add(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), events);
            }
            Counted::DeadLettered(reason) => {
                add(self.dead_lettered.entry(reason.clone()).or_default(), events);
            }
            Counted::Dropped(reason) => {
                add(self.dropped.entry(reason.clone()).or_default(), events)
            }
        }
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

/// A log line that counts events or failed attempts.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    /// Failed attempts are of any hour.
    #[serde(default, deserialize_with = "hour")]
    publish_hour: Option<Timestamp>,
    topic: String,
    event_subscription_name: Option<String>,
    dead_letter_reason: Option<String>,
    drop_reason: Option<String>,
    error: Option<Outcome>,
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
    #[serde(default)]
    delivery_attempt_fail_count: u64,
}

fn hour<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let at = Timestamp::parse_rfc_3339(&text).map(Timestamp::hour);
    at.map(Some).ok_or_else(|| serde::de::Error::custom("the publish hour is not a date and time"))
}

/// Reads the counts of a log line; of failed attempts without the time of the publish.
pub fn counts_of(line: &str) -> Vec<Count> {
    if ![PUBLISH_HOUR, DELIVERY_ATTEMPT_FAIL_COUNT].iter().any(|name| line.contains(name)) {
        return Vec::new();
    }
    let Ok(line) = serde_json::from_str::<Line>(line) else { return Vec::new() };
    let owner = match line.event_subscription_name {
        None => Owner::Topic(line.topic),
        Some(name) => Owner::Subscription(SubscriptionKey { topic: line.topic, name }),
    };
    // Those whose latency is not known count as the slowest.
    let untimed = line.delivery_success_count.saturating_sub(line.latency_ms.events());
    let letters = line.dead_letter_reason.map(Counted::DeadLettered);
    let dropped = line.drop_reason.map(Counted::Dropped);
    let failed = line.error.map(Counted::Failed);
    let by_reason = [
        letters.zip(Some(line.dead_lettered_count)),
        dropped.zip(Some(line.dropped_event_count)),
        failed.zip(Some(line.delivery_attempt_fail_count)),
    ];
    let counted = [
        (Counted::Accepted, line.publish_success_count),
        (Counted::Unmatched, line.unmatched_event_count),
        (Counted::Matched, line.matched_event_count),
        (Counted::Redriven, line.redriven_event_count),
        (Counted::Delivered { took: Duration::MAX }, untimed),
    ];
    let counted = counted.into_iter().chain(line.latency_ms.delivered());
    let publish_time = line.publish_hour.unwrap_or(Timestamp::MIN);
    let counted = counted.chain(by_reason.into_iter().flatten()).filter(|(_, events)| *events > 0);
    let count = |(counted, events)| Count {
        owner: owner.clone(),
        publish_time,
        counted,
        events,
        once: None,
    };
    counted.map(count).collect()
}

impl Ledger {
    /// Adds counts.
    pub fn count(&mut self, count: &Count) {
        let hour = count.publish_time.hour();
        match &count.owner {
            Owner::Topic(topic) => {
                let intake = self.intakes.entry((topic.clone(), hour)).or_default();
                match count.counted {
                    Counted::Accepted => add(&mut intake.accepted, count.events),
                    Counted::Unmatched => add(&mut intake.unmatched, count.events),
                    _ => {}
                }
            }
            // Failed attempts are not part of an account.
            Owner::Subscription(_) if matches!(count.counted, Counted::Failed(_)) => {}
            Owner::Subscription(key) => {
                let account = self.accounts.entry((key.clone(), hour)).or_default();
                account.count(&count.counted, count.events);
            }
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

/// Inclusive upper bounds of the buckets in milliseconds. One more bucket follows.
pub const BOUNDS_MS: [u64; 11] =
    [25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 60_000, 600_000, 3_600_000];

const ABOVE: &str = "more";

/// Counts of delivered events by their time since the publish, in a few buckets that, unlike
/// percentiles, can be summed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, u64>")]
pub struct Latencies {
    /// The last one is above all bounds.
    counts: [u64; BOUNDS_MS.len() + 1],
}

/// A percentile, as far as the buckets tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// In milliseconds.
    AtMost(u64),
    /// In milliseconds: the highest bound.
    Above(u64),
}

impl Latencies {
    /// Adds events that took `took_ms` milliseconds.
    pub fn add(&mut self, took_ms: u64, events: u64) {
        let bucket = BOUNDS_MS.partition_point(|bound| *bound < took_ms);
        self.counts[bucket] = self.counts[bucket].saturating_add(events);
    }

    /// Returns the bound of the bucket of a time, in milliseconds; `None` above all bounds.
    pub fn bound_ms(took_ms: u64) -> Option<u64> {
        BOUNDS_MS.into_iter().find(|bound| took_ms <= *bound)
    }

    /// Returns the count of each bucket, in the order of [`BOUNDS_MS`]; the last one is above all bounds.
    pub fn counts(&self) -> &[u64; BOUNDS_MS.len() + 1] {
        &self.counts
    }

    /// Returns what is counted in each bucket, as it is at the bucket's bound.
    fn delivered(&self) -> impl Iterator<Item = (Counted, u64)> {
        let bounds = BOUNDS_MS.into_iter().chain([u64::MAX]).map(Duration::from_millis);
        bounds.map(|took| Counted::Delivered { took }).zip(self.counts)
    }

    pub fn add_all(&mut self, others: &Self) {
        for (own, more) in self.counts.iter_mut().zip(&others.counts) {
            *own = own.saturating_add(*more);
        }
    }

    pub fn events(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::saturating_add)
    }

    /// Returns the time that at least `percent` (1 to 100) of the events did not exceed; `None`
    /// without events.
    pub fn percentile(&self, percent: u32) -> Option<Latency> {
        let wanted = (u128::from(self.events()) * u128::from(percent)).div_ceil(100).max(1);
        let mut sum = 0_u128;
        for (bucket, count) in self.counts.iter().enumerate() {
            sum += u128::from(*count);
            if *count > 0 && sum >= wanted {
                let last = BOUNDS_MS[BOUNDS_MS.len() - 1];
                let bound = BOUNDS_MS.get(bucket).copied().map(Latency::AtMost);
                return Some(bound.unwrap_or(Latency::Above(last)));
            }
        }
        None
    }
}

/// Writes the buckets that are not empty by their bounds: `{"50":3,"more":1}`.
impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bounds = BOUNDS_MS.iter().map(u64::to_string).chain([ABOVE.to_owned()]);
        serializer.collect_map(bounds.zip(self.counts).filter(|(_, count)| *count > 0))
    }
}

/// Bounds of another version may differ: each counts in the bucket that includes it.
impl TryFrom<BTreeMap<String, u64>> for Latencies {
    type Error = ParseIntError;

    fn try_from(buckets: BTreeMap<String, u64>) -> Result<Self, ParseIntError> {
        let mut latencies = Self::default();
        for (bound, count) in buckets {
            latencies.add(if bound == ABOVE { u64::MAX } else { bound.parse()? }, count);
        }
        Ok(latencies)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, millis) = match *self {
            Self::AtMost(millis) => ("<=", millis),
            Self::Above(millis) => (">", millis),
        };
        match millis {
            0..1_000 => write!(formatter, "{sign} {millis} ms"),
            1_000..60_000 => write!(formatter, "{sign} {} s", seconds(millis)),
            60_000..3_600_000 => write!(formatter, "{sign} {} min", millis / 60_000),
            _ => write!(formatter, "{sign} {} h", millis / 3_600_000),
        }
    }
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    type Counts<'a> = &'a [(u64, u64)];

    fn of(counts: Counts<'_>) -> Latencies {
        let mut latencies = Latencies::default();
        for (took_ms, events) in counts {
            latencies.add(*took_ms, *events);
        }
        latencies
    }

    #[test]
    fn percentiles_are_the_bounds_that_take_their_share() {
        let ten_and_one = [(20, 10), (700, 1)];
        // Counts, percent, percentile.
        let table: [(Counts<'_>, u32, &str); 12] = [
            (&[(0, 1)], 50, "<= 25 ms"),
            (&[(25, 1)], 50, "<= 25 ms"),
            (&[(26, 1)], 99, "<= 50 ms"),
            (&ten_and_one, 50, "<= 25 ms"),
            (&ten_and_one, 90, "<= 25 ms"),
            (&ten_and_one, 91, "<= 1 s"),
            (&ten_and_one, 100, "<= 1 s"),
            (&[(1_500, 3)], 95, "<= 2.5 s"),
            (&[(10_001, 3)], 95, "<= 1 min"),
            (&[(3_600_000, 3)], 1, "<= 1 h"),
            (&[(3_600_001, 1), (1, 99)], 100, "> 1 h"),
            (&[(1, u64::MAX), (1_000_000_000, u64::MAX)], 50, "<= 25 ms"),
        ];
        for (counts, percent, want) in table {
            let told = of(counts).percentile(percent).map(|latency| latency.to_string());
            assert_eq!(told.as_deref(), Some(want), "{percent} of {counts:?}");
        }
        assert_eq!(Latencies::default().percentile(50), None);
    }

    #[test]
    fn only_what_is_not_empty_is_written_and_it_is_read_back() {
        let latencies = of(&[(30, 3), (40, 1), (4_000_000, 2)]);
        let json = serde_json::to_string(&latencies).expect("JSON");
        assert_eq!(json, r#"{"50":4,"more":2}"#);
        assert_eq!(serde_json::from_str::<Latencies>(&json).expect("latencies"), latencies);
        let all: Vec<_> =
            BOUNDS_MS.iter().map(|bound| (*bound, 1)).chain([(u64::MAX, 1)]).collect();
        let all = of(&all);
        let json = serde_json::to_string(&all).expect("JSON");
        assert_eq!(json.matches(':').count(), 12, "{json}");
        assert_eq!(serde_json::from_str::<Latencies>(&json).expect("latencies"), all);
        for wrong in [r#"{"x":1}"#, r#"{"50":-1}"#, "[1]"] {
            assert!(serde_json::from_str::<Latencies>(wrong).is_err(), "{wrong}");
        }
    }
}
