//! Calls that are throttled, and batches of which a part is refused.

use anyhow::ensure;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

use super::{POLL, Received, Target, messages, outcome_of_first};
use crate::chaos::{
    deployment::Deployment,
    proxy::{Answer, Proxy},
};
use crate::e2e::world::{SOON, World};

/// A throttled call is `Busy`, and delivered later. Of a batch of which one message was refused, that one
/// alone is sent again; one that is refused for good ends as a dead letter, and the others arrive.
///
/// # Errors
///
/// When it is not so.
pub async fn throttled_calls_and_parts_of_batches_come_again(world: &World) -> anyhow::Result<()> {
    let deployment = Deployment::of(world).await?;
    let proxy = Proxy::start(&world.ground.connection.emulator_url, 1).await?;
    proxy.calm();
    deployment.turn_to(Some(&proxy)).await?;
    let checked = parts(world, &proxy).await;
    deployment.turn_to(None).await?;
    checked
}

async fn parts(world: &World, proxy: &Proxy) -> anyhow::Result<()> {
    let target = |name: &str| {
        let mut target = Target::new(world, "SqsQueue", ("sqs", "sqs:SendMessage"));
        target.name = format!("{}-{name}", target.name);
        target.arn = format!("{}-{name}", target.arn);
        target
    };
    let (busy, part) = (target("busy"), target("part"));
    let throttled = r#"{"__type":"com.amazonaws.sqs#RequestThrottled","message":"injected"}"#;
    proxy.answer_once(&busy.name, Answer::Refused(400, throttled.to_owned()));
    proxy.answer_once(&part.name, Answer::WithoutEntry("\\\"id\\\":\\\"b\\\"".to_owned()));
    let busy_url = world.queue(&busy.name, &[]).await?;
    // The least that a queue may ask for: the event of 2 KB is refused by the queue itself, for good.
    let part_url = world.queue(&part.name, &[("MaximumMessageSize", "1024")]).await?;
    let busy_topic = busy.topic(world, "busy").await?;
    let part_topic = part.topic(world, "part").await?;

    busy_topic.publish(&[busy_topic.plain_event("busy")]).await?;
    let outcome = outcome_of_first(world, &busy_topic).await?;
    ensure!(outcome == "Busy", "{outcome}");
    let mut large = part_topic.plain_event("large");
    large["data"] = json!("x".repeat(2_000));
    let mut events: Vec<_> = ["a", "b", "c"].map(|id| part_topic.plain_event(id)).to_vec();
    events.push(large);
    part_topic.publish(&events).await?;

    let record = world.dead_letters(&part_topic.prefix(), 1).await?[0].records[0].clone();
    ensure!(record["id"] == "large" && record["deliveryAttempts"] == 1, "{record}");
    ensure!(record["lastDeliveryOutcome"] == "PayloadTooLarge", "{record}");
    let ids = |received: &[Received]| -> Vec<String> {
        let ids = received.iter().filter_map(|(event, _)| event["id"].as_str());
        ids.map(str::to_owned).collect()
    };
    // The second attempt comes after the schedule's ten seconds.
    let deadline = Instant::now() + 3 * SOON;
    let (mut arrived, mut came_again) = (Vec::new(), Vec::new());
    while arrived.len() < 3 || came_again.is_empty() {
        ensure!(Instant::now() < deadline, "arrived {arrived:?}, {came_again:?}");
        arrived.extend(messages(world.sqs().clone(), part_url.clone()).await?);
        came_again.extend(messages(world.sqs().clone(), busy_url.clone()).await?);
        sleep(POLL).await;
    }
    // Nothing more comes: what was delivered is not sent again.
    sleep(Duration::from_secs(3)).await;
    arrived.extend(messages(world.sqs().clone(), part_url.clone()).await?);
    let mut all = ids(&arrived);
    all.sort();
    ensure!(all == ["a", "b", "c"], "{all:?}");
    let count = |id: &str| {
        let found = arrived.iter().find(|(event, _)| event["id"] == id);
        found.map(|(_, attributes)| attributes["aeg-delivery-count"].clone())
    };
    ensure!(count("a") == Some(json!("0")) && count("b") == Some(json!("1")), "{arrived:?}");
    ensure!(came_again[0].1["aeg-delivery-count"] == "1", "{came_again:?}");
    let audit = world.audit(&part_topic.name, 60).await?;
    ensure!(audit["verdict"] == "balances", "{audit}");
    Ok(())
}
