//! Asks endpoints whether they want events.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::subscription::{
    Authentication,
    authentication::{certificate::NoCertificate, token::NoToken},
};

/// A request by which an endpoint is asked whether it wants events. Headers and body carry secrets,
/// so they never print.
#[derive(Clone)]
pub struct HandshakeRequest {
    /// `POST` or `OPTIONS`.
    pub method: http::Method,
    /// The endpoint's URL, query included.
    pub url: gridpost_core::secret::Secret,
    /// Headers in the order they are sent.
    pub headers: Vec<(&'static str, String)>,
    /// The user's delivery attributes, sent after them.
    pub attributes: Vec<(String, gridpost_core::secret::Secret)>,
    /// The body; empty for `OPTIONS`.
    pub body: Vec<u8>,
    /// How it proves who sends it, if it does.
    pub authentication: Option<Arc<Authentication>>,
    /// Whether the other side may see it once alone: it is sent on a connection of its own, because
    /// one that was kept may turn out to be gone when the request has arrived.
    pub is_sent_once: bool,
    /// How long the whole response may take.
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

/// The endpoint's response.
#[derive(Clone, Debug)]
pub struct HandshakeResponse {
    pub status: u16,
    pub headers: http::HeaderMap,
    /// The body, up to [`HANDSHAKE_BODY_BYTES_MAX`]; what exceeds it is not read.
    pub body: Vec<u8>,
}

/// How much of a handshake's response body is read. The answer is below a hundred bytes.
pub const HANDSHAKE_BODY_BYTES_MAX: usize = 64 * 1024;

/// Why a handshake got no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Not within the request's wait.
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection failed; the text says how, without secrets.
    #[error("{0}")]
    Unreachable(String),
    /// The request can't be authenticated, so nothing was sent.
    #[error("nothing was sent, for the request can't be authenticated: {0}")]
    Unauthenticated(NoToken),
    /// There is no client certificate to show, or the endpoint does not take it.
    #[error("{0}")]
    NoCertificate(NoCertificate),
}

/// Asks endpoints whether they want events.
#[async_trait]
pub trait HandshakeClient: Send + Sync {
    /// Sends one request and reads its response. Redirects are not followed.
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError>;
}
