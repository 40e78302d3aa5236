//! A queue record and what becomes of it.

use std::sync::Arc;

use gridpost_core::{delivery::queue::Queue, subscription::Resource, time::Timestamp};
use gridpost_ports::PortError;
use serde::Deserialize;

/// The event with which an event source mapping of SQS invokes the function, or manage. Only what
/// dispatch uses is read.
///
/// Source: AWS Lambda developer guide, "Using Lambda with Amazon SQS".
#[derive(Debug, Deserialize)]
pub struct Batch {
    /// The messages that were received.
    #[serde(default, rename = "Records")]
    pub records: Vec<Message>,
    /// The resource that manage wants to be checked; no mapping says such a thing.
    #[serde(default)]
    pub check: Option<Resource>,
}

/// A message as the mapping hands it over.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// SQS's id of it.
    #[serde(default)]
    pub message_id: Option<String>,
    #[serde(default)]
    receipt_handle: Option<String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    attributes: Option<Attributes>,
    #[serde(default, rename = "eventSourceARN")]
    event_source_arn: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Attributes {
    #[serde(default, rename = "ApproximateReceiveCount")]
    receive_count: Option<String>,
}

/// A record as SQS handed it over.
#[derive(Clone, Debug)]
pub struct Record {
    /// SQS's id of the message, named in the reply when it is to be kept.
    pub message_id: Arc<str>,
    /// What hides or deletes it.
    pub receipt: Arc<str>,
    /// Its body; empty once the delivery has been read out of it.
    pub body: String,
    /// How often it was received, this time included. It counts deferrals and crashes too, so it
    /// only says whether a state may exist.
    pub receive_count: u32,
    /// Where it came from.
    pub queue: Queue,
    /// About when it was received: SQS counts the 12 hours of hiding from there.
    pub received_at: Timestamp,
}

impl Record {
    /// From a record of the Lambda event. `queue_of` tells queues by name.
    pub fn of(
        message: Message,
        received_at: Timestamp,
        queue_of: impl Fn(&str) -> Option<Queue>,
    ) -> Option<Self> {
        let arn = message.event_source_arn?;
        let count = message.attributes.and_then(|attributes| attributes.receive_count);
        Some(Self {
            queue: queue_of(arn.rsplit(':').next().unwrap_or_default())?,
            message_id: message.message_id?.into(),
            receipt: message.receipt_handle?.into(),
            body: message.body.unwrap_or_default(),
            // Unknown counts as received before: then a state is looked for.
            receive_count: count.and_then(|count| count.parse().ok()).unwrap_or(2),
            received_at,
        })
    }

    /// What settling it takes, without its body.
    #[must_use]
    pub fn without_body(&self) -> Self {
        Self {
            message_id: Arc::clone(&self.message_id),
            receipt: Arc::clone(&self.receipt),
            body: String::new(),
            ..*self
        }
    }
}

/// What settling these takes, without their bodies.
pub fn without_bodies<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<Record> {
    records.map(Record::without_body).collect()
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its delivery has ended, or its successor is in another place: SQS may delete it.
    Delete,
    /// SQS keeps it: it was hidden until it is due, or it comes back by itself.
    Keep,
}

/// A record that could not be settled, because a call of ours failed. It comes back by itself.
pub type Settled = Result<Fate, PortError>;

#[cfg(test)]
mod tests {
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
            {"messageId":"m","receiptHandle":"r","eventSourceARN":"a:dispatch","attributes":{}},
            {"messageId":"m","receiptHandle":"r","eventSourceARN":"a:other"}]}"#;
        let batch: Batch = serde_json::from_str(event).expect("an event");
        let of = |message| {
            let queue_of = |name: &str| (name == "dispatch").then_some(Queue::Dispatch);
            Record::of(message, Timestamp::from_millis(7), queue_of)
        };
        let records: Vec<_> = batch.records.into_iter().map(of).collect();
        let [Some(first), None, Some(bare), None] = &records[..] else { panic!("{records:?}") };
        assert_eq!((&*first.body, first.receive_count), (r#"{"v":1}"#, 3));
        assert_eq!((&*bare.body, bare.receive_count), ("", 2));
    }
}
