//! Endpoints in trouble are left alone, new events included.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tokio::time::sleep;

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON},
    receiver::{Arrival, Endpoint, Reply, describe},
    schedule::EARLY,
};

/// 429 puts the subscription on probation for 10 s: an event that is published meanwhile waits
/// before its first attempt.
pub async fn a_busy_answer_holds_everything_ten_seconds(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("busy", EVENT_GRID).await?;
    let replies = [Reply::prompt(429), Reply::prompt(200)];
    let endpoint = topic.subscribe("all", &replies, json!({})).await?;
    topic.publish(&[topic.plain_event("first")]).await?;
    let first = endpoint.wait_for(1, SOON).await?[0].at;
    // The health is written after the answer, and read again every two seconds.
    sleep(Duration::from_secs(4)).await;
    topic.publish(&[topic.plain_event("second")]).await?;

    let attempts = all_delivered(&endpoint, 2, Duration::from_secs(45)).await?;
    let early = attempts.iter().skip(1).find(|a| a.at - first + EARLY < Duration::from_secs(10));
    ensure!(early.is_none(), "attempted on probation:\n{}", describe(&attempts));
    let second = attempts.iter().find(|attempt| attempt.ids() == ["second"]);
    let waited = second.map(|attempt| attempt.header("aeg-delivery-count"));
    ensure!(waited == Some("0"), "a deferral is no attempt:\n{}", describe(&attempts));
    let latest = attempts.iter().map(|attempt| attempt.at - first).max().unwrap_or_default();
    // Ten seconds, and three more over which waiting deliveries are spread. A delivery that meets
    // the probe under way looks again after 20 s and up to three more.
    ensure!(latest < Duration::from_secs(40), "held too long:\n{}", describe(&attempts));
    Ok(())
}

/// Ten failed attempts in a row make the endpoint unhealthy: the eleventh event waits a minute
/// without an attempt, then one delivery probes.
pub async fn ten_failures_in_a_row_delay_delivery(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("unhealthy", EVENT_GRID).await?;
    let mut replies = vec![Reply::prompt(500); 10];
    replies.push(Reply::prompt(200));
    let endpoint = topic.subscribe("all", &replies, json!({})).await?;
    // All at once: one by one, a slow machine would see a retry of the first before the last.
    let failing: Vec<_> = (1..=10).map(|n| topic.plain_event(&format!("failure-{n}"))).collect();
    topic.publish(&failing).await?;
    let failures = endpoint.wait_until("10 answers", SOON, |d| answered(d, 500) == 10).await?;
    let tenth = failures.iter().map(|failure| failure.at).max().expect("there are ten");
    // The health is read again every two seconds.
    sleep(Duration::from_secs(3)).await;
    topic.publish(&[topic.plain_event("eleventh")]).await?;

    let all = all_delivered(&endpoint, 11, Duration::from_secs(150)).await?;
    let after: Vec<_> = all[10..].iter().map(|attempt| attempt.at - tenth).collect();
    let earliest = after.iter().min().copied().unwrap_or_default();
    ensure!(
        earliest + EARLY >= Duration::from_secs(60),
        "attempted while unhealthy:\n{}",
        describe(&all)
    );
    ensure!(earliest < Duration::from_secs(80), "the probe came late:\n{}", describe(&all));
    let eleventh = all.iter().find(|attempt| attempt.ids() == ["eleventh"]);
    let count = eleventh.map(|attempt| attempt.header("aeg-delivery-count"));
    ensure!(count == Some("0"), "a deferral is no attempt:\n{}", describe(&all));
    Ok(())
}

/// Waits until `count` deliveries were answered 200; returns all attempts in the order they came.
async fn all_delivered(
    endpoint: &Endpoint,
    count: usize,
    limit: Duration,
) -> anyhow::Result<Vec<Arrival>> {
    endpoint.wait_until("all delivered", limit, |attempts| answered(attempts, 200) >= count).await
}

fn answered(attempts: &[Arrival], status: u16) -> usize {
    attempts.iter().filter(|attempt| attempt.answered == Some(status)).count()
}
