//! Packs matched events into deliveries.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::matching::Match;
use crate::{
    delivery::{
        Delivery, batch::Form, dead_letter::ATTRIBUTES_BYTES_ROOMY, hashed_id, queue_text_bytes,
        request::data_version_for_headers,
    },
    event::{DeliverySchema, ParsedEvent},
    subscription::{Batching, SubscriptionKey},
    time::Timestamp,
    topic::Revision,
    trace::{TRACE_PARENT_CHARS, TraceParent},
};

/// Room in a queue message for a delivery's attempts, or a dead letter's envelope and destination.
pub const HEADROOM_BYTES: usize = 4_096;
const _: () = assert!(ATTRIBUTES_BYTES_ROOMY < HEADROOM_BYTES);

/// The data that all deliveries of one publish share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// The deliveries' ids derive from it.
    pub id: Uuid,
    pub time: Timestamp,
    pub revision: Revision,
    /// The request's trace.
    pub trace_parent: Option<TraceParent>,
}

/// An event subscription that gets events of a publish.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recipient<'m> {
    #[serde(rename = "subscription")]
    pub key: Cow<'m, SubscriptionKey>,
    pub uid: Uuid,
    pub batching: Batching,
    #[serde(flatten)]
    pub form: Form,
    /// Positions in the request, ascending, at least one. Stored as a bit for each event of the
    /// request, in base64: 834 bytes for 5,000 of them.
    #[serde(serialize_with = "write_positions", deserialize_with = "read_positions")]
    pub events: Cow<'m, [usize]>,
}

/// Writes ascending positions as bits in base64, the lowest of a byte first.
fn write_positions<S: Serializer>(positions: &[usize], to: S) -> Result<S::Ok, S::Error> {
    let mut bits = vec![0; positions.last().map_or(0, |last| last / 8 + 1)];
    positions.iter().for_each(|position| bits[position / 8] |= 1 << (position % 8));
    to.serialize_str(&STANDARD.encode(bits))
}

/// Reads positions from bits in base64.
fn read_positions<'de, 'm, D: Deserializer<'de>>(from: D) -> Result<Cow<'m, [usize]>, D::Error> {
    // A recipient without events is refused.
    let bits = STANDARD.decode(String::deserialize(from)?).unwrap_or_default();
    let set = |position: &usize| bits[position / 8] & (1 << (position % 8)) != 0;
    Ok((0..bits.len() * 8).filter(set).collect())
}

impl<'m> Recipient<'m> {
    fn of(found: &'m Match) -> Self {
        let subscription = &found.subscription;
        Self {
            key: Cow::Borrowed(&subscription.key),
            uid: subscription.uid,
            batching: subscription.batching(),
            form: Form::of(subscription),
            events: Cow::Borrowed(&found.events),
        }
    }
}

/// The start of an unsent delivery: the recipient, and the first of its events, both from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Start(pub usize, pub usize);

/// A delivery that is not made yet.
#[derive(Clone, Copy, Debug)]
pub struct UnsentDelivery<'p> {
    pub recipient: &'p Recipient<'p>,
    pub place: Start,
    /// Positions in the request, at least one.
    pub events: &'p [usize],
    /// The size of its queue form with all events, claimed or not.
    pub encoded_bytes: usize,
    /// Whether its events are too large for a queue message.
    pub claimed: bool,
    publish: Uuid,
}

impl UnsentDelivery<'_> {
    /// Returns the delivery's id: the same, so recognizable, if the publish is packed again.
    pub fn id(&self) -> Uuid {
        let ends = [self.events.first(), self.events.last()];
        let ends = ends.map(|position| position.copied().unwrap_or_default() as u64);
        let mut hash = Sha256::new();
        hash.update(self.publish.as_bytes());
        hash.update(self.recipient.uid.as_bytes());
        ends.iter().for_each(|position| hash.update(position.to_be_bytes()));
        hashed_id(hash)
    }
}

/// All deliveries of one publish, made one by one: many recipients must not multiply its memory.
#[derive(Debug)]
pub struct Packed<'m> {
    pub(super) acceptance: Acceptance,
    pub(super) recipients: Vec<Recipient<'m>>,
    pub(super) event_grid: Vec<Body>,
    pub(super) cloud_events: Vec<Body>,
    pub(super) custom: Vec<Body>,
    /// A larger queue form is claimed.
    limit_bytes: usize,
}

impl<'m> Packed<'m> {
    /// Packs bodies for recipients; no queue message may exceed `message_bytes_max`.
    pub(super) fn new(
        acceptance: Acceptance,
        recipients: Vec<Recipient<'m>>,
        mut bodies: impl FnMut(DeliverySchema) -> Vec<Body>,
        message_bytes_max: usize,
    ) -> Self {
        Self {
            acceptance,
            recipients,
            event_grid: bodies(DeliverySchema::EventGridSchema),
            cloud_events: bodies(DeliverySchema::CloudEventSchemaV1_0),
            custom: bodies(DeliverySchema::CustomInputSchema),
            limit_bytes: message_bytes_max.saturating_sub(HEADROOM_BYTES),
        }
    }

    pub fn acceptance(&self) -> Acceptance {
        self.acceptance
    }

    /// Returns the topic's name; empty without recipients.
    pub fn topic(&self) -> &str {
        self.recipients.first().map_or("", |recipient| recipient.key.topic.as_str())
    }

    /// Returns all deliveries, by event subscription, in the order of the request.
    pub fn unsent(&self) -> impl Iterator<Item = UnsentDelivery<'_>> {
        self.unsent_from(Start(0, 0))
    }

    /// Returns the deliveries from a start on.
    pub fn unsent_from(
        &self,
        Start(first, event): Start,
    ) -> impl Iterator<Item = UnsentDelivery<'_>> {
        let recipients = self.recipients.iter().enumerate().skip(first);
        recipients.flat_map(move |(number, recipient)| UnsentDeliveries {
            packed: self,
            recipient,
            bodies: self.bodies(recipient.form.schema),
            envelope_bytes: envelope_bytes(recipient, self.acceptance),
            next: Start(number, if number == first { event } else { 0 }),
        })
    }

    /// Returns all deliveries if neither their number nor their size exceeds these limits.
    pub fn at_most(&self, deliveries: usize, bytes: usize) -> Option<Vec<UnsentDelivery<'_>>> {
        let mut all = Vec::new();
        let mut sum_bytes = 0;
        for one in self.unsent() {
            sum_bytes += one.encoded_bytes;
            if all.len() == deliveries || sum_bytes > bytes {
                return None;
            }
            all.push(one);
        }
        Some(all)
    }

    /// Makes a delivery: the same at every call.
    pub fn delivery(&self, one: &UnsentDelivery<'_>) -> Delivery {
        let bodies = self.bodies(one.recipient.form.schema);
        let event = |position: &usize| {
            let text = bodies[*position].text.clone();
            RawValue::from_string(text).expect("made of texts that were read as JSON")
        };
        let delivery = self.with_events(one, one.events.iter().map(event).collect());
        if one.claimed { delivery.into_claimed() } else { delivery }
    }

    /// Writes the queue form of [`Self::delivery`]. Events are copied once and not parsed.
    pub fn encode(&self, one: &UnsentDelivery<'_>) -> String {
        if one.claimed {
            return self.delivery(one).encode();
        }
        let bodies = self.bodies(one.recipient.form.schema);
        let events = one.events.iter().map(|position| bodies[*position].text.as_str());
        self.with_events(one, Vec::new()).encode_with(events, one.encoded_bytes)
    }

    fn with_events(&self, one: &UnsentDelivery<'_>, events: Vec<Box<RawValue>>) -> Delivery {
        let recipient = one.recipient;
        let bodies = self.bodies(recipient.form.schema);
        let first = one.events.first().map(|position| bodies[*position].data_version.clone());
        Delivery::new(
            one.id(),
            recipient.key.clone().into_owned(),
            recipient.uid,
            self.acceptance.time,
            first.unwrap_or_default(),
            events,
        )
        .matched_under(self.acceptance.revision)
        .packed_as(recipient.form)
        .traced(self.trace_parent(one))
    }

    /// Returns a delivery's trace: the request's, or else the one that all of its events name.
    fn trace_parent(&self, one: &UnsentDelivery<'_>) -> Option<TraceParent> {
        let bodies = self.bodies(one.recipient.form.schema);
        let mut named = one.events.iter().map(|position| bodies[*position].trace_parent);
        self.acceptance.trace_parent.or_else(|| {
            let first = named.next()??;
            named.all(|other| other == Some(first)).then_some(first)
        })
    }

    pub(super) fn bodies(&self, schema: DeliverySchema) -> &[Body] {
        match schema {
            DeliverySchema::EventGridSchema => &self.event_grid,
            DeliverySchema::CloudEventSchemaV1_0 => &self.cloud_events,
            DeliverySchema::CustomInputSchema => &self.custom,
        }
    }
}

/// An event as it is delivered in one schema.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) text: String,
    /// For the request's header; empty for CloudEvents.
    pub(super) data_version: String,
    /// The event's own.
    pub(super) trace_parent: Option<TraceParent>,
    /// In a queue message.
    encoded_bytes: usize,
    /// In a queue message whose first event it is.
    data_version_bytes: usize,
}

impl Body {
    pub(super) fn new(
        text: String,
        data_version: String,
        trace_parent: Option<TraceParent>,
    ) -> Self {
        Self {
            encoded_bytes: queue_text_bytes(&text),
            data_version_bytes: data_version_bytes(&data_version),
            text,
            data_version,
            trace_parent,
        }
    }
}

/// Packs matched events into deliveries, in the order of the request.
///
/// A delivery has at most its event subscription's `maxEventsPerBatch`. It fills up to the
/// preferred size (of events, commas and brackets), unless a single event is larger. A queue form
/// larger than `message_bytes_max` less [`HEADROOM_BYTES`] is [claimed](crate::delivery::claim).
pub fn pack<'m>(
    matches: &'m [Match],
    events: &[ParsedEvent<'_>],
    acceptance: Acceptance,
    message_bytes_max: usize,
) -> Packed<'m> {
    let recipients = matches.iter().map(Recipient::of).collect();
    let bodies = |schema| bodies(matches, events, schema);
    Packed::new(acceptance, recipients, bodies, message_bytes_max)
}

/// Writes the events in a schema, if an event subscription asks for it.
fn bodies(matches: &[Match], events: &[ParsedEvent<'_>], schema: DeliverySchema) -> Vec<Body> {
    if !matches.iter().any(|wanted| wanted.subscription.delivery_schema == schema) {
        return Vec::new();
    }
    let body = |event: &ParsedEvent<'_>| {
        let data_version = match schema {
            DeliverySchema::CloudEventSchemaV1_0 => "",
            _ => data_version_for_headers(&event.data_version),
        };
        Body::new(event.in_schema(schema), data_version.to_owned(), event.trace_parent())
    };
    events.iter().map(body).collect()
}

fn envelope_bytes(recipient: &Recipient<'_>, acceptance: Acceptance) -> usize {
    let (key, uid) = (recipient.key.clone().into_owned(), recipient.uid);
    let empty = Delivery::new(Uuid::nil(), key, uid, acceptance.time, String::new(), Vec::new());
    let empty = empty.matched_under(acceptance.revision).packed_as(recipient.form);
    empty.encode().len() + r#","events":[]"#.len()
}

fn data_version_bytes(data_version: &str) -> usize {
    if data_version.is_empty() {
        return 0;
    }
    let json = serde_json::to_string(data_version).expect("a string is JSON");
    r#""dataVersion":,"#.len() + queue_text_bytes(&json)
}

const TRACE_BYTES: usize = r#","traceparent":"""#.len() + TRACE_PARENT_CHARS;

struct UnsentDeliveries<'p> {
    packed: &'p Packed<'p>,
    recipient: &'p Recipient<'p>,
    bodies: &'p [Body],
    envelope_bytes: usize,
    next: Start,
}

impl<'p> Iterator for UnsentDeliveries<'p> {
    type Item = UnsentDelivery<'p>;

    /// Takes an event and those after it that fit. One too large for a queue message goes alone.
    fn next(&mut self) -> Option<UnsentDelivery<'p>> {
        const COMMA: usize = 1;
        const BRACKETS: usize = 2;
        let events = self.recipient.events.get(self.next.1..)?;
        let (first, others) = events.split_first()?;
        let (batching, limit_bytes) = (self.recipient.batching, self.packed.limit_bytes);
        let first = &self.bodies[*first];
        let mut request_bytes = BRACKETS + first.text.len();
        let mut encoded_bytes =
            self.envelope_bytes + first.data_version_bytes + first.encoded_bytes;
        if self.packed.acceptance.trace_parent.or(first.trace_parent).is_some() {
            encoded_bytes += TRACE_BYTES;
        }
        let fits = |position: &&usize| {
            let body = &self.bodies[**position];
            let request = request_bytes + COMMA + body.text.len();
            let encoded = encoded_bytes + COMMA + body.encoded_bytes;
            let fits = request <= batching.preferred_bytes() && encoded <= limit_bytes;
            if fits {
                (request_bytes, encoded_bytes) = (request, encoded);
            }
            fits
        };
        let most = (batching.max_events as usize).saturating_sub(1);
        let count = 1 + others.iter().take(most).take_while(fits).count();
        let place = self.next;
        self.next.1 += count;
        Some(UnsentDelivery {
            recipient: self.recipient,
            place,
            events: &events[..count],
            encoded_bytes,
            claimed: encoded_bytes > limit_bytes,
            publish: self.packed.acceptance.id,
        })
    }
}

#[cfg(test)]
mod tests;
