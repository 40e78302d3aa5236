//! Answers publish requests.

use std::{error::Error, sync::Arc};

use gridpost_core::{
    error::chain,
    event::custom::Stamps,
    gateway::Request,
    metric::{self, TOPIC},
    publish::{
        self as rules, PublishError,
        authenticate::{AccessRequest, Credentials, authenticate},
        idempotency::Keyed,
        pack::Acceptance,
    },
    topic::Kind,
    trace::{TRACE_PARENT, TraceParent},
};
use gridpost_ports::{PortError, configuration::TopicSnapshot};
use http::{HeaderValue, Response, StatusCode, header};

use crate::{
    Authorization, Context, idempotency,
    publish::{Accepted, send},
    route::{Route, is_topic_name},
};

/// Answers a publish: 200 once every delivery is in the queue or the publish is stored, otherwise
/// Event Grid's error. A refused request leaves nothing behind.
pub async fn handle(context: &Context, request: &Request) -> Response<String> {
    match admit(context, request).await {
        Ok(admitted) => handle_admitted(context, request, admitted).await,
        Err(refusal) => refusal,
    }
}

/// The topic of a request that may publish to it.
pub struct Admitted(Arc<TopicSnapshot>);

/// Checks what can be checked before the body is read: path, credentials and topic. Returns Event Grid's error
/// if it is refused.
pub async fn admit(context: &Context, request: &Request) -> Result<Admitted, Response<String>> {
    let topic = topic(context, request).await;
    topic.map(Admitted).map_err(|error| refuse(context, request, &error))
}

/// Answers a publish that was admitted, now with its body, as [`handle`] does.
pub async fn handle_admitted(
    context: &Context,
    request: &Request,
    admitted: Admitted,
) -> Response<String> {
    match accept(context, request, &admitted.0).await {
        Ok(kind) => accepted(kind),
        Err(error) => refuse(context, request, &error),
    }
}

/// Returns the error document for a request whose body is not Base64.
pub fn not_base64() -> String {
    PublishError::NotBase64.to_json()
}

/// Answers a publish that can't be stored now, for that reason: 503, with a time to come back.
pub fn refuse_for_now(
    context: &Context,
    request: &Request,
    reason: impl Error + Send + Sync + 'static,
) -> Response<String> {
    refuse(context, request, &PublishError::Unavailable(reason.into()))
}

async fn accept(
    context: &Context,
    request: &Request,
    snapshot: &TopicSnapshot,
) -> Result<Kind, PublishError> {
    let topic = &snapshot.topic;
    let topic_id = topic.id();
    let body = rules::body(topic, &request.headers, &request.body)?;
    let keyed = Keyed::of(topic, &request.headers, &request.body)?;
    let publish_time = context.clock.now();
    let mut ids = 0..;
    let mut event_id = || match &keyed {
        Some(keyed) => keyed.event_id(ids.next().unwrap_or_default()),
        None => context.dice.id(),
    };
    let stamps = Stamps { now: publish_time, id: &mut event_id };
    let events = rules::read(topic, &topic_id, &body, stamps)?;
    let matched = snapshot.matcher().match_events(&events, publish_time);
    let (own_id, trace_parent) = (context.dice.id(), trace_parent(request));
    let revision = topic.at();
    let mut acceptance = Acceptance { id: own_id, time: publish_time, revision, trace_parent };
    // Only now that it will not be refused: a refused publish leaves no record.
    let begun = match &keyed {
        None => None,
        Some(keyed) => match idempotency::begin(context, keyed, own_id).await? {
            None => return Ok(topic.kind),
            Some(record) => {
                acceptance.id = record.publish_id(revision, publish_time);
                Some((keyed, record))
            }
        },
    };
    let publish = Accepted {
        topic: &topic.name,
        matched: &matched,
        events: &events,
        acceptance,
        own_id,
        is_repeatable: keyed.is_some(),
    };
    let sent = send(context.limits(), publish).await;
    if let Some((keyed, record)) = begun {
        idempotency::end(context, keyed, record, sent.is_ok()).await;
    }
    sent.map_err(unavailable)?;
    if context.latency_metrics {
        let (took, whose) = (context.clock.now().since(publish_time), [(TOPIC, &*topic.name)]);
        context.meter.measure(metric::PUBLISH_SUCCESS_LATENCY_IN_MS, &whose, took);
    }
    Ok(topic.kind)
}

fn unavailable(error: PortError) -> PublishError {
    PublishError::Unavailable(error.into())
}

/// Returns the request's trace context, if it has exactly one and it is valid.
/// Source: W3C, "Trace Context", whose tests send the header twice.
fn trace_parent(request: &Request) -> Option<TraceParent> {
    let mut given = request.headers.get_all(TRACE_PARENT).iter();
    let only = given.next().filter(|_| given.next().is_none())?;
    TraceParent::parse(only.to_str().ok()?)
}

/// Returns the topic, if the request may publish to it. Does not look at the body.
async fn topic(context: &Context, request: &Request) -> Result<Arc<TopicSnapshot>, PublishError> {
    context.origin_secrets.check(&request.headers)?;
    let route = Route::of(request.method.as_str(), &request.path)
        .filter(|route| route.is_matched_by(request.route.as_deref()))
        .ok_or(PublishError::RouteNotFound)?;
    if !is_topic_name(route.topic()) {
        return Err(PublishError::TopicNotFound);
    }
    let Request { headers, query, path, .. } = request;
    let asked = AccessRequest { headers, query, path, resource: &route.resource() };
    // Reject bad credentials before reading the topic.
    let shown = match &context.authorization {
        Authorization::Keys => Some(Credentials::of(&asked)?),
        // API Gateway stops all others; if its route ever loses its authorizer, topics stay closed.
        Authorization::Gateway(authorizer) if request.authorizer.as_ref() == Some(authorizer) => {
            None
        }
        Authorization::Gateway(_) => return Err(PublishError::AuthorizerPassedBy),
    };
    let found = context.configuration.topic(route.topic()).await;
    let snapshot = found.map_err(unavailable)?.ok_or(PublishError::TopicNotFound)?;
    // An IAM policy that denies a topic by name would miss another spelling of it.
    if shown.is_none() && snapshot.topic.name != route.topic() {
        return Err(PublishError::TopicNotFound);
    }
    if let Some(shown) = shown {
        let keys = snapshot.keys.as_ref().ok_or(PublishError::KeyRefused)?;
        authenticate(&snapshot.topic, keys, &shown, &asked, context.clock.machine())?;
    }
    match (route, snapshot.topic.kind) {
        (Route::Custom { .. }, Kind::Custom) | (Route::Namespace { .. }, Kind::Namespace) => {
            Ok(snapshot)
        }
        _ => Err(PublishError::OtherPath {
            kind: snapshot.topic.kind.into(),
            path: snapshot.topic.publish_path(),
        }),
    }
}

/// Returns 200 and, for a namespace topic, an empty object: its SDK for Python reads it as JSON.
fn accepted(kind: Kind) -> Response<String> {
    match kind {
        Kind::Custom => Response::default(),
        Kind::Namespace => json("{}".to_owned()),
    }
}

fn json(body: String) -> Response<String> {
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn refuse(context: &Context, request: &Request, error: &PublishError) -> Response<String> {
    let dimensions = [("ErrorType", error.code()), ("Error", error.detail())];
    context.meter.count(metric::PUBLISH_FAIL_COUNT, &dimensions, 1);
    let (status, code, path) = (error.status(), error.detail(), loggable(&request.path));
    let reason = chain(error);
    if status < 500 {
        tracing::info!(status, code, path, "publish refused: {reason}");
    } else {
        tracing::warn!(status, code, path, "publish failed: {reason}");
    }
    let mut response = json(error.to_json());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some(seconds) = error.retry_after_s() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Cuts a path at the first character that no route has: after an encoded question mark there may be
/// a key.
fn loggable(path: &str) -> &str {
    let is_of_routes = |byte: u8| byte.is_ascii_alphanumeric() || b"/:-".contains(&byte);
    let end = path.bytes().position(|byte| !is_of_routes(byte)).unwrap_or(path.len());
    &path[..end]
}

#[cfg(test)]
mod tests;
