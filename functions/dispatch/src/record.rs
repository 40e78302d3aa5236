//! A queue record and what becomes of it.

use aws_lambda_events::event::sqs::SqsMessage;
use gridpost::{
    ports::{PortError, Queue},
    time::Timestamp,
};

/// A record as SQS handed it over.
#[derive(Clone, Debug)]
pub struct Record {
    /// SQS's id of the message, named in the reply when it is to be kept.
    pub message_id: String,
    /// What hides or deletes it.
    pub receipt: String,
    /// Its body.
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
        message: SqsMessage,
        received_at: Timestamp,
        queue_of: impl Fn(&str) -> Option<Queue>,
    ) -> Option<Self> {
        let arn = message.event_source_arn?;
        let count = message.attributes.get("ApproximateReceiveCount");
        Some(Self {
            queue: queue_of(arn.rsplit(':').next().unwrap_or_default())?,
            message_id: message.message_id?,
            receipt: message.receipt_handle?,
            body: message.body.unwrap_or_default(),
            // Unknown counts as received before: then a state is looked for.
            receive_count: count.and_then(|count| count.parse().ok()).unwrap_or(2),
            received_at,
        })
    }
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
