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
/// revision is read again, and that alone: otherwise the secrets for one endpoint could be sent to another.
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
        let (mut whole, mut left) = (Vec::new(), None::<BTreeSet<String>>);
        for _ in 0..TRIES_MAX {
            let again = left.as_ref().map(|left| left.iter().map(String::as_str).collect());
            let names = again.as_ref().or(names);
            let found = self.0.written(topic, names).await?;
            let lacking = found.iter().filter(|(one, _)| one.lacks_secrets());
            let lacking: BTreeSet<_> =
                lacking.map(|(one, _)| name::folded(&one.key.name)).collect();
            let secrets = match lacking.iter().map(String::as_str).collect::<BTreeSet<_>>() {
                lacking if lacking.is_empty() => WrittenSecrets::new(),
                lacking => self.0.secrets(topic, names.map(|_| &lacking)).await?,
            };
            let mut missing = BTreeSet::new();
            for one in found {
                match joined(one, &secrets) {
                    Ok(one) => whole.push(one),
                    Err(name) => _ = missing.insert(name),
                }
            }
            if missing.is_empty() {
                whole.sort_by_cached_key(|(one, _)| name::folded(&one.key.name));
                return Ok(whole);
            }
            left = Some(missing);
        }
        let left: Vec<_> = left.into_iter().flatten().collect();
        Err(PortError::new(
            "reading the secrets of event subscriptions",
            format!(
                "those of {} in topic {topic} are missing, or are of another revision, at each of {TRIES_MAX} \
                 reads: if that lasts, restore the SECRETS# items in the configuration's table, or delete these event \
                 subscriptions and create them again",
                left.join(", ")
            ),
        ))
    }
}

/// Adds the secrets of the same revision to an event subscription. Returns its folded name if they are missing.
fn joined(
    (one, revision): (EventSubscription, u64),
    secrets: &WrittenSecrets,
) -> std::result::Result<(EventSubscription, u64), String> {
    if !one.lacks_secrets() {
        return Ok((one, revision));
    }
    let name = name::folded(&one.key.name);
    let of_revision = secrets.get(&name).filter(|(_, of)| *of == revision);
    let whole = of_revision.and_then(|(secrets, _)| one.joined(secrets));
    whole.map(|whole| (whole, revision)).ok_or(name)
}
