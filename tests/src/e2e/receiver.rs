//! One HTTP server on this machine that plays every endpoint: each path answers by its own script
//! and remembers what arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use gridpost_testkit::server::{self, Server, response};
use http::{HeaderMap, Method, Response, request::Parts};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// One scripted answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// `None` closes the connection.
    status: Option<u16>,
    delay: Duration,
    body: String,
}

impl Reply {
    /// Answers `status` after that time; without a status it closes the connection then.
    pub fn of(status: Option<u16>, delay: Duration) -> Self {
        Self { status, delay, body: String::new() }
    }

    /// Answers `status` at once.
    pub fn prompt(status: u16) -> Self {
        Self::of(Some(status), Duration::ZERO)
    }

    /// Answers `status` this many seconds after the request.
    pub fn late(status: u16, seconds: u64) -> Self {
        Self::of(Some(status), Duration::from_secs(seconds))
    }

    /// Sets the body.
    #[must_use]
    pub fn saying(self, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..self }
    }
}

/// How an endpoint answers by what it gets.
type Judge = Box<dyn FnMut(&Arrival) -> Reply + Send>;

/// Gives replies out in their order; the last one repeats.
fn script(replies: &[Reply]) -> Judge {
    let last = replies.last().cloned().unwrap_or_else(|| Reply::prompt(404));
    let mut replies = Vec::from(replies).into_iter();
    Box::new(move |_| replies.next().unwrap_or_else(|| last.clone()))
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

/// The replies and the requests of one path.
struct Post {
    judge: Judge,
    /// Whether it proves that it wants events, instead of answering handshakes with a bare 200.
    consents: bool,
    arrivals: Vec<Arrival>,
}

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
pub struct Receiver {
    server: Server,
    shared: Arc<Shared>,
}

impl Receiver {
    /// Listens on a free loopback port.
    pub async fn start() -> anyhow::Result<Self> {
        let shared = Arc::new(Shared { posts: Mutex::default(), news: watch::Sender::new(0) });
        let own = Arc::clone(&shared);
        let answer = move |parts, body| {
            let shared = Arc::clone(&own);
            async move { answer(parts, body, &shared).await }
        };
        Ok(Self { server: Server::start(answer).await?, shared })
    }

    /// Opens the endpoint at `/{name}`. Replies are given out in order; the last one repeats.
    pub fn endpoint(&self, name: &str, replies: &[Reply]) -> Endpoint {
        let path = format!("/{name}");
        let post = Post { judge: script(replies), consents: true, arrivals: Vec::new() };
        self.shared.posts().insert(path.clone(), post);
        Endpoint { url: format!("{}{path}", self.server.url()), path, shared: self.shared.clone() }
    }
}

/// One path of the receiver.
#[derive(Clone)]
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

    /// Gives out these replies from now on.
    pub fn answer(&self, replies: &[Reply]) {
        self.with(|post| post.judge = script(replies));
    }

    /// Answers each delivery by its content from now on.
    pub fn judge(&self, judge: impl FnMut(&Arrival) -> Reply + Send + 'static) {
        self.with(|post| post.judge = Box::new(judge));
    }

    /// Answers handshakes with 200 from now on, without any proof.
    pub fn withhold_consent(&self) {
        self.with(|post| post.consents = false);
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

/// The response; `None` closes the connection.
async fn answer(parts: Parts, body: Bytes, shared: &Shared) -> Option<Response<Bytes>> {
    let path = parts.uri.path();
    let consent = server::consent(&parts, &body);
    let mut arrival = Arrival {
        at: Instant::now(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        is_handshake: consent.is_some(),
        method: parts.method,
        headers: parts.headers,
        body,
        answered: None,
    };
    let (index, reply) = {
        let mut posts = shared.posts();
        let Some(post) = posts.get_mut(path) else { return Some(response(404, "")) };
        let index = post.arrivals.len();
        if let Some(given) = consent {
            arrival.answered = Some(200);
            post.arrivals.push(arrival);
            shared.tell();
            return Some(if post.consents { given } else { response(200, "") });
        }
        let reply = (post.judge)(&arrival);
        post.arrivals.push(arrival);
        (index, reply)
    };
    shared.tell();
    sleep(reply.delay).await;
    let status = reply.status?;
    shared.posts().get_mut(path)?.arrivals.get_mut(index)?.answered = Some(status);
    shared.tell();
    Some(response(status, reply.body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endpoint with these replies, and how to post to it.
    async fn endpoint(replies: &[Reply]) -> (Receiver, Endpoint, reqwest::RequestBuilder) {
        let receiver = Receiver::start().await.expect("a port");
        let endpoint = receiver.endpoint("a", replies);
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let post = client.post(endpoint.url()).body(r#"[{"id":"1"}]"#);
        (receiver, endpoint, post)
    }

    #[tokio::test]
    async fn replies_are_given_in_order_and_the_last_repeats() {
        let (_receiver, endpoint, post) = endpoint(&[500, 204].map(Reply::prompt)).await;
        for want in [500, 204, 204] {
            let answer = post.try_clone().expect("a body").send().await.expect("answered");
            assert_eq!(answer.status(), want);
        }
        let deliveries = endpoint.wait_for(3, Duration::from_secs(1)).await.expect("arrived");
        assert_eq!(deliveries[0].ids(), ["1"]);
        assert_eq!(deliveries[0].answered, Some(500));
        let error = endpoint.wait_for(4, Duration::from_millis(10)).await.expect_err("only three");
        assert!(error.to_string().contains("for 4 deliveries and got 3"), "{error}");
    }

    #[tokio::test]
    async fn a_closed_connection_and_a_client_that_goes_away_are_no_answer() {
        let replies = [Reply::of(None, Duration::ZERO), Reply::late(200, 60)];
        let (_receiver, endpoint, post) = endpoint(&replies).await;
        for _ in replies {
            let post = post.try_clone().expect("a body").timeout(Duration::from_millis(200));
            assert!(post.send().await.is_err());
        }
        let deliveries = endpoint.wait_for(2, Duration::from_secs(1)).await.expect("arrived");
        assert!(deliveries.iter().all(|delivery| delivery.answered.is_none()), "{deliveries:?}");
    }
}
