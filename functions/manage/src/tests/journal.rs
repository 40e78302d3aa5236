//! Questions to the journal.

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use gridpost_core::{
    journal::{By, Count, Counted, Entry, EntryKind, Owner, Question, Step},
    retry::{DelayReason, outcome::Outcome},
    time::Timestamp,
};
use gridpost_ports::{JournalError, PortError, Reads};
use gridpost_testkit::journal_reader::{Instead, JournalSettings};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Fixture, NOW, body, code, key, message, openapi::assert_valid};
use crate::Reply;

const ASK: &str = "POST /journalQueries";

fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() - seconds * 1_000)
}

fn time(seconds_ago: i64) -> String {
    ago(seconds_ago).to_iso_8601()
}

fn entry(kind: EntryKind, delivery: u128, seconds_ago: i64) -> Entry {
    let is_success = !kind.is_failed();
    Entry {
        kind,
        at: ago(seconds_ago),
        delivery: Uuid::from_u128(delivery),
        subscription: key("demo", "s-1"),
        publish_time: ago(seconds_ago + 1),
        attempt: 1,
        part: 0,
        outcome: Some(if is_success { Outcome::Delivered } else { Outcome::Busy }),
        status: Some(if is_success { 200 } else { 503 }),
        took: Some(Duration::from_millis(41)),
        due: (kind == EntryKind::Failure).then(|| ago(seconds_ago - 10)),
        because: (kind == EntryKind::Failure).then_some(DelayReason::MinimumDelay),
        reason: kind.is_end().then(|| "TimeToLiveExceeded".to_owned()),
        receives: Some(1),
        events: 2,
        event_ids: json!([format!("e-{delivery}"), "\u{1b}[2J"]).to_string(),
        trace_parent: None,
        response: None,
    }
}

fn count(owner: Owner, counted: Counted, events: u64) -> Count {
    Count { owner, publish_time: ago(3), counted, events, once: None }
}

/// A journal with five deliveries, of which the first failed and ended.
fn filled() -> Fixture {
    let fixture = Fixture::new();
    let journal = &fixture.journal;
    let of_topic = |counted, events| count(Owner::Topic("demo".to_owned()), counted, events);
    journal.count(ago(60), of_topic(Counted::Accepted, 12));
    journal.count(ago(60), of_topic(Counted::Unmatched, 1));
    let own = Owner::Subscription(key("demo", "s-1"));
    journal.count(ago(60), count(own, Counted::Matched, 11));
    journal.note(entry(EntryKind::Failure, 1, 50));
    journal.note(entry(EntryKind::Dropped, 1, 40));
    for delivery in 2..6 {
        journal.note(entry(EntryKind::Success, delivery, 39));
    }
    journal.set(JournalSettings { known_until: NOW, ..JournalSettings::default() });
    fixture
}

fn answered(reply: &Reply) -> &Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_valid("JournalQuery", body(reply));
    body(reply)
}

/// The path of a link.
fn path(link: &Value) -> String {
    let link = link.as_str().expect("a link");
    link.strip_prefix("https://manage.example").expect("a path").to_owned()
}

#[tokio::test(start_paused = true)]
async fn attempts_are_answered_newest_first_and_in_pages() {
    let fixture = filled();
    let reply = fixture.send("POST /journalQueries?$top=4", json!({"attempts": {}})).await;
    let first = answered(&reply);
    let ids = |answer: &Value| -> Vec<String> {
        let attempts = answer["attempts"].as_array().expect("attempts");
        attempts.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
    };
    let next = fixture.call(&format!("GET {}", path(&first["nextLink"]))).await;
    let next = answered(&next);
    assert_eq!((ids(first).len(), ids(next).len()), (4, 2));
    assert_eq!((&first["status"], &next["nextLink"]), (&json!("Succeeded"), &Value::Null));
    let failed = &next["attempts"][1];
    let want = json!({
        "id": failed["id"], "time": time(50), "kind": "Failure", "topic": "demo",
        "eventSubscription": "s-1", "deliveryId": Uuid::from_u128(1),
        "publishTime": time(51), "attempt": 1, "outcome": "Busy",
        "httpStatusCode": 503, "durationInMs": 41, "due": time(40),
        "waitBecause": "LeastWait", "receives": 1, "events": 2, "eventIds": ["e-1", "\u{1b}[2J"],
    });
    assert_eq!(failed, &want);
    let again = look_at(&fixture, first["id"].as_str().expect("an id").to_owned()).await;
    assert_eq!(ids(answered(&again)).len(), 6);
    let costs: Vec<_> = fixture.journal.asked().into_iter().map(|(_, dollars)| dollars).collect();
    assert_eq!(costs, [Some(0.1), None, None]);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_chosen() {
    let fixture = filled();
    for (asked, want) in [
        (json!({"failed": true}), 2),
        (json!({"outcomes": ["delivered"]}), 4),
        (json!({"eventId": "e-3"}), 1),
        (json!({"eventId": "\u{1b}[2J", "topic": "DEMO", "eventSubscription": "S-1"}), 6),
        (json!({"topic": "other"}), 0),
        (json!({"from": time(50), "to": time(40)}), 1),
        (json!({"to": time(50)}), 0),
    ] {
        let reply = fixture.send(ASK, json!({"attempts": asked})).await;
        let found = answered(&reply)["attempts"].as_array().map(Vec::len);
        assert_eq!(found, Some(want), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_ledger_is_divided_and_each_period_says_what_waits() {
    let fixture = filled();
    let reply = fixture.send(ASK, json!({"ledger": {"cuts": [time(45)]}})).await;
    let ledger = &answered(&reply)["ledger"];
    let hour = ago(3).hour().to_iso_8601();
    let topic =
        json!({"period": 0, "topic": "demo", "publishHour": hour, "accepted": 12, "unmatched": 1});
    assert_eq!(ledger[0], topic);
    let nothing = json!({"events": 0, "buckets": {},
        "p50AtMostMs": null, "p95AtMostMs": null, "p99AtMostMs": null});
    let none = json!({"total": 0, "byReason": {}});
    let own = json!({"period": 0, "topic": "demo", "eventSubscription": "s-1", "publishHour": hour,
        "waiting": 11, "matched": 11, "redriven": 0, "delivered": 0, "deadLettered": none,
        "dropped": none, "latency": nothing});
    assert_eq!(ledger[1], own);
    let ended = &ledger[2];
    assert_eq!((&ended["period"], &ended["waiting"]), (&json!(1), &json!(-10)));
    assert_eq!(ended["dropped"], json!({"total": 2, "byReason": {"TimeToLiveExceeded": 2}}));
    assert_eq!(ended["latency"]["buckets"], json!({"1000": 8}));
    let first =
        fixture.send("POST /journalQueries?$top=2", json!({"ledger": {"cuts": [time(45)]}}));
    let first = first.await;
    let link = path(&answered(&first)["nextLink"]);
    let rest = fixture.call(&format!("GET {link}")).await;
    assert_eq!(
        (&answered(&rest)["ledger"], &body(&rest)["nextLink"]),
        (&json!([ended]), &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn a_series_has_what_was_counted_in_each_step() {
    let fixture = filled();
    let reply = fixture.send(ASK, json!({"series": {"step": "minute"}})).await;
    let series = answered(&reply)["series"].as_array().expect("entries").clone();
    let failed: Vec<_> = series.iter().filter_map(|one| one.get("failedAttempts")).collect();
    assert!(failed.contains(&&json!({"Busy": 1})), "{failed:?}");
    let sum = |name: &str| series.iter().filter_map(|one| one[name].as_u64()).sum::<u64>();
    assert_eq!((sum("accepted"), sum("matched"), sum("delivered")), (12, 11, 8));
    let Some((Question::Series(asked), _)) = fixture.journal.asked().pop() else { panic!("asked") };
    assert_eq!((asked.step, asked.from, asked.to), (Step::Minute, ago(3_600), NOW));
    let defaults = (asked.by, asked.total);
    assert_eq!(defaults, (By::EventSubscription, false));
}

#[tokio::test(start_paused = true)]
async fn a_series_is_summed_by_topic_or_of_all_and_over_its_steps() {
    let fixture = filled();
    fixture
        .journal
        .count(ago(7_200), count(Owner::Topic("other".to_owned()), Counted::Accepted, 5));
    let from = Step::HalfHour.begin(ago(7_200));
    let ask = async |by: &str| {
        let asked = json!({"series":
            {"step": "halfHour", "from": time(7_200), "by": by, "total": true}});
        let reply = fixture.send(ASK, asked).await;
        answered(&reply)["series"].as_array().expect("entries").clone()
    };
    let topics = ask("topic").await;
    let demo = json!({
        "topic": "demo", "time": from.to_iso_8601(), "accepted": 12, "unmatched": 1, "matched": 11,
        "redriven": 0, "delivered": 8, "deadLettered": {"total": 0, "byReason": {}},
        "dropped": {"total": 2, "byReason": {"TimeToLiveExceeded": 2}}, "failedAttempts": {"Busy": 1},
        "latency": {"events": 8, "buckets": {"1000": 8}, "p50AtMostMs": 1_000,
            "p95AtMostMs": 1_000, "p99AtMostMs": 1_000},
    });
    assert_eq!((topics.len(), &topics[0], &topics[1]["accepted"]), (2, &demo, &json!(5)));
    let mut together = demo;
    together["accepted"] = json!(17);
    together.as_object_mut().expect("an object").remove("topic");
    assert_eq!(ask("All").await, [together]);
    let each = ask("eventsubscription").await;
    assert_eq!(each.len(), 3, "{each:?}");
    let Some((Question::Series(asked), _)) = fixture.journal.asked().pop() else { panic!("asked") };
    assert_eq!((asked.from, asked.step, asked.total), (from, Step::HalfHour, true));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_said() {
    let fixture = filled();
    fixture.journal.set(JournalSettings {
        known_until: ago(5),
        begins: Some(ago(45)),
        lacks_first_successes: true,
        ..JournalSettings::default()
    });
    let reply = fixture.send(ASK, json!({"attempts": {}})).await;
    let answer = answered(&reply);
    assert_eq!(answer["attempts"].as_array().map(Vec::len), Some(1));
    assert_eq!(answer["leavesOut"], json!(["successes at the first attempt are not logged here"]));
    assert_eq!((&answer["begins"], &answer["knownUntil"]), (&json!(time(45)), &json!(time(5))));
    for (question, want) in [
        (json!({"ledger": {}}), 0),
        (json!({"attempts": {"failed": true}}), 0),
        (json!({"attempts": {"outcomes": ["Busy"]}}), 0),
        (json!({"attempts": {"outcomes": ["Busy", "Delivered"]}}), 1),
    ] {
        let reply = fixture.send(ASK, question.clone()).await;
        let left_out = answered(&reply)["leavesOut"].as_array().map(Vec::len);
        assert_eq!(left_out, Some(want), "{question}");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_the_journal_are_cut_to_answers() {
    let fixture = filled();
    let own = Owner::Subscription(key("demo", "s-1"));
    for (owner, counted) in
        [(Owner::Topic("demo".to_owned()), Counted::Accepted), (own, Counted::Matched)]
    {
        fixture.journal.count(ago(200), count(owner, counted, 1));
    }
    let steps = json!({"series": {"step": "minute", "from": time(600)}});
    let whole = fixture.send(ASK, steps.clone()).await;
    let whole = answered(&whole)["series"].as_array().expect("entries").clone();
    let times: BTreeSet<_> = whole.iter().map(|one| one["time"].to_string()).collect();
    assert!(times.len() > 1 && whole.len() > times.len(), "{whole:?}");
    fixture.journal.set(JournalSettings { gives_single_steps: true, ..JournalSettings::default() });
    for (top, want) in [("", times.len()), ("?$top=1", whole.len())] {
        let mut reply = fixture.send(&format!("{ASK}{top}"), steps.clone()).await;
        let (mut series, mut pages) = (Vec::new(), 0);
        loop {
            pages += 1;
            series.extend(answered(&reply)["series"].as_array().expect("entries").clone());
            if body(&reply)["nextLink"].is_null() {
                break;
            }
            reply = fixture.call(&format!("GET {}", path(&body(&reply)["nextLink"]))).await;
        }
        assert_eq!((&series, pages), (&whole, want));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_takes_time_and_money() {
    let fixture = filled();
    fixture.journal.set(JournalSettings {
        reads: Reads { gigabytes: 30.0, dollars: 0.15 },
        ..JournalSettings::default()
    });
    fixture.journal.instead([Instead::TooDear, Instead::Running, Instead::Running]);
    let mut asked = json!({"series": {}});
    let reply = fixture.send(ASK, asked.clone()).await;
    assert_valid("JournalQuery", body(&reply));
    let id = body(&reply)["id"].clone();
    let want =
        json!({"id": id, "status": "TooDear", "gigabytes": 30.0, "dollars": 0.15, "leavesOut": []});
    assert_eq!((reply.status, body(&reply)), (202, &want));
    asked["maxDollars"] = json!(0.2);
    let reply = fixture.send(ASK, asked).await;
    assert_eq!((reply.status, &body(&reply)["status"]), (202, &json!("Running")));
    assert_eq!(body(&reply)["id"], id, "the same question");
    let look = format!("GET /journalQueries/{}", id.as_str().expect("an id"));
    assert_eq!(fixture.call(&look).await.status, 202);
    answered(&fixture.call(&look).await);
}

#[tokio::test(start_paused = true)]
async fn each_failure_has_its_answer() {
    let fixture = filled();
    let failed = PortError::new("asking the journal", "it is gone");
    let table = [
        (JournalError::TooMuch("ask for less".to_owned()), 400, "InvalidRequest", "Ask for less."),
        (JournalError::Page, 404, "ResourceNotFound", "The page is not one of this answer's."),
        (
            JournalError::Forgotten,
            404,
            "ResourceNotFound",
            "The answer is no longer there: ask again.",
        ),
        (
            JournalError::Busy,
            429,
            "TooManyRequests",
            "Too many questions at once: ask again in some seconds.",
        ),
        (
            JournalError::Denied("manage may not logs:StartQuery".to_owned()),
            403,
            "JournalDenied",
            "Manage may not logs:StartQuery.",
        ),
        (failed.into(), 503, "ServiceUnavailable", "asking the journal failed. Try again."),
    ];
    for (error, status, want, text) in table {
        fixture.journal.instead([Instead::Error(error)]);
        let reply = fixture.send(ASK, json!({"series": {}})).await;
        assert_valid("Error", body(&reply));
        assert_eq!((reply.status, code(&reply), message(&reply)), (status, want, text));
        let retry = reply.headers.iter().any(|(name, _)| name == "retry-after");
        assert_eq!(retry, matches!(status, 429 | 503));
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_none_is_refused_with_every_problem() {
    let fixture = filled();
    let early = "2020-01-01T00:00:00Z";
    let table = [
        (json!({}), "$ must have exactly one of attempts, ledger and series"),
        (json!({"ledger": {}, "series": {}}), "$ must have exactly one of"),
        (json!({"attempts": {"outcomes": ["Bad"]}}), "attempts.outcomes[0] must be 'Delivered', "),
        (json!({"attempts": {"topic": "a/b"}}), "attempts.topic must be 3 to 50 of"),
        (json!({"ledger": {"eventSubscription": "é"}}), "ledger.eventSubscription must be 2 to 64"),
        (json!({"series": {"from": time(0), "to": early}}), "series.from must not be after to"),
        (
            json!({"series": {"from": early, "step": "Minute"}}),
            "series.step must be longer for a time of more than 3 days, but is Minute",
        ),
        (
            json!({"series": {"from": early, "step": "HalfHour"}}),
            "series.step must be longer for a time of more than 90 days, but is HalfHour",
        ),
        (
            json!({"series": {"step": "Day"}}),
            "series.step must be 'Minute', 'FiveMinutes', 'HalfHour', ",
        ),
        (
            json!({"series": {"by": "Name"}}),
            "series.by must be 'EventSubscription', 'Topic' or 'All' (",
        ),
        (json!({"series": {"by": 1}}), "series.by must be "),
        (json!({"series": {"total": "yes"}}), "series.total must be "),
        (
            json!({"ledger": {"cuts": [time(0), early]}}),
            "ledger.cuts[1] must not be before the cut",
        ),
        (json!({"ledger": {}, "maxDollars": -1}), "maxDollars must be at least 0, but is -1"),
        (json!({"ledger": {}, "maxDollars": "1"}), "maxDollars must be a number, but is a string"),
        (json!({"attempts": {"eventId": ""}}), "attempts.eventId must have 1 to 4096 characters"),
        (json!({"attempts": {"eventId": "\u{1}".repeat(1_024)}}), "$ makes an id of "),
        (json!({"attempts": {"topik": "x"}}), "attempts.topik is not known"),
    ];
    for (document, want) in table {
        let reply = fixture.send(ASK, document.clone()).await;
        assert_eq!((reply.status, code(&reply)), (400, "InvalidRequest"), "{document}");
        let told = body(&reply)["error"]["details"][0]["message"].as_str().expect("a problem");
        assert!(told.starts_with(want), "{told}");
    }
    assert!(fixture.journal.asked().is_empty());
}

/// A question as an id has it.
const QUESTION: &str = r#"{"series":{"from":"2026-01-01T00:00:00.000Z","to":"2026-01-01T01:00:00.000Z","step":"Hour","by":"All","total":true}}"#;

/// The id of a question.
pub(super) fn id() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(QUESTION)
}

async fn look_at(fixture: &Fixture, id: String) -> Reply {
    fixture.call(&format!("GET /journalQueries/{id}")).await
}

#[tokio::test(start_paused = true)]
async fn an_id_is_taken_only_as_it_was_given() {
    let fixture = filled();
    let of = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    assert_eq!(look_at(&fixture, id()).await.status, 200);
    for id in [
        "x".to_owned(),
        of("{"),
        of("{}"),
        of(r#"{"series":{}}"#),
        of(&QUESTION.replace(':', ": ")),
        of(&QUESTION.replace("Hour", "hour")),
        of(&QUESTION.replace("true", "false")),
        of(&QUESTION.replace("}}", "},\"maxDollars\":1}")),
        format!("{}=", id()),
        "x".repeat(8_001),
    ] {
        let reply = look_at(&fixture, id.clone()).await;
        assert_eq!((reply.status, code(&reply)), (404, "ResourceNotFound"), "{id}");
    }
    let reply = look_at(&fixture, format!("{}?$skiptoken=MTp4", id())).await;
    assert_eq!(reply.status, 404, "an invalid page token");
    let reply = fixture.send("POST /journalQueries?$skiptoken=MTox", json!({"series": {}})).await;
    assert_eq!(reply.status, 400);
}
