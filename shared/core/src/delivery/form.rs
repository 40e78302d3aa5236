//! The form of a delivery. It travels with it: the event subscription may change meanwhile.

use serde::{Deserialize, Serialize};

use crate::{
    event::DeliverySchema,
    subscription::{Batching, Endpoint, EventSubscription},
};

/// The schema of a delivery's events, and the form of the request's body.
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
