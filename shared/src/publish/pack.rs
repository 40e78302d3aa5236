//! How matched events become deliveries.

use std::sync::Arc;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::matching::Match;
use crate::{
    delivery::{Delivery, escaped_in_queue_text, queue_text},
    event::ParsedEvent,
    subscription::{DeliverySchema, EventSubscription},
    time::Timestamp,
};

/// What a queue message keeps free for what a delivery gains on its way: the snapshot of its
/// attempts, and the envelope of a dead letter with its destination.
pub const HEADROOM_BYTES: usize = 4_096;

/// A longer `dataVersion` is not repeated in the request's header, where endpoints would refuse it
/// for its size; the event keeps it.
const DATA_VERSION_HEADER_BYTES_MAX: usize = 1_024;

/// One delivery to be.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The delivery's id.
    pub id: Uuid,
    /// Whose it is.
    pub subscription: Arc<EventSubscription>,
    /// Its events' positions in the request, at least one.
    pub events: Vec<usize>,
    /// What its events take with the envelope, whether they travel in its queue form or apart.
    pub encoded_bytes: usize,
    /// Whether its events are too large for a queue message and go through the payload bucket.
    pub claimed: bool,
}

/// All deliveries of one publish. Their queue forms are written one by one, so that a publish to
/// hundreds of subscriptions never stands in memory hundreds of times.
#[derive(Debug)]
pub struct Packed {
    /// The deliveries to be.
    pub parcels: Vec<Parcel>,
    event_grid: Vec<Body>,
    cloud_events: Vec<Body>,
    custom: Vec<Body>,
    publish_time: Timestamp,
}

impl Packed {
    /// The delivery of a parcel: the same at every call.
    pub fn delivery(&self, parcel: &Parcel) -> Delivery {
        let bodies = self.bodies(parcel.subscription.delivery_schema);
        let event = |position: &usize| {
            let text = bodies[*position].text.clone();
            RawValue::from_string(text).expect("made of texts that were read as JSON")
        };
        let delivery = self.with_events(parcel, parcel.events.iter().map(event).collect());
        if parcel.claimed { delivery.into_claimed() } else { delivery }
    }

    /// The queue form of [`Self::delivery`]. Events that travel in it are copied once and not read.
    pub fn encode(&self, parcel: &Parcel) -> String {
        if parcel.claimed {
            return self.delivery(parcel).encode();
        }
        let bodies = self.bodies(parcel.subscription.delivery_schema);
        let events = parcel.events.iter().map(|position| bodies[*position].text.as_str());
        self.with_events(parcel, Vec::new()).encode_with(events, parcel.encoded_bytes)
    }

    fn with_events(&self, parcel: &Parcel, events: Vec<Box<RawValue>>) -> Delivery {
        let subscription = &parcel.subscription;
        let bodies = self.bodies(subscription.delivery_schema);
        let first = parcel.events.first().map(|position| bodies[*position].data_version.clone());
        Delivery::new(
            parcel.id,
            subscription.key.clone(),
            subscription.uid,
            self.publish_time,
            first.unwrap_or_default(),
            events,
        )
    }

    fn bodies(&self, schema: DeliverySchema) -> &[Body] {
        match schema {
            DeliverySchema::EventGridSchema => &self.event_grid,
            DeliverySchema::CloudEventSchemaV1_0 => &self.cloud_events,
            DeliverySchema::CustomInputSchema => &self.custom,
        }
    }
}

/// An event as it is delivered in one schema.
#[derive(Debug)]
struct Body {
    text: String,
    /// What the text takes in a queue message.
    encoded_bytes: usize,
    /// For the request's header; empty for CloudEvents.
    data_version: String,
}

/// Packs matched events into deliveries, in the order of the request.
///
/// A delivery never carries more events than its subscription's `maxEventsPerBatch`. It fills up to
/// the preferred size (the bytes of the request's body: events, commas and brackets), but for one
/// event that is larger by itself. Its queue form never exceeds `message_bytes_max` less
/// [`HEADROOM_BYTES`]: an event that does not fit by itself is claimed, see
/// [`claim`](crate::delivery::claim).
pub fn pack(
    matches: &[Match],
    events: &[ParsedEvent<'_>],
    publish_time: Timestamp,
    message_bytes_max: usize,
    mut id: impl FnMut() -> Uuid,
) -> Packed {
    let limit_bytes = message_bytes_max.saturating_sub(HEADROOM_BYTES);
    let bodies = |schema| bodies(matches, events, schema);
    let mut packed = Packed {
        parcels: Vec::new(),
        event_grid: bodies(DeliverySchema::EventGridSchema),
        cloud_events: bodies(DeliverySchema::CloudEventSchemaV1_0),
        custom: bodies(DeliverySchema::CustomInputSchema),
        publish_time,
    };
    for Match { subscription, events } in matches {
        let envelope_bytes = envelope_bytes(subscription, publish_time);
        let bodies = packed.bodies(subscription.delivery_schema);
        let mut fill = Filling::new(subscription, limit_bytes);
        for position in events {
            fill.add(*position, &bodies[*position], envelope_bytes);
        }
        let parcels = fill.parcels.into_iter().map(|(events, encoded_bytes)| Parcel {
            id: id(),
            subscription: Arc::clone(subscription),
            events,
            encoded_bytes,
            claimed: encoded_bytes > limit_bytes,
        });
        packed.parcels.extend(parcels);
    }
    packed
}

/// The events in a schema, where some subscription asks for it.
fn bodies(matches: &[Match], events: &[ParsedEvent<'_>], schema: DeliverySchema) -> Vec<Body> {
    if !matches.iter().any(|wanted| wanted.subscription.delivery_schema == schema) {
        return Vec::new();
    }
    let body = |event: &ParsedEvent<'_>| {
        let text = event.in_schema(schema);
        let in_header = schema != DeliverySchema::CloudEventSchemaV1_0
            && event.data_version.len() <= DATA_VERSION_HEADER_BYTES_MAX;
        let data_version = if in_header { event.data_version.to_string() } else { String::new() };
        Body { encoded_bytes: encoded_bytes(&text), text, data_version }
    };
    events.iter().map(body).collect()
}

/// What a JSON text takes in a queue message, which escapes two characters (see [`queue_text`]).
fn encoded_bytes(json: &str) -> usize {
    json.len() + escaped_in_queue_text(json) * (r"\uffff".len() - '\u{ffff}'.len_utf8())
}

/// What a delivery's queue form takes beside its events and their data version.
fn envelope_bytes(subscription: &EventSubscription, publish_time: Timestamp) -> usize {
    let (key, uid) = (subscription.key.clone(), subscription.uid);
    let empty = Delivery::new(Uuid::nil(), key, uid, publish_time, String::new(), Vec::new());
    empty.encode().len() + r#","events":[]"#.len()
}

/// What a data version takes in a delivery's queue form.
fn data_version_bytes(data_version: &str) -> usize {
    if data_version.is_empty() {
        return 0;
    }
    let json = serde_json::to_string(data_version).expect("a string is JSON");
    r#""dataVersion":,"#.len() + queue_text(json).len()
}

/// The deliveries of one event subscription, the last one being filled.
struct Filling {
    events_max: usize,
    preferred_bytes: usize,
    limit_bytes: usize,
    /// Events and bytes of the queue form.
    parcels: Vec<(Vec<usize>, usize)>,
    /// Bytes of the last one's request body.
    request_bytes: usize,
}

impl Filling {
    fn new(subscription: &EventSubscription, limit_bytes: usize) -> Self {
        let batching = subscription.batching();
        Self {
            events_max: batching.max_events as usize,
            preferred_bytes: batching.preferred_bytes(),
            limit_bytes,
            parcels: Vec::new(),
            request_bytes: 0,
        }
    }

    /// Adds an event to the last delivery, or begins another. Nothing joins an event that does not
    /// fit a queue message by itself.
    fn add(&mut self, position: usize, body: &Body, envelope_bytes: usize) {
        const COMMA: usize = 1;
        const BRACKETS: usize = 2;
        let text_bytes = body.text.len();
        if let Some((events, bytes)) = self.parcels.last_mut()
            && events.len() < self.events_max
            && self.request_bytes + COMMA + text_bytes <= self.preferred_bytes
            && *bytes + COMMA + body.encoded_bytes <= self.limit_bytes
        {
            events.push(position);
            *bytes += COMMA + body.encoded_bytes;
            self.request_bytes += COMMA + text_bytes;
            return;
        }
        let data_version_bytes = data_version_bytes(&body.data_version);
        let size_bytes = envelope_bytes + data_version_bytes + body.encoded_bytes;
        self.parcels.push((vec![position], size_bytes));
        self.request_bytes = BRACKETS + text_bytes;
    }
}

#[cfg(test)]
mod tests;
