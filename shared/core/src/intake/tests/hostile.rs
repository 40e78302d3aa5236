//! Random text and damaged samples.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    event::{ParsedEvent, custom::Stamps},
    fixtures,
    publish::{self, PublishError},
    topic::Topic,
};

/// Reads a publish of these events to a topic of that schema.
fn read(body: &str, schema: InputSchema) -> Result<usize, PublishError> {
    let topic = Topic { input_schema: schema, ..fixtures::topic() };
    let stamps = Stamps { now: SENT_AT, id: &mut Uuid::nil };
    let found: Vec<ParsedEvent<'_>> = publish::read(&topic, "/topics/t", body.as_bytes(), stamps)?;
    Ok(found.len())
}

const SCHEMAS: [InputSchema; 3] = [
    InputSchema::EventGridSchema,
    InputSchema::CloudEventSchemaV1_0,
    InputSchema::CustomEventSchema,
];

/// What is mapped is JSON, and is read or refused as a publish is.
fn holds(source: &Source, text: &str) {
    let message = message(text);
    let Ok(Mapped::Events(events)) = map(source, &message) else { return };
    assert!(!events.is_empty());
    for schema in SCHEMAS {
        let Ok(body) = body(&events, schema) else { continue };
        serde_json::from_str::<Vec<Value>>(&body).expect("JSON");
        if let Ok(found) = read(&body, schema) {
            assert_eq!(found, events.len());
        }
    }
}

fn sources() -> impl Strategy<Value = Source> {
    let envelopes = prop::sample::select(vec![Envelope::None, Envelope::Sns]);
    let carries = prop::sample::select(vec![Carries::Messages, Carries::EventBridge, Carries::S3]);
    (envelopes, carries, any::<bool>())
        .prop_map(|(envelope, carries, blobs)| source(envelope, carries, blobs))
}

/// Samples with one part replaced.
fn damaged() -> impl Strategy<Value = String> {
    let samples = [S3_PUT, S3_TEST_EVENT, EVENT_BRIDGE_S3, EVENT_BRIDGE_EC2, SNS];
    (prop::sample::select(samples.to_vec()), any::<prop::sample::Index>(), 0usize..40, ".{0,12}")
        .prop_map(|(sample, at, length, with)| {
            let at = at.index(sample.len());
            let end = (at + length).min(sample.len());
            format!("{}{with}{}", &sample[..at], &sample[end..])
        })
}

proptest! {
    #[test]
    fn hostile_messages_do_no_harm(source in sources(), text in ".{0,200}") {
        holds(&source, &text);
    }

    #[test]
    fn damaged_messages_do_no_harm(source in sources(), text in damaged()) {
        holds(&source, &text);
    }

    #[test]
    fn any_text_of_an_application_becomes_an_event(text in "\\PC{0,200}") {
        let source = messages(Content::Auto);
        let message = message(&text);
        let Mapped::Events(events) = map(&source, &message).expect("an event") else { panic!() };
        for schema in [InputSchema::EventGridSchema, InputSchema::CloudEventSchemaV1_0] {
            let body = body(&events, schema).expect("a body");
            prop_assert_eq!(read(&body, schema).expect("it is taken"), 1);
        }
    }

    #[test]
    fn any_key_becomes_a_blob_that_is_taken(key in ".{1,60}") {
        let encoded: String =
            percent_encoding::utf8_percent_encode(&key, percent_encoding::NON_ALPHANUMERIC).to_string();
        let text = S3_PUT.replace("HappyFace.jpg", &encoded);
        for blobs in [false, true] {
            let source = source(Envelope::None, Carries::S3, blobs);
            let message = message(&text);
            let Mapped::Events(events) = map(&source, &message).expect("an event") else { panic!() };
            for schema in SCHEMAS {
                let body = body(&events, schema).expect("a body");
                prop_assert_eq!(read(&body, schema).expect("it is taken"), 1);
            }
        }
    }
}
