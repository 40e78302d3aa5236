//! Logs and metrics, as lines on standard output: CloudWatch extracts the metrics (embedded metric
//! format), so neither needs a call.

use std::{
    cmp::Ordering,
    io, mem,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Serialize, Serializer, ser::SerializeMap};
use tracing::Subscriber;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::{MakeWriter, layer},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};
use uuid::Uuid;

use crate::config::{self, SettingError, default::NAMESPACE};
use gridpost_core::{
    journal::{Count, Counted, Entry, EntryKind},
    ledger::Latencies,
    metric::{LATENCY_MS, NAMES, PUBLISH_HOUR},
    time::Timestamp,
};
use gridpost_ports::{Journal, Meter, PortError, journal};

/// Starts logging JSON lines, filtered by `GRIDPOST_LOG` (default `info`): a level, or levels by module
/// as in `warn,gridpost_dispatch=debug`.
pub fn start_logging() {
    let info = Targets::new().with_default(LevelFilter::INFO);
    let filter = without_libraries(config::log(info.clone()).unwrap_or(info));
    lines(io::stdout).with(with_journal(filter)).init();
}

/// Writes each event as a line of JSON.
pub fn lines<W>(writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = layer().json().flatten_event(true).with_current_span(false).with_span_list(false);
    tracing_subscriber::registry().with(lines.with_writer(writer))
}

/// Applies a level without a module to Gridpost only. Libraries log their data below `info`, such as the
/// keys of a publish in `lambda_runtime`.
pub fn without_libraries(filter: Targets) -> Targets {
    let Some(level) = filter.default_level().filter(|level| *level > LevelFilter::INFO) else {
        return filter;
    };
    let ours = filter.iter().find_map(|(module, level)| (module == OWN_CRATES).then_some(level));
    filter.with_target(OWN_CRATES, ours.unwrap_or(level)).with_default(LevelFilter::INFO)
}

/// Lets the journal's lines through at any level, unless the filter names their module: they are data.
fn with_journal(filter: Targets) -> Targets {
    let is_named = filter.iter().any(|(module, _)| module == journal::TARGET);
    if is_named { filter } else { filter.with_target(journal::TARGET, LevelFilter::INFO) }
}

const OWN_CRATES: &str = "gridpost";

/// Counts in memory and writes one line for each counter when an invocation ends.
#[derive(Debug)]
pub struct EmbeddedMeter {
    namespace: String,
    /// Whether topic and event subscription are dimensions.
    by_name: bool,
    /// Whether first attempts that succeed are logged.
    logs_first_successes: bool,
    /// In the order of [`Counter::cmp_to`], to be found without an allocation.
    counters: Mutex<Vec<Counter>>,
}

#[derive(Debug)]
struct Counter {
    metric: &'static str,
    hour: Option<Timestamp>,
    dimensions: Vec<(&'static str, String)>,
    amount: Amount,
}

#[derive(Debug)]
enum Amount {
    Count(u64),
    /// Delivered events by how long they took.
    Delivered(Latencies),
    /// At most [`VALUES_MAX`]; further ones would not change an average by much.
    Millis(Vec<u64>),
}

/// Most values of a metric in one line. Source: the embedded metric format's specification.
const VALUES_MAX: usize = 100;

impl Counter {
    fn cmp_to(
        &self,
        metric: &str,
        hour: Option<Timestamp>,
        dimensions: &[(&'static str, &str)],
    ) -> Ordering {
        let own = self.dimensions.iter().map(|(name, value)| (*name, value.as_str()));
        let by_dimensions = || own.cmp(dimensions.iter().copied());
        self.metric.cmp(metric).then_with(|| self.hour.cmp(&hour)).then_with(by_dimensions)
    }
}

impl Amount {
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Count(sum), Self::Count(by)) => *sum += by,
            (Self::Delivered(sum), Self::Delivered(by)) => sum.add_all(&by),
            (Self::Millis(values), Self::Millis(more)) => {
                let room = VALUES_MAX.saturating_sub(values.len());
                values.extend(more.into_iter().take(room));
            }
            // A metric never changes its kind.
            (own, other) => *own = other,
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Self::Count(_) | Self::Delivered(_) => "Count",
            Self::Millis(_) => "Milliseconds",
        }
    }
}

impl Meter for EmbeddedMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        self.add(metric, None, dimensions, Amount::Count(by));
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.add(metric, None, dimensions, Amount::Millis(vec![millis]));
    }

    fn flush(&self, now: Timestamp) {
        // One write, because each is a system call.
        print!("{}", self.lines(now));
    }
}

/// Logs entries at once. Counts wait for the next flush.
#[async_trait]
impl Journal for EmbeddedMeter {
    fn keeps_first_successes(&self) -> bool {
        self.logs_first_successes
    }

    fn note(&self, entry: Entry, _: Option<&str>) {
        let is_first_success =
            entry.kind == EntryKind::Success && entry.attempt == 1 && entry.part == 0;
        if !is_first_success || self.logs_first_successes {
            journal::log(&entry);
        }
        self.count_sent(entry.count().as_slice());
    }

    fn count(&self, count: Count, _: Option<&str>) {
        self.count_sent(&[count]);
    }

    async fn commit(&self, _: Uuid) -> Result<(), PortError> {
        Ok(())
    }

    async fn write(&self, counts: Vec<Count>) -> Result<(), PortError> {
        self.count_sent(&counts);
        Ok(())
    }

    fn count_sent(&self, counts: &[Count]) {
        for count in counts {
            let (metric, dimensions) = count.metric();
            let dimensions: Vec<_> = dimensions.iter().map(|(name, it)| (*name, &**it)).collect();
            let hour = Some(count.publish_time.hour());
            let (hour, amount) = match count.counted {
                // Counts attempts, of whatever hour.
                Counted::Failed(_) => (None, Amount::Count(count.events)),
                Counted::Delivered { took } => {
                    let mut latencies = Latencies::default();
                    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                    latencies.add(took_ms, count.events);
                    (hour, Amount::Delivered(latencies))
                }
                _ => (hour, Amount::Count(count.events)),
            };
            self.add(metric, hour, &dimensions, amount);
        }
    }
}

impl Default for EmbeddedMeter {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            by_name: false,
            logs_first_successes: false,
            counters: Mutex::default(),
        }
    }
}

impl EmbeddedMeter {
    /// Makes a meter for `GRIDPOST_METRIC_NAMESPACE` (default [`NAMESPACE`]), with names as dimensions if
    /// `GRIDPOST_METRICS_BY_EVENT_SUBSCRIPTION` is `true`, that logs first attempts that succeed if
    /// `GRIDPOST_LOG_SUCCESSFUL_ATTEMPTS` is.
    pub fn from_env() -> Result<Self, SettingError> {
        let namespace = config::metric_namespace()?;
        let by_name = config::metrics_by_event_subscription()?;
        let logs_first_successes = config::log_successful_attempts()?;
        Ok(Self { namespace, by_name, logs_first_successes, ..Self::default() })
    }

    /// Adds topic and event subscription as dimensions.
    #[must_use]
    pub fn by_name(self) -> Self {
        Self { by_name: true, ..self }
    }

    /// Logs first attempts that succeed, too.
    #[must_use]
    pub fn logging_first_successes(self) -> Self {
        Self { logs_first_successes: true, ..self }
    }

    fn counters(&self) -> MutexGuard<'_, Vec<Counter>> {
        self.counters.lock().expect("no panic while held")
    }

    fn add(
        &self,
        metric: &'static str,
        hour: Option<Timestamp>,
        dimensions: &[(&'static str, &str)],
        amount: Amount,
    ) {
        let mut counters = self.counters();
        let found = counters.binary_search_by(|found| found.cmp_to(metric, hour, dimensions));
        match found {
            Ok(index) => counters[index].amount.add(amount),
            Err(index) => {
                let dimensions =
                    dimensions.iter().map(|(name, value)| (*name, (*value).to_owned()));
                let dimensions = dimensions.collect();
                counters.insert(index, Counter { metric, hour, dimensions, amount });
            }
        }
    }

    /// Takes what was counted since the last call, a line for each counter.
    pub fn lines(&self, now: Timestamp) -> String {
        let counters = mem::take(&mut *self.counters());
        let mut text = Vec::new();
        for counter in &counters {
            let Self { namespace, by_name, .. } = self;
            let line = Line { namespace, by_name: *by_name, now, counter };
            serde_json::to_writer(&mut text, &line).expect("a line has only string keys");
            text.push(b'\n');
        }
        String::from_utf8(text).expect("JSON is UTF-8")
    }
}

/// A counter in CloudWatch's embedded metric format. Source: Amazon CloudWatch user guide, "Embedded
/// metric format specification".
struct Line<'a> {
    namespace: &'a str,
    by_name: bool,
    now: Timestamp,
    counter: &'a Counter,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metadata<'a> {
    timestamp: i64,
    cloud_watch_metrics: [Directive<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive<'a> {
    namespace: &'a str,
    dimensions: Vec<Vec<&'a str>>,
    metrics: [Metric<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Metric<'a> {
    name: &'a str,
    unit: &'a str,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Counter { metric, hour, dimensions, amount } = self.counter;
        let mut line = serializer.serialize_map(None)?;
        let directive = Directive {
            namespace: self.namespace,
            dimensions: dimension_sets(dimensions, self.by_name),
            metrics: [Metric { name: metric, unit: amount.unit() }],
        };
        let metadata =
            Metadata { timestamp: self.now.as_millis(), cloud_watch_metrics: [directive] };
        line.serialize_entry("_aws", &metadata)?;
        for (name, value) in dimensions {
            line.serialize_entry(name, value)?;
        }
        if let Some(hour) = hour {
            line.serialize_entry(PUBLISH_HOUR, &hour.to_iso_8601())?;
        }
        match amount {
            Amount::Count(count) => line.serialize_entry(metric, count)?,
            Amount::Delivered(latencies) => {
                line.serialize_entry(LATENCY_MS, latencies)?;
                line.serialize_entry(metric, &latencies.events())?;
            }
            Amount::Millis(values) => line.serialize_entry(metric, values)?,
        }
        line.end()
    }
}

/// Returns the sets of dimensions: its own, with names or without, and none.
fn dimension_sets(dimensions: &[(&'static str, String)], by_name: bool) -> Vec<Vec<&'static str>> {
    let own = dimensions.iter().map(|(name, _)| *name);
    let own: Vec<_> = own.filter(|name| by_name || !NAMES.contains(name)).collect();
    if own.is_empty() { vec![own] } else { vec![own, Vec::new()] }
}

#[cfg(test)]
mod ledger_tests;
#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tracing::Level;

    use gridpost_core::{
        journal::Owner,
        metric::{self, TOPIC},
    };

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(5);

    #[test]
    fn libraries_log_no_more_than_info_and_the_journal_no_less_unless_they_are_named() {
        let table = [
            ("trace", "gridpost_ingest::handler", Level::TRACE, true),
            ("trace", "lambda_runtime::layers::api_response", Level::DEBUG, false),
            ("trace", "lambda_runtime::layers::api_response", Level::INFO, true),
            ("debug", "aws_smithy_runtime", Level::DEBUG, false),
            ("debug,gridpost=info", "gridpost_core", Level::DEBUG, false),
            ("debug,gridpost_core=info", "gridpost_core::plan", Level::DEBUG, false),
            ("info,hyper=debug", "hyper::client", Level::DEBUG, true),
            ("warn", "hyper::client", Level::INFO, false),
            ("off", "gridpost_core", Level::ERROR, false),
            ("gridpost_core=debug", "gridpost_core", Level::DEBUG, true),
            ("warn", journal::TARGET, Level::INFO, true),
            ("off", journal::TARGET, Level::WARN, true),
            ("info,gridpost_ports::journal=off", journal::TARGET, Level::WARN, false),
        ];
        for (asked, module, level, want) in table {
            let filter = with_journal(without_libraries(asked.parse().expect("a filter")));
            assert_eq!(filter.would_enable(module, &level), want, "{asked}: {module} {level}");
        }
    }

    #[test]
    fn a_counter_becomes_one_embedded_line() {
        let meter = EmbeddedMeter::default();
        let dropped = Count {
            owner: Owner::Topic("a\"b".to_owned()),
            publish_time: Timestamp::from_millis(1_795_251_599_999),
            counted: Counted::Dropped("TimeToLiveExceeded".to_owned()),
            events: 3,
            once: None,
        };
        meter.count_sent(std::slice::from_ref(&dropped));
        let line: Value = serde_json::from_str(&meter.lines(NOW)).expect("one line of JSON");
        let mut want = json!({
            "_aws": {
                "Timestamp": 5,
                "CloudWatchMetrics": [{
                    "Namespace": "Gridpost",
                    "Dimensions": [["DropReason"], []],
                    "Metrics": [{"Name": "DroppedEventCount", "Unit": "Count"}],
                }],
            },
            "DropReason": "TimeToLiveExceeded",
            "Topic": "a\"b",
            "PublishHour": "2026-11-21T08:00:00.000Z",
            "DroppedEventCount": 3,
        });
        assert_eq!(line, want);
        assert_eq!(meter.lines(NOW), "", "what was written is not written again");
        let meter = meter.by_name();
        meter.count_sent(&[dropped]);
        let line: Value = serde_json::from_str(&meter.lines(NOW)).expect("one line of JSON");
        want["_aws"]["CloudWatchMetrics"][0]["Dimensions"] = json!([["DropReason", "Topic"], []]);
        assert_eq!(line, want, "by topic where it is asked for");
    }

    #[test]
    fn durations_are_values_of_one_line() {
        let meter = EmbeddedMeter::default();
        for millis in 0..150 {
            let took = Duration::from_millis(millis);
            meter.measure(metric::DELIVERY_LATENCY_IN_MS, &[(TOPIC, "t")], took);
        }
        let line: Value = serde_json::from_str(&meter.lines(NOW)).expect("one line of JSON");
        let values = line["DeliveryLatencyInMs"].as_array().expect("values");
        assert_eq!((values.len(), &values[1]), (VALUES_MAX, &json!(1)));
        let unit = &line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Unit"];
        assert_eq!(unit, "Milliseconds");
    }

    #[test]
    fn counts_of_one_counter_add_up() {
        let meter = EmbeddedMeter::default();
        let hour = |at: i64| Timestamp::from_millis(at * 3_600_000 + 7);
        let (accepted, parked) = (metric::PUBLISH_SUCCESS_COUNT, metric::PARKED_COUNT);
        let table = [
            (accepted, "c", Some(1)),
            (accepted, "d", Some(1)),
            (accepted, "c", Some(2)),
            (parked, "c", None),
        ];
        for round in 1..=3 {
            for (metric, value, at) in table {
                let Some(at) = at else {
                    Meter::count(&meter, metric, &[(TOPIC, value)], round);
                    continue;
                };
                let (owner, counted) = (Owner::Topic(value.to_owned()), Counted::Accepted);
                let publish_time = hour(at);
                let count = Count { owner, publish_time, counted, events: round, once: None };
                meter.count_sent(&[count]);
            }
        }
        let lines = meter.lines(NOW);
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), table.len());
        for (metric, value, at) in table {
            let hour = at.map_or(Value::Null, |at| json!(hour(at).hour().to_iso_8601()));
            let is_it = |line: &&Value| {
                line[metric] == 6 && line[TOPIC] == value && line[PUBLISH_HOUR] == hour
            };
            assert_eq!(lines.iter().filter(is_it).count(), 1, "{metric} {value} {at:?}");
        }
    }
}
