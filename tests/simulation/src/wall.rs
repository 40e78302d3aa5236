//! A great many deliveries wait for dead endpoints, more than SQS lets a queue hide; healthy
//! endpoints must not notice.

use std::{collections::BTreeMap, fmt, time::Duration};

use gridpost_core::retry::profile::ProfileName;

use super::{
    checker,
    lambda::Wakes,
    scenario::Scenario,
    world::{self, Remains},
};
use gridpost_testkit::endpoint::{Reaction, Script};

const DEAD: usize = 10;

const HEALTHY: usize = 5;

/// Events of one publish to a dead endpoint; each is a delivery of its own.
const PUBLISH_EVENTS: usize = 100;

/// How long publishes to dead endpoints are made.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(60 * 60);

/// Half of the dead endpoints come back then.
const BACK_AT_S: u64 = 6 * 60 * 60;

/// The time-to-live of events for those that never come back.
const TIME_TO_LIVE_MINUTES: u32 = 10 * 60;

/// How often a healthy endpoint gets an event, until everything else has ended.
const HEALTHY_EVERY: Duration = Duration::from_secs(30);

/// Most parked deliveries of a page, as the adapter reads them.
const PAGE_ITEMS_MAX: usize = 500;

/// The longest time from an event's publish to its first attempt at a healthy endpoint: polling,
/// the start of an invocation, the calls before the attempt.
const FIRST_ATTEMPT_MAX: Duration = Duration::from_secs(3);

/// A world with a wall.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub deliveries: usize,
    /// Most messages of a queue in flight, as SQS has it: 120,000.
    pub in_flight_max: usize,
    /// The number in flight above which long waits are parked: 60,000 as deployed.
    pub retry_in_flight_limit: u64,
}

/// The result of such a world.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Deliveries that were accepted, healthy endpoints' included.
    pub accepted: usize,
    pub requests: usize,
    pub dead_letters: usize,
    /// How often a delivery was parked.
    pub parked: u64,
    /// Most messages of one queue in flight.
    pub in_flight_max: usize,
    /// The longest time from when a parked delivery was due until wake had sent it back.
    pub sent_back_max: Duration,
    /// The longest time from a publish to a healthy endpoint's first attempt.
    pub healthy_max: Duration,
    /// Virtual time from the beginning to the end.
    pub lasted: Duration,
    pub failures: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, requests, dead_letters, parked, in_flight_max, .. } = self;
        write!(
            formatter,
            "{accepted} deliveries, {requests} requests, {dead_letters} dead letters; parked {parked} \
             times, at most {in_flight_max} of a queue in flight, sent back at most {:?} late; a \
             healthy endpoint's first attempt after at most {:?}; over after {} h",
            self.sent_back_max,
            self.healthy_max,
            self.lasted.as_secs() / 3_600,
        )?;
        self.failures.iter().try_for_each(|failure| write!(formatter, "\n{failure}"))
    }
}

pub fn live(plan: Plan, seed: u64) -> Outcome {
    judge(plan, &world::run(&scenario(plan), seed, false))
}

fn scenario(plan: Plan) -> Scenario {
    let mut scenario = Scenario {
        retry_in_flight_limit: plan.retry_in_flight_limit,
        jitter: true,
        ..Scenario::default()
    };
    scenario.queues.in_flight_max = plan.in_flight_max;
    scenario.plan.as_adapters = true;
    scenario.wakes = Some(Wakes::PUNCTUAL);
    scenario.parked_page_max = PAGE_ITEMS_MAX;
    let last_s = u64::from(TIME_TO_LIVE_MINUTES) * 60 + PUBLISHED_WITHIN.as_secs();
    for number in 0..DEAD {
        let until = if number % 2 == 0 { BACK_AT_S } else { u64::MAX };
        let script = Script::Outage { windows: vec![(0, until)], reaction: Reaction::status(500) };
        let name = format!("dead-{number}");
        scenario = scenario.with(&name, ProfileName::Basic, Some(script), |subscription| {
            subscription.retry_policy.time_to_live_minutes = TIME_TO_LIVE_MINUTES;
        });
    }
    for number in 0..HEALTHY {
        scenario = scenario.with(&healthy(number), ProfileName::Basic, None, |_| {});
        let offset = HEALTHY_EVERY.as_secs() * number as u64 / HEALTHY as u64;
        for at_s in (offset..last_s).step_by(HEALTHY_EVERY.as_secs() as usize) {
            scenario = scenario.publish(&healthy(number), at_s * 1_000, &[100]);
        }
    }
    let publishes = plan.deliveries.div_ceil(PUBLISH_EVENTS);
    for number in 0..publishes {
        let at_ms = PUBLISHED_WITHIN.as_millis() as u64 * number as u64 / publishes as u64;
        let events = [100; PUBLISH_EVENTS];
        scenario = scenario.publish(&format!("dead-{}", number % DEAD), at_ms, &events);
    }
    scenario
}

fn healthy(number: usize) -> String {
    format!("healthy-{number}")
}

fn judge(plan: Plan, remains: &Remains) -> Outcome {
    let history = &remains.history;
    let mut failures = checker::check(remains);
    let names: Vec<_> = (0..HEALTHY).map(healthy).collect();
    let mut first: BTreeMap<_, Duration> = BTreeMap::new();
    for request in history.requests.iter().filter(|found| names.contains(&found.subscription.topic))
    {
        for delivery in &request.deliveries {
            let accepted = &history.accepted[delivery];
            first.entry(*delivery).or_insert(request.began_at.since(accepted.publish_time));
        }
    }
    let healthy_max = first.values().max().copied().unwrap_or_default();
    if healthy_max > FIRST_ATTEMPT_MAX {
        failures.push(format!("a healthy endpoint's first attempt came after {healthy_max:?}"));
    }
    if history.in_flight_max >= plan.in_flight_max {
        failures.push(format!("a queue stood at the wall: {} in flight", history.in_flight_max));
    }
    if history.parked == 0 {
        failures.push("nothing was parked: the wall was never near".to_owned());
    }
    let parks = history.parks.values().flatten();
    let sent_back = parks.filter_map(|park| Some(park.gone_at?.since(park.due)));
    Outcome {
        accepted: history.accepted.len(),
        requests: history.requests.len(),
        dead_letters: history.dead_letters.len(),
        parked: history.parked,
        in_flight_max: history.in_flight_max,
        sent_back_max: sent_back.max().unwrap_or_default(),
        healthy_max,
        lasted: remains.lasted,
        failures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wall at a hundredth of its size. At full size: `cargo run --release -p gridpost-tests
    /// --bin wall`.
    #[test]
    fn a_hundredth_of_it_is_parked_unnoticed() {
        let plan = Plan { deliveries: 10_000, in_flight_max: 120_000, retry_in_flight_limit: 600 };
        let found = live(plan, 1);
        assert!(found.failures.is_empty(), "{found}");
        assert!(found.accepted > plan.deliveries, "{found}");
        assert!(found.dead_letters >= plan.deliveries / 2, "{found}");
    }
}
