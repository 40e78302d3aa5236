//! Healthy endpoints beside one that hangs, with real functions. The simulation has the figures
//! (`--bin neighbours`); this case shows that they apply to real functions.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON, Topic},
    receiver::{Endpoint, Reply},
};

/// How long the hanging endpoint gets events: longer than a request to it may take.
const LASTS: Duration = Duration::from_secs(40);

/// Events a second to it.
const RATE: u32 = 10;

/// Healthy endpoints.
const HEALTHY: usize = 5;

/// An event to one of them, in turn.
const HEALTHY_EVERY: Duration = Duration::from_millis(500);

/// 99 of 100 events of healthy endpoints arrive within this time: generous, since the functions
/// share this machine's processors. An endpoint that is not kept apart costs its neighbours
/// minutes.
const P99_MAX: Duration = Duration::from_secs(10);

/// An endpoint that never answers gets 10 events a second; five healthy ones beside it get theirs as if
/// it were not there.
pub async fn one_that_never_answers_delays_nobody(fixture: &Fixture) -> anyhow::Result<()> {
    let never = [Reply::late(200, 3_600)];
    let hanging = fixture.topic("hanging", EVENT_GRID).await?;
    // Its events are over soon after the case.
    let soon_over = json!({"retryPolicy": {"eventTimeToLiveInMinutes": 1}});
    let hung = hanging.subscribe("all", &never, soon_over).await?;
    let mut healthy = Vec::new();
    for number in 0..HEALTHY {
        let topic = fixture.topic(&format!("neighbour-{number}"), EVENT_GRID).await?;
        let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
        healthy.push((topic, endpoint));
    }
    let (published, ()) = tokio::try_join!(publish_in_turn(&healthy), flood(&hanging))?;
    let mut took = try_join_all(healthy.iter().map(|(_, endpoint)| arrived(endpoint, &published)))
        .await?
        .concat();
    took.sort_unstable();
    ensure!(took.len() == published.len(), "{} of {} arrived", took.len(), published.len());
    ensure!(!hung.deliveries().is_empty(), "the endpoint that hangs was never asked");
    let share = |share: f64| took[((took.len() as f64 * share).ceil() as usize).max(1) - 1];
    let (p50, p99, max) = (share(0.5), share(0.99), share(1.0));
    println!(
        "neighbours: {} healthy events beside {} requests that hang: p50 {p50:?}, p99 {p99:?}, max {max:?}",
        took.len(),
        hung.deliveries().len(),
    );
    ensure!(p99 <= P99_MAX, "healthy endpoints waited {p99:?} at p99");
    // Ends the hanging requests, so that the next case finds the functions free.
    hung.answer(&[Reply::prompt(200)]);
    Ok(())
}

async fn flood(topic: &Topic<'_>) -> anyhow::Result<()> {
    let began = Instant::now();
    let publishes = (0..RATE * LASTS.as_secs() as u32).map(|number| async move {
        sleep_until(began + Duration::from_secs(1) / RATE * number).await;
        topic.publish(&[topic.plain_event(&format!("hangs-{number}"))]).await
    });
    try_join_all(publishes).await.map(drop)
}

/// Publishes to one healthy endpoint after the other; returns when each event was published.
async fn publish_in_turn(
    healthy: &[(Topic<'_>, Endpoint)],
) -> anyhow::Result<BTreeMap<String, Instant>> {
    let began = Instant::now();
    let count = LASTS.as_millis() / HEALTHY_EVERY.as_millis();
    let publishes = (0..count as u32).map(|number| async move {
        let at = began + HEALTHY_EVERY * number;
        sleep_until(at).await;
        let (topic, _) = &healthy[number as usize % healthy.len()];
        let id = format!("well-{number}");
        topic.publish(&[topic.plain_event(&id)]).await?;
        anyhow::Ok((id, at))
    });
    Ok(try_join_all(publishes).await?.into_iter().collect())
}

/// How long each event of an endpoint took to arrive.
async fn arrived(
    endpoint: &Endpoint,
    published: &BTreeMap<String, Instant>,
) -> anyhow::Result<Vec<Duration>> {
    let own = published.len() / HEALTHY;
    let arrivals = endpoint.wait_for(own, 3 * SOON).await?;
    let mut first: BTreeMap<String, Instant> = BTreeMap::new();
    for arrival in arrivals {
        for id in arrival.ids() {
            first.entry(id).or_insert(arrival.at);
        }
    }
    first
        .into_iter()
        .map(|(id, at)| Ok(at - *published.get(&id).context("an event of another case")?))
        .collect()
}
