//! A message as a queue hands it over.

use std::sync::Arc;

use gridpost_core::{delivery::queue::Queue, time::Timestamp};

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
    /// When it was sent to the queue.
    pub sent_at: Timestamp,
}
