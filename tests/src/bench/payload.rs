//! Events of a size, and the API Gateway events that carry them to ingest.

use bytes::Bytes;
use serde_json::json;

use super::{
    book::{DIGITS, MARK},
    mix::{KEY, Mix, topic_name},
};

/// An event in Event Grid's schema of about `bytes` bytes, at least 200: mostly an array of small
/// objects, like business events.
pub fn event(number: usize, bytes: usize) -> String {
    let envelope = format!(
        r#""id":"{MARK}{number:0width$}","eventType":"Shop.OrderPlaced","subject":"orders/1","eventTime":"2026-01-02T03:04:05Z","dataVersion":"1.0""#,
        width = DIGITS
    );
    filled(&envelope, bytes)
}

/// The same in a custom schema, which the mapping in [`super::mix`] describes.
pub fn custom_event(number: usize, bytes: usize) -> String {
    let envelope = format!(
        r#""order":"A-17","number":"{MARK}{number:0width$}","what":"Shop.OrderPlaced","about":"orders/1","at":"2026-01-02T03:04:05Z""#,
        width = DIGITS
    );
    filled(&envelope, bytes)
}

fn filled(envelope: &str, bytes: usize) -> String {
    const ITEM: &str =
        r#"{"sku":"A-1000","name":"A thing to be sold","quantity":2,"price":12.50},"#;
    const END: &str = r#"],"note":""}}"#;
    let mut text = format!(r#"{{{envelope},"data":{{"region":"eu-1","total":12.50,"items":["#);
    while text.len() + ITEM.len() + END.len() <= bytes {
        text.push_str(ITEM);
    }
    if text.ends_with(',') {
        text.pop();
    }
    let padding = bytes.saturating_sub(text.len() + END.len());
    text.push_str(r#"],"note":""#);
    text.push_str(&"x".repeat(padding));
    text.push_str(r#""}}"#);
    text
}

/// The body of a mix's publish, whose events are numbered from 0.
pub fn body(mix: &Mix) -> String {
    let event = if mix.custom_schema { custom_event } else { event };
    let events = (0..mix.events_per_publish).map(|number| event(number, mix.event_bytes));
    format!("[{}]", events.collect::<Vec<_>>().join(","))
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
    pub fn new(mix: &Mix) -> Self {
        let body = body(mix);
        let template = |topic| {
            let text = match mix.dev {
                Some(_) => body.clone().into_bytes(),
                None => gateway_event(&topic_name(topic), &body),
            };
            let marks = memchr::memmem::find_iter(&text, MARK);
            let places = marks.map(|at| at + MARK.len()).collect();
            (text, places)
        };
        Self { templates: (0..mix.topics).map(template).collect(), events: mix.events_per_publish }
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
fn gateway_event(topic: &str, body: &str) -> Vec<u8> {
    let path = format!("/topics/{topic}/api/events");
    let route = "POST /topics/{topic}/api/events";
    let event = json!({
        "version": "2.0",
        "routeKey": route,
        "rawPath": path,
        "rawQueryString": "api-version=2018-01-01",
        "headers": {
            "accept": "application/json",
            "aeg-sas-key": KEY,
            "content-length": body.len().to_string(),
            "content-type": "application/json; charset=utf-8",
            "host": "abcdefghij.execute-api.us-east-1.amazonaws.com",
            "user-agent": "azsdk-python-eventgrid/4.20.0 Python/3.12.3 (Linux)",
            "x-amzn-trace-id": "Root=1-65a2f0b5-0123456789abcdef01234567",
            "x-forwarded-for": "203.0.113.7",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
            "x-ms-client-request-id": "11111111-2222-3333-4444-555555555555",
        },
        "queryStringParameters": { "api-version": "2018-01-01" },
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdefghij",
            "domainName": "abcdefghij.execute-api.us-east-1.amazonaws.com",
            "domainPrefix": "abcdefghij",
            "http": {
                "method": "POST",
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.7",
                "userAgent": "azsdk-python-eventgrid/4.20.0 Python/3.12.3 (Linux)",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": route,
            "stage": "$default",
            "time": "02/Jan/2026:03:04:05 +0000",
            "timeEpoch": 1_767_323_045_000_u64,
        },
        "pathParameters": { "topic": topic },
        "body": body,
        "isBase64Encoded": false,
    });
    event.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use gridpost_core::event::event_grid;
    use serde_json::Value;

    use super::*;
    use crate::bench::book::event_numbers;

    #[test]
    fn events_have_their_size_and_are_events() {
        for bytes in [200, 1_024, 65_536] {
            let event = event(7, bytes);
            assert_eq!(event.len(), bytes);
            let body = format!("[{event}]");
            let read = event_grid::parse(body.as_bytes(), "/topics/t").expect("an event");
            assert_eq!(read.len(), 1);
        }
    }

    #[test]
    fn a_publish_carries_its_own_numbers() {
        let mix = Mix { topics: 3, events_per_publish: 2, event_bytes: 300, ..Mix::default() };
        let made = Publishes::new(&mix).make(4);
        assert_eq!(event_numbers(&made).collect::<Vec<_>>(), [8, 9]);
        let event: Value = serde_json::from_slice(&made).expect("JSON");
        assert_eq!(event["rawPath"], "/topics/bench-1/api/events");
    }
}
