//! Reads documents that callers still have as values. Goes away with the last of them.

use std::borrow::Cow;

use gridpost_api::{
    client::Tagged,
    delivery::DeliveryShown,
    document::merge,
    health::{Health, WaitingDeliveries},
    subscription::{EventSubscription, Pause, PauseStanding},
    topic::Topic,
    trial::TestEventSent,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A document, typed or not.
pub trait Read<D: Clone> {
    fn read(&self) -> Cow<'_, D>;
}

const AT: &str = "1970-01-01T00:00:00Z";

fn read<D: DeserializeOwned>(mut whole: Value, given: &Value) -> D {
    let least = whole.clone();
    merge(&mut whole, given);
    serde_json::from_value(whole)
        .or_else(|_| serde_json::from_value(least))
        .unwrap_or_else(|error| unreachable!("{error}"))
}

macro_rules! reads {
    ($($type:ty = $least:expr;)*) => {$(
        impl Read<$type> for $type {
            fn read(&self) -> Cow<'_, $type> {
                Cow::Borrowed(self)
            }
        }

        impl Read<$type> for Value {
            fn read(&self) -> Cow<'_, $type> {
                Cow::Owned(read($least, self))
            }
        }
    )*};
}

reads! {
    Health = json!({"state": "Healthy", "newEvents": "Attempted", "failuresInRow": 0,
        "waitingDeliveries": {"count": 0, "isComplete": true}});
    WaitingDeliveries = json!({"count": 0, "isComplete": true});
    Pause = json!({"since": AT, "until": AT, "timeToLiveRuns": false});
    PauseStanding = json!({"isPaused": false});
    EventSubscription = subscription();
    Topic = json!({"id": "-", "name": "-", "type": "-", "kind": "custom",
        "properties": {"endpoint": "", "provisioningState": "-"}});
    DeliveryShown = json!({"id": "00000000-0000-0000-0000-000000000001", "publishTime": AT, "events": 1,
        "deliveryAttempts": 0, "status": "Waiting", "attempts": []});
    TestEventSent = json!({"delivery": "00000000-0000-0000-0000-000000000001", "matches": true,
        "refusedBy": [], "steps": [], "outcome": "-", "durationInMs": 0});
}

fn subscription() -> Value {
    json!({"id": "-", "name": "-", "type": "-",
        "properties": {"topic": "-", "provisioningState": "Succeeded"}})
}

impl Read<Tagged<EventSubscription>> for Tagged<EventSubscription> {
    fn read(&self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }
}

impl Read<Tagged<EventSubscription>> for Value {
    fn read(&self) -> Cow<'_, Tagged<EventSubscription>> {
        let etag = self.get("etag").and_then(Self::as_str).map(str::to_owned);
        Cow::Owned(Tagged { document: read(subscription(), self), is_new: false, etag })
    }
}

/// Joins event subscriptions with their healths by name.
pub fn joined(all: Vec<Value>, healths: &[Value]) -> Vec<(Value, Option<Value>)> {
    let with_health = |subscription: Value| {
        let health = healths.iter().find(|one| one["name"] == subscription["name"]);
        let health = health.map(|one| one["health"].clone());
        (subscription, health)
    };
    all.into_iter().map(with_health).collect()
}
