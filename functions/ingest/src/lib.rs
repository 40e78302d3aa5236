//! ingest: accepts published events.
//!
//! How a request flows: [`route`] finds the topic's name, [`handler`] lets the core authenticate, read
//! and match, and [`publish`] packs and puts the deliveries into the dispatch queue by [`enqueue`], as
//! expand does. It reads configuration and writes one queue and, for what is too large for a message,
//! one bucket; the publisher gets 200 only when every delivery is in the queue.
//!
//! A publish with too many deliveries for a request is stored instead; expand makes the
//! deliveries then.

pub mod enqueue;
pub mod handler;
mod idempotency;
pub mod publish;
pub mod route;

use std::{str::FromStr, sync::Arc};

use gridpost_core::gateway::Authorizer;
use gridpost_ports::{
    Clock, Dice, Meter, Payloads, PublishRecords, QueueSender, configuration::ConfigurationCache,
};

use enqueue::DeliverySink;
use publish::SendLimits;

/// Who may publish, as the deployment says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Whoever has one of the topic's keys, or a SAS token made with one.
    #[default]
    Keys,
    /// Whom API Gateway's authorizer has let through. Keys are not looked at.
    Gateway(Authorizer),
}

/// A text that names no way to authorize publishers.
#[derive(Debug, thiserror::Error)]
#[error("is none of KEYS, AWS_IAM and JWT")]
pub struct AuthorizationError;

impl FromStr for Authorization {
    type Err = AuthorizationError;

    fn from_str(text: &str) -> Result<Self, AuthorizationError> {
        match text {
            "KEYS" => Ok(Self::Keys),
            "AWS_IAM" => Ok(Self::Gateway(Authorizer::Iam)),
            "JWT" => Ok(Self::Gateway(Authorizer::Jwt)),
            _ => Err(AuthorizationError),
        }
    }
}

/// What ingest needs of the world, made once for the life of the function.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub dice: Arc<dyn Dice>,
    /// Topics and event subscriptions.
    pub configuration: ConfigurationCache,
    /// Puts deliveries into the dispatch queue, and what makes them into the fan-out queue.
    pub sender: Arc<dyn QueueSender>,
    /// Keeps events that are too large for a queue message, and large fan-outs.
    pub payloads: Arc<dyn Payloads>,
    /// What was published under which key. Not asked for topics that heed no keys.
    pub records: Arc<dyn PublishRecords>,
    pub meter: Arc<dyn Meter>,
    /// Whether the duration of publishes is a metric.
    pub latency_metrics: bool,
    /// Who may publish.
    pub authorization: Authorization,
    /// The largest message that the queues take, in bytes: 262,144 to 1,048,576.
    pub queue_message_bytes_max: usize,
    /// Most deliveries of a publish that its request enqueues: 0 to 100,000. What makes more is
    /// stored first.
    pub inline_fan_out: usize,
    /// Most deliveries that one message of the fan-out queue stands for, at least 1.
    pub piece_deliveries_max: usize,
}

impl Context {
    /// How deliveries go.
    fn limits(&self) -> SendLimits<'_> {
        SendLimits {
            sink: DeliverySink { sender: &*self.sender, payloads: &*self.payloads },
            queue_message_bytes_max: self.queue_message_bytes_max,
            inline_fan_out: self.inline_fan_out,
            piece_deliveries_max: self.piece_deliveries_max,
        }
    }
}
