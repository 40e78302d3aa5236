//! Reads from a topic what its latest changes make necessary.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use futures::future::try_join;
use gridpost_core::{
    name,
    subscription::EventSubscription,
    topic::{AccessKeys, Topic},
};

use super::TopicSnapshot;
use crate::{Configuration, PortError, Result, TopicKeys};

#[derive(Clone)]
pub(super) struct Source {
    pub(super) configuration: Arc<dyn Configuration>,
    pub(super) keys: Option<Arc<dyn TopicKeys>>,
}

/// How often a topic is read if it changes during the read.
const TRIES_MAX: u32 = 5;

impl Source {
    /// Reads a topic, if it exists. `before` is an earlier snapshot.
    pub(super) async fn read(
        &self,
        name: &str,
        before: Option<Arc<TopicSnapshot>>,
    ) -> Result<Option<Arc<TopicSnapshot>>> {
        for _ in 0..TRIES_MAX {
            // The topic comes first: the rest is at its revision or newer, and newer parts are read again.
            let Some(topic) = self.configuration.topic(name).await? else { return Ok(None) };
            if let Some(before) = &before
                && before.topic.at() == topic.at()
            {
                return Ok(Some(Arc::clone(before)));
            }
            if let Some(snapshot) = self.read_parts(topic, before.as_deref()).await? {
                return Ok(Some(Arc::new(snapshot)));
            }
        }
        Err(PortError::new("reading a topic", "it changed during every read"))
    }

    /// Reads what belongs to a topic; `None` if a change is not completely visible yet.
    async fn read_parts(
        &self,
        topic: Topic,
        before: Option<&TopicSnapshot>,
    ) -> Result<Option<TopicSnapshot>> {
        // A recreated topic, or one restored from a backup, is another topic.
        let before = before.filter(|before| {
            before.topic.created_at == topic.created_at && before.topic.revision < topic.revision
        });
        let since = before.and_then(|before| {
            topic.changes.since(before.topic.revision).map(|since| (before, since))
        });
        let keys = match &since {
            Some((before, since)) if !since.keys => CachedKeys::Same(before.keys.clone()),
            _ => CachedKeys::Read,
        };
        let names = since.map(|(before, since)| (before, since.names));
        let parts = try_join(self.keys(&topic, keys), self.subscriptions(&topic, names)).await?;
        let (Some(keys), Some(subscriptions)) = parts else { return Ok(None) };
        Ok(Some(TopicSnapshot { topic, keys, subscriptions, matcher: OnceLock::new() }))
    }

    async fn keys(&self, topic: &Topic, kept: CachedKeys) -> Result<Option<Option<AccessKeys>>> {
        match (&self.keys, kept) {
            (None, _) => Ok(Some(None)),
            (_, CachedKeys::Same(keys)) => Ok(Some(keys)),
            (Some(store), CachedKeys::Read) => {
                let found = store.keys(&topic.name).await?;
                let in_time = found.filter(|(_, revision)| topic.changes.are_in_keys(*revision));
                Ok(in_time.map(|(keys, _)| Some(keys)))
            }
        }
    }

    async fn subscriptions(
        &self,
        topic: &Topic,
        changed: Option<(&TopicSnapshot, BTreeSet<&str>)>,
    ) -> Result<Option<Vec<Arc<EventSubscription>>>> {
        let (kept, names) = match changed {
            None => (Vec::new(), None),
            Some((before, names)) => {
                let is_kept = |one: &&Arc<_>| is_kept(one, &names);
                (before.subscriptions.iter().filter(is_kept).cloned().collect(), Some(names))
            }
        };
        if names.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(Some(kept));
        }
        let found = self.configuration.written(&topic.name, names.as_ref()).await?;
        let revisions: BTreeMap<_, _> =
            found.iter().map(|(one, revision)| (name::folded(&one.key.name), *revision)).collect();
        let is_asked_for = |name: &str| names.as_ref().is_none_or(|names| names.contains(name));
        if !topic.changes.are_in(is_asked_for, |name| revisions.get(name).copied()) {
            return Ok(None);
        }
        let read = found.into_iter().map(|(one, _)| Arc::new(one));
        let mut all: Vec<_> = kept.into_iter().chain(read).collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(Some(all))
    }
}

enum CachedKeys {
    Same(Option<AccessKeys>),
    Read,
}

fn is_kept(one: &EventSubscription, changed: &BTreeSet<&str>) -> bool {
    !changed.contains(name::folded(&one.key.name).as_str())
}
