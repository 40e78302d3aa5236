//! The first step: splits a batch into groups of deliveries, one per event subscription.

use std::collections::BTreeMap;

use gridpost_core::{delivery::Delivery, subscription::SubscriptionKey};
use gridpost_ports::Record;
use uuid::Uuid;

use crate::{Context, in_hand::Received, record::Settled, settle};

/// A batch, decoded.
#[derive(Default)]
pub struct Batch {
    /// One group per event subscription, deliveries in the order they came. A group shares what is
    /// loaded, and may share a request. Groups are independent of each other.
    pub groups: Vec<Vec<Received>>,
    /// Records that could not be decoded. They are settled: they went to the poison queue.
    pub poisoned: Vec<(Record, Settled)>,
}

pub async fn receive(context: &Context, records: Vec<Record>) -> Batch {
    let mut groups: BTreeMap<(SubscriptionKey, Uuid), Vec<Received>> = BTreeMap::new();
    let mut poisoned = Vec::new();
    for mut record in records {
        match Delivery::decode(&record.body) {
            Ok(delivery) => {
                record.body = String::new();
                let of = (delivery.subscription.clone(), delivery.subscription_uid);
                groups.entry(of).or_default().push(Received { record, delivery, state: None });
            }
            Err(error) => {
                let settled = settle::poison(context, &record, &error).await;
                poisoned.push((record, settled));
            }
        }
    }
    Batch { groups: groups.into_values().collect(), poisoned }
}
