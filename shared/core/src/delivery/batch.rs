//! Chooses the deliveries that share a request.
//!
//! Batching is optimistic: deliveries that wait together are sent together, and none waits to
//! fill a request. Source: Event Grid, "Message delivery and retry", section "Output batching".

use serde::{Deserialize, Serialize};

use crate::{
    event::DeliverySchema,
    subscription::{Batching, Endpoint, EventSubscription},
};

/// The size of one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub events: usize,
    pub bytes: usize,
}

/// Joins deliveries of one event subscription into requests; returns the positions of each.
///
/// No request has more events than allowed, or more bytes than preferred unless of one delivery.
pub fn join(loads: &[Load], batching: Batching) -> Vec<Vec<usize>> {
    let mut requests: Vec<(Load, Vec<usize>)> = Vec::new();
    for (position, load) in loads.iter().enumerate() {
        if let Some((sum, positions)) = requests.last_mut()
            && sum.events + load.events <= batching.max_events as usize
            && sum.bytes + load.bytes <= batching.preferred_bytes()
        {
            sum.events += load.events;
            sum.bytes += load.bytes;
            positions.push(position);
        } else {
            requests.push((*load, vec![position]));
        }
    }
    requests.into_iter().map(|(_, positions)| positions).collect()
}

/// The schema of a delivery's events, and the form of the request's body. It travels with the
/// delivery: the event subscription may change meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Form {
    pub schema: DeliverySchema,
    /// If set, even a single CloudEvent is sent as a batch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batched: bool,
}

impl Form {
    /// Returns the form in which an event subscription's deliveries are packed now.
    pub fn of(subscription: &EventSubscription) -> Self {
        Self { schema: subscription.delivery_schema, batched: subscription.batching.is_some() }
    }

    /// Returns whether a body with this many events is an array. Several always are.
    pub fn is_array(self, events: usize) -> bool {
        self.schema != DeliverySchema::CloudEventSchemaV1_0 || self.batched || events > 1
    }

    /// Returns how many events of this form may share a request. CloudEvents packed to go one by
    /// one never share one, except to a resource that takes each as a separate message.
    pub fn batching(self, subscription: &EventSubscription) -> Batching {
        let each_apart = match &subscription.endpoint {
            Endpoint::WebHook { .. } => false,
            Endpoint::Resource(resource) => resource.own_batching().is_some(),
        };
        if self.is_array(1) || each_apart { subscription.batching() } else { Batching::OFF }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_table() {
        let load = |events, bytes| Load { events, bytes };
        let batching =
            |max_events, preferred_kilobytes| Batching { max_events, preferred_kilobytes };
        let table = [
            (
                "off: each alone",
                vec![load(1, 9); 3],
                Batching::OFF,
                vec![vec![0], vec![1], vec![2]],
            ),
            ("by count", vec![load(1, 9); 3], batching(2, 64), vec![vec![0, 1], vec![2]]),
            ("by bytes", vec![load(1, 3_000); 3], batching(9, 6), vec![vec![0, 1], vec![2]]),
            (
                "larger than the target: alone",
                vec![load(1, 10_000), load(1, 1), load(1, 1)],
                batching(9, 4),
                vec![vec![0], vec![1, 2]],
            ),
            ("full ones stay apart", vec![load(5, 9); 2], batching(5, 64), vec![vec![0], vec![1]]),
            ("none", vec![], batching(9, 4), vec![]),
        ];
        for (row, loads, batching, want) in table {
            assert_eq!(join(&loads, batching), want, "{row}");
        }
    }
}
