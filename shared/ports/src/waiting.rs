//! What waits, counted by the hour of its publish: for those who need numbers and no deliveries.

use std::collections::BTreeMap;

use gridpost_core::{delivery::state::DeliveryState, time::Timestamp};

/// Deliveries that have failed and not ended, and the events in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCount {
    pub deliveries: u64,
    pub events: u64,
}

impl WaitingCount {
    /// Both together.
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
    /// The place after which those come that were not counted; `None` when all were.
    pub next: Option<String>,
}

impl WaitingTally {
    /// Counts one more.
    pub fn add(&mut self, state: &DeliveryState) {
        let one = WaitingCount { deliveries: 1, events: u64::from(state.events) };
        let hour = self.hours.entry(state.publish_time.hour()).or_default();
        *hour = hour.plus(one);
    }

    /// All hours together.
    pub fn total(&self) -> WaitingCount {
        self.hours.values().copied().fold(WaitingCount::default(), WaitingCount::plus)
    }
}
