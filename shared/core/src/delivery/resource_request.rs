//! The calls that carry deliveries to an AWS resource.
//!
//! A function gets one invocation with what a webhook would get. Every other service gets each
//! event as a message, record or entry, and answers for each.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Delivery, queue_text_bytes, request, resource_outcome::status_of};
use crate::{
    event::lookup::{Paths, text_of},
    retry::outcome::{Answer, Outcome},
    secret::Secret,
    subscription::{
        EventSubscription, KeySource, Resource, ResourceKind, attributes,
        aws::{PARTITION_KEY_CHARS_MAX, is_group},
    },
    time::Timestamp,
    topic,
    trace::{TRACE_PARENT, TraceParent},
};

/// Source: SQS developer guide, "Message attributes".
const MESSAGE_ATTRIBUTES_MAX: usize = 10;

/// The most characters of a detail type. Source: EventBridge API reference, `PutEventsRequestEntry`.
const DETAIL_TYPE_CHARS_MAX: usize = 128;

/// The attribute that names an event's schema.
pub const SCHEMA: &str = "aeg-delivery-schema";

/// One message, record, entry or invocation.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The same on every attempt, so that a FIFO resource can deduplicate.
    pub id: String,
    /// The event, or the body that a webhook would get.
    pub body: String,
    /// Message attributes, or a webhook's headers.
    pub attributes: Vec<(String, Secret)>,
    /// Some services have no attributes to say so.
    pub attempts_made: u32,
    /// The message group, or the partition key.
    pub key: Option<String>,
    pub bus: Option<BusMembers>,
}

/// The members of an event bus's entry besides its detail, which is the whole event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusMembers {
    /// `source`, or `topic`.
    pub source: String,
    /// `type`, or `eventType`: as much of it as a bus takes.
    pub detail_type: String,
    /// `time`, or `eventTime`.
    pub time: Option<Timestamp>,
    pub trace_header: Option<String>,
}

/// The position of one event in the deliveries of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventIndex {
    /// From 0.
    pub delivery: usize,
    pub event: usize,
}

/// One call: its entries, and the events in each.
#[derive(Clone, Debug, Default)]
pub struct Call {
    pub entries: Vec<Entry>,
    pub places: Vec<Vec<EventIndex>>,
    bytes: usize,
}

/// The calls for deliveries that are sent together.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Each within the service's limits.
    pub calls: Vec<Call>,
    /// Events that the service would refuse.
    pub refused: Vec<(EventIndex, Answer)>,
}

/// Plans the calls for deliveries that have had the same number of attempts.
pub fn plan(
    subscription: &EventSubscription,
    resource: &Resource,
    deliveries: &[&Delivery],
    attempts_made: u32,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if resource.kind == ResourceKind::LambdaFunction {
        let invocation = invocation(subscription, deliveries, attempts_made, now);
        let all = deliveries.iter().enumerate().flat_map(|(index, delivery)| {
            delivery.left().map(move |(event, _)| EventIndex { delivery: index, event })
        });
        plan.add(resource.kind, invocation, all.collect());
        return plan;
    }
    for (index, delivery) in deliveries.iter().enumerate() {
        let shared = shared_attributes(subscription, delivery, attempts_made);
        for (event, text) in delivery.left() {
            let place = EventIndex { delivery: index, event };
            match entry(subscription, resource, delivery, (event, text), &shared) {
                Ok(entry) => {
                    plan.add(resource.kind, Entry { attempts_made, ..entry }, vec![place]);
                }
                Err(outcome) => plan.refuse(place, outcome),
            }
        }
    }
    plan
}

impl Plan {
    fn refuse(&mut self, place: EventIndex, outcome: Outcome) {
        let status = status_of(outcome);
        self.refused.push((place, Answer { outcome, status, retry_after: None }));
    }

    /// Adds an entry to the last call or, if it does not fit, to a new one.
    fn add(&mut self, kind: ResourceKind, entry: Entry, places: Vec<EventIndex>) {
        let rules = kind.rules();
        let bytes = entry.bytes(kind);
        if bytes > rules.call_bytes_max {
            places.into_iter().for_each(|place| self.refuse(place, Outcome::PayloadTooLarge));
            return;
        }
        let fits = |call: &Call| {
            call.entries.len() < rules.call_entries_max as usize
                && call.bytes + bytes <= rules.call_bytes_max
        };
        if !self.calls.last().is_some_and(fits) {
            self.calls.push(Call::default());
        }
        let call = self.calls.last_mut().expect("one was added");
        call.entries.push(entry);
        call.places.push(places);
        call.bytes += bytes;
    }
}

impl Entry {
    /// Returns its size as the service counts it.
    fn bytes(&self, kind: ResourceKind) -> usize {
        const TYPE: usize = "String".len();
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + TYPE + value.expose().len());
        // Source: EventBridge user guide, "Calculating PutEvents event entry size": 14 for the time.
        let bus = self.bus.as_ref().map_or(0, |bus| 14 + bus.source.len() + bus.detail_type.len());
        let key = if kind == ResourceKind::KinesisStream { self.key.as_deref() } else { None };
        let body = match kind {
            ResourceKind::SqsQueue | ResourceKind::SnsTopic => queue_text_bytes(&self.body),
            _ => self.body.len(),
        };
        body + attributes.sum::<usize>() + key.map_or(0, str::len) + bus
    }
}

fn invocation(
    subscription: &EventSubscription,
    deliveries: &[&Delivery],
    attempts_made: u32,
    now: Timestamp,
) -> Entry {
    let nowhere = Secret::new("");
    let request = request::build(subscription, &nowhere, deliveries, attempts_made, "", now);
    let headers = request.headers.into_iter().filter(|(name, value)| {
        // Nobody asked for consent to an origin.
        *name != "origin" && !value.is_empty()
    });
    let headers = headers.map(|(name, value)| (name.to_owned(), Secret::new(value)));
    let form = deliveries.first().map(|delivery| delivery.form(subscription));
    let schema = form.map_or(subscription.delivery_schema, |form| form.schema);
    let schema = Secret::new(<&str>::from(schema));
    let attributes = headers.chain([(SCHEMA.to_owned(), schema)]).chain(request.attributes);
    Entry {
        id: deliveries.first().map(|delivery| delivery.id.to_string()).unwrap_or_default(),
        body: String::from_utf8_lossy(&request.body).into_owned(),
        attributes: attributes.collect(),
        attempts_made,
        key: None,
        bus: None,
    }
}

/// Returns Gridpost's own attributes, the most important first: there may not be room for all.
fn shared_attributes(
    subscription: &EventSubscription,
    delivery: &Delivery,
    attempts_made: u32,
) -> Vec<(String, Secret)> {
    let schema = delivery.form(subscription).schema;
    let trace_parent = delivery.traceparent.map(|trace| trace.to_string()).unwrap_or_default();
    let all = [
        ("content-type", request::content_type(schema, false).to_owned()),
        (SCHEMA, <&str>::from(schema).to_owned()),
        ("aeg-subscription-name", subscription.key.name.to_ascii_uppercase()),
        ("aeg-delivery-count", attempts_made.to_string()),
        ("aeg-data-version", delivery.data_version.clone()),
        (TRACE_PARENT, trace_parent),
        ("aeg-event-type", "Notification".to_owned()),
        ("aeg-metadata-version", "1".to_owned()),
    ];
    // Attributes must not be empty.
    let given = all.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| (name.to_owned(), Secret::new(value))).collect()
}

fn entry(
    subscription: &EventSubscription,
    resource: &Resource,
    delivery: &Delivery,
    (position, event): (usize, &RawValue),
    shared: &[(String, Secret)],
) -> Result<Entry, Outcome> {
    let event = event.get();
    let id = format!("{}-{position}", delivery.id);
    let mut attributes = Vec::new();
    if resource.kind.rules().attributes_max > 0 {
        let own = attributes::headers(&subscription.delivery_attributes, std::iter::once(event));
        attributes.extend(own.into_iter().filter(|(_, value)| !value.expose().is_empty()));
        let is_own = |name: &str| {
            subscription.delivery_attributes.iter().any(|own| own.name.eq_ignore_ascii_case(name))
        };
        let room = MESSAGE_ATTRIBUTES_MAX.saturating_sub(attributes.len());
        let shared = shared.iter().filter(|(name, _)| !is_own(name));
        attributes.extend(shared.take(room).cloned());
    }
    Ok(Entry {
        key: key(resource, event, &id)?,
        bus: (resource.kind == ResourceKind::EventBridgeBus).then(|| bus_members(delivery, event)),
        id,
        body: event.to_owned(),
        attributes,
        attempts_made: 0,
    })
}

fn key(resource: &Resource, event: &str, id: &str) -> Result<Option<String>, Outcome> {
    match resource.kind {
        ResourceKind::SqsQueue | ResourceKind::SnsTopic => {
            let group = resource.message_group_id.as_ref().and_then(|source| value(source, event));
            let group = group.filter(|group| is_group(group));
            match group {
                None if resource.is_fifo() => Err(Outcome::SessionQueueNotSupported),
                group => Ok(group),
            }
        }
        ResourceKind::KinesisStream => {
            let of_event = || read(event).id.map(Cow::into_owned);
            let given = match &resource.partition_key {
                Some(source) => value(source, event),
                None => None,
            };
            let fits = |key: &String| (1..=PARTITION_KEY_CHARS_MAX).contains(&key.chars().count());
            let key = given.filter(fits).or_else(|| of_event().filter(fits));
            Ok(Some(key.unwrap_or_else(|| id.to_owned())))
        }
        ResourceKind::LambdaFunction | ResourceKind::EventBridgeBus => Ok(None),
    }
}

/// Returns the text, number or boolean that a key comes from.
fn value(source: &KeySource, event: &str) -> Option<String> {
    let field = match source {
        KeySource::Static { value } => return Some(value.clone()),
        KeySource::Dynamic { source_field } => source_field,
    };
    let mut paths = Paths::default();
    let place = paths.add(field.split('.'));
    let json = paths.walk(event).at(place)?;
    match json.as_bytes().first()? {
        b'"' => Some(text_of(json).into_owned()),
        b't' | b'f' | b'-' | b'0'..=b'9' => Some(json.to_owned()),
        _ => None,
    }
}

/// A member that is not a string counts as absent.
#[derive(Default, Deserialize)]
struct Members<'e> {
    #[serde(default, borrow)]
    id: Option<Cow<'e, str>>,
    #[serde(default, borrow)]
    source: Option<Cow<'e, str>>,
    #[serde(default, borrow)]
    topic: Option<Cow<'e, str>>,
    #[serde(default, borrow, rename = "type")]
    event_type: Option<Cow<'e, str>>,
    #[serde(default, borrow, rename = "eventType")]
    grid_type: Option<Cow<'e, str>>,
    #[serde(default, borrow)]
    time: Option<Cow<'e, str>>,
    #[serde(default, borrow, rename = "eventTime")]
    grid_time: Option<Cow<'e, str>>,
}

/// In a publisher's own schema these names may mean other things: such an event has no members.
fn read(event: &str) -> Members<'_> {
    serde_json::from_str(event).unwrap_or_default()
}

fn bus_members(delivery: &Delivery, event: &str) -> BusMembers {
    let members = read(event);
    let text = |one: Option<Cow<'_, str>>, other: Option<Cow<'_, str>>, default: &str| {
        let found = [one, other].into_iter().flatten().find(|text| !text.is_empty());
        found.map_or_else(|| default.to_owned(), Cow::into_owned)
    };
    let topic = topic::id_of(&delivery.subscription.topic);
    let time = members.time.or(members.grid_time);
    let event_type = text(members.event_type, members.grid_type, "Event");
    BusMembers {
        source: text(members.source, members.topic, &topic),
        detail_type: event_type.chars().take(DETAIL_TYPE_CHARS_MAX).collect(),
        time: time.and_then(|time| Timestamp::parse_rfc_3339(&time)),
        trace_header: delivery.traceparent.map(x_ray),
    }
}

/// Writes a W3C trace as X-Ray does. Source: AWS X-Ray developer guide, "Tracing header".
fn x_ray(trace: TraceParent) -> String {
    let text = trace.to_string();
    let mut parts = text.split('-').skip(1);
    let (id, parent) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let sampled =
        parts.next().and_then(|flags| u8::from_str_radix(flags, 16).ok()).unwrap_or(0) & 1;
    let (time, rest) = id.split_at(id.len().min(8));
    format!("Root=1-{time}-{rest};Parent={parent};Sampled={sampled}")
}

#[cfg(test)]
mod tests;
