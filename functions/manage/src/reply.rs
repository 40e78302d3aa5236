//! Answers of the resource API. Errors have Event Grid's shape.

use std::fmt::Display;

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse, Response},
};
use gridpost_api::{
    document::{Code, NotJson, Problem, Problems, quoted},
    error::{Error, ErrorCode},
};
use gridpost_core::{
    access::{Role, Scope},
    error::chain,
};
use gridpost_ports::{BucketError, JournalError, PortError};
use http::{
    HeaderName, HeaderValue, Method, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER},
};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::precondition::etag;

/// An answer of the resource API.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub body: Option<Value>,
    pub headers: Vec<(HeaderName, String)>,
}

impl Reply {
    fn new(status: u16, document: impl Serialize) -> Self {
        // A document of the API is always JSON.
        Self { status, body: serde_json::to_value(document).ok(), headers: Vec::new() }
    }

    /// Reads the router's answer.
    pub(crate) fn of(response: &http::Response<Bytes>) -> Self {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter();
        Self {
            status: response.status().as_u16(),
            body: serde_json::from_slice(response.body()).ok(),
            headers: headers.map(|(name, value)| (name.clone(), text(value))).collect(),
        }
    }

    pub(crate) fn ok(document: impl Serialize) -> Self {
        Self::new(200, document)
    }

    pub(crate) fn accepted(document: impl Serialize) -> Self {
        Self::new(202, document)
    }

    pub(crate) fn created(document: impl Serialize) -> Self {
        Self::new(201, document)
    }

    /// Adds the resource's entity tag.
    #[must_use]
    pub(crate) fn tagged(mut self, tag: Uuid) -> Self {
        self.headers.push((ETAG, etag(tag)));
        self
    }

    /// 200 without a document: something was deleted.
    pub(crate) fn deleted() -> Self {
        Self { status: 200, body: None, headers: Vec::new() }
    }

    /// 204: there was nothing to delete.
    pub(crate) fn nothing() -> Self {
        Self { status: 204, body: None, headers: Vec::new() }
    }

    pub(crate) fn error(status: u16, code: impl Display, message: impl Into<String>) -> Self {
        Self::new(status, Error::new(code, message))
    }

    /// 503: worth another try.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let mut reply = Self::error(503, ErrorCode::ServiceUnavailable, message);
        reply.headers.push((RETRY_AFTER, "1".to_owned()));
        reply
    }

    /// 503: an endpoint was not asked, for a lack of file descriptors here.
    pub(crate) fn not_asked() -> Self {
        Self::unavailable("This process has no file descriptor for the request. Try again.")
    }

    pub(crate) fn no_topic(name: &str) -> Self {
        Self::error(404, ErrorCode::ResourceNotFound, format!("There is no topic '{name}'."))
    }

    pub(crate) fn no_subscription(topic: &str, name: &str) -> Self {
        let message = format!("The topic '{topic}' has no event subscription '{name}'.");
        Self::error(404, ErrorCode::ResourceNotFound, message)
    }

    pub(crate) fn no_delivery(id: &str) -> Self {
        let message = format!(
            "The event subscription has no delivery {} that has failed: it succeeded at once, has \
             not been attempted, or ended some days ago.",
            quoted(id)
        );
        Self::error(404, ErrorCode::ResourceNotFound, message)
    }

    pub(crate) fn not_waiting(id: Uuid) -> Self {
        let message = format!(
            "The delivery '{id}' does not wait for an attempt: it has ended, or is about to. A dead \
             letter can be sent again by a redrive."
        );
        Self::error(409, ErrorCode::Conflict, message)
    }

    /// Refuses a validation URL without saying what exists.
    pub(crate) fn no_validation() -> Self {
        let message = "This validation URL is none that is open: it was cut off, or the event \
                       subscription has been changed or deleted since. Change or create the event \
                       subscription again, and use the URL that the endpoint gets then.";
        Self::error(403, ErrorCode::Forbidden, message)
    }

    /// 403: API Gateway matched another route than axum. The caller may know both.
    pub(crate) fn other_route(asked: &str, matched: Option<&str>) -> Self {
        let matched = matched.map_or_else(|| "none".to_owned(), quoted);
        let message = format!(
            "The request names '{asked}', but the route that API Gateway matched is {matched}. \
             Names in a path have no percent-encoded characters."
        );
        Self::error(403, ErrorCode::Forbidden, message)
    }

    pub(crate) fn unsigned() -> Self {
        let message = "The request was not signed by an IAM identity (Signature Version 4), which \
                       API Gateway asks for on every route but the validation URL.";
        Self::error(403, ErrorCode::Forbidden, message)
    }

    pub(crate) fn without_token() -> Self {
        let message = "The request has no token: send Authorization: Bearer with one that \
                       `gridpost token create` has printed.";
        Self::error(401, ErrorCode::Unauthorized, message)
    }

    pub(crate) fn beyond_role(needed: Role, role: Role) -> Self {
        let message = format!("This needs a token of the role {needed}; this one's is {role}.");
        Self::error(403, ErrorCode::Forbidden, message)
    }

    pub(crate) fn beyond_topics(topics: &Scope) -> Self {
        let message = format!(
            "The token is for the topics {topics}: name one of these, or use a token for all topics."
        );
        Self::error(403, ErrorCode::Forbidden, message)
    }

    pub(crate) fn validation_over() -> Self {
        let message = "This validation URL was open for 10 minutes, and they are over. Change or \
                       create the event subscription again, and use the URL that the endpoint gets \
                       then.";
        Self::error(410, ErrorCode::ValidationExpired, message)
    }

    pub(crate) fn no_route(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        let message = format!(
            "There is nothing at '{path}'. Resources are /topics, /topics/{{topic}}, \
             /topics/{{topic}}/eventSubscriptions/{{name}}, /poison, /parked and /journalQueries."
        );
        Self::error(404, ErrorCode::ResourceNotFound, message)
    }

    pub(crate) fn not_allowed(method: &Method, allowed: &[Method]) -> Self {
        let allowed: Vec<_> = allowed.iter().map(Method::as_str).collect();
        let allowed = allowed.join(", ");
        let message = format!("{method} is not allowed here; allowed are {allowed}.");
        let mut reply = Self::error(405, ErrorCode::MethodNotAllowed, message);
        reply.headers.push((ALLOW, allowed));
        reply
    }

    pub(crate) fn from_query(problems: Problems) -> Self {
        Self::listing(&problems, "query")
    }

    /// 400: the id in a path can't be that of a dead letter or a redrive.
    pub(crate) fn no_id(of: &str, id: &str) -> Self {
        let mut problems = Problems::default();
        let rule = format!("must be the id of {of}, as a list gives it, but is {}", quoted(id));
        problems.add(Code::InvalidValue, "id", rule);
        Self::listing(&problems, "path")
    }

    fn listing(problems: &Problems, part: &str) -> Self {
        let listed: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let mut refusal = Error::from(problems);
        refusal.error.message = format!("The {part} is refused: {}.", listed.join("; "));
        Self::new(400, refusal)
    }

    pub(crate) fn not_json(given: &str) -> Self {
        let message = format!(
            "The content type must be application/json (charset utf-8, the default), but is {}.",
            quoted(given)
        );
        Self::error(415, ErrorCode::UnsupportedMediaType, message)
    }

    pub(crate) fn answer_too_large(bytes: usize) -> Self {
        let message = format!(
            "The answer takes {bytes} bytes, and AWS Lambda gives out 6 MB at most. Ask for less at once."
        );
        Self::error(413, ErrorCode::RequestEntityTooLarge, message)
    }

    /// 409: the request conflicts with what exists. `target` is the path of the member.
    pub(crate) fn conflict(target: &str, message: impl Into<String>) -> Self {
        Self::new(409, Error::conflict(target, message))
    }

    pub(crate) fn too_many_changes() -> Self {
        let message = "The topic kept being changed by others; nothing was written. Try again.";
        Self::error(409, ErrorCode::Conflict, message)
    }

    pub(crate) fn health_keeps_changing() -> Self {
        let message = "The endpoint's health kept being changed by attempts; nothing was written. \
                       Try again.";
        Self::error(409, ErrorCode::Conflict, message)
    }
}

/// Returns the error document for a request whose body is not Base64.
pub fn not_base64() -> String {
    let message = "The body is not the base64 that it is marked as.";
    serde_json::to_string(&Error::new(ErrorCode::InvalidJson, message)).unwrap_or_default()
}

/// Forbids caches: answers may contain keys and URLs.
impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        if let Some(body) = self.body {
            let json = HeaderValue::from_static("application/json; charset=utf-8");
            headers.insert(CONTENT_TYPE, json);
            *response.body_mut() = Body::from(body.to_string());
        }
        response
    }
}

/// 400, with every problem.
impl From<Problems> for Reply {
    fn from(problems: Problems) -> Self {
        Self::new(400, Error::from(&problems))
    }
}

impl From<Problem> for Reply {
    fn from(problem: Problem) -> Self {
        let mut problems = Problems::default();
        problems.add(problem.code, problem.path, problem.rule);
        problems.into()
    }
}

impl From<NotJson> for Reply {
    fn from(error: NotJson) -> Self {
        Self::error(400, ErrorCode::InvalidJson, format!("{}.", chain(&error)))
    }
}

/// 409 for a missing bucket, otherwise as for other calls.
impl From<BucketError> for Reply {
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::NotFound => {
                let message = "The bucket of the dead-letter destination does not exist.";
                Self::conflict("properties.deadLetterDestination", message)
            }
            BucketError::Unavailable(error) | BucketError::Unreadable(error) => error.into(),
        }
    }
}

/// 400 where the question asks for too much, 429 where others ask as well, 404 where it is gone, and 403
/// where manage itself may not read.
impl From<JournalError> for Reply {
    fn from(error: JournalError) -> Self {
        let message = error.to_string();
        let (status, code) = match error {
            JournalError::TooMuch(_) => (400, ErrorCode::InvalidRequest),
            JournalError::Page | JournalError::Forgotten => (404, ErrorCode::ResourceNotFound),
            JournalError::Busy => (429, ErrorCode::TooManyRequests),
            JournalError::Denied(_) => (403, ErrorCode::JournalDenied),
            JournalError::Failed(error) => return error.into(),
        };
        let mut characters = message.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        let sentence: String = first.into_iter().chain(characters).collect();
        let mut reply = Self::error(status, code, format!("{}.", sentence.trim_end_matches('.')));
        if status == 429 {
            reply.headers.push((RETRY_AFTER, "5".to_owned()));
        }
        reply
    }
}

/// 503: every method here may be retried. Details go to the log only.
impl From<PortError> for Reply {
    fn from(error: PortError) -> Self {
        tracing::warn!(error = %error, "a call was not answered: {error}");
        Self::unavailable(format!("{} failed. Try again.", error.call))
    }
}
