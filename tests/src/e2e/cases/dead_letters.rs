//! Events that end undelivered are kept, or dropped with a log line.

use std::time::Duration;

use anyhow::{Context, ensure};
use gridpost_ops::clock;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON, Topic},
    receiver::{Reply, describe},
};

/// 400 is one attempt and then a dead letter, with Event Grid's object name and members.
pub async fn a_bad_request_becomes_a_dead_letter_in_event_grid_schema(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("dead-letter", EVENT_GRID).await?;
    let record = dead_letter(fixture, &topic).await?;
    for (member, want) in [
        ("eventType", json!("Gridpost.Test")),
        ("subject", json!("e2e/plain")),
        ("data", json!({"of": "refused"})),
        ("dataVersion", json!("1.0")),
        ("metadataVersion", json!("1")),
        ("deadLetterReason", json!("UndeliverableDueToHttpBadRequest")),
        ("deliveryAttempts", json!(1)),
        ("lastDeliveryOutcome", json!("BadRequest")),
        ("lastHttpStatusCode", json!(400)),
    ] {
        ensure!(record[member] == want, "{member} is {} in {record}", record[member]);
    }
    check_times(&record, "publishTime", "lastDeliveryAttemptTime")
}

/// The same for CloudEvents, whose extensions are all lower case.
pub async fn a_bad_request_becomes_a_dead_letter_in_cloud_events_schema(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("dead-letter-cloud", CLOUD_EVENTS).await?;
    let record = dead_letter(fixture, &topic).await?;
    for (member, want) in [
        ("specversion", json!("1.0")),
        ("type", json!("Gridpost.Test")),
        ("source", json!("/gridpost/e2e")),
        ("data", json!({"of": "refused"})),
        ("deadletterreason", json!("UndeliverableDueToHttpBadRequest")),
        ("deliveryattempts", json!(1)),
        ("lastdeliveryoutcome", json!("BadRequest")),
        ("lasthttpstatuscode", json!(400)),
    ] {
        ensure!(record[member] == want, "{member} is {} in {record}", record[member]);
    }
    check_times(&record, "publishtime", "lastdeliveryattempttime")
}

/// An event that no queue message can carry is attempted and dead-lettered whole.
pub async fn a_large_event_is_sent_and_dead_lettered_whole(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("dead-letter-large", EVENT_GRID).await?;
    let properties = json!({"deadLetterDestination": topic.dead_letter_destination()});
    let endpoint = topic.subscribe("refuses", &[Reply::prompt(400)], properties).await?;
    let data = "x".repeat(900_000);
    let mut event = topic.plain_event("large");
    event["data"] = json!(data);
    topic.publish(&[event]).await?;
    endpoint.wait_for(1, SOON).await?;
    let sent = &endpoint.deliveries()[0];
    ensure!(sent.events()[0]["data"] == json!(data), "{} bytes arrived", sent.body.len());
    let objects = fixture.dead_letters(&topic.prefix(), 1).await?;
    ensure!(objects[0].records[0]["data"] == json!(data), "the dead letter is not whole");
    Ok(())
}

/// Makes an endpoint refuse one event with 400; returns the dead letter.
async fn dead_letter(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<Value> {
    let properties = json!({"deadLetterDestination": topic.dead_letter_destination()});
    let endpoint = topic.subscribe("refuses", &[Reply::prompt(400)], properties).await?;
    topic.publish(&[topic.plain_event("refused")]).await?;
    endpoint.wait_for(1, SOON).await?;
    let objects = fixture.dead_letters(&topic.prefix(), 1).await?;
    ensure!(objects.len() == 1 && objects[0].records.len() == 1, "{objects:?}");
    ensure!(objects[0].content_type == "application/json", "{}", objects[0].content_type);
    check_key(&objects[0].key, &format!("{}REFUSES/", topic.prefix()))?;
    // The first step of the schedule has passed by then.
    sleep(Duration::from_secs(8)).await;
    let attempts = endpoint.deliveries();
    ensure!(attempts.len() == 1, "a second request:\n{}", describe(&attempts));
    let record = objects[0].records[0].clone();
    ensure!(record["id"] == "refused", "{record}");
    Ok(record)
}

/// `{prefix}{SUBSCRIPTION}/{yyyy}/{M}/{d}/{H}/{uuid}.json`, UTC, without leading zeros.
fn check_key(key: &str, prefix: &str) -> anyhow::Result<()> {
    let rest = key.strip_prefix(prefix).with_context(|| format!("{key} is not below {prefix}"))?;
    let now = clock::now();
    let hour = |at: time::OffsetDateTime| {
        format!("{}/{}/{}/{}/", at.year(), u8::from(at.month()), at.day(), at.hour())
    };
    let name = [now, now - time::Duration::minutes(5)]
        .into_iter()
        .find_map(|at| rest.strip_prefix(&hour(at)))
        .with_context(|| format!("{key} is not of this hour"))?;
    let id = name.strip_suffix(".json").unwrap_or_default();
    ensure!(uuid::Uuid::try_parse(id).is_ok() && id.len() == 36, "{key} ends in no UUID");
    Ok(())
}

/// Both times are ISO 8601 in UTC, of the last minutes, in order.
fn check_times(record: &Value, published: &str, attempted: &str) -> anyhow::Result<()> {
    use time::{OffsetDateTime, format_description::well_known::Rfc3339};
    let at = |member: &str| {
        let text = record[member].as_str().unwrap_or_default();
        ensure!(text.ends_with('Z'), "{member} is {text}");
        OffsetDateTime::parse(text, &Rfc3339).with_context(|| format!("{member} is {text}"))
    };
    let (published, attempted) = (at(published)?, at(attempted)?);
    ensure!(published <= attempted, "attempted before it was published: {record}");
    ensure!(clock::now() - published < time::Duration::minutes(5), "{record}");
    Ok(())
}

/// Without a dead-letter destination an ended event is dropped, which is logged with its reason.
pub async fn without_a_destination_events_are_dropped_and_logged(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("dropped", EVENT_GRID).await?;
    let endpoint = topic.subscribe("refuses", &[Reply::prompt(413)], json!({})).await?;
    topic.publish(&[topic.plain_event("too-large-for-it")]).await?;
    endpoint.wait_for(1, SOON).await?;
    sleep(Duration::from_secs(12)).await;
    let attempts = endpoint.deliveries();
    ensure!(attempts.len() == 1, "a second request:\n{}", describe(&attempts));
    let lines = fixture.log_lines("dispatch", &format!("{}/refuses", topic.name)).await?;
    let dropped = lines.iter().find(|line| line.contains("events dropped"));
    let dropped = dropped.with_context(|| format!("no drop was logged: {lines:?}"))?;
    ensure!(dropped.contains("UndeliverableDueToHttpPayloadTooLarge"), "{dropped}");
    Ok(())
}
