//! What any implementation of the ports must do, as functions that a test calls with one: the fakes,
//! and the adapters of AWS with recorded responses.
//!
//! Each says which world it needs: a queue that refuses certain entries, a table that is throttled. How
//! that world is made is the test's own affair.

use gridpost_core::{
    delivery::{
        dead_letter::Labels,
        parking::Parked,
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    retry::{attempts::Attempts, health::Health, outcome::Outcome},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    Bucket, BucketError, DeadLetters, DeliveryStates, DueDeliveries, EndpointHealths, Outgoing,
    ParkingLot, Payloads, PortError, QueueReceiver, QueueSender, RequestRates, Saved,
};
use uuid::Uuid;

/// The dead-letter bucket of these tests.
pub const BUCKET: &str = "letters";

/// A delivery that has failed once and waits.
pub fn state(number: u128) -> DeliveryState {
    let at = Timestamp::from_millis(1_000);
    DeliveryState {
        id: Uuid::from_u128(number),
        subscription: key(),
        subscription_uid: Uuid::from_u128(5),
        publish_time: at,
        redriven_at: None,
        events: 1,
        done: Default::default(),
        attempts: Attempts::default().with(at, Outcome::Busy, Some(503)),
        standing: DeliveryStatus::Waiting { due: Timestamp::from_millis(90_000) },
        past: Vec::new(),
        receipt: None,
        resend: None,
        revision: 0,
    }
}

/// The event subscription that everything here is of.
pub fn key() -> SubscriptionKey {
    SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() }
}

/// Messages whose bodies are their numbers, from 0.
pub fn messages(count: usize) -> Vec<Outgoing> {
    let message =
        |number: usize| Outgoing { body: number.to_string(), group: "t/s".to_owned(), delay_s: 0 };
    (0..count).map(message).collect()
}

/// A parked delivery that is due in minute 1.
pub fn parked(number: u128) -> Parked {
    Parked {
        id: Uuid::from_u128(number),
        due: Timestamp::from_millis(90_000),
        shard: 0,
        group: "t/s".to_owned(),
        postponed: 0,
        body: "{}".to_owned(),
    }
}

/// Of `count` messages to the dispatch queue, in a world that refuses those numbers, these fail and
/// all others succeed: what was refused is not in the queue, so its answer decides whether a publish
/// is confirmed and a record let go.
pub async fn a_refused_message_fails_alone(
    queues: &dyn QueueSender,
    count: usize,
    refused: &[usize],
) {
    let answers = queues.send(Queue::Dispatch, messages(count)).await;
    assert_eq!(answers.len(), count, "an answer for each message");
    let failed = answers.iter().enumerate().filter(|(_, answer)| answer.is_err());
    assert_eq!(failed.map(|(number, _)| number).collect::<Vec<_>>(), refused);
}

/// In a world that refuses every call to a queue, nothing counts as sent, hidden, deleted or counted.
pub async fn a_queue_that_refuses_has_done_nothing<T: QueueSender + QueueReceiver>(queues: &T) {
    let answers = queues.send(Queue::Dispatch, messages(3)).await;
    assert!(answers.len() == 3 && answers.iter().all(Result::is_err), "{answers:?}");
    let of_dispatch = Queue::Dispatch;
    assert!(queues.hide(of_dispatch, "r", 60).await.is_err(), "it is not hidden");
    assert!(queues.delete(of_dispatch, vec!["r".to_owned()]).await.is_err(), "it is not deleted");
    assert!(queues.in_flight(of_dispatch).await.is_err(), "no number is known");
    assert!(queues.backlog(of_dispatch).await.is_err(), "no number is known");
    assert!(queues.visible(of_dispatch).await.is_err(), "no number is known");
}

/// In a world where nothing is stored, nothing is found, and that is no error.
pub async fn what_is_not_stored_is_not_found<T: DeliveryStates + EndpointHealths>(tables: &T) {
    let found = DeliveryStates::load(tables, Uuid::from_u128(7)).await.expect("it is readable");
    assert_eq!(found, None);
    let health = EndpointHealths::load(tables, &key(), Uuid::from_u128(5)).await;
    assert_eq!(health.expect("it is readable"), Health::default());
}

/// In a world where another caller has written the same items, a write under the revision that was read
/// is a conflict.
pub async fn a_lost_race_is_a_conflict<T: DeliveryStates + EndpointHealths>(tables: &T) {
    for revision in [0, 3] {
        let state = DeliveryState { revision, ..state(7) };
        let saved = DeliveryStates::save(tables, &state).await;
        assert_eq!(saved.expect("an answer"), Saved::Conflict, "revision {revision}");
    }
    let saved = EndpointHealths::save(tables, &key(), Uuid::from_u128(5), &Health::default()).await;
    assert_eq!(saved.expect("an answer"), Saved::Conflict);
}

/// In a world whose table refuses every call, by throttling or otherwise, that is an error: taken for a
/// conflict, or for an item that is not there, it would change what becomes of a delivery.
pub async fn a_table_that_refuses_says_nothing<T>(tables: &T)
where
    T: DeliveryStates + EndpointHealths + RequestRates,
{
    let saved = DeliveryStates::save(tables, &state(7)).await;
    assert!(saved.is_err(), "{saved:?}");
    let loaded = DeliveryStates::load(tables, Uuid::from_u128(7)).await;
    assert!(loaded.is_err(), "{loaded:?}");
    let uid = Uuid::from_u128(5);
    let saved = EndpointHealths::save(tables, &key(), uid, &Health::default()).await;
    assert!(saved.is_err(), "{saved:?}");
    let loaded = EndpointHealths::load(tables, &key(), uid).await;
    assert!(loaded.is_err(), "{loaded:?}");
    let counted = tables.count(uid, 1, 1).await;
    assert!(counted.is_err(), "{counted:?}");
}

/// The same of parked deliveries: one is neither stored nor removed.
pub async fn a_table_that_refuses_parks_nothing<T: ParkingLot + DueDeliveries>(tables: &T) {
    assert!(tables.park(&parked(7)).await.is_err(), "it is not stored");
    assert!(ParkingLot::remove(tables, &parked(7)).await.is_err(), "it is not removed");
    assert!(tables.remove_all(&[parked(7)]).await.is_err(), "they are not removed");
    assert!(tables.due_in(1, 0, None).await.is_err(), "what is due is not known");
}

/// Stores a dead letter.
async fn put<T: Bucket>(buckets: &T) -> Result<(), BucketError> {
    buckets.put(BUCKET, "k", &Labels::default(), b"[]".to_vec()).await
}

/// In a world without the bucket, writing says that: its events are dropped at once.
pub async fn a_missing_bucket_is_not_found<T: Bucket + DeadLetters>(buckets: &T) {
    let answer = put(buckets).await;
    assert!(matches!(answer, Err(BucketError::NotFound)), "{answer:?}");
    let answer = buckets.list(BUCKET, "p", None).await;
    assert!(matches!(answer, Err(BucketError::NotFound)), "{answer:?}");
}

/// In a world whose bucket refuses, that is worth another try, and nothing counts as stored, as
/// missing, or as deleted.
pub async fn a_bucket_that_refuses_is_unavailable<T: Bucket + DeadLetters>(buckets: &T) {
    let unavailable = |answer: Result<(), BucketError>, what: &str| {
        assert!(matches!(answer, Err(BucketError::Unavailable(_))), "{what}: {answer:?}");
    };
    unavailable(put(buckets).await, "writing");
    unavailable(buckets.list(BUCKET, "p", None).await.map(drop), "listing");
    unavailable(buckets.get(BUCKET, "k").await.map(drop), "reading");
    unavailable(buckets.delete(BUCKET, "k").await, "deleting");
}

/// In a world where the payload bucket has no such object, it is not found, and that is no error.
pub async fn an_object_that_is_not_there_is_none(payloads: &dyn Payloads) {
    assert_eq!(payloads.get("deliveries/7").await.expect("it is readable"), None);
}

/// In a world whose payload bucket refuses, reading is an error: taken for an object that is gone, its
/// events would be dropped.
pub async fn an_object_that_is_refused_is_an_error(payloads: &dyn Payloads) {
    let read: Result<_, PortError> = payloads.get("deliveries/7").await;
    assert!(read.is_err(), "{read:?}");
    assert!(payloads.put("deliveries/7", vec![1]).await.is_err(), "it is not stored");
}
