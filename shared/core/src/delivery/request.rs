//! The request that carries deliveries to a webhook.
//!
//! Source: Event Grid, "Webhook event delivery" and "Message headers"; CloudEvents, "HTTP protocol
//! binding" and "Web hooks for event delivery".

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Delivery, batch::Form, hashed_id};
use crate::{
    event::DeliverySchema,
    secret::Secret,
    subscription::{Authentication, EventSubscription, attributes},
    time::Timestamp,
    trace::{TRACE_PARENT, TraceParent},
};

/// A longer `dataVersion`, in bytes, gets no header: endpoints refuse large ones.
pub(crate) const DATA_VERSION_BYTES_MAX: usize = 1_024;

/// One request to an endpoint.
#[derive(Clone, Debug)]
pub struct Request {
    /// Query included.
    pub url: Secret,
    /// In the order they are sent.
    pub headers: Vec<(&'static str, String)>,
    /// The user's delivery attributes, sent last.
    pub attributes: Vec<(String, Secret)>,
    pub body: Vec<u8>,
    pub authentication: Option<Arc<Authentication>>,
    /// Whether the body of an accepted response may answer for single events.
    pub reads_results: bool,
}

/// Builds the request for deliveries of one form and number of attempts; `origin` is CloudEvents'.
pub fn build(
    subscription: &EventSubscription,
    url: &Secret,
    deliveries: &[&Delivery],
    attempts_made: u32,
    origin: &str,
    now: Timestamp,
) -> Request {
    let deliveries = &in_order(deliveries)[..];
    // The event subscription may ask for another form by now.
    let form = deliveries.first().map(|delivery| delivery.form(subscription));
    let form = form.unwrap_or_else(|| Form::of(subscription));
    let array = form.is_array(deliveries.iter().map(|delivery| delivery.event_count()).sum());
    let schema = form.schema;
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
    let body = body(deliveries, array);
    if let Some(signing) = &subscription.signing {
        headers.extend(signing.headers(webhook_id(deliveries), now, &body));
    }
    let events = deliveries.iter().flat_map(|delivery| delivery.left());
    let events = events.map(|(_, event)| event.get());
    let attributes = attributes::headers(&subscription.delivery_attributes, events);
    let is_own = |(name, _): &(String, _)| name.eq_ignore_ascii_case(TRACE_PARENT);
    if let Some(trace_parent) = trace_parent(deliveries)
        && !attributes.iter().any(is_own)
    {
        headers.push((TRACE_PARENT, trace_parent.to_string()));
    }
    let authentication = subscription.authentication.clone();
    let reads_results = subscription.batch_failure.reads_results;
    Request { url: url.clone(), headers, attributes, body, authentication, reads_results }
}

/// Returns the `dataVersion` for headers and attributes: empty if it is too long or has characters
/// that they can't carry. The event keeps it in any case.
///
/// Source: RFC 9110, section 5.5; SQS API reference, `SendMessage`, on message attributes.
pub(crate) fn data_version_for_headers(data_version: &str) -> &str {
    let is_allowed =
        |character: char| !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}');
    let fits = data_version.len() <= DATA_VERSION_BYTES_MAX && data_version.chars().all(is_allowed);
    if fits { data_version } else { "" }
}

/// Sorts deliveries, the oldest first: every attempt at them must have the same body.
fn in_order<'d>(deliveries: &[&'d Delivery]) -> Vec<&'d Delivery> {
    let mut deliveries = deliveries.to_vec();
    deliveries.sort_by_key(|delivery| (delivery.publish_time, delivery.id));
    deliveries
}

/// Returns the trace that all deliveries share; one header can't name two.
pub(super) fn trace_parent(deliveries: &[&Delivery]) -> Option<TraceParent> {
    let (first, others) = deliveries.split_first()?;
    let same = |other: &&Delivery| other.traceparent == first.traceparent;
    first.traceparent.filter(|_| others.iter().all(same))
}

/// Returns the request's id: the delivery's or, for several or parts, a hash of ids and parts: a
/// receiver of one half must not take the other for a repetition.
fn webhook_id(deliveries: &[&Delivery]) -> String {
    if let [only] = deliveries
        && only.done.is_empty()
    {
        return only.id.to_string();
    }
    let mut ids: Vec<_> = deliveries.iter().map(|delivery| (delivery.id, &delivery.done)).collect();
    ids.sort_unstable_by_key(|(id, _)| *id);
    let mut hash = Sha256::new();
    for (id, done) in ids {
        hash.update(id.as_bytes());
        if !done.is_empty() {
            hash.update(done.to_string());
        }
    }
    hashed_id(hash).to_string()
}

pub(super) fn content_type(schema: DeliverySchema, array: bool) -> &'static str {
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

/// Joins the events with commas, without parsing them.
pub(super) fn body(deliveries: &[&Delivery], array: bool) -> Vec<u8> {
    let events = || deliveries.iter().flat_map(|delivery| delivery.left()).map(|(_, event)| event);
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

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use uuid::Uuid;

    use super::*;
    use crate::{
        fixtures::subscription,
        subscription::{Batching, DeliveryAttribute, Signing, attributes::AttributeValue},
    };

    fn delivery(id: u128, event: &str) -> Delivery {
        let key = subscription("s").key;
        let events = vec![RawValue::from_string(event.to_owned()).expect("JSON")];
        let at = Timestamp::from_millis(1);
        Delivery::new(Uuid::from_u128(id), key, Uuid::nil(), at, String::new(), events)
    }

    fn url() -> Secret {
        Secret::new("https://example.com/hook")
    }

    fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
        let mut headers = request.headers.iter();
        headers.find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn a_signed_request_names_itself_alike_on_every_attempt() {
        let mut subscription = subscription("s");
        let signing = Signing::new([7; 32]);
        subscription.signing = Some(signing.clone());
        let (one, two) = (delivery(1, r#"{"id":"1"}"#), delivery(2, r#"{"id":"2"}"#));
        let at = Timestamp::from_millis;
        let build = |deliveries: &[&Delivery], made, now| {
            build(&subscription, &url(), deliveries, made, "o", now)
        };
        let first = build(&[&one], 0, at(5_000));
        let again = build(&[&one], 3, at(65_000));
        assert_eq!(header(&first, "webhook-id"), Some(one.id.to_string().as_str()));
        assert_eq!(header(&first, "webhook-id"), header(&again, "webhook-id"));
        assert_eq!(header(&first, "webhook-timestamp"), Some("5"));
        assert_eq!(header(&again, "webhook-timestamp"), Some("65"));
        let want = signing.signatures(&one.id.to_string(), at(5_000), br#"[{"id":"1"}]"#);
        assert_eq!(header(&first, "webhook-signature"), Some(want.as_str()));
        let joined = build(&[&one, &two], 0, at(5_000));
        let turned = build(&[&two, &one], 0, at(6_000));
        let id = header(&joined, "webhook-id").expect("an id");
        assert_eq!(Some(id), header(&turned, "webhook-id"));
        assert!(id.parse::<Uuid>().is_ok_and(|id| id != one.id && id != two.id));
        let other = build(&[&one, &delivery(3, "{}")], 0, at(5_000));
        assert_ne!(Some(id), header(&other, "webhook-id"));
        // Parts of a delivery do not repeat each other.
        let whole = Delivery { events: [one.events(), two.events()].concat().into(), ..one };
        let part = |event| whole.only(&[event].into_iter().collect());
        let ids = [&whole, &part(0), &part(1)].map(|part| {
            let built = build(&[part], 0, at(5_000));
            header(&built, "webhook-id").expect("an id").to_owned()
        });
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    }

    #[test]
    fn a_request_has_one_body_in_whatever_order_its_deliveries_were_received() {
        let mut batched = subscription("s");
        batched.batching = Some(Batching { max_events: 10, preferred_kilobytes: 64 });
        let mut older = delivery(3, r#"{"id":"3"}"#);
        older.publish_time = Timestamp::from_millis(0);
        let (one, two) = (delivery(1, r#"{ "n":1.50 }"#), delivery(2, r#"{"id":"2"}"#));
        let now = Timestamp::from_millis(9);
        for order in [[&one, &two, &older], [&older, &one, &two], [&two, &older, &one]] {
            let body = build(&batched, &url(), &order, 1, "o", now).body;
            assert_eq!(body, br#"[{"id":"3"},{ "n":1.50 },{"id":"2"}]"#);
        }
    }

    #[test]
    fn a_plain_request_has_neither_signature_nor_attributes() {
        let subscription = subscription("s");
        let request =
            build(&subscription, &url(), &[&delivery(1, "{}")], 0, "o", Timestamp::from_millis(0));
        assert_eq!((header(&request, "webhook-id"), request.attributes.len()), (None, 0));
    }

    #[test]
    fn attributes_are_resolved_from_all_events_of_a_request() {
        let mut subscription = subscription("s");
        let dynamic = |name: &str, source_field: &str| DeliveryAttribute {
            name: name.to_owned(),
            value: AttributeValue::Dynamic { source_field: source_field.to_owned() },
        };
        subscription.delivery_attributes = vec![dynamic("X-Id", "id"), dynamic("X-T", "data.t")];
        let deliveries = [
            delivery(1, r#"{"id":"1","data":{"t":5}}"#),
            delivery(2, r#"{"id":"2","data":{"t":5}}"#),
        ];
        let both: Vec<_> = deliveries.iter().collect();
        let request = build(&subscription, &url(), &both, 0, "o", Timestamp::from_millis(0));
        assert_eq!(request.attributes, [("X-T".to_owned(), Secret::new("5"))]);
        // Claimed events have them too.
        let claimed = delivery(3, r#"{"id":"3"}"#).into_claimed();
        let request = build(&subscription, &url(), &[&claimed], 0, "o", Timestamp::from_millis(0));
        assert_eq!(request.attributes, [("X-Id".to_owned(), Secret::new("3"))]);
    }

    #[test]
    fn a_request_carries_the_trace_of_all_its_deliveries() {
        let mut subscription = subscription("s");
        let trace = |end: &str| {
            TraceParent::parse(&format!("00-{}-b7ad6b71692033{end}-01", "a".repeat(32)))
        };
        let of = |id, trace_parent| delivery(id, "{}").traced(trace_parent);
        let (one, two, none) = (of(1, trace("31")), of(2, trace("32")), of(3, None));
        let built = |subscription: &EventSubscription, deliveries: &[&Delivery]| {
            let request =
                build(subscription, &url(), deliveries, 0, "o", Timestamp::from_millis(0));
            header(&request, TRACE_PARENT).map(str::to_owned)
        };
        let want = trace("31").map(|trace| trace.to_string());
        assert_eq!(built(&subscription, &[&one]), want);
        assert_eq!(built(&subscription, &[&one, &of(4, trace("31"))]), want);
        for others in [[&one, &two], [&one, &none], [&none, &one], [&none, &none]] {
            assert_eq!(built(&subscription, &others), None);
        }
        // The user's own header replaces ours.
        let value = AttributeValue::Static { value: "own".to_owned() };
        let own = DeliveryAttribute { name: "TraceParent".to_owned(), value };
        subscription.delivery_attributes = vec![own];
        assert_eq!(built(&subscription, &[&one]), None);
    }

    const CLOUD: DeliverySchema = DeliverySchema::CloudEventSchemaV1_0;

    fn wanting(schema: DeliverySchema, batching: Option<Batching>) -> EventSubscription {
        EventSubscription { delivery_schema: schema, batching, ..subscription("s") }
    }

    /// An event subscription may change while deliveries are under way.
    #[test]
    fn a_delivery_is_sent_as_what_it_was_packed_as() {
        const GRID: DeliverySchema = DeliverySchema::EventGridSchema;
        const JSON: &str = "application/json; charset=utf-8";
        const ONE: &str = "application/cloudevents+json; charset=utf-8";
        const BATCH: &str = "application/cloudevents-batch+json; charset=utf-8";
        let ten = Some(Batching { max_events: 10, preferred_kilobytes: 64 });
        let table = [
            ("as it is, one by one", CLOUD, None, 1, CLOUD, None, ONE),
            ("as it is, in batches", CLOUD, ten, 1, CLOUD, ten, BATCH),
            ("batching turned off", CLOUD, ten, 3, CLOUD, None, BATCH),
            ("batching turned off, one event", CLOUD, ten, 1, CLOUD, None, BATCH),
            ("batching turned on", CLOUD, None, 1, CLOUD, ten, ONE),
            ("a queue's ten to a webhook", CLOUD, None, 3, CLOUD, None, BATCH),
            ("another schema", GRID, None, 1, CLOUD, None, JSON),
            ("another schema, in batches", GRID, ten, 3, CLOUD, ten, JSON),
            ("another schema back", CLOUD, None, 1, GRID, None, ONE),
            ("another schema back, in batches", CLOUD, ten, 3, GRID, None, BATCH),
        ];
        for (row, was, batching, events, is, batching_now, want) in table {
            let form = Form::of(&wanting(was, batching));
            let key = subscription("s").key;
            let all = (0..events).map(|_| RawValue::from_string("{}".to_owned()).expect("JSON"));
            let at = Timestamp::from_millis(1);
            let delivery =
                Delivery::new(Uuid::nil(), key, Uuid::nil(), at, String::new(), all.collect());
            // The form travels in the queue.
            let delivery = Delivery::decode(&delivery.packed_as(form).encode()).expect("read");
            let now = wanting(is, batching_now);
            let request = build(&now, &url(), &[&delivery], 0, "o", at);
            assert_eq!(header(&request, "content-type"), Some(want), "{row}");
            assert_eq!(header(&request, "origin").is_some(), was == CLOUD, "{row}");
            let body: serde_json::Value = serde_json::from_slice(&request.body).expect(row);
            let sent = body.as_array().map_or(1, Vec::len);
            assert_eq!((body.is_object(), sent), (want == ONE, events), "{row}");
        }
    }

    #[test]
    fn what_was_packed_to_go_alone_goes_alone() {
        let ten = Batching { max_events: 10, preferred_kilobytes: 64 };
        let table = [
            ("packed alone, batching on now", CLOUD, false, Some(ten), 1),
            ("packed for batches", CLOUD, true, Some(ten), 10),
            ("packed for batches, batching off now", CLOUD, true, None, 1),
            ("always an array", DeliverySchema::EventGridSchema, false, Some(ten), 10),
        ];
        for (row, schema, batched, now, want) in table {
            let batching = Form { schema, batched }.batching(&wanting(schema, now));
            assert_eq!(batching.max_events, want, "{row}");
        }
    }
}
