//! The whole pipeline in virtual time. `GRIDPOST_SIM_SEED=<n> cargo test -p gridpost-tests --test
//! simulation -- replay --nocapture` lives one world again and prints all that happens in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use gridpost::time::Timestamp;
use gridpost_tests::sim::{checker, scenario, world};

/// Seeds of one run.
const SEEDS: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// What is wrong with the world of that seed.
fn live(seed: u64, traced: bool) -> (world::Remains, Vec<String>) {
    let remains = world::run(&scenario::mixed(seed), seed, traced);
    let failures = checker::check(&remains);
    (remains, failures)
}

/// `GRIDPOST_SIM_SEEDS` sets how many, `GRIDPOST_SIM_FROM` where to begin.
#[test]
fn every_seed_keeps_the_promise() {
    let from = number("GRIDPOST_SIM_FROM").unwrap_or(1);
    let until = from + number("GRIDPOST_SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(from);
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= until || failed.lock().expect("no panic while held").len() >= 5 {
                return;
            }
            let (_, failures) = live(seed, false);
            if let Some(first) = failures.first() {
                failed.lock().expect("no panic while held").push((seed, first.clone()));
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(2, usize::from);
        (0..threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    let failed = failed.into_inner().expect("no panic while held");
    let lines: Vec<_> = failed
        .iter()
        .map(|(seed, failure)| {
            format!(
                "GRIDPOST_SIM_SEED={seed} cargo test -p gridpost-tests --test simulation -- replay \
                 --nocapture # {failure}"
            )
        })
        .collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}

#[test]
fn the_same_seed_makes_the_same_world() {
    for seed in 1..=20 {
        let (once, again) = (live(seed, true).0, live(seed, true).0);
        assert_eq!(once.history.trace, again.history.trace, "seed {seed}");
    }
}

/// Seeds in which everything of the next test must occur.
const MIX: u64 = 400;

/// A checker proves nothing about what never happens.
#[test]
fn the_mix_of_worlds_has_everything_in_it() {
    let mut seen = BTreeSet::new();
    for seed in 1..=MIX {
        let remains = live(seed, false).0;
        notes(&remains, &mut |what| {
            seen.insert(what);
        });
    }
    let wanted = [
        // Every way to end, but those that only AWS endpoints meet.
        "dead letter MaxDeliveryAttemptsExceeded",
        "dead letter TimeToLiveExceeded",
        "dead letter UndeliverableDueToHttpBadRequest",
        "dead letter UndeliverableDueToHttpPayloadTooLarge",
        "dead letter UndeliverableDueToHttpUnauthorized",
        "dead letter UndeliverableDueToHttpForbidden",
        "dead letter UndeliverableDueToHttpNotFound",
        "dead letter UndeliverableDueToClientError",
        "dead letter UndeliverableDueToProbationCausedByClientError",
        "dead letter of profile namespace",
        "drop MaxDeliveryAttemptsExceeded",
        "drop TimeToLiveExceeded",
        "drop SubscriptionDeleted",
        "drop DeadLetterDestinationNotFound",
        "drop DeadLetterDestinationUnavailable",
        // What requests meet.
        "outcome Delivered",
        "outcome BadRequest",
        "outcome Busy",
        "outcome Forbidden",
        "outcome NotFound",
        "outcome PayloadTooLarge",
        "outcome ResolutionError",
        "outcome ServerError",
        "outcome SocketError",
        "outcome TimedOut",
        "outcome Unauthorized",
        "a late success",
        "Retry-After",
        "several deliveries in one request",
        "several events in one delivery",
        "a second attempt of a batch",
        // Settings.
        "profile Basic",
        "profile Basic2021",
        "profile Namespace",
        "a schedule of its own",
        "status rules of its own",
        "probation policy EventGrid",
        "probation policy Delay",
        // The ways of the queues and tables.
        "a parked delivery",
        "events in the payload bucket",
        "a wait of more than 12 hours",
        "a disturbed delivery",
        "a fault in an endpoint's health",
        "a calm world",
    ];
    let missing: Vec<_> = wanted.into_iter().filter(|what| !seen.contains(*what)).collect();
    assert!(
        missing.is_empty(),
        "in {MIX} worlds there was never: {missing:?}\nthere was: {seen:?}"
    );
}

/// Notes what occurred in a world.
fn notes(remains: &world::Remains, note: &mut impl FnMut(String)) {
    let history = &remains.history;
    for dead_letter in history.dead_letters.values() {
        let record = &dead_letter.record;
        let reason = record.get("deadLetterReason").or(record.get("deadletterreason"));
        let reason = reason.and_then(|reason| reason.as_str()).unwrap_or("of profile namespace");
        note(format!("dead letter {reason}"));
    }
    history.drops.iter().for_each(|drop| note(format!("drop {}", drop.reason)));
    let mut began: BTreeMap<_, Timestamp> = BTreeMap::new();
    for request in &history.requests {
        if let Some((_, answer)) = request.heard {
            note(format!("outcome {}", answer.outcome));
            answer.retry_after.iter().for_each(|_| note("Retry-After".to_owned()));
        }
        let facts = [
            (request.heard_late.is_some(), "a late success"),
            (request.deliveries.len() > 1, "several deliveries in one request"),
            (request.events > request.deliveries.len(), "several events in one delivery"),
            (request.events > 1 && request.number > 1, "a second attempt of a batch"),
        ];
        for (_, what) in facts.into_iter().filter(|(so, _)| *so) {
            note(what.to_owned());
        }
        for delivery in &request.deliveries {
            let before = began.insert(*delivery, request.began_at);
            let waited = before.map(|before| request.began_at.since(before));
            if waited.is_some_and(|waited| waited > Duration::from_secs(12 * 3_600)) {
                note("a wait of more than 12 hours".to_owned());
            }
        }
    }
    for (topic, subscriptions) in &remains.topics {
        note(format!("profile {:?}", topic.delivery_profile));
        for subscription in subscriptions {
            let policy = &subscription.retry_policy;
            policy.schedule_s.iter().for_each(|_| note("a schedule of its own".to_owned()));
            if !policy.status_rules.is_empty() {
                note("status rules of its own".to_owned());
            }
            note(format!("probation policy {:?}", subscription.probation_policy));
        }
    }
    let facts = [
        (history.parked > 0, "a parked delivery"),
        (!history.payloads.is_empty(), "events in the payload bucket"),
        (!history.disturbed.is_empty(), "a disturbed delivery"),
        (!history.health_faults.is_empty(), "a fault in an endpoint's health"),
        (remains.calm, "a calm world"),
    ];
    for (_, what) in facts.into_iter().filter(|(so, _)| *so) {
        note(what.to_owned());
    }
}

#[test]
fn replay() {
    let Some(seed) = number("GRIDPOST_SIM_SEED") else { return };
    let (remains, failures) = live(seed, true);
    for line in remains.history.trace.iter().flatten() {
        println!("{line}");
    }
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
}

/// The worked examples: what Event Grid's documentation says will happen, happening.
mod examples {
    use std::time::Duration;

    use gridpost::{
        delivery::{parking::RECEIVES_MAX, profile::ProfileName},
        subscription::Batching,
    };
    use gridpost_tests::sim::{
        checker,
        clock::BEGINNING,
        endpoint::{Reaction, Script},
        scenario::Scenario,
        world::{self, Remains},
    };

    /// What a poller and a cold function take at most, plus the rounding up of a hidden message.
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
        let scenario =
            Scenario::default().with("orders", ProfileName::Basic, None, |subscription| {
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
        let scenario = Scenario::default()
            .with("orders", ProfileName::Basic, script, |_| {})
            .publish("orders", 0, &[10]);
        let remains = lived(&scenario);
        assert_attempts(&remains, &[0]);
        assert!(remains.history.requests[0].heard_late.is_some());
        assert!(remains.history.dead_letters.is_empty() && remains.history.drops.is_empty());
    }

    /// Every wait ends for all, and all but a few wait again: messages are received many hundreds of
    /// times. SQS gives up one that was received 1,000 times.
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

    /// Delivery times in milliseconds at `healthy` endpoints, with one more that is down or not.
    fn times(down: bool) -> Vec<u64> {
        let hour = 3_600;
        let outage = Script::Outage { windows: vec![(hour, 25 * hour)], reaction: Reaction::NEVER };
        let mut scenario = Scenario { concurrency: 100, jitter: true, ..Scenario::default() }.with(
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
        let healthy =
            |made: &&gridpost_tests::sim::history::Request| made.subscription.topic != "down";
        let requests = remains.history.requests.iter().filter(healthy);
        let time = |made: &gridpost_tests::sim::history::Request| {
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
}
