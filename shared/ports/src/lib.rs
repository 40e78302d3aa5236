//! The pipeline's ports: small traits for everything outside it. No SDK type appears here.
//!
//! `gridpost-aws`, `gridpost-embedded`, `gridpost-webhook` and `gridpost-runtime` implement them,
//! `gridpost-testkit` in virtual time. Three modules use only ports: [`configuration`] caches what
//! it reads, [`dead_letter_walk`] lists a bucket, [`authentication`] keeps tokens for endpoints.
//! [`authentication`] has the tokens of requests to endpoints.

pub mod authentication;
pub mod configuration;
pub mod dead_letter_walk;
mod dead_letters;
mod deliveries;
mod endpoints;
pub mod guard;
pub mod journal;
pub mod log_store;
mod parking;
mod place_wait;
mod queues;
mod secrets;
mod topics;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    publish::idempotency::{Record as PublishRecord, RecordKey},
    time::{Pace, Timestamp},
};
use uuid::Uuid;

pub use dead_letters::{Bucket, BucketError, DeadLetters, Listed, Redrives};
pub use deliveries::{
    DeliveryStates, EndpointHealths, LateListeners, Listener, RequestRates, WaitingCount,
    WaitingDeliveries, WaitingTally,
};
pub use endpoints::{
    Attempted, EndpointClient, HANDSHAKE_BODY_BYTES_MAX, HandshakeClient, HandshakeError,
    HandshakeRequest, HandshakeResponse, Probed, ResourceChecker, ResourceClient,
};
pub use journal::{Journal, JournalError, JournalReader, JournalReply, Progress, Reads};
pub use parking::{
    DueDeliveries, DuePage, PARKED_PARTITIONS, ParkedCursor, ParkedDeliveries, ParkedPage,
    ParkingLot, WakeCursor, parked_partition,
};
pub use place_wait::PlaceWait;
pub use queues::{
    Outgoing, Payloads, PoisonQueue, QueueReceiver, QueueSender, Record, SourceMessage,
};
pub use secrets::{SubscriptionSecrets, WithSecrets, WrittenSecrets};
pub use topics::{Configuration, DELETED_AT_ONCE_MAX, SubscriptionStore, TopicKeys, TopicStore};

/// The time.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Returns the machine's time, which differs only from a clock that runs fast. Use it for what
    /// others check: signatures, SAS tokens, certificates, dates in responses.
    fn machine(&self) -> Timestamp {
        self.now()
    }

    fn pace(&self) -> Pace {
        Pace::REAL
    }

    /// Returns the time it will show when `real` has passed.
    fn after(&self, real: Duration) -> Timestamp {
        self.now() + self.pace().to_clock(real)
    }

    /// Returns the real duration until then, or zero if it has passed.
    fn left(&self, until: Timestamp) -> Duration {
        self.pace().to_real(until.since(self.now()))
    }
}

/// Randomness.
pub trait Dice: Send + Sync {
    /// Draws from 0.0 up to, not including, 1.0.
    fn roll(&self) -> f64;

    fn id(&self) -> Uuid;

    /// Makes an access key: 32 unguessable bytes. The real dice use the operating system's.
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

/// The result of a call.
pub type Result<T, E = PortError> = std::result::Result<T, E>;

/// The result of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    Written,
    /// Another write came first; nothing was changed.
    Conflict,
}

/// The result of writing a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Written,
    /// Nothing was changed; the record that is stored, if any.
    Other(Option<PublishRecord>),
}

/// The records of publishes that came with a key.
#[async_trait]
pub trait PublishRecords: Send + Sync {
    /// Writes a record as revision `record.revision + 1`, if the stored one still is
    /// `record.revision` (0: there is none).
    async fn save(&self, key: &RecordKey, record: &PublishRecord) -> Result<Kept>;
}

/// Writes metrics, under Event Grid's names.
pub trait Meter: Send + Sync {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64);

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration);

    /// Writes out everything counted since the last flush. Unflushed counts are lost when the
    /// function dies, so it flushes before it deletes records.
    fn flush(&self, now: Timestamp);
}
