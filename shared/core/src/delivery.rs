//! Deliveries: the events of one request to one event subscription, from packing to their end.
//!
//! A delivery to a webhook ends or is retried as a whole, see [`retry`](crate::retry). AWS services
//! answer for each event: [`resource_request`] and [`resource_outcome`] hold the calls and their
//! answers, and [`partial`] separates delivered events from those that go on.

pub mod batch;
pub mod bisect;
pub mod claim;
pub mod dead_letter;
pub mod event_set;
pub mod handshake;
pub mod listeners;
pub mod parking;
pub mod partial;
pub mod partial_results;
pub mod plan;
pub mod probe;
pub mod queue;
pub mod rate;
pub mod redrive;
pub mod request;
pub mod resource_check;
pub mod resource_outcome;
pub mod resource_request;
pub mod state;

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    delivery::queue::Queue,
    retry::attempts::Attempts,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::Revision,
    trace::TraceParent,
};
use batch::Form;
use claim::Claim;
use event_set::EventSet;

const VERSION: u8 = 1;

/// The version if events are in the payload bucket: older functions must not see an empty delivery.
const VERSION_CLAIMED: u8 = 2;
const IDS_MAX: usize = 100;
const IDS_BYTES_MAX: usize = 4_096;

/// A delivery, as it travels in an SQS message. Its events are raw JSON, exactly as they are sent.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    v: u8,
    /// Stable over all attempts.
    pub id: Uuid,
    pub subscription: SubscriptionKey,
    pub subscription_uid: Uuid,
    /// The topic's revision when its events were matched or redriven: others may be too old.
    #[serde(default)]
    pub revision: Revision,
    pub publish_time: Timestamp,
    /// Not to be attempted earlier.
    pub due: Option<Timestamp>,
    pub redriven: Option<Redriven>,
    /// The attempts known when the message was sent; the state table may know more.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub attempts: Attempts,
    /// `dataVersion` of the first event, for the request's header; empty for CloudEvents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data_version: String,
    /// `None` means the form that the event subscription asks for, as for redriven deliveries.
    form: Option<Form>,
    pub traceparent: Option<TraceParent>,
    /// Events that were delivered or ended separately. The state may know of more.
    #[serde(default, skip_serializing_if = "EventSet::is_empty")]
    pub done: EventSet,
    /// How often a successor message was sent after its first wait: because its state could not be written,
    /// or to move it to another queue.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub resent: u8,
    /// 1 to 5,000 events in the delivery schema, shared by copies; empty if claimed.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    events: Arc<Vec<Box<RawValue>>>,
    claim: Option<Claim>,
    /// Events loaded from the payload bucket.
    #[serde(skip)]
    claimed: Arc<Vec<Box<RawValue>>>,
}

/// Marks the delivery of a redriven dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redriven {
    /// At least 1.
    pub times: u32,
    /// Time-to-live counts from here.
    pub at: Timestamp,
}

/// The reason why a queue message could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("the message is not a delivery")]
    NotADelivery(#[source] serde_json::Error),
    #[error("the message is not an ended delivery")]
    NotEnded(#[source] serde_json::Error),
    #[error("the message has version {0}, which this function does not read")]
    Version(u8),
    /// A delivery without events would count as delivered with nothing sent.
    #[error("the delivery {0} has no events")]
    NoEvents(Uuid),
}

impl Delivery {
    /// Creates a delivery without attempts.
    pub fn new(
        id: Uuid,
        subscription: SubscriptionKey,
        subscription_uid: Uuid,
        publish_time: Timestamp,
        data_version: String,
        events: Vec<Box<RawValue>>,
    ) -> Self {
        Self {
            v: VERSION,
            id,
            subscription,
            subscription_uid,
            revision: Revision::default(),
            publish_time,
            due: None,
            redriven: None,
            attempts: Attempts::default(),
            data_version,
            form: None,
            traceparent: None,
            done: EventSet::default(),
            resent: 0,
            events: Arc::new(events),
            claim: None,
            claimed: Arc::default(),
        }
    }

    /// Sets the topic's revision under which its events were matched.
    #[must_use]
    pub fn matched_under(self, revision: Revision) -> Self {
        Self { revision, ..self }
    }

    /// Sets the form that its events were packed in.
    #[must_use]
    pub fn packed_as(self, form: Form) -> Self {
        Self { form: Some(form), ..self }
    }

    /// Returns the form that its events were packed in.
    pub fn form(&self, subscription: &EventSubscription) -> Form {
        self.form.unwrap_or_else(|| Form::of(subscription))
    }

    /// Sets its trace.
    #[must_use]
    pub fn traced(self, traceparent: Option<TraceParent>) -> Self {
        Self { traceparent, ..self }
    }

    /// Leaves the events out of the queue form, because they are in the payload bucket.
    #[must_use]
    pub fn into_claimed(mut self) -> Self {
        if self.claim.is_none() {
            self.v = VERSION_CLAIMED;
            self.claim =
                Some(Claim { events: u32::try_from(self.events.len()).unwrap_or(u32::MAX) });
            self.claimed = std::mem::take(&mut self.events);
        }
        self
    }

    /// Returns whether its events are in the payload bucket.
    pub fn is_claimed(&self) -> bool {
        self.claim.is_some()
    }

    /// Adds the events loaded from the payload bucket.
    pub fn claim(&mut self, events: Vec<Box<RawValue>>) {
        self.claimed = Arc::new(events);
    }

    /// Returns the loaded events, done or not; none until claimed events are loaded.
    pub fn events(&self) -> &[Box<RawValue>] {
        if self.is_claimed() { &self.claimed } else { &self.events }
    }

    /// Returns a copy for one request in which only these events are not done.
    #[must_use]
    pub fn only(&self, of: &EventSet) -> Self {
        let mut only = self.clone();
        let others = (0..self.events().len()).filter(|position| !of.has(*position));
        only.done.add_all(&others.collect());
        only
    }

    /// Returns the loaded events that are not done, with their positions.
    pub fn left(&self) -> impl Iterator<Item = (usize, &RawValue)> + Clone {
        let events = self.events().iter().enumerate().map(|(at, event)| (at, &**event));
        events.filter(|(position, _)| !self.done.has(*position))
    }

    /// Returns the ids of the events that are not done, as a JSON array cut for a log line.
    pub fn event_ids(&self) -> String {
        ids(self.left())
    }

    /// Does the same for the events of a set.
    pub fn event_ids_of(&self, of: &EventSet) -> String {
        ids(self.left().filter(|(position, _)| of.has(*position)))
    }

    /// Returns a delivery of some of its events; the others are marked as done. A part of claimed
    /// events carries them, under a derived id: releasing the whole's payload would release them.
    #[must_use]
    pub fn part(&self, of: &EventSet) -> Self {
        if !self.is_claimed() {
            let others = (0..self.events.len()).filter(|position| !of.has(*position));
            return Self { done: others.collect(), ..self.clone() };
        }
        self.apart(of)
    }

    /// Returns a delivery with a derived id that carries all events that are not done. Parts share
    /// the delivery's id, so the first part to end releases what is stored under it.
    #[must_use]
    pub fn rest(&self) -> Self {
        self.apart(&self.left().map(|(position, _)| position).collect())
    }

    fn apart(&self, of: &EventSet) -> Self {
        let events = self.left().filter(|(position, _)| of.has(*position));
        let hash = Sha256::new().chain_update(self.id.as_bytes()).chain_update(of.to_string());
        Self {
            v: VERSION,
            id: hashed_id(hash),
            events: Arc::new(events.map(|(_, event)| event.to_owned()).collect()),
            claim: None,
            claimed: Arc::default(),
            done: EventSet::default(),
            subscription: self.subscription.clone(),
            attempts: self.attempts.clone(),
            data_version: self.data_version.clone(),
            ..*self
        }
    }

    /// Returns when its time-to-live starts: at the publish, or at its redrive.
    pub fn ttl_starts_at(&self) -> Timestamp {
        self.redriven.map_or(self.publish_time, |redriven| redriven.at)
    }

    /// Counts its events that are not done, loaded or not.
    pub fn event_count(&self) -> usize {
        let all = self.claim.map_or(self.events.len(), |claim| claim.events as usize);
        all.saturating_sub(self.done.len())
    }

    /// Sets its due time.
    #[must_use]
    pub fn due_at(&self, due: Timestamp) -> Self {
        Self { due: Some(due), ..self.clone() }
    }

    /// Writes the queue form, safe for SQS: see [`queue_text`].
    pub fn encode(&self) -> String {
        queue_text(serde_json::to_string(self).expect("a delivery has only string keys"))
    }

    /// Writes the queue form, of about `bytes` bytes, with these JSON texts as its only events.
    pub fn encode_with<'a>(&self, events: impl Iterator<Item = &'a str>, bytes: usize) -> String {
        let empty = serde_json::to_string(self).expect("a delivery has only string keys");
        let mut text = String::with_capacity(bytes);
        text.push_str(empty.strip_suffix('}').expect("an object ends with a brace"));
        text.push_str(r#","events":["#);
        for (index, event) in events.enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(event);
        }
        text.push_str("]}");
        queue_text(text)
    }

    /// Reads the queue form.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let delivery: Self = serde_json::from_str(text).map_err(DecodeError::NotADelivery)?;
        delivery.checked()
    }

    fn checked(self) -> Result<Self, DecodeError> {
        match (self.v, self.claim) {
            (VERSION, None) | (VERSION_CLAIMED, Some(_)) if self.event_count() == 0 => {
                Err(DecodeError::NoEvents(self.id))
            }
            (VERSION, None) | (VERSION_CLAIMED, Some(_)) => Ok(self),
            (v, _) => Err(DecodeError::Version(v)),
        }
    }

    /// Returns its retry queue: one per event subscription, so that failures burden no other shard.
    pub fn retry_queue(&self, shards: usize) -> Queue {
        Self::retry_queue_of(self.subscription_uid, shards)
    }

    /// Returns the retry queue of an event subscription.
    pub fn retry_queue_of(subscription_uid: Uuid, shards: usize) -> Queue {
        let shard = subscription_uid.as_u128() % shards.max(1) as u128;
        Queue::Retry(usize::try_from(shard).unwrap_or(0))
    }

    /// Returns the size of the loaded events that are not done, without separators.
    pub fn events_bytes(&self) -> usize {
        self.left().map(|(_, event)| event.get().len()).sum()
    }
}

/// Returns an id of version 8 (RFC 9562: application-defined) that begins with a hash.
pub(crate) fn hashed_id(hash: Sha256) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

fn ids<'e>(events: impl Iterator<Item = (usize, &'e RawValue)>) -> String {
    #[derive(Deserialize)]
    struct Named<'e> {
        #[serde(borrow)]
        id: Cow<'e, str>,
    }
    let mut bytes = 0;
    let ids = events.take(IDS_MAX);
    let ids = ids.filter_map(|(_, event)| serde_json::from_str::<Named<'_>>(event.get()).ok());
    let ids = ids.map(|named| named.id).take_while(|id| {
        bytes += id.len();
        bytes <= IDS_BYTES_MAX
    });
    serde_json::json!(ids.collect::<Vec<_>>()).to_string()
}

/// Makes JSON text legal for an SQS body, which takes the characters of XML 1.0 only. JSON escapes
/// control characters itself; U+FFFE and U+FFFF may stand raw in its strings, and are escaped here.
pub fn queue_text(json: String) -> String {
    if escaped_in_queue_text(&json) > 0 {
        json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
    } else {
        json
    }
}

/// Returns the size of what [`queue_text`] returns.
pub fn queue_text_bytes(json: &str) -> usize {
    json.len() + escaped_in_queue_text(json) * (r"\uffff".len() - '\u{ffff}'.len_utf8())
}

fn escaped_in_queue_text(json: &str) -> usize {
    let bytes = json.as_bytes();
    // U+FFFE is EF BF BE and U+FFFF is EF BF BF in UTF-8, where EF begins a character and nothing else.
    let escaped = |at: &usize| matches!(bytes.get(at + 1..at + 3), Some([0xbf, 0xbe | 0xbf]));
    memchr::memchr_iter(0xef, bytes).filter(escaped).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(event: &str) -> Delivery {
        Delivery::new(
            Uuid::from_u128(7),
            SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() },
            Uuid::from_u128(8),
            Timestamp::from_millis(1),
            String::new(),
            vec![RawValue::from_string(event.to_owned()).expect("JSON")],
        )
    }

    #[test]
    fn parts_of_a_delivery_share_its_events() {
        let whole = delivery("{}");
        let first = EventSet::from_iter([0]);
        for whole in [whole.clone(), whole.into_claimed()] {
            let only = whole.only(&first);
            assert!(std::ptr::eq(whole.events()[0].get(), only.events()[0].get()));
        }
    }

    #[test]
    fn events_travel_byte_for_byte() {
        let event = r#"{ "id" : "1",  "n": 1.50, "big": 123456789012345678901234567890 }"#;
        let read = Delivery::decode(&delivery(event).encode()).expect("a delivery");
        assert_eq!(read.events()[0].get(), event);
    }

    #[test]
    fn claimed_events_do_not_travel() {
        let claimed = delivery(r#"{"large":true}"#).into_claimed();
        assert_eq!((claimed.events().len(), claimed.event_count()), (1, 1));
        let text = claimed.encode();
        assert!(!text.contains("large"), "{text}");
        let mut read = Delivery::decode(&text).expect("a delivery");
        assert!(read.is_claimed());
        assert_eq!((read.events().len(), read.event_count()), (0, 1));
        read.claim(claimed.events().to_vec());
        assert_eq!(read.events()[0].get(), r#"{"large":true}"#);
        assert_eq!(read.encode(), text);
        let as_plain = text.replace("\"v\":2", "\"v\":1");
        assert!(Delivery::decode(&as_plain).is_err(), "a version without claims");
    }

    #[test]
    fn characters_that_sqs_refuses_are_escaped() {
        let text = delivery("{\"a\":\"\u{ffff}\u{fffe}\"}").encode();
        assert!(text.contains(r#"{"a":"\uffff\ufffe"}"#), "{text}");
    }

    #[test]
    fn what_is_no_delivery_is_refused_by_name() {
        let whole = delivery("{}").encode();
        let claimed = delivery("{}").into_claimed().encode();
        let none = "the delivery 00000000-0000-0000-0000-000000000007 has no events";
        let table = [
            (whole.replace("\"v\":1", "\"v\":9"), "the message has version 9"),
            (claimed.replace("\"v\":2", "\"v\":1"), "the message has version 1"),
            (whole.replace(",\"events\":[{}]", ""), none),
            (whole.replace("[{}]", "[]"), none),
            (claimed.replace("{\"events\":1}", "{\"events\":0}"), none),
            (whole.replace("\"id\"", "\"ID\""), "the message is not a delivery"),
            (String::new(), "the message is not a delivery"),
        ];
        for (text, want) in table {
            let refused = Delivery::decode(&text).expect_err(&text).to_string();
            assert!(refused.starts_with(want), "{text}: {refused}");
        }
    }

    #[test]
    fn a_subscription_has_one_retry_queue() {
        for (shards, want) in [(1, 0), (3, 2), (4, 0), (0, 0)] {
            assert_eq!(delivery("{}").retry_queue(shards), Queue::Retry(want), "{shards}");
        }
    }
}
