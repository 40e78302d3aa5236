//! What ingest is invoked with and what it replies, by API Gateway or a function URL.

use std::collections::BTreeMap;

use gridpost_core::gateway::Event;
pub use gridpost_core::gateway::{Authorizer, EventError, Request};
use serde::Serialize;

/// The event that the function is invoked with.
pub type GatewayEvent = Event;

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
    fn the_reply_has_api_gateways_members() {
        let headers = BTreeMap::from([("retry-after", "1".to_owned())]);
        let reply = Response { status_code: 503, headers, body: "{}".to_owned(), cookies: [] };
        let json = serde_json::to_value(reply).expect("JSON");
        let want = serde_json::json!({
            "statusCode": 503, "headers": {"retry-after": "1"}, "body": "{}", "cookies": [],
        });
        assert_eq!(json, want);
    }
}
