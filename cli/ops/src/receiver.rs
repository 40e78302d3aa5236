//! An endpoint on this machine: it proves that it wants events, answers as scripted, and tells what
//! arrived.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{HeaderMap, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::Instant,
};

/// Well over the 1 MiB that a delivery may have.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How an endpoint behaves. Handshakes are always answered at once, and use up no answer.
#[derive(Clone, Debug)]
pub struct Behaviour {
    pub answers: Answers,
    pub delay: Duration,
}

impl Behaviour {
    /// Answers at once.
    pub fn prompt(answers: Answers) -> Self {
        Self { answers, delay: Duration::ZERO }
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Event Grid's validation event, or the CloudEvents `OPTIONS` request.
    Handshake,
    Delivery,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When its last byte was read.
    pub at: Instant,
    pub purpose: Purpose,
    pub method: String,
    /// Path, without the query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub status: u16,
}

impl Arrival {
    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Attempts made before this one, by `aeg-delivery-count`.
    pub fn delivery_count(&self) -> Option<u32> {
        self.header("aeg-delivery-count")?.parse().ok()
    }

    /// The events of the body; none when it is not JSON.
    pub fn events(&self) -> Vec<Value> {
        match serde_json::from_slice(&self.body) {
            Ok(Value::Array(events)) => events,
            Ok(event) => vec![event],
            Err(_) => Vec::new(),
        }
    }
}

/// A running endpoint. Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Receiver {
    /// Listens on `address` (port 0: a free one). Paths in `by_path` behave in their own way, all
    /// others as `otherwise`. Arrivals are sent to `arrivals` before they are answered.
    pub async fn start(
        address: SocketAddr,
        by_path: HashMap<String, Behaviour>,
        otherwise: Behaviour,
        arrivals: mpsc::UnboundedSender<Arrival>,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let script = Script { by_path, otherwise, answered: Mutex::default(), arrivals };
        Ok(Self { address, accepting: tokio::spawn(accept(listener, Arc::new(script))) })
    }

    /// Returns the address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `path` (with its slash).
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Script {
    by_path: HashMap<String, Behaviour>,
    otherwise: Behaviour,
    answered: Mutex<HashMap<String, usize>>,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

impl Script {
    /// Takes the next answer of `path`, and how long to wait with it.
    fn next_answer(&self, path: &str) -> (u16, Duration) {
        let behaviour = self.by_path.get(path).unwrap_or(&self.otherwise);
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let index = answered.entry(path.to_owned()).or_default();
        let status = behaviour.answers.nth(*index);
        *index += 1;
        (status, behaviour.delay)
    }
}

async fn accept(listener: TcpListener, script: Arc<Script>) {
    // Dropped with this task, which ends every connection.
    let mut connections = JoinSet::new();
    loop {
        // A failed accept is one client's trouble; the pause keeps a lasting one from spinning.
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, Arc::clone(&script)));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one connection to its end. A client that breaks off mid-request is no error of ours.
async fn serve(stream: TcpStream, script: Arc<Script>) {
    let service = service_fn(|request| {
        let script = Arc::clone(&script);
        async move { Ok::<_, Infallible>(answer(request, &script).await) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, script: &Script) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return empty(StatusCode::PAYLOAD_TOO_LARGE.as_u16());
    };
    let body = body.to_bytes();
    let consent = consent(&parts.method, &parts.headers, &body);
    let (status, delay) = match &consent {
        Some(_) => (200, Duration::ZERO),
        None => script.next_answer(parts.uri.path()),
    };
    let arrival = Arrival {
        at: Instant::now(),
        purpose: if consent.is_some() { Purpose::Handshake } else { Purpose::Delivery },
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body,
        status,
    };
    // Nobody listens any more while the endpoint is being closed.
    let _ = script.arrivals.send(arrival);
    tokio::time::sleep(delay).await;
    consent.unwrap_or_else(|| empty(status))
}

/// The answer to a handshake, none for any other request.
fn consent(method: &Method, headers: &HeaderMap, body: &[u8]) -> Option<Response<Full<Bytes>>> {
    if method == Method::OPTIONS {
        let origin = headers.get("webhook-request-origin")?.clone();
        let mut response = empty(200);
        response.headers_mut().insert("webhook-allowed-origin", origin);
        response.headers_mut().insert("webhook-allowed-rate", HeaderValue::from_static("*"));
        return Some(response);
    }
    let is_validation = headers
        .get("aeg-event-type")
        .is_some_and(|kind| kind.as_bytes().eq_ignore_ascii_case(b"SubscriptionValidation"));
    if method != Method::POST || !is_validation {
        return None;
    }
    let document: Value = serde_json::from_slice(body).ok()?;
    let code = document.pointer("/0/data/validationCode")?;
    let mut response = Response::new(json!({ "validationResponse": code }).to_string().into());
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, content_type);
    Some(response)
}

fn empty(status: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response
}

/// Statuses in the order they are given out; the last one repeats for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers(Vec<u16>);

/// The reason why a list of answers was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no HTTP status from 200 to 599; write one, or several as in 500,500,200")]
pub struct AnswersError {
    given: String,
}

impl Answers {
    /// Always `status`.
    pub fn always(status: u16) -> Self {
        Self(vec![status])
    }

    /// The status for request number `index`, counted from 0.
    pub fn nth(&self, index: usize) -> u16 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(index.min(last)).copied().unwrap_or(200)
    }
}

impl FromStr for Answers {
    type Err = AnswersError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let status = |part: &str| {
            let part = part.trim();
            match part.parse() {
                Ok(status @ 200..=599) => Ok(status),
                _ => Err(AnswersError { given: part.to_owned() }),
            }
        };
        list.split(',').map(status).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn start(answers: &str) -> (Receiver, mpsc::UnboundedReceiver<Arrival>, reqwest::Client) {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let behaviour = Behaviour::prompt(answers.parse().expect("answers"));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let receiver = Receiver::start(address, HashMap::new(), behaviour, sender).await;
        let client = reqwest::Client::builder().no_proxy().build().expect("client");
        (receiver.expect("started"), arrivals, client)
    }

    #[tokio::test]
    async fn both_handshakes_are_answered_and_use_up_no_answer() {
        let (receiver, mut arrivals, client) = start("500,200").await;
        let url = receiver.url("/hook");
        let body = r#"[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent",
            "data":{"validationCode":"A-1"}}]"#;
        let validation =
            client.post(&url).header("aeg-event-type", "SubscriptionValidation").body(body);
        let validation = validation.send().await.expect("answered");
        assert_eq!(validation.status(), 200);
        let text = validation.text().await.expect("text");
        assert_eq!(text, r#"{"validationResponse":"A-1"}"#);

        let options = client.request(Method::OPTIONS, &url);
        let options = options.header("WebHook-Request-Origin", "eventgrid.azure.net").send().await;
        let options = options.expect("answered");
        assert_eq!(options.headers()["WebHook-Allowed-Origin"], "eventgrid.azure.net");

        let delivery =
            client.post(&url).header("aeg-delivery-count", "0").body("[{},{}]").send().await;
        assert_eq!(delivery.expect("answered").status(), 500);
        let purposes: Vec<_> = std::iter::from_fn(|| arrivals.try_recv().ok()).collect();
        assert_eq!(
            purposes.iter().map(|arrival| arrival.purpose).collect::<Vec<_>>(),
            [Purpose::Handshake, Purpose::Handshake, Purpose::Delivery]
        );
        let delivery = purposes.last().expect("three");
        assert_eq!((delivery.delivery_count(), delivery.events().len()), (Some(0), 2));
    }

    #[tokio::test]
    async fn answers_are_counted_by_path() {
        let (receiver, _arrivals, client) = start("500,200").await;
        let mut given = Vec::new();
        for path in ["/a", "/b", "/a", "/b"] {
            let answer = client.post(receiver.url(path)).body("{}").send().await.expect("answered");
            given.push(answer.status().as_u16());
        }
        assert_eq!(given, [500, 500, 200, 200]);
    }

    #[test]
    fn the_last_answer_repeats() {
        let answers: Answers = "500, 500,200".parse().expect("three statuses");
        let given: Vec<u16> = (0..5).map(|index| answers.nth(index)).collect();
        assert_eq!(given, [500, 500, 200, 200, 200]);
    }

    #[test]
    fn what_is_no_status_is_named() {
        for (list, named) in
            [("", ""), ("200,,500", ""), ("ok", "ok"), ("200,99", "99"), ("600", "600")]
        {
            let refused = list.parse::<Answers>().expect_err(list);
            assert_eq!(refused, AnswersError { given: named.to_owned() }, "{list}");
        }
    }
}
