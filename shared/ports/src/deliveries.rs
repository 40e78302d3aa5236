//! Failing deliveries, the health and request rates of their endpoints, and late listeners.

use std::collections::BTreeMap;

use async_trait::async_trait;
use gridpost_core::{
    delivery::{queue::Queue, state::DeliveryState},
    retry::health::Health,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{Result, Saved};

/// The states of failing deliveries.
#[async_trait]
pub trait DeliveryStates: Send + Sync {
    /// Reads the state of a delivery, if an attempt has failed. Strongly consistent.
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>>;

    /// Writes a state as revision `state.revision + 1`, if the stored one still is
    /// `state.revision` (0: there is none).
    async fn save(&self, state: &DeliveryState) -> Result<Saved>;
}

/// Finds failing deliveries.
#[async_trait]
pub trait WaitingDeliveries: Send + Sync {
    /// Lists the first `most` deliveries of this event subscription that have failed and not ended,
    /// by [place](DeliveryState::place), from the start or after `after`. May miss writes of the last
    /// second.
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>>;

    /// Counts those deliveries, up to about `most`.
    async fn count(&self, uid: Uuid, most: usize) -> Result<usize>;

    /// Counts at most `most` of them by the hour of their publish, from the start or after the place
    /// `after`. Following [`WaitingTally::next`] to its end counts each once.
    async fn tally(&self, uid: Uuid, after: Option<&str>, most: usize) -> Result<WaitingTally>;
}

/// Deliveries that have failed and not ended, and the events in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCount {
    pub deliveries: u64,
    pub events: u64,
}

impl WaitingCount {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            deliveries: self.deliveries.saturating_add(other.deliveries),
            events: self.events.saturating_add(other.events),
        }
    }
}

/// Some of an event subscription's waiting deliveries, by the hour (UTC) of their publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingTally {
    pub hours: BTreeMap<Timestamp, WaitingCount>,
    /// The place to go on after; `None` when all were counted.
    pub next: Option<String>,
}

impl WaitingTally {
    pub fn add(&mut self, state: &DeliveryState) {
        let one = WaitingCount { deliveries: 1, events: u64::from(state.events) };
        let hour = self.hours.entry(state.publish_time.hour()).or_default();
        *hour = hour.plus(one);
    }

    pub fn total(&self) -> WaitingCount {
        self.hours.values().copied().fold(WaitingCount::default(), WaitingCount::plus)
    }
}

/// The health of endpoints.
#[async_trait]
pub trait EndpointHealths: Send + Sync {
    /// Reads the health of a subscription's endpoint; healthy if nothing is stored.
    async fn load(&self, key: &SubscriptionKey, uid: Uuid) -> Result<Health>;

    /// Writes a health as revision `health.revision + 1`, if the stored one still is
    /// `health.revision` (0: there is none).
    async fn save(&self, key: &SubscriptionKey, uid: Uuid, health: &Health) -> Result<Saved>;
}

/// Counts requests to endpoints that limit them per minute.
#[async_trait]
pub trait RequestRates: Send + Sync {
    /// Counts `requests` more in that minute (since the Unix epoch) and returns the total. No two
    /// calls get the same numbers. A failed call may have counted, which leaves fewer requests.
    async fn count(&self, uid: Uuid, minute: i64, requests: u64) -> Result<u64>;
}

/// An invocation that wants to listen for late responses.
#[derive(Clone, Copy, Debug)]
pub struct Listener {
    /// The queue whose slot it holds.
    pub queue: Queue,
    pub id: Uuid,
    pub until: Timestamp,
}

/// The invocations that listen for late responses, across all copies of dispatch.
#[async_trait]
pub trait LateListeners: Send + Sync {
    /// Adds a listener; `false` if `most` already listen at `now`, or others join at that moment.
    async fn join(&self, listener: Listener, most: usize, now: Timestamp) -> Result<bool>;

    /// Removes a listener. Otherwise it expires by its time.
    async fn leave(&self, listener: Listener) -> Result<()>;
}
