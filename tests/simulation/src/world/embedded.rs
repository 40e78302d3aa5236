//! The stores of one machine, in memory, instead of the fakes: the same handlers, crashes and
//! failing calls, on SQLite.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_embedded::{Embedded, JournalStore, Options, Tables, Visibility};
use gridpost_ports::{Clock, Outgoing, PortError, QueueReceiver, QueueSender};
use gridpost_testkit::{
    clock::VirtualClock,
    queue::QueueSettings,
    stores::{Handed, MessageStores},
};

/// The stores of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stores {
    /// The fakes, which do what SQS and DynamoDB may do.
    #[default]
    Fakes,
    /// The stores of one machine. Their queues ignore faults such as duplicates, late messages and
    /// poison.
    Embedded,
}

/// The stores of the current process, which serve as the queues of the fakes.
pub(super) struct EmbeddedStores {
    options: Options,
    clock: VirtualClock,
    opened: Mutex<Embedded>,
}

impl EmbeddedStores {
    /// An attempt takes real time, so the visibility timeout is real too.
    pub(super) fn open(settings: &QueueSettings, clock: VirtualClock) -> Self {
        let options = Options {
            retry_queues: settings.retry_shards,
            visibility: Visibility {
                delivery: clock.pace().to_clock(settings.visibility),
                dead_letter: clock.pace().to_clock(settings.dead_letter_visibility),
                fan_out: clock.pace().to_clock(settings.fan_out_visibility),
                redrive: clock.pace().to_clock(settings.redrive_visibility),
            },
            message_bytes_max: settings.message_bytes_max,
            ..Options::default()
        };
        let opened = Embedded::open(options.clone(), Arc::new(clock)).expect("memory takes it");
        Self { options, clock, opened: Mutex::new(opened) }
    }

    /// Closes the stores and opens their data again, as the next process does.
    pub(super) fn open_again(&self) {
        let mut opened = self.opened.lock().expect("no panic while held");
        let next = opened.open_again(self.options.clone(), Arc::new(self.clock));
        *opened = next.expect("memory is there");
    }

    pub(super) fn tables(&self) -> Arc<Tables> {
        self.now().tables()
    }

    /// Returns the journal of the current process.
    pub(super) fn journal(&self) -> Arc<JournalStore> {
        self.now().journal()
    }

    fn now(&self) -> Embedded {
        self.opened.lock().expect("no panic while held").clone()
    }
}

#[async_trait]
impl QueueSender for EmbeddedStores {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        self.now().queues().send(queue, messages).await
    }
}

#[async_trait]
impl QueueReceiver for EmbeddedStores {
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        self.now().queues().hide(queue, receipt, seconds).await
    }

    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        self.now().delete(queue, receipts).await
    }

    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError> {
        self.now().queues().in_flight(queue).await
    }

    async fn backlog(&self, queue: Queue) -> Result<u64, PortError> {
        self.now().queues().backlog(queue).await
    }

    async fn visible(&self, queue: Queue) -> Result<u64, PortError> {
        self.now().queues().visible(queue).await
    }
}

#[async_trait]
impl MessageStores for EmbeddedStores {
    async fn receive(&self, queue: Queue, most: usize) -> Result<Vec<Handed>, PortError> {
        let received = self.now().receive(queue, most).await?;
        let handed = received.into_iter().map(|message| Handed {
            message_id: message.message_id,
            receipt: message.receipt,
            body: message.body,
            count: message.receives,
        });
        Ok(handed.collect())
    }

    async fn next_visible(&self, queue: Queue) -> Result<Option<Timestamp>, PortError> {
        self.now().next_visible(queue).await
    }
}
