//! AWS resources as endpoints: deliveries with attributes, refusals, missing resources, partial
//! failures.

mod parts;
mod place;

use std::time::Duration;

use anyhow::{Context, ensure};
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::e2e::fixture::{ACCOUNT, EVENT_GRID, Fixture, SOON, Topic, refusal};
use crate::e2e::inside::{POLL, until};
use gridpost_ops::aws_api::REGION;

use place::Place;

pub use parts::throttled_calls_and_parts_of_batches_come_again;

/// A message with its attributes by name, as text.
type Received = (Value, Value);

/// A case's own endpoint.
struct Target {
    kind: &'static str,
    name: String,
    arn: String,
    /// The permission to deliver to it.
    action: &'static str,
    /// More of the destination's properties.
    properties: Value,
}

impl Target {
    fn new(fixture: &Fixture, kind: &'static str, (service, action): (&str, &'static str)) -> Self {
        // Names that a local stack allows.
        let name = format!("local-{}-{}", kind.to_lowercase(), fixture.run());
        let part = match kind {
            "KinesisStream" => format!("stream/{name}"),
            "EventBridgeBus" => format!("event-bus/{name}"),
            "LambdaFunction" => format!("function:{name}"),
            _ => name.clone(),
        };
        let arn = format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{part}");
        Self { kind, name, arn, action, properties: json!({}) }
    }

    fn with(self, properties: Value) -> Self {
        Self { properties, ..self }
    }

    /// Subscribes it to a topic as `all`, with dead letters.
    async fn subscribe(&self, fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<Value> {
        let mut properties = self.properties.clone();
        properties["resourceId"] = json!(self.arn);
        let document = json!({"properties": {
            "destination": {"endpointType": self.kind, "properties": properties},
            "eventDeliverySchema": topic.schema,
            "deadLetterDestination": topic.dead_letter_destination(),
        }});
        fixture.api.put_subscription(&topic.name, "all", &document).await
    }

    /// A topic of the case with this endpoint.
    async fn topic<'w>(&self, fixture: &'w Fixture, what: &str) -> anyhow::Result<Topic<'w>> {
        let kind = self.kind.to_lowercase();
        let topic = fixture.topic(&format!("{kind}-{what}"), EVENT_GRID).await?;
        self.subscribe(fixture, &topic)
            .await
            .with_context(|| format!("{} as endpoint", self.arn))?;
        Ok(topic)
    }
}

/// Returns a message's attributes beside its body.
fn attributes() -> Value {
    json!({"deliveryAttributeMappings": [
        {"name": "x-fixed", "type": "Static", "properties": {"value": "e2e", "isSecret": false}},
        {"name": "x-of", "type": "Dynamic", "properties": {"sourceField": "data.of"}},
    ]})
}

fn has_attributes((event, found): &Received, names: &[(&str, &str)]) -> anyhow::Result<()> {
    for (name, want) in names {
        let want = if *name == "x-of" { event["id"].as_str().unwrap_or_default() } else { want };
        ensure!(found[*name] == want, "{name} is {}, not {want}: {found}", found[*name]);
    }
    Ok(())
}

const MESSAGE: [(&str, &str); 6] = [
    ("x-fixed", "e2e"),
    ("x-of", ""),
    ("aeg-subscription-name", "ALL"),
    ("aeg-delivery-count", "0"),
    ("aeg-delivery-schema", EVENT_GRID),
    ("content-type", "application/json; charset=utf-8"),
];

/// Publishes three events and returns them as they arrive, once each.
async fn delivered(topic: &Topic<'_>, place: &Place<'_>) -> anyhow::Result<Vec<Received>> {
    topic.publish(&["a", "b", "c"].map(|id| topic.plain_event(id))).await?;
    let deadline = Instant::now() + SOON;
    let mut received: Vec<Received> = Vec::new();
    while received.len() < 3 {
        ensure!(Instant::now() < deadline, "three events did not arrive: {received:?}");
        sleep(POLL).await;
        let got = place.got().await?;
        if place.tells_all() { received = got } else { received.extend(got) }
    }
    ensure!(ids(&received) == ["a", "b", "c"], "{received:?}");
    Ok(received)
}

/// The ids of events, sorted.
fn ids(received: &[Received]) -> Vec<&str> {
    let mut ids: Vec<_> = received.iter().filter_map(|(event, _)| event["id"].as_str()).collect();
    ids.sort_unstable();
    ids
}

/// Without permission events end as dead letters after one attempt.
async fn refused(fixture: &Fixture, target: &Target) -> anyhow::Result<()> {
    let topic = target.topic(fixture, "denied").await?;
    let policy = target.kind.to_lowercase();
    fixture.deny_on("dispatch", &policy, target.action, &target.arn).await?;
    topic.publish(&[topic.plain_event("denied")]).await?;
    let dead = fixture.dead_letters(&topic.prefix(), 1).await;
    let asked = match target.kind {
        "LambdaFunction" => Some(target.topic(fixture, "forbidden").await.map(|topic| topic.name)),
        _ => None,
    };
    fixture.deny_on_no_more("dispatch", &policy).await?;
    // Only for a function does AWS say beforehand whether it may be invoked.
    if let Some(asked) = asked {
        let refused = format!("{:#}", asked.err().context("a function that may not be invoked")?);
        ensure!(refused.contains("Forbidden") && refused.contains("denies it"), "{refused}");
    }
    let record = dead?[0].records[0].clone();
    let said =
        ["deadLetterReason", "deliveryAttempts", "lastDeliveryOutcome", "lastHttpStatusCode"]
            .map(|name| record[name].clone());
    let want = [json!("UndeliverableDueToHttpForbidden"), json!(1), json!("Forbidden"), json!(403)];
    ensure!(said == want, "{record}");
    Ok(())
}

/// Checks that when the resource is gone, the endpoint waits at least five minutes, and no other
/// event subscription gets the event.
async fn refused_and_gone(fixture: &Fixture, place: &Place<'_>) -> anyhow::Result<()> {
    let target = &place.target;
    refused(fixture, target).await?;
    let topic = target.topic(fixture, "gone").await?;
    place.remove().await?;
    not_there(fixture, target).await?;
    topic.publish(&[topic.plain_event("gone")]).await?;
    let is_gone = |health: &Value| health["cause"]["outcome"] == "NotFound";
    let health = fixture.health_when(&topic.name, "all", is_gone).await?;
    let time = |name: &str| Timestamp::parse_rfc_3339(health[name].as_str()?);
    let (since, until) = time("since").zip(time("until")).context("it waits")?;
    ensure!(until.since(since) >= Duration::from_secs(300), "{health}");
    ensure!(health["state"] == "Probation", "{health}");
    Ok(())
}

/// A resource that does not exist can't become an endpoint.
async fn not_there(fixture: &Fixture, target: &Target) -> anyhow::Result<()> {
    let topic = fixture.topic(&format!("{}-none", target.kind.to_lowercase()), EVENT_GRID).await?;
    let refused = refusal(target.subscribe(fixture, &topic).await)?.to_string();
    ensure!(refused.contains("NotFound") && refused.contains("Create it first"), "{refused}");
    Ok(())
}

pub async fn a_queue_gets_messages(fixture: &Fixture) -> anyhow::Result<()> {
    let target = Target::new(fixture, "SqsQueue", ("sqs", "sqs:SendMessage")).with(attributes());
    not_there(fixture, &target).await?;
    let place = Place::make(fixture, target).await?;
    let topic = place.target.topic(fixture, "all").await?;
    for message in &delivered(&topic, &place).await? {
        has_attributes(message, &MESSAGE)?;
    }
    refused_and_gone(fixture, &place).await
}

/// A FIFO queue gets the events of a group in one group; an event without one does not reach it.
pub async fn a_fifo_queue_gets_groups(fixture: &Fixture) -> anyhow::Result<()> {
    let mut target = Target::new(fixture, "SqsQueue", ("sqs", "sqs:SendMessage"));
    target.name = format!("{}-2.fifo", target.name);
    target.arn = format!("{}-2.fifo", target.arn);
    let topic = fixture.topic("fifo", EVENT_GRID).await?;
    let refused = refusal(target.subscribe(fixture, &topic).await)?.to_string();
    ensure!(refused.contains("messageGroupId"), "{refused}");
    target.properties["messageGroupId"] =
        json!({"type": "Dynamic", "properties": {"sourceField": "data.of"}});
    let url = fixture.queue(&target.name, &[("FifoQueue", "true")]).await?;
    target.subscribe(fixture, &topic).await?;
    topic.publish(&[topic.plain_event("one"), topic.plain_event("two")]).await?;
    let deadline = Instant::now() + SOON;
    let mut groups = Vec::new();
    while groups.len() < 2 {
        ensure!(Instant::now() < deadline, "groups: {groups:?}");
        let some = fixture.sqs().receive_message().queue_url(&url).max_number_of_messages(10);
        let some = some.message_system_attribute_names("All".into()).send().await?;
        for message in some.messages() {
            let all = message.attributes().context("attributes")?;
            let text = |name: &str| {
                all.iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value.clone())
            };
            let id = text("MessageDeduplicationId").unwrap_or_default();
            ensure!(id.ends_with("-0") || id.ends_with("-1"), "a deduplication id: {id}");
            groups.extend(text("MessageGroupId"));
        }
        sleep(POLL).await;
    }
    groups.sort();
    ensure!(groups == ["one", "two"], "{groups:?}");
    let mut bare = topic.plain_event("bare");
    bare["data"] = json!({});
    topic.publish(&[bare]).await?;
    let outcome = outcome_of_first(fixture, &topic).await?;
    ensure!(outcome == "SessionQueueNotSupported", "{outcome}");
    Ok(())
}

pub async fn a_topic_gets_messages(fixture: &Fixture) -> anyhow::Result<()> {
    let target = Target::new(fixture, "SnsTopic", ("sns", "sns:Publish*")).with(attributes());
    let place = Place::make(fixture, target).await?;
    let topic = place.target.topic(fixture, "all").await?;
    for message in &delivered(&topic, &place).await? {
        has_attributes(message, &MESSAGE)?;
    }
    refused_and_gone(fixture, &place).await
}

pub async fn a_stream_gets_records(fixture: &Fixture) -> anyhow::Result<()> {
    let target = Target::new(fixture, "KinesisStream", ("kinesis", "kinesis:PutRecords"));
    let place = Place::make(fixture, target).await?;
    let topic = place.target.topic(fixture, "all").await?;
    for (event, key) in delivered(&topic, &place).await? {
        ensure!(key == event["id"], "an event's id is its key: {key} of {event}");
    }
    refused_and_gone(fixture, &place).await
}

pub async fn a_bus_gets_events(fixture: &Fixture) -> anyhow::Result<()> {
    let target = Target::new(fixture, "EventBridgeBus", ("events", "events:PutEvents"));
    let place = Place::make(fixture, target).await?;
    let topic = place.target.topic(fixture, "all").await?;
    let source = format!("/topics/{}", topic.name);
    for (detail, event) in delivered(&topic, &place).await? {
        ensure!(event["source"] == source && event["detail-type"] == "Gridpost.Test", "{event}");
        ensure!(detail["data"]["of"] == detail["id"], "the whole event: {detail}");
    }
    // EventBridge accepts events for a bus that is gone, and drops them.
    refused(fixture, &place.target).await?;
    place.remove().await?;
    not_there(fixture, &place.target).await
}

/// A function gets what a webhook would get. If it fails, that is the endpoint's failure; if its
/// concurrency lets it not run at all, the outcome is `Full`.
pub async fn a_function_is_invoked(fixture: &Fixture) -> anyhow::Result<()> {
    let properties = {
        let mut properties = attributes();
        properties["maxEventsPerBatch"] = json!(10);
        properties
    };
    let target = Target::new(fixture, "LambdaFunction", ("lambda", "lambda:InvokeFunction"));
    let target = target.with(properties);
    let place = Place::make(fixture, target).await?;
    let target = &place.target;
    let topic = target.topic(fixture, "all").await?;
    for (event, _) in delivered(&topic, &place).await? {
        // The emulator does not pass the client context on.
        ensure!(event["topic"] == format!("/topics/{}", topic.name), "{event}");
    }
    let failing = target.topic(fixture, "fails").await?;
    let mut fails = failing.plain_event("fails");
    fails["data"]["fail"] = json!(true);
    failing.publish(&[fails]).await?;
    let outcome = outcome_of_first(fixture, &failing).await?;
    ensure!(outcome == "ServerError", "a function's own failure: {outcome}");

    let full = target.topic(fixture, "full").await?;
    let concurrency = format!("/2017-10-31/functions/{}/concurrency", target.name);
    let none = json!({"ReservedConcurrentExecutions": 0});
    fixture.aws_rest("lambda", "PUT", &concurrency, &none).await?;
    full.publish(&[full.plain_event("full")]).await?;
    let outcome = outcome_of_first(fixture, &full).await?;
    fixture.aws_rest("lambda", "DELETE", &concurrency, &Value::Null).await?;
    ensure!(matches!(outcome.as_str(), "Full" | "Busy"), "a function that may not run: {outcome}");
    // The event waits five minutes; once the endpoint's health is reset, the next one waits for nothing.
    fixture.api.reset_health(&full.name, "all").await?;
    // Instances of dispatch keep a health for two seconds.
    sleep(Duration::from_secs(3)).await;
    full.publish(&[full.plain_event("after")]).await?;
    wait_for(&place, SOON, |(event, _)| event["id"] == "after").await?;
    refused_and_gone(fixture, &place).await
}

/// An ARN that is not allowed is refused, and the message says what to add.
pub async fn an_arn_outside_the_allowance_is_refused(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("outside", EVENT_GRID).await?;
    let mut target = Target::new(fixture, "SqsQueue", ("sqs", "sqs:SendMessage"));
    target.arn = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:gridpost-dispatch");
    let refused = refusal(target.subscribe(fixture, &topic).await)?.to_string();
    ensure!(refused.contains("resource_destinations"), "{refused}");
    Ok(())
}

/// The first item at the place that meets the condition.
async fn wait_for(
    place: &Place<'_>,
    patience: Duration,
    is_it: impl Fn(&Received) -> bool,
) -> anyhow::Result<Received> {
    let got = until(&place.target.arn, patience, || place.got(), |got| got.iter().any(&is_it));
    got.await?.into_iter().find(is_it).context("it was found")
}

/// The last outcome of the topic's first failing delivery.
async fn outcome_of_first(fixture: &Fixture, topic: &Topic<'_>) -> anyhow::Result<String> {
    let outcome = || async {
        let mut found = None;
        let take = |one: &Value| {
            found = found.take().or(one["lastDeliveryOutcome"].as_str().map(str::to_owned));
        };
        fixture.api.each_delivery(&topic.name, "all", take).await?;
        Ok(found)
    };
    until("a failure", SOON, outcome, Option::is_some).await?.context("it was found")
}
