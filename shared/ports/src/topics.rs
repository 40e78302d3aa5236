//! Topics and event subscriptions as they are stored: what the data plane reads, and what the resource API
//! writes. All names are found in any spelling: see [`gridpost_core::name`].

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use gridpost_core::{
    subscription::{EventSubscription, SubscriptionKey},
    topic::{AccessKeys, Topic},
};

use crate::{PortError, Saved};

/// The stored topics and event subscriptions, as the data plane reads them.
#[async_trait]
pub trait Configuration: Send + Sync {
    /// The topic of that name, in any spelling. Strongly consistent.
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError>;

    /// All event subscriptions of a topic, in the order of their folded names. Strongly consistent.
    async fn subscriptions(&self, topic: &str) -> Result<Vec<EventSubscription>, PortError> {
        Ok(self.written(topic, None).await?.into_iter().map(|(one, _)| one).collect())
    }

    /// The named event subscriptions of a topic, or all, each with the number of the topic's
    /// revision at which it was written. Each is strongly consistent by itself: a change that is
    /// being written may be visible in some and not yet in others.
    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError>;
}

#[async_trait]
impl<T: Configuration + ?Sized> Configuration for Arc<T> {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        (**self).topic(name).await
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        (**self).written(topic, names).await
    }
}

/// The access keys of topics, only for authenticating publishers.
#[async_trait]
pub trait TopicKeys: Send + Sync {
    /// A topic's access keys, with the number of the topic's revision at which they were written.
    /// Strongly consistent.
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError>;
}

/// The stored topics, as the resource API writes them.
///
/// A topic's revision moves with every change of the topic or of one of its event subscriptions.
/// Every write names the revision that it is based on, and fails if that has changed since.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// The first `most` topics by folded name, from the start or after the name `after`. Strongly
    /// consistent.
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError>;

    /// Writes a topic as revision `topic.revision + 1`, if the stored one still is `topic.revision`
    /// (0: there is none), together with access keys if given; a new topic needs some.
    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError>;

    /// Deletes a topic with its access keys, if the stored one still is `topic.revision`. Its event
    /// subscriptions must have been deleted before.
    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError>;
}

/// The stored event subscriptions, as the resource API writes them. Every write moves the topic to
/// revision `topic.revision + 1` in the same transaction, if it still is `topic.revision`.
#[async_trait]
pub trait SubscriptionStore: Send + Sync {
    /// One event subscription. Strongly consistent.
    async fn subscription(
        &self,
        key: &SubscriptionKey,
    ) -> Result<Option<EventSubscription>, PortError>;

    /// Creates or replaces an event subscription.
    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError>;

    /// Deletes event subscriptions of the topic by name, at most [`DELETED_AT_ONCE_MAX`]. Missing
    /// ones count as deleted.
    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError>;
}

/// Most event subscriptions that one call deletes: a DynamoDB transaction has at most 100 items,
/// one of which is the topic.
pub const DELETED_AT_ONCE_MAX: usize = 99;
