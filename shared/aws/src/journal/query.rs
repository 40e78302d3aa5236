//! Texts of queries for Logs Insights, and lines from their rows.
//!
//! Source: Amazon CloudWatch Logs user guide, "Logs Insights QL". A field of an object has a dot in its name,
//! and a name with anything but letters and digits stands between backticks.

use std::fmt::Write as _;

use gridpost_core::{
    journal::{By, Count, EntryKind, Question, Step},
    ledger::{self, BOUNDS_MS},
    metric::{
        DEAD_LETTER_REASON, DEAD_LETTERED_COUNT, DELIVERY_ATTEMPT_FAIL_COUNT,
        DELIVERY_SUCCESS_COUNT, DROP_REASON, DROPPED_EVENT_COUNT, EVENT_SUBSCRIPTION_NAME,
        LATENCY_MS, MATCHED_EVENT_COUNT, PUBLISH_HOUR, PUBLISH_SUCCESS_COUNT, REDRIVEN_EVENT_COUNT,
        TOPIC, UNMATCHED_EVENT_COUNT,
    },
    name,
    time::Timestamp,
};
use gridpost_ports::log_store::{LogLine, Row};
use serde_json::{Map, Value, json};

use super::lines::{DELIVERY_ID, plain_part};

/// Rows of a query's results, at most.
pub(super) const ROWS_MAX: usize = 10_000;

/// A failed attempt's outcome.
const ERROR: &str = "Error";

const SUMS: [&str; 7] = [
    PUBLISH_SUCCESS_COUNT,
    UNMATCHED_EVENT_COUNT,
    MATCHED_EVENT_COUNT,
    REDRIVEN_EVENT_COUNT,
    DELIVERY_SUCCESS_COUNT,
    DEAD_LETTERED_COUNT,
    DROPPED_EVENT_COUNT,
];

const OWNER: [&str; 2] = [TOPIC, EVENT_SUBSCRIPTION_NAME];

/// Begins the name of a sum; the buckets of latencies come after another one.
const SUM: &str = "sum_";
const BUCKET: &str = "sum_LatencyMs_";

/// Writes the query for what was logged from one time on and before another one.
pub(super) fn text(question: &Question, from: Timestamp, to: Timestamp) -> String {
    let mut text = match question {
        Question::Attempts(_) => format!("filter ispresent(`{DELIVERY_ID}`)"),
        Question::Ledger(_) => format!("filter ispresent({PUBLISH_HOUR})"),
        Question::Series(_) => {
            format!("filter ispresent({PUBLISH_HOUR}) or ispresent({DELIVERY_ATTEMPT_FAIL_COUNT})")
        }
    };
    let (from, to) = (from.as_millis(), to.as_millis());
    text.push_str(&format!(
        " | filter toMillis(@timestamp) >= {from} and toMillis(@timestamp) < {to}"
    ));
    match question {
        Question::Attempts(asked) => {
            if let Some(part) = asked.event_id.as_deref().and_then(plain_part) {
                let _ = write!(text, " | filter @message like \"{part}\"");
            }
            if asked.failed {
                let success = EntryKind::Success.message();
                let _ = write!(text, " | filter message != \"{success}\"");
            }
            if !asked.outcomes.is_empty() {
                let outcomes = asked.outcomes.iter().map(|outcome| format!("\"{outcome}\""));
                let outcomes = outcomes.collect::<Vec<_>>().join(", ");
                let _ = write!(text, " | filter outcome in [{outcomes}]");
            }
            for part in [
                name_in_query(&asked.topic).map(|topic| format!("{topic}/")),
                name_in_query(&asked.subscription).map(|name| format!("/{name}")),
            ] {
                let Some(part) = part else { continue };
                let _ = write!(text, " | filter tolower(subscription) like \"{part}\"");
            }
            text.push_str(" | fields @timestamp, @message | sort @timestamp desc");
        }
        Question::Ledger(asked) => {
            only_names(&mut text, &asked.topic, &asked.subscription);
            sums(&mut text, &[], &[&OWNER[..], &[PUBLISH_HOUR]].concat());
        }
        Question::Series(asked) => {
            only_names(&mut text, &asked.topic, &asked.subscription);
            let owner = match asked.by {
                By::EventSubscription => &OWNER[..],
                By::Topic => &[TOPIC],
                By::All => &[],
            };
            let bin = bin(asked.step);
            let step = if asked.total { &[][..] } else { &[&*bin] };
            sums(&mut text, &[DELIVERY_ATTEMPT_FAIL_COUNT], &[owner, &[ERROR], step].concat());
        }
    }
    let _ = write!(text, " | limit {ROWS_MAX}");
    text
}

fn bin(step: Step) -> String {
    match step.minutes() {
        minutes if minutes.is_multiple_of(60) => format!("bin({}h)", minutes / 60),
        minutes => format!("bin({minutes}m)"),
    }
}

/// Returns a name in lower case, as queries compare it; an empty one if no resource can have that name.
fn name_in_query(name: &Option<String>) -> Option<String> {
    let name = name.as_deref()?;
    Some(if plain_part(name) == Some(name) { name::folded(name) } else { String::new() })
}

fn only_names(text: &mut String, topic: &Option<String>, subscription: &Option<String>) {
    for (field, name) in [(TOPIC, topic), (EVENT_SUBSCRIPTION_NAME, subscription)] {
        if let Some(name) = name_in_query(name) {
            let _ = write!(text, " | filter tolower({field}) = \"{name}\"");
        }
    }
}

fn sums(text: &mut String, more: &[&str], by: &[&str]) {
    let counts = SUMS.iter().chain(more).map(|field| format!("sum({field}) as {SUM}{field}"));
    let bounds = BOUNDS_MS.iter().map(u64::to_string).chain(["more".to_owned()]);
    let buckets = bounds.map(|it| format!("sum(`{LATENCY_MS}.{it}`) as {BUCKET}{it}"));
    let sums: Vec<_> = counts.chain(buckets).collect();
    let by: Vec<_> = [DEAD_LETTER_REASON, DROP_REASON].iter().chain(by).copied().collect();
    let _ = write!(text, " | stats {} by {}", sums.join(", "), by.join(", "));
}

/// Returns a row of entries as the line that it has.
pub(super) fn line_of(row: &Row) -> Option<LogLine> {
    Some(LogLine { at: time(row.get("@timestamp")?)?, text: row.get("@message")?.clone() })
}

/// Reads the counts of a row of sums, and when they were made; `at` is a time in the period that was asked for.
pub(super) fn counts_of(row: &Row, at: Timestamp) -> Option<(Timestamp, Vec<Count>)> {
    let (mut line, mut buckets, mut at) = (Map::new(), Map::new(), at);
    for (field, value) in row {
        // Large sums may be written with an exponent.
        let count = || value.parse::<f64>().map(|count| json!(count as u64)).ok();
        if field.starts_with("bin(") {
            at = time(value)?;
        } else if let Some(bound) = field.strip_prefix(BUCKET) {
            buckets.extend(count().map(|count| (bound.to_owned(), count)));
        } else if let Some(name) = field.strip_prefix(SUM) {
            line.extend(count().map(|count| (name.to_owned(), count)));
        } else if !value.is_empty() {
            line.insert(field.clone(), json!(value));
        }
    }
    if line.contains_key(ERROR) {
        line.retain(|name, _| {
            [ERROR, TOPIC, EVENT_SUBSCRIPTION_NAME, DELIVERY_ATTEMPT_FAIL_COUNT]
                .contains(&name.as_str())
        });
    } else {
        line.remove(DELIVERY_ATTEMPT_FAIL_COUNT);
        line.insert(LATENCY_MS.to_owned(), Value::Object(buckets));
        line.entry(PUBLISH_HOUR).or_insert_with(|| json!(at.to_iso_8601()));
    }
    // Sums of all topics have none.
    line.entry(TOPIC).or_insert_with(|| json!(""));
    Some((at, ledger::counts_of(&Value::Object(line).to_string())))
}

/// Reads a time of Logs Insights, `2026-11-21 08:00:00.000`, UTC.
fn time(text: &str) -> Option<Timestamp> {
    Timestamp::parse_rfc_3339(&format!("{}Z", text.replacen(' ', "T", 1)))
}
