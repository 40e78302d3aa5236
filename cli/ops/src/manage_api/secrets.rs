//! What reads of event subscriptions leave out. Each question asks for an IAM permission of its own.

use anyhow::Context;
use reqwest::Method;
use serde_json::{Value, json};

use super::{ManageApi, subscription_path};

impl ManageApi {
    /// The URL of an event subscription's webhook, query included.
    pub async fn full_url(&self, topic: &str, name: &str) -> anyhow::Result<String> {
        let path = format!("{}/getFullUrl", subscription_path(topic, name)?);
        let answer = self.call(Method::POST, &path, None).await?.document;
        let url = answer["endpointUrl"].as_str().context("the manage API gave no endpointUrl")?;
        Ok(url.to_owned())
    }

    /// An event subscription's delivery attributes, secret values included.
    pub async fn delivery_attributes(&self, topic: &str, name: &str) -> anyhow::Result<Value> {
        let path = format!("{}/getDeliveryAttributes", subscription_path(topic, name)?);
        Ok(self.call(Method::POST, &path, None).await?.document["value"].take())
    }

    /// The secrets with which an event subscription's requests are signed.
    pub async fn signing_secrets(&self, topic: &str, name: &str) -> anyhow::Result<Value> {
        let path = format!("{}/getSigningSecrets", subscription_path(topic, name)?);
        Ok(self.call(Method::POST, &path, None).await?.document)
    }

    /// Makes a new signing secret; the one until now stays valid for so many seconds.
    pub async fn rotate_signing_secret(
        &self,
        topic: &str,
        name: &str,
        overlap: Option<u32>,
    ) -> anyhow::Result<Value> {
        let path = format!("{}/rotateSigningSecret", subscription_path(topic, name)?);
        let document = json!({ "overlapInSeconds": overlap });
        Ok(self.call(Method::POST, &path, Some(&document)).await?.document)
    }
}
