//! Publishes events: a topic's schema and URL, an event in that schema, the request.

use anyhow::Context;
use gridpost_api::{client::with_text, topic::Topic};
use gridpost_core::topic::{InputSchema, Kind};
use serde_json::{Value, json};

use crate::{
    failure::{Misuse, Refusal},
    target::Target,
};

/// Returns a topic's input schema.
pub fn input_schema(topic: &Topic) -> InputSchema {
    topic.properties.settings.input_schema.unwrap_or(InputSchema::EventGridSchema)
}

/// Returns the content type for a body: CloudEvents name a single event and a batch differently.
pub fn content_type(schema: InputSchema, body: &[u8]) -> &'static str {
    let is_array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    match schema {
        InputSchema::CloudEventSchemaV1_0 if is_array => {
            "application/cloudevents-batch+json; charset=utf-8"
        }
        InputSchema::CloudEventSchemaV1_0 => "application/cloudevents+json; charset=utf-8",
        InputSchema::EventGridSchema | InputSchema::CustomEventSchema => {
            "application/json; charset=utf-8"
        }
    }
}

/// An event that flags describe.
pub struct Event<'a> {
    pub id: &'a str,
    pub event_type: &'a str,
    pub subject: &'a str,
    pub source: &'a str,
    pub time: &'a str,
    /// Its data, as the JSON text that is sent: a value would round long numbers, and drop members that stand
    /// twice.
    pub data: &'a str,
}

impl Event<'_> {
    /// Writes the request body in the topic's schema.
    pub fn body(&self, schema: InputSchema) -> String {
        let event = self.text(schema);
        match schema {
            InputSchema::CloudEventSchemaV1_0 => event,
            InputSchema::EventGridSchema | InputSchema::CustomEventSchema => format!("[{event}]"),
        }
    }

    /// Writes the event by itself.
    pub fn text(&self, schema: InputSchema) -> String {
        let others = match schema {
            InputSchema::EventGridSchema => json!({
                "id": self.id,
                "eventType": self.event_type,
                "subject": self.subject,
                "eventTime": self.time,
                "dataVersion": "1.0",
            }),
            InputSchema::CloudEventSchemaV1_0 => json!({
                "specversion": "1.0",
                "id": self.id,
                "type": self.event_type,
                "source": self.source,
                "subject": self.subject,
                "time": self.time,
            }),
            // A custom event is whatever its publisher makes it.
            InputSchema::CustomEventSchema => return self.data.to_owned(),
        };
        with_text(&others.to_string(), "data", self.data)
    }
}

/// Publishes a body. Returns the status of the answer.
pub async fn post(
    target: &Target,
    url: &str,
    key: &str,
    content_type: &str,
    body: Vec<u8>,
) -> anyhow::Result<u16> {
    let request = target.http_client(url)?.post(url).header("content-type", content_type);
    let answer = request.header("aeg-sas-key", key).body(body).send().await;
    let answer = answer.with_context(|| format!("POST {url} got no answer"))?;
    match answer.status().as_u16() {
        200 => Ok(200),
        refused => {
            let text = answer.text().await.unwrap_or_default();
            Err(Refusal::from_answer(refused, &text).into())
        }
    }
}

/// Counts the events of a body; `None` if it is not JSON, which a binary publish need not be.
pub fn count(body: &[u8]) -> Option<usize> {
    match serde_json::from_slice(body).ok()? {
        Value::Array(events) => Some(events.len()),
        _ => Some(1),
    }
}

/// Returns the URL to publish to a topic. Fails with [`Misuse`] when neither flags nor the topic have it.
pub fn events_url(name: &str, topic: Option<&Topic>, target: &Target) -> Result<String, Misuse> {
    let by_topic = || Some(topic?.properties.endpoint.clone());
    let is_namespace = topic.is_some_and(|topic| topic.kind == Kind::Namespace);
    target.events_url(name, is_namespace).or_else(by_topic).ok_or_else(|| {
        Misuse("the publish API is not known: give --publish-url (GRIDPOST_PUBLISH_URL)".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_follows_schema_and_shape() {
        use InputSchema::*;
        for (schema, body, want) in [
            (EventGridSchema, "[]", "application/json; charset=utf-8"),
            (CustomEventSchema, "{}", "application/json; charset=utf-8"),
            (CloudEventSchemaV1_0, " {}", "application/cloudevents+json; charset=utf-8"),
            (CloudEventSchemaV1_0, "\n [", "application/cloudevents-batch+json; charset=utf-8"),
        ] {
            assert_eq!(content_type(schema, body.as_bytes()), want, "{schema:?} {body}");
        }
    }

    #[test]
    fn events_are_counted_where_they_can_be() {
        for (body, want) in
            [("[]", Some(0)), ("[{}, {}]", Some(2)), (" {\"a\": [1, 2]}", Some(1)), ("<a/>", None)]
        {
            assert_eq!(count(body.as_bytes()), want, "{body}");
        }
    }

    #[test]
    fn each_schema_has_its_envelope() {
        let event = Event {
            id: "1",
            event_type: "T",
            subject: "s",
            source: "/src",
            time: "2030-01-02T03:04:05Z",
            data: r#"{"a":1}"#,
        };
        let body = |schema| -> Value { serde_json::from_str(&event.body(schema)).expect("JSON") };
        let event_grid = json!([{"id": "1", "eventType": "T", "subject": "s", "data": {"a": 1},
            "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1.0"}]);
        let cloud_event = json!({"specversion": "1.0", "id": "1", "type": "T", "source": "/src",
            "subject": "s", "time": "2030-01-02T03:04:05Z", "data": {"a": 1}});
        assert_eq!(body(InputSchema::EventGridSchema), event_grid);
        assert_eq!(body(InputSchema::CloudEventSchemaV1_0), cloud_event);
        assert_eq!(body(InputSchema::CustomEventSchema), json!([{"a": 1}]));
    }
}
