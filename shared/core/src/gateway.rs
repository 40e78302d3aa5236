//! API Gateway's HTTP event, payload format 2.0. Function URLs and cargo-lambda's own URL send the
//! same one, with `$default` for a route and without an authorizer.
//!
//! Senders may leave an optional value out or send null: cargo-lambda sends null where AWS sends an
//! empty text. Only what Gridpost uses is read, so that an oddity elsewhere in the event refuses no
//! request.
//!
//! Source: Amazon API Gateway, "AWS Lambda proxy integrations for HTTP APIs"; AWS Lambda, "Function
//! URLs: request payload format"; cargo-lambda's trigger router.

use std::collections::BTreeMap;

use base64::{DecodeError, Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;

/// An HTTP request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, upper case.
    pub method: String,
    /// The path; its segments may be percent-encoded.
    pub path: String,
    /// The query as it was sent, without its question mark; may be empty.
    pub query: String,
    pub headers: HeaderMap,
    /// The API Gateway authorizer that admitted it, if any.
    pub authorizer: Option<Authorizer>,
    /// The ARN of the IAM principal that signed it, if IAM was asked.
    pub caller: Option<String>,
    /// The matched route, as `METHOD /path/{variable}`; `None` if its sender has no routes.
    pub route: Option<String>,
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

/// The event, before its body is decoded.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    #[serde(default)]
    request_context: Option<Context>,
    #[serde(default)]
    route_key: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    raw_path: String,
    #[serde(default, deserialize_with = "nullable")]
    raw_query_string: String,
    #[serde(default, deserialize_with = "nullable")]
    headers: BTreeMap<String, Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    body: String,
    #[serde(default, deserialize_with = "nullable")]
    is_base64_encoded: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    #[serde(default, deserialize_with = "nullable")]
    http: Http,
    #[serde(default)]
    route_key: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    stage: String,
    #[serde(default, deserialize_with = "nullable")]
    authorizer: AuthorizerContext,
}

#[derive(Debug, Default, Deserialize)]
struct Http {
    #[serde(default, deserialize_with = "nullable")]
    method: String,
    #[serde(default, deserialize_with = "nullable")]
    path: String,
}

#[derive(Debug, Default, Deserialize)]
struct AuthorizerContext {
    #[serde(default)]
    iam: Option<Value>,
    #[serde(default)]
    jwt: Option<IgnoredAny>,
}

/// A value, or nothing for null.
fn nullable<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Why an event could not be read as an HTTP request.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The body is marked as base64, but is not.
    #[error("the event's body is not the base64 that it is said to be")]
    Body(#[source] DecodeError),
    /// The invoker is unknown.
    #[error("the event has no requestContext: it is no HTTP request")]
    Unknown,
}

/// The route of senders that have none.
const NO_ROUTE: &str = "$default";

/// The stage whose name is not part of the path.
const PLAIN_STAGE: &str = "$default";

impl Event {
    /// The request.
    ///
    /// # Errors
    ///
    /// [`EventError`] if it is missing, or its body can't be decoded; neither is the client's
    /// fault.
    pub fn into_request(self) -> Result<Request, EventError> {
        let context = self.request_context.ok_or(EventError::Unknown)?;
        let body = if self.is_base64_encoded {
            STANDARD.decode(self.body).map_err(EventError::Body)?
        } else {
            self.body.into_bytes()
        };
        // Skip what is not a valid header.
        let header = |(name, value): (String, Option<String>)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(value?.as_bytes()).ok()?))
        };
        let whole = if self.raw_path.is_empty() { context.http.path } else { self.raw_path };
        let path = within_stage(&whole, &context.stage).map(str::to_owned).unwrap_or(whole);
        let route = self.route_key.or(context.route_key);
        Ok(Request {
            method: context.http.method,
            path,
            query: self.raw_query_string,
            authorizer: context.authorizer.named(),
            caller: context.authorizer.caller(),
            route: route.filter(|route| !route.is_empty() && route != NO_ROUTE),
            headers: self.headers.into_iter().filter_map(header).collect(),
            body,
        })
    }
}

impl AuthorizerContext {
    fn named(&self) -> Option<Authorizer> {
        let iam = self.iam.as_ref().map(|_| Authorizer::Iam);
        iam.or_else(|| self.jwt.as_ref().map(|_| Authorizer::Jwt))
    }

    fn caller(&self) -> Option<String> {
        Some(self.iam.as_ref()?.get("userArn")?.as_str()?.to_owned())
    }
}

/// The path without the stage's name, which routes do not include.
fn within_stage<'p>(path: &'p str, stage: &str) -> Option<&'p str> {
    if stage.is_empty() || stage == PLAIN_STAGE {
        return None;
    }
    let rest = path.strip_prefix('/')?.strip_prefix(stage)?;
    rest.starts_with('/').then_some(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(event: Value) -> Request {
        let event: Event = serde_json::from_value(event).expect("an event");
        event.into_request().expect("a request")
    }

    fn merged(mut event: Value, more: Value) -> Value {
        for (name, value) in more.as_object().expect("an object") {
            event[name] = value.clone();
        }
        event
    }

    fn post() -> Value {
        json!({
            "version": "2.0", "routeKey": "POST /a/{b}", "rawPath": "/a/1", "rawQueryString": "c=2",
            "headers": {"x": "y"}, "body": "text", "isBase64Encoded": false,
            "requestContext": {
                "routeKey": "POST /a/{b}", "stage": "$default",
                "http": {"method": "POST", "path": "/a/1"},
                "authorizer": {"iam": {"accessKey": "A", "userArn": "arn"}},
            },
        })
    }

    #[test]
    fn what_is_null_or_missing_is_empty() {
        let whole = request(post());
        assert_eq!((&*whole.method, &*whole.path, &*whole.query), ("POST", "/a/1", "c=2"));
        assert_eq!(
            (whole.body.as_slice(), &whole.headers["x"]),
            (&b"text"[..], &"y".parse().unwrap())
        );
        let members =
            ["routeKey", "rawPath", "rawQueryString", "headers", "body", "isBase64Encoded"];
        for name in members {
            let null = request(merged(post(), json!({name: null})));
            let mut without = post();
            without.as_object_mut().expect("an object").remove(name);
            let without = request(without);
            let text = |request: &Request| format!("{request:?}");
            assert_eq!(text(&null), text(&without), "{name}");
            assert_eq!((&*null.method, &*null.path), ("POST", "/a/1"), "{name}");
            assert_eq!(null.query.is_empty(), name == "rawQueryString");
            assert_eq!(null.headers.is_empty(), name == "headers");
            assert_eq!(null.body.is_empty(), name == "body");
        }
        for name in ["http", "routeKey", "stage", "authorizer"] {
            let mut event = post();
            event["requestContext"][name] = Value::Null;
            let null = request(event);
            assert_eq!(null.method.is_empty(), name == "http");
            assert_eq!(null.route.as_deref(), Some("POST /a/{b}"));
            assert_eq!(null.authorizer.is_none(), name == "authorizer");
        }
        let headers = request(merged(post(), json!({"headers": {"a": null, "b": "1"}}))).headers;
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["b"]);
        for none in
            [json!({}), json!({"requestContext": null}), json!({"Records": [{"messageId": "m"}]})]
        {
            let event: Event = serde_json::from_value(none).expect("an event");
            assert!(matches!(event.into_request(), Err(EventError::Unknown)));
        }
    }

    /// What `cargo lambda watch` sends for `curl -d text http://…/lambda-url/ingest/a/1`.
    #[test]
    fn a_request_by_cargo_lambdas_url_is_read() {
        let got = request(json!({
            "kind": null, "methodArn": null, "httpMethod": "POST", "identitySource": null,
            "authorizationToken": null, "resource": null, "version": "2.0", "routeKey": "$default",
            "rawPath": "/a/1", "rawQueryString": null, "headers": {"content-type": "text/plain"},
            "requestContext": {
                "routeKey": "$default", "accountId": null, "stage": "$default", "requestId": "r",
                "apiId": null, "domainName": "localhost", "domainPrefix": "ingest",
                "time": "22/Nov/2026:08:00:00 +0000", "timeEpoch": 1_795_334_400,
                "http": {"method": "POST", "path": "/a/1", "protocol": "http",
                    "sourceIp": "127.0.0.1", "userAgent": "cargo-lambda"},
            },
            "stageVariables": {}, "body": "text", "isBase64Encoded": false,
        }));
        assert_eq!((&*got.method, &*got.path, &*got.query), ("POST", "/a/1", ""));
        assert_eq!((got.route, got.authorizer), (None, None));
    }

    #[test]
    fn a_function_url_has_no_route() {
        let mut event = merged(post(), json!({"routeKey": "$default"}));
        event["requestContext"]["routeKey"] = json!("$default");
        event["requestContext"]["authentication"] = Value::Null;
        let got = request(event);
        assert_eq!((got.route, got.authorizer), (None, Some(Authorizer::Iam)));
    }

    #[test]
    fn bodies_are_decoded() {
        let request = |rest: Value| {
            let event = merged(post(), rest);
            serde_json::from_value::<Event>(event).expect("an event").into_request()
        };
        let table = [
            (json!({"body": "a\u{e9}"}), "aé".as_bytes()),
            (json!({"body": "AP8=", "isBase64Encoded": true}), b"\x00\xff"),
        ];
        for (rest, want) in table {
            assert_eq!(request(rest).expect("a request").body, want);
        }
        assert!(request(json!({"body": "?", "isBase64Encoded": true})).is_err());
        let odd = request(json!({"headers": {"Content-Type": "a/b", "bad name": "1", "x": "\n"}}));
        assert_eq!(odd.expect("a request").headers.len(), 1);
    }

    #[test]
    fn authorizers_are_known_by_what_they_leave() {
        let table = [
            (Value::Null, None, None),
            (json!({}), None, None),
            (json!({"iam": null}), None, None),
            (json!({"lambda": {"a": 1}}), None, None),
            (json!({"iam": {"accessKey": "A", "userArn": "a"}}), Some(Authorizer::Iam), Some("a")),
            (json!({"iam": {"userArn": null}}), Some(Authorizer::Iam), None),
            (json!({"iam": "odd"}), Some(Authorizer::Iam), None),
            (json!({"jwt": {"claims": {"aud": "a"}, "scopes": null}}), Some(Authorizer::Jwt), None),
        ];
        for (authorizer, want, caller) in table {
            let mut event = post();
            event["requestContext"]["authorizer"] = authorizer.clone();
            let got = request(event);
            assert_eq!((got.authorizer, got.caller.as_deref()), (want, caller), "{authorizer}");
        }
    }

    #[test]
    fn the_stage_is_no_part_of_the_path() {
        let table = [
            ("$default", "/prod/a/1", "/prod/a/1"),
            ("prod", "/prod/a/1", "/a/1"),
            ("prod", "/product/a/1", "/product/a/1"),
            ("prod", "/prod/prod/a", "/prod/a"),
            ("prod", "/a/1", "/a/1"),
        ];
        for (stage, path, want) in table {
            let mut event = merged(post(), json!({"rawPath": path}));
            event["requestContext"]["stage"] = json!(stage);
            assert_eq!(request(event).path, want, "{stage} {path}");
        }
    }
}
