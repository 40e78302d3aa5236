//! Logs and metrics. Both are lines on standard output: CloudWatch reads the metrics out of them
//! (embedded metric format), so no call is made for either.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::Mutex,
};

use serde_json::{Map, Value, json};
use tracing_subscriber::EnvFilter;

use crate::{ports::Meter, time::Timestamp};

/// Names of the counters, which are Event Grid's.
pub mod metric {
    /// Events accepted from publishers.
    pub const PUBLISH_SUCCESS_COUNT: &str = "PublishSuccessCount";
    /// Publish requests refused, by `ErrorType` and `Error`.
    pub const PUBLISH_FAIL_COUNT: &str = "PublishFailCount";
    /// Events that an event subscription wants, by `EventSubscriptionName`.
    pub const MATCHED_EVENT_COUNT: &str = "MatchedEventCount";
    /// Events that no event subscription wants.
    pub const UNMATCHED_EVENT_COUNT: &str = "UnmatchedEventCount";
    /// Events delivered, by `EventSubscriptionName`.
    pub const DELIVERY_SUCCESS_COUNT: &str = "DeliverySuccessCount";
    /// Failed attempts, by `Error` (the outcome) and `EventSubscriptionName`.
    pub const DELIVERY_ATTEMPT_FAIL_COUNT: &str = "DeliveryAttemptFailCount";
    /// Events stored as dead letters, by `DeadLetterReason` and `EventSubscriptionName`.
    pub const DEAD_LETTERED_COUNT: &str = "DeadLetteredCount";
    /// Events dropped, by `DropReason` and `EventSubscriptionName`.
    pub const DROPPED_EVENT_COUNT: &str = "DroppedEventCount";
    /// Messages moved to the poison queue, by `Queue`: a defect of ours, somebody must look.
    pub const POISON_COUNT: &str = "PoisonCount";
    /// Long waits parked in the table instead of hidden in a queue.
    pub const PARKED_COUNT: &str = "ParkedCount";
    /// Visibility changes that SQS refused.
    pub const HIDE_FAIL_COUNT: &str = "HideFailCount";
}

/// The CloudWatch namespace of all metrics.
pub const NAMESPACE: &str = "Gridpost";

/// Starts logging: JSON lines, filtered by `GRIDPOST_LOG` (default `info`).
pub fn start_logging() {
    let filter = EnvFilter::try_from_env("GRIDPOST_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_env_filter(filter)
        .init();
}

type Dimensions = Vec<(&'static str, String)>;

/// Counts in memory and writes one line for each counter when an invocation ends.
#[derive(Debug, Default)]
pub struct EmbeddedMeter {
    counts: Mutex<BTreeMap<(&'static str, Dimensions), u64>>,
}

impl Meter for EmbeddedMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        let dimensions = dimensions.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let key = (metric, dimensions.collect());
        *self.counts.lock().expect("no panic while held").entry(key).or_default() += by;
    }
}

impl EmbeddedMeter {
    /// Writes what has been counted since the last time to standard output.
    pub fn flush(&self, now: Timestamp) {
        let counts = std::mem::take(&mut *self.counts.lock().expect("no panic while held"));
        let lines = counts.into_iter().map(|((metric, dimensions), value)| {
            format!("{}\n", embedded_line(now, metric, &dimensions, value))
        });
        // Together: each write is a call of the system.
        print!("{}", lines.collect::<String>());
    }
}

/// One counter in CloudWatch's embedded metric format.
///
/// Source: Amazon CloudWatch user guide, "Embedded metric format specification".
fn embedded_line(now: Timestamp, metric: &str, dimensions: &Dimensions, value: u64) -> Value {
    let names: Vec<_> = dimensions.iter().map(|(name, _)| *name).collect();
    let mut line = Map::new();
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": now.as_millis(),
            "CloudWatchMetrics": [{
                "Namespace": NAMESPACE,
                "Dimensions": [names],
                "Metrics": [{"Name": metric, "Unit": "Count"}],
            }],
        }),
    );
    for (name, value) in dimensions {
        line.insert((*name).to_owned(), json!(value));
    }
    line.insert(metric.to_owned(), json!(value));
    Value::Object(line)
}

/// Prints an error with all its sources, once, at the edge: `sending failed: timed out`.
pub struct Chain<'a>(pub &'a (dyn std::error::Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            formatter.write_str(": ")?;
            write!(formatter, "{error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// An error with all its sources, as text.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write!(text, "{}", Chain(error));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_becomes_one_embedded_line() {
        let dimensions = vec![("DropReason", "TimeToLiveExceeded".to_owned())];
        let line = embedded_line(Timestamp::from_millis(5), "DroppedEventCount", &dimensions, 3);
        let want = json!({
            "_aws": {
                "Timestamp": 5,
                "CloudWatchMetrics": [{
                    "Namespace": "Gridpost",
                    "Dimensions": [["DropReason"]],
                    "Metrics": [{"Name": "DroppedEventCount", "Unit": "Count"}],
                }],
            },
            "DropReason": "TimeToLiveExceeded",
            "DroppedEventCount": 3,
        });
        assert_eq!(line, want);
    }

    #[test]
    fn counts_of_one_counter_add_up() {
        let meter = EmbeddedMeter::default();
        meter.count("A", &[("B", "c")], 1);
        meter.count("A", &[("B", "c")], 2);
        let counts = meter.counts.lock().expect("no panic while held");
        assert_eq!(counts.values().copied().collect::<Vec<_>>(), [3]);
    }
}
