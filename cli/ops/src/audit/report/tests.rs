use gridpost_core::ledger::Ledger;
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use super::{super::verdict::Batch, *};

fn document(audit: &Audit) -> Value {
    json!(audit.document())
}

const HOUR: Timestamp = Timestamp::from_millis(1_795_248_000_000);
const LATER: Timestamp = Timestamp::from_millis(HOUR.as_millis() + 2 * 3_600_000);

fn key(name: &str) -> SubscriptionKey {
    SubscriptionKey { topic: "shop".to_owned(), name: name.to_owned() }
}

/// An audit of event subscriptions that have so many events matched and delivered.
fn audit(counts: &[(&str, u64, u64)], queues: Result<Queues, String>) -> Audit {
    let mut ledger = Ledger::default();
    for (name, matched, delivered) in counts {
        let account = Account { matched: *matched, delivered: *delivered, ..Account::default() };
        ledger.accounts.insert((key(name), HOUR), account);
    }
    let batch = Batch { events_max: 1, since: Timestamp::from_millis(0) };
    let batches = counts.iter().map(|(name, ..)| (key(name), batch)).collect();
    Audit { ledger, batches, ..Audit::begun(HOUR, LATER, queues) }
}

#[test]
fn what_the_journal_leaves_out_is_told() {
    let balanced = audit(&[("a", 10, 10)], Ok(Queues::default()));
    assert_eq!(document(&balanced)["leavesOut"], json!([]));
    let audit = Audit { left_out: vec!["redrive has no log".to_owned()], ..balanced };
    assert!(audit.text().contains("\nredrive has no log\n"), "{}", audit.text());
    assert_eq!(document(&audit)["leavesOut"], json!(["redrive has no log"]));
    assert_eq!(document(&audit)["functionsWithoutLog"], json!([]));
    assert!(audit.balances());
}

#[test]
fn more_ends_than_events_are_told_and_are_no_loss() {
    let audit = audit(&[("a", 10, 10), ("b", 5, 7)], Ok(Queues::default()));
    assert_eq!((audit.verdict(), audit.balances()), (Verdict::Balances, false));
    let text = audit.text();
    assert!(text.contains("DUPLICATES: 2 ends more"), "{text}");
    let line = "shop/b: 2 ends too many in the hour from 2026-11-21T08:00:00.000Z";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains(BALANCES), "{text}");
}

#[test]
fn what_the_journal_does_not_keep_any_more_is_no_all_clear() {
    let whole = audit(&[("a", 10, 10)], Ok(Queues::default()));
    assert!(whole.text().contains(BALANCES) && !whole.text().contains("PARTIAL"));
    let poisoned = Audit { queues: Ok(Queues { poison: 1, ..Queues::default() }), ..whole.clone() };
    assert!(!poisoned.text().contains(BALANCES));
    let earlier = Timestamp::from_millis(HOUR.as_millis() - 1);
    let cut = Audit { asked: earlier, ..whole };
    let text = cut.text();
    let told = format!("nothing is known of events published before {HOUR}");
    assert!(text.contains("PARTIAL: asked since") && text.contains(&told), "{text}");
    assert!(!text.contains(BALANCES) && !text.contains("more waits"), "{text}");
    assert_eq!(document(&cut)["isComplete"], false);
}

/// Of `a` more waits than was counted: that may be what has no end. Of `b` nothing more waits.
#[test]
fn what_was_not_counted_accuses_nothing_and_is_told() {
    let mut audit = audit(&[("a", 10, 6), ("b", 5, 4)], Ok(Queues::default()));
    assert_eq!((audit.verdict(), audit.is_complete()), (Verdict::Missing { events: 5 }, true));
    audit.partial.insert(key("a"));
    assert_eq!(audit.verdict(), Verdict::Missing { events: 1 });
    let text = audit.text();
    assert!(
        text.contains("PARTIAL: more waits") && text.contains("more that waits: shop/a"),
        "{text}"
    );
    assert_eq!(document(&audit)["isComplete"], false);
    // Parked deliveries of any of them may not have been read.
    audit.partial.clear();
    audit.parked_is_whole = false;
    assert_eq!(audit.verdict(), Verdict::UnderWay { events: 5 });
    audit.ledger.accounts.clear();
    let text = audit.text();
    assert!(text.contains("PARTIAL") && !text.contains(BALANCES), "{text}");
}

#[test]
fn an_audit_prints_its_columns_and_reasons() {
    let mut audit = audit(&[("a", 10, 6)], Ok(Queues { poison: 1, ..Queues::default() }));
    let intake = Intake { accepted: 12, unmatched: 2 };
    audit.ledger.intakes.insert(("shop".to_owned(), HOUR), intake);
    audit.ledger.wait(&key("a"), HOUR, 1);
    let account = audit.ledger.accounts.get_mut(&(key("a"), HOUR)).expect("a");
    account.dead_lettered.insert("TimeToLiveExceeded".to_owned(), 2);
    account.dropped.insert("SubscriptionDeleted".to_owned(), 1);
    account.latencies.add(40, 5);
    account.latencies.add(90_000, 1);
    let text = audit.text();
    for part in [
        "TOPIC  ACCEPTED  FOR NO SUBSCRIPTION\nshop   12        2",
        "EVENT SUBSCRIPTION  FILTERED  MATCHED  REDRIVEN  DELIVERED  DEAD-LETTERED  LOST  WAITING  DIFFERENCE",
        "shop/a              2         10       0         6          2              1     1        0",
        "PUBLISH TO DELIVERY  P50       P95        P99\n",
        "shop/a               <= 50 ms  <= 10 min  <= 10 min\n\n",
        "shop/a: dead-lettered 2 for TimeToLiveExceeded",
        "shop/a: LOST, dropped 1 for SubscriptionDeleted",
        "1 in the poison queue",
        "1 message in the poison queue, with no end",
        "LOST FOR GOOD: 1 event dropped",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let document = document(&audit);
    assert_eq!((&document["verdict"], &document["eventsLost"]), (&json!("balances"), &json!(1)));
    assert_eq!(document["topics"][0]["accepted"], 12);
    let of_a = &document["eventSubscriptions"][0];
    assert_eq!(of_a["deadLettered"]["byReason"]["TimeToLiveExceeded"], 2);
    assert_eq!((&of_a["filtered"], &of_a["hours"][0]["verdict"]), (&json!(2), &json!("balances")));
    assert_eq!(of_a["hours"][0]["publishHour"], "2026-11-21T08:00:00.000Z");
    assert_eq!(of_a["hours"][0]["waiting"], 1);
    for latency in [&of_a["latency"], &of_a["hours"][0]["latency"]] {
        assert_eq!((&latency["p50AtMostMs"], &latency["events"]), (&json!(50), &json!(6)));
    }
}

#[test]
fn what_ended_after_the_cut_off_is_told_beside_the_difference() {
    let mut audit = audit(&[("a", 10, 6)], Ok(Queues { dispatch: 4, ..Queues::default() }));
    let ended = Account { delivered: 3, ..Account::default() };
    audit.after.accounts.insert((key("a"), HOUR), ended);
    let text = audit.text();
    assert!(
        text.contains("3 events of the difference ended after the cut-off at 2026-11-21T10:00"),
        "{text}"
    );
    assert!(text.contains("UNDER WAY: 1 event "), "{text}");
    // What began and ended since tells nothing of what was open.
    let both = Account { matched: 3, delivered: 3, ..Account::default() };
    audit.after.accounts.insert((key("a"), HOUR), both);
    assert!(!audit.text().contains("of the difference"), "{}", audit.text());
}

#[test]
fn what_is_missing_says_what_to_do() {
    let audit_of = |queues| audit(&[("a", 10, 7)], queues);
    let text = audit_of(Ok(Queues::default())).text();
    assert!(text.contains("MISSING: 3 events without a known end"), "{text}");
    assert!(text.contains("shop/a: 3 events MISSING in the hour from 2026-11-21T08"), "{text}");
    let refused = audit_of(Err("sqs:ListQueues was refused".to_owned())).text();
    let told = "not known, so nothing is called missing: sqs:ListQueues";
    assert!(refused.contains(told) && refused.contains("UNDER WAY: 3 events"), "{refused}");
    assert!(!refused.contains("MISSING"), "{refused}");
    let under_way = audit_of(Ok(Queues { dispatch: 3, ..Queues::default() })).text();
    assert!(under_way.contains("UNDER WAY: 3 events") && !under_way.contains("balances"));
    assert!(!under_way.contains("PUBLISH TO DELIVERY"), "{under_way}");
    let empty = audit(&[], Ok(Queues::default())).text();
    assert!(empty.contains("no event was published"), "{empty}");
}
