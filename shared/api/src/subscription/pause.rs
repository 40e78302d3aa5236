//! Pauses in documents.

use gridpost_core::subscription::pause;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    document::{Problems, read as read_as},
    schema::Time,
};

/// Nothing is attempted, and deliveries are held.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    pub since: Time,
    /// When it ends by itself.
    pub until: Time,
    /// The ARN of the principal that asked for it.
    pub by: Option<String>,
    /// Whether time-to-live goes on meanwhile.
    pub time_to_live_runs: bool,
}

impl From<&pause::Pause> for Pause {
    fn from(pause: &pause::Pause) -> Self {
        Self {
            since: pause.since.into(),
            until: pause.until.into(),
            by: pause.by.clone(),
            time_to_live_runs: pause.time_to_live_runs,
        }
    }
}

/// Whether an event subscription is paused.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseStanding {
    pub is_paused: bool,
    pub since: Option<Time>,
    /// When it ends by itself.
    pub until: Option<Time>,
    /// The ARN of the principal that asked for it.
    pub by: Option<String>,
    /// Whether time-to-live goes on meanwhile.
    pub time_to_live_runs: Option<bool>,
    /// By when every copy of dispatch has heard of it.
    pub holds_by: Option<Time>,
    /// When the last pause ended.
    pub resumed_time: Option<Time>,
}

/// The mode of a pause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseInput {
    /// True if time-to-live goes on during the pause, false if it stands still.
    #[schema(required = true)]
    pub time_to_live_runs: Option<bool>,
}

/// Reads the mode of a pause: whether time-to-live runs meanwhile.
pub fn read(document: &Value) -> Result<bool, Problems> {
    let mut problems = Problems::default();
    let PauseInput { time_to_live_runs } = read_as(document, &mut problems);
    problems.or(time_to_live_runs)
}
