//! Messages of AWS sources, from the queue's body to events of a topic.

use gridpost_core::{
    event::custom::Stamps,
    intake::{self, Carries, Content, Envelope, Mapped, Message, Source},
    publish,
    topic::InputSchema,
};
use serde_json::Value;
use uuid::Uuid;

use super::publish::{NOW, topic};

/// A message, read as each source may say: what is mapped is JSON, is the same again, and is taken or
/// refused as a publish is.
pub(crate) fn message(input: &[u8]) {
    let Ok(body) = std::str::from_utf8(input) else { return };
    for envelope in [Envelope::None, Envelope::Sns] {
        for carries in [Carries::Messages, Carries::EventBridge, Carries::S3] {
            for blobs in [false, true] {
                holds(&source(envelope, carries, blobs), body);
            }
        }
    }
}

fn source(envelope: Envelope, carries: Carries, blobs: bool) -> Source {
    let arn = "arn:aws:sqs:eu-central-1:123456789012:q".to_owned();
    Source {
        name: "s".to_owned(),
        topic: "t".to_owned(),
        queue_arn: arn.clone(),
        source: arn,
        event_type: "T".to_owned(),
        envelope,
        carries,
        content: Content::Auto,
        blobs,
    }
}

fn holds(source: &Source, body: &str) {
    let message = Message { id: "1", body, sent_at: NOW };
    let events = match intake::map(source, &message) {
        Ok(Mapped::Events(events)) => events,
        Ok(Mapped::TestEvent) => return,
        Err(error) => {
            assert!(error.to_string().len() < 1_000, "{error}");
            return;
        }
    };
    assert!(!events.is_empty());
    for schema in [
        InputSchema::EventGridSchema,
        InputSchema::CloudEventSchemaV1_0,
        InputSchema::CustomEventSchema,
    ] {
        let Ok(text) = intake::body(&events, schema) else { continue };
        let again = intake::map(source, &message).expect("it was mapped before");
        let Mapped::Events(again) = again else { panic!("it had events") };
        assert_eq!(intake::body(&again, schema).ok().as_deref(), Some(text.as_str()));
        let values: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(values.len(), events.len());
        let stamps = Stamps { now: NOW, id: &mut Uuid::nil };
        if let Ok(read) = publish::read(&topic(schema), "/topics/t", text.as_bytes(), stamps) {
            assert_eq!(read.len(), events.len());
        }
    }
}
