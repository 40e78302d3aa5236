//! Endpoints must prove that they want events before they get any.

use anyhow::{Context, ensure};
use serde_json::json;

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON},
    receiver::{Arrival, Reply},
};

/// EventGridSchema is validated by an event with a code, CloudEvents by `OPTIONS`.
pub async fn both_handshakes_are_made_before_any_event(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("handshake-eg", EVENT_GRID).await?;
    let endpoint = topic.subscribe("validated", &[Reply::prompt(200)], json!({})).await?;
    let handshakes = endpoint.handshakes();
    ensure!(handshakes.len() == 1 && handshakes[0].method == "POST", "{handshakes:?}");
    ensure!(handshakes[0].header("aeg-event-type") == "SubscriptionValidation", "{handshakes:?}");
    let event = &handshakes[0].events()[0];
    ensure!(event["eventType"] == "Microsoft.EventGrid.SubscriptionValidationEvent", "{event}");
    ensure!(
        event["data"]["validationCode"].as_str().is_some_and(|code| !code.is_empty()),
        "{event}"
    );
    topic.publish(&[topic.plain_event("welcome")]).await?;
    endpoint.wait_for(1, SOON).await?;

    let topic = fixture.topic("handshake-ce", CLOUD_EVENTS).await?;
    let endpoint = topic.subscribe("validated", &[Reply::prompt(200)], json!({})).await?;
    let handshakes = endpoint.handshakes();
    ensure!(handshakes.len() == 1 && handshakes[0].method == "OPTIONS", "{handshakes:?}");
    ensure!(
        handshakes[0].header("webhook-request-origin") == "eventgrid.azure.net",
        "{handshakes:?}"
    );
    topic.publish(&[topic.plain_event("welcome")]).await?;
    endpoint.wait_for(1, SOON).await?;
    Ok(())
}

/// An endpoint that answers 200 but gives no proof gets no event before its owner has used the
/// validation URL; one that answers otherwise is refused with 400.
pub async fn an_endpoint_that_gives_no_proof_is_refused(fixture: &Fixture) -> anyhow::Result<()> {
    for (case, schema) in [("no-proof-eg", EVENT_GRID), ("no-proof-ce", CLOUD_EVENTS)] {
        let topic = fixture.topic(case, schema).await?;
        let name = format!("{}/unwilling", topic.name);
        let unwilling = fixture.receiver.endpoint(&name, &[Reply::prompt(200)]);
        unwilling.withhold_consent();
        let created = topic.try_subscribe("unwilling", unwilling.url(), json!({})).await?;
        let state = &created["properties"]["provisioningState"];
        ensure!(*state == "AwaitingManualAction", "{created}");
        ensure!(!unwilling.handshakes().is_empty(), "it was not asked");

        let willing = topic.subscribe("willing", &[Reply::prompt(200)], json!({})).await?;
        topic.publish(&[topic.plain_event("only-for-the-willing")]).await?;
        willing.wait_for(1, SOON).await?;
        ensure!(unwilling.deliveries().is_empty(), "an event without consent");
        let url = validation_url(&unwilling.handshakes()[0])?;
        let done = fixture.http.get(&url).send().await?;
        ensure!(done.status().as_u16() == 200, "{url}: {done:?}");
        let read = fixture.api.subscription(&topic.name, "unwilling").await?;
        ensure!(read["properties"]["provisioningState"] == "Succeeded", "{read}");
        topic.publish(&[topic.plain_event("for-both")]).await?;
        unwilling.wait_for(1, SOON).await?;
    }
    Ok(())
}

/// The URL from a handshake for later consent.
fn validation_url(handshake: &Arrival) -> anyhow::Result<String> {
    let callback = handshake.header("webhook-request-callback");
    if !callback.is_empty() {
        return Ok(callback.to_owned());
    }
    let url = handshake.events()[0]["data"]["validationUrl"].as_str().map(str::to_owned);
    url.context("the validation event has no validationUrl")
}
