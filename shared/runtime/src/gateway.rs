//! Translates requests and responses of API Gateway's HTTP APIs and function URLs (payload format 2.0).
//! Senders may omit an optional value or send null. Unused members are not read, so that nothing odd in
//! them refuses a request.
//!
//! Source: Amazon API Gateway, "AWS Lambda proxy integrations for HTTP APIs"; AWS Lambda, "Function
//! URLs: request payload format"; cargo-lambda's trigger router.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use gridpost_core::gateway::{Authorizer, Request};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde::{Deserialize, Serialize, Serializer, de::IgnoredAny, ser::SerializeMap};
use serde_json::Value;

/// The route of senders without routes.
const NO_ROUTE: &str = "$default";
const PLAIN_STAGE: &str = "$default";

fn named_route(route: Option<String>) -> Option<String> {
    route.filter(|route| !route.is_empty() && route != NO_ROUTE)
}

fn refuse_base64(body: String) -> Response<String> {
    tracing::warn!("a body is not the base64 that it is marked as");
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Removes the stage's name from the path, as routes do not include it.
fn within_stage<'p>(path: &'p str, stage: &str) -> Option<&'p str> {
    if stage.is_empty() || stage == PLAIN_STAGE {
        return None;
    }
    let rest = path.strip_prefix('/')?.strip_prefix(stage)?;
    rest.starts_with('/').then_some(rest)
}

/// An HTTP request's event, with an undecoded body.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    request_context: Context,
    route_key: Option<String>,
    raw_path: Option<String>,
    raw_query_string: Option<String>,
    headers: Option<BTreeMap<String, Value>>,
    body: Option<String>,
    is_base64_encoded: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    http: Http,
    route_key: Option<String>,
    stage: Option<String>,
    authorizer: Option<Authorizers>,
}

#[derive(Debug, Deserialize)]
struct Http {
    method: String,
    path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Authorizers {
    iam: Option<Iam>,
    jwt: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Iam {
    user_arn: Option<String>,
}

impl Event {
    /// Returns `None` for invalid base64.
    fn into_request(self) -> Result<Option<Request>, http::method::InvalidMethod> {
        let Context { http, route_key, stage, authorizer } = self.request_context;
        let body = self.body.unwrap_or_default();
        let body = match self.is_base64_encoded.unwrap_or_default() {
            true => STANDARD.decode(body),
            false => Ok(body.into_bytes()),
        };
        let whole = self.raw_path.filter(|path| !path.is_empty()).or(http.path).unwrap_or_default();
        let stage = stage.unwrap_or_default();
        let path = within_stage(&whole, &stage).map(str::to_owned).unwrap_or(whole);
        let Authorizers { iam, jwt } = authorizer.unwrap_or_default();
        let by_jwt = jwt.map(|_| Authorizer::Jwt);
        // Invalid headers are left out.
        let header = |(name, value): (String, Value)| {
            Some((name.parse::<HeaderName>().ok()?, value.as_str()?.parse::<HeaderValue>().ok()?))
        };
        let method = Method::from_bytes(http.method.as_bytes())?;
        Ok(body.ok().map(|body| Request {
            method,
            path,
            query: self.raw_query_string.unwrap_or_default(),
            headers: self.headers.unwrap_or_default().into_iter().filter_map(header).collect(),
            authorizer: iam.as_ref().map(|_| Authorizer::Iam).or(by_jwt),
            caller: iam.and_then(|iam| iam.user_arn),
            route: named_route(self.route_key.or(route_key)),
            body,
        }))
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    headers: AnswerHeaders,
    /// The defaults; cargo-lambda refuses an answer without cookies.
    multi_value_headers: Empty,
    body: String,
    is_base64_encoded: bool,
    cookies: [(); 0],
}

#[derive(Debug, Serialize)]
struct Empty {}

#[derive(Debug)]
struct AnswerHeaders(HeaderMap);

impl Serialize for AnswerHeaders {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name.as_str(), &String::from_utf8_lossy(value.as_bytes()))?;
        }
        map.end()
    }
}

/// Answers a request. An invalid base64 body gets a 400 with the document of `not_base64`.
pub async fn answer<F>(
    event: Event,
    not_base64: fn() -> String,
    respond: impl FnOnce(Request) -> F,
) -> Result<impl Serialize, http::method::InvalidMethod>
where
    F: Future<Output = Response<String>>,
{
    let response = match event.into_request()? {
        Some(request) => respond(request).await,
        None => refuse_base64(not_base64()),
    };
    let (head, body) = response.into_parts();
    Ok(Answer {
        status_code: head.status.as_u16(),
        headers: AnswerHeaders(head.headers),
        multi_value_headers: Empty {},
        body,
        is_base64_encoded: false,
        cookies: [],
    })
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures::FutureExt;

    use gridpost_core::gateway::{Authorizer, Request};
    use http::{HeaderName, Method};
    use serde_json::{Value, json};

    use super::*;

    /// The request of an event, if it is asked, and the answer.
    fn sent(event: Value) -> serde_json::Result<(Option<Request>, Value)> {
        let mut request = None;
        let respond = |it| {
            request = Some(it);
            let response = Response::builder().status(503).header("retry-after", "1");
            ready(response.body("{}".to_owned()).expect("a response"))
        };
        let event = serde_json::from_str(&event.to_string())?;
        let answer = answer(event, || "no base64".to_owned(), respond);
        let answer = answer.now_or_never().expect("at once").expect("a method");
        let answer = serde_json::to_value(answer)?;
        Ok((request, answer))
    }

    fn request(event: Value) -> Request {
        let (request, _) = sent(event).expect("an HTTP request");
        request.expect("it is asked")
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
        assert_eq!((whole.method.as_str(), &*whole.path, &*whole.query), ("POST", "/a/1", "c=2"));
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
            assert_eq!((null.method.as_str(), &*null.path), ("POST", "/a/1"), "{name}");
            assert_eq!(null.query.is_empty(), name == "rawQueryString");
            assert_eq!(null.headers.is_empty(), name == "headers");
            assert_eq!(null.body.is_empty(), name == "body");
        }
        for name in ["routeKey", "stage", "authorizer", "timeEpoch"] {
            let mut event = post();
            event["requestContext"][name] = Value::Null;
            let null = request(event);
            assert_eq!(null.route.as_deref(), Some("POST /a/{b}"));
            assert_eq!(null.authorizer.is_none(), name == "authorizer");
        }
        let headers = request(merged(post(), json!({"headers": {"a": null, "b": "1"}}))).headers;
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["b"]);
        for none in
            [json!({}), json!({"requestContext": null}), json!({"Records": [{"messageId": "m"}]})]
        {
            assert!(sent(none).is_err());
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
        assert_eq!((got.method.as_str(), &*got.path, &*got.query), ("POST", "/a/1", ""));
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
        let table = [
            (json!({"body": "a\u{e9}"}), "aé".as_bytes()),
            (json!({"body": "AP8=", "isBase64Encoded": true}), b"\x00\xff"),
        ];
        for (rest, want) in table {
            assert_eq!(request(merged(post(), rest)).body, want);
        }
        for odd in ["?", "AP8", "AP_-"] {
            let odd = merged(post(), json!({"body": odd, "isBase64Encoded": true}));
            let (request, answered) = sent(odd).expect("an HTTP request");
            assert!(request.is_none());
            assert_eq!(
                (&answered["statusCode"], &answered["body"]),
                (&json!(400), &json!("no base64"))
            );
        }
    }

    /// As two headers, so that two keys are refused. AWS's names are in lower case; a tool's may not be.
    #[test]
    fn names_in_upper_and_lower_case_are_one() {
        let event = merged(post(), json!({"headers": {"Aeg-Sas-Key": "1", "aeg-sas-key": "2"}}));
        let headers = request(event).headers;
        let values: Vec<_> = headers.get_all("aeg-sas-key").iter().collect();
        assert_eq!(values, ["1", "2"]);
    }

    /// Requests whose parts make an invalid URI, or a different one.
    #[test]
    fn odd_requests_are_read_as_they_came() {
        let table = [
            json!({"headers": {"host": "a b"}}),
            json!({"headers": {"host": "", "x-forwarded-proto": ":"}}),
            json!({"headers": {"host": "[::1", "x-forwarded-proto": "a b"}}),
            json!({"rawPath": "/a/../b/%2e%2e/c"}),
            json!({"rawPath": "/a?b/validate"}),
            json!({"rawPath": "//a\\#b c\u{0}\u{e9}"}),
            json!({"rawPath": "a"}),
            json!({"rawPath": "/a".repeat(40_000)}),
            json!({"rawQueryString": "a b#\u{0}\u{e9}"}),
            json!({"rawQueryString": "%"}),
        ];
        for odd in table {
            let event = merged(post(), odd);
            let got = request(event.clone());
            let want = (event["rawPath"].as_str(), event["rawQueryString"].as_str());
            assert_eq!((Some(&*got.path), Some(&*got.query)), want);
        }
        let odd = json!({"headers": {"Content-Type": "a/b", "bad name": "1", "x": "\n"}});
        let got = request(merged(post(), odd));
        assert_eq!(
            got.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["content-type"]
        );
    }

    #[test]
    fn members_that_are_not_used_may_have_any_form() {
        let odd = [json!(1), json!("a"), json!([1]), json!({"a": {"b": 1}}), json!([{"a": []}])];
        let table = [
            ("", "pathParameters"),
            ("", "queryStringParameters"),
            ("", "stageVariables"),
            ("", "cookies"),
            ("", "httpMethod"),
            ("", "version"),
            ("/requestContext", "authentication"),
            ("/requestContext", "timeEpoch"),
            ("/requestContext", "accountId"),
            ("/requestContext/http", "sourceIp"),
            ("/requestContext/authorizer", "lambda"),
            ("/requestContext/authorizer/iam", "cognitoIdentity"),
            ("/requestContext/authorizer/iam", "accountId"),
            ("/requestContext/authorizer/jwt", "claims"),
            ("/requestContext/authorizer/jwt", "scopes"),
        ];
        for (at, name) in table {
            for odd in &odd {
                let mut plain = post();
                if at.ends_with("jwt") {
                    plain["requestContext"]["authorizer"] = json!({"jwt": {}});
                }
                let mut event = plain.clone();
                event.pointer_mut(at).expect("it is there")[name] = odd.clone();
                let (got, want) = (request(event), request(plain));
                assert_eq!(format!("{got:?}"), format!("{want:?}"), "{at} {name} {odd}");
            }
        }
    }

    #[test]
    fn the_answer_has_api_gateways_members() {
        let (_, answered) = sent(post()).expect("an HTTP request");
        let want = json!({
            "statusCode": 503, "headers": {"retry-after": "1"}, "multiValueHeaders": {},
            "body": "{}", "isBase64Encoded": false, "cookies": [],
        });
        assert_eq!(answered, want);
    }

    #[test]
    fn the_sample_event_is_a_publish() {
        let sample = include_str!("../../../functions/ingest/samples/publish.json");
        let request = request(serde_json::from_str(sample).expect("JSON"));
        assert_eq!((&request.method, &*request.path), (&Method::POST, "/topics/sample/api/events"));
        assert_eq!(request.query, "api-version=2018-01-01");
        assert_eq!(request.headers["content-type"], "application/json; charset=utf-8");
        let events = gridpost_core::event::event_grid::parse(&request.body, "/topics/sample");
        assert_eq!(events.expect("events").len(), 1);
    }

    #[test]
    fn authorizers_are_known_by_what_they_leave() {
        let table = [
            (Value::Null, None, None),
            (json!({}), None, None),
            (json!({"iam": null}), None, None),
            (json!({"lambda": {"a": 1}}), None, None),
            (json!({"jwt": null}), None, None),
            (json!({"iam": {"accessKey": "A", "userArn": "a"}}), Some(Authorizer::Iam), Some("a")),
            (json!({"iam": {"userArn": null}}), Some(Authorizer::Iam), None),
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
