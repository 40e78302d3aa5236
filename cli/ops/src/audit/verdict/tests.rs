mod fixture;

use serde_json::json;

use super::*;
use fixture::{CUT_OFF, Fixture, Loss, STATES_READ_AT, closed_hour, key};

/// An audit of one event subscription and one closed hour.
fn audit(account: Account, queues: Result<Queues, String>, waiting: u64, batch: u64) -> Audit {
    let mut ledger = Ledger::default();
    ledger.accounts.insert((key("a"), closed_hour(0)), account);
    let batch = Batch { events_max: batch, since: Timestamp::from_millis(0) };
    let batches = BTreeMap::from([(key("a"), batch)]);
    let begun = Audit::begun(closed_hour(0), CUT_OFF, queues);
    Audit { states_read_at: STATES_READ_AT, ledger, waiting, batches, ..begun }
}

#[test]
fn verdict_table() {
    let empty = Queues::default();
    let dispatch = Queues { dispatch: 2, ..empty };
    let dead_letter = Queues { dead_letter: 2, ..empty };
    let fan_out = Queues { fan_out: 1, ..empty };
    let retry = Queues { retry: 5, ..empty };
    let poison = Queues { poison: 9, ..empty };
    let under_way = |events| Verdict::UnderWay { events };
    let missing = |events| Verdict::Missing { events };
    let refused = || Err("no permission".to_owned());
    // matched less delivered, messages in queues, deliveries waiting, largest batch
    let table = [
        (0, Ok(empty), 0, 1, Verdict::Balances),
        (0, Ok(dispatch), 0, 1, Verdict::Balances),
        (2, Ok(dispatch), 0, 1, under_way(2)),
        (2, Ok(dead_letter), 0, 1, under_way(2)),
        (3, Ok(dispatch), 0, 1, missing(1)),
        (200, Ok(dispatch), 0, 100, under_way(200)),
        (201, Ok(dispatch), 0, 100, missing(1)),
        (5_000, Ok(fan_out), 0, 1, under_way(5_000)),
        (5_001, Ok(fan_out), 0, 1, missing(1)),
        (5, Ok(retry), 0, 1, under_way(5)),
        (5, Ok(retry), 1, 1, missing(1)),
        (1, Ok(retry), 9, 1, missing(1)),
        (1, Ok(poison), 0, 1, missing(1)),
        // Queues that could not be read may hold it.
        (1, refused(), 0, 1, under_way(1)),
        (0, refused(), 0, 1, Verdict::Balances),
    ];
    for (difference, queues, waiting, batch, want) in table {
        let account = Account { matched: 10 + difference, delivered: 10, ..Account::default() };
        let audit = audit(account, queues, waiting, batch);
        assert_eq!(audit.verdict(), want, "{difference} {:?} {waiting} {batch}", audit.queues);
    }
}

#[test]
fn losses_of_one_hour_are_not_made_up_by_duplicates_of_another() {
    let lost = Account { matched: 10, delivered: 5, ..Account::default() };
    let doubled = Account { matched: 10, delivered: 15, ..Account::default() };
    let mut audit = audit(lost, Ok(Queues::default()), 0, 1);
    audit.ledger.accounts.insert((key("a"), closed_hour(1)), doubled);
    assert_eq!(audit.verdict(), Verdict::Missing { events: 5 });
    assert_eq!(audit.ends_too_many(), 5);
}

#[test]
fn an_open_hour_accuses_nobody_and_is_no_all_clear() {
    let account = Account { matched: 3, delivered: 1, ..Account::default() };
    let mut audit = audit(account, Ok(Queues::default()), 0, 1);
    // Two minutes after the end of the hour, and ten.
    for (minutes, want) in
        [(62, Verdict::UnderWay { events: 2 }), (70, Verdict::Missing { events: 2 })]
    {
        audit.until = Timestamp::from_millis(closed_hour(0).as_millis() + minutes * 60_000);
        assert_eq!(audit.verdict(), want, "{minutes}");
    }
}

#[test]
fn what_was_counted_after_the_cut_off_explains_what_was_open() {
    let count = |matched, delivered| Account { matched, delivered, ..Account::default() };
    // before the cut-off, after it
    let table = [
        (count(5, 3), count(0, 2), Verdict::Balances),
        (count(5, 3), count(0, 1), Verdict::Missing { events: 1 }),
        (count(5, 3), count(9, 0), Verdict::Missing { events: 2 }),
        (count(5, 6), count(1, 0), Verdict::Balances),
    ];
    for (before, after, want) in table {
        let mut audit = audit(before.clone(), Ok(Queues::default()), 0, 1);
        audit.after.accounts.insert((key("a"), closed_hour(0)), after.clone());
        let got = (audit.verdict(), audit.ends_too_many());
        assert_eq!(got, (want, 0), "{before:?} {after:?}");
    }
}

/// A delivery that waited when the states were read, and ends before the logs are, is among the waiting
/// ones: its end explains nothing else. But an end of one that was parked before explains itself.
#[test]
fn what_waited_and_ends_meanwhile_neither_hides_nor_makes_a_loss() {
    // events without an end, of which so many waited; ends counted behind the reading of the states
    let table = [
        (0, 1, 1, Verdict::Balances),
        (1, 0, 1, Verdict::Balances),
        (1, 0, 0, Verdict::Missing { events: 1 }),
        (1, 1, 0, Verdict::Missing { events: 1 }),
        (1, 1, 1, Verdict::UnderWay { events: 1 }),
        (3, 1, 1, Verdict::Missing { events: 2 }),
        (3, 1, 2, Verdict::Missing { events: 1 }),
    ];
    for (open, waiting, ended, want) in table {
        let account =
            Account { matched: 10 + open + waiting, delivered: 10, waiting, ..Account::default() };
        let mut audit = audit(account, Ok(Queues::default()), waiting, 1);
        let ends = Account { delivered: ended, ..Account::default() };
        audit.later.accounts.insert((key("a"), closed_hour(0)), ends);
        assert_eq!(audit.verdict(), want, "{open} {waiting} {ended}");
    }
}

/// The counts of one machine are read after the states, and are not divided.
#[test]
fn what_waited_and_ended_before_undivided_counts_were_read_is_no_duplicate() {
    // waiting, ended, (ends too many, undivided; divided)
    for (waiting, ended, want) in
        [(3, 10, (0, 3)), (3, 9, (0, 2)), (3, 12, (2, 5)), (0, 11, (1, 1))]
    {
        let account = Account { matched: 10, delivered: ended, waiting, ..Account::default() };
        let mut audit = audit(account, Ok(Queues::default()), waiting, 1);
        let divided = audit.ends_too_many();
        audit.is_divided = false;
        assert_eq!((audit.ends_too_many(), divided), want, "{waiting} {ended}");
    }
}

#[test]
fn what_was_parked_and_is_in_a_queue_again_is_not_missing() {
    let account = Account { matched: 3, delivered: 1, ..Account::default() };
    let mut audit = audit(account, Ok(Queues { dead_letter: 1, ..Queues::default() }), 0, 1);
    assert_eq!(audit.verdict(), Verdict::Missing { events: 1 });
    let again = Queues { retry: 1, dispatch: 9, ..Queues::default() };
    audit.queues = audit.queues.map(|queues| queues.with_moved(again));
    assert_eq!(audit.verdict(), Verdict::UnderWay { events: 2 });
    let emptied = audit.queues.map(|queues| queues.with_moved(Queues::default()));
    assert_eq!(emptied, Ok(Queues { dead_letter: 1, retry: 1, ..Queues::default() }));
}

#[test]
fn deliveries_may_be_as_large_as_they_were_before_a_change() {
    let account = Account { matched: 30, delivered: 10, ..Account::default() };
    let mut audit = audit(account, Ok(Queues { dispatch: 1, ..Queues::default() }), 0, 1);
    assert_eq!(audit.verdict(), Verdict::Missing { events: 19 });
    let hour = closed_hour(0).as_millis();
    // Minutes from the beginning of the hour to the change.
    for (minutes, want) in [
        (-60, Verdict::Missing { events: 19 }),
        (-5, Verdict::Missing { events: 19 }),
        (-4, Verdict::UnderWay { events: 20 }),
        (30, Verdict::UnderWay { events: 20 }),
        (90, Verdict::UnderWay { events: 20 }),
    ] {
        let since = Timestamp::from_millis(hour + minutes * 60_000);
        audit.batches.insert(key("a"), Batch { events_max: 1, since });
        assert_eq!(audit.verdict(), want, "{minutes}");
    }
    audit.batches.clear();
    assert_eq!(audit.verdict(), Verdict::UnderWay { events: 20 });
}

#[test]
fn queues_are_told_by_their_names() {
    let mut queues = Queues::default();
    for role in ["dispatch", "fan-out", "retry-0", "retry-31", "slow", "dead-letter", "poison"] {
        *queues.of(role).expect(role) += 1;
    }
    assert_eq!(queues, Queues { dispatch: 1, fan_out: 1, retry: 3, dead_letter: 1, poison: 1 });
    for role in ["", "retry-", "retry-x", "2-dispatch", "dispatch-2"] {
        assert_eq!(queues.of(role), None, "{role}");
    }
}

#[test]
fn batches_are_as_large_as_the_destination_allows() {
    let table = [
        (json!({"endpointType": "WebHook", "properties": {"maxEventsPerBatch": 7}}), 7),
        (json!({"endpointType": "LambdaFunction", "properties": {"maxEventsPerBatch": 7}}), 7),
        (json!({"endpointType": "WebHook", "properties": {}}), 1),
        (json!({"endpointType": "SqsQueue", "properties": {"resourceId": "arn"}}), 10),
        (json!({"endpointType": "KinesisStream", "properties": {}}), 500),
    ];
    for (destination, want) in table {
        let destination = serde_json::from_value(destination).expect("a destination");
        assert_eq!(largest_batch(&destination), want, "{destination:?}");
    }
}

#[test]
fn twenty_busy_deployments_without_a_loss_are_not_accused() {
    for seed in 1..=20 {
        let fixture = Fixture::new(seed, None);
        let audit = fixture.audit();
        assert_eq!(audit.missing(), 0, "seed {seed}\n{}", audit.text());
        assert!(audit.under_way() > 0, "seed {seed} is not busy");
    }
}

#[test]
fn twenty_planted_losses_are_found() {
    let kinds =
        [Loss::QuietHour, Loss::BesideTraffic, Loss::AmongDuplicates, Loss::Resource, Loss::Piece];
    for seed in 1..=20 {
        let kind = kinds[seed as usize % kinds.len()];
        let fixture = Fixture::new(seed, Some(kind));
        let audit = fixture.audit();
        let found = audit.cells().into_iter().find_map(|cell| match cell.standing {
            Standing::Missing { events } => Some((cell.key.clone(), cell.hour, events)),
            _ => None,
        });
        assert_eq!(found, fixture.planted(), "seed {seed}, {kind:?}\n{}", audit.text());
    }
}

#[test]
fn an_hour_is_whole_from_its_beginning_on() {
    let at = |text: &str| Timestamp::parse_rfc_3339(text).expect("a time");
    for (begins, want) in [
        ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00Z"),
        ("2026-11-20T08:00:00.001Z", "2026-11-20T09:00:00Z"),
        ("2026-11-20T08:59:59Z", "2026-11-20T09:00:00Z"),
    ] {
        assert_eq!(first_whole_hour(at(begins)), at(want), "{begins}");
    }
}
