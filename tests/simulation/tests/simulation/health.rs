//! Endpoints in trouble, and what happens to their events.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::{retry::profile::ProfileName, time::Timestamp};
use gridpost_simulation::{lambda::Readings, scenario::Scenario, world::Remains};
use gridpost_testkit::{
    clock::BEGINNING,
    endpoint::{Reaction, Script},
};

use super::{always, lived};

fn busy_world() -> Scenario {
    Scenario { readings: Readings::of(100), jitter: true, ..Scenario::default() }
}

fn seconds(at: Timestamp) -> f64 {
    at.since(BEGINNING).as_secs_f64()
}

/// When each delivery of a topic was first attempted, after its publish.
fn first_attempts(remains: &Remains, topic: &str) -> Vec<Duration> {
    let mut first = BTreeMap::new();
    for request in &remains.history.requests {
        for delivery in &request.deliveries {
            first.entry(*delivery).or_insert(request.began_at);
        }
    }
    let waited = |(delivery, at): (_, Timestamp)| {
        let accepted = &remains.history.accepted[&delivery];
        (accepted.subscription.topic == topic).then(|| at.since(accepted.publish_time))
    };
    let mut waits: Vec<_> = first.into_iter().filter_map(waited).collect();
    waits.sort_unstable();
    waits
}

/// 401 on every request: each failed probe begins five minutes of probation, in which events end, and a
/// delay, in which they wait. The third delay is longer than the probation.
#[test]
fn events_that_come_while_delivery_is_only_delayed_wait() {
    let refused = Reaction { after: Duration::from_millis(400), ..Reaction::status(401) };
    let refuses = Some(Script::Answers(vec![refused]));
    let scenario = busy_world().with("orders", ProfileName::Basic, refuses, |_| {});
    // Ten are under way before the first of them has failed.
    let scenario = (0..10)
        .fold(scenario, |it, _| it.publish("orders", 0, &[10]))
        .publish("orders", 200_000, &[10])
        .publish("orders", 320_000, &[10])
        .publish("orders", 640_000, &[10])
        .publish("orders", 800_000, &[10])
        .publish("orders", 1_000_000, &[10]);
    let remains = lived(&scenario);
    let at: Vec<_> = remains.history.requests.iter().map(|made| seconds(made.began_at)).collect();
    let later: Vec<_> = at.iter().skip(10).collect();
    assert!(at[9] < 3.0 && later.len() == 3, "{at:?}");
    // Those of 200 s and 800 s end on probation. That of 1,000 s finds it over, and waits for its probe.
    let probe = *later[2];
    assert!((1_240.0..1_260.0).contains(&probe), "{at:?}");
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for letter in remains.history.dead_letters.values() {
        *reasons.entry(super::super::reason(letter)).or_default() += 1;
    }
    let want = [
        ("UndeliverableDueToHttpUnauthorized", 13),
        ("UndeliverableDueToProbationCausedByClientError", 2),
    ];
    assert_eq!(reasons, want.into());
}

/// Many requests fail and many succeed, and each copy of dispatch sees a few of them: one that has just
/// begun knows of no success at all.
#[test]
fn failures_beside_successes_hold_up_next_to_nothing() {
    for (rate, cold_starts) in [(0.2, 0.0), (0.2, 1.0), (0.4, 0.1)] {
        let failed = Reaction { after: Duration::from_millis(250), ..Reaction::status(500) };
        let flaky = Script::Flaky { rate, reactions: vec![failed] };
        let world = Scenario { cold_starts, ..busy_world() };
        let mut scenario = world.with("orders", ProfileName::Basic, Some(flaky), |_| {});
        for event in 0..6_000 {
            scenario = scenario.publish("orders", event * 5, &[10]);
        }
        let waits = first_attempts(&lived(&scenario), "orders");
        assert_eq!(waits.len(), 6_000);
        let (p99, longest) = (waits[5_940], waits[5_999]);
        assert!(p99 < Duration::from_secs(1), "{rate} {cold_starts}: p99 {p99:?}");
        assert!(longest < Duration::from_secs(8), "{rate} {cold_starts}: the longest {longest:?}");
    }
}

/// 503, then 500 to the probes: none of them lets the others through.
#[test]
fn a_failed_probe_lets_nothing_through() {
    let answers = [503, 500, 500, 500, 200].map(Reaction::status).to_vec();
    let scenario = busy_world()
        .with("orders", ProfileName::Basic, Some(Script::Answers(answers)), |_| {})
        .publish("orders", 0, &[10]);
    let scenario = (0..200).fold(scenario, |it, event| it.publish("orders", 2_500 + event, &[10]));
    let remains = lived(&scenario);
    let at: Vec<_> = remains.history.requests.iter().map(|made| seconds(made.began_at)).collect();
    for probe in 1..=4 {
        let waited = at[probe] - at[probe - 1];
        assert!(waited >= 10.0, "the probes began at {:?}", &at[..5]);
    }
    assert!(at[4] < 80.0, "{:?}", &at[..5]);
    assert_eq!(remains.history.dead_letters.len(), 0);
}

/// A thousand requests under way, and all of them are refused.
#[test]
fn a_thousand_failures_at_once_write_the_health_a_few_times() {
    let refused = Reaction { after: Duration::from_millis(450), ..Reaction::status(503) };
    let outage = Script::Outage { windows: vec![(0, 5)], reaction: refused };
    let mut scenario = busy_world().with("orders", ProfileName::Basic, Some(outage), |_| {});
    for event in 0..1_000 {
        scenario = scenario.publish("orders", event / 4, &[10]);
    }
    let remains = lived(&scenario);
    let failed = remains
        .history
        .requests
        .iter()
        .filter(|made| made.heard.is_some_and(|(_, answer)| answer.status == Some(503)));
    let (failed, writes) = (failed.count(), remains.history.health_writes);
    assert!(failed > 300, "{failed} requests were refused");
    assert!(writes < 20, "{writes} writes for {failed} failures");
}

/// The backlog of an outage comes back over some time: 6,000 deliveries over twelve seconds.
#[test]
fn a_backlog_comes_back_bit_by_bit() {
    let outage = Script::Outage { windows: vec![(0, 100)], reaction: Reaction::status(503) };
    let mut scenario = busy_world().with("orders", ProfileName::Basic, Some(outage), |_| {});
    for event in 0..6_000 {
        scenario = scenario.publish("orders", 1_000 + event * 4, &[10]);
    }
    let remains = lived(&scenario);
    let mut by_second: BTreeMap<u64, u32> = BTreeMap::new();
    for request in &remains.history.requests {
        *by_second.entry(request.began_at.since(BEGINNING).as_secs()).or_default() += 1;
    }
    // The first one after the outage is the probe.
    let probe = by_second.range(100..).next().map_or(0, |(second, _)| *second);
    let soon: u32 = by_second.range(probe..probe + 6).map(|(_, requests)| *requests).sum();
    assert!(soon < 2_000, "{soon} of 6,000 requests in the first seconds: {by_second:?}");
    let last = by_second.keys().last().copied().unwrap_or(0);
    assert!(last < 400, "the last one at {last} s");
}

/// A dead endpoint has 12,000 deliveries on the retry queue that both share: at 500 a second, 24 s. A busy
/// answer delays its neighbour's events by ten seconds, and spreads their return over ten more.
#[test]
fn another_endpoints_backlog_delays_no_neighbour() {
    let busy_once = Script::Answers(vec![Reaction::status(429), Reaction::status(200)]);
    let mut scenario = busy_world()
        .with("dead", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.time_to_live_minutes = 10;
            subscription.dead_letter = None;
        })
        .with("orders", ProfileName::Basic, Some(busy_once), |_| {});
    scenario.queues.retry_shards = 1;
    for publish in 0..120 {
        scenario = scenario.publish("dead", 1_000 + publish * 100, &[10; 100]);
    }
    for event in 0..40 {
        scenario = scenario.publish("orders", 60_000 + event * 200, &[10]);
    }
    let remains = lived(&scenario);
    let waits = first_attempts(&remains, "orders");
    let longest = waits.last().copied().unwrap_or_default();
    assert!(waits.len() == 40 && longest > Duration::from_secs(9), "nothing waited: {waits:?}");
    assert!(longest < Duration::from_secs(22), "one waited for {longest:?}");
}
