//! Serves the APIs by HTTP/1.1, in clear or by TLS, with requests as API Gateway hands them over. A [`Door`] says
//! which API, and to whom; credentials are looked at before a body is read.

use std::{
    convert::Infallible,
    io,
    net::IpAddr,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_api::error::{Error, ErrorCode};
use gridpost_core::{
    access::{Grant, Role, Scope},
    gateway::{Authorizer, Request},
};
use gridpost_ingest::{
    handler::{Admitted, admit, handle_admitted, refuse_for_now},
    route::Route,
};
use gridpost_manage as manage;
use gridpost_ports::{Clock, Dice};
use gridpost_runtime::system::SystemDice;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    clients::{Clients, Impatient, Place, Seldom},
    door::{Door, Offer, is_forwarded},
    emulated, health,
    process::Process,
    tasks::Stopping,
    tokens, totals,
};

/// The largest body that API Gateway takes. Source: Amazon API Gateway, "Quotas for configuring and running
/// an HTTP API".
const BODY_BYTES_MAX: usize = 10 * 1_024 * 1_024;

/// The path of the counts. Neither API has it.
const COUNTS: &str = "/dev/counts";
const TLS_BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// The longest time between two requests of a connection, and for the head of one: longer than a minute, after which
/// many clients close idle connections.
const HEAD_WITHIN: Duration = Duration::from_secs(75);

/// The longest time for a body.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// How long a client may take for the rest of its request once the process stops.
const PARTING: Duration = Duration::from_secs(2);

/// How much of a refused request's body is read, unseen, and how long: most clients read no answer before they
/// have sent all of it.
const REFUSED_BYTES_MAX: usize = 1_024 * 1_024;
const REFUSED_WITHIN: Duration = Duration::from_secs(2);

type Reply = Response<Full<Bytes>>;

/// The caller of requests by the folder's socket, in the log.
const BY_SOCKET: &str = "socket";

/// Runs requests in their own tasks, so that a client that disconnects does not cancel its request.
struct Requests {
    door: Door,
    process: Arc<Process>,
    stopping: Stopping,
    under_way: Mutex<JoinSet<()>>,
}

/// The pause after a failed accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Accepts connections of one kind.
pub(crate) trait Accept {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Accepts a connection. Returns it with the address of its other end; `None` by a socket.
    async fn next(&self) -> io::Result<(Self::Stream, Option<IpAddr>)>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        let (stream, peer) = self.accept().await?;
        let _ = stream.set_nodelay(true);
        Ok((stream, Some(peer.ip())))
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Option<IpAddr>)> {
        Ok((self.accept().await?.0, None))
    }
}

/// Accepts connections and answers their requests. Once the process stops, accepts no more, and finishes the
/// requests that have begun.
pub(crate) async fn serve(
    (listener, door): (impl Accept, Door),
    tls: Option<TlsAcceptor>,
    process: Arc<Process>,
    clients: Arc<Clients>,
    stopping: Stopping,
) {
    let requests = Arc::new(Requests { door, process, stopping, under_way: Mutex::default() });
    // Both are dropped with this task, which ends all connections and requests.
    let mut connections = JoinSet::new();
    let told = Seldom::default();
    let next = async || {
        let accepted = listener.next().await?;
        io::Result::Ok((accepted, clients.place().await))
    };
    while let Some(accepted) = requests.stopping.unless(next()).await {
        match accepted {
            Ok(((stream, peer), place)) => {
                let from = From { place, peer };
                let stream = Impatient::new(stream);
                connections.spawn(connect(stream, from, tls.clone(), Arc::clone(&requests)));
            }
            // A failed accept is one client's problem; the pause keeps a lasting one from spinning.
            Err(error) => {
                if told.is_due() {
                    tracing::warn!(%error, "a connection of a client is not accepted");
                }
                sleep(ACCEPT_AGAIN).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    // Those whose clients have left.
    let mut under_way =
        std::mem::take(&mut *requests.under_way.lock().expect("no panic while held"));
    while under_way.join_next().await.is_some() {}
}

/// A client's connection.
struct From {
    place: Place,
    peer: Option<IpAddr>,
}

/// Serves a connection until it ends, or its place is wanted while it has no request.
async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: Impatient<S>,
    from: From,
    tls: Option<TlsAcceptor>,
    requests: Arc<Requests>,
) {
    tokio::select! {
        biased;
        () = begin(stream, &from, tls, &requests) => {}
        () = from.place.is_wanted() => {}
    }
}

async fn begin<S: AsyncRead + AsyncWrite + Unpin>(
    stream: Impatient<S>,
    from: &From,
    tls: Option<TlsAcceptor>,
    requests: &Requests,
) {
    let Some(tls) = tls else { return converse(stream, from, requests).await };
    let begun = timeout(TLS_BEGINS_WITHIN, tls.accept(stream));
    // A client that does not trust the CA disconnects here.
    if let Some(Ok(Ok(stream))) = requests.stopping.unless(begun).await {
        converse(stream, from, requests).await;
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, from: &From, requests: &Requests) {
    let service =
        service_fn(async |request| Ok::<_, Infallible>(answer(requests, from, request).await));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    // A client that disconnects during a request is no error.
    if requests.stopping.unless(connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => {}
            () = from.place.has_no_request_for(PARTING) => {}
        }
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Publish,
    Manage,
    Tokens,
    Alive,
    Ready,
    Metrics,
    Counts,
}

/// Returns the purpose of a request, if there is such a thing at a door.
fn purpose(offer: Offer, method: &Method, path: &str) -> Option<Purpose> {
    let is_of = |offers: &[Offer]| offers.contains(&offer);
    match (method, path) {
        (&Method::GET, health::ALIVE) => Some(Purpose::Alive),
        (&Method::GET, health::READY) => Some(Purpose::Ready),
        (&Method::GET, health::METRICS) => (!is_of(&[Offer::Publish])).then_some(Purpose::Metrics),
        (&Method::GET, COUNTS) if is_of(&[Offer::Both]) => Some(Purpose::Counts),
        (_, path) if path.starts_with(tokens::PATH) => {
            is_of(&[Offer::Socket]).then_some(Purpose::Tokens)
        }
        (method, path) if is_publish(method, path) => {
            is_of(&[Offer::Both, Offer::Publish]).then_some(Purpose::Publish)
        }
        (_, path) => (!is_of(&[Offer::Publish]) || is_validation(path)).then_some(Purpose::Manage),
    }
}

/// Whether a path is that of a validation URL, which has a token of its own: endpoints' owners open it.
fn is_validation(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    matches!(parts[..], ["", "topics", _, "eventSubscriptions", _, "validate"])
}

async fn answer(requests: &Requests, from: &From, request: hyper::Request<Incoming>) -> Reply {
    from.place.hear();
    let Requests { process, door, .. } = requests;
    let (parts, body) = request.into_parts();
    if let Err(refusal) = door.refuse(from.peer, &parts.headers, &parts.uri) {
        discard(body).await;
        return message(StatusCode::FORBIDDEN, refusal);
    }
    let mut request = gateway_request(&parts.method, &parts.uri, &parts.headers);
    let Some(purpose) = purpose(door.offer, &request.method, &request.path) else {
        discard(body).await;
        return message(StatusCode::NOT_FOUND, "Not Found");
    };
    let mut admitted = None;
    match purpose {
        Purpose::Alive => return text(StatusCode::OK, "alive\n".to_owned()),
        Purpose::Ready => {
            return match health::ready(&process.store, &process.readiness).await {
                Ok(()) => text(StatusCode::OK, "ready\n".to_owned()),
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
            };
        }
        Purpose::Counts => {
            let (now, speed) = (process.clock.now(), process.clock.speed().times());
            return reply(StatusCode::OK, process.counts.document(now, speed).to_string());
        }
        // The key comes first: a client without one may not fill the memory.
        Purpose::Publish => match admit(&process.ingest, &request).await {
            Ok(is_admitted) => match process.store.may_publish() {
                Ok(()) => admitted = Some(is_admitted),
                Err(no_room) => {
                    discard(body).await;
                    return refuse_for_now(&process.ingest, &request, no_room).map(Full::from);
                }
            },
            Err(refusal) => {
                discard(body).await;
                return refusal.map(Full::from);
            }
        },
        Purpose::Manage | Purpose::Tokens | Purpose::Metrics => {
            let is_open = match purpose {
                Purpose::Manage => is_validation(&request.path),
                // Programs on this machine, but not a proxy for others.
                Purpose::Metrics => {
                    from.peer.is_none_or(|peer| peer.to_canonical().is_loopback())
                        && !is_forwarded(&parts.headers)
                }
                _ => false,
            };
            match (caller(process, door.offer, &parts.headers), is_open) {
                (Some((name, grant)), _) => {
                    request.caller = Some(name);
                    request.authorizer = Some(Authorizer::Token(grant));
                }
                (None, true) => {}
                (None, false) if door.offer == Offer::Both => {}
                (None, false) => {
                    discard(body).await;
                    return without_token();
                }
            }
            if purpose == Purpose::Metrics {
                return match &request.authorizer {
                    Some(Authorizer::Token(grant)) if !grant.topics.is_whole() => message(
                        StatusCode::FORBIDDEN,
                        "metrics are of all topics, and the token is not",
                    ),
                    _ => metrics(process).await,
                };
            }
        }
    }
    let read = timeout(BODY_WITHIN, Limited::new(body, BODY_BYTES_MAX).collect());
    let body = match read.await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return message(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
        }
        Ok(Err(_)) => return message(StatusCode::BAD_REQUEST, "Bad Request"),
        Err(_) => return message(StatusCode::REQUEST_TIMEOUT, "Request Timeout"),
    };
    if purpose == Purpose::Tokens {
        let rest = request.path.strip_prefix(tokens::PATH).unwrap_or_default();
        let with = (process.clock.now(), &SystemDice as &dyn Dice);
        let (status, document) = process.tokens.answer((&request.method, rest), &body, with).await;
        return reply(status, document.to_string());
    }
    let sees_all = match &request.authorizer {
        Some(Authorizer::Token(grant)) => grant.topics.is_whole(),
        _ => door.offer == Offer::Both,
    };
    let operation = emulated::operation(&parts.method, &parts.uri, &parts.headers);
    if let Some(operation) = operation.filter(|_| sees_all) {
        let answered = emulated::answer(&process.store, operation, &body).await;
        let (status, document) = answered;
        return reply(status, document.to_string());
    }
    request.body = body.into();
    from.place.answering(requests.start(request, admitted)).await.unwrap_or_else(|_| {
        tracing::error!("a request panicked");
        message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
    })
}

async fn metrics(process: &Process) -> Reply {
    let now = process.clock.now();
    match totals::exposition(&process.totals, &process.store, now).await {
        Ok(exposition) => text(StatusCode::OK, exposition),
        Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

/// Returns the name of who sends a request of the manage API, and what that one may do.
fn caller(process: &Process, offer: Offer, headers: &HeaderMap) -> Option<(String, Grant)> {
    match offer {
        Offer::Both | Offer::Publish => None,
        Offer::Socket => {
            let grant = Grant { role: Role::Admin, topics: Scope::default() };
            Some((BY_SOCKET.to_owned(), grant))
        }
        Offer::Manage => {
            let token = process.tokens.bearer(headers)?;
            let grant = Grant { role: token.role, topics: token.topics.clone() };
            Some((token.name.clone(), grant))
        }
    }
}

/// Refuses a request without a token that is known.
fn without_token() -> Reply {
    let why = "The request has no token, or one that is revoked: send Authorization: Bearer with one that \
               `gridpost token create` has printed.";
    let refusal = json!(Error::new(ErrorCode::Unauthorized, why));
    let mut reply = reply(StatusCode::UNAUTHORIZED, refusal.to_string());
    let scheme = HeaderValue::from_static("Bearer realm=\"gridpost\"");
    reply.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    reply
}

/// Reads what a client still sends, up to a limit, and keeps nothing.
async fn discard(body: Incoming) {
    let mut body = Limited::new(body, REFUSED_BYTES_MAX);
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = timeout(REFUSED_WITHIN, rest).await;
}

impl Requests {
    /// Starts a request, which continues even if the receiver is dropped.
    fn start(&self, request: Request, admitted: Option<Admitted>) -> oneshot::Receiver<Reply> {
        let (process, (replies, reply)) = (Arc::clone(&self.process), oneshot::channel());
        let mut under_way = self.under_way.lock().expect("no panic while held");
        while under_way.try_join_next().is_some() {}
        under_way.spawn(async move {
            let _ = replies.send(match admitted {
                Some(admitted) => publish(&process, request, admitted).await,
                None => managed(&process, request).await,
            });
        });
        reply
    }
}

/// Makes the request that functions read from API Gateway's event, without a route, like a function URL's, and
/// without its body. Headers of a publish stay apart, because repeated ones are refused.
fn gateway_request(method: &Method, uri: &Uri, headers: &HeaderMap) -> Request {
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
        body: Vec::new(),
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

async fn publish(process: &Process, request: Request, admitted: Admitted) -> Reply {
    let answered = handle_admitted(&process.ingest, &request, admitted).await;
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

/// Answers with a text.
fn text(status: StatusCode, text: String) -> Reply {
    let mut reply = reply(status, text);
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply.headers_mut().insert(header::CONTENT_TYPE, plain);
    reply
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
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::Instant,
    };

    use super::*;
    use crate::{Connections, Options, Server};

    /// Sends the beginning of a request, and returns what comes before the connection ends, and when.
    async fn begun(request: &str) -> (String, Duration) {
        let dev = Server::start(Options::default()).await.expect("it starts");
        let mut stream = TcpStream::connect(dev.address()).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("written");
        let (began, mut answer) = (Instant::now(), Vec::new());
        stream.read_to_end(&mut answer).await.expect("an end");
        let took = began.elapsed();
        dev.stop().await;
        (String::from_utf8(answer).expect("a text"), took)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stalls_is_not_waited_for() {
        let publish = "POST /topics/orders/api/events HTTP/1.1\r\nhost: localhost\r\n";
        let put = "PUT /topics/orders HTTP/1.1\r\nhost: localhost\r\n";
        let table = [
            ("nothing", String::new(), "", HEAD_WITHIN),
            ("half a head", publish.to_owned(), "", HEAD_WITHIN),
            ("half a body", format!("{put}content-length: 9\r\n\r\n{{"), "408 ", BODY_WITHIN),
            (
                "no key, and a body that is to come",
                format!("{publish}content-length: 9000000\r\n\r\n["),
                "401 ",
                REFUSED_WITHIN,
            ),
        ];
        for (row, request, status, within) in table {
            let (answer, took) = begun(&request).await;
            let shown = answer.strip_prefix("HTTP/1.1 ").unwrap_or(&answer);
            assert!(
                shown.starts_with(status) && answer.is_empty() == status.is_empty(),
                "{row}: {answer}"
            );
            let slack = Duration::from_secs(1);
            assert!((within..=within + slack).contains(&took), "{row}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stalls_holds_up_no_end() {
        let half_a_body =
            "PUT /topics/orders HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
        for request in ["", "POST /topics/orders/api/ev", half_a_body] {
            let dev = Server::start(Options::default()).await.expect("it starts");
            let mut stream = TcpStream::connect(dev.address()).await.expect("a connection");
            stream.write_all(request.as_bytes()).await.expect("written");
            sleep(Duration::from_secs(1)).await;
            let began = Instant::now();
            assert!(dev.drain(Duration::from_secs(35)).await, "{request}");
            assert!(began.elapsed() <= 2 * PARTING, "{request}: {:?}", began.elapsed());
            dev.stop().await;
        }
    }

    /// Clients that begin a request and send nothing more.
    #[tokio::test(start_paused = true)]
    async fn half_requests_keep_no_client_out_and_are_closed() {
        const HALVES: usize = 40;
        // With room for all of them, and for a few.
        for clients in [2 * HALVES, 4] {
            let connections = Connections { clients, ..Options::default().connections };
            let options = Options { connections, ..Options::default() };
            let dev = Server::start(options).await.expect("it starts");
            let half = async || {
                let mut stream = TcpStream::connect(dev.address()).await.expect("a connection");
                stream.write_all(b"POST /topics/orders/api/ev").await.expect("written");
                stream
            };
            let mut halves = Vec::new();
            for _ in 0..HALVES {
                halves.push(half().await);
            }
            let mut client = TcpStream::connect(dev.address()).await.expect("a connection");
            for _ in 0..3 {
                let counts = format!("GET {COUNTS} HTTP/1.1\r\nhost: localhost\r\n\r\n");
                client.write_all(counts.as_bytes()).await.expect("written");
                let (began, mut answer) = (Instant::now(), vec![0; 1_000]);
                let read = client.read(&mut answer).await.expect("an answer");
                assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "{clients}");
                assert!(began.elapsed() < Duration::from_secs(1), "{clients}");
            }
            for mut half in halves {
                // Closed or reset.
                let _ = half.read_to_end(&mut Vec::new()).await;
            }
            dev.stop().await;
        }
    }

    /// Operations of operators are not offered where anyone may connect.
    #[test]
    fn a_door_has_what_it_offers_and_nothing_else() {
        use Offer::{Both, Manage, Publish, Socket};
        const ALL: [Offer; 4] = [Both, Publish, Manage, Socket];
        let validate = "/topics/orders/eventSubscriptions/billing/validate";
        let table: [(&str, &str, &[Offer]); 13] = [
            ("POST", "/topics/orders/api/events", &[Both, Publish]),
            ("POST", "/topics/orders:publish", &[Both, Publish]),
            ("GET", validate, &ALL),
            ("POST", validate, &ALL),
            ("GET", "/topics", &[Both, Manage, Socket]),
            ("PUT", "/topics/orders", &[Both, Manage, Socket]),
            ("POST", "/topics/orders/listKeys", &[Both, Manage, Socket]),
            ("GET", "/topics/orders/eventSubscriptions/billing", &[Both, Manage, Socket]),
            ("GET", "/livez", &ALL),
            ("GET", "/readyz", &ALL),
            ("GET", "/metrics", &[Both, Manage, Socket]),
            ("GET", "/tokens", &[Socket]),
            ("POST", "/tokens", &[Socket]),
        ];
        for (method, path, offers) in table {
            let method: Method = method.parse().expect("a method");
            for offer in ALL {
                let is_there = purpose(offer, &method, path).is_some();
                assert_eq!(is_there, offers.contains(&offer), "{method} {path} at {offer:?}");
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
