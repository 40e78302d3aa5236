use proptest::prelude::*;

use super::*;

const SETTINGS: SlowEndpointSettings = SlowEndpointSettings {
    slow_after: Duration::from_millis(500),
    lease: LEASE,
    mark: Duration::from_secs(10),
    window: Duration::from_secs(10),
    halved_every: Duration::from_secs(5),
    first_budget: 2,
    budget_max: 16,
    first_bound: 50,
    bound_min: 20,
    bound_max: 1_000,
};

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Duration::from_secs(seconds)
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn marked(until_s: u64) -> Slowness {
    Slowness { marked_until: Some(at(until_s)), ..Slowness::default() }
}

fn fast(answers: u32) -> SlowEndpointReport {
    SlowEndpointReport {
        fast: answers,
        took: Duration::from_millis(100) * answers,
        ..SlowEndpointReport::default()
    }
}

fn silent(requests: u32) -> SlowEndpointReport {
    SlowEndpointReport {
        silent: requests,
        took: RESPONSE_WAIT * requests,
        ..SlowEndpointReport::default()
    }
}

#[test]
fn the_defaults_are_those_of_the_tests() {
    assert_eq!(SlowEndpointSettings::default(), SETTINGS);
}

#[test]
fn vote_table() {
    let voted = Slowness { votes: 1, votes_since: Some(at(5)), ..Slowness::default() };
    let patient = Slowness { budget: Some(8), ..voted.clone() };
    // Result: the end of the mark, and the known votes.
    let table = [
        ("none", &Slowness::default(), 0, 6, None),
        ("one is not enough", &Slowness::default(), 1, 6, Some((None, 1))),
        ("two at once", &Slowness::default(), 2, 6, Some((Some(at(16)), 0))),
        ("two in a window", &voted, 1, 14, Some((Some(at(24)), 0))),
        ("a window later", &voted, 1, 15, Some((None, 1))),
        ("a budget that has grown", &patient, 6, 14, Some((None, 7))),
        ("a budget that is used up", &patient, 7, 14, Some((Some(at(24)), 0))),
        ("marked already", &marked(20), 100, 19, None),
        ("no longer marked", &marked(20), 1, 20, Some((None, 1))),
    ];
    for (row, slow, requests, now_s, want) in table {
        let voted = vote(slow, requests, at(now_s), &SETTINGS);
        let found =
            voted.map(|slow| (slow.marked_until.filter(|until| *until > at(now_s)), slow.votes));
        assert_eq!(found, want, "{row}");
    }
}

#[test]
fn a_window_begins_with_its_first_vote() {
    let first = vote(&Slowness { budget: Some(4), ..Slowness::default() }, 1, at(0), &SETTINGS);
    let second = vote(&first.expect("told"), 1, at(9), &SETTINGS).expect("told");
    assert_eq!(second.votes_since, Some(at(0)));
    assert_eq!(vote(&second, 1, at(10), &SETTINGS).map(|slow| slow.votes), Some(1));
}

#[test]
fn take_table() {
    let lease =
        |holder, requests, until_s| Lease { holder: id(holder), requests, until: at(until_s) };
    let held = |leases| Slowness { bound: Some(30), leases, ..marked(20) };
    let table = [
        ("all free", held(vec![]), 10, 10),
        ("more than the bound", held(vec![]), 100, 30),
        ("others have some", held(vec![lease(2, 25, 50)]), 10, 5),
        ("others have all", held(vec![lease(2, 20, 50), lease(3, 10, 50)]), 10, 0),
        ("a lease has run out", held(vec![lease(2, 25, 11)]), 10, 10),
        ("asked once more", held(vec![lease(1, 10, 50), lease(2, 15, 50)]), 12, 12),
        ("the bound has shrunk", held(vec![lease(2, 40, 50)]), 1, 0),
    ];
    for (row, slow, wanted, want) in table {
        let before = slow.under_way(at(11));
        let own = slow.leases.iter().filter(|lease| lease.holder == id(1));
        let own: u32 = own.map(|lease| lease.requests).sum();
        let (next, granted) = take(&slow, id(1), wanted, at(11), &SETTINGS);
        assert_eq!(granted, want, "{row}");
        assert_eq!(next.under_way(at(11)), before - own + granted, "{row}");
        let again = take(&next, id(1), wanted, at(11), &SETTINGS);
        assert_eq!(again, (next, granted), "{row}: once more is the same");
    }
}

#[test]
fn a_lease_outlives_a_response_and_ends_by_itself() {
    let (slow, _) = take(&marked(20), id(1), 7, at(10), &SETTINGS);
    assert_eq!((slow.under_way(at(99)), slow.under_way(at(100))), (7, 0));
}

#[test]
fn what_waits_for_its_turn_keeps_the_mark() {
    let full = Slowness {
        leases: vec![Lease { holder: id(2), requests: 50, until: at(40) }],
        ..marked(20)
    };
    let table = [("young", 15, 20), ("old", 16, 26), ("past, with requests under way", 20, 30)];
    for (row, now_s, until_s) in table {
        let (next, granted) = take(&full, id(1), 5, at(now_s), &SETTINGS);
        assert_eq!((next.marked_until, granted), (Some(at(until_s)), 0), "{row}");
        assert_eq!(next == full, now_s == 15, "{row}: is there something to write?");
    }
}

#[test]
fn a_mark_lasts_while_requests_are_under_way() {
    let lease = Lease { holder: id(2), requests: 50, until: at(40) };
    let full = Slowness { leases: vec![lease], ..marked(20) };
    for (now_s, want) in [(19, true), (20, true), (39, true), (40, false)] {
        assert_eq!(full.is_slow(at(now_s)), want, "{now_s}");
        assert!(!full.unmarked().is_slow(at(now_s)), "{now_s}: unmarked");
    }
}

#[test]
fn the_bound_grows_with_answers_and_halves_in_silence() {
    let slow = |answers| SlowEndpointReport {
        slow: answers,
        took: Duration::from_secs(2) * answers,
        ..SlowEndpointReport::default()
    };
    let both = SlowEndpointReport { fast: 10, ..silent(1) };
    let table = [
        ("an answer each", 50, None, slow(7), 57),
        ("fast ones too", 50, None, fast(3), 53),
        ("to the most", 999, None, slow(5), 1_000),
        ("silence", 100, None, silent(9), 50),
        ("once in five seconds", 100, Some(6), silent(9), 100),
        ("five seconds later", 100, Some(5), silent(9), 50),
        ("to the least", 30, None, silent(1), 20),
        ("both", 100, None, both, 55),
        ("nothing learned", 70, None, SlowEndpointReport::default(), 70),
    ];
    for (row, bound, halved_s, answered, want) in table {
        let before = Slowness { bound: Some(bound), halved_at: halved_s.map(at), ..marked(20) };
        let next = give_back(&before, id(1), answered, at(10), &SETTINGS);
        assert_eq!(next.bound(&SETTINGS), want, "{row}");
    }
}

#[test]
fn what_is_under_way_is_kept() {
    let (slow, _) = take(&marked(20), id(1), 7, at(10), &SETTINGS);
    let some = SlowEndpointReport { under_way: 3, ..fast(4) };
    let next = give_back(&slow, id(1), some, at(11), &SETTINGS);
    assert_eq!((next.under_way(at(99)), next.under_way(at(100))), (3, 0), "as long as before");
    let again = give_back(&next, id(1), some, at(11), &SETTINGS);
    assert_eq!(again.leases, next.leases, "told once more");
    let late = give_back(&slow, id(1), some, at(100), &SETTINGS);
    assert_eq!(late.leases, [], "a lease that has run out does not come back");
    assert_eq!(give_back(&next, id(1), fast(3), at(12), &SETTINGS).leases, []);
}

#[test]
fn a_mark_ends_when_hardly_an_answer_is_slow() {
    let with = |fast, slow| AnswerCounts { fast, slow, took_ms: None };
    let table = [
        ("too few", with(18, 0), fast(1), true, 2),
        ("enough", with(18, 0), fast(2), false, 4),
        ("a tenth is slow", with(17, 2), fast(1), true, 2),
        ("less than a tenth", with(18, 2), fast(1), false, 4),
        ("silence is slow", with(19, 1), silent(1), true, 2),
    ];
    for (row, answers, answered, is_slow, budget) in table {
        let before = Slowness { answers, ..marked(20) };
        let next = give_back(&before, id(1), answered, at(11), &SETTINGS);
        assert_eq!((next.is_slow(at(11)), next.budget(&SETTINGS)), (is_slow, budget), "{row}");
    }
}

#[test]
fn slow_answers_renew_the_mark_in_its_second_half() {
    let slow = SlowEndpointReport { slow: 1, ..SlowEndpointReport::default() };
    for (row, answered, now_s, until_s) in [
        ("early", slow, 15, 20),
        ("late", slow, 16, 26),
        ("fast", fast(1), 16, 20),
        ("silent", silent(1), 19, 29),
    ] {
        let next = give_back(&marked(20), id(1), answered, at(now_s), &SETTINGS);
        assert_eq!(next.marked_until, Some(at(until_s)), "{row}");
    }
}

/// One answer in a hundred is slow, at 100 requests a second.
#[test]
fn what_is_slow_now_and_then_is_soon_left_in_the_first_lane() {
    let (mut slow, mut marks) = (Slowness::default(), 0);
    for second in 0..600 {
        if let Some(next) = vote(&slow, 1, at(second), &SETTINGS) {
            slow = next;
        }
        if slow.is_slow(at(second)) {
            marks += 1;
            let answered = SlowEndpointReport { slow: 1, ..fast(99) };
            slow = give_back(&slow, id(1), answered, at(second), &SETTINGS);
        }
    }
    assert_eq!((marks, slow.budget(&SETTINGS)), (3, 16), "2, 4 and 8 votes have marked it");
    // Until a request hangs.
    for (second, budget) in [(600, 8), (604, 8), (605, 4), (610, 2), (615, 2)] {
        slow = give_back(&slow, id(1), silent(1), at(second), &SETTINGS);
        assert_eq!(slow.budget(&SETTINGS), budget, "{second}");
    }
}

#[test]
fn what_is_beyond_the_bound_comes_back_when_it_may_have_its_turn() {
    let took = |took_ms, bound| Slowness {
        bound: Some(bound),
        answers: AnswerCounts { took_ms, ..AnswerCounts::default() },
        ..marked(20)
    };
    let table = [
        ("nothing known", took(None, 50), 100, false, 3_600, 0.5, 10_000),
        ("one round", took(Some(20_000), 50), 50, false, 3_600, 0.5, 20_000),
        ("half a round", took(Some(20_000), 50), 25, false, 3_600, 0.5, 10_000),
        ("early", took(Some(20_000), 50), 50, false, 3_600, 0.0, 10_000),
        ("late", took(Some(20_000), 50), 50, false, 3_600, 1.0, 30_000),
        ("at least", took(Some(1_000), 50), 10, false, 3_600, 0.0, 2_000),
        ("at most", took(Some(20_000), 50), 10_000, false, 3_600, 0.9, 60_000),
        // The queue may be full of another endpoint's deliveries.
        ("young", took(Some(20_000), 50), 150_000, true, 3, 0.9, 10_000),
        ("as long as before", took(Some(20_000), 50), 150_000, true, 25, 0.9, 25_000),
        ("nearly full", took(Some(20_000), 1_000), 95_000, true, 3_600, 0.5, 600_000),
        ("nearly full, early", took(Some(20_000), 1_000), 95_000, true, 3_600, 0.0, 300_000),
        ("not so full", took(Some(20_000), 1_000), 95_000, false, 3_600, 0.5, 60_000),
    ];
    for (row, slow, backlog, is_nearly_full, age_s, dice, want_ms) in table {
        let beyond = BeyondBound { backlog, is_nearly_full, age: Duration::from_secs(age_s), dice };
        let until = look_again(&slow, beyond, at(100), &SETTINGS);
        assert_eq!(until.since(at(100)).as_millis(), want_ms, "{row}");
    }
}

#[test]
fn the_average_follows_the_answers() {
    let answered = |slow, seconds: u64| SlowEndpointReport {
        slow,
        took: Duration::from_secs(seconds) * slow,
        ..SlowEndpointReport::default()
    };
    let mut answers = AnswerCounts::default();
    for (row, heard, want_ms) in [
        ("the first", answered(1, 20), 20_000),
        ("one of another pace", answered(1, 0), 19_000),
        ("many of another pace", answered(20, 2), 2_000),
        ("more than many", answered(200, 4), 4_000),
        ("none", SlowEndpointReport::default(), 4_000),
    ] {
        answers = answers.with(heard);
        assert_eq!(answers.took_ms, Some(want_ms), "{row}");
    }
}

#[test]
fn what_may_hang_and_what_has_many_requests_shares_invocations() {
    for (took_ms, under_way, shares) in [
        (None, 0, true),
        (Some(4_999), 0, false),
        (Some(4_999), 9, false),
        (Some(4_999), 10, true),
        (Some(5_000), 0, true),
    ] {
        let answers = AnswerCounts { took_ms, ..AnswerCounts::default() };
        let (slow, _) =
            take(&Slowness { answers, ..marked(20) }, id(1), under_way, at(10), &SETTINGS);
        assert_eq!(slow.shares_invocations(at(10)), shares, "{took_ms:?}, {under_way}");
    }
}

/// Their silence is known 25 s later. Meanwhile they would fill its retry queue.
#[test]
fn a_quick_endpoint_that_begins_to_hang_is_known_before_its_first_silence() {
    let hanging = SlowEndpointReport { hanging: 1, ..SlowEndpointReport::default() };
    let answers = AnswerCounts { took_ms: Some(1_000), ..AnswerCounts::default() };
    let mut slow = Slowness { answers, ..marked(20) };
    let reports = (1..).find(|_| {
        slow = give_back(&slow, id(1), hanging, at(10), &SETTINGS);
        slow.hangs()
    });
    assert_eq!(reports, Some(7));
    let more = give_back(&slow, id(1), hanging, at(10), &SETTINGS);
    assert_eq!(more, slow, "it is known, and its answers tell how long they take");
    // One in fifty hangs.
    let mut slow = Slowness { answers, ..marked(20) };
    for _ in 0..100 {
        let one_s = Duration::from_secs(1);
        let quick = SlowEndpointReport { slow: 1, took: one_s, ..SlowEndpointReport::default() };
        slow = (0..50).fold(slow, |slow, _| give_back(&slow, id(1), quick, at(10), &SETTINGS));
        slow = give_back(&slow, id(1), hanging, at(10), &SETTINGS);
        assert!(!slow.hangs(), "{slow:?}");
    }
}

#[test]
fn a_reset_forgets_the_mark_and_keeps_the_leases() {
    let (slow, _) = take(&Slowness { votes: 1, ..marked(20) }, id(1), 7, at(10), &SETTINGS);
    let reset = slow.unmarked();
    assert_eq!((reset.is_slow(at(10)), reset.votes, reset.under_way(at(10))), (false, 0, 7));
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Vote(u32),
    Take { holder: u128, wanted: u32 },
    GiveBack { holder: u128, answered: SlowEndpointReport },
}

fn step() -> impl Strategy<Value = Step> {
    let few = 0_u32..40;
    let answered = (few.clone(), few.clone(), few.clone(), few.clone()).prop_map(
        |(fast, slow, silent, under_way)| {
            let took = Duration::from_secs(1) * (fast + slow + silent);
            SlowEndpointReport { fast, slow, silent, hanging: silent, took, under_way }
        },
    );
    prop_oneof![
        (0_u64..30).prop_map(Step::Pass),
        (0_u32..4).prop_map(Step::Vote),
        (0_u128..6, 0_u32..120).prop_map(|(holder, wanted)| Step::Take { holder, wanted }),
        (0_u128..6, answered).prop_map(|(holder, answered)| Step::GiveBack { holder, answered }),
    ]
}

proptest! {
    /// Whatever copies of dispatch do, leases stay within the bound under which they were
    /// granted, and bound and budget within their limits.
    #[test]
    fn leases_never_exceed_the_bound(steps in prop::collection::vec(step(), 1..200)) {
        let (mut slow, mut now_s) = (marked(10), 0);
        for step in steps {
            let before = slow.under_way(at(now_s));
            match step {
                Step::Pass(seconds) => now_s += seconds,
                Step::Vote(requests) => {
                    slow = vote(&slow, requests, at(now_s), &SETTINGS).unwrap_or(slow);
                }
                Step::Take { holder, wanted } => {
                    let (next, granted) = take(&slow, id(holder), wanted, at(now_s), &SETTINGS);
                    let held = next.under_way(at(now_s));
                    prop_assert!(granted <= wanted);
                    prop_assert!(held <= slow.bound(&SETTINGS).max(before), "{held} leased");
                    let again = take(&next, id(holder), wanted, at(now_s), &SETTINGS);
                    prop_assert_eq!(&again, &(next.clone(), granted));
                    slow = next;
                }
                Step::GiveBack { holder, answered } => {
                    let next = give_back(&slow, id(holder), answered, at(now_s), &SETTINGS);
                    prop_assert!(next.under_way(at(now_s)) <= before);
                    let again = give_back(&next, id(holder), answered, at(now_s), &SETTINGS);
                    prop_assert_eq!(&again.leases, &next.leases);
                    slow = next;
                }
            }
            let holders = slow.leases.iter().map(|lease| lease.holder);
            let mut apart: Vec<_> = holders.collect();
            apart.sort_unstable();
            apart.dedup();
            prop_assert_eq!(apart.len(), slow.leases.len(), "a holder has two leases");
            prop_assert!((SETTINGS.bound_min..=SETTINGS.bound_max).contains(&slow.bound(&SETTINGS)));
            prop_assert!((SETTINGS.first_budget..=SETTINGS.budget_max).contains(&slow.budget(&SETTINGS)));
            let text = serde_json::to_string(&slow).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Slowness>(&text).expect("JSON"), slow.clone());
        }
        prop_assert_eq!(slow.under_way(at(now_s) + LEASE), 0, "leases end by themselves");
    }
}
