//! The HTTP client for endpoints: guarded addresses, no redirects, no proxy, bounded answers.
//!
//! It is built on hyper's pooled client: Event Grid's requests carry no `Accept` header, and more
//! convenient clients do not let it be left out.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri, header::RETRY_AFTER};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::{task::JoinHandle, time::timeout};
use url::Url;

use super::{
    guard::{self, AllowedNetworks, Refusal},
    resolve::{GuardedResolver, ResolutionError},
};
use crate::{
    delivery::outcome::{Answer, Outcome, parse_retry_after},
    ports::{
        Attempted, Clock, EndpointClient, HANDSHAKE_BODY_BYTES_MAX, HandshakeClient,
        HandshakeError, HandshakeRequest, HandshakeResponse, LATE_RESPONSE_WAIT, RESPONSE_WAIT,
        Request,
    },
    secret::Secret,
    telemetry::chain,
};

/// At most so many bytes of a response are read, so that the connection can be used again.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// And for at most so long: the outcome is known already.
const BODY_WAIT: Duration = Duration::from_secs(2);

/// Idle connections live shorter than the usual 60 s of servers and load balancers.
const IDLE_FOR: Duration = Duration::from_secs(50);

type Pool = Client<HttpsConnector<HttpConnector<GuardedResolver>>, Full<Bytes>>;
type Built = http::Request<Full<Bytes>>;

/// A client whose connections only go to addresses that the guard allows.
#[derive(Clone)]
pub struct HttpClient {
    tls: Pool,
    /// For plain `http`, whose host names may only resolve into networks that a setting names.
    plain: Pool,
    allowed: AllowedNetworks,
    clock: Arc<dyn Clock>,
}

impl HttpClient {
    /// A client that may call the public internet and the networks named.
    ///
    /// # Errors
    ///
    /// The system's trusted certificates can't be read.
    pub fn new(allowed: AllowedNetworks, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let tls = pool(GuardedResolver { allowed: allowed.clone(), public: true })?;
        let plain = pool(GuardedResolver { allowed: allowed.clone(), public: false })?;
        Ok(Self { tls, plain, allowed, clock })
    }

    /// The request, if the guard allows its URL.
    fn build(
        &self,
        method: Method,
        url: &Secret,
        headers: &[(&'static str, String)],
        attributes: &[(String, Secret)],
        body: Vec<u8>,
    ) -> Result<Built, Refused> {
        let url: Url = url.expose().parse().map_err(|_| Refused::NotAUrl)?;
        guard::check_url(&url, &self.allowed)?;
        let uri: Uri = url.as_str().parse().map_err(|_| Refused::NotAUrl)?;
        let mut request = http::Request::new(Full::new(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        *request.headers_mut() = header_map(headers, attributes);
        Ok(request)
    }

    async fn send(&self, request: Built) -> Result<Response<Incoming>, Error> {
        let pool = if request.uri().scheme_str() == Some("http") { &self.plain } else { &self.tls };
        pool.request(request).await
    }

    async fn exchange_attempt(self, request: Built) -> Answer {
        match self.send(request).await {
            Ok(response) => {
                let asked = response.headers().get(RETRY_AFTER);
                let asked = asked.and_then(|value| value.to_str().ok());
                let retry_after =
                    asked.and_then(|value| parse_retry_after(value, self.clock.now()));
                let answer = Answer::of_status(response.status().as_u16(), retry_after);
                // The head decides; the body is read aside, for the connection's sake alone.
                tokio::spawn(timeout(BODY_WAIT, read(response.into_body(), BODY_BYTES_MAX)));
                answer
            }
            Err(error) => Answer::without_status(outcome_of(&error)),
        }
    }
}

/// Why a request is not sent.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the endpoint's URL is not a URL")]
    NotAUrl,
    #[error(transparent)]
    Guard(#[from] Refusal),
}

fn pool(resolver: GuardedResolver) -> io::Result<Pool> {
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_native_roots()?
        .https_or_http()
        .enable_all_versions()
        .wrap_connector(connector);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_FOR)
        .build(connector))
}

/// Headers that can't be written are left out: the endpoint still gets its events.
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
impl EndpointClient for HttpClient {
    async fn attempt(&self, request: Request) -> Attempted {
        let Request { url, headers, attributes, body } = request;
        let request = match self.build(Method::POST, &url, &headers, &attributes, body) {
            Ok(request) => request,
            Err(refused) => {
                // Refused now if not at creation: like a host that can't be reached.
                tracing::warn!(error = %chain(&refused), "an endpoint's URL is refused");
                return Attempted::Answered(Answer::without_status(Outcome::SocketError));
            }
        };
        // On a task of its own, the exchange goes on after the wait for its response is over.
        let mut exchange = tokio::spawn(self.clone().exchange_attempt(request));
        match timeout(RESPONSE_WAIT, &mut exchange).await {
            Ok(answer) => Attempted::Answered(
                answer.unwrap_or_else(|_| Answer::without_status(Outcome::Aborted)),
            ),
            Err(_) => Attempted::TimedOut { late: late(exchange) },
        }
    }
}

/// Waits for the rest of the three minutes.
fn late(mut exchange: JoinHandle<Answer>) -> BoxFuture<'static, Option<Answer>> {
    Box::pin(async move {
        let answer = timeout(LATE_RESPONSE_WAIT - RESPONSE_WAIT, &mut exchange).await;
        exchange.abort();
        answer.ok()?.ok()
    })
}

#[async_trait]
impl HandshakeClient for HttpClient {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        let HandshakeRequest { method, url, headers, attributes, body, wait } = request;
        let request = self
            .build(method, &url, &headers, &attributes, body)
            .map_err(|refused| HandshakeError::Unreachable(refused.to_string()))?;
        let exchange = async {
            let response = self.send(request).await.map_err(|error| unreachable(&error))?;
            let (head, body) = response.into_parts();
            let body = read(body, HANDSHAKE_BODY_BYTES_MAX).await;
            let (status, headers) = (head.status.as_u16(), head.headers);
            Ok(HandshakeResponse { status, headers, body })
        };
        timeout(wait, exchange).await.unwrap_or(Err(HandshakeError::TimedOut(wait)))
    }
}

/// Says at what a connection failed. The URL is no part of it: its query may be a secret.
fn unreachable(error: &Error) -> HandshakeError {
    HandshakeError::Unreachable(chain(error))
}

/// Reads a bounded part of a body. What is longer costs its connection.
async fn read(mut body: Incoming, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        bytes.extend_from_slice(&data[..data.len().min(bytes_max - bytes.len())]);
        if bytes.len() == bytes_max {
            break;
        }
    }
    bytes
}

/// Names what went wrong before a response head was there.
fn outcome_of(error: &Error) -> Outcome {
    tracing::debug!(error = %chain(error), "no response from an endpoint");
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.downcast_ref::<ResolutionError>().is_some() {
            return Outcome::ResolutionError;
        }
        source = error.source();
    }
    Outcome::SocketError
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::system::SystemClock;

    fn client() -> HttpClient {
        let allowed = "127.0.0.0/8".parse().expect("a network");
        HttpClient::new(allowed, Arc::new(SystemClock)).expect("trusted certificates")
    }

    /// Serves one connection with these bytes and gives back what was sent to it.
    async fn serve_once(answer: &'static [u8]) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook?code=s", listener.local_addr().expect("bound"));
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut received = vec![0; 4_096];
            let length = stream.read(&mut received).await.expect("a request");
            stream.write_all(answer).await.expect("still connected");
            String::from_utf8_lossy(&received[..length]).into_owned()
        });
        (url, served)
    }

    async fn outcome(url: &str) -> Answer {
        let headers = vec![("aeg-event-type", "Notification".to_owned())];
        let attributes = vec![("X-Own".to_owned(), Secret::new("v"))];
        let url = Secret::new(url);
        let request = Request { url, headers, attributes, body: b"[]".to_vec() };
        match client().attempt(request).await {
            Attempted::Answered(answer) => answer,
            Attempted::TimedOut { .. } => Answer::without_status(Outcome::TimedOut),
        }
    }

    #[tokio::test]
    async fn a_request_carries_what_event_grid_sends_and_no_accept() {
        let (url, served) = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(outcome(&url).await.outcome, Outcome::Delivered);
        let sent = served.await.expect("served").to_ascii_lowercase();
        assert!(sent.starts_with("post /hook?code=s http/1.1\r\n"), "{sent}");
        assert!(sent.contains("aeg-event-type: notification\r\n"), "{sent}");
        assert!(sent.contains("x-own: v\r\n"), "{sent}");
        assert!(sent.contains("content-length: 2\r\n"), "{sent}");
        assert!(!sent.contains("accept"), "{sent}");
        assert!(sent.ends_with("\r\n\r\n[]"), "{sent}");
    }

    #[tokio::test]
    async fn answers_become_outcomes() {
        let busy = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n";
        let moved = b"HTTP/1.1 302 Found\r\nlocation: /else\r\ncontent-length: 0\r\n\r\n";
        let none = Answer::without_status;
        let table: [(&'static [u8], Answer); 4] = [
            (busy, Answer::of_status(503, Some(Duration::from_secs(7)))),
            (moved, Answer::of_status(302, None)),
            (b"SSH-2.0-OpenSSH_9.2\r\n", none(Outcome::SocketError)),
            (b"", none(Outcome::SocketError)),
        ];
        for (answer, want) in table {
            let (url, _served) = serve_once(answer).await;
            assert_eq!(outcome(&url).await, want, "{}", String::from_utf8_lossy(answer));
        }
    }

    #[tokio::test]
    async fn what_can_not_be_reached_has_an_outcome_too() {
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let refused = format!("http://{}/", closed.local_addr().expect("bound"));
        drop(closed);
        let table = [
            (refused.as_str(), Outcome::SocketError),
            ("https://no-such-host.invalid/", Outcome::ResolutionError),
            ("https://10.0.0.1/", Outcome::SocketError),
            ("https://user:pw@example.com/", Outcome::SocketError),
        ];
        for (url, want) in table {
            assert_eq!(outcome(url).await.outcome, want, "{url}");
        }
    }
}
