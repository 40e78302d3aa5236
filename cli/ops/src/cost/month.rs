//! The cost of a whole deployment in a month, line by line: while idle, by its traffic, by endpoints that
//! hang, and by each switch that is billed. Pure, as [`bill`](super::bill) is, on which it builds.

use serde::Serialize;

use super::{Bill, FrontDoor, Measured, Mix, Price, Prices, bill};

/// Seconds of a month: 730 hours, as AWS reckons.
const SECONDS: f64 = 2_628_000.0;

const MINUTES: f64 = SECONDS / 60.0;

/// Requests of a poller that finds nothing, each minute: it waits for 20 s.
const POLLS: f64 = 3.0;

/// Pollers of an idle queue whose mapping has a maximum concurrency. Source: Lambda Developer Guide,
/// "Configuring scaling behavior for SQS event source mappings" (fewer only without a maximum).
const POLLERS: f64 = 5.0;

/// Queues that functions read, beside the retry queues: dispatch, slow, fan-out, dead-letter, redrive.
const QUEUES: f64 = 5.0;

/// Messages in a second from which batches fill.
const FULL_FROM: f64 = 10.0;

/// Metrics of a deployment that has traffic and no failures: events accepted, matched, unmatched,
/// delivered.
const METRICS: f64 = 4.0;

/// Metrics more where attempts fail: failed attempts, waits and dead letters, each as a whole and by
/// error or reason.
const METRICS_OF_FAILURE: f64 = 6.0;

/// Bytes of lines in the logs.
const LATENCY_LINE: f64 = 350.0;
const ATTEMPT_LINE: f64 = 500.0;
const ACCESS_LINE: f64 = 600.0;

/// The alarms of a deployment (`alarms`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarms {
    None,
    /// The six that page, which look at seven metrics.
    Pages,
    All,
}

/// A deployment, and its traffic in a month.
#[derive(Clone, Debug, PartialEq)]
pub struct Estate {
    pub topics: f64,
    pub event_subscriptions: f64,
    pub events: f64,
    pub fan_out: u32,
    /// Events a second, beside those, to one endpoint that never answers.
    pub hanging: f64,
    /// `retry_queue_count`.
    pub retry_queues: f64,
    /// Sources of `infra/modules/aws-source`, each with a queue and three alarms of its own.
    pub aws_sources: f64,
    pub alarms: Alarms,
    pub dashboard: bool,
    /// `metrics_by_event_subscription`.
    pub metrics_by_name: bool,
    pub latency_metrics: bool,
    /// `log_successful_attempts`.
    pub log_successes: bool,
    /// `publish_access_logs`.
    pub access_logs: bool,
    pub tracing: bool,
    /// Keys in `kms_key_arns`.
    pub keys: f64,
    pub front_door: FrontDoor,
}

impl Default for Estate {
    /// Idle, with the module's defaults.
    fn default() -> Self {
        Self {
            topics: 0.0,
            event_subscriptions: 0.0,
            events: 0.0,
            fan_out: 1,
            hanging: 0.0,
            retry_queues: 3.0,
            aws_sources: 0.0,
            alarms: Alarms::Pages,
            dashboard: false,
            metrics_by_name: false,
            latency_metrics: false,
            log_successes: false,
            access_logs: false,
            tracing: false,
            keys: 0.0,
            front_door: FrontDoor::HttpApi,
        }
    }
}

/// One line of a month's bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MonthLine {
    pub what: String,
    pub units: f64,
    /// US dollars in a month.
    #[serde(rename = "dollarsPerMonth")]
    pub dollars: f64,
}

/// Reckons what an estate costs in a month; lines that cost nothing are left out.
pub fn month(estate: &Estate, prices: &Prices, measured: &Measured) -> Vec<MonthLine> {
    let mut lines = idle(estate, prices);
    lines.extend(traffic(estate, prices, measured));
    lines.extend(hanging(estate, prices, measured));
    lines.extend(switches(estate, prices));
    if estate.tracing {
        lines.push(line("traces of X-Ray", traces(&lines), &prices.trace));
    }
    lines.retain(|line| line.dollars > 0.0);
    lines
}

/// Adds up the US dollars of all lines.
pub fn total(lines: &[MonthLine]) -> f64 {
    lines.iter().map(|line| line.dollars).sum()
}

fn line(what: &str, units: f64, price: &Price) -> MonthLine {
    MonthLine { what: what.to_owned(), units, dollars: units * price.dollars_per_million / 1e6 }
}

fn idle(estate: &Estate, prices: &Prices) -> Vec<MonthLine> {
    let queues = QUEUES + estate.retry_queues + estate.aws_sources;
    let polls = queues * POLLERS * POLLS * MINUTES;
    // The cursor and eight partitions of a minute are read, the cursor is written; 50 ms of 256 MB.
    let (reads, writes) = (9.0 * MINUTES, MINUTES);
    // Lambda's own 429s have an alarm of their own.
    let pages = match estate.front_door {
        FrontDoor::HttpApi => 7.0,
        FrontDoor::FunctionUrl => 8.0,
    };
    let alarms = match estate.alarms {
        Alarms::None => 0.0,
        Alarms::Pages => pages + 3.0 * estate.aws_sources,
        Alarms::All => pages + 26.0 + 2.0 * estate.retry_queues + 3.0 * estate.aws_sources,
    };
    vec![
        line("polling of idle queues by Lambda (SQS requests)", polls, &prices.sqs_request),
        line("metrics that alarms look at", alarms, &prices.alarm_metric),
        line("wake: schedule, once a minute", MINUTES, &prices.schedule),
        line("wake: invocations", MINUTES, &prices.lambda_request),
        line("wake: GB-seconds", MINUTES * 0.05 * 0.25, &prices.lambda_gb_second),
        line("wake: DynamoDB reads", reads, &prices.dynamo_db_read),
        line("wake: DynamoDB writes", writes, &prices.dynamo_db_write),
        line("wake: GB of logs", MINUTES * super::LAMBDA_LINES / 1e9, &prices.log_gb),
    ]
}

fn traffic(estate: &Estate, prices: &Prices, measured: &Measured) -> Vec<MonthLine> {
    if estate.events <= 0.0 {
        return Vec::new();
    }
    let deliveries = estate.events * f64::from(estate.fan_out);
    let each = bill(&mix(estate, deliveries / SECONDS), prices, measured);
    let mut lines = spread(&each, deliveries);
    let gb = each.logs.units * deliveries;
    lines.push(line("GB of logs kept for 30 days", gb, &prices.log_gb_month));
    lines.push(line("custom metrics of the whole deployment", METRICS, &prices.custom_metric));
    lines
}

fn mix(estate: &Estate, rate: f64) -> Mix {
    Mix {
        fan_out: estate.fan_out,
        records_per_invocation: if rate < FULL_FROM { 1 } else { 10 },
        front_door: estate.front_door,
        ..Mix::default()
    }
}

/// Multiplies a bill's lines by so many deliveries.
fn spread(each: &Bill, deliveries: f64) -> Vec<MonthLine> {
    let lines = each.lines.iter().chain([&each.logs]).map(|line| MonthLine {
        what: line.what.to_owned(),
        units: line.units * deliveries,
        dollars: line.dollars * deliveries / 1e6,
    });
    lines.collect()
}

/// The cost of one event to an endpoint that never answers, for dispatch and what follows it, over
/// the day that it is tried for.
///
/// Invocations and time: a day of the simulation at one event a second (`neighbours --bad never
/// --rate 1 --seconds 86400`), where 86,400 events made 50 requests, 4.5 invocations each beside that
/// of ingest and those of healthy endpoints, and 0.1 GB-seconds each beside the 1,640 of the first ten minutes. The rest is counted:
/// after the first ten failures the endpoint is asked every three hours, so a delivery looks some ten
/// times whether it may be attempted. Each look is a tenth of a receive, a tenth of a hide, and a read of its
/// state; a third of the waits are parked, since more than 60,000 wait: two writes of 2 KB, a read and a
/// send. Then there are a state and a dead letter.
struct Hanging;

impl Hanging {
    const INVOCATIONS: f64 = 4.5;
    const GB_SECONDS: f64 = 0.10;
    const SQS: f64 = 1.0 + 10.0 * (0.1 + 0.1 + 0.1 / 3.0) + 1.2;
    const READS: f64 = 2.0 + 10.0 * (1.0 + 1.0 / 3.0);
    const WRITES: f64 = 4.0 + 10.0 / 3.0 * 4.0;
    /// Dead letters that end within the same five minutes share an object, and 100 are written at once.
    const OBJECTS: f64 = 0.05;
}

/// Reckons the cost of one endpoint that never answers.
fn hanging(estate: &Estate, prices: &Prices, measured: &Measured) -> Vec<MonthLine> {
    let events = estate.hanging * SECONDS;
    if events <= 0.0 {
        return Vec::new();
    }
    let each = bill(&mix(estate, estate.hanging), prices, measured);
    let publish = ["publish requests", "invocations of ingest", "GB-seconds of ingest"];
    let mut lines = spread(&each, events);
    lines.retain(|line| publish.contains(&line.what.as_str()));
    let gb = events * (2_000.0 + ATTEMPT_LINE) / 1e9;
    let metrics = METRICS_OF_FAILURE + if estate.events > 0.0 { 0.0 } else { METRICS };
    lines.extend([
        line("invocations", events * Hanging::INVOCATIONS, &prices.lambda_request),
        line("GB-seconds", events * Hanging::GB_SECONDS, &prices.lambda_gb_second),
        line("SQS requests", events * Hanging::SQS, &prices.sqs_request),
        line("SQS requests, fair queues", events * Hanging::SQS, &prices.sqs_fair_request),
        line("DynamoDB reads", events * Hanging::READS, &prices.dynamo_db_read),
        line("DynamoDB writes", events * Hanging::WRITES, &prices.dynamo_db_write),
        line("dead-letter objects written", events * Hanging::OBJECTS, &prices.s3_put),
        line("GB of logs", gb, &prices.log_gb),
        line("GB of logs kept for 30 days", gb, &prices.log_gb_month),
        line("custom metrics", metrics, &prices.custom_metric),
    ]);
    for line in &mut lines {
        line.what.insert_str(0, "hanging endpoint: ");
    }
    lines
}

fn switches(estate: &Estate, prices: &Prices) -> Vec<MonthLine> {
    let Estate { topics, event_subscriptions, events, .. } = *estate;
    let when = |on: bool, units: f64| if on { units } else { 0.0 };
    let deliveries = events * f64::from(estate.fan_out);
    let by_name = 2.0 * topics + 2.0 * event_subscriptions;
    // One by topic and two by event subscription; without names, one each.
    let latencies = 3.0 + when(estate.metrics_by_name, topics + 2.0 * event_subscriptions);
    let latency_gb = (events + 2.0 * deliveries) * LATENCY_LINE / 1e9;
    let metrics = &prices.custom_metric;
    vec![
        line("dashboard", when(estate.dashboard, 1.0), &prices.dashboard),
        line(
            "custom metrics by topic and event subscription",
            when(estate.metrics_by_name, by_name),
            metrics,
        ),
        line(
            "custom metrics of latencies",
            when(estate.latency_metrics && events > 0.0, latencies),
            metrics,
        ),
        line("GB of logs of latencies", when(estate.latency_metrics, latency_gb), &prices.log_gb),
        line(
            "GB of logs of successful attempts",
            when(estate.log_successes, deliveries * ATTEMPT_LINE / 1e9),
            &prices.log_gb,
        ),
        line(
            "GB of access logs of publishes",
            when(estate.access_logs, events * ACCESS_LINE / 1e9),
            &prices.log_gb,
        ),
        line("KMS keys, without their requests", estate.keys, &prices.kms_key),
    ]
}

const RUNS: [&[&str]; 3] = [
    &["wake: invocations"],
    &["invocations of ingest", "hanging endpoint: invocations of ingest"],
    &["invocations of dispatch", "hanging endpoint: invocations"],
];

/// Counts traces of all runs: of each function the first one in a second, and a twentieth of the others.
///
/// Source: Lambda Developer Guide, "Visualize Lambda function invocations using AWS X-Ray".
fn traces(lines: &[MonthLine]) -> f64 {
    let runs = |names: &&[&str]| {
        let of = lines.iter().filter(|line| names.contains(&line.what.as_str()));
        of.map(|line| line.units).sum::<f64>()
    };
    let sampled = |runs: f64| runs.min(SECONDS) + 0.05 * (runs - SECONDS).max(0.0);
    RUNS.iter().map(runs).map(sampled).sum()
}

/// Lists the estates of the page, by name.
pub fn estates() -> Vec<(&'static str, Estate)> {
    let idle = Estate::default();
    let of = |topics, event_subscriptions, events| Estate {
        topics,
        event_subscriptions,
        events,
        ..Estate::default()
    };
    vec![
        ("idle", idle),
        ("10 topics, 50 event subscriptions, 1 million events", of(10.0, 50.0, 1e6)),
        ("100 topics, 1,000 event subscriptions, 10 million events", of(100.0, 1_000.0, 1e7)),
        (
            "one endpoint that never answers, an event a second",
            Estate { topics: 1.0, event_subscriptions: 1.0, hanging: 1.0, ..Estate::default() },
        ),
    ]
}

/// Reckons what each switch adds to an estate in a month: its name in Terraform, and dollars.
pub fn price_of_switches(
    of: &Estate,
    prices: &Prices,
    measured: &Measured,
) -> Vec<(&'static str, f64)> {
    let with = |change: &dyn Fn(&mut Estate)| {
        let mut changed = of.clone();
        change(&mut changed);
        total(&month(&changed, prices, measured)) - total(&month(of, prices, measured))
    };
    vec![
        ("alarms = \"ALL\"", with(&|estate| estate.alarms = Alarms::All)),
        ("alarms = \"NONE\"", with(&|estate| estate.alarms = Alarms::None)),
        ("dashboard", with(&|estate| estate.dashboard = true)),
        ("metrics_by_event_subscription", with(&|estate| estate.metrics_by_name = true)),
        ("latency_metrics", with(&|estate| estate.latency_metrics = true)),
        ("log_successful_attempts", with(&|estate| estate.log_successes = true)),
        ("publish_access_logs", with(&|estate| estate.access_logs = true)),
        ("tracing", with(&|estate| estate.tracing = true)),
        ("kms_key_arns, each key", with(&|estate| estate.keys += 1.0)),
        ("retry_queue_count, each queue more", with(&|estate| estate.retry_queues += 1.0)),
        ("aws_sources, each source", with(&|estate| estate.aws_sources += 1.0)),
        (
            "publish_front_door = \"FUNCTION_URL\"",
            with(&|estate| estate.front_door = FrontDoor::FunctionUrl),
        ),
    ]
}

#[cfg(test)]
mod tests;
