//! The stores of one machine, in memory, instead of the fakes: the same handlers, crashes and
//! failing calls, on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_embedded::{Embedded, Options, Visibility};
use gridpost_ports::{Outgoing, PortError, QueueReceiver, QueueSender};
use gridpost_testkit::{
    clock::VirtualClock,
    queue::QueueSettings,
    stores::{Handed, MessageStores},
};

/// Which stores a world has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stores {
    /// Those of the fakes, which do what SQS and DynamoDB may do.
    #[default]
    Fakes,
    /// Those of one machine. Their queues ignore faults such as duplicates, late messages and
    /// poison.
    Embedded,
}

pub(super) fn open(settings: &QueueSettings, clock: VirtualClock) -> Embedded {
    let options = Options {
        retry_queues: settings.retry_shards,
        visibility: Visibility {
            delivery: settings.visibility,
            dead_letter: settings.dead_letter_visibility,
            fan_out: settings.fan_out_visibility,
            redrive: settings.redrive_visibility,
        },
        message_bytes_max: settings.message_bytes_max,
        ..Options::default()
    };
    Embedded::open(options, Arc::new(clock)).expect("memory takes it")
}

/// Their queues.
pub(super) struct EmbeddedQueues(pub(super) Embedded);

#[async_trait]
impl QueueSender for EmbeddedQueues {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        self.0.queues().send(queue, messages).await
    }
}

#[async_trait]
impl QueueReceiver for EmbeddedQueues {
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        self.0.queues().hide(queue, receipt, seconds).await
    }

    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        self.0.delete(queue, receipts).await
    }

    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError> {
        self.0.queues().in_flight(queue).await
    }

    async fn backlog(&self, queue: Queue) -> Result<u64, PortError> {
        self.0.queues().backlog(queue).await
    }

    async fn visible(&self, queue: Queue) -> Result<u64, PortError> {
        self.0.queues().visible(queue).await
    }
}

#[async_trait]
impl MessageStores for EmbeddedQueues {
    async fn receive(&self, queue: Queue, most: usize) -> Result<Vec<Handed>, PortError> {
        let received = self.0.receive(queue, most).await?;
        let handed = received.into_iter().map(|message| Handed {
            message_id: message.message_id,
            receipt: message.receipt,
            body: message.body,
            count: message.receives,
        });
        Ok(handed.collect())
    }

    async fn next_visible(&self, queue: Queue) -> Result<Option<Timestamp>, PortError> {
        self.0.next_visible(queue).await
    }
}
