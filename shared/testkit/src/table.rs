//! The DynamoDB tables: conditional writes, items that expire late, strong reads.

mod configuration;
mod listeners;
mod parked;
mod publishes;
mod redrives;
mod stores;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        listeners::Listeners,
        parking::Parked,
        queue::Queue,
        redrive::Job,
        state::{DeliveryState, DeliveryStatus},
    },
    publish::idempotency::{Record, RecordKey},
    retry::health::Health,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, Topic},
};
use gridpost_ports::{
    Clock, DeliveryStates, EndpointHealths, PortError, RequestRates, Saved, WakeCursor,
};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{
    clock::VirtualClock,
    history::History,
    stores::{StateStores, at_once},
};

/// DynamoDB deletes expired items up to two days late.
const EXPIRES_LATE_MAX: Duration = Duration::from_secs(48 * 60 * 60);

#[derive(Debug, Default)]
struct Items {
    states: BTreeMap<Uuid, DeliveryState>,
    healths: BTreeMap<Uuid, Health>,
    parked: BTreeMap<(i64, String), Parked>,
    in_hand: parked::InHand,
    cursor: Option<i64>,
    topics: BTreeMap<String, Topic>,
    /// With the numbers of the revisions at which they were written.
    subscriptions: BTreeMap<SubscriptionKey, (EventSubscription, u64)>,
    /// Access keys, by topic. Topics added without keys have [`crate::fixtures::access_keys`].
    keys: BTreeMap<String, (AccessKeys, u64)>,
    redrives: BTreeMap<Uuid, Job>,
    listeners: BTreeMap<Queue, Listeners>,
    publishes: BTreeMap<RecordKey, Record>,
}

/// All tables of one fixture.
pub struct Tables {
    items: Mutex<Items>,
    page_items_max: usize,
    real: Mutex<Option<Arc<dyn StateStores>>>,
    clock: VirtualClock,
    history: Arc<Mutex<History>>,
}

impl Tables {
    pub fn new(clock: VirtualClock, history: Arc<Mutex<History>>) -> Self {
        let page_items_max = parked::PAGE_ITEMS_MAX;
        Self { items: Mutex::default(), page_items_max, real: Mutex::default(), clock, history }
    }

    /// Writes everything that the data plane writes also to those stores, whose answers count.
    #[must_use]
    pub fn on(self, real: Arc<dyn StateStores>) -> Self {
        self.go_on_with(real);
        self
    }

    /// Replaces the stores by the same data, opened by another process.
    pub fn go_on_with(&self, real: Arc<dyn StateStores>) {
        *self.real.lock().expect("no panic while held") = Some(real);
    }

    fn real(&self) -> Option<Arc<dyn StateStores>> {
        self.real.lock().expect("no panic while held").clone()
    }

    /// Returns due deliveries in pages of at most this many.
    #[must_use]
    pub fn with_pages_of(self, items: usize) -> Self {
        Self { page_items_max: items, ..self }
    }

    /// Whether deliveries are parked. (Asked after each invocation: not a count, which would walk
    /// through a million of them.)
    pub fn any_parked(&self) -> bool {
        !self.items().parked.is_empty()
    }

    /// Moves the cursor, as a run of wake does if nothing is parked.
    pub fn pass(&self) {
        let next = self.clock.now().as_minutes() + 1;
        if let Some(real) = self.real() {
            // A run that finds nothing parked also records the minute after this one.
            at_once(WakeCursor::save(&*real, next)).expect("it is writable");
            return;
        }
        let mut items = self.items();
        let from = items.cursor.unwrap_or(next);
        if items.parked.range((from, String::new())..).next().is_none() {
            items.cursor = Some(next);
        }
    }

    pub fn parked_ids(&self) -> Vec<Uuid> {
        let items = self.items();
        let deliveries = items.parked.values().filter(|parked| parked.watch.is_none());
        deliveries.map(|parked| parked.id).collect()
    }

    pub fn states(&self) -> Vec<DeliveryState> {
        self.items().states.values().cloned().collect()
    }

    fn items(&self) -> std::sync::MutexGuard<'_, Items> {
        self.items.lock().expect("no panic while held")
    }
}

/// Returns the value as it would come back from the table.
fn stored<T: Serialize + DeserializeOwned>(value: &T) -> Result<T, PortError> {
    let text = serde_json::to_string(value).map_err(|error| PortError::new("dynamodb", error))?;
    serde_json::from_str(&text).map_err(|error| PortError::new("dynamodb", error))
}

/// Whether DynamoDB has deleted an item by now: some time within two days after it expired.
fn is_gone(id: Uuid, expires_at: Timestamp, now: Timestamp) -> bool {
    let share = (id.as_u128() % 1_000) as u32;
    now >= expires_at + EXPIRES_LATE_MAX * share / 1_000
}

/// The rule that a write of a state breaks, if any, whatever went wrong before.
fn broken_law(before: &DeliveryState, after: &DeliveryState) -> Option<&'static str> {
    use DeliveryStatus::{Delivered, Ended, Ending, Waiting};
    match (before.status, after.status) {
        (Delivered | Ended, _) => Some("was written after its end"),
        (Ending { .. }, Waiting { .. } | Delivered) => Some("forgot that its end was decided"),
        _ if after.attempts.made < before.attempts.made => Some("forgot attempts"),
        _ => None,
    }
}

#[async_trait]
impl DeliveryStates for Tables {
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError> {
        if let Some(real) = self.real() {
            return DeliveryStates::load(&*real, id).await;
        }
        let now = self.clock.now();
        let found = self.items().states.get(&id).cloned();
        Ok(found.filter(|state| !is_gone(id, state.forget_at(), now)))
    }

    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError> {
        let now = self.clock.now();
        let saved = match self.real() {
            Some(real) => Some(DeliveryStates::save(&*real, state).await?),
            None => None,
        };
        let mut items = self.items();
        let before = items.states.get(&state.id);
        // The embedded stores delete expired states on time. DynamoDB may be days late.
        let is_forgotten = |state: &DeliveryState| match saved {
            Some(_) => now >= state.forget_at(),
            None => is_gone(state.id, state.forget_at(), now),
        };
        let before = before.filter(|state| !is_forgotten(state));
        let is_as_it_was = before.map_or(0, |state| state.revision) == state.revision;
        if saved.map_or(!is_as_it_was, |saved| saved == Saved::Conflict) {
            return Ok(Saved::Conflict);
        }
        let broken = before.and_then(|before| broken_law(before, state));
        let next = DeliveryState { revision: state.revision + 1, ..stored(state)? };
        items.states.insert(state.id, next);
        let mut history = self.history.lock().expect("no panic while held");
        if let Some(law) = broken {
            history.violation(now, format!("the state of {} {law}", state.id));
        }
        history.noted.insert(state.id);
        if state.status == DeliveryStatus::Delivered && state.revision == 0 {
            history.violation(now, "a delivery that succeeded at once was written to the table");
        }
        history.trace(now, || format!("state {} {:?}", state.id, state.status));
        Ok(Saved::Written)
    }
}

#[async_trait]
impl EndpointHealths for Tables {
    async fn load(&self, key: &SubscriptionKey, uid: Uuid) -> Result<Health, PortError> {
        if let Some(real) = self.real() {
            return EndpointHealths::load(&*real, key, uid).await;
        }
        Ok(self.items().healths.get(&uid).cloned().unwrap_or_default())
    }

    async fn save(
        &self,
        key: &SubscriptionKey,
        uid: Uuid,
        health: &Health,
    ) -> Result<Saved, PortError> {
        let saved = match self.real() {
            Some(real) => Some(EndpointHealths::save(&*real, key, uid, health).await?),
            None => None,
        };
        let mut items = self.items();
        let before = items.healths.get(&uid).map_or(0, |before| before.revision);
        if saved.map_or(before != health.revision, |saved| saved == Saved::Conflict) {
            return Ok(Saved::Conflict);
        }
        let next = Health { revision: health.revision + 1, ..stored(health)? };
        items.healths.insert(uid, next);
        let mut history = self.history.lock().expect("no panic while held");
        history.health_writes += 1;
        history.note_health(self.clock.now(), uid, health);
        history.trace(self.clock.now(), || format!("health {key} {health:?}"));
        Ok(Saved::Written)
    }
}

#[async_trait]
impl RequestRates for Tables {
    async fn count(&self, uid: Uuid, minute: i64, requests: u64) -> Result<u64, PortError> {
        let counted = match self.real() {
            Some(real) => Some(real.count(uid, minute, requests).await?),
            None => None,
        };
        let mut history = self.history.lock().expect("no panic while held");
        let count = history.counts.entry((uid, minute)).or_default();
        *count += requests;
        *count = counted.unwrap_or(*count);
        let count = *count;
        history.trace(self.clock.now(), || format!("count {count} of minute {minute} of {uid}"));
        Ok(count)
    }
}
