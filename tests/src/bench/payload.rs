//! Events of a size, and the API Gateway events that carry them to ingest.

use anyhow::Context;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    book::{DIGITS, MARK},
    mix::{KEY, Mix, topic_name},
};

/// An event of about `bytes` bytes, at least 200, mostly an array of small objects, like business
/// events: in Event Grid's schema, or in a custom one, which the mapping in [`super::mix`] describes.
fn event(number: usize, bytes: usize, has_custom_schema: bool) -> String {
    const ITEM: &str =
        r#"{"sku":"A-1000","name":"A thing to be sold","quantity":2,"price":12.50},"#;
    const END: &str = r#"],"note":""}}"#;
    let id = format!("{MARK}{number:0width$}", width = DIGITS);
    let envelope = if has_custom_schema {
        format!(
            r#""order":"A-17","number":"{id}","what":"Shop.OrderPlaced","about":"orders/1","at":"2026-01-02T03:04:05Z""#
        )
    } else {
        format!(
            r#""id":"{id}","eventType":"Shop.OrderPlaced","subject":"orders/1","eventTime":"2026-01-02T03:04:05Z","dataVersion":"1.0""#
        )
    };
    let mut text = format!(r#"{{{envelope},"data":{{"region":"eu-1","total":12.50,"items":["#);
    while text.len() + ITEM.len() + END.len() <= bytes {
        text.push_str(ITEM);
    }
    if text.ends_with(',') {
        text.pop();
    }
    let padding = "x".repeat(bytes.saturating_sub(text.len() + END.len()));
    text + r#"],"note":""# + &padding + r#""}}"#
}

/// The body of a mix's publish, whose events are numbered from 0.
pub fn body(mix: &Mix) -> String {
    let event = |number| event(number, mix.event_bytes, mix.custom_schema);
    format!("[{}]", (0..mix.events_per_publish).map(event).collect::<Vec<_>>().join(","))
}

/// Publishes that differ only in their topic and the numbers of their events.
pub struct Publishes {
    /// By topic: the text, and the positions of the events' numbers.
    templates: Vec<(Vec<u8>, Vec<usize>)>,
    events: usize,
}

impl Publishes {
    /// The publishes of a mix: as API Gateway hands them over, or for `gridpost dev` only their
    /// bodies, as clients send them.
    pub fn new(mix: &Mix) -> anyhow::Result<Self> {
        let body = body(mix);
        let template = |topic| {
            let text = match mix.dev {
                Some(_) => body.clone(),
                None => gateway_event(&topic_name(topic), &body)?,
            };
            let marks = memchr::memmem::find_iter(text.as_bytes(), MARK);
            let places = marks.map(|at| at + MARK.len()).collect();
            Ok((text.into_bytes(), places))
        };
        let templates: anyhow::Result<_> = (0..mix.topics).map(template).collect();
        Ok(Self { templates: templates?, events: mix.events_per_publish })
    }

    /// The publish of that number.
    pub fn make(&self, publish: usize) -> Bytes {
        let (text, places) = &self.templates[publish % self.templates.len()];
        let mut text = text.clone();
        for (offset, place) in places.iter().enumerate() {
            let number = publish * self.events + offset;
            let digits = format!("{number:0width$}", width = DIGITS);
            text[*place..*place + DIGITS].copy_from_slice(digits.as_bytes());
        }
        text.into()
    }
}

/// API Gateway's event for a publish, payload format 2.0, with the headers that a client sends.
fn gateway_event(topic: &str, body: &str) -> anyhow::Result<String> {
    let event = serde_json::from_str(include_str!("gateway_event.json"));
    let mut event: Value = event.context("API Gateway's event is not JSON")?;
    let path = json!(format!("/topics/{topic}/api/events"));
    event["requestContext"]["http"]["path"] = path.clone();
    event["rawPath"] = path;
    event["pathParameters"]["topic"] = json!(topic);
    event["headers"]["aeg-sas-key"] = json!(KEY);
    event["headers"]["content-length"] = json!(body.len().to_string());
    event["body"] = json!(body);
    Ok(event.to_string())
}

#[cfg(test)]
mod tests {
    use gridpost_core::event::event_grid;

    use super::*;

    #[test]
    fn events_have_their_size_and_are_events() {
        for event_bytes in [200, 1_024, 65_536] {
            let text = body(&Mix { event_bytes, ..Mix::default() });
            assert_eq!(text.len(), event_bytes + "[]".len());
            let read = event_grid::parse(text.as_bytes(), "/topics/t").expect("an event");
            assert_eq!(read.len(), 1);
        }
    }
}
