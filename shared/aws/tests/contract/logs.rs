//! CloudWatch Logs: requests, pages, states of queries, refusals; and runs as items.

use gridpost_aws::journal::{CloudWatchLogs, Run, RunStore, RunTable};
use gridpost_core::time::Timestamp;
use gridpost_ports::{
    Saved,
    log_store::{LogError, LogQuery, LogRange, LogResults, LogStore},
};
use serde_json::{Value, json};

use super::replay::{ATTEMPTS, Answer, Replay, error, ok};

fn logs(replay: &Replay) -> CloudWatchLogs {
    CloudWatchLogs::new(replay.clients().logs())
}

const RANGE: LogRange<'_> = LogRange {
    group: "/aws/lambda/g-dispatch",
    from: Timestamp::from_millis(1_000),
    to: Timestamp::from_millis(2_500),
    pattern: "PublishHour",
};

#[tokio::test(start_paused = true)]
async fn lines_come_by_pages_and_the_end_is_left_out() {
    let event = json!({"eventId": "1", "timestamp": 1_700, "message": "a line"});
    let replay = Replay::of([
        ok(json!({"events": [event], "nextToken": "t"})),
        ok(json!({"events": [], "searchedLogStreams": []})),
    ]);
    let page = logs(&replay).page(&RANGE, None).await.expect("a page");
    let line = page.lines.first().expect("a line");
    assert_eq!((line.at.as_millis(), line.text.as_str()), (1_700, "a line"));
    let last = logs(&replay).page(&RANGE, page.next).await.expect("a page");
    assert!(last.lines.is_empty() && last.next.is_none());
    let asked = replay.asked();
    assert_eq!(asked[0].operation, "FilterLogEvents");
    let mut want = json!({"logGroupName": "/aws/lambda/g-dispatch", "startTime": 1_000,
        "endTime": 2_499, "filterPattern": "PublishHour"});
    assert_eq!(asked[0].body, want);
    want["nextToken"] = json!("t");
    assert_eq!(asked[1].body, want);
}

#[tokio::test(start_paused = true)]
async fn all_groups_are_found() {
    let group = json!({"logGroupName": "/aws/lambda/g-ingest", "creationTime": 5,
        "retentionInDays": 30, "storedBytes": 7});
    let bare = json!({"logGroupName": "/aws/lambda/g-manage"});
    let replay = Replay::of([
        ok(json!({"logGroups": [group], "nextToken": "t"})),
        ok(json!({"logGroups": [bare]})),
    ]);
    let groups = logs(&replay).groups("/aws/lambda/g-").await.expect("groups");
    let groups: Vec<_> = groups
        .iter()
        .map(|it| (it.name.as_str(), it.created.as_millis(), it.kept_days, it.stored_bytes))
        .collect();
    let want = [("/aws/lambda/g-ingest", 5, Some(30), 7), ("/aws/lambda/g-manage", 0, None, 0)];
    assert_eq!(groups, want);
    assert_eq!(replay.asked()[0].body, json!({"logGroupNamePrefix": "/aws/lambda/g-"}));
}

#[tokio::test(start_paused = true)]
async fn a_query_reads_whole_seconds() {
    let replay = Replay::of([ok(json!({"queryId": "q"}))]);
    let groups = ["a".to_owned(), "b".to_owned()];
    let (from, to) = (Timestamp::from_millis(1_999), Timestamp::from_millis(5_001));
    let query = LogQuery { groups: &groups, from, to, text: "limit 1".to_owned() };
    assert_eq!(logs(&replay).start(&query).await.expect("an id"), "q");
    let want = json!({"logGroupNames": ["a", "b"], "startTime": 1, "endTime": 5,
        "queryString": "limit 1"});
    assert_eq!(replay.asked()[0].body, want);
}

#[tokio::test(start_paused = true)]
async fn a_look_tells_the_state_of_a_query() {
    let answer = |status: &str| ok(json!({"status": status, "results": []}));
    for status in ["Scheduled", "Running"] {
        let replay = Replay::of([answer(status)]);
        let results = logs(&replay).results("q").await.expect("a look");
        assert!(matches!(results, LogResults::Running), "{status}: {results:?}");
    }
    for status in ["Failed", "Cancelled", "Timeout", "Unknown", "Paused"] {
        let replay = Replay::of([answer(status)]);
        let results = logs(&replay).results("q").await.expect("a look");
        assert!(matches!(&results, LogResults::Ended(state) if state == status), "{results:?}");
    }
    let row = |value: &str| json!([{"field": "Topic", "value": value}, {"field": "missing"}]);
    let page = |value: &str, token: Value| {
        let statistics = json!({"bytesScanned": 7.0, "recordsMatched": 2.0});
        ok(json!({"status": "Complete", "results": [row(value)], "statistics": statistics,
            "nextToken": token}))
    };
    let replay = Replay::of([page("a", json!("t")), page("b", Value::Null)]);
    let results = logs(&replay).results("q").await.expect("a look");
    let LogResults::Complete { rows, bytes_read } = results else { panic!("{results:?}") };
    let topics: Vec<_> = rows.iter().map(|row| row["Topic"].as_str()).collect();
    assert_eq!((topics, rows[0].len(), bytes_read), (vec!["a", "b"], 1, 7.0));
    assert_eq!(replay.asked()[1].body, json!({"queryId": "q", "nextToken": "t"}));
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told_apart() {
    type IsTold = fn(&LogError) -> bool;
    let table: [(Answer, IsTold, usize); 5] = [
        (error(400, "ThrottlingException"), |it| matches!(it, LogError::Busy), ATTEMPTS),
        (error(400, "LimitExceededException"), |it| matches!(it, LogError::Busy), ATTEMPTS),
        (error(400, "ResourceNotFoundException"), |it| matches!(it, LogError::Missing), 1),
        (
            error(400, "AccessDeniedException"),
            |it| matches!(it, LogError::Denied("logs:FilterLogEvents")),
            1,
        ),
        (error(500, "InternalFailure"), |it| matches!(it, LogError::Failed(_)), ATTEMPTS),
    ];
    for (answer, is_told, calls) in table {
        let replay = Replay::always(answer.clone());
        let refused = logs(&replay).page(&RANGE, None).await.expect_err("refused");
        assert!(is_told(&refused), "{answer:?}: {refused:?}");
        assert_eq!(replay.asked().len(), calls, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_an_item_that_expires() {
    let run = json!({"startedAt": 1_000, "claimedUntil": 0, "groups": ["a"], "begins": null,
        "bytes": 5.0, "bytesAMs": 1.0, "dollarsLeft": 0.5,
        "parts": [{"from": 0, "to": 9, "queryId": "q"}]});
    let run: Run = serde_json::from_value(run).expect("a run");
    let item = json!({"document": {"S": serde_json::to_string(&run).expect("JSON")},
        "revision": {"N": "3"}});
    let replay = Replay::of([ok(json!({})), ok(json!({"Item": item}))]);
    let table = RunTable::new(replay.clients().dynamodb(), "state".to_owned());
    assert_eq!(table.save("k", &run, 0).await.expect("an answer"), Saved::Written);
    assert_eq!(table.load("k").await.expect("an answer"), Some((run, 3)));
    let asked = replay.asked();
    assert_eq!(asked[0].body["Item"]["pk"]["S"], "JOURNAL#k");
    assert_eq!(asked[0].body["Item"]["expiresAt"]["N"], "3601");
    assert_eq!(asked[0].body["ConditionExpression"], "attribute_not_exists(pk)");
}
