use std::{collections::HashSet, sync::Arc};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    delivery::request::DATA_VERSION_BYTES_MAX,
    event::{cloud_events, event_grid},
    fixtures::subscription,
    publish::matching::{Matched, Matcher},
    subscription::{Batching, EventSubscription},
    topic::{InputSchema, Revision},
};

const TOPIC_ID: &str = "/topics/t";

/// A limit that no test here reaches.
const ROOMY: usize = 1_048_576;

/// A publish body with one event for each data text.
fn body(data: &[String], data_version: &str) -> String {
    let event = |(index, data): (usize, &String)| {
        json!({
            "id": index.to_string(), "eventType": "T", "subject": "s", "data": data,
            "eventTime": "2026-01-02T03:04:05Z", "dataVersion": data_version,
        })
    };
    Value::from_iter(data.iter().enumerate().map(event)).to_string()
}

fn batched(max_events: u32, preferred_kilobytes: u32) -> Option<Batching> {
    Some(Batching { max_events, preferred_kilobytes })
}

const ACCEPTANCE: Acceptance = Acceptance {
    id: Uuid::from_u128(1),
    time: Timestamp::from_millis(1_795_248_000_123),
    revision: Revision { created_at: Timestamp::from_millis(1_795_000_000_456), number: 17 },
    trace_parent: None,
};

fn pack_all(
    body: &str,
    subscriptions: Vec<EventSubscription>,
    message_bytes_max: usize,
) -> Packed<'static> {
    let events = event_grid::parse(body.as_bytes(), TOPIC_ID).expect("events");
    let subscriptions: Vec<_> = subscriptions.into_iter().map(Arc::new).collect();
    let Matched { matches, .. } = matcher(&subscriptions).match_events(&events, ACCEPTANCE.time);
    pack(matches.leak(), &events, ACCEPTANCE, message_bytes_max)
}

fn unsent<'p>(packed: &'p Packed<'_>) -> Vec<UnsentDelivery<'p>> {
    packed.unsent().collect()
}

fn matcher(subscriptions: &[Arc<EventSubscription>]) -> Matcher {
    Matcher::new(InputSchema::EventGridSchema, None, subscriptions)
}

fn positions(packed: &Packed<'_>) -> Vec<Vec<usize>> {
    packed.unsent().map(|one| one.events.to_vec()).collect()
}

#[test]
fn packing_table() {
    let kilobytes =
        |sizes: &[usize]| -> Vec<_> { sizes.iter().map(|size| "x".repeat(size * 1_024)).collect() };
    let table = [
        ("off: one by one", kilobytes(&[1, 1]), None, ROOMY, vec![vec![0], vec![1]]),
        (
            "by count",
            kilobytes(&[1; 5]),
            batched(2, 64),
            ROOMY,
            vec![vec![0, 1], vec![2, 3], vec![4]],
        ),
        (
            "by preferred size",
            kilobytes(&[1, 1, 1]),
            batched(9, 3),
            ROOMY,
            vec![vec![0, 1], vec![2]],
        ),
        (
            "one larger than preferred goes alone",
            kilobytes(&[1, 10, 1]),
            batched(9, 4),
            ROOMY,
            vec![vec![0], vec![1], vec![2]],
        ),
        (
            "by the queue message",
            kilobytes(&[9, 9, 9]),
            batched(9, 64),
            32 * 1_024,
            vec![vec![0, 1, 2]],
        ),
        (
            "by a smaller queue message",
            kilobytes(&[9, 9, 9]),
            batched(9, 64),
            31 * 1_024,
            vec![vec![0, 1], vec![2]],
        ),
        ("none", vec![], batched(9, 4), ROOMY, vec![]),
    ];
    for (row, data, batching, message_bytes_max, want) in table {
        let subscription = EventSubscription { batching, ..subscription("s") };
        let packed = pack_all(&body(&data, "1"), vec![subscription], message_bytes_max);
        assert_eq!(positions(&packed), want, "{row}");
    }
}

#[test]
fn the_preferred_size_counts_the_whole_request_body() {
    let subscription = EventSubscription { batching: batched(9, 1), ..subscription("s") };
    let request_bytes = |data: &[String]| -> usize {
        let packed = pack_all(&body(data, ""), vec![subscription.clone()], ROOMY);
        let events = packed.unsent().map(|one| packed.delivery(&one).events().to_vec());
        let joined = |events: Vec<Box<RawValue>>| serde_json::to_string(&events).expect("JSON");
        events.map(|events| joined(events).len()).max().expect("a delivery")
    };
    let pair = |bytes: usize| ["x".repeat(bytes), String::new()];
    let free = 1_024 - request_bytes(&pair(0));
    assert_eq!(request_bytes(&pair(free)), 1_024);
    let alone = request_bytes(&pair(free + 1));
    assert!(alone < 1_024, "both no longer fit, so the larger went alone: {alone}");
}

#[test]
fn each_schema_gets_its_events() {
    let cloud_event = DeliverySchema::CloudEventSchemaV1_0;
    let subscriptions = vec![
        subscription("grid"),
        EventSubscription { delivery_schema: cloud_event, ..subscription("cloud") },
    ];
    let packed = pack_all(&body(&["d".to_owned()], "2.0"), subscriptions, ROOMY);
    let deliveries: Vec<_> = packed.unsent().map(|one| packed.delivery(&one)).collect();
    let [grid, cloud] = &deliveries[..] else { panic!("two deliveries") };
    let names = [&*grid.subscription.name, &*cloud.subscription.name];
    assert_eq!((names, grid.publish_time), (["grid", "cloud"], ACCEPTANCE.time));
    assert_eq!([&*grid.data_version, &*cloud.data_version], ["2.0", ""]);
    assert!(grid.events()[0].get().contains(r#""metadataVersion":"1""#), "{}", grid.events()[0]);
    assert!(cloud.events()[0].get().contains(r##""dataschema":"#2.0""##), "{}", cloud.events()[0]);
}

#[test]
fn a_cloud_event_is_packed_as_it_came() {
    let text = r#"{ "id":"1", "source":"/s","type":"T","specversion":"1.0" }"#;
    let events = cloud_events::parse(text.as_bytes()).expect("an event");
    let subscription = EventSubscription {
        delivery_schema: DeliverySchema::CloudEventSchemaV1_0,
        ..subscription("s")
    };
    let matcher = matcher(&[Arc::new(subscription)]);
    let Matched { matches, .. } = matcher.match_events(&events, ACCEPTANCE.time);
    let packed = pack(&matches, &events, ACCEPTANCE, ROOMY);
    assert_eq!(packed.delivery(&unsent(&packed)[0]).events()[0].get(), text);
}

#[test]
fn ids_follow_from_publish_subscription_and_events() {
    let uid = |number| EventSubscription {
        uid: Uuid::from_u128(number),
        batching: batched(2, 64),
        ..subscription("s")
    };
    let packed = pack_all(&body(&["d".to_owned()], ""), vec![uid(1)], ROOMY);
    let [first] = unsent(&packed)[..] else { panic!("one delivery") };
    let other = |publish, recipient: u128, events: &'static [usize]| {
        let recipient = Recipient { uid: Uuid::from_u128(recipient), ..first.recipient.clone() };
        let publish = Uuid::from_u128(publish);
        UnsentDelivery { publish, recipient: &recipient, events, ..first }.id()
    };
    assert_eq!(other(1, 1, &[0]), first.id());
    let others = [other(2, 1, &[0]), other(1, 2, &[0]), other(1, 1, &[1]), other(1, 1, &[0, 1])];
    assert_eq!(HashSet::from(others).len(), 4);
    assert!(others.iter().all(|id| *id != first.id()), "{others:?}");
}

#[test]
fn no_more_than_a_request_has_time_for() {
    let batches = EventSubscription { batching: batched(9, 64), ..subscription("s") };
    let packed =
        pack_all(&body(&vec![String::new(); 4], ""), vec![subscription("s"), batches], ROOMY);
    let count = |deliveries, bytes| packed.at_most(deliveries, bytes).map(|unsent| unsent.len());
    let all = unsent(&packed);
    let bytes = all.iter().map(|one| one.encoded_bytes).sum();
    assert_eq!(all.len(), 5, "four by themselves and one of four");
    assert_eq!(count(5, bytes), Some(5));
    assert_eq!(count(4, bytes), None);
    assert_eq!(count(5, bytes - 1), None);
    assert_eq!(
        pack_all("[]", vec![subscription("s")], ROOMY).at_most(0, 0).map(|all| all.len()),
        Some(0)
    );
}

#[test]
fn an_event_too_large_for_a_queue_message_goes_apart_and_alone() {
    let body = body(&["x".to_owned(), "x".repeat(20_000), "x".to_owned()], "1");
    let subscription = EventSubscription { batching: batched(9, 64), ..subscription("s") };
    let packed = |limit| pack_all(&body, vec![subscription.clone()], limit);
    let claimed =
        |packed: &Packed<'_>| -> Vec<bool> { packed.unsent().map(|one| one.claimed).collect() };
    let one_by_one = EventSubscription { batching: batched(1, 64), ..subscription.clone() };
    let alone = pack_all(&body, vec![one_by_one], ROOMY);
    let needed = unsent(&alone)[1].encoded_bytes + HEADROOM_BYTES;
    assert_eq!(claimed(&packed(needed)), [false, false, false]);

    let packed = packed(needed - 1);
    assert_eq!(positions(&packed), [[0], [1], [2]]);
    assert_eq!(claimed(&packed), [false, true, false]);
    let delivery = packed.delivery(&unsent(&packed)[1]);
    assert!(delivery.events()[0].get().contains(&"x".repeat(20_000)));
    assert!(delivery.encode().len() < 1_000, "its events do not travel");
}

#[test]
fn a_long_data_version_stays_out_of_the_header() {
    let delivery = |data_version: &str| {
        let body = body(&["x".to_owned()], data_version);
        let packed = pack_all(&body, vec![subscription("s")], ROOMY);
        packed.delivery(&unsent(&packed)[0])
    };
    let longest = "v".repeat(DATA_VERSION_BYTES_MAX);
    assert_eq!(delivery(&longest).data_version, longest);
    let longer = format!("{longest}v");
    assert_eq!(delivery(&longer).data_version, "");
    assert!(delivery(&longer).events()[0].get().contains(&longer));
}

/// SQS and SNS would refuse the attribute, and the event would end undelivered.
#[test]
fn a_data_version_that_no_header_takes_stays_in_the_event() {
    for (text, want) in [
        ("1.0", "1.0"),
        ("é 2", "é 2"),
        ("a\nb", ""),
        ("a\u{0}", ""),
        ("\u{1b}[0m", ""),
        ("\u{7f}", ""),
        ("\u{85}", ""),
        ("a\u{ffff}", ""),
    ] {
        let body = serde_json::json!([{"id": "1", "subject": "s", "eventType": "T", "data": {},
            "eventTime": "2026-01-02T03:04:05Z", "dataVersion": text}]);
        let packed = pack_all(&body.to_string(), vec![subscription("s")], ROOMY);
        let delivery = packed.delivery(&unsent(&packed)[0]);
        assert_eq!(delivery.data_version, want, "{text:?}");
        let event: serde_json::Value =
            serde_json::from_str(delivery.events()[0].get()).expect("JSON");
        assert_eq!(event["dataVersion"], text);
    }
}

/// Text that grows in JSON, and again in a queue message.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("x"),
        Just("\u{ffff}"),
        Just("\u{fffe}"),
        Just("\""),
        Just("\n"),
        Just("é")
    ];
    prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
}

proptest! {
    // Each case packs and reads hundreds of kilobytes.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_doubled_or_over_a_limit(
        data in prop::collection::vec(text(), 0..16),
        data_version in prop_oneof![Just(String::new()), text()],
        max_events in 1..12_u32,
        preferred_kilobytes in 1..4_u32,
        message_bytes_max in 5_000..9_000_usize,
        cloud in any::<bool>(),
    ) {
        let schema = if cloud { DeliverySchema::CloudEventSchemaV1_0 }
                     else { DeliverySchema::EventGridSchema };
        let batching = batched(max_events, preferred_kilobytes);
        let subscriptions = ["a", "b"].map(|name| EventSubscription {
            uid: Uuid::from_u128(u128::from(name.as_bytes()[0])),
            batching,
            delivery_schema: schema,
            ..subscription(name)
        });
        let published = body(&data, &data_version);
        let packed = pack_all(&published, subscriptions.to_vec(), message_bytes_max);
        for name in ["a", "b"] {
            let own = packed.unsent().filter(|one| one.recipient.key.name == name);
            let events: Vec<_> = own.flat_map(|one| one.events.to_vec()).collect();
            prop_assert_eq!(events, (0..data.len()).collect::<Vec<_>>());
        }
        let ids: HashSet<_> = packed.unsent().map(|one| one.id()).collect();
        prop_assert_eq!(ids.len(), packed.unsent().count());
        for one in &unsent(&packed) {
            let delivery = packed.delivery(one);
            let encoded = packed.encode(one);
            prop_assert_eq!(&encoded, &delivery.encode());
            prop_assert!(encoded.len() + HEADROOM_BYTES <= message_bytes_max);
            let fits = one.encoded_bytes + HEADROOM_BYTES <= message_bytes_max;
            prop_assert_eq!(one.claimed, !fits);
            let count = delivery.events().len();
            prop_assert!(count == 1 || !one.claimed);
            prop_assert!(count <= max_events as usize);
            let request = serde_json::to_string(delivery.events()).expect("JSON");
            prop_assert!(count == 1 || request.len() <= preferred_kilobytes as usize * 1_024);
            let read = Delivery::decode(&encoded).expect("a delivery");
            prop_assert_eq!(read.event_count(), count);
            if !one.claimed {
                prop_assert_eq!(encoded.len(), one.encoded_bytes);
                prop_assert_eq!(read.events().len(), count);
            }
        }
    }
}

fn trace(number: u8) -> TraceParent {
    let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033{number:02x}-01");
    TraceParent::parse(&text).expect("a trace")
}

#[test]
fn trace_table() {
    let event = |trace_parent: Option<TraceParent>| {
        let mut event = json!({"specversion": "1.0", "id": "1", "source": "/s", "type": "T"});
        if let Some(trace_parent) = trace_parent {
            event["traceparent"] = json!(trace_parent);
        }
        event
    };
    let (none, one, two) = (None, Some(trace(1)), Some(trace(2)));
    // Request's trace, events' traces, delivery's trace.
    let table = [
        ("nobody names one", none, vec![none, none], none),
        ("the request", one, vec![none, none], one),
        ("the request before the events", one, vec![two, two], one),
        ("all events the same", none, vec![two, two], two),
        ("events of two traces", none, vec![one, two], none),
        ("not all events", none, vec![one, none], none),
        ("not all events, turned", none, vec![none, one], none),
    ];
    for (row, request, events, want) in table {
        let body = Value::from_iter(events.into_iter().map(event)).to_string();
        let events = cloud_events::parse(body.as_bytes()).expect("events");
        let of_batches = EventSubscription {
            delivery_schema: DeliverySchema::CloudEventSchemaV1_0,
            batching: batched(10, 64),
            ..subscription("s")
        };
        let subscriptions = [Arc::new(of_batches)];
        let matcher = Matcher::new(InputSchema::CloudEventSchemaV1_0, None, &subscriptions);
        let matched = matcher.match_events(&events, ACCEPTANCE.time);
        let acceptance = Acceptance { trace_parent: request, ..ACCEPTANCE };
        let packed = pack(&matched.matches, &events, acceptance, ROOMY);
        let unsent = unsent(&packed);
        assert_eq!(unsent.len(), 1, "{row}");
        let text = packed.encode(&unsent[0]);
        let read = Delivery::decode(&text).expect("a delivery");
        assert_eq!(read.traceparent, want, "{row}");
        assert!(text.len() <= unsent[0].encoded_bytes, "{row}: more than was foreseen");
        assert_eq!(packed.delivery(&unsent[0]).encode(), text, "{row}");
    }
}

#[test]
fn deliveries_say_under_which_revision_they_were_matched() {
    for data in ["small", &"large".repeat(8_000)] {
        let packed = pack_all(&body(&[data.to_owned()], "1"), vec![subscription("s")], 32 * 1_024);
        for one in packed.unsent() {
            let sent = Delivery::decode(&packed.encode(&one)).expect("a delivery");
            assert_eq!(sent.revision, ACCEPTANCE.revision, "claimed: {}", sent.is_claimed());
            assert_eq!(sent.due_at(ACCEPTANCE.time).revision, ACCEPTANCE.revision);
        }
    }
}
