//! The request that carries deliveries to a webhook.
//!
//! Source: Event Grid, "Webhook event delivery" and "Message headers"; CloudEvents, "HTTP protocol
//! binding" and "Web hooks for event delivery".

use sha2::{Digest, Sha256};

use super::Delivery;
use crate::{
    event::DeliverySchema,
    secret::Secret,
    subscription::{EventSubscription, attributes, signing},
    time::Timestamp,
    trace::{TRACE_PARENT, TraceParent},
};

/// One request to an endpoint.
#[derive(Clone, Debug)]
pub struct Request {
    /// The endpoint's URL, query included.
    pub url: Secret,
    /// Headers in the order they are sent.
    pub headers: Vec<(&'static str, String)>,
    /// Headers of the user's own, which come after them.
    pub attributes: Vec<(String, Secret)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Builds the request for deliveries that go out together. They have had the same number of
/// attempts, so one `aeg-delivery-count` speaks for all. `origin` is what CloudEvents receivers were
/// asked to consent to, `url` the subscription's endpoint.
pub fn build(
    subscription: &EventSubscription,
    url: &Secret,
    deliveries: &[&Delivery],
    attempts_made: u32,
    origin: &str,
    now: Timestamp,
) -> Request {
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
    let body = body(deliveries, array);
    if let Some(signing) = &subscription.signing {
        let id = webhook_id(deliveries);
        headers.push(("webhook-signature", signing.signatures(&id, now, &body)));
        headers.push(("webhook-id", id));
        headers.push(("webhook-timestamp", signing::seconds(now).to_string()));
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
    Request { url: url.clone(), headers, attributes, body }
}

/// The trace that all deliveries of a request belong to; one header can't speak for two.
pub(super) fn trace_parent(deliveries: &[&Delivery]) -> Option<TraceParent> {
    let (first, others) = deliveries.split_first()?;
    let same = |other: &&Delivery| other.traceparent == first.traceparent;
    first.traceparent.filter(|_| others.iter().all(same))
}

/// What names a request to its receiver: the delivery's id or, where several deliveries go out
/// together, a hash of all of theirs. So the same deliveries have the same id on every attempt, in
/// whatever order they were received.
fn webhook_id(deliveries: &[&Delivery]) -> String {
    if let [only] = deliveries {
        return only.id.to_string();
    }
    let mut ids: Vec<_> = deliveries.iter().map(|delivery| delivery.id).collect();
    ids.sort_unstable();
    let mut hash = Sha256::new();
    ids.iter().for_each(|id| hash.update(id.as_bytes()));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    // Version 8 of RFC 9562: bytes of an application's own making.
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
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

/// The events as they are, joined by commas. The payload is copied, never parsed.
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
        subscription::{DeliveryAttribute, Signing, attributes::AttributeValue},
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
        // Events that had lain in the payload bucket have them as well.
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
        // A header of the user's own stands alone.
        let value = AttributeValue::Static { value: "own".to_owned() };
        let own = DeliveryAttribute { name: "TraceParent".to_owned(), value };
        subscription.delivery_attributes = vec![own];
        assert_eq!(built(&subscription, &[&one]), None);
    }
}
