use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    delivery::{event_set::EventSet, partial},
    retry::{
        DelayReason, EndReason,
        policy::RetryPolicy,
        profile::{EndpointKind, ProfileName},
    },
    time::Timestamp,
};

const BASIC: ProfileName = ProfileName::Basic;

fn rules(policy: &RetryPolicy) -> Rules<'_> {
    Rules { profile: BASIC, kind: EndpointKind::Webhook, policy }
}

fn answer(status: u16) -> Answer {
    Answer::of_status(status, None)
}

fn events(count: usize) -> Vec<EventIndex> {
    (0..count).map(|event| EventIndex { delivery: 0, event }).collect()
}

/// Attempts with those statuses, each of them a visit.
fn past(statuses: &[u16]) -> Vec<AttemptRecord> {
    let at = Timestamp::default();
    let wait = Some(DelayReason::Schedule);
    statuses.iter().map(|status| AttemptRecord::of(answer(*status), (at, at), wait)).collect()
}

#[test]
fn what_is_split() {
    type Row<'a> = (&'a str, u16, usize, u32, &'a [u16], bool);
    let table: [Row<'_>; 16] = [
        ("not retried", 400, 2, 0, &[], true),
        ("too large", 413, 9, 0, &[], true),
        ("one event", 400, 1, 0, &[], false),
        ("no attempt is left", 400, 2, 29, &[], false),
        ("one attempt is left", 400, 2, 28, &[], true),
        ("credentials", 401, 2, 0, &[], false),
        ("forbidden", 403, 2, 0, &[], false),
        ("not found", 404, 2, 2, &[404, 404], false),
        ("busy", 503, 2, 2, &[503, 503], false),
        ("timed out", 504, 2, 2, &[504, 504], false),
        ("once", 500, 2, 0, &[], false),
        ("twice", 500, 2, 1, &[500], false),
        ("three times", 500, 2, 2, &[500, 502], true),
        ("four times", 500, 2, 3, &[500, 500, 500], false),
        ("six times", 500, 2, 5, &[500, 500, 500, 500, 500], true),
        ("not in a row", 500, 2, 3, &[500, 503, 500], false),
    ];
    let policy = RetryPolicy::default_of(BASIC);
    for (row, status, count, made, before, want) in table {
        let before = past(before);
        let asked = AnsweredRequest { answer: answer(status), made, past: &[&before] };
        let begun = Bisection::begin(rules(&policy), events(count), asked);
        assert_eq!(begun.is_some(), want, "{row}");
    }
    // Every delivery of the request must have had it so often.
    let (often, once) = (past(&[500, 500]), past(&[]));
    let asked = AnsweredRequest { answer: answer(500), made: 2, past: &[&often, &once] };
    assert!(Bisection::begin(rules(&policy), events(4), asked).is_none());
    // Requests for parts are not visits.
    let mut parts = past(&[500, 500]);
    parts[1].because = None;
    let asked = AnsweredRequest { answer: answer(500), made: 2, past: &[&parts] };
    assert!(Bisection::begin(rules(&policy), events(4), asked).is_none());
}

/// Sends to an endpoint that refuses bad events. Returns outcomes and requests, the first included.
fn run(
    policy: &RetryPolicy,
    count: usize,
    (made, before): (u32, &[AttemptRecord]),
    mut endpoint: impl FnMut(&[usize], usize) -> Answers,
) -> (Vec<EventOutcome>, usize) {
    let all: Vec<_> = (0..count).collect();
    let Answers::Whole(first) = endpoint(&all, 1) else { panic!("the first is refused whole") };
    let asked = AnsweredRequest { answer: first, made, past: &[before] };
    let Some(mut bisection) = Bisection::begin(rules(policy), events(count), asked) else {
        return (Vec::new(), 1);
    };
    let mut requests = 1;
    while let Some(group) = bisection.next_part() {
        requests += 1;
        let sent: Vec<_> = bisection.events(&group).iter().map(|at| at.event).collect();
        bisection.note(group, &endpoint(&sent, requests), Timestamp::default());
    }
    (bisection.into_outcomes(1).pop().expect("one delivery"), requests)
}

fn refusing(bad: &BTreeSet<usize>, status: u16) -> impl FnMut(&[usize], usize) -> Answers + '_ {
    move |sent, _| {
        let is_refused = sent.iter().any(|event| bad.contains(event));
        Answers::Whole(answer(if is_refused { status } else { 200 }))
    }
}

/// The events of one delivery of three are removed; the others are sent apart.
#[test]
fn what_is_left_out_is_sent_no_more() {
    let policy = RetryPolicy::default_of(BASIC);
    let events: Vec<_> = [(0, 3), (1, 3), (2, 2)]
        .into_iter()
        .flat_map(|(delivery, count)| (0..count).map(move |event| EventIndex { delivery, event }))
        .collect();
    let asked = AnsweredRequest { answer: answer(400), made: 0, past: &[&[], &[], &[]] };
    let mut bisection = Bisection::begin(rules(&policy), events, asked).expect("it is refused");
    bisection.leave_out(|delivery| delivery == 1);
    let mut sent = Vec::new();
    while let Some(group) = bisection.next_part() {
        sent.push(bisection.events(&group).iter().map(|at| at.delivery).collect::<Vec<_>>());
        bisection.note(group, &Answers::Whole(answer(200)), Timestamp::default());
    }
    sent.sort();
    assert_eq!(sent, [vec![0; 3], vec![2; 2]]);
    let met = bisection.into_outcomes(3);
    let outcomes =
        |met: &[EventOutcome]| met.iter().map(|met| met.answer.status).collect::<Vec<_>>();
    assert_eq!((outcomes(&met[0]), outcomes(&met[2])), (vec![Some(200); 3], vec![Some(200); 2]));
    // Never separated, so that another attempt may follow.
    assert_eq!(outcomes(&met[1]), [Some(400); 3]);
    assert!(met[1].iter().all(|met| met.is_separable && met.requests == 1));
}

#[test]
fn one_bad_event_costs_twice_the_logarithm() {
    let policy = RetryPolicy::default_of(BASIC);
    for (count, most) in [(2, 3), (10, 9), (100, 15), (1_000, 21), (5_000, 27)] {
        for bad in [0, count / 2, count - 1] {
            let (met, requests) =
                run(&policy, count, (0, &[]), refusing(&BTreeSet::from([bad]), 400));
            assert!(requests <= most, "{count} events, bad {bad}: {requests} requests");
            let split = partial::split(rules(&policy), 0, &met);
            let rest = split.rest.expect("the bad one");
            assert_eq!(rest.events, EventSet::from_iter([bad]));
            assert_eq!((split.delivered.len(), split.ends.len()), (count - 1, 0));
            assert!(!rest.is_separable);
        }
    }
}

/// A failing endpoint is not called for each event, and ends none.
#[test]
fn an_endpoint_that_fails_is_left_alone() {
    let policy = RetryPolicy::default_of(BASIC);
    let before = past(&[500, 500]);
    let (met, requests) = run(&policy, 1_000, (2, &before), |_, _| Answers::Whole(answer(500)));
    assert_eq!(requests, 4, "as many more as have failed before");
    let split = partial::split(rules(&policy), 2, &met);
    assert_eq!(split.rest.expect("all").events.len(), 1_000);
    // It refuses the first request, and is then busy.
    let (met, requests) = run(&policy, 8, (0, &[]), |_, request| {
        Answers::Whole(answer(if request == 1 { 400 } else { 503 }))
    });
    assert_eq!(requests, 2);
    let split = partial::split(rules(&policy), 0, &met);
    let rest = split.rest.expect("all go on");
    assert_eq!((rest.events.len(), rest.answer, split.ends.len()), (8, answer(503), 0));
}

/// Each visit ends some events.
#[test]
fn an_endpoint_that_refuses_all_ends_some_in_each_visit() {
    let policy = RetryPolicy::default_of(BASIC);
    for count in [2, 3, 7, 64, 1_000, 5_000] {
        let (met, requests) = run(&policy, count, (0, &[]), |_, _| Answers::Whole(answer(400)));
        let split = partial::split(rules(&policy), 0, &met);
        let ended = met.iter().filter(|met| !met.is_separable).count();
        assert!(ended >= 1 && requests <= 5 + 4 * levels(count), "{count}: {ended} of {requests}");
        assert_eq!(split.ends.iter().map(|end| end.events.len()).sum::<usize>() > 0, count > 2);
    }
}

/// Visits an endpoint until every event is delivered or ended; each visit stops after so many
/// parts. Returns the delivered events.
fn visited(count: usize, bad: &BTreeSet<usize>, parts_max: usize) -> BTreeSet<usize> {
    let policy = RetryPolicy::default_of(BASIC);
    let (mut left, mut delivered) = ((0..count).collect::<Vec<_>>(), BTreeSet::new());
    let (mut made, mut before) = (0, Vec::new());
    loop {
        if !left.iter().any(|event| bad.contains(event)) {
            delivered.extend(left);
            return delivered;
        }
        let asked = AnsweredRequest { answer: answer(400), made, past: &[&before] };
        let begun = Bisection::begin(rules(&policy), events(left.len()), asked);
        let Some(mut bisection) = begun else { return delivered };
        for _ in 0..parts_max {
            let Some(group) = bisection.next_part() else { break };
            let is_bad = |at: &EventIndex| bad.contains(&left[at.event]);
            let status = if bisection.events(&group).iter().any(is_bad) { 400 } else { 200 };
            bisection.note(group, &Answers::Whole(answer(status)), Timestamp::default());
        }
        let met = bisection.into_outcomes(1).pop().expect("one delivery");
        let split = partial::split(rules(&policy), made, &met);
        let of = |set: &EventSet| -> Vec<usize> {
            (0..left.len()).filter(|place| set.has(*place)).map(|place| left[place]).collect()
        };
        delivered.extend(of(&split.delivered));
        let Some(rest) = split.rest.filter(|rest| rest.is_separable) else { return delivered };
        left = of(&rest.events);
        made += rest.requests;
        before.extend(past(&[400]));
    }
}

/// Each visit stops after one part.
#[test]
fn a_slow_endpoint_gets_all_good_events() {
    for count in [2, 3, 50, 100] {
        for bad in 0..count {
            let delivered = visited(count, &BTreeSet::from([bad]), 1);
            assert_eq!(delivered.len(), count - 1, "{count} events, bad {bad}");
        }
    }
}

/// Bad events that come together do not delay good ones elsewhere in the batch.
#[test]
fn good_events_do_not_wait_for_bad_ones() {
    for bad_too in 0..50 {
        let bad = (50..100).chain([bad_too]).collect();
        let delivered = visited(100, &bad, usize::MAX);
        assert_eq!(delivered.len(), 49, "bad {bad_too}");
    }
}

#[test]
fn a_visit_has_a_most_of_parts() {
    let policy = RetryPolicy::default_of(BASIC);
    let bad = (0..1_000).step_by(2).collect();
    let (_, requests) = run(&policy, 1_000, (0, &[]), refusing(&bad, 400));
    assert!(requests <= 1 + PARTS_MAX, "{requests}");
}

/// With few attempts, events not separated in time end together.
#[test]
fn attempts_are_never_exceeded() {
    let policy = RetryPolicy { max_attempts: 3, ..RetryPolicy::default_of(BASIC) };
    let (met, requests) = run(&policy, 8, (0, &[]), refusing(&BTreeSet::from([0]), 400));
    assert_eq!(requests, 5, "the whole, two halves, two quarters");
    assert!(met.iter().all(|met| met.requests <= 3));
    let split = partial::split(rules(&policy), 0, &met);
    let rest = split.rest.expect("a quarter");
    assert_eq!((rest.events.len(), rest.requests, split.delivered.len()), (2, 3, 6));
}

/// An accepted half may name events.
#[test]
fn a_half_may_have_partial_results() {
    let policy = RetryPolicy::default_of(BASIC);
    let rejected = Answer { outcome: Outcome::EventRejected, ..answer(200) };
    let (met, requests) = run(&policy, 4, (0, &[]), |sent, _| match sent {
        [0, 1] => Answers::Each(vec![answer(200), rejected]),
        [2, 3] => Answers::Whole(answer(200)),
        _ => Answers::Whole(answer(413)),
    });
    assert_eq!(requests, 3);
    let split = partial::split(rules(&policy), 0, &met);
    let rest = split.rest.expect("one");
    assert_eq!((rest.events, rest.answer), (EventSet::from_iter([1]), rejected));
    assert_eq!(EndReason::not_retried(rejected.outcome), EndReason::RejectedByEndpoint);
}

proptest! {
    /// Each bad event ends alone and each good one is delivered once, within the bound.
    #[test]
    fn every_event_ends_once(
        count in 2usize..600,
        bad in prop::collection::btree_set(0usize..600, 1..5),
        status in prop::sample::select(vec![400u16, 413]),
    ) {
        let bad: BTreeSet<_> = bad.into_iter().map(|event| event % count).collect();
        let policy = RetryPolicy::default_of(BASIC);
        let mut accepted = Vec::new();
        let mut endpoint = refusing(&bad, status);
        let (met, requests) = run(&policy, count, (0, &[]), |sent, request| {
            let answers = endpoint(sent, request);
            if answers == Answers::Whole(answer(200)) {
                accepted.extend_from_slice(sent);
            }
            answers
        });
        let before = accepted.len();
        accepted.sort_unstable();
        accepted.dedup();
        prop_assert_eq!(before, accepted.len(), "none is delivered twice");
        prop_assert_eq!(accepted.len(), count - bad.len());
        prop_assert!(requests <= 1 + 2 * bad.len() * levels(count), "{} requests", requests);
        let split = partial::split(rules(&policy), 0, &met);
        let mut ended: EventSet = split.ends.iter().fold(EventSet::default(), |mut all, end| {
            all.add_all(&end.events);
            all
        });
        ended.add_all(&split.rest.expect("the last bad one").events);
        prop_assert_eq!(ended, bad.iter().copied().collect::<EventSet>());
        prop_assert!(met.iter().all(|met| !met.is_separable));
        prop_assert!(met.iter().all(|met| met.requests as usize <= 1 + levels(count)));
    }

    /// Whatever an endpoint answers, every event has an outcome, within its attempts.
    #[test]
    fn no_event_is_forgotten(
        count in 2usize..40,
        max_attempts in 1u32..12,
        statuses in prop::collection::vec(
            prop::sample::select(vec![200u16, 204, 400, 413, 414, 500, 503, 401, 404]), 1..60),
    ) {
        let policy = RetryPolicy { max_attempts, ..RetryPolicy::default_of(BASIC) };
        let (met, requests) = run(&policy, count, (0, &[]), |_, request| {
            let status = if request == 1 { 400 } else { statuses[request % statuses.len()] };
            Answers::Whole(answer(status))
        });
        prop_assert!(requests < 2 * count);
        if requests > 1 {
            prop_assert_eq!(met.len(), count);
            prop_assert!(met.iter().all(|met| met.requests <= max_attempts));
            let split = partial::split(rules(&policy), 0, &met);
            let rest = split.rest.as_ref().map_or(0, |rest| rest.events.len());
            prop_assert_eq!(split.done().len() + rest, count);
        }
    }
}
