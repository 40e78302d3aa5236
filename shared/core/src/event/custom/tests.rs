use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::cloud_events::is_for_attributes;
use crate::{event::DeliverySchema, publish::PublishError};

const TOPIC_ID: &str = "/topics/orders";

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_123);

fn field(source: &str, default: &str) -> Field {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Field { source_field: text(source), default_value: text(default) }
}

fn mapping() -> InputSchemaMapping {
    InputSchemaMapping {
        id: Some("key".to_owned()),
        topic: Some("area".to_owned()),
        event_time: Some("at".to_owned()),
        event_type: field("kind", "Order"),
        subject: field("path", ""),
        data_version: field("", "2.0"),
    }
}

fn with<T>(
    body: &[u8],
    mapping: Option<&InputSchemaMapping>,
    then: impl FnOnce(Result<Vec<ParsedEvent<'_>>, ParseError>) -> T,
) -> T {
    let mut ids = (7..).map(Uuid::from_u128);
    let mut id = || ids.next().expect("endless");
    then(parse(body, TOPIC_ID, mapping, Stamps { now: NOW, id: &mut id }))
}

fn in_schema(
    body: &str,
    mapping: Option<&InputSchemaMapping>,
    schema: DeliverySchema,
) -> Vec<String> {
    with(body.as_bytes(), mapping, |events| {
        let events = events.expect("events");
        events.iter().map(|event| event.in_schema(schema)).collect()
    })
}

#[test]
fn an_event_of_the_publishers_own_schema_is_delivered_in_three() {
    let text =
        r#"{ "path":"a\/b","key": 4711, "at":"2026-01-02T03:04:05+0100","kind":"", "n":1.50 }"#;
    let bare = r#"{"path":""}"#;
    let body = format!("[{text},{bare}]");
    let mapping = mapping();
    let all = |schema| in_schema(&body, Some(&mapping), schema);
    assert_eq!(all(DeliverySchema::CustomInputSchema), [text, bare]);
    let id = "00000000-0000-0000-0000-000000000007";
    let event_grid = [
        format!(
            r#"{{"id":"4711","topic":"{TOPIC_ID}","subject":"a/b","eventType":"Order","eventTime":"2026-01-02T03:04:05+01:00","dataVersion":"2.0","metadataVersion":"1","data":{text}}}"#
        ),
        format!(
            r#"{{"id":"{id}","topic":"{TOPIC_ID}","subject":"","eventType":"Order","eventTime":"2026-11-21T08:00:00.123Z","dataVersion":"2.0","metadataVersion":"1","data":{bare}}}"#
        ),
    ];
    assert_eq!(all(DeliverySchema::EventGridSchema), event_grid);
    let cloud_events = [
        format!(
            r##"{{"specversion":"1.0","id":"4711","source":"{TOPIC_ID}","type":"Order","time":"2026-01-02T03:04:05+01:00","subject":"a/b","dataschema":"#2.0","data":{text}}}"##
        ),
        format!(
            r##"{{"specversion":"1.0","id":"{id}","source":"{TOPIC_ID}","type":"Order","time":"2026-11-21T08:00:00.123Z","dataschema":"#2.0","data":{bare}}}"##
        ),
    ];
    assert_eq!(all(DeliverySchema::CloudEventSchemaV1_0), cloud_events);
}

#[test]
fn what_is_not_mapped_is_stamped() {
    let want = format!(
        r#"{{"id":"00000000-0000-0000-0000-000000000007","topic":"{TOPIC_ID}","subject":"","eventType":"CustomEvent","eventTime":"2026-11-21T08:00:00.123Z","dataVersion":"","metadataVersion":"1","data":{{"id":"1"}}}}"#
    );
    assert_eq!(in_schema(r#"{"id":"1"}"#, None, DeliverySchema::EventGridSchema), [want]);
}

#[test]
fn what_filters_look_at_is_what_is_mapped() {
    let body = r#"{"key":true,"area":"west","kind":"K","path":"\u0070"}"#;
    with(body.as_bytes(), Some(&mapping()), |events| {
        let events = events.expect("events");
        let event = &events[0];
        assert_eq!((&*event.id, &*event.source, &*event.event_type), ("true", "west", "K"));
        assert_eq!((&*event.subject, &*event.data_version, &*event.text), ("p", "2.0", body));
    });
}

#[test]
fn refused_events() {
    let table = [
        ("", "must be an event or an array of events, but it begins with nothing"),
        ("7", "begins with a number"),
        (r#"[{"path":"p"},7]"#, "index 1 must be a JSON object"),
        (r#"[{"path":"p"},{}]"#, "index 1: member 'path' is required: it is mapped to subject"),
        (r#"{"path":null}"#, "'path' is required: it is mapped to subject, which has no default"),
        (r#"{"path":{}}"#, "'path' must be a string, a number or a boolean"),
        (r#"{"path":[]}"#, "'path' must be a string, a number or a boolean"),
        (r#"{"path":"\ud800"}"#, "'path' must be a string of whole Unicode"),
        (r#"{"path":"a","path":"b"}"#, "'path' is given twice"),
        (r#"{"path":"a","key":{}}"#, "'key' must be a string, a number or a boolean"),
        (r#"{"path":"a","at":"yesterday"}"#, "'at' must be a date-time"),
        (r#"{"path":"a","at":1767323045}"#, "'at' must be a date-time"),
        (r#"{"path":"a""#, "index 0 is not valid JSON: EOF"),
    ];
    for (body, want) in table {
        let error = with(body.as_bytes(), Some(&mapping()), |events| events.map(|_| ()));
        let error = PublishError::from(error.expect_err(body));
        assert_eq!((error.status(), error.detail()), (400, "InputJsonInvalid"), "{body}");
        assert!(error.to_string().contains(want), "{body}: {error}");
    }
    let mapping = InputSchemaMapping { event_type: field("kind", ""), ..Default::default() };
    let error = with(br#"{"kind":""}"#, Some(&mapping), |events| events.map(|_| ()));
    assert!(error.expect_err("empty").to_string().contains("'kind' must not be empty"));
}

#[test]
fn members_that_are_not_mapped_are_nobodys_business() {
    let body = r#"{"path":"p","a":1,"a":2,"c":{"b":1e999,"\ud800":"\ud800"},"id":[]}"#;
    let custom = in_schema(body, Some(&mapping()), DeliverySchema::CustomInputSchema);
    assert_eq!(custom, [body]);
}

#[test]
fn an_envelope_can_be_made_again_later() {
    let id = Uuid::from_u128(9);
    let data = |text: &str, mapping: &InputSchemaMapping| {
        let record = enveloped(text, TOPIC_ID, Some(mapping), NOW, id);
        let record: Value = serde_json::from_str(&record).expect("JSON");
        (record["id"].clone(), record["eventType"].clone(), record["data"].clone())
    };
    let mapped = data(r#"{"key":"1","kind":"K","path":"p"}"#, &mapping());
    assert_eq!(mapped, (json!("1"), json!("K"), json!({"key": "1", "kind": "K", "path": "p"})));
    // The mapping has since gained a member that this event lacks.
    let outgrown = data(r#"{"kind":"K"}"#, &mapping());
    assert_eq!(outgrown, (json!(id.to_string()), json!("CustomEvent"), json!({"kind": "K"})));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = with(&body, Some(&mapping()), |events| events.map(|_| ()));
    }

    #[test]
    fn whatever_is_mapped_the_forms_are_json_and_hold_the_event(
        key in ".*",
        kind in ".*",
        path in ".*",
        area in ".*",
    ) {
        let event = json!({"key": key, "kind": kind, "path": path, "area": area, "n": 1.5});
        let text = event.to_string();
        let mapping = mapping();
        for schema in [DeliverySchema::EventGridSchema, DeliverySchema::CloudEventSchemaV1_0] {
            let forms = in_schema(&text, Some(&mapping), schema);
            let form: Value = serde_json::from_str(&forms[0]).expect("JSON");
            prop_assert_eq!(&form["data"], &event);
            prop_assert!(forms[0].contains(&text));
            if schema == DeliverySchema::CloudEventSchemaV1_0 {
                let again = crate::event::cloud_events::parse(forms[0].as_bytes());
                // Event Grid's envelope may have characters that CloudEvents forbid.
                let texts = [&key, &kind, &path, &area];
                if texts.iter().all(|text| text.chars().all(is_for_attributes)) {
                    prop_assert!(again.is_ok(), "{:?}", again);
                }
            }
        }
    }
}
