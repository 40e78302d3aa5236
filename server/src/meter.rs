//! Writes a function's metrics to the log, in the form that they have on AWS.

use std::time::Duration;

use gridpost_core::time::Timestamp;
use gridpost_ports::Meter;
use gridpost_runtime::telemetry::EmbeddedMeter;

use crate::{log::Log, totals::Totals};

pub(crate) struct LogMeter {
    counted: EmbeddedMeter,
    function: &'static str,
    log: Log,
    totals: Totals,
}

impl LogMeter {
    /// Counts for the function of that name.
    pub(crate) fn of(function: &'static str, log: Log, totals: Totals) -> Self {
        Self { counted: EmbeddedMeter::default(), function, log, totals }
    }
}

impl Meter for LogMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        self.totals.add(metric, dimensions, by);
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
