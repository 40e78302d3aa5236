//! Poison messages and parked deliveries, which wait for an operator, as documents.

use serde::{Deserialize, Serialize};
use strum::Display;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    delivery::WaitingDelivery,
    schema::{List, Time},
};

/// A page of parked deliveries.
pub type ParkedList = List<Parked>;

/// The results for a page of parked deliveries.
pub type HandledDeliveryList = List<HandledDelivery>;

/// A message of the poison queue, without its content.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoisonMessage {
    pub id: String,
    pub kind: PoisonKind,
    /// SQS: received 1,000 times and never settled; fromQueue is the queue's name. Gridpost: its code
    /// could not read it.
    pub moved_by: Option<MovedBy>,
    pub from_queue: Option<String>,
    /// Where SQS moved it: when it was sent to the queue before.
    pub sent_time: Time,
    /// As SQS counts it, looks included.
    #[schema(minimum = 1)]
    pub receive_count: u32,
    pub body_bytes: usize,
    pub dead_letter_reason: Option<String>,
    /// Of a piece of a large fan-out: the stored publish.
    pub publish: Option<Uuid>,
    /// Why it can't be read.
    pub problem: Option<String>,
    pub delivery: Option<WaitingDelivery>,
    /// Where resend sends it.
    pub resend_to: Option<String>,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum PoisonKind {
    Delivery,
    EndedDelivery,
    FanOut,
    Unreadable,
}

/// The party that moved a message into the poison queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum MovedBy {
    #[serde(rename = "SQS")]
    #[strum(serialize = "SQS")]
    Sqs,
    Gridpost,
}

/// A message of the poison queue with its body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoisonShown {
    #[serde(flatten)]
    pub message: PoisonMessage,
    #[schema(max_length = 65_536)]
    pub body: String,
    pub is_body_cut: bool,
}

/// Some or all of the poison queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoisonList {
    pub value: Vec<PoisonMessage>,
    /// As SQS counts, hidden ones included.
    pub approximate_count: u64,
    /// Whether nothing that is not hidden was left.
    pub is_complete: bool,
}

/// The results for messages of the poison queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handled {
    pub value: Vec<HandledMessage>,
    /// Whether nothing that is not hidden was left to look at. False, too, where a look failed behind
    /// messages that were handled.
    pub is_complete: bool,
}

/// The result for a message of the poison queue.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandledMessage {
    pub id: String,
    pub result: HandledResult,
    pub message: Option<String>,
    pub is_removed: Option<bool>,
    /// Resent: the queue it was sent to.
    pub to: Option<String>,
    pub dropped_events: Option<u64>,
}

/// The result of handling a message of the poison queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum HandledResult {
    Resent,
    Purged,
    Refused,
    Failed,
    NotFound,
}

/// A parked delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Parked {
    Delivery(ParkedDelivery),
    Unreadable(UnreadableDelivery),
}

/// A parked delivery that can be read.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParkedDelivery {
    #[serde(flatten)]
    pub delivery: WaitingDelivery,
    /// True if its event subscription was paused when it was parked.
    pub is_paused: Option<bool>,
    /// Why it was not sent back when it was due.
    pub problem: Option<String>,
}

/// A parked delivery that can't be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadableDelivery {
    pub id: Uuid,
    pub topic: String,
    pub event_subscription: String,
    pub due: Time,
    /// Why it can't be read.
    pub problem: String,
}

/// The result for a parked delivery.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HandledDelivery {
    pub id: Uuid,
    /// AlreadyDelivered, AlreadyEnded: a cancellation came too late; what was parked is removed.
    pub result: ParkedResult,
    pub message: Option<String>,
}

/// The result of releasing or canceling a parked delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum ParkedResult {
    Released,
    Canceled,
    AlreadyDelivered,
    AlreadyEnded,
    Refused,
    Failed,
}
