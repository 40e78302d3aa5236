//! manage: the resource API. Topics, their keys, and event subscriptions, as documents in Event
//! Grid's shape; the only writer of configuration, and never on the way of an event. For operators,
//! what waits and what has ended: the poison queue, parked deliveries, dead letters.
//!
//! API Gateway authorises every route (IAM) before it comes here, but for the validation URL, whose
//! token is asked for here. [`answer`] finds the route, and refuses what API Gateway authorised as
//! another one; each resource has a file under `routes`. A change is decided on what was read, written only if that
//! still stands, and answered when every instance of the data plane has seen it.

mod page;
mod precondition;
mod reply;
mod routes;
pub mod terraform;

use std::{str::FromStr, sync::Arc, time::Duration};

use gridpost_core::{
    endpoint::Allowed,
    gateway::{self, Authorizer, EventError},
    subscription::resource::Identity,
};
use gridpost_ports::{
    Clock, Configuration, DeadLetters, DeliveryStates, Dice, EndpointClient, EndpointHealths,
    HandshakeClient, Meter, ParkedDeliveries, ParkingLot, Payloads, PoisonQueue, QueueReceiver,
    QueueSender, Redrives, ResourceChecker, SubscriptionStore, TopicKeys, TopicStore,
    WaitingDeliveries,
};
use http::{HeaderMap, Method};
use serde_json::Value;
use tokio::time::sleep;

pub use reply::Reply;
pub use routes::answer;

/// What manage needs of the world, made once for the life of the function.
pub struct Context {
    /// Reads topics and event subscriptions.
    pub configuration: Arc<dyn Configuration>,
    /// Reads topics' access keys.
    pub keys: Arc<dyn TopicKeys>,
    /// Writes topics.
    pub topics: Arc<dyn TopicStore>,
    /// Writes event subscriptions.
    pub subscriptions: Arc<dyn SubscriptionStore>,
    /// Finds failing deliveries.
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
    /// Looks through parked deliveries.
    pub parked: Arc<dyn ParkedDeliveries>,
    /// Removes them.
    pub parking: Arc<dyn ParkingLot>,
    /// The state of failing deliveries.
    pub states: Arc<dyn DeliveryStates>,
    /// The health of endpoints.
    pub healths: Arc<dyn EndpointHealths>,
    /// Looks through dead letters, and removes them.
    pub dead_letters: Arc<dyn DeadLetters>,
    /// Reads publishes whose deliveries are still to be made.
    pub payloads: Arc<dyn Payloads>,
    /// Jobs that send them again.
    pub redrives: Arc<dyn Redrives>,
    /// Counts what is purged.
    pub meter: Arc<dyn Meter>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Keys, ids, codes.
    pub dice: Arc<dyn Dice>,
    /// The deployment's settings.
    pub settings: Settings,
}

/// The deployment's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The networks and ports that an endpoint may have.
    pub allowed: Allowed,
    /// How the deployment names itself to CloudEvents endpoints.
    pub validation_origin: String,
    /// Base URL of the publish API.
    pub publish_url: String,
    /// Base URL of this API, without a slash at its end.
    pub manage_url: String,
    /// How long the data plane keeps configuration in memory.
    pub configuration_kept_for: Duration,
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

/// A request, as API Gateway hands it over.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path without the stage.
    pub path: String,
    /// The query as it was sent, without its `?`.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// The route that API Gateway matched; `None` where the sender has no routes.
    pub route: Option<String>,
    /// Which authorizer of API Gateway's has let it through.
    pub authorizer: Option<Authorizer>,
    /// The ARN of the IAM principal that signed it, if IAM was asked.
    pub caller: Option<String>,
}

impl Request {
    /// A request without query and headers, by no API Gateway.
    pub fn new(method: Method, path: String, body: Vec<u8>) -> Self {
        let (query, headers) = (String::new(), HeaderMap::new());
        Self { method, path, query, headers, body, route: None, authorizer: None, caller: None }
    }

    fn read(event: gateway::Request) -> Result<Self, Reply> {
        let gateway::Request { method, path, query, headers, authorizer, caller, route, body } =
            event;
        let method = method.parse().map_err(|_| Reply::no_route(&path))?;
        Ok(Self { method, path, query, headers, body, route, authorizer, caller })
    }
}

/// Answers API Gateway's event.
///
/// # Errors
///
/// It is no such event.
pub async fn answer_event(context: &Context, event: Value) -> Result<Reply, serde_json::Error> {
    let event: gateway::Event = serde_json::from_value(event)?;
    match event.into_request() {
        Ok(request) => match Request::read(request) {
            Ok(request) => Ok(answer(context, &request).await),
            Err(refusal) => Ok(refusal),
        },
        Err(EventError::Body(_)) => Ok(Reply::not_base64()),
        Err(error @ EventError::Unknown) => Err(serde::de::Error::custom(error)),
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
