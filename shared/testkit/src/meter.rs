//! A meter that records all counts.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    journal::{self, Counted, Entry, EntryKind},
    time::Timestamp,
};
use gridpost_ports::{Journal, Meter, PortError, journal::log};
use uuid::Uuid;

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
    keeps_first_successes: AtomicBool,
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

    /// Makes it log first attempts that succeed, too.
    pub fn keep_first_successes(&self) {
        self.keeps_first_successes.store(true, Ordering::Relaxed);
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

    fn flush(&self, _: Timestamp) {
        *self.written.lock().expect("no panic while held") = self.all().len();
    }
}

#[async_trait]
impl Journal for RecordingMeter {
    fn keeps_first_successes(&self) -> bool {
        self.keeps_first_successes.load(Ordering::Relaxed)
    }

    fn note(&self, entry: Entry, _: Option<&str>) {
        let is_first = entry.kind == EntryKind::Success && entry.attempt == 1 && entry.part == 0;
        if !is_first || self.keeps_first_successes() {
            log(&entry);
        }
        self.count_sent(entry.count().as_slice());
    }

    fn count(&self, count: journal::Count, _: Option<&str>) {
        self.count_sent(&[count]);
    }

    async fn commit(&self, _: Uuid) -> Result<(), PortError> {
        Ok(())
    }

    async fn write(&self, counts: Vec<journal::Count>) -> Result<(), PortError> {
        self.count_sent(&counts);
        Ok(())
    }

    fn count_sent(&self, counts: &[journal::Count]) {
        for count in counts {
            let (metric, dimensions) = count.metric();
            let dimensions: Vec<_> = dimensions.iter().map(|(name, it)| (*name, &**it)).collect();
            let is_of_an_hour = !matches!(count.counted, Counted::Failed(_));
            let published_at = is_of_an_hour.then_some(count.publish_time);
            self.add(metric, &dimensions, published_at, count.events, false);
        }
    }
}
