//! The HTTP edge by `lambda_http`.
//!
//! Version 1.3 of it makes a URI of the Host, the path and the query, and panics where they make none.
//! That URI has `..` and `%2e%2e` resolved and ends at a question mark that API Gateway has decoded,
//! but the handlers need the path for which IAM was asked. It panics on a body that is not base64,
//! too. So [`Event`] hands it none of these: they go to the [`Request`] as they came.
//!
//! Senders may leave an optional value out or send null, also for what `lambda_http` takes for a flag
//! or a number.

use std::convert::Infallible;

use base64::{DecodeError, Engine, engine::general_purpose::STANDARD};
use gridpost_core::gateway::{Authorizer, Request};
use http::{HeaderName, HeaderValue, Response, header};
use lambda_http::{
    Adapter, Context, LambdaEvent, RequestExt, Service,
    aws_lambda_events::apigw::ApiGatewayV2httpRequest,
    request::{LambdaRequest, RequestContext},
    service_fn,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{named_route, not_base64, within_stage};

/// The member that tells how the request came.
const CONTEXT: &str = "requestContext";

/// An event, not yet known to be an HTTP request. Its body, by far the largest member, is read once.
#[derive(Debug, Deserialize)]
pub struct Event {
    #[serde(default)]
    body: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What `lambda_http` must not see of an event.
#[derive(Debug)]
struct Kept {
    path: String,
    query: String,
    route: Option<String>,
    host: Option<HeaderValue>,
    body: Result<Vec<u8>, DecodeError>,
}

impl Event {
    /// What `lambda_http` may see, and what it must not.
    fn split(self) -> Result<(LambdaRequest, Kept), serde_json::Error> {
        let mut rest = Value::Object(self.rest);
        remove_nulls(&mut rest);
        keep_what_is_used(&mut rest);
        if let Some(Value::Object(headers)) = rest.get_mut("headers") {
            headers.retain(|name, value| is_header(name, value));
        }
        let mut event: ApiGatewayV2httpRequest = serde_json::from_value(rest)?;
        let host = event.headers.remove(header::HOST);
        event.request_context.domain_name = None;
        let body = self.body.unwrap_or_default();
        let is_base64 = std::mem::take(&mut event.is_base64_encoded);
        let context = &mut event.request_context;
        let stage = context.stage.take().unwrap_or_default();
        let whole = event.raw_path.take().filter(|path| !path.is_empty());
        let whole = whole.or_else(|| context.http.path.take()).unwrap_or_default();
        let route = event.route_key.take().or_else(|| context.route_key.take());
        let kept = Kept {
            path: within_stage(&whole, &stage).map(str::to_owned).unwrap_or(whole),
            query: event.raw_query_string.take().unwrap_or_default(),
            route: named_route(route),
            host,
            body: if is_base64 { STANDARD.decode(body) } else { Ok(body.into_bytes()) },
        };
        Ok((LambdaRequest::ApiGatewayV2(event), kept))
    }
}

impl Kept {
    fn restore(self, request: lambda_http::Request) -> Result<Request, DecodeError> {
        let Self { path, query, route, host, body } = self;
        let (mut parts, _) = request.into_parts();
        let context = parts.request_context_ref();
        let authorizer = context.and_then(RequestContext::authorizer);
        let iam = authorizer.and_then(|authorizer| authorizer.iam.as_ref());
        let jwt = authorizer.and_then(|authorizer| authorizer.jwt.as_ref());
        let authorizer = iam.map(|_| Authorizer::Iam).or(jwt.map(|_| Authorizer::Jwt));
        let caller = iam.and_then(|iam| iam.user_arn.clone());
        parts.headers.extend(host.map(|host| (header::HOST, host)));
        Ok(Request {
            authorizer,
            caller,
            method: std::mem::take(&mut parts.method),
            headers: parts.headers,
            path,
            query,
            route,
            body: body?,
        })
    }
}

/// Answers a request. One whose body is not the base64 that it is said to be gets a 400.
pub async fn answer<F>(
    event: Event,
    mut respond: impl FnMut(Request) -> F,
) -> Result<impl Serialize, serde_json::Error>
where
    F: Future<Output = Response<String>> + Send,
{
    let (payload, kept) = event.split()?;
    let mut kept = Some(kept);
    let service = service_fn(|request| {
        let request = kept.take().and_then(|kept| kept.restore(request).ok());
        let answered = request.map(&mut respond);
        async {
            Ok::<_, Infallible>(match answered {
                Some(answered) => answered.await,
                None => {
                    let message = "The body is not the base64 that it is marked as.";
                    not_base64(
                        json!({"error": {"code": "InvalidJson", "message": message}}).to_string(),
                    )
                }
            })
        }
    });
    let event = LambdaEvent::new(payload, Context::default());
    let Ok(response) = Adapter::from(service).call(event).await;
    Ok(response)
}

fn remove_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, value| !value.is_null());
        members.values_mut().for_each(remove_nulls);
    }
}

/// What else senders add must not refuse a request by a form that `lambda_http` does not expect.
fn keep_what_is_used(event: &mut Value) {
    let table: [(&str, &[&str]); 6] = [
        ("", &["routeKey", "rawPath", "rawQueryString", "headers", "isBase64Encoded", CONTEXT]),
        ("/requestContext", &["routeKey", "stage", "http", "authorizer"]),
        ("/requestContext/http", &["method", "path"]),
        ("/requestContext/authorizer", &["iam", "jwt"]),
        ("/requestContext/authorizer/iam", &["userArn"]),
        ("/requestContext/authorizer/jwt", &[]),
    ];
    for (at, used) in table {
        if let Some(Value::Object(members)) = event.pointer_mut(at) {
            members.retain(|name, _| used.contains(&name.as_str()));
        }
    }
}

/// Whether it is a header that HTTP can have. Another one is left out.
fn is_header(name: &str, value: &Value) -> bool {
    let is_value = |value: &str| value.parse::<HeaderValue>().is_ok();
    name.parse::<HeaderName>().is_ok() && value.as_str().is_some_and(is_value)
}
