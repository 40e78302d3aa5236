//! Topics and event subscriptions, as functions read them and tests add them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use gridpost_core::{
    name,
    subscription::{EventSubscription, SubscriptionKey},
    topic::{
        AccessKeys,
        Change::{self, Keys},
        Topic,
    },
};
use gridpost_ports::{Configuration, PortError, SubscriptionSecrets, TopicKeys, WrittenSecrets};

use super::{Items, Tables};
use crate::fixtures;

impl Items {
    /// Moves a topic to its next revision, made by these changes. Returns its number.
    fn move_on(&mut self, topic: &str, changes: impl IntoIterator<Item = Change>) -> Option<u64> {
        let topic = self.topics.get_mut(&name::folded(topic))?;
        *topic = topic.next(changes);
        Some(topic.revision)
    }

    fn put(&mut self, subscription: &EventSubscription, revision: u64) {
        self.subscriptions.insert(subscription.key.clone(), (subscription.clone(), revision));
    }
}

impl Tables {
    /// Replaces a topic and its event subscriptions.
    pub fn configure(&self, topic: Topic, subscriptions: Vec<EventSubscription>) {
        let mut items = self.items();
        let before = items.topics.get(&name::folded(&topic.name));
        let before = before.filter(|before| before.created_at == topic.created_at);
        let (revision, changes) =
            before.map(|before| (before.revision, before.changes.clone())).unwrap_or_default();
        let gone = items.subscriptions.keys().filter(|key| name::is_same(&key.topic, &topic.name));
        let gone = gone.map(|key| Change::deleted(&key.name));
        let written = subscriptions.iter().map(|one| Change::written(&one.key.name));
        let all: Vec<_> = gone.chain(written).chain([Keys]).collect();
        let topic = Topic { revision, changes, ..topic }.next(all);
        items.subscriptions.retain(|key, _| !name::is_same(&key.topic, &topic.name));
        subscriptions.iter().for_each(|subscription| items.put(subscription, topic.revision));
        items.topics.insert(name::folded(&topic.name), topic);
    }

    /// Gives a topic other access keys than [`fixtures::access_keys`].
    pub fn give_keys(&self, topic: &str, keys: AccessKeys) {
        let mut items = self.items();
        let revision = items.move_on(topic, [Keys]).unwrap_or_default();
        items.keys.insert(name::folded(topic), (keys, revision));
    }

    /// Changes an event subscription, if it exists.
    pub fn change(&self, key: &SubscriptionKey, change: impl FnOnce(&mut EventSubscription)) {
        let found = self.items().subscriptions.get(key).map(|(found, _)| found.clone());
        let Some(mut subscription) = found else { return };
        change(&mut subscription);
        self.write_subscription(&subscription);
    }

    /// Returns the event subscriptions of these names, or all, with their secrets.
    fn whole(&self, topic: &str, names: Option<&BTreeSet<&str>>) -> Vec<(EventSubscription, u64)> {
        let items = self.items();
        let is_asked_for = |key: &SubscriptionKey| {
            let is_named = |name: &&str| name::is_same(name, &key.name);
            name::is_same(&key.topic, topic) && names.is_none_or(|names| names.iter().any(is_named))
        };
        let found = items.subscriptions.iter().filter(|(key, _)| is_asked_for(key));
        found.map(|(_, written)| written.clone()).collect()
    }

    /// Creates or replaces an event subscription.
    pub fn write_subscription(&self, subscription: &EventSubscription) {
        let mut items = self.items();
        let SubscriptionKey { topic, name } = &subscription.key;
        let revision = items.move_on(topic, [Change::written(name)]);
        items.put(subscription, revision.unwrap_or_default());
    }

    /// Deletes an event subscription, if it exists.
    pub fn delete_subscription(&self, key: &SubscriptionKey) {
        let mut items = self.items();
        if items.subscriptions.remove(key).is_some() {
            items.move_on(&key.topic, [Change::deleted(&key.name)]);
        }
    }
}

#[async_trait]
impl Configuration for Tables {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        Ok(self.items().topics.get(&name::folded(name)).cloned())
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        let found = self.whole(topic, names).into_iter();
        Ok(found.map(|(one, revision)| (one.split().0, revision)).collect())
    }
}

#[async_trait]
impl SubscriptionSecrets for Tables {
    async fn secrets(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<WrittenSecrets, PortError> {
        let found = self.whole(topic, names).into_iter();
        let secrets = |(one, revision): (EventSubscription, u64)| {
            Some((name::folded(&one.key.name), (one.split().1?, revision)))
        };
        Ok(found.filter_map(secrets).collect())
    }
}

#[async_trait]
impl TopicKeys for Tables {
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError> {
        let items = self.items();
        let topic = name::folded(topic);
        let Some(found) = items.topics.get(&topic) else { return Ok(None) };
        let given = items.keys.get(&topic).cloned();
        Ok(Some(given.unwrap_or_else(|| (fixtures::access_keys(), found.revision))))
    }
}
