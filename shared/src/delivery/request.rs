//! The request that carries deliveries to a webhook.
//!
//! Source: Event Grid, "Webhook event delivery" and "Message headers"; CloudEvents, "HTTP protocol
//! binding" and "Web hooks for event delivery".

use super::Delivery;
use crate::{
    ports::Request,
    subscription::{DeliverySchema, Endpoint, EventSubscription},
};

/// Builds the request for deliveries that go out together. They have had the same number of
/// attempts, so one `aeg-delivery-count` speaks for all. `origin` is what CloudEvents receivers were
/// asked to consent to.
pub fn build(
    subscription: &EventSubscription,
    deliveries: &[&Delivery],
    attempts_made: u32,
    origin: &str,
) -> Request {
    let Endpoint::WebHook { url } = &subscription.endpoint;
    let schema = subscription.delivery_schema;
    // Batching decides the form, not the number of events: a receiver gets one form for ever.
    let array = schema != DeliverySchema::CloudEventSchemaV1_0 || subscription.batching.is_some();
    let data_version = deliveries.first().map_or("", |delivery| delivery.data_version.as_str());
    let mut headers = vec![
        ("content-type", content_type(schema, array).to_owned()),
        ("aeg-event-type", "Notification".to_owned()),
        ("aeg-subscription-name", subscription.key.name.to_ascii_uppercase()),
        ("aeg-delivery-count", attempts_made.to_string()),
        ("aeg-data-version", data_version.to_owned()),
        ("aeg-metadata-version", "1".to_owned()),
    ];
    if schema == DeliverySchema::CloudEventSchemaV1_0 {
        headers.push(("origin", origin.to_owned()));
    }
    Request { url: url.clone(), headers, body: body(deliveries, array) }
}

fn content_type(schema: DeliverySchema, array: bool) -> &'static str {
    match (schema, array) {
        (DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema, _) => {
            "application/json; charset=utf-8"
        }
        (DeliverySchema::CloudEventSchemaV1_0, false) => {
            "application/cloudevents+json; charset=utf-8"
        }
        (DeliverySchema::CloudEventSchemaV1_0, true) => {
            "application/cloudevents-batch+json; charset=utf-8"
        }
    }
}

/// The events as they are, joined by commas. The payload is copied, never parsed.
fn body(deliveries: &[&Delivery], array: bool) -> Vec<u8> {
    let events = || deliveries.iter().flat_map(|delivery| &delivery.events);
    let bytes: usize = events().map(|event| event.get().len() + 1).sum();
    let mut body = Vec::with_capacity(bytes + 2);
    if array {
        body.push(b'[');
    }
    for (index, event) in events().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(event.get().as_bytes());
    }
    if array {
        body.push(b']');
    }
    body
}
