//! What was typed is on the page again where the API does not answer, or refuses; and what a page does not
//! wait for.

use std::sync::Arc;

use axum::Form;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::page::live_parts;
use super::{
    App, Settings, Shared, TAILS_MAX, delivery, edit, edit_json, edit_topic, ledger, letters, live,
    overview, publish, purge, redrive, retry, subscribe, subscription, tail, topics, waiting,
};
use gridpost_ops::target::TargetArguments;
use gridpost_ops::testkit::{FakeApi, documents};

/// A row of the API's answers.
type Row<'a> = (&'a str, u16, Value);

/// A console whose API answers by those rows, and by 500 to all else.
async fn console(rows: &[Row<'_>]) -> (App, FakeApi) {
    console_of(FakeApi::answering(rows).await).await
}

async fn console_of(fake: FakeApi) -> (App, FakeApi) {
    let url = Some(fake.url());
    let arguments = TargetArguments { manage_url: url, ..TargetArguments::default() };
    let target = arguments.resolve().expect("a deployment");
    let api = target.manage_api().await.expect("an API");
    let settings = Settings {
        target,
        name: "test".to_owned(),
        flags: String::new(),
        read_only: false,
        port: 7071,
    };
    (Arc::new(Shared::new(settings, api).0), fake)
}

fn pairs(fields: &[(&str, &str)]) -> Form<Vec<(String, String)>> {
    Form(fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

/// A form that is read into a type.
fn form<T: DeserializeOwned>(fields: &[(&str, &str)]) -> Form<T> {
    let all = fields.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    Form(serde_json::from_value(Value::Object(all)).expect("a form"))
}

/// The answer has that status, says that nothing was done, and has those parts.
async fn shows(answer: impl IntoResponse, status: u16, parts: &[&str]) {
    let answer: Response = answer.into_response();
    let is = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    let text = String::from_utf8_lossy(&body);
    assert_eq!(is, status, "{text}");
    for part in [&["role=\"alert\"", "name=\"csrf\"", "Nothing was"], parts].concat() {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
}

fn topic() -> Path<String> {
    Path("orders".to_owned())
}

fn names() -> Path<(String, String)> {
    Path(("orders".to_owned(), "billing".to_owned()))
}

/// What a form was made from.
const ETAG: (&str, &str) = ("etag", "\"7\"");

/// The page is still made from what it was made from: a second try can't undo unseen what another one saved.
const OLD_STATE: &str = "name=\"etag\" value=\"&quot;7&quot;\"";

const CHANGED_MEANWHILE: &str = "it was changed meanwhile";

#[tokio::test]
async fn a_new_event_subscription_stays_typed() {
    let typed = [
        ("name", "billing"),
        ("destination.endpointType", "WebHook"),
        ("destination.shown", "WebHook"),
        ("destination.endpointUrl", "https://e.example/typed"),
        ("made.profile", "namespace"),
    ];
    let kept = ["value=\"billing\"", "https://e.example/typed", "retryPolicy.maxDeliveryCount"];
    for status in [500, 429] {
        let (app, _fake) = console(&[("PUT ", status, json!({}))]).await;
        let answer = subscribe::create(State(app), topic(), pairs(&typed)).await;
        shows(answer, if status == 500 { 502 } else { status }, &kept).await;
    }
    // Nothing listens there any more.
    let (app, fake) = console(&[]).await;
    drop(fake);
    let answer = subscribe::create(State(app.clone()), topic(), pairs(&typed)).await;
    shows(answer, 502, &kept).await;
    // To add a row asks for nothing of the API.
    let more = [&typed[..], &[("do", "add filter.advancedFilters")]].concat();
    let answer = subscribe::create(State(app), topic(), pairs(&more)).await;
    assert_eq!(answer.into_response().status(), 200);
}

#[tokio::test]
async fn a_topic_s_settings_stay_typed() {
    let was = json!({"properties": {"deliveryProfile": "basic"}}).to_string();
    let typed = [
        ETAG,
        ("was", was.as_str()),
        ("deliveryProfile", "basic"),
        ("made.own", "yes"),
        ("inputSchemaMapping.id.sourceField", "typed-id"),
    ];
    for (status, shown, told) in [(500, 502, "Nothing was saved"), (412, 412, CHANGED_MEANWHILE)] {
        let (app, _fake) = console(&[("PATCH ", status, json!({}))]).await;
        let answer = edit_topic::save(State(app), topic(), pairs(&typed)).await;
        shows(answer, shown, &["value=\"typed-id\"", told, OLD_STATE]).await;
    }
}

#[tokio::test]
async fn a_retry_policy_stays_typed() {
    let policy = json!({"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440});
    let was = json!({"properties": {"retryPolicy": policy}}).to_string();
    let typed = [
        ETAG,
        ("was", was.as_str()),
        ("attempts", "17"),
        ("minutes", "1440"),
        ("schedule", "5, 61"),
        ("answers", "503"),
    ];
    let kept = ["value=\"17\"", "value=\"5, 61\"", "value=\"503\"", OLD_STATE];
    for (status, shown, told) in [(500, 502, "Nothing was saved"), (412, 412, CHANGED_MEANWHILE)] {
        let (app, _fake) = console(&[("PATCH ", status, json!({}))]).await;
        let answer = retry::save(State(app), names(), form(&typed)).await;
        shows(answer, shown, &[&kept[..], &[told, "timeline can't be shown"]].concat()).await;
    }
    let (app, _fake) = console(&[]).await;
    let answer = retry::preview_typed(State(app), names(), form(&typed)).await.into_response();
    assert_eq!(answer.status(), 502);
    let page = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    let page = String::from_utf8_lossy(&page);
    assert!(kept.iter().all(|part| page.contains(part)), "{page}");
}

#[tokio::test]
async fn an_event_stays_typed() {
    let members = ["eventType", "subject", "data", "id", "eventTime", "dataVersion"];
    let names = members.map(|member| format!("field.{member}"));
    let mut typed: Vec<_> = names.iter().map(|name| (name.as_str(), "typed-here")).collect();
    typed.push(("action", "publish"));
    let (app, _fake) = console(&[]).await;
    let answer = publish::send(State(app.clone()), topic(), pairs(&typed)).await;
    let fields = ["name=\"field.eventType\" value=\"typed-here\"", "name=\"field.data\""];
    shows(answer, 502, &fields).await;
    let whole = [("event", "{\"typed\": 1}"), ("action", "publish")];
    let answer = publish::send(State(app), topic(), pairs(&whole)).await;
    shows(answer, 502, &["{&quot;typed&quot;: 1}"]).await;
}

#[tokio::test]
async fn an_edited_event_subscription_stays_typed_where_both_changes_can_t_be_shown() {
    let was = json!({"properties": {"destination": {"endpointType": "WebHook", "properties": {}}}});
    let was = was.to_string();
    let conflict = [("PATCH ", 412, json!({}))];
    let typed = [
        ETAG,
        ("was", was.as_str()),
        ("destination.endpointType", "WebHook"),
        ("destination.shown", "WebHook"),
        ("filter.subjectBeginsWith", "/typed"),
    ];
    let (app, _fake) = console(&conflict).await;
    let answer = edit::save(State(app.clone()), names(), pairs(&typed)).await;
    shows(answer, 412, &["value=\"/typed\"", CHANGED_MEANWHILE, OLD_STATE]).await;
    // What a page was made from is a document.
    let of_none = [ETAG, ("was", "5"), ("document", "{}")];
    let answer = edit_json::save(State(app.clone()), names(), form(&of_none)).await;
    shows(answer, 400, &["does not say what it was made from"]).await;
    let document = json!({"properties": {"labels": ["typed"]}}).to_string();
    let typed = [ETAG, ("was", was.as_str()), ("document", document.as_str())];
    let answer = edit_json::save(State(app), names(), form(&typed)).await;
    let kept = ["&quot;labels&quot;:[&quot;typed&quot;]", CHANGED_MEANWHILE, OLD_STATE];
    shows(answer, 412, &kept).await;
}

/// Another one has made the webhook a queue meanwhile: the form has no field for a URL then.
#[tokio::test]
async fn what_was_typed_is_told_where_the_destination_has_another_type_by_now() {
    let document = |kind: &str, properties: Value| json!({"properties": {"destination": {"endpointType": kind, "properties": properties}}});
    let was = document("WebHook", json!({"endpointUrl": "https://e.example/was"})).to_string();
    let queue = json!({"resourceId": "arn:aws:sqs:eu-central-1:123456789012:orders"});
    let mut changed = document("SqsQueue", queue);
    changed["properties"]["destination"]["properties"]["endpointBaseUrl"] = Value::Null;
    let rows = [
        ("PATCH ", 412, json!({})),
        (
            "GET /topics/orders/eventSubscriptions/billing",
            200,
            documents::subscription("billing", &changed),
        ),
    ];
    let (app, _fake) = console(&rows).await;
    let typed = [
        ETAG,
        ("was", was.as_str()),
        ("destination.endpointType", "WebHook"),
        ("destination.shown", "WebHook"),
        ("destination.endpointUrl", "https://e.example/typed"),
        ("filter.subjectBeginsWith", "/kept"),
    ];
    let answer = edit::save(State(app), names(), pairs(&typed)).await.into_response();
    let page = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    let page = String::from_utf8_lossy(&page);
    let (told, form) = page.split_once("<form class=\"document\"").expect("a form");
    for part in ["the form below lacks", "https://e.example/typed", ":orders"] {
        assert!(told.contains(part), "`{part}` is not in {told}");
    }
    assert!(form.contains("value=\"/kept\"") && !form.contains("e.example/typed"), "{form}");
    // A field that is filled in is not reported as missing.
    let lacks = told.split("the form below lacks").nth(1).unwrap_or_default();
    assert!(!lacks.contains("/kept"), "{lacks}");
}

/// A query that is read into a type.
fn query<T: DeserializeOwned>(fields: Value) -> Query<T> {
    Query(serde_json::from_value(fields).expect("a query"))
}

/// The API never answers a single request for the topics.
#[tokio::test]
async fn a_page_is_shown_before_all_that_it_has_is_there() {
    let (app, _fake) = console_of(FakeApi::together(("GET /topics", 2), &[]).await).await;
    let overview = overview::show(State(app.clone()), HeaderMap::new(), query(json!({}))).await;
    let ledger = ledger::show(State(app), query(json!({"since": "1h"}))).await;
    for (answer, title) in [(overview, "<h1>Overview</h1>"), (ledger, "<h1>Ledger</h1>")] {
        let answer = answer.into_response();
        assert_eq!(answer.status(), 200);
        let mut chunks = answer.into_body().into_data_stream();
        let first = chunks.next().await.expect("a part").expect("bytes");
        let first = String::from_utf8_lossy(&first);
        assert!(first.contains(title) && !first.contains("</main>"), "{first}");
    }
}

/// Three topics of 600 event subscriptions each, at a path below them.
async fn crowded(path: &str, of: impl Fn(usize) -> Value) -> (App, FakeApi) {
    let names: Value =
        ["aaa", "bbb", "ccc"].map(|name| documents::topic(name, &json!({}))).into_iter().collect();
    let all = json!({"value": (0..600).map(of).collect::<Value>()});
    let paths = ["aaa", "bbb", "ccc"].map(|name| format!("GET /topics/{name}/{path} "));
    let mut rows: Vec<Row<'_>> =
        paths.iter().map(|path| (path.as_str(), 200, all.clone())).collect();
    rows.push(("GET /topics?", 200, json!({ "value": names })));
    console(&rows).await
}

async fn text(answer: impl IntoResponse) -> String {
    let body = to_bytes(answer.into_response().into_body(), usize::MAX).await.expect("a body");
    String::from_utf8(body.into()).expect("text")
}

#[tokio::test]
async fn a_page_reads_up_to_a_limit_and_says_what_it_leaves_out() {
    let healthy = documents::health(&json!({"waitingDeliveries": {"count": 1}}));
    let health = |at: usize| json!({"name": format!("s-{at}"), "health": healthy});
    let (app, _fake) = crowded("healths", health).await;
    let page =
        text(overview::show(State(app), HeaderMap::new(), query(json!({"part": "health"}))).await)
            .await;
    for part in ["Only the first 1\u{202f}200", "more than 1\u{202f}200 deliveries"] {
        assert!(page.contains(part), "`{part}` is not in {page}");
    }
    let of = |at: usize| documents::subscription(&format!("s-{at}"), &json!({}));
    let (app, _fake) = crowded("eventSubscriptions", of).await;
    let page = text(letters::all(State(app), query(json!({}))).await).await;
    let (_, skipped) = page.split_once("There are too many").expect("told");
    assert!(skipped.contains("/topics/ccc") && !skipped.contains("/topics/bbb"), "{skipped}");
}

#[tokio::test]
async fn what_a_late_part_can_t_read_is_told_on_the_page() {
    let (app, _fake) = console(&[]).await;
    let answer = ledger::show(State(app), query(json!({}))).await.into_response();
    let page = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("role=\"alert\"") && page.trim_end().ends_with("</html>"), "{page}");
}

/// As the API takes it: while the delivery waits, whenever it is due, and not once it has ended.
#[tokio::test]
async fn an_attempt_is_offered_while_a_delivery_waits() {
    let path = "GET /topics/orders/eventSubscriptions/billing/deliveries/d-1";
    for (status, is_offered) in [("Waiting", true), ("Ending", false), ("Delivered", false)] {
        let document =
            documents::delivery(&json!({"status": status, "due": "2999-01-01T00:00:00Z",
            "attempts": [{"attempt": 1, "startTime": "2026-01-01T00:00:01Z", "outcome": "Busy",
                "durationInMs": 1}]}));
        let (app, _fake) = console(&[(path, 200, document)]).await;
        let of = ["orders", "billing", "d-1"].map(str::to_owned);
        let answer = delivery::show(State(app), Path(of.into()), query(json!({}))).await;
        let page = answer.expect("a page").into_string();
        let refreshed = live_parts(&page).iter().any(|(_, part)| part.contains("Attempt now"));
        assert_eq!(refreshed, is_offered, "{status}: {page}");
    }
}

/// A page of the list has events of the journal, and links to its deliveries by their last answers.
#[tokio::test]
async fn failing_deliveries_have_their_events_and_are_filtered_by_their_last_answers() {
    let id = |at: u128| uuid::Uuid::from_u128(at).to_string();
    let ids = ["order-123-placed", "order-124-placed"];
    let (deliveries, entries): (Vec<_>, Vec<_>) = (0..50)
        .map(|at| {
            let outcome = if at < 20 { "Busy" } else { "TimedOut" };
            let delivery = json!({"id": id(at), "lastDeliveryOutcome": outcome,
                "lastDeliveryAttemptTime": documents::TIME, "due": documents::TIME});
            let entry = json!({"deliveryId": id(at), "eventIds": ids, "events": 2});
            (documents::delivery(&delivery), documents::journal_entry(&entry))
        })
        .unzip();
    let of = "GET /topics/orders/eventSubscriptions/billing";
    let rows = [
        (
            &*format!("{of}/deliveries"),
            200,
            json!({"value": deliveries, "nextLink": "/x?$skiptoken=n"}),
        ),
        (&format!("{of}/health"), 200, documents::health(&json!({}))),
        ("POST /journalQueries", 200, documents::journal_query(&json!({ "attempts": entries }))),
    ];
    let (app, _fake) = console(&rows).await;
    for (asked, count) in [
        (json!({}), 50),
        (json!({"outcome": "Busy", "after": "a"}), 20),
        (json!({"outcome": "<b>"}), 0),
    ] {
        let page = delivery::list(State(app.clone()), names(), query(asked)).await;
        let page = page.expect("a page").into_string();
        assert!(page.len() < 66_000, "{}", page.len());
        assert_eq!(page.matches("id=order-123-placed\"").count(), count, "{page}");
        for part in ["outcome=TimedOut\">Timed out 30</a>", "this page alone", "rel=\"next\""] {
            assert!(page.contains(part), "`{part}` is not in {page}");
        }
    }
}

const HEALTHS: &str = "GET /topics/orders/healths";
const HEALTH: &str = "GET /topics/orders/eventSubscriptions/billing/health";
const LETTERS: &str = "GET /topics/orders/eventSubscriptions/billing/deadLetters";

#[tokio::test]
async fn what_can_be_read_is_shown_and_the_rest_says_what_is_missing() {
    let billing = documents::subscription("billing", &json!({}));
    let health = documents::health(&json!({}));
    let named = json!({"name": "billing", "health": health});
    let orders = documents::topic("orders", &json!({}));
    let rows = |missing: &'static str, status| {
        [
            (missing, status, json!({"message": "Not this one."})),
            (HEALTH, 200, health.clone()),
            (HEALTHS, 200, json!({"value": [named]})),
            ("GET /topics/orders/eventSubscriptions/billing", 200, billing.clone()),
            ("GET /topics/orders/eventSubscriptions", 200, json!({"value": [billing]})),
            ("GET /topics/orders", 200, orders.clone()),
            ("GET /topics", 200, json!({"value": [orders]})),
            ("GET /parked", 200, json!({"value": []})),
            ("GET /poison", 200, json!({"value": [], "approximateCount": 0, "isComplete": true})),
        ]
    };
    let look = || query(json!({}));
    let table = [
        ("GET /topics?", 429, "/", "<code>GET /topics</code>", "Poison queue"),
        (HEALTHS, 429, "/", "for 1: orders", "slow down"),
        (HEALTHS, 403, "/", "/topics/*/healths", "execute-api:Invoke"),
        (HEALTHS, 429, "topic", "slow down", "orders/subscriptions/billing"),
        (HEALTH, 403, "one", "health could not be read", "Settings"),
        ("GET /parked", 403, "waiting", "execute-api:Invoke", "It is empty"),
        ("GET /poison", 403, "waiting", "execute-api:Invoke", "No delivery is parked"),
    ];
    for (missing, status, page, problem, rest) in table {
        let (app, _fake) = console(&rows(missing, status)).await;
        let answer = match page {
            "/" => {
                overview::show(State(app), HeaderMap::new(), query(json!({}))).await.into_response()
            }
            "topic" => topics::show(State(app), topic(), look()).await.into_response(),
            "one" => {
                subscription::show(State(app), names(), query(json!({}))).await.into_response()
            }
            _ => waiting::show(State(app), query(json!({}))).await.into_response(),
        };
        assert_eq!(answer.status(), 200, "{missing}");
        let page = text(answer).await;
        for part in [problem, rest] {
            assert!(page.contains(part), "{missing} {status}: `{part}` is not in {page}");
        }
    }
}

#[tokio::test]
async fn dead_letters_that_can_t_be_read_are_named_before_a_purge() {
    let letter = json!({"id": "l-1", "objectName": "<b>o", "problem": "no letter"});
    let counted = json!({"events": 2, "redrivenEvents": 0, "byReason": {}, "byEventType": {},
        "unreadable": 1});
    let count = format!("{LETTERS}:count");
    let rows = [(count.as_str(), 200, counted), (LETTERS, 200, json!({"value": [letter]}))];
    let (app, _fake) = console(&rows).await;
    let page = text(purge::form(State(app), names(), query(json!({}))).await).await;
    let link = "<a href=\"/topics/orders/subscriptions/billing/dead-letters/l-1\">&lt;b&gt;o</a>";
    for part in ["1 more objects or records can't be read", link, "no letter"] {
        assert!(page.contains(part), "`{part}` is not in {page}");
    }
}

#[tokio::test]
async fn nothing_is_redriven_into_a_probation_that_ends_events() {
    let health = documents::health(&json!({"newEvents": "Ends", "until": "2026-01-01T00:05:00Z"}));
    let at = "/topics/orders/eventSubscriptions/billing";
    let (begin, list) = (format!("POST {at}/deadLetters:redrive"), format!("GET {at}/redrives"));
    let rows = [
        (HEALTH, 200, health),
        (begin.as_str(), 202, documents::redrive(&json!({}))),
        (list.as_str(), 200, json!({"value": []})),
    ];
    let (app, _fake) = console(&rows).await;
    let send = ("action", "send");
    let refused = redrive::begin(State(app.clone()), names(), form(&[send])).await;
    let told = "orders/billing is on probation until";
    shows(refused, 400, &["Nothing was begun", told]).await;
    let meant = form(&[send, ("on_probation", "yes")]);
    let begun = redrive::begin(State(app), names(), meant).await.into_response();
    assert_eq!(begun.status(), 303);
}

/// A page that is live sends what has changed; one that is none ends the stream, so that no browser asks again.
#[tokio::test(start_paused = true)]
async fn a_stream_has_the_parts_of_its_page_and_ends_where_nothing_changes() {
    let orders = documents::topic("orders", &json!({}));
    let rows = [("GET /topics", 200, json!({"value": [orders]}))];
    let (app, _fake) = console(&rows).await;
    let stream = async |page: &str| {
        let answer = live::stream(State(app.clone()), query(json!({"page": page}))).await;
        let frames = answer.into_body().into_data_stream().take(9);
        let text = |frame: Result<Bytes, _>| {
            String::from_utf8_lossy(&frame.expect("a frame")).into_owned()
        };
        frames.map(text).collect::<Vec<String>>().await.concat()
    };
    let sent = stream("/").await;
    for part in ["event: now", "event: part", "Not everything could be read"] {
        assert!(sent.contains(part), "`{part}` is not in {sent}");
    }
    assert!(stream("/cost?events=x").await.contains("event: problem"));
    assert!(stream("/topics").await.contains("event: over"));
    let paths = ["//evil.example/", "/live?page=/", "/sign-in?token=x", "topics", "/\n", ""];
    for elsewhere in paths.into_iter().chain(["http://evil.example/"]) {
        let sent = stream(elsewhere).await;
        assert!(!sent.contains("event: part") && !sent.contains("event: now"), "{sent}");
    }
}

/// Each live tail reads the log: there are only so many. A script can't read why a stream is refused.
#[tokio::test]
async fn what_keeps_the_live_tail_from_streaming_is_told_in_the_stream() {
    let (app, _fake) = console(&[]).await;
    let _open = app.tails.acquire_many(TAILS_MAX as u32).await.expect("all of them");
    let refused = tail::stream(State(app.clone()), HeaderMap::new(), query(json!({}))).await;
    assert_eq!(refused.status(), 200);
    let told = text(refused).await;
    assert!(told.contains("event: problem") && told.contains("close one of them"), "{told}");
}

/// All live tails share one budget for an hour.
#[tokio::test]
async fn a_live_tail_that_costs_too_much_ends_and_says_when_it_may_go_on() {
    let answer = |status: &str, dollars: f64| {
        documents::journal_query(&json!({"status": status, "dollars": dollars, "attempts": []}))
    };
    let rows = [
        ("\"maxDollars\":0.02}", 200, answer("Succeeded", 0.02)),
        ("\"maxDollars\":0.0}", 202, answer("TooDear", 0.01)),
    ];
    let (app, _fake) = console_of(FakeApi::naming(&rows).await).await;
    let first = tail::show(State(app.clone()), query(json!({}))).await;
    assert_eq!(first.into_response().status(), 200);
    let told = text(tail::stream(State(app), HeaderMap::new(), query(json!({}))).await).await;
    for part in ["event: problem", "costs about $0.01", "the $0.00 that it may", "ask again later"]
    {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}
