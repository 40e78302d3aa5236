//! Sources, as Terraform describes them.

use std::str::FromStr;

use serde::Deserialize;

/// A source of events: a queue and how its messages become events of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// For logs.
    pub name: String,
    pub topic: String,
    pub queue_arn: String,
    /// For events that have none.
    pub source: String,
    /// For events that have none.
    pub event_type: String,
    pub envelope: Envelope,
    pub carries: Carries,
    pub content: Content,
    /// Whether events about objects of S3 become Event Grid's events about blobs.
    pub blobs: bool,
}

/// What wraps a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Envelope {
    None,
    /// SNS without raw message delivery.
    Sns,
}

/// What a message contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Carries {
    /// An application's message: the data of one event.
    Messages,
    EventBridge,
    S3,
}

/// The format of an application's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Content {
    /// JSON if possible, otherwise text.
    Auto,
    Text,
    Base64,
}

/// Not a source.
#[derive(Debug, thiserror::Error)]
#[error("it is no source as infra/modules/aws-source writes it: {0}")]
pub struct SourceError(serde_json::Error);

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        serde_json::from_str(text).map_err(SourceError)
    }
}
