//! Counts of a copy of a function.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_core::{metric, time::Timestamp};
use gridpost_ports::Meter;
use gridpost_runtime::telemetry::EmbeddedMeter;
use gridpost_testkit::history::History;

use crate::metric_line;

/// The counts of one copy. What it has not written when it dies is lost.
pub(super) struct CountingMeter {
    history: Arc<Mutex<History>>,
    unwritten: EmbeddedMeter,
}

impl CountingMeter {
    pub(super) fn of(history: &Arc<Mutex<History>>) -> Arc<Self> {
        Arc::new(Self { history: Arc::clone(history), unwritten: EmbeddedMeter::default() })
    }
}

impl Meter for CountingMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        self.unwritten.count(metric, dimensions, by);
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        self.unwritten.measure(metric, dimensions, took);
    }

    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    ) {
        if metric == metric::DROPPED_EVENT_COUNT {
            self.history.lock().expect("no panic while held").dropped_counted += by;
        }
        self.unwritten.count_events(metric, dimensions, published_at, by);
    }

    fn count_delivered(
        &self,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        took: Duration,
        by: u64,
    ) {
        self.unwritten.count_delivered(dimensions, published_at, took, by);
    }

    fn flush(&self, now: Timestamp) {
        let mut history = self.history.lock().expect("no panic while held");
        for line in self.unwritten.lines(now).lines() {
            if let Err(wrong) = metric_line::check(line) {
                history.violation(now, wrong);
            }
            history.ledger.read(line, Timestamp::from_millis(0));
        }
    }
}
