//! Folders that are opened again.

use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

use gridpost_core::{
    delivery::{
        queue::Queue,
        redrive::{self, Job},
    },
    publish::idempotency::{PublishProgress, Record},
    retry::{
        health::{Health, Probe},
        slow_endpoint::{Lease, Slowness},
    },
    time::Timestamp,
};
use gridpost_embedded::{Embedded, OpenError, Options, Sync};
use gridpost_ports::{
    Clock, EndpointHealths, Kept, Outgoing, Payloads, PoisonQueue, PublishRecords, QueueReceiver,
    QueueSender, Redrives, Saved,
};
use gridpost_testkit::contract;
use uuid::Uuid;

use super::fixture::{Fixture, HandClock, open};

const RETRY: Queue = Queue::Retry(0);

#[tokio::test]
async fn what_was_sent_is_there_and_what_waits_goes_on_waiting() {
    let fixture = Fixture::on_disk();
    let queues = fixture.stores.queues();
    queues.send(RETRY, contract::messages(4)).await;
    let received = fixture.stores.receive(RETRY, 3).await.expect("messages");
    let receipt = |number: usize| received[number].receipt.clone();
    queues.hide(RETRY, &receipt(0), 600).await.expect("hidden");
    queues.delete(RETRY, vec![receipt(1)]).await.expect("deleted");
    let (waiting, until) = (receipt(0), fixture.clock.now());
    drop(queues);
    fixture.clock.pass_s(10);
    let fixture = fixture.again().await;
    assert!(fixture.stores.last_seen().is_some_and(|seen| seen <= until));
    let again = fixture.stores.receive(RETRY, 10).await.expect("messages");
    let found: Vec<_> =
        again.iter().map(|message| (message.body.as_str(), message.receives)).collect();
    // "2" was in flight; whether "3" was as well is not known: both may have a state.
    assert_eq!(found, [("2", 2), ("3", 2)].map(|(body, _)| (body, 2)));
    fixture.stores.queues().hide(RETRY, &waiting, 0).await.expect("its receipt still holds");
    let shown = fixture.stores.receive(RETRY, 10).await.expect("messages");
    assert_eq!((shown.len(), shown[0].body.as_str(), shown[0].receives), (1, "0", 2));
    let ids: Vec<_> = received.iter().map(|message| &message.message_id).collect();
    fixture.stores.queues().send(RETRY, contract::messages(1)).await;
    let new = fixture.stores.receive(RETRY, 1).await.expect("a message");
    assert!(!ids.contains(&&new[0].message_id), "no id is given twice");
}

/// Nothing is under way in a new process: requests to a slow endpoint, a probe, a redrive or a repeated publish
/// would wait for nobody.
#[tokio::test]
async fn leases_of_the_process_before_are_over() {
    let fixture = Fixture::on_disk();
    let (now, holder) = (fixture.clock.now(), Uuid::from_u128(1));
    let until = now + Duration::from_secs(80);
    let key = contract::job(1).subscription;
    let leased = |until| Slowness {
        leases: vec![Lease { holder, requests: 7, until }],
        ..Slowness::default()
    };
    let marked = Slowness { marked_until: Some(until), bound: Some(9), ..leased(until) };
    let probe = Some(Probe { delivery: holder, lease_until: until });
    let health = Health { slow: marked.clone(), probe, ..Health::default() };
    let tables = fixture.stores.tables();
    let saved = EndpointHealths::save(&*tables, &key, holder, &health).await;
    assert_eq!(saved.expect("an answer"), Saved::Written);
    let held = redrive::Lease { holder: "another".to_owned(), until };
    let job = Job { lease: Some(held), ..contract::job(1) };
    assert_eq!(Redrives::save(&*tables, &job).await.expect("an answer"), Saved::Written);
    let (name, record) = contract::publishes::keyed("k", now);
    PublishRecords::save(&*tables, &name, &record).await.expect("an answer");
    drop(tables);

    let fixture = fixture.again().await;
    let tables = fixture.stores.tables();
    let loaded = EndpointHealths::load(&*tables, &key, holder).await.expect("a health");
    let slow = Slowness { leases: Vec::new(), ..marked };
    assert_eq!(loaded, Health { slow, revision: 1, ..Health::default() });
    let found = Redrives::job(&*tables, &key, job.id).await.expect("an answer").expect("a job");
    assert_eq!(found, Job { lease: None, revision: 1, ..job });
    let again = Record { by: holder, ..record };
    let kept = PublishRecords::save(&*tables, &name, &again).await.expect("an answer");
    let Kept::Other(Some(kept)) = kept else { panic!("{kept:?}") };
    let over = PublishProgress::Begun { lease_until: Timestamp::default() };
    assert_eq!((kept.standing, kept.publish), (over, again.publish));
}

/// A backup of the folder, restored after the original has gone on.
#[tokio::test]
async fn a_restored_copy_gives_no_id_again() {
    let fixture = Fixture::on_disk();
    let copy = tempfile::tempdir().expect("a folder");
    fixture.stores.close().await;
    for file in fs::read_dir(fixture.folder()).expect("a folder") {
        let file = file.expect("a file");
        fs::copy(file.path(), copy.path().join(file.file_name())).expect("copied");
    }
    let fixture = fixture.again().await;
    let ids = async |stores: &Embedded| -> BTreeSet<String> {
        stores.queues().send(RETRY, contract::messages(3)).await;
        let received = stores.receive(RETRY, 3).await.expect("messages");
        received.into_iter().map(|message| message.message_id).collect()
    };
    let of_the_original = ids(&fixture.stores).await;
    fixture.clock.pass_s(1);
    let options = Options { folder: Some(copy.path().to_owned()), ..fixture.options.clone() };
    let of_the_copy = ids(&open(&options, &fixture.clock)).await;
    assert_eq!((of_the_original.len(), of_the_copy.len()), (3, 3));
    assert!(of_the_original.is_disjoint(&of_the_copy), "{of_the_original:?} {of_the_copy:?}");
}

/// A backlog of 60 MB that was delivered.
#[tokio::test]
async fn the_file_shrinks_when_a_backlog_is_gone() {
    let fixture = Fixture::on_disk();
    let queues = fixture.stores.queues();
    let bytes = || fs::metadata(fixture.folder().join("gridpost.sqlite")).expect("a file").len();
    for _ in 0..60 {
        let body = "x".repeat(100_000);
        let messages = vec![Outgoing::new(body, "g".to_owned(), 0); 10];
        assert!(queues.send(RETRY, messages).await.iter().all(Result::is_ok));
    }
    let full = bytes();
    loop {
        let received = fixture.stores.receive(RETRY, 100).await.expect("messages");
        if received.is_empty() {
            break;
        }
        let receipts = received.into_iter().map(|message| message.receipt).collect();
        queues.delete(RETRY, receipts).await.expect("deleted");
    }
    assert!(full > 30_000_000 && bytes() >= full, "{full} bytes, and {}", bytes());
    fixture.clock.pass_s(600);
    for _ in 0..20 {
        queues.send(RETRY, contract::messages(1)).await;
        fixture.clock.pass_s(2);
    }
    drop(queues);
    let fixture = fixture.again().await;
    let left = fs::metadata(fixture.folder().join("gridpost.sqlite")).expect("a file").len();
    assert!(left < full / 2, "{left} of {full} bytes");
}

#[tokio::test]
async fn what_waits_has_its_payload_after_a_long_pause() {
    let fixture = Fixture::on_disk();
    fixture.stores.payloads().put("deliveries/7", vec![1; 500_000]).await.expect("written");
    fixture.stores.queues().send(RETRY, contract::messages(1)).await;
    fixture.clock.pass_s(40 * 24 * 60 * 60);
    let fixture = fixture.again().await;
    fixture.stores.queues().send(RETRY, contract::messages(1)).await;
    let payload = fixture.stores.payloads().get("deliveries/7").await.expect("readable");
    assert_eq!(payload.map(|object| object.len()), Some(500_000));
}

#[tokio::test]
async fn poison_and_messages_of_queues_that_are_no_more_are_kept() {
    let fixture = Fixture::on_disk();
    let fixture = fixture
        .set(|options| {
            options.max_receives = 1;
            options.retry_queues = 3;
        })
        .await;
    let queues = fixture.stores.queues();
    queues.send(Queue::Dispatch, contract::messages(1)).await;
    queues.send(Queue::Retry(2), contract::messages(2)).await;
    fixture.stores.receive(Queue::Dispatch, 1).await.expect("a message");
    fixture.clock.pass_s(240);
    assert_eq!(fixture.stores.receive(Queue::Dispatch, 1).await.expect("none").len(), 0);
    drop(queues);
    let fixture = fixture.set(|options| options.retry_queues = 2).await;
    let poisoned = PoisonQueue::receive(&*fixture.stores.queues(), 30).await.expect("messages");
    assert_eq!(poisoned.len(), 1);
    assert_eq!(poisoned[0].moved_from.as_deref(), Some("gridpost-dispatch"));
    assert_eq!(fixture.stores.receive(RETRY, 10).await.expect("messages").len(), 0, "too often");
    assert_eq!(PoisonQueue::count(&*fixture.stores.queues()).await.expect("a number"), 3);
}

#[tokio::test]
async fn a_folder_is_open_once() {
    let fixture = Fixture::on_disk();
    let second = Embedded::open(fixture.options.clone(), Arc::new(fixture.clock.clone()));
    match second {
        Err(OpenError::InUse(folder)) => assert_eq!(folder, fixture.folder()),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was opened twice"),
    }
    let mut fixture = fixture.again().await;
    fixture.options.sync = Sync::Full;
    let fixture = fixture.again().await;
    fixture.stores.queues().send(RETRY, contract::messages(1)).await;
}

#[tokio::test]
async fn a_folder_of_another_version_is_left_alone() {
    let fixture = Fixture::on_disk();
    fixture.stores.close().await;
    fixture.tamper("PRAGMA user_version = 1000");
    let opened = Embedded::open(fixture.options.clone(), Arc::new(fixture.clock.clone()));
    assert!(matches!(opened, Err(OpenError::NewerForm { form: 1_000, .. })));
}

enum End {
    Crashed,
    Idle,
}

/// Runs a process until the queue is empty or a message crashes it. Messages with the body "hangs" stay in
/// flight.
async fn live(options: &Options, clock: &HandClock) -> End {
    let stores = open(options, clock);
    let watching = stores.clone();
    let watch = tokio::spawn(async move { watching.isolate_crash_suspects().await });
    let mut hanging = Vec::new();
    let mut quiet = 0;
    let end = loop {
        let batch = stores.receive(Queue::Dispatch, 10).await.expect("received");
        if quiet > 200 {
            break End::Idle;
        }
        quiet = if batch.is_empty() { quiet + 1 } else { 0 };
        let in_flight = stores.record_in_flight(&batch);
        if batch.iter().any(|message| message.body == "crashes") {
            std::mem::forget(in_flight);
            break End::Crashed;
        }
        let (hangs, done): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|message| message.body == "hangs");
        let done = done.into_iter().map(|message| message.receipt).collect();
        stores.delete(Queue::Dispatch, done).await.expect("deleted");
        if hangs.is_empty() {
            drop(in_flight);
        } else {
            hanging.push(in_flight);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    hanging.into_iter().for_each(std::mem::forget);
    watch.abort();
    let _ = watch.await;
    end
}

#[tokio::test]
async fn only_messages_that_crash_the_process_become_poison() {
    let Fixture { stores, options, clock, folder: _folder } = Fixture::on_disk();
    // Some messages hang, like requests to an endpoint that does not answer.
    let body = |number| match number {
        54 | 57 | 91 => "crashes",
        49 | 52 => "hangs",
        _ => "fine",
    };
    let messages = (0..100).map(|number| Outgoing::new(body(number).to_owned(), "g".to_owned(), 0));
    let sent = stores.queues().send(Queue::Dispatch, messages.collect()).await;
    assert!(sent.into_iter().all(|sent| sent.is_ok()));
    drop(stores);
    let mut crashes = 0;
    while let End::Crashed = live(&options, &clock).await {
        crashes += 1;
        assert!(crashes <= 24, "the crash loop does not end");
    }
    let stores = open(&options, &clock);
    let poison = PoisonQueue::receive(&*stores.queues(), 1).await.expect("received");
    let poison: Vec<_> = poison.into_iter().map(|message| message.body).collect();
    assert_eq!(poison, ["crashes"; 3], "after {crashes} crashes");
    let left = stores.queues().backlog(Queue::Dispatch).await.expect("counted");
    assert_eq!(left, 2, "the hanging messages wait, all others are settled");
}

/// A batch has at most 6 MiB, so a group of large suspects takes several.
#[tokio::test]
async fn all_suspects_are_tried_however_large_they_are() {
    let fixture = Fixture::on_disk().set(|options| options.message_bytes_max = 1_000_000).await;
    let Fixture { stores, options, clock, folder: _folder } = fixture;
    // Groups of eight; the first has more than one batch may have.
    let body = |number| if number < 8 { "x".repeat(1_000_000) } else { "fine".to_owned() };
    let messages = (0..80).map(|number| Outgoing::new(body(number), "g".to_owned(), 0));
    let sent = stores.queues().send(Queue::Dispatch, messages.collect()).await;
    assert!(sent.into_iter().all(|sent| sent.is_ok()));
    for _ in 0..10 {
        let batch = stores.receive(Queue::Dispatch, 10).await.expect("received");
        std::mem::forget(stores.record_in_flight(&batch));
    }
    drop(stores);
    let stores = open(&options, &clock);
    let watching = stores.clone();
    let watch = tokio::spawn(async move { watching.isolate_crash_suspects().await });
    let mut first = 0;
    for _ in 0..50 {
        let batch = stores.receive(Queue::Dispatch, 10).await.expect("received");
        first += batch.iter().filter(|message| message.body.len() > 4).count();
        std::mem::forget(stores.record_in_flight(&batch));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    watch.abort();
    assert_eq!(first, 8, "while their group was tried");
}

/// After a crash a fast clock goes back to the latest commit, and a receive commits nothing.
#[tokio::test]
async fn what_waited_is_a_suspect_even_if_the_clock_was_set_back() {
    let Fixture { stores, options, clock, folder: _folder } = Fixture::on_disk();
    let message = Outgoing::new("crashes".to_owned(), "g".to_owned(), 5);
    stores.queues().send(RETRY, vec![message]).await;
    clock.pass_s(5);
    std::mem::forget(stores.record_in_flight(&stores.receive(RETRY, 1).await.expect("received")));
    drop(stores);
    clock.set_back_s(1);
    let stores = open(&options, &clock);
    let watching = stores.clone();
    let watch = tokio::spawn(async move { watching.isolate_crash_suspects().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let received = stores.receive(RETRY, 1).await.expect("received");
    watch.abort();
    assert_eq!(received.len(), 1, "it is tried by itself");
}
