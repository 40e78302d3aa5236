//! Options of the stores.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use gridpost_core::delivery::queue::{POISON_RECEIVES, Queue};

use crate::seal::{Seal, Sealed};

/// Options of the stores.
#[derive(Clone, Debug)]
pub struct Options {
    /// `None` for memory.
    pub folder: Option<PathBuf>,
    pub sync: Sync,
    /// At least 1.
    pub retry_queues: usize,
    pub visibility: Visibility,
    /// Receives after which a message goes to the poison queue; 1,000 on AWS.
    pub max_receives: u32,
    /// SQS allows up to 1,048,576.
    pub message_bytes_max: usize,
    /// Whether the first object creates a missing dead-letter bucket. Otherwise it is missing, as in
    /// S3, until [`Letters::create`](crate::Letters::create).
    pub makes_buckets: bool,
    /// The bytes of the journal, about; `None` for a tenth of the folder's disk.
    pub journal_bytes_max: Option<u64>,
    /// The free bytes of the folder's disk below which publishes are refused, and twice as many below which history
    /// makes room; `None` for 32 MiB, or a 40th of a small disk.
    pub disk_floor: Option<u64>,
    /// Encrypts secrets; `None` writes them as they are.
    pub sealer: Option<Arc<dyn Seal>>,
}

impl Default for Options {
    /// As deployed, in memory.
    fn default() -> Self {
        Self {
            folder: None,
            sync: Sync::Normal,
            retry_queues: 1,
            visibility: Visibility::default(),
            max_receives: POISON_RECEIVES,
            message_bytes_max: 262_144,
            makes_buckets: false,
            journal_bytes_max: None,
            disk_floor: None,
            sealer: None,
        }
    }
}

/// The events that an answered write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// The end of the process.
    #[default]
    Normal,
    /// The loss of power, too: each commit waits for the disk.
    Full,
}

/// How long received messages are hidden, by queue.
#[derive(Clone, Copy, Debug)]
pub struct Visibility {
    pub delivery: Duration,
    pub dead_letter: Duration,
    pub fan_out: Duration,
    pub redrive: Duration,
}

impl Default for Visibility {
    /// As deployed.
    fn default() -> Self {
        Self {
            delivery: Duration::from_secs(240),
            dead_letter: Duration::from_secs(360),
            fan_out: Duration::from_secs(59),
            redrive: Duration::from_secs(90),
        }
    }
}

impl Visibility {
    pub fn of(&self, queue: Queue) -> Duration {
        match queue {
            Queue::Dispatch | Queue::Retry(_) | Queue::Slow | Queue::Poison => self.delivery,
            Queue::DeadLetter => self.dead_letter,
            Queue::FanOut => self.fan_out,
            Queue::Redrive => self.redrive,
        }
    }
}

/// The reason why the stores can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Two processes on one folder would both deliver.
    #[error("another process has {} open", .0.display())]
    InUse(PathBuf),
    #[error(
        "{} was written by a newer Gridpost, which can open it (its form is {form}; this one knows up to {newest})",
        .folder.display()
    )]
    NewerForm { folder: PathBuf, form: i64, newest: i64 },
    #[error(
        "{} was written by a Gridpost from before the first release (its form is {form}; this one knows {oldest} and \
         later)",
        .folder.display()
    )]
    OlderForm { folder: PathBuf, form: i64, oldest: i64 },
    #[error(transparent)]
    Sealed(#[from] Sealed),
    #[error("{} has a gridpost.sqlite that is not Gridpost's", .0.display())]
    Foreign(PathBuf),
    #[error("{} can't be used", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    #[error("the database can't be used")]
    Database(#[from] rusqlite::Error),
}
