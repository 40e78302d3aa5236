//! Caches topics and event subscriptions in memory.

mod memory;
mod source;

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use uuid::Uuid;

use crate::{Clock, Configuration, Dice, PortError, Result, TopicKeys};
use gridpost_core::{
    name,
    publish::matching::Matcher,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, Revision, Topic},
};
use memory::{CachedTopic, Flight, Memory};
use source::Source;

/// A topic with its event subscriptions, at the topic's revision or later.
#[derive(Debug)]
pub struct TopicSnapshot {
    pub topic: Topic,
    /// Read only by a cache [`with_keys`](ConfigurationCache::with_keys).
    pub keys: Option<AccessKeys>,
    /// Ordered by name.
    pub subscriptions: Vec<Arc<EventSubscription>>,
    /// Compiled at the first publish; dispatch never needs it.
    matcher: OnceLock<Matcher>,
}

/// The approximate memory of a topic without its event subscriptions.
const TOPIC_BYTES: usize = 2_048;

impl TopicSnapshot {
    /// Returns the filters, which are compiled once per snapshot.
    pub fn matcher(&self) -> &Matcher {
        let Topic { input_schema, input_schema_mapping, .. } = &self.topic;
        let mapping = input_schema_mapping.as_ref();
        self.matcher.get_or_init(|| Matcher::new(*input_schema, mapping, &self.subscriptions))
    }

    /// Finds an event subscription by name, in any spelling.
    pub fn subscription(&self, name: &str) -> Option<&Arc<EventSubscription>> {
        self.subscriptions.iter().find(|subscription| name::is_same(&subscription.key.name, name))
    }

    /// Returns its approximate size: the topic, and three times the documents of its event
    /// subscriptions, to include the compiled filters.
    pub fn bytes(&self) -> usize {
        let document = |one: &Arc<EventSubscription>| {
            serde_json::to_string(&**one).map_or(0, |text| text.len())
        };
        TOPIC_BYTES + 3 * self.subscriptions.iter().map(document).sum::<usize>()
    }
}

/// The limits of the cache, in time and memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Older configuration is read again before use. The actual limit is a little lower, so that
    /// copies of a function that began together get out of step.
    pub fresh_for: Duration,
    /// If that read fails, it may be used up to this age.
    pub stale_for: Duration,
    /// Approximate memory, in bytes. The least recently used topics go first.
    pub bytes_max: usize,
}

impl Default for Limits {
    /// For a function of 512 MB.
    fn default() -> Self {
        Self {
            fresh_for: Duration::from_secs(2),
            stale_for: Duration::from_secs(60),
            bytes_max: 64 * 1_048_576,
        }
    }
}

/// A request for the event subscription of a delivery.
#[derive(Clone, Copy, Debug)]
pub struct SubscriptionLookup<'w> {
    pub key: &'w SubscriptionKey,
    /// Tells it from others that had the same name.
    pub uid: Uuid,
    /// The topic's revision under which the delivery was matched.
    pub revision: Revision,
    pub received_at: Timestamp,
}

impl SubscriptionLookup<'_> {
    fn find(&self, snapshot: Option<Arc<TopicSnapshot>>) -> Option<Owner> {
        let topic = snapshot?;
        let subscription = topic.subscription(&self.key.name)?;
        let subscription = Arc::clone(subscription);
        (subscription.uid == self.uid).then_some(Owner { topic, subscription })
    }
}

/// A topic and one of its event subscriptions.
#[derive(Clone, Debug)]
pub struct Owner {
    pub topic: Arc<TopicSnapshot>,
    pub subscription: Arc<EventSubscription>,
}

/// Caches topics with their event subscriptions in memory.
///
/// A refresh reads the topic and, if its revision has moved, what its latest changes name.
/// Concurrent requests for a topic share one read.
///
/// The resource API waits for ingest's [`Limits::fresh_for`] after a write before it answers, so a
/// publish that begins after the answer is matched under the new configuration.
pub struct ConfigurationCache {
    source: Source,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    limits: Limits,
    memory: Arc<Mutex<Memory>>,
}

type Reading = Shared<BoxFuture<'static, Result<CachedTopic>>>;

/// The largest share by which the time until a refresh is shortened.
const JITTER: f64 = 0.2;

impl ConfigurationCache {
    pub fn new(
        source: Arc<dyn Configuration>,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        limits: Limits,
    ) -> Self {
        let source = Source { configuration: source, keys: None };
        Self { source, clock, dice, limits, memory: Arc::default() }
    }

    /// Reads topics' access keys, too.
    #[must_use]
    pub fn with_keys(mut self, keys: Arc<dyn TopicKeys>) -> Self {
        self.source.keys = Some(keys);
        self
    }

    /// Returns a topic, by its name in any spelling, no older than [`Limits::fresh_for`]; `None` if it
    /// does not exist. Fails if the table can't be read and the cached topic is too old.
    pub async fn topic(&self, name: &str) -> Result<Option<Arc<TopicSnapshot>>> {
        self.topic_at_least(name, Revision::default()).await
    }

    /// [`Self::topic`] at that revision or newer; an older one if there is no newer or the read fails.
    pub async fn topic_at_least(
        &self,
        name: &str,
        revision: Revision,
    ) -> Result<Option<Arc<TopicSnapshot>>> {
        let now = self.clock.now();
        let suits = |kept: &CachedTopic| {
            let known = kept.snapshot.as_ref().map(|snapshot| snapshot.topic.at());
            now.since(kept.read_at) < kept.fresh_for && known.is_none_or(|known| known >= revision)
        };
        match self.read_unless(name, suits, now).await {
            Ok(kept) => Ok(kept.snapshot),
            Err(error) => self.stale(name, now, error).map(Some),
        }
    }

    /// [`Self::topic`] as of a read that began at or after `time`. Only such a read proves that
    /// something does not exist.
    pub async fn topic_read_after(
        &self,
        name: &str,
        time: Timestamp,
    ) -> Result<Option<Arc<TopicSnapshot>>> {
        let kept = self.read_unless(name, |kept| kept.read_at >= time, time).await?;
        Ok(kept.snapshot)
    }

    /// Returns the event subscription of a delivery; `None` if it or its topic was deleted, as a read
    /// after the message's arrival shows. Fails if the table can't be read and the cache does not
    /// suffice.
    pub async fn subscription(&self, wanted: SubscriptionLookup<'_>) -> Result<Option<Owner>> {
        let topic = &wanted.key.topic;
        let known = self.topic_at_least(topic, wanted.revision).await?;
        if let Some(found) = wanted.find(known) {
            return Ok(Some(found));
        }
        Ok(wanted.find(self.topic_read_after(topic, wanted.received_at).await?))
    }

    /// Returns the cached topic if it suits, otherwise the next read that suits or began at or after
    /// `not_before`.
    async fn read_unless(
        &self,
        name: &str,
        suits: impl Fn(&CachedTopic) -> bool,
        not_before: Timestamp,
    ) -> Result<CachedTopic> {
        let name = &name::folded(name);
        loop {
            let (began_at, reading) = {
                let mut memory = self.memory();
                if let Some(kept) = memory.get(name).filter(&suits) {
                    return Ok(kept);
                }
                match memory.flight(name) {
                    Some(flight) => flight,
                    // It begins now, so it serves all requests made now, whatever the clock says.
                    None => (Timestamp::MAX, self.begin(&mut memory, name)),
                }
            };
            let read = reading.await;
            if began_at >= not_before || read.as_ref().is_ok_and(&suits) {
                return read;
            }
        }
    }

    fn begin(&self, memory: &mut Memory, name: &str) -> Reading {
        let began_at = self.clock.now();
        let fresh_for = self.limits.fresh_for.mul_f64(1.0 - JITTER * self.dice.roll());
        let before = memory.get(name).and_then(|kept| kept.snapshot);
        let (source, memory_of_all) = (self.source.clone(), Arc::clone(&self.memory));
        let (topic, bytes_max) = (name.to_owned(), self.limits.bytes_max);
        let reading = async move {
            let read = source.read(&topic, before).await;
            let mut memory = memory_of_all.lock().expect("no panic while held");
            memory.land(&topic);
            // The age counts from before the read: what was written during it may be missing.
            let kept = CachedTopic { read_at: began_at, fresh_for, snapshot: read? };
            memory.keep(topic, kept.clone(), bytes_max);
            Ok(kept)
        };
        let reading = reading.boxed().shared();
        memory.take_off(name, Flight::new(began_at, &reading));
        reading
    }

    /// Returns the cached topic while it may be used without a refresh, otherwise `error`.
    fn stale(&self, name: &str, now: Timestamp, error: PortError) -> Result<Arc<TopicSnapshot>> {
        let kept = self.memory().get(&name::folded(name));
        let usable = kept.filter(|kept| now.since(kept.read_at) < self.limits.stale_for);
        usable.and_then(|kept| kept.snapshot).ok_or(error)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("no panic while held")
    }
}
