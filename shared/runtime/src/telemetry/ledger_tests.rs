//! The ledger reads what the meter writes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::EmbeddedMeter;
use gridpost_core::{
    journal::{Count, Owner},
    ledger::{Account, Intake, Latency, Ledger, counts_of},
    metric,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{Journal, Meter};

const HOUR: i64 = 3_600_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(500_000 * HOUR + millis)
}

fn key(name: &str) -> SubscriptionKey {
    SubscriptionKey { topic: "t".to_owned(), name: name.to_owned() }
}

/// Count, event subscription, publish time, events.
type Row = (&'static str, &'static str, i64, u64);

const COUNTS: [Row; 11] = [
    ("accepted", "", 1, 9),
    ("unmatched", "", 1, 2),
    ("matched", "a", 1, 7),
    ("matched", "a", HOUR, 5),
    ("delivered/50", "a", HOUR - 1, 3),
    ("deadLettered/TimeToLiveExceeded", "a", 5, 1),
    ("deadLettered/MaxDeliveryAttemptsExceeded", "a", 5, 1),
    ("dropped/SubscriptionDeleted", "a", 7, 1),
    ("redriven", "a", 5, 2),
    ("delivered/10000", "a", 5, 2),
    ("delivered/50", "b", 0, 1),
];

fn counted((counted, name, published_at, events): Row) -> Count {
    let owner = match name {
        "" => Owner::Topic("t".to_owned()),
        name => Owner::Subscription(key(name)),
    };
    let counted = counted.parse().expect("it is counted");
    Count { owner, publish_time: at(published_at), counted, events, once: None }
}

/// Writes these counts in so many invocations, and reads the ledger.
fn ledger(counts: &[Row], invocations: usize) -> Ledger {
    let meters: Vec<_> = (0..invocations).map(|_| EmbeddedMeter::default()).collect();
    for (index, one) in counts.iter().enumerate() {
        meters[index % invocations].count_sent(&[counted(*one)]);
    }
    let mut ledger = Ledger::default();
    for meter in &meters {
        Meter::count(meter, metric::PARKED_COUNT, &[], 1);
        let lines = meter.lines(at(0));
        let others = lines.lines().filter(|line| counts_of(line).is_empty()).count();
        assert_eq!(others, 1, "parked deliveries are not in the ledger");
        lines.lines().flat_map(counts_of).for_each(|count| ledger.count(&count));
    }
    ledger
}

#[test]
fn what_functions_count_adds_up() {
    let mut ledger = ledger(&COUNTS, 1);
    ledger.wait(&key("a"), at(9), 1);
    assert_eq!(ledger.intakes[&("t".to_owned(), at(0))], Intake { accepted: 9, unmatched: 2 });
    let account = &ledger.accounts[&(key("a"), at(0))];
    assert_eq!((account.matched, account.redriven), (7, 2));
    assert_eq!((account.delivered, account.waiting), (5, 1));
    assert_eq!(account.dead_lettered.values().sum::<u64>(), 2);
    assert_eq!(account.dropped["SubscriptionDeleted"], 1);
    assert_eq!(account.difference(), 0);
    let percentiles = [50, 60, 61].map(|percent| account.latencies.percentile(percent));
    assert_eq!(percentiles, [50, 50, 10_000].map(|bound| Some(Latency::AtMost(bound))));
    let totals = ledger.totals();
    assert_eq!((totals[&key("a")].matched, totals[&key("a")].difference()), (12, 5));
    assert_eq!(totals[&key("b")].difference(), -1);
}

fn twice() -> Vec<Row> {
    [COUNTS, COUNTS].concat()
}

proptest! {
    #[test]
    fn who_counts_and_in_which_order_changes_nothing(
        counts in Just(twice()).prop_shuffle(),
        invocations in 1..20_usize,
    ) {
        prop_assert_eq!(ledger(&counts, invocations), ledger(&twice(), 1));
    }
}

#[test]
fn failed_attempts_are_read_without_an_hour() {
    let meter = EmbeddedMeter::default();
    let failed = counted(("failed/Busy", "a", 0, 3));
    meter.count_sent(std::slice::from_ref(&failed));
    let lines = meter.lines(at(0));
    assert_eq!(counts_of(&lines), [Count { publish_time: Timestamp::MIN, ..failed }]);
}

#[test]
fn deliveries_count_without_their_latencies() {
    let line = r#"{"PublishHour":"2026-11-21T08:00:00.000Z","Topic":"t","EventSubscriptionName":"s",
        "DeliverySuccessCount":3,"LatencyMs":{"50":2}}"#;
    let mut ledger = Ledger::default();
    counts_of(line).iter().for_each(|count| ledger.count(count));
    let account = ledger.accounts.into_values().next().expect("an account");
    assert_eq!(
        (account.delivered, account.latencies.percentile(50)),
        (3, Some(Latency::AtMost(50)))
    );
}

#[test]
fn other_lines_are_passed_over() {
    for line in [
        "",
        "PublishHour",
        "START RequestId: PublishHour",
        r#"{"level":"WARN","message":"PublishHour"}"#,
        r#"{"PublishHour":"yesterday","Topic":"t","PublishSuccessCount":1}"#,
        r#"{"PublishHour":"2026-11-21T08:00:00.000Z","PublishSuccessCount":1}"#,
        r#"{"PublishHour":"2026-11-21T08:00:00.000Z","Topic":"t","PublishSuccessCount":-1}"#,
        r#"{"DeliveryAttemptFailCount":1,"Error":"Other","Topic":"t","EventSubscriptionName":"s"}"#,
    ] {
        assert_eq!(counts_of(line), [], "{line}");
    }
}

#[test]
fn sums_do_not_wrap_around() {
    let most = Account { matched: u64::MAX, delivered: 0, ..Account::default() };
    let ends = Account { delivered: u64::MAX, waiting: 1, ..Account::default() };
    assert_eq!((most.difference(), ends.difference()), (i64::MAX, i64::MIN));
    let mut sum = most.clone();
    sum.add(&most);
    sum.add(&ends);
    assert_eq!((sum.matched, sum.difference()), (u64::MAX, 0));
}

#[test]
fn latencies_cost_the_line_of_a_delivered_event_a_few_bytes() {
    let meter = EmbeddedMeter::default();
    let key = SubscriptionKey { topic: "orders".to_owned(), name: "billing".to_owned() };
    let owner = Owner::Subscription(key);
    meter.count_sent(&[Count { owner, ..counted(("delivered/50", "a", 0, 1)) }]);
    let line = meter.lines(at(0));
    let mut without: Value = serde_json::from_str(&line).expect("one line of JSON");
    let latencies = without.as_object_mut().expect("an object").remove(metric::LATENCY_MS);
    assert_eq!(latencies, Some(json!({"50": 1})));
    let more = line.trim_end().len() - without.to_string().len();
    assert_eq!((more, line.len()), (21, 299));
}
