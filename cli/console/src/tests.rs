//! What was typed is on the page again where the API does not answer, or refuses; and what a page does not
//! wait for.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures::StreamExt;
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;
use url::form_urlencoded::Serializer;

use super::page::{self, live_parts};
use super::traffic::{Scope, Since};
use super::{App, Settings, Shared, TAILS_MAX, pages};
use gridpost_ops::clock;
use gridpost_ops::target::TargetArguments;
use gridpost_ops::testkit::{FakeApi, documents};

/// A row of the API's answers.
type Row<'a> = (&'a str, u16, Value);

/// The fields of a form.
type Fields<'a> = &'a [(&'a str, &'a str)];

/// A console without its guard, and the API that it asks.
struct Console {
    app: App,
    _api: FakeApi,
}

impl Console {
    /// One whose API answers by those rows, and by 500 to all else.
    async fn of(rows: &[Row<'_>]) -> Self {
        Self::over(FakeApi::answering(rows).await).await
    }

    async fn over(api: FakeApi) -> Self {
        let url = Some(api.url());
        let arguments = TargetArguments { manage_url: url, ..TargetArguments::default() };
        let target = arguments.resolve().expect("a deployment");
        let client = target.manage_api().await.expect("an API");
        let (name, flags) = ("test".to_owned(), String::new());
        let settings = Settings { target, name, flags, read_only: false, port: 7071 };
        Self { app: Arc::new(Shared::new(settings, client).0), _api: api }
    }

    async fn answer(&self, request: Request<Body>) -> Response {
        pages().with_state(Arc::clone(&self.app)).oneshot(request).await.expect("an answer")
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        text(self.answer(request).await).await
    }

    async fn post(&self, path: &str, fields: Fields<'_>) -> (u16, String) {
        let form = Serializer::new(String::new()).extend_pairs(fields).finish();
        let kind = "application/x-www-form-urlencoded";
        let request = Request::post(path).header(CONTENT_TYPE, kind).body(Body::from(form));
        text(self.answer(request.expect("a request")).await).await
    }
}

async fn text(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
    (status, String::from_utf8(body.into()).expect("text"))
}

/// The answer has that status and those parts.
fn shows((status, text): &(u16, String), want: u16, parts: &[&str]) {
    assert_eq!(*status, want, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
}

const ORDERS: &str = "/topics/orders";
const BILLING: &str = "/topics/orders/subscriptions/billing";
const BILLING_OF_API: &str = "GET /topics/orders/eventSubscriptions/billing";

/// What a form was made from.
const ETAG: (&str, &str) = ("etag", "\"7\"");

/// The page is still made from what it was made from: a second try can't undo unseen what another one saved.
const OLD_STATE: &str = "name=\"etag\" value=\"&quot;7&quot;\"";

fn webhook(url: &str) -> Value {
    json!({"properties": {"destination": {"endpointType": "WebHook", "properties": {"endpointUrl": url}}}})
}

#[tokio::test]
async fn what_is_typed_stays_where_the_api_refuses_it_or_does_not_answer() {
    let none = Value::Null;
    let topic = json!({"properties": {"inputSchema": "CustomEventSchema"}});
    let policy = json!({"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440});
    let policy = json!({"properties": {"retryPolicy": policy}});
    let subscription = webhook("https://e.example/was");
    let [subscribe, edit_topic] = ["subscribe", "edit"].map(|below| format!("{ORDERS}/{below}"));
    let [retry, edit, edit_json] =
        ["retry", "edit", "edit/json"].map(|below| format!("{BILLING}/{below}"));
    let (create_topic, publish) = ("/create-topic".to_owned(), format!("{ORDERS}/publish"));
    let labels = json!({"properties": {"labels": ["typed"]}}).to_string();
    let kind = ("destination.endpointType", "WebHook");
    let shown = ("destination.shown", "WebHook");
    let url = ("destination.endpointUrl", "https://e.example/typed");
    let members = ["eventType", "subject", "data", "id", "eventTime", "dataVersion"];
    let members = members.map(|member| format!("field.{member}"));
    let mut event: Vec<_> = members.iter().map(|name| (name.as_str(), "typed-here")).collect();
    event.extend([("action", "publish"), ("made.schema", "EventGridSchema")]);
    // A form's path, the state that it was made from, its fields, and what stays.
    let redrive = format!("{BILLING}/redrive");
    let table: [(_, _, Fields<'_>, &[&str]); 9] = [
        (&redrive, &none, &[("to_name", "typed")], &["value=\"typed\""]),
        (
            &create_topic,
            &none,
            &[("name", "typed"), ("idempotency.windowInSeconds", "77")],
            &["value=\"typed\"", "value=\"77\""],
        ),
        (
            &subscribe,
            &none,
            &[("name", "billing"), kind, shown, url, ("made.profile", "namespace")],
            &["value=\"billing\"", "https://e.example/typed", "retryPolicy.maxDeliveryCount"],
        ),
        (
            &edit_topic,
            &topic,
            &[("inputSchemaMapping.id.sourceField", "typed-id")],
            &["value=\"typed-id\""],
        ),
        (
            &retry,
            &policy,
            &[
                ("retryPolicy.maxDeliveryAttempts", "17"),
                ("retryPolicy.schedule", "5, 61"),
                ("answers", "503"),
            ],
            &["value=\"17\"", "value=\"5, 61\"", "value=\"503\"", "timeline can't be shown"],
        ),
        (
            &edit,
            &subscription,
            &[kind, shown, ("filter.subjectBeginsWith", "/typed")],
            &["value=\"/typed\""],
        ),
        (&edit_json, &subscription, &[("document", &labels)], &["typed"]),
        (
            &publish,
            &none,
            &[("event", "{\"typed\": 1}"), ("action", "publish")],
            &["{&quot;typed&quot;: 1}"],
        ),
        (
            &publish,
            &none,
            &event,
            &["name=\"field.eventType\" value=\"typed-here\"", "name=\"field.data\""],
        ),
    ];
    for (path, was, fields, kept) in table {
        let was_text = was.to_string();
        let made_from = [ETAG, ("was", &*was_text)];
        let made_from = if was.is_null() { &[][..] } else { &made_from };
        for (status, want) in [(500, 502), (429, 429), (412, 412)] {
            let refusals = ["PUT ", "PATCH "].map(|method| (method, status, json!({})));
            let console = Console::of(&refusals).await;
            let answer = console.post(path, &[made_from, fields].concat()).await;
            let is_post = ["/publish", "/redrive"].iter().any(|end| path.ends_with(end));
            let want = if is_post { 502 } else { want };
            let alert = ["role=\"alert\"", "name=\"csrf\"", "Nothing was"];
            shows(&answer, want, &[&alert[..], kept].concat());
            if !was.is_null() {
                let changed = ["it was changed meanwhile"];
                let told = if status == 412 { &changed[..] } else { &["Nothing was saved"] };
                shows(&answer, want, &[&[OLD_STATE], told].concat());
            }
        }
    }
}

#[tokio::test]
async fn the_path_of_checks_publishes_nothing() {
    let topic =
        documents::topic("orders", &json!({"properties": {"inputSchema": "CustomEventSchema"}}));
    let console = Console::of(&[("GET /topics/orders ", 200, topic)]).await;
    let typed = [("event", "{}"), ("action", "publish")];
    let answer = console.post(&format!("{ORDERS}/publish/check"), &typed).await;
    shows(&answer, 200, &["The topic takes this event."]);
}

#[tokio::test]
async fn a_document_without_the_state_that_it_was_made_from_stays() {
    let typed = [("document", "{\"typed\": 1}")];
    let answer = Console::of(&[]).await.post(&format!("{BILLING}/edit/json"), &typed).await;
    shows(&answer, 400, &["does not say what it was made from", "{&quot;typed&quot;: 1}"]);
}

/// Another one has made the topic again, for events that have no mapping.
#[tokio::test]
async fn a_mapping_that_was_typed_is_told_where_the_topic_has_another_schema_by_now() {
    let was = json!({"properties": {"inputSchema": "CustomEventSchema"}}).to_string();
    let now =
        documents::topic("orders", &json!({"properties": {"inputSchema": "EventGridSchema"}}));
    let rows = [("PATCH ", 412, json!({})), ("GET /topics/orders ", 200, now)];
    let typed = [ETAG, ("was", &was), ("inputSchemaMapping.id.sourceField", "typed-id")];
    let answer = Console::of(&rows).await.post(&format!("{ORDERS}/edit"), &typed).await;
    shows(&answer, 412, &["the form below lacks", "typed-id"]);
    assert!(!answer.1.contains("is of another type now"));
}

/// Another one has made the webhook a queue meanwhile: the form has no field for a URL then.
#[tokio::test]
async fn what_was_typed_is_told_where_the_destination_has_another_type_by_now() {
    let was = webhook("https://e.example/was").to_string();
    let queue = json!({"resourceId": "arn:aws:sqs:eu-central-1:123456789012:orders", "endpointBaseUrl": null});
    let changed =
        json!({"properties": {"destination": {"endpointType": "SqsQueue", "properties": queue}}});
    let changed = documents::subscription("billing", &changed);
    let console = Console::of(&[("PATCH ", 412, json!({})), (BILLING_OF_API, 200, changed)]).await;
    let typed = [
        ETAG,
        ("was", was.as_str()),
        ("destination.endpointType", "WebHook"),
        ("destination.shown", "WebHook"),
        ("destination.endpointUrl", "https://e.example/typed"),
        ("filter.subjectBeginsWith", "/kept"),
    ];
    let (_, page) = console.post(&format!("{BILLING}/edit"), &typed).await;
    let (told, form) = page.split_once("<form class=\"document\"").expect("a form");
    for part in ["the form below lacks", "https://e.example/typed", ":orders"] {
        assert!(told.contains(part), "`{part}` is not in {told}");
    }
    assert!(form.contains("value=\"/kept\"") && !form.contains("e.example/typed"), "{form}");
    // A field that is filled in is not reported as missing.
    let lacks = told.split("the form below lacks").nth(1).unwrap_or_default();
    assert!(!lacks.contains("/kept"), "{lacks}");
}

/// The API never answers a single request for the topics.
#[tokio::test]
async fn a_page_is_shown_before_all_that_it_has_is_there() {
    let console = Console::over(FakeApi::together(("GET /topics", 2), &[]).await).await;
    for (path, title) in [("/", "<h1>Overview</h1>"), ("/ledger?since=1h", "<h1>Ledger</h1>")] {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let mut chunks = console.answer(request).await.into_body().into_data_stream();
        let first = chunks.next().await.expect("a part").expect("bytes");
        let first = String::from_utf8_lossy(&first);
        assert!(first.contains(title) && !first.contains("</main>"), "{first}");
    }
    let (_, page) = Console::of(&[]).await.get("/ledger").await;
    assert!(page.contains("role=\"alert\"") && page.trim_end().ends_with("</html>"), "{page}");
}

/// Three topics of 600 event subscriptions each, at a path below them.
async fn crowded(path: &str, of: impl Fn(usize) -> Value) -> Console {
    let names = ["aaa", "bbb", "ccc"];
    let topics: Value = names.map(|name| documents::topic(name, &json!({}))).into_iter().collect();
    let all = json!({"value": (0..600).map(of).collect::<Value>()});
    let paths = names.map(|name| format!("GET /topics/{name}/{path} "));
    let mut rows: Vec<Row<'_>> = paths.iter().map(|path| (&**path, 200, all.clone())).collect();
    rows.push(("GET /topics?", 200, json!({"value": topics})));
    Console::of(&rows).await
}

#[tokio::test]
async fn a_page_reads_up_to_a_limit_and_says_what_it_leaves_out() {
    let healthy = documents::health(&json!({"waitingDeliveries": {"count": 1}}));
    let health = |at: usize| json!({"name": format!("s-{at}"), "health": healthy});
    let overview = crowded("healths", health).await.get("/").await;
    // Three lists, and two for each event subscription of which deliveries wait.
    let read = "<!--read 2403-->";
    let parts = ["Only the first 1\u{202f}200", "at least 1\u{202f}200 deliveries", read];
    shows(&overview, 200, &parts);
    let of = |at: usize| documents::subscription(&format!("s-{at}"), &json!({}));
    let (_, page) = crowded("eventSubscriptions", of).await.get("/dead-letters").await;
    let (_, skipped) = page.split_once("There are too many").expect("told");
    assert!(skipped.contains("/topics/ccc") && !skipped.contains("/topics/bbb"), "{skipped}");
}

/// The topics follow by themselves; a topic has charts as soon as there is something to draw.
#[tokio::test]
async fn a_new_topic_has_no_charts() {
    let orders = documents::topic("orders", &json!({}));
    let entry = json!({"time": documents::TIME, "accepted": 1, "unmatched": 1});
    for (names, came, has_charts) in
        [(&[][..], json!([]), false), (&[], json!([entry]), false), (&["billing"], json!([]), true)]
    {
        let all = names.iter().map(|name| documents::subscription(name, &json!({})));
        let rows = [
            ("POST /journalQueries", 200, documents::journal_query(&json!({"series": came}))),
            (
                "GET /topics/orders/eventSubscriptions",
                200,
                json!({"value": all.collect::<Value>()}),
            ),
            ("GET /topics/orders/healths", 200, json!({"value": []})),
            ("GET /topics/orders", 200, orders.clone()),
            ("GET /topics?", 200, json!({"value": [orders]})),
        ];
        let console = Console::of(&rows).await;
        let (_, page) = console.get(ORDERS).await;
        assert!(page.contains("For no event subscription"), "{page}");
        assert_eq!(page.contains("What became of events"), has_charts, "{page}");
        let (_, list) = console.get("/topics").await;
        assert!(live_parts(&list).iter().any(|(id, _)| *id == "topics"), "{list}");
        assert!(page::is_live(&list), "{list}");
    }
}

/// Names of 64 letters, URLs of 1 KB and answers that are long.
#[tokio::test]
async fn pages_of_long_texts_are_light() {
    let (topic, long) = ("t".repeat(64), "x/".repeat(512));
    let name = |at: usize| format!("{at:0>64}");
    let url = json!({"endpointBaseUrl": format!("https://e.example/{long}")});
    let filter = json!({"subjectBeginsWith": long});
    let settings = json!({"properties": {"destination": {"properties": url}, "filter": filter}});
    let of = |at| documents::subscription(&name(at), &settings);
    let health = documents::health(&json!({"state": "Probation", "newEvents": "Waits",
        "waitingEvents": 9_000_000, "nextProbe": {"notBefore": documents::TIME}}));
    let well = documents::health(&json!({}));
    let healths = (0..99)
        .map(|at| json!({"name": name(at), "health": if at < 50 { &health } else { &well }}));
    let healths = healths.collect::<Value>();
    let ended =
        json!({"total": 9_000_000, "byReason": {"UndeliverableDueToHttpBadRequest": 9_000_000}});
    let none = json!({"total": 0, "byReason": {}});
    let latency = json!({"events": 9_000_000, "buckets": {}});
    let series = (0..99).map(|at| {
        let time = clock::rfc3339(clock::now() - time::Duration::minutes(14 * at as i64));
        json!({"time": time, "topic": topic, "eventSubscription": name(at), "accepted": 1,
            "unmatched": 0, "matched": 9_000_000, "redriven": 0, "delivered": 9_000_000,
            "deadLettered": if at < 50 { &ended } else { &none },
            "dropped": if at < 50 { &ended } else { &none }, "latency": latency})
    });
    let series = json!({"knownUntil": "2999-01-01T00:00:00Z", "series": series.collect::<Value>()});
    let document = documents::topic(&topic, &json!({}));
    let [of_topic, healths_of, one] = ["eventSubscriptions ", "healths", "eventSubscriptions/"]
        .map(|it| format!("GET /topics/{topic}/{it}"));
    let rows = [
        ("POST /journalQueries", 200, documents::journal_query(&series)),
        (&*of_topic, 200, json!({"value": (0..99).map(of).collect::<Value>()})),
        (&healths_of, 200, json!({"value": healths})),
        (&one, 200, of(0)),
        ("GET /topics?", 200, json!({"value": vec![&document; 50]})),
        ("GET /topics/", 200, document),
    ];
    let console = Console::of(&rows).await;
    let files: usize = crate::assets::FILES.iter().map(|(.., text)| text.len()).sum();
    let of_topic = format!("/topics/{topic}?since=24h");
    for (path, rows, most) in [
        // Where a look costs nothing, ten of the rows have an answer and bars, too.
        ("/?since=24h", 16, 92_000),
        (&of_topic, 20, 100_000),
        ("/topics?since=24h", 50, 100_000),
        ("/waiting", 20, 60_000),
    ] {
        let (_, page) = console.get(path).await;
        let bytes = page.len() + files;
        assert!(bytes < most && page.matches("<tr>").count() > rows, "{path}: {bytes}");
    }
}

#[tokio::test]
async fn the_largest_backlogs_come_first_up_to_a_limit() {
    let health = |at: usize| {
        let events = if at == 7 { Value::Null } else { json!(at) };
        let health = json!({"waitingEvents": events, "waitingDeliveries": {"count": at / 100}});
        json!({"name": format!("s{at}"), "health": documents::health(&health)})
    };
    let (_, page) = crowded("healths", health).await.get("/waiting").await;
    let parts = ["s599</a>", "s593</a>"].map(|part| page.find(part));
    assert!(parts[0].is_some() && parts[0] < parts[1], "{page}");
    // Of the first nothing waits, and of the eighth that is not known.
    shows(&(200, page.clone()), 200, &["the largest 20 of 1\u{202f}196", "not all were looked at"]);
    assert_eq!(page.matches("/subscriptions/").count(), 20, "{page}");
}

/// As the API takes it: while the delivery waits, whenever it is due, and not once it has ended.
#[tokio::test]
async fn an_attempt_is_offered_while_a_delivery_waits() {
    let path = format!("{BILLING_OF_API}/deliveries/d-1");
    for (status, is_offered) in [("Waiting", true), ("Ending", false), ("Delivered", false)] {
        let document =
            documents::delivery(&json!({"status": status, "due": "2999-01-01T00:00:00Z",
            "attempts": [{"attempt": 1, "startTime": "2026-01-01T00:00:01Z", "outcome": "Busy",
                "durationInMs": 1}]}));
        let console = Console::of(&[(&path, 200, document)]).await;
        let (_, page) = console.get(&format!("{BILLING}/deliveries/d-1")).await;
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
    let [list, health] = ["deliveries", "health"].map(|below| format!("{BILLING_OF_API}/{below}"));
    let rows = [
        (&*list, 200, json!({"value": deliveries, "nextLink": "/x?$skiptoken=n"})),
        (&health, 200, documents::health(&json!({}))),
        ("POST /journalQueries", 200, documents::journal_query(&json!({ "attempts": entries }))),
    ];
    let console = Console::of(&rows).await;
    for (query, count) in [("", 50), ("?outcome=Busy&after=a", 20), ("?outcome=%3Cb%3E", 0)] {
        let page = console.get(&format!("{BILLING}/deliveries{query}")).await;
        let parts = ["outcome=TimedOut\">Timed out 30</a>", "this page alone", "rel=\"next\""];
        shows(&page, 200, &parts);
        assert!(page.1.len() < 66_000, "{}", page.1.len());
        assert_eq!(page.1.matches("id=order-123-placed\"").count(), count, "{}", page.1);
    }
}

/// 500 event subscriptions have the event, by 12 attempts each.
#[tokio::test]
async fn the_page_of_an_event_stays_small() {
    let name = |at: usize| format!("s{at:063}");
    let response = "no ".repeat(400);
    let entry = |at: usize| {
        let id = uuid::Uuid::from_u128(at as u128 / 12).to_string();
        documents::journal_entry(
            &json!({"id": at.to_string(), "deliveryId": id, "attempt": at % 12,
            "eventSubscription": name(at / 12), "response": response}),
        )
    };
    let entries: Vec<_> = (0..6_000).map(entry).collect();
    let filter = json!({"properties": {"filter": {"subjectBeginsWith": "x".repeat(1_000)}}});
    let all: Vec<_> = (0..500).map(|at| documents::subscription(&name(at), &filter)).collect();
    let answer = documents::journal_query(&json!({ "attempts": entries }));
    let rows = [
        ("/journalQueries ", 200, answer),
        ("/deliveries/", 200, documents::delivery(&json!({"attempts": []}))),
        ("/eventSubscriptions ", 200, documents::list(&all)),
        ("GET /topics", 200, documents::list(&[documents::topic("orders", &json!({}))])),
    ];
    let console = Console::over(FakeApi::naming(&rows).await).await;
    let page = console.get("/events?topic=orders&id=e1").await;
    let parts = ["480 more: ", "480 waiting", "5\u{202f}984 earlier ones are not listed"];
    shows(&page, 200, &parts);
    assert!(page.1.len() < 70_000, "{}", page.1.len());
}

#[tokio::test]
async fn what_can_be_read_is_shown_and_the_rest_says_what_is_missing() {
    let billing = documents::subscription("billing", &json!({}));
    let health = documents::health(&json!({}));
    let named = json!({"name": "billing", "health": health});
    let orders = documents::topic("orders", &json!({}));
    let of_billing = format!("{BILLING_OF_API}/health");
    let (one, healths) = (of_billing.as_str(), "GET /topics/orders/healths");
    let table = [
        ("GET /topics?", 429, "/", "<code>GET /topics</code>", "Poison queue"),
        (healths, 429, "/", "for 1: orders", "slow down"),
        (healths, 403, "/", "/topics/*/healths", "execute-api:Invoke"),
        (healths, 429, ORDERS, "slow down", "orders/subscriptions/billing"),
        (healths, 429, ORDERS, "need attention is not known", "not known</td>"),
        (healths, 429, "/topics", "slow down", "not known</td>"),
        (one, 403, BILLING, "health could not be read", "Settings"),
        ("GET /parked", 403, "/waiting", "execute-api:Invoke", "It is empty"),
        ("GET /poison", 403, "/waiting", "execute-api:Invoke", "No delivery is parked"),
    ];
    for (missing, status, path, problem, rest) in table {
        let rows = [
            (missing, status, json!({"message": "Not this one."})),
            (one, 200, health.clone()),
            (healths, 200, json!({"value": [named]})),
            (BILLING_OF_API, 200, billing.clone()),
            ("GET /topics/orders/eventSubscriptions", 200, json!({"value": [billing]})),
            ("GET /topics/orders", 200, orders.clone()),
            ("GET /topics", 200, json!({"value": [orders]})),
            ("GET /parked", 200, json!({"value": []})),
            ("GET /poison", 200, json!({"value": [], "approximateCount": 0, "isComplete": true})),
        ];
        shows(&Console::of(&rows).await.get(path).await, 200, &[problem, rest]);
    }
}

/// An hour has money for one answer.
#[tokio::test]
async fn two_looks_within_five_minutes_ask_the_journal_once() {
    let answer = documents::journal_query(&json!({"dollars": 0.03, "series": []}));
    let api = FakeApi::naming(&[("\"maxDollars\":0.03}", 200, answer)]).await;
    let console = Console::over(api).await;
    for now in ["14:30:08", "14:34:59"] {
        let now = Timestamp::parse_rfc_3339(&format!("2026-01-08T{now}Z")).expect("a time");
        let traffic = console.app.traffic(Scope::default(), Since::QUARTER_HOUR, now).await;
        assert_eq!(traffic.expect("an answer").begins.to_iso_8601(), "2026-01-08T14:15:00.000Z");
    }
}

#[tokio::test]
async fn dead_letters_that_can_t_be_read_are_named_before_a_purge() {
    let letter = json!({"id": "l-1", "objectName": "<b>o", "problem": "no letter"});
    let counted = json!({"events": 2, "redrivenEvents": 0, "byReason": {}, "byEventType": {},
        "unreadable": 1});
    let letters = format!("{BILLING_OF_API}/deadLetters");
    let count = format!("{letters}:count");
    let rows = [(&*count, 200, counted), (&letters, 200, json!({"value": [letter]}))];
    let page = Console::of(&rows).await.get(&format!("{BILLING}/purge")).await;
    let link = format!("<a href=\"{BILLING}/dead-letters/l-1\">&lt;b&gt;o</a>");
    shows(&page, 200, &["1 more objects or records can't be read", &link, "no letter"]);
}

#[tokio::test]
async fn nothing_is_redriven_into_a_probation_that_ends_events() {
    let health = documents::health(&json!({"newEvents": "Ends", "until": "2026-01-01T00:05:00Z"}));
    let job = documents::redrive(&json!({"dryRun": true, "counted": 2, "status": "Completed",
        "reason": "R", "target": {"eventSubscription": "billing"}}));
    let [of_health, of_job] =
        ["health", "redrives/j-1"].map(|below| format!("{BILLING_OF_API}/{below}"));
    let begin = BILLING_OF_API.replace("GET", "POST") + "/deadLetters:redrive";
    let rows = [(&*of_health, 200, health), (&of_job, 200, job.clone()), (&begin, 202, job)];
    let (console, path) = (Console::of(&rows).await, format!("{BILLING}/redrives/j-1/send"));
    let told = ["Nothing was begun", "orders/billing is on probation until"];
    shows(&console.post(&path, &[]).await, 400, &told);
    shows(&console.post(&path, &[("on_probation", "yes")]).await, 303, &[]);
}

/// Each live tail reads the log: there are only so many. A script can't read why a stream is refused.
#[tokio::test]
async fn what_keeps_the_live_tail_from_streaming_is_told_in_the_stream() {
    let console = Console::of(&[]).await;
    let _open = console.app.tails.acquire_many(TAILS_MAX as u32).await.expect("all of them");
    let told = console.get("/tail/stream").await;
    shows(&told, 200, &["event: problem", "close one of them"]);
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
    let console = Console::over(FakeApi::naming(&rows).await).await;
    shows(&console.get("/tail").await, 200, &[]);
    let told = console.get("/tail/stream").await;
    let parts = ["event: problem", "costs about $0.01", "the $0.00 that it may", "ask again later"];
    shows(&told, 200, &parts);
}
