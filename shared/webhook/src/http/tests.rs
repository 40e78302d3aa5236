mod hostile;

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;
use crate::sockets::{LOOK_AGAIN, PLACE_WAIT, Place};
use gridpost_core::delivery::request::Request;
use gridpost_ports::{Attempted, EndpointClient};
use gridpost_runtime::system::SystemClock;

fn client() -> HttpClient {
    client_of(OPEN_MAX)
}

fn client_of(connections: usize) -> HttpClient {
    let networks = "127.0.0.0/8".parse().expect("a network");
    let allowed = Allowed { networks, ..Allowed::default() };
    let client = HttpClient::with_connections(connections, allowed, Arc::new(SystemClock));
    client.expect("trusted certificates")
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

/// A request without anything that is not asked for.
fn request_to(url: &str) -> Request {
    Request {
        url: Secret::new(url),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: b"[]".to_vec(),
        authentication: None,
        reads_results: false,
    }
}

async fn outcome(url: &str) -> Answer {
    let headers = vec![("aeg-event-type", "Notification".to_owned())];
    let attributes = vec![("X-Own".to_owned(), Secret::new("v"))];
    let request = Request { headers, attributes, ..request_to(url) };
    match client().attempt(request).await {
        Attempted::Answered { answer, .. } => answer,
        Attempted::TimedOut { .. } => Answer::without_status(Outcome::TimedOut),
        Attempted::NotMade => panic!("there are descriptors"),
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

/// As Node's server does after five idle seconds: what is sent then is answered with a reset.
#[tokio::test]
async fn a_kept_connection_that_its_receiver_resets_costs_no_attempt() {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let served = tokio::spawn(async move {
        let mut some = [0; 4_096];
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let read = stream.read(&mut some).await.expect("a request");
            assert!(read > 0, "a request");
            stream.write_all(OK).await.expect("still connected");
            // The next request arrives and is not read: closing resets the connection.
            stream.readable().await.expect("a request");
        }
    });
    let client = client();
    for _ in 0..2 {
        let request = Request { body: vec![b'x'; 2_000], ..request_to(&url) };
        let Attempted::Answered { answer, .. } = client.attempt(request).await else {
            panic!("it is answered at once");
        };
        assert_eq!(answer.outcome, Outcome::Delivered);
    }
    drop(client);
    served.await.expect("two connections");
}

/// Each connection is accepted and answered for as long as it lives; says how many there were.
async fn serve_all() -> (String, Arc<AtomicUsize>) {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let accepted = Arc::new(AtomicUsize::default());
    let counted = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut some = [0; 4_096];
                while stream.read(&mut some).await.is_ok_and(|read| read > 0) {
                    stream.write_all(OK).await.expect("still connected");
                }
            });
        }
    });
    (url, accepted)
}

/// Takes so many places for other hosts.
fn others(open: &OpenSockets, count: usize) -> Vec<Place> {
    (0..count).map(|host| open.take(&format!("other-{host}")).expect("free")).collect()
}

/// Connections to any number of hosts would use up a function's file descriptors.
#[tokio::test]
async fn idle_connections_are_closed_when_many_are_open() {
    let (url, accepted) = serve_all().await;
    let client = client_of(8);
    let open = client.0.plain.open.clone();
    let attempt = async || {
        let attempted = client.attempt(request_to(&url)).await;
        assert!(matches!(attempted, Attempted::Answered { .. }));
        accepted.load(Ordering::Relaxed)
    };
    assert_eq!([attempt().await, attempt().await], [1, 1], "it is kept");
    assert_eq!(open.count(), 1);
    let others = others(&open, 6);
    assert_eq!(attempt().await, 2, "another one");
    let closed = async {
        while open.count() > others.len() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.expect("both are closed");
    drop(others);
    assert_eq!([attempt().await, attempt().await], [3, 3], "it is kept again");
}

/// A new one for every other request would cost a handshake, and in the end the machine's ports.
#[tokio::test]
async fn a_host_with_many_requests_at_once_keeps_its_connections() {
    const AT_ONCE: usize = 64;
    let (url, accepted) = serve_all().await;
    let client = client();
    for _ in 0..20 {
        let attempts = (0..AT_ONCE).map(|_| client.attempt(request_to(&url)));
        for attempted in join_all(attempts).await {
            assert!(matches!(attempted, Attempted::Answered { .. }));
        }
    }
    let accepted = accepted.load(Ordering::Relaxed);
    assert!(accepted < 2 * AT_ONCE, "{accepted} connections for {} requests", 20 * AT_ONCE);
}

#[tokio::test]
async fn none_of_the_last_places_is_kept() {
    let (url, accepted) = serve_all().await;
    let client = client_of(16);
    let attempt = async || {
        let attempted = client.attempt(request_to(&url)).await;
        assert!(matches!(attempted, Attempted::Answered { .. }));
        accepted.load(Ordering::Relaxed)
    };
    let mut others = others(&client.0.plain.open, 14);
    assert_eq!([attempt().await, attempt().await], [1, 2], "one of the last eighth");
    others.truncate(12);
    assert_eq!([attempt().await, attempt().await], [3, 3], "it is kept");
}

#[tokio::test]
async fn a_host_beside_one_that_hangs_keeps_its_connections() {
    let (url, accepted) = serve_all().await;
    let client = client_of(16);
    let open = &client.0.plain.open;
    let hanging: Vec<_> = std::iter::from_fn(|| open.take("hanging")).collect();
    assert_eq!(hanging.len(), 8);
    for _ in 0..20 {
        let attempted = client.attempt(request_to(&url)).await;
        assert!(matches!(attempted, Attempted::Answered { .. }));
    }
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

/// A lack of places fails no attempt, and is no other endpoint's lack.
#[tokio::test]
async fn a_host_that_hangs_leaves_places_for_others() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hanging = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let (url, _) = serve_all().await;
    let client = client_of(8);
    let attempts: Vec<_> = (0..20)
        .map(|_| {
            let (client, request) = (client.clone(), request_to(&hanging));
            tokio::spawn(async move { client.attempt(request).await })
        })
        .collect();
    let began = Instant::now();
    while client.0.plain.open.count() < 4 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        let attempted = client.attempt(request_to(&url)).await;
        assert!(
            matches!(attempted, Attempted::Answered { answer, .. } if answer.status == Some(200))
        );
    }
    assert!(began.elapsed() < PLACE_WAIT, "{:?}", began.elapsed());
    let mut not_made = 0;
    // The first ones hang.
    for attempt in attempts.into_iter().rev() {
        if let Ok(attempted) = timeout(2 * PLACE_WAIT, attempt).await {
            assert!(matches!(attempted.expect("no panic"), Attempted::NotMade));
            not_made += 1;
        }
        if not_made == 16 {
            return;
        }
    }
    panic!("{not_made} of 16 have found that there is no place");
}

#[tokio::test]
async fn idle_connections_to_a_host_leave_places_for_new_ones() {
    let (url, _) = serve_all().await;
    let client = client_of(8);
    join_all((0..4).map(|_| client.attempt(request_to(&url)))).await;
    assert_eq!(client.0.plain.open.count(), 4);
    let request = client.build(Method::POST, &Secret::new(url), &[], &[], Vec::new());
    let sent = client.send_anew(request.expect("allowed")).await;
    assert_eq!(sent.map(|response| response.status().as_u16()).ok(), Some(200));
}

/// The endpoint is not to blame.
#[tokio::test]
async fn without_a_place_no_probe_and_no_handshake_is_made() {
    let (url, _) = serve_all().await;
    let client = client_of(1);
    let _other = others(&client.0.plain.open, 1);
    let until = Instant::now() + 2 * PLACE_WAIT;
    let request = HandshakeRequest {
        method: Method::OPTIONS,
        url: Secret::new(url.as_str()),
        headers: Vec::new(),
        attributes: Vec::new(),
        body: Vec::new(),
        authentication: None,
        is_sent_once: false,
        wait: 2 * PLACE_WAIT,
    };
    let (probed, asked) =
        futures::join!(client.probe(request_to(&url), until), client.exchange(request));
    assert!(matches!(probed.attempted, Attempted::NotMade));
    assert_eq!(asked.map(|answered| answered.status), Err(HandshakeError::NotMade));
}

#[tokio::test]
async fn the_wait_for_a_place_is_told() {
    const LACK: Duration = Duration::from_millis(300);
    let (url, _) = serve_all().await;
    let client = client_of(2);
    let others = others(&client.0.plain.open, 2);
    let waits = gridpost_ports::PlaceWait::default();
    let freed = async {
        tokio::time::sleep(LACK).await;
        drop(others);
    };
    let (attempted, ()) = futures::join!(waits.of(client.attempt(request_to(&url))), freed);
    assert!(matches!(attempted, Attempted::Answered { .. }));
    let waited = waits.so_far();
    assert!(waited >= LACK - LOOK_AGAIN && waited < PLACE_WAIT, "{waited:?}");
    tokio::time::sleep(LOOK_AGAIN).await;
    assert_eq!(waits.so_far(), waited, "it is over");
}

/// A request that waits for a place and finds another's connection meanwhile makes none afterwards.
#[tokio::test]
async fn requests_beyond_their_places_share_connections() {
    const KEPT: usize = 4;
    let (url, accepted) = serve_all().await;
    let client = client_of(4 * KEPT);
    let attempts = async |count: usize| {
        let attempts = (0..count).map(|_| client.attempt(request_to(&url)));
        for attempted in join_all(attempts).await {
            assert!(matches!(attempted, Attempted::Answered { .. }));
        }
    };
    attempts(KEPT).await;
    let others = others(&client.0.plain.open, 2 * KEPT);
    attempts(100 * KEPT).await;
    drop(others);
    tokio::time::sleep(10 * LOOK_AGAIN).await;
    assert_eq!(accepted.load(Ordering::Relaxed), KEPT);
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

#[tokio::test]
async fn the_first_bytes_of_a_failed_response_are_kept_where_that_is_asked_for() {
    const REFUSED: &[u8] = b"HTTP/1.1 400 No\r\ncontent-length: 19\r\n\r\nno such\n order 4711";
    const SLOW: &[u8] = b"HTTP/1.1 503 No\r\ncontent-length: 1000\r\n\r\nbegun";
    const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthank";
    const EMPTY: &[u8] = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n";
    const ECHO: &[u8] = b"HTTP/1.1 401 No\r\ncontent-length: 23\r\n\r\nsecret-token is no good";
    // Bytes to keep, what is answered, the status, what is kept of it.
    let table: [(&str, &'static [u8], u16, Option<&str>); 7] = [
        ("0", REFUSED, 400, None),
        ("1024", REFUSED, 400, Some("no such\\n order 4711")),
        ("12", REFUSED, 400, Some("no such\\n or")),
        ("1024", SLOW, 503, Some("begun")),
        ("1024", TAKEN, 200, None),
        ("1024", EMPTY, 500, None),
        ("1024", ECHO, 401, Some("[hidden] is no good")),
    ];
    for (kept, answer, status, want) in table {
        let (url, _served) = serve_once(answer).await;
        let client = client().keeping(kept.parse().expect("a number of bytes"));
        let attributes = vec![("authorization".to_owned(), Secret::new("Bearer secret-token"))];
        let request = Request { attributes, ..request_to(&url) };
        let Attempted::Answered { answer, response_text, .. } = client.attempt(request).await
        else {
            panic!("{status} is answered at once");
        };
        assert_eq!((answer.status, response_text.as_deref()), (Some(status), want), "{kept}");
    }
}

#[tokio::test]
async fn bodies_that_name_events_are_read_within_bounds() {
    const NAMED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"results\":[]}";
    const BROKEN_OFF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"results\":[]}";
    const NOTHING: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
    const REFUSED: &[u8] = b"HTTP/1.1 400 No\r\ncontent-length: 2\r\n\r\n{}";
    let long = |bytes: usize| -> &'static [u8] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
        [head.into_bytes(), vec![b' '; bytes]].concat().leak()
    };
    const NAMED_BODY: &str = "{\"results\":[]}";
    let encoded = |coding: &str, body: &str| -> &'static [u8] {
        let length = body.len();
        let head = format!("content-encoding: {coding}\r\ncontent-length: {length}");
        format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").into_bytes().leak()
    };
    // Whether it is asked for, what is answered, how many bytes are read and whether they are all.
    let table = [
        (true, NAMED, Some((14, true))),
        (false, NAMED, None),
        (true, BROKEN_OFF, Some((14, false))),
        (true, NOTHING, Some((0, true))),
        (true, REFUSED, None),
        (true, long(65_536), Some((65_536, true))),
        (true, long(65_537), Some((65_536, false))),
        // What is encoded is not read, whatever it looks like; nothing is nothing in any encoding.
        (true, encoded("gzip", NAMED_BODY), Some((0, false))),
        (true, encoded("identity, br", NAMED_BODY), Some((0, false))),
        (true, encoded("Identity", NAMED_BODY), Some((14, true))),
        (true, encoded("", NAMED_BODY), Some((14, true))),
        (true, encoded("gzip", ""), Some((0, true))),
        (false, encoded("gzip", NAMED_BODY), None),
    ];
    for (row, (reads_results, answer, want)) in table.into_iter().enumerate() {
        let (url, _served) = serve_once(answer).await;
        let request = Request { reads_results, ..request_to(&url) };
        let Attempted::Answered { body, .. } = client().attempt(request).await else {
            panic!("it is answered at once");
        };
        let read = body.map(|body| (body.bytes.len(), body.is_whole));
        assert_eq!(read, want, "row {row}");
    }
}

#[tokio::test]
async fn a_probe_keeps_no_secret_that_is_repeated() {
    const ECHO: &[u8] = b"HTTP/1.1 401 No\r\ncontent-length: 23\r\n\r\nsecret-token is no good";
    let (url, _served) = serve_once(ECHO).await;
    let attributes = vec![("authorization".to_owned(), Secret::new("Bearer secret-token"))];
    let request = Request { attributes, ..request_to(&url) };
    let until = Instant::now() + Duration::from_secs(26);
    let probed = client().keeping(ResponseBytes::MAX).probe(request, until).await;
    let Attempted::Answered { response_text, .. } = probed.attempted else { panic!("answered") };
    assert_eq!(response_text.as_deref(), Some("[hidden] is no good"));
}
