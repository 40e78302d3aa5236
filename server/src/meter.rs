//! Writes a function's metrics to the log, in the form that they have on AWS.

use std::time::Duration;

use gridpost_core::{metric::DELIVERY_SUCCESS_COUNT, time::Timestamp};
use gridpost_ports::Meter;
use gridpost_runtime::telemetry::EmbeddedMeter;

use crate::{counts::Counts, log::Log};

pub(crate) struct LogMeter {
    counted: EmbeddedMeter,
    function: &'static str,
    log: Log,
    counts: Counts,
}

impl LogMeter {
    /// Counts for the function of that name, and the ends of events in `counts`.
    pub(crate) fn of(function: &'static str, log: Log, counts: Counts) -> Self {
        Self { counted: EmbeddedMeter::default(), function, log, counts }
    }
}

impl Meter for LogMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        self.counted.count(metric, dimensions, by);
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        self.counted.measure(metric, dimensions, took);
    }

    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    ) {
        self.counts.add(metric, dimensions, by);
        self.counted.count_events(metric, dimensions, published_at, by);
    }

    fn count_delivered(
        &self,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        took: Duration,
        by: u64,
    ) {
        self.counts.add(DELIVERY_SUCCESS_COUNT, dimensions, by);
        self.counted.count_delivered(dimensions, published_at, took, by);
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
