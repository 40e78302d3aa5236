use serde_json::{Value, json};

use super::*;

mod blobs;
mod hostile;

pub(super) const S3_PUT: &str = include_str!("tests/s3-put.json");
const S3_TEST_EVENT: &str = include_str!("tests/s3-test-event.json");
pub(super) const EVENT_BRIDGE_S3: &str = include_str!("tests/event-bridge-s3.json");
const EVENT_BRIDGE_EC2: &str = include_str!("tests/event-bridge-ec2.json");
const SNS: &str = include_str!("tests/sns.json");

/// 2026-11-21T08:00:00.123Z
const SENT_AT: Timestamp = Timestamp::from_millis(1_795_248_000_123);

pub(super) fn source(envelope: Envelope, carries: Carries, blobs: bool) -> Source {
    Source {
        name: "uploads".to_owned(),
        topic: "t".to_owned(),
        queue_arn: "arn:aws:sqs:eu-central-1:123456789012:orders".to_owned(),
        source: "arn:aws:sqs:eu-central-1:123456789012:orders".to_owned(),
        event_type: "com.amazonaws.sqs.message".to_owned(),
        envelope,
        carries,
        content: Content::Auto,
        blobs,
    }
}

fn messages(content: Content) -> Source {
    Source { content, ..source(Envelope::None, Carries::Messages, false) }
}

fn message(body: &str) -> Message<'_> {
    Message { id: "a4b1cd8f-1f6f-4d6f-b0a3-5f1b2c3d4e5f", body, sent_at: SENT_AT }
}

/// Returns the body of a publish, or the error.
pub(super) fn written(source: &Source, text: &str, schema: InputSchema) -> Result<Value, String> {
    let said = |error: Unmappable| crate::error::chain(&error);
    let message = message(text);
    match map(source, &message).map_err(said)? {
        Mapped::TestEvent => Ok(Value::Null),
        Mapped::Events(events) => {
            let body = body(&events, schema).map_err(said)?;
            Ok(serde_json::from_str(&body).expect("JSON"))
        }
    }
}

/// Maps a message with one event for a topic of CloudEvents.
pub(super) fn cloud_event(source: &Source, text: &str) -> Value {
    let mut all = written(source, text, InputSchema::CloudEventSchemaV1_0).expect("an event");
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    all[0].take()
}

pub(super) fn event_grid(source: &Source, text: &str) -> Value {
    let mut all = written(source, text, InputSchema::EventGridSchema).expect("an event");
    all[0].take()
}

#[test]
fn an_event_of_event_bridge_keeps_its_members_and_is_the_data_as_it_came() {
    let source = source(Envelope::None, Carries::EventBridge, false);
    let whole: Value = serde_json::from_str(EVENT_BRIDGE_EC2).expect("JSON");
    let want = json!({
        "specversion": "1.0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "source": "aws.ec2",
        "type": "EC2 Instance State-change Notification",
        "subject": "arn:aws:ec2:us-west-1:123456789012:instance/i-1234567890abcdef0",
        "time": "2017-12-22T18:43:48Z",
        "datacontenttype": "application/json",
        "data": whole,
    });
    assert_eq!(cloud_event(&source, EVENT_BRIDGE_EC2), want);
    let want = json!({
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "subject": "arn:aws:ec2:us-west-1:123456789012:instance/i-1234567890abcdef0",
        "eventType": "EC2 Instance State-change Notification",
        "eventTime": "2017-12-22T18:43:48Z",
        "data": whole,
        "dataVersion": "",
    });
    assert_eq!(event_grid(&source, EVENT_BRIDGE_EC2), want);
    let custom = written(&source, EVENT_BRIDGE_EC2, InputSchema::CustomEventSchema);
    assert_eq!(custom.expect("an event"), json!([whole]));
}

#[test]
fn numbers_of_events_keep_their_digits() {
    let exact = r#"{"id":"1","source":"my.app","detail-type":"T","time":"2017-12-22T18:43:48Z",
        "resources":[],"detail":{"n":1.50,"big":123456789012345678901234567890}}"#;
    let source = source(Envelope::None, Carries::EventBridge, false);
    let message = message(exact);
    let Mapped::Events(events) = map(&source, &message).expect("an event") else { panic!("none") };
    let body = body(&events, InputSchema::CloudEventSchemaV1_0).expect("JSON");
    assert!(body.contains(exact), "{body}");
    assert!(!body.contains(r#""subject""#), "{body}");
}

#[test]
fn a_notification_of_s3_has_the_attributes_of_the_adapter() {
    let source = source(Envelope::None, Carries::S3, false);
    let event = cloud_event(&source, S3_PUT);
    let whole: Value = serde_json::from_str(S3_PUT).expect("JSON");
    let want = json!({
        "specversion": "1.0",
        "id": event["id"],
        "source": "aws:s3.us-west-2.amzn-s3-demo-bucket",
        "type": "com.amazonaws.s3.ObjectCreated:Put",
        "subject": "HappyFace.jpg",
        "time": "1970-01-01T00:00:00.000Z",
        "datacontenttype": "application/json",
        "data": whole["Records"][0],
    });
    assert_eq!(event, want);
    let id = event["id"].as_str().and_then(|id| Uuid::parse_str(id).ok());
    assert!(id.is_some(), "{event}");
}

#[test]
fn ids_of_notifications_tell_events_apart_and_know_them_again() {
    let source = source(Envelope::None, Carries::S3, false);
    let id = |from: &str, to: &str| {
        assert!(S3_PUT.contains(from), "{from}");
        cloud_event(&source, &S3_PUT.replace(from, to))["id"].as_str().map(str::to_owned)
    };
    let first = id("127.0.0.1", "127.0.0.1");
    // Some parts may differ between deliveries of the same event.
    assert_eq!(id("127.0.0.1", "10.0.0.1"), first);
    for (from, to) in [
        ("C3D13FE58DE4C810", "C3D13FE58DE4C811"),
        ("HappyFace", "SadFace"),
        ("0055AED6DCD90281E5", "0055AED6DCD90281E6"),
        ("096fKKXTRTtl3on89fVO", "096fKKXTRTtl3on89fVP"),
        (":Put", ":Post"),
        ("\"amzn-s3-demo-bucket\"", "\"another\""),
        ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.001Z"),
    ] {
        assert_ne!(id(from, to), first, "{from}");
    }
}

/// Bodies that AWS's client sent to an emulator's queues (botocore, PutEvents, PutObject,
/// DeleteObject, Publish, SendMessage).
#[test]
fn recorded_messages_are_mapped() {
    let recorded: Vec<Value> =
        serde_json::from_str(include_str!("tests/recorded.json")).expect("JSON");
    for row in recorded {
        let source = match row["source"].as_str() {
            Some("S3") => source(Envelope::None, Carries::S3, true),
            Some("EVENT_BRIDGE") => source(Envelope::None, Carries::EventBridge, true),
            Some("SNS") => source(Envelope::Sns, Carries::Messages, false),
            _ => source(Envelope::None, Carries::Messages, false),
        };
        let body = row["body"].as_str().expect("a body");
        let found = written(&source, body, InputSchema::EventGridSchema).expect("mapped");
        let found = found.as_array().cloned().unwrap_or_default();
        let of = |event: &Value| json!([event["eventType"], event["subject"]]);
        assert_eq!(Value::from_iter(found.iter().map(of)), row["events"], "{body}");
    }
}

#[test]
fn keys_are_decoded() {
    let source = source(Envelope::None, Carries::S3, false);
    let table = [
        ("HappyFace.jpg", "HappyFace.jpg"),
        ("my+photos/red+flower.jpg", "my photos/red flower.jpg"),
        ("a%2Bb%25c", "a+b%c"),
        ("%C3%A4%E6%BC%A2", "ä漢"),
        // Characters that attributes may not have stay encoded.
        ("line%0Abreak%00", "line%0Abreak%00"),
        // Bytes that are not text stay as they came.
        ("%FF%FE+x", "%FF%FE+x"),
        ("50%", "50%"),
    ];
    for (key, want) in table {
        let event = cloud_event(&source, &S3_PUT.replace("HappyFace.jpg", key));
        assert_eq!(event["subject"], want, "{key}");
        assert_eq!(event["data"]["s3"]["object"]["key"], key, "the data is as it came");
    }
}

#[test]
fn s3s_test_event_is_no_event() {
    let source = source(Envelope::None, Carries::S3, false);
    let found = written(&source, S3_TEST_EVENT, InputSchema::EventGridSchema);
    assert_eq!(found, Ok(Value::Null));
    let wrapped = json!({
        "MessageId": "1", "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
        "Message": S3_TEST_EVENT, "Timestamp": "2012-03-29T05:12:16.901Z",
    });
    let source = super::Source { envelope: Envelope::Sns, ..source };
    let found = written(&source, &wrapped.to_string(), InputSchema::EventGridSchema);
    assert_eq!(found, Ok(Value::Null));
}

/// It has to be kept: nothing else says where to confirm a subscription.
#[test]
fn what_sns_sends_besides_notifications_is_no_event() {
    let source = source(Envelope::Sns, Carries::Messages, false);
    let mapped = |text: &str| {
        let message = Message { id: "1", sent_at: SENT_AT, body: text };
        map(&source, &message).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(mapped(SNS), Ok(()));
    let without = SNS.replace("\"Type\"", "\"Other\"");
    assert_eq!(mapped(&without), Ok(()));
    let confirmation = SNS.replace("\"Notification\"", "\"SubscriptionConfirmation\"");
    assert_ne!(confirmation, SNS);
    let refused = mapped(&confirmation).expect_err("no event");
    assert!(refused.contains("\"SubscriptionConfirmation\", not a Notification"), "{refused}");
}

#[test]
fn a_notification_of_sns_is_its_message() {
    let source = Source {
        event_type: "com.amazonaws.sns.Notification".to_owned(),
        ..source(Envelope::Sns, Carries::Messages, false)
    };
    let want = json!({
        "specversion": "1.0",
        "id": "63a3f6b6-d533-4a47-aef9-fcf5cf758c76",
        "source": "arn:aws:sns:us-west-2:123456789012:MyTopic",
        "type": "com.amazonaws.sns.Notification",
        "subject": "Testing publish to subscribed queues",
        "time": "2012-03-29T05:12:16.901Z",
        "datacontenttype": "text/plain; charset=utf-8",
        "data": "Hello world!",
    });
    assert_eq!(cloud_event(&source, SNS), want);
    let json = SNS.replace("Hello world!", r#"{\"order\": 1.50}"#);
    let event = cloud_event(&source, &json);
    assert_eq!(
        (&event["data"]["order"], &event["datacontenttype"]),
        (&json!(1.5), &json!("application/json"))
    );
    let without = SNS.replace("\"Subject\"", "\"Other\"");
    assert_eq!(cloud_event(&source, &without).get("subject"), None);
    assert_eq!(event_grid(&source, &without)["subject"], "");
}

#[test]
fn content_table() {
    use Content::{Auto, Base64, Text};
    let (json, text, bytes) =
        ("application/json", "text/plain; charset=utf-8", "application/octet-stream");
    // Content, body, media type, data, data_base64.
    let table = [
        (Auto, r#" {"a":[1]} "#, json, json!({"a": [1]}), Value::Null),
        (Auto, "[1,2]", json, json!([1, 2]), Value::Null),
        (Auto, "1.50", json, json!(1.5), Value::Null),
        (Auto, "null", json, json!(null), Value::Null),
        (Auto, "hello", text, json!("hello"), Value::Null),
        (Auto, "{\"a\":", text, json!("{\"a\":"), Value::Null),
        (Auto, "{} {}", text, json!("{} {}"), Value::Null),
        (Text, "{}", text, json!("{}"), Value::Null),
        (Text, "line\n\u{1}\"", text, json!("line\n\u{1}\""), Value::Null),
        (Base64, "AAEC/w==", bytes, Value::Null, json!("AAEC/w==")),
    ];
    for (content, body, media_type, data, data_base64) in table {
        let event = cloud_event(&messages(content), body);
        assert_eq!(event["datacontenttype"], media_type, "{body}");
        assert_eq!((&event["data"], &event["data_base64"]), (&data, &data_base64), "{body}");
        assert_eq!(event["id"], "a4b1cd8f-1f6f-4d6f-b0a3-5f1b2c3d4e5f");
        assert_eq!(event["source"], "arn:aws:sqs:eu-central-1:123456789012:orders");
        assert_eq!(event["type"], "com.amazonaws.sqs.message");
        assert_eq!(event["time"], SENT_AT.to_iso_8601());
        assert_eq!(event.get("subject"), None, "{body}");
    }
    assert_eq!(event_grid(&messages(Base64), "AAEC/w==")["data"], "AAEC/w==");
}

#[test]
fn what_can_not_be_mapped_is_said() {
    use Carries::{EventBridge, Messages, S3};
    let none = |carries| source(Envelope::None, carries, true);
    let sns = |carries| source(Envelope::Sns, carries, true);
    let grid = InputSchema::EventGridSchema;
    let positions = r#"["1","s","t","2017-12-22T18:43:48Z","r",[],{}]"#;
    let twice = EVENT_BRIDGE_EC2.replacen("\"version\": \"0\"", "\"id\": \"other\"", 1);
    let deep = "[".repeat(100_000);
    let s3 = |from: &str, to: &str| S3_PUT.replace(from, to);
    let eb = |from: &str, to: &str| EVENT_BRIDGE_S3.replace(from, to);
    let table = [
        (
            none(EventBridge),
            "hello".to_owned(),
            grid,
            "an event of EventBridge must be a JSON object, but it begins with 'h'",
        ),
        (none(EventBridge), String::new(), grid, "begins with nothing"),
        (none(EventBridge), positions.to_owned(), grid, "must be a JSON object"),
        (
            none(EventBridge),
            "{}".to_owned(),
            grid,
            "is not an event of EventBridge: missing field `id`",
        ),
        (none(EventBridge), twice, grid, "duplicate field `id`"),
        (none(EventBridge), deep.clone(), grid, "must be a JSON object"),
        (none(EventBridge), format!("{{\"id\":{deep}"), grid, "is not an event of EventBridge"),
        (
            none(EventBridge),
            eb("\"key\"", "\"no\""),
            grid,
            "is not the detail of an event of S3: missing field `key`",
        ),
        (
            none(EventBridge),
            eb("\"size\": 5", "\"size\": -5"),
            grid,
            "is not the detail of an event of S3: a member has another type at line",
        ),
        (none(S3), "{}".to_owned(), grid, "the notification has no Records"),
        (none(S3), r#"{"Event":"s3:Other"}"#.to_owned(), grid, "the notification has no Records"),
        (none(S3), r#"{"Records":[]}"#.to_owned(), grid, "the notification has no Records"),
        (
            none(S3),
            r#"{"Records":[[]]}"#.to_owned(),
            grid,
            "a record of a notification of S3 must be a JSON object",
        ),
        (
            none(S3),
            s3("\"key\"", "\"no\""),
            grid,
            "is not a record of a notification of S3: missing field `key`",
        ),
        (none(S3), s3("1024", "1e400"), grid, "is not a record of a notification of S3"),
        (sns(Messages), "Hello".to_owned(), grid, "a notification of SNS must be a JSON object"),
        (sns(Messages), SNS.replace("MessageId", "Id"), grid, "missing field `MessageId`"),
        (
            sns(Messages),
            SNS.replace("Hello world!", "\\ud800"),
            grid,
            "is not a notification of SNS",
        ),
        (
            sns(S3),
            SNS.to_owned(),
            grid,
            "a notification of S3 must be a JSON object, but it begins with 'H'",
        ),
        (messages(Content::Base64), "no base64!".to_owned(), grid, "must be base64"),
        (
            messages(Content::Auto),
            "text".to_owned(),
            InputSchema::CustomEventSchema,
            "CustomEventSchema",
        ),
        (
            messages(Content::Auto),
            "[{}]".to_owned(),
            InputSchema::CustomEventSchema,
            "CustomEventSchema",
        ),
    ];
    for (source, text, schema, want) in table {
        let said = written(&source, &text, schema).expect_err(want);
        let start: String = text.chars().take(60).collect();
        assert!(said.contains(want), "{start}: {said}");
    }
}

#[test]
fn several_records_are_several_events() {
    let mut both: Value = serde_json::from_str(S3_PUT).expect("JSON");
    let mut second = both["Records"][0].clone();
    second["eventName"] = json!("ObjectRemoved:Delete");
    both["Records"].as_array_mut().expect("records").push(second);
    for blobs in [false, true] {
        let source = source(Envelope::None, Carries::S3, blobs);
        let found = written(&source, &both.to_string(), InputSchema::CloudEventSchemaV1_0);
        let found = found.expect("events");
        assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
        assert_ne!(found[0]["id"], found[1]["id"]);
    }
    // One unreadable record spoils all.
    both["Records"][1] = json!({});
    let source = source(Envelope::None, Carries::S3, true);
    let said = written(&source, &both.to_string(), InputSchema::CloudEventSchemaV1_0);
    assert!(said.expect_err("unreadable").contains("missing field"));
}

#[test]
fn a_source_is_read_from_terraforms_setting() {
    let text = r#"{"name":"uploads","topic":"t","queueArn":"arn:aws:sqs:eu-central-1:1:q",
        "source":"arn:aws:s3:::b","eventType":"T","envelope":"SNS","carries":"EVENT_BRIDGE",
        "content":"AUTO","blobs":true}"#;
    let found: super::Source = text.parse().expect("a source");
    assert_eq!((found.envelope, found.carries), (Envelope::Sns, Carries::EventBridge));
    for (from, to) in [("\"topic\"", "\"tpic\""), ("SNS", "sns"), ("true", "1")] {
        text.replace(from, to).parse::<super::Source>().expect_err(to);
    }
}

#[test]
fn ids_from_texts_tell_where_one_ends() {
    assert_ne!(id_from(["a", "bc"]), id_from(["ab", "c"]));
    assert_ne!(id_from(["a", ""]), id_from(["a"]));
    assert_eq!(id_from(["a", "bc"]), id_from(["a", "bc"]));
}
