use uuid::Uuid;

use super::*;
use crate::{
    fixtures,
    subscription::{DeliveryAttribute, Endpoint, attributes::AttributeValue},
};

fn resource(kind: ResourceKind, arn: &str) -> Resource {
    let arn = format!("arn:aws:{}:us-east-1:123456789012:{arn}", kind.rules().service);
    Resource {
        kind,
        arn: arn.parse().expect("an ARN"),
        message_group_id: None,
        partition_key: None,
    }
}

fn queue() -> Resource {
    resource(ResourceKind::SqsQueue, "q")
}

fn delivery(id: u128, events: &[String]) -> Delivery {
    let key = fixtures::subscription("s").key;
    let events = events.iter().map(|event| RawValue::from_string(event.clone()).expect("JSON"));
    let at = Timestamp::from_millis(1);
    Delivery::new(Uuid::from_u128(id), key, Uuid::nil(), at, "1.0".to_owned(), events.collect())
}

fn events(count: usize) -> Vec<String> {
    (0..count).map(|number| format!(r#"{{"id":"{number}","data":{{"k":"{number}"}}}}"#)).collect()
}

fn planned(resource: &Resource, attributes: usize, deliveries: &[&Delivery]) -> Plan {
    let mut subscription = fixtures::subscription("s");
    subscription.endpoint = Endpoint::Resource(resource.clone());
    let attribute = |number| DeliveryAttribute {
        name: format!("x-{number}"),
        value: AttributeValue::Static { value: "v".to_owned() },
    };
    subscription.delivery_attributes = (0..attributes).map(attribute).collect();
    plan(&subscription, resource, deliveries, 2, Timestamp::from_millis(0))
}

fn names(entry: &Entry) -> Vec<&str> {
    entry.attributes.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn each_event_is_a_message_with_what_it_is_told_by() {
    let (one, mut two) = (delivery(1, &events(1)), delivery(2, &events(3)));
    two.done.add(1);
    let plan = planned(&queue(), 1, &[&one, &two]);
    let [call] = &plan.calls[..] else { panic!("{plan:?}") };
    let ids: Vec<_> = call.entries.iter().map(|entry| entry.id.clone()).collect();
    let id = |number: u128, event| format!("{}-{event}", Uuid::from_u128(number));
    assert_eq!(ids, [id(1, 0), id(2, 0), id(2, 2)], "what is done with is not sent again");
    let place = |delivery, event| vec![EventIndex { delivery, event }];
    assert_eq!(call.places, [place(0, 0), place(1, 0), place(1, 2)]);
    let want = [
        "x-0",
        "content-type",
        "aeg-delivery-schema",
        "aeg-subscription-name",
        "aeg-delivery-count",
        "aeg-data-version",
        "aeg-event-type",
        "aeg-metadata-version",
    ];
    assert_eq!(names(&call.entries[0]), want);
    let value = |name| call.entries[0].attributes.iter().find(|(found, _)| found == name);
    assert_eq!(value("aeg-delivery-count").map(|(_, value)| value.expose()), Some("2"));
    assert_eq!(
        value("aeg-delivery-schema").map(|(_, value)| value.expose()),
        Some("EventGridSchema")
    );
    // A message has room for ten.
    let plan = planned(&queue(), 6, &[&one]);
    assert_eq!(names(&plan.calls[0].entries[0]).len(), 10);
    assert!(names(&plan.calls[0].entries[0]).contains(&"aeg-delivery-count"));
}

#[test]
fn calls_keep_to_what_the_service_takes() {
    let text = |bytes: usize| format!(r#"{{"id":"{}"}}"#, "a".repeat(bytes - 9));
    let (bus, stream) = (ResourceKind::EventBridgeBus, ResourceKind::KinesisStream);
    let table = [
        ("ten messages", queue(), vec![100; 21], vec![10, 10, 1], 0),
        ("a mebibyte", queue(), vec![600_000, 500_000, 400_000], vec![1, 2], 0),
        ("too large", queue(), vec![100, 1_048_576, 100], vec![2], 1),
        ("a bus's 256 KiB", resource(bus, "event-bus/b"), vec![200_000; 2], vec![1, 1], 0),
        ("500 records", resource(stream, "stream/s"), vec![100; 501], vec![500, 1], 0),
    ];
    for (row, resource, sizes, want, refused) in table {
        let events: Vec<_> = sizes.into_iter().map(text).collect();
        let plan = planned(&resource, 0, &[&delivery(1, &events)]);
        let sizes: Vec<_> = plan.calls.iter().map(|call| call.entries.len()).collect();
        assert_eq!((sizes, plan.refused.len()), (want, refused), "{row}");
        for (_, answer) in plan.refused {
            assert_eq!((answer.outcome, answer.status), (Outcome::PayloadTooLarge, Some(413)));
        }
    }
}

/// Both services refuse a call whole, so an event that grows would end its neighbours.
#[test]
fn what_a_queue_and_a_topic_get_is_counted_as_it_is_sent() {
    // 3 bytes a character in the event, 6 as sent.
    let event = |characters: usize| format!(r#"{{"id":"{}"}}"#, "\u{ffff}".repeat(characters));
    let (topic, stream) = (ResourceKind::SnsTopic, ResourceKind::KinesisStream);
    let table = [
        ("SQS", queue(), 100_000, vec![1, 1]),
        ("SNS", resource(topic, "t"), 30_000, vec![1, 1]),
        ("SNS, small ones", resource(topic, "t"), 10_000, vec![2]),
        ("Kinesis gets it as it is", resource(stream, "stream/s"), 30_000, vec![2]),
    ];
    for (row, resource, characters, want) in table {
        let events = [event(characters), event(characters)];
        let plan = planned(&resource, 0, &[&delivery(1, &events)]);
        let sizes: Vec<_> = plan.calls.iter().map(|call| call.entries.len()).collect();
        assert_eq!((sizes, plan.refused.len()), (want, 0), "{row}");
    }
}

#[test]
fn group_table() {
    let dynamic = |field: &str| Some(KeySource::Dynamic { source_field: field.to_owned() });
    let fixed = Some(KeySource::Static { value: "g".to_owned() });
    let (sqs, sns) = (ResourceKind::SqsQueue, ResourceKind::SnsTopic);
    let none = Err(Outcome::SessionQueueNotSupported);
    let group = |group: &str| Ok(Some(group.to_owned()));
    let table = [
        ("standard, none", sqs, "q", None, Ok(None)),
        ("standard, one", sqs, "q", fixed.clone(), group("g")),
        ("FIFO, none", sqs, "q.fifo", None, none.clone()),
        ("FIFO, fixed", sns, "t.fifo", fixed, group("g")),
        ("FIFO, of the event", sqs, "q.fifo", dynamic("data.k"), group("7")),
        ("FIFO, missing in the event", sqs, "q.fifo", dynamic("data.x"), none.clone()),
        ("FIFO, no text", sns, "t.fifo", dynamic("data"), none.clone()),
        ("FIFO, illegal", sqs, "q.fifo", dynamic("data.space"), none),
        ("standard, missing in the event", sqs, "q", dynamic("data.x"), Ok(None)),
    ];
    for (row, kind, arn, source, want) in table {
        let resource = Resource { message_group_id: source, ..resource(kind, arn) };
        let event = r#"{"id":"1","data":{"k":7,"space":"a b"}}"#;
        assert_eq!(key(&resource, event, "id"), want, "{row}");
    }
}

#[test]
fn partition_key_table() {
    let dynamic = |field: &str| Some(KeySource::Dynamic { source_field: field.to_owned() });
    let table = [
        ("the event's id", None, r#"{"id":"é-1"}"#, "é-1"),
        ("of the event", dynamic("data.k"), r#"{"id":"1","data":{"k":"v"}}"#, "v"),
        ("missing: its id", dynamic("data.k"), r#"{"id":"1"}"#, "1"),
        ("no id: the delivery's", None, r#"{"a":1}"#, "delivery-0"),
        ("an id that is not text", None, r#"{"id":5}"#, "delivery-0"),
        ("empty", None, r#"{"id":""}"#, "delivery-0"),
    ];
    for (row, source, event, want) in table {
        let stream = resource(ResourceKind::KinesisStream, "stream/s");
        let stream = Resource { partition_key: source, ..stream };
        let key = key(&stream, event, "delivery-0").expect("a key");
        assert_eq!(key.as_deref(), Some(want), "{row}");
    }
}

#[test]
fn a_bus_gets_the_whole_event_and_its_members() {
    let trace =
        TraceParent::parse(&format!("00-0af7651916cd43dd{}-b7ad6b7169203331-01", "8".repeat(16)));
    let bus = resource(ResourceKind::EventBridgeBus, "event-bus/b");
    let of = |event: &str| {
        let delivery = delivery(1, &[event.to_owned()]).traced(trace);
        let plan = planned(&bus, 0, &[&delivery]);
        let entry = plan.calls[0].entries[0].clone();
        assert_eq!((entry.body.as_str(), entry.attributes.len()), (event, 0));
        entry.bus.expect("members of a bus")
    };
    let cloud =
        of(r#"{"id":"1","source":"/s","type":"t.u","time":"2026-01-02T03:04:05Z","data":[1]}"#);
    assert_eq!((cloud.source.as_str(), cloud.detail_type.as_str()), ("/s", "t.u"));
    assert_eq!(cloud.time, Timestamp::parse_rfc_3339("2026-01-02T03:04:05Z"));
    let header =
        format!("Root=1-0af76519-16cd43dd{};Parent=b7ad6b7169203331;Sampled=1", "8".repeat(16));
    assert_eq!(cloud.trace_header, Some(header));
    let grid = of(r#"{"id":"1","topic":"/t","eventType":"e","eventTime":"2026-01-02T03:04:05Z"}"#);
    assert_eq!((grid.source.as_str(), grid.detail_type.as_str()), ("/t", "e"));
    assert!(grid.time.is_some());
    let long = of(&format!(r#"{{"type":"{}é","data":1}}"#, "é".repeat(128)));
    assert_eq!(long.detail_type, "é".repeat(128), "the event has all of it");
    let own = of(r#"{"type":5,"anything":true}"#);
    assert_eq!((own.source.as_str(), own.detail_type.as_str()), ("/topics/t", "Event"));
}

#[test]
fn a_function_gets_what_a_webhook_gets() {
    let function = resource(ResourceKind::LambdaFunction, "function:f");
    let (one, two) = (delivery(1, &events(1)), delivery(2, &events(2)));
    let plan = planned(&function, 1, &[&one, &two]);
    let [call] = &plan.calls[..] else { panic!("{plan:?}") };
    let [entry] = &call.entries[..] else { panic!("{call:?}") };
    let all: Vec<_> = events(1).into_iter().chain(events(2)).collect();
    assert_eq!(entry.body, format!("[{}]", all.join(",")));
    assert_eq!(call.places[0].len(), 3);
    assert!(names(entry).contains(&"aeg-delivery-count") && names(entry).contains(&"x-0"));
}
