//! Events are accepted and arrive.

use std::collections::BTreeSet;

use anyhow::ensure;
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON},
    receiver::{Arrival, Reply},
};

/// `EventGridPublisherClient` sends EventGrid events with a topic key, unchanged, and a receiver
/// parses what arrives with the same SDK.
pub async fn azures_sdk_sends_event_grid_events(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("sdk-event-grid", EVENT_GRID).await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    let data =
        json!({"text": "Grüße, 世界 \u{1f600}", "number": 1.5, "list": [1, null, {"a": true}]});
    let sent = fixture
        .sdk_send(
            json!([{"endpoint": topic.endpoint, "key": topic.key, "schema": EVENT_GRID, "events": [
                {"id": "sdk-1", "type": "Sdk.First", "subject": "e2e/1", "data": data},
                {"id": "sdk-2", "type": "Sdk.Second", "subject": "e2e/2", "data": "just text"},
            ]}]),
        )
        .await?;
    ensure!(sent == json!([{"ok": true}]), "{sent}");

    let deliveries = endpoint.wait_for(2, SOON).await?;
    for delivery in &deliveries {
        check_headers(delivery, "application/json; charset=utf-8")?;
        ensure!(delivery.header("aeg-data-version") == "1.0", "{:?}", delivery.headers);
        ensure!(
            delivery.json().as_array().is_some_and(|events| events.len() == 1),
            "not one event"
        );
    }
    let parsed = fixture.sdk_parse(delivered(EVENT_GRID, &deliveries)).await?;
    let first = parsed.iter().find(|event| event["id"] == "sdk-1").cloned().unwrap_or_default();
    ensure!(first["data"] == data, "data changed on its way: {first}");
    ensure!(first["type"] == "Sdk.First" && first["subject"] == "e2e/1", "{first}");
    ensure!(first["dataVersion"] == "1.0", "{first}");
    ensure!(first["topic"].as_str().is_some_and(|id| id.ends_with(&topic.name)), "{first}");
    let second = parsed.iter().find(|event| event["id"] == "sdk-2").cloned().unwrap_or_default();
    ensure!(second["data"] == "just text", "{second}");
    Ok(())
}

/// Azure's SDK sends CloudEvents, which Azure's and the CloudEvents SDK parse.
pub async fn azures_sdk_sends_cloud_events(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("sdk-cloud", CLOUD_EVENTS).await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(204)], json!({})).await?;
    let data = json!({"text": "Grüße", "nested": {"n": [1, 2, 3]}});
    let sent = fixture
        .sdk_send(json!([{"endpoint": topic.endpoint, "key": topic.key, "schema": CLOUD_EVENTS, "events": [
            {"id": "ce-1", "type": "Sdk.Cloud", "subject": "e2e/1", "data": data},
        ]}]))
        .await?;
    ensure!(sent == json!([{"ok": true}]), "{sent}");

    let deliveries = endpoint.wait_for(1, SOON).await?;
    check_headers(&deliveries[0], "application/cloudevents+json; charset=utf-8")?;
    ensure!(deliveries[0].header("origin") == "eventgrid.azure.net", "{:?}", deliveries[0].headers);
    ensure!(deliveries[0].json().is_object(), "a CloudEvent comes as one object");
    let parsed = fixture.sdk_parse(delivered(CLOUD_EVENTS, &deliveries)).await?;
    ensure!(parsed[0]["data"] == data, "data changed on its way: {}", parsed[0]);
    ensure!(
        parsed[0]["source"] == "/gridpost/e2e" && parsed[0]["type"] == "Sdk.Cloud",
        "{}",
        parsed[0]
    );
    Ok(())
}

/// Headers of every notification.
fn check_headers(delivery: &Arrival, content_type: &str) -> anyhow::Result<()> {
    ensure!(delivery.method == "POST", "{}", delivery.method);
    for (name, want) in [
        ("content-type", content_type),
        ("aeg-event-type", "Notification"),
        ("aeg-subscription-name", "ALL"),
        ("aeg-delivery-count", "0"),
        ("aeg-metadata-version", "1"),
    ] {
        ensure!(delivery.header(name) == want, "{name} is {}", delivery.header(name));
    }
    ensure!(!delivery.headers.contains_key("accept"), "an Accept header was sent");
    Ok(())
}

/// Each event as the parsers take it.
fn delivered(schema: &str, deliveries: &[Arrival]) -> Value {
    let one = |delivery: &Arrival| {
        let headers = json!({"content-type": delivery.header("content-type")});
        let events = delivery.events().into_iter();
        events
            .map(|event| json!({"schema": schema, "headers": headers, "body": event.to_string()}))
            .collect::<Vec<_>>()
    };
    deliveries.iter().flat_map(one).collect()
}

/// 200 events from concurrent publishers reach all of the three event subscriptions that match
/// them, and no other.
pub async fn two_hundred_events_reach_three_subscriptions(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("two-hundred", EVENT_GRID).await?;
    let prompt = [Reply::prompt(200)];
    let all = topic.subscribe("all", &prompt, json!({})).await?;
    let orders = json!({"filter": {"includedEventTypes": ["Shop.OrderPlaced"]}});
    let orders = topic.subscribe("orders", &prompt, orders).await?;
    let reds = json!({"filter": {"subjectBeginsWith": "/shop/", "subjectEndsWith": ".RED"}});
    let reds = topic.subscribe("reds", &prompt, reds).await?;

    let is_order = |n: usize| n.is_multiple_of(2);
    let is_red = |n: usize| n.is_multiple_of(5);
    let event = |n: usize| {
        let event_type = if is_order(n) { "Shop.OrderPlaced" } else { "Shop.OrderShipped" };
        let subject = format!("/shop/{n}.{}", if is_red(n) { "red" } else { "blue" });
        topic.event(&format!("event-{n}"), event_type, &subject)
    };
    let events: Vec<Value> = (0..200).map(event).collect();
    try_join_all(events.chunks(25).map(|events| topic.publish(events))).await?;

    let ids = |wanted: &dyn Fn(usize) -> bool| -> BTreeSet<String> {
        (0..200).filter(|n| wanted(*n)).map(|n| format!("event-{n}")).collect()
    };
    for (name, endpoint, want) in [
        ("all", &all, ids(&|_| true)),
        ("orders", &orders, ids(&is_order)),
        ("reds", &reds, ids(&is_red)),
    ] {
        let deliveries = endpoint
            .wait_until("all its events", 3 * SOON, |d| arrived(d).is_superset(&want))
            .await?;
        ensure!(arrived(&deliveries) == want, "{name} got events that it does not want");
        ensure!(deliveries.iter().all(|d| d.events().len() == 1), "{name} is not batched");
    }
    Ok(())
}

/// 40 events for four event subscriptions are more deliveries than a request on the stack enqueues:
/// they are accepted and stored, and all arrive in each event subscription's batches.
pub async fn a_large_fan_out_arrives_whole(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("fan-out", EVENT_GRID).await?;
    let prompt = [Reply::prompt(200)];
    let batching =
        json!({"destination": {"maxEventsPerBatch": 40, "preferredBatchSizeInKilobytes": 1024}});
    let whole = topic.subscribe("whole", &prompt, batching).await?;
    let mut alone = Vec::new();
    for name in ["first", "second", "third"] {
        alone.push(topic.subscribe(name, &prompt, json!({})).await?);
    }
    let events: Vec<Value> = (0..40).map(|n| topic.plain_event(&format!("e{n:02}"))).collect();
    topic.publish(&events).await?;

    let want: BTreeSet<String> = (0..40).map(|n| format!("e{n:02}")).collect();
    let all = |deliveries: &[Arrival]| arrived(deliveries) == want;
    for endpoint in &alone {
        let deliveries = endpoint.wait_until("all events", 6 * SOON, all).await?;
        ensure!(deliveries.iter().all(|d| d.events().len() == 1), "they are not batched");
    }
    let deliveries = whole.wait_until("all events", 6 * SOON, all).await?;
    ensure!(deliveries[0].ids().len() == 40, "one request: {:?}", deliveries[0].ids());
    let stored = fixture.stored_publishes().await?;
    ensure!(stored.iter().any(|text| text.contains(&topic.name)), "it was not stored first");
    Ok(())
}

fn arrived(deliveries: &[Arrival]) -> BTreeSet<String> {
    deliveries.iter().flat_map(Arrival::ids).collect()
}

/// Events that are published together are sent together, up to the event subscription's batch size.
pub async fn a_hundred_events_published_together_are_one_request(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    for schema in [EVENT_GRID, CLOUD_EVENTS] {
        let case = format!("hundred-{}", &schema[..5]);
        let topic = fixture.topic(&case, schema).await?;
        let batching = |events| json!({"destination": {"maxEventsPerBatch": events, "preferredBatchSizeInKilobytes": 1024}});
        let whole = topic.subscribe("whole", &[Reply::prompt(200)], batching(100)).await?;
        let parts = topic.subscribe("parts", &[Reply::prompt(200)], batching(30)).await?;
        let events: Vec<Value> = (0..100).map(|n| topic.plain_event(&format!("e{n:03}"))).collect();
        topic.publish(&events).await?;

        let deliveries = whole.wait_for(1, SOON).await?;
        let want: Vec<String> = (0..100).map(|n| format!("e{n:03}")).collect();
        ensure!(
            deliveries[0].ids() == want,
            "one request of all, in order: {:?}",
            deliveries[0].ids()
        );
        let content_type = match schema {
            CLOUD_EVENTS => "application/cloudevents-batch+json; charset=utf-8",
            _ => "application/json; charset=utf-8",
        };
        ensure!(
            deliveries[0].header("content-type") == content_type,
            "{:?}",
            deliveries[0].headers
        );

        let deliveries = parts.wait_for(4, SOON).await?;
        let mut sizes: Vec<usize> = deliveries.iter().map(|d| d.ids().len()).collect();
        sizes.sort_unstable();
        ensure!(sizes == [10, 30, 30, 30], "requests of {sizes:?} events");
        ensure!(whole.deliveries().len() == 1, "a second request to the first endpoint");
    }
    Ok(())
}
