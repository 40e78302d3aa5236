//! Writes a function's metrics to the log, in the form that they have on AWS.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    journal::{Count, Entry},
    time::Timestamp,
};
use gridpost_embedded::JournalStore;
use gridpost_ports::{Journal, Meter, PortError};
use gridpost_runtime::telemetry::EmbeddedMeter;
use uuid::Uuid;

use crate::{counts::Counts, log::Log};

pub(crate) struct LogMeter {
    counted: EmbeddedMeter,
    function: &'static str,
    log: Log,
    counts: Counts,
    journal: Arc<JournalStore>,
}

impl LogMeter {
    /// Counts for the function of that name, and the ends of events in `counts`. What the journal gets is
    /// logged, too.
    pub(crate) fn of(
        function: &'static str,
        log: Log,
        counts: Counts,
        journal: Arc<JournalStore>,
    ) -> Self {
        let counted = EmbeddedMeter::default().logging_first_successes();
        Self { counted, function, log, counts, journal }
    }
}

impl Meter for LogMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        Meter::count(&self.counted, metric, dimensions, by);
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        self.counted.measure(metric, dimensions, took);
    }

    fn flush(&self, now: Timestamp) {
        let lines = self.counted.lines(now);
        if lines.is_empty() {
            return;
        }
        // Names the function, as a log group does on AWS.
        let own = format!("{{\"function\":\"{}\",", self.function);
        let named = lines.lines().map(|line| format!("{own}{}\n", line.trim_start_matches('{')));
        self.log.write(&named.collect::<String>());
    }
}

#[async_trait]
impl Journal for LogMeter {
    fn keeps_first_successes(&self) -> bool {
        true
    }

    fn note(&self, entry: Entry, receipt: Option<&str>) {
        entry.count().iter().for_each(|count| self.counts.add(count));
        self.counted.note(entry.clone(), receipt);
        self.journal.note(entry, receipt);
    }

    fn count(&self, count: Count, receipt: Option<&str>) {
        self.counts.add(&count);
        Journal::count(&self.counted, count.clone(), receipt);
        self.journal.count(count, receipt);
    }

    fn count_sent(&self, counts: &[Count]) {
        self.counted.count_sent(counts);
        self.journal.count_sent(counts);
    }

    async fn commit(&self, _: Uuid) -> Result<(), PortError> {
        Ok(())
    }

    async fn write(&self, counts: Vec<Count>) -> Result<(), PortError> {
        self.journal.write(counts.clone()).await?;
        self.counted.write(counts).await
    }
}
