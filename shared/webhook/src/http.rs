//! The HTTP client for endpoints: guarded addresses, no redirects, no proxy, bounded answers. It uses
//! hyper's pooled client: Event Grid's requests have no `Accept` header, which more convenient clients
//! can't omit.
//!
//! | what an endpoint may cost | at most | then |
//! |---|---|---|
//! | a place for a connection, which is no fault of the endpoint | 2 s | nothing was sent |
//! | name | 6 s | `ResolutionError` |
//! | name, connection, TLS | 12 s | `SocketError` |
//! | response head, from when the request is sent | 30 s, and heard until 180 s | `TimedOut` |
//! | size of a head | 64 KiB, 256 headers | HTTP/1: its status counts; HTTP/2: `SocketError` |
//! | all that is read for one response | 256 KiB | `SocketError`, unless the head was there |
//! | body | 64 KiB, 2 s | nothing: the head has decided |
//! | body of an accepted response, where it may name events | the same | it can't be understood |
//! | first bytes of a failed response, where they are kept | 1,024 bytes, 0.5 s | what is there by then is kept |

mod attempt;
mod body;
mod failure;
mod hidden;
mod identity;
mod shown;

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::ConfigBuilderExt;
use hyper_util::{
    client::legacy::{
        Client, Error,
        connect::{Connected, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{
    ClientConfig, ConfigBuilder, WantsVerifier,
    crypto::aws_lc_rs,
    version::{TLS12, TLS13},
};
use tokio::time::{Instant, timeout};

use self::{
    body::{BODY_BYTES_MAX, read},
    failure::found,
    identity::{Identities, Trusting},
    shown::{Shown, Unanswered},
};
use super::{
    connect::{ConnectProgress, Connector, ResolutionError},
    metered_stream::{EXCHANGE_BYTES_MAX, Exchange, ReadBudget},
    network::{Network, SystemNetwork},
    sockets::{NoPlace, OPEN_MAX, OpenSockets},
};
use gridpost_core::{
    endpoint::{self, Allowed, Refusal},
    error::chain,
    retry::{
        outcome::{Answer, Outcome},
        response_text::ResponseBytes,
    },
    secret::Secret,
};
use gridpost_ports::{
    Clock, HANDSHAKE_BODY_BYTES_MAX, HandshakeClient, HandshakeError, HandshakeRequest,
    HandshakeResponse, PlaceWait,
    authentication::{NoSecrets, SecretReader},
};

/// A closed connection fails within a round trip. Later failures may be caused by the request, which is
/// then not repeated.
const STALE_FOR: Duration = Duration::from_secs(2);

/// Less than the usual 60 s of servers and load balancers.
const IDLE_FOR: Duration = Duration::from_secs(50);

const HEAD_BYTES_MAX: usize = 64 * 1024;
const _: () = assert!(2 * (HEAD_BYTES_MAX + BODY_BYTES_MAX) <= EXCHANGE_BYTES_MAX);
const HEADERS_MAX: usize = 256;

/// How much an HTTP/2 endpoint may send unread, for one body and all together.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The buffer for a request's body that an HTTP/2 endpoint does not accept yet.
const SEND_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Streams of an HTTP/2 connection that we reset for a protocol error.
const RESET_STREAMS_MAX: usize = 64;

type Pool = Client<Connector, Full<Bytes>>;

#[derive(Clone)]
struct Pools {
    /// Keeps connections; with the number of its renewal.
    kept: Arc<Mutex<(u64, Arc<Pool>)>>,
    fresh: Arc<Pool>,
    connector: Connector,
    open: OpenSockets,
}

impl Pools {
    fn of(connector: Connector, open: &OpenSockets) -> Self {
        let kept = (open.renewals(), Arc::new(pool(connector.clone(), usize::MAX)));
        let (kept, fresh) = (Arc::new(Mutex::new(kept)), Arc::new(pool(connector.apart(), 0)));
        Self { kept, fresh, connector, open: open.clone() }
    }

    /// Returns the pool that keeps connections, those of a host as long as there is room: a new one costs a
    /// handshake. If few places are left, it is replaced, which closes its idle ones.
    fn kept(&self) -> Arc<Pool> {
        let renewals = self.open.renewals();
        let mut kept = self.kept.lock().expect("no panic while held");
        if kept.0 != renewals {
            *kept = (renewals, Arc::new(pool(self.connector.clone(), usize::MAX)));
        }
        Arc::clone(&kept.1)
    }
}

/// A request without a response head.
struct Failed {
    error: Error,
    again: Option<Again>,
}

/// How an unprocessed request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Anywhere,
    /// Other pooled connections may be dead, too.
    OnFreshConnection,
}

type Built = http::Request<Full<Bytes>>;

/// A client that connects only to allowed addresses. It may keep the beginning of failed responses.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>, ResponseBytes);

struct Inner {
    tls: Pools,
    /// For plain `http`, to networks that a setting names.
    plain: Pools,
    allowed: Allowed,
    clock: Arc<dyn Clock>,
    identities: Identities,
}

impl HttpClient {
    /// Makes a client for the allowed endpoints. Fails if the system's trusted certificates can't be read.
    pub fn new(allowed: Allowed, clock: Arc<dyn Clock>) -> io::Result<Self> {
        Self::on(Arc::new(SystemNetwork), allowed, clock)
    }

    /// [`Self::new`], where `most` connections may be open, idle ones included.
    pub fn with_connections(
        most: usize,
        allowed: Allowed,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let trusting = tls_versions()?.with_native_roots()?;
        let (network, open) = (Arc::new(SystemNetwork), OpenSockets::of(most));
        Ok(Self::trusting(trusting, network, allowed, (clock, open)))
    }

    /// [`Self::new`] on another network.
    pub fn on(
        network: Arc<dyn Network>,
        allowed: Allowed,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let trusting = tls_versions()?.with_native_roots()?;
        let open = OpenSockets::of(OPEN_MAX);
        Ok(Self::trusting(trusting, network, allowed, (clock, open)))
    }

    fn trusting(
        trusting: Trusting,
        network: Arc<dyn Network>,
        allowed: Allowed,
        (clock, open): (Arc<dyn Clock>, OpenSockets),
    ) -> Self {
        let tls = trusting.clone().with_no_client_auth();
        let (on, networks) = (Arc::clone(&network), allowed.networks.clone());
        let plain = Connector::http(on, networks.clone(), tls.clone(), &open);
        let tls = Connector::https(Arc::clone(&network), networks, tls, &open);
        let (plain, tls) = (Pools::of(plain, &open), Pools::of(tls, &open));
        let (reader, own) = (Arc::new(NoSecrets), allowed.clone());
        let identities = Identities::new(network, own, trusting, reader, Arc::clone(&clock), open);
        let inner = Inner { tls, plain, allowed, clock, identities };
        Self(Arc::new(inner), ResponseBytes::default())
    }

    /// Adds a reader of client certificates that are stored elsewhere.
    #[must_use]
    pub fn reading(self, reader: Arc<dyn SecretReader>) -> Self {
        let Inner { tls, plain, allowed, clock, identities } = &*self.0;
        let (tls, plain, allowed) = (tls.clone(), plain.clone(), allowed.clone());
        let (clock, identities) = (Arc::clone(clock), identities.reading(reader));
        let inner = Inner { tls, plain, allowed, clock, identities };
        Self(Arc::new(inner), self.1)
    }

    /// Returns the beginning of failed responses, too.
    #[must_use]
    pub fn keeping(self, kept: ResponseBytes) -> Self {
        Self(self.0, kept)
    }

    fn build(
        &self,
        method: Method,
        url: &Secret,
        headers: &[(&'static str, String)],
        attributes: &[(String, Secret)],
        body: Vec<u8>,
    ) -> Result<Built, Refusal> {
        let uri = endpoint::check_url(url.expose(), &self.0.allowed)?;
        let mut request = http::Request::new(Full::new(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        *request.headers_mut() = header_map(headers, attributes);
        Ok(request)
    }

    /// Sends a request, on a connection with a client certificate if given.
    async fn send(
        &self,
        request: Built,
        shown: Option<Box<Shown>>,
        sending: &OnceLock<Instant>,
    ) -> Result<Response<Incoming>, Unanswered> {
        if let Some(shown) = shown {
            return Box::pin(self.send_shown(request, &shown, sending)).await;
        }
        let pools = self.pools(&request);
        Self::send_by(pools, request, sending).await.map_err(Unanswered::Error)
    }

    /// Sends a request, and again if it can't have been processed. Sets `sending` once there is a connection
    /// for it.
    async fn send_by(
        pools: &Pools,
        request: Built,
        sending: &OnceLock<Instant>,
    ) -> Result<Response<Incoming>, Error> {
        let again = request.clone();
        let failed = match send_once(&pools.kept(), request, sending).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        let pool = match failed.again {
            None => return Err(failed.error),
            Some(Again::Anywhere) => pools.kept(),
            Some(Again::OnFreshConnection) => Arc::clone(&pools.fresh),
        };
        tracing::debug!(error = %chain(&failed.error), "a request is sent once more");
        send_once(&pool, again, sending).await.map_err(|second| {
            let is_made = found::<NoPlace>(&second.error).is_none();
            // The first request may have arrived.
            if is_made { second.error } else { failed.error }
        })
    }

    /// Sends a request on a new connection, so that it arrives at most once.
    async fn send_anew(&self, request: Built) -> Result<Response<Incoming>, Error> {
        let pools = self.pools(&request);
        let sent = send_once(&pools.fresh, request, &OnceLock::new()).await;
        sent.map_err(|failed| failed.error)
    }

    /// Returns the pools for requests without a client certificate.
    fn pools(&self, request: &Built) -> &Pools {
        if request.uri().scheme_str() == Some("http") { &self.0.plain } else { &self.0.tls }
    }
}

async fn send_once(
    pool: &Pool,
    mut request: Built,
    sending: &OnceLock<Instant>,
) -> Result<Response<Incoming>, Failed> {
    let mut capture = capture_connection(&mut request);
    let exchange = OnceLock::<(Exchange, Instant)>::new();
    let connected = async {
        if let Some(connected) = &*capture.wait_for_connection_metadata().await {
            if let Some(meter) = meter(connected) {
                let _ = exchange.set((meter.begin(), Instant::now()));
            }
            let _ = sending.set(Instant::now());
            // It may be another's connection, found while this one waited for a place.
            PlaceWait::current().end();
        }
        std::future::pending().await
    };
    let progress = ConnectProgress::current();
    // In this order, the exchange begins before its answer can be read.
    let sent = tokio::select! {
        biased;
        sent = progress.of(pool.request(request)) => sent,
        never = connected => never,
    };
    sent.map_err(|error| {
        let is_stale = exchange.get().is_some_and(|(exchange, began)| {
            !exchange.is_fresh_or_answered() && began.elapsed() <= STALE_FOR
        });
        let again = match (is_untouched(&error), is_stale) {
            (true, _) => Some(Again::Anywhere),
            (false, true) => Some(Again::OnFreshConnection),
            (false, false) => None,
        };
        Failed { error, again }
    })
}

/// Returns what makes a client of AWS services, also in private networks, where VPC endpoints are. It
/// must not call what users wrote.
pub fn client_for_services(
    clock: &Arc<dyn Clock>,
) -> impl Fn() -> Result<Arc<dyn HandshakeClient>, String> + Send + Sync + 'static {
    let clock = Arc::clone(clock);
    move || {
        let networks = "0.0.0.0/0,::/0".parse().unwrap_or_default();
        let allowed = Allowed { networks, ..Allowed::default() };
        let made = HttpClient::new(allowed, Arc::clone(&clock)).map_err(|error| chain(&error))?;
        Ok(Arc::new(made))
    }
}

/// Starts TLS settings: 1.2 and 1.3, with the program's only cryptography implementation.
fn tls_versions() -> io::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(io::Error::other)
}

/// Makes a pool with bounded connections. It sends no HTTP/2 pings: a late endpoint may be too busy to
/// answer, and the kernel notices dead connections.
fn pool(connector: Connector, idle_per_host_max: usize) -> Pool {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .pool_max_idle_per_host(idle_per_host_max)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .http1_max_headers(HEADERS_MAX)
        .http2_max_header_list_size(HEAD_BYTES_MAX as u32)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .http2_max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .http2_max_local_error_reset_streams(RESET_STREAMS_MAX)
        .build(connector)
}

fn meter(connected: &Connected) -> Option<Arc<ReadBudget>> {
    let mut extras = http::Extensions::new();
    connected.get_extras(&mut extras);
    extras.remove()
}

/// Collects headers. Invalid ones are left out: the endpoint still gets its events.
fn header_map(pairs: &[(&'static str, String)], attributes: &[(String, Secret)]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(pairs.len() + attributes.len());
    let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str()));
    let attributes = attributes.iter().map(|(name, value)| (name.as_str(), value.expose()));
    for (name, value) in pairs.chain(attributes) {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value);
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

#[async_trait]
impl HandshakeClient for HttpClient {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        let HandshakeRequest { method, url, headers, attributes, body, .. } = request;
        let (authentication, wait) = (request.authentication, request.wait);
        let is_sent_once = request.is_sent_once;
        let request = self
            .build(method, &url, &headers, &attributes, body)
            .map_err(|refused| HandshakeError::Unreachable(refused.to_string()))?;
        // The headers answer OPTIONS: the body is not awaited.
        let is_answered_by_head = *request.method() == Method::OPTIONS;
        let exchange = async {
            let shown = self.shown(authentication, &url).await;
            let shown = shown.map_err(HandshakeError::NoCertificate)?;
            let response = match is_sent_once {
                true => self.send_anew(request).await.map_err(Unanswered::Error),
                false => self.send(request, shown, &OnceLock::new()).await,
            };
            let response = response.map_err(unreachable)?;
            let (head, body) = response.into_parts();
            let body = match is_answered_by_head {
                true => Vec::new(),
                false => read(body, HANDSHAKE_BODY_BYTES_MAX).await,
            };
            let (status, headers) = (head.status.as_u16(), head.headers);
            Ok(HandshakeResponse { status, headers, body })
        };
        timeout(wait, exchange).await.unwrap_or(Err(HandshakeError::TimedOut(wait)))
    }
}

/// Describes a failed connection, without the URL, whose query may be a secret.
fn unreachable(unanswered: Unanswered) -> HandshakeError {
    match unanswered {
        Unanswered::Error(error) if found::<NoPlace>(&error).is_some() => HandshakeError::NotMade,
        Unanswered::Error(error) => HandshakeError::Unreachable(chain(&error)),
        Unanswered::NotTaken(reason) => HandshakeError::NoCertificate(reason),
    }
}

fn answer_without_head(error: &Error) -> Answer {
    tracing::debug!(error = %chain(error), "no response from an endpoint");
    // The status is known; only the rest exceeds the limit.
    let is_too_large = found::<hyper::Error>(error).is_some_and(hyper::Error::is_parse_too_large);
    let status = error.connect_info().and_then(meter).and_then(|meter| meter.status());
    match status.filter(|_| is_too_large) {
        Some(status) => Answer::of_status(status, None),
        None if found::<ResolutionError>(error).is_some() => {
            Answer::without_status(Outcome::ResolutionError)
        }
        None => Answer::without_status(Outcome::SocketError),
    }
}

/// Whether the endpoint says that it has not begun with the request: it refused the stream, or named an
/// older one as its last. The pool itself repeats requests that were never written.
fn is_untouched(error: &Error) -> bool {
    found::<h2::Error>(error).is_some_and(|error| {
        let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (is_refused || error.is_go_away())
    })
}

#[cfg(test)]
mod tests;
