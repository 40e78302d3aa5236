//! Event subscriptions together with their secrets, which are stored apart.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use gridpost_core::{
    name,
    subscription::{EventSubscription, Secrets},
    topic::Topic,
};

use crate::{Configuration, PortError, Result};

/// Secrets of event subscriptions by folded name, each with the topic's revision at which they were
/// written.
pub type WrittenSecrets = BTreeMap<String, (Secrets, u64)>;

/// The secrets of event subscriptions, only for sending requests to endpoints, and for managing.
#[async_trait]
pub trait SubscriptionSecrets: Send + Sync {
    /// Reads the secrets of the named event subscriptions of a topic, or of all. Those that have none
    /// are left out. Strongly consistent, as [`Configuration::written`] is.
    async fn secrets(&self, topic: &str, names: Option<&BTreeSet<&str>>) -> Result<WrittenSecrets>;
}

/// How often event subscriptions are read if they change between both reads.
const TRIES_MAX: u32 = 5;

/// Configuration whose event subscriptions have their secrets.
///
/// Both are written together, under one revision, but are read one after the other. So what is not of one
/// revision is read again: otherwise the secrets for one endpoint could be sent to another.
pub struct WithSecrets<T>(pub Arc<T>);

#[async_trait]
impl<T: Configuration + SubscriptionSecrets> Configuration for WithSecrets<T> {
    async fn topic(&self, name: &str) -> Result<Option<Topic>> {
        self.0.topic(name).await
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>> {
        let mut left = None;
        for _ in 0..TRIES_MAX {
            let found = self.0.written(topic, names).await?;
            let lacking = found.iter().filter(|(one, _)| one.lacks_secrets());
            let lacking: BTreeSet<_> =
                lacking.map(|(one, _)| name::folded(&one.key.name)).collect();
            if lacking.is_empty() {
                return Ok(found);
            }
            let lacking = lacking.iter().map(String::as_str).collect();
            let secrets = self.0.secrets(topic, names.map(|_| &lacking)).await?;
            match found.into_iter().map(|one| joined(one, &secrets)).collect() {
                Ok(whole) => return Ok(whole),
                Err(key) => left = Some(key),
            }
        }
        Err(PortError::new(
            "reading the secrets of event subscriptions",
            format!(
                "those of {} are missing, or are of another revision, at each of {TRIES_MAX} reads: if that \
                 lasts, restore its item of SECRETS# in the configuration's table, or delete its own item there, and \
                 create it again",
                left.unwrap_or_default()
            ),
        ))
    }
}

/// Adds the secrets of the same revision to an event subscription. Returns its key if they are missing.
fn joined(
    (one, revision): (EventSubscription, u64),
    secrets: &WrittenSecrets,
) -> std::result::Result<(EventSubscription, u64), String> {
    if !one.lacks_secrets() {
        return Ok((one, revision));
    }
    let found = secrets.get(&name::folded(&one.key.name));
    let of_revision = found.filter(|(_, of)| *of == revision);
    let whole = of_revision.and_then(|(secrets, _)| one.joined(secrets));
    whole.map(|whole| (whole, revision)).ok_or_else(|| one.key.to_string())
}
