//! How late retries came.

use std::time::Duration;

use gridpost_testkit::history::Request;
use uuid::Uuid;

use crate::{checker::model, scenario::Scenario, world::Remains};

/// The time-to-live of deliveries by default.
const LIFE: Duration = Duration::from_secs(24 * 3_600);

/// Lists how long after it was due each retry of a topic's event subscription `sub` began, shortest first.
/// The scenario has no jitter, no batches, and the default time-to-live.
pub fn of_retries(scenario: &Scenario, remains: &Remains, topic: &str) -> Vec<Duration> {
    let known = scenario.topics.iter().find(|(found, _)| found.name == topic);
    let (topic, subscriptions) = known.expect("the scenario has the topic");
    let [subscription, ..] = &subscriptions[..] else { return Vec::new() };
    let of = |delivery: Uuid, number| attempt(remains, delivery, number);
    let requests = remains.history.requests.iter();
    let retries = requests.filter(|made| made.subscription == subscription.key && made.number > 1);
    let late = retries.filter_map(|retry| {
        let delivery = retry.deliveries[0];
        let first = of(delivery, 1)?;
        let (ended_at, answer) = of(delivery, retry.number - 1)?.heard?;
        let times = (first.began_at, ended_at, first.began_at + LIFE);
        let due = model::due(topic, subscription, times, answer)?;
        Some(retry.began_at.since(due))
    });
    let mut late: Vec<_> = late.collect();
    late.sort_unstable();
    late
}

/// Finds a delivery's attempt by its number.
pub fn attempt(remains: &Remains, delivery: Uuid, number: u32) -> Option<&Request> {
    let mut all = remains.history.requests.iter();
    all.find(|made| made.number == number && made.deliveries.contains(&delivery))
}

/// Returns what 99 of 100 do not exceed. They are sorted, and at least one.
pub fn p99(sorted: &[Duration]) -> Duration {
    sorted[(sorted.len() * 99).div_ceil(100) - 1]
}
