//! The journal.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::{
    delivery::{parking::Parked, queue::Queue},
    journal::{
        AttemptsQuestion, By, Count, Counted, Entry, EntryKind, Known, LedgerQuestion, Owner,
        Question, Series, SeriesQuestion, Step,
    },
    ledger::Ledger,
    retry::outcome::Outcome,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_embedded::Embedded;
use gridpost_ports::{
    Clock, DeliveryStates, Journal, JournalReader, Outgoing, ParkingLot, QueueReceiver,
    QueueSender, Saved, WakeCursor,
};
use gridpost_testkit::contract::{
    self,
    journal::{all_attempts, answer, attempts, entry, ledger, series, whole_series},
};
use uuid::Uuid;

use super::fixture::Fixture;

const RETRY: Queue = Queue::Retry(0);

/// Lets notes wait until they are committed by themselves.
async fn settle(fixture: &Fixture) {
    fixture.clock.pass_s(60);
    commit(&fixture.stores).await;
}

/// Commits something else.
async fn commit(stores: &Embedded) {
    WakeCursor::save(&*stores.tables(), 1).await.expect("noted");
}

async fn all(stores: &Embedded) -> Vec<Entry> {
    attempts(&*stores.journal(), all_attempts()).await
}

async fn delivered(stores: &Embedded) -> u64 {
    let question = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    let ledger = ledger(&*stores.journal(), question).await;
    ledger.accounts.values().map(|account| account.delivered).sum()
}

fn matched(events: u64) -> Count {
    let owner = Owner::Subscription(contract::key());
    let publish_time = Timestamp::from_millis(0);
    Count { owner, publish_time, counted: Counted::Matched, events, once: None }
}

/// Sends a message and receives it. Returns its receipt.
async fn received(stores: &Embedded) -> String {
    stores.queues().send(RETRY, contract::messages(1)).await;
    let received = stores.receive(RETRY, 1).await.expect("a message");
    received[0].receipt.clone()
}

#[tokio::test]
async fn the_journal_keeps_its_contract() {
    for fixture in Fixture::both() {
        let journal = fixture.stores.journal();
        let settle = async || settle(&fixture).await;
        contract::journal::entries_are_found(&*journal, &*journal, settle).await;
    }
    for fixture in Fixture::both() {
        let journal = fixture.stores.journal();
        let settle = async || settle(&fixture).await;
        contract::journal::a_repetition_is_one_entry(&*journal, &*journal, settle).await;
    }
    for fixture in Fixture::both() {
        let (journal, now) = (fixture.stores.journal(), fixture.clock.now());
        let settle = async || settle(&fixture).await;
        let sums = contract::journal::sums_are_those_of_what_was_noted;
        sums(&*journal, &*journal, now, settle).await;
    }
    for fixture in Fixture::both() {
        let journal = fixture.stores.journal();
        let begin = Step::ThreeHours.begin(fixture.clock.now() + Duration::from_secs(3 * 3_600));
        let count = async |at: Timestamp, counts| {
            fixture.clock.pass_s(at.since(fixture.clock.now()).as_secs());
            journal.write(counts).await.expect("written");
        };
        let ask = async |question| Some(whole_series(&*journal, question).await);
        let sums = contract::journal::sums_of_series_do_not_depend_on_steps_and_owners;
        sums(begin, count, ask).await;
    }
}

#[tokio::test]
async fn long_answers_have_pages() {
    let fixture = Fixture::on_disk();
    let journal = fixture.stores.journal();
    let (mut hours, mut minutes, mut accounts) =
        (Series::default(), Series::default(), Ledger::default());
    for number in 0..6_000 {
        let mut noted = entry(number, EntryKind::Success);
        noted.subscription.name = format!("s{}", number % 20);
        noted.publish_time = noted.publish_time.hour() + Duration::from_secs(3_600) * (number / 20);
        noted.at = noted.publish_time + Duration::from_secs(60) * (number / 20);
        let count = noted.count().expect("it counts");
        hours.add(Step::Hour.begin(noted.at), &count);
        minutes.add(Step::Minute.begin(noted.at), &count);
        accounts.count(&count);
        journal.note(noted, None);
    }
    settle(&fixture).await;
    let all = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    assert_eq!(series(&*journal, Step::Hour).await, hours);
    assert_eq!(series(&*journal, Step::Minute).await, minutes);
    assert_eq!(ledger(&*journal, all.clone()).await, accounts);
    let one = LedgerQuestion { subscription: Some("s7".to_owned()), ..all.clone() };
    assert_eq!(ledger(&*journal, one.clone()).await.accounts.len(), 300);
    for (question, is_long) in [(all, true), (one, false)] {
        let answer = answer(&*journal, Question::Ledger(question), None).await;
        assert_eq!(answer.next.is_some(), is_long);
    }
}

#[tokio::test]
async fn pages_of_a_series_end_with_its_steps() {
    let fixture = Fixture::on_disk();
    let journal = fixture.stores.journal();
    let [mut each, mut all] = [By::EventSubscription, By::All].map(Series::of);
    for _ in 0..4 {
        let counts: Vec<_> = (0..6_000).map(of_one).collect();
        let begin = Step::FiveMinutes.begin(fixture.clock.now());
        counts.iter().for_each(|count| each.add(begin, count));
        counts.iter().for_each(|count| all.add(begin, count));
        journal.write(counts).await.expect("written");
        fixture.clock.pass_s(140);
    }
    for (want, is_long) in [(each, true), (all, false)] {
        let (by, step, to) = (want.by, Step::FiveMinutes, Timestamp::MAX);
        let question = SeriesQuestion { by, step, to, ..SeriesQuestion::default() };
        assert_eq!(whole_series(&*journal, question.clone()).await, want);
        let first = answer(&*journal, Question::Series(question.clone()), None).await;
        assert_eq!(first.next.is_some(), is_long);
        let total = Question::Series(SeriesQuestion { total: true, ..question });
        assert_eq!(answer(&*journal, total, None).await.next, None);
    }
    let of_many = "SELECT count(*) FROM counts WHERE owner <= 0";
    assert_eq!(
        fixture.number(of_many),
        2 * (4 + 1),
        "a topic and all, in four minutes and an hour"
    );
}

fn of_one(number: u32) -> Count {
    let key = SubscriptionKey { topic: "t".to_owned(), name: format!("s{number}") };
    Count { owner: Owner::Subscription(key), ..matched(1) }
}

#[tokio::test]
async fn recent_counts_are_few() {
    let fixture = Fixture::on_disk();
    for _ in 0..100 {
        let counts = (0..600).map(of_one).collect();
        fixture.stores.journal().write(counts).await.expect("written");
    }
    let bytes = fixture.number("SELECT coalesce(sum(length(sums)), 0) FROM recent_counts");
    assert!(bytes < 250_000, "{bytes}");
}

#[tokio::test]
async fn what_waits_is_what_has_matched_and_not_ended() {
    let mut fixture = Fixture::on_disk().set(|options| options.journal_bytes_max = Some(0)).await;
    let end = Counted::Delivered { took: Duration::from_secs(1) };
    let at = |hour: i64| Timestamp::from_millis(hour * 3_600_000);
    let count = |counted: &Counted, hour, events| Count {
        counted: counted.clone(),
        publish_time: at(hour),
        ..matched(events)
    };
    let other = SubscriptionKey { name: "other".to_owned(), ..contract::key() };
    let waiting = async |fixture: &Fixture| {
        let of = [contract::key(), other.clone()];
        fixture.stores.journal().waiting(&of).await.expect("read").expect("known at once")
    };
    let write = async |fixture: &Fixture, counts| {
        fixture.stores.journal().write(counts).await.expect("written");
    };
    write(&fixture, vec![matched(1_000)]).await;
    assert_eq!(waiting(&fixture).await, [1_000, 0]);
    let ends = [&end, &Counted::Dropped("x".to_owned()), &Counted::DeadLettered("x".to_owned())];
    write(&fixture, ends.map(|ended| count(ended, 0, 100)).to_vec()).await;
    write(&fixture, vec![count(&Counted::Redriven, -5, 50)]).await;
    // Repeated work ends more than there was.
    write(&fixture, vec![count(&end, -9, 200)]).await;
    assert_eq!(waiting(&fixture).await, [750, 0]);
    // Recent counts are added to the others.
    for _ in 0..300 {
        write(&fixture, vec![count(&Counted::Accepted, 0, 1), matched(1)]).await;
    }
    assert!(fixture.rows_of("waiting_events") > 0);
    assert_eq!(waiting(&fixture).await, [1_050, 0]);
    // History makes room.
    for _ in 0..9 {
        fixture.clock.pass_s(3_600);
        commit(&fixture.stores).await;
    }
    assert_eq!(fixture.number("SELECT count(*) FROM counts WHERE series = 0"), 0);
    assert_eq!(waiting(&fixture).await, [1_050, 0]);
    fixture = fixture.again().await;
    assert_eq!(waiting(&fixture).await, [1_050, 0]);
    write(&fixture, vec![count(&end, 0, 1_000), count(&end, -5, 50)]).await;
    for _ in 0..300 {
        write(&fixture, vec![count(&Counted::Failed(Outcome::Busy), 0, 1)]).await;
    }
    assert_eq!(waiting(&fixture).await, [0, 0]);
    assert_eq!(fixture.rows_of("waiting_events"), 1, "what was counted too often alone");
    fixture.clock.pass_s(91 * 24 * 3_600);
    commit(&fixture.stores).await;
    assert_eq!(fixture.rows_of("waiting_events"), 0);
}

#[tokio::test]
async fn a_note_is_committed_with_the_write_of_its_message() {
    for fixture in Fixture::both() {
        let stores = &fixture.stores;
        let (journal, queues) = (stores.journal(), stores.queues());
        let (first, second) = (received(stores).await, received(stores).await);
        journal.note(entry(1, EntryKind::Success), Some(&first));
        journal.count(matched(2), Some(&first));
        journal.note(entry(2, EntryKind::Failure), Some(&second));
        commit(stores).await;
        assert_eq!(all(stores).await, [], "another write takes none");
        queues.delete(RETRY, vec![first.clone()]).await.expect("deleted");
        assert_eq!(all(stores).await, [entry(1, EntryKind::Success)]);
        assert_eq!(series(&*journal, Step::Hour).await.flows.len(), 2);
        queues.hide(RETRY, &second, 60).await.expect("hidden");
        assert_eq!(all(stores).await.len(), 2);
        // The message is gone: the handler that deleted it has noted the result.
        journal.note(entry(3, EntryKind::Success), Some(&first));
        queues.delete(RETRY, vec![first]).await.expect("deleted");
        assert_eq!(all(stores).await.len(), 2);
        settle(&fixture).await;
        assert_eq!((all(stores).await.len(), delivered(stores).await), (2, 1));
        // It comes back, because its handler died: the work is noted again.
        fixture.clock.pass_s(60);
        journal.note(entry(4, EntryKind::Failure), Some(&second));
        let again = stores.receive(RETRY, 1).await.expect("a message")[0].receipt.clone();
        journal.note(entry(5, EntryKind::Failure), Some(&second));
        journal.note(entry(6, EntryKind::Success), Some(&again));
        queues.delete(RETRY, vec![again]).await.expect("deleted");
        settle(&fixture).await;
        assert_eq!(all(stores).await[0], entry(6, EntryKind::Success));
        assert_eq!(all(stores).await.len(), 3);
    }
}

#[tokio::test]
async fn a_note_is_committed_with_the_state_of_its_delivery() {
    for fixture in Fixture::both() {
        let stores = &fixture.stores;
        let (journal, tables) = (stores.journal(), stores.tables());
        let receipt = received(stores).await;
        let state = contract::state(7);
        let of = |number| Entry { delivery: state.id, ..entry(number, EntryKind::Failure) };
        journal.note(of(1), Some(&receipt));
        journal.note(entry(9, EntryKind::Failure), Some(&receipt));
        assert_eq!(DeliveryStates::save(&*tables, &state).await.expect("saved"), Saved::Written);
        assert_eq!(all(stores).await, [of(1)], "not that of another delivery");
        journal.note(of(2), None);
        assert_eq!(DeliveryStates::save(&*tables, &state).await.expect("saved"), Saved::Conflict);
        assert_eq!(all(stores).await, [of(1)], "nothing was written");
        let parked = Parked { id: state.id, ..contract::parked(1) };
        tables.park(&parked).await.expect("parked");
        assert_eq!(all(stores).await, [of(2), of(1)]);
    }
}

#[tokio::test]
async fn a_delivery_ends_once() {
    let fixture = Fixture::in_memory();
    let journal = fixture.stores.journal();
    let kinds = [EntryKind::Ending, EntryKind::Dropped, EntryKind::DeadLettered];
    for (number, last) in [(1, 2), (2, 1)] {
        let of = |kind| entry(number, kind);
        journal.note(of(kinds[0]), None);
        journal.note(of(kinds[last]), None);
        settle(&fixture).await;
        journal.note(Entry { attempt: 2, ..of(kinds[3 - last]) }, None);
        settle(&fixture).await;
        journal.note(Entry { part: 3, ..of(EntryKind::Dropped) }, None);
    }
    settle(&fixture).await;
    let question = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    let accounts = ledger(&*journal, question).await.accounts;
    let sums = accounts.values().map(|account| {
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        sum(&account.dead_lettered) + 10 * sum(&account.dropped)
    });
    assert_eq!(sums.sum::<u64>(), 31, "one dead letter, one drop, and those of two parts");
    assert_eq!(all(&fixture.stores).await.len(), 6);
}

/// An entry may be committed after it happened, so a reader of new entries goes on from `known_until`.
#[tokio::test]
async fn an_answer_is_whole_until_the_first_note_that_waits() {
    for fixture in Fixture::both() {
        let stores = &fixture.stores;
        let (journal, queues) = (stores.journal(), stores.queues());
        let until =
            async || answer(&*journal, Question::Attempts(all_attempts()), None).await.known_until;
        let receipt = received(stores).await;
        let at = fixture.clock.now();
        journal.note(Entry { at, ..entry(1, EntryKind::Success) }, Some(&receipt));
        fixture.clock.pass_s(30);
        assert_eq!(until().await, at);
        queues.delete(RETRY, vec![receipt]).await.expect("deleted");
        let now = fixture.clock.now();
        assert!((at..now).contains(&until().await), "another may be noted in a moment");
        assert!(now.since(until().await) <= Duration::from_secs(1));
        // Its handler has died.
        let receipt = received(stores).await;
        journal.note(Entry { at: now, ..entry(2, EntryKind::Success) }, Some(&receipt));
        fixture.clock.pass_s(600);
        assert!(until().await > now);
    }
}

#[tokio::test]
async fn an_answer_is_of_one_commit() {
    let fixture = Fixture::on_disk();
    let journal = fixture.stores.journal();
    for number in 0..MANY {
        journal.note(entry(number, EntryKind::Success), None);
    }
    let notes = async {
        for round in 1..6 {
            for number in round * MANY..(round + 1) * MANY {
                journal.note(entry(number, EntryKind::Success), None);
                if number.is_multiple_of(500) {
                    settle(&fixture).await;
                }
            }
        }
    };
    let asks = async {
        loop {
            let question = AttemptsQuestion { most: 40_000, ..all_attempts() };
            let answer = answer(&*journal, Question::Attempts(question), None).await;
            let Known::Attempts(entries) = answer.known else { panic!("no attempts") };
            let ids: Vec<i64> =
                entries.iter().map(|(id, _)| id.parse().expect("a number")).collect();
            assert!(ids.windows(2).all(|pair| pair[0] == pair[1] + 1), "each once, without a gap");
        }
    };
    tokio::select! { () = notes => {}, _ = asks => {} }
}

#[tokio::test]
async fn counts_are_those_of_messages_that_are_sent() {
    for fixture in Fixture::both() {
        let stores = &fixture.stores;
        let fine = contract::message("fine", 0).counting(vec![matched(3)]);
        let refused = Outgoing { delay_s: 901, ..fine.clone() }.counting(vec![matched(5)]);
        let sent = stores.queues().send(RETRY, vec![fine, refused]).await;
        assert!(sent[0].is_ok() && sent[1].is_err());
        let flows = series(&*stores.journal(), Step::Minute).await.flows;
        let begin = Step::Minute.begin(fixture.clock.now());
        let key = (begin, Some(Owner::Subscription(contract::key())));
        assert_eq!(flows.len(), 1);
        assert_eq!(flows[&key].account.matched, 3, "now, not when it was published");
        stores.journal().write(vec![matched(2)]).await.expect("written");
        assert_eq!(series(&*stores.journal(), Step::Minute).await.flows[&key].account.matched, 5);
    }
}

#[tokio::test]
async fn notes_wait_when_their_write_fails() {
    let fixture = Fixture::on_disk();
    let stores = &fixture.stores;
    let (journal, queues) = (stores.journal(), stores.queues());
    let receipt = received(stores).await;
    journal.note(entry(1, EntryKind::Success), Some(&receipt));
    fixture.tamper("ALTER TABLE messages RENAME TO gone");
    assert!(queues.delete(RETRY, vec![receipt.clone()]).await.is_err());
    fixture.tamper("ALTER TABLE gone RENAME TO messages");
    commit(stores).await;
    assert_eq!(all(stores).await, [], "its write has failed");
    // The message is written, but not the entry.
    fixture.tamper("ALTER TABLE entries RENAME TO gone");
    assert!(queues.delete(RETRY, vec![receipt.clone()]).await.is_err());
    let counting = contract::message("lost", 0).counting(vec![matched(1)]);
    fixture.tamper("ALTER TABLE counts RENAME TO gone_counts");
    assert!(queues.send(RETRY, vec![counting]).await[0].is_err());
    fixture.tamper("ALTER TABLE gone RENAME TO entries");
    fixture.tamper("ALTER TABLE gone_counts RENAME TO counts");
    commit(stores).await;
    assert_eq!((all(stores).await.len(), fixture.rows_of("messages")), (0, 1));
    queues.delete(RETRY, vec![receipt]).await.expect("deleted");
    assert_eq!(all(stores).await, [entry(1, EntryKind::Success)]);
    assert_eq!(series(&*journal, Step::Hour).await.flows.len(), 1, "none of what was not sent");
}

/// The process ends, or its handler dies: an entry is still written once.
#[tokio::test]
async fn a_note_without_its_write_is_lost_with_the_process_alone() {
    let fixture = Fixture::on_disk();
    let receipt = received(&fixture.stores).await;
    fixture.stores.journal().note(entry(1, EntryKind::Success), Some(&receipt));
    let fixture = fixture.again().await;
    settle(&fixture).await;
    assert_eq!(all(&fixture.stores).await, []);
    let stores = &fixture.stores;
    stores.journal().note(entry(1, EntryKind::Success), Some(&receipt));
    fixture.clock.pass_s(240);
    let received = stores.receive(RETRY, 1).await.expect("it comes again");
    stores.journal().note(entry(1, EntryKind::Success), Some(&received[0].receipt));
    stores.queues().delete(RETRY, vec![received[0].receipt.clone()]).await.expect("deleted");
    assert_eq!((all(stores).await.len(), delivered(stores).await), (1, 1));
}

/// More than a segment: 16,384 items, of which an entry here has two, and a failed one four.
const MANY: u32 = 20_000;

async fn note_many(fixture: &Fixture, from: u32) {
    let journal = fixture.stores.journal();
    for number in from..from + MANY {
        let kind =
            if number.is_multiple_of(1_000) { EntryKind::Failure } else { EntryKind::Success };
        let mut one = entry(number, kind);
        if number % MANY == 100 {
            one.subscription.name = "quiet".to_owned();
        }
        journal.note(one, None);
        if number.is_multiple_of(500) {
            settle(fixture).await;
        }
    }
    settle(fixture).await;
}

async fn find_each(fixture: &Fixture, of: u32) {
    let reader = fixture.stores.journal();
    for number in (0..of).step_by(997).chain([0, of - 1]) {
        let id = format!("event-{number}");
        let question = AttemptsQuestion { event_id: Some(id), ..all_attempts() };
        let found = attempts(&*reader, question).await;
        let numbers: Vec<_> = found.iter().map(|entry| &entry.event_ids).collect();
        assert_eq!(numbers, [&format!(r#"["event-{number}"]"#)]);
    }
    let failed = AttemptsQuestion { failed: true, most: 7, ..all_attempts() };
    let found = attempts(&*reader, failed.clone()).await;
    assert_eq!(found.len(), of as usize / 1_000);
    assert!(found.is_sorted_by(|one, next| one.at > next.at));
    let quiet = Some("Quiet".to_owned());
    let one = AttemptsQuestion { subscription: quiet.clone(), ..all_attempts() };
    assert_eq!(attempts(&*reader, one).await.len(), (of / MANY) as usize);
    let none = AttemptsQuestion { subscription: quiet, ..failed };
    assert_eq!(attempts(&*reader, none).await.len(), 0);
    assert_eq!(attempts(&*reader, all_attempts()).await.len(), of as usize);
}

#[tokio::test]
async fn entries_are_found_in_segments_and_after_them() {
    let fixture = Fixture::on_disk();
    note_many(&fixture, 0).await;
    assert_eq!(fixture.rows_of("segments"), 2);
    find_each(&fixture, MANY).await;
    let fixture = fixture.again().await;
    find_each(&fixture, MANY).await;
    note_many(&fixture, MANY).await;
    find_each(&fixture, 2 * MANY).await;
    assert_eq!(fixture.rows_of("segments"), 4);
    let before = delivered(&fixture.stores).await;
    note_many(&fixture, MANY).await;
    assert_eq!(delivered(&fixture.stores).await, before, "repetitions");
}

#[tokio::test]
async fn history_goes_when_it_is_too_large() {
    let bytes_max = 1_500_000;
    let fixture =
        Fixture::on_disk().set(|options| options.journal_bytes_max = Some(bytes_max)).await;
    note_many(&fixture, 0).await;
    let kept = all(&fixture.stores).await;
    assert!((8_000..15_000).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept[0], entry(MANY - 1, EntryKind::Success), "the newest are kept");
    note_many(&fixture, MANY).await;
    let again = all(&fixture.stores).await;
    assert!(again.len().abs_diff(kept.len()) < 2_000, "{} {}", again.len(), kept.len());
    let (journal, question) = (fixture.stores.journal(), Question::Attempts(all_attempts()));
    let answer = answer(&*journal, question, None);
    let (oldest, begins) = (again.last().map(|entry| entry.at), answer.await.begins);
    let begins = begins.expect("history is cut");
    assert!(oldest.is_some_and(|at| at >= begins && at.since(begins).as_secs() < 1), "{begins}");
    let segments = fixture.rows_of("segments");
    assert!(segments <= 3, "{segments}");
    // Sums go last.
    assert_eq!(delivered(&fixture.stores).await, u64::from(2 * (MANY - MANY / 1_000)));
    let rows = fixture.rows_of("entries");
    let fixture = fixture.again().await;
    for _ in 0..50 {
        commit(&fixture.stores).await;
    }
    let left = fixture.rows_of("entries");
    assert!(rows - left < 500, "{rows} {left}: a restart is no reason to remove more");
}

#[tokio::test]
async fn a_quiet_time_is_whole() {
    let fixture = Fixture::on_disk();
    let journal = fixture.stores.journal();
    for number in 0..2 {
        fixture.clock.pass_s(20 * 24 * 60 * 60);
        let at = fixture.clock.now();
        journal.note(Entry { at, ..entry(number, EntryKind::Success) }, None);
        settle(&fixture).await;
        commit(&fixture.stores).await;
    }
    assert_eq!(all(&fixture.stores).await.len(), 1);
    let begins = async |from| {
        let question = AttemptsQuestion { from, ..all_attempts() };
        answer(&*journal, Question::Attempts(question), None).await.begins
    };
    let day_ms = 24 * 60 * 60 * 1_000;
    let ago = |days: i64| Timestamp::from_millis(fixture.clock.now().as_millis() - days * day_ms);
    assert_eq!(begins(ago(1)).await, None, "the removed entry is older");
    assert!(begins(ago(30)).await.is_some_and(|begins| begins < ago(19)));
}

/// Returns the bytes of the journal's tables and indices.
fn bytes_of_journal(fixture: &Fixture) -> i64 {
    let sum = "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE \
               tbl_name IN ('entries', 'segments', 'segment_lists', 'counts', 'recent_counts', \
               'counted_once'))";
    fixture.number(sum)
}

#[tokio::test]
async fn counts_of_repeatable_work_go_with_the_entries_of_their_time() {
    const BYTES: u64 = 1_000_000;
    let fixture = Fixture::on_disk().set(|options| options.journal_bytes_max = Some(BYTES)).await;
    let journal = fixture.stores.journal();
    let once = |number: u32| Count { once: Some(Uuid::from_u128(number.into())), ..matched(1) };
    for number in 0..MANY {
        let at = fixture.clock.now();
        let one = Entry { at, publish_time: at, ..entry(number, EntryKind::Success) };
        journal.note(one, None);
        (0..3).for_each(|of| journal.count(once(3 * number + of), None));
        if number.is_multiple_of(100) {
            settle(&fixture).await;
        }
    }
    settle(&fixture).await;
    let bytes = bytes_of_journal(&fixture);
    assert!(bytes < BYTES as i64 * 3 / 2, "{bytes}");
    let [rows, entries] = ["counted_once", "entries"].map(|table| fixture.rows_of(table));
    assert!(entries > 2_000 && rows.abs_diff(3 * entries) < 2_500, "{rows} {entries}");
    // The newest is still known.
    journal.count(once(3 * MANY - 1), None);
    settle(&fixture).await;
    let question = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    let accounts = ledger(&*journal, question).await.accounts;
    let matched: u64 = accounts.values().map(|account| account.matched).sum();
    assert_eq!(matched, u64::from(3 * MANY));
}

#[tokio::test]
async fn counts_of_repeatable_work_make_room_where_no_entry_can() {
    const BYTES: u64 = 1_000_000;
    let fixture = Fixture::on_disk().set(|options| options.journal_bytes_max = Some(BYTES)).await;
    let journal = fixture.stores.journal();
    for number in 0..2 * u128::from(MANY) {
        journal.count(Count { once: Some(Uuid::from_u128(number)), ..matched(1) }, None);
        if number.is_multiple_of(100) {
            commit(&fixture.stores).await;
        }
    }
    commit(&fixture.stores).await;
    let bytes = bytes_of_journal(&fixture);
    assert!(bytes < BYTES as i64 * 3 / 2, "{bytes}");
    assert!(fixture.rows_of("counted_once") > 10_000);
}

/// Small entries are removed in time for large ones.
#[tokio::test]
async fn a_journal_has_its_size_whatever_the_size_of_entries() {
    const BYTES: u64 = 1_500_000;
    let fixture = Fixture::on_disk().set(|options| options.journal_bytes_max = Some(BYTES)).await;
    note_many(&fixture, 0).await;
    let journal = fixture.stores.journal();
    for number in MANY..MANY + 4_000 {
        let response = Some("x".repeat(4_000));
        journal.note(Entry { response, ..entry(number, EntryKind::Failure) }, None);
        if number.is_multiple_of(50) {
            settle(&fixture).await;
        }
    }
    settle(&fixture).await;
    let pages = fixture.number("PRAGMA page_count");
    assert!(pages * 4_096 < BYTES as i64 * 2, "{pages} pages");
}

#[tokio::test]
async fn history_goes_when_it_is_too_old() {
    let fixture = Fixture::on_disk();
    let stores = &fixture.stores;
    let journal = stores.journal();
    let start = entry(0, EntryKind::Success).at;
    fixture.clock.pass_s(start.since(fixture.clock.now()).as_secs());
    let day = Duration::from_secs(24 * 60 * 60);
    for number in 0..100 {
        let at = fixture.clock.now();
        let one = Entry { at, publish_time: at, ..entry(number, EntryKind::Success) };
        journal.note(one, None);
        journal.count(Count { once: Some(Uuid::from_u128(1)), ..matched(1) }, None);
        settle(&fixture).await;
        for _ in 0..9 {
            fixture.clock.pass_s(24 * 60 * 60 / 9);
            commit(stores).await;
        }
    }
    let kept = all(stores).await;
    let now = fixture.clock.now();
    assert!((13..=15).contains(&kept.len()), "{}", kept.len());
    assert!(kept.iter().all(|entry| now.since(entry.at) <= day * 15));
    let [minutes, hours] = [Step::Minute, Step::Hour].map(|step| series(&*journal, step));
    let (minutes, hours) = (minutes.await.flows, hours.await.flows);
    let days = |of: usize, want: usize| of.abs_diff(want) <= 2;
    let (minutes, hours) = (minutes.len(), hours.len());
    assert!(days(minutes, 14) && days(hours, 90), "{minutes} {hours}");
    assert!(delivered(stores).await.abs_diff(90) <= 2);
    for (question, age) in [
        (Question::Attempts(all_attempts()), 15),
        (Question::Ledger(LedgerQuestion { to: now, ..LedgerQuestion::default() }), 91),
    ] {
        let begins = answer(&*journal, question, None).await.begins.expect("history is cut");
        assert!(now.since(begins) <= day * age, "{begins}");
    }
    // A total has hours where minutes are gone.
    let from = Timestamp::from_millis(now.as_millis() - 30 * 86_400_000 + 600_000);
    let (step, to, total) = (Step::Minute, now, true);
    let month = SeriesQuestion { from, to, step, total, ..SeriesQuestion::default() };
    let begins = answer(&*journal, Question::Series(month.clone()), None).await.begins;
    assert!(begins.is_some_and(|begins| begins.since(from).as_secs() < 3_600), "{begins:?}");
    let days = whole_series(&*journal, month).await.flows;
    assert!(days.values().any(|flow| flow.account.delivered.abs_diff(30) <= 2), "{days:?}");
    let recent = AttemptsQuestion { from: kept[3].at, ..all_attempts() };
    let recent = answer(&*journal, Question::Attempts(recent), None).await;
    assert_eq!(recent.begins, None, "what was asked for is whole");
}
