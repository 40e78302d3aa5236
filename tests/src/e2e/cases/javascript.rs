//! Third-party publishers and receivers in JavaScript.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::e2e::{
    fixture::{CLOUD_EVENTS, CUSTOM_INPUT, EVENT_GRID, Fixture, SOON, Topic},
    node,
    receiver::{Arrival, Endpoint, Reply},
};

/// Azure's and the CloudEvents SDK send every kind of event that they support, by key and by token,
/// and all events arrive as they were sent.
pub async fn every_client_sends_every_kind_of_event(fixture: &Fixture) -> anyhow::Result<()> {
    let event_grid = fixture.topic("js-eg", EVENT_GRID).await?;
    let cloud = fixture.topic("js-ce", CLOUD_EVENTS).await?;
    let custom = json!({"properties": {
        "inputSchema": "CustomEventSchema",
        "inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties": {
            "eventType": {"sourceField": "type"},
        }},
    }});
    let custom = fixture.topic_as("js-custom", CUSTOM_INPUT, &custom).await?;
    let namespace = json!({"kind": "namespace"});
    let namespace = fixture.topic_as("js-ns", CLOUD_EVENTS, &namespace).await?;
    let publish_url = &fixture.ground.connection.publish_url;
    let to_namespace =
        |more: Value| with(&more, &json!({"endpoint": publish_url, "topic": namespace.name}));
    let azure = |credential: &str| json!({"client": "eventgrid", "credential": credential});
    let cncf = |form: &str| json!({"client": "cloudevents", "form": form});
    let rows = [
        (&event_grid, azure("key"), EVENT_GRID, vec!["k1", "k2"]),
        (&event_grid, azure("sas"), EVENT_GRID, vec!["s1"]),
        (&cloud, azure("key"), CLOUD_EVENTS, vec!["k1", "k2"]),
        (&cloud, azure("sas"), CLOUD_EVENTS, vec!["s1"]),
        (&cloud, cncf("binary"), CLOUD_EVENTS, vec!["b1", "b2"]),
        (&cloud, cncf("structured"), CLOUD_EVENTS, vec!["t1"]),
        (&cloud, cncf("batch"), CLOUD_EVENTS, vec!["a1", "a2", "a3"]),
        (&custom, azure("key"), "CustomEventSchema", vec!["c1", "c2"]),
        (&namespace, to_namespace(json!({"client": "namespaces"})), CLOUD_EVENTS, vec!["n1", "n2"]),
        (
            &namespace,
            to_namespace(json!({"client": "namespaces", "one": true})),
            CLOUD_EVENTS,
            vec!["o1"],
        ),
    ];
    let mut endpoints: BTreeMap<&str, (Endpoint, usize)> = BTreeMap::new();
    for (topic, _, _, ids) in &rows {
        if !endpoints.contains_key(topic.name.as_str()) {
            let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
            endpoints.insert(&topic.name, (endpoint, 0));
        }
        if let Some((_, count)) = endpoints.get_mut(topic.name.as_str()) {
            *count += ids.len();
        }
    }
    let sends = rows.iter().map(|(topic, way, schema, ids)| send(topic, way, schema, ids));
    let sent = node::run(fixture.ground.home(), node::SEND, &Value::from_iter(sends)).await?;
    ensure!(sent == Value::from(vec![json!({"ok": true}); rows.len()]), "{sent}");
    for (topic, (endpoint, count)) in &endpoints {
        let events = arrived(endpoint, *count).await?;
        for event in &events {
            ensure!(event["data"] == data(), "{topic}: {event}");
            let cloud_event = event.get("specversion").is_some();
            ensure!(!cloud_event || event["source"] == "/gridpost/e2e", "{topic}: {event}");
        }
        ensure!(events.len() == *count, "{topic} got {} events, not {count}", events.len());
    }
    Ok(())
}

/// Each client raises its own class of error for each problem.
pub async fn every_client_raises_its_error(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("js-classes", EVENT_GRID).await?;
    let namespace = json!({"kind": "namespace"});
    let namespace = fixture.topic_as("js-classes-ns", CLOUD_EVENTS, &namespace).await?;
    let azure = json!({"client": "eventgrid"});
    let publish_url = &fixture.ground.connection.publish_url;
    let spaces = json!({"client": "namespaces", "endpoint": publish_url, "topic": namespace.name});
    let bad_key = json!({"key": "bm90IHRoZSBrZXk="});
    let sends = json!([
        with(&send(&topic, &azure, EVENT_GRID, &["1"]), &bad_key),
        with(&send(&namespace, &spaces, CLOUD_EVENTS, &["1"]), &bad_key),
        send(&topic, &azure, "CustomEventSchema", &["1"]),
        with(&send(&namespace, &spaces, CLOUD_EVENTS, &["1"]), &json!({"topic": "no-such-topic"})),
    ]);
    let sent = node::run(fixture.ground.home(), node::SEND, &sends).await?;
    for (index, (status, code)) in
        [(401, "Unauthorized"), (401, "Unauthorized"), (400, "BadRequest"), (404, "NotFound")]
            .into_iter()
            .enumerate()
    {
        let raised = &sent[index];
        ensure!(raised["error"] == "RestError", "{index}: {raised}");
        ensure!(raised["status"] == status, "{index}: {raised}");
        // The client of namespaces keeps Event Grid's code, the other one only its text.
        let says = format!("{} {}", raised["code"], raised["message"]);
        ensure!(says.contains(code), "{index}: {raised}");
    }
    Ok(())
}

/// The CloudEvents and Azure's parser for JavaScript read every form of delivery: both schemas,
/// alone and in batches, and what was published in binary mode.
pub async fn parsers_read_what_is_delivered(fixture: &Fixture) -> anyhow::Result<()> {
    let event_grid = fixture.topic("js-read-eg", EVENT_GRID).await?;
    let cloud = fixture.topic("js-read-ce", CLOUD_EVENTS).await?;
    let batching = json!({"destination": {"maxEventsPerBatch": 10}});
    let mut endpoints = Vec::new();
    for (topic, name, properties) in [
        (&event_grid, "single", json!({})),
        (&event_grid, "batch", batching.clone()),
        (&cloud, "single", json!({})),
        (&cloud, "batch", batching),
    ] {
        let endpoint = topic.subscribe(name, &[Reply::prompt(200)], properties).await?;
        endpoints.push((topic, name, endpoint));
    }
    let plain = |topic: &Topic<'_>| Vec::from(["e1", "e2"].map(|id| topic.plain_event(id)));
    event_grid.publish(&plain(&event_grid)).await?;
    cloud.publish(&plain(&cloud)).await?;
    let binary = json!({"client": "cloudevents", "form": "binary"});
    let sends = json!([send(&cloud, &binary, CLOUD_EVENTS, &["b1"])]);
    let sent = node::run(fixture.ground.home(), node::SEND, &sends).await?;
    ensure!(sent == json!([{"ok": true}]), "{sent}");
    for (topic, name, endpoint) in &endpoints {
        let is_cloud = topic.schema == CLOUD_EVENTS;
        let count = if is_cloud { 3 } else { 2 };
        arrived(endpoint, count).await?;
        let deliveries = endpoint.deliveries();
        let requests = deliveries.iter().map(|delivery| request(topic.schema, delivery));
        let requests = Value::from_iter(requests);
        let parsed = node::run(fixture.ground.home(), node::PARSE, &requests).await?;
        let events = parsed.as_array().into_iter().flatten().filter_map(Value::as_array).flatten();
        let mut read = BTreeMap::new();
        for event in events {
            let id = event["id"].as_str().context("an id")?;
            let want = if id == "b1" { data() } else { json!({"of": id}) };
            ensure!(event["data"] == want, "{name}: {event}");
            ensure!(id != "b1" || event["region"] == "eu", "{name}: {event}");
            ensure!(event["time"].is_string(), "{name}: {event}");
            read.insert(id, event["type"].as_str().context("a type")?);
        }
        let mut want = BTreeMap::from([("e1", "Gridpost.Test"), ("e2", "Gridpost.Test")]);
        want.extend(is_cloud.then_some(("b1", "Js.Sent")));
        ensure!(read == want, "{name} of {}: {read:?}", topic.name);
    }
    Ok(())
}

/// Makes the arguments of `send.mjs`.
fn send(topic: &Topic<'_>, way: &Value, schema: &str, ids: &[&str]) -> Value {
    let event = |id: &&str| json!({"id": id, "type": "Js.Sent", "subject": "e2e", "data": data()});
    let events: Vec<_> = ids.iter().map(event).collect();
    let send =
        json!({"endpoint": topic.endpoint, "key": topic.key, "schema": schema, "events": events});
    with(&send, way)
}

fn data() -> Value {
    json!({"text": "Grüße", "list": [1, 2.5, null]})
}

/// Returns the document with more or changed members.
fn with(document: &Value, more: &Value) -> Value {
    let mut document = document.clone();
    for (member, value) in more.as_object().into_iter().flatten() {
        document[member] = value.clone();
    }
    document
}

/// Waits for this many events and returns them.
async fn arrived(endpoint: &Endpoint, count: usize) -> anyhow::Result<Vec<Value>> {
    let events = |all: &[Arrival]| all.iter().flat_map(Arrival::events).collect::<Vec<_>>();
    let what = format!("{count} events");
    let deliveries = endpoint.wait_until(&what, SOON, |all| events(all).len() >= count).await?;
    Ok(events(&deliveries))
}

/// Makes the arguments of `parse.mjs`.
fn request(schema: &str, delivery: &Arrival) -> Value {
    let headers = delivery.headers.iter().filter_map(|(name, value)| {
        Some((name.as_str().to_owned(), Value::from(value.to_str().ok()?)))
    });
    let headers: serde_json::Map<_, _> = headers.collect();
    let body = String::from_utf8_lossy(&delivery.body);
    json!({"schema": schema, "headers": headers, "body": body})
}
