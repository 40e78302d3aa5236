//! A meter that records all counts.

use std::{
    fmt,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use gridpost_core::{metric, time::Timestamp};
use gridpost_ports::Meter;

/// One call of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub metric: &'static str,
    /// Names and values, in the order given.
    pub dimensions: Vec<(&'static str, String)>,
    /// When the events were published, if it counts events of the ledger.
    pub published_at: Option<Timestamp>,
    /// By how much; of a duration, its milliseconds.
    pub by: u64,
    pub is_duration: bool,
}

impl Count {
    /// The values of its dimensions, with `between` between them.
    pub fn values(&self, between: &str) -> String {
        let values: Vec<_> = self.dimensions.iter().map(|(_, value)| value.as_str()).collect();
        values.join(between)
    }
}

/// The metric, its dimensions as `name=value` with commas between them, and by how much.
impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimensions = self.dimensions.iter().map(|(name, value)| format!("{name}={value}"));
        let dimensions = dimensions.collect::<Vec<_>>().join(",");
        write!(formatter, "{} {dimensions} {}", self.metric, self.by)
    }
}

/// Counts that can be read back.
#[derive(Debug, Default)]
pub struct RecordingMeter {
    counts: Mutex<Vec<Count>>,
    written: Mutex<usize>,
}

impl RecordingMeter {
    /// Everything that was counted, in order.
    pub fn counts(&self) -> Vec<Count> {
        self.all().clone()
    }

    /// How many of them were not flushed: they would be lost if the function died now.
    pub fn unwritten(&self) -> usize {
        self.all().len() - *self.written.lock().expect("no panic while held")
    }

    fn all(&self) -> MutexGuard<'_, Vec<Count>> {
        self.counts.lock().expect("no panic while held")
    }

    fn add(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Option<Timestamp>,
        by: u64,
        is_duration: bool,
    ) {
        let dimensions = dimensions.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let dimensions = dimensions.collect();
        self.all().push(Count { metric, dimensions, published_at, by, is_duration });
    }
}

impl Meter for RecordingMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        self.add(metric, dimensions, None, by, false);
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.add(metric, dimensions, None, millis, true);
    }

    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    ) {
        self.add(metric, dimensions, Some(published_at), by, false);
    }

    fn count_delivered(
        &self,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        _: Duration,
        by: u64,
    ) {
        self.count_events(metric::DELIVERY_SUCCESS_COUNT, dimensions, published_at, by);
    }

    fn flush(&self, _: Timestamp) {
        *self.written.lock().expect("no panic while held") = self.all().len();
    }
}
