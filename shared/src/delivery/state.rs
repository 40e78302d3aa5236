//! What is known of a delivery after its first failure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Attempts, retry::EndReason};
use crate::{subscription::SubscriptionKey, time::Timestamp};

/// How long a state outlives its delivery, so that late copies of the message still find it.
const KEPT_FOR: Duration = Duration::from_secs(48 * 60 * 60);

/// The longest that any delivery may live: the namespace profile's time-to-live.
const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The state of one failing delivery. A delivery that succeeds at once never has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryState {
    /// Whose state it is.
    pub id: Uuid,
    /// The event subscription.
    pub subscription: SubscriptionKey,
    /// Which creation of it.
    #[serde(default)]
    pub subscription_uid: Uuid,
    /// When the publish was accepted.
    pub publish_time: Timestamp,
    /// How many events it carries.
    #[serde(default)]
    pub events: u32,
    /// The attempts made.
    pub attempts: Attempts,
    /// Where it stands.
    pub standing: Standing,
    /// Counts its writes; a write names the one it has read.
    #[serde(skip)]
    pub revision: u64,
}

/// Where a failing delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase")]
pub enum Standing {
    /// Waits for its next attempt.
    Waiting {
        /// Not before this time.
        due: Timestamp,
    },
    /// Its end is decided but not yet carried out: nothing is attempted any more.
    Ending {
        /// Why.
        reason: EndReason,
        /// When it was decided.
        at: Timestamp,
    },
    /// Dead-lettered or dropped: late copies delete themselves.
    Ended,
    /// A success: late copies delete themselves.
    Delivered,
}

impl DeliveryState {
    /// Where it stands in a list of deliveries by publish time: nobody else has this place. Letters,
    /// digits and hyphens.
    pub fn place(&self) -> String {
        format!("{:013}-{}", self.publish_time.as_millis(), self.id)
    }

    /// When the table may forget it: two days after the last moment a copy could matter.
    ///
    /// While a delivery waits for its endpoint, nothing is written for days. Forgotten before its
    /// life is over, it would count its attempts anew.
    pub fn forget_at(&self) -> Timestamp {
        let last = match self.standing {
            Standing::Waiting { due } => due.max(self.publish_time + LIFE_MAX),
            Standing::Ending { at, .. } => at,
            Standing::Ended | Standing::Delivered => {
                self.attempts.last_at.unwrap_or(self.publish_time)
            }
        };
        last + KEPT_FOR
    }
}
