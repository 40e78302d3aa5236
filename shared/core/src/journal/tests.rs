use strum::VariantArray;

use super::*;
use crate::ledger::BOUNDS_MS;

fn entry(kind: EntryKind) -> Entry {
    Entry {
        kind,
        at: Timestamp::from_millis(7_260_030),
        delivery: Uuid::from_u128(1),
        subscription: SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() },
        publish_time: Timestamp::from_millis(7_260_000),
        attempt: 1,
        part: 0,
        outcome: Some(Outcome::Busy),
        status: Some(503),
        took: Some(Duration::from_millis(12)),
        due: None,
        because: None,
        reason: Some("TimeToLiveExceeded".to_owned()),
        receives: Some(1),
        events: 3,
        event_ids: r#"["e"]"#.to_owned(),
        trace_parent: None,
        response: None,
    }
}

#[test]
fn entries_count_what_became_of_their_events() {
    let reason = || "TimeToLiveExceeded".to_owned();
    let took = Duration::from_millis(30);
    let table = [
        (EntryKind::Success, Some((Counted::Delivered { took }, 3))),
        (EntryKind::LateSuccess, Some((Counted::Delivered { took }, 3))),
        (EntryKind::SuccessAfterEnd, None),
        (EntryKind::Failure, Some((Counted::Failed(Outcome::Busy), 1))),
        (EntryKind::Ending, None),
        (EntryKind::DeadLettered, Some((Counted::DeadLettered(reason()), 3))),
        (EntryKind::Dropped, Some((Counted::Dropped(reason()), 3))),
    ];
    assert_eq!(table.len(), EntryKind::VARIANTS.len());
    for (kind, want) in table {
        let count = entry(kind).count().map(|count| (count.counted, count.events));
        assert_eq!(count, want, "{kind}");
    }
    let nothing = Entry { events: 0, ..entry(EntryKind::Dropped) };
    assert_eq!(nothing.count(), None);
}

#[test]
fn what_is_counted_is_written_and_read_back() {
    let bounds = BOUNDS_MS.map(|bound| (bound, format!("delivered/{bound}")));
    let above = (u64::MAX, "delivered/".to_owned());
    for (millis, want) in bounds.into_iter().chain([above]) {
        let counted = Counted::Delivered { took: Duration::from_millis(millis) };
        assert_eq!(counted.to_string(), want);
        assert_eq!(want.parse(), Ok(counted));
    }
    for counted in [
        Counted::Accepted,
        Counted::Unmatched,
        Counted::Matched,
        Counted::Redriven,
        Counted::DeadLettered("a/b".to_owned()),
        Counted::Dropped("Purged".to_owned()),
        Counted::Failed(Outcome::TimedOut),
    ] {
        assert_eq!(counted.to_string().parse(), Ok(counted));
    }
    for unknown in ["", "ended", "failed/Other"] {
        assert!(unknown.parse::<Counted>().is_err(), "{unknown}");
    }
}

/// The same counts make the same account in the ledger and in a series.
#[test]
fn series_and_ledger_agree() {
    let (mut ledger, mut series) = (Ledger::default(), Series::default());
    for kind in EntryKind::VARIANTS {
        for minute in 0..90 {
            let at = Timestamp::from_millis(7_260_030 + minute * 60_000);
            let Some(count) = Entry { at, ..entry(*kind) }.count() else { continue };
            ledger.count(&count);
            series.add(Step::Minute.begin(at), &count);
        }
    }
    let mut sum = Account::default();
    let mut failed = 0;
    for flow in series.flows.values() {
        sum.add(&flow.account);
        failed += flow.failed.values().sum::<u64>();
    }
    let totals = ledger.totals();
    assert_eq!(totals.values().collect::<Vec<_>>(), [&sum]);
    assert_eq!((failed, sum.delivered, series.flows.len()), (90, 2 * 90 * 3, 90));
}

#[test]
fn steps_begin_at_multiples_of_their_length() {
    let at = |text: &str| Timestamp::parse_rfc_3339(text).expect("a time");
    for (step, late, early) in [
        (Step::Minute, "05:44", "23:59"),
        (Step::FiveMinutes, "05:40", "23:55"),
        (Step::HalfHour, "05:30", "23:30"),
        (Step::Hour, "05:00", "23:00"),
        (Step::ThreeHours, "03:00", "21:00"),
    ] {
        let (late, early) = (format!("2026-01-01T{late}:00Z"), format!("1969-12-31T{early}:00Z"));
        assert_eq!(step.begin(at("2026-01-01T05:44:59.999Z")), at(&late), "{step}");
        assert_eq!(step.begin(at("1969-12-31T23:59:59.999Z")), at(&early), "{step}");
        assert_eq!(step.begin(at(&late)), at(&late), "{step}");
    }
}
