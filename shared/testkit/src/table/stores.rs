//! The tables as the resource API reads and writes them: every write names the revision of the
//! topic that it is based on.

use std::cmp::Ordering;

use async_trait::async_trait;
use gridpost_core::{
    delivery::state::{DeliveryState, DeliveryStatus},
    name,
    retry::health::Health,
    subscription::{EventSubscription, SubscriptionKey},
    topic::{AccessKeys, Change, Topic},
};
use gridpost_ports::{
    Clock, DELETED_AT_ONCE_MAX, PortError, Saved, SubscriptionStore, TopicStore, WaitingDeliveries,
    WaitingTally,
};
use uuid::Uuid;

use super::{Items, Tables, stored};

impl Tables {
    pub fn stored_topics(&self) -> Vec<Topic> {
        self.items().topics.values().cloned().collect()
    }

    /// The stored event subscriptions of all topics, by topic and name.
    pub fn stored_subscriptions(&self) -> Vec<EventSubscription> {
        self.items().subscriptions.values().map(|(one, _)| one.clone()).collect()
    }

    /// The stored healths, by the uids of their event subscriptions.
    pub fn healths(&self) -> Vec<(Uuid, Health)> {
        self.items().healths.iter().map(|(uid, health)| (*uid, health.clone())).collect()
    }

    /// Deletes a topic and its event subscriptions, as another caller would.
    pub fn forget_topic(&self, name: &str) {
        let mut items = self.items();
        let name = name::folded(name);
        items.topics.remove(&name);
        items.keys.remove(&name);
        items.subscriptions.retain(|key, _| !name::is_same(&key.topic, &name));
    }

    /// Replaces a state, with its revision.
    pub fn put_state(&self, state: DeliveryState) {
        self.items().states.insert(state.id, state);
    }

    pub fn put_health(&self, uid: Uuid, health: Health) {
        self.items().healths.insert(uid, health);
    }

    /// Writes if the stored topic is the one that the write is based on.
    fn write(
        &self,
        topic: &Topic,
        write: impl FnOnce(&mut Items) -> Result<(), PortError>,
    ) -> Result<Saved, PortError> {
        let mut items = self.items();
        let is_as_it_was = match items.topics.get(&name::folded(&topic.name)) {
            None => topic.revision == 0,
            Some(stored) => {
                (stored.revision, stored.created_at) == (topic.revision, topic.created_at)
            }
        };
        if !is_as_it_was {
            return Ok(Saved::Conflict);
        }
        write(&mut items)?;
        Ok(Saved::Written)
    }

    fn refuse(&self, what: &'static str) -> PortError {
        let mut history = self.history.lock().expect("no panic while held");
        history.violation(self.clock.now(), what);
        PortError::new("dynamodb", what)
    }
}

/// Stores the topic at its next revision, made by these changes. Returns its number.
fn next_revision(
    items: &mut Items,
    topic: &Topic,
    changes: impl IntoIterator<Item = Change>,
) -> Result<u64, PortError> {
    let Topic { revision, changes, .. } = topic.next(changes);
    let next = Topic { revision, changes, ..stored(topic)? };
    items.topics.insert(name::folded(&topic.name), next);
    Ok(revision)
}

#[async_trait]
impl TopicStore for Tables {
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError> {
        let items = self.items();
        let is_behind =
            |it: &&Topic| after.is_none_or(|at| name::compare(&it.name, at) == Ordering::Greater);
        let behind = items.topics.values().filter(is_behind);
        Ok(behind.take(most).cloned().collect())
    }

    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError> {
        self.write(topic, |items| {
            let revision = next_revision(items, topic, keys.map(|_| Change::Keys))?;
            if let Some(keys) = keys {
                items.keys.insert(name::folded(&topic.name), (keys.clone(), revision));
            }
            Ok(())
        })
    }

    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError> {
        self.write(topic, |items| {
            if items.subscriptions.keys().any(|key| name::is_same(&key.topic, &topic.name)) {
                return Err(self.refuse("a topic was deleted before its event subscriptions"));
            }
            let name = name::folded(&topic.name);
            items.topics.remove(&name);
            items.keys.remove(&name);
            Ok(())
        })
    }
}

#[async_trait]
impl SubscriptionStore for Tables {
    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError> {
        let next = stored(subscription)?;
        let saved = self.write(topic, |items| {
            let written = Change::written(&subscription.key.name);
            let revision = next_revision(items, topic, [written])?;
            items.subscriptions.insert(subscription.key.clone(), (next, revision));
            Ok(())
        })?;
        if saved == Saved::Written {
            let mut history = self.history.lock().expect("no panic while held");
            history.note_written(self.clock.now(), subscription);
        }
        Ok(saved)
    }

    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError> {
        if names.len() > DELETED_AT_ONCE_MAX {
            return Err(self.refuse("a transaction was to delete more than it takes"));
        }
        self.write(topic, |items| {
            next_revision(items, topic, names.iter().map(|name| Change::deleted(name)))?;
            for name in names {
                let key = SubscriptionKey { topic: topic.name.clone(), name: name.clone() };
                items.subscriptions.remove(&key);
            }
            Ok(())
        })
    }
}

/// Ended deliveries are not in the index.
#[async_trait]
impl WaitingDeliveries for Tables {
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError> {
        use DeliveryStatus::{Ending, Waiting};
        let items = self.items();
        let waits = |state: &&DeliveryState| {
            state.subscription_uid == uid
                && matches!(state.status, Waiting { .. } | Ending { .. })
                && after.is_none_or(|after| *state.place() > *after)
        };
        let mut found: Vec<_> = items.states.values().filter(waits).cloned().collect();
        found.sort_by_key(DeliveryState::place);
        found.truncate(most);
        Ok(found)
    }

    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError> {
        Ok(self.waiting(uid, None, most).await?.len())
    }

    async fn tally(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<WaitingTally, PortError> {
        let found = self.waiting(uid, after, most).await?;
        let next = found.last().filter(|_| found.len() >= most).map(DeliveryState::place);
        let mut tally = WaitingTally { next, ..WaitingTally::default() };
        found.iter().for_each(|state| tally.add(state));
        Ok(tally)
    }
}
