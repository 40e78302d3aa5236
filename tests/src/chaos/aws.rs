//! The chaos suite: the deployed functions deliver thousands of events while they are killed at
//! random moments, their calls to AWS fail, are slow or take effect without an answer, services
//! fail for seconds, and the emulator is stopped and started again with its state. At the end every
//! event must have arrived, or be a dead letter because its endpoint refused it, and the ledger
//! must balance.
//!
//! `tests/complete` has one short run among the end-to-end cases; `chaos aws` makes many long ones,
//! with `--earlier` while functions of two commits take turns.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use futures::{StreamExt, stream};
use gridpost_api::requests::ParkedInput;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    deployment::{self, Deployment},
    endpoints::{Endpoints, Key, Rule, number_of},
    mayhem::{Damage, Mayhem},
    proxy::Proxy,
    roll_out::RollOut,
    tally::{Ledger, Tally},
};
use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, Topic},
    inside,
};

/// The endpoints. Each event goes to all of them.
const RULES: [Rule; 5] = [Rule::Steady, Rule::Flaky, Rule::Refusing, Rule::Batched, Rule::Late];

/// Sizes of publishes in events, in turn. The last one is too large to expand within the request.
const PUBLISH_EVENTS: [usize; 4] = [10, 1, 7, 22];

/// One in this many events is too large for a message.
const LARGE_EVERY: usize = 40;

/// The data of such an event.
const LARGE_BYTES: usize = 300_000;

/// Publishes on their way at once.
const PUBLISHERS: usize = 4;

/// When failed deliveries are tried again, in seconds from the first attempt.
const SCHEDULE: [u32; 6] = [1, 2, 3, 5, 8, 13];

/// How long a publisher keeps retrying; longer than any outage.
const PUBLISH_MAX: Duration = Duration::from_secs(180);

/// How long after the mayhem everything must have ended: a dead letter that S3 has refused three times
/// waits five minutes.
const SETTLE_MAX: Duration = Duration::from_secs(420);

/// How long the ledger may take after that to balance: log lines are still on their way, and late
/// copies are still being marked.
const LEDGER_MAX: Duration = Duration::from_secs(60);

/// How often to check whether everything has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of the dice.
    pub seed: u64,
    /// Events delivered or dead-lettered, over all event subscriptions.
    pub deliveries: usize,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Where every event ended.
    pub tally: Tally,
    /// The damage done to the deployment.
    pub damage: Damage,
    /// Ends in the ledger beyond one for each event.
    pub ends_too_many: u64,
    /// The functions' requests, and how many of them got an answer that AWS would not have given.
    pub requests: (u64, u64),
    /// How long it took.
    pub took: Duration,
}

/// Makes one run on a running stack, and leaves the stack as it was.
pub async fn run(
    fixture: &Fixture,
    plan: Plan,
    roll_out: Option<&RollOut>,
) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let endpoints = Endpoints::open(&RULES, Duration::ZERO).await?;
    let topic = fixture.topic(&format!("chaos-{}", plan.seed), EVENT_GRID).await?;
    subscribe(&topic, &endpoints).await?;

    let proxy = Proxy::start(&fixture.ground.connection.emulator_url, plan.seed).await?;
    let deployment = Deployment::of(fixture, &deployment::FUNCTIONS).await?;
    deployment.turn_to(Some(&proxy)).await?;
    let mayhem = Mayhem::new(fixture, &proxy, plan.seed, roll_out.map(|it| (it, &deployment)));
    let run = endure(fixture, &topic, plan, &mayhem, &proxy).await;
    // Whatever the result: later cases need the deployment as it was.
    proxy.calm();
    let settled = match run {
        Ok(damage) => settle(fixture, &topic, plan, &endpoints).await.map(|tally| (tally, damage)),
        Err(error) => Err(error),
    };
    deployment.turn_to(None).await?;
    if let Some(roll_out) = roll_out {
        roll_out.end(&deployment).await?;
    }
    let (tally, damage) = settled?;
    // Every publish was repeated until it was confirmed.
    let is_known = tally.unconfirmed == 0;
    ensure!(tally.is_complete() && is_known, "events were lost:\n{tally}\n{damage}");
    let ends_too_many = balance(fixture, &topic).await?;
    let requests = proxy.counts();
    ensure!(requests.1 > 0, "the functions did not call by the proxy: {requests:?}");
    Ok(Outcome { tally, damage, ends_too_many, requests, took: began.elapsed() })
}

/// Subscribes the endpoints.
async fn subscribe(topic: &Topic<'_>, endpoints: &Endpoints) -> anyhow::Result<()> {
    for rule in RULES {
        let mut properties = match rule {
            Rule::Refusing => json!({"deadLetterDestination": topic.dead_letter_destination()}),
            Rule::Batched => json!({"destination": {"maxEventsPerBatch": 10}}),
            Rule::Late => {
                json!({"retryPolicy": {"statusRules": {"TimedOut": {"retryAfterSeconds": 0}}}})
            }
            _ => json!({}),
        };
        properties["retryPolicy"]["schedule"] = json!(SCHEDULE);
        topic.try_subscribe(rule.name(), &endpoints.url(rule), properties).await?;
    }
    Ok(())
}

/// Publishes everything while the mayhem lasts.
async fn endure(
    fixture: &Fixture,
    topic: &Topic<'_>,
    plan: Plan,
    mayhem: &Mayhem<'_>,
    proxy: &Proxy,
) -> anyhow::Result<Damage> {
    let ids: Vec<String> = (0..events(plan)).map(|n| format!("{}-{n}", plan.seed)).collect();
    let is_over = AtomicBool::new(false);
    let publishing = async {
        let publishes: Vec<_> =
            chunks(&ids).map(|(at, ids)| publish(topic, at, ids, proxy)).collect();
        let published =
            stream::iter(publishes).buffer_unordered(PUBLISHERS).collect::<Vec<_>>().await;
        mayhem.published();
        published.into_iter().collect::<anyhow::Result<()>>()
    };
    let raging = async {
        let damage = mayhem.rage().await;
        is_over.store(true, Ordering::Relaxed);
        damage
    };
    let (published, operated, damage) =
        tokio::join!(publishing, operate(fixture, topic, &is_over), raging);
    published?;
    operated?;
    damage
}

/// An operator who meanwhile changes and reads an event subscription. A confirmed change must be
/// visible.
async fn operate(fixture: &Fixture, topic: &Topic<'_>, is_over: &AtomicBool) -> anyhow::Result<()> {
    let mut done = 0;
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) || done == 0 {
        number += 1;
        let label = number.to_string();
        let patch = json!({ "labels": [label] });
        if fixture.api.patch_subscription(&topic.name, Rule::Steady.name(), &patch).await.is_ok() {
            // manage and its AWS calls may fail; then try again.
            let read = loop {
                match fixture.api.subscription(&topic.name, Rule::Steady.name()).await {
                    Ok(read) => break read,
                    Err(_) => sleep(LOOK_AGAIN).await,
                }
            };
            let labels = &read["properties"]["labels"];
            ensure!(
                *labels == json!([label]),
                "a change to {label} was answered, but reads {labels}"
            );
            done += 1;
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// The events of each publish, with the place of its first.
fn chunks(ids: &[String]) -> impl Iterator<Item = (usize, &[String])> {
    let sizes = PUBLISH_EVENTS.iter().cycle().scan(0, |at, size| {
        let from = *at;
        *at += size;
        (from < ids.len()).then(|| (from, &ids[from..ids.len().min(from + size)]))
    });
    sizes.fuse()
}

/// How many events there are.
fn events(plan: Plan) -> usize {
    plan.deliveries.div_ceil(RULES.len())
}

/// Publishes as publishers do: again and again until it is accepted.
async fn publish(
    topic: &Topic<'_>,
    at: usize,
    ids: &[String],
    proxy: &Proxy,
) -> anyhow::Result<()> {
    let event = |(number, id): (usize, &String)| {
        let mut event = topic.plain_event(id);
        if (at + number).is_multiple_of(LARGE_EVERY) {
            event["data"]["large"] = json!("x".repeat(LARGE_BYTES));
        }
        event
    };
    let events: Vec<Value> = ids.iter().enumerate().map(event).collect();
    let body = Value::from(events).to_string();
    let deadline = Instant::now() + PUBLISH_MAX;
    loop {
        let answer = {
            let _passing = proxy.pass().await;
            topic.post(body.clone()).await
        };
        match answer {
            Ok((200, _)) => return Ok(()),
            // A bad request is our own mistake, not chaos.
            Ok((status @ 400..=428, body)) => bail!("a publish was answered {status}: {body}"),
            failed if Instant::now() >= deadline => {
                bail!("nothing was accepted for {} s: {failed:?}", PUBLISH_MAX.as_secs())
            }
            _ => sleep(Duration::from_millis(300)).await,
        }
    }
}

/// Waits until everything has ended and nothing in queues and tables could still arrive, or until
/// the time is up.
async fn settle(
    fixture: &Fixture,
    topic: &Topic<'_>,
    plan: Plan,
    endpoints: &Endpoints,
) -> anyhow::Result<Tally> {
    let deadline = Instant::now() + SETTLE_MAX;
    loop {
        let (tally, left) = match look(fixture, topic, plan, endpoints).await {
            Ok(seen) => seen,
            // The emulator is as busy as the functions that it runs: try again.
            Err(err) if Instant::now() < deadline => {
                eprintln!("looking again: {err:#}");
                sleep(LOOK_AGAIN).await;
                continue;
            }
            Err(err) => return Err(err),
        };
        if tally.is_complete() && left.is_empty() {
            return Ok(tally);
        }
        if Instant::now() >= deadline {
            ensure!(left.is_empty(), "all has ended, but this is left over: {left:#?}\n{tally}");
            return Ok(tally);
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Counts what has ended and, once everything has, what is left over.
async fn look(
    fixture: &Fixture,
    topic: &Topic<'_>,
    plan: Plan,
    endpoints: &Endpoints,
) -> anyhow::Result<(Tally, Vec<String>)> {
    let dead = dead_letters(fixture, topic).await.context("dead letters can't be read")?;
    let expected = RULES.iter().flat_map(|rule| (0..events(plan)).map(|number| (*rule, number)));
    let tally = Tally::of(expected, &endpoints.arrivals(), &dead);
    let left = if tally.is_complete() { left(fixture, topic).await? } else { Vec::new() };
    Ok((tally, left))
}

/// Checks that the ledger balances, and returns its surplus of ends: those of duplicates and of
/// publishes that were not confirmed.
async fn balance(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<u64> {
    let mut audit = fixture.audit(&topic.name, 0).await?;
    if audit["verdict"] != "balances" {
        audit = fixture.audit(&topic.name, LEDGER_MAX.as_secs()).await?;
    }
    let ledger = Ledger::of(&audit);
    ensure!(ledger.verdict == "balances", "the ledger does not balance: {audit:#}");
    Ok(ledger.ends_too_many)
}

/// A topic's waiting messages, in any queue including the poison queue, and its parked deliveries.
async fn left(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<Vec<String>> {
    let messages = fixture.queued_bodies().await?;
    let mut left: Vec<_> = messages.into_iter().filter(|body| body.contains(&topic.name)).collect();
    for rule in RULES {
        let choice = ParkedInput {
            topic: Some(topic.name.clone()),
            event_subscription: Some(rule.name().to_owned()),
            ..ParkedInput::default()
        };
        let parked = fixture.api.parked(&choice).await?;
        left.extend(parked.iter().map(ToString::to_string));
    }
    Ok(left)
}

/// How often each event is a dead letter: only one event subscription has them.
async fn dead_letters(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<HashMap<Key, u64>> {
    let bucket = &fixture.ground.connection.dead_letter_bucket;
    let objects = inside::dead_letters(fixture.s3(), bucket, &topic.prefix()).await?;
    Ok(inside::count_ids(&objects, |id| Some((Rule::Refusing, number_of(id)?))))
}
