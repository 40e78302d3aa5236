//! `GET /dev/counts`: the ends of events since the process started, for scripts that wait, and the clock's
//! time, for commands that look back.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use gridpost_core::metric::{
    DEAD_LETTERED_COUNT, DELIVERY_SUCCESS_COUNT, DROPPED_EVENT_COUNT, EVENT_SUBSCRIPTION_NAME,
    TOPIC,
};
use gridpost_core::time::Timestamp;
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
    pub(crate) fn add(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        events: u64,
    ) {
        let of = |name| {
            let found = dimensions.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let is_end =
            [DELIVERY_SUCCESS_COUNT, DEAD_LETTERED_COUNT, DROPPED_EVENT_COUNT].contains(&metric);
        let (true, Some(topic), Some(name)) = (is_end, of(TOPIC), of(EVENT_SUBSCRIPTION_NAME))
        else {
            return;
        };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = counts.entry((topic, name)).or_default();
        match metric {
            DELIVERY_SUCCESS_COUNT => totals.delivered += events,
            DEAD_LETTERED_COUNT => totals.dead_lettered += events,
            _ => totals.dropped += events,
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
        let of = [(TOPIC, "orders"), (EVENT_SUBSCRIPTION_NAME, "billing"), ("Error", "x")];
        for (metric, dimensions, events) in [
            (DELIVERY_SUCCESS_COUNT, &of[..], 3),
            (DELIVERY_SUCCESS_COUNT, &of[..2], 1),
            (DEAD_LETTERED_COUNT, &of[..], 2),
            (DROPPED_EVENT_COUNT, &of[..], 1),
            ("DeliveryAttemptFailCount", &of[..], 9),
            (DELIVERY_SUCCESS_COUNT, &of[..1], 9),
        ] {
            counts.add(metric, dimensions, events);
        }
        let now = Timestamp::from_millis(1_795_248_000_000);
        let want = json!({"now": "2026-11-21T08:00:00.000Z", "speed": 60, "value": [{
            "topic": "orders", "eventSubscription": "billing",
            "delivered": 4, "deadLettered": 2, "dropped": 1,
        }]});
        assert_eq!(counts.document(now, 60), want);
    }
}
