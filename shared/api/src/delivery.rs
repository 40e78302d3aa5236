//! Deliveries as documents: those that have failed, and what waits in queues.

use std::collections::BTreeMap;

use gridpost_core::{
    delivery::{
        self,
        state::{self, DeliveryState},
    },
    retry::DelayReason,
};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema::{List, Time, stand_in};

/// A page of deliveries.
pub type DeliveryList = List<Delivery>;

/// Events that go out together, after at least one attempt, or a probation, that did not deliver them.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub id: Uuid,
    pub publish_time: Time,
    /// When a redrive sent it, where one did.
    pub redriven_time: Option<Time>,
    #[schema(maximum = 5_000)]
    pub events: u32,
    pub delivery_attempts: u32,
    pub last_delivery_attempt_time: Option<Time>,
    /// The outcome of the last attempt, such as ServerError or TimedOut.
    pub last_delivery_outcome: Option<String>,
    pub last_http_status_code: Option<u16>,
    /// Ending: its end is decided and is being carried out. Ended and Delivered: it ended while the list
    /// was read.
    pub status: DeliveryStatus,
    /// Waiting: not attempted before. Probation, delayed delivery and the endpoint's rate may make it
    /// wait longer.
    pub due: Option<Time>,
    /// Ending: why.
    pub reason: Option<String>,
    /// Ending: when that was decided.
    pub ended_at: Option<Time>,
}

/// The status of a delivery that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum DeliveryStatus {
    Waiting,
    Ending,
    Ended,
    Delivered,
}

impl From<&DeliveryState> for Delivery {
    fn from(state: &DeliveryState) -> Self {
        let attempts = &state.attempts;
        let mut delivery = Self {
            id: state.id,
            publish_time: state.publish_time.into(),
            redriven_time: state.redriven_at.map(Into::into),
            events: state.events,
            delivery_attempts: attempts.made,
            last_delivery_attempt_time: attempts.last_at.map(Into::into),
            last_delivery_outcome: attempts.last_outcome.map(|outcome| outcome.to_string()),
            last_http_status_code: attempts.last_status,
            status: DeliveryStatus::Waiting,
            due: None,
            reason: None,
            ended_at: None,
        };
        match state.status {
            state::DeliveryStatus::Waiting { due } => delivery.due = Some(due.into()),
            state::DeliveryStatus::Ending { reason, at } => {
                delivery.status = DeliveryStatus::Ending;
                delivery.reason = Some(reason.to_string());
                delivery.ended_at = Some(at.into());
            }
            state::DeliveryStatus::Ended => delivery.status = DeliveryStatus::Ended,
            state::DeliveryStatus::Delivered => delivery.status = DeliveryStatus::Delivered,
        }
        delivery
    }
}

/// A delivery that has failed.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryShown {
    #[serde(flatten)]
    pub delivery: Delivery,
    /// Its last 30 attempts, oldest first.
    #[schema(max_items = 30)]
    pub attempts: Vec<Attempt>,
    /// Waiting: the next attempt.
    pub next: Option<NextAttempt>,
}

/// An attempt of a delivery.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    #[schema(minimum = 1)]
    pub attempt: u32,
    pub start_time: Time,
    pub duration_in_ms: u64,
    pub outcome: String,
    /// How many of its events the request carried, if the delivery was attempted in parts. Each event
    /// has attempts of its own then, so a number may come more than once.
    #[schema(minimum = 1)]
    pub events: Option<u32>,
    pub http_status_code: Option<u16>,
    /// The reason for the wait after it: the schedule, the least wait of its outcome's rule,
    /// Retry-After, or the endpoint's probation or delayed delivery.
    #[schema(value_type = Option<stand_in::DelayReason>)]
    pub wait_because: Option<DelayReason>,
    /// How its failed response began, escaped, where the Terraform variable failed_response_bytes keeps
    /// that. It may hold personal data.
    #[schema(max_length = 1_024)]
    pub response: Option<String>,
}

/// The next attempt of a delivery.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextAttempt {
    #[schema(minimum = 1)]
    pub attempt: u32,
    pub not_before: Time,
    /// An attempt that is due then or later is not made: the delivery ends by its time-to-live.
    pub expires: Time,
    pub because: Option<AttemptReason>,
    /// When an attempt was asked for.
    pub resend_time: Option<Time>,
    /// Its event subscription is paused, until then at the latest.
    pub paused_until: Option<Time>,
    /// The endpoint waits for longer than the delivery.
    pub endpoint_waits_until: Option<Time>,
}

/// Why an attempt is made when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, Serialize, Deserialize, ToSchema)]
pub enum AttemptReason {
    Schedule,
    LeastWait,
    RetryAfter,
    EndpointWaits,
    Resend,
    Pause,
}

impl From<DelayReason> for AttemptReason {
    fn from(reason: DelayReason) -> Self {
        match reason {
            DelayReason::Schedule => Self::Schedule,
            DelayReason::MinimumDelay => Self::LeastWait,
            DelayReason::RetryAfter => Self::RetryAfter,
            DelayReason::Probation => Self::EndpointWaits,
        }
    }
}

/// Deliveries that have failed and not ended, and the events in them.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryCount {
    #[serde(flatten)]
    pub total: WaitingCount,
    /// By the beginning of the hour, UTC, in which they were published.
    #[schema(value_type = BTreeMap<String, WaitingCount>)]
    pub by_publish_hour: BTreeMap<Time, WaitingCount>,
    /// Where the next request goes on.
    #[schema(format = "uri")]
    pub next_link: Option<String>,
}

/// A number of deliveries, and of the events in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingCount {
    pub deliveries: u64,
    pub events: u64,
}

/// The result of a request for an attempt.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resent {
    pub id: Uuid,
    /// Sent: its message was reached. Requested: it is attempted when its queue gives it out.
    pub result: ResendResult,
    /// Requested: about when, at the latest.
    pub expected_by: Option<Time>,
    pub message: Option<String>,
}

/// How far a request for an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum ResendResult {
    Sent,
    Requested,
}

/// A delivery as its message tells it, without its events.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingDelivery {
    pub id: Uuid,
    pub topic: String,
    pub event_subscription: String,
    #[schema(minimum = 1)]
    pub events: usize,
    pub publish_time: Time,
    pub delivery_attempts: u32,
    pub due: Option<Time>,
    pub last_delivery_outcome: Option<String>,
    pub last_http_status_code: Option<u16>,
}

impl From<&delivery::Delivery> for WaitingDelivery {
    fn from(delivery: &delivery::Delivery) -> Self {
        let attempts = &delivery.attempts;
        Self {
            id: delivery.id,
            topic: delivery.subscription.topic.clone(),
            event_subscription: delivery.subscription.name.clone(),
            events: delivery.event_count(),
            publish_time: delivery.publish_time.into(),
            delivery_attempts: attempts.made,
            due: delivery.due.map(Into::into),
            last_delivery_outcome: attempts.last_outcome.map(|outcome| outcome.to_string()),
            last_http_status_code: attempts.last_status,
        }
    }
}
