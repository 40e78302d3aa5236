//! Queues, their messages, and payloads that are too large for one.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, journal::Count, poison::Poisoned, time::Timestamp};

use crate::Result;

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Text that SQS accepts.
    pub body: String,
    /// The fair-queue group, one for each event subscription.
    pub group: String,
    /// Seconds until it may be received: 0 to 900.
    pub delay_s: u32,
    /// Counts that take effect if it is sent. SQS ignores them: see [`Journal::count_sent`](crate::Journal).
    pub counts: Vec<Count>,
}

impl Outgoing {
    /// Makes a message that counts nothing.
    pub fn new(body: String, group: String, delay_s: u32) -> Self {
        Self { body, group, delay_s, counts: Vec::new() }
    }

    #[must_use]
    pub fn counting(self, counts: Vec<Count>) -> Self {
        Self { counts, ..self }
    }
}

/// Puts messages into queues.
#[async_trait]
pub trait QueueSender: Send + Sync {
    /// Sends all messages in as few calls as possible; results are in their order. A message whose
    /// result is an error may have been sent all the same.
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<()>>;
}

/// A received message.
#[derive(Clone, Debug)]
pub struct Record {
    /// Named in the reply if the message is to be kept.
    pub message_id: Arc<str>,
    pub receipt: Arc<str>,
    /// Dispatch empties it once it has read the delivery.
    pub body: String,
    /// Receives, this one included. Deferrals and crashes count too, so it only says whether a
    /// state may exist.
    pub receive_count: u32,
    pub queue: Queue,
    /// Approximate; SQS counts the 12 hours of hiding from the receive.
    pub received_at: Timestamp,
}

impl Record {
    /// Copies what settling needs.
    #[must_use]
    pub fn without_body(&self) -> Self {
        Self {
            message_id: Arc::clone(&self.message_id),
            receipt: Arc::clone(&self.receipt),
            body: String::new(),
            ..*self
        }
    }
}

/// A message of a source's queue.
#[derive(Clone, Debug)]
pub struct SourceMessage {
    /// Named in the reply if the message is to be kept.
    pub message_id: Arc<str>,
    pub body: String,
    pub sent_at: Timestamp,
}

/// Settles messages that were received.
#[async_trait]
pub trait QueueReceiver: Send + Sync {
    /// Hides a message for `seconds` from now; SQS allows 43,200 since it was received.
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<()>;

    /// Deletes messages. Missing ones count as deleted.
    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<()>;

    /// Counts, approximately, the messages that are received and not deleted.
    async fn in_flight(&self, queue: Queue) -> Result<u64>;

    /// Counts, approximately, all messages: in flight, delayed and visible.
    async fn backlog(&self, queue: Queue) -> Result<u64>;

    /// Counts, approximately, the messages that can be received now.
    async fn visible(&self, queue: Queue) -> Result<u64>;
}

/// The poison queue, for operators.
#[async_trait]
pub trait PoisonQueue: Send + Sync {
    /// Receives up to ten messages and hides them for `hidden_s` seconds. Asks all servers of the
    /// queue, so an empty list means that none is visible.
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>>;

    /// Counts messages, approximately, hidden ones included.
    async fn count(&self) -> Result<u64>;
}

/// The bucket of events too large for a message (an object for each delivery) and of large fan-outs
/// (an object for each publish).
#[async_trait]
pub trait Payloads: Send + Sync {
    /// Stores an object, replacing any of that name.
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<()>;

    /// Reads an object, if it exists. Strongly consistent.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;
}
