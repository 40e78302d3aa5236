//! An in-memory stand-in for SQS, DynamoDB and S3 with their wire protocols (AWS JSON 1.0, S3's
//! `PUT` and `GET`). It counts every call by kind, and refuses calls that it does not know.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::time::Instant;

use super::{
    book::Book,
    http::{Reply, Request, Service},
    queue::Queue,
    table::{Refusal, Tables},
};

/// Most entries of a batch, and bytes of all its bodies. Source: SQS quotas.
const BATCH_MAX: (usize, usize) = (10, 1_048_576);

/// Longest delay in seconds. Source: SQS API reference, `SendMessage`.
const DELAY_S_MAX: u64 = 900;

/// Replaces the MD5 sum of a body: the SDK does not check it.
const MD5: &str = "00000000000000000000000000000000";

/// The account's queues, tables and buckets.
#[derive(Debug)]
pub struct Cloud {
    queues: BTreeMap<String, Arc<Queue>>,
    /// The tables.
    pub tables: Tables,
    /// All buckets' objects by path.
    objects: Mutex<BTreeMap<String, Bytes>>,
    calls: Mutex<BTreeMap<String, u64>>,
    refused: Mutex<Vec<String>>,
    /// Records what is sent; a cloud without a book forgets it.
    book: Option<Arc<Book>>,
    answers_after: Duration,
}

impl Cloud {
    /// A cloud with queues of those names. The book records what is sent.
    pub fn new(queues: &[&str], book: Arc<Book>) -> Self {
        let queues = queues.iter().map(|name| ((*name).to_owned(), Arc::default())).collect();
        Self {
            queues,
            tables: Tables::default(),
            objects: Mutex::default(),
            calls: Mutex::default(),
            refused: Mutex::default(),
            book: Some(book),
            answers_after: Duration::ZERO,
        }
    }

    /// The same, but with slow answers.
    #[must_use]
    pub fn answering_after(self, answers_after: Duration) -> Self {
        Self { answers_after, ..self }
    }

    /// A cloud whose one queue takes messages and forgets them.
    pub fn forgetful(queue: &str) -> Self {
        Self {
            queues: BTreeMap::from([(queue.to_owned(), Arc::default())]),
            tables: Tables::default(),
            objects: Mutex::default(),
            calls: Mutex::default(),
            refused: Mutex::default(),
            book: None,
            answers_after: Duration::ZERO,
        }
    }

    /// A queue by its name.
    pub fn queue(&self, name: &str) -> Option<&Arc<Queue>> {
        self.queues.get(name)
    }

    /// All queues by name.
    pub fn queues(&self) -> impl Iterator<Item = (&str, &Arc<Queue>)> {
        self.queues.iter().map(|(name, queue)| (name.as_str(), queue))
    }

    /// Counts a call of that kind, e.g. `sqs:SendMessageBatch`.
    pub fn count(&self, kind: &str) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        match calls.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(calls.insert(kind.to_owned(), 1)),
        }
    }

    /// The calls so far by kind.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refusals other than by a condition. There must be none: otherwise the functions and this
    /// stand-in disagree.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn s3(&self, request: Request) -> Reply {
        let path = request.path.split('?').next().unwrap_or_default();
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if !request.is_get {
            self.count("s3:PutObject");
            objects.insert(path.to_owned(), request.body);
            return Reply::new(200, "");
        }
        self.count("s3:GetObject");
        match objects.get(path) {
            Some(object) => Reply::new(200, Bytes::clone(object)),
            None => Reply::new(404, "<Error><Code>NoSuchKey</Code></Error>"),
        }
    }

    fn aws_json(&self, target: &str, body: &Bytes) -> Reply {
        let (service, call) = target.split_once('.').unwrap_or(("", target));
        let (answer, prefix) = if service == "AmazonSQS" {
            self.count(&format!("sqs:{call}"));
            (self.sqs(call, body), "com.amazonaws.sqs#")
        } else {
            self.count(&format!("dynamodb:{call}"));
            (self.tables.call(call, body), "com.amazonaws.dynamodb.v20120810#")
        };
        let (status, body) = match answer {
            Ok(answer) => (200, answer.to_string()),
            Err((code, reason)) => {
                if code != "ConditionalCheckFailedException" {
                    let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                    refused.push(format!("{target}: {code}: {reason}"));
                }
                let error = json!({ "__type": format!("{prefix}{code}"), "message": reason });
                (400, error.to_string())
            }
        };
        let headers = vec![("content-type", "application/x-amz-json-1.0".to_owned())];
        Reply { status, headers, body: body.into() }
    }

    fn sqs(&self, call: &str, body: &[u8]) -> Result<Value, Refusal> {
        let call_body: SqsCall<'_> = serde_json::from_slice(body).map_err(unreadable)?;
        // The members of a call for one message are those of an entry.
        let one = || serde_json::from_slice::<Entry<'_>>(body).map_err(unreadable);
        let name = call_body.queue_url.rsplit('/').next().unwrap_or_default();
        let Some(queue) = self.queue(name) else {
            return Err(("QueueDoesNotExist", format!("there is no queue {name}")));
        };
        let now = Instant::now();
        match call {
            "SendMessage" => {
                let number = self.send(queue, &one()?, now)?;
                Ok(json!({ "MessageId": uuid_text(number), "MD5OfMessageBody": MD5 }))
            }
            "SendMessageBatch" => {
                check_batch(&call_body.entries)?;
                Ok(each(&call_body.entries, |entry| {
                    let number = self.send(queue, entry, now)?;
                    Ok(json!({ "MessageId": uuid_text(number), "MD5OfMessageBody": MD5 }))
                }))
            }
            "DeleteMessage" => {
                queue.delete(one()?.receipt()?);
                Ok(json!({}))
            }
            "DeleteMessageBatch" => Ok(each(&call_body.entries, |entry| {
                queue.delete(entry.receipt()?);
                Ok(json!({}))
            })),
            "ChangeMessageVisibility" => hide(queue, &one()?, now),
            "ChangeMessageVisibilityBatch" => {
                Ok(each(&call_body.entries, |entry| hide(queue, entry, now)))
            }
            "GetQueueAttributes" => Ok(attributes(queue, now)),
            "ReceiveMessage" => Ok(receive(queue, &call_body, now)),
            _ => Err(("UnsupportedOperation", format!("the stand-in has no call {call}"))),
        }
    }

    fn send(&self, queue: &Queue, entry: &Entry<'_>, now: Instant) -> Result<u64, Refusal> {
        let body = entry.message_body.filter(|body| body.get().len() > 2);
        let Some(body) = body else {
            return Err(("InvalidParameterValue", "a message has no body".to_owned()));
        };
        if entry.delay_seconds > DELAY_S_MAX {
            return Err(("InvalidParameterValue", "a delay is above 900 s".to_owned()));
        }
        let Some(book) = &self.book else { return Ok(0) };
        book.enqueued(body.get().as_bytes());
        let delay = Duration::from_secs(entry.delay_seconds);
        let at = (now, SystemClock.now().as_millis());
        Ok(queue.send(body.to_owned().into(), (&*entry.message_group_id).into(), delay, at))
    }
}

impl Service for Cloud {
    async fn answer(&self, request: Request) -> Option<Reply> {
        let reply = if request.target.is_empty() {
            self.s3(request)
        } else {
            self.aws_json(&request.target, &request.body)
        };
        if !self.answers_after.is_zero() {
            tokio::time::sleep(self.answers_after).await;
        }
        Some(reply)
    }
}

/// The members of SQS's calls.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SqsCall<'a> {
    #[serde(borrow, default)]
    queue_url: Cow<'a, str>,
    #[serde(borrow, default)]
    entries: Vec<Entry<'a>>,
    #[serde(default)]
    max_number_of_messages: Option<usize>,
    #[serde(default)]
    visibility_timeout: u64,
}

/// One entry of a batch, or the call by itself.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    message_body: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message_group_id: Cow<'a, str>,
    #[serde(default)]
    delay_seconds: u64,
    #[serde(borrow, default)]
    receipt_handle: Cow<'a, str>,
    #[serde(default)]
    visibility_timeout: u64,
}

impl Entry<'_> {
    fn receipt(&self) -> Result<u64, Refusal> {
        let unknown = |_| ("ReceiptHandleIsInvalid", "a receipt handle is not ours".to_owned());
        self.receipt_handle.parse().map_err(unknown)
    }
}

fn uuid_text(number: u64) -> String {
    uuid::Uuid::from_u128(u128::from(number)).to_string()
}

fn unreadable(error: serde_json::Error) -> Refusal {
    ("InvalidParameterValue", error.to_string())
}

fn check_batch(entries: &[Entry<'_>]) -> Result<(), Refusal> {
    let (entries_max, bytes_max) = BATCH_MAX;
    if entries.is_empty() || entries.len() > entries_max {
        return Err(("TooManyEntriesInBatchRequest", format!("{} entries", entries.len())));
    }
    let bodies = || entries.iter().filter_map(|entry| entry.message_body);
    let text_bytes = |body: &RawValue| serde_json::from_str::<String>(body.get()).map(|t| t.len());
    // Escapes only make it longer, so a body that fits as JSON fits.
    if bodies().map(|body| body.get().len()).sum::<usize>() > bytes_max
        && bodies().map(|body| text_bytes(body).unwrap_or(0)).sum::<usize>() > bytes_max
    {
        return Err(("BatchRequestTooLong", "the bodies are above 1 MiB together".to_owned()));
    }
    Ok(())
}

/// Does a batch entry by entry: each can fail alone.
fn each(
    entries: &[Entry<'_>],
    mut make: impl FnMut(&Entry<'_>) -> Result<Value, Refusal>,
) -> Value {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in entries {
        match make(entry) {
            Ok(mut made) => {
                made["Id"] = json!(entry.id);
                successful.push(made);
            }
            Err((code, message)) => failed.push(json!({
                "Id": entry.id, "Code": code, "Message": message, "SenderFault": true,
            })),
        }
    }
    json!({ "Successful": successful, "Failed": failed })
}

fn hide(queue: &Queue, entry: &Entry<'_>, now: Instant) -> Result<Value, Refusal> {
    let visibility = Duration::from_secs(entry.visibility_timeout);
    let hidden = queue.hide(entry.receipt()?, visibility, now);
    hidden.map_err(|code| (code, "the message can't be hidden".to_owned()))?;
    Ok(json!({}))
}

fn attributes(queue: &Queue, now: Instant) -> Value {
    let [visible, in_flight, delayed] = queue.counts(now).map(|count| count.to_string());
    json!({ "Attributes": {
        "ApproximateNumberOfMessages": visible,
        "ApproximateNumberOfMessagesNotVisible": in_flight,
        "ApproximateNumberOfMessagesDelayed": delayed,
    }})
}

fn receive(queue: &Queue, call: &SqsCall<'_>, now: Instant) -> Value {
    let count = call.max_number_of_messages.unwrap_or(1).min(BATCH_MAX.0);
    let visibility = match call.visibility_timeout {
        0 => Duration::from_secs(30),
        seconds => Duration::from_secs(seconds),
    };
    let received = queue.receive(count, BATCH_MAX.1, visibility, now);
    let message = |one: &super::queue::Received| {
        json!({
            "MessageId": one.message.id(),
            "ReceiptHandle": one.receipt.to_string(),
            "MD5OfBody": MD5,
            "Body": one.message.body,
            "Attributes": { "ApproximateReceiveCount": one.message.receives.to_string() },
        })
    };
    json!({ "Messages": received.iter().map(message).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cloud() -> Cloud {
        Cloud::new(&["dispatch"], Arc::new(Book::new(1, 1)))
    }

    fn call(cloud: &Cloud, name: &str, body: Value) -> (u16, Value) {
        let mut body = body;
        body["QueueUrl"] = json!("http://127.0.0.1:1/0/dispatch");
        let reply = cloud.aws_json(&format!("AmazonSQS.{name}"), &body.to_string().into());
        (reply.status, serde_json::from_slice(&reply.body).expect("JSON"))
    }

    #[tokio::test]
    async fn a_message_is_sent_received_hidden_and_deleted_over_the_wire() {
        let cloud = cloud();
        let entry = |id: &str, delay: u64| json!({ "Id": id, "MessageBody": "a\"b", "MessageGroupId": "t/s0", "DelaySeconds": delay });
        let entries = json!({ "Entries": [entry("0", 0), entry("1", 901), entry("2", 5)] });
        let (status, answer) = call(&cloud, "SendMessageBatch", entries);
        assert_eq!(status, 200);
        assert_eq!(answer["Successful"].as_array().expect("a list").len(), 2);
        assert_eq!(answer["Failed"][0]["Id"], "1");
        let (_, answer) = call(&cloud, "ReceiveMessage", json!({ "MaxNumberOfMessages": 10 }));
        assert_eq!(answer["Messages"][0]["Body"], "a\"b");
        let receipt = &answer["Messages"][0]["ReceiptHandle"];
        let (_, counts) = call(&cloud, "GetQueueAttributes", json!({}));
        assert_eq!(counts["Attributes"]["ApproximateNumberOfMessagesNotVisible"], "1");
        assert_eq!(counts["Attributes"]["ApproximateNumberOfMessagesDelayed"], "1");
        let too_long = json!({ "ReceiptHandle": receipt, "VisibilityTimeout": 43_201 });
        assert_eq!(call(&cloud, "ChangeMessageVisibility", too_long).0, 400);
        let deletion = json!({ "Entries": [{ "Id": "0", "ReceiptHandle": receipt }] });
        assert_eq!(call(&cloud, "DeleteMessageBatch", deletion).0, 200);
        let (_, counts) = call(&cloud, "GetQueueAttributes", json!({}));
        assert_eq!(counts["Attributes"]["ApproximateNumberOfMessagesNotVisible"], "0");
        assert_eq!(cloud.calls()["sqs:SendMessageBatch"], 1);
    }

    #[test]
    fn objects_are_kept_by_their_path() {
        let cloud = cloud();
        let ask = |is_get: bool, path: &str, body: &'static str| {
            let (path, target) = (path.to_owned(), String::new());
            let reply = cloud.s3(Request { is_get, path, target, body: body.into() });
            (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
        };
        assert_eq!(ask(true, "/b/k", "").0, 404);
        assert_eq!(ask(false, "/b/k?x-id=PutObject", "o").0, 200);
        assert_eq!(ask(true, "/b/k?x-id=GetObject", ""), (200, "o".to_owned()));
    }

    #[tokio::test]
    async fn what_sqs_refuses_is_refused() {
        let cloud = cloud();
        let entry = json!({ "Id": "0", "MessageBody": "x".repeat(600_000), "MessageGroupId": "g" });
        let table = [
            (vec![], "TooManyEntriesInBatchRequest"),
            (vec![json!({ "Id": "0", "MessageBody": "x" }); 11], "TooManyEntriesInBatchRequest"),
            (vec![entry; 2], "BatchRequestTooLong"),
        ];
        for (entries, want) in table {
            let (status, answer) = call(&cloud, "SendMessageBatch", json!({ "Entries": entries }));
            assert_eq!(
                (status, &answer["__type"]),
                (400, &json!(format!("com.amazonaws.sqs#{want}")))
            );
        }
        assert_eq!(call(&cloud, "PurgeQueue", json!({})).0, 400);
        assert_eq!(cloud.refused().len(), 4);
    }
}
