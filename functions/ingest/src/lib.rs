//! ingest: accepts published events.
//!
//! [`route`] finds the topic's name, [`handler`] lets the core authenticate, read and match, and
//! [`publish`] packs the deliveries and sends them to the dispatch queue. Events too large for a
//! message go to a bucket. The publisher gets 200 only once every delivery is in the
//! queue, or, if they are too many for a request, once the publish is stored for expand.

pub mod handler;
mod idempotency;
pub mod publish;
pub mod route;

use std::{str::FromStr, sync::Arc};

use gridpost_core::{gateway::Authorizer, publish::origin::OriginSecrets};
use gridpost_ports::{
    Clock, Dice, Journal, Meter, Payloads, PublishRecords, QueueSender,
    configuration::ConfigurationCache,
};

use publish::{DeliverySink, SendLimits};

/// Who may publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// Holders of one of the topic's keys, or of a SAS token made with one.
    #[default]
    Keys,
    /// Publishers that API Gateway's authorizer accepts. Keys are ignored.
    Gateway(Authorizer),
}

/// An unknown authorization setting.
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

/// The ports and settings of ingest.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub configuration: ConfigurationCache,
    pub sender: Arc<dyn QueueSender>,
    /// Stores events that are too large for a queue message, and large fan-outs.
    pub payloads: Arc<dyn Payloads>,
    pub records: Arc<dyn PublishRecords>,
    pub meter: Arc<dyn Meter>,
    pub journal: Arc<dyn Journal>,
    /// Whether the duration of publishes is a metric.
    pub latency_metrics: bool,
    pub authorization: Authorization,
    /// The secrets of the CDN that requests must come through; none if they may come directly.
    pub origin_secrets: OriginSecrets,
    /// 262,144 to 1,048,576.
    pub queue_message_bytes_max: usize,
    /// The most deliveries that a request enqueues, 0 to 100,000: a larger fan-out is stored first.
    pub inline_fan_out: usize,
    /// The most deliveries that one message of the fan-out queue stands for, at least 1.
    pub piece_deliveries_max: usize,
}

impl Context {
    fn limits(&self) -> SendLimits<'_> {
        SendLimits {
            sink: DeliverySink { sender: &*self.sender, payloads: &*self.payloads },
            journal: &*self.journal,
            queue_message_bytes_max: self.queue_message_bytes_max,
            inline_fan_out: self.inline_fan_out,
            piece_deliveries_max: self.piece_deliveries_max,
        }
    }
}
