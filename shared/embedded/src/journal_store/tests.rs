//! Disks that are full.

use std::{
    path::Path,
    sync::atomic::{AtomicI64, Ordering},
};

use gridpost_core::{
    delivery::queue::Queue,
    journal::{AttemptsQuestion, Counted, EntryKind, LedgerQuestion, Owner},
    time::Timestamp,
};
use gridpost_ports::{Outgoing, Payloads, QueueReceiver, QueueSender};
use gridpost_testkit::contract::{
    self,
    journal::{all_attempts, attempts, entry, ledger},
};
use rusqlite::Connection;

use super::*;
use crate::{Embedded, NoRoom, Options, room::Disk};

const RETRY: Queue = Queue::Retry(0);

#[derive(Default)]
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

fn open(folder: &Path, clock: &Arc<HandClock>) -> Embedded {
    let options = Options { folder: Some(folder.to_owned()), ..Options::default() };
    Embedded::open(options, Arc::clone(clock) as _).expect("it opens")
}

/// Lets the database grow by some pages only.
async fn limit(stores: &Embedded, pages: i64) {
    let work = move |connection: &Connection| {
        let now: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
        connection.pragma_update_and_check(None, "max_page_count", now + pages, |_| Ok(()))
    };
    stores.database.write("limit", work).await.expect("a limit");
}

async fn rows_of(stores: &Embedded, table: &str) -> u64 {
    let count = format!("SELECT count(*) FROM {table}");
    let read = |connection: &Connection| connection.query_row(&count, [], |row| row.get(0));
    let rows: i64 = stores.database.read("rows", read).expect("a number");
    rows.unsigned_abs()
}

#[tokio::test]
async fn history_makes_room_for_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::<HandClock>::default();
    let stores = open(folder.path(), &clock);
    let last = 19_999;
    for number in 0..=last {
        stores.journal().note(entry(number, EntryKind::Success), None);
    }
    clock.0.store(60_000, Ordering::Relaxed);
    // Commits the notes.
    limit(&stores, 10_000).await;
    limit(&stores, 200).await;
    assert_eq!(rows_of(&stores, "entries").await, 20_000);
    for number in 0..1_000 {
        let message = contract::message(&"x".repeat(1_000), 0);
        let sent = stores.queues().send(RETRY, vec![message]).await;
        // 200 pages have 600 of them.
        assert!(sent[0].is_ok(), "{number}");
    }
    let left = rows_of(&stores, "entries").await;
    assert!((1..20_000).contains(&left), "{left}");
    let newest = AttemptsQuestion { event_id: Some(format!("event-{last}")), ..all_attempts() };
    assert_eq!(attempts(&*stores.journal(), newest).await.len(), 1);
}

/// Or publishes would be refused for ever where a backlog has filled the disk and is gone.
#[tokio::test]
async fn free_pages_of_the_database_are_room_for_publishes() {
    const BACKLOG: usize = 60_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let put = async |stores: &Embedded, bytes| {
        stores.payloads().put("a", vec![1; bytes]).await.expect("written");
    };
    let stores = open(folder.path(), &Arc::default());
    put(&stores, BACKLOG).await;
    put(&stores, 1).await;
    stores.close().await;
    drop(stores);
    let free = Disk::of(folder.path()).expect("a disk").free;
    let disk_floor = Some(free + BACKLOG as u64 / 2);
    let options =
        Options { folder: Some(folder.path().to_owned()), disk_floor, ..Options::default() };
    let stores = Embedded::open(options, Arc::<HandClock>::default()).expect("it opens");
    assert!(matches!(stores.may_publish(), Err(NoRoom::OnDisk { .. })), "it has not looked");
    put(&stores, 1).await;
    assert_eq!(stores.may_publish(), Ok(()));
}

#[tokio::test]
async fn a_full_disk_keeps_the_journal_in_balance() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores = open(folder.path(), &Arc::default());
    let (journal, queues) = (stores.journal(), stores.queues());
    limit(&stores, 60).await;
    let matched = Count {
        owner: Owner::Subscription(contract::key()),
        publish_time: Timestamp::from_millis(0),
        counted: Counted::Matched,
        events: 1,
        once: None,
    };
    let (mut sent, mut receipts, mut deletions) = (0, Vec::new(), Vec::new());
    for number in 0..300 {
        let message = Outgoing { counts: vec![matched.clone()], ..contract::message("x", 0) };
        let message = Outgoing { body: "x".repeat(2_000), ..message };
        // A publish fails, and what is under way waits.
        sent += u64::from(queues.send(Queue::Dispatch, vec![message]).await[0].is_ok());
        let received = stores.receive(Queue::Dispatch, 10).await.expect("messages");
        receipts.extend(received.into_iter().map(|message| message.receipt));
        if number % 3 == 0 && !receipts.is_empty() {
            let receipt = receipts.swap_remove(0);
            let response = Some("y".repeat(2_000));
            let noted = Entry { response, ..entry(number, EntryKind::Success) };
            journal.note(noted, Some(&receipt));
            let queues = stores.queues();
            let delete = async move { queues.delete(Queue::Dispatch, vec![receipt]).await };
            deletions.push(tokio::spawn(delete));
        }
    }
    limit(&stores, 1_000).await;
    for deletion in deletions {
        deletion.await.expect("no panic").expect("deleted");
    }
    let deleted = sent - rows_of(&stores, "messages").await;
    assert!(sent < 300 && deleted > 0, "{sent} {deleted}");
    let question = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    let accounts = ledger(&*journal, question).await.accounts;
    let matched: u64 = accounts.values().map(|account| account.matched).sum();
    let delivered: u64 = accounts.values().map(|account| account.delivered).sum();
    assert_eq!((matched, delivered), (sent, deleted));
}
