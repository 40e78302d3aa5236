//! Event subscriptions in words: settings, the health of the endpoint, a pause, a test event.

use serde_json::Value;

use crate::output::text_at;

pub mod health;
pub mod pause;
pub mod send_test;
pub mod show;
pub mod warnings;

/// Whether deliveries may wait of which no state tells, because nothing was attempted.
pub fn holds_back(health: &Value) -> bool {
    health["pause"].is_object() || matches!(text_at(health, "/newEvents"), "Held" | "Waits")
}
