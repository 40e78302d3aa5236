//! Runs functions from source next to a stack, by `cargo lambda watch`. That lacks a queue: with
//! `.gridpost/local.env` the watched ingest sends to one that no deployed function reads, and [`Relay`]
//! invokes the watched dispatch with its messages, as Lambda's event source mapping would.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::time::sleep;

use crate::{build, child, python::Environment, terraform::ACCOUNT};
use gridpost_ops::{
    aws_api::{AwsApi, REGION, Service},
    http_client, output,
    target::Target,
};

/// The port that the README names.
pub const PORT: u16 = 9001;

/// The queue, which nothing deployed uses.
pub const QUEUE: &str = "gridpost-watched-dispatch";

/// The batch size of first attempts.
const BATCH: u32 = 10;

/// The first invocation of a function compiles it.
const INVOCATION_MAX: Duration = Duration::from_secs(900);

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);

/// Makes the command `cargo lambda NAME`, for functions at that port.
pub fn cargo_lambda(
    workspace: &Path,
    environment: &Environment,
    (name, port): (&str, u16),
) -> anyhow::Result<Command> {
    let mut command = child::command(&environment.program("cargo-lambda"));
    let cargo = PathBuf::from(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.env("PATH", build::path_with(&cargo, environment)?).current_dir(workspace);
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    command.args(["lambda", name, "-A", "127.0.0.1", "-P", &port.to_string()]);
    Ok(command)
}

/// Relays a queue's messages to the watched dispatch.
#[derive(Clone, Debug)]
pub struct Relay {
    sqs: AwsApi,
    http: reqwest::Client,
    queue_url: String,
    dispatch_url: String,
}

impl Relay {
    /// Creates the queue if necessary.
    pub async fn open(target: &Target, port: u16) -> anyhow::Result<Self> {
        let sqs = AwsApi::connect(Service::Sqs, target).await?;
        let attributes = json!({"VisibilityTimeout": INVOCATION_MAX.as_secs().to_string()});
        let ask = json!({"QueueName": QUEUE, "Attributes": attributes});
        let made = sqs.call("CreateQueue", &ask).await?;
        let queue_url = made["QueueUrl"].as_str().context("a queue has a URL")?.to_owned();
        let base = format!("http://127.0.0.1:{port}");
        let http = http_client::for_url(&base)?;
        let dispatch_url = format!("{base}/2015-03-31/functions/dispatch/invocations");
        Ok(Self { sqs, http, queue_url, dispatch_url })
    }

    /// Returns the queue's URL, for senders.
    pub fn queue_url(&self) -> &str {
        &self.queue_url
    }

    /// Relays until it is dropped. Failures are reported and retried.
    pub async fn run(&self) {
        loop {
            if let Err(err) = self.relay().await {
                output::note(&format!(
                    "! relaying to the watched dispatch failed, and is tried again: {err:#}"
                ));
                sleep(PAUSE).await;
            }
        }
    }

    /// Relays one batch, if any comes within seconds.
    async fn relay(&self) -> anyhow::Result<()> {
        let ask = json!({
            "QueueUrl": self.queue_url, "MaxNumberOfMessages": BATCH, "WaitTimeSeconds": 2,
            "AttributeNames": ["All"],
        });
        let received = self.sqs.call("ReceiveMessage", &ask).await?;
        let messages = received["Messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        if messages.is_empty() {
            return Ok(());
        }
        let invoke = self.http.post(&self.dispatch_url).timeout(INVOCATION_MAX);
        let answer = invoke.body(event(messages).to_string()).send().await?.error_for_status()?;
        let done = done(messages, &answer.json().await?);
        if !done.is_empty() {
            let ask = json!({"QueueUrl": self.queue_url, "Entries": done});
            self.sqs.call("DeleteMessageBatch", &ask).await?;
        }
        Ok(())
    }
}

/// Makes the event that Lambda hands to a function. Source: Lambda developer guide, "Using Lambda with
/// Amazon SQS", example event.
fn event(messages: &[Value]) -> Value {
    let record = |message: &Value| {
        json!({
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message.get("Attributes").cloned().unwrap_or(Value::Object(Map::new())),
            "messageAttributes": {},
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            // Tells first attempts from retries.
            "eventSourceARN": format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{QUEUE}"),
            "awsRegion": REGION,
        })
    };
    json!({"Records": messages.iter().map(record).collect::<Vec<_>>()})
}

/// Returns the entries to delete: none if the answer names an unknown message. Source: Lambda developer
/// guide, "Implementing partial batch responses".
fn done(messages: &[Value], answer: &Value) -> Vec<Value> {
    let failures = answer["batchItemFailures"].as_array().into_iter().flatten();
    let failed: Vec<&Value> = failures.map(|failure| &failure["itemIdentifier"]).collect();
    let is_given = |id: &&Value| messages.iter().any(|message| message["MessageId"] == **id);
    if !failed.iter().all(is_given) {
        return Vec::new();
    }
    let is_done = |message: &&Value| !failed.contains(&&message["MessageId"]);
    let entries = messages.iter().filter(is_done).enumerate();
    let entry = |(index, message): (usize, &Value)| json!({"Id": index.to_string(), "ReceiptHandle": message["ReceiptHandle"]});
    entries.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str) -> Value {
        json!({"MessageId": id, "ReceiptHandle": format!("r-{id}"), "Body": "{}", "MD5OfBody": "m",
            "Attributes": {"ApproximateReceiveCount": "1"}})
    }

    #[test]
    fn messages_become_an_event_of_their_queue() {
        let event = event(&[message("a"), message("b")]);
        let records = event["Records"].as_array().expect("records");
        assert_eq!(records.len(), 2);
        assert_eq!(records[1]["messageId"], "b");
        assert_eq!(records[1]["receiptHandle"], "r-b");
        assert_eq!(records[1]["attributes"]["ApproximateReceiveCount"], "1");
        let arn = records[1]["eventSourceARN"].as_str().expect("text");
        assert!(arn.ends_with(":gridpost-watched-dispatch"), "{arn}");
    }

    #[test]
    fn what_failed_stays_in_the_queue() {
        let messages = [message("a"), message("b")];
        let failed = |ids: &[&str]| {
            let failures: Vec<_> = ids.iter().map(|id| json!({"itemIdentifier": id})).collect();
            done(&messages, &json!({"batchItemFailures": failures}))
        };
        assert_eq!(failed(&[]).len(), 2);
        assert_eq!(failed(&["a"]), [json!({"Id": "0", "ReceiptHandle": "r-b"})]);
        assert!(failed(&["a", "b"]).is_empty());
        assert!(failed(&["a", "else"]).is_empty());
        assert_eq!(done(&messages, &Value::Null).len(), 2);
    }
}
