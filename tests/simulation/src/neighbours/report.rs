//! The figures of a world of neighbours.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use gridpost_core::{retry::outcome::Outcome, subscription::SubscriptionKey, time::Timestamp};
use gridpost_testkit::history::{History, Request};
use serde::Serialize;
use uuid::Uuid;

use super::{Plan, Spec, bad, healthy};
use crate::{scenario::key, world::Remains};

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub healthy: Healthy,
    /// The ends of each bad one's events.
    pub bad: Vec<Bad>,
    pub invocations: u64,
    pub billed_gb_seconds: f64,
    pub violations: Vec<String>,
    #[serde(skip)]
    specs: Vec<Spec>,
}

/// Milliseconds from publish to first attempt, of all healthy endpoints.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Healthy {
    pub count: usize,
    pub p50_ms: Option<u64>,
    /// Nine of ten took at most so long.
    pub p90_ms: Option<u64>,
    /// 99 of 100 did.
    pub p99_ms: Option<u64>,
    pub max_ms: Option<u64>,
}

/// A bad endpoint; milliseconds are from publish to delivery.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bad {
    pub published: usize,
    pub delivered: usize,
    pub dead_lettered: usize,
    pub requests: usize,
    /// Most requests that waited for its answer at the same time.
    pub in_flight_max: usize,
    pub p50_ms: Option<u64>,
    /// 99 of 100 took at most so long.
    pub p99_ms: Option<u64>,
    pub max_ms: Option<u64>,
}

pub(super) fn of(plan: &Plan, remains: &Remains, violations: Vec<String>) -> Report {
    let history = &remains.history;
    let mut requests: BTreeMap<&SubscriptionKey, Vec<&Request>> = BTreeMap::new();
    for request in &history.requests {
        requests.entry(&request.subscription).or_default().push(request);
    }
    let of = |name: String| requests.get(&key(&name)).map_or(&[][..], Vec::as_slice);
    let first = (0..plan.healthy).flat_map(|number| first_attempts(history, of(healthy(number))));
    let first = Latencies::of(first);
    Report {
        healthy: Healthy {
            count: first.0.len(),
            p50_ms: first.share(0.5),
            p90_ms: first.share(0.9),
            p99_ms: first.share(0.99),
            max_ms: first.share(1.0),
        },
        bad: (0..plan.bad.len()).map(|number| one(history, bad(number), of(bad(number)))).collect(),
        invocations: remains.usage.invocations(),
        billed_gb_seconds: (remains.usage.gb_seconds() * 1_000.0).round() / 1_000.0,
        violations,
        specs: plan.bad.clone(),
    }
}

fn one(history: &History, name: String, requests: &[&Request]) -> Bad {
    let key = key(&name);
    let own = |delivery: &Uuid| history.accepted[delivery].subscription == key;
    let dead: BTreeSet<_> = history.dead_letters.values().map(|found| found.delivery).collect();
    let latencies = Latencies::of(deliveries(history, requests));
    Bad {
        published: history.accepted.values().filter(|found| found.subscription == key).count(),
        delivered: latencies.0.len(),
        dead_lettered: dead.iter().filter(|delivery| own(delivery)).count(),
        requests: requests.len(),
        in_flight_max: in_flight_max(requests),
        p50_ms: latencies.share(0.5),
        p99_ms: latencies.share(0.99),
        max_ms: latencies.share(1.0),
    }
}

/// How long each delivery took from its publish to its first attempt.
fn first_attempts(history: &History, requests: &[&Request]) -> Vec<u64> {
    let mut first: BTreeMap<Uuid, Timestamp> = BTreeMap::new();
    for request in requests {
        for delivery in &request.deliveries {
            first.entry(*delivery).or_insert(request.began_at);
        }
    }
    since_publish(history, first)
}

/// How long each delivery that arrived took from its publish to the answer that said so.
fn deliveries(history: &History, requests: &[&Request]) -> Vec<u64> {
    let mut arrived: BTreeMap<Uuid, Timestamp> = BTreeMap::new();
    for request in requests {
        let Some(at) = success_at(request) else { continue };
        for delivery in &request.deliveries {
            let first = arrived.entry(*delivery).or_insert(at);
            *first = at.min(*first);
        }
    }
    since_publish(history, arrived)
}

/// When the sender learned that the endpoint had taken it.
fn success_at(request: &Request) -> Option<Timestamp> {
    let heard = request.heard.filter(|(_, answer)| answer.outcome == Outcome::Delivered);
    heard.map(|(at, _)| at).or(request.heard_late)
}

fn since_publish(history: &History, times: BTreeMap<Uuid, Timestamp>) -> Vec<u64> {
    let took =
        |(delivery, at): (&Uuid, &Timestamp)| at.since(history.accepted[delivery].publish_time);
    times.iter().map(took).map(|took| took.as_millis() as u64).collect()
}

/// Most requests that waited for their answer at the same time.
fn in_flight_max(requests: &[&Request]) -> usize {
    let mut steps = Vec::with_capacity(2 * requests.len());
    for request in requests {
        // One whose sender died waits for nothing any more.
        let Some((until, _)) = request.heard else { continue };
        let at_least = request.began_at + Duration::from_millis(1);
        steps.push((request.began_at, 1_i64));
        steps.push((until.max(at_least), -1));
    }
    // What ends at a moment ends before what begins.
    steps.sort_unstable();
    let counts = steps.iter().scan(0, |under_way, (_, step)| {
        *under_way += step;
        Some(*under_way)
    });
    counts.max().unwrap_or(0) as usize
}

/// Milliseconds, sorted.
struct Latencies(Vec<u64>);

impl Latencies {
    fn of(all: impl IntoIterator<Item = u64>) -> Self {
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_unstable();
        Self(all)
    }

    /// The least that such a share of them does not exceed.
    fn share(&self, share: f64) -> Option<u64> {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied()
    }
}

/// Milliseconds as a text.
fn seconds(ms: Option<u64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{:.3} s", ms as f64 / 1_000.0))
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Healthy { count, p50_ms, p90_ms, p99_ms, max_ms } = self.healthy;
        let [p50, p90, p99, max] = [p50_ms, p90_ms, p99_ms, max_ms].map(seconds);
        writeln!(formatter, "healthy endpoints, {count} events, publish to first attempt:")?;
        writeln!(formatter, "  p50 {p50}, p90 {p90}, p99 {p99}, max {max}")?;
        for (spec, bad) in self.specs.iter().zip(&self.bad) {
            let Bad { published, delivered, dead_lettered, requests, in_flight_max, .. } = bad;
            let [p50, p99, max] = [bad.p50_ms, bad.p99_ms, bad.max_ms].map(seconds);
            writeln!(
                formatter,
                "{spec}: {published} events, {delivered} delivered, {dead_lettered} dead-lettered;\n  \
                 {requests} requests, at most {in_flight_max} at the same time\n  \
                 publish to delivery: p50 {p50}, p99 {p99}, max {max}"
            )?;
        }
        let Self { invocations, billed_gb_seconds, .. } = self;
        write!(formatter, "{invocations} invocations, {billed_gb_seconds:.0} GB-seconds billed")?;
        self.violations.iter().try_for_each(|what| write!(formatter, "\nviolation: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_table() {
        let hundred = Latencies::of((1..=100).rev());
        for (of, share, want) in [
            (&hundred, 0.5, Some(50)),
            (&hundred, 0.99, Some(99)),
            (&hundred, 1.0, Some(100)),
            (&Latencies::of([7]), 0.5, Some(7)),
            (&Latencies::of([1, 2]), 0.99, Some(2)),
            (&Latencies::of([]), 0.5, None),
        ] {
            assert_eq!(of.share(share), want, "{share} of {:?}", of.0);
        }
    }
}
