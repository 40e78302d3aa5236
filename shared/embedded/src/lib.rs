//! The ports on SQLite and plain files: a whole deployment in one process on one machine.
//!
//! [`Embedded`] has one view for each kind of store, ready for the handlers' contexts. It follows
//! the rules of SQS, DynamoDB and S3 as far as the handlers rely on them; the differences:
//!
//! - An answered write is in the database: it survives the end of the process at any instant, and
//!   with [`Sync::Full`] the loss of power. Writes that wait at the same time are committed together.
//! - A receive writes nothing. What was received when the process ended is visible at once when the
//!   folder is opened again, since no other process can hold it: it may be handed over a second time,
//!   and is never lost. What was hidden to wait goes on waiting.
//! - A queue keeps its messages until they are deleted, however long that takes.
//!
//! All time comes from the [`Clock`] it is opened with.

mod database;
mod expiry;
mod letters;
mod options;
mod payloads;
mod queues;
mod tables;

use std::sync::Arc;

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{Clock, PortError};

use database::{Database, Prepared};
pub use letters::Letters;
pub use options::{OpenError, Options, Sync, Visibility};
pub use payloads::PayloadStore;
pub use queues::{InFlightBatch, Queues, Received};
pub use tables::Tables;

/// All stores of one deployment. Cheap to clone.
#[derive(Clone)]
pub struct Embedded {
    queues: Arc<Queues>,
    tables: Arc<Tables>,
    letters: Arc<Letters>,
    payloads: Arc<PayloadStore>,
    database: Arc<Database>,
}

/// Locked stores that wait for their clock, which may continue from the time they have saved.
pub struct Waiting {
    options: Options,
    prepared: Prepared,
}

impl Waiting {
    /// The latest time that the last process saved, at most a second before its last write.
    pub fn last_seen(&self) -> Option<Timestamp> {
        self.prepared.last_seen
    }

    /// Opens them.
    pub fn open(self, clock: Arc<dyn Clock>) -> Result<Embedded, OpenError> {
        let Self { options, prepared } = self;
        let database = Arc::new(Database::open(prepared, Arc::clone(&clock))?);
        Ok(Embedded {
            queues: Arc::new(Queues::open(&database, Arc::clone(&clock), &options)?),
            tables: Arc::new(Tables::new(Arc::clone(&database))),
            letters: Arc::new(Letters::new(Arc::clone(&database), Arc::clone(&clock), &options)),
            payloads: Arc::new(PayloadStore { database: Arc::clone(&database), clock }),
            database,
        })
    }
}

impl Embedded {
    /// Locks the folder, creating it if necessary, before there is a clock for it.
    pub fn prepare(options: Options) -> Result<Waiting, OpenError> {
        let prepared = Prepared::of(&options)?;
        Ok(Waiting { options, prepared })
    }

    /// Opens the folder, creating it if necessary; without one, everything is kept in memory and
    /// lost at the end.
    pub fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Self::prepare(options)?.open(clock)
    }

    /// Closes stores in memory and opens their data again, as a new process opens its folder. Dead
    /// letters are lost. For simulations, which can't wait for a disk.
    #[doc(hidden)]
    pub fn open_again(&self, options: Options, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Waiting { options, prepared: self.database.hand_on()? }.open(clock)
    }

    /// The latest time that the folder's last process saved, to the second.
    pub fn last_seen(&self) -> Option<Timestamp> {
        self.database.last_seen
    }

    /// How many commits were made since it was opened.
    pub fn commits(&self) -> u64 {
        self.database.commits()
    }

    /// The queues: `QueueSender`, `QueueReceiver`, `PoisonQueue`.
    pub fn queues(&self) -> Arc<Queues> {
        Arc::clone(&self.queues)
    }

    /// The tables: `DeliveryStates`, `WaitingDeliveries`, `EndpointHealths`, `RequestRates`,
    /// `ParkingLot`, `DueDeliveries`, `ParkedDeliveries`, `WakeCursor`, `Configuration`, `TopicKeys`,
    /// `TopicStore`, `SubscriptionStore`, `LateListeners`, `Redrives`, `PublishRecords`.
    pub fn tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables)
    }

    /// The dead letters: `Bucket`, `DeadLetters`.
    pub fn letters(&self) -> Arc<Letters> {
        Arc::clone(&self.letters)
    }

    /// The payload bucket: `Payloads`.
    pub fn payloads(&self) -> Arc<PayloadStore> {
        Arc::clone(&self.payloads)
    }

    /// Receives up to `most` visible messages, the longest-waiting first. Each is hidden for its
    /// queue's visibility timeout; one that was received too often goes to the poison queue
    /// instead.
    pub async fn receive(&self, queue: Queue, most: usize) -> Result<Vec<Received>, PortError> {
        self.queues.receive(queue, most).await
    }

    /// Records a batch as in flight until the returned value is dropped. If the process crashes before,
    /// the next one knows which messages it was working on.
    pub fn record_in_flight(&self, batch: &[Received]) -> InFlightBatch {
        self.queues.record_in_flight(batch)
    }

    /// Finds the messages that crash the process and moves them to the poison queue. Until this is
    /// called, messages that were in flight at a crash are withheld. Returns after about a minute.
    pub async fn isolate_crash_suspects(&self) {
        self.queues.isolate_crash_suspects().await;
    }

    /// Deletes received messages, as `QueueReceiver` does. One that is gone counts as deleted.
    pub async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        gridpost_ports::QueueReceiver::delete(&*self.queues, queue, receipts).await
    }

    /// When the next message of the queue is visible, which may be in the past; `None` when it holds
    /// nothing.
    pub async fn next_visible(&self, queue: Queue) -> Result<Option<Timestamp>, PortError> {
        self.queues.next_visible(queue)
    }

    /// Resolves when a message was sent to the queue, or a hidden one's time was changed, since the
    /// last await. Each such event wakes one waiter.
    pub async fn arrived(&self, queue: Queue) {
        self.queues.arrived(queue).await;
    }

    /// Finishes the writes that wait, and closes the database. Every later call fails.
    pub async fn close(&self) {
        let database = Arc::clone(&self.database);
        // Wait for the writing thread.
        if tokio::task::spawn_blocking(move || database.close()).await.is_err() {
            tracing::error!("closing the database panicked");
        }
    }
}
