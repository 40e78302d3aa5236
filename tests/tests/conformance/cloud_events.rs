//! CloudEvents over HTTP, valid and invalid, out of the specification and its conformance suite,
//! against the real handlers of ingest and manage. What the members of a row mean is said in the
//! table.

use base64::{Engine, engine::general_purpose::STANDARD};
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use super::{
    fixture::Fixture,
    read,
    rows::{Different, Verdict, judge},
};

/// Empty: where Gridpost differs from the specification the row has its answer, and `differs` says
/// why.
const DIFFERENT: &[Different] = &[];

const TABLE: &str = include_str!("../../conformance/cloud_events_http.json");

#[tokio::test(start_paused = true)]
async fn every_cloud_event_is_taken_or_refused_as_the_table_says() {
    let mut verdicts = Vec::new();
    for row in read(TABLE)["rows"].as_array().expect("rows") {
        verdicts.push((name(row), published(row).await));
    }
    assert!(verdicts.len() >= 67, "{} rows", verdicts.len());
    judge(&verdicts, DIFFERENT);
}

/// A sample of `:test` and of `explain` is read as a publish of it is.
#[tokio::test(start_paused = true)]
async fn samples_of_the_table_are_read_as_publishes_of_them_are() {
    let mut verdicts = Vec::new();
    for row in read(TABLE)["rows"].as_array().expect("rows") {
        if row["mode"] != "binary" {
            verdicts.push((name(row), tested(row).await));
        }
    }
    assert!(verdicts.len() >= 46, "{} rows", verdicts.len());
    judge(&verdicts, DIFFERENT);
}

fn name(row: &Value) -> String {
    row["name"].as_str().expect("a name").to_owned()
}

/// A deployment with one event subscription to a topic of CloudEvents.
async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let topic = json!({"properties": {"inputSchema": "CloudEventSchemaV1_0"}});
    assert_eq!(fixture.send("PUT /topics/demo", &topic).await.status, 201);
    let document = json!({"properties": {"destination": {
        "endpointType": "WebHook", "properties": {"endpointUrl": "https://hook.example/"},
    }}});
    let made = fixture.send("PUT /topics/demo/eventSubscriptions/es-1", &document).await;
    assert_eq!(made.status, 201, "{made:?}");
    fixture
}

async fn published(row: &Value) -> Verdict {
    let fixture = fixture().await;
    let mut headers = row["headers"].clone();
    headers["aeg-sas-key"] = json!(fixture.key("demo").await);
    let (status, body) = fixture
        .publish(json!({
            "version": "2.0", "routeKey": "POST /topics/{topic}/api/events",
            "rawPath": "/topics/demo/api/events", "rawQueryString": "", "headers": headers,
            "requestContext": {"http": {"method": "POST"}, "stage": "$default"},
            "body": STANDARD.encode(bytes(&row["body"])), "isBase64Encoded": true,
        }))
        .await;
    let requests = fixture.requests();
    let want = if row["valid"] == true { 200 } else { 400 };
    if status != want {
        return Err(format!("answered {status} {body}"));
    }
    let wanted = match &row["reads"] {
        Value::Array(events) => events.clone(),
        Value::Null => Vec::new(),
        event => vec![event.clone()],
    };
    // A row that is valid and names nothing of its event still has one.
    let count = wanted.len().max(usize::from(row["valid"] == true && row["reads"].is_null()));
    if requests.len() != count {
        return Err(format!("{} requests, not {count}", requests.len()));
    }
    for (index, (headers, body)) in requests.iter().enumerate() {
        if headers["content-type"] != "application/cloudevents+json; charset=utf-8" {
            return Err(format!("delivered as {:?}", headers["content-type"]));
        }
        let event: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        reads(&event, wanted.get(index).unwrap_or(&Value::Null))?;
        for name in row["absent"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if event.get(name).is_some_and(|value| name == "data" || !value.is_null()) {
                return Err(format!("{name} is {}", event[name]));
            }
        }
    }
    Ok(())
}

/// The bytes of a row's body.
fn bytes(body: &Value) -> Vec<u8> {
    match (body, body["base64"].as_str()) {
        (Value::String(text), _) => text.clone().into_bytes(),
        (_, Some(base64)) => STANDARD.decode(base64).expect("base64"),
        (json, None) => json.to_string().into_bytes(),
    }
}

/// Whether the event says all that is wanted.
fn reads(event: &Value, want: &Value) -> Verdict {
    for (name, want) in want.as_object().into_iter().flatten() {
        let found = &event[name];
        let is_same = match name.as_str() {
            "data" => is_same_json(found, want),
            "data_base64" => decoded(found).is_some() && decoded(found) == decoded(want),
            "time" => instant(found).is_some() && instant(found) == instant(want),
            _ => canonical(found) == canonical(want),
        };
        if !is_same {
            return Err(format!("{name} is {found}, not {want}"));
        }
    }
    Ok(())
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

fn instant(value: &Value) -> Option<Timestamp> {
    Timestamp::parse_rfc_3339(value.as_str()?)
}

/// Numbers by value, all else as it is.
fn is_same_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_json(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let alike = |(name, a)| b.get(name).is_some_and(|b| is_same_json(a, b));
            a.len() == b.len() && a.iter().all(alike)
        }
        _ => a == b,
    }
}

/// An attribute as CloudEvents writes it as a string.
fn canonical(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// The body's events as samples of a filter that wants everything.
async fn tested(row: &Value) -> Verdict {
    let fixture = fixture().await;
    let body = String::from_utf8(bytes(&row["body"])).expect("text");
    let events = if row["body"].is_array() { body } else { format!("[{body}]") };
    let document = format!(r#"{{"name":"es-1","events":{events}}}"#);
    let reply = fixture.send_text("POST /topics/demo/eventSubscriptions:test", document).await;
    let want = if row["valid"] == true { 200 } else { 400 };
    if reply.status == want { Ok(()) } else { Err(format!("answered {reply:?}")) }
}
