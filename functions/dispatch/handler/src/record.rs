//! A queue record and its disposition.

use std::sync::Arc;

use gridpost_core::{delivery::queue::Queue, subscription::Resource, time::Timestamp};
use gridpost_ports::PortError;
use serde::Deserialize;

/// The event by which an SQS event source mapping, or manage, invokes the function. Only what
/// dispatch uses is read.
///
/// Source: AWS Lambda developer guide, "Using Lambda with Amazon SQS".
#[derive(Debug, Deserialize)]
pub struct Batch {
    #[serde(default, rename = "Records")]
    pub records: Vec<Message>,
    /// The AWS resource that manage asks to check; a mapping never sets it.
    #[serde(default)]
    pub check: Option<Resource>,
}

/// A message as the mapping hands it over.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
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
    pub receipt: Arc<str>,
    /// Its body; empty once the delivery has been read out of it.
    pub body: String,
    /// How often it was received, this time included. Deferrals and crashes count too, so it only
    /// says whether a state may exist.
    pub receive_count: u32,
    pub queue: Queue,
    /// About when it was received: SQS counts the 12 hours of hiding from there.
    pub received_at: Timestamp,
}

impl Record {
    /// Reads a record of the Lambda event. `queue_of` maps a queue's name to its role.
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
            // Without a count, assume an earlier receipt, so that a state is looked up.
            receive_count: count.and_then(|count| count.parse().ok()).unwrap_or(2),
            received_at,
        })
    }

    /// A copy without the body, enough to settle it.
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

/// Copies without the bodies, enough to settle them.
pub fn without_bodies<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<Record> {
    records.map(Record::without_body).collect()
}

/// What SQS does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// SQS may delete it: its delivery has ended, or its successor is stored elsewhere.
    Delete,
    /// SQS keeps it: it was hidden until it is due, or it comes back by itself.
    Keep,
}

/// A disposition, or the error of a failed call: then the record comes back by itself.
pub type Settled = Result<Disposition, PortError>;

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
