//! Cached topics, and reads in progress.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::{BoxFuture, WeakShared};
use gridpost_core::time::Timestamp;

use super::{Reading, TopicSnapshot};
use crate::Result;

/// The most missing names that are cached: a scan of names must not push out existing topics.
const UNKNOWN_MAX: usize = 4_096;

/// A topic, or its absence, as it was read.
#[derive(Clone, Debug)]
pub(super) struct CachedTopic {
    pub(super) read_at: Timestamp,
    /// How long it serves without a refresh.
    pub(super) fresh_for: Duration,
    pub(super) snapshot: Option<Arc<TopicSnapshot>>,
}

/// A read in progress. It ends when the last waiting caller is dropped.
pub(super) struct Flight {
    began_at: Timestamp,
    reading: Option<WeakShared<BoxFuture<'static, Result<CachedTopic>>>>,
}

impl Flight {
    pub(super) fn new(began_at: Timestamp, reading: &Reading) -> Self {
        Self { began_at, reading: reading.downgrade() }
    }
}

/// Topics by folded name.
#[derive(Default)]
pub(super) struct Memory {
    topics: HashMap<String, Entry>,
    unknown: HashMap<String, CachedTopic>,
    flights: HashMap<String, Flight>,
    bytes: usize,
    uses: u64,
}

struct Entry {
    kept: CachedTopic,
    bytes: usize,
    used: u64,
}

impl Memory {
    pub(super) fn get(&mut self, name: &str) -> Option<CachedTopic> {
        self.uses += 1;
        if let Some(place) = self.topics.get_mut(name) {
            place.used = self.uses;
            return Some(place.kept.clone());
        }
        self.unknown.get(name).cloned()
    }

    /// Caches a topic in place of the old one, and removes topics beyond the limit.
    pub(super) fn keep(&mut self, name: String, kept: CachedTopic, bytes_max: usize) {
        let before = self.forget(&name);
        let Some(snapshot) = &kept.snapshot else {
            if self.unknown.len() >= UNKNOWN_MAX {
                self.unknown.clear();
            }
            self.unknown.insert(name, kept);
            return;
        };
        let same = before.filter(|before| {
            before.kept.snapshot.as_ref().is_some_and(|before| Arc::ptr_eq(before, snapshot))
        });
        let bytes = same.map_or_else(|| snapshot.bytes(), |before| before.bytes);
        while self.bytes + bytes > bytes_max
            && let Some(oldest) = self.least_recently_used()
        {
            self.forget(&oldest);
        }
        self.bytes += bytes;
        self.uses += 1;
        self.topics.insert(name, Entry { kept, bytes, used: self.uses });
    }

    /// Returns the topic's read in progress, and when it began.
    pub(super) fn flight(&self, name: &str) -> Option<(Timestamp, Reading)> {
        let flight = self.flights.get(name)?;
        let reading = flight.reading.as_ref()?.upgrade()?;
        Some((flight.began_at, reading))
    }

    pub(super) fn take_off(&mut self, name: &str, flight: Flight) {
        // Reads whose callers were all dropped never land.
        let is_up =
            |flight: &Flight| flight.reading.as_ref().and_then(WeakShared::upgrade).is_some();
        self.flights.retain(|_, flight| is_up(flight));
        self.flights.insert(name.to_owned(), flight);
    }

    pub(super) fn land(&mut self, name: &str) {
        self.flights.remove(name);
    }

    fn forget(&mut self, name: &str) -> Option<Entry> {
        self.unknown.remove(name);
        let place = self.topics.remove(name)?;
        self.bytes -= place.bytes;
        Some(place)
    }

    fn least_recently_used(&self) -> Option<String> {
        let oldest = self.topics.iter().min_by_key(|(_, place)| place.used);
        oldest.map(|(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_no_topics_are_bounded() {
        let mut memory = Memory::default();
        let unknown = CachedTopic {
            read_at: Timestamp::from_millis(0),
            fresh_for: Duration::from_secs(2),
            snapshot: None,
        };
        for number in 0..10 * UNKNOWN_MAX {
            memory.keep(number.to_string(), unknown.clone(), 0);
            assert!(memory.get(&number.to_string()).is_some());
        }
        assert!(memory.unknown.len() <= UNKNOWN_MAX, "{} are kept", memory.unknown.len());
    }
}
