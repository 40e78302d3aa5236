//! The cost of a million delivered events: the calls that a mix makes, counted as the functions make
//! them, times a price list. Pure: prices and measured processor times are data.

pub mod month;

use serde::{Deserialize, Serialize};

/// A price, without free tiers and discounts.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Price {
    /// US dollars for a million units.
    pub dollars_per_million: f64,
    pub unit: String,
    /// When it was looked up: year and month.
    pub as_of: String,
    pub source: String,
}

/// The price list.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prices {
    pub region: String,
    pub http_api_request: Price,
    pub lambda_request: Price,
    pub lambda_gb_second: Price,
    pub sqs_request: Price,
    pub sqs_fair_request: Price,
    pub dynamo_db_read: Price,
    pub dynamo_db_write: Price,
    pub log_gb: Price,
    pub alarm_metric: Price,
    pub custom_metric: Price,
    pub dashboard: Price,
    pub log_gb_month: Price,
    pub schedule: Price,
    pub s3_put: Price,
    pub kms_key: Price,
    pub trace: Price,
    pub event_bridge_event: Price,
    pub event_bridge_api_destination: Price,
    pub sns_request: Price,
    pub sns_http_delivery: Price,
    pub event_grid_operation: Price,
}

impl Prices {
    /// Reads the list that this version was made with.
    pub fn current() -> Self {
        serde_json::from_str(include_str!("cost/prices.json")).expect("the list is whole")
    }

    /// Lists all prices.
    pub fn all(&self) -> [&Price; 21] {
        [
            &self.http_api_request,
            &self.lambda_request,
            &self.lambda_gb_second,
            &self.sqs_request,
            &self.sqs_fair_request,
            &self.dynamo_db_read,
            &self.dynamo_db_write,
            &self.log_gb,
            &self.alarm_metric,
            &self.custom_metric,
            &self.dashboard,
            &self.log_gb_month,
            &self.schedule,
            &self.s3_put,
            &self.kms_key,
            &self.trace,
            &self.event_bridge_event,
            &self.event_bridge_api_destination,
            &self.sns_request,
            &self.sns_http_delivery,
            &self.event_grid_operation,
        ]
    }
}

/// Processor time as the benchmark has measured it, in milliseconds of one whole processor.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Measured {
    pub on: String,
    pub ingest_ms_per_publish: f64,
    pub ingest_ms_per_event: f64,
    pub dispatch_ms_per_invocation: f64,
    pub dispatch_ms_per_request: f64,
}

impl Measured {
    /// Reads the figures that this version was made with.
    pub fn current() -> Self {
        serde_json::from_str(include_str!("cost/measured.json")).expect("the figures are whole")
    }
}

/// The way in for publishers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontDoor {
    /// API Gateway (`publish_front_door = "HTTP_API"`).
    HttpApi,
    /// The function URL of ingest (`publish_front_door = "FUNCTION_URL"`).
    FunctionUrl,
}

/// A mix of events: how they are published and delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Events in a publish, 1 to 5,000.
    pub events_per_publish: u32,
    /// Event subscriptions that an event matches, at least 1.
    pub fan_out: u32,
    /// Most events that a request to an endpoint carries (`maxEventsPerBatch`), 1 to 5,000.
    pub events_per_request: u32,
    /// Records that an invocation of dispatch gets, 1 to 10. Under load SQS fills them; below about
    /// ten messages a second it is 1, and configuration is read anew for each.
    pub records_per_invocation: u32,
    /// An event's size in bytes.
    pub event_bytes: u32,
    /// Share of the requests that fail, and succeed when they are made again: 0.0 to 1.0.
    pub failing: f64,
    pub front_door: FrontDoor,
    /// Memory of ingest, in MB.
    pub ingest_mb: u32,
    /// Memory of dispatch, in MB.
    pub dispatch_mb: u32,
    /// The time that ingest waits for SQS, in milliseconds.
    pub sqs_ms: f64,
    /// The time that an invocation of dispatch waits for its slowest endpoint, in milliseconds.
    pub endpoint_ms: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            events_per_publish: 1,
            fan_out: 1,
            events_per_request: 1,
            records_per_invocation: 10,
            event_bytes: 1_024,
            failing: 0.0,
            front_door: FrontDoor::HttpApi,
            ingest_mb: 512,
            dispatch_mb: 512,
            sqs_ms: 10.0,
            endpoint_ms: 100.0,
        }
    }
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub what: &'static str,
    /// Units for each delivered event.
    #[serde(rename = "unitsPerEvent")]
    pub units: f64,
    /// US dollars for a million delivered events.
    #[serde(rename = "dollarsPerMillion")]
    pub dollars: f64,
}

/// The bill for a million delivered events.
#[derive(Clone, Debug, PartialEq)]
pub struct Bill {
    pub lines: Vec<Line>,
    /// Lambda's START, END and REPORT of each invocation, and the functions' metrics.
    pub logs: Line,
}

impl Bill {
    /// Returns US dollars for a million delivered events, without logs.
    pub fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.dollars).sum()
    }
}

const SQS_CHUNK_BYTES: f64 = 65_536.0;

/// The largest queue message, less what Gridpost keeps for growth of the envelope; see
/// `queue_message_bytes_max`.
const MESSAGE_BYTES_MAX: f64 = 258_048.0;

/// A message's envelope, with its SQS attributes.
const ENVELOPE_BYTES: f64 = 350.0;

const ENTRIES_MAX: f64 = 10.0;

/// API Gateway counts a larger request several times.
const API_CHUNK_BYTES: f64 = 524_288.0;

/// Memory with which Lambda gives a function one whole processor, in MB.
const PROCESSOR_MB: f64 = 1_769.0;

/// Bytes logged for an invocation by Lambda itself: START, END and REPORT.
const LAMBDA_LINES: f64 = 400.0;

/// Bytes of a line that counts events of a topic or an event subscription.
const METRIC_LINE: f64 = 300.0;

/// Reads of configuration for each publish and for each delivery where little happens, so that what
/// was read is no longer fresh: the topic and its keys by ingest, the topic and the endpoint's health by
/// dispatch. Under load they are shared by all that comes within seconds.
const QUIET_READS: f64 = 2.0;

/// Reckons what a million delivered events of a mix cost.
pub fn bill(mix: &Mix, prices: &Prices, measured: &Measured) -> Bill {
    let calls = Calls::of(mix);
    let line = |what, units: f64, price: &Price| Line {
        what,
        units,
        dollars: units * price.dollars_per_million,
    };
    let api = match mix.front_door {
        FrontDoor::HttpApi => calls.api_requests,
        FrontDoor::FunctionUrl => 0.0,
    };
    let seconds = |cpu_ms: f64, wait_ms: f64, memory_mb: u32| {
        let memory_mb = f64::from(memory_mb);
        let slowed_ms = cpu_ms * (PROCESSOR_MB / memory_mb).max(1.0);
        (slowed_ms + wait_ms) / 1_000.0 * memory_mb / 1_024.0
    };
    let cpu_ms = measured.ingest_ms_per_publish
        + measured.ingest_ms_per_event * f64::from(mix.events_per_publish);
    let ingest_gb_s = calls.publishes * seconds(cpu_ms, mix.sqs_ms, mix.ingest_mb);
    let requests = calls.requests / calls.dispatches;
    let cpu_ms = measured.dispatch_ms_per_invocation + measured.dispatch_ms_per_request * requests;
    let dispatch_gb_s = calls.dispatches * seconds(cpu_ms, mix.endpoint_ms, mix.dispatch_mb);
    Bill {
        lines: vec![
            line("publish requests", api, &prices.http_api_request),
            line("invocations of ingest", calls.publishes, &prices.lambda_request),
            line("GB-seconds of ingest", ingest_gb_s, &prices.lambda_gb_second),
            line("SQS requests", calls.sqs, &prices.sqs_request),
            line("SQS requests, fair queues", calls.sqs, &prices.sqs_fair_request),
            line("invocations of dispatch", calls.dispatches, &prices.lambda_request),
            line("GB-seconds of dispatch", dispatch_gb_s, &prices.lambda_gb_second),
            line("DynamoDB reads", calls.reads, &prices.dynamo_db_read),
            line("DynamoDB writes", calls.writes, &prices.dynamo_db_write),
        ],
        logs: line(
            "GB of logs",
            (calls.publishes * ingest_lines(mix) + calls.dispatches * dispatch_lines(mix)) / 1e9,
            &prices.log_gb,
        ),
    }
}

/// Counts bytes that an invocation of ingest logs: accepted, and matched by each event subscription.
fn ingest_lines(mix: &Mix) -> f64 {
    LAMBDA_LINES + METRIC_LINE * (1.0 + f64::from(mix.fan_out))
}

/// Counts bytes that an invocation of dispatch logs: delivered, by each event subscription in it.
fn dispatch_lines(mix: &Mix) -> f64 {
    LAMBDA_LINES + METRIC_LINE * f64::from(mix.fan_out.min(mix.records_per_invocation))
}

struct Calls {
    publishes: f64,
    api_requests: f64,
    requests: f64,
    dispatches: f64,
    sqs: f64,
    reads: f64,
    writes: f64,
}

impl Calls {
    fn of(mix: &Mix) -> Self {
        let (events, fan_out) = (f64::from(mix.events_per_publish), f64::from(mix.fan_out));
        let event_bytes = f64::from(mix.event_bytes);
        let publishes = 1.0 / (events * fan_out);
        let fitting = (MESSAGE_BYTES_MAX / event_bytes).floor().max(1.0);
        let carried = f64::from(mix.events_per_request).min(fitting).min(events);
        let messages_each = (events / carried).ceil() * fan_out;
        let message_bytes = carried * event_bytes + ENVELOPE_BYTES;
        let chunks = |messages: f64| (messages * message_bytes / SQS_CHUNK_BYTES).ceil();
        let sends_each = full(messages_each, ENTRIES_MAX, chunks);
        let messages = publishes * messages_each;

        // A failed request writes the delivery's state and the endpoint's health and sends a message
        // to a retry queue; the next attempt reads both, and its success writes both. The state comes
        // into the index of waiting deliveries and leaves it.
        let failed = messages * mix.failing;
        let records = f64::from(mix.records_per_invocation);
        let quiet = if mix.records_per_invocation == 1 { 1.0 } else { 0.0 };
        let dispatches = (messages + failed) / records;
        let receives = dispatches * chunks(records).max(1.0);
        let retry_sends = failed * chunks(1.0).max(1.0);
        Self {
            publishes,
            api_requests: publishes * (events * event_bytes / API_CHUNK_BYTES).ceil().max(1.0),
            requests: messages + failed,
            dispatches,
            sqs: publishes * sends_each + receives + dispatches + retry_sends,
            reads: 2.0 * failed + quiet * QUIET_READS * (publishes + messages),
            writes: 6.0 * failed,
        }
    }
}

/// Counts billed requests that send so many messages, as full as they may be.
fn full(messages: f64, at_once: f64, chunks: impl Fn(f64) -> f64) -> f64 {
    let whole = (messages / at_once).floor();
    let rest = messages - whole * at_once;
    whole * chunks(at_once).max(1.0) + if rest > 0.0 { chunks(rest).max(1.0) } else { 0.0 }
}

/// Another way to get the same events to the same endpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peer {
    pub name: &'static str,
    /// US dollars for a million delivered events.
    #[serde(rename = "dollarsPerMillion")]
    pub dollars: f64,
}

/// Reckons what others cost for the same, one event for each of their requests: their webhooks carry no more.
pub fn peers(mix: &Mix, prices: &Prices) -> [Peer; 3] {
    let chunks = (f64::from(mix.event_bytes) / SQS_CHUNK_BYTES).ceil().max(1.0);
    let attempts = 1.0 + mix.failing;
    let fan_out = f64::from(mix.fan_out);
    let of = |publish: &Price, deliver: &Price, deliveries: f64| {
        publish.dollars_per_million * chunks / fan_out + deliver.dollars_per_million * deliveries
    };
    let event_bridge =
        of(&prices.event_bridge_event, &prices.event_bridge_api_destination, attempts * chunks);
    let operation = &prices.event_grid_operation;
    [
        Peer { name: "EventBridge, custom bus and API destination", dollars: event_bridge },
        Peer {
            name: "SNS, HTTP/S",
            dollars: of(&prices.sns_request, &prices.sns_http_delivery, attempts),
        },
        Peer {
            name: "Azure Event Grid, basic tier",
            dollars: of(operation, operation, attempts * chunks),
        },
    ]
}

/// Returns the month of the oldest price: the list is no newer than that.
pub fn as_of(prices: &Prices) -> &str {
    let dates = prices.all().map(|price| price.as_of.as_str());
    dates.into_iter().min().unwrap_or_default()
}

/// Formats units for people.
pub fn units(units: f64) -> String {
    if units >= 1e6 {
        format!("{:.2} million", units / 1e6)
    } else if units >= 100.0 {
        format!("{units:.0}")
    } else {
        let text = format!("{units:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests;
