//! Dead letters: listed, counted, shown, purged.

use gridpost_core::delivery::redrive::{JobPhase, JobStatus};
use gridpost_testkit::faults::Fault;
use serde_json::{Value, json};

use super::{
    Fixture, S1, body, code,
    letters::{BUCKET, id, record, store, store_at},
    webhook,
};

const LETTERS: &str = "/topics/demo/eventSubscriptions/s-1/deadLetters";

pub(super) fn with_destination() -> Value {
    let mut document = webhook("https://e.example/hook");
    document["properties"]["deadLetterDestination"] = json!({
        "endpointType": "S3Bucket", "properties": {"bucketName": "letters", "prefix": "dead/"},
    });
    document
}

/// With fourteen dead letters in seven objects, of the last seven hours.
pub(super) async fn filled() -> Fixture {
    let mut fixture = Fixture::with_subscription().await;
    assert_eq!(fixture.prepare(S1, with_destination()).await.status, 200);
    for number in 0..7 {
        let reason = if number < 3 { "TimeToLiveExceeded" } else { "MaxDeliveryAttemptsExceeded" };
        let (first, second) = (number * 2, number * 2 + 1);
        let records = [record(first, "A", reason), record(second, "B", reason)];
        let hours_ago = i64::try_from(number).expect("few");
        store(&fixture.letters, number.into(), hours_ago, &records);
    }
    fixture
}

/// Follows the links to the end. Returns all answers.
async fn all(fixture: &Fixture, first: &str, input: Option<&Value>) -> Vec<Value> {
    let (method, path) = first.split_once(' ').expect("a method and a path");
    let mut next = Some(path.to_owned());
    let mut answers = Vec::new();
    for _ in 0..50 {
        let Some(path) = next else { return answers };
        let line = format!("{method} {path}");
        let reply = match input {
            Some(input) => fixture.send(&line, input.clone()).await,
            None => fixture.call(&line).await,
        };
        assert_eq!(reply.status, 200, "{line}: {reply:?}");
        let link = body(&reply)["nextLink"].as_str();
        next = link.map(|link| link.replace("https://manage.example", ""));
        answers.push(body(&reply).clone());
    }
    panic!("a list without end");
}

async fn events(fixture: &Fixture, query: &str) -> Vec<u64> {
    let pages = all(fixture, &format!("GET {LETTERS}{query}"), None).await;
    let listed = pages.iter().flat_map(|page| page["value"].as_array().cloned().expect("a list"));
    let id = |one: Value| one["eventId"].as_str().and_then(|id| id.parse().ok()).expect("a number");
    let mut found: Vec<u64> = listed.map(id).collect();
    found.sort_unstable();
    found
}

#[tokio::test(start_paused = true)]
async fn every_dead_letter_is_on_one_page() {
    let fixture = filled().await;
    let hours_ago = |hours: i64| {
        let at = super::NOW.as_millis() - hours * 3_600_000;
        gridpost_core::time::Timestamp::from_millis(at).to_iso_8601()
    };
    let (two, four) = (hours_ago(2), hours_ago(4));
    let everything: Vec<_> = (0..14).collect();
    let table = [
        (String::new(), everything.clone()),
        ("?$top=1".to_owned(), everything.clone()),
        ("?$top=3&api-version=1".to_owned(), everything),
        ("?reason=TimeToLiveExceeded&$top=1".to_owned(), (0..6).collect()),
        ("?eventType=A".to_owned(), (0..14).step_by(2).collect()),
        ("?eventId=7&$top=1".to_owned(), vec![7]),
        (format!("?from={two}"), (0..6).collect()),
        (format!("?to={four}&$top=2"), (8..14).collect()),
        (format!("?from={four}&to={two}&eventType=B"), vec![5, 7, 9]),
        ("?reason=none&$top=1".to_owned(), vec![]),
    ];
    for (query, want) in table {
        assert_eq!(events(&fixture, &query).await, want, "{query}");
    }
    let one = body(&fixture.call(&format!("GET {LETTERS}?$top=1")).await)["value"][0].clone();
    assert!(!one.to_string().contains("confidential"), "{one}");
    assert_eq!((&one["deliveryAttempts"], &one["lastHttpStatusCode"]), (&json!(2), &json!(503)));
    assert_eq!(one["redriveCount"], 0);
}

#[tokio::test(start_paused = true)]
async fn counts_add_up() {
    let fixture = filled().await;
    store(&fixture.letters, 20, 1, &["7".to_owned()]);
    let pages = all(&fixture, &format!("GET {LETTERS}:count?eventType=A"), None).await;
    let sum = |place: &str| -> u64 {
        pages.iter().filter_map(|page| page.pointer(place).and_then(Value::as_u64)).sum()
    };
    assert_eq!((sum("/events"), sum("/unreadable")), (7, 1));
    assert_eq!((sum("/byReason/TimeToLiveExceeded"), sum("/byEventType/A")), (3, 7));
    assert_eq!(sum("/byEventType/B"), 0);
}

#[tokio::test(start_paused = true)]
async fn one_is_shown_with_its_event() {
    let fixture = filled().await;
    let third = id(3, 3, 1);
    let shown = fixture.call(&format!("GET {LETTERS}/{third}")).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let event = r#"{"id":"7","eventType":"B","n":1.50,"data":"confidential"}"#;
    assert_eq!((&body(&shown)["event"], &body(&shown)["id"]), (&json!(event), &json!(third)));
    assert_eq!(body(&shown)["isEventCut"], false);
    let missing = fixture.call(&format!("GET {LETTERS}/{}", id(3, 3, 2))).await;
    assert_eq!((missing.status, code(&missing)), (404, "ResourceNotFound"));
}

/// Lambda takes the answer, of 6,291,556 bytes at most, for any publish of 1 MiB.
#[tokio::test(start_paused = true)]
async fn an_event_is_shown_whole_unless_it_is_too_large_for_an_answer() {
    let fixture = filled().await;
    let table = [
        ("1 MiB of bytes in base64", "A".repeat(1_398_104), true),
        ("1 MiB of JSON, most of it quotes", r#"\""#.repeat(524_000), true),
        ("1 MiB of JSON, most of it escapes", r"\u0001".repeat(174_000), true),
        ("1 MiB of text, half of it quotes", r#"x\""#.repeat(524_000), true),
        ("1 MiB of text in three bytes each", "€".repeat(349_000), true),
        ("1 MiB of quotes in a text", r#"\""#.repeat(1_048_576), false),
        ("1 MiB of control characters in a text", r"\u0001".repeat(1_048_576), false),
    ];
    for (number, (row, data, is_whole)) in (20..).zip(table) {
        let record = record(1, "A", "R").replace("confidential", &data);
        store(&fixture.letters, number, 1, &[record]);
        let shown = fixture.call(&format!("GET {LETTERS}/{}", id(number, 1, 0))).await;
        let document = body(&shown);
        let event = document["event"].as_str().expect("an event");
        let want = format!(r#"{{"id":"1","eventType":"A","n":1.50,"data":"{data}"}}"#);
        assert!(want.starts_with(event), "{row}");
        let is_cut = event.len() < want.len();
        assert_eq!((is_cut, &document["isEventCut"]), (!is_whole, &json!(!is_whole)), "{row}");
        let bytes = json!({"body": document.to_string()}).to_string().len();
        assert!(bytes < 6_200_000 && (is_whole || bytes > 5_900_000), "{row}: {bytes} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_purged_is_gone_and_nothing_else() {
    let fixture = filled().await;
    let purge = format!("POST {LETTERS}:purge");
    let purged = all(&fixture, &purge, Some(&json!({"reason": "TimeToLiveExceeded"}))).await;
    assert_eq!((&purged[0]["purgedEvents"], &purged[0]["purgedObjects"]), (&json!(6), &json!(3)));
    assert_eq!(events(&fixture, "").await, (6..14).collect::<Vec<_>>());
    // Objects with other letters stay, and the answer says so.
    let purged = all(&fixture, &purge, Some(&json!({"eventType": "A"}))).await;
    assert_eq!((&purged[0]["purgedEvents"], &purged[0]["leftEvents"]), (&json!(0), &json!(4)));
    assert_eq!(events(&fixture, "").await.len(), 8);
    for input in [json!({}), json!({"all": true, "reason": "x"}), json!({"from": "yesterday"})] {
        assert_eq!(fixture.send(&purge, input.clone()).await.status, 400, "{input}");
    }
    all(&fixture, &purge, Some(&json!({"all": true}))).await;
    assert_eq!(events(&fixture, "").await.len(), 0);
}

/// Seven objects, of which every other one has a letter that is not chosen.
async fn mixed() -> Fixture {
    let mut fixture = Fixture::with_subscription().await;
    assert_eq!(fixture.prepare(S1, with_destination()).await.status, 200);
    for number in 0..7_u8 {
        let second = if number % 2 == 0 { "A" } else { "B" };
        let records = [record(1, "A", "R"), record(2, second, "R")];
        store(&fixture.letters, number.into(), number.into(), &records);
    }
    fixture.context.dead_letters = fixture.letters.of(&fixture.letters.buckets);
    fixture
}

/// Whichever call fails, the answer reports what was deleted, and the same request continues.
#[tokio::test(start_paused = true)]
async fn a_purge_that_fails_midway_tells_what_it_has_deleted() {
    let input = json!({"eventType": "A"});
    for call in 1..=18 {
        let fixture = mixed().await;
        let failing = fixture.letters.injector.made() + call;
        fixture.letters.injector.plan().calls = [(failing, Fault::FailsBefore)].into();
        let mut next = Some(format!("POST {LETTERS}:purge"));
        let (mut events, mut objects, mut left) = (0, 0, 0);
        for _ in 0..5 {
            let Some(line) = &next else { break };
            let reply = fixture.send(line, input.clone()).await;
            if reply.status != 503 {
                let answer = body(&reply);
                super::openapi::assert_valid("DeadLettersPurged", answer);
                let count = |member: &str| answer[member].as_u64().expect("a number");
                events += count("purgedEvents");
                objects += count("purgedObjects");
                left += count("leftEvents");
                let link = answer["nextLink"].as_str();
                next = link.map(|link| link.replace("https://manage.example", "POST "));
            }
            let there = fixture.letters.buckets.objects(BUCKET).len();
            assert_eq!(objects, 7 - there as u64, "call {call} fails: {reply:?}");
        }
        assert_eq!(next, None, "call {call} fails");
        assert_eq!((events, objects, left), (8, 4, 3), "call {call} fails");
    }
}

/// A lasting failure is the next request's answer: following the links ends.
#[tokio::test(start_paused = true)]
async fn a_purge_that_goes_on_failing_says_so() {
    let fixture = mixed().await;
    let fifth = fixture.letters.buckets.objects(BUCKET).into_keys().nth(4).expect("seven");
    fixture.letters.buckets.settings().unreadable.insert(fifth);
    let first = fixture.send(&format!("POST {LETTERS}:purge"), json!({"eventType": "A"})).await;
    assert_eq!((first.status, &body(&first)["purgedObjects"]), (200, &json!(2)), "{first:?}");
    let next = body(&first)["nextLink"].as_str().expect("more");
    let next = next.replace("https://manage.example", "POST ");
    let second = fixture.send(&next, json!({"eventType": "A"})).await;
    assert_eq!((second.status, code(&second)), (503, "ServiceUnavailable"));
}

/// Runs a redrive of every dead letter written an hour ago or earlier.
async fn redriven(fixture: &Fixture) {
    let before = super::NOW.as_millis() - 3_600_000;
    let to = gridpost_core::time::Timestamp::from_millis(before).to_iso_8601();
    let redrive = format!("POST {LETTERS}:redrive");
    assert_eq!(fixture.send(&redrive, json!({"to": to})).await.status, 201);
    fixture.letters.tables.with_redrives(|jobs| {
        for job in jobs.values_mut() {
            (job.status, job.phase) = (JobStatus::Completed, JobPhase::Sending);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn what_was_redriven_is_told_from_what_is_still_open() {
    let fixture = filled().await;
    redriven(&fixture).await;
    let counted = all(&fixture, &format!("GET {LETTERS}:count"), None).await;
    let sum = |member: &str| counted.iter().filter_map(|page| page[member].as_u64()).sum::<u64>();
    assert_eq!((sum("events"), sum("redrivenEvents")), (14, 12));
    let table = [("true", (2..14).collect::<Vec<u64>>()), ("false", vec![0, 1])];
    for (redriven, want) in table {
        assert_eq!(events(&fixture, &format!("?redriven={redriven}&$top=5")).await, want);
    }
    let open = fixture.call(&format!("GET {LETTERS}?redriven=false")).await;
    assert_eq!(body(&open)["value"][0]["isRedriven"], false);
    assert_eq!(fixture.call(&format!("GET {LETTERS}?redriven=x")).await.status, 400);
    // Letters that were not redriven stay when the rest is purged.
    let purge = format!("POST {LETTERS}:purge");
    let refused = fixture.send(&purge, json!({"reason": "R", "redriven": false})).await;
    assert_eq!(
        refused.status, 400,
        "it would delete those that were redriven as well: {refused:?}"
    );
    let input = json!({"redriven": true});
    let purged = all(&fixture, &format!("POST {LETTERS}:purge"), Some(&input)).await;
    let purged: u64 = purged.iter().filter_map(|page| page["purgedEvents"].as_u64()).sum();
    assert_eq!((purged, events(&fixture, "").await), (12, vec![0, 1]));
    // So do unreadable ones.
    store(&fixture.letters, 20, 1, &["7".to_owned()]);
    all(&fixture, &format!("POST {LETTERS}:purge"), Some(&input)).await;
    let left = all(&fixture, &format!("GET {LETTERS}:count"), None).await;
    assert_eq!(left.iter().filter_map(|page| page["unreadable"].as_u64()).sum::<u64>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_look_ends_in_time_though_pages_are_passed_over_whole() {
    for (method, action) in [("GET", ""), ("GET", ":count"), ("POST", ":purge")] {
        let mut fixture = Fixture::with_subscription().await;
        assert_eq!(fixture.prepare(S1, with_destination()).await.status, 200);
        // The first object takes longer than a request; four pages of others follow.
        let from = super::NOW.as_millis() - 3_600_000 + 60_000;
        let from = gridpost_core::time::Timestamp::from_millis(from).to_iso_8601();
        for number in 0..12 {
            let minutes = if number == 0 { 2 } else { 0 };
            store_at(&fixture.letters, number, (1, minutes), &[record(1, "A", "R")]);
        }
        fixture.letters.buckets.settings().read_time = std::time::Duration::from_secs(20);
        let answers = match method {
            "GET" => all(&fixture, &format!("GET {LETTERS}{action}?from={from}"), None).await,
            _ => {
                let input = json!({"from": from});
                all(&fixture, &format!("POST {LETTERS}{action}"), Some(&input)).await
            }
        };
        assert!(answers[0]["nextLink"].is_string(), "{action}: {answers:?}");
        let found = |page: &Value| {
            let listed = page["value"].as_array().map(|list| list.len() as u64);
            listed.or(page["events"].as_u64()).or(page["purgedEvents"].as_u64())
        };
        let found: u64 = answers.iter().filter_map(found).sum();
        assert_eq!(found, 1, "{action}: {answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_t_be_looked_at_says_why() {
    let fixture = filled().await;
    let table = [
        ("?from=yesterday", "from must be a date and time such as 2026-01-31T08:00:00Z"),
        ("?$skiptoken=x", "$skiptoken is none that this API gave out"),
        (
            "?type=A",
            "is not known; parameters here are $top, $skiptoken, from, to, reason, eventType",
        ),
    ];
    for (query, want) in table {
        let reply = fixture.call(&format!("GET {LETTERS}{query}")).await;
        assert!(reply.status == 400 && super::message(&reply).contains(want), "{reply:?}");
    }
    let reply = fixture.call(&format!("GET {LETTERS}/m-1")).await;
    let want = "path is refused: id must be the id of a dead letter";
    assert!(super::message(&reply).contains(want), "{reply:?}");
    fixture.letters.buckets.settings().missing.insert(BUCKET.to_owned());
    let reply = fixture.call(&format!("GET {LETTERS}")).await;
    assert_eq!((reply.status, code(&reply)), (409, "Conflict"));
    let plain = Fixture::with_subscription().await;
    let reply = plain.call(&format!("GET {LETTERS}")).await;
    assert!(super::message(&reply).contains("has no dead-letter destination"), "{reply:?}");
}
