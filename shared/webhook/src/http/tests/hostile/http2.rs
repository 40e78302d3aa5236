//! HTTP/2 frames that a well-behaved receiver would not send. RFC 9113 names kinds and flags.

use super::*;
use futures::future::join_all;

const NAMED: &str = "https://example.com/hook";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH: u8 = 5;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` and `:status: 100` in HPACK.
const STATUS_200: &[u8] = &[0x88];
const STATUS_100: &[u8] = b"\x08\x03100";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn answer(stream: u32) -> Step {
    send(frame(HEADERS, END_STREAM | END_HEADERS, stream, STATUS_200))
}

fn reset(stream: u32, code: u8) -> Step {
    send(frame(RESET, 0, stream, &[0, 0, 0, code]))
}

fn go_away(last_stream: u8, code: u8) -> Step {
    send(frame(GO_AWAY, 0, 0, &[0, 0, 0, last_stream, 0, 0, 0, code]))
}

fn open_body() -> Step {
    send(frame(HEADERS, END_HEADERS, 1, STATUS_200))
}

/// Headers that grow: one entry of 4,000 bytes in the table, then named 1,000 times.
fn header_bomb() -> Step {
    let mut block = STATUS_200.to_vec();
    block.extend(b"\x40\x01x\x7f\xa1\x1e");
    block.extend([b'a'; 4_000]);
    block.extend([0xbe; 1_000]);
    send(frame(HEADERS, END_STREAM | END_HEADERS, 1, &block))
}

type Row = (&'static str, Vec<Vec<Step>>, usize, Answer, usize);

/// (what the receiver does, the steps of each connection, bytes of the request's body, the answer,
/// requests that arrive)
fn rows() -> Vec<Row> {
    use Step::{Forever, Hang, Requests};
    let broken = || outcome(Outcome::SocketError);
    let ok = || vec![Requests(1), answer(1), Hang];
    let one = |steps: Vec<Step>| {
        let mut all = vec![Requests(1)];
        all.extend(steps);
        vec![all]
    };
    vec![
        ("answers", one(vec![answer(1), Hang]), 2, status(200), 1),
        (
            "refuses the stream once",
            one(vec![reset(1, 7), Requests(2), answer(3), Hang]),
            2,
            status(200),
            2,
        ),
        (
            "refuses every stream",
            one(vec![reset(1, 7), Requests(2), reset(3, 7), Hang]),
            2,
            broken(),
            2,
        ),
        ("cancels the stream", one(vec![reset(1, 8), Hang]), 2, broken(), 1),
        ("fails", one(vec![reset(1, 2), Hang]), 2, broken(), 1),
        (
            "goes away before the request",
            vec![vec![Requests(1), go_away(0, 0), Hang], ok()],
            2,
            status(200),
            2,
        ),
        ("goes away with the request", one(vec![go_away(1, 0)]), 2, broken(), 1),
        ("goes away in anger", one(vec![go_away(1, 11)]), 2, broken(), 1),
        (
            "goes away in anger, and stays",
            one(vec![go_away(1, 11), Hang]),
            2,
            outcome(Outcome::TimedOut),
            1,
        ),
        ("goes away, and answers", one(vec![go_away(1, 0), answer(1)]), 2, status(200), 1),
        ("closes", one(vec![]), 2, broken(), 1),
        ("answers early", one(vec![answer(1), reset(1, 0), Hang]), 1024 * 1024, status(200), 1),
        (
            "sends headers without end",
            one(vec![
                send(frame(HEADERS, 0, 1, STATUS_200)),
                Forever(frame(CONTINUATION, 0, 1, &[])),
            ]),
            2,
            broken(),
            1,
        ),
        (
            "sends long headers without end",
            one(vec![
                send(frame(HEADERS, 0, 1, STATUS_200)),
                Forever(frame(CONTINUATION, 0, 1, &[0x90; 16_000])),
            ]),
            2,
            broken(),
            1,
        ),
        ("sends headers that grow", one(vec![header_bomb(), Hang]), 2, broken(), 1),
        (
            "sends settings without end",
            one(vec![Forever(frame(SETTINGS, 0, 0, &[]).repeat(100))]),
            2,
            broken(),
            1,
        ),
        (
            "pings without end",
            one(vec![Forever(frame(PING, 0, 0, &[0; 8]).repeat(100))]),
            2,
            broken(),
            1,
        ),
        (
            "says 100 first",
            one(vec![send(frame(HEADERS, END_HEADERS, 1, STATUS_100)), answer(1), Hang]),
            2,
            status(200),
            1,
        ),
        (
            "says 100 without end",
            one(vec![Forever(frame(HEADERS, END_HEADERS, 1, STATUS_100).repeat(100))]),
            2,
            broken(),
            1,
        ),
        (
            "sends a body without end",
            one(vec![open_body(), Forever(frame(DATA, 0, 1, &[0; 8_192]))]),
            2,
            status(200),
            1,
        ),
        (
            "sends a body of nothing",
            one(vec![open_body(), Forever(frame(DATA, 0, 1, &[]))]),
            2,
            status(200),
            1,
        ),
        ("resets the body", one(vec![open_body(), reset(1, 2), Hang]), 2, status(200), 1),
        (
            "pushes",
            one(vec![send(frame(PUSH, END_HEADERS, 1, &[0, 0, 0, 2, 0x82])), Hang]),
            2,
            broken(),
            1,
        ),
        (
            "sends a frame of 16 MB",
            one(vec![
                send(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01".to_vec()),
                Forever(vec![0; 8_192]),
            ]),
            2,
            broken(),
            1,
        ),
        ("speaks HTTP/1", one(vec![send(OK), Hang]), 2, broken(), 1),
    ]
}

#[tokio::test(start_paused = true)]
async fn hostile_http2_receivers_cost_little_and_are_sent_again_only_what_they_refused() {
    let identity = Identity::new("example.com", 2100);
    let config = Arc::new(identity.server(&["h2"]));
    for (row, mut scripts, body, want, requests) in rows() {
        for script in &mut scripts {
            script.insert(0, send(frame(SETTINGS, 0, 0, &[])));
        }
        let net = Net::new(Transport::Tls(Arc::clone(&config)), scripts);
        let arrived = Arc::clone(&net.requests);
        let ends = match want.outcome {
            Outcome::TimedOut => Ends::Late(None),
            _ => Ends::With(want),
        };
        check(row, net, Some(&identity), NAMED, body, ends).await;
        assert_eq!(arrived.load(Ordering::Relaxed), requests, "{row}");
    }
}

/// Offered both, the client takes HTTP/2, and its requests share a connection.
#[tokio::test(start_paused = true)]
async fn requests_share_a_connection_where_http2_is_offered() {
    const AT_ONCE: u32 = 63;
    let identity = Identity::new("example.com", 2100);
    let config = Arc::new(identity.server(&["h2", "http/1.1"]));
    let all = usize::try_from(1 + AT_ONCE).expect("few");
    let mut script =
        vec![send(frame(SETTINGS, 0, 0, &[])), Step::Requests(1), answer(1), Step::Requests(all)];
    script.extend((1..=AT_ONCE).map(|number| answer(1 + 2 * number)));
    script.push(Step::Hang);
    let net = Arc::new(Net::new(Transport::Tls(config), vec![script]));
    let client = client(&net, Some(&identity));
    assert_eq!(attempt(&client, NAMED, 2).await, (status(200), None));
    for answered in join_all((0..AT_ONCE).map(|_| attempt(&client, NAMED, 2))).await {
        assert_eq!(answered, (status(200), None));
    }
    assert_eq!(net.dialled().len(), 1);
}
