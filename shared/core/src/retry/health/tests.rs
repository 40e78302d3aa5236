use super::*;
use crate::retry::{
    outcome::Answer,
    policy::RetryPolicy,
    profile::{EndpointKind, ProfileName},
};

mod copies;
mod states;

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Duration::from_secs(seconds)
}

fn failed(number: u128, seconds: u64, answer: Answer) -> FailedAttempt {
    let (began_at, ended_at) = (at(seconds), at(seconds));
    let delivery = Uuid::from_u128(number);
    FailedAttempt { delivery, began_at, ended_at, answer, last_success_at: None }
}

fn change(health: &Health, failed: FailedAttempt) -> Option<Health> {
    after_failure(health, &Durations::default(), failed)
}

fn after(health: &Health, failed: FailedAttempt) -> Health {
    change(health, failed).unwrap_or_else(|| health.clone())
}

fn success(health: &Health, began_s: u64, now_s: u64) -> Option<Health> {
    succeeded(health, began_s, now_s, false)
}

fn succeeded(health: &Health, began_s: u64, ended_s: u64, asked_for: bool) -> Option<Health> {
    let success = SuccessfulAttempt { began_at: at(began_s), ended_at: at(ended_s), asked_for };
    after_success(health, success, Duration::ZERO)
}

fn status(status: u16) -> Answer {
    Answer::of_status(status, None)
}

/// Failures with that status, one a second from 0 on.
fn failures(count: u64, code: u16) -> Health {
    (0..count).fold(Health::default(), |health, second| {
        after(&health, failed(u128::from(second), second, status(code)))
    })
}

fn asking(delivery: u128, now_s: u64) -> AdmissionRequest {
    let delivery = Uuid::from_u128(delivery);
    AdmissionRequest {
        delivery,
        now: at(now_s),
        pace: Pace::REAL,
        admitted: 0,
        spread: Duration::ZERO,
        dice: 0.0,
    }
}

fn admission(health: &Health, asking: AdmissionRequest) -> Admission {
    let policy = RetryPolicy::default_of(ProfileName::Basic);
    let rules = Rules { profile: ProfileName::Basic, kind: EndpointKind::Webhook, policy: &policy };
    admit(health, rules, ProbationPolicy::EventGrid, asking)
}

fn admitted(health: &Health, seconds: u64, delivery: u128) -> Admission {
    admission(health, asking(delivery, seconds))
}

fn wait_until(seconds: u64) -> Admission {
    Admission::Wait { until: at(seconds) }
}

/// `Retry-After` only counts for the delivery that got it.
#[test]
fn retry_after_does_not_lengthen_a_probation() {
    for (code, until_s) in [(429, 10), (503, 10), (404, 300)] {
        for retry_after in [None, Some(Duration::ZERO), Some(Duration::from_secs(3_600))] {
            let answer = Answer::of_status(code, retry_after);
            let health = after(&Health::default(), failed(1, 0, answer));
            assert_eq!(health.until(), Some(at(until_s)), "{code} {retry_after:?}");
        }
    }
}

#[test]
fn each_outcome_waits_as_long_as_it_says() {
    let table = [
        (Outcome::Busy, Some(10)),
        (Outcome::TimedOut, Some(10)),
        (Outcome::SocketError, Some(30)),
        (Outcome::NotFound, Some(300)),
        (Outcome::InvalidFunctionDestination, Some(600)),
        (Outcome::ServerError, None),
        (Outcome::BadRequest, None),
    ];
    for (outcome, wait_s) in table {
        let health = after(&Health::default(), failed(1, 100, Answer::without_status(outcome)));
        assert_eq!(health.until(), wait_s.map(|wait_s| at(100 + wait_s)), "{outcome}");
    }
}

#[test]
fn ten_failures_in_a_row_delay_delivery_and_failed_probes_lengthen_it() {
    assert_eq!(failures(9, 500).until(), None);
    let mut health = failures(10, 500);
    assert_eq!(health.until(), Some(at(9 + 60)));
    let mut now = 9 + 60;
    for (probe, wait_s) in (100..).zip([300, 600, 1_800, 3_600, 10_800, 10_800]) {
        health = after(&health, failed(probe, now, status(500)));
        assert_eq!(health.until(), Some(at(now + wait_s)), "{wait_s}");
        now += wait_s;
    }
}

/// Ten failures of 401 begin delayed delivery. It outlasts the probation of five minutes, and
/// ends no event.
#[test]
fn only_probation_ends_events_and_only_until_its_own_end() {
    let mut health = failures(10, 401);
    for (probe, began_s) in [(20, 309), (21, 700), (22, 1_400)] {
        health = after(&health, failed(probe, began_s, status(401)));
    }
    let (probation, delayed) = (health.probation.expect("one"), health.delayed.expect("one"));
    assert_eq!((probation.since, probation.until), (at(1_400), at(1_700)));
    assert_eq!((delayed.step, delayed.since, delayed.until), (4, at(1_400), at(3_200)));
    let table = [
        ("on probation", 1_699, Admission::End),
        ("only delayed", 1_700, wait_until(3_200)),
        ("still delayed", 3_199, wait_until(3_200)),
    ];
    for (row, now_s, want) in table {
        assert_eq!(admitted(&health, now_s, 9), want, "{row}");
    }
    assert!(matches!(admitted(&health, 3_200, 9), Admission::Probe(_)));
}

#[test]
fn nothing_is_attempted_before_both_waits_are_over() {
    let not_found = after(&failures(9, 500), failed(9, 9, status(404)));
    let until = not_found.probation.map(|wait| wait.until);
    assert_eq!(until, Some(at(9 + 300)));
    assert_eq!(not_found.delayed.map(|wait| wait.until), Some(at(9 + 60)));
    assert_eq!((not_found.until(), not_found.since()), (until, Some(at(9))));
    assert_eq!(admitted(&not_found, 70, 1), wait_until(309));
    let cause = Cause { outcome: Outcome::NotFound, status: Some(404) };
    assert_eq!(not_found.cause(), Some(cause));
}

#[test]
fn a_failed_probe_never_opens_the_gate() {
    let busy = after(&Health::default(), failed(1, 0, status(503)));
    let unauthorized = after(&Health::default(), failed(1, 0, status(401)));
    let table = [
        ("no wait of its own", &busy, 10, status(500), 20),
        ("a refused event", &busy, 10, status(400), 20),
        ("its outcome's wait", &busy, 10, status(404), 310),
        ("after a long probation", &unauthorized, 300, status(500), 310),
    ];
    for (row, health, probed_s, answer, until_s) in table {
        let Admission::Probe(claimed) = admitted(health, probed_s, 7) else {
            panic!("{row}: no probe");
        };
        let next = change(&claimed, failed(7, probed_s, answer)).expect("a change");
        assert_eq!((next.until(), next.probe), (Some(at(until_s)), None), "{row}");
        assert_eq!(admitted(&next, until_s - 1, 8), wait_until(until_s), "{row}");
        let Admission::Probe(claimed) = admitted(&next, until_s, 8) else {
            panic!("{row}: no second probe");
        };
        let lease_until = at(until_s + 60);
        assert_eq!(claimed.probe, Some(Probe { delivery: Uuid::from_u128(8), lease_until }));
        assert!(matches!(admitted(&claimed, until_s, 9), Admission::Wait { .. }), "{row}");
    }
}

#[test]
fn a_probe_of_short_waits_waits_ten_seconds() {
    let durations = Durations::default().with(BTreeMap::from([(Outcome::Busy, 2)]));
    let busy = after_failure(&Health::default(), &durations, failed(1, 0, status(503)));
    let busy = busy.expect("a change");
    assert_eq!(busy.until(), Some(at(2)));
    let again = after_failure(&busy, &durations, failed(2, 2, status(503))).expect("a change");
    assert_eq!(again.until(), Some(at(12)));
}

#[test]
fn what_changes_next_to_nothing_is_not_written() {
    let busy = failures(9, 503);
    let ended = |millis: i64, number, answer| FailedAttempt {
        delivery: Uuid::from_u128(number),
        began_at: at(5),
        ended_at: Timestamp::from_millis(millis),
        answer,
        last_success_at: None,
    };
    let full = after(&busy, ended(9_000, 100, status(500)));
    assert_eq!((full.row.failures, full.until()), (10, Some(at(9 + 60))));
    assert_eq!(full.probation.map(|wait| wait.until), Some(at(18)));
    let table = [
        ("no wait of its own", 9_500, status(500), false),
        ("lengthens by less than a second", 8_999, status(503), false),
        ("lengthens by a second", 9_000, status(503), true),
        ("another cause", 9_000, status(401), true),
        ("noted once a minute", 69_000, status(500), true),
    ];
    for (row, ended_ms, answer, written) in table {
        let next = change(&full, ended(ended_ms, 101, answer));
        assert_eq!(next.is_some(), written, "{row}");
        let kept = next.is_none_or(|next| (next.row.failures, next.delayed) == (10, full.delayed));
        assert!(kept, "{row}: it counts no more");
    }
}

#[test]
fn a_thousand_timeouts_at_once_write_little() {
    let (mut health, mut writes) = (Health::default(), 0);
    for number in 0..1_000_u64 {
        let answer = Answer::without_status(Outcome::TimedOut);
        let ended_at = at(30) + Duration::from_millis(number);
        let delivery = Uuid::from_u128(u128::from(number));
        let failed =
            FailedAttempt { delivery, began_at: at(0), ended_at, answer, last_success_at: None };
        if let Some(next) = change(&health, failed) {
            (health, writes) = (next, writes + 1);
        }
    }
    assert_eq!((writes, health.row.failures), (10, UNHEALTHY_AFTER));
}

#[test]
fn attempts_that_were_under_way_do_not_lengthen_the_wait() {
    assert_eq!(change(&failures(10, 500), failed(50, 20, status(500))), None);
}

#[test]
fn an_attempt_counts_once() {
    let once = after(&Health::default(), failed(1, 0, status(500)));
    assert_eq!(change(&once, failed(1, 0, status(500))), None);
    assert_eq!(after(&once, failed(1, 1, status(500))).row.failures, 2, "made once more");
}

#[test]
fn a_success_breaks_the_row_as_far_as_a_second_tells() {
    // Nine failures from 0 to 8; the tenth ends at 30, when this success is known.
    let table = [
        ("none", None, 10, true),
        ("before the row", Some(at(0) + Duration::ZERO), 1, false),
        ("in the row", Some(at(4)), 1, false),
        ("after the row", Some(at(20)), 1, false),
        ("a second ago", Some(at(29)), 1, false),
        ("just now", Some(Timestamp::from_millis(29_001)), 0, false),
    ];
    for (row, last_success_at, failures_in_row, delays) in table {
        let own = FailedAttempt { last_success_at, ..failed(9, 30, status(500)) };
        let shared = Health { last_success_at, ..failures(9, 500) };
        for health in [after(&failures(9, 500), own), after(&shared, failed(9, 30, status(500)))] {
            assert_eq!(
                (health.row.failures, health.is_waiting()),
                (failures_in_row, delays),
                "{row}"
            );
        }
    }
    let long_ago = Health { last_success_at: Some(Timestamp::from_millis(-1)), ..failures(9, 500) };
    assert!(after(&long_ago, failed(9, 30, status(500))).is_waiting(), "before the row");
}

#[test]
fn evidence_table() {
    let seen = |success: Option<u64>, failure: Option<u64>| SeenAttempts {
        last_success_at: success.map(at),
        last_failure_at: failure.map(at),
    };
    let row = failures(3, 500);
    let told = Health { last_success_at: Some(at(20)), ..Health::default() };
    let first = failures(10, 500);
    let second = after(&first, failed(70, 70, status(500)));
    // Result: the failures in a row, whether it waits, the success.
    let table = [
        ("nothing seen", &row, seen(None, Some(2)), None),
        ("a success in the row", &row, seen(Some(1), None), Some((0, false, 1))),
        ("a success after it", &row, seen(Some(9), None), Some((0, false, 9))),
        ("healthy", &Health::default(), seen(Some(9), Some(9)), None),
        ("lifts the first wait", &first, seen(Some(5), None), Some((0, false, 5))),
        ("not the second", &second, seen(Some(5), None), None),
        ("not by what came later", &second, seen(Some(72), Some(72)), None),
        ("told of failures", &told, seen(Some(21), Some(19)), Some((0, false, 21))),
        ("too soon", &told, seen(Some(20), Some(19)), None),
        ("no failures", &told, seen(Some(21), None), None),
        ("old failures", &told, seen(Some(21), Some(16)), None),
    ];
    for (name, health, seen, want) in table {
        let next = evidence(health, seen, at(21));
        let found =
            next.map(|health| (health.row.failures, health.is_waiting(), health.last_success_at));
        let want = want.map(|(failures, waits, success)| (failures, waits, Some(at(success))));
        assert_eq!(found, want, "{name}");
    }
    let before =
        SeenAttempts { last_success_at: Some(Timestamp::from_millis(-1)), last_failure_at: None };
    assert_eq!(evidence(&first, before, at(21)), None, "a success before the row");
    let busy = after(&first, failed(11, 9, status(503)));
    let lifted = evidence(&busy, seen(Some(9), None), at(10)).expect("it is lifted");
    assert_eq!((lifted.delayed, lifted.until()), (None, Some(at(19))), "probation goes on");
}

#[test]
fn who_meets_a_first_delay_that_is_young_looks_again_soon() {
    let first = failures(10, 500);
    let second = after(&first, failed(70, 70, status(500)));
    let not_found = after(&first, failed(11, 9, status(404)));
    let table = [
        ("young", &first, 10, 0.0, 12_000),
        ("young, late dice", &first, 10, 0.5, 13_000),
        ("two seconds old", &first, 11, 0.0, 69_000),
        ("not the first", &second, 71, 0.0, 370_000),
        ("on probation, too", &not_found, 10, 0.0, 309_000),
    ];
    for (row, health, now_s, dice, until_ms) in table {
        let found = admission(health, AdmissionRequest { dice, ..asking(1, now_s) });
        let until = Timestamp::from_millis(until_ms);
        assert_eq!(found, Admission::Wait { until }, "{row}");
    }
}

#[test]
fn a_probe_is_held_as_long_on_the_machine_by_a_fast_clock() {
    let busy = after(&Health::default(), failed(1, 0, status(429)));
    let pace = Pace::times(600);
    let Admission::Probe(claimed) = admission(&busy, AdmissionRequest { pace, ..asking(1, 10) })
    else {
        panic!("it probes");
    };
    let lease_until = claimed.probe.map(|probe| probe.lease_until);
    assert_eq!(lease_until, Some(at(10) + pace.to_clock(PROBE_LEASE)));
}

#[test]
fn one_delivery_probes_when_a_wait_ends() {
    let busy = after(&Health::default(), failed(1, 0, status(429)));
    assert_eq!(admitted(&busy, 9, 1), wait_until(10));
    let Admission::Probe(claimed) = admitted(&busy, 10, 1) else {
        panic!("nothing probes");
    };
    assert_eq!(admitted(&claimed, 10, 2), wait_until(30));
    assert_eq!(admitted(&claimed, 11, 1), wait_until(31), "a copy of the prober waits too");
    assert!(matches!(admitted(&claimed, 70, 2), Admission::Probe(_)), "its lease is over");
}

/// A request from before the wait fails during the probe: the probe decides.
#[test]
fn a_late_failure_does_not_take_the_probe_its_result() {
    let waiting = after(&Health::default(), failed(2, 1, status(503)));
    let until = waiting.until().expect("probation");
    assert_eq!(until, at(11));
    let Admission::Probe(probing) = admission(&waiting, asking(3, 11)) else { panic!("a probe") };
    let late = FailedAttempt { began_at: at(0), ..failed(1, 12, status(503)) };
    let health = change(&probing, late).unwrap_or_else(|| (*probing).clone());
    assert_eq!((health.until(), health.probe), (probing.until(), probing.probe));
    let opened = success(&health, 11, 13).expect("it opens");
    assert_eq!((opened.until(), opened.probe), (None, None));
    let probe = FailedAttempt { began_at: at(11), ..failed(3, 13, status(503)) };
    let again = after(&health, probe);
    assert_eq!((again.until(), again.probe), (Some(at(23)), None), "the next one soon");
    // Without a probe, or after its claim, it lengthens the wait.
    let extended = change(&waiting, late).expect("a change");
    assert_eq!(extended.until(), Some(at(22)));
    let behind = FailedAttempt { began_at: at(0), ..failed(1, 72, status(503)) };
    assert_eq!(after(&probing, behind).until(), Some(at(82)));
}

#[test]
fn what_waits_comes_back_spread_by_the_backlog() {
    let busy = after(&Health::default(), failed(1, 0, status(429)));
    let gone = after(&Health::default(), failed(1, 0, status(404)));
    let Admission::Probe(probed) = admitted(&gone, 300, 1) else {
        panic!("nothing probes");
    };
    let asked = |now_s, spread_s, dice| AdmissionRequest {
        spread: Duration::from_secs(spread_s),
        dice,
        ..asking(2, now_s)
    };
    let table = [
        ("few, early", &busy, asked(0, 0, 0.0), 10_000),
        ("few, late", &busy, asked(0, 0, 1.0), 13_000),
        ("many, early", &gone, asked(0, 200, 0.0), 300_000),
        ("many", &gone, asked(0, 200, 0.25), 400_000),
        ("many, late", &gone, asked(0, 200, 1.0), 500_000),
        ("many, while one probes", &probed, asked(310, 200, 0.25), 430_000),
        // Many of them may be another endpoint's in the same queue.
        ("no longer than the wait", &busy, asked(0, 600, 1.0), 20_000),
        ("no longer than a long wait", &gone, asked(0, 600, 1.0), 600_000),
        ("no longer than a wait whose probe lasts", &probed, asked(310, 600, 1.0), 640_000),
    ];
    for (row, health, asking, until_ms) in table {
        let until = Timestamp::from_millis(until_ms);
        assert_eq!(admission(health, asking), Admission::Wait { until }, "{row}");
    }
}

/// 540,000 deliveries fail one after the other in an outage, and each is spread by the backlog
/// at that time: no second brings back much more than 1,000.
#[test]
fn a_growing_backlog_comes_back_evenly() {
    let mut seconds = vec![0_u32; 1_200];
    let wait = Probation {
        since: at(0),
        until: at(3 * 3_600),
        outcome: Outcome::ServerError,
        status: None,
    };
    let outage = Health { probation: Some(wait), ..Health::default() };
    for backlog in 0..540_000_u64 {
        let dice = (backlog as f64 * 0.618_033_988_749).fract();
        let spread = Duration::from_millis(backlog * 2).min(Duration::from_secs(600));
        let moment = AdmissionRequest { spread, dice, ..asking(1, 0) }.moment(&outage);
        seconds[moment.as_secs() as usize] += 1;
    }
    let most = seconds.iter().max().copied().unwrap_or(0);
    assert!(most < 1_900, "{most} in one second");
}

#[test]
fn a_success_ends_both_waits_and_admission_doubles() {
    let spread = Duration::from_secs(40);
    let not_found = after(&failures(9, 500), failed(9, 9, status(404)));
    let success = SuccessfulAttempt { began_at: at(309), ended_at: at(310), asked_for: false };
    let health = after_success(&not_found, success, spread).expect("a recovery");
    assert_eq!(health.recovered, Some(Recovery { at: at(310), over: spread }));
    assert_eq!((health.until(), health.row.failures, health.probe), (None, 0, None));
    assert_eq!(health.last_success_at, Some(at(310)));
    let states = [(310, true), (349, true), (350, false)];
    for (now_s, recovers) in states {
        let recovering = HealthState::Recovering { since: at(310), until: at(350) };
        assert_eq!(health.state(at(now_s)) == recovering, recovers, "{now_s}");
    }
    let limits: Vec<_> = [0, 1, 2, 9, 10].map(|s| admission_limit(Duration::from_secs(s))).to_vec();
    assert_eq!(limits, [1, 2, 4, 512, u64::MAX]);
    let one_more = |now_s, admitted, dice| AdmissionRequest { admitted, dice, ..asking(1, now_s) };
    let table = [
        ("the first", one_more(310, 0, 0.0), Admission::Attempt),
        ("the second", one_more(310, 1, 0.0), wait_until(312)),
        ("the second, late", one_more(310, 1, 1.0), wait_until(322)),
        ("in the ninth second", one_more(318, 255, 0.0), Admission::Attempt),
        ("no limit", one_more(320, 9_999, 0.0), Admission::Attempt),
    ];
    for (row, asking, want) in table {
        assert_eq!(admission(&health, asking), want, "{row}");
    }
}

#[test]
fn a_success_that_began_before_a_wait_was_over_does_not_end_it() {
    let busy = after(&Health::default(), failed(1, 5, status(429)));
    // Neither an attempt under way when the wait began, nor one of a copy that had not heard of it.
    for began_s in [4, 5, 14] {
        let row = success(&busy, began_s, 16).map(|health| (health.row.failures, health.probation));
        assert_eq!(row, Some((0, busy.probation)), "the row is broken, the wait goes on");
    }
    assert_eq!(success(&busy, 15, 16).map(|health| health.until()), Some(None));
    // An attempt that an operator asked for probes.
    let asked = |began_s| succeeded(&busy, began_s, 16, true).map(|health| health.until());
    assert_eq!((asked(4), asked(5)), (Some(busy.until()), Some(None)));
    let first = failures(10, 500);
    let lifted = success(&first, 4, 12).expect("a change");
    assert_eq!((lifted.delayed, lifted.row.failures, lifted.recovered), (None, 0, None));
    let second = after(&first, failed(70, 70, status(500)));
    assert_eq!(success(&second, 69, 75), None, "a probe has failed since");
    assert_eq!(success(&Health::default(), 1, 2), None, "nothing to write");
    assert_eq!(success(&failures(3, 500), 1, 9).map(|health| health.row.failures), Some(0));
}
