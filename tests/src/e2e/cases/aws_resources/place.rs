//! AWS resources that a case creates, and where it sees what they received.

use std::time::Duration;

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use gridpost_ops::aws_api::REGION;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Received, Target};
use crate::e2e::{
    fixture::{ACCOUNT, Fixture, SOON},
    inside::until,
    python,
};

/// A resource that exists, and the queue that receives its events.
pub(super) struct Place<'w> {
    fixture: &'w Fixture,
    pub(super) target: Target,
    /// The queue behind a topic or a bus, or the queue itself; empty where there is none.
    pub(super) inbox: String,
}

/// The function's program: it logs what it received, and fails when told to.
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

impl<'w> Place<'w> {
    /// Creates it.
    pub(super) async fn make(fixture: &'w Fixture, target: Target) -> anyhow::Result<Self> {
        let mut place = Self { fixture, target, inbox: String::new() };
        match place.target.kind {
            "SqsQueue" => place.inbox = fixture.queue(&place.target.name, &[]).await?,
            "SnsTopic" => place.make_topic().await?,
            "KinesisStream" => place.make_stream().await?,
            "EventBridgeBus" => place.make_bus().await?,
            _ => place.make_function().await?,
        }
        Ok(place)
    }

    async fn make_topic(&mut self) -> anyhow::Result<()> {
        let arn = self.target.arn.clone();
        self.fixture.aws_query("sns", "CreateTopic", &[("Name", &self.target.name)]).await?;
        let inbox_arn = self.make_inbox().await?;
        let subscription = [
            ("TopicArn", arn.as_str()),
            ("Protocol", "sqs"),
            ("Endpoint", &inbox_arn),
            ("Attributes.entry.1.key", "RawMessageDelivery"),
            ("Attributes.entry.1.value", "true"),
        ];
        self.fixture.aws_query("sns", "Subscribe", &subscription).await.map(drop)
    }

    async fn make_stream(&self) -> anyhow::Result<()> {
        let name = &self.target.name;
        self.kinesis("CreateStream", json!({"StreamName": name, "ShardCount": 1})).await?;
        let stream = || self.kinesis("DescribeStream", json!({"StreamName": name}));
        let is_active = |stream: &Value| stream["StreamDescription"]["StreamStatus"] == "ACTIVE";
        until("an active stream", SOON, stream, is_active).await.map(drop)
    }

    async fn make_bus(&mut self) -> anyhow::Result<()> {
        let name = self.target.name.clone();
        self.events("CreateEventBus", json!({"Name": name})).await?;
        let inbox_arn = self.make_inbox().await?;
        let pattern = json!({"detail-type": ["Gridpost.Test"]}).to_string();
        let rule = json!({"Name": name, "EventBusName": name, "EventPattern": pattern});
        self.events("PutRule", rule).await?;
        let targets = json!([{"Id": "inbox", "Arn": inbox_arn}]);
        let targets = json!({"Rule": name, "EventBusName": name, "Targets": targets});
        self.events("PutTargets", targets).await.map(drop)
    }

    async fn make_function(&self) -> anyhow::Result<()> {
        let zip = python::run(self.fixture.ground.environment()?, ZIP, &json!(FUNCTION)).await?;
        let role = format!("arn:aws:iam::{ACCOUNT}:role/gridpost-dispatch-{REGION}");
        let function = json!({"FunctionName": self.target.name, "Runtime": "python3.11",
            "Handler": "index.handler", "Role": role, "Timeout": 20, "Code": {"ZipFile": zip}});
        self.fixture.aws_rest("lambda", "POST", "/2015-03-31/functions", &function).await?;
        sleep(Duration::from_secs(2)).await;
        Ok(())
    }

    /// A queue that gets what the resource gets; returns its ARN.
    async fn make_inbox(&mut self) -> anyhow::Result<String> {
        let name = format!("{}-inbox", self.target.name);
        let arn = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}");
        self.inbox = self.fixture.queue(&name, &[]).await?;
        self.fixture.allow_all_to_send(&self.inbox, &arn).await?;
        Ok(arn)
    }

    /// Deletes it.
    pub(super) async fn remove(&self) -> anyhow::Result<()> {
        let Target { name, arn, kind, .. } = &self.target;
        match *kind {
            "SqsQueue" => {
                self.fixture.sqs().delete_queue().queue_url(&self.inbox).send().await?;
            }
            "SnsTopic" => {
                self.fixture.aws_query("sns", "DeleteTopic", &[("TopicArn", arn)]).await?;
            }
            "KinesisStream" => {
                self.kinesis("DeleteStream", json!({"StreamName": name})).await?;
                // It is DELETING for a while.
                sleep(Duration::from_secs(2)).await;
            }
            "EventBridgeBus" => {
                let rule = json!({"Rule": name, "EventBusName": name, "Ids": ["inbox"]});
                self.events("RemoveTargets", rule).await?;
                self.events("DeleteRule", json!({"Name": name, "EventBusName": name})).await?;
                self.events("DeleteEventBus", json!({"Name": name})).await?;
            }
            _ => {
                let path = format!("/2015-03-31/functions/{name}");
                self.fixture.aws_rest("lambda", "DELETE", &path, &Value::Null).await?;
            }
        }
        Ok(())
    }

    /// Whether each read returns everything, not only what is new.
    pub(super) fn tells_all(&self) -> bool {
        matches!(self.target.kind, "KinesisStream" | "LambdaFunction")
    }

    /// Reads what it received: for queues and topics since the last read, for others since the
    /// beginning. Each event comes with its attributes, its partition key or the bus's own members.
    pub(super) async fn got(&self) -> anyhow::Result<Vec<Received>> {
        match self.target.kind {
            "KinesisStream" => self.records().await,
            "LambdaFunction" => self.lines().await,
            "EventBridgeBus" => {
                let got = self.messages().await?.into_iter();
                Ok(got.map(|(mut event, _)| (event["detail"].take(), event)).collect())
            }
            _ => self.messages().await,
        }
    }

    /// The messages of the inbox, deleted as they are read.
    async fn messages(&self) -> anyhow::Result<Vec<Received>> {
        let sqs = self.fixture.sqs();
        let ask = sqs.receive_message().queue_url(&self.inbox).max_number_of_messages(10);
        let found = ask.message_attribute_names("All").send().await?;
        let mut received = Vec::new();
        for message in found.messages() {
            let body = serde_json::from_str(message.body().unwrap_or_default())?;
            let mut attributes = json!({});
            for (name, value) in message.message_attributes().into_iter().flatten() {
                attributes[name] = json!(value.string_value());
            }
            let receipt = message.receipt_handle().unwrap_or_default();
            sqs.delete_message().queue_url(&self.inbox).receipt_handle(receipt).send().await?;
            received.push((body, attributes));
        }
        Ok(received)
    }

    async fn records(&self) -> anyhow::Result<Vec<Received>> {
        let iterator = json!({"StreamName": self.target.name, "ShardId": "shardId-000000000000",
            "ShardIteratorType": "TRIM_HORIZON"});
        let iterator = self.kinesis("GetShardIterator", iterator).await?["ShardIterator"].clone();
        let found = self.kinesis("GetRecords", json!({"ShardIterator": iterator})).await?;
        let records = found["Records"].as_array().context("records")?.iter();
        let records = records.map(|record| {
            let data = BASE64_STANDARD.decode(record["Data"].as_str().context("data")?)?;
            Ok((serde_json::from_slice(&data)?, record["PartitionKey"].clone()))
        });
        records.collect()
    }

    /// The function's log; before its first invocation there is none.
    async fn lines(&self) -> anyhow::Result<Vec<Received>> {
        let lines = self.fixture.lines_of(&self.target.name, "GOT ").await.unwrap_or_default();
        let lines = lines.iter().map(|line| {
            let json = line.split_once("GOT ").context("a line")?.1;
            Ok(serde_json::from_str(json.trim())?)
        });
        lines.collect()
    }

    async fn kinesis(&self, operation: &str, body: Value) -> anyhow::Result<Value> {
        self.fixture.aws_json("kinesis", format!("Kinesis_20131202.{operation}"), body).await
    }

    async fn events(&self, operation: &str, body: Value) -> anyhow::Result<Value> {
        self.fixture.aws_json("events", format!("AWSEvents.{operation}"), body).await
    }
}
