//! What ingest is invoked with and what it replies, by API Gateway or a function URL, and by its
//! other invoker, the fan-out queue's mapping.

use std::collections::BTreeMap;

use gridpost_core::gateway::Event;
pub use gridpost_core::gateway::{Authorizer, EventError, Request};
use serde::Serialize;

use crate::expand::Record;

/// The event that the function is invoked with.
pub type GatewayEvent = Event<Record>;

/// What the function is asked to do.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one an invocation, and nearly all are publishes")]
pub enum Invocation {
    /// To answer a publisher's request.
    Publish(Request),
    /// To expand pieces of stored publishes.
    Expand(Vec<Record>),
}

/// What the function is asked to do. What comes by HTTP is a request, whatever else is in it.
///
/// # Errors
///
/// [`EventError`] when that can't be told: not the publisher's doing.
pub fn invocation(mut event: GatewayEvent) -> Result<Invocation, EventError> {
    let records = event.take_records();
    if !event.is_request() && !records.is_empty() {
        return Ok(Invocation::Expand(records));
    }
    event.into_request().map(Invocation::Publish)
}

/// The reply to the fan-out queue's mapping: which records SQS keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    batch_item_failures: Vec<KeptRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct KeptRecord {
    item_identifier: String,
}

impl FromIterator<String> for Kept {
    fn from_iter<I: IntoIterator<Item = String>>(ids: I) -> Self {
        let kept = ids.into_iter().map(|item_identifier| KeptRecord { item_identifier });
        Self { batch_item_failures: kept.collect() }
    }
}

/// What the function replies, by invoker.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To a publisher.
    Publish(Response),
    /// To the fan-out queue's mapping.
    Expand(Kept),
}

/// The answer, as API Gateway takes it from the function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// The HTTP status.
    pub status_code: u16,
    /// The headers.
    pub headers: BTreeMap<&'static str, String>,
    /// The body; may be empty.
    pub body: String,
    /// None ever. cargo-lambda refuses an answer that does not say so; API Gateway does not mind.
    pub cookies: [(); 0],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_event_is_a_publish() {
        let sample = include_str!("../../samples/publish.json");
        let event: GatewayEvent = serde_json::from_str(sample).expect("an event");
        let request = event.into_request().expect("a request");
        assert_eq!((&*request.method, &*request.path), ("POST", "/topics/sample/api/events"));
        assert_eq!(request.query, "api-version=2018-01-01");
        assert_eq!(request.headers["content-type"], "application/json; charset=utf-8");
        let events = gridpost_core::event::event_grid::parse(&request.body, "/topics/sample");
        assert_eq!(events.expect("events").len(), 1);
    }

    #[test]
    fn messages_of_the_fan_out_queue_are_no_request() {
        let invocation = |event: &str| {
            invocation(serde_json::from_str::<GatewayEvent>(event).expect("an event"))
        };
        let records = r#""Records":[{"messageId":"m","body":"{}","receiptHandle":"r",
            "eventSource":"aws:sqs","attributes":{"ApproximateReceiveCount":"1"}}]"#;
        let Ok(Invocation::Expand(all)) = invocation(&format!("{{{records}}}")) else {
            panic!("it is the queue's event");
        };
        assert_eq!(all.len(), 1);
        assert_eq!((&*all[0].message_id, &*all[0].body), ("m", "{}"));
        let by_http = format!(r#"{{"requestContext":{{"http":{{"method":"POST"}}}},{records}}}"#);
        assert!(matches!(invocation(&by_http), Ok(Invocation::Publish(_))));
        for neither in ["{}", r#"{"Records":[]}"#] {
            assert!(matches!(invocation(neither), Err(EventError::Unknown)), "{neither}");
        }
        let kept: Kept = ["m".to_owned()].into_iter().collect();
        let json = serde_json::to_value(Reply::Expand(kept)).expect("JSON");
        assert_eq!(json, serde_json::json!({"batchItemFailures": [{"itemIdentifier": "m"}]}));
    }

    #[test]
    fn the_reply_has_api_gateways_members() {
        let headers = BTreeMap::from([("retry-after", "1".to_owned())]);
        let reply = Response { status_code: 503, headers, body: "{}".to_owned(), cookies: [] };
        let reply = Reply::Publish(reply);
        let json = serde_json::to_value(reply).expect("JSON");
        let want = serde_json::json!({
            "statusCode": 503, "headers": {"retry-after": "1"}, "body": "{}", "cookies": [],
        });
        assert_eq!(json, want);
    }
}
