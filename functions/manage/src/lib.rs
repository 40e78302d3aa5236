//! manage: the resource API. Topics, their keys, and event subscriptions, as documents in Event
//! Grid's shape; the only writer of configuration, and never on the way of an event. For operators,
//! what waits and what has ended: the poison queue, parked deliveries, dead letters.
//!
//! API Gateway authorises every route (IAM) before it comes here, but for the validation URL, whose
//! token is asked for here. Every route is told once, under `routes/api`: axum's router and
//! `docs/openapi.json` are made of it. [`respond`] finds the route, and refuses what API Gateway
//! authorised as another one; each resource has a file under `routes`. A change is decided on what
//! was read, written only if that still stands, and answered when every instance of the data plane
//! has seen it.

mod handshake;
mod page;
mod precondition;
mod reply;
mod request;
mod routes;
pub mod terraform;

use std::{str::FromStr, sync::Arc, time::Duration};

use gridpost_api::subscription::Identity;
use gridpost_core::endpoint::Allowed;
use gridpost_ports::{
    Clock, Configuration, DeadLetters, DeliveryStates, Dice, EndpointClient, EndpointHealths,
    HandshakeClient, Meter, ParkedDeliveries, ParkingLot, Payloads, PoisonQueue, QueueReceiver,
    QueueSender, Redrives, ResourceChecker, SubscriptionStore, TopicKeys, TopicStore,
    WaitingDeliveries,
};
use tokio::time::sleep;

pub use gridpost_core::gateway::Request;
pub use reply::{Reply, not_base64};
pub use routes::{answer, respond};

/// What manage needs of the world, made once for the life of the function.
#[derive(Clone)]
pub struct Context {
    /// Reads topics and event subscriptions.
    pub configuration: Arc<dyn Configuration>,
    pub keys: Arc<dyn TopicKeys>,
    pub topics: Arc<dyn TopicStore>,
    /// Writes event subscriptions.
    pub subscriptions: Arc<dyn SubscriptionStore>,
    pub deliveries: Arc<dyn WaitingDeliveries>,
    /// Asks endpoints for their consent.
    pub handshakes: Arc<dyn HandshakeClient>,
    /// Sends test events.
    pub endpoints: Arc<dyn EndpointClient>,
    /// Asks for AWS resources.
    pub checker: Arc<dyn ResourceChecker>,
    /// What our own code could not settle.
    pub poison: Arc<dyn PoisonQueue>,
    /// Shows and deletes what was received from the poison queue.
    pub receiver: Arc<dyn QueueReceiver>,
    /// Sends back what waits.
    pub sender: Arc<dyn QueueSender>,
    pub parked: Arc<dyn ParkedDeliveries>,
    /// Removes parked deliveries.
    pub parking: Arc<dyn ParkingLot>,
    /// The state of failing deliveries.
    pub states: Arc<dyn DeliveryStates>,
    pub healths: Arc<dyn EndpointHealths>,
    /// Looks through dead letters, and removes them.
    pub dead_letters: Arc<dyn DeadLetters>,
    /// Reads publishes whose deliveries are still to be made.
    pub payloads: Arc<dyn Payloads>,
    /// Jobs that send dead letters again.
    pub redrives: Arc<dyn Redrives>,
    /// Counts what is purged.
    pub meter: Arc<dyn Meter>,
    pub clock: Arc<dyn Clock>,
    /// Keys, ids, codes.
    pub dice: Arc<dyn Dice>,
    pub settings: Settings,
}

/// The deployment's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The networks and ports that an endpoint may have.
    pub allowed: Allowed,
    /// How the deployment names itself to CloudEvents endpoints.
    pub validation_origin: String,
    pub publish_url: String,
    /// Base URL of this API, without a slash at its end.
    pub manage_url: String,
    /// How long the data plane keeps configuration in memory.
    pub configuration_kept_for: Duration,
    /// How long dispatch does, which may be longer.
    pub dispatch_keeps_configuration: Duration,
    /// The deployment's AWS account.
    pub account: String,
    /// How many retry queues there are, 1 to 32.
    pub retry_shards: usize,
    /// Bytes of a queue message at most, as ingest packs them.
    pub queue_message_bytes_max: usize,
    /// Who may call this API.
    pub authorization: Authorization,
}

/// Who may call the API, as the deployment says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// IAM principals that API Gateway has let through to the route; the validation URL is open.
    #[default]
    Iam,
    /// All who can reach it: on one machine only.
    None,
}

/// A text that names no way to authorize callers.
#[derive(Debug, thiserror::Error)]
#[error("is neither AWS_IAM nor NONE")]
pub struct AuthorizationError;

impl FromStr for Authorization {
    type Err = AuthorizationError;

    fn from_str(text: &str) -> Result<Self, AuthorizationError> {
        match text {
            "AWS_IAM" => Ok(Self::Iam),
            "NONE" => Ok(Self::None),
            _ => Err(AuthorizationError),
        }
    }
}

/// How often a change that meets another is decided anew.
const TRIES_MAX: u32 = 20;

/// The longest wait before it is, in milliseconds.
const BACK_OFF_MS_MAX: f64 = 150.0;

impl Context {
    /// Waits until no instance of ingest or dispatch still works by what was before a change: they
    /// keep configuration in memory for that long.
    async fn until_seen(&self) {
        sleep(self.settings.configuration_kept_for).await;
    }

    /// Who a new event subscription is.
    fn new_identity(&self) -> Identity {
        Identity {
            uid: self.dice.id(),
            endpoint_uid: None,
            created_at: self.clock.now(),
            etag: self.dice.id(),
        }
    }

    /// Waits a moment after a change that met another, so that both do not meet again.
    async fn back_off(&self) {
        sleep(Duration::from_secs_f64(self.dice.roll() * BACK_OFF_MS_MAX / 1_000.0)).await;
    }
}

#[cfg(test)]
mod tests;
