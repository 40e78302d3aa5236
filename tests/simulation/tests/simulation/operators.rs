//! Operators at work while events flow.

use std::time::Duration;

use gridpost_core::retry::profile::ProfileName;
use gridpost_simulation::scenario::{Operate, Operation, Scenario, TOLD, key};
use gridpost_testkit::{
    clock::BEGINNING,
    endpoint::{Reaction, Script},
};

use super::{always, lived};

fn operate(mut scenario: Scenario, topic: &str, at_s: u64, what: Operate) -> Scenario {
    let at = BEGINNING + Duration::from_secs(at_s);
    scenario.operations.push(Operation { at, of: key(topic), what });
    scenario
}

/// The second attempt is under way from 10 s to 35 s. What an operator asks for at 20 s knows nothing
/// of it, and the endpoint gets three attempts all the same, or one more beside it.
#[test]
fn an_attempt_under_way_counts_though_another_one_is_asked_for() {
    let slow = Reaction::status(500).after(Duration::from_secs(25));
    let script = Script::Answers(vec![Reaction::status(500), slow, Reaction::status(500)]);
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, Some(script), |subscription| {
            subscription.retry_policy.max_attempts = 3;
        })
        .publish("orders", 0, &[10]);
    let remains = lived(&operate(scenario, "orders", 20, Operate::Resend));
    assert_eq!(remains.history.operated.resent.len(), 1);
    let numbers: Vec<_> = remains.history.requests.iter().map(|made| made.number).collect();
    assert!(matches!(numbers[..], [1, 2, 3] | [1, 2, 2, 3]), "{numbers:?}");
    let over = remains.history.requests[1].heard.expect("an answer").0;
    let again = remains.history.requests[2].number == 2;
    assert!(!again || remains.history.requests[2].began_at < over, "it was forgotten");
    let dead: Vec<_> = remains.history.dead_letters.values().collect();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].record["deliveryAttempts"], 3);
}

/// While it is down events die, and after it they are sent again, each once, however often the
/// redrive is asked for.
#[test]
fn what_an_outage_killed_is_sent_again_once() {
    let down = Script::Outage { windows: vec![(0, 1_800)], reaction: Reaction::status(400) };
    let mut scenario = Scenario::default().with("orders", ProfileName::Basic, Some(down), |_| {});
    for event in 0..20 {
        scenario = scenario.publish("orders", event * 1_000, &[10]);
    }
    scenario = operate(scenario, "orders", 3_600, Operate::Redrive);
    scenario = operate(scenario, "orders", 7_200, Operate::Redrive);
    let remains = lived(&scenario);
    let history = &remains.history;
    // The others waited for the endpoint after ten failures in a row.
    let dead = history.dead_letters.len();
    assert!((10..20).contains(&dead), "{dead}");
    assert_eq!(history.accepted.values().filter(|one| one.redriven > 0).count(), dead);
    let sent: Vec<_> = history.operated.jobs.iter().map(|job| job.counts.sent as usize).collect();
    assert_eq!((sent.len(), sent.iter().sum::<usize>()), (2, dead));
}

#[test]
fn every_object_of_dead_letters_is_told_of() {
    let mut scenario = Scenario::default()
        .with("orders", ProfileName::Basic, always(400), |_| {})
        .with(TOLD, ProfileName::Basic, always(400), |_| {})
        .publish("orders", 0, &[10])
        .publish("orders", 900_000, &[10]);
    scenario.told = Some(TOLD.to_owned());
    let remains = lived(&scenario);
    let told = remains.history.requests.iter().filter(|made| made.subscription.topic == TOLD);
    assert_eq!(told.count(), 2);
    // What can't be delivered of that tells of itself to no one.
    assert_eq!(remains.history.dead_letters.len(), 4);
}
