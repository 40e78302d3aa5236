//! Topics and event subscriptions, kept in memory for a short while.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use crate::{Clock, Configuration, PortError};
use gridpost_core::{
    publish::matching::Matcher, subscription::EventSubscription, time::Timestamp, topic::Topic,
};

/// A topic with its event subscriptions, as they were at one revision.
#[derive(Debug)]
pub struct TopicSnapshot {
    /// The topic.
    pub topic: Topic,
    /// Its event subscriptions.
    pub subscriptions: Vec<Arc<EventSubscription>>,
    /// Made at the first publish: dispatch never needs it.
    matcher: OnceLock<Matcher>,
}

impl TopicSnapshot {
    /// A topic with its event subscriptions.
    pub fn new(topic: Topic, subscriptions: Vec<Arc<EventSubscription>>) -> Self {
        Self { topic, subscriptions, matcher: OnceLock::new() }
    }

    /// What finds out who wants an event: compiled once for the life of the snapshot.
    pub fn matcher(&self) -> &Matcher {
        self.matcher.get_or_init(|| Matcher::new(self.topic.input_schema, &self.subscriptions))
    }

    /// The event subscription of that name.
    pub fn subscription(&self, name: &str) -> Option<&Arc<EventSubscription>> {
        self.subscriptions.iter().find(|subscription| subscription.key.name == name)
    }
}

/// Reads the configuration, at most once in each `keep_for` for a topic.
///
/// A refresh reads the topic alone; its event subscriptions are read again only when the topic's
/// revision has moved. The resource API answers a change no sooner than `keep_for` after writing it,
/// so whoever has the answer finds every later publish under the new configuration.
pub struct ConfigurationCache<C> {
    source: C,
    clock: Arc<dyn Clock>,
    keep_for: Duration,
    kept: Mutex<HashMap<String, Kept>>,
}

/// What was read, and when. A topic that does not exist is kept too.
#[derive(Clone)]
struct Kept {
    read_at: Timestamp,
    snapshot: Option<Arc<TopicSnapshot>>,
}

/// Names of topics that do not exist are kept up to this many, so that a scan of names costs no
/// memory.
const KEPT_MAX: usize = 10_000;

impl<C: Configuration> ConfigurationCache<C> {
    /// A cache that keeps what it reads from `source` for `keep_for`.
    pub fn new(source: C, clock: Arc<dyn Clock>, keep_for: Duration) -> Self {
        Self { source, clock, keep_for, kept: Mutex::default() }
    }

    /// The topic with its event subscriptions, or `None` if there is no such topic.
    ///
    /// # Errors
    ///
    /// The table could not be read and nothing fresh enough is in memory.
    pub async fn topic(&self, name: &str) -> Result<Option<Arc<TopicSnapshot>>, PortError> {
        let now = self.clock.now();
        let kept = self.kept.lock().expect("no panic while held").get(name).cloned();
        match &kept {
            Some(kept) if now.since(kept.read_at) < self.keep_for => {
                return Ok(kept.snapshot.clone());
            }
            _ => {}
        }
        let snapshot = self.read(name, kept.and_then(|kept| kept.snapshot)).await?;
        let mut all = self.kept.lock().expect("no panic while held");
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        // The age counts from before the read: what was written during it may be missing.
        all.insert(name.to_owned(), Kept { read_at: now, snapshot: snapshot.clone() });
        Ok(snapshot)
    }

    async fn read(
        &self,
        name: &str,
        before: Option<Arc<TopicSnapshot>>,
    ) -> Result<Option<Arc<TopicSnapshot>>, PortError> {
        let Some(topic) = self.source.topic(name).await? else { return Ok(None) };
        if let Some(before) = before
            && before.topic.revision == topic.revision
            && before.topic.created_at == topic.created_at
        {
            return Ok(Some(before));
        }
        // Read after the topic: they are at its revision or newer, and newer ones are read again.
        let subscriptions =
            self.source.subscriptions(name).await?.into_iter().map(Arc::new).collect();
        Ok(Some(Arc::new(TopicSnapshot::new(topic, subscriptions))))
    }
}
