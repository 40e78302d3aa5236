//! The content of a message.

use gridpost_core::delivery::{Delivery, dead_letter::Ended};
use uuid::Uuid;

/// The content of a message: read once, for a message may be received thousands of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    pub delivery: Option<Uuid>,
    /// The uid of the event subscription, where the delivery has not ended.
    pub subscription: Option<Uuid>,
}

impl Carried {
    /// Reads the content of a message's body.
    pub fn of(body: &str) -> Self {
        if let Ok(delivery) = Delivery::decode(body) {
            let subscription = Some(delivery.subscription_uid);
            return Self { delivery: Some(delivery.id), subscription };
        }
        let ended = serde_json::from_str::<Ended>(body).ok();
        Self { delivery: ended.map(|ended| ended.delivery.id), subscription: None }
    }
}
