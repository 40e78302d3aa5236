//! manage: the resource API. It serves topics, their keys and event subscriptions as documents in
//! Event Grid's shape, and the poison queue, parked deliveries and dead letters for operators. It is
//! the only writer of configuration, and handles no events.
//!
//! API Gateway authorises every route (IAM) but the validation URL, whose token is checked here.
//! `routes/api` declares every route once: axum's router and `docs/openapi.json` are made of it.
//! [`respond`] finds the route, and refuses requests that API Gateway authorised as another one.
//! Changes are conditional writes, and answered when every instance of the data plane has seen them.

mod handshake;
mod page;
mod precondition;
mod reply;
mod request;
mod routes;
pub mod terraform;

use std::{str::FromStr, sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_api::subscription::Identity;
use gridpost_core::{endpoint::Allowed, journal::Question, subscription::SubscriptionKey};
use gridpost_ports::{
    Clock, Configuration, DeadLetters, DeliveryStates, Dice, EndpointClient, EndpointHealths,
    HandshakeClient, Journal, JournalError, JournalReader, JournalReply, Meter, ParkedDeliveries,
    ParkingLot, Payloads, PoisonQueue, QueueReceiver, QueueSender, Redrives, ResourceChecker,
    SubscriptionStore, TopicKeys, TopicStore, WaitingDeliveries,
};
use tokio::time::sleep;

pub use gridpost_core::gateway::Request;
pub use reply::{Reply, not_base64};
pub use routes::{answer, respond};

/// The ports and settings of manage.
#[derive(Clone)]
pub struct Context {
    pub configuration: Arc<dyn Configuration>,
    /// The same without secrets, which what only counts or deletes needs not read: so event subscriptions whose
    /// secrets were lost can be deleted.
    pub without_secrets: Arc<dyn Configuration>,
    pub keys: Arc<dyn TopicKeys>,
    pub topics: Arc<dyn TopicStore>,
    pub subscriptions: Arc<dyn SubscriptionStore>,
    pub deliveries: Arc<dyn WaitingDeliveries>,
    pub handshakes: Arc<dyn HandshakeClient>,
    /// Sends test events.
    pub endpoints: Arc<dyn EndpointClient>,
    pub checker: Arc<dyn ResourceChecker>,
    pub poison: Arc<dyn PoisonQueue>,
    pub receiver: Arc<dyn QueueReceiver>,
    pub sender: Arc<dyn QueueSender>,
    pub parked: Arc<dyn ParkedDeliveries>,
    pub parking: Arc<dyn ParkingLot>,
    pub states: Arc<dyn DeliveryStates>,
    pub healths: Arc<dyn EndpointHealths>,
    pub dead_letters: Arc<dyn DeadLetters>,
    /// Reads stored publishes.
    pub payloads: Arc<dyn Payloads>,
    pub redrives: Arc<dyn Redrives>,
    pub journal_reader: Arc<dyn JournalReader>,
    pub meter: Arc<dyn Meter>,
    pub journal: Arc<dyn Journal>,
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub settings: Settings,
}

/// The journal of a deployment that does not answer questions yet.
#[derive(Clone, Copy, Debug)]
pub struct NoJournal;

#[async_trait]
impl JournalReader for NoJournal {
    async fn ask(
        &self,
        _: &Question,
        _: Option<&str>,
        _: Option<f64>,
    ) -> Result<JournalReply, JournalError> {
        Err(JournalError::Denied("this deployment has no journal that can be asked yet".to_owned()))
    }
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
    /// The same of validation URLs, which owners of endpoints open.
    pub validation_url: String,
    /// How long the data plane keeps configuration in memory.
    pub configuration_kept_for: Duration,
    /// The time for dispatch, perhaps longer.
    pub dispatch_keeps_configuration: Duration,
    pub account: String,
    /// How many retry queues there are, 1 to 32.
    pub retry_shards: usize,
    /// Whether what is held back for slow endpoints has a queue of its own.
    pub has_slow_queue: bool,
    pub queue_message_bytes_max: usize,
    pub authorization: Authorization,
}

/// Who may call the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// IAM principals that API Gateway has authorised for the route; the validation URL is open.
    #[default]
    Iam,
    /// Bearers of tokens, each on the routes of its role and the topics of its scope.
    Tokens,
    /// Everybody: on one machine only.
    None,
}

/// An unknown authorization setting.
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

/// Returns the URL of a part of an event subscription below a base URL.
fn url_below(base: &str, SubscriptionKey { topic, name }: &SubscriptionKey, part: &str) -> String {
    format!("{base}/topics/{topic}/eventSubscriptions/{name}/{part}")
}

const TRIES_MAX: u32 = 20;

const BACK_OFF_MS_MAX: f64 = 150.0;

impl Context {
    /// Waits until no instance of ingest or dispatch has the old configuration in memory.
    async fn until_seen(&self) {
        sleep(self.settings.configuration_kept_for).await;
    }

    /// Returns the URL of a part of an event subscription, such as `deliveries`.
    fn url_of(&self, key: &SubscriptionKey, part: &str) -> String {
        url_below(&self.settings.manage_url, key, part)
    }

    fn new_identity(&self) -> Identity {
        let now = self.clock.now();
        Identity {
            uid: self.dice.id(),
            endpoint_uid: None,
            created_at: now,
            etag: self.dice.id(),
            modified_at: now,
        }
    }

    /// Waits a random moment after a conflict, so that both writers do not conflict again.
    async fn back_off(&self) {
        sleep(Duration::from_secs_f64(self.dice.roll() * BACK_OFF_MS_MAX / 1_000.0)).await;
    }
}

#[cfg(test)]
mod tests;
