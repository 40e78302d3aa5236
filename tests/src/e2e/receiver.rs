//! One HTTP server on this machine that plays every endpoint: each path answers by its own script
//! and remembers what arrived.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use gridpost_testkit::server::{self, Server, response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, request::Parts};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// One scripted answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// `None` closes the connection.
    status: Option<u16>,
    delay: Duration,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

impl Reply {
    /// Answers `status` after that time; without a status it closes the connection then.
    pub fn of(status: Option<u16>, delay: Duration) -> Self {
        Self { status, delay, headers: Vec::new(), body: String::new() }
    }

    /// Answers `status` at once.
    pub fn prompt(status: u16) -> Self {
        Self::of(Some(status), Duration::ZERO)
    }

    /// Answers `status` this many seconds after the request.
    pub fn late(status: u16, seconds: u64) -> Self {
        Self::of(Some(status), Duration::from_secs(seconds))
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
struct Judge(Box<dyn Fn(&Arrival) -> Reply + Send + Sync>);

impl fmt::Debug for Judge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Judge")
    }
}

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
    /// Whether deliveries are forgotten once they are judged.
    forgets: bool,
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
        let post = Post {
            replies: replies.to_vec(),
            judge: None,
            consent: Consent::Given,
            forgets: false,
            arrivals: Vec::new(),
            taken: 0,
        };
        self.shared.posts().insert(path.clone(), post);
        Endpoint { url: format!("{}{path}", self.server.url()), path, shared: self.shared.clone() }
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
    pub fn judge(&self, judge: impl Fn(&Arrival) -> Reply + Send + Sync + 'static) {
        self.with(|post| post.judge = Some(Judge(Box::new(judge))));
    }

    /// The same, without remembering deliveries: `judge` sees each.
    pub fn judge_and_forget(&self, judge: impl Fn(&Arrival) -> Reply + Send + Sync + 'static) {
        self.judge(judge);
        self.with(|post| post.forgets = true);
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
    if let Some(given) = consent {
        let consent = shared.posts().get(path).map(|post| post.consent);
        let response = match consent {
            Some(Consent::Given) => given,
            Some(Consent::Withheld) => response(200, ""),
            None => response(404, ""),
        };
        arrival.answered = Some(response.status().as_u16());
        note(shared, path, arrival);
        return Some(response);
    }
    let Some((index, reply)) = take_reply(shared, path, arrival) else {
        return Some(response(404, ""));
    };
    sleep(reply.delay).await;
    let status = reply.status?;
    if let Some(arrival) = shared.posts().get_mut(path)?.arrivals.get_mut(index) {
        arrival.answered = Some(status);
    }
    shared.tell();
    let mut response = response(status, reply.body);
    for (name, value) in reply.headers {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        response.headers_mut().insert(name, value);
    }
    Some(response)
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
        let last = post.replies.len().saturating_sub(1);
        let reply = match &post.judge {
            Some(judge) => judge.0(&arrival),
            None => post.replies.get(post.taken.min(last))?.clone(),
        };
        post.taken += 1;
        let index = post.arrivals.len();
        if !post.forgets {
            post.arrivals.push(arrival);
        }
        (index, reply)
    };
    shared.tell();
    Some(taken)
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
    async fn a_reply_without_a_status_closes_the_connection() {
        let receiver = Receiver::start().await.expect("a port");
        let endpoint = receiver.endpoint("a", &[Reply::of(None, Duration::ZERO)]);
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        assert!(client.post(endpoint.url()).body("[]").send().await.is_err());
        assert_eq!(endpoint.deliveries()[0].answered, None);
        endpoint.judge_and_forget(|_| Reply::prompt(204));
        let answer = client.post(endpoint.url()).body("[]").send().await.expect("answered");
        assert_eq!((answer.status().as_u16(), endpoint.deliveries().len()), (204, 1));
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
