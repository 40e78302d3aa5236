//! An SQS queue that this program reads.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    aws_api::{AwsApi, Service},
    failure::Misuse,
    target::Target,
};

/// Seconds that a receive waits for messages.
const WAIT_S: u32 = 5;

/// Seconds until a message that is not deleted, because it is of another run, becomes visible again.
const HIDDEN_S: u32 = 20;

#[derive(Clone, Debug)]
pub(super) struct Queue {
    sqs: AwsApi,
    url: String,
    arn: String,
}

/// The parts of SQS's answers that are read. Source: SQS API reference.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Answer {
    queue_url: Option<String>,
    attributes: Attributes,
    messages: Vec<Message>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    queue_arn: Option<String>,
    redrive_policy: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Message {
    pub(super) body: String,
    receipt_handle: String,
}

impl Queue {
    pub(super) async fn find(target: &Target, given: &str) -> anyhow::Result<Self> {
        let sqs = AwsApi::connect(Service::Sqs, target).await?;
        let url = match name(given)? {
            Some((account, name)) => {
                let input = json!({"QueueName": name, "QueueOwnerAWSAccountId": account});
                let answer = call(&sqs, "GetQueueUrl", &input).await?;
                answer.queue_url.context("SQS told no URL of the queue")?
            }
            None => given.to_owned(),
        };
        let input = json!({"QueueUrl": url, "AttributeNames": ["QueueArn", "RedrivePolicy"]});
        let Attributes { queue_arn, redrive_policy } =
            call(&sqs, "GetQueueAttributes", &input).await?.attributes;
        if redrive_policy.is_some() {
            return Err(Misuse(format!(
                "{given} moves what is received too often elsewhere, and each look here is a receive: name a \
                 queue that nothing else uses, such as that of infra/modules/verify"
            ))
            .into());
        }
        Ok(Self { sqs, url, arn: queue_arn.context("SQS told no ARN of the queue")? })
    }

    pub(super) fn arn(&self) -> &str {
        &self.arn
    }

    /// Receives messages; waits some seconds for the first.
    pub(super) async fn receive(&self) -> anyhow::Result<Vec<Message>> {
        let input = json!({
            "QueueUrl": self.url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": WAIT_S,
            "VisibilityTimeout": HIDDEN_S,
        });
        Ok(call(&self.sqs, "ReceiveMessage", &input).await?.messages)
    }

    pub(super) async fn delete(&self, messages: &[Message]) -> anyhow::Result<()> {
        if messages.is_empty() {
            return Ok(());
        }
        let handles = messages.iter().map(|message| &message.receipt_handle).zip(0..);
        let entry = |(handle, id): (_, u32)| json!({"Id": id.to_string(), "ReceiptHandle": handle});
        let entries: Vec<_> = handles.map(entry).collect();
        let input = json!({"QueueUrl": self.url, "Entries": entries});
        self.sqs.call("DeleteMessageBatch", &input).await.map(drop)
    }
}

async fn call(sqs: &AwsApi, operation: &str, input: &Value) -> anyhow::Result<Answer> {
    let answer = sqs.call(operation, input).await?;
    serde_json::from_value(answer).with_context(|| format!("SQS's answer to {operation}"))
}

/// Returns account and name of a queue by its ARN; `None` for a URL.
fn name(given: &str) -> Result<Option<(&str, &str)>, Misuse> {
    if given.starts_with("https://") || given.starts_with("http://") {
        return Ok(None);
    }
    match given.split(':').collect::<Vec<_>>()[..] {
        ["arn", _, "sqs", _, account, name] if !name.ends_with(".fifo") => {
            Ok(Some((account, name)))
        }
        _ => Err(Misuse(format!(
            "`{given}` is no standard queue: write arn:aws:sqs:REGION:ACCOUNT:NAME, or its URL"
        ))),
    }
}

/// A queue that always has one message, for tests.
#[cfg(test)]
pub(super) mod fake {
    use super::*;
    use crate::{
        home::{Home, connection::Connection},
        target::TargetArguments,
        testkit::FakeApi,
    };

    /// Its ARN.
    pub(in crate::verify) const ARN: &str = "arn:aws:sqs:us-east-1:000000000000:probe";

    /// The queue, and what answers for it.
    pub(in crate::verify) async fn with(body: &str) -> (FakeApi, Queue) {
        let answer = json!({
            "QueueUrl": "http://queue", "Attributes": {"QueueArn": ARN},
            "Messages": [{"Body": body, "ReceiptHandle": "r"}],
        });
        let fake = FakeApi::answering(&[("POST / ", 200, answer)]).await;
        let folder = tempfile::tempdir().expect("a folder");
        let connection = Connection {
            publish_url: fake.url(),
            manage_url: fake.url(),
            emulator_url: fake.url(),
            dead_letter_bucket: "b".to_owned(),
            ca_file: None,
            topics: Default::default(),
        };
        connection.write(&Home::at(folder.path())).expect("written");
        let home = Some(folder.path().to_owned());
        let target = TargetArguments { home, ..TargetArguments::default() };
        let target = target.resolve().expect("a deployment");
        let queue = Queue::find(&target, ARN).await.expect("a queue");
        (fake, queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_queue_is_found_received_from_and_deleted_from() {
        let (_fake, queue) = fake::with("b").await;
        assert_eq!((queue.arn(), queue.url.as_str()), (fake::ARN, "http://queue"));
        let received = queue.receive().await.expect("messages");
        let want = Message { body: "b".to_owned(), receipt_handle: "r".to_owned() };
        assert_eq!(received, [want]);
        queue.delete(&received).await.expect("deleted");
    }

    #[test]
    fn a_queue_is_named_by_arn_or_url() {
        let arn = "arn:aws:sqs:eu-central-1:123456789012:probe";
        assert_eq!(name(arn).ok(), Some(Some(("123456789012", "probe"))));
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/probe";
        assert_eq!(name(url).ok(), Some(None));
        for given in ["probe", "arn:aws:sns:r:1:t", "arn:aws:sqs:r:1:q.fifo", ""] {
            assert!(name(given).is_err(), "{given}");
        }
    }

    #[test]
    fn an_empty_queue_answers_without_messages() {
        let answer: Answer = serde_json::from_value(json!({})).expect("an answer");
        assert!(answer.messages.is_empty());
    }
}
