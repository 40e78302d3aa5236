//! Functions die in the middle of their work.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON},
    inside,
    receiver::{Arrival, Reply, describe},
};

/// The dispatch queues hide messages under way for the function's 60 s and 30 s more.
const VISIBLE_AGAIN: Duration = Duration::from_secs(90);

/// `kill -9` of every dispatch process while first attempts and retries are under way: everything
/// is delivered once the queues show it again, and the interrupted attempt was not counted.
pub async fn killed_functions_lose_nothing(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("crash", EVENT_GRID).await?;
    let slow = Reply::late(200, 20);
    let first = json!({"filter": {"includedEventTypes": ["First"]}});
    let first = topic.subscribe("first-attempts", std::slice::from_ref(&slow), first).await?;
    let second = json!({
        "filter": {"includedEventTypes": ["Second"]},
        "retryPolicy": {"schedule": [1, 300]},
    });
    let second = topic.subscribe("retries", &[Reply::prompt(500), slow], second).await?;

    topic.publish(&[topic.event("retried", "Second", "e2e/crash")]).await?;
    second.wait_for(2, SOON).await?;
    let events: Vec<Value> =
        (0..20).map(|n| topic.event(&format!("e{n}"), "First", "e2e/crash")).collect();
    topic.publish(&events).await?;
    first.wait_for(events.len(), SOON).await?;

    let killed = inside::kill(fixture.ground.home(), "gridpost-dispatch");
    let at = Instant::now();
    ensure!(killed > 0, "no process of dispatch was found");
    let broken = || first.deliveries().iter().all(|attempt| attempt.answered.is_none());
    ensure!(
        broken(),
        "an attempt was answered before the crash:\n{}",
        describe(&first.deliveries())
    );
    first.answer(&[Reply::prompt(200)]);
    second.answer(&[Reply::prompt(200)]);

    let want: BTreeSet<String> = (0..20).map(|n| format!("e{n}")).collect();
    let limit = VISIBLE_AGAIN + 2 * SOON;
    let attempts = first.wait_until("every event", limit, |all| delivered(all, at) == want).await?;
    let counted = attempts.iter().any(|attempt| attempt.header("aeg-delivery-count") != "0");
    ensure!(!counted, "an attempt of ours that broke off was counted:\n{}", describe(&attempts));
    let want = BTreeSet::from(["retried".to_owned()]);
    let attempts = second.wait_until("the retry", limit, |all| delivered(all, at) == want).await?;
    let last = attempts.last().map(|attempt| attempt.header("aeg-delivery-count").to_owned());
    ensure!(last.as_deref() == Some("1"), "one failure was counted:\n{}", describe(&attempts));
    Ok(())
}

/// The ids that were answered 200 after `since`.
fn delivered(attempts: &[Arrival], since: Instant) -> BTreeSet<String> {
    let after =
        attempts.iter().filter(|attempt| attempt.at > since && attempt.answered == Some(200));
    after.flat_map(Arrival::ids).collect()
}
