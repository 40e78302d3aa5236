//! Sends every request, whatever its origin, through the gate to its route.

use std::sync::Arc;

use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::Request as HttpRequest,
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use gridpost_api::{subscription as subscription_resource, topic as topic_resource};
use gridpost_core::{gateway::Request, subscription::SubscriptionKey};
use http::{Method, header::CONTENT_LENGTH};
use serde_json::Value;
use tower::ServiceExt;

use super::{api::API, gate, subscriptions};
use crate::{
    Context, Reply,
    request::{Arrival, into_http},
};

/// The largest document of an answer, in bytes as an escaped string, with room for the headers.
/// Source: AWS Lambda, "Quotas": 6 MB (6,291,556 bytes).
const ANSWER_BYTES_MAX: usize = 6_280_000;

/// Makes the router. The gate refuses methods that a path does not have.
fn router(context: Arc<Context>) -> Router {
    let gate = from_fn_with_state(Arc::clone(&context), gate::gate);
    let routes = API.router.clone().route_layer(gate);
    routes.fallback(no_route).layer(from_fn(log_caller)).with_state(context)
}

async fn no_route(request: HttpRequest) -> Reply {
    Reply::no_route(&Arrival::of(&request).path)
}

/// Logs the caller of every request but reads, which are many and show no secrets.
async fn log_caller(request: HttpRequest, next: Next) -> Response {
    let (method, arrival) = (request.method().clone(), Arrival::of(&request));
    let response = next.run(request).await;
    if let Some(caller) = arrival.caller.filter(|_| method != Method::GET) {
        let status = response.status().as_u16();
        tracing::info!(caller, status, "{method} {}", arrival.path);
    }
    response
}

/// Sends a request through the router.
async fn send(context: &Context, request: HttpRequest) -> http::Response<Bytes> {
    let context = Arc::new(context.clone());
    let Ok(response) = router(context).oneshot(request).await;
    let (mut parts, body) = response.into_parts();
    // API Gateway or the HTTP server sets it again.
    parts.headers.remove(CONTENT_LENGTH);
    // Reading from memory can't fail.
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    match bytes_in_answer(&body) {
        bytes if bytes > ANSWER_BYTES_MAX => refused(Reply::answer_too_large(bytes)).await,
        _ => http::Response::from_parts(parts, body),
    }
}

/// Bytes of a document as a string in Lambda's answer, which escapes two characters of JSON.
fn bytes_in_answer(document: &[u8]) -> usize {
    document.len() + document.iter().filter(|byte| matches!(byte, b'"' | b'\\')).count()
}

async fn refused(reply: Reply) -> http::Response<Bytes> {
    let (parts, body) = reply.into_response().into_parts();
    http::Response::from_parts(parts, to_bytes(body, usize::MAX).await.unwrap_or_default())
}

/// Answers a request that came by API Gateway.
pub async fn respond(context: &Context, request: &Request) -> http::Response<Bytes> {
    match into_http(request.clone()) {
        Ok(request) => send(context, request).await,
        Err(refusal) => refused(refusal).await,
    }
}

/// The same, for callers that want the document.
pub async fn answer(context: &Context, request: &Request) -> Reply {
    Reply::of(&respond(context, request).await)
}

/// Answers a request of a caller that may invoke the function.
pub(crate) async fn carry_out(context: &Context, request: Request) -> Reply {
    match into_http(request) {
        Ok(mut request) => {
            let arrival = Arrival { is_invocation: true, ..Arrival::of(&request) };
            request.extensions_mut().insert(arrival);
            Reply::of(&send(context, request).await)
        }
        Err(refusal) => refusal,
    }
}

/// Checks a document like a PUT, without asking the endpoint or storing anything.
pub(crate) async fn check_subscription(
    context: &Context,
    topic: &str,
    name: &str,
    document: &Value,
) -> Result<(), Reply> {
    if [topic, name].iter().any(|it| it.is_empty() || it.contains('/')) {
        return Err(Reply::no_route(&format!("/topics/{topic}/eventSubscriptions/{name}")));
    }
    topic_resource::check_name(topic)?;
    subscription_resource::check_name(name)?;
    let key = SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() };
    subscriptions::check(context, &key, document).await
}
