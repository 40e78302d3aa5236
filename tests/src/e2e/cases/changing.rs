//! Event subscriptions that come, change and go while events flow to them.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use futures::{
    StreamExt, TryStreamExt,
    future::try_join,
    stream::{self, FuturesUnordered},
};
use serde_json::json;
use tokio::time::{Instant, interval, sleep};

use crate::e2e::{
    receiver::{Endpoint, Reply},
    world::{EVENT_GRID, SOON, Topic, World},
};

/// Event subscriptions that are created, changed, deleted and created again.
const NAMES: usize = 50;

/// How many of them are worked at once.
const AT_ONCE: usize = 25;

/// Events a second. Each is for one of them and for the one that stays.
const PER_SECOND: u32 = 50;

/// A time in which an event subscription surely has that endpoint: from the answer to what made it so
/// to the request that ended it.
struct Span {
    name: usize,
    from: Instant,
    until: Instant,
    endpoint: Endpoint,
}

/// An event that was accepted.
struct Published {
    id: String,
    name: usize,
    began_at: Instant,
    answered_at: Instant,
}

/// An event subscription that was there when an event was accepted, and is there still, gets it, at
/// the endpoint that it then has.
///
/// # Errors
///
/// When it is not so.
pub async fn nothing_is_lost_while_event_subscriptions_come_and_go(
    world: &World,
) -> anyhow::Result<()> {
    let topic = world.topic("changing", EVENT_GRID).await?;
    let stays = topic.subscribe("stays", &[Reply::prompt(200)], json!({})).await?;
    let (spans, is_over) = (Mutex::default(), AtomicBool::default());
    let changes = async {
        let lives = (0..NAMES).map(|name| live(world, &topic, name, &spans));
        stream::iter(lives).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        is_over.store(true, Ordering::Relaxed);
        Ok(())
    };
    let ((), published) = try_join(changes, publish(&topic, &is_over)).await?;
    stays.wait_for(published.len(), 3 * SOON).await.context("the one that stays")?;

    let deadline = Instant::now() + SOON;
    loop {
        let missing = missing(&published, &of(&spans));
        if missing.is_empty() {
            break;
        }
        ensure!(Instant::now() < deadline, "{} were lost: {missing:?}", missing.len());
        sleep(Duration::from_millis(500)).await;
    }
    let expected = expected(&published, &of(&spans)).count();
    ensure!(expected > NAMES, "only {expected} events met an event subscription that was there");
    Ok(())
}

fn of(spans: &Mutex<Vec<Span>>) -> MutexGuard<'_, Vec<Span>> {
    spans.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The life of one event subscription: created, moved to another endpoint, deleted, created again.
async fn live(
    world: &World,
    topic: &Topic<'_>,
    name: usize,
    spans: &Mutex<Vec<Span>>,
) -> anyhow::Result<()> {
    let key = format!("c{name}");
    for endpoints in [["first", "second"], ["third", "fourth"]] {
        for which in endpoints {
            let endpoint = world
                .receiver
                .endpoint(&format!("{}/{key}/{which}", topic.name), &[Reply::prompt(200)]);
            let filter = json!({"filter": {"subjectEndsWith": format!("/{key}")}});
            topic.try_subscribe(&key, endpoint.url(), filter).await?;
            let from = Instant::now();
            // An event or two for each.
            sleep(Duration::from_millis(1_500)).await;
            let until = Instant::now();
            of(spans).push(Span { name, from, until, endpoint });
        }
        // dispatch may learn of it as late as this: what it was given before is delivered by then.
        sleep(SOON / 3).await;
        world.api.delete_subscription(&topic.name, &key).await?;
    }
    Ok(())
}

/// Publishes until the changes are over.
async fn publish(topic: &Topic<'_>, is_over: &AtomicBool) -> anyhow::Result<Vec<Published>> {
    let mut tick = interval(Duration::from_secs(1) / PER_SECOND);
    let (mut under_way, mut published) = (FuturesUnordered::new(), Vec::new());
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        tokio::select! {
            _ = tick.tick() => {
                under_way.push(publish_one(topic, number));
                number += 1;
            }
            Some(one) = under_way.next() => published.push(one?),
        }
    }
    while let Some(one) = under_way.next().await {
        published.push(one?);
    }
    Ok(published)
}

async fn publish_one(topic: &Topic<'_>, number: usize) -> anyhow::Result<Published> {
    let (id, name) = (format!("e-{number}"), number % NAMES);
    let event = topic.event(&id, "Gridpost.Test", &format!("e2e/c{name}"));
    let began_at = Instant::now();
    topic.publish(&[event]).await?;
    Ok(Published { id, name, began_at, answered_at: Instant::now() })
}

/// Each event with the span that it was published in.
fn expected<'a>(
    published: &'a [Published],
    spans: &'a [Span],
) -> impl Iterator<Item = (&'a Published, &'a Span)> {
    published.iter().filter_map(|one| {
        let is_in = |span: &&Span| {
            span.name == one.name && span.from <= one.began_at && one.answered_at < span.until
        };
        Some((one, spans.iter().find(is_in)?))
    })
}

/// Events that did not arrive where they were to: at the endpoint of then, or at one that took its
/// place meanwhile.
fn missing(published: &[Published], spans: &[Span]) -> Vec<String> {
    let arrived = |span: &Span| -> BTreeSet<_> {
        span.endpoint.deliveries().iter().flat_map(|arrival| arrival.ids()).collect()
    };
    let arrived: Vec<_> = spans.iter().map(|span| (span, arrived(span))).collect();
    let is_there = |one: &Published, span: &Span| {
        let mut later =
            arrived.iter().filter(|(other, _)| other.name == span.name && other.from >= span.from);
        later.any(|(_, ids)| ids.contains(&one.id))
    };
    let lost = expected(published, spans).filter(|(one, span)| !is_there(one, span));
    lost.map(|(one, _)| one.id.clone()).collect()
}
