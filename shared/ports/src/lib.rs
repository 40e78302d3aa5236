//! The ports of the pipeline: what it needs of the world, as small traits.
//!
//! The crates `gridpost-aws`, `gridpost-embedded`, `gridpost-webhook` and `gridpost-runtime`
//! implement them for real, `gridpost-testkit` in virtual time. No SDK type appears here. Three tools
//! that functions share use only ports: [`configuration`] caches what it reads, [`dead_letter_walk`]
//! walks through a bucket, [`authentication`] has the tokens of requests to endpoints.

mod attempted;
pub mod authentication;
pub mod configuration;
pub mod dead_letter_walk;
mod dead_letters;
pub mod guard;
mod handshake;
mod late_listeners;
mod publish_records;
mod record;
mod resources;
mod waiting;

use std::{collections::BTreeSet, fmt, time::Duration};

use async_trait::async_trait;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use gridpost_core::{
    delivery::{
        dead_letter::Labels, parking::Parked, probe::Stage, queue::Queue, request::Request,
        state::DeliveryState,
    },
    poison::Poisoned,
    retry::health::Health,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, Topic},
};

pub use attempted::{Attempted, Probed};
pub use dead_letters::{DeadLetters, Listed, Redrives};
pub use handshake::{
    HANDSHAKE_BODY_BYTES_MAX, HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse,
};
pub use late_listeners::{LateListeners, Listener};
pub use publish_records::{Kept, PublishRecords};
pub use record::{Record, SourceMessage};
pub use resources::{ResourceChecker, ResourceClient};
pub use waiting::{WaitingCount, WaitingTally};

/// The time.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// Randomness.
pub trait Dice: Send + Sync {
    /// A draw from 0.0 up to, not including, 1.0.
    fn roll(&self) -> f64;

    /// A unique id.
    fn id(&self) -> Uuid;

    /// A new access key: 32 unguessable bytes. The real dice use the operating system's.
    fn key(&self) -> [u8; 32];
}

/// A failed call. It may have taken effect all the same.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{call} failed: {reason}")]
pub struct PortError {
    /// The call, e.g. `sqs:SendMessage`.
    pub call: &'static str,
    /// The error of the service or the connection, without secrets.
    pub reason: String,
}

impl PortError {
    pub fn new(call: &'static str, reason: impl fmt::Display) -> Self {
        Self { call, reason: reason.to_string() }
    }
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The body: text that SQS accepts.
    pub body: String,
    /// The fair-queue group, one for each event subscription.
    pub group: String,
    /// How many seconds it must not be received: 0 to 900.
    pub delay_s: u32,
}

/// Puts messages into queues.
#[async_trait]
pub trait QueueSender: Send + Sync {
    /// Sends all messages in as few calls as possible; results are in their order. A message whose
    /// result is an error may have been sent all the same.
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>>;
}

/// Settles messages that were received.
#[async_trait]
pub trait QueueReceiver: Send + Sync {
    /// Hides a received message for `seconds` from now (0 to 43,200, counted by SQS from when it
    /// was received).
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError>;

    /// Deletes received messages. One that is gone already counts as deleted.
    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError>;

    /// About how many messages of the queue are received and not deleted (in flight).
    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError>;

    /// About how many messages the queue holds: those in flight, those that are delayed, and those that
    /// wait to be received now.
    async fn backlog(&self, queue: Queue) -> Result<u64, PortError>;

    /// About how many messages of the queue wait to be received now.
    async fn visible(&self, queue: Queue) -> Result<u64, PortError>;
}

/// The poison queue, for operators.
#[async_trait]
pub trait PoisonQueue: Send + Sync {
    /// Receives up to ten messages and hides them from others for `hidden_s` seconds. An empty list
    /// means that there are no visible ones: all servers of the queue were asked.
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>, PortError>;

    /// About how many messages there are, hidden ones included.
    async fn count(&self) -> Result<u64, PortError>;
}

/// The result of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    Written,
    /// Another write came since it was read; nothing was changed.
    Conflict,
}

/// The states of failing deliveries.
#[async_trait]
pub trait DeliveryStates: Send + Sync {
    /// The state of a delivery, if an attempt has failed. Strongly consistent.
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError>;

    /// Writes a state as revision `state.revision + 1`, if the stored one still is
    /// `state.revision` (0: there is none).
    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError>;
}

/// Finds failing deliveries.
#[async_trait]
pub trait WaitingDeliveries: Send + Sync {
    /// The first `most` deliveries of this event subscription that have failed and not ended, by
    /// their [place](DeliveryState::place), from the start or after `after`. What was written in
    /// the last second may be missing.
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError>;

    /// How many deliveries of it have failed and not ended, counted up to about `most`.
    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError>;

    /// Counts at most `most` of them by the hour of their publish, from the start or after the
    /// place `after`, without giving them out. [`WaitingTally::next`], followed to its end, counts
    /// each once.
    async fn tally(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<WaitingTally, PortError>;
}

/// The health of endpoints.
#[async_trait]
pub trait EndpointHealths: Send + Sync {
    /// The health of a subscription's endpoint; healthy if nothing is stored.
    async fn load(&self, key: &SubscriptionKey, uid: Uuid) -> Result<Health, PortError>;

    /// Writes a health as revision `health.revision + 1`, if the stored one still is
    /// `health.revision` (0: there is none).
    async fn save(
        &self,
        key: &SubscriptionKey,
        uid: Uuid,
        health: &Health,
    ) -> Result<Saved, PortError>;
}

/// Counts requests to endpoints that limit them per minute.
#[async_trait]
pub trait RequestRates: Send + Sync {
    /// Counts `requests` more for this event subscription in that minute (since the Unix epoch).
    /// Returns the total, these included. No two calls get the same numbers. A failed call may have
    /// counted: then fewer requests can be made in that minute.
    async fn count(&self, uid: Uuid, minute: i64, requests: u64) -> Result<u64, PortError>;
}

/// Parks deliveries: a table holds their long wait instead of a queue.
#[async_trait]
pub trait ParkingLot: Send + Sync {
    /// Stores a delivery under its due minute. Storing it twice is the same as once.
    async fn park(&self, parked: &Parked) -> Result<(), PortError>;

    /// Removes one, if it exists.
    async fn remove(&self, parked: &Parked) -> Result<(), PortError>;
}

/// The number of partitions of the parked deliveries of one minute, each of which is read by
/// itself.
pub const PARKED_PARTITIONS: u32 = 8;

/// The partition of its minute for a parked delivery. Spreading them keeps a minute within what one
/// partition takes: 1,000 writes per second. Source: Amazon DynamoDB developer guide, partition
/// limits.
pub fn parked_partition(id: Uuid) -> u32 {
    u32::try_from(id.as_u128() % u128::from(PARKED_PARTITIONS)).expect("below the divisor")
}

/// Some of the parked deliveries that are due in a minute.
#[derive(Clone, Debug, Default)]
pub struct DuePage {
    /// Those that can be sent; may be empty.
    pub due: Vec<Parked>,
    /// The last one of this page, after which the next begins; `None` on the last page.
    pub next: Option<String>,
}

/// Reads and removes due deliveries, a page at a time: there may be more than memory holds.
#[async_trait]
pub trait DueDeliveries: Send + Sync {
    /// Those due in that minute (since the Unix epoch) in that one of [`PARKED_PARTITIONS`], after
    /// `after`: as many as fit 1 MB, and at most 500. Strongly consistent.
    async fn due_in(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
    ) -> Result<DuePage, PortError>;

    /// The due time of the first of them, by their places: in a lot, of the one that is due first.
    async fn first_due_in(
        &self,
        minute: i64,
        partition: u32,
    ) -> Result<Option<Timestamp>, PortError> {
        let page = self.due_in(minute, partition, None).await?;
        Ok(page.due.first().map(|first| first.due))
    }

    /// Removes some; missing ones are ignored. After an error, some may still exist.
    async fn remove_all(&self, parked: &[Parked]) -> Result<(), PortError>;
}

/// A position in the table of parked deliveries, meaningful only to that table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedCursor {
    pub partition: String,
    pub sort: String,
}

/// A page of all parked deliveries.
#[derive(Clone, Debug, Default)]
pub struct ParkedPage {
    /// Parked deliveries, each with its position; may be empty.
    pub found: Vec<(ParkedCursor, Parked)>,
    /// The position after which the next page begins; `None` on the last page.
    pub next: Option<ParkedCursor>,
}

/// Parked deliveries, for operators.
#[async_trait]
pub trait ParkedDeliveries: Send + Sync {
    /// A page of those after a position, in arbitrary order.
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError>;

    /// The parked delivery with that id and due minute (since the Unix epoch), if it exists.
    /// Strongly consistent.
    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError>;
}

/// How far wake has come.
#[async_trait]
pub trait WakeCursor: Send + Sync {
    /// The first minute (since the Unix epoch) whose parked deliveries may not all have been sent.
    async fn load(&self) -> Result<Option<i64>, PortError>;

    async fn save(&self, minute: i64) -> Result<(), PortError>;
}

/// The stored topics and event subscriptions, as the data plane reads them.
#[async_trait]
pub trait Configuration: Send + Sync {
    /// The topic of that name. Strongly consistent.
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError>;

    /// All event subscriptions of a topic, in the order of their names. Strongly consistent.
    async fn subscriptions(&self, topic: &str) -> Result<Vec<EventSubscription>, PortError> {
        Ok(self.written(topic, None).await?.into_iter().map(|(one, _)| one).collect())
    }

    /// The named event subscriptions of a topic, or all, each with the number of the topic's
    /// revision at which it was written. Each is strongly consistent by itself: a change that is
    /// being written may be visible in some and not yet in others.
    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError>;
}

/// The access keys of topics, only for authenticating publishers.
#[async_trait]
pub trait TopicKeys: Send + Sync {
    /// A topic's access keys, with the number of the topic's revision at which they were written.
    /// Strongly consistent.
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError>;
}

/// The stored topics, as the resource API writes them.
///
/// A topic's revision moves with every change of the topic or of one of its event subscriptions.
/// Every write names the revision that it is based on, and fails if that has changed since.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// The first `most` topics by name, from the start or after the name `after`. Strongly
    /// consistent.
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError>;

    /// Writes a topic as revision `topic.revision + 1`, if the stored one still is `topic.revision`
    /// (0: there is none), together with access keys if given; a new topic needs some.
    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError>;

    /// Deletes a topic with its access keys, if the stored one still is `topic.revision`. Its event
    /// subscriptions must have been deleted before.
    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError>;
}

/// The stored event subscriptions, as the resource API writes them. Every write moves the topic to
/// revision `topic.revision + 1` in the same transaction, if it still is `topic.revision`.
#[async_trait]
pub trait SubscriptionStore: Send + Sync {
    /// One event subscription. Strongly consistent.
    async fn subscription(
        &self,
        key: &SubscriptionKey,
    ) -> Result<Option<EventSubscription>, PortError>;

    /// Creates or replaces an event subscription.
    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError>;

    /// Deletes event subscriptions of the topic by name, at most [`DELETED_AT_ONCE_MAX`]. Missing
    /// ones count as deleted.
    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError>;
}

/// Most event subscriptions that one call deletes: a DynamoDB transaction has at most 100 items,
/// one of which is the topic.
pub const DELETED_AT_ONCE_MAX: usize = 99;

#[async_trait]
impl<T: Configuration + ?Sized> Configuration for std::sync::Arc<T> {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        (**self).topic(name).await
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        (**self).written(topic, names).await
    }
}

/// Why an object was not stored.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// There is no such bucket.
    #[error("the bucket does not exist")]
    NotFound,
    /// This object alone, until its owner does something: it is archived, or its key is disabled.
    #[error(transparent)]
    Unreadable(PortError),
    /// Any other failure; a retry may succeed.
    #[error(transparent)]
    Unavailable(#[from] PortError),
}

/// Where dead letters are kept.
#[async_trait]
pub trait Bucket: Send + Sync {
    /// Stores a JSON object with its labels under that key, whole or not at all.
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        labels: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError>;
}

/// The payload bucket: events that are too large for a message, one object for each delivery, and
/// large fan-outs, one object for each publish.
#[async_trait]
pub trait Payloads: Send + Sync {
    /// Stores an object, replacing any of that name.
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError>;

    /// The object of that name, if it exists. Strongly consistent.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError>;
}

/// Sends requests to endpoints.
#[async_trait]
pub trait EndpointClient: Send + Sync {
    /// Makes one attempt. It never fails: any error is the answer's outcome.
    async fn attempt(&self, request: Request) -> Attempted;

    /// Makes one that also finds out what fails. What is not done by `until` has failed there.
    async fn probe(&self, request: Request, until: Instant) -> Probed {
        let began_at = Instant::now();
        match timeout_at(until, self.attempt(request)).await {
            Ok(attempted) => attempted.into(),
            Err(_) => Probed::late(Stage::Answer, began_at),
        }
    }
}

/// Writes metrics, under Event Grid's names.
pub trait Meter: Send + Sync {
    /// Adds `by` to a counter.
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64);

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration);

    /// Adds `by` events to a counter of the [ledger](gridpost_core::ledger), which is kept per hour
    /// of publish.
    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    );

    /// Adds `by` events, delivered this long after their publish, to
    /// [`DELIVERY_SUCCESS_COUNT`](gridpost_core::metric::DELIVERY_SUCCESS_COUNT), in the same way.
    fn count_delivered(
        &self,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        took: Duration,
        by: u64,
    );

    /// Writes out everything counted since the last flush. Unflushed counts are lost when the
    /// function dies, so it flushes before it deletes records.
    fn flush(&self, now: Timestamp);
}
