use proptest::prelude::*;

use super::*;
use crate::{
    event::{DeliverySchema, EVENTS_MAX},
    publish::PublishError,
};

/// The smallest CloudEvent.
const LEAST: &str = r#""id":"1","source":"/s","type":"T","specversion":"1.0""#;

fn refusal(body: &[u8]) -> String {
    match parse(body) {
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
        ("", "must be an event or an array of events, but it begins with nothing"),
        ("\"x\"", "begins with a string"),
        ("{", "index 0 is not valid JSON: EOF"),
        ("[{}", "index 0: member 'id' is required"),
        ("[7]", "index 0 must be a JSON object, but it begins with a number"),
        ("{\"a\":1", "index 0 is not valid JSON: EOF"),
    ];
    for (body, want) in table {
        let got = refusal(body.as_bytes());
        assert!(got.contains(want), "{body}: {got}");
    }
    let one_and_more = format!("{{{LEAST}}}{{{LEAST}}}");
    assert!(refusal(one_and_more.as_bytes()).contains("expected the end of the body at byte 55"));
    assert!(refusal(b"\xfe").contains("not UTF-8 from byte 0 on"));
}

/// Each row is an event's members; the refusal names index, member and rule.
#[test]
fn members_that_are_refused() {
    let with = |member: &str| format!("{LEAST},{member}");
    let table = [
        (LEAST.replace(r#""id":"1","#, ""), "'id' is required"),
        (LEAST.replace(r#""source":"/s","#, ""), "'source' is required"),
        (LEAST.replace(r#""type":"T","#, ""), "'type' is required"),
        (LEAST.replace(r#","specversion":"1.0""#, ""), "'specversion' is required"),
        (LEAST.replace(r#""1""#, r#""""#), "'id' must not be empty"),
        (LEAST.replace(r#""1""#, "1"), "'id' must be a string"),
        (LEAST.replace(r#""1""#, "null"), "'id' must be a string"),
        (LEAST.replace("/s", ""), "'source' must not be empty"),
        (LEAST.replace(r#""/s""#, "[]"), "'source' must be a string"),
        (LEAST.replace(r#""T""#, r#""""#), "'type' must not be empty"),
        (LEAST.replace("1.0", "0.3"), "'specversion' must be \"1.0\""),
        (LEAST.replace(r#""1.0""#, "1.0"), "'specversion' must be a string"),
        (with(r#""time":"yesterday""#), "'time' must be an RFC 3339 date-time"),
        (with(r#""time":"2026-01-02T03:04:05""#), "'time' must be an RFC 3339 date-time"),
        (with(r#""time":7"#), "'time' must be a string"),
        (with(r#""subject":7"#), "'subject' must be a string"),
        (with(r#""subject":"""#), "'subject' must not be empty"),
        (with(r#""datacontenttype":{}"#), "'datacontenttype' must be a string"),
        (with(r#""dataschema":false"#), "'dataschema' must be a string"),
        (with(r#""data":1,"data_base64":"AP8=""#), "'data_base64' must not stand beside 'data'"),
        (with(r#""data_base64":7"#), "'data_base64' must be a string"),
        (with(r#""data_base64":"AP8""#), "'data_base64' must be base64"),
        (with(r#""data_base64":"A_8=""#), "'data_base64' must be base64"),
        (with(r#""data_base64":"AP8=\n""#), "'data_base64' must be base64"),
        (with(r#""Extension":1"#), "'Extension' can't be an extension attribute"),
        (with(r#""my_ext":1"#), "'my_ext' can't be an extension attribute"),
        (with(r#""é":1"#), "'é' can't be an extension attribute"),
        (with(r#""":1"#), "'' can't be an extension attribute"),
        (with(r#""tenant_region_partition_keys":1"#), "'tenant_region_partition_keys' can't be"),
        (
            r#""id":"1","eventType":"T","eventTime":"2026-01-02T03:04:05Z""#.to_owned(),
            "'eventType' can't be an extension attribute: names are of a-z and 0-9 alone; the topic takes \
             CloudEvents 1.0, and without 'specversion' the event is no CloudEvent",
        ),
        (with(r#""ext":{}"#), "'ext' must be a string, a whole number, a boolean or null"),
        (with(r#""ext":[1]"#), "'ext' must be a string, a whole number, a boolean or null"),
        (with(r#""ext":1,"ext":1"#), "'ext' is given twice"),
        (with(r#""id":"2""#), "'id' is given twice"),
        (with(r#""data":1,"data":2"#), "'data' is given twice"),
    ];
    for (members, want) in table {
        let got = refusal(format!("[{{{LEAST}}},{{{members}}}]").as_bytes());
        assert!(got.starts_with("the event at index 1: member "), "{members}: {got}");
        assert!(got.contains(want), "{members}: {got}");
        let got = refusal(format!("{{{members}}}").as_bytes());
        assert!(got.starts_with("the event at index 0: member "), "{members}: {got}");
    }
    let misspelt = refusal(br#"{"my_ext":1,"specversion":"1.0"}"#);
    assert!(misspelt.ends_with("names are of a-z and 0-9 alone"), "{misspelt}");
}

#[test]
fn members_that_are_accepted() {
    let table = [
        "",
        r#","time":"2025-01-02T03:04:05.678901Z","subject":"sub""#,
        r#","time":null,"subject":null,"datacontenttype":null,"dataschema":null"#,
        r#","data":null,"data_base64":null"#,
        r#","data":null,"data_base64":"AP8=""#,
        r#","data":{"a":[1,2]},"data_base64":null"#,
        r#","data_base64":"""#,
        r#","datacontenttype":"application/cloudevents+json; charset=utf-8","data":"x""#,
        r#","abcdefghijklmnopqrstuvwxyz0123456789":"v","0":5,"flag":true,"none":null,"least":-2147483648"#,
    ];
    for members in table {
        let body = format!("{{{LEAST}{members}}}");
        let events = parse(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert_eq!(events.len(), 1, "{body}");
    }
}

/// Source: CloudEvents 1.0.2, "Type system" and `datacontenttype`.
#[test]
fn attributes_have_the_types_of_cloud_events() {
    let accepted = [
        r#""ext":5"#,
        r#""ext":-2147483648"#,
        r#""ext":2147483647"#,
        r#""ext":true"#,
        r#""ext":null"#,
        r#""ext":"""#,
        r#""ext":"1.5""#,
        r#""ext":"\ud83d\ude80 é""#,
        r#""datacontenttype":"application/json""#,
        r#""datacontenttype":"application/vnd.example+json; charset=utf-8""#,
        r#""datacontenttype":"text/plain;charset=\"utf-8\"""#,
        r#""datacontenttype":"application/json;""#,
        r#""datacontenttype":null"#,
    ];
    for member in accepted {
        let body = format!("{{{LEAST},{member}}}");
        assert!(parse(body.as_bytes()).is_ok(), "{member}: {}", refusal(body.as_bytes()));
    }
    let number = "must be a whole number from -2147483648 to 2147483647";
    let media_type = "must be a media type";
    let characters = "must not have control characters";
    let refused = [
        (r#""ext":1.5"#, "'ext'", number),
        (r#""ext":2147483648"#, "'ext'", number),
        (r#""ext":-2147483649"#, "'ext'", number),
        (r#""ext":1e2"#, "'ext'", number),
        (r#""ext":1.0"#, "'ext'", number),
        (r#""ext":"a\u0001b""#, "'ext'", characters),
        (r#""ext":"\n""#, "'ext'", characters),
        (r#""ext":"\u0085""#, "'ext'", characters),
        (r#""ext":"\ufffe""#, "'ext'", characters),
        (r#""ext":"\ufdd0""#, "'ext'", characters),
        (r#""ext":"\ud800""#, "'ext'", "half of a surrogate pair"),
        (r#""ext":"a\udc00b""#, "'ext'", "half of a surrogate pair"),
        (r#""subject":"\u007f""#, "'subject'", characters),
        (r#""dataschema":"a\tb""#, "'dataschema'", characters),
        (r#""datacontenttype":"json""#, "'datacontenttype'", media_type),
        (r#""datacontenttype":"a b/c""#, "'datacontenttype'", media_type),
        (r#""datacontenttype":"/json""#, "'datacontenttype'", media_type),
        (r#""datacontenttype":"a/b/c""#, "'datacontenttype'", media_type),
        (r#""datacontenttype":"é/é""#, "'datacontenttype'", media_type),
        (r#""datacontenttype":"a/b;\u0000""#, "'datacontenttype'", characters),
    ];
    for (member, name, rule) in refused {
        let found = refusal(format!("{{{LEAST},{member}}}").as_bytes());
        assert!(found.contains(name) && found.contains(rule), "{member}: {found}");
    }
    for name in ["id", "source", "type"] {
        let found = refusal(
            format!("{{{LEAST}}}")
                .replace(&format!(r#""{name}":""#), &format!(r#""{name}":"\u0001"#))
                .as_bytes(),
        );
        assert!(found.contains(characters), "{name}: {found}");
    }
}

#[test]
fn one_or_a_batch_goes_out_as_it_came() {
    let first = r#"{"ext1":"v","ext2":5,"id":"1","source":"/src","data":{"a": 1.0},"type":"T.x","time":"2025-01-02T03:04:05.678901Z","specversion":"1.0","subject":"sub"}"#;
    let second =
        r#"{ "id":"2","source":"/src","data_base64":"AP8=","type":"T.x","specversion":"1.0" }"#;
    let texts = |body: &str| {
        let events = parse(body.as_bytes()).expect("events");
        let sent = |event: &ParsedEvent<'_>| event.in_schema(DeliverySchema::CloudEventSchemaV1_0);
        events.iter().map(sent).collect::<Vec<_>>()
    };
    assert_eq!(texts(first), [first]);
    assert_eq!(texts(&format!("\n[{first} , {second}]")), [first, second]);
    assert_eq!(texts("[]"), [""; 0]);
}

#[test]
fn what_is_read_of_an_event() {
    let body = format!(r#"{{{LEAST},"subject":"sub"}}"#);
    let events = parse(body.as_bytes()).expect("an event");
    let event = &events[0];
    assert_eq!((&*event.id, &*event.source, &*event.event_type), ("1", "/s", "T"));
    assert_eq!((&*event.subject, &*event.data_version, &*event.text), ("sub", "", &*body));
}

#[test]
fn events_up_to_the_limit() {
    let events = |count: usize| format!("[{}]", vec![format!("{{{LEAST}}}"); count].join(","));
    assert_eq!(parse(events(EVENTS_MAX).as_bytes()).expect("5,000").len(), EVENTS_MAX);
    assert!(refusal(events(EVENTS_MAX + 1).as_bytes()).contains("more than 5000 events"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&body);
    }

    #[test]
    fn no_nearly_right_body_makes_it_panic(
        at in 0..120_usize,
        byte in any::<u8>(),
        cut in 0..150_usize,
    ) {
        let mut body = format!(r#"[{{{LEAST},"data_base64":"AP8=","ext":15}},{{{LEAST}}}]"#)
            .into_bytes();
        let at = at % body.len();
        body[at] = byte;
        body.truncate(cut);
        if let Ok(events) = parse(&body) {
            for event in events {
                event.in_schema(DeliverySchema::CloudEventSchemaV1_0);
            }
        }
    }
}
