//! Values that are fetched once for all who wait, and cached while fresh.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::lock::Mutex as Turn;
use gridpost_core::{
    subscription::authentication::token::{NoToken, Token},
    time::Timestamp,
};

use crate::Clock;

/// How long a failure is repeated, so that not every event asks a token endpoint that is down.
const FAILURE_KEPT_FOR: Duration = Duration::from_secs(2);

/// How soon another is asked for while the last one is still valid.
const REPEATED_AFTER: Duration = Duration::from_secs(10);
const KEPT_MAX: usize = 1_024;

/// A value that expires.
pub trait Lasting: Clone + PartialEq {
    fn fetched_at(&self) -> Timestamp;

    /// Whether it can be used without asking for another.
    fn is_fresh(&self, now: Timestamp) -> bool;

    /// Whether it can be used if no other is available.
    fn is_valid(&self, now: Timestamp) -> bool;
}

impl Lasting for Token {
    fn fetched_at(&self) -> Timestamp {
        self.fetched_at
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        Self::is_fresh(self, now)
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        Self::is_valid(self, now)
    }
}

/// Caches fetched values by key.
pub struct Kept<K, V> {
    clock: Arc<dyn Clock>,
    places: Mutex<HashMap<K, Arc<Slot<V>>>>,
}

struct Slot<V> {
    last: Mutex<Last<V>>,
    /// Held while fetching.
    turn: Turn<()>,
}

/// The last result.
#[derive(Clone)]
enum Last<V> {
    Nothing,
    Value(V),
    /// No longer fresh, but no other was available at that time.
    Old(V, Timestamp),
    Failure(NoToken, Timestamp),
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Self { last: Mutex::new(Last::Nothing), turn: Turn::default() }
    }
}

impl<V: Lasting> Slot<V> {
    /// Returns the last result if it answers a request of `asked_at`: a fresh value, or what was fetched
    /// since.
    fn answer(&self, asked_at: Timestamp, now: Timestamp) -> Option<Result<V, NoToken>> {
        match &*open(&self.last) {
            Last::Nothing => None,
            Last::Value(value) => {
                let is_for_it = value.is_fresh(now) || value.fetched_at() > asked_at;
                is_for_it.then(|| Ok(value.clone()))
            }
            Last::Old(value, at) => {
                let is_new = *at >= asked_at || now.since(*at) < REPEATED_AFTER;
                (is_new && value.is_valid(now)).then(|| Ok(value.clone()))
            }
            Last::Failure(error, at) => {
                let is_new = *at >= asked_at || now.since(*at) < FAILURE_KEPT_FOR;
                is_new.then(|| Err(error.clone()))
            }
        }
    }

    /// Stores what was fetched. If nothing was, the previous value is returned while valid.
    fn keep(&self, fetched: Result<V, NoToken>, now: Timestamp) -> Result<V, NoToken> {
        let mut last = open(&self.last);
        let before = match &*last {
            Last::Value(value) | Last::Old(value, _) if value.is_valid(now) => Some(value.clone()),
            _ => None,
        };
        let (kept, answer) = match (fetched, before) {
            (Ok(value), _) => (Last::Value(value.clone()), Ok(value)),
            (Err(_), Some(before)) => (Last::Old(before.clone(), now), Ok(before)),
            (Err(error), None) => (Last::Failure(error.clone(), now), Err(error)),
        };
        *last = kept;
        answer
    }
}

impl<K: Clone + Eq + Hash, V: Lasting> Kept<K, V> {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, places: Mutex::default() }
    }

    /// Returns the value of `key`, fetched if necessary.
    pub async fn get<F>(&self, key: &K, fetch: impl FnOnce() -> F) -> Result<V, NoToken>
    where
        F: Future<Output = Result<V, NoToken>>,
    {
        let asked_at = self.clock.now();
        let place = self.place(key);
        if let Some(answer) = place.answer(asked_at, asked_at) {
            return answer;
        }
        let _turn = place.turn.lock().await;
        // The previous holder may have fetched it.
        if let Some(answer) = place.answer(asked_at, self.clock.now()) {
            return answer;
        }
        let fetched = fetch().await;
        place.keep(fetched, self.clock.now())
    }

    /// Lets the next request for `key` fetch a new value, if `is` still recognises the cached one. Until
    /// then, the old one remains available.
    pub fn forget_if(&self, key: &K, is: impl FnOnce(&V) -> bool) {
        let place = self.place(key);
        let mut last = open(&place.last);
        // An old value is replaced in its time, however often it is refused.
        let kept = match &*last {
            Last::Value(kept) => Some(kept.clone()),
            Last::Old(..) | Last::Nothing | Last::Failure(..) => None,
        };
        if let Some(kept) = kept.filter(is) {
            *last = Last::Old(kept, Timestamp::MIN);
        }
    }

    fn place(&self, key: &K) -> Arc<Slot<V>> {
        let mut places = open(&self.places);
        if let Some(place) = places.get(key) {
            return Arc::clone(place);
        }
        if places.len() >= KEPT_MAX {
            // Those in use stay, or they would be fetched twice. Only a few others go, in no order: they are
            // fetched again.
            let mut left = KEPT_MAX / 16;
            places.retain(|_, place| {
                let goes = left > 0 && Arc::strong_count(place) == 1;
                left -= usize::from(goes);
                !goes
            });
        }
        Arc::clone(places.entry(key.clone()).or_default())
    }
}
