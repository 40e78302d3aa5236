//! Pauses of event subscriptions.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ManageApi, subscription_path};

impl ManageApi {
    /// Pauses an event subscription. Returns how it stands.
    pub async fn pause(
        &self,
        topic: &str,
        name: &str,
        time_to_live_runs: bool,
    ) -> anyhow::Result<Value> {
        let path = format!("{}/pause", subscription_path(topic, name)?);
        let document = json!({ "timeToLiveRuns": time_to_live_runs });
        Ok(self.call(Method::POST, &path, Some(&document)).await?.document)
    }

    /// Resumes an event subscription. Returns how it stands.
    pub async fn resume(&self, topic: &str, name: &str) -> anyhow::Result<Value> {
        let path = format!("{}/resume", subscription_path(topic, name)?);
        Ok(self.call(Method::POST, &path, None).await?.document)
    }
}
