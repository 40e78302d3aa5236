//! The journal of the process: rows of the stores.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::journal::{Count, Entry};
use gridpost_embedded::JournalStore;
use gridpost_ports::{Journal, PortError, journal};
use uuid::Uuid;

use crate::{counts::Counts, log::Log};

/// Writes entries and counts into the stores, and counts ends since the start.
pub(crate) struct ProcessJournal {
    pub(crate) store: Arc<JournalStore>,
    pub(crate) counts: Counts,
    /// If it is standard output, entries are printed there, too.
    pub(crate) log: Log,
}

#[async_trait]
impl Journal for ProcessJournal {
    fn keeps_first_successes(&self) -> bool {
        self.store.keeps_first_successes()
    }

    fn note(&self, entry: Entry, receipt: Option<&str>) {
        if self.log.is_stdout() {
            journal::log(&entry);
        }
        entry.count().iter().for_each(|count| self.counts.add(count));
        self.store.note(entry, receipt);
    }

    fn count(&self, count: Count, receipt: Option<&str>) {
        self.counts.add(&count);
        self.store.count(count, receipt);
    }

    fn count_sent(&self, counts: &[Count]) {
        self.store.count_sent(counts);
    }

    async fn write(&self, counts: Vec<Count>) -> Result<(), PortError> {
        self.store.write(counts).await
    }

    async fn commit(&self, delivery: Uuid) -> Result<(), PortError> {
        self.store.commit(delivery).await
    }
}
