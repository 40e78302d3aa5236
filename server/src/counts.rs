//! `GET /dev/counts`: the ends of events since the process started, for scripts that wait, and the clock's
//! time, for commands that look back.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use gridpost_core::{
    journal::{Count, Counted, Owner},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use serde_json::{Value, json};

/// Counts by topic and event subscription. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Arc<Mutex<BTreeMap<(String, String), Totals>>>);

/// Events of one event subscription, counted for each delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    delivered: u64,
    dead_lettered: u64,
    dropped: u64,
}

impl Counts {
    pub(crate) fn add(&self, count: &Count) {
        let is_end = matches!(
            count.counted,
            Counted::Delivered { .. } | Counted::DeadLettered(_) | Counted::Dropped(_)
        );
        let Owner::Subscription(SubscriptionKey { topic, name }) = &count.owner else { return };
        if !is_end {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = counts.entry((topic.clone(), name.clone())).or_default();
        match count.counted {
            Counted::Delivered { .. } => totals.delivered += count.events,
            Counted::DeadLettered(_) => totals.dead_lettered += count.events,
            Counted::Dropped(_) => totals.dropped += count.events,
            _ => {}
        }
    }

    /// Returns all counts, with the clock's time and speed.
    pub(crate) fn document(&self, now: Timestamp, speed: u32) -> Value {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = counts.iter().map(|((topic, name), totals)| {
            json!({
                "topic": topic, "eventSubscription": name, "delivered": totals.delivered,
                "deadLettered": totals.dead_lettered, "dropped": totals.dropped,
            })
        });
        json!({ "now": now.to_iso_8601(), "speed": speed, "value": each.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ends_of_event_subscriptions_count() {
        let counts = Counts::default();
        let key = SubscriptionKey { topic: "orders".to_owned(), name: "billing".to_owned() };
        let (orders, billing) = (Owner::Topic(key.topic.clone()), Owner::Subscription(key));
        for (owner, counted, events) in [
            (&billing, "delivered/50", 3),
            (&billing, "delivered/", 1),
            (&billing, "deadLettered/x", 2),
            (&billing, "dropped/x", 1),
            (&billing, "failed/Busy", 9),
            (&orders, "accepted", 9),
        ] {
            let counted = counted.parse().expect("it is counted");
            let (owner, publish_time) = (owner.clone(), Timestamp::default());
            counts.add(&Count { owner, publish_time, counted, events, once: None });
        }
        let now = Timestamp::from_millis(1_795_248_000_000);
        let want = json!({"now": "2026-11-21T08:00:00.000Z", "speed": 60, "value": [{
            "topic": "orders", "eventSubscription": "billing",
            "delivered": 4, "deadLettered": 2, "dropped": 1,
        }]});
        assert_eq!(counts.document(now, 60), want);
    }
}
