//! API Gateway's HTTP event and reply, payload format 2.0.
//!
//! Source: Amazon API Gateway, "AWS Lambda proxy integrations for HTTP APIs". Only what ingest uses
//! is read, so that an oddity elsewhere in the event costs nobody a publish.

use std::collections::BTreeMap;

use base64::{DecodeError, Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize, de::IgnoredAny};

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

/// The event that API Gateway invokes the function with.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayEvent {
    request_context: RequestContext,
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

/// A body that API Gateway calls base64 and that is not.
#[derive(Debug, thiserror::Error)]
#[error("the event's body is not the base64 that it is said to be")]
pub struct BodyError(#[source] DecodeError);

impl GatewayEvent {
    /// The publisher's request.
    ///
    /// # Errors
    ///
    /// [`BodyError`] when the body can't be decoded: not the publisher's doing.
    pub fn into_request(self) -> Result<Request, BodyError> {
        let text = self.body.unwrap_or_default();
        let body = if self.is_base64_encoded {
            STANDARD.decode(text).map_err(BodyError)?
        } else {
            text.into_bytes()
        };
        // A header that is none to HTTP is none to ingest.
        let header = |(name, value): (String, String)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
        };
        Ok(Request {
            method: self.request_context.http.method,
            path: self.raw_path,
            query: self.raw_query_string,
            authorizer: self.request_context.authorizer.and_then(|context| context.named()),
            headers: self.headers.into_iter().filter_map(header).collect(),
            body,
        })
    }
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
        let sample = include_str!("../samples/publish.json");
        let event: GatewayEvent = serde_json::from_str(sample).expect("an event");
        let request = event.into_request().expect("a request");
        assert_eq!((&*request.method, &*request.path), ("POST", "/topics/demo/api/events"));
        assert_eq!(request.query, "api-version=2018-01-01");
        assert_eq!(request.headers["content-type"], "application/json; charset=utf-8");
        let events = gridpost::event::event_grid::parse(&request.body, "/topics/demo");
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
    fn the_reply_has_api_gateways_members() {
        let headers = BTreeMap::from([("retry-after", "1".to_owned())]);
        let reply = Response { status_code: 503, headers, body: "{}".to_owned() };
        let json = serde_json::to_value(reply).expect("JSON");
        let want = serde_json::json!({
            "statusCode": 503, "headers": {"retry-after": "1"}, "body": "{}",
        });
        assert_eq!(json, want);
    }
}
