//! Events and replies of an SQS event source mapping.
//!
//! Source: AWS Lambda developer guide, "Using Lambda with Amazon SQS", "Reporting batch item failures".

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{Record, SourceMessage};
use serde::{Deserialize, Serialize};

/// A mapping's event. Only used members are read.
#[derive(Debug, Deserialize)]
pub struct Batch {
    #[serde(default, rename = "Records")]
    pub messages: Vec<Message>,
}

/// A message of the event.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    message_id: Option<String>,
    receipt_handle: Option<String>,
    body: Option<String>,
    attributes: Option<Attributes>,
    #[serde(rename = "eventSourceARN")]
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Attributes {
    #[serde(rename = "ApproximateReceiveCount")]
    receive_count: Option<String>,
    #[serde(rename = "SentTimestamp")]
    sent_at_ms: Option<String>,
}

/// The messages that SQS keeps; Lambda deletes the others of the batch.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchReply {
    batch_item_failures: Vec<Kept>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    item_identifier: String,
}

impl Extend<String> for BatchReply {
    /// Keeps messages. An id that is not one of the event's fails the whole batch.
    fn extend<I: IntoIterator<Item = String>>(&mut self, ids: I) {
        let kept = ids.into_iter().map(|item_identifier| Kept { item_identifier });
        self.batch_item_failures.extend(kept);
    }
}

/// Returns the records of a batch, and a reply that keeps all other messages: those without a queue that
/// `queue_of` knows by name.
pub fn records(
    messages: Vec<Message>,
    now: Timestamp,
    queue_of: impl Fn(&str) -> Option<Queue>,
) -> (Vec<Record>, BatchReply) {
    split(messages, |message| message.into_record(now, &queue_of))
}

/// Reads messages by `read`. Also returns a reply that keeps the others.
fn split<T>(messages: Vec<Message>, read: impl Fn(Message) -> Option<T>) -> (Vec<T>, BatchReply) {
    let mut reply = BatchReply::default();
    let mut found = Vec::new();
    for message in messages {
        let (id, queue) = (message.message_id.clone(), message.source.clone());
        match read(message) {
            Some(message) => found.push(message),
            None => {
                tracing::error!(message.id = ?id, ?queue, "a message of another queue, or without id or receipt, is kept");
                reply.extend(id);
            }
        }
    }
    (found, reply)
}

/// Returns the messages of a source's queue, and a reply that keeps those of others.
pub fn source_messages(
    messages: Vec<Message>,
    now: Timestamp,
    queue_arn: &str,
) -> (Vec<SourceMessage>, BatchReply) {
    split(messages, |message| message.into_source_message(now, queue_arn))
}

/// Whether a queue's URL ends in that name, as its ARN does. Source: SQS developer guide, "Queue and
/// message identifiers".
pub fn is_queue_of(url: &str, name: &str) -> bool {
    url.rsplit('/').next() == Some(name) && !name.is_empty()
}

impl Message {
    fn into_source_message(self, now: Timestamp, queue_arn: &str) -> Option<SourceMessage> {
        if self.source.as_deref() != Some(queue_arn) {
            return None;
        }
        let sent_at = self.attributes.and_then(|attributes| attributes.sent_at_ms);
        let sent_at = sent_at.and_then(|millis| millis.parse().ok());
        Some(SourceMessage {
            message_id: self.message_id?.into(),
            body: self.body.unwrap_or_default(),
            sent_at: sent_at.map_or(now, Timestamp::from_millis),
        })
    }

    /// Needs the id and the receipt, which SQS always sends, to settle the message.
    fn into_record(
        self,
        received_at: Timestamp,
        queue_of: impl Fn(&str) -> Option<Queue>,
    ) -> Option<Record> {
        let source = self.source.unwrap_or_default();
        let count = self.attributes.and_then(|attributes| attributes.receive_count);
        Some(Record {
            queue: queue_of(source.rsplit(':').next().unwrap_or_default())?,
            message_id: self.message_id?.into(),
            receipt: self.receipt_handle?.into(),
            body: self.body.unwrap_or_default(),
            // An unknown count is taken for a repeated receive: a state is looked up.
            receive_count: count.and_then(|count| count.parse().ok()).unwrap_or(2),
            received_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_are_read_out_of_the_mappings_event() {
        let event = r#"{"Records":[{"messageId":"m","receiptHandle":"r","body":"{\"v\":1}",
            "attributes":{"ApproximateReceiveCount":"3","SentTimestamp":"1","SenderId":"s",
                "ApproximateFirstReceiveTimestamp":"1","MessageGroupId":"t/s"},
            "messageAttributes":{"a":{"stringValue":"b","stringListValues":[],"dataType":"String"}},
            "md5OfBody":"0","eventSource":"aws:sqs","awsRegion":"us-east-1",
            "eventSourceARN":"arn:aws:sqs:us-east-1:123456789012:dispatch"},
            {"messageId":null,"eventSourceARN":"arn:aws:sqs:us-east-1:123456789012:dispatch"},
            {"messageId":"bare","receiptHandle":"r","eventSourceARN":"a:dispatch","attributes":{}},
            {"messageId":"no receipt","eventSourceARN":"a:dispatch"},
            {"messageId":"other","receiptHandle":"r","eventSourceARN":"a:other"},
            {"messageId":"from nowhere","receiptHandle":"r"}]}"#;
        let batch: Batch = serde_json::from_str(event).expect("an event");
        let queue_of = |name: &str| (name == "dispatch").then_some(Queue::Dispatch);
        let (records, reply) = records(batch.messages, Timestamp::from_millis(7), queue_of);
        let [first, bare] = &records[..] else { panic!("{records:?}") };
        assert_eq!((&*first.body, first.receive_count), (r#"{"v":1}"#, 3));
        assert_eq!((&*bare.body, bare.receive_count), ("", 2));
        assert_eq!((bare.queue, bare.received_at.as_millis()), (Queue::Dispatch, 7));
        let kept = ["no receipt", "other", "from nowhere"].map(|id| json!({"itemIdentifier": id}));
        let want = json!({ "batchItemFailures": kept });
        assert_eq!(serde_json::to_value(reply).expect("JSON"), want);
    }

    #[test]
    fn messages_of_a_source_are_read_out_of_the_mappings_event() {
        let event = r#"{"Records":[{"messageId":"m","receiptHandle":"r","body":"hello",
            "attributes":{"ApproximateReceiveCount":"3","SentTimestamp":"1545082649183"},
            "eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:us-east-1:1:uploads"},
            {"messageId":"bare","eventSourceARN":"arn:aws:sqs:us-east-1:1:uploads"},
            {"messageId":"other","body":"x","eventSourceARN":"arn:aws:sqs:us-east-1:2:uploads"},
            {"messageId":"from nowhere","body":"x"},
            {"eventSourceARN":"arn:aws:sqs:us-east-1:1:uploads"}]}"#;
        let batch: Batch = serde_json::from_str(event).expect("an event");
        let (now, arn) = (Timestamp::from_millis(7), "arn:aws:sqs:us-east-1:1:uploads");
        let (taken, reply) = source_messages(batch.messages, now, arn);
        let [first, bare] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!((&*first.message_id, &*first.body), ("m", "hello"));
        assert_eq!(first.sent_at.as_millis(), 1_545_082_649_183);
        assert_eq!((&*bare.body, bare.sent_at), ("", now));
        let kept = ["other", "from nowhere"].map(|id| json!({"itemIdentifier": id}));
        let want = json!({ "batchItemFailures": kept });
        assert_eq!(serde_json::to_value(reply).expect("JSON"), want);
    }

    #[test]
    fn a_queue_is_known_by_the_end_of_its_url() {
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/gridpost-redrive";
        for (url, name, want) in [
            (url, "gridpost-redrive", true),
            (url, "gridpost-dead-letter", false),
            (url, "redrive", false),
            (url, "", false),
            ("", "", false),
        ] {
            assert_eq!(is_queue_of(url, name), want, "{url} {name}");
        }
    }

    #[test]
    fn an_event_of_no_mapping_has_no_records() {
        let batch: Batch = serde_json::from_str(r#"{"check":null}"#).expect("an event");
        let (records, reply) = records(batch.messages, Timestamp::default(), |_| None);
        assert!(records.is_empty());
        assert_eq!(serde_json::to_value(reply).expect("JSON"), json!({"batchItemFailures": []}));
    }
}
