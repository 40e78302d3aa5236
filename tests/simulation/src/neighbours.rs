//! Simulates healthy endpoints beside bad ones, under load: how the bad ones affect the healthy
//! ones, and what happens to the bad ones' events.
//!
//! The command is `neighbours`; its figures serve to plan capacity and are in the docs.

mod arguments;
mod report;
mod seeds;
mod spec;

use std::time::Duration;

use gridpost_core::{retry::profile::ProfileName, time::Timestamp};
use gridpost_testkit::{clock::BEGINNING, faults};

pub use self::{
    arguments::{Arguments, run},
    report::{Bad, Healthy, Report},
    seeds::mixed,
    spec::Spec,
};
use crate::{
    checker, deployed,
    lambda::{Hop, Ramp},
    scenario::{Publish, Scenario, key},
    world::{self, Remains},
};

/// How long after the last event of a bad endpoint healthy ones still get theirs.
const HEALTHY_AFTER: Duration = Duration::from_secs(300);

const DATA_BYTES: usize = 100;

/// A world to look at.
#[derive(Clone, Debug)]
pub struct Plan {
    pub bad: Vec<Spec>,
    /// Events a second to each of them.
    pub rate: f64,
    pub seconds: u64,
    /// How many healthy endpoints there are.
    pub healthy: usize,
    /// Events a second to all healthy ones together.
    pub healthy_rate: f64,
    /// Most invocations at the same time for first attempts.
    pub concurrency: usize,
    /// Concurrency of each retry queue.
    pub retry_concurrency: usize,
    /// Concurrency of the slow queue.
    pub slow_concurrency: usize,
    /// Time-to-live of the bad endpoints' events, in minutes.
    pub ttl_minutes: u32,
    /// How mappings grow from five batches; `None`: they are there from the beginning.
    pub ramp: Option<Ramp>,
    /// How far copies of the functions are from their queues.
    pub hop: Hop,
    /// Whether queues prefer the messages of quiet groups.
    pub fair: bool,
    pub faults: faults::Plan,
    /// How often SQS hands a message over twice.
    pub duplicates: f64,
    /// How long an event of a healthy endpoint may wait for its first attempt; `None` if only the
    /// figures matter.
    pub first_attempt_within: Option<Duration>,
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            bad: Vec::new(),
            rate: 10.0,
            seconds: 60,
            healthy: 5,
            healthy_rate: 2.0,
            concurrency: deployed::FIRST_ATTEMPT_CONCURRENCY,
            retry_concurrency: deployed::RETRY_CONCURRENCY,
            slow_concurrency: deployed::SLOW_CONCURRENCY,
            ttl_minutes: 24 * 60,
            ramp: None,
            hop: Hop::FAR,
            fair: false,
            faults: Scenario::default().plan,
            duplicates: 0.0,
            first_attempt_within: None,
            seed: 1,
        }
    }
}

pub fn live(plan: &Plan) -> Report {
    let remains = world::run(&scenario(plan), plan.seed, false);
    report(plan, &remains)
}

/// The figures of a finished world.
pub fn report(plan: &Plan, remains: &Remains) -> Report {
    report::of(plan, remains, checker::check(remains))
}

fn bad(number: usize) -> String {
    format!("bad-{number}")
}

fn healthy(number: usize) -> String {
    format!("healthy-{number}")
}

pub fn scenario(plan: &Plan) -> Scenario {
    let mut readings = deployed::readings();
    readings.dispatch.concurrency = plan.concurrency;
    readings.retry.concurrency = plan.retry_concurrency;
    if let Some(slow) = &mut readings.slow {
        slow.concurrency = plan.slow_concurrency;
    }
    readings.ramp = plan.ramp;
    readings.hop = plan.hop;
    let mut scenario = Scenario {
        readings,
        retry_in_flight_limit: deployed::RETRY_IN_FLIGHT_LIMIT,
        last_used_first: true,
        jitter: true,
        plan: plan.faults.clone(),
        first_attempt_within: plan.first_attempt_within,
        asks_journal: false,
        ..Scenario::default()
    };
    scenario.queues.retry_shards = deployed::RETRY_QUEUES;
    scenario.queues.fair = plan.fair;
    scenario.queues.duplicates = plan.duplicates;
    for (number, spec) in plan.bad.iter().enumerate() {
        let script = Some(spec.script());
        scenario = scenario.with(&bad(number), ProfileName::Basic, script, |subscription| {
            subscription.retry_policy.time_to_live_minutes = plan.ttl_minutes;
        });
    }
    for number in 0..plan.healthy {
        scenario = scenario.with(&healthy(number), ProfileName::Basic, None, |_| {});
    }
    let seconds = Duration::from_secs(plan.seconds);
    for number in 0..plan.bad.len() {
        // Not all at the same moment.
        let offset = number as f64 / plan.bad.len() as f64;
        let times = times(plan.rate, seconds, offset);
        scenario.publishes.extend(times.map(|at| publish(&bad(number), at)));
    }
    let times = times(plan.healthy_rate, seconds + HEALTHY_AFTER, 0.5);
    let of_healthy =
        times.enumerate().map(|(number, at)| publish(&healthy(number % plan.healthy), at));
    scenario.publishes.extend(of_healthy);
    scenario
}

/// Evenly spread times, so many a second; the first is `offset` of the way between two.
fn times(rate: f64, for_so_long: Duration, offset: f64) -> impl Iterator<Item = Timestamp> {
    let count = (rate * for_so_long.as_secs_f64()).round() as u64;
    (0..count)
        .map(move |number| BEGINNING + Duration::from_secs_f64((number as f64 + offset) / rate))
}

fn publish(topic: &str, at: Timestamp) -> Publish {
    Publish { at, to: key(topic), events: vec![DATA_BYTES] }
}
