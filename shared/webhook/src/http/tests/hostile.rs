//! Misbehaving endpoints, in virtual time: what each costs, and that no limit turns a success into
//! a failure.

use std::sync::{Mutex, atomic::Ordering};

use tokio::time::{Instant, sleep};

use crate::http::*;
use gridpost_core::{
    delivery::request::Request,
    retry::outcome::{LATE_RESPONSE_WAIT, RESPONSE_WAIT},
};
use gridpost_ports::EndpointClient;
use wire::{Identity, Net, Step, Transport, attempt, client, send};

mod handshake;
mod http2;
mod probe;
mod rebinding;
mod stale;
mod tls;
mod wire;

const PLAIN: &str = "http://10.0.0.1/hook";

/// How much may be read beyond a connection's budget: one buffer of each layer.
const SLACK_BYTES: usize = 64 * 1024;
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn status(status: u16) -> Answer {
    Answer::of_status(status, None)
}

fn outcome(outcome: Outcome) -> Answer {
    Answer::without_status(outcome)
}

/// How an attempt ends.
#[derive(Clone, Debug, PartialEq)]
enum Ends {
    With(Answer),
    /// After 30 s, and with this late answer.
    Late(Option<Answer>),
}

/// Plays the script to one attempt, and checks its end, its time and what it read.
async fn check(
    row: &str,
    net: Net,
    trusted: Option<&Identity>,
    url: &str,
    body: usize,
    want: Ends,
) {
    let net = Arc::new(net);
    let client = client(&net, trusted);
    let began = Instant::now();
    let (answer, late) = attempt(&client, url, body).await;
    let took = began.elapsed();
    let (found, within) = match &want {
        Ends::Late(_) => {
            assert_eq!(answer, outcome(Outcome::TimedOut), "{row}");
            (Ends::Late(late), LATE_RESPONSE_WAIT)
        }
        Ends::With(_) => (Ends::With(answer), crate::connect::CONNECT_WAIT),
    };
    assert_eq!(found, want, "{row}");
    assert!(took <= within, "{row} took {took:?}");
    // Only the body may go on, read in the background for this long.
    sleep(body::BODY_WAIT).await;
    let read = net.read_bytes.load(Ordering::Relaxed);
    assert!(
        read <= crate::metered_stream::EXCHANGE_BYTES_MAX + SLACK_BYTES,
        "{row} read {read} bytes"
    );
    drop(client);
    sleep(Duration::from_secs(5)).await;
    let (ended, dialled) = (net.ended.load(Ordering::Relaxed), net.dialled().len());
    assert_eq!(ended, dialled, "{row} left a connection behind");
}

fn head(rest: &str) -> Step {
    send(format!("HTTP/1.1 200 OK\r\n{rest}"))
}

fn many_headers(count: usize) -> Step {
    let headers: String = (0..count).map(|n| format!("x-{n}: y\r\n")).collect();
    head(&format!("{headers}content-length: 0\r\n\r\n"))
}

/// (what the receiver does once a request arrives, the steps, the end)
fn rows() -> Vec<(&'static str, Vec<Step>, Ends)> {
    use Step::{Drip, EndWrites, Forever, Hang};
    let with = |code| Ends::With(status(code));
    let broken = || Ends::With(outcome(Outcome::SocketError));
    let zeros = || Forever(vec![0; 8_192]);
    let slow = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let slower: &[u8] = &[b'a'; 300];
    vec![
        ("answers", vec![send(OK)], with(200)),
        ("is silent", vec![Hang], Ends::Late(None)),
        ("sends a head of 38 s", vec![Drip(slow), Hang], Ends::Late(Some(status(200)))),
        ("sends a head of 300 s", vec![head("x: "), Drip(slower), Hang], Ends::Late(None)),
        (
            "sends an endless body",
            vec![head("content-length: 9999999999999\r\n\r\n"), zeros()],
            with(200),
        ),
        ("sends a body without end or length", vec![head("\r\n"), zeros()], with(200)),
        (
            "sends chunks for ever",
            vec![head("transfer-encoding: chunked\r\n\r\n"), Forever(b"1\r\na\r\n".to_vec())],
            with(200),
        ),
        (
            "sends a chunk extension for ever",
            vec![head("transfer-encoding: chunked\r\n\r\n1;"), zeros()],
            with(200),
        ),
        (
            "sends trailers for ever",
            vec![head("transfer-encoding: chunked\r\n\r\n0\r\n"), Forever(b"x: y\r\n".to_vec())],
            with(200),
        ),
        (
            "sends a gzip bomb",
            vec![head("content-encoding: gzip\r\ncontent-length: 9999999\r\n\r\n\x1f"), zeros()],
            with(200),
        ),
        (
            "sends a body a byte a second",
            vec![head("content-length: 300\r\n\r\n"), Drip(slower)],
            with(200),
        ),
        ("breaks the body off", vec![head("content-length: 100\r\n\r\nabc")], with(200)),
        (
            "breaks chunks",
            vec![head("transfer-encoding: chunked\r\n\r\nnonsense\r\n"), Hang],
            with(200),
        ),
        ("closes", vec![], broken()),
        ("closes in the head", vec![head("content-le")], broken()),
        ("closes its half", vec![EndWrites, Hang], broken()),
        ("says 100 first", vec![send("HTTP/1.1 100 Continue\r\n\r\n"), send(OK)], with(200)),
        (
            "says 103 first, thrice",
            vec![send("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(3)), send(OK)],
            with(200),
        ),
        (
            "says 100 and no more",
            vec![send("HTTP/1.1 100 Continue\r\n\r\n"), Hang],
            Ends::Late(None),
        ),
        (
            "says 100 for ever",
            vec![Forever(b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100))],
            broken(),
        ),
        (
            "says 103 for ever",
            vec![Forever(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(100))],
            broken(),
        ),
        ("sends a header without end", vec![head("x: "), Forever(vec![b'a'; 8_192])], with(200)),
        (
            "is busy, with a header without end",
            vec![send("HTTP/1.1 503 Busy\r\nx: "), Forever(vec![b'a'; 8_192])],
            with(503),
        ),
        ("sends headers for ever", vec![head(""), Forever(b"x: y\r\n".repeat(100))], with(200)),
        ("sends 256 headers", vec![many_headers(HEADERS_MAX - 1)], with(200)),
        ("sends 300 headers", vec![many_headers(300)], with(200)),
        (
            "sends a status line without end",
            vec![send("HTTP/1.1 200 "), Forever(vec![b'a'; 8_192])],
            with(200),
        ),
        ("sends letters without end", vec![Forever(vec![b'a'; 8_192])], broken()),
        ("sends empty lines without end", vec![Forever(b"\r\n".repeat(4_096))], broken()),
        (
            "has two lengths",
            vec![head("content-length: 1\r\ncontent-length: 2\r\n\r\na")],
            broken(),
        ),
        ("speaks another protocol", vec![send("220 mail.example ESMTP\r\n"), Hang], broken()),
        (
            "speaks HTTP/2 unasked",
            vec![send(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec()), Hang],
            broken(),
        ),
        (
            "sends elsewhere",
            vec![send(
                "HTTP/1.1 302 Found\r\nlocation: http://10.0.0.2/\r\ncontent-length: 0\r\n\r\n",
            )],
            with(302),
        ),
        ("answers twice", vec![send(OK.repeat(2)), Hang], with(200)),
    ]
}

#[tokio::test(start_paused = true)]
async fn hostile_receivers_cost_little_and_make_no_failure_of_a_success() {
    for (row, mut steps, want) in rows() {
        steps.insert(0, Step::Requests(1));
        let net = Net::new(Transport::Plain, vec![steps]);
        check(row, net, None, PLAIN, 2, want).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_before_the_body_is_read_counts() {
    for code in [200, 413] {
        let answer =
            format!("HTTP/1.1 {code} Early\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        // The receiver reads a first part of a megabyte, answers, and reads no more.
        let net =
            Net::new(Transport::Plain, vec![vec![Step::Requests(1), send(answer), Step::Hang]]);
        check("early", net, None, PLAIN, 1024 * 1024, Ends::With(status(code))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_while_idle_costs_no_attempt() {
    let first = vec![Step::Requests(1), send(OK)];
    let net = Arc::new(Net::new(
        Transport::Plain,
        vec![first, vec![Step::Requests(1), send(OK), Step::Hang]],
    ));
    let client = client(&net, None);
    for _ in 0..3 {
        assert_eq!(attempt(&client, PLAIN, 2).await.0, status(200));
        sleep(Duration::from_secs(1)).await;
        if net.dialled().len() == 2 {
            break;
        }
    }
    assert_eq!((net.dialled().len(), net.requests.load(Ordering::Relaxed)), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn nobody_need_listen_for_a_late_response_to_end() {
    let net = Arc::new(Net::new(Transport::Plain, vec![vec![Step::Hang]]));
    let client = client(&net, None);
    let (url, body) = (Secret::new(PLAIN), b"[]".to_vec());
    let request = Request {
        url,
        headers: Vec::new(),
        attributes: Vec::new(),
        body,
        authentication: None,
        reads_results: false,
    };
    let began = Instant::now();
    drop(client.attempt(request).await);
    assert_eq!(began.elapsed(), RESPONSE_WAIT);
    assert_eq!(net.ended.load(Ordering::Relaxed), 0);
    sleep(LATE_RESPONSE_WAIT - RESPONSE_WAIT + Duration::from_secs(1)).await;
    assert_eq!(net.ended.load(Ordering::Relaxed), 1);
}
