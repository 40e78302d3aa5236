//! Reads dead letters back from the emulator's S3.

use std::time::Duration;

use anyhow::{Context, bail};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::local::connection::Connection;
use crate::local::terraform::REGION;
use crate::output::text_at;

const POLL: Duration = Duration::from_millis(500);

/// The dead letters below one prefix.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    client: Client,
    bucket: String,
    prefix: String,
}

impl DeadLetters {
    /// Those in the stack's own bucket.
    pub fn of(connection: &Connection, prefix: &str) -> Self {
        // The emulator takes any.
        let credentials = Credentials::builder()
            .access_key_id("test")
            .secret_access_key("test")
            .provider_name("local stack")
            .build();
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .endpoint_url(&connection.emulator_url)
            .force_path_style(true)
            .credentials_provider(credentials)
            .build();
        Self {
            client: Client::from_conf(config),
            bucket: connection.dead_letter_bucket.clone(),
            prefix: prefix.to_owned(),
        }
    }

    /// Waits for the first object and gives it as `{"key","records"}`.
    ///
    /// # Errors
    ///
    /// When there is none by `deadline`, or it is no JSON array.
    pub async fn wait(&self, deadline: Instant) -> anyhow::Result<Value> {
        loop {
            // A failed listing is tried again like an empty one; the last failure is told.
            let found = self.first().await;
            match found {
                Ok(Some(key)) => return self.read(&key).await,
                Ok(None) if Instant::now() < deadline => sleep(POLL).await,
                Err(_) if Instant::now() < deadline => sleep(POLL).await,
                Ok(None) => {
                    bail!("no dead letter was written to s3://{}/{}", self.bucket, self.prefix)
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// The key of the first object, if there is one.
    ///
    /// # Errors
    ///
    /// When the bucket cannot be listed.
    pub async fn first(&self) -> anyhow::Result<Option<String>> {
        let list =
            self.client.list_objects_v2().bucket(&self.bucket).prefix(&self.prefix).send().await;
        let list = list.with_context(|| format!("bucket {} cannot be listed", self.bucket))?;
        Ok(list.contents().first().and_then(|object| object.key()).map(str::to_owned))
    }

    async fn read(&self, key: &str) -> anyhow::Result<Value> {
        let object = self.client.get_object().bucket(&self.bucket).key(key).send().await;
        let object =
            object.with_context(|| format!("s3://{}/{key} cannot be read", self.bucket))?;
        let bytes = object.body.collect().await?.into_bytes();
        let records: Vec<Value> = serde_json::from_slice(&bytes)
            .with_context(|| format!("s3://{}/{key} is no JSON array", self.bucket))?;
        Ok(json!({"bucket": self.bucket, "key": key, "records": records}))
    }
}

/// What [`DeadLetters::wait`] gave, line by line.
pub fn describe(found: &Value) -> Vec<String> {
    let mut lines = vec![format!("s3://{}/{}", text_at(found, "/bucket"), text_at(found, "/key"))];
    let members = [
        "eventType",
        "deadLetterReason",
        "lastDeliveryOutcome",
        "lastHttpStatusCode",
        "deliveryAttempts",
    ];
    for record in found["records"].as_array().into_iter().flatten() {
        let shown =
            members.iter().filter_map(|member| Some(format!("{member} {}", record.get(member)?)));
        lines.push(shown.collect::<Vec<_>>().join(", "));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_is_shown_with_its_reason() {
        let found = json!({"bucket": "b", "key": "p/S/2030/1/2/3/u.json", "records": [{
            "id": "1", "eventType": "T", "deadLetterReason": "UndeliverableDueToHttpBadRequest",
            "deliveryAttempts": 1, "lastDeliveryOutcome": "BadRequest", "lastHttpStatusCode": 400,
        }]});
        assert_eq!(
            describe(&found),
            [
                "s3://b/p/S/2030/1/2/3/u.json",
                "eventType \"T\", deadLetterReason \"UndeliverableDueToHttpBadRequest\", lastDeliveryOutcome \
             \"BadRequest\", lastHttpStatusCode 400, deliveryAttempts 1",
            ]
        );
    }
}
