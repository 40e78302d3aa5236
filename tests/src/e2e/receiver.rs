//! One HTTP server on this machine that plays every endpoint: each path answers by its own script
//! and remembers what arrived.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

/// One scripted answer.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    delay: Duration,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

impl Reply {
    /// Answers `status` at once.
    pub fn prompt(status: u16) -> Self {
        Self { status, delay: Duration::ZERO, headers: Vec::new(), body: String::new() }
    }

    /// Answers `status` this many seconds after the request.
    pub fn late(status: u16, seconds: u64) -> Self {
        Self { delay: Duration::from_secs(seconds), ..Self::prompt(status) }
    }

    /// The same with that body.
    #[must_use]
    pub fn saying(self, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// How an endpoint answers by what it gets.
pub type Judge = fn(&Arrival) -> Reply;

/// How an endpoint takes a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Proves that it wants events.
    Given,
    /// Answers 200 without any proof.
    Withheld,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When its last byte was read.
    pub at: Instant,
    /// HTTP method.
    pub method: Method,
    /// Query of the URL, empty without one.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// Whether it asked for consent instead of delivering.
    pub is_handshake: bool,
    /// The status, once it was sent: a client that goes away first never gets one.
    pub answered: Option<u16>,
}

impl Arrival {
    /// A header's text, empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON, null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The events in it: the array's elements, or the one object.
    pub fn events(&self) -> Vec<Value> {
        match self.json() {
            Value::Array(events) => events,
            Value::Null => Vec::new(),
            event => vec![event],
        }
    }

    /// The ids of its events.
    pub fn ids(&self) -> Vec<String> {
        let events = self.events();
        events.iter().filter_map(|event| event["id"].as_str().map(str::to_owned)).collect()
    }
}

/// What one path does and has seen.
#[derive(Debug)]
struct Post {
    replies: Vec<Reply>,
    /// What answers instead of the script, if anything.
    judge: Option<Judge>,
    consent: Consent,
    arrivals: Vec<Arrival>,
    /// Deliveries that took an answer from the script so far.
    taken: usize,
}

#[derive(Debug)]
struct Shared {
    posts: Mutex<HashMap<String, Post>>,
    /// Counts everything that happens, for tasks that wait.
    news: watch::Sender<u64>,
}

impl Shared {
    fn posts(&self) -> MutexGuard<'_, HashMap<String, Post>> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.news.send_modify(|count| *count += 1);
    }
}

/// The running server. Dropping it closes the port.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Listens on a free loopback port.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { posts: Mutex::default(), news: watch::Sender::new(0) });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// Opens the endpoint at `/{name}`. Replies are given out in order; the last one repeats.
    pub fn endpoint(&self, name: &str, replies: &[Reply]) -> Endpoint {
        let path = format!("/{name}");
        let post = Post {
            replies: replies.to_vec(),
            judge: None,
            consent: Consent::Given,
            arrivals: Vec::new(),
            taken: 0,
        };
        self.shared.posts().insert(path.clone(), post);
        Endpoint {
            url: format!("http://{}{path}", self.address),
            path,
            shared: self.shared.clone(),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One path of the receiver.
#[derive(Clone, Debug)]
pub struct Endpoint {
    path: String,
    url: String,
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on gives out these replies.
    pub fn answer(&self, replies: &[Reply]) {
        self.with(|post| {
            post.replies = replies.to_vec();
            post.taken = 0;
        });
    }

    /// From now on answers each delivery by what is in it.
    pub fn judge(&self, judge: Judge) {
        self.with(|post| post.judge = Some(judge));
    }

    /// From now on takes handshakes in this way.
    pub fn consent(&self, consent: Consent) {
        self.with(|post| post.consent = consent);
    }

    /// The deliveries that arrived so far.
    pub fn deliveries(&self) -> Vec<Arrival> {
        self.with(|post| post.arrivals.iter().filter(|a| !a.is_handshake).cloned().collect())
    }

    /// The handshakes that arrived so far.
    pub fn handshakes(&self) -> Vec<Arrival> {
        self.with(|post| post.arrivals.iter().filter(|a| a.is_handshake).cloned().collect())
    }

    /// Waits for `count` deliveries and returns all that arrived by then.
    pub async fn wait_for(&self, count: usize, limit: Duration) -> anyhow::Result<Vec<Arrival>> {
        let what = format!("{count} deliveries");
        self.wait_until(&what, limit, |deliveries| deliveries.len() >= count).await
    }

    /// Waits until `is_enough` and returns all deliveries that arrived by then.
    pub async fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        is_enough: impl Fn(&[Arrival]) -> bool,
    ) -> anyhow::Result<Vec<Arrival>> {
        let mut news = self.shared.news.subscribe();
        let deadline = Instant::now() + limit;
        loop {
            let deliveries = self.deliveries();
            if is_enough(&deliveries) {
                return Ok(deliveries);
            }
            if timeout_at(deadline, news.changed()).await.is_err() {
                bail!(
                    "{} waited {} s for {what} and got {} deliveries:\n{}",
                    self.path,
                    limit.as_secs(),
                    deliveries.len(),
                    describe(&deliveries)
                );
            }
        }
    }

    fn with<T>(&self, use_post: impl FnOnce(&mut Post) -> T) -> T {
        use_post(self.shared.posts().get_mut(&self.path).expect("an endpoint is never closed"))
    }
}

/// Deliveries line by line, for failure messages.
pub fn describe(deliveries: &[Arrival]) -> String {
    let Some(first) = deliveries.first() else { return String::new() };
    let line = |arrival: &Arrival| {
        format!(
            "  {:>7.2} s  aeg-delivery-count {}  answered {:?}  ids {:?}",
            (arrival.at - first.at).as_secs_f64(),
            arrival.header("aeg-delivery-count"),
            arrival.answered,
            arrival.ids(),
        )
    };
    deliveries.iter().map(line).collect::<Vec<_>>().join("\n")
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, which ends every connection.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection to its end. Functions are killed on purpose: a broken one is no error.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return empty(400) };
    let mut arrival = Arrival {
        at: Instant::now(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        is_handshake: is_handshake(&parts.method, &parts.headers),
        method: parts.method,
        headers: parts.headers,
        body: body.to_bytes(),
        answered: None,
    };
    let path = parts.uri.path();
    if arrival.is_handshake {
        let consent = shared.posts().get(path).map(|post| post.consent);
        let response = consent.map_or_else(|| empty(404), |consent| consent_to(&arrival, consent));
        arrival.answered = Some(response.status().as_u16());
        note(shared, path, arrival);
        return response;
    }
    let Some((index, reply)) = take_reply(shared, path, arrival) else { return empty(404) };
    sleep(reply.delay).await;
    if let Some(post) = shared.posts().get_mut(path) {
        post.arrivals[index].answered = Some(reply.status);
    }
    shared.tell();
    let mut response = empty(reply.status);
    *response.body_mut() = reply.body.into();
    for (name, value) in reply.headers {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        response.headers_mut().insert(name, value);
    }
    response
}

fn note(shared: &Shared, path: &str, arrival: Arrival) {
    if let Some(post) = shared.posts().get_mut(path) {
        post.arrivals.push(arrival);
    }
    shared.tell();
}

/// Records a delivery and takes its reply; returns the arrival's index, `None` without an endpoint.
fn take_reply(shared: &Shared, path: &str, arrival: Arrival) -> Option<(usize, Reply)> {
    let taken = {
        let mut posts = shared.posts();
        let post = posts.get_mut(path)?;
        let last = post.replies.len().checked_sub(1)?;
        let reply = match post.judge {
            Some(judge) => judge(&arrival),
            None => post.replies[post.taken.min(last)].clone(),
        };
        post.taken += 1;
        post.arrivals.push(arrival);
        (post.arrivals.len() - 1, reply)
    };
    shared.tell();
    Some(taken)
}

fn is_handshake(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get("aeg-event-type").map(HeaderValue::as_bytes);
    method == Method::OPTIONS
        || kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"SubscriptionValidation"))
}

fn consent_to(arrival: &Arrival, consent: Consent) -> Response<Full<Bytes>> {
    let mut response = empty(200);
    if consent == Consent::Withheld {
        return response;
    }
    if arrival.method == Method::OPTIONS {
        if let Some(origin) = arrival.headers.get("webhook-request-origin") {
            response.headers_mut().insert("webhook-allowed-origin", origin.clone());
        }
    } else {
        let code = arrival.json().pointer("/0/data/validationCode").cloned();
        *response.body_mut() = json!({ "validationResponse": code }).to_string().into();
    }
    response
}

fn empty(status: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replies_are_given_in_order_and_the_last_repeats() {
        let receiver = Receiver::start().await.expect("a port");
        let endpoint = receiver.endpoint("a", &[Reply::prompt(500), Reply::prompt(204)]);
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let answer = client.post(endpoint.url()).body(r#"[{"id":"1"}]"#).send().await;
            statuses.push(answer.expect("answered").status().as_u16());
        }
        assert_eq!(statuses, [500, 204, 204]);
        let deliveries = endpoint.wait_for(3, Duration::from_secs(1)).await.expect("arrived");
        assert_eq!(deliveries[0].ids(), ["1"]);
        assert_eq!(deliveries[0].answered, Some(500));
    }

    #[tokio::test]
    async fn a_client_that_goes_away_was_not_answered() {
        let receiver = Receiver::start().await.expect("a port");
        let endpoint = receiver.endpoint("a", &[Reply::late(200, 60)]);
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let request = client.post(endpoint.url()).timeout(Duration::from_millis(200)).send();
        assert!(request.await.is_err());
        let deliveries = endpoint.wait_for(1, Duration::from_secs(1)).await.expect("arrived");
        assert_eq!(deliveries[0].answered, None);
        let error = endpoint.wait_for(2, Duration::from_millis(10)).await.expect_err("only one");
        assert!(error.to_string().contains("for 2 deliveries and got 1"), "{error}");
    }
}
