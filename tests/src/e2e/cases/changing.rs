//! Event subscriptions are created, changed and deleted while events flow to them.

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
use gridpost_ops::failure::Refusal;
use serde_json::json;
use tokio::time::{Instant, interval, sleep};

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON, Topic},
    receiver::{Endpoint, Reply},
};

/// Event subscriptions that are created, changed, deleted and created again.
const NAMES: usize = 50;

/// How many of them change at once: the emulator starts a process for each concurrent request.
const AT_ONCE: usize = 10;

/// Publishes a second.
const PER_SECOND: u32 = 10;

/// Events of a publish: 50 events a second in all. Each is for one of the names and for the event
/// subscription that stays.
const TOGETHER: usize = 5;

/// How long an event subscription keeps an endpoint: an event or two for each name.
const KEPT: Duration = Duration::from_millis(1_500);

/// An emulator that is short of processes answers 503, as AWS does; a client retries.
const BUSY: u16 = 503;

/// A time in which an event subscription certainly has that endpoint: from the answer to the change
/// that set it until the request that changed it again.
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

/// The events so far.
#[derive(Default)]
struct History {
    spans: Mutex<Vec<Span>>,
    published: Mutex<Vec<Published>>,
    is_over: AtomicBool,
}

/// An event subscription that existed when an event was accepted, and still exists, gets the event
/// at its endpoint of that time.
pub async fn nothing_is_lost_while_event_subscriptions_come_and_go(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let topic = fixture.topic("changing", EVENT_GRID).await?;
    let stays = topic.subscribe("stays", &[Reply::prompt(200)], json!({})).await?;
    let history = History::default();
    let changes = async {
        let lives = (0..NAMES).map(|name| live(fixture, &topic, name, &history));
        stream::iter(lives).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        history.is_over.store(true, Ordering::Relaxed);
        Ok(())
    };
    try_join(changes, publish(&topic, &history)).await?;
    let published = all(&history.published).len();
    stays.wait_for(published, 3 * SOON).await.context("the one that stays")?;
    let met = (0..NAMES).map(|name| expected_of(&history, name).len()).sum::<usize>();
    ensure!(met > 2 * NAMES, "only {met} events met an event subscription that was there");
    println!("{published} events; {met} for event subscriptions that came and went; 0 lost");
    Ok(())
}

fn all<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The life of one event subscription: created, moved to another endpoint, deleted, created again.
async fn live(
    fixture: &Fixture,
    topic: &Topic<'_>,
    name: usize,
    history: &History,
) -> anyhow::Result<()> {
    let key = format!("c{name}");
    for endpoints in [["first", "second"], ["third", "fourth"]] {
        for which in endpoints {
            let url = format!("{}/{key}/{which}", topic.name);
            let endpoint = fixture.receiver.endpoint(&url, &[Reply::prompt(200)]);
            subscribe(topic, &key, &endpoint).await?;
            let from = Instant::now();
            sleep(KEPT).await;
            let until = Instant::now();
            all(&history.spans).push(Span { name, from, until, endpoint });
        }
        // Deliveries under way end with their event subscription, so wait until all have arrived.
        arrived(history, name).await?;
        delete(fixture, topic, &key).await?;
    }
    Ok(())
}

async fn subscribe(topic: &Topic<'_>, key: &str, endpoint: &Endpoint) -> anyhow::Result<()> {
    let filter = json!({"filter": {"subjectEndsWith": format!("/{key}")}});
    loop {
        match topic.try_subscribe(key, endpoint.url(), filter.clone()).await {
            Err(error) if is_busy(&error) => sleep(KEPT).await,
            done => return done.map(drop).with_context(|| format!("event subscription {key}")),
        }
    }
}

async fn delete(fixture: &Fixture, topic: &Topic<'_>, key: &str) -> anyhow::Result<()> {
    loop {
        match fixture.api.delete_subscription(&topic.name, key).await {
            Err(error) if is_busy(&error) => sleep(KEPT).await,
            done => return done.map(drop).with_context(|| format!("deletion of {key}")),
        }
    }
}

fn is_busy(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == BUSY)
}

/// Waits until all events that event subscriptions of that name must get have arrived.
async fn arrived(history: &History, name: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + 3 * SOON;
    loop {
        // A publish that ends now began before the spans had ended.
        sleep(KEPT / 3).await;
        let missing = missing(history, name);
        if missing.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{} of c{name} are lost: {missing:?}", missing.len());
    }
}

/// Publishes until the changes are over.
async fn publish(topic: &Topic<'_>, history: &History) -> anyhow::Result<()> {
    let mut tick = interval(Duration::from_secs(1) / PER_SECOND);
    let mut under_way = FuturesUnordered::new();
    let mut number = 0;
    while !history.is_over.load(Ordering::Relaxed) {
        tokio::select! {
            _ = tick.tick() => {
                under_way.push(publish_some(topic, number, history));
                number += TOGETHER;
            }
            Some(done) = under_way.next() => done?,
        }
    }
    under_way.try_collect().await
}

async fn publish_some(topic: &Topic<'_>, number: usize, history: &History) -> anyhow::Result<()> {
    let ids = (number..number + TOGETHER).map(|number| (format!("e-{number}"), number % NAMES));
    let ids: Vec<_> = ids.collect();
    let event =
        |(id, name): &(String, usize)| topic.event(id, "Gridpost.Test", &format!("e2e/c{name}"));
    let body = serde_json::to_string(&ids.iter().map(event).collect::<Vec<_>>())?;
    loop {
        let began_at = Instant::now();
        let (status, answer) = topic.post(body.clone()).await?;
        if status == BUSY {
            sleep(KEPT).await;
            continue;
        }
        ensure!(status == 200, "a publish was answered {status}: {answer}");
        let answered_at = Instant::now();
        let some = ids.into_iter().map(|(id, name)| Published { id, name, began_at, answered_at });
        all(&history.published).extend(some);
        return Ok(());
    }
}

/// The events that were accepted while an event subscription of that name existed, each with its
/// span.
fn expected_of(history: &History, name: usize) -> Vec<(String, Instant)> {
    let spans = all(&history.spans);
    let published = all(&history.published);
    let expected = published.iter().filter(|one| one.name == name).filter_map(|one| {
        let is_in = |span: &&Span| {
            span.name == name && span.from <= one.began_at && one.answered_at < span.until
        };
        Some((one.id.clone(), spans.iter().find(is_in)?.from))
    });
    expected.collect()
}

/// Events that did not arrive at their endpoint, or at one that replaced it meanwhile.
fn missing(history: &History, name: usize) -> Vec<String> {
    let expected = expected_of(history, name);
    let spans = all(&history.spans);
    let spans = spans.iter().filter(|span| span.name == name);
    let arrived: Vec<(Instant, BTreeSet<_>)> = spans
        .map(|span| {
            let deliveries = span.endpoint.deliveries();
            (span.from, deliveries.iter().flat_map(|arrival| arrival.ids()).collect())
        })
        .collect();
    let is_there = |id: &String, from: Instant| {
        arrived.iter().any(|(since, ids)| *since >= from && ids.contains(id))
    };
    let lost = expected.into_iter().filter(|(id, from)| !is_there(id, *from));
    lost.map(|(id, _)| id).collect()
}
