//! Event subscriptions are created, changed, deleted and created again while events flow to them.

use std::{collections::BTreeSet, time::Duration};

use gridpost_simulation::{
    checker,
    lambda::Readings,
    scenario::{Changing, Scenario},
    world,
};
use gridpost_testkit::{dice::SeededDice, faults::Plan};

/// 50 of them, 200 events a second, many copies of both functions.
fn world(seed: u64, plan: Plan) -> world::Remains {
    let changing = Changing { subscriptions: 50, lasts: Duration::from_secs(20), per_second: 200 };
    let scenario =
        Scenario { readings: Readings::of(40), jitter: true, plan, ..Scenario::default() };
    world::run(&scenario.changing(changing, &SeededDice::new(seed)), seed, false)
}

fn calm() -> Plan {
    Plan { latency_max: Duration::from_millis(20), ..Plan::default() }
}

#[test]
fn nothing_is_dropped_for_an_event_subscription_that_exists() {
    let remains = world(1, calm());
    let failures = checker::check(&remains);
    assert!(failures.is_empty(), "{failures:?}");
    let history = &remains.history;
    let delivered = history.requests.len();
    // Those that are gone when their event arrives are dropped, and they alone.
    let dropped = history.drops.len();
    assert!(delivered > 4_000 && (1..1_000).contains(&dropped), "{delivered}, {dropped}");
}

#[test]
fn nor_while_the_table_often_fails() {
    let plan = Plan { fails_before: 0.05, ..calm() };
    let failures = checker::check(&world(4, plan));
    assert!(failures.is_empty(), "{failures:?}");
}

/// Otherwise a new endpoint would learn the secrets of the one before, or the one before the new ones. The
/// endpoints notice.
#[test]
fn a_new_url_never_meets_an_old_secret() {
    for (seed, plan) in [(1, calm()), (2, Plan { fails_before: 0.02, dies: 0.01, ..calm() })] {
        let scenario =
            Scenario { readings: Readings::of(10), jitter: true, plan, ..Scenario::default() };
        let scenario = scenario.rotating(100, Duration::from_millis(100));
        let remains = world::run(&scenario, seed, false);
        let failures = checker::check(&remains);
        assert!(failures.is_empty(), "{failures:?}");
        let urls: BTreeSet<_> = remains.history.requests.iter().map(|made| &made.url).collect();
        assert!(urls.len() > 15, "{} endpoints got something", urls.len());
    }
}
