//! Tables and properties of pauses.

use proptest::prelude::*;

use super::*;

const MINUTE: u64 = 60;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_millis(minutes * 60_000)
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * MINUTE)
}

/// Pauses with their start and end in minutes, with time-to-live running or not.
fn pauses(all: &[(i64, i64, bool)]) -> Pauses {
    all.iter().fold(Pauses::default(), |pauses, (from, until, runs)| {
        pauses.paused(*runs, None, at(*from)).expect("it may be").resumed(at(*until))
    })
}

#[test]
fn deadline_table() {
    let open = |runs| Pauses::default().paused(runs, None, at(100)).expect("it may be");
    let limit = i64::try_from(PAUSE_MAX.as_secs() / MINUTE).expect("few");
    let table = [
        ("never paused", Pauses::default(), 0, 60),
        ("paused before it was published", pauses(&[(-20, -10, false)]), 0, 60),
        ("lived through a pause", pauses(&[(10, 25, false)]), 0, 75),
        ("published during it", pauses(&[(-10, 25, false)]), 0, 85),
        ("time-to-live ran", pauses(&[(10, 25, true)]), 0, 60),
        ("paused when its life was over", pauses(&[(60, 90, false)]), 0, 60),
        ("a second one within the added time", pauses(&[(50, 80, false), (85, 95, false)]), 0, 100),
        ("one ran, the other did not", pauses(&[(10, 20, true), (30, 40, false)]), 0, 70),
        ("paused now, with time-to-live running", open(true), 50, 110),
        ("paused now: up to the limit", open(false), 50, 110 + limit),
        ("paused now, over before", open(false), 40, 100),
    ];
    for (row, pauses, start, want) in table {
        assert_eq!(pauses.expires_at(at(start), minutes(60)), at(want), "{row}");
    }
}

#[test]
fn a_pause_ends_by_itself() {
    let pauses = Pauses::default().paused(false, Some("arn".to_owned()), at(0)).expect("it may be");
    let limit = at(0) + PAUSE_MAX;
    let before = Timestamp::from_millis(limit.as_millis() - 1);
    assert_eq!(pauses.current(before).and_then(|pause| pause.by.as_deref()), Some("arn"));
    assert_eq!((pauses.current(limit), pauses.ended_at(before)), (None, None));
    assert_eq!(pauses.ended_at(limit + minutes(9)), Some(limit));
    let late = pauses.resumed(limit + minutes(9));
    assert_eq!(late.ended_at(limit + minutes(9)), Some(limit), "it was over before");
    assert_eq!(late.expires_at(at(0), minutes(1)), limit + minutes(1));
}

#[test]
fn asked_for_twice() {
    let pauses = Pauses::default().paused(false, None, at(0)).expect("it may be");
    assert_eq!(pauses.paused(false, Some("other".to_owned()), at(5)), Ok(pauses.clone()));
    let refused = pauses.paused(true, None, at(5)).expect_err("it is paused in the other way");
    assert!(matches!(refused, Refusal::OtherMode(pause) if pause.since == at(0)));
    let resumed = pauses.resumed(at(7));
    assert_eq!(resumed.resumed(at(9)), resumed, "resumed twice is resumed once");
}

#[test]
fn pauses_that_stop_time_to_live_share_one_limit() {
    let day = 24 * 60;
    let six = pauses(&[(0, 6 * day, false)]);
    let seventh = six.paused(false, None, at(6 * day)).expect("a day is left");
    assert_eq!(seventh.current(at(6 * day)).map(|pause| pause.until), Some(at(7 * day)));
    let used_up = seventh.resumed(at(7 * day));
    assert_eq!(used_up.paused(false, None, at(8 * day)), Err(Refusal::UsedUp));
    assert!(used_up.paused(true, None, at(8 * day)).is_ok(), "it adds nothing to a life");
    let later = used_up.paused(false, None, at(15 * day)).expect("the others are forgotten");
    assert_eq!(later.current(at(15 * day)).map(|pause| pause.until), Some(at(22 * day)));
}

#[test]
fn a_clock_that_is_behind_makes_no_two_spans_overlap() {
    let pauses = pauses(&[(10, 20, false), (15, 12, false)]);
    assert_eq!(pauses.expires_at(at(0), minutes(60)), at(70));
}

#[test]
fn too_many_are_joined_where_they_are_nearest() {
    let many: Vec<_> = (0..40).map(|it| (it * 10 + it / 20, it * 10 + 5, false)).collect();
    let pauses = pauses(&many);
    assert_eq!(pauses.stopped.len(), SPANS_MAX);
    let exact: i64 = many.iter().map(|(from, until, _)| until - from).sum();
    let end = pauses.expires_at(at(0), minutes(10_000));
    assert!(end >= at(10_000 + exact) && end <= at(10_000 + exact + 8 * 6), "{end}");
}

/// Counts minute by minute: a paused minute uses up no life.
fn walked(all: &[(i64, i64, bool)], start: i64, life: i64) -> i64 {
    let (mut now, mut left) = (start, life);
    while left > 0 {
        let is_stopped =
            all.iter().any(|(from, until, runs)| !runs && (*from..*until).contains(&now));
        left -= i64::from(!is_stopped);
        now += 1;
    }
    now
}

proptest! {
    /// The deadline is that of a clock that stands still during pauses.
    #[test]
    fn the_deadline_is_a_clock_that_stands_still(
        gaps in proptest::collection::vec((1_i64..90, 0_i64..200, any::<bool>()), 0..12),
        start in 0_i64..1_500,
        life in 1_i64..1_440,
    ) {
        let mut now = 0;
        let all: Vec<_> = gaps.iter().map(|(gap, length, runs)| {
            let from = now + gap;
            now = from + length;
            (from, now, *runs)
        }).collect();
        let told = pauses(&all).expires_at(at(start), minutes(life.unsigned_abs()));
        prop_assert_eq!(told, at(walked(&all, start, life)));
    }

    /// Forgetting or joining old pauses can only lengthen a life.
    #[test]
    fn what_is_forgotten_is_not_missed(
        gaps in proptest::collection::vec((1_i64..3_000, 1_i64..2_000), 1..60),
        start in 0_i64..40_000,
        life in 1_i64..10_080,
    ) {
        let (mut now, mut pauses, mut all) = (0, Pauses::default(), Vec::new());
        for (gap, length) in gaps {
            now += gap;
            let Ok(next) = pauses.paused(false, None, at(now)) else { continue };
            let from = now;
            now += length;
            pauses = next.resumed(at(now));
            let until = pauses.ended_at(at(now)).expect("it ended").as_minutes();
            all.push((from, until, false));
        }
        let told = pauses.expires_at(at(start), minutes(life.unsigned_abs()));
        let exact = at(walked(&all, start, life));
        let is_alive = exact > at(now) && start <= now;
        if is_alive {
            prop_assert!(told >= exact, "{} is before {}", told, exact);
            prop_assert!(all.len() > SPANS_MAX || told == exact);
        }
        prop_assert!(pauses.stopped.len() <= SPANS_MAX);
    }
}
