//! The same edge for ingest, read without `lambda_http`: whose way over a tree of JSON values and a
//! request of its own took an eighth of ingest's CPU for a publish of one event.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use gridpost_core::{
    gateway::{Authorizer, Request},
    publish::PublishError,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use serde::{Deserialize, Serialize, Serializer, de::IgnoredAny, ser::SerializeMap};
use serde_json::Value;

use super::{named_route, not_base64, within_stage};

/// An event of an HTTP request, before its body is decoded. Only what is used is read.
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
    /// The request; `None` if its body is not the base64 that it is said to be.
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
        // What HTTP does not take for a header is left out.
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

/// An answer, as API Gateway and function URLs take it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    headers: AnswerHeaders,
    /// These three say what is so by default; cargo-lambda refuses an answer without cookies.
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

/// Answers a request. One whose body is not the base64 that it is said to be gets a 400.
pub async fn answer<F>(
    event: Event,
    respond: impl FnOnce(Request) -> F,
) -> Result<impl Serialize, http::method::InvalidMethod>
where
    F: Future<Output = Response<String>>,
{
    let response = match event.into_request()? {
        Some(request) => respond(request).await,
        None => not_base64(PublishError::NotBase64.to_json()),
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
