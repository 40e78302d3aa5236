//! Queues.

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, poison::Poisoned, time::Timestamp};
use gridpost_ports::{Outgoing, PoisonQueue, PortError, QueueReceiver, QueueSender};

/// A message as it was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its id, which no other message of the deployment ever has.
    pub message_id: String,
    /// What hides or deletes it, until it is received again.
    pub receipt: String,
    /// How often it was received, this time included.
    pub receives: u32,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// Its fair-queue group.
    pub group: String,
    /// Its body.
    pub body: String,
}

/// All queues of the deployment.
pub struct Queues {}

fn unbuilt() -> PortError {
    PortError::new("queue", "it is not built yet")
}

impl Queues {
    pub(crate) async fn receive(
        &self,
        _queue: Queue,
        _most: usize,
    ) -> Result<Vec<Received>, PortError> {
        Err(unbuilt())
    }

    pub(crate) fn next_visible(&self, _queue: Queue) -> Result<Option<Timestamp>, PortError> {
        Err(unbuilt())
    }

    pub(crate) async fn arrived(&self, _queue: Queue) {}
}

#[async_trait]
impl QueueSender for Queues {
    async fn send(&self, _queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        messages.iter().map(|_| Err(unbuilt())).collect()
    }
}

#[async_trait]
impl QueueReceiver for Queues {
    async fn hide(&self, _queue: Queue, _receipt: &str, _seconds: u32) -> Result<(), PortError> {
        Err(unbuilt())
    }

    async fn delete(&self, _queue: Queue, _receipts: Vec<String>) -> Result<(), PortError> {
        Err(unbuilt())
    }

    async fn in_flight(&self, _queue: Queue) -> Result<u64, PortError> {
        Err(unbuilt())
    }

    async fn backlog(&self, _queue: Queue) -> Result<u64, PortError> {
        Err(unbuilt())
    }

    async fn visible(&self, _queue: Queue) -> Result<u64, PortError> {
        Err(unbuilt())
    }
}

#[async_trait]
impl PoisonQueue for Queues {
    async fn receive(&self, _hidden_s: u32) -> Result<Vec<Poisoned>, PortError> {
        Err(unbuilt())
    }

    async fn count(&self) -> Result<u64, PortError> {
        Err(unbuilt())
    }
}
