//! Events of AWS services come in through `infra/modules/aws-source`: a rule, a bucket, an SNS topic and
//! a queue, each filled by AWS's own client.

use std::{fs, time::Duration};

use anyhow::{Context, ensure};
use gridpost_ops::aws_api::REGION;
use serde_json::{Value, json};

use super::audit::settled;
use crate::e2e::{
    configuration::Configuration,
    fixture::{self, CLOUD_EVENTS, EVENT_GRID, Fixture, Topic},
    inside::until,
    python,
    receiver::{Endpoint, Reply},
};

/// Time for an event: dispatch may be killed meanwhile, and a function starts cold.
const SOON: Duration = fixture::SOON.saturating_add(Duration::from_secs(90));

/// A source of each kind. The names of what they take from differ by run. The two slashes say where the
/// package begins: the module uses another one of it.
const CONFIGURATION: &str = r#"
variable "gridpost" {}
variable "topics" {}
variable "run" {}

resource "aws_s3_bucket" "this" {
  bucket        = "uploads-${var.run}"
  force_destroy = true
}

resource "aws_sns_topic" "this" {
  name = "orders-${var.run}"
}

resource "aws_sqs_queue" "this" {
  name = "legacy-${var.run}"
}

module "source" {
  for_each = toset(["rule", "bucket", "sns", "sqs"])
  source   = "{infra}//modules/aws-source"

  gridpost     = var.gridpost
  name         = "${each.key}-${var.run}"
  topic        = var.topics[each.key]
  event_bridge = each.key == "rule" ? { event_pattern = jsonencode({ source = ["my.shop"] }) } : null
  s3           = each.key == "bucket" ? { bucket = aws_s3_bucket.this.bucket, prefix = "in/" } : null
  sns          = each.key == "sns" ? { topic_arn = aws_sns_topic.this.arn } : null
  sqs          = each.key == "sqs" ? { queue_arn = aws_sqs_queue.this.arn, message_bytes_max = 262144 } : null
  blobs        = each.key == "bucket"
}

output "all" {
  value = {
    bucket = aws_s3_bucket.this.bucket
    topic  = aws_sns_topic.this.arn
    queue  = aws_sqs_queue.this.url
    poison = { for kind, source in module.source : kind => source.poison_queue_url }
    queues = { for kind, source in module.source : kind => source.queue_arn }
  }
}
"#;

/// A topic of the case with a webhook for all of its events.
struct Taken<'w> {
    topic: Topic<'w>,
    endpoint: Endpoint,
}

impl<'w> Taken<'w> {
    async fn of(fixture: &'w Fixture, kind: &str, schema: &'static str) -> anyhow::Result<Self> {
        let topic = fixture.topic(&format!("source-{kind}"), schema).await?;
        let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
        Ok(Self { topic, endpoint })
    }

    /// The first so many events.
    async fn events(&self, count: usize) -> anyhow::Result<Vec<Value>> {
        let deliveries = self.endpoint.wait_for(count, SOON).await?;
        Ok(deliveries.iter().flat_map(|arrival| arrival.events()).collect())
    }
}

/// Events that AWS's clients send to a bus, a bucket, an SNS topic and a queue arrive at webhooks,
/// as CloudEvents or in Event Grid's schema; objects arrive as blobs. Messages that can't be mapped
/// are in the source's poison queue. The ledger of each topic balances.
pub async fn events_of_aws_services_arrive(fixture: &Fixture) -> anyhow::Result<()> {
    let rule = Taken::of(fixture, "rule", CLOUD_EVENTS).await?;
    let bucket = Taken::of(fixture, "bucket", EVENT_GRID).await?;
    let sns = Taken::of(fixture, "sns", CLOUD_EVENTS).await?;
    let sqs = Taken::of(fixture, "sqs", EVENT_GRID).await?;
    let taken = [("rule", &rule), ("bucket", &bucket), ("sns", &sns), ("sqs", &sqs)];
    let topics: Value = taken.iter().map(|(kind, one)| (*kind, one.topic.name.clone())).collect();
    let configuration = Configuration::new(fixture.ground.terraform()?, CONFIGURATION).await?;
    let run = fixture.run();
    let variables = json!({"gridpost": of_the_stack(fixture)?, "topics": topics, "run": run});
    configuration.apply(&variables).await?;
    let made = configuration.outputs().await?["all"].take();

    send(fixture, &made).await?;
    check_rule(&rule.events(1).await?[0])?;
    check_blobs(&bucket.events(2).await?, made["bucket"].as_str().unwrap_or_default())?;
    check_sns(&sns.events(1).await?[0], &made)?;
    check_sqs(&sqs.events(1).await?[0])?;
    refused_are_kept(fixture, &made).await?;
    for (kind, one) in taken {
        let audit = settled(fixture, &one.topic.name).await?;
        ensure!(audit["verdict"] == "balances", "{kind}: {audit:#}");
        let want = if kind == "bucket" { 2 } else { 1 };
        ensure!(audit["topics"][0]["accepted"] == want, "{kind}: {audit:#}");
    }
    configuration.destroy().await
}

/// Returns the sources' settings of the stack.
fn of_the_stack(fixture: &Fixture) -> anyhow::Result<Value> {
    let state = fixture.ground.home().terraform().join("terraform.tfstate");
    let state: Value = serde_json::from_str(&fs::read_to_string(state)?)?;
    let found = state["outputs"]["aws_sources"]["value"].clone();
    ensure!(found.is_object(), "the stack was applied without aws_sources: {found}");
    Ok(found)
}

async fn call(fixture: &Fixture, calls: Value) -> anyhow::Result<Value> {
    let url = &fixture.ground.connection.emulator_url;
    let input = json!({"region": REGION, "url": url, "calls": calls});
    python::run(fixture.ground.environment()?, python::AWS_SOURCES, &input).await
}

async fn send(fixture: &Fixture, made: &Value) -> anyhow::Result<()> {
    let bucket = &made["bucket"];
    let key = "in/ä +%.txt";
    let calls = json!([
        ["events", "put_events", {"Entries": [
            {"Source": "my.shop", "DetailType": "Order Placed", "Detail": r#"{"order": 1.50}"#},
            {"Source": "someone.else", "DetailType": "Not Ours", "Detail": "{}"},
        ]}],
        ["s3", "put_object", {"Bucket": bucket, "Key": "elsewhere.txt", "Body": "no"}],
        ["s3", "put_object", {"Bucket": bucket, "Key": key, "Body": "hello"}],
        ["s3", "delete_object", {"Bucket": bucket, "Key": key}],
        ["sns", "publish", {"TopicArn": made["topic"], "Subject": "an order", "Message": "hello"}],
        ["sqs", "send_message", {"QueueUrl": made["queue"], "MessageBody": r#"{"order": 7}"#}],
    ]);
    call(fixture, calls).await.map(drop)
}

fn check_rule(event: &Value) -> anyhow::Result<()> {
    ensure!(event["type"] == "Order Placed" && event["source"] == "my.shop", "{event:#}");
    ensure!(event["data"]["detail"]["order"] == 1.5, "{event:#}");
    ensure!(
        event["data"]["id"] == event["id"] && event["data"]["time"] == event["time"],
        "{event:#}"
    );
    Ok(())
}

fn check_blobs(events: &[Value], bucket: &str) -> anyhow::Result<()> {
    for (event_type, api) in [
        ("Microsoft.Storage.BlobCreated", "PutBlob"),
        ("Microsoft.Storage.BlobDeleted", "DeleteBlob"),
    ] {
        let found = events.iter().find(|event| event["eventType"] == event_type);
        let event = found.with_context(|| format!("no {event_type}: {events:#?}"))?;
        let subject = format!("/blobServices/default/containers/{bucket}/blobs/in/ä +%.txt");
        ensure!(event["subject"] == subject.as_str(), "{event:#}");
        ensure!(event["data"]["api"] == api, "{event:#}");
        let url = event["data"]["url"].as_str().unwrap_or_default();
        ensure!(url.ends_with("/in/%C3%A4%20%2B%25.txt"), "{event:#}");
    }
    Ok(())
}

fn check_sns(event: &Value, made: &Value) -> anyhow::Result<()> {
    ensure!(event["type"] == "com.amazonaws.sns.Notification", "{event:#}");
    ensure!(event["data"] == "hello" && event["subject"] == "an order", "{event:#}");
    ensure!(event["source"] == made["topic"], "{event:#}");
    Ok(())
}

fn check_sqs(event: &Value) -> anyhow::Result<()> {
    ensure!(event["eventType"] == "com.amazonaws.sqs.message", "{event:#}");
    ensure!(event["data"] == json!({"order": 7}), "{event:#}");
    Ok(())
}

/// Sends messages that are not notifications where only S3 may send on AWS: the emulator asks for
/// no policy.
async fn refused_are_kept(fixture: &Fixture, made: &Value) -> anyhow::Result<()> {
    let url = |arn: &Value| {
        let name = arn.as_str().and_then(|arn| arn.rsplit(':').next()).unwrap_or_default();
        made["poison"]["bucket"]
            .as_str()
            .unwrap_or_default()
            .replace(&format!("{name}-poison"), name)
    };
    let queue = url(&made["queues"]["bucket"]);
    let send =
        json!(["sqs", "send_message", {"QueueUrl": queue, "MessageBody": "no notification"}]);
    call(fixture, json!([send])).await?;
    let receive = json!(["sqs", "receive_message", {"QueueUrl": made["poison"]["bucket"]}]);
    let is_it = |answer: &Value| answer[0]["Messages"][0]["Body"] == "no notification";
    let receive = || call(fixture, json!([receive]));
    until("it in the poison queue", SOON, receive, is_it).await.map(drop)
}
