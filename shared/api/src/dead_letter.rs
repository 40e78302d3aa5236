//! Dead letters as documents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::{List, Time};

/// A page of dead letters.
pub type DeadLetterList = List<DeadLetter>;

/// A dead letter, without its event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    pub id: String,
    pub object_name: String,
    #[serde(flatten)]
    pub content: DeadLetterContent,
}

/// The content of a dead letter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum DeadLetterContent {
    Record(DeadLetterRecord),
    Unreadable {
        /// Why it can't be read; all else is unknown then.
        problem: String,
    },
}

/// The record of an event that ended undelivered.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterRecord {
    pub written_time: Time,
    /// Whether a redrive has sent it again.
    pub is_redriven: bool,
    pub event_id: String,
    pub event_type: String,
    pub dead_letter_reason: String,
    pub delivery_attempts: u32,
    pub publish_time: Time,
    /// How often the event was sent again before it became this dead letter.
    pub redrive_count: u32,
    pub last_delivery_outcome: Option<String>,
    pub last_http_status_code: Option<u16>,
    pub last_delivery_attempt_time: Option<Time>,
}

/// A dead letter with its event, as far as it can be read.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterShown {
    #[serde(flatten)]
    pub letter: DeadLetter,
    /// The event as it was delivered, a JSON text.
    pub event: Option<String>,
    /// Whether event is its beginning alone: an answer has at most 6 MB. The object has all of it.
    pub is_event_cut: Option<bool>,
}

/// How many dead letters there are.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterCount {
    pub events: u64,
    /// How many of them a redrive has sent again.
    pub redriven_events: u64,
    pub by_reason: BTreeMap<String, u64>,
    pub by_event_type: BTreeMap<String, u64>,
    pub unreadable: u64,
    /// Where the next request goes on.
    #[schema(format = "uri")]
    pub next_link: Option<String>,
}

/// The result of a purge.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersPurged {
    pub purged_events: u64,
    pub purged_objects: u64,
    /// Chosen, but in objects that hold others too; they stay.
    pub left_events: u64,
    /// Where the same request goes on, also behind a call that failed after others had deleted.
    #[schema(format = "uri")]
    pub next_link: Option<String>,
}
