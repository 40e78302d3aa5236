//! AWS resources as endpoints: delivered with what they are told by, refused, gone, and in part.

mod parts;

use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::BoxFuture;
use gridpost::time::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::e2e::python;
use crate::e2e::world::{ACCOUNT, EVENT_GRID, SOON, Topic, World, refusal};
use gridpost_cli::local::terraform::REGION;

pub use parts::throttled_calls_and_parts_of_batches_come_again;

const POLL: Duration = Duration::from_millis(300);

/// A message with its attributes by name, as text.
type Received = (Value, Value);

/// An endpoint of a case's own.
struct Target {
    kind: &'static str,
    name: String,
    arn: String,
    /// What delivering to it takes.
    action: &'static str,
    /// More of the destination's properties.
    properties: Value,
}

impl Target {
    fn new(world: &World, kind: &'static str, (service, action): (&str, &'static str)) -> Self {
        // Names of a local stack's allowance.
        let name = format!("local-{}-{}", kind.to_lowercase(), world.run());
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
    async fn subscribe(&self, world: &World, topic: &Topic<'_>) -> anyhow::Result<Value> {
        let mut properties = self.properties.clone();
        properties["resourceId"] = json!(self.arn);
        let document = json!({"properties": {
            "destination": {"endpointType": self.kind, "properties": properties},
            "eventDeliverySchema": topic.schema,
            "deadLetterDestination": topic.dead_letter_destination(),
        }});
        Ok(world.api.put_subscription(&topic.name, "all", &document).await?.document)
    }

    /// A topic of the case with this endpoint.
    async fn topic<'w>(&self, world: &'w World, what: &str) -> anyhow::Result<Topic<'w>> {
        let kind = self.kind.to_lowercase();
        let topic = world.topic(&format!("{kind}-{what}"), EVENT_GRID).await?;
        self.subscribe(world, &topic).await.with_context(|| format!("{} as endpoint", self.arn))?;
        Ok(topic)
    }
}

/// What a message is told by besides its body.
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

/// Publishes three events and gives them as they arrive.
async fn delivered(
    topic: &Topic<'_>,
    mut receive: impl FnMut() -> BoxFuture<'static, anyhow::Result<Vec<Received>>>,
) -> anyhow::Result<Vec<Received>> {
    let events: Vec<_> = ["a", "b", "c"].map(|id| topic.plain_event(id)).to_vec();
    topic.publish(&events).await?;
    let deadline = Instant::now() + SOON;
    let mut received: Vec<Received> = Vec::new();
    while received.len() < 3 {
        ensure!(Instant::now() < deadline, "three events did not arrive: {received:?}");
        received.extend(receive().await?);
        sleep(POLL).await;
    }
    let mut ids: Vec<_> = received.iter().filter_map(|(event, _)| event["id"].as_str()).collect();
    ids.sort_unstable();
    ensure!(ids == ["a", "b", "c"], "{received:?}");
    Ok(received)
}

/// Without permission events end as dead letters after one attempt.
async fn refused(world: &World, target: &Target) -> anyhow::Result<()> {
    let topic = target.topic(world, "denied").await?;
    let policy = target.kind.to_lowercase();
    world.deny_on("dispatch", &policy, target.action, &target.arn).await?;
    topic.publish(&[topic.plain_event("denied")]).await?;
    let dead = world.dead_letters(&topic.prefix(), 1).await;
    world.deny_on_no_more("dispatch", &policy).await?;
    let record = dead?[0].records[0].clone();
    let said =
        ["deadLetterReason", "deliveryAttempts", "lastDeliveryOutcome", "lastHttpStatusCode"]
            .map(|name| record[name].clone());
    let want = [json!("UndeliverableDueToHttpForbidden"), json!(1), json!("Forbidden"), json!(403)];
    ensure!(said == want, "{record}");
    Ok(())
}

/// The same, and when the resource is gone, the endpoint waits five minutes at least.
async fn refused_and_gone(
    world: &World,
    target: &Target,
    remove: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    refused(world, target).await?;
    remove.await?;
    let topic = target.topic(world, "gone").await?;
    topic.publish(&[topic.plain_event("gone")]).await?;
    let deadline = Instant::now() + SOON;
    loop {
        let health = world.api.health(&topic.name, "all").await?;
        if health["cause"]["outcome"] == "NotFound" {
            let time = |name: &str| Timestamp::parse_rfc_3339(health[name].as_str()?);
            let (since, until) = time("since").zip(time("until")).context("it waits")?;
            ensure!(until.since(since) >= Duration::from_secs(300), "{health}");
            ensure!(health["state"] == "Probation", "{health}");
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not found out within {SOON:?}: {health}");
        sleep(POLL).await;
    }
}

/// # Errors
///
/// When it is not so. So for every case.
pub async fn a_queue_gets_messages(world: &World) -> anyhow::Result<()> {
    let target = Target::new(world, "SqsQueue", ("sqs", "sqs:SendMessage")).with(attributes());
    let queue = world.queue(&target.name, &[]).await?;
    let topic = target.topic(world, "all").await?;
    let (sqs, url) = (world.sqs().clone(), queue.clone());
    let received = delivered(&topic, move || Box::pin(messages(sqs.clone(), url.clone()))).await?;
    for message in &received {
        has_attributes(message, &MESSAGE)?;
    }
    let remove = async { Ok(world.sqs().delete_queue().queue_url(&queue).send().await.map(drop)?) };
    refused_and_gone(world, &target, remove).await
}

/// A FIFO queue gets the events of a group in one group; an event without one does not reach it.
///
/// # Errors
///
/// When it is not so.
pub async fn a_fifo_queue_gets_groups(world: &World) -> anyhow::Result<()> {
    let mut target = Target::new(world, "SqsQueue", ("sqs", "sqs:SendMessage"));
    target.name = format!("{}-2.fifo", target.name);
    target.arn = format!("{}-2.fifo", target.arn);
    let topic = world.topic("fifo", EVENT_GRID).await?;
    let refused = refusal(target.subscribe(world, &topic).await)?.to_string();
    ensure!(refused.contains("messageGroupId"), "{refused}");
    target.properties["messageGroupId"] =
        json!({"type": "Dynamic", "properties": {"sourceField": "data.of"}});
    let url = world.queue(&target.name, &[("FifoQueue", "true")]).await?;
    target.subscribe(world, &topic).await?;
    topic.publish(&[topic.plain_event("one"), topic.plain_event("two")]).await?;
    let deadline = Instant::now() + SOON;
    let mut groups = Vec::new();
    while groups.len() < 2 {
        ensure!(Instant::now() < deadline, "groups: {groups:?}");
        let some = world.sqs().receive_message().queue_url(&url).max_number_of_messages(10);
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
    let outcome = outcome_of_first(world, &topic).await?;
    ensure!(outcome == "SessionQueueNotSupported", "{outcome}");
    Ok(())
}

/// # Errors
///
/// When it is not so.
pub async fn a_topic_gets_messages(world: &World) -> anyhow::Result<()> {
    let target = Target::new(world, "SnsTopic", ("sns", "sns:Publish*")).with(attributes());
    world.aws_query("sns", "CreateTopic", &[("Name", &target.name)]).await?;
    let inbox = world.queue(&format!("{}-inbox", target.name), &[]).await?;
    let inbox_arn = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{}-inbox", target.name);
    let subscription = [
        ("TopicArn", target.arn.as_str()),
        ("Protocol", "sqs"),
        ("Endpoint", &inbox_arn),
        ("Attributes.entry.1.key", "RawMessageDelivery"),
        ("Attributes.entry.1.value", "true"),
    ];
    world.allow_all_to_send(&inbox, &inbox_arn).await?;
    world.aws_query("sns", "Subscribe", &subscription).await?;
    let topic = target.topic(world, "all").await?;
    let sqs = world.sqs().clone();
    let received =
        delivered(&topic, move || Box::pin(messages(sqs.clone(), inbox.clone()))).await?;
    for message in &received {
        has_attributes(message, &MESSAGE)?;
    }
    let remove = async {
        world.aws_query("sns", "DeleteTopic", &[("TopicArn", &target.arn)]).await.map(drop)
    };
    refused_and_gone(world, &target, remove).await
}

/// # Errors
///
/// When it is not so.
pub async fn a_stream_gets_records(world: &World) -> anyhow::Result<()> {
    let target = Target::new(world, "KinesisStream", ("kinesis", "kinesis:PutRecords"));
    let call = |operation: &'static str, body: Value| {
        world.aws_json("kinesis", format!("Kinesis_20131202.{operation}"), body)
    };
    call("CreateStream", json!({"StreamName": target.name, "ShardCount": 1})).await?;
    let deadline = Instant::now() + SOON;
    loop {
        let stream = call("DescribeStream", json!({"StreamName": target.name})).await?;
        if stream["StreamDescription"]["StreamStatus"] == "ACTIVE" {
            break;
        }
        ensure!(Instant::now() < deadline, "{stream}");
        sleep(POLL).await;
    }
    let topic = target.topic(world, "all").await?;
    topic.publish(&["a", "b", "c"].map(|id| topic.plain_event(id))).await?;
    let deadline = Instant::now() + SOON;
    loop {
        let iterator = json!({"StreamName": target.name, "ShardId": "shardId-000000000000",
            "ShardIteratorType": "TRIM_HORIZON"});
        let iterator = call("GetShardIterator", iterator).await?["ShardIterator"].clone();
        let found = call("GetRecords", json!({"ShardIterator": iterator})).await?;
        let records = found["Records"].as_array().cloned().unwrap_or_default();
        if records.len() == 3 {
            let mut keys: Vec<_> =
                records.iter().filter_map(|record| record["PartitionKey"].as_str()).collect();
            keys.sort_unstable();
            ensure!(keys == ["a", "b", "c"], "an event's id is its key: {records:?}");
            break;
        }
        ensure!(Instant::now() < deadline, "{found}");
        sleep(POLL).await;
    }
    let remove = async {
        call("DeleteStream", json!({"StreamName": target.name})).await?;
        // It is DELETING for a while.
        sleep(Duration::from_secs(2)).await;
        Ok(())
    };
    refused_and_gone(world, &target, remove).await
}

/// # Errors
///
/// When it is not so.
pub async fn a_bus_gets_events(world: &World) -> anyhow::Result<()> {
    let target = Target::new(world, "EventBridgeBus", ("events", "events:PutEvents"));
    let call = |operation: &'static str, body: Value| {
        world.aws_json("events", format!("AWSEvents.{operation}"), body)
    };
    let (name, inbox_name) = (&target.name, format!("{}-inbox", target.name));
    call("CreateEventBus", json!({"Name": name})).await?;
    let inbox = world.queue(&inbox_name, &[]).await?;
    let inbox_arn = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{inbox_name}");
    world.allow_all_to_send(&inbox, &inbox_arn).await?;
    let pattern = json!({"detail-type": ["Gridpost.Test"]}).to_string();
    let rule = json!({"Name": name, "EventBusName": name, "EventPattern": pattern});
    call("PutRule", rule).await?;
    let targets = json!([{"Id": "inbox", "Arn": inbox_arn}]);
    call("PutTargets", json!({"Rule": name, "EventBusName": name, "Targets": targets})).await?;
    let topic = target.topic(world, "all").await?;
    let event = topic.plain_event("a");
    topic.publish(std::slice::from_ref(&event)).await?;
    let deadline = Instant::now() + SOON;
    let got = loop {
        let some = messages(world.sqs().clone(), inbox.clone()).await?;
        if let Some((got, _)) = some.into_iter().next() {
            break got;
        }
        ensure!(Instant::now() < deadline, "no event came through the bus");
        sleep(POLL).await;
    };
    let source = format!("/topics/{}", topic.name);
    ensure!(got["source"] == source && got["detail-type"] == "Gridpost.Test", "{got}");
    let detail = &got["detail"];
    ensure!(detail["id"] == "a" && detail["data"] == event["data"], "the whole event: {got}");
    // EventBridge takes events for a bus that is gone, and drops them.
    refused(world, &target).await
}

/// What the function does: it tells what it got, and fails where it is told to.
const FUNCTION: &str = r#"
import json

def handler(event, context):
    custom = context.client_context.custom if context.client_context else None
    for one in event:
        print("GOT " + json.dumps([one, custom]), flush=True)
        if one["data"].get("fail"):
            raise RuntimeError("told to")
"#;

/// Zips a program as Lambda wants it.
const ZIP: &str = r#"
import base64, io, json, sys, zipfile
file = io.BytesIO()
with zipfile.ZipFile(file, "w") as zip:
    zip.writestr("index.py", json.load(sys.stdin))
json.dump(base64.b64encode(file.getvalue()).decode(), sys.stdout)
"#;

/// A function gets what a webhook would get. Where it fails, that is the endpoint's failure; where it may
/// not run at all, its concurrency is `Full`.
///
/// # Errors
///
/// When it is not so.
pub async fn a_function_is_invoked(world: &World) -> anyhow::Result<()> {
    let properties = {
        let mut properties = attributes();
        properties["maxEventsPerBatch"] = json!(10);
        properties
    };
    let target = Target::new(world, "LambdaFunction", ("lambda", "lambda:InvokeFunction"));
    let target = target.with(properties);
    let name = target.name.clone();
    let zip = python::run(&world.ground.environment, ZIP, &json!(FUNCTION)).await?;
    let role = format!("arn:aws:iam::{ACCOUNT}:role/gridpost-dispatch-{REGION}");
    let function = json!({"FunctionName": name, "Runtime": "python3.11", "Handler": "index.handler",
        "Role": role, "Timeout": 20, "Code": {"ZipFile": zip}});
    world.aws_rest("lambda", "POST", "/2015-03-31/functions", &function).await?;
    sleep(Duration::from_secs(2)).await;
    let topic = target.topic(world, "all").await?;
    topic.publish(&["a", "b", "c"].map(|id| topic.plain_event(id))).await?;
    let deadline = Instant::now() + SOON;
    let got = loop {
        // Before its first invocation it has no log.
        let lines = world.lines_of(&name, "GOT ").await.unwrap_or_default();
        if lines.len() >= 3 {
            break lines;
        }
        ensure!(Instant::now() < deadline, "not invoked: {lines:?}");
        sleep(POLL).await;
    };
    for line in &got {
        let json = line.split_once("GOT ").context("a line")?.1;
        // What stands in the client context the emulator keeps to itself.
        let (event, _): Received = serde_json::from_str(json.trim())?;
        ensure!(event["topic"] == format!("/topics/{}", topic.name), "{event}");
    }
    let failing = target.topic(world, "fails").await?;
    let mut fails = failing.plain_event("fails");
    fails["data"]["fail"] = json!(true);
    failing.publish(&[fails]).await?;
    let outcome = outcome_of_first(world, &failing).await?;
    ensure!(outcome == "ServerError", "a function's own failure: {outcome}");

    let concurrency = format!("/2017-10-31/functions/{name}/concurrency");
    world
        .aws_rest("lambda", "PUT", &concurrency, &json!({"ReservedConcurrentExecutions": 0}))
        .await?;
    let full = target.topic(world, "full").await?;
    full.publish(&[full.plain_event("full")]).await?;
    let outcome = outcome_of_first(world, &full).await?;
    ensure!(matches!(outcome.as_str(), "Full" | "Busy"), "a function that may not run: {outcome}");
    world.aws_rest("lambda", "DELETE", &concurrency, &Value::Null).await?;

    let path = format!("/2015-03-31/functions/{name}");
    let remove = async { world.aws_rest("lambda", "DELETE", &path, &Value::Null).await.map(drop) };
    refused_and_gone(world, &target, remove).await
}

/// An ARN outside the allowance is refused with what to add.
///
/// # Errors
///
/// When it is not so.
pub async fn an_arn_outside_the_allowance_is_refused(world: &World) -> anyhow::Result<()> {
    let topic = world.topic("outside", EVENT_GRID).await?;
    let mut target = Target::new(world, "SqsQueue", ("sqs", "sqs:SendMessage"));
    target.arn = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:gridpost-dispatch");
    let refused = refusal(target.subscribe(world, &topic).await)?.to_string();
    ensure!(refused.contains("resource_destinations"), "{refused}");
    Ok(())
}

/// The messages of a queue, deleted as they are read.
async fn messages(sqs: aws_sdk_sqs::Client, url: String) -> anyhow::Result<Vec<Received>> {
    let ask = sqs.receive_message().queue_url(&url).max_number_of_messages(10);
    let found = ask.message_attribute_names("All").send().await?;
    let mut received = Vec::new();
    for message in found.messages() {
        let body = serde_json::from_str(message.body().unwrap_or_default())?;
        let mut attributes = json!({});
        for (name, value) in message.message_attributes().into_iter().flatten() {
            attributes[name] = json!(value.string_value());
        }
        let receipt = message.receipt_handle().unwrap_or_default();
        sqs.delete_message().queue_url(&url).receipt_handle(receipt).send().await?;
        received.push((body, attributes));
    }
    Ok(received)
}

/// The last outcome of the topic's first failing delivery.
async fn outcome_of_first(world: &World, topic: &Topic<'_>) -> anyhow::Result<String> {
    let deadline = Instant::now() + SOON;
    loop {
        let mut found = None;
        let take = |one: &Value| {
            found = found.take().or(one["lastDeliveryOutcome"].as_str().map(str::to_owned));
        };
        world.api.each_delivery(&topic.name, "all", take).await?;
        match found {
            Some(outcome) => return Ok(outcome),
            None => ensure!(Instant::now() < deadline, "nothing failed"),
        }
        sleep(POLL).await;
    }
}
