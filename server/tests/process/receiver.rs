//! An endpoint that answers by script and records requests.

use std::collections::{HashMap, VecDeque};

use gridpost_testkit::server::{consent, response};
use hyper::{Response, body::Bytes, http::request::Parts};
use serde_json::Value;

use crate::server::Server;

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// `aeg-delivery-count`.
    pub(crate) delivery_count: usize,
    pub(crate) event_id: String,
    /// `webhook-timestamp` in seconds, if signed.
    pub(crate) signed_at: Option<u64>,
    pub(crate) status: u16,
}

#[derive(Default)]
pub(crate) struct State {
    scripts: HashMap<String, VecDeque<u16>>,
    /// `Retry-After` of failures.
    pub(crate) retry_after: Option<String>,
    seen: HashMap<String, Vec<Attempt>>,
}

/// The endpoint. Without a script, or after it, paths answer 200.
pub(crate) type Receiver = Server<State>;

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::listen(State::default(), State::answer).await
    }

    pub(crate) fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Sets the first answers.
    pub(crate) fn script(&self, name: &str, answers: &[u16]) {
        self.state().scripts.insert(name.to_owned(), answers.iter().copied().collect());
    }

    pub(crate) fn seen(&self, name: &str) -> Vec<Attempt> {
        self.state().seen.get(name).cloned().unwrap_or_default()
    }
}

impl State {
    fn answer(&mut self, parts: &Parts, body: &[u8]) -> Response<Bytes> {
        if let Some(consent) = consent(parts, body) {
            return consent;
        }
        let events: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = parts.uri.path().trim_start_matches('/').to_owned();
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let delivery_count = header("aeg-delivery-count").and_then(|count| count.parse().ok());
        let signed_at = header("webhook-timestamp").and_then(|seconds| seconds.parse().ok());
        let event_id = events[0]["id"].as_str().unwrap_or_default().to_owned();
        let script = self.scripts.get_mut(&name).and_then(VecDeque::pop_front);
        let status = script.unwrap_or(200);
        let delivery_count = delivery_count.unwrap_or(usize::MAX);
        let attempt = Attempt { delivery_count, event_id, signed_at, status };
        self.seen.entry(name).or_default().push(attempt);
        let mut response = response(status, "");
        if let Some(wait) = self.retry_after.as_ref().filter(|_| status >= 400) {
            response.headers_mut().insert("retry-after", wait.parse().expect("a value"));
        }
        response
    }
}
