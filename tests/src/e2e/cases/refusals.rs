//! Bad input is refused with a message that names it, and leaves nothing behind.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON, Topic, post, refusal},
    receiver::{Arrival, Reply},
};

/// A request, the status that it must get, and what the message must name.
type Row = (&'static str, String, u16, &'static [&'static str]);

/// Every refusal has its status and Event Grid's error shape, and names what is wrong. No event of
/// the request is delivered.
pub async fn nothing_of_a_refused_request_is_delivered(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("refusals", EVENT_GRID).await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    for row in event_grid_rows(&topic) {
        check_row(&topic, row).await?;
    }
    check_access(fixture, &topic).await?;
    let cloud = fixture.topic("refusals-cloud", CLOUD_EVENTS).await?;
    let cloud_endpoint = cloud.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    for row in cloud_events_rows(&cloud) {
        check_row(&cloud, row).await?;
    }

    topic.publish(&[topic.plain_event("good")]).await?;
    cloud.publish(&[cloud.plain_event("good")]).await?;
    endpoint.wait_for(1, SOON).await?;
    cloud_endpoint.wait_for(1, SOON).await?;
    sleep(Duration::from_secs(3)).await;
    for endpoint in [&endpoint, &cloud_endpoint] {
        let ids: Vec<String> = endpoint.deliveries().iter().flat_map(Arrival::ids).collect();
        ensure!(ids == ["good"], "{ids:?} arrived at {}", endpoint.url());
    }
    Ok(())
}

fn event_grid_rows(topic: &Topic<'_>) -> Vec<Row> {
    let good = || topic.plain_event("part-of-a-bad-request");
    let with = |member: &str, value: Value| {
        let mut bad = good();
        bad[member] = value;
        json!([good(), bad]).to_string()
    };
    let without = |member: &str| {
        let mut bad = good();
        bad.as_object_mut().map(|bad| bad.remove(member));
        json!([good(), bad]).to_string()
    };
    let sized = |bytes: usize| {
        let mut large = good();
        large["data"] = json!("x".repeat(bytes));
        json!([good(), large]).to_string()
    };
    vec![
        ("not JSON", "[{\"id\":".to_owned(), 400, &["JSON"]),
        ("nothing", String::new(), 400, &[]),
        ("one object", good().to_string(), 400, &["array"]),
        ("no object", json!([good(), 7]).to_string(), 400, &["1"]),
        ("a member too many", with("colour", json!("red")), 400, &["1", "colour"]),
        ("an id that is not text", with("id", json!(true)), 400, &["1", "id"]),
        ("no subject", without("subject"), 400, &["1", "subject"]),
        ("no type", without("eventType"), 400, &["1", "eventType"]),
        ("no time", with("eventTime", json!("yesterday")), 400, &["1", "eventTime"]),
        ("over 1 MiB", sized(1_100_000), 413, &["1048576"]),
    ]
}

fn cloud_events_rows(topic: &Topic<'_>) -> Vec<Row> {
    let good = || topic.plain_event("part-of-a-bad-request");
    let with = |member: &str, value: Value| {
        let mut bad = good();
        bad[member] = value;
        json!([good(), bad]).to_string()
    };
    vec![
        ("another version", with("specversion", json!("0.3")), 400, &["1", "specversion"]),
        ("no source", with("source", json!("")), 400, &["1", "source"]),
        ("a bad extension", with("Upper", json!("x")), 400, &["1", "Upper"]),
        ("two kinds of data", with("data_base64", json!("AA==")), 400, &["1", "data_base64"]),
    ]
}

async fn check_row(topic: &Topic<'_>, row: Row) -> anyhow::Result<()> {
    let (title, body, want, named) = row;
    let (status, text) = topic.post(body).await?;
    check_error(status, &text, want, named).with_context(|| title)
}

fn check_error(status: u16, text: &str, want: u16, named: &[&str]) -> anyhow::Result<()> {
    ensure!(status == want, "{status} instead of {want}: {text}");
    let answer: Value = serde_json::from_str(text).with_context(|| text.to_owned())?;
    let error = &answer["error"];
    ensure!(error["code"].is_string() && error["message"].is_string(), "not the shape: {text}");
    for name in named {
        ensure!(text.contains(name), "`{name}` is not named: {text}");
    }
    Ok(())
}

/// Unknown topics and bad keys.
async fn check_access(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<()> {
    let good = json!([topic.plain_event("part-of-a-bad-request")]).to_string();
    let unknown = topic.endpoint.replace(&topic.name, "no-such-topic");
    for (title, url, key, want) in [
        ("unknown topic", &unknown, topic.key.as_str(), 404),
        ("bad key", &topic.endpoint, "bm90IHRoZSBrZXk=", 401),
        ("no key", &topic.endpoint, "", 401),
    ] {
        let (status, text) =
            post(&fixture.http, url, key, "application/json", good.clone()).await?;
        check_error(status, &text, want, &[]).context(title)?;
    }
    Ok(())
}

/// `EventGridPublisherClient` raises the exceptions that it raises with Event Grid itself.
pub async fn azures_sdk_raises_its_own_error_classes(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("sdk-errors", EVENT_GRID).await?;
    let event = |data: Value| json!([{"id": "1", "type": "T", "subject": "s", "data": data}]);
    let send = |endpoint: &str, key: &str, schema: &str, events: Value| json!({"endpoint": endpoint, "key": key, "schema": schema, "events": events});
    let unknown = topic.endpoint.replace(&topic.name, "no-such-topic");
    let small = || event(json!(1));
    let sent = fixture
        .sdk_send(json!([
            send(&topic.endpoint, "bm90IHRoZSBrZXk=", EVENT_GRID, small()),
            send(&unknown, &topic.key, EVENT_GRID, small()),
            send(&topic.endpoint, &topic.key, CLOUD_EVENTS, small()),
            send(&topic.endpoint, &topic.key, EVENT_GRID, event(json!("x".repeat(1_100_000)))),
            send(&topic.endpoint, &topic.key, EVENT_GRID, small()),
        ]))
        .await?;
    let names = |index: usize| sent[index]["error"].as_str().unwrap_or("no error").to_owned();
    ensure!(names(0) == "ClientAuthenticationError" && sent[0]["status"] == 401, "{sent}");
    // The SDK replaces the message of a 404 by advice of its own, and its status goes with it.
    ensure!(names(1) == "ResourceNotFoundError", "{sent}");
    ensure!(names(2) == "HttpResponseError" && sent[2]["status"] == 400, "{sent}");
    ensure!(sent[2]["code"] == "BadRequest", "{sent}");
    ensure!(names(3) == "HttpResponseError" && sent[3]["status"] == 413, "{sent}");
    ensure!(sent[4] == json!({"ok": true}), "{sent}");
    Ok(())
}

/// Unknown members and values out of range of an event subscription are all listed, by path.
pub async fn an_unknown_subscription_member_is_named_by_its_path(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("bad-documents", EVENT_GRID).await?;
    let endpoint =
        fixture.receiver.endpoint(&format!("{}/never", topic.name), &[Reply::prompt(200)]);
    let bad = json!({
        "colour": "red",
        "retryPolicy": {"maxDeliveryAttempts": 31, "patience": 1, "schedule": [3, 2]},
    });
    let refused = refusal(topic.try_subscribe("bad", endpoint.url(), bad).await)?;
    let text = refused.explain();
    ensure!(refused.status == 400, "{text}");
    for path in [
        "colour",
        "retryPolicy.maxDeliveryAttempts",
        "retryPolicy.patience",
        "retryPolicy.schedule",
    ] {
        ensure!(text.contains(path), "{path} is not named: {text}");
    }
    ensure!(text.contains("30"), "the range is not named: {text}");
    ensure!(endpoint.handshakes().is_empty(), "a refused document must not reach the endpoint");
    let gone = refusal(fixture.api.subscription(&topic.name, "bad").await)?;
    ensure!(gone.status == 404, "{gone:?}");
    Ok(())
}
