//! The journal of the process: rows of the stores.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::journal::{Count, Entry};
use gridpost_embedded::JournalStore;
use gridpost_ports::{Journal, PortError, journal};
use uuid::Uuid;

use crate::{counts::Counts, log::Log, totals::Totals};

/// Writes entries and counts into the stores, and counts ends since the start.
pub(crate) struct ProcessJournal {
    pub(crate) store: Arc<JournalStore>,
    pub(crate) counts: Counts,
    pub(crate) totals: Totals,
    /// If it is standard output, entries are printed there, too.
    pub(crate) log: Log,
}

impl ProcessJournal {
    fn add(&self, count: &Count) {
        self.counts.add(count);
        let (metric, labels) = count.metric();
        let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
        self.totals.add(metric, &labels, count.events);
    }
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
        entry.count().iter().for_each(|count| self.add(count));
        self.store.note(entry, receipt);
    }

    fn count(&self, count: Count, receipt: Option<&str>) {
        self.add(&count);
        self.store.count(count, receipt);
    }

    fn count_sent(&self, counts: &[Count]) {
        counts.iter().for_each(|count| self.add(count));
        self.store.count_sent(counts);
    }

    async fn write(&self, counts: Vec<Count>) -> Result<(), PortError> {
        counts.iter().for_each(|count| self.add(count));
        self.store.write(counts).await
    }

    async fn commit(&self, delivery: Uuid) -> Result<(), PortError> {
        self.store.commit(delivery).await
    }
}
