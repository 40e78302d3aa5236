//! The states of a health, and its reset.

use super::*;

#[test]
fn a_client_error_that_is_not_retried_ends_what_meets_its_probation() {
    let table = [(401, true), (403, true), (404, false), (429, false)];
    for (code, ends) in table {
        let health = after(&Health::default(), failed(1, 0, status(code)));
        assert_eq!(admitted(&health, 1, 2) == Admission::End, ends, "{code}");
    }
}

#[test]
fn state_table() {
    let busy = after(&Health::default(), failed(1, 0, status(429)));
    let Admission::Probe(probed) = admitted(&busy, 10, 1) else {
        panic!("nothing probes");
    };
    let delayed = after(&failures(9, 500), failed(9, 9, status(404)));
    let recovered = success(&busy, 10, 11).expect("a recovery");
    let probation = busy.probation.expect("one");
    let probe = Probe { delivery: Uuid::from_u128(1), lease_until: at(70) };
    let table = [
        ("nothing known", &Health::default(), 0, HealthState::Healthy),
        ("busy", &busy, 9, HealthState::Probation(probation)),
        ("to be probed", &busy, 10, HealthState::AwaitingProbe { since: at(10) }),
        ("probed", &probed, 69, HealthState::Probing(probe)),
        ("the prober is lost", &probed, 70, HealthState::AwaitingProbe { since: at(10) }),
        ("both", &delayed, 68, HealthState::DelayedDelivery(delayed.delayed.expect("one"))),
        ("one of both", &delayed, 69, HealthState::Probation(delayed.probation.expect("one"))),
        ("recovered", &recovered, 20, HealthState::Recovering { since: at(11), until: at(21) }),
        ("long ago", &recovered, 21, HealthState::Healthy),
    ];
    for (row, health, now_s, want) in table {
        assert_eq!(health.state(at(now_s)), want, "{row}");
    }
}

#[test]
fn condition_table() {
    let health = Health::default();
    let busy = after(&health, failed(1, 0, status(429)));
    let refused = after(&health, failed(1, 0, status(401)));
    let delayed = failures(10, 500);
    let both = failures(10, 401);
    let recovered = busy.reset(at(4)).expect("a wait to end");
    let (basic, waits) = (ProbationPolicy::EventGrid, ProbationPolicy::Delay);
    let table = [
        ("nothing known", &health, basic, 0, Condition::Healthy, Effect::Attempted),
        ("busy", &busy, basic, 9, Condition::Probation, Effect::Waits),
        ("busy, to be probed", &busy, basic, 10, Condition::Probation, Effect::Waits),
        ("refused", &refused, basic, 9, Condition::Probation, Effect::Ends),
        ("refused, waits", &refused, waits, 9, Condition::Probation, Effect::Waits),
        ("refused, probed", &refused, basic, 300, Condition::Probation, Effect::Waits),
        ("ten failures", &delayed, basic, 9, Condition::DelayedDelivery, Effect::Waits),
        ("both", &both, basic, 9, Condition::DelayedDelivery, Effect::Ends),
        ("reset", &recovered, basic, 13, Condition::Recovering, Effect::Attempted),
        ("long ago", &recovered, basic, 14, Condition::Healthy, Effect::Attempted),
    ];
    let policy = RetryPolicy::default_of(ProfileName::Basic);
    let rules = Rules { profile: ProfileName::Basic, kind: EndpointKind::Webhook, policy: &policy };
    for (row, health, probation, seconds, condition, effect) in table {
        assert_eq!(health.condition(at(seconds)), condition, "{row}");
        assert_eq!(health.effect(rules, probation, at(seconds)), effect, "{row}");
    }
}

#[test]
fn a_reset_leaves_nothing_in_the_way() {
    assert_eq!(Health::default().reset(at(1)), None, "nothing to write");
    // The clock that wrote the wait may be ahead of this one.
    let busy = after(&Health::default(), failed(1, 100, status(429)));
    for now in [at(99), at(105), at(500)] {
        let reset = busy.reset(now).expect("a wait to end");
        assert_eq!((reset.until(), reset.probe, reset.row.failures), (None, None, 0));
        assert_eq!((reset.revision, reset.counted), (busy.revision, busy.counted));
        assert_eq!(admitted(&reset, 200, 7), Admission::Attempt);
    }
    let failing = after(&Health::default(), failed(1, 0, status(500)));
    assert_eq!(failing.reset(at(1)).map(|health| health.row.failures), Some(0));
    let slow = Slowness { marked_until: Some(at(9)), ..Slowness::default() };
    let slow = Health { slow, ..Health::default() };
    assert_eq!(slow.reset(at(1)).map(|health| health.slow.is_slow(at(1))), Some(false));
    assert_eq!(slow.reset(at(9)), None, "not slow any more");
}

#[test]
fn a_health_is_stored_as_it_is() {
    let mut health = after(&failures(9, 500), failed(9, 9, status(404)));
    health.probe = Some(Probe { delivery: Uuid::from_u128(1), lease_until: at(70) });
    health.recovered = Some(Recovery { at: at(1), over: Duration::from_millis(1_500) });
    let text = serde_json::to_string(&health).expect("JSON");
    assert_eq!(serde_json::from_str::<Health>(&text).expect("JSON"), health);
    assert_eq!(serde_json::from_str::<Health>("{}").expect("JSON"), Health::default());
}
