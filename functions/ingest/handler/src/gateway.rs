//! API Gateway's HTTP event and reply, payload format 2.0; and the event of the other invoker, the
//! fan-out queue's mapping.
//!
//! Source: Amazon API Gateway, "AWS Lambda proxy integrations for HTTP APIs". Only what ingest uses
//! is read, so that an oddity elsewhere in the event costs nobody a publish.

use std::collections::BTreeMap;

use base64::{DecodeError, Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use crate::expand::Record;

/// A request of a publisher.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, upper case.
    pub method: String,
    /// The path; its segments may be percent-encoded.
    pub path: String,
    /// The query as it was sent, without its question mark; may be empty.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// Which of API Gateway's authorizers has let it through, if one has.
    pub authorizer: Option<Authorizer>,
    /// The body.
    pub body: Vec<u8>,
}

/// An authorizer of API Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorizer {
    /// The request was signed by an IAM principal that may make it.
    Iam,
    /// The request has a token of the issuer that was configured.
    Jwt,
}

/// The event that the function is invoked with: API Gateway's, or that of the fan-out queue. Both in
/// one, because telling them apart first would take a copy of each publish.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayEvent {
    #[serde(default)]
    request_context: Option<RequestContext>,
    #[serde(default, rename = "Records")]
    records: Vec<Record>,
    #[serde(default)]
    raw_path: String,
    #[serde(default)]
    raw_query_string: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Debug, Deserialize)]
struct RequestContext {
    http: Http,
    #[serde(default)]
    authorizer: Option<AuthorizerContext>,
}

#[derive(Debug, Default, Deserialize)]
struct AuthorizerContext {
    #[serde(default)]
    iam: Option<IgnoredAny>,
    #[serde(default)]
    jwt: Option<IgnoredAny>,
}

impl AuthorizerContext {
    fn named(&self) -> Option<Authorizer> {
        let iam = self.iam.map(|_| Authorizer::Iam);
        iam.or_else(|| self.jwt.map(|_| Authorizer::Jwt))
    }
}

#[derive(Debug, Deserialize)]
struct Http {
    method: String,
}

/// An event that no invoker of ours makes.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// A body that API Gateway calls base64 and that is not.
    #[error("the event's body is not the base64 that it is said to be")]
    Body(#[source] DecodeError),
    /// Neither API Gateway's event nor a queue's.
    #[error("the event has neither requestContext nor Records")]
    Unknown,
}

/// What the function is asked to do.
#[derive(Debug)]
pub enum Invocation {
    /// To answer a publisher's request.
    Publish(Request),
    /// To expand pieces of stored publishes.
    Expand(Vec<Record>),
}

impl GatewayEvent {
    /// What the function is asked to do. What comes by HTTP is a request, whatever else is in it.
    ///
    /// # Errors
    ///
    /// [`EventError`] when that can't be told: not the publisher's doing.
    pub fn into_invocation(mut self) -> Result<Invocation, EventError> {
        let records = std::mem::take(&mut self.records);
        if self.request_context.is_none() && !records.is_empty() {
            return Ok(Invocation::Expand(records));
        }
        self.into_request().map(Invocation::Publish)
    }

    /// The publisher's request.
    ///
    /// # Errors
    ///
    /// [`EventError`] when there is none, or its body can't be decoded: not the publisher's doing.
    pub fn into_request(self) -> Result<Request, EventError> {
        let context = self.request_context.ok_or(EventError::Unknown)?;
        let text = self.body.unwrap_or_default();
        let body = if self.is_base64_encoded {
            STANDARD.decode(text).map_err(EventError::Body)?
        } else {
            text.into_bytes()
        };
        // A header that is none to HTTP is none to ingest.
        let header = |(name, value): (String, String)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
        };
        Ok(Request {
            method: context.http.method,
            path: self.raw_path,
            query: self.raw_query_string,
            authorizer: context.authorizer.and_then(|context| context.named()),
            headers: self.headers.into_iter().filter_map(header).collect(),
            body,
        })
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_event_is_a_publish() {
        let sample = include_str!("../../samples/publish.json");
        let event: GatewayEvent = serde_json::from_str(sample).expect("an event");
        let request = event.into_request().expect("a request");
        assert_eq!((&*request.method, &*request.path), ("POST", "/topics/demo/api/events"));
        assert_eq!(request.query, "api-version=2018-01-01");
        assert_eq!(request.headers["content-type"], "application/json; charset=utf-8");
        let events = gridpost_core::event::event_grid::parse(&request.body, "/topics/demo");
        assert_eq!(events.expect("events").len(), 1);
    }

    #[test]
    fn bodies_are_decoded() {
        let request = |rest: &str| {
            let event = format!(
                r#"{{"version":"2.0","requestContext":{{"http":{{"method":"POST"}}}},"rawPath":"/"{rest}}}"#
            );
            serde_json::from_str::<GatewayEvent>(&event).expect("an event").into_request()
        };
        let table = [
            ("", "".as_bytes()),
            (r#","body":null"#, b""),
            (r#","body":"a\u00e9","isBase64Encoded":false"#, "aé".as_bytes()),
            (r#","body":"AP8=","isBase64Encoded":true"#, b"\x00\xff"),
        ];
        for (rest, want) in table {
            assert_eq!(request(rest).expect("a request").body, want, "{rest}");
        }
        assert!(request(r#","body":"?","isBase64Encoded":true"#).is_err());
        let odd = request(r#","headers":{"Content-Type":"a/b","bad name":"1","x":"\n"}"#);
        assert_eq!(odd.expect("a request").headers.len(), 1);
    }

    #[test]
    fn authorizers_are_known_by_what_they_leave() {
        let authorizer = |context: &str| {
            let event = format!(
                r#"{{"requestContext":{{"http":{{"method":"POST"}}{context}}},"rawPath":"/"}}"#
            );
            let event = serde_json::from_str::<GatewayEvent>(&event).expect("an event");
            event.into_request().expect("a request").authorizer
        };
        let table = [
            ("", None),
            (r#","authorizer":null"#, None),
            (r#","authorizer":{}"#, None),
            (r#","authorizer":{"lambda":{"a":1}}"#, None),
            (r#","authorizer":{"iam":{"accessKey":"A","userArn":"arn"}}"#, Some(Authorizer::Iam)),
            (
                r#","authorizer":{"jwt":{"claims":{"aud":"a"},"scopes":null}}"#,
                Some(Authorizer::Jwt),
            ),
        ];
        for (context, want) in table {
            assert_eq!(authorizer(context), want, "{context}");
        }
    }

    #[test]
    fn messages_of_the_fan_out_queue_are_no_request() {
        let invocation = |event: &str| {
            serde_json::from_str::<GatewayEvent>(event).expect("an event").into_invocation()
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
        let reply = Response { status_code: 503, headers, body: "{}".to_owned() };
        let reply = Reply::Publish(reply);
        let json = serde_json::to_value(reply).expect("JSON");
        let want = serde_json::json!({
            "statusCode": 503, "headers": {"retry-after": "1"}, "body": "{}",
        });
        assert_eq!(json, want);
    }
}
