//! The health of endpoints as documents.

use gridpost_core::retry::health::{Condition, Effect};
use serde::{Deserialize, Serialize};
use strum::Display;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    schema::{List, Time},
    subscription::{AwaitedValidation, Pause},
};

/// A page of healths.
pub type HealthList = List<NamedHealth>;

/// An event subscription's name, and the health of its endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamedHealth {
    pub name: String,
    pub health: Health,
}

/// The health of an event subscription's endpoint.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Recovering: a wait has just ended; attempts are let through, twice as many each second.
    /// NotValidated: it has not consented, and gets no events.
    pub state: EndpointState,
    /// The fate of an event that is published now. Ends: at once, with outcome Probation, as a dead
    /// letter or a drop. Held: it is paused. NotMatched: it is not for this event subscription, which has
    /// expired or whose provisioningState is not Succeeded.
    pub new_events: NewEvents,
    /// Failed requests since the last success, as far as a second tells. Ten delay delivery; from then
    /// on failed probes alone are counted.
    pub failures_in_row: u32,
    /// When the first of these failed.
    pub failing_since: Option<Time>,
    pub last_failure_time: Option<Time>,
    pub cause: Option<WaitCause>,
    /// Follows what one attempt met. Where newEvents says Ends, events end before its end alone.
    pub probation: Option<Interval>,
    /// Follows ten failures in a row.
    pub delayed_delivery: Option<DelayedDelivery>,
    pub since: Option<Time>,
    /// When the later of both waits ends. Nothing is attempted before; then one delivery probes.
    pub until: Option<Time>,
    pub next_probe: Option<NextProbe>,
    /// When a success, or a reset, last ended a wait.
    pub recovered_time: Option<Time>,
    /// Present while requests stay unanswered for long: deliveries then go to a lane of their own,
    /// which bounds the requests under way.
    pub slow: Option<SlowEndpoint>,
    pub pause: Option<Pause>,
    pub validation: Option<AwaitedValidation>,
    /// Events that were matched or redriven and have not ended, attempted or not. Absent where the journal does
    /// not say that at once, as on AWS.
    pub waiting_events: Option<u64>,
    /// Deliveries that have failed and not ended. Those that never were attempted are not counted.
    pub waiting_deliveries: WaitingDeliveries,
}

/// The state of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum EndpointState {
    Healthy,
    Recovering,
    Probation,
    DelayedDelivery,
    NotValidated,
}

impl From<Condition> for EndpointState {
    fn from(condition: Condition) -> Self {
        match condition {
            Condition::Healthy => Self::Healthy,
            Condition::Recovering => Self::Recovering,
            Condition::Probation => Self::Probation,
            Condition::DelayedDelivery => Self::DelayedDelivery,
        }
    }
}

/// The fate of new events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum NewEvents {
    Attempted,
    Waits,
    Held,
    Ends,
    NotMatched,
}

impl From<Effect> for NewEvents {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Attempted => Self::Attempted,
            Effect::Waits => Self::Waits,
            Effect::Ends => Self::Ends,
        }
    }
}

/// The cause of a wait.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitCause {
    pub outcome: String,
    pub http_status_code: Option<u16>,
}

/// A time without attempts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Interval {
    pub since: Time,
    pub until: Time,
}

/// A time without attempts that grows with each failed probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DelayedDelivery {
    /// Each failed probe goes one step further.
    #[schema(minimum = 1)]
    pub step: u32,
    pub since: Time,
    pub until: Time,
}

/// The delivery that ends a wait.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextProbe {
    pub not_before: Time,
    /// The delivery that probes now.
    pub delivery: Option<Uuid>,
}

/// How many requests a slow endpoint has, and may have, under way.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlowEndpoint {
    /// Unless slow answers go on.
    pub until: Option<Time>,
    pub requests_under_way: u32,
    /// Grows with each answer and halves when none comes. Not there before the first.
    #[schema(minimum = 1)]
    pub requests_at_most: Option<u32>,
}

/// How many deliveries wait, and since when.
#[serde_with::skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingDeliveries {
    pub count: usize,
    /// Whether these are all; counting ends at 20,000.
    pub is_complete: bool,
    pub oldest_publish_time: Option<Time>,
}
