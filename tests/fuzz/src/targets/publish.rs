//! Publish bodies in each schema, from the request's bytes to delivery requests and dead letters.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use gridpost_api::subscription;
use gridpost_core::{
    delivery::{
        Delivery,
        claim::{self, Payload},
        dead_letter::Ended,
        queue_text, request,
    },
    endpoint::Allowed,
    event::{
        DeliverySchema, ParsedEvent,
        custom::Stamps,
        mapping::{Field, InputSchemaMapping},
    },
    publish::{
        self, fan_out,
        matching::{Matched, Matcher},
        pack::{Acceptance, HEADROOM_BYTES, Packed, pack},
    },
    retry::{
        EndReason, attempts::Attempts, health::ProbationPolicy, outcome::Outcome,
        policy::RetryPolicy, profile::ProfileName,
    },
    subscription::{
        Batching, DeadLetterDestination, EventSubscription, ProvisioningState, SubscriptionKey,
    },
    time::Timestamp,
    topic::{InputSchema, Kind, Revision, Topic},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, value::RawValue};
use uuid::Uuid;

/// The queue message that the deployment's default allows.
const MESSAGE_BYTES_MAX: usize = 262_144;

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_123);

/// A body in Event Grid's schema.
pub(crate) fn event_grid(input: &[u8]) {
    publish(&topic(InputSchema::EventGridSchema), &content_type("application/json"), input);
}

/// A body in CloudEvents, structured: one or a batch, to a custom topic or a namespace topic.
pub(crate) fn cloud_events(input: &[u8]) {
    let headers = content_type("application/cloudevents+json");
    let custom = topic(InputSchema::CloudEventSchemaV1_0);
    let namespace = Topic { kind: Kind::Namespace, ..custom.clone() };
    publish(&custom, &headers, input);
    publish(&namespace, &headers, input);
}

/// A CloudEvent in binary mode: lines of `name: value`, an empty line, the body.
pub(crate) fn binary(input: &[u8]) {
    let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let body = input.get(end + 2..).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in input[..end].split(|byte| *byte == b'\n').take(100) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    publish(&topic(InputSchema::CloudEventSchemaV1_0), &headers, body);
}

/// A body in the publisher's own schema. The first line, if the input has several, names what is
/// mapped: members for id, topic, eventTime, eventType, subject, dataVersion, divided by commas.
pub(crate) fn custom(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let line = String::from_utf8_lossy(&input[..end]);
    let mut names =
        line.split(',').map(|name| Some(name.to_owned()).filter(|name| !name.is_empty()));
    let mut next = || names.next().flatten();
    let mut field = |default: &str| Field {
        source_field: next(),
        default_value: Some(default.to_owned()).filter(|text| !text.is_empty()),
    };
    let (event_type, subject, data_version) = (field("T"), field(""), field("1"));
    let mapping = InputSchemaMapping {
        id: next(),
        topic: next(),
        event_time: next(),
        event_type,
        subject,
        data_version,
    };
    // What a topic's document may not have.
    if serde_json::to_string(&mapping).is_ok_and(|text| text.len() > 2_048) {
        return;
    }
    let topic =
        Topic { input_schema_mapping: Some(mapping), ..topic(InputSchema::CustomEventSchema) };
    publish(&topic, &content_type("application/json"), &input[end..]);
}

pub(super) fn topic(input_schema: InputSchema) -> Topic {
    Topic {
        name: "orders".to_owned(),
        kind: Kind::Custom,
        input_schema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile: ProfileName::Basic,
        idempotency: None,
        etag: uuid::Uuid::nil(),
        created_at: Timestamp::from_millis(0),
        revision: 1,
        changes: Default::default(),
    }
}

fn content_type(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static(value))])
}

/// Returns the schemas that a topic's events may be delivered in.
pub(super) fn schemas(input: InputSchema) -> Vec<DeliverySchema> {
    use DeliverySchema::{CloudEventSchemaV1_0, CustomInputSchema, EventGridSchema};
    match input {
        InputSchema::EventGridSchema => vec![EventGridSchema, CloudEventSchemaV1_0],
        InputSchema::CloudEventSchemaV1_0 => vec![CloudEventSchemaV1_0],
        InputSchema::CustomEventSchema => {
            vec![EventGridSchema, CloudEventSchemaV1_0, CustomInputSchema]
        }
    }
}

/// An event subscription as a document makes it, so that members which are added later need no word
/// here.
pub(super) fn subscription(
    topic: &Topic,
    schema: DeliverySchema,
    batching: Option<Batching>,
) -> EventSubscription {
    let document = serde_json::json!({"properties": {
        "destination": {"endpointType": "WebHook", "properties": {"endpointUrl": "https://example.com/"}},
        "eventDeliverySchema": schema,
    }});
    let allowed = Allowed::default();
    let context = subscription::Context { topic, existing: None, now: NOW, allowed: &allowed };
    let settings = subscription::read(&document, &context).expect("a valid document");
    let retry_policy = RetryPolicy::default_of(ProfileName::Basic);
    let probation_policy = ProbationPolicy::EventGrid;
    EventSubscription { batching, retry_policy, probation_policy, ..stored(topic, settings) }
}

/// The event subscription that a document's settings make once its endpoint has consented.
pub(super) fn stored(topic: &Topic, settings: subscription::Settings) -> EventSubscription {
    let key = SubscriptionKey { topic: topic.name.clone(), name: "s1".to_owned() };
    let uid = Uuid::from_u128(1);
    let identity = subscription::Identity {
        uid,
        endpoint_uid: None,
        created_at: NOW,
        etag: Uuid::nil(),
        modified_at: NOW,
    };
    let state = ProvisioningState::Succeeded;
    let consent = subscription::Consent { state, validation: None, allowed_rate: None };
    settings.into_subscription(key, identity, consent)
}

/// Publishes: what is refused must say why; what is accepted must become deliveries that are JSON,
/// hold what the publisher wrote, and stay within every limit.
fn publish(topic: &Topic, headers: &HeaderMap, input: &[u8]) {
    let topic_id = topic.id();
    let mut ids = (1..).map(Uuid::from_u128);
    let mut id = || ids.next().expect("endless");
    let body = match publish::body(topic, headers, input) {
        Ok(body) => body,
        Err(error) => return refused(&error),
    };
    let stamps = Stamps { now: NOW, id: &mut id };
    let events = match publish::read(topic, &topic_id, &body, stamps) {
        Ok(events) => events,
        Err(error) => return refused(&error),
    };
    let structured = matches!(body, Cow::Borrowed(_));
    for (index, event) in events.iter().enumerate() {
        match &event.text {
            Cow::Borrowed(text) => assert!(!structured || holds(input, text.as_bytes()), "{text}"),
            Cow::Owned(text) => assert_eq!(given(input, index), members(text), "{text}"),
        }
        assert!(!event.id.is_empty() && !event.event_type.is_empty() && !event.source.is_empty());
    }
    for schema in schemas(topic.input_schema) {
        deliver(topic, schema, &events);
    }
}

fn refused(error: &publish::PublishError) {
    assert!((400..500).contains(&error.status()), "{error}");
    assert!(error.retry_after_s().is_none() && error.to_string().len() < 1_000, "{error}");
    let body: Value = serde_json::from_str(&error.to_json()).expect("an answer is JSON");
    assert!(body["error"]["details"][0]["code"].is_string());
}

fn deliver(topic: &Topic, schema: DeliverySchema, events: &[ParsedEvent<'_>]) {
    let batching = Batching { max_events: 3, preferred_kilobytes: 1 };
    let subscriptions =
        [None, Some(batching)].map(|batching| Arc::new(subscription(topic, schema, batching)));
    let Matched { matches, unmatched } =
        Matcher::new(topic.input_schema, topic.input_schema_mapping.as_ref(), &subscriptions)
            .match_events(events, NOW);
    assert_eq!(unmatched, 0, "both want everything");
    let acceptance = Acceptance {
        id: Uuid::from_u128(9),
        time: NOW,
        revision: Revision::default(),
        trace_parent: None,
    };
    let packed = pack(&matches, events, acceptance, MESSAGE_BYTES_MAX);
    let stored = fan_out::decode(&fan_out::encode(&packed), MESSAGE_BYTES_MAX);
    let stored = stored.expect("what is written can be read");
    let of = |packed: &Packed<'_>| -> Vec<_> {
        packed.unsent().map(|one| (one.id(), packed.encode(&one))).collect()
    };
    assert_eq!(of(&stored), of(&packed), "a stored publish makes the same deliveries");
    let mut seen = 0;
    for one in &packed.unsent().collect::<Vec<_>>() {
        let made = packed.delivery(one);
        let encoded = packed.encode(one);
        assert!(encoded.len() + HEADROOM_BYTES <= MESSAGE_BYTES_MAX);
        let mut delivery = Delivery::decode(&encoded).expect("what is written can be read");
        if one.claimed {
            let stored = claim::decode(&claim::encode(made.events()));
            let Ok(Payload::Events(events)) = stored else { panic!("{stored:?}") };
            delivery.claim(events);
        } else {
            assert_eq!(encoded.len(), one.encoded_bytes, "the size was foreseen");
        }
        assert_eq!(delivery.events().len(), one.events.len());
        for (position, event) in one.events.iter().zip(delivery.events()) {
            // Only what travels in a message was escaped for it.
            let event = queue_text(event.get().to_owned());
            let event = RawValue::from_string(event).expect("still JSON");
            holds_the_event(&events[*position], schema, &event);
        }
        seen += delivery.events().len();
        sent_and_ended(topic, &subscriptions[one.place.0], delivery);
    }
    assert_eq!(seen, 2 * events.len(), "each event is delivered once to each");
}

/// Members of Event Grid's schema that a null leaves out.
const LEFT_OUT_BY_NULL: [&str; 3] = ["topic", "dataVersion", "metadataVersion"];

/// An object's members as they are written.
fn members(text: &str) -> BTreeMap<String, String> {
    let read: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).expect("an object");
    read.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
}

/// The members of an event of Event Grid's schema: nulls leave members out, and a number is the text of
/// an id.
fn given(input: &[u8], index: usize) -> BTreeMap<String, String> {
    let input = input.strip_prefix("\u{feff}".as_bytes()).unwrap_or(input);
    let events: Vec<&RawValue> = serde_json::from_slice(input).expect("an array");
    let mut members = members(events[index].get());
    members.retain(|name, value| value != "null" || !LEFT_OUT_BY_NULL.contains(&name.as_str()));
    if let Some(id) = members.get_mut("id").filter(|id| !id.starts_with('"')) {
        *id = format!("\"{id}\"");
    }
    members
}

/// The delivered form holds what the publisher wrote: all of it, but where an EventGrid event became a
/// CloudEvent, which holds its data.
fn holds_the_event(event: &ParsedEvent<'_>, schema: DeliverySchema, delivered: &RawValue) {
    // In a queue message two characters are escapes.
    let wrote = queue_text(event.text.to_string());
    let written = event.in_schema(schema);
    let data = |text: &str| {
        serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text)
            .ok()
            .and_then(|mut members| members.remove("data"))
            .map(|data| queue_text(data.get().to_owned()))
    };
    assert_eq!(delivered.get(), queue_text(written));
    let all = wrote.strip_suffix('}').expect("an object");
    if delivered.get().contains(all) {
        return;
    }
    assert_eq!(schema, DeliverySchema::CloudEventSchemaV1_0, "something was lost: {wrote}");
    assert_eq!(data(&event.text), data(delivered.get()), "data were lost");
}

/// The request and the dead letter are JSON.
fn sent_and_ended(topic: &Topic, subscription: &EventSubscription, mut delivery: Delivery) {
    let url = gridpost_core::secret::Secret::new("https://example.com/");
    let request = request::build(subscription, &url, &[&delivery], 0, "example.com", NOW);
    assert!(serde_json::from_slice::<&RawValue>(&request.body).is_ok(), "the request is JSON");
    delivery.attempts = Attempts::default().with(NOW, Outcome::BadRequest, Some(400));
    for profile in [ProfileName::Basic, ProfileName::Namespace] {
        let ended = Ended {
            delivery: delivery.clone(),
            reason: EndReason::UndeliverableDueToHttpBadRequest,
            at: NOW,
            destination: DeadLetterDestination { bucket: "b".repeat(63), prefix: "p".repeat(200) },
            schema: subscription.delivery_schema,
            mapping: topic.input_schema_mapping.clone(),
            profile,
            attributes: Vec::new(),
        };
        let text = serde_json::to_string(&ended).expect("a dead letter has only string keys");
        assert!(queue_text(text).len() <= MESSAGE_BYTES_MAX, "no queue message holds it");
        for record in ended.records() {
            assert!(serde_json::from_str::<&RawValue>(&record).is_ok(), "no JSON: {record}");
        }
    }
}

/// Whether one text contains another, both being the same memory: found without a search.
fn holds(whole: &[u8], part: &[u8]) -> bool {
    let (whole, part) = (whole.as_ptr_range(), part.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}
