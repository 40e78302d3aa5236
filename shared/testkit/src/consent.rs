//! Receivers that are asked before any event is sent to them: endpoints for their consent, AWS
//! resources for their existence.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::resource_check::Finding, retry::outcome::Outcome, subscription::Resource,
    time::Timestamp,
};
use gridpost_ports::{
    Clock, HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse, PortError,
    ResourceChecker,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use crate::clock::VirtualClock;

/// How an endpoint answers a consent request.
#[derive(Clone, Debug, Default)]
pub enum ConsentAnswer {
    #[default]
    Consents,
    /// 404.
    Denies,
    /// 200, and nothing else.
    IsSilent,
    /// One reply after the other, by request; the last repeats.
    Replies(Vec<Reply>),
}

/// One answer to a consent request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// How long it takes. A caller with a shorter wait gets no answer.
    pub after: Duration,
    pub answer: Result<HandshakeResponse, HandshakeError>,
}

impl Reply {
    pub fn now(answer: Result<HandshakeResponse, HandshakeError>) -> Self {
        Self { after: Duration::ZERO, answer }
    }

    /// Never answers.
    pub fn never() -> Self {
        Self { after: Duration::MAX, answer: Err(HandshakeError::TimedOut(Duration::MAX)) }
    }

    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

/// A consent request as it arrived.
#[derive(Clone, Debug)]
pub struct ConsentRequest {
    pub at: Timestamp,
    pub request: HandshakeRequest,
}

/// The receivers of one fixture.
pub struct Consents {
    clock: VirtualClock,
    answers: Mutex<ConsentAnswer>,
    asked: Mutex<Vec<ConsentRequest>>,
    found: Mutex<Vec<(String, Finding)>>,
    checked: Mutex<Vec<String>>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}

impl Consents {
    /// Endpoints that consent, and resources that exist.
    pub fn new(clock: VirtualClock) -> Self {
        Self {
            clock,
            answers: Mutex::default(),
            asked: Mutex::default(),
            found: Mutex::default(),
            checked: Mutex::default(),
        }
    }

    /// Sets how endpoints answer from now on.
    pub fn answer(&self, answers: ConsentAnswer) {
        *open(&self.answers) = answers;
    }

    /// Sets the finding for resources whose names end with `name`.
    pub fn find(&self, name: &str, finding: Finding) {
        open(&self.found).push((name.to_owned(), finding));
    }

    /// The consent requests, in the order they arrived.
    pub fn asked(&self) -> Vec<ConsentRequest> {
        open(&self.asked).clone()
    }

    /// The resources that were checked, by name, in order.
    pub fn checked(&self) -> Vec<String> {
        open(&self.checked).clone()
    }

    fn reply(&self, request: &HandshakeRequest) -> Reply {
        let mut answers = open(&self.answers);
        Reply::now(Ok(match &mut *answers {
            ConsentAnswer::Consents => consent(request),
            ConsentAnswer::Denies => response(404, &[], ""),
            ConsentAnswer::IsSilent => response(200, &[], ""),
            ConsentAnswer::Replies(replies) if replies.len() > 1 => return replies.remove(0),
            ConsentAnswer::Replies(replies) => return replies.first().expect("a reply").clone(),
        }))
    }
}

/// A response with those headers.
///
/// # Panics
///
/// A header is invalid.
pub fn response(status: u16, headers: &[(&'static str, &str)], body: &str) -> HandshakeResponse {
    let headers = headers.iter().map(|(name, value)| {
        let value = HeaderValue::from_str(value).expect("a header's value");
        (HeaderName::from_static(name), value)
    });
    let headers: HeaderMap = headers.collect();
    HandshakeResponse { status, headers, body: body.as_bytes().to_vec() }
}

/// The response of an endpoint that consents.
fn consent(request: &HandshakeRequest) -> HandshakeResponse {
    if request.method == Method::OPTIONS {
        return response(200, &[("webhook-allowed-origin", "*")], "");
    }
    let events: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let code = events.pointer("/0/data/validationCode");
    response(200, &[], &json!({"validationResponse": code}).to_string())
}

#[async_trait]
impl HandshakeClient for Consents {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        let Reply { after, answer } = self.reply(&request);
        let wait = request.wait;
        open(&self.asked).push(ConsentRequest { at: self.clock.now(), request });
        if !after.is_zero() {
            tokio::time::sleep(after.min(wait)).await;
        }
        if after < wait { answer } else { Err(HandshakeError::TimedOut(wait)) }
    }
}

#[async_trait]
impl ResourceChecker for Consents {
    async fn check(&self, resource: &Resource) -> Result<Finding, PortError> {
        let name = &resource.arn.resource;
        open(&self.checked).push(name.clone());
        let found = open(&self.found);
        let found = found.iter().find(|(end, _)| name.ends_with(end.as_str()));
        let is_there = || Finding { outcome: Outcome::Delivered, says: String::new() };
        Ok(found.map_or_else(is_there, |(_, finding)| finding.clone()))
    }
}
