//! The HTTP client for endpoints: guarded addresses, no redirects, no proxy, bounded answers.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use reqwest::{
    Client, Method,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect,
};
use url::Url;

use super::guard::{self, AllowedNetworks, Refusal};
use crate::{
    delivery::outcome::{Answer, Outcome, parse_retry_after},
    ports::{Attempted, Clock, EndpointClient, LATE_RESPONSE_WAIT, RESPONSE_WAIT, Request},
    telemetry::chain,
};

/// At most so many bytes of a response are read, so that the connection can be used again.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// And for at most so long: the outcome is known already.
const BODY_WAIT: Duration = Duration::from_secs(2);

/// Idle connections live shorter than the usual 60 s of servers and load balancers.
const IDLE_FOR: Duration = Duration::from_secs(50);

/// A client whose connections only go to addresses that the guard allows.
#[derive(Clone)]
pub struct HttpClient {
    client: Client,
    /// For plain `http`, whose host names may only resolve into networks that a setting names.
    plain: Client,
    allowed: AllowedNetworks,
    clock: Arc<dyn Clock>,
}

impl HttpClient {
    /// A client that may call the public internet and the networks named.
    ///
    /// # Errors
    ///
    /// The TLS trust store can't be read.
    pub fn new(allowed: AllowedNetworks, clock: Arc<dyn Clock>) -> Result<Self, reqwest::Error> {
        let build = |public: bool| {
            Client::builder()
                .redirect(redirect::Policy::none())
                .no_proxy()
                .pool_idle_timeout(IDLE_FOR)
                .dns_resolver(Arc::new(GuardedResolver { allowed: allowed.clone(), public }))
                .build()
        };
        Ok(Self { client: build(true)?, plain: build(false)?, allowed, clock })
    }

    /// The guarded client for that URL, for other requests to endpoints. Check the URL by
    /// [`Self::checked`] first: literal addresses are not resolved, so the resolver never sees them.
    pub fn inner(&self, url: &Url) -> &Client {
        if url.scheme() == "http" { &self.plain } else { &self.client }
    }

    /// The URL, if the guard allows it.
    ///
    /// # Errors
    ///
    /// [`Refusal`] says what is not allowed.
    pub fn checked(&self, url: &Url) -> Result<(), Refusal> {
        guard::check_url(url, &self.allowed)
    }

    fn request(&self, request: Request) -> Option<reqwest::Request> {
        let url: Url = request.url.expose().parse().ok()?;
        self.checked(&url).ok()?;
        let mut built = reqwest::Request::new(Method::POST, url);
        *built.headers_mut() = headers(&request.headers);
        *built.body_mut() = Some(request.body.into());
        Some(built)
    }
}

/// Headers that can't be written are left out: the endpoint still gets its events.
fn headers(pairs: &[(&'static str, String)]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
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
        let Some(request) = self.request(request) else {
            // The guard refuses it, now if not at creation: like a host that can't be reached.
            return Attempted::Answered(Answer::without_status(Outcome::SocketError));
        };
        let (client, clock) = (self.inner(request.url()).clone(), Arc::clone(&self.clock));
        // On a task of its own, the exchange goes on after the wait for its response is over.
        let mut exchange = tokio::spawn(exchange(client, clock, request));
        match tokio::time::timeout(RESPONSE_WAIT, &mut exchange).await {
            Ok(answer) => Attempted::Answered(
                answer.unwrap_or_else(|_| Answer::without_status(Outcome::Aborted)),
            ),
            Err(_) => Attempted::TimedOut { late: late(exchange) },
        }
    }
}

fn late(mut exchange: tokio::task::JoinHandle<Answer>) -> BoxFuture<'static, Option<Answer>> {
    Box::pin(async move {
        let wait = LATE_RESPONSE_WAIT - RESPONSE_WAIT;
        let answer = tokio::time::timeout(wait, &mut exchange).await;
        exchange.abort();
        answer.ok()?.ok()
    })
}

async fn exchange(client: Client, clock: Arc<dyn Clock>, request: reqwest::Request) -> Answer {
    match client.execute(request).await {
        Ok(response) => {
            let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = asked.and_then(|value| parse_retry_after(value, clock.now()));
            let answer = Answer::of_status(response.status().as_u16(), retry_after);
            // The head decides; the body is read elsewhere, for the connection's sake alone.
            tokio::spawn(discard(response));
            answer
        }
        Err(error) => Answer::without_status(outcome_of(&error)),
    }
}

/// Reads and drops a bounded part of a response's body. A longer one costs its connection.
async fn discard(mut response: reqwest::Response) {
    let read = async {
        let mut left = BODY_BYTES_MAX;
        while let Ok(Some(chunk)) = response.chunk().await {
            left = left.saturating_sub(chunk.len());
            if left == 0 {
                break;
            }
        }
    };
    // Too slow is as good as read: dropping the response closes the connection.
    let _ = tokio::time::timeout(BODY_WAIT, read).await;
}

/// Names what went wrong before a response head was there.
fn outcome_of(error: &reqwest::Error) -> Outcome {
    tracing::debug!(error = %chain(error), "no response from an endpoint");
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.downcast_ref::<ResolutionError>().is_some() {
            return Outcome::ResolutionError;
        }
        source = error.source();
    }
    if error.is_timeout() { Outcome::TimedOut } else { Outcome::SocketError }
}

/// Resolves host names to addresses that the guard allows, and to no others.
struct GuardedResolver {
    allowed: AllowedNetworks,
    /// Whether public addresses are allowed too.
    public: bool,
}

/// A host name has no address. Found again in the error chain of a request.
#[derive(Debug, thiserror::Error)]
#[error("the host name does not resolve")]
struct ResolutionError(#[source] Option<std::io::Error>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (allowed, public) = (self.allowed.clone(), self.public);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let found: Vec<SocketAddr> =
                found.map_err(|error| ResolutionError(Some(error)))?.collect();
            if found.is_empty() {
                return Err(ResolutionError(None).into());
            }
            let check = |address: &SocketAddr| match address.ip() {
                ip if allowed.contains(ip) => Ok(()),
                ip if public => guard::check_address(ip, &allowed),
                ip => Err(Refusal::Address(ip)),
            };
            let refused = found.iter().find_map(|address| check(address).err());
            let safe: Vec<_> = found.into_iter().filter(|a| check(a).is_ok()).collect();
            match refused {
                Some(refusal) if safe.is_empty() => Err(refusal.into()),
                _ => Ok(Box::new(safe.into_iter()) as Addrs),
            }
        })
    }
}
