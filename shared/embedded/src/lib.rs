//! The ports on SQLite and plain files: a whole deployment in one process on one machine.
//!
//! It follows the rules of SQS, DynamoDB and S3 as far as the handlers rely on them, except:
//!
//! - An answered write survives the end of the process at any instant, and with [`Sync::Full`] the loss
//!   of power. Writes that wait at the same time are committed together.
//! - A receive writes nothing. Messages that were in flight when the process ended are visible at once
//!   when the folder is opened again, as no other process can hold them. Hidden ones stay hidden.
//! - A queue keeps messages until they are deleted.

mod database;
mod expiry;
mod form;
mod journal;
mod journal_store;
mod leases;
mod letters;
mod named;
mod options;
mod payloads;
mod queues;
mod room;
mod seal;
mod tables;

use std::sync::Arc;

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{Clock, PortError};

use database::{Database, OnFullDisk, Prepared};
pub use journal_store::JournalStore;
pub use letters::{Letters, dead_letter_path};
pub use options::{OpenError, Options, Sync, Visibility};
pub use payloads::PayloadStore;
pub use queues::{InFlightBatch, Queues, Received};
use room::Disk;
pub use room::NoRoom;
pub use seal::{SEALED, Seal, Sealed};
pub use tables::Tables;

/// Beyond so many writes that wait, no publish is taken: more than a full process has under way by itself.
const PENDING_MAX: usize = 32_768;

/// All stores of one deployment. Cheap to clone.
#[derive(Clone)]
pub struct Embedded {
    queues: Arc<Queues>,
    tables: Arc<Tables>,
    letters: Arc<Letters>,
    payloads: Arc<PayloadStore>,
    journal: Arc<JournalStore>,
    database: Arc<Database>,
    options: Arc<Options>,
}

/// Locked stores without a clock, which may continue from their saved time.
pub struct Waiting {
    options: Options,
    prepared: Prepared,
}

impl Waiting {
    /// Returns the latest time that the last process saved, at most a second before its last write.
    pub fn last_seen(&self) -> Option<Timestamp> {
        self.prepared.last_seen
    }

    /// Opens the stores.
    pub fn open(self, clock: Arc<dyn Clock>) -> Result<Embedded, OpenError> {
        let Self { options, prepared } = self;
        let database = Arc::new(Database::open(prepared, Arc::clone(&clock), &options)?);
        Ok(Embedded {
            queues: Arc::new(Queues::open(&database, Arc::clone(&clock), &options)?),
            tables: Arc::new(Tables::new(Arc::clone(&database), options.sealer.clone())),
            letters: Arc::new(Letters::new(Arc::clone(&database), Arc::clone(&clock), &options)),
            payloads: Arc::new(PayloadStore {
                database: Arc::clone(&database),
                clock: Arc::clone(&clock),
                full_disk: OnFullDisk::Wait,
            }),
            journal: Arc::new(JournalStore { database: Arc::clone(&database), clock }),
            database,
            options: Arc::new(options),
        })
    }
}

impl Embedded {
    /// Locks the folder, creating it if necessary.
    pub fn prepare(options: Options) -> Result<Waiting, OpenError> {
        let prepared = Prepared::of(&options)?;
        Ok(Waiting { options, prepared })
    }

    /// Opens the folder, creating it if necessary; without one, everything is in memory.
    pub fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Self::prepare(options)?.open(clock)
    }

    /// Closes stores in memory and opens their data again like a new process, without dead letters. For
    /// simulations, which can't wait for a disk.
    #[doc(hidden)]
    pub fn open_again(&self, options: Options, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Waiting { options, prepared: self.database.hand_on()? }.open(clock)
    }

    /// Returns the latest time that the folder's last process saved, to the second.
    pub fn last_seen(&self) -> Option<Timestamp> {
        self.database.last_seen
    }

    /// Fails while no publish should be taken: below the floor of the disk, and while too many writes wait.
    pub fn may_publish(&self) -> Result<(), NoRoom> {
        let disk = self.options.folder.as_deref().and_then(Disk::of);
        // Free pages of the database are room for publishes, too.
        let free = |disk: &Disk| disk.free.saturating_add(self.database.journal.free_bytes());
        let disk = disk.map(|disk| (free(&disk), disk.floor(self.options.disk_floor)));
        match room::refusal(disk, (self.database.pending(), PENDING_MAX)) {
            None => Ok(()),
            Some(refusal) => Err(refusal),
        }
    }

    /// Commits a write of a few bytes: fails where others would.
    pub async fn commit_nothing(&self) -> Result<(), PortError> {
        let work = |connection: &_| named::set_note(connection, "looked at", 0);
        self.database.write_then("looking at the disk", OnFullDisk::Fail, work, |()| ()).await
    }

    /// Returns the free bytes of the disk, and all of them; `None` in memory.
    pub fn disk(&self) -> Option<(u64, u64)> {
        let disk = self.options.folder.as_deref().and_then(Disk::of)?;
        Some((disk.free, disk.size))
    }

    /// Returns the files of the database with their bytes: its own, and those that it has not taken over yet.
    pub fn files(&self) -> Option<[u64; 2]> {
        let folder = self.options.folder.as_deref()?;
        let bytes =
            |name: &str| std::fs::metadata(folder.join(name)).map_or(0, |about| about.len());
        Some(["gridpost.sqlite", "gridpost.sqlite-wal"].map(bytes))
    }

    /// Counts writes that are not committed yet.
    pub fn pending_writes(&self) -> usize {
        self.database.pending()
    }

    /// Whether writes wait for room on the disk. What is received meanwhile could only wait, too.
    pub fn waits_for_room(&self) -> bool {
        self.database.is_full()
    }

    /// Counts commits since it was opened.
    pub fn commits(&self) -> u64 {
        self.database.commits()
    }

    /// Returns the queues: `QueueSender`, `QueueReceiver`, `PoisonQueue`.
    pub fn queues(&self) -> Arc<Queues> {
        Arc::clone(&self.queues)
    }

    /// Returns the tables, which implement all other ports.
    pub fn tables(&self) -> Arc<Tables> {
        Arc::clone(&self.tables)
    }

    /// Returns the dead letters: `Bucket`, `DeadLetters`.
    pub fn letters(&self) -> Arc<Letters> {
        Arc::clone(&self.letters)
    }

    /// Returns the payload bucket.
    pub fn payloads(&self) -> Arc<PayloadStore> {
        Arc::clone(&self.payloads)
    }

    /// Returns the payload bucket for publishes, which fail on a full disk instead of waiting.
    pub fn payloads_of_publishes(&self) -> Arc<PayloadStore> {
        let PayloadStore { database, clock, .. } = &*self.payloads;
        let (database, clock) = (Arc::clone(database), Arc::clone(clock));
        Arc::new(PayloadStore { database, clock, full_disk: OnFullDisk::Fail })
    }

    /// Returns the journal: `Journal`, `JournalReader`.
    pub fn journal(&self) -> Arc<JournalStore> {
        Arc::clone(&self.journal)
    }

    /// Receives up to `most` visible messages, by turns of their groups, of a group the longest-waiting
    /// first, and hides them for the queue's visibility timeout. Messages received too often go to the
    /// poison queue instead.
    pub async fn receive(&self, queue: Queue, most: usize) -> Result<Vec<Received>, PortError> {
        self.queues.receive(queue, most).await
    }

    /// Records a batch as in flight until the returned value is dropped, so that the process after a
    /// crash knows what this one was working on.
    pub fn record_in_flight(&self, batch: &[Received]) -> InFlightBatch {
        self.queues.record_in_flight(batch)
    }

    /// Moves messages that crash the process to the poison queue. Until this is called, messages that
    /// were in flight at a crash are withheld. Returns after about a minute.
    pub async fn isolate_crash_suspects(&self) {
        self.queues.isolate_crash_suspects().await;
    }

    /// Deletes received messages. Missing ones count as deleted.
    pub async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        gridpost_ports::QueueReceiver::delete(&*self.queues, queue, receipts).await
    }

    /// Returns when the next message is visible, which may be in the past; `None` for an empty queue.
    pub async fn next_visible(&self, queue: Queue) -> Result<Option<Timestamp>, PortError> {
        self.queues.next_visible(queue)
    }

    /// Waits until a message was sent, or a hidden one's time changed, since the last await. Each event
    /// wakes one waiter.
    pub async fn arrived(&self, queue: Queue) {
        self.queues.arrived(queue).await;
    }

    /// Waits until the thread that writes has ended, which it must not before [`Self::close`]: without it, every
    /// later write fails.
    pub async fn writer_ended(&self) {
        self.database.writer_ended().await;
    }

    /// Finishes pending writes and closes the database. Later calls fail.
    pub async fn close(&self) {
        let database = Arc::clone(&self.database);
        if tokio::task::spawn_blocking(move || database.close()).await.is_err() {
            tracing::error!("closing the database panicked");
        }
    }
}
