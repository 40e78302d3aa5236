//! Serves both APIs on one port of 127.0.0.1, by HTTP/1.1 or TLS, with requests as API Gateway hands them
//! over.
//!
//! Loopback keeps other machines out. To keep web pages of other origins out, a request must name this
//! machine as its host, so that a name which an attacker points here is of no use, and must not come from
//! another origin. No answer has a CORS header.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_api::error::Error;
use gridpost_core::gateway::Request;
use gridpost_ingest::{handler::handle, route::Route};
use gridpost_manage as manage;
use gridpost_ports::Clock;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    header::{self, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use crate::{emulated, process::Process};

/// The largest body that API Gateway takes. Source: Amazon API Gateway, "Quotas for configuring and running
/// an HTTP API".
const BODY_BYTES_MAX: usize = 10 * 1_024 * 1_024;

/// The path of the counts. Neither API has it.
const COUNTS: &str = "/dev/counts";
const TLS_BEGINS_WITHIN: Duration = Duration::from_secs(10);

type Reply = Response<Full<Bytes>>;

/// Runs requests in their own tasks, so that a client that disconnects does not cancel its request.
struct Requests {
    process: Arc<Process>,
    under_way: Mutex<JoinSet<()>>,
}

pub(crate) async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, process: Arc<Process>) {
    let requests = Arc::new(Requests { process, under_way: Mutex::default() });
    // Both are dropped with this task, which ends all connections and requests.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                connections.spawn(connect(stream, tls.clone(), Arc::clone(&requests)));
            }
            // A failed accept is one client's problem; the pause keeps a lasting one from spinning.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(stream: TcpStream, tls: Option<TlsAcceptor>, requests: Arc<Requests>) {
    let Some(tls) = tls else { return converse(stream, &requests).await };
    // A client that does not trust the CA disconnects here.
    if let Ok(Ok(stream)) = timeout(TLS_BEGINS_WITHIN, tls.accept(stream)).await {
        converse(stream, &requests).await;
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, requests: &Requests) {
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(requests, request).await));
    // A client that disconnects during a request is no error.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(requests: &Requests, request: hyper::Request<Incoming>) -> Reply {
    let process = &requests.process;
    let (parts, body) = request.into_parts();
    if let Err(refusal) = admit(&parts.headers, &parts.uri) {
        return message(StatusCode::FORBIDDEN, refusal);
    }
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
        }
        Err(_) => return message(StatusCode::BAD_REQUEST, "Bad Request"),
    };
    if let Some(operation) = emulated::operation(&parts.method, &parts.uri, &parts.headers) {
        let answered = emulated::answer(&process.store, operation, &body).await;
        let (status, document) = answered;
        return reply(status, document.to_string());
    }
    if (&parts.method, parts.uri.path()) == (&Method::GET, COUNTS) {
        let (now, speed) = (process.clock.now(), process.clock.speed().times());
        return reply(StatusCode::OK, process.counts.document(now, speed).to_string());
    }
    let request = gateway_request(&parts.method, &parts.uri, &parts.headers, body);
    requests.start(request).await.unwrap_or_else(|_| {
        tracing::error!("a request panicked");
        message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
    })
}

impl Requests {
    /// Starts a request, which continues even if the receiver is dropped.
    fn start(&self, request: Request) -> oneshot::Receiver<Reply> {
        let (process, (replies, reply)) = (Arc::clone(&self.process), oneshot::channel());
        let mut under_way = self.under_way.lock().expect("no panic while held");
        while under_way.try_join_next().is_some() {}
        under_way.spawn(async move {
            let _ = replies.send(match is_publish(&request.method, &request.path) {
                true => publish(&process, request).await,
                false => managed(&process, request).await,
            });
        });
        reply
    }
}

/// Refuses requests that may come from a page of another origin.
fn admit(headers: &HeaderMap, uri: &Uri) -> Result<(), &'static str> {
    let texts =
        |name: HeaderName| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
    let mut hosts = texts(header::HOST);
    let host = uri.authority().map(|authority| authority.as_str()).or_else(|| hosts.next());
    if !host.is_some_and(is_this_machine) || !hosts.all(is_this_machine) {
        return Err("the Host header must name this machine: localhost, or a loopback address");
    }
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, host)| is_this_machine(host));
    match texts(header::ORIGIN).all(is_own) {
        true => Ok(()),
        false => Err("requests of web pages of other origins are refused"),
    }
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Makes the request that functions read from API Gateway's event, without a route, like a function URL's.
/// Headers of a publish stay apart, because repeated ones are refused.
fn gateway_request(method: &Method, uri: &Uri, headers: &HeaderMap, body: Bytes) -> Request {
    Request {
        method: method.clone(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers: match is_publish(method, uri.path()) {
            true => headers.clone(),
            false => joined(headers),
        },
        authorizer: None,
        caller: None,
        route: None,
        body: body.into(),
    }
}

/// Joins headers of one name with commas, as API Gateway does.
fn joined(headers: &HeaderMap) -> HeaderMap {
    let mut all = HeaderMap::with_capacity(headers.keys_len());
    for name in headers.keys() {
        let values: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(value) = HeaderValue::from_bytes(&values.join(&b","[..])) {
            all.insert(name.clone(), value);
        }
    }
    all
}

/// Whether a request is the publish API's: `POST /topics/{topic}/api/events`, or
/// `POST /topics/{topic}:publish`, whose colon may be encoded. It also answers other methods on these
/// paths.
fn is_publish(method: &Method, path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/topics/") else { return false };
    if Route::of(Method::POST.as_str(), path).is_some() {
        return true;
    }
    method == Method::POST && (rest.ends_with("/api/events") || !rest.contains('/'))
}

/// Adds the paths of the publish API to the resource API's answer for an unknown path.
fn with_publish_paths(mut refusal: Error) -> String {
    let message = &mut refusal.error.message;
    if message.starts_with("There is nothing at ") {
        message.push_str(
            " Publish with POST to /topics/{topic}/api/events, or to /topics/{topic}:publish for a \
             namespace topic.",
        );
    }
    json!(refusal).to_string()
}

async fn publish(process: &Process, request: Request) -> Reply {
    let answered = handle(&process.ingest, &request).await;
    process.ingest.meter.flush(process.clock.now());
    answered.map(Full::from)
}

async fn managed(process: &Process, request: Request) -> Reply {
    let answered = manage::respond(&process.manage, &request).await;
    process.manage.meter.flush(process.clock.now());
    if answered.status() != StatusCode::NOT_FOUND {
        return answered.map(Full::new);
    }
    answered.map(|body| match serde_json::from_slice(&body) {
        Ok(refusal) => Full::from(with_publish_paths(refusal)),
        Err(_) => Full::new(body),
    })
}

fn message(status: StatusCode, text: &str) -> Reply {
    reply(status, json!({ "message": text }).to_string())
}

fn reply(status: StatusCode, text: String) -> Reply {
    let mut reply = Response::new(Full::from(text));
    *reply.status_mut() = status;
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    reply.headers_mut().insert(header::CONTENT_TYPE, json);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_for_this_machine_are_let_in() {
        // (Host, Origin, let in)
        let table = [
            (Some("127.0.0.1:7700"), None, true),
            (Some("localhost"), None, true),
            (Some("LOCALHOST:80"), None, true),
            (Some("[::1]:7700"), None, true),
            (Some("127.0.0.2"), None, true),
            (None, None, false),
            (Some(""), None, false),
            (Some("rebound.example:7700"), None, false),
            (Some("localhost.example"), None, false),
            (Some("10.0.0.1"), None, false),
            (Some("127.0.0.1:7700"), Some("http://localhost:3000"), true),
            (Some("127.0.0.1:7700"), Some("https://evil.example"), false),
            (Some("127.0.0.1:7700"), Some("null"), false),
        ];
        for (host, origin, want) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().expect("a value"));
                }
            }
            let admitted = admit(&headers, &Uri::from_static("/topics"));
            assert_eq!(admitted.is_ok(), want, "{host:?} {origin:?}");
            // A second one is as good as the first, whichever is heeded further on.
            for (name, other) in
                [(header::HOST, "evil.example"), (header::ORIGIN, "http://evil.example")]
            {
                let mut headers = headers.clone();
                headers.append(name, other.parse().expect("a value"));
                assert!(
                    admit(&headers, &Uri::from_static("/topics")).is_err(),
                    "{host:?} and {other}"
                );
            }
        }
    }

    #[test]
    fn the_apis_are_told_apart() {
        let table = [
            ("POST", "/topics/orders/api/events", true),
            ("POST", "/topics/orders:publish", true),
            ("POST", "/topics/orders%3Apublish", true),
            ("GET", "/topics/orders/api/events", true),
            ("PUT", "/topics/orders:publish", true),
            ("GET", "/topics/orders%3Apublish", true),
            ("GET", "/topics/orders/api/event", false),
            ("PUT", "/topics/orders", false),
            ("GET", "/topics", false),
            ("POST", "/topics/orders/listKeys", false),
            ("POST", "/topics/orders/eventSubscriptions:test", false),
            ("POST", "/poison:purge", false),
        ];
        for (method, path, want) in table {
            let method = method.parse().expect("a method");
            assert_eq!(is_publish(&method, path), want, "{method} {path}");
        }
    }

    #[test]
    fn headers_of_one_name_are_joined() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let joined = joined(&headers);
        assert_eq!(
            (&joined["a"], &joined["b"]),
            (&HeaderValue::from_static("1,3"), &HeaderValue::from_static("2"))
        );
        assert_eq!(joined.len(), 2);
    }
}
