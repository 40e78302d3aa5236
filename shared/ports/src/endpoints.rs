//! Clients of endpoints: handshakes with webhooks, attempts at webhooks and AWS resources.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use gridpost_core::{
    delivery::{
        partial_results::ResponseBody,
        probe::{Failure, Stage},
        request::Request,
        resource_check::Finding,
        resource_request::Entry,
    },
    retry::outcome::{Answer, Outcome},
    secret::Secret,
    subscription::{
        Authentication, Resource,
        authentication::{certificate::NoCertificate, token::NoToken},
    },
};
use tokio::time::{Instant, timeout_at};

use crate::Result;

/// Sends requests to endpoints.
#[async_trait]
pub trait EndpointClient: Send + Sync {
    /// Makes one attempt. It never fails: any error is the answer's outcome.
    async fn attempt(&self, request: Request) -> Attempted;

    /// Makes an attempt that also finds out what fails. What is not done by `until` has failed.
    async fn probe(&self, request: Request, until: Instant) -> Probed {
        let began_at = Instant::now();
        match timeout_at(until, self.attempt(request)).await {
            Ok(attempted) => attempted.into(),
            Err(_) => Probed::late(Stage::Answer, began_at),
        }
    }
}

/// The result of an attempt.
pub enum Attempted {
    Answered {
        answer: Answer,
        /// The beginning of a response that failed or reports on single events; escaped if kept.
        response_text: Option<String>,
        /// The body of an accepted response, if its request asks for it.
        body: Option<Box<ResponseBody>>,
    },
    /// No response head within [`RESPONSE_WAIT`](gridpost_core::retry::outcome::RESPONSE_WAIT). The
    /// connection is kept: `late` resolves to the late answer, or to `None` after
    /// [`LATE_RESPONSE_WAIT`](gridpost_core::retry::outcome::LATE_RESPONSE_WAIT).
    TimedOut { late: BoxFuture<'static, Option<Answer>> },
    /// Nothing was sent, for a lack of file descriptors here: it says nothing about the endpoint.
    NotMade,
}

impl From<Answer> for Attempted {
    fn from(answer: Answer) -> Self {
        Self::Answered { answer, response_text: None, body: None }
    }
}

/// The result of a probe.
pub struct Probed {
    pub attempted: Attempted,
    /// The failure before there was an answer.
    pub failure: Option<Failure>,
}

impl From<Attempted> for Probed {
    fn from(attempted: Attempted) -> Self {
        Self { attempted, failure: None }
    }
}

impl Probed {
    pub fn failed(answer: Answer, failure: Failure) -> Self {
        Self { attempted: answer.into(), failure: Some(failure) }
    }

    /// Makes the result of a request whose time was over in that stage.
    pub fn late(stage: Stage, began_at: Instant) -> Self {
        let answer = Answer::without_status(Outcome::TimedOut);
        Self::failed(answer, Failure::under_way(stage, began_at.elapsed()))
    }
}

/// A request that asks an endpoint whether it wants events, or for a token. `Debug` omits headers
/// and body, which carry secrets.
#[derive(Clone)]
pub struct HandshakeRequest {
    pub method: http::Method,
    pub url: Secret,
    /// In the order they are sent.
    pub headers: Vec<(&'static str, String)>,
    /// The user's delivery attributes, sent after them.
    pub attributes: Vec<(String, Secret)>,
    pub body: Vec<u8>,
    pub authentication: Option<Arc<Authentication>>,
    /// Whether it must not be repeated: it gets a new connection, because a kept one may turn out to
    /// be closed after the request has arrived.
    pub is_sent_once: bool,
    pub wait: Duration,
}

impl fmt::Debug for HandshakeRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, wait, .. } = self;
        formatter
            .debug_struct("HandshakeRequest")
            .field("method", method)
            .field("wait", wait)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct HandshakeResponse {
    pub status: u16,
    pub headers: http::HeaderMap,
    /// Cut off after [`HANDSHAKE_BODY_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// How much of a handshake's response body is read. Real ones are below a hundred bytes.
pub const HANDSHAKE_BODY_BYTES_MAX: usize = 64 * 1024;

/// The reason why a handshake got no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection failed; the text has no secrets.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing was sent, for a lack of file descriptors here.
    #[error("this process has no file descriptor for the request; try again")]
    NotMade,
    #[error("nothing was sent, for the request can't be authenticated: {0}")]
    Unauthenticated(NoToken),
    /// There is no client certificate, or the endpoint does not accept it.
    #[error("{0}")]
    NoCertificate(NoCertificate),
}

/// Asks endpoints whether they want events.
#[async_trait]
pub trait HandshakeClient: Send + Sync {
    /// Sends one request and reads its response. Does not follow redirects.
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError>;
}

/// Sends events to AWS resources.
#[async_trait]
pub trait ResourceClient: Send + Sync {
    /// Makes one call; answers are in the order of its entries. It never fails: an error becomes the
    /// answer of each entry that it affects.
    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer>;

    /// Checks the resource without changing anything. It never fails: an error is the finding.
    async fn check(&self, resource: &Resource) -> Finding;
}

/// Asks the function that will deliver to check a resource, with its own role, clients and network.
#[async_trait]
pub trait ResourceChecker: Send + Sync {
    async fn check(&self, resource: &Resource) -> Result<Finding>;
}
