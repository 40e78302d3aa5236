//! Token endpoints in trouble: attempts that never reach their endpoint.

use gridpost_core::retry::{outcome::Outcome, profile::ProfileName};
use gridpost_simulation::scenario::Scenario;
use gridpost_testkit::endpoint::{Reaction, Script};

use super::{assert_attempts, assert_dead_letter, lived};

fn no_token() -> Reaction {
    Reaction::failing(Outcome::EndpointAuthenticationFailed)
}

/// Under every profile: a 401 would have ended them at the first attempt.
#[test]
fn events_outlive_a_token_endpoint_that_is_down() {
    for profile in [ProfileName::Basic, ProfileName::Basic2021, ProfileName::Namespace] {
        let answers = vec![no_token(), no_token(), no_token(), Reaction::status(200)];
        let scenario = Scenario::default()
            .with("orders", profile, Some(Script::Answers(answers)), |_| {})
            .publish("orders", 0, &[10]);
        let remains = lived(&scenario);
        assert_attempts(&remains, &[0, 10, 30, 60]);
        assert!(remains.history.dead_letters.is_empty(), "{profile:?}");
    }
}

#[test]
fn without_a_token_to_the_end_an_event_ends_by_its_policy() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, Some(Script::Answers(vec![no_token()])), |one| {
            one.retry_policy.max_attempts = 3;
        })
        .publish("orders", 0, &[10]);
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0, 10, 30]);
    assert_dead_letter(&remains, "MaxDeliveryAttemptsExceeded", 3, 30);
}

/// Seldom, often, and in bursts, beside everything else that the seeds of other worlds have.
#[test]
fn every_seed_keeps_the_promise_without_tokens() {
    for seed in 1..=40_u64 {
        let rate = [0.05, 0.5, 0.95][(seed % 3) as usize];
        let reactions = vec![no_token(), Reaction::status(503), Reaction::status(401)];
        let mut scenario = Scenario { jitter: true, ..Scenario::default() }.with(
            "orders",
            [ProfileName::Basic, ProfileName::Namespace][(seed % 2) as usize],
            Some(Script::Flaky { rate, reactions }),
            |_| {},
        );
        for event in 0..20 {
            scenario = scenario.publish("orders", event * 7_000, &[10]);
        }
        lived_by(&scenario, seed);
    }
}

fn lived_by(scenario: &Scenario, seed: u64) {
    let remains = gridpost_simulation::world::run(scenario, seed, false);
    let failures = gridpost_simulation::checker::check(&remains);
    assert!(failures.is_empty(), "seed {seed}: {failures:?}");
}
