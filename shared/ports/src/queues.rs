//! Queues, their messages, and what is too large for one.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, poison::Poisoned, time::Timestamp};

use crate::PortError;

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

/// A message that was received, as a handler is given it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The queue's id of the message, named in the reply when it is to be kept.
    pub message_id: Arc<str>,
    /// What hides or deletes it.
    pub receipt: Arc<str>,
    /// Its body; dispatch empties it once the delivery has been read out of it.
    pub body: String,
    /// How often it was received, this time included. It counts deferrals and crashes too, so it
    /// only says whether a state may exist.
    pub receive_count: u32,
    /// Where it came from.
    pub queue: Queue,
    /// About when it was received: SQS counts the 12 hours of hiding from there.
    pub received_at: Timestamp,
}

impl Record {
    /// What settling it takes, without its body.
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

/// A message of a source's queue, as intake is given it.
#[derive(Clone, Debug)]
pub struct SourceMessage {
    /// The queue's id of the message, named in the reply when it is to be kept.
    pub message_id: Arc<str>,
    pub body: String,
    pub sent_at: Timestamp,
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

/// The payload bucket: events that are too large for a message, one object for each delivery, and
/// large fan-outs, one object for each publish.
#[async_trait]
pub trait Payloads: Send + Sync {
    /// Stores an object, replacing any of that name.
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError>;

    /// The object of that name, if it exists. Strongly consistent.
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError>;
}
