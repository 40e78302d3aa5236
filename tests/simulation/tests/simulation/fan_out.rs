//! Large fan-outs: deliveries that a request has no time for are made afterwards, all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gridpost_core::{retry::profile::ProfileName, subscription::Batching};
use gridpost_simulation::{lambda::Readings, scenario::Scenario, world::Remains};

use super::lived;

/// How many events of the one publish that was accepted have arrived at each of its topic's event
/// subscriptions.
fn arrived(remains: &Remains, events: usize) {
    let history = &remains.history;
    let ids: BTreeSet<_> = history.promised.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), events, "one publish was accepted");
    let delivered: BTreeSet<_> =
        history.requests.iter().flat_map(|made| made.deliveries.iter().copied()).collect();
    for subscription in remains.topics.iter().flat_map(|(_, all)| all) {
        for id in &ids {
            let carrier = history.carrier(&subscription.key, id);
            let arrived = carrier.is_some_and(|delivery| delivered.contains(&delivery));
            assert!(arrived, "{id} has not arrived at {}", subscription.key);
        }
    }
}

#[test]
fn five_thousand_events_for_five_hundred_subscriptions() {
    let scenario = Scenario { readings: Readings::of(100), ..Scenario::default() }
        .with("orders", ProfileName::Basic, None, |_| {})
        // The first two get their events one by one.
        .multiplied("orders", 499, |number, subscription| {
            let batching = Batching { max_events: 5_000, preferred_kilobytes: 1_024 };
            subscription.batching = Some(batching).filter(|_| number > 0);
        })
        .publish("orders", 0, &[0; 5_000]);
    let remains = lived(&scenario);
    let history = &remains.history;
    arrived(&remains, 5_000);
    assert_eq!(history.carriers.values().map(BTreeMap::len).sum::<usize>(), 2_500_000);
    let took = history.slowest_publish;
    assert!(took < Duration::from_secs(5), "accepted after {took:?}");
    assert!(history.resent.is_empty(), "nothing was made twice");
}

#[test]
fn a_fan_out_that_dies_again_and_again_is_finished() {
    let mut scenario = Scenario {
        inline_fan_out: 1_000,
        piece_deliveries_max: 200,
        cold_starts: 0.1,
        ..Scenario::default()
    }
    .with("orders", ProfileName::Basic, None, |_| {})
    .multiplied("orders", 14, |number, subscription| {
        let batching = Batching { max_events: 7, preferred_kilobytes: 64 };
        subscription.batching = Some(batching).filter(|_| number.is_multiple_of(4));
    })
    .publish("orders", 0, &[10; 300]);
    scenario.plan.fails_before = 0.002;
    scenario.plan.fails_after = 0.002;
    scenario.plan.dies = 0.002;
    scenario.queues.duplicates = 0.01;
    let remains = lived(&scenario);
    arrived(&remains, 300);
    assert!(remains.history.resent.len() > 100, "it died now and then");
}

#[test]
fn a_fan_out_whose_calls_fail_is_made_or_not_accepted() {
    let mut scenario =
        Scenario { inline_fan_out: 0, piece_deliveries_max: 1, ..Scenario::default() }.with(
            "orders",
            ProfileName::Basic,
            None,
            |_| {},
        );
    for publish in 0..100 {
        scenario = scenario.publish("orders", publish * 1_000, &[10; 3]);
    }
    scenario.plan.fails_before = 0.2;
    let remains = lived(&scenario);
    // A call and its repetition fail one time in 25: then the publisher is told so, or a piece comes
    // back.
    assert_eq!(remains.history.promised.len(), 300);
    assert!(remains.history.publishes.len() > 100, "some were stored and not accepted");
}
