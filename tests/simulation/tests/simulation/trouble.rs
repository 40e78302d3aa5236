//! Trouble that is not the endpoint's: a schedule that hardly keeps time, services that fail
//! together, buckets that refuse, queues that give messages up.

use std::time::Duration;

use gridpost_core::retry::profile::ProfileName;
use gridpost_simulation::{lambda::Wakes, scenario::Scenario};
use gridpost_testkit::{
    clock::BEGINNING,
    faults::{Outage, Service},
};

use super::{always, lived};

/// All long waits are parked, wake comes at any second, late, twice or not at all, and reads pages
/// of one of which every third can't be read.
#[test]
fn parked_deliveries_come_back_whenever_wake_runs() {
    let wakes = Wakes {
        phase: Duration::from_secs(41),
        late_max: Duration::from_secs(15),
        skipped: 0.1,
        twice: 0.5,
    };
    let mut scenario = Scenario {
        retry_in_flight_limit: 0,
        parked_page_max: 1,
        wakes: Some(wakes),
        jitter: true,
        ..Scenario::default()
    }
    .with("orders", ProfileName::Basic, always(500), |subscription| {
        subscription.retry_policy.max_attempts = 7;
    });
    scenario.plan.pages_lost = 0.3;
    let scenario = (0..60).fold(scenario, |it, _| it.publish("orders", 0, &[10]));
    let history = lived(&scenario).history;
    assert!(history.fault_kinds.contains("a further page could not be read"));
    assert!(history.parks.len() == 60 && !history.wake_waits.is_empty());
    assert_eq!(history.dead_letters.len(), 60);
}

/// The bucket comes back after five hours: what has waited for four is gone by then.
#[test]
fn a_bucket_that_refuses_is_tried_for_four_hours() {
    let hour = 3_600;
    for (refuses_s, dropped) in [(3 * hour, 0), (5 * hour, 1)] {
        let mut scenario = Scenario::default()
            .with("orders", ProfileName::Basic, always(400), |_| {})
            .publish("orders", 0, &[10]);
        scenario.bucket_refuses.push(BEGINNING..BEGINNING + Duration::from_secs(refuses_s));
        let history = lived(&scenario).history;
        assert_eq!(history.drops.len(), dropped, "refused for {refuses_s} s");
        assert_eq!(history.dead_letters.len(), 1 - dropped, "refused for {refuses_s} s");
        if let [drop] = &history.drops[..] {
            let after = drop.at.since(BEGINNING).as_secs();
            assert!((4 * hour..4 * hour + 600).contains(&after), "dropped after {after} s");
        }
    }
}

#[test]
fn services_that_fail_together_lose_nothing_and_repeat_no_more_than_they_must() {
    let mut scenario = Scenario { jitter: true, ..Scenario::default() }.with(
        "orders",
        ProfileName::Basic,
        always(503),
        |subscription| subscription.retry_policy.max_attempts = 6,
    );
    let at = |seconds| BEGINNING + Duration::from_secs(seconds);
    let of = vec![Service::Sqs, Service::DynamoDb, Service::S3];
    scenario.plan.outages.push(Outage { of, during: at(20)..at(200) });
    let scenario = (0..40).fold(scenario, |it, event| it.publish("orders", event * 2_000, &[10]));
    let history = lived(&scenario).history;
    assert!(history.faults > 100, "{} calls failed", history.faults);
    assert!(history.fault_kinds.contains("a call took effect but hung"));
}

/// A message that was received four times goes to the poison queue, and from there to its retry
/// queue.
#[test]
fn what_an_operator_sends_back_goes_on_where_it_was() {
    let mut scenario = Scenario::default()
        .with("orders", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.max_attempts = 9;
        })
        .publish("orders", 0, &[10]);
    scenario.queues.receives_max = 4;
    let history = lived(&scenario).history;
    assert!(history.fault_kinds.contains("a message went to the poison queue"));
    assert_eq!(history.requests.len(), 9);
    assert_eq!(history.dead_letters.len(), 1);
}
