use std::time::Duration;

use gridpost_core::{
    journal::{Count, Counted, Series},
    ledger::Latencies,
};
use serde_json::json;

use super::*;

#[test]
fn percentiles_are_shown_as_bounds() {
    let mut latencies = Latencies::default();
    latencies.add(40, 94);
    latencies.add(2_000, 4);
    latencies.add(4_000_000, 2);
    let want = json!({
        "events": 100, "buckets": {"50": 94, "2500": 4, "more": 2},
        "p50AtMostMs": 50, "p95AtMostMs": 2_500, "p99AtMostMs": null,
    });
    assert_eq!(json!(LatencyDocument::from(&latencies)), want);
}

#[test]
fn ledgers_are_read_as_they_were_written() {
    let at = |minutes: i64| Timestamp::from_millis(minutes * 60_000);
    let key = SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() };
    let took = Duration::from_millis(30);
    let reason = || "R".to_owned();
    let mut ledgers = vec![Ledger::default(), Ledger::default(), Ledger::default()];
    for (ledger, counted, minutes, events) in [
        (0, Counted::Accepted, 1, 5),
        (0, Counted::Unmatched, 1, 1),
        (0, Counted::Matched, 1, 4),
        (0, Counted::Matched, 61, 4),
        (0, Counted::Redriven, 1, 1),
        (2, Counted::Delivered { took }, 1, 2),
        (2, Counted::DeadLettered(reason()), 1, 1),
        (2, Counted::Dropped(reason()), 61, 3),
    ] {
        let owner = match counted {
            Counted::Accepted | Counted::Unmatched => Owner::Topic(key.topic.clone()),
            _ => Owner::Subscription(key.clone()),
        };
        let count = Count { owner, publish_time: at(minutes), counted, events, once: None };
        ledgers[ledger].count(&count);
    }
    let answer = Answer {
        known: Known::Ledger(ledgers.clone()),
        known_until: at(90),
        begins: None,
        lacks_first_successes: true,
        next: None,
    };
    let query = JournalQuery::new("q".to_owned(), JournalQueryStatus::Succeeded, 0.0, 0.0);
    let text = json!(query.answered(answer)).to_string();
    let read: JournalQuery = serde_json::from_str(&text).expect("an answer");
    assert_eq!(read.ledgers(2), ledgers);
    assert_eq!((read.entries(), read.leaves_out.len()), (5, 1));
    let waiting: Vec<_> = read.ledger.iter().flatten().map(|entry| entry.waiting).collect();
    assert_eq!(waiting, [None, Some(5), Some(4), Some(-3), Some(-3)]);
}

#[test]
fn series_are_read_as_they_were_written() {
    let key = SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() };
    // Entries, and the members of the last.
    for (by, entries, has_topic, has_name) in [
        (By::EventSubscription, 2, true, true),
        (By::Topic, 1, true, false),
        (By::All, 1, false, false),
    ] {
        let mut series = Series::of(by);
        for (owner, counted) in [
            (Owner::Topic(key.topic.clone()), Counted::Accepted),
            (Owner::Subscription(key.clone()), Counted::Matched),
        ] {
            let publish_time = Timestamp::default();
            let count = Count { owner, publish_time, counted, events: 3, once: None };
            series.add(publish_time, &count);
        }
        let answer = Answer {
            known: Known::Series(series),
            known_until: Timestamp::default(),
            begins: None,
            lacks_first_successes: false,
            next: None,
        };
        let query = JournalQuery::new("q".to_owned(), JournalQueryStatus::Succeeded, 0.0, 0.0);
        let query = query.answered(answer);
        let read: JournalQuery =
            serde_json::from_str(&json!(query).to_string()).expect("an answer");
        assert_eq!((read.entries(), &read), (entries, &query));
        let last = read.series.iter().flatten().last().expect("an entry");
        let JournalCounts { topic, event_subscription } = &last.counts;
        assert_eq!(
            (last.topic.is_some(), last.event_subscription.is_some()),
            (has_topic, has_name)
        );
        assert_eq!((topic.is_none(), event_subscription.is_some()), (has_name, true), "{last:?}");
    }
}
