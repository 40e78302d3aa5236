//! Counts of a copy of a function.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    journal::{Count, Counted, Entry},
    ledger::counts_of,
    time::Timestamp,
};
use gridpost_embedded::JournalStore;
use gridpost_ports::{Journal, Meter, PortError};
use gridpost_runtime::telemetry::EmbeddedMeter;
use gridpost_testkit::history::History;
use uuid::Uuid;

use super::logs::FunctionLogs;
use crate::metric_line;

/// The counts of one copy. What it has not written when it dies is lost.
pub(super) struct CountingMeter {
    history: Arc<Mutex<History>>,
    unwritten: EmbeddedMeter,
    /// The journal of one machine, which must agree.
    kept: Option<Arc<JournalStore>>,
    /// The log on AWS, and the function whose lines go there.
    logs: Option<Arc<FunctionLogs>>,
    function: &'static str,
}

impl CountingMeter {
    pub(super) fn of(
        function: &'static str,
        history: &Arc<Mutex<History>>,
        kept: Option<Arc<JournalStore>>,
        logs: Option<Arc<FunctionLogs>>,
    ) -> Arc<Self> {
        let mut unwritten = EmbeddedMeter::default();
        if logs.as_ref().is_some_and(|logs| logs.logs_first_successes) {
            unwritten = unwritten.logging_first_successes();
        }
        Arc::new(Self { history: Arc::clone(history), unwritten, kept, logs, function })
    }

    fn note_drops(&self, counts: &[Count]) {
        let dropped = counts.iter().filter(|count| matches!(count.counted, Counted::Dropped(_)));
        let dropped: u64 = dropped.map(|count| count.events).sum();
        self.history.lock().expect("no panic while held").dropped_counted += dropped;
    }
}

impl Meter for CountingMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        Meter::count(&self.unwritten, metric, dimensions, by);
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        self.unwritten.measure(metric, dimensions, took);
    }

    fn flush(&self, now: Timestamp) {
        let lines = self.unwritten.lines(now);
        if let Some(logs) = &self.logs {
            logs.log(self.function, &lines);
        }
        let mut history = self.history.lock().expect("no panic while held");
        for line in lines.lines() {
            if let Err(wrong) = metric_line::check(line) {
                history.violation(now, wrong);
            }
            counts_of(line).iter().for_each(|count| history.ledger.count(count));
        }
    }
}

#[async_trait]
impl Journal for CountingMeter {
    fn keeps_first_successes(&self) -> bool {
        self.kept.is_some() || self.unwritten.keeps_first_successes()
    }

    fn note(&self, entry: Entry, receipt: Option<&str>) {
        self.note_drops(entry.count().as_slice());
        if let Some(kept) = &self.kept {
            kept.note(entry.clone(), receipt);
        }
        self.unwritten.note(entry, receipt);
        if let Some(logs) = &self.logs {
            logs.log_written(self.function);
        }
    }

    fn count(&self, count: Count, receipt: Option<&str>) {
        self.note_drops(std::slice::from_ref(&count));
        if let Some(kept) = &self.kept {
            kept.count(count.clone(), receipt);
        }
        Journal::count(&self.unwritten, count, receipt);
    }

    fn count_sent(&self, counts: &[Count]) {
        self.unwritten.count_sent(counts);
    }

    async fn write(&self, counts: Vec<Count>) -> Result<(), PortError> {
        if let Some(kept) = &self.kept {
            kept.write(counts.clone()).await?;
        }
        self.unwritten.write(counts).await
    }

    async fn commit(&self, delivery: Uuid) -> Result<(), PortError> {
        match &self.kept {
            Some(kept) => kept.commit(delivery).await,
            None => Ok(()),
        }
    }
}
