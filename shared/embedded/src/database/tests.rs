use std::{pin::pin, sync::atomic::AtomicU32};

use gridpost_core::{delivery::queue::Queue, error::chain};
use gridpost_ports::{Outgoing, QueueSender};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::*;
use crate::queues::Queues;

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000)
    }
}

fn database(folder: &Path) -> Arc<Database> {
    let options = Options { folder: Some(folder.to_owned()), ..Options::default() };
    let prepared = Prepared::of(&options).expect("it is there");
    Arc::new(Database::open(prepared, Arc::new(Still), &options).expect("it opens"))
}

fn note(connection: &Connection, number: i64) -> rusqlite::Result<()> {
    set_note(connection, &format!("note {number}"), number)
}

fn limit(connection: &Connection, pages: i64) -> rusqlite::Result<()> {
    let now: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    connection.pragma_update_and_check(None, "max_page_count", now + pages, |_| Ok(()))
}

fn notes(database: &Database) -> Vec<i64> {
    let select = "SELECT value FROM notes WHERE name LIKE 'note %' ORDER BY value";
    let read = |connection: &Connection| {
        connection.prepare(select)?.query_map([], |row| row.get(0))?.collect()
    };
    database.read("notes", read).expect("readable")
}

/// Holds the writing thread until the answer is dropped.
async fn hold(database: &Arc<Database>) -> mpsc::Sender<()> {
    let (let_go, held) = mpsc::channel::<()>();
    let (began, has_begun) = oneshot::channel();
    let held_database = Arc::clone(database);
    let mut began = Some(began);
    let work = move |_: &Connection| {
        let _ = began.take().map(|began| began.send(()));
        let _ = held.recv();
        Ok(())
    };
    tokio::spawn(async move { held_database.write("hold", work).await });
    has_begun.await.expect("it has begun");
    let_go
}

#[tokio::test]
async fn a_write_that_panics_fails_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    let write = |connection: &Connection| {
        note(connection, 1)?;
        panic!("at 7")
    };
    let failed = database.write::<()>("a write", write).await.expect_err("it panicked");
    assert!(chain(&failed).contains("a write panicked: at 7"), "{failed:?}");
    database.write("another", |connection| note(connection, 2)).await.expect("written");
    assert_eq!(notes(&database), [2], "nothing of the first");
}

/// What is in memory may then differ from what is committed: the process must end.
#[tokio::test]
async fn the_end_of_the_thread_that_writes_is_heard_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    let mut ended = pin!(database.writer_ended());
    let wait = Duration::from_millis(20);
    assert!(timeout(wait, ended.as_mut()).await.is_err(), "it writes");
    let failed =
        database.write_then("a write", OnFullDisk::Wait, |_| Ok(()), |()| panic!("at 8")).await;
    assert!(failed.is_err(), "it is not known whether it was written");
    timeout(Duration::from_secs(30), ended).await.expect("it has ended");
}

/// As where clock.json was removed to take the machine's time again.
#[tokio::test]
async fn a_clock_that_was_put_back_on_purpose_stays_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let ahead = Still.now().as_millis() + 3_600_000;
    let write = move |connection: &Connection| set_note(connection, TIME, ahead);
    let fast = database(folder.path());
    fast.write("note", |connection| note(connection, 1)).await.expect("written");
    fast.write("time", write).await.expect("written");
    drop(fast);
    let first = database(folder.path());
    assert!(first.last_seen > Some(Still.now()));
    drop(first);
    assert_eq!(database(folder.path()).last_seen, Some(Still.now()));
}

#[tokio::test]
async fn what_waits_at_the_same_time_is_committed_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    let held = hold(&database).await;
    let before = database.commits();
    let write = |number| {
        let database = Arc::clone(&database);
        tokio::spawn(async move { database.write("note", move |at| note(at, number)).await })
    };
    let all: Vec<_> = (0..200).map(write).collect();
    // Tasks run in their order: each has asked when this one continues.
    tokio::spawn(async move { drop(held) }).await.expect("let go");
    for one in all {
        one.await.expect("no panic").expect("written");
    }
    assert_eq!(notes(&database), (0..200).collect::<Vec<_>>());
    // One for the holder, and one for all others.
    assert_eq!(database.commits() - before, 2);
}

#[tokio::test]
async fn only_a_full_sync_waits_for_the_disk_itself() {
    for (sync, want) in [(Sync::Normal, (1, 0, 0)), (Sync::Full, (2, 1, 1))] {
        let folder = tempfile::tempdir().expect("a folder");
        let options =
            Options { folder: Some(folder.path().to_owned()), sync, ..Options::default() };
        let prepared = Prepared::of(&options).expect("it is there");
        let database = Database::open(prepared, Arc::new(Still), &options).expect("it opens");
        let ask = |connection: &Connection| -> rusqlite::Result<(i64, i64, i64)> {
            let of = |name| connection.pragma_query_value(None, name, |row| row.get(0));
            Ok((of("synchronous")?, of("fullfsync")?, of("checkpoint_fullfsync")?))
        };
        assert_eq!(database.write("pragmas", ask).await.expect("an answer"), want, "{sync:?}");
    }
}

#[tokio::test]
async fn one_that_fails_fails_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    let held = hold(&database).await;
    let write = |number: i64| {
        let database = Arc::clone(&database);
        let work = move |connection: &Connection| match number {
            1 => whole(connection, || {
                note(connection, 1)?;
                connection.execute("INSERT INTO notes (name, value) VALUES ('x', NULL)", [])?;
                Ok(())
            }),
            _ => note(connection, number),
        };
        tokio::spawn(async move { database.write("note", work).await })
    };
    let all: Vec<_> = (0..3).map(write).collect();
    tokio::spawn(async move { drop(held) }).await.expect("let go");
    let mut answers = Vec::new();
    for one in all {
        answers.push(one.await.expect("no panic").is_ok());
    }
    assert_eq!((answers, notes(&database)), (vec![true, false, true], vec![0, 2]));
}

/// Writes a payload of 5,000 bytes. Returns whether that was possible.
fn put(database: &Arc<Database>, number: i64, full_disk: OnFullDisk) -> JoinHandle<bool> {
    let database = Arc::clone(database);
    let work = move |connection: &Connection| {
        let insert = "INSERT INTO payloads (name, written_at, object) VALUES (?1, 0, ?2)";
        connection.execute(insert, (number, vec![0_u8; 5_000])).map(drop)
    };
    let write = async move { database.write_then("payload", full_disk, work, |()| ()).await };
    tokio::spawn(async move { write.await.is_ok() })
}

fn payloads(database: &Database) -> Vec<i64> {
    let names = "SELECT CAST(name AS INTEGER) FROM payloads ORDER BY 1";
    let read = |connection: &Connection| -> rusqlite::Result<Vec<i64>> {
        connection.prepare(names)?.query_map([], |row| row.get(0))?.collect()
    };
    database.read("payloads", read).expect("readable")
}

/// Otherwise what was delivered would be delivered again, and what was not would be hidden for minutes.
#[tokio::test]
async fn what_is_under_way_waits_for_room_on_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    database.write("limit", |connection| limit(connection, 10)).await.expect("a limit");
    // More than are tried in a row.
    let all = 0..60;
    let waiting: Vec<_> =
        all.clone().map(|number| put(&database, number, OnFullDisk::Wait)).collect();
    let wait = Duration::from_secs(20);
    let is_full = async |want| {
        while database.is_full() != want {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(wait, is_full(true)).await.expect("the disk is full");
    let publish = timeout(wait, put(&database, 99, OnFullDisk::Fail)).await.expect("at once");
    assert!(!publish.expect("no panic"), "a publish is refused");
    // What needs no room is written, and so are those for which there is some.
    let small = database.write("note", |connection| note(connection, 1));
    timeout(wait, small).await.expect("it is tried, too").expect("written");
    assert!(database.pending() > 0 && !payloads(&database).is_empty());
    database.write("limit", |connection| limit(connection, 1_000)).await.expect("a limit");
    for one in waiting {
        assert!(timeout(wait, one).await.expect("it goes on").expect("no panic"));
    }
    assert_eq!(payloads(&database), all.collect::<Vec<_>>(), "each once");
    timeout(wait, is_full(false)).await.expect("it has room");
    assert_eq!(database.pending(), 0);
}

#[tokio::test]
async fn a_process_ends_though_the_disk_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    database.write("limit", |connection| limit(connection, 0)).await.expect("a limit");
    let waiting: Vec<_> = (0..20).map(|number| put(&database, number, OnFullDisk::Wait)).collect();
    sleep(Duration::from_millis(50)).await;
    let closing = Arc::clone(&database);
    tokio::task::spawn_blocking(move || closing.close()).await.expect("closed");
    for one in waiting {
        assert!(!one.await.expect("no panic"), "it is not written");
    }
}

#[tokio::test]
async fn what_is_answered_on_a_full_disk_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    database.write("limit", |connection| limit(connection, 20)).await.expect("a limit");
    let put = |number| put(&database, number, OnFullDisk::Fail);
    let mut answered = Vec::new();
    for round in 0..4 {
        let held = hold(&database).await;
        let all: Vec<_> = (0..8).map(|one| (round * 8 + one, put(round * 8 + one))).collect();
        tokio::spawn(async move { drop(held) }).await.expect("let go");
        for (number, one) in all {
            answered.extend(one.await.expect("no panic").then_some(number));
        }
    }
    let stored = payloads(&database);
    assert!((1..32).contains(&answered.len()), "{answered:?}");
    for number in &answered {
        assert!(stored.contains(number), "{number} was answered");
    }
}

#[tokio::test]
async fn a_send_that_fills_the_disk_leaves_no_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
    let queues = Queues::open(&database, Arc::new(Still), &options).expect("queues");
    database.write("limit", |connection| limit(connection, 20)).await.expect("a limit");
    let message = |bytes| Outgoing::new("x".repeat(bytes), "g".to_owned(), 0);
    // After the rollback there is room for the last two.
    let sizes = [1_000, 200_000, 1_000, 1_000];
    let answers = queues.send(Queue::Dispatch, sizes.map(message).into()).await;
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    let count = "SELECT COUNT(*) FROM messages";
    let count = |connection: &Connection| connection.query_row(count, [], |row| row.get(0));
    let stored: i64 = database.read("messages", count).expect("readable");
    assert_eq!(stored, 0, "refused messages must not appear after the next start");
}

#[tokio::test]
async fn what_follows_a_commit_is_done_where_the_caller_has_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    let held = hold(&database).await;
    let done = Arc::new(AtomicU32::new(0));
    let (counted, writer) = (Arc::clone(&done), Arc::clone(&database));
    let then = move |()| counted.fetch_add(1, Ordering::SeqCst);
    let caller = tokio::spawn(async move {
        let write = |connection: &Connection| note(connection, 1);
        writer.write_then("note", OnFullDisk::Wait, write, then).await
    });
    tokio::task::yield_now().await;
    caller.abort();
    drop(held);
    database.write("note", |connection| note(connection, 2)).await.expect("written");
    assert_eq!((done.load(Ordering::SeqCst), notes(&database)), (1, vec![1, 2]));
}

/// Each connection has descriptors of its own, which the process may not have.
#[tokio::test]
async fn few_connections_read_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = database(folder.path());
    let reading = Arc::new(AtomicUsize::new(0));
    let read = || {
        let (database, reading) = (Arc::clone(&database), Arc::clone(&reading));
        let work = move |_: &Connection| {
            let at_once = reading.fetch_add(1, Ordering::SeqCst) + 1;
            thread::sleep(Duration::from_millis(20));
            reading.fetch_sub(1, Ordering::SeqCst);
            Ok(at_once)
        };
        tokio::spawn(async move { database.read_much("many", work).await })
    };
    let reads: Vec<_> = (0..40).map(|_| read()).collect();
    let mut most = 0;
    for read in reads {
        most = most.max(read.await.expect("no panic").expect("readable"));
    }
    assert!((2..=READERS_MAX).contains(&most), "{most}");
}
