//! Healthy endpoints beside bad ones: the worlds of `neighbours`, made smaller, and what must hold in them.

use std::{
    env,
    sync::Mutex,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use gridpost_core::retry::profile::ProfileName;
use gridpost_simulation::{
    checker,
    lambda::{Hop, Ramp},
    lateness,
    neighbours::{self, Plan, Report},
    scenario::Scenario,
    world,
};
use gridpost_testkit::endpoint::{Reaction, Script};

/// The longest time from publish to first attempt for healthy endpoints' events: 99 of 100, and
/// all, in milliseconds.
const WARM: (u64, u64) = (1_000, 3_000);

/// The bounds where Lambda begins with five batches.
const COLD: (u64, u64) = (2_000, 5_000);

fn plan(bad: &[&str], rate: f64, seconds: u64, ttl_minutes: u32) -> Plan {
    let bad = bad.iter().map(|spec| spec.parse().expect("a spec")).collect();
    Plan { bad, rate, seconds, ttl_minutes, ..Plan::default() }
}

fn lived(plan: &Plan) -> Report {
    let report = neighbours::live(plan);
    println!("{report}");
    assert!(report.violations.is_empty(), "{:?}: {report}", plan.bad);
    report
}

fn assert_unfelt(report: &Report, (p99_ms, max_ms): (u64, u64), row: &str) {
    let healthy = report.healthy;
    assert!(healthy.p99_ms.is_some_and(|ms| ms <= p99_ms), "{row}: {report}");
    assert!(healthy.max_ms.is_some_and(|ms| ms <= max_ms), "{row}: {report}");
}

/// A world for each row; `COLD` as well where the row says so.
fn assert_all_unfelt(rows: &[(&[&str], f64, u64, u32, bool)]) {
    for (bad, rate, seconds, ttl_minutes, cold_too) in rows {
        let row = format!("{} x {}, {rate}/s", bad.len(), bad[0]);
        let warm = plan(bad, *rate, *seconds, *ttl_minutes);
        assert_unfelt(&lived(&warm), WARM, &row);
        if *cold_too {
            let cold = Plan { ramp: Some(Ramp::Continuous), ..warm };
            assert_unfelt(&lived(&cold), COLD, &format!("{row}, cold"));
        }
    }
}

#[test]
fn an_endpoint_that_never_answers_is_not_felt() {
    assert_all_unfelt(&[
        (&["never"], 10.0, 60, 10, true),
        (&["never"], 100.0, 30, 5, true),
        (&["never"], 500.0, 10, 5, false),
    ]);
}

/// Where Lambda begins with five batches, some hundred events to it are handed over in the second
/// before it is marked. How soon the rest is moved out of the way depends on how soon Lambda calls
/// a copy that has just run: with 2 to 40 ms, 99 of 100 healthy events take 0.2 s and all 1.4 s;
/// with 2 to 300 ms for any call, 1.8 to 2.1 s and 2.5 s, by what the dice begin with.
#[test]
fn five_hundred_events_a_second_to_it_are_not_felt_even_cold() {
    for (hop, p99_ms, seeds) in [(Hop::NEAR, COLD.0, 1..4), (Hop::FAR, 2_200, 1..2)] {
        for seed in seeds {
            let ramp = Some(Ramp::Continuous);
            let cold = Plan { ramp, hop, seed, ..plan(&["never"], 500.0, 20, 5) };
            assert_unfelt(&lived(&cold), (p99_ms, COLD.1), &format!("{hop:?}, seed {seed}"));
        }
    }
}

#[test]
fn twenty_endpoints_that_never_answer_are_not_felt() {
    assert_all_unfelt(&[(&["never"; 20], 10.0, 20, 5, true)]);
}

/// As behind one provider that is down: each has too few events for two slow requests in ten
/// seconds, but all together hold more invocations than there are.
#[test]
fn hundreds_of_quiet_endpoints_that_never_answer_are_not_felt() {
    assert_all_unfelt(&[(&["never"; 300], 1.0 / 11.0, 90, 30, false)]);
}

#[test]
fn a_slow_failure_is_not_felt() {
    assert_all_unfelt(&[(&["500@25"], 100.0, 40, 5, true)]);
}

#[test]
fn an_endpoint_that_hangs_with_every_other_request_is_not_felt() {
    assert_all_unfelt(&[(&["half:never"], 100.0, 60, 30, true)]);
}

#[test]
fn a_quick_failure_is_not_felt() {
    assert_all_unfelt(&[(&["500"], 200.0, 20, 5, true)]);
}

/// Slowness ends no event: all arrive, within ten minutes of their publish.
#[test]
fn slow_endpoints_are_not_felt_and_get_all_their_events() {
    for (bad, rate) in [("200@5", 100.0), ("200@20", 50.0)] {
        for (ramp, bounds) in [(None, WARM), (Some(Ramp::Continuous), COLD)] {
            let report = lived(&Plan { ramp, ..plan(&[bad], rate, 40, 1_440) });
            assert_unfelt(&report, bounds, bad);
            let slow = report.bad[0];
            assert_eq!(slow.delivered, slow.published, "{report}");
            assert!(slow.max_ms.is_some_and(|ms| ms <= 600_000), "{report}");
        }
    }
}

/// The first burst to a new endpoint arrives within five seconds.
#[test]
fn a_fast_endpoint_gets_a_thousand_events_a_second() {
    let burst = lived(&plan(&["200"], 1_000.0, 1, 1_440));
    assert!(burst.bad[0].max_ms.is_some_and(|ms| ms <= 5_000), "{burst}");
    let report = lived(&plan(&["200"], 1_000.0, 20, 1_440));
    // Twice what it took before endpoints were kept apart.
    assert!(report.bad[0].p99_ms.is_some_and(|ms| ms <= 2 * 380), "{report}");
    assert_unfelt(&report, WARM, "1,000/s");
}

/// A third of what an attempt to it took when each held an invocation until it was given up.
#[test]
fn an_attempt_that_hangs_is_billed_a_third() {
    let report = lived(&plan(&["never"], 100.0, 30, 60));
    let each = report.billed_gb_seconds / report.bad[0].requests as f64;
    assert!(each <= 96.0 / 3.0, "{each} GB-seconds: {report}");
}

/// Retries of an endpoint that fails now and then come when they are due, beside 20 endpoints on
/// its retry queue that hang.
#[test]
fn retries_beside_hanging_endpoints_come_when_they_are_due() {
    let plan = plan(&["never"; 20], 10.0, 30, 10);
    assert_retries_come_when_due(neighbours::scenario(&plan));
}

/// The same beside one that answers after a second, and after a minute not at all.
#[test]
fn retries_beside_an_endpoint_that_begins_to_hang_come_when_they_are_due() {
    let mut answers = vec![Reaction::status(200).after(Duration::from_secs(1)); 1_800];
    answers.push(Reaction::NEVER);
    let script = Some(Script::Answers(answers));
    let scenario =
        neighbours::scenario(&Plan { healthy_rate: 1.0, seconds: 120, ..Plan::default() });
    let mut scenario = scenario.with("turns", ProfileName::Basic, script, |_| {});
    for number in 0..3_600 {
        scenario = scenario.publish("turns", number * 1_000 / 30, &[100]);
    }
    assert_retries_come_when_due(scenario);
}

/// Asserts it of an endpoint beside those of a scenario, all on one retry queue.
#[track_caller]
fn assert_retries_come_when_due(scenario: Scenario) {
    let script = Script::Flaky { rate: 0.2, reactions: vec![Reaction::status(500)] };
    let mut scenario = scenario.with("again", ProfileName::Basic, Some(script), |_| {});
    scenario.queues.retry_shards = 1;
    for number in 0..600 {
        scenario = scenario.publish("again", number * 200, &[100]);
    }
    let remains = world::run(&scenario, 1, false);
    let failures = checker::check(&remains);
    assert!(failures.is_empty(), "{failures:?}");
    let late = lateness::of_retries(&scenario, &remains, "again");
    assert!(late.len() > 50, "{late:?}");
    assert!(lateness::p99(&late) <= Duration::from_secs(10), "{late:?}");
}

/// An outage of three hours: waiting events arrive, and other endpoints never notice.
#[test]
fn an_outage_of_three_hours_is_made_up_for() {
    const OUTAGE_S: u64 = 3 * 3_600;
    let windows = vec![(0, OUTAGE_S)];
    let script = Script::Outage { windows, reaction: Reaction::status(503) };
    let plan = Plan { healthy_rate: 1.0, seconds: OUTAGE_S + 600, ..Plan::default() };
    let mut scenario =
        neighbours::scenario(&plan).with("out", ProfileName::Basic, Some(script), |_| {});
    // Two events a second where fifty are meant, and walls that are as much lower.
    scenario.queues.in_flight_max /= 25;
    scenario.retry_in_flight_limit /= 25;
    for number in 0..2 * OUTAGE_S {
        scenario = scenario.publish("out", number * 500, &[100]);
    }
    let remains = world::run(&scenario, 1, false);
    let failures = checker::check(&remains);
    assert!(failures.is_empty(), "{failures:?}");
    let report = neighbours::report(&plan, &remains);
    assert_unfelt(&report, WARM, "an outage");
    assert!(remains.history.parked > 1_000, "{} were parked", remains.history.parked);
    assert_eq!(remains.history.dead_letters.len(), 0, "all of it arrives");
}

/// Worlds with many kinds of neighbours at once. `GRIDPOST_SIM_NEIGHBOURS` sets how many.
#[test]
fn every_mix_of_neighbours_keeps_the_promise() {
    let until = env::var("GRIDPOST_SIM_NEIGHBOURS").ok().and_then(|text| text.parse().ok());
    let until: u64 = until.unwrap_or(24);
    let next = AtomicU64::new(1);
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > until {
                return;
            }
            let plan = neighbours::mixed(seed);
            if let Some(first) = neighbours::live(&plan).violations.first() {
                failed
                    .lock()
                    .expect("no panic while held")
                    .push(format!("{seed}: {first} in {plan:?}"));
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
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}
