//! The audit compares published events with their ends.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON},
    receiver::Reply,
};

/// Events published at once.
const EVENTS: usize = 6;

/// How long it may take until all of them have ended or wait.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// Events are delivered, dead-lettered, dropped or waiting; the audit finds all of them.
pub async fn a_ledger_balances_over_every_kind_of_end(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("audit", EVENT_GRID).await?;
    let dead_letters = json!({"deadLetterDestination": topic.dead_letter_destination()});
    // The second attempt is hours away; batches show that events are counted, not deliveries.
    let waits = json!({
        "retryPolicy": {"schedule": [7_200]},
        "destination": {"maxEventsPerBatch": 4},
    });
    let kinds = [
        ("delivers", 200, json!({})),
        ("dead-letters", 400, dead_letters),
        ("drops", 413, json!({})),
        ("waits", 500, waits),
        ("filters", 200, json!({"filter": {"subjectEndsWith": "nobody's"}})),
    ];
    let mut endpoints = Vec::new();
    for (name, status, properties) in kinds {
        endpoints.push(topic.subscribe(name, &[Reply::prompt(status)], properties).await?);
    }
    let events: Vec<_> =
        (0..EVENTS).map(|index| topic.plain_event(&format!("e-{index}"))).collect();
    topic.publish(&events).await?;
    endpoints[0].wait_for(EVENTS, SOON).await?;
    let audit = settled(fixture, &topic.name).await?;
    ensure!(audit["verdict"] == "balances" && audit["endsTooMany"] == 0, "{audit:#}");
    ensure!(audit["topics"][0]["accepted"] == EVENTS, "{audit:#}");
    let all = json!({"matched": EVENTS, "total": EVENTS});
    for (name, place) in [
        ("delivers", "/delivered"),
        ("dead-letters", "/deadLettered/byReason/UndeliverableDueToHttpBadRequest"),
        ("drops", "/dropped/byReason/UndeliverableDueToHttpPayloadTooLarge"),
        ("waits", "/waiting"),
    ] {
        let account = account(&audit, name).with_context(|| format!("no account of {name}"))?;
        let found = json!({"matched": account["matched"], "total": account.pointer(place)});
        ensure!(found == all, "{name}: {account:#}");
        ensure!(account["difference"] == 0, "{name}: {account:#}");
    }
    ensure!(account(&audit, "filters").is_none(), "nothing was for it: {audit:#}");
    waiting_deliveries_are_listed(fixture, &topic.name).await
}

/// The audit once nothing more ends after its cut-off. Dead letters take their time.
pub(super) async fn settled(fixture: &Fixture, topic: &str) -> anyhow::Result<Value> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    loop {
        let audit = fixture.audit(topic, SETTLED_WITHIN.as_secs()).await?;
        let accounts = audit["eventSubscriptions"].as_array();
        let is_settled =
            accounts.is_some_and(|all| all.iter().all(|account| account["difference"] == 0));
        if is_settled || Instant::now() >= deadline {
            return Ok(audit);
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Each waiting delivery says what is known of it.
async fn waiting_deliveries_are_listed(fixture: &Fixture, topic: &str) -> anyhow::Result<()> {
    let mut waiting = Vec::new();
    fixture.api.each_delivery(topic, "waits", |one| waiting.push(one.clone())).await?;
    let events: Vec<_> = waiting.iter().map(|one| one["events"].as_u64().unwrap_or(0)).collect();
    ensure!(waiting.len() == 2 && events.iter().sum::<u64>() == EVENTS as u64, "{waiting:?}");
    for delivery in &waiting {
        let said = [
            ("deliveryAttempts", json!(1)),
            ("lastDeliveryOutcome", json!("ServerError")),
            ("lastHttpStatusCode", json!(500)),
            ("status", json!("Waiting")),
        ];
        for (member, want) in said {
            ensure!(delivery[member] == want, "{member} is {} in {delivery}", delivery[member]);
        }
    }
    let mut others = 0;
    fixture.api.each_delivery(topic, "drops", |_| others += 1).await?;
    ensure!(others == 0, "what has ended does not wait");
    Ok(())
}

fn account<'a>(audit: &'a Value, name: &str) -> Option<&'a Value> {
    audit["eventSubscriptions"].as_array()?.iter().find(|account| account["name"] == name)
}
