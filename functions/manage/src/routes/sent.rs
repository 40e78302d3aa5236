//! Extracts the parts of a request: names in its path, its query, its headers, its document.

use axum::{
    body::{Bytes, to_bytes},
    extract::{FromRequest, Request},
};
use gridpost_api::{
    document::{Problem, parse, parse_around},
    error::ErrorCode,
    subscription as subscription_resource, topic as topic_resource,
};
use gridpost_core::{
    access::Scope, gateway::Authorizer, publish::BODY_BYTES_MAX, subscription::SubscriptionKey,
};
use http::{HeaderMap, Uri, header::CONTENT_TYPE};
use serde_json::{Map, Value, value::RawValue};
use uuid::Uuid;

use crate::{
    Reply,
    page::{Form, Page},
    precondition::Precondition,
    request::Arrival,
};

/// The most bytes of a document. A DynamoDB item has 400 KiB at most, and real documents a few.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// The names in a path, not decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    topic: Option<String>,
    subscription: Option<String>,
    id: Option<String>,
}

impl Names {
    /// Reads the names from a path that matches a route's template.
    pub(super) fn of(template: &str, path: &str) -> Self {
        let mut names = Self::default();
        for (variable, segment) in template.split('/').zip(path.split('/')) {
            let name = match variable {
                "{topic}" => &mut names.topic,
                "{name}" => &mut names.subscription,
                "{id}" => &mut names.id,
                _ => continue,
            };
            *name = Some(segment.to_owned());
        }
        names
    }

    pub(super) fn topic(&self) -> Option<&str> {
        self.topic.as_deref()
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        self.topic.as_deref().map_or(Ok(()), topic_resource::check_name)?;
        self.subscription.as_deref().map_or(Ok(()), subscription_resource::check_name)
    }
}

/// A request, of which the gate has let the names pass.
pub(super) struct Sent {
    names: Names,
    uri: Uri,
    /// The ARN of the calling IAM principal, or the name of its token.
    pub(super) caller: Option<String>,
    /// The topics that it may see, in requests that name none, and in bodies.
    pub(super) scope: Scope,
    pub(super) headers: HeaderMap,
    body: Bytes,
}

impl<S: Sync> FromRequest<S> for Sent {
    type Rejection = Reply;

    /// Reads the body without a limit: API Gateway and `dev` take at most 10 MB.
    async fn from_request(request: Request, _: &S) -> Result<Self, Reply> {
        let (parts, body) = request.into_parts();
        let broken = |_| Reply::error(400, ErrorCode::InvalidJson, "The body broke off.");
        let body = to_bytes(body, usize::MAX).await.map_err(broken)?;
        let names = parts.extensions.get().cloned().unwrap_or_default();
        let arrival = parts.extensions.get::<Arrival>().cloned().unwrap_or_default();
        let scope = match arrival.authorizer {
            Some(Authorizer::Token(grant)) => grant.topics,
            _ => Scope::default(),
        };
        let caller = arrival.caller;
        Ok(Self { names, uri: parts.uri, caller, scope, headers: parts.headers, body })
    }
}

impl Sent {
    /// Returns a name of the path. The gate has found it, so a route without the gate always fails.
    fn name(&self, name: &Option<String>) -> Result<String, Reply> {
        name.clone().ok_or_else(|| Reply::no_route(self.uri.path()))
    }

    pub(super) fn topic(&self) -> Result<String, Reply> {
        self.name(&self.names.topic)
    }

    pub(super) fn key(&self) -> Result<SubscriptionKey, Reply> {
        let (topic, name) = (self.topic()?, self.name(&self.names.subscription)?);
        Ok(SubscriptionKey { topic, name })
    }

    /// Refuses a topic that a body names, or none, unless it is in scope.
    pub(super) fn check_scope(&self, topic: Option<&str>) -> Result<(), Reply> {
        match topic.map_or(self.scope.is_whole(), |topic| self.scope.has(topic)) {
            true => Ok(()),
            false => Err(Reply::beyond_topics(&self.scope)),
        }
    }

    pub(super) fn id(&self) -> Result<String, Reply> {
        self.name(&self.names.id)
    }

    pub(super) fn delivery_id(&self) -> Result<Uuid, Reply> {
        let id = self.id()?;
        id.parse().map_err(|_| Reply::no_delivery(&id))
    }

    /// Returns the query, without its `?`.
    pub(super) fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    pub(super) fn page(&self) -> Result<Page, Reply> {
        Page::of(self.query())
    }

    pub(super) fn page_of(&self, form: Form) -> Result<Page, Reply> {
        Page::of_form(self.query(), form)
    }

    pub(super) fn check_query(&self) -> Result<(), Reply> {
        Page::check_none(self.query())
    }

    pub(super) fn precondition(&self) -> Result<Precondition, Reply> {
        Precondition::of(&self.headers)
    }

    /// Returns the document; without a body an empty object, because members have defaults.
    pub(super) fn document(&self) -> Result<Value, Reply> {
        self.check_body(DOCUMENT_BYTES_MAX)?;
        if self.is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        Ok(parse(&self.body)?)
    }

    /// Returns the document, and one member unparsed, such as an event.
    pub(super) fn document_around(
        &self,
        member: &str,
    ) -> Result<(Value, Option<&RawValue>), Reply> {
        self.check_body(DOCUMENT_BYTES_MAX + BODY_BYTES_MAX)?;
        if self.is_empty() {
            return Ok((Value::Object(Map::new()), None));
        }
        Ok(parse_around(&self.body, member)?)
    }

    fn is_empty(&self) -> bool {
        self.body.iter().all(u8::is_ascii_whitespace)
    }

    fn check_body(&self, bytes_max: usize) -> Result<(), Reply> {
        let bytes = self.body.len();
        if bytes > bytes_max {
            let kib = bytes_max / 1_024;
            let message = format!(
                "The document is {bytes} bytes, over the limit of {bytes_max} bytes ({kib} KiB)."
            );
            return Err(Reply::error(413, ErrorCode::RequestEntityTooLarge, message));
        }
        if self.is_empty() {
            return Ok(());
        }
        if let Some(given) = self.headers.get(CONTENT_TYPE) {
            let given = String::from_utf8_lossy(given.as_bytes());
            if !is_json(&given) {
                return Err(Reply::not_json(&given));
            }
        }
        Ok(())
    }
}

/// Whether a content type is JSON in UTF-8. Patches have `application/merge-patch+json`.
fn is_json(content_type: &str) -> bool {
    let content_type = content_type.to_ascii_lowercase();
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let of_json = matches!(essence, "application/json" | "text/json") || essence.ends_with("+json");
    let charset = parts.find_map(|parameter| parameter.strip_prefix("charset="));
    of_json && charset.is_none_or(|charset| matches!(charset.trim_matches('"'), "utf-8" | "utf8"))
}
