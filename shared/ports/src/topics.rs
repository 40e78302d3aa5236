//! Stored topics and event subscriptions, for the data plane and the resource API. Names match in any
//! spelling: see [`gridpost_core::name`].

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use gridpost_core::{
    subscription::{EventSubscription, SubscriptionKey},
    topic::{AccessKeys, Topic},
};

use crate::{Result, Saved};

/// Reads topics and event subscriptions. The secrets of event subscriptions are
/// [apart](crate::SubscriptionSecrets).
#[async_trait]
pub trait Configuration: Send + Sync {
    /// Reads a topic. Strongly consistent.
    async fn topic(&self, name: &str) -> Result<Option<Topic>>;

    /// Reads all event subscriptions of a topic, ordered by folded name. Strongly consistent.
    async fn subscriptions(&self, topic: &str) -> Result<Vec<EventSubscription>> {
        Ok(self.written(topic, None).await?.into_iter().map(|(one, _)| one).collect())
    }

    /// Reads an event subscription. Strongly consistent.
    async fn subscription(&self, key: &SubscriptionKey) -> Result<Option<EventSubscription>> {
        let names = BTreeSet::from([key.name.as_str()]);
        let found = self.written(&key.topic, Some(&names)).await?;
        Ok(found.into_iter().next().map(|(one, _)| one))
    }

    /// Reads the named event subscriptions, or all, each with the topic's revision at which it was
    /// written. Each read is strongly consistent, but a change may be visible in some and not yet in
    /// others.
    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>>;
}

#[async_trait]
impl<T: Configuration + ?Sized> Configuration for Arc<T> {
    async fn topic(&self, name: &str) -> Result<Option<Topic>> {
        (**self).topic(name).await
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>> {
        (**self).written(topic, names).await
    }
}

/// The access keys of topics, only for authenticating publishers.
#[async_trait]
pub trait TopicKeys: Send + Sync {
    /// Reads a topic's access keys, with the topic's revision at which they were written. Strongly
    /// consistent.
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>>;
}

/// Stores topics for the resource API. A topic's revision moves with every change of the topic or of
/// its event subscriptions. A write fails if the topic is no longer at the revision it names.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// Lists the first `most` topics by folded name, from the start or after `after`. Strongly
    /// consistent.
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>>;

    /// Writes a topic as revision `topic.revision + 1`, if the stored one still is `topic.revision`
    /// (0: there is none), together with access keys if given; a new topic needs some.
    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved>;

    /// Deletes a topic with its access keys, if the stored one still is `topic.revision`. Its event
    /// subscriptions must have been deleted before.
    async fn delete(&self, topic: &Topic) -> Result<Saved>;
}

/// Stores event subscriptions for the resource API. Every write moves the topic to
/// revision `topic.revision + 1` in the same transaction, if it still is `topic.revision`.
#[async_trait]
pub trait SubscriptionStore: Send + Sync {
    /// Writes an event subscription, and its secrets apart from it.
    async fn save(&self, topic: &Topic, subscription: &EventSubscription) -> Result<Saved>;

    /// Deletes event subscriptions of the topic with their secrets by name, at most [`DELETED_AT_ONCE_MAX`]. Missing
    /// ones count as deleted.
    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved>;
}

/// The most event subscriptions that one call deletes: a DynamoDB transaction has at most 100 items,
/// one of which is the topic, and two of each event subscription.
pub const DELETED_AT_ONCE_MAX: usize = 49;
