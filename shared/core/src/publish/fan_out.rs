//! Large fan-outs: a publish with too many deliveries for its request is stored and cut in pieces.
//!
//! The stored object holds the decision made at the publish: the events as they are delivered, and
//! their recipients. So nothing is matched a second time, and later changes of event subscriptions
//! have no effect; dispatch drops deliveries of deleted ones. Endpoints and secrets are not stored.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::pack::{Acceptance, Body, Packed, Recipient, Start, UnsentDelivery};
use crate::{
    event::DeliverySchema, subscription::SubscriptionKey, time::Timestamp, topic::Revision,
    trace::TraceParent,
};

const VERSION: u8 = 1;

/// The most deliveries of a piece. One invocation makes them in a few seconds, and repeats at most
/// this many if it dies.
pub const PIECE_DELIVERIES_MAX: usize = 5_000;

/// The most bytes of a piece's messages, unless it is a single larger delivery.
const PIECE_BYTES_MAX: usize = 32 * 1_048_576;

/// Some of the deliveries of a stored publish, as a message of the fan-out queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    v: u8,
    /// The id of the stored publish.
    pub publish: Uuid,
    from: Start,
    to: Start,
}

/// The reason why a piece or a stored publish could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("it is not of the form of {0}")]
    Form(&'static str, #[source] serde_json::Error),
    #[error("it has version {0}, which this function does not read")]
    Version(u8),
    #[error("event subscription {0} gets events that are not stored")]
    Events(SubscriptionKey),
}

impl Piece {
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a piece has only string keys")
    }

    /// Reads a message's body.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let piece: Self =
            serde_json::from_str(text).map_err(|error| DecodeError::Form("a piece", error))?;
        if piece.v == VERSION { Ok(piece) } else { Err(DecodeError::Version(piece.v)) }
    }

    pub fn unsent<'p>(&self, packed: &'p Packed<'_>) -> Vec<UnsentDelivery<'p>> {
        packed.unsent_from(self.from).take_while(|one| one.place < self.to).collect()
    }

    /// Counts the events of its deliveries, by event subscription.
    pub fn events<'p>(&self, packed: &'p Packed<'_>) -> BTreeMap<&'p SubscriptionKey, u64> {
        let mut events = BTreeMap::new();
        for one in self.unsent(packed) {
            *events.entry(&*one.recipient.key).or_default() += one.events.len() as u64;
        }
        events
    }

    /// Returns what is left of it from a start on.
    #[must_use]
    pub fn rest(&self, from: Start) -> Self {
        Self { from, ..*self }
    }
}

/// Splits a stored publish into pieces of at most `deliveries_max`.
pub fn cut(packed: &Packed<'_>, publish: Uuid, deliveries_max: usize) -> Vec<Piece> {
    let end = Start(packed.recipients.len(), 0);
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut deliveries, mut bytes) = (0, 0);
    for one in packed.unsent() {
        deliveries += 1;
        bytes += one.encoded_bytes;
        if pieces.is_empty() || deliveries > deliveries_max || bytes > PIECE_BYTES_MAX {
            (deliveries, bytes) = (1, one.encoded_bytes);
            if let Some(before) = pieces.last_mut() {
                before.to = one.place;
            }
            pieces.push(Piece { v: VERSION, publish, from: one.place, to: end });
        }
    }
    pieces
}

/// Names a stored publish in the payload bucket. Gridpost never deletes it: a message may need
/// it until it expires, and the bucket's age limit removes older objects.
pub fn key(publish: Uuid) -> String {
    format!("publishes/{publish}")
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'s, R> {
    v: u8,
    id: Uuid,
    time: Timestamp,
    revision: Revision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace_parent: Option<TraceParent>,
    /// [`Recipient`]s.
    recipients: R,
    #[serde(borrow)]
    event_grid: Vec<StoredEvent<'s>>,
    #[serde(borrow)]
    cloud_events: Vec<StoredEvent<'s>>,
    #[serde(borrow)]
    custom: Vec<StoredEvent<'s>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEvent<'s> {
    #[serde(default, skip_serializing_if = "str::is_empty")]
    data_version: Cow<'s, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace_parent: Option<TraceParent>,
    #[serde(borrow)]
    event: &'s RawValue,
}

impl<'s> StoredEvent<'s> {
    fn of(body: &'s Body) -> Self {
        let event = serde_json::from_str(&body.text).expect("made of texts that were read as JSON");
        let trace_parent = body.trace_parent;
        Self { data_version: Cow::Borrowed(&body.data_version), trace_parent, event }
    }
}

/// Writes a publish for the payload bucket.
pub fn encode(packed: &Packed<'_>) -> Vec<u8> {
    let stored = Stored {
        v: VERSION,
        id: packed.acceptance.id,
        time: packed.acceptance.time,
        revision: packed.acceptance.revision,
        trace_parent: packed.acceptance.trace_parent,
        recipients: &packed.recipients,
        event_grid: events(&packed.event_grid),
        cloud_events: events(&packed.cloud_events),
        custom: events(&packed.custom),
    };
    serde_json::to_vec(&stored).expect("a publish has only string keys")
}

fn events(bodies: &[Body]) -> Vec<StoredEvent<'_>> {
    bodies.iter().map(StoredEvent::of).collect()
}

/// Reads a stored publish; no queue message may exceed `message_bytes_max`.
pub fn decode(object: &[u8], message_bytes_max: usize) -> Result<Packed<'static>, DecodeError> {
    let stored: Stored<'_, Vec<Recipient<'static>>> = serde_json::from_slice(object)
        .map_err(|error| DecodeError::Form("a stored publish", error))?;
    if stored.v != VERSION {
        return Err(DecodeError::Version(stored.v));
    }
    let of_schema = |schema| match schema {
        DeliverySchema::EventGridSchema => &stored.event_grid,
        DeliverySchema::CloudEventSchemaV1_0 => &stored.cloud_events,
        DeliverySchema::CustomInputSchema => &stored.custom,
    };
    let lacks_events = |recipient: &&Recipient<'_>| {
        let stored = of_schema(recipient.form.schema).len();
        recipient.events.last().is_none_or(|last| *last >= stored)
    };
    if let Some(recipient) = stored.recipients.iter().find(lacks_events) {
        return Err(DecodeError::Events(recipient.key.clone().into_owned()));
    }
    let body = |event: &StoredEvent<'_>| {
        let data_version = event.data_version.clone().into_owned();
        Body::new(event.event.get().to_owned(), data_version, event.trace_parent)
    };
    let bodies = |schema| of_schema(schema).iter().map(body).collect();
    let Stored { id, time, revision, trace_parent, recipients, .. } = stored;
    let acceptance = Acceptance { id, time, revision, trace_parent };
    Ok(Packed::new(acceptance, recipients, bodies, message_bytes_max))
}

#[cfg(test)]
mod tests;
