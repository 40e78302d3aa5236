//! What a source is, as Terraform says it.

use std::str::FromStr;

use serde::Deserialize;

/// A source of events: a queue and how its messages become events of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// Its name in the deployment, for logs.
    pub name: String,
    pub topic: String,
    /// The queue that its messages come from.
    pub queue_arn: String,
    /// `source` of events that have none of their own.
    pub source: String,
    /// `type` of events that have none of their own.
    pub event_type: String,
    pub envelope: Envelope,
    pub carries: Carries,
    pub content: Content,
    /// Whether events about objects of S3 become Event Grid's events about blobs.
    pub blobs: bool,
}

/// What is around a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Envelope {
    None,
    /// SNS's, as without raw message delivery.
    Sns,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Carries {
    /// An application's own message: the data of one event.
    Messages,
    EventBridge,
    S3,
}

/// How the data of an application's message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Content {
    /// JSON if it is JSON, otherwise text.
    Auto,
    Text,
    Base64,
}

/// A text that is no source.
#[derive(Debug, thiserror::Error)]
#[error("it is no source as infra/modules/aws-source writes it: {0}")]
pub struct SourceError(serde_json::Error);

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        serde_json::from_str(text).map_err(SourceError)
    }
}
