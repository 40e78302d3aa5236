//! An endpoint on loopback that answers as told and remembers what came.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// One delivery as it came.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// `aeg-delivery-count`.
    pub(crate) delivery_count: usize,
    /// The id of its first event.
    pub(crate) event_id: String,
    /// What it was answered.
    pub(crate) status: u16,
}

#[derive(Default)]
struct State {
    scripts: HashMap<String, VecDeque<u16>>,
    seen: HashMap<String, Vec<Attempt>>,
}

/// The endpoint. Paths without a script, and those whose script is over, answer 200.
pub(crate) struct Receiver {
    base: String,
    state: Arc<Mutex<State>>,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Listens on a free port.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State::default()));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self { base, state, accepting }
    }

    /// The endpoint of that name.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.base)
    }

    /// What the first deliveries to it are answered.
    pub(crate) fn script(&self, name: &str, answers: &[u16]) {
        let mut state = self.state.lock().expect("no panic while held");
        state.scripts.insert(name.to_owned(), answers.iter().copied().collect());
    }

    /// The deliveries that came to it.
    pub(crate) fn seen(&self, name: &str) -> Vec<Attempt> {
        let state = self.state.lock().expect("no panic while held");
        state.seen.get(name).cloned().unwrap_or_default()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&state)));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let events: Value = serde_json::from_slice(&body).unwrap_or_default();
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if header("aeg-event-type") == Some("SubscriptionValidation") {
        let code = &events[0]["data"]["validationCode"];
        let consent = json!({ "validationResponse": code }).to_string();
        return Ok(Response::new(Full::from(consent)));
    }
    let name = parts.uri.path().trim_start_matches('/').to_owned();
    let delivery_count = header("aeg-delivery-count").and_then(|count| count.parse().ok());
    let event_id = events[0]["id"].as_str().unwrap_or_default().to_owned();
    let mut state = state.lock().expect("no panic while held");
    let script = state.scripts.get_mut(&name).and_then(VecDeque::pop_front);
    let status = script.unwrap_or(200);
    let delivery_count = delivery_count.unwrap_or(usize::MAX);
    let attempt = Attempt { delivery_count, event_id, status };
    state.seen.entry(name).or_default().push(attempt);
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    Ok(response)
}
