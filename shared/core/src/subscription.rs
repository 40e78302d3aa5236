//! Event subscriptions: filter, endpoint, retry policy and dead-letter destination under one topic.

pub mod attributes;
pub mod authentication;
pub mod aws;
pub mod filter;
pub mod pause;
pub mod secrets;
pub mod signing;
pub mod validation;

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    num::NonZeroU32,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use url::{Origin, Url};
use uuid::Uuid;

use crate::{
    endpoint::arn::Arn,
    event::DeliverySchema,
    name,
    retry::{self, health::ProbationPolicy, policy::RetryPolicy, profile::EndpointKind},
    secret::Secret,
    time::Timestamp,
};

pub use attributes::DeliveryAttribute;
pub use authentication::Authentication;
pub use aws::{KeySource, Resource, ResourceKind};
pub use filter::Filter;
pub use pause::Pauses;
pub use secrets::Secrets;
pub use signing::Signing;
pub use validation::Validation;

/// The unique name of an event subscription as first spelled; compared without case, see [`name`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SubscriptionKey {
    pub topic: String,
    pub name: String,
}

impl SubscriptionKey {
    /// Returns topic and name in lower case, as the keys of stores have them.
    pub fn folded(&self) -> String {
        format!("{}/{}", name::folded(&self.topic), name::folded(&self.name))
    }
}

impl PartialEq for SubscriptionKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SubscriptionKey {}

impl PartialOrd for SubscriptionKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SubscriptionKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let topics = name::compare(&self.topic, &other.topic);
        topics.then_with(|| name::compare(&self.name, &other.name))
    }
}

impl Hash for SubscriptionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let bytes = self.topic.bytes().chain([b'/']).chain(self.name.bytes());
        bytes.for_each(|byte| state.write_u8(byte.to_ascii_lowercase()));
    }
}

impl fmt::Display for SubscriptionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.topic, self.name)
    }
}

/// An event subscription's endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Endpoint {
    WebHook {
        /// Its query may carry a key.
        url: Secret,
    },
    Resource(Resource),
}

impl Endpoint {
    /// Returns its column of the status table.
    pub fn kind(&self) -> EndpointKind {
        match self {
            Self::WebHook { .. } => EndpointKind::Webhook,
            Self::Resource(_) => EndpointKind::Resource,
        }
    }

    /// Returns whether it is a webhook with the scheme, host and port of that URL.
    pub fn is_of_origin(&self, other: &str) -> bool {
        let origin = |url: &str| Some(Url::parse(url).ok()?.origin()).filter(Origin::is_tuple);
        match self {
            Self::WebHook { url } => {
                origin(url.expose()).is_some_and(|own| origin(other) == Some(own))
            }
            Self::Resource(_) => false,
        }
    }

    pub fn is_resource(&self, arn: &Arn) -> bool {
        matches!(self, Self::Resource(resource) if resource.arn == *arn)
    }
}

/// How many events one request may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batching {
    /// 1 to 5,000, never exceeded.
    pub max_events: u32,
    /// The target for a request in kilobytes (1,024 bytes): 1 to 1,024. A larger event goes alone.
    pub preferred_kilobytes: u32,
}

impl Batching {
    pub const OFF: Self = Self { max_events: 1, preferred_kilobytes: 64 };

    /// The most events an event subscription may ask for in one request.
    pub const MAX_EVENTS_LIMIT: u32 = 5_000;

    /// The largest target size an event subscription may ask for, in kilobytes.
    pub const PREFERRED_KILOBYTES_LIMIT: u32 = 1_024;

    pub fn preferred_bytes(self) -> usize {
        self.preferred_kilobytes as usize * 1_024
    }
}

/// How failed batches are treated; by default one response decides about every event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchFailure {
    /// Whether a refused batch is split until its bad events stand alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bisects: bool,
    /// Whether the body of an accepted response may ask to send single events again, or end them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reads_results: bool,
}

/// The place of dead letters in S3.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterDestination {
    pub bucket: String,
    /// The prefix of every object's key; may be empty.
    pub prefix: String,
}

/// Whether events flow to the endpoint.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    strum::VariantNames
)]
pub enum ProvisioningState {
    Succeeded,
    /// The endpoint has not decided; its owner has ten minutes for the validation URL.
    AwaitingManualAction,
    /// The validation URL was not used in time. Never stored.
    Failed,
}

/// An event subscription as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventSubscription {
    pub key: SubscriptionKey,
    /// New with every creation: no delivery reaches a later event subscription of the same name.
    pub uid: Uuid,
    pub endpoint: Endpoint,
    /// New with every change of the endpoint; `None` until the first. Use [`Self::endpoint_uid`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_uid: Option<Uuid>,
    /// `None` without any setting.
    pub batching: Option<Batching>,
    pub filter: Filter,
    pub delivery_schema: DeliverySchema,
    pub retry_policy: RetryPolicy,
    pub probation_policy: ProbationPolicy,
    /// `None` drops ended events.
    pub dead_letter: Option<DeadLetterDestination>,
    pub labels: Vec<String>,
    pub expires_at: Option<Timestamp>,
    /// As of the last write: [`Self::state`] gives the current state.
    pub provisioning_state: ProvisioningState,
    /// Set if the endpoint was last asked by a validation URL.
    #[serde(default)]
    pub validation: Option<Validation>,
    /// Requests per minute that the endpoint allows (`WebHook-Allowed-Rate`).
    #[serde(default)]
    pub allowed_rate: Option<NonZeroU32>,
    pub created_at: Timestamp,
    /// New with every change, so that a change can name the version it is based on.
    #[serde(default)]
    pub etag: Uuid,
    /// When the etag was made.
    pub modified_at: Timestamp,
    /// At most [`attributes::ATTRIBUTES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delivery_attributes: Vec<DeliveryAttribute>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<Signing>,
    /// No document sets them.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub pauses: Pauses,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Arc<Authentication>>,
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub batch_failure: BatchFailure,
}

impl EventSubscription {
    /// Returns the batching in force. Services that answer for each entry fill a call.
    pub fn batching(&self) -> Batching {
        let own = match &self.endpoint {
            Endpoint::WebHook { .. } => None,
            Endpoint::Resource(resource) => resource.own_batching(),
        };
        own.or(self.batching).unwrap_or(Batching::OFF)
    }

    /// Returns the key of its endpoint's health: a new endpoint starts with new health.
    pub fn endpoint_uid(&self) -> Uuid {
        self.endpoint_uid.unwrap_or(self.uid)
    }

    /// Returns when the time-to-live of a delivery ends whose life began at `start`.
    pub fn time_to_live_ends(&self, start: Timestamp) -> Timestamp {
        self.pauses.expires_at(start, retry::time_to_live(&self.retry_policy))
    }

    /// Returns until when a pause holds a delivery: to its own end or that of the delivery's life.
    pub fn holds_until(&self, expires_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.pauses.current(now).map(|pause| pause.until.min(expires_at))
    }

    /// Returns whether it has passed its expiration.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}
