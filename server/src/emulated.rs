//! Answers the calls of CloudWatch Logs and SQS that the command line makes (`tail`, `explain`, `audit`)
//! from the log's file and the queues. Signatures are not checked.

use std::{
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_embedded::Embedded;
use gridpost_ports::{PoisonQueue, PortError, QueueReceiver};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Value, json};

use crate::{
    log::{Log, aside},
    mapping::RETRY_QUEUES,
};

/// The prefix of queues and log groups: the deployment's default.
const PREFIX: &str = "gridpost";
const PAGE_LINES: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    FilterLogEvents,
    DescribeLogGroups,
    ListQueues,
    GetQueueAttributes,
}

pub(crate) fn operation(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Operation> {
    let is_call = method == Method::POST && uri.path() == "/";
    let target = headers.get("x-amz-target").filter(|_| is_call)?.to_str().ok()?;
    match target {
        "Logs_20140328.FilterLogEvents" => Some(Operation::FilterLogEvents),
        "Logs_20140328.DescribeLogGroups" => Some(Operation::DescribeLogGroups),
        "AmazonSQS.ListQueues" => Some(Operation::ListQueues),
        "AmazonSQS.GetQueueAttributes" => Some(Operation::GetQueueAttributes),
        _ => None,
    }
}

pub(crate) async fn answer(
    store: &Embedded,
    log: &Log,
    operation: Operation,
    body: &[u8],
) -> (StatusCode, Value) {
    let Ok(ask) = serde_json::from_slice::<Value>(body) else {
        return refusal("SerializationException", "the body is not JSON");
    };
    match operation {
        Operation::FilterLogEvents => filtered(log.path(), ask).await,
        // The log is limited in bytes, not in days.
        Operation::DescribeLogGroups => (StatusCode::OK, json!({"logGroups": []})),
        Operation::ListQueues => {
            let urls = names().map(|(name, _)| format!("http://127.0.0.1/{name}"));
            (StatusCode::OK, json!({"QueueUrls": urls.collect::<Vec<_>>()}))
        }
        Operation::GetQueueAttributes => match attributes(store, &ask).await {
            Ok(Some(attributes)) => (StatusCode::OK, json!({"Attributes": attributes})),
            Ok(None) => refusal("QueueDoesNotExist", "there is no such queue"),
            Err(error) => refusal("InternalError", &error.to_string()),
        },
    }
}

fn refusal(code: &str, text: &str) -> (StatusCode, Value) {
    (StatusCode::BAD_REQUEST, json!({"__type": code, "message": text}))
}

fn names() -> impl Iterator<Item = (String, Queue)> {
    let own = [Queue::Dispatch, Queue::DeadLetter, Queue::FanOut, Queue::Redrive, Queue::Poison];
    let all = own.into_iter().chain((0..RETRY_QUEUES).map(Queue::Retry));
    all.map(|queue| (format!("{PREFIX}-{queue}"), queue))
}

async fn attributes(store: &Embedded, ask: &Value) -> Result<Option<Value>, PortError> {
    let url = ask["QueueUrl"].as_str().unwrap_or_default();
    let name = url.rsplit('/').next().unwrap_or_default();
    let Some((_, queue)) = names().find(|(known, _)| known == name) else { return Ok(None) };
    let queues = store.queues();
    let (held, hidden) = match queue {
        Queue::Poison => (PoisonQueue::count(&*queues).await?, 0),
        _ => (queues.backlog(queue).await?, queues.in_flight(queue).await?),
    };
    Ok(Some(json!({
        "ApproximateNumberOfMessages": held.saturating_sub(hidden).to_string(),
        "ApproximateNumberOfMessagesNotVisible": hidden.to_string(),
        "ApproximateNumberOfMessagesDelayed": "0",
    })))
}

/// Reads lines of the log's file. Without a file, the error must not be that of a missing log group:
/// commands explain that one by themselves, and would not show this sentence.
async fn filtered(path: Option<PathBuf>, ask: Value) -> (StatusCode, Value) {
    let Some(path) = path else {
        return refusal(
            "InvalidOperationException",
            "this process writes its log to no file: start it without --logs",
        );
    };
    let read = tokio::task::spawn_blocking(move || filter(&path, &ask)).await;
    (StatusCode::OK, read.unwrap_or_else(|_| json!({"events": []})))
}

/// Finds lines of one function that contain a text, from a time on. The token is the number of bytes read
/// so far: the log may exceed memory.
fn filter(path: &Path, ask: &Value) -> Value {
    let group = ask["logGroupName"].as_str().unwrap_or_default();
    let function = group.strip_prefix("/aws/lambda/gridpost-").unwrap_or(group);
    let since = ask["startTime"].as_i64().unwrap_or(0);
    let pattern = ask["filterPattern"].as_str().unwrap_or_default().trim_matches('"');
    let skipped = ask["nextToken"].as_str().and_then(|token| token.parse().ok()).unwrap_or(0);
    let mut events = Vec::new();
    let mut next = None;
    each_line(path, skipped, |offset, line| {
        if events.len() == PAGE_LINES {
            next = Some(offset.to_string());
            return false;
        }
        if !line.contains(pattern) {
            return true;
        }
        let Ok(document) = serde_json::from_str::<Value>(line) else { return true };
        let at_ms = logged_at(&document).filter(|at_ms| *at_ms >= since);
        if let Some(at_ms) = at_ms.filter(|_| function_of(&document) == function) {
            // The offset distinguishes identical lines.
            let id = format!("{at_ms}-{offset}");
            events.push(json!({"eventId": id, "timestamp": at_ms, "message": line}));
        }
        true
    });
    json!({ "events": events, "nextToken": next })
}

/// Reads the lines from that offset on, the older file first, with the offset of each, while `look` returns
/// `true`.
fn each_line(path: &Path, from: u64, mut look: impl FnMut(u64, &str) -> bool) {
    let mut begins = 0;
    for file in [aside(path), path.to_owned()] {
        let Ok(mut file) = File::open(file) else { continue };
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let mut at = from.saturating_sub(begins).min(bytes);
        if file.seek(SeekFrom::Start(at)).is_err() {
            continue;
        }
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            // A full disk may have cut a character.
            let goes_on = look(begins + at, String::from_utf8_lossy(&line).trim_end_matches('\n'));
            if !goes_on {
                return;
            }
            at += line.len() as u64;
            line.clear();
        }
        begins += bytes;
    }
}

/// Returns when a line was written: a log line or a count.
fn logged_at(line: &Value) -> Option<i64> {
    if let Some(at_ms) = line["_aws"]["Timestamp"].as_i64() {
        return Some(at_ms);
    }
    Timestamp::parse_rfc_3339(line["timestamp"].as_str()?).map(Timestamp::as_millis)
}

/// Returns the function of a line. Lines of libraries count as dispatch's, which has most of them.
fn function_of(line: &Value) -> &str {
    if let Some(function) = line["function"].as_str() {
        return function;
    }
    let target = line["target"].as_str().unwrap_or_default();
    let is_of = |name: &str| target.starts_with(name);
    match () {
        () if is_of("gridpost_ingest") => "ingest",
        () if is_of("gridpost_expand") => "expand",
        () if is_of("gridpost_dead_letter") => "dead-letter",
        () if is_of("gridpost_redrive") => "redrive",
        () if is_of("gridpost_manage") => "manage",
        () if is_of("gridpost_wake") => "wake",
        () => "dispatch",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_are_found_by_function_time_and_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gridpost.log");
        let at = |second: i64| Timestamp::from_millis(1_800_000_000_000 + second * 1_000);
        let line = |target: &str, second: i64, text: &str| {
            let timestamp = at(second).to_iso_8601();
            json!({"timestamp": timestamp, "target": target, "message": text}).to_string()
        };
        let count = json!({"function": "ingest", "_aws": {"Timestamp": at(3).as_millis()},
            "PublishHour": "h"});
        let older = line("gridpost_dispatch::a", 0, "attempt 1");
        let lines = [
            line("gridpost_dispatch::a", 1, "attempt 1"),
            line("gridpost_manage", 2, "attempt 1"),
            "no JSON, attempt 1".to_owned(),
            count.to_string(),
            line("gridpost_dispatch::a", 4, "else"),
            line("gridpost_redrive", 5, "ended"),
            line("gridpost_expand", 6, "again"),
        ];
        fs::write(aside(&path), format!("{older}\n")).expect("written");
        fs::write(&path, lines.join("\n")).expect("written");
        // (function, since second, pattern, seconds of the lines found)
        let table = [
            ("dispatch", 0, "\"attempt\"", vec![0, 1]),
            ("dispatch", 1, "attempt", vec![1]),
            ("manage", 0, "attempt", vec![2]),
            ("ingest", 0, "PublishHour", vec![3]),
            ("dispatch", 0, "", vec![0, 1, 4]),
            ("wake", 0, "", vec![]),
            ("redrive", 0, "", vec![5]),
            ("expand", 0, "", vec![6]),
            ("dead-letter", 0, "", vec![]),
        ];
        for (function, since, pattern, want) in table {
            let ask = json!({"logGroupName": format!("/aws/lambda/gridpost-{function}"),
                "startTime": at(since).as_millis(), "filterPattern": pattern});
            let found = filter(&path, &ask);
            let events = found["events"].as_array().expect("events");
            let seconds = events.iter().filter_map(|event| event["timestamp"].as_i64());
            let seconds: Vec<_> = seconds.map(|ms| (ms - at(0).as_millis()) / 1_000).collect();
            assert_eq!(seconds, want, "{function} {since} {pattern}");
        }
    }

    #[tokio::test]
    async fn a_log_without_a_file_is_no_missing_log_group() {
        let (status, answer) = filtered(None, json!({})).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_ne!(answer["__type"], "ResourceNotFoundException");
        let told = answer["message"].as_str().unwrap_or_default();
        assert!(told.contains("start it without --logs"), "{told}");
    }

    #[test]
    fn pages_go_on_where_the_one_before_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gridpost.log");
        let line =
            |at: usize| format!("{{\"function\":\"wake\",\"_aws\":{{\"Timestamp\":{at}}}}}\n");
        let lines = |from, to| (from..to).map(line).collect::<String>();
        let half = PAGE_LINES / 2 + 7;
        fs::write(aside(&path), lines(0, half)).expect("written");
        fs::write(&path, lines(half, 2 * half)).expect("written");
        let mut seen = Vec::new();
        let mut token = Value::Null;
        loop {
            let ask = json!({"logGroupName": "/aws/lambda/gridpost-wake", "nextToken": token});
            let found = filter(&path, &ask);
            let events = found["events"].as_array().expect("events");
            seen.extend(events.iter().filter_map(|event| event["timestamp"].as_i64()));
            token = found["nextToken"].clone();
            if token.is_null() {
                break;
            }
        }
        assert_eq!(seen, (0..2 * half as i64).collect::<Vec<_>>());
    }

    #[test]
    fn a_line_that_is_no_text_hides_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gridpost.log");
        let line =
            |at: usize| format!("{{\"function\":\"wake\",\"_aws\":{{\"Timestamp\":{at}}}}}\n");
        let lines = [line(1).as_bytes(), b"\xff\xc3 cut\n", line(2).as_bytes()].concat();
        fs::write(&path, &lines).expect("written");
        let found = filter(&path, &json!({"logGroupName": "/aws/lambda/gridpost-wake"}));
        let events = found["events"].as_array().expect("events");
        let ids: Vec<_> = events.iter().filter_map(|event| event["eventId"].as_str()).collect();
        let second = format!("2-{}", lines.len() - line(2).len());
        assert_eq!(ids, ["1-0", second.as_str()]);
    }

    #[test]
    fn calls_are_told_from_requests() {
        let mut headers = HeaderMap::new();
        let root = Uri::from_static("/");
        assert_eq!(operation(&Method::POST, &root, &headers), None);
        headers.insert("x-amz-target", "AmazonSQS.ListQueues".parse().expect("a value"));
        assert_eq!(operation(&Method::POST, &root, &headers), Some(Operation::ListQueues));
        assert_eq!(operation(&Method::GET, &root, &headers), None);
        assert_eq!(operation(&Method::POST, &Uri::from_static("/topics"), &headers), None);
        headers.insert("x-amz-target", "AmazonSQS.PurgeQueue".parse().expect("a value"));
        assert_eq!(operation(&Method::POST, &root, &headers), None);
    }
}
