//! Event subscriptions in words: settings, the health of the endpoint, a pause, a test event.

use gridpost_api::health::{Health, NewEvents};

pub mod health;
pub mod pause;
pub mod send_test;
pub mod show;
pub mod warnings;

/// Whether deliveries may wait of which no state tells, because nothing was attempted.
pub fn holds_back(health: &Health) -> bool {
    health.pause.is_some() || matches!(health.new_events, NewEvents::Held | NewEvents::Waits)
}
