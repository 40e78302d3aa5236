//! Throttled calls, and batches that are refused in part.

use anyhow::{Context, ensure};
use aws_sdk_sqs::types::QueueAttributeName;
use futures::future::try_join_all;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

use super::{Place, Received, Target, ids, outcome_of_first, wait_for};
use crate::{
    chaos::{deployment::Deployment, planned_answer::Answer, proxy::Proxy},
    e2e::{
        fixture::{Fixture, SOON, Topic},
        inside::POLL,
    },
};

/// How a service is called, and its throttling error.
struct Service {
    kind: &'static str,
    /// Its name in ARNs, and the permission to deliver.
    action: (&'static str, &'static str),
    operation: &'static str,
    throttled: (u16, &'static str),
    /// Text that identifies the entry of the event `b`; a function's batch has no entries.
    of_b: Option<&'static str>,
}

const SERVICES: [Service; 5] = [
    Service {
        kind: "SqsQueue",
        action: ("sqs", "sqs:SendMessage"),
        operation: "SendMessageBatch",
        throttled: (400, "com.amazonaws.sqs#RequestThrottled"),
        of_b: Some(r#"\"id\":\"b\""#),
    },
    Service {
        kind: "SnsTopic",
        action: ("sns", "sns:Publish*"),
        operation: "PublishBatch",
        throttled: (400, "Throttling"),
        of_b: Some(r#""id":"b""#),
    },
    Service {
        kind: "KinesisStream",
        action: ("kinesis", "kinesis:PutRecords"),
        operation: "PutRecords",
        throttled: (400, "ProvisionedThroughputExceededException"),
        of_b: Some(r#""PartitionKey":"b""#),
    },
    Service {
        kind: "EventBridgeBus",
        action: ("events", "events:PutEvents"),
        operation: "PutEvents",
        throttled: (400, "ThrottlingException"),
        of_b: Some(r#"\"id\":\"b\""#),
    },
    Service {
        kind: "LambdaFunction",
        action: ("lambda", "lambda:InvokeFunction"),
        operation: "Invoke",
        throttled: (429, "TooManyRequestsException"),
        of_b: None,
    },
];

/// A throttled call is `Busy`, and is delivered later. If one entry of a batch was refused, only
/// that entry is sent again; an entry that is refused for good becomes a dead letter, and the
/// others arrive.
pub async fn throttled_calls_and_parts_of_batches_come_again(
    fixture: &Fixture,
) -> anyhow::Result<()> {
    let deployment = Deployment::of(fixture, &["dispatch"]).await?;
    let proxy = Proxy::start(&fixture.ground.connection.emulator_url, 1).await?;
    proxy.calm();
    deployment.turn_to(Some(&proxy)).await?;
    let services = SERVICES.iter().map(|service| {
        let checked = checked(fixture, &proxy, service);
        async move { checked.await.with_context(|| format!("{} as endpoint", service.kind)) }
    });
    let checked = try_join_all(services).await;
    deployment.turn_to(None).await?;
    checked.map(drop)
}

async fn checked(fixture: &Fixture, proxy: &Proxy, service: &Service) -> anyhow::Result<()> {
    let mut target = Target::new(fixture, service.kind, service.action);
    target.name += "-parts";
    target.arn += "-parts";
    let place = Place::make(fixture, target).await?;
    let name = &place.target.name;
    let topic = place.target.topic(fixture, "parts").await?;

    let (status, code) = service.throttled;
    proxy.answer_once(service.operation, name, Answer::Refused(status, code));
    topic.publish(&[topic.plain_event("busy")]).await?;
    let outcome = outcome_of_first(fixture, &topic).await?;
    ensure!(outcome == "Busy", "{outcome}");
    // The second attempt comes after the schedule's ten seconds.
    wait_for(&place, 3 * SOON, |(event, _)| event["id"] == "busy").await?;

    let Some(of_b) = service.of_b else { return Ok(()) };
    proxy.answer_once(service.operation, name, Answer::WithoutEntry(of_b));
    let mut events: Vec<_> = ["a", "b", "c"].map(|id| topic.plain_event(id)).to_vec();
    if service.kind == "SqsQueue" {
        // The lowest size limit of a queue: the queue itself refuses the event of 2 KB for good.
        let least = (QueueAttributeName::MaximumMessageSize, "1024");
        let change = fixture.sqs().set_queue_attributes().queue_url(&place.inbox);
        change.attributes(least.0, least.1).send().await?;
        let mut large = topic.plain_event("large");
        large["data"] = json!("x".repeat(2_000));
        events.push(large);
    }
    topic.publish(&events).await?;
    let arrived = all_of_them(&place).await?;
    ensure!(!proxy.is_to_answer(name), "no {} had the entry", service.operation);
    if matches!(service.kind, "SqsQueue" | "SnsTopic") {
        let count = |id: &str| {
            let found = arrived.iter().find(|(event, _)| event["id"] == id);
            found.map(|(_, attributes)| attributes["aeg-delivery-count"].clone())
        };
        ensure!(count("a") == Some(json!("0")) && count("b") == Some(json!("1")), "{arrived:?}");
    }
    if service.kind == "SqsQueue" {
        large_is_dead(fixture, &topic).await?;
    }
    let audit = fixture.audit(&topic.name, 60).await?;
    ensure!(audit["verdict"] == "balances", "{audit}");
    Ok(())
}

/// The three events of the batch, once each: delivered events are not sent again.
async fn all_of_them(place: &Place<'_>) -> anyhow::Result<Vec<Received>> {
    let deadline = Instant::now() + 3 * SOON;
    let mut arrived: Vec<Received> = Vec::new();
    let mut complete_at = None;
    loop {
        let mut got = place.got().await?;
        got.retain(|(event, _)| event["id"] != "busy");
        if place.tells_all() {
            arrived = got;
        } else {
            arrived.extend(got);
        }
        if arrived.len() >= 3 {
            let complete_at = *complete_at.get_or_insert_with(Instant::now);
            if complete_at.elapsed() >= Duration::from_secs(3) {
                break;
            }
        }
        ensure!(Instant::now() < deadline, "arrived: {arrived:?}");
        sleep(POLL).await;
    }
    ensure!(ids(&arrived) == ["a", "b", "c"], "{arrived:?}");
    Ok(arrived)
}

async fn large_is_dead(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<()> {
    let record = fixture.dead_letters(&topic.prefix(), 1).await?[0].records[0].clone();
    ensure!(record["id"] == "large" && record["deliveryAttempts"] == 1, "{record}");
    ensure!(record["lastDeliveryOutcome"] == "PayloadTooLarge", "{record}");
    Ok(())
}
