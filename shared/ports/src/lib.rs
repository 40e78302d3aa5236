//! What the pipeline needs of the world, as small traits.
//!
//! The crates `gridpost-aws`, `gridpost-embedded`, `gridpost-webhook` and `gridpost-runtime` implement
//! them for real, `gridpost-testkit` in virtual time. No SDK type appears here. Two things that functions share are
//! built on one port each: [`configuration`] keeps in memory what it reads, [`dead_letter_walk`] goes
//! through what a bucket holds.

pub mod configuration;
pub mod dead_letter_walk;
mod dead_letters;
mod handshake;
mod late_listeners;
mod record;
mod resources;

use std::{collections::BTreeSet, fmt, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use uuid::Uuid;

use gridpost_core::{
    delivery::{
        dead_letter::Labels, parking::Parked, queue::Queue, request::Request, state::DeliveryState,
    },
    poison::Poisoned,
    retry::{health::Health, outcome::Answer},
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, Topic},
};

pub use dead_letters::{DeadLetters, Listed, Redrives};
pub use handshake::{
    HANDSHAKE_BODY_BYTES_MAX, HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse,
};
pub use late_listeners::{LateListeners, Listener};
pub use record::Record;
pub use resources::{ResourceChecker, ResourceClient};

/// The time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Randomness.
pub trait Dice: Send + Sync {
    /// A draw from 0.0 up to, not including, 1.0.
    fn roll(&self) -> f64;

    /// An id that nobody else has.
    fn id(&self) -> Uuid;

    /// A new access key: 32 bytes that nobody can guess. The real dice ask the operating system.
    fn key(&self) -> [u8; 32];
}

/// A call to the world that did not succeed. It may have taken effect all the same.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{call} failed: {reason}")]
pub struct PortError {
    /// Which call, e.g. `sqs:SendMessage`.
    pub call: &'static str,
    /// What the service or the connection said, secrets left out.
    pub reason: String,
}

impl PortError {
    /// An error of that call.
    pub fn new(call: &'static str, reason: impl fmt::Display) -> Self {
        Self { call, reason: reason.to_string() }
    }
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The body: text that SQS takes.
    pub body: String,
    /// The fair-queue group, one for each event subscription.
    pub group: String,
    /// Not to be received sooner than after so many seconds: 0 to 900.
    pub delay_s: u32,
}

/// Puts messages into queues.
#[async_trait]
pub trait QueueSender: Send + Sync {
    /// Sends all messages, in as few calls as possible; the answers are in their order. A message
    /// whose answer is an error may have been sent all the same.
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>>;
}

/// Settles messages that were received.
#[async_trait]
pub trait QueueReceiver: Send + Sync {
    /// Hides a received message for so many seconds from now (0 to 43,200, counted by SQS from when
    /// it was received).
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

/// The poison queue, for an operator who looks into it.
#[async_trait]
pub trait PoisonQueue: Send + Sync {
    /// Receives up to ten messages, which nobody else gets for `hidden_s` seconds. None means that
    /// there are none that are not hidden: all servers of the queue were asked.
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>, PortError>;

    /// About how many messages there are, hidden ones included.
    async fn count(&self) -> Result<u64, PortError>;
}

/// How a conditional write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It was written.
    Written,
    /// Somebody else has written since it was read; nothing was changed.
    Conflict,
}

/// What is known of failing deliveries.
#[async_trait]
pub trait DeliveryStates: Send + Sync {
    /// The state of a delivery, if an attempt of it has failed. Strongly consistent.
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError>;

    /// Writes a state as revision `state.revision + 1`, if the stored one still is
    /// `state.revision` (0: there is none).
    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError>;
}

/// Finds failing deliveries.
#[async_trait]
pub trait WaitingDeliveries: Send + Sync {
    /// The first `most` deliveries of the event subscription with that uid that have failed and not
    /// ended, by their [place](DeliveryState::place); of all, or of those behind `after`. What was
    /// written in the last second may not be there yet.
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError>;

    /// How many deliveries of it have failed and not ended, as far as to `most`, and a few more.
    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError>;
}

/// What is known of endpoints' health.
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

/// How many requests were made to endpoints that allow so many in a minute.
#[async_trait]
pub trait RequestRates: Send + Sync {
    /// Counts so many more requests of the event subscription with that uid in that minute (since the
    /// Unix epoch); answers how many they are, these included. No two calls get the same numbers.
    /// One that fails may have counted: then that minute has so many requests less.
    async fn count(&self, uid: Uuid, minute: i64, requests: u64) -> Result<u64, PortError>;
}

/// Deliveries whose long wait a table holds instead of a queue.
#[async_trait]
pub trait ParkingLot: Send + Sync {
    /// Stores a delivery under its due minute. Storing it twice is the same as once.
    async fn park(&self, parked: &Parked) -> Result<(), PortError>;

    /// Removes one; none to remove is no error.
    async fn remove(&self, parked: &Parked) -> Result<(), PortError>;
}

/// The parked deliveries of one minute lie in so many partitions, each of which is read by itself.
pub const PARKED_PARTITIONS: u32 = 8;

/// Some of the parked deliveries that are due in a minute.
#[derive(Clone, Debug, Default)]
pub struct DuePage {
    /// Those that can be sent; perhaps none.
    pub due: Vec<Parked>,
    /// Behind which one the next page begins; none when this is the last one.
    pub next: Option<String>,
}

/// Takes parked deliveries out when they are due, a page at a time: there may be more than memory
/// holds.
#[async_trait]
pub trait DueDeliveries: Send + Sync {
    /// Those due in that minute (since the Unix epoch) that lie in that partition of
    /// [`PARKED_PARTITIONS`], behind `after`: as many as fit 1 MB, and at most 500. Strongly consistent.
    async fn due_in(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
    ) -> Result<DuePage, PortError>;

    /// Removes some; one that is gone already is no error. After an error some may be there still.
    async fn remove_all(&self, parked: &[Parked]) -> Result<(), PortError>;
}

/// A place in the table of parked deliveries. It means something to that table alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedCursor {
    /// The partition key.
    pub partition: String,
    /// The sort key.
    pub sort: String,
}

/// What one look at parked deliveries found.
#[derive(Clone, Debug, Default)]
pub struct ParkedPage {
    /// Parked deliveries, each with its place; perhaps none.
    pub found: Vec<(ParkedCursor, Parked)>,
    /// Behind which place the next look begins; none when all have been looked at.
    pub next: Option<ParkedCursor>,
}

/// Parked deliveries, for an operator who looks through all of them.
#[async_trait]
pub trait ParkedDeliveries: Send + Sync {
    /// Some of those behind a place, in no order that means anything.
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError>;

    /// The one of that delivery that is due in that minute (since the Unix epoch), if there is one.
    /// Strongly consistent.
    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError>;
}

/// How far wake has come.
#[async_trait]
pub trait WakeCursor: Send + Sync {
    /// The first minute (since the Unix epoch) whose parked deliveries may not all have been sent.
    async fn load(&self) -> Result<Option<i64>, PortError>;

    /// Notes that minute.
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

    /// Those of a topic's event subscriptions that are named, or all, each with the number of the
    /// topic's revision at which it was written. Each is strongly consistent by itself: a change that
    /// is being written may be seen in some and not yet in others.
    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError>;
}

/// The access keys of topics, for those who authenticate publishers. Nothing else may read them.
#[async_trait]
pub trait TopicKeys: Send + Sync {
    /// A topic's access keys, with the number of the topic's revision at which they were written.
    /// Strongly consistent.
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError>;
}

/// The stored topics, as the resource API writes them.
///
/// A topic's revision moves with every change of the topic or of one of its event subscriptions,
/// and every write names the revision it was decided on: what was decided on something that has
/// changed since is not written.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// The first `most` topics by name, of all or of those behind the name `after`. Strongly
    /// consistent.
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError>;

    /// Writes a topic as revision `topic.revision + 1`, if the stored one still is
    /// `topic.revision` (0: there is none), and access keys with it where there are some: a new topic
    /// has some.
    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError>;

    /// Deletes a topic with its access keys, if the stored one still is `topic.revision`. Its event subscriptions must
    /// have been deleted before.
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

    /// Writes an event subscription, new or in the place of the one of that name.
    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError>;

    /// Deletes event subscriptions of the topic by name, at most [`DELETED_AT_ONCE_MAX`]. One that
    /// is gone already counts as deleted.
    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError>;
}

/// Most event subscriptions that one call deletes: a DynamoDB transaction takes 100 items, and one
/// of them is the topic.
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
    /// Anything else; worth another try.
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
    /// Stores an object, in the place of the one of that name.
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError>;

    /// The object of that name, if there is one. Strongly consistent.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError>;
}

/// What an attempt came to.
pub enum Attempted {
    /// It is over.
    Answered {
        /// What came of it.
        answer: Answer,
        /// How a failed response began, escaped, where that is kept.
        said: Option<String>,
    },
    /// No response head within [`RESPONSE_WAIT`]. The connection is kept: the future resolves to
    /// what came late, or to `None` when nothing did within [`LATE_RESPONSE_WAIT`] of sending.
    TimedOut {
        /// Resolves to the late answer.
        late: BoxFuture<'static, Option<Answer>>,
    },
}

impl From<Answer> for Attempted {
    fn from(answer: Answer) -> Self {
        Self::Answered { answer, said: None }
    }
}

/// Sends requests to endpoints.
#[async_trait]
pub trait EndpointClient: Send + Sync {
    /// Makes one attempt. It never fails: whatever goes wrong is the answer's outcome.
    async fn attempt(&self, request: Request) -> Attempted;
}

/// Counts what happens. Names are Event Grid's.
pub trait Meter: Send + Sync {
    /// Adds `by` to a counter.
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64);

    /// Notes how long something took.
    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration);

    /// Adds `by` events to a counter of the [ledger](gridpost_core::ledger): it is kept apart for the hour in
    /// which they were published.
    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    );

    /// Adds `by` events that were delivered so long after their publish to
    /// [`DELIVERY_SUCCESS_COUNT`](gridpost_core::metric::DELIVERY_SUCCESS_COUNT), in the same way.
    fn count_delivered(
        &self,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        took: Duration,
        by: u64,
    );

    /// Writes out what was counted since the last time. What a function has not written when it dies
    /// was not counted, so it writes before it lets records go.
    fn flush(&self, now: Timestamp);
}
