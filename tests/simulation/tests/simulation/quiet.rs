//! A deployment with next to no traffic: what is due comes when it is due, though no queue ever fills a
//! batch.

use std::time::Duration;

use gridpost_core::{retry::profile::ProfileName, time::Timestamp};
use gridpost_simulation::{
    deployed, lateness,
    scenario::{Operate, Operation, Scenario, key},
    world::Remains,
};
use gridpost_testkit::{
    clock::BEGINNING,
    endpoint::{Reaction, Script},
};

use super::{always, lived};

/// How much later than due 99 of 100 may come: queues count in whole seconds, and a function must begin.
const LATE_MAX: Duration = Duration::from_secs(2);

/// How long a released delivery is delayed: dispatch may know its event subscription as it was so long before.
const RELEASE_DELAY: Duration = Duration::from_secs(10);

const TOPICS: [&str; 3] = ["orders", "bills", "parcels"];

/// Queues and functions as they are deployed.
fn quiet_world() -> Scenario {
    let mut scenario = Scenario { readings: deployed::readings(), ..Scenario::default() };
    scenario.queues.retry_shards = deployed::RETRY_QUEUES;
    scenario
}

fn assert_prompt(mut late: Vec<Duration>, at_least: usize) {
    late.sort_unstable();
    assert!(late.len() >= at_least, "only {}", late.len());
    assert!(lateness::p99(&late) <= LATE_MAX, "{late:?}");
}

#[test]
fn retries_come_when_they_are_due() {
    let mut scenario = quiet_world();
    for (topic, status) in TOPICS.into_iter().zip([500, 502, 505]) {
        let script = Script::Flaky { rate: 0.5, reactions: vec![Reaction::status(status)] };
        scenario = scenario.with(topic, ProfileName::Basic, Some(script), |_| {});
    }
    for number in 0..120 {
        let topic = TOPICS[number as usize % TOPICS.len()];
        scenario = scenario.publish(topic, number * 47_000, &[100]);
    }
    let remains = lived(&scenario);
    let late =
        TOPICS.into_iter().flat_map(|topic| lateness::of_retries(&scenario, &remains, topic));
    assert_prompt(late.collect(), 60);
}

/// How long after each of an operator's requests the next attempt began.
fn after_requests(remains: &Remains) -> Vec<Duration> {
    let attempts = || remains.history.requests.iter().map(|made| made.began_at);
    let next = |asked_at: Timestamp| attempts().filter(|at| *at >= asked_at).min();
    let all = remains.history.operated.at_work.iter();
    all.filter_map(|span| Some(next(span.start)?.since(span.start))).collect()
}

/// One event at a time, and a request for it while it waits for its seventh attempt.
fn asked_for(mut scenario: Scenario, what: Operate) -> Remains {
    for topic in TOPICS {
        scenario = scenario.with(topic, ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.max_attempts = 8;
        });
    }
    for (number, topic) in (0..).zip(TOPICS) {
        let at_s = 3_600 * number;
        scenario = scenario.publish(topic, at_s * 1_000, &[100]);
        let at = BEGINNING + Duration::from_secs(at_s + 1_000);
        scenario.operations.push(Operation { at, of: key(topic), what });
    }
    lived(&scenario)
}

#[test]
fn what_an_operator_resends_is_attempted_at_once() {
    let remains = asked_for(quiet_world(), Operate::Resend);
    assert_eq!(remains.history.operated.resent.len(), TOPICS.len());
    assert_prompt(after_requests(&remains), TOPICS.len());
}

#[test]
fn what_an_operator_releases_is_attempted_ten_seconds_later() {
    let scenario = Scenario { retry_in_flight_limit: 0, ..quiet_world() };
    let remains = asked_for(scenario, Operate::Release);
    assert!(
        remains.history.parked >= TOPICS.len() as u64,
        "{} were parked",
        remains.history.parked
    );
    let late =
        after_requests(&remains).into_iter().map(|after| after.saturating_sub(RELEASE_DELAY));
    assert_prompt(late.collect(), TOPICS.len());
}
