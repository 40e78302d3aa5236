//! Events of payload format 2.0, as both front doors and local tools send them, through the reader
//! that they share and through the real handlers of ingest and manage.

use std::{future::ready, sync::Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use gridpost_core::gateway::Request;
use gridpost_manage::{Authorization, not_base64};
use gridpost_runtime::gateway;
use http::Response;
use serde_json::{Value, json};

use super::{
    fixture::{Fixture, event_of},
    read,
};

const TABLE: &str = include_str!("../../conformance/gateway_requests.json");

const EVENT: &str =
    r#"{"id":"e-1","subject":"s","eventType":"T","eventTime":"2026-01-02T03:04:05Z"}"#;

fn rows(table: &str, least: usize) -> Vec<Value> {
    let rows = read(TABLE)[table].as_array().expect("rows").clone();
    assert!(rows.len() >= least, "{} rows of {table}", rows.len());
    rows
}

#[tokio::test]
async fn every_recorded_request_is_read_as_it_was_sent() {
    for row in rows("requests", 16) {
        let got = Mutex::default();
        let keep = |request: Request| {
            *got.lock().expect("no panic while held") = Some(request);
            ready(Response::default())
        };
        let event = event_of(row["event"].clone());
        let answered = gateway::answer(event, not_base64, keep).await;
        answered.map(drop).expect("an HTTP request");
        let got = got.into_inner().expect("no panic while held").expect("a request");
        let Request { method, path, query, headers, authorizer, route, body, .. } = got;
        let method = method.as_str();
        let (name, want) = (&row["name"], &row["request"]);
        assert_eq!(
            json!([method, path, query]),
            json!([want["method"], want["path"], want["query"]]),
            "{name}"
        );
        let authorizer = authorizer.map(|authorizer| format!("{authorizer:?}"));
        assert_eq!(
            json!([route, authorizer]),
            json!([want["route"], want["authorizer"]]),
            "{name}"
        );
        let wanted = match want["bodyBase64"].as_str() {
            Some(base64) => STANDARD.decode(base64).expect("base64"),
            None => want["body"].as_str().expect("a body").as_bytes().to_vec(),
        };
        assert_eq!(body, wanted, "{name}");
        for (header, value) in want["headers"].as_object().expect("headers") {
            let found = headers.get(header).and_then(|found| found.to_str().ok());
            assert_eq!(found, value.as_str(), "{name}: {header}");
        }
        assert!(!headers.contains_key("x-null"), "{name}");
    }
}

/// A deployment with a topic of each kind, and one event subscription.
async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    for (topic, document) in [
        ("demo", json!({})),
        ("clouds", json!({"properties": {"inputSchema": "CloudEventSchemaV1_0"}})),
        ("spaces", json!({"kind": "namespace"})),
    ] {
        let reply = fixture.send(&format!("PUT /topics/{topic}"), &document).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }
    let document = json!({"properties": {"destination": {
        "endpointType": "WebHook", "properties": {"endpointUrl": "https://hook.example/"},
    }}});
    let made = fixture.send("PUT /topics/demo/eventSubscriptions/es-1", &document).await;
    assert_eq!(made.status, 201, "{made:?}");
    fixture
}

/// The recorded event with another method, path and body; what it says beside them stays. A stage
/// stays before the path, and `$default` stays the route of those who have none.
fn made_into(event: &Value, method: &str, path: &str, route: &str, body: &[u8]) -> Value {
    let mut event = event.clone();
    let stage = event["requestContext"]["stage"].as_str().filter(|stage| *stage != "$default");
    let path = stage.map_or_else(String::new, |stage| format!("/{stage}")) + path;
    for at in ["/routeKey", "/requestContext/routeKey"] {
        if let Some(Value::String(key)) = event.pointer_mut(at)
            && key != "$default"
        {
            *key = route.to_owned();
        }
    }
    if !event["rawPath"].is_null() {
        event["rawPath"] = json!(path);
    }
    event["requestContext"]["http"]["method"] = json!(method);
    event["requestContext"]["http"]["path"] = json!(path);
    let in_base64 = event["isBase64Encoded"] == true;
    event["body"] = match (body.is_empty(), in_base64) {
        (true, _) => return event,
        (false, true) => json!(STANDARD.encode(body)),
        (false, false) => json!(String::from_utf8_lossy(body)),
    };
    event
}

#[tokio::test(start_paused = true)]
async fn every_recorded_request_made_into_a_publish_is_accepted() {
    for row in rows("requests", 16) {
        let fixture = fixture().await;
        let route = "POST /topics/{topic}/api/events";
        let body = format!("[{EVENT}]");
        let path = "/topics/demo/api/events";
        let mut event = made_into(&row["event"], "POST", path, route, body.as_bytes());
        event["headers"]["aeg-sas-key"] = json!(fixture.key("demo").await);
        event["headers"]["content-type"] = json!("application/json");
        let answer = fixture.publish(event).await;
        assert_eq!(answer, (200, String::new()), "{}", row["name"]);
        let requests = fixture.requests();
        assert_eq!(requests.len(), 1, "{}", row["name"]);
        let events = read(&String::from_utf8_lossy(&requests[0].1));
        assert_eq!(events[0]["id"], "e-1", "{}", row["name"]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_recorded_request_made_into_a_list_is_answered() {
    for row in rows("requests", 16) {
        let fixture = fixture().await;
        let mut event = made_into(&row["event"], "GET", "/topics", "GET /topics", b"");
        event["rawQueryString"] = match &event["rawQueryString"] {
            Value::Null => Value::Null,
            _ => json!(""),
        };
        let (status, body) = fixture.manage(event).await;
        assert_eq!(status, 200, "{}: {body}", row["name"]);
        let topics = read(&body)["value"].as_array().map(Vec::len);
        assert_eq!(topics, Some(3), "{}", row["name"]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_is_answered_as_the_table_says() {
    let mut problems = Vec::new();
    for row in rows("asTheyAre", 23) {
        let mut fixture = fixture().await;
        fixture.manage.settings.authorization = Authorization::None;
        let path = row["event"]["rawPath"].as_str().expect("a path");
        let topic = ["clouds", "spaces"].into_iter().find(|topic| path.contains(topic));
        let key = fixture.key(topic.unwrap_or("demo")).await;
        fixture.manage.settings.authorization = Authorization::Iam;
        let event = read(&row["event"].to_string().replace("KEY", &key));
        let (status, body) = match (row["ingest"].as_u64(), row["manage"].as_u64()) {
            (Some(_), None) => fixture.publish(event).await,
            (None, Some(_)) => fixture.manage(event).await,
            _ => panic!("{}: for one of them", row["name"]),
        };
        let want = row["ingest"].as_u64().or(row["manage"].as_u64());
        if want != Some(status) {
            problems.push(format!("{}: {status} {body}", row["name"]));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
