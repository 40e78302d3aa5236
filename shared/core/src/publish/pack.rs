//! Packs matched events into deliveries.

use std::borrow::Cow;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::matching::Match;
use crate::{
    delivery::{
        Delivery, dead_letter::ATTRIBUTES_BYTES_ROOMY, form::Form, queue_text_bytes,
        request::data_version_for_headers,
    },
    event::{DeliverySchema, ParsedEvent},
    subscription::{Batching, SubscriptionKey},
    time::Timestamp,
    topic::Revision,
    trace::{TRACE_PARENT_CHARS, TraceParent},
};

/// The room that a queue message keeps for what a delivery gains on its way: the snapshot of its
/// attempts, and the envelope of a dead letter with its destination.
pub const HEADROOM_BYTES: usize = 4_096;
const _: () = assert!(ATTRIBUTES_BYTES_ROOMY < HEADROOM_BYTES);

/// The data that all deliveries of one publish share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// The publish's id, from which its deliveries' ids are derived.
    pub id: Uuid,
    pub time: Timestamp,
    /// The topic's revision under which its events were matched.
    pub revision: Revision,
    /// The trace that its request names.
    pub trace_parent: Option<TraceParent>,
}

/// An event subscription that gets events of a publish, as far as packing needs it.
#[derive(Clone, Debug)]
pub struct Recipient<'m> {
    pub key: Cow<'m, SubscriptionKey>,
    /// Which creation of it.
    pub uid: Uuid,
    /// How many events one request may carry.
    pub batching: Batching,
    pub form: Form,
    /// The positions of its events in the request, ascending, at least one.
    pub events: Cow<'m, [usize]>,
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

/// Where a one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    /// The recipient, from 0.
    pub recipient: usize,
    /// The index among the recipient's events, from 0.
    pub event: usize,
}

/// A delivery before it is made.
#[derive(Clone, Copy, Debug)]
pub struct UnsentDelivery<'p> {
    pub recipient: &'p Recipient<'p>,
    pub place: Start,
    /// Its events' positions in the request, at least one.
    pub events: &'p [usize],
    /// The size of its events with the envelope, whether they travel in its queue form or apart.
    pub encoded_bytes: usize,
    /// Whether its events are too large for a queue message and go through the payload bucket.
    pub claimed: bool,
    publish: Uuid,
}

impl UnsentDelivery<'_> {
    /// The delivery's id, derived from the publish, the event subscription and the events, so that
    /// a publish that is packed again makes recognizable duplicates.
    pub fn id(&self) -> Uuid {
        let ends = [self.events.first(), self.events.last()];
        let ends = ends.map(|position| position.copied().unwrap_or_default() as u64);
        let mut hash = Sha256::new();
        hash.update(self.publish.as_bytes());
        hash.update(self.recipient.uid.as_bytes());
        ends.iter().for_each(|position| hash.update(position.to_be_bytes()));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

/// All deliveries of one publish. They are made and written one by one, so that a publish to
/// hundreds of event subscriptions is never in memory hundreds of times.
#[derive(Debug)]
pub struct Packed<'m> {
    pub(super) acceptance: Acceptance,
    pub(super) recipients: Vec<Recipient<'m>>,
    pub(super) event_grid: Vec<Body>,
    pub(super) cloud_events: Vec<Body>,
    pub(super) custom: Vec<Body>,
    /// A queue form larger than this goes through the payload bucket.
    limit_bytes: usize,
}

impl<'m> Packed<'m> {
    /// Event bodies and their recipients; no queue message may exceed `message_bytes_max`.
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

    /// The topic's name; empty if there are no recipients.
    pub fn topic(&self) -> &str {
        self.recipients.first().map_or("", |recipient| recipient.key.topic.as_str())
    }

    /// All unsent, by event subscription, in the order of the request.
    pub fn unsent(&self) -> impl Iterator<Item = UnsentDelivery<'_>> {
        self.unsent_from(Start { recipient: 0, event: 0 })
    }

    /// The same from a start on, at which a one must begin.
    pub fn unsent_from(&self, from: Start) -> impl Iterator<Item = UnsentDelivery<'_>> {
        let recipients = self.recipients.iter().enumerate().skip(from.recipient);
        recipients.flat_map(move |(number, recipient)| {
            let first = if number == from.recipient { from.event } else { 0 };
            Parcels {
                packed: self,
                recipient,
                bodies: self.bodies(recipient.form.schema),
                envelope_bytes: envelope_bytes(recipient, self.acceptance),
                next: Start { recipient: number, event: first },
            }
        })
    }

    /// All unsent, if neither their number nor the total size of their queue forms exceeds these
    /// limits.
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

    /// The delivery of a one: the same at every call.
    pub fn delivery(&self, one: &UnsentDelivery<'_>) -> Delivery {
        let bodies = self.bodies(one.recipient.form.schema);
        let event = |position: &usize| {
            let text = bodies[*position].text.clone();
            RawValue::from_string(text).expect("made of texts that were read as JSON")
        };
        let delivery = self.with_events(one, one.events.iter().map(event).collect());
        if one.claimed { delivery.into_claimed() } else { delivery }
    }

    /// The queue form of [`Self::delivery`]. Events in it are copied once and not parsed.
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

    /// The trace of a delivery: the request's or, without one, the trace that all of its events
    /// name.
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
    /// The trace that it names itself.
    pub(super) trace_parent: Option<TraceParent>,
    /// The size of the text in a queue message.
    encoded_bytes: usize,
    /// The size of the data version in it, if the event is the first one.
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
/// A delivery never carries more events than its subscription's `maxEventsPerBatch`. It fills up to
/// the preferred size (the bytes of the request's body: events, commas and brackets), unless a
/// single event is larger. Its queue form never exceeds `message_bytes_max` less
/// [`HEADROOM_BYTES`]: an event that does not fit by itself is claimed, see
/// [`claim`](crate::delivery::claim).
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

/// The events in a schema, if a subscription asks for it.
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

/// The size of a delivery's queue form without its events and their data version.
fn envelope_bytes(recipient: &Recipient<'_>, acceptance: Acceptance) -> usize {
    let (key, uid) = (recipient.key.clone().into_owned(), recipient.uid);
    let empty = Delivery::new(Uuid::nil(), key, uid, acceptance.time, String::new(), Vec::new());
    let empty = empty.matched_under(acceptance.revision).packed_as(recipient.form);
    empty.encode().len() + r#","events":[]"#.len()
}

/// The size of a data version in a delivery's queue form.
fn data_version_bytes(data_version: &str) -> usize {
    if data_version.is_empty() {
        return 0;
    }
    let json = serde_json::to_string(data_version).expect("a string is JSON");
    r#""dataVersion":,"#.len() + queue_text_bytes(&json)
}

/// The size of a trace in a delivery's queue form.
const TRACE_BYTES: usize = r#","traceparent":"""#.len() + TRACE_PARENT_CHARS;

/// The deliveries of one event subscription.
struct Parcels<'p> {
    packed: &'p Packed<'p>,
    recipient: &'p Recipient<'p>,
    bodies: &'p [Body],
    envelope_bytes: usize,
    next: Start,
}

impl<'p> Iterator for Parcels<'p> {
    type Item = UnsentDelivery<'p>;

    /// One event and those after it that fit. An event too large for a queue message goes alone.
    fn next(&mut self) -> Option<UnsentDelivery<'p>> {
        const COMMA: usize = 1;
        const BRACKETS: usize = 2;
        let events = self.recipient.events.get(self.next.event..)?;
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
        self.next.event += count;
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
