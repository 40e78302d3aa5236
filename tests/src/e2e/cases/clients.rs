//! Third-party publishers, each in all its ways to publish.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, ensure};
use gridpost_stack::child;
use serde_json::{Value, json};

use crate::e2e::{
    fixture::{CLOUD_EVENTS, CUSTOM_INPUT, EVENT_GRID, Fixture, SOON, Topic},
    receiver::{Arrival, Endpoint, Reply},
};

/// The SDK's clients, sync and aio, send every kind of event that they support, by key and by
/// token: all events are accepted and delivered.
pub async fn azures_sdk_sends_every_kind_of_event_by_key_and_token(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let event_grid = fixture.topic("forms-eg", EVENT_GRID).await?;
    let cloud = fixture.topic("forms-ce", CLOUD_EVENTS).await?;
    let custom = fixture.topic_as("forms-custom", CUSTOM_INPUT, &custom_topic()).await?;
    let namespace = json!({"kind": "namespace"});
    let namespace = fixture.topic_as("forms-ns", CLOUD_EVENTS, &namespace).await?;
    let mut sends = Vec::new();
    for client in ["sync", "aio"] {
        for credential in ["key", "sas"] {
            let way = json!({"client": client, "credential": credential});
            for (topic, schema) in [
                (&event_grid, EVENT_GRID),
                (&cloud, CLOUD_EVENTS),
                (&cloud, "CNCF"),
                (&custom, "CustomEventSchema"),
            ] {
                let id = format!("{client}-{credential}-{schema}");
                sends.push(send(topic, schema, &[&id], &way));
            }
        }
        // The SDK knows no tokens for namespaces.
        let way = json!({
            "client": client,
            "endpoint": fixture.ground.connection.publish_url,
            "namespaceTopic": namespace.name,
        });
        let ids = [format!("{client}-1"), format!("{client}-2")];
        sends.push(send(&namespace, CLOUD_EVENTS, &[&ids[0], &ids[1]], &way));
        sends.push(send(&namespace, CLOUD_EVENTS, &[&format!("{client}-alone")], &way));
    }
    let mut endpoints = Vec::new();
    for (topic, count) in [(&event_grid, 4), (&cloud, 8), (&custom, 4), (&namespace, 6)] {
        let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
        endpoints.push((endpoint, count));
    }
    let count = sends.len();
    let sent = fixture.sdk_send(Value::from(sends)).await?;
    ensure!(sent == Value::from(vec![json!({"ok": true}); count]), "{sent}");
    for (endpoint, count) in &endpoints {
        let events = arrived(endpoint, *count).await?;
        for event in &events {
            let of_custom = event.get("key").is_some();
            ensure!(of_custom || event["data"] == json!({"sent": true}), "{event}");
        }
    }
    Ok(())
}

/// A topic whose events have any form; two of Event Grid's members are found in theirs.
fn custom_topic() -> Value {
    json!({"properties": {
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties": {
            "id": {"sourceField": "key"},
            "eventType": {"sourceField": "kind", "defaultValue": "Unknown"},
            "subject": {"defaultValue": "e2e/custom"},
            "dataVersion": {"defaultValue": "1"},
        }},
    }})
}

/// Makes the arguments of `send.py`; `way` is how.
fn send(topic: &Topic<'_>, schema: &str, ids: &[&str], way: &Value) -> Value {
    let event = |id: &&str| match schema {
        "CustomEventSchema" => json!({"key": id, "kind": "Sdk.Custom", "sent": true}),
        _ => json!({"id": id, "type": "Sdk.Form", "subject": "e2e", "data": {"sent": true}}),
    };
    let events: Vec<_> = ids.iter().map(event).collect();
    let mut send =
        json!({"endpoint": topic.endpoint, "key": topic.key, "schema": schema, "events": events});
    for (member, value) in way.as_object().into_iter().flatten() {
        send[member] = value.clone();
    }
    send
}

/// Waits for this many different events and returns them.
async fn arrived(endpoint: &Endpoint, count: usize) -> anyhow::Result<Vec<Value>> {
    let ids = |deliveries: &[Arrival]| -> BTreeSet<String> {
        let events = deliveries.iter().flat_map(Arrival::events);
        let id = |event: Value| {
            let id = event.get("id").or(event.get("key"));
            id.and_then(Value::as_str).map(str::to_owned)
        };
        events.filter_map(id).collect()
    };
    let what = format!("{count} events");
    let deliveries = endpoint.wait_until(&what, SOON, |all| ids(all).len() >= count).await?;
    Ok(deliveries.iter().flat_map(Arrival::events).collect())
}

/// The input of an SDK client, and the class and status that it must raise.
type Row = (&'static str, Value, &'static str, Option<u64>);

/// Every client raises the same class for a refusal as with Event Grid.
pub async fn azures_sdk_raises_its_classes_for_every_client(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("classes", EVENT_GRID).await?;
    let namespace = json!({"kind": "namespace"});
    let namespace = fixture.topic_as("classes-ns", CLOUD_EVENTS, &namespace).await?;
    let mut rows = Vec::new();
    for client in ["sync", "aio"] {
        let of_topic = json!({"client": client});
        let of_namespace = json!({
            "client": client,
            "endpoint": fixture.ground.connection.publish_url,
            "namespaceTopic": namespace.name,
        });
        rows.extend(error_rows("topic", &send(&topic, EVENT_GRID, &["1"], &of_topic)));
        rows.extend(error_rows(
            "namespace",
            &send(&namespace, CLOUD_EVENTS, &["1"], &of_namespace),
        ));
        let mut expired = send(&topic, EVENT_GRID, &["1"], &of_topic);
        expired["credential"] = json!("expired sas");
        rows.push(("expired token", expired, "ClientAuthenticationError", Some(401)));
    }
    let sends: Vec<_> = rows.iter().map(|(_, send, ..)| send.clone()).collect();
    let sent = fixture.sdk_send(Value::from(sends)).await?;
    for (index, (title, send, class, status)) in rows.iter().enumerate() {
        let raised = &sent[index];
        let title = format!("{} {title}", send["client"]);
        ensure!(raised["error"] == *class, "{title}: {raised}");
        ensure!(status.is_none_or(|status| raised["status"] == status), "{title}: {raised}");
    }
    Ok(())
}

/// A good send, made invalid in three ways.
fn error_rows(title: &'static str, good: &Value) -> Vec<Row> {
    let (mut no_key, mut no_topic, mut too_large) = (good.clone(), good.clone(), good.clone());
    no_key["key"] = json!("bm90IHRoZSBrZXk=");
    match good["namespaceTopic"].is_string() {
        true => no_topic["namespaceTopic"] = json!("no-such-topic"),
        false => {
            let endpoint = good["endpoint"].as_str().unwrap_or_default();
            no_topic["endpoint"] = json!(endpoint.replace("/classes-", "/no-such-topic-"));
        }
    }
    too_large["events"][0]["data"] = json!("x".repeat(1_100_000));
    vec![
        (title, no_key, "ClientAuthenticationError", Some(401)),
        // The SDK may replace the message of a 404 by advice of its own; its status goes with it.
        (title, no_topic, "ResourceNotFoundError", None),
        (title, too_large, "HttpResponseError", Some(413)),
    ]
}

/// CloudEvents of the CloudEvents project's SDK, over plain HTTP: with attributes in headers, or
/// with everything in the body.
pub async fn cloud_events_come_in_binary_and_structured_form(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("cncf", CLOUD_EVENTS).await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    let post = |form: &str| {
        json!({
            "endpoint": topic.endpoint, "key": topic.key, "form": form,
            "attributes": {
                "id": form, "source": "/gridpost/e2e", "type": "Cncf.Posted",
                "subject": "e2e/1", "datacontenttype": "application/json", "region": "eu",
            },
            "data": {"text": "Grüße", "list": [1, 2.5, null]},
        })
    };
    let answers = fixture.cloud_events_post(json!([post("binary"), post("structured")])).await?;
    let accepted = json!({"status": 200, "body": ""});
    ensure!(answers == json!([accepted, accepted]), "{answers}");
    for event in arrived(&endpoint, 2).await? {
        for (member, want) in [
            ("specversion", json!("1.0")),
            ("source", json!("/gridpost/e2e")),
            ("type", json!("Cncf.Posted")),
            ("subject", json!("e2e/1")),
            ("datacontenttype", json!("application/json")),
            ("region", json!("eu")),
            ("data", json!({"text": "Grüße", "list": [1, 2.5, null]})),
        ] {
            ensure!(event[member] == want, "{member} of {event}");
        }
    }
    Ok(())
}

/// curl publishes: by header and by query, a CloudEvent in headers, a namespace's request.
pub async fn curl_publishes(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("curl", EVENT_GRID).await?;
    let cloud = fixture.topic("curl-ce", CLOUD_EVENTS).await?;
    let namespace = json!({"kind": "namespace"});
    let namespace = fixture.topic_as("curl-ns", CLOUD_EVENTS, &namespace).await?;
    let mut endpoints = Vec::new();
    for (topic, count) in [(&topic, 2), (&cloud, 1), (&namespace, 1)] {
        endpoints.push((topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?, count));
    }
    let key = format!("aeg-sas-key: {}", topic.key);
    let json_type = "content-type: application/json";
    let by_header = json!([topic.event("by-header", "Curl", "e2e")]).to_string();
    curl(&["-H", &key, "-H", json_type, "-d", &by_header, &topic.endpoint], "").await?;
    let encoded = topic.key.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let by_query = json!([topic.event("by-query", "Curl", "e2e")]).to_string();
    let url = format!("{}?api-version=2018-01-01&aeg-sas-key={encoded}", topic.endpoint);
    curl(&["-H", json_type, "-d", &by_query, &url], "").await?;

    let cloud_key = format!("aeg-sas-key: {}", cloud.key);
    let mut binary = vec!["-H", &cloud_key, "-H", json_type, "-d", "{\"n\": 1}"];
    for header in
        ["ce-specversion: 1.0", "ce-id: in-headers", "ce-source: /gridpost/e2e", "ce-type: Curl"]
    {
        binary.extend(["-H", header]);
    }
    binary.push(&cloud.endpoint);
    curl(&binary, "").await?;

    let authorization = format!("authorization: SharedAccessKey {}", namespace.key);
    let publish_url = &fixture.ground.connection.publish_url;
    let url = format!("{publish_url}/topics/{}:publish?api-version=2024-06-01", namespace.name);
    let one = namespace.event("one", "Curl", "e2e").to_string();
    let one_type = "content-type: application/cloudevents+json; charset=utf-8";
    curl(&["-H", &authorization, "-H", one_type, "-d", &one, &url], "{}").await?;
    for (endpoint, count) in &endpoints {
        arrived(endpoint, *count).await?;
    }
    Ok(())
}

/// Posts with curl; the answer must be 200 with that body.
pub(super) async fn curl(arguments: &[&str], want: &str) -> anyhow::Result<()> {
    let mut curl = child::command(Path::new("curl"));
    curl.args(["-sS", "--noproxy", "*", "-w", "\n%{http_code}"]).args(arguments);
    let output = curl.output().await.context("curl cannot be started")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(said == format!("{want}\n200"), "curl was answered {said} {error}");
    Ok(())
}
