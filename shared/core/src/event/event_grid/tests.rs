use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::cloud_events::is_for_attributes;
use crate::{
    event::{DeliverySchema, EVENTS_MAX},
    publish::PublishError,
};

const TOPIC_ID: &str = "/topics/orders";

/// The smallest event.
const LEAST: &str = r#""id":"1","subject":"s","eventType":"T","eventTime":"2026-01-02T03:04:05Z""#;

fn refusal(body: &[u8]) -> String {
    match parse(body, TOPIC_ID) {
        Ok(events) => panic!("{} events accepted: {}", events.len(), body.escape_ascii()),
        Err(error) => {
            let error = PublishError::from(error);
            assert_eq!((error.status(), error.code()), (400, "BadRequest"));
            error.to_string()
        }
    }
}

#[test]
fn bodies_that_are_refused() {
    let table = [
        ("", "must be an array of events, but it begins with nothing"),
        ("  \n", "begins with nothing"),
        ("{}", "must be an array of events, but it begins with an object"),
        ("null", "begins with null"),
        ("\"[]\"", "begins with a string"),
        ("7", "begins with a number"),
        ("true", "begins with a boolean"),
        ("<xml/>", "begins with something that is not JSON"),
        ("[", "expected an event at byte 1, found nothing"),
        ("[,]", "expected an event at byte 1, found ','"),
        ("[]]", "expected the end of the body at byte 2, found ']'"),
        ("[] x", "expected the end of the body at byte 3, found something that is not JSON"),
        ("[1]", "index 0 must be a JSON object, but it begins with a number"),
        ("[[]]", "index 0 must be a JSON object, but it begins with an array"),
        ("[nul]", "index 0 must be a JSON object, but it begins with null"),
        ("[{]", "index 0 is not valid JSON: key must be a string at line 1 column 2"),
        ("[{\"id\":\"1\"", "index 0 is not valid JSON: EOF"),
        ("[{\"id\":\"\u{1}\"}]", "index 0 is not valid JSON: control character"),
        ("[{\"id\":01}]", "index 0 is not valid JSON: "),
        ("[{\"id\":\"1\",}]", "index 0 is not valid JSON: trailing comma"),
        ("[{\"data\":{\"a\":tru}}]", "index 0 is not valid JSON: expected ident"),
        ("[{\"\\ud800\":1}]", "index 0 is not valid JSON: "),
    ];
    for (body, want) in table {
        let got = refusal(body.as_bytes());
        assert!(got.contains(want), "{body}: {got}");
    }
    assert!(refusal(b"[{\"id\":\"\xff\"}]").contains("not UTF-8 from byte 8 on"));
}

#[test]
fn punctuation_between_events() {
    let event = format!("{{{LEAST}}}");
    let table = [
        (format!("[{event}"), "expected ',' or ']' at byte 76, found nothing"),
        (format!("[{event} {event}]"), "expected ',' or ']' at byte 77, found an object"),
        (format!("[{event},]"), "expected an event at byte 77, found ']'"),
        (format!("[{event}]{event}"), "expected the end of the body at byte 77, found an object"),
        (format!("[{event},{event},{{]"), "index 2 is not valid JSON: key must be a string"),
        (format!("[{event},7]"), "index 1 must be a JSON object"),
    ];
    for (body, want) in table {
        let got = refusal(body.as_bytes());
        assert!(got.contains(want), "{body}: {got}");
    }
}

/// Each row is an event's members; the refusal names index 1, member and rule.
#[test]
fn members_that_are_refused() {
    let table = [
        (r#""subject":"s","eventType":"T","eventTime":"2026-01-02T03:04:05Z""#, "'id' is required"),
        (r#""id":"1","eventType":"T","eventTime":"2026-01-02T03:04:05Z""#, "'subject' is required"),
        (r#""id":"1","subject":"s","eventTime":"2026-01-02T03:04:05Z""#, "'eventType' is required"),
        (r#""id":"1","subject":"s","eventType":"T""#, "'eventTime' is required"),
        ("", "'id' is required"),
        (&LEAST.replace(r#""1""#, "true"), "'id' must be a string"),
        (&LEAST.replace(r#""1""#, "[1]"), "'id' must be a string"),
        (&LEAST.replace(r#""1""#, "null"), "'id' must be a string"),
        (&LEAST.replace(r#""1""#, r#""""#), "'id' must not be empty"),
        (&LEAST.replace(r#""1""#, r#""\ud800""#), "'id' must be a string of whole Unicode"),
        (&LEAST.replace(r#""s""#, "{}"), "'subject' must be a string"),
        (&LEAST.replace(r#""T""#, "[]"), "'eventType' must be a string"),
        (&LEAST.replace(r#""T""#, r#""""#), "'eventType' must not be empty"),
        (&LEAST.replace("2026-01-02T03:04:05Z", "yesterday"), "'eventTime' must be a date-time"),
        (&LEAST.replace("2026-01-02", "2026-02-30"), "'eventTime' must be a date-time"),
        (&LEAST.replace(r#""2026-01-02T03:04:05Z""#, "1767323045"), "'eventTime' must be a string"),
        (&format!(r#"{LEAST},"dataVersion":1"#), "'dataVersion' must be a string"),
        (&format!(r#"{LEAST},"dataVersion":5"#), "'dataVersion' must be a string"),
        (&format!(r#"{LEAST},"topic":null,"topic":null"#), "'topic' is given twice"),
        (&format!(r#"{LEAST},"metadataVersion":1"#), "'metadataVersion' must be a string"),
        (&format!(r#"{LEAST},"metadataVersion":"2""#), r#"'metadataVersion' must be "1" or left"#),
        (&format!(r#"{LEAST},"topic":"""#), r#"'topic' must be "/topics/orders" or left out"#),
        (&format!(r#"{LEAST},"topic":"/topics/0rders""#), "'topic' must be"),
        (&format!(r#"{LEAST},"topic":7"#), "'topic' must be a string"),
        (&format!(r#"{LEAST},"Data":{{}}"#), "'Data' is unknown; EventGridSchema has id"),
        (&format!(r#"{LEAST},"specversion":"1.0""#), "'specversion' is unknown"),
        (&format!(r#"{LEAST},"":1"#), "'' is unknown"),
        (&format!(r#"{LEAST},"{}":1"#, "é".repeat(99)), "é…' is unknown"),
        (&format!(r#"{LEAST},"id":"1""#), "'id' is given twice"),
        (&format!(r#"{LEAST},"\u0069d":"2""#), "'id' is given twice"),
        (&format!(r#"{LEAST},"data":1,"data":1"#), "'data' is given twice"),
    ];
    for (members, want) in table {
        let got = refusal(format!("[{{{LEAST}}},{{{members}}}]").as_bytes());
        assert!(got.starts_with("the event at index 1: member "), "{members}: {got}");
        assert!(got.contains(want), "{members}: {got}");
    }
}

#[test]
fn events_up_to_the_limit() {
    let events = |count: usize| format!("[{}]", vec![format!("{{{LEAST}}}"); count].join(","));
    assert_eq!(parse(events(0).as_bytes(), TOPIC_ID).expect("no events").len(), 0);
    assert_eq!(parse(events(EVENTS_MAX).as_bytes(), TOPIC_ID).expect("5,000").len(), EVENTS_MAX);
    let refused = refusal(events(EVENTS_MAX + 1).as_bytes());
    assert_eq!(refused, "the body has more than 5000 events; send them in several requests");
}

#[test]
fn what_is_read_of_an_event() {
    let body = r#" [ {"id":"\u0031","subject":"a\/b","data": {"n": 1.50},"eventType":"T",
        "eventTime":"2026-01-02T03:04:05+0000","dataVersion":"2.0"} ] "#;
    let events = parse(body.as_bytes(), TOPIC_ID).expect("an event");
    let [event] = &events[..] else { panic!("one event") };
    assert_eq!((&*event.id, &*event.subject, &*event.event_type), ("1", "a/b", "T"));
    assert_eq!((&*event.source, &*event.data_version), (TOPIC_ID, "2.0"));
    assert_eq!(event.text, &body[3..body.len() - 3]);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert_eq!(parse("\u{feff}[]".as_bytes(), TOPIC_ID).expect("no events").len(), 0);
}

#[test]
fn data_is_neither_looked_into_nor_limited_in_depth() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let odd = r#"{"a":1,"a":2,"\ud800":1e999}"#;
    for data in [&deep, odd] {
        let body = format!(r#"[{{{LEAST},"data":{data}}}]"#);
        let events = parse(body.as_bytes(), TOPIC_ID).expect("an event");
        let stamped = events[0].in_schema(DeliverySchema::EventGridSchema);
        assert!(stamped.contains(data));
    }
}

#[test]
fn stamps_stand_behind_what_the_publisher_wrote() {
    let all = r#""topic":"/topics/orders","dataVersion":"","metadataVersion":"1""#;
    let table = [
        (format!("{{{LEAST}}}"), format!("{{{LEAST},{all}}}")),
        (format!("{{ {LEAST} \n}}"), format!("{{ {LEAST} \n,{all}}}")),
        (
            format!(r#"{{"dataVersion":"2",{LEAST}}}"#),
            format!(
                r#"{{"dataVersion":"2",{LEAST},"topic":"/topics/orders","metadataVersion":"1"}}"#
            ),
        ),
        (format!("{{{all},{LEAST}}}"), format!("{{{all},{LEAST}}}")),
    ];
    for (written, want) in table {
        let body = format!("[{written}]");
        let events = parse(body.as_bytes(), TOPIC_ID).expect("an event");
        assert_eq!(events[0].in_schema(DeliverySchema::EventGridSchema), want);
    }
}

#[test]
fn an_event_becomes_a_cloud_event() {
    let table = [
        (
            format!(r#"{LEAST},"data":{{ "a" : 1.50 }},"dataVersion":"2.0""#),
            concat!(
                r##"{"specversion":"1.0","id":"1","source":"/topics/orders","type":"T","##,
                r##""time":"2026-01-02T03:04:05Z","subject":"s","dataschema":"#2.0","##,
                r##""data":{ "a" : 1.50 }}"##,
            ),
        ),
        (
            LEAST.replace(r#""s""#, r#""""#).replace("05Z", "05+0130"),
            concat!(
                r##"{"specversion":"1.0","id":"1","source":"/topics/orders","type":"T","##,
                r##""time":"2026-01-02T03:04:05+01:30","dataschema":"#"}"##,
            ),
        ),
    ];
    for (members, want) in table {
        let body = format!("[{{{members}}}]");
        let events = parse(body.as_bytes(), TOPIC_ID).expect("an event");
        assert_eq!(events[0].in_schema(DeliverySchema::CloudEventSchemaV1_0), want);
    }
}

/// Serializers write absent members as null.
#[test]
fn nulls_leave_members_out() {
    let stamps = r#""topic":"/topics/orders","dataVersion":"","metadataVersion":"1""#;
    let table = [
        (format!(r#"{LEAST},"topic":null"#), format!("{{{LEAST},{stamps}}}")),
        (format!(r#""dataVersion":null,{LEAST}"#), format!("{{{LEAST},{stamps}}}")),
        (
            format!(r#""metadataVersion":null,{LEAST},"topic":null,"dataVersion":null"#),
            format!("{{{LEAST},{stamps}}}"),
        ),
        (
            format!(r#"{LEAST},"topic":null,"data":{{"topic":null, "a":1.0}},"dataVersion":"2""#),
            format!(
                r#"{{{LEAST},"data":{{"topic":null, "a":1.0}},"dataVersion":"2","topic":"/topics/orders","metadataVersion":"1"}}"#
            ),
        ),
    ];
    for (members, want) in table {
        let body = format!("[{{{members}}}]");
        let events = parse(body.as_bytes(), TOPIC_ID).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(events[0].in_schema(DeliverySchema::EventGridSchema), want, "{members}");
        let cloud = events[0].in_schema(DeliverySchema::CloudEventSchemaV1_0);
        let cloud: Value = serde_json::from_str(&cloud).expect("JSON");
        assert_eq!(cloud["source"], "/topics/orders");
    }
}

/// What the Azure SDK for Python sends.
#[test]
fn a_request_of_the_python_sdk_is_accepted() {
    let body = br#"[{"id":"1","subject":"s/1","data":{"a":1},"eventType":"T.x","eventTime":"2025-01-02T03:04:05.678901Z","dataVersion":"1.0"},{"id":"2","subject":"caf\u00e9","data":null,"eventType":"T.x","eventTime":"2025-01-02T03:04:05.678901Z","dataVersion":"1.0"}]"#;
    let events = parse(body, TOPIC_ID).expect("two events");
    assert_eq!(events.iter().map(|event| &*event.subject).collect::<Vec<_>>(), ["s/1", "café"]);
}

/// JSON values of any kind, not too deep.
fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&body, TOPIC_ID);
    }

    #[test]
    fn no_nearly_right_body_makes_it_panic(
        at in 0..120_usize,
        byte in any::<u8>(),
        cut in 0..150_usize,
    ) {
        let mut body = format!(r#"[{{{LEAST},"data":{{"a":[1,"\u00e9"]}}}},{{}}]"#).into_bytes();
        let at = at % body.len();
        body[at] = byte;
        body.truncate(cut);
        if let Ok(events) = parse(&body, TOPIC_ID) {
            for event in events {
                event.in_schema(DeliverySchema::EventGridSchema);
                event.in_schema(DeliverySchema::CloudEventSchemaV1_0);
            }
        }
    }

    #[test]
    fn a_stamped_event_has_the_publishers_members_and_the_stamps(
        id in ".{1,20}",
        subject in ".*",
        event_type in ".{1,20}",
        data in prop::option::of(data()),
        data_version in prop::option::of(".*"),
        pretty in any::<bool>(),
    ) {
        let mut members = BTreeMap::from([
            ("id", json!(id)),
            ("subject", json!(subject)),
            ("eventType", json!(event_type)),
            ("eventTime", json!("2026-01-02T03:04:05Z")),
        ]);
        members.extend(data.clone().map(|data| ("data", data)));
        members.extend(data_version.clone().map(|version| ("dataVersion", json!(version))));
        let body = if pretty { serde_json::to_string_pretty(&[&members]) }
                   else { serde_json::to_string(&[&members]) }.expect("JSON");
        let events = parse(body.as_bytes(), TOPIC_ID).expect("an event");

        let stamped = events[0].in_schema(DeliverySchema::EventGridSchema);
        members.insert("topic", json!(TOPIC_ID));
        members.insert("metadataVersion", json!("1"));
        members.entry("dataVersion").or_insert_with(|| json!(""));
        let read: Value = serde_json::from_str(&stamped).expect("JSON");
        prop_assert_eq!(read, json!(members));

        let converted = events[0].in_schema(DeliverySchema::CloudEventSchemaV1_0);
        let read: Value = serde_json::from_str(&converted).expect("JSON");
        prop_assert_eq!(&read["id"], &json!(id));
        prop_assert_eq!(&read["type"], &json!(event_type));
        prop_assert_eq!(read.get("data"), data.as_ref());
        let again = crate::event::cloud_events::parse(converted.as_bytes());
        // Event Grid's envelope may have characters that CloudEvents forbid.
        let texts = [Some(&id), Some(&subject), Some(&event_type), data_version.as_ref()];
        if texts.into_iter().flatten().all(|text| text.chars().all(is_for_attributes)) {
            prop_assert!(again.is_ok(), "{again:?}");
        }
    }
}
