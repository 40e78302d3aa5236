use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use gridpost_core::{
    delivery::{Delivery, queue::Queue},
    retry::{health::Probation, outcome::Outcome},
    subscription::Batching,
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PortError, RequestRates, Result};
use gridpost_testkit::faults::Fault;
use uuid::Uuid;

use super::Rates;
use crate::fixture_for_tests::{Fixture, NOW, deliveries, delivery};

impl Fixture {
    fn batched(mut self) -> Self {
        self.subscription.batching = Some(Batching { max_events: 100, preferred_kilobytes: 64 });
        self
    }

    /// The endpoint's probation is over, and no probe has been made yet.
    async fn waits_for_a_probe(self) -> Self {
        let (since, until) = (Timestamp::from_millis(0), NOW);
        self.waits(Probation { since, until, outcome: Outcome::ServerError, status: Some(500) })
            .await
    }

    /// Sets the count of requests in this minute.
    fn counted(self, count: u64) -> Self {
        let mut history = self.deployment.history.lock().expect("no panic while held");
        history.counts.insert((self.subscription.uid, 100), count);
        drop(history);
        self
    }

    fn counts(&self) -> Vec<(i64, u64)> {
        let history = self.deployment.history.lock().expect("no panic while held");
        let of_minute = |((uid, minute), count): (&(Uuid, i64), &u64)| {
            assert_eq!(*uid, self.subscription.uid);
            (*minute, *count)
        };
        history.counts.iter().map(of_minute).collect()
    }

    /// Due times of deliveries in the retry queue, in seconds from the beginning of minute 100.
    fn waits_until_s(&self) -> Vec<i64> {
        let due = |(queue, message): (Queue, Outgoing)| {
            assert_eq!(queue, Queue::Retry(0));
            let due = Delivery::decode(&message.body).expect("a delivery").due.expect("it waits");
            due.as_seconds() - 100 * 60
        };
        self.deployment.queues.sent().into_iter().map(due).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_minute_has_no_room_for_waits_without_an_attempt() {
    let table = [
        ("all have room", 3, 0, 3, vec![]),
        ("one has none", 2, 0, 2, vec![60]),
        ("none has: the next two minutes have", 2, 2, 0, vec![60, 60, 120]),
        ("far back in the row", 1, 10, 0, vec![600, 660, 720]),
    ];
    for (row, rate, counted, requests, waits) in table {
        let fixture = Fixture::new(Some(rate)).counted(counted);
        let kept = fixture.receive(Queue::Dispatch, &deliveries(3)).await;
        assert!(kept.is_empty(), "{row}: {kept:?}");
        assert_eq!((fixture.requests(), fixture.waits_until_s()), (requests, waits), "{row}");
        // Nothing is written once the minute is known to be full.
        let want = (counted + 1).max(rate.into()).min(counted + 3);
        assert_eq!(fixture.counts(), [(100, want)], "{row}");
    }
}

/// A table whose answers take a while.
#[derive(Default)]
struct SlowTable {
    counts: Mutex<BTreeMap<i64, u64>>,
    calls: AtomicUsize,
    fails: AtomicBool,
}

#[async_trait]
impl RequestRates for SlowTable {
    async fn count(&self, _: Uuid, minute: i64, requests: u64) -> Result<u64> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fails.swap(false, Ordering::Relaxed) {
            return Err(PortError::new("counting", "by plan"));
        }
        let mut counts = self.counts.lock().expect("no panic while held");
        let count = counts.entry(minute).or_default();
        *count += requests;
        Ok(*count)
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_ask_together_are_counted_together() {
    let table = Arc::new(SlowTable::default());
    let rates = Rates::new(Arc::clone(&table) as _);
    let rate = NonZeroU32::new(500).expect("at least one");
    let ask = |minute| rates.number(Uuid::nil(), minute, rate);
    let mut numbers: Vec<u64> =
        join_all((0..300).map(|_| ask(1))).await.into_iter().flatten().collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=300), "each has a number of its own");
    assert_eq!(table.calls.load(Ordering::Relaxed), 2, "the first, and all others");
    // 200 more fill the minute; the others wait without a write.
    let numbers: Vec<u64> =
        join_all((0..5_000).map(|_| ask(1))).await.into_iter().flatten().collect();
    let (go, wait): (Vec<_>, Vec<_>) = numbers.into_iter().partition(|number| *number <= 500);
    assert_eq!((go.len(), wait.len()), (200, 4_800));
    assert!(table.calls.load(Ordering::Relaxed) <= 4);
    for _ in 0..1_000 {
        assert!(ask(1).await.expect("a number") > 500);
    }
    assert!(table.calls.load(Ordering::Relaxed) <= 4);
    assert_eq!(ask(2).await.expect("a number"), 1, "the next minute begins anew");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_fails_one_request_and_makes_no_number_twice() {
    let table = Arc::new(SlowTable::default());
    let rates = Rates::new(Arc::clone(&table) as _);
    let rate = NonZeroU32::new(500).expect("at least one");
    table.fails.store(true, Ordering::Relaxed);
    let asked = join_all((0..20).map(|_| rates.number(Uuid::nil(), 1, rate))).await;
    let numbers: BTreeSet<u64> = asked.iter().flatten().copied().collect();
    assert_eq!((asked.len() - numbers.len(), numbers.len()), (1, 19));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_has_no_room_is_hidden() {
    let fixture = Fixture::new(Some(1)).counted(1);
    assert_eq!(fixture.receive(Queue::Retry(0), &deliveries(1)).await, [1]);
    assert_eq!((fixture.requests(), fixture.hidden()), (0, vec![(1, 45)]));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_time_to_live() {
    let mut fixture = Fixture::new(Some(1)).counted(500);
    fixture.subscription.retry_policy.time_to_live_minutes = 1;
    fixture.receive(Queue::Dispatch, &deliveries(1)).await;
    assert_eq!((fixture.requests(), fixture.waits_until_s()), (0, vec![75]));
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_one_request_take_one_slot_and_wait_together() {
    for (counted, requests, waits) in [(0, 1, vec![]), (3, 0, vec![180, 180, 180])] {
        let fixture = Fixture::new(Some(1)).batched().counted(counted);
        assert!(fixture.receive(Queue::Dispatch, &deliveries(3)).await.is_empty());
        assert_eq!((fixture.requests(), fixture.waits_until_s()), (requests, waits));
        assert_eq!(fixture.counts(), [(100, counted + 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_rate_nothing_is_counted() {
    let fixture = Fixture::new(None);
    fixture.receive(Queue::Dispatch, &deliveries(3)).await;
    assert_eq!((fixture.requests(), fixture.counts()), (3, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_count_that_fails_gives_the_record_back() {
    for probes in [false, true] {
        let fixture = Fixture::new(Some(10));
        let fixture = if probes { fixture.waits_for_a_probe().await } else { fixture };
        let written_before = fixture.health_writes().await;
        fixture.deployment.injector.plan().calls_max = Some(0);
        assert_eq!(fixture.receive(Queue::Dispatch, &deliveries(1)).await, [1]);
        assert_eq!((fixture.requests(), fixture.hidden()), (0, vec![(1, 5)]));
        assert_eq!(fixture.health_writes().await, written_before, "no probe is claimed");
    }
}

#[tokio::test(start_paused = true)]
async fn the_probe_takes_its_slot_before_it_is_claimed() {
    // Written twice: the claim, and the recovery.
    for (counted, requests, health_writes, waits) in [(0, 1, 2, vec![]), (1, 0, 0, vec![60])] {
        let fixture = Fixture::new(Some(1)).waits_for_a_probe().await.counted(counted);
        let written_before = fixture.health_writes().await;
        assert!(fixture.receive(Queue::Dispatch, &deliveries(1)).await.is_empty());
        assert_eq!((fixture.requests(), fixture.waits_until_s()), (requests, waits));
        assert_eq!(fixture.health_writes().await - written_before, health_writes);
        assert_eq!(fixture.counts(), [(100, counted + 1)], "one slot for one request");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_good_in_its_own_minute_alone() {
    let fixture = Fixture::new(Some(1));
    let slow = |number| (number, Fault::Slow(Duration::from_secs(50)));
    fixture.deployment.injector.plan().calls = BTreeMap::from([1, 2].map(slow));
    assert!(fixture.receive(Queue::Dispatch, &deliveries(1)).await.is_empty());
    // The first answer came in minute 101.
    assert_eq!((fixture.requests(), fixture.counts()), (1, vec![(100, 1), (101, 1)]));
}

#[tokio::test(start_paused = true)]
async fn a_large_delivery_is_fetched_when_it_may_go() {
    for (counted, requests) in [(0, 1), (1, 0)] {
        let fixture = Fixture::new(Some(1)).counted(counted);
        let large = fixture.claimed(delivery(1)).await;
        assert!(fixture.receive(Queue::Dispatch, &[large]).await.is_empty());
        let reads = fixture.deployment.history.lock().expect("no panic while held").payload_reads;
        assert_eq!((fixture.requests() as u64, reads), (requests, requests));
        assert_eq!(fixture.counts(), [(100, counted + 1)]);
    }
}
