use base64::{Engine, engine::general_purpose::STANDARD};
use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    event::event_grid,
    fixtures::subscription,
    publish::{
        matching::{Match, Matched, Matcher},
        pack::pack,
    },
    subscription::{Batching, EventSubscription, Filter},
    topic::{InputSchema, Revision},
};

const ROOMY: usize = 1_048_576;

fn acceptance() -> Acceptance {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Acceptance {
        id: Uuid::from_u128(7),
        time: Timestamp::from_millis(1_795_248_000_123),
        revision: Revision { created_at: Timestamp::from_millis(1_795_000_000_456), number: 17 },
        trace_parent: crate::trace::TraceParent::parse(trace),
    }
}

/// Events have the types `T0`, `T1`, `T2`, `T0`…
fn body(events: usize, data_bytes: usize) -> String {
    let event = |index: usize| {
        json!({
            "id": index.to_string(), "eventType": format!("T{}", index % 3), "subject": "s",
            "data": "\u{ffff}".repeat(data_bytes), "eventTime": "2026-01-02T03:04:05Z",
            "dataVersion": "1",
        })
    };
    Value::from_iter((0..events).map(event)).to_string()
}

/// Event subscriptions that differ in everything that packing looks at.
fn matches(subscriptions: usize, body: &str) -> Vec<Match> {
    let of = |number: usize| {
        let batching = Batching { max_events: 1 + number as u32, preferred_kilobytes: 1 };
        let types = (!number.is_multiple_of(3)).then(|| vec![format!("T{}", number % 3)]);
        Arc::new(EventSubscription {
            uid: Uuid::from_u128(number as u128),
            batching: number.is_multiple_of(2).then_some(batching),
            delivery_schema: if number.is_multiple_of(4) {
                DeliverySchema::CloudEventSchemaV1_0
            } else {
                DeliverySchema::EventGridSchema
            },
            filter: Filter { included_event_types: types, ..Filter::default() },
            ..subscription(&format!("s{number}"))
        })
    };
    let subscriptions: Vec<_> = (0..subscriptions).map(of).collect();
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    let matcher = Matcher::new(InputSchema::EventGridSchema, None, &subscriptions);
    let Matched { matches, .. } = matcher.match_events(&events, acceptance().time);
    matches
}

fn packed<'m>(matches: &'m [Match], body: &str, message_bytes_max: usize) -> Packed<'m> {
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    pack(matches, &events, acceptance(), message_bytes_max)
}

/// Maps ids to encoded deliveries.
fn sent(packed: &Packed<'_>, unsent: &[UnsentDelivery<'_>]) -> Vec<(Uuid, String, Vec<String>)> {
    let one = |one: &UnsentDelivery<'_>| {
        let delivery = packed.delivery(one);
        let events = delivery.events().iter().map(|event| event.get().to_owned());
        (one.id(), packed.encode(one), events.collect())
    };
    unsent.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_pieces_of_a_stored_publish_are_all_of_it(
        events in 0..20_usize,
        subscriptions in 1..9_usize,
        deliveries_max in 1..9_usize,
        message_bytes_max in 5_000..6_000_usize,
        data_bytes in prop_oneof![Just(0_usize), Just(400)],
    ) {
        let body = body(events, data_bytes);
        let matches = matches(subscriptions, &body);
        let packed = packed(&matches, &body, message_bytes_max);
        let stored = decode(&encode(&packed), message_bytes_max).expect("a stored publish");
        prop_assert_eq!(stored.acceptance(), acceptance());
        prop_assert_eq!(stored.topic(), if matches.is_empty() { "" } else { "t" });
        let mut all = Vec::new();
        for piece in cut(&packed, packed.acceptance().id, deliveries_max) {
            let piece = Piece::decode(&piece.encode()).expect("a piece");
            prop_assert_eq!(piece.publish, acceptance().id);
            let unsent = piece.unsent(&stored);
            prop_assert!((1..=deliveries_max).contains(&unsent.len()));
            // After an interruption anywhere, the rest is exactly what is missing.
            for (number, one) in unsent.iter().enumerate() {
                let rest = piece.rest(one.place).unsent(&stored);
                prop_assert_eq!(sent(&stored, &rest), sent(&stored, &unsent[number..]));
            }
            all.extend(sent(&stored, &unsent));
        }
        let unsent: Vec<_> = packed.unsent().collect();
        prop_assert_eq!(all, sent(&packed, &unsent));
    }
}

#[test]
fn pieces_are_cut_by_bytes_too() {
    let body = format!(
        "[{}]",
        vec![
            r#"{"id":"1","eventType":"T0","subject":"s","data":"DATA",
        "eventTime":"2026-01-02T03:04:05Z"}"#
                .replace("DATA", &"x".repeat(250_000));
            4
        ]
        .join(",")
    );
    let matches = matches(100, &body);
    let packed = packed(&matches, &body, ROOMY);
    let bytes: usize = packed.unsent().map(|one| one.encoded_bytes).sum();
    let pieces = cut(&packed, packed.acceptance().id, usize::MAX);
    assert_eq!(pieces.len(), bytes.div_ceil(PIECE_BYTES_MAX), "{bytes} bytes");
    let deliveries: BTreeSet<_> =
        pieces.iter().flat_map(|piece| piece.unsent(&packed)).map(|one| one.id()).collect();
    assert_eq!(deliveries.len(), packed.unsent().count());
}

#[test]
fn no_secret_is_stored() {
    let body = body(1, 0);
    let matches = matches(1, &body);
    let text = String::from_utf8(encode(&packed(&matches, &body, ROOMY))).expect("text");
    assert!(text.contains(r#""name":"s0""#) && !text.contains("example.com"), "{text}");
}

#[test]
fn what_is_no_publish_and_no_piece_is_refused() {
    let body = body(9, 0);
    let matches = matches(1, &body);
    let packed = packed(&matches, &body, ROOMY);
    let good = String::from_utf8(encode(&packed)).expect("text");
    let bits = STANDARD.encode([0xff, 0x01]);
    assert!(good.contains(&bits), "{good}");
    let table = [
        ("{}".to_owned(), "not of the form of a stored publish"),
        (String::new(), "not of the form of a stored publish"),
        (good.replace(r#""v":1"#, r#""v":2"#), "version 2"),
        (good.replace(&bits, &STANDARD.encode([0xff, 0x03])), "t/s0 gets events"),
        (good.replace(&bits, &STANDARD.encode([0])), "t/s0 gets events"),
        (good.replace(&bits, "?"), "t/s0 gets events"),
    ];
    for (object, says) in table {
        let refused = decode(object.as_bytes(), ROOMY).expect_err("no stored publish");
        assert!(refused.to_string().contains(says), "{refused}");
    }
    assert!(decode(good.as_bytes(), ROOMY).is_ok());
    let piece = cut(&packed, packed.acceptance().id, 1)[0].encode();
    assert!(Piece::decode(&piece).is_ok());
    for (text, says) in
        [("{}", "form of a piece"), (&*piece.replace(r#""v":1"#, r#""v":9"#), "version 9")]
    {
        let refused = Piece::decode(text).expect_err("no piece");
        assert!(refused.to_string().contains(says), "{refused}");
    }
}
