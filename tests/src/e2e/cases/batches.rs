//! Batches with a bad event: split by a refusal, or told apart by the endpoint itself.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::e2e::{
    fixture::{CLOUD_EVENTS, EVENT_GRID, Fixture, SOON},
    receiver::{Arrival, Reply, describe},
};

/// Refuses every request with this event in it.
fn refuses_poison(arrival: &Arrival) -> Reply {
    let is_bad = arrival.ids().iter().any(|id| id == "e07");
    Reply::prompt(if is_bad { 400 } else { 200 })
}

/// Asks for one event again until it comes alone, and refuses another one for good.
fn names_events(arrival: &Arrival) -> Reply {
    let ids = arrival.ids();
    let has = |id: &str| ids.iter().any(|one| one == id);
    let mut results = Vec::new();
    if has("e03") && ids.len() > 1 {
        results.push(json!({"id": "e03", "status": "retry"}));
    }
    if has("e07") {
        results.push(json!({"id": "e07", "status": "end", "reason": "no such order"}));
    }
    Reply::prompt(200).saying(json!({ "results": results }).to_string())
}

fn accepted(deliveries: &[Arrival]) -> BTreeSet<String> {
    let taken = deliveries.iter().filter(|arrival| arrival.answered == Some(200));
    taken.flat_map(Arrival::ids).collect()
}

/// One event of twenty is refused: it ends alone, and each other one arrives once.
pub async fn a_refused_batch_is_split_until_its_bad_event_stands_alone(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    for schema in [EVENT_GRID, CLOUD_EVENTS] {
        let topic = fixture.topic(&format!("bisect-{}", &schema[..5]), schema).await?;
        let properties = json!({
            "destination": {"maxEventsPerBatch": 100, "onBatchFailure": "Bisect"},
            "deadLetterDestination": topic.dead_letter_destination(),
        });
        let endpoint = topic.subscribe("split", &[Reply::prompt(200)], properties).await?;
        endpoint.judge(refuses_poison);
        let events: Vec<Value> = (0..20).map(|n| topic.plain_event(&format!("e{n:02}"))).collect();
        topic.publish(&events).await?;
        let good: BTreeSet<_> = (0..20).filter(|n| *n != 7).map(|n| format!("e{n:02}")).collect();
        let is_all = |deliveries: &[Arrival]| accepted(deliveries) == good;
        let deliveries = endpoint.wait_until("all good events", SOON, is_all).await?;
        let sent: usize = deliveries
            .iter()
            .filter(|arrival| arrival.answered == Some(200))
            .map(|arrival| arrival.ids().len())
            .sum();
        ensure!(sent == 19, "some came twice:\n{}", describe(&deliveries));
        let objects = fixture.dead_letters(&topic.prefix(), 1).await?;
        let records: Vec<_> = objects.iter().flat_map(|object| &object.records).collect();
        ensure!(records.len() == 1 && records[0]["id"] == "e07", "{records:?}");
        let reason = ["deadLetterReason", "deadletterreason"].map(|name| &records[0][name]);
        ensure!(reason.contains(&&json!("UndeliverableDueToHttpBadRequest")), "{records:?}");
        let deliveries = endpoint.deliveries();
        ensure!(deliveries.len() <= 11, "too many requests:\n{}", describe(&deliveries));
        ensure!(deliveries.iter().any(|one| one.ids() == ["e07"]), "{}", describe(&deliveries));
    }
    Ok(())
}

/// An answer with 200 names one event to send again and one to end.
pub async fn an_answer_tells_the_events_of_a_batch_apart(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("partial", CLOUD_EVENTS).await?;
    let properties = json!({
        "destination": {"maxEventsPerBatch": 100, "partialResults": true},
        "retryPolicy": {"schedule": [1]},
        "deadLetterDestination": topic.dead_letter_destination(),
    });
    let endpoint = topic.subscribe("names", &[Reply::prompt(200)], properties).await?;
    endpoint.judge(names_events);
    let events: Vec<Value> = (0..10).map(|n| topic.plain_event(&format!("e{n:02}"))).collect();
    topic.publish(&events).await?;
    let deliveries = endpoint.wait_for(2, SOON).await?;
    ensure!(deliveries[0].ids().len() == 10, "{}", describe(&deliveries));
    ensure!(deliveries[1].ids() == ["e03"], "{}", describe(&deliveries));
    let count = deliveries[1].header("aeg-delivery-count");
    ensure!(count == "1", "it is the second attempt: {count}");
    let objects = fixture.dead_letters(&topic.prefix(), 1).await?;
    let records: Vec<_> = objects.iter().flat_map(|object| &object.records).collect();
    ensure!(records.len() == 1 && records[0]["id"] == "e07", "{records:?}");
    ensure!(records[0]["deadletterreason"] == "RejectedByEndpoint", "{records:?}");
    ensure!(endpoint.deliveries().len() == 2, "{}", describe(&endpoint.deliveries()));
    Ok(())
}
