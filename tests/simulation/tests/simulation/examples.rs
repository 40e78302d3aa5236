//! The worked examples of Event Grid's documentation.

mod fan_out;
mod health;
mod operators;
mod quiet;
mod tokens;
mod trouble;

use std::{num::NonZeroU32, time::Duration};

use gridpost_core::{
    delivery::parking::RECEIVES_MAX,
    retry::{
        outcome::Outcome,
        profile::{ProfileName, Rule},
    },
    subscription::Batching,
};
use gridpost_simulation::{
    checker,
    lambda::Readings,
    scenario::Scenario,
    world::{self, Remains},
};
use gridpost_testkit::{
    clock::BEGINNING,
    endpoint::{Reaction, Script},
    history::Request,
};

/// The longest delay of a poller and a cold function, plus the rounding up of a hidden message.
const LATE_S: u64 = 3;

fn lived(scenario: &Scenario) -> Remains {
    let remains = world::run(scenario, 7, false);
    let failures = checker::check(&remains);
    assert!(failures.is_empty(), "{failures:?}");
    remains
}

fn always(status: u16) -> Option<Script> {
    Some(Script::Answers(vec![Reaction::status(status)]))
}

/// Requests at those seconds, none earlier and none much later.
fn assert_attempts(remains: &Remains, seconds: &[u64]) {
    let requests = remains.history.requests.iter();
    let at: Vec<_> = requests.map(|made| made.began_at.since(BEGINNING)).collect();
    assert_eq!(at.len(), seconds.len(), "{at:?}");
    for (at, second) in at.iter().zip(seconds) {
        let earliest = Duration::from_secs(*second);
        let latest = Duration::from_secs(second + LATE_S);
        assert!((earliest..latest).contains(at), "{at:?}, not {second} s");
    }
}

/// One dead letter of that reason with so many attempts, written five minutes after `ended_s`.
fn assert_dead_letter(remains: &Remains, reason: &str, attempts: u64, ended_s: u64) {
    let all: Vec<_> = remains.history.dead_letters.values().collect();
    assert_eq!(all.len(), 1);
    let (at, record) = (all[0].at.since(BEGINNING), &all[0].record);
    let said = record.get("deadLetterProperties").unwrap_or(record);
    let get = |basic: &str, namespace: &str| said.get(basic).or(said.get(namespace)).cloned();
    assert_eq!(get("deadLetterReason", "deadletterreason"), Some(reason.into()));
    assert_eq!(get("deliveryAttempts", "deliveryattempts"), Some(attempts.into()));
    let earliest = Duration::from_secs(ended_s + 300);
    assert!((earliest..earliest + Duration::from_secs(LATE_S)).contains(&at), "{at:?}");
}

#[test]
fn half_an_hour_and_ten_attempts_give_six() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.time_to_live_minutes = 30;
            subscription.retry_policy.max_attempts = 10;
        })
        .publish("orders", 0, &[10]);
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0, 10, 30, 60, 300, 600]);
    assert_dead_letter(&remains, "TimeToLiveExceeded", 6, 1_800);
}

#[test]
fn half_an_hour_and_five_attempts_end_at_the_fifth() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.time_to_live_minutes = 30;
            subscription.retry_policy.max_attempts = 5;
        })
        .publish("orders", 0, &[10]);
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0, 10, 30, 60, 300]);
    assert_dead_letter(&remains, "MaxDeliveryAttemptsExceeded", 5, 300);
}

#[test]
fn a_namespace_retention_of_twenty_minutes_gives_seven() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Namespace, always(500), |subscription| {
            subscription.retry_policy.time_to_live_minutes = 20;
            subscription.retry_policy.max_attempts = 10;
        })
        .publish("orders", 0, &[10]);
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0, 10, 30, 60, 300, 600, 900]);
    assert_dead_letter(&remains, "Event time to live was exceeded.", 7, 1_200);
}

#[test]
fn a_400_is_never_asked_again() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, always(400), |_| {})
        .publish("orders", 0, &[10]);
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0]);
    assert_dead_letter(&remains, "UndeliverableDueToHttpBadRequest", 1, 0);
}

#[test]
fn an_event_larger_than_its_batch_goes_alone() {
    let scenario = Scenario::default().with("orders", ProfileName::Basic, None, |subscription| {
        let batching = Batching { max_events: 100, preferred_kilobytes: 4 };
        subscription.batching = Some(batching);
    });
    let scenario = scenario.publish("orders", 0, &[10_240]).publish("orders", 0, &[10]);
    let scenario = scenario.publish("orders", 0, &[10]);
    let remains = lived(&scenario);
    let requests = &remains.history.requests;
    let large = requests.iter().find(|made| made.events_bytes > 10_000).expect("it is sent");
    assert_eq!(large.events, 1);
    assert_eq!(requests.iter().map(|made| made.events).sum::<usize>(), 3);
}

#[test]
fn after_ten_failures_the_eleventh_event_waits() {
    let mut scenario =
        Scenario::default().with("orders", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.max_attempts = 1;
        });
    for _ in 0..10 {
        scenario = scenario.publish("orders", 0, &[10]);
    }
    let scenario = scenario.publish("orders", 5_000, &[10]);
    let remains = lived(&scenario);
    let requests = &remains.history.requests;
    assert_eq!(requests.len(), 11);
    let failed_at = requests[9].heard.expect("an answer").0;
    let waited = requests[10].began_at.since(failed_at);
    assert!(waited >= Duration::from_secs(60), "{waited:?}");
    assert!(waited < Duration::from_secs(60 + LATE_S), "{waited:?}");
}

#[test]
fn a_late_200_takes_the_retry_away() {
    let late = Reaction::status(200).after(Duration::from_secs(45));
    let script = Some(Script::Answers(vec![late, Reaction::status(500)]));
    let scenario = Scenario::default().with("orders", ProfileName::Basic, script, |_| {}).publish(
        "orders",
        0,
        &[10],
    );
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0]);
    assert!(remains.history.requests[0].heard_late.is_some());
    assert!(remains.history.dead_letters.is_empty() && remains.history.drops.is_empty());
}

/// Every wait ends for all, and all but a few wait again: messages are received many hundreds of
/// times. SQS gives up one that was received 1,000 times.
/// Its message is parked for days, and finds the mark of the success when it comes.
#[test]
fn a_late_200_takes_a_retry_away_that_is_days_off() {
    let late = Reaction::status(200).after(Duration::from_secs(45));
    let answers = vec![Reaction::status(500), late, Reaction::status(200)];
    let mut scenario = Scenario::default()
        .with("orders", ProfileName::Namespace, Some(Script::Answers(answers)), |subscription| {
            let policy = &mut subscription.retry_policy;
            policy.schedule_s = Some(vec![60, 400_000]);
            policy.status_rules.outcomes.insert(Outcome::TimedOut, Rule::Retry { min_s: 10 });
        })
        .publish("orders", 0, &[10]);
    // All that waits for more than a quarter of an hour is parked.
    scenario.retry_in_flight_limit = 0;
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0, 60]);
}

#[test]
fn a_backlog_behind_a_rate_limit_wears_no_message_out() {
    let limited = Script::Limited { per_second: 1, retry_after: None };
    let mut scenario = Scenario { jitter: true, ..Scenario::default() }.with(
        "orders",
        ProfileName::Basic,
        Some(limited),
        |_| {},
    );
    for _ in 0..900 {
        scenario = scenario.publish("orders", 0, &[10]);
    }
    let remains = lived(&scenario);
    assert_eq!(remains.history.receives_max, RECEIVES_MAX, "the most received message");
}

#[test]
fn an_event_too_large_for_a_message_is_retried_and_dead_lettered_whole() {
    let scenario = Scenario::default()
        .with("works", ProfileName::Basic, None, |_| {})
        .with("fails", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.max_attempts = 3;
        })
        .publish("works", 0, &[900_000])
        .publish("fails", 0, &[900_000]);
    let remains = lived(&scenario);
    assert_eq!(remains.history.payloads.len(), 2);
    let requests = &remains.history.requests;
    assert!(requests.iter().all(|made| made.events_bytes > 900_000));
    assert_eq!(requests.len(), 4);
    let all: Vec<_> = remains.history.dead_letters.values().collect();
    assert_eq!(all[0].record["data"].as_str().map(str::len), Some(900_000));
}

/// An item of DynamoDB holds less than a message may.
#[test]
fn a_message_too_large_for_a_table_is_parked_all_the_same() {
    let mut scenario = Scenario { retry_in_flight_limit: 0, ..Scenario::default() };
    scenario.queues.message_bytes_max = 1_048_576;
    let scenario = scenario
        .with("orders", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.max_attempts = 8;
        })
        .publish("orders", 0, &[500_000]);
    let remains = lived(&scenario);
    assert!(remains.history.parked > 0 && remains.history.payloads.len() == 1);
    assert!(remains.history.requests.iter().all(|made| made.events_bytes > 500_000));
}

/// Requests in each minute from the beginning on.
fn minutes(remains: &Remains) -> Vec<usize> {
    let requests = &remains.history.requests;
    let minute = |made: &Request| made.began_at.as_minutes() - BEGINNING.as_minutes();
    let last = requests.iter().map(minute).max().unwrap_or(0);
    (0..=last).map(|at| requests.iter().filter(|made| minute(made) == at).count()).collect()
}

#[test]
fn a_burst_is_delivered_at_the_endpoints_rate() {
    for jitter in [false, true] {
        let scenario = Scenario { jitter, ..Scenario::default() }
            .with("orders", ProfileName::Basic, None, |subscription| {
                subscription.allowed_rate = NonZeroU32::new(10);
            })
            .publish("orders", 0, &[10; 100]);
        let remains = lived(&scenario);
        let minutes = minutes(&remains);
        assert_eq!(minutes.iter().sum::<usize>(), 100, "{minutes:?}");
        assert!(minutes.iter().all(|requests| *requests <= 10), "{minutes:?}");
        assert!(minutes.len() <= 11, "{minutes:?}");
        // Each asks when it comes and again at the time that it was given, and hardly ever a third
        // time.
        let asked: u64 = remains.history.counts.values().sum();
        assert!(asked <= 200, "{asked}");
    }
}

/// Slots that are counted just before a minute's end, and known of after it, count there too.
#[test]
fn a_slot_is_good_in_its_own_minute_alone() {
    let mut scenario =
        Scenario::default().with("orders", ProfileName::Basic, None, |subscription| {
            subscription.allowed_rate = NonZeroU32::new(10);
        });
    scenario.plan.latency_max = Duration::from_millis(500);
    for end_ms in (1..=20).map(|round| round * 5 * 60_000) {
        for event in 0..8 {
            scenario = scenario.publish("orders", end_ms - 2_000 + event * 250, &[10]);
            scenario = scenario.publish("orders", end_ms + 3_000 + event * 250, &[10; 2]);
        }
    }
    let minutes = minutes(&lived(&scenario));
    assert_eq!(minutes.iter().sum::<usize>(), 480, "{minutes:?}");
    assert!(minutes.iter().all(|requests| *requests <= 10), "{minutes:?}");
}

#[test]
fn what_its_rate_leaves_no_time_for_ends_by_its_time_to_live() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, None, |subscription| {
            subscription.allowed_rate = NonZeroU32::new(2);
            subscription.retry_policy.time_to_live_minutes = 5;
        })
        .publish("orders", 0, &[10; 30]);
    let remains = lived(&scenario);
    assert_eq!(minutes(&remains), [2, 2, 2, 2, 2]);
    let reasons: Vec<_> = remains.history.dead_letters.values().map(super::reason).collect();
    assert_eq!(reasons, ["TimeToLiveExceeded"; 20]);
}

#[test]
fn what_is_under_way_waits_for_consent() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.max_attempts = 6;
        })
        .publish("orders", 0, &[10])
        .ask("orders", 20, Some(320));
    // Due after 30 s and 60 s, and asked again each minute: the consent is found by 380 s.
    assert_attempts(&lived(&scenario), &[0, 10, 331, 600, 1_800, 3_600]);
}

#[test]
fn without_consent_what_is_under_way_ends_by_its_time_to_live() {
    let scenario = Scenario::default()
        .with("orders", ProfileName::Basic, always(500), |subscription| {
            subscription.retry_policy.time_to_live_minutes = 60;
        })
        .publish("orders", 0, &[10])
        .ask("orders", 20, None);
    let remains = lived(&scenario);
    assert_attempts(&remains, &[0, 10]);
    assert_dead_letter(&remains, "TimeToLiveExceeded", 2, 3_600);
}

/// Delivery times in milliseconds at `healthy` endpoints, with one more that is down or not.
fn times(down: bool) -> Vec<u64> {
    let hour = 3_600;
    let outage = Script::Outage { windows: vec![(hour, 25 * hour)], reaction: Reaction::NEVER };
    let mut scenario =
        Scenario { readings: Readings::of(100), jitter: true, ..Scenario::default() }.with(
            "down",
            ProfileName::Basic,
            down.then_some(outage),
            |_| {},
        );
    for number in 0..99 {
        scenario = scenario.with(&format!("up-{number}"), ProfileName::Basic, None, |_| {});
    }
    for minute in 0..26 * 60 {
        scenario = scenario.publish("down", minute * 60_000 + 17, &[10]);
        let name = format!("up-{}", minute % 99);
        scenario = scenario.publish(&name, minute * 60_000 + 19, &[10]);
    }
    let remains = lived(&scenario);
    let healthy = |made: &&Request| made.subscription.topic != "down";
    let requests = remains.history.requests.iter().filter(healthy);
    let time = |made: &Request| {
        let accepted = &remains.history.accepted[&made.deliveries[0]];
        made.began_at.since(accepted.publish_time).as_millis() as u64
    };
    let mut times: Vec<_> = requests.map(time).collect();
    times.sort_unstable();
    times
}

#[test]
fn a_day_without_one_endpoint_is_not_felt_by_the_other_99() {
    let (without, with) = (times(false), times(true));
    assert_eq!(without.len(), with.len());
    let p99 = |times: &[u64]| times[times.len() * 99 / 100];
    let (without, with) = (p99(&without), p99(&with));
    assert!(with * 10 <= without * 11, "p99 is {with} ms, {without} ms without the outage");
}
