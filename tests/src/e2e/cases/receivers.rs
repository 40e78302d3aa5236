//! Third-party receivers: written like Event Grid's samples, with the SDKs' parsers.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON, Topic},
    inside,
};

/// Time until every function has seen a change: they keep configuration for half a second.
const SEEN_BY_ALL: Duration = Duration::from_secs(1);

/// The receiver passes the handshake like the samples, and its SDKs read every form of delivery:
/// both schemas, single and in batches, and EventGrid events as CloudEvents.
pub async fn a_receiver_as_in_the_samples_reads_what_it_gets(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let receiver = fixture.sample_receiver().await?;
    let event_grid = fixture.topic("sample-eg", EVENT_GRID).await?;
    let cloud = fixture.topic("sample-ce", CLOUD_EVENTS).await?;
    let as_cloud = json!({"properties": {"inputSchema": EVENT_GRID}});
    let converted = fixture.topic_as("sample-eg-as-ce", CLOUD_EVENTS, &as_cloud).await?;
    let batching = json!({"destination": {"maxEventsPerBatch": 10}});
    let rows = [
        (&event_grid, "eg-single", json!({}), "EventGridEvent"),
        (&event_grid, "eg-batch", batching.clone(), "EventGridEvent"),
        (&cloud, "ce-single", json!({}), "CloudEvent"),
        (&cloud, "ce-batch", batching.clone(), "CloudEvent"),
        (&converted, "as-ce-single", json!({}), "CloudEvent"),
        (&converted, "as-ce-batch", batching, "CloudEvent"),
    ];
    for (topic, name, properties, _) in &rows {
        topic.try_subscribe(name, &receiver.endpoint(name), properties.clone()).await?;
        let handshakes = receiver.seen(name).await?["handshakes"].clone();
        ensure!(handshakes.as_array().is_some_and(|all| all.len() == 1), "{name}: {handshakes}");
        let by_event = handshakes[0]["event"] == true;
        let by_options = handshakes[0]["origin"] == "eventgrid.azure.net";
        ensure!(by_event != by_options, "{name}: {handshakes}");
        ensure!(handshakes[0]["url"].as_str().is_some_and(|url| url.starts_with("http")), "{name}");
    }
    for topic in [&event_grid, &cloud] {
        topic.publish(&three(topic)).await?;
    }
    let events: Vec<_> = (0..3).map(|n| in_event_grid(&format!("e{n}"))).collect();
    let (status, body) = event_grid_post(fixture, &converted, &events).await?;
    ensure!(status == 200, "{status} {body}");
    for (_, name, _, parser) in &rows {
        let mut events = receiver.events(name, 3, SOON).await?;
        events.sort_by_key(|event| event["id"].to_string());
        ensure!(events.len() == 3, "{name}: {events:?}");
        for (n, event) in events.iter().enumerate() {
            let id = format!("e{n}");
            ensure!(event["parser"] == *parser && event["id"] == id, "{name}: {event}");
            ensure!(event["data"] == json!({"of": id}), "{name}: {event}");
            ensure!(event["type"] == "Gridpost.Test", "{name}: {event}");
            ensure!(event["subject"] == "e2e/plain", "{name}: {event}");
        }
        if name.starts_with("as-ce") {
            let event = &events[0];
            let source = event["source"].as_str().unwrap_or_default();
            ensure!(source.ends_with(&converted.name), "the source is the topic: {event}");
            ensure!(event["dataschema"] == "#1.0", "the data version: {event}");
        }
    }
    Ok(())
}

fn three(topic: &Topic<'_>) -> Vec<Value> {
    (0..3).map(|n| topic.plain_event(&format!("e{n}"))).collect()
}

fn in_event_grid(id: &str) -> Value {
    json!({
        "id": id, "eventType": "Gridpost.Test", "subject": "e2e/plain", "data": {"of": id},
        "eventTime": "2030-01-01T00:00:00Z", "dataVersion": "1.0",
    })
}

async fn event_grid_post(
    fixture: &Fixture,
    topic: &Topic<'_>,
    events: &[Value],
) -> anyhow::Result<(u16, String)> {
    let body = Value::from(events).to_string();
    let (url, key) = (&topic.endpoint, &topic.key);
    crate::e2e::fixture::post(&fixture.http, url, key, "application/json", body).await
}

/// A receiver that answers the handshake without consenting gets no event until its owner has
/// fetched the validation URL.
pub async fn a_receiver_is_validated_by_hand(fixture: &Fixture) -> anyhow::Result<()> {
    let receiver = fixture.sample_receiver().await?;
    for (case, schema) in [("manual-eg", EVENT_GRID), ("manual-ce", CLOUD_EVENTS)] {
        let topic = fixture.topic(case, schema).await?;
        let name = format!("manual/{case}");
        let made = topic.try_subscribe("by-hand", &receiver.endpoint(&name), json!({})).await?;
        let state = &made["properties"]["provisioningState"];
        ensure!(state == "AwaitingManualAction", "{made}");
        topic.publish(&[topic.plain_event("too-early")]).await?;

        let seen = receiver.seen(&name).await?;
        let url = seen["handshakes"][0]["url"].as_str().context("a validation URL")?.to_owned();
        let answer = fixture.http.get(&url).send().await?;
        ensure!(answer.status() == 200, "{} for {url}", answer.status());
        wait_for_success(fixture, &topic).await?;
        sleep(SEEN_BY_ALL).await;
        topic.publish(&[topic.plain_event("in-time")]).await?;
        let events = receiver.events(&name, 1, SOON).await?;
        let ids: Vec<_> = events.iter().map(|event| &event["id"]).collect();
        ensure!(ids == [&json!("in-time")], "{ids:?}");

        // The URL is good for one handshake, and for nothing else.
        let forged = format!("{}0", url);
        let answer = fixture.http.get(&forged).send().await?;
        ensure!(answer.status().is_client_error(), "{} for {forged}", answer.status());
    }
    Ok(())
}

async fn wait_for_success(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<()> {
    let read = || fixture.api.subscription(&topic.name, "by-hand");
    let is_valid = |read: &Value| read["properties"]["provisioningState"] == "Succeeded";
    inside::until("its validation", SOON, read, is_valid).await.map(drop)
}
