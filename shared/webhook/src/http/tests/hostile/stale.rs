//! Receivers that close a pooled connection.

use super::*;

/// Answers a request, and closes when the next one begins.
fn stale() -> Vec<Step> {
    vec![Step::Requests(1), send(OK), Step::Requests(2)]
}

fn answers() -> Vec<Step> {
    vec![Step::Requests(1), send(OK), Step::Hang]
}

/// (what the receiver does with the second request, its connections, that request's body, its answer,
/// connections in all)
/// What it is, the connections' steps, and what is wanted of the requests.
type Row = (&'static str, Vec<Vec<Step>>, usize, Outcome, usize);

fn rows() -> Vec<Row> {
    use Outcome::{Delivered, SocketError};
    let after = |steps: Vec<Step>| [stale(), steps].concat();
    let partly = after(vec![send("HTTP/1.1 20")]);
    let late = after(vec![Step::Wait(STALE_FOR + Duration::from_secs(1))]);
    let idle = vec![Step::Requests(1), send(OK)];
    vec![
        ("closed before it", vec![idle, answers()], 2, Delivered, 2),
        ("closes", vec![stale(), answers()], 2, Delivered, 2),
        ("closes while it is written", vec![stale(), answers()], 1024 * 1024, Delivered, 2),
        ("closes each time", vec![stale(), vec![Step::Requests(1)]], 2, SocketError, 2),
        ("closes with a part of an answer", vec![partly, answers()], 2, SocketError, 1),
        ("closes when it has worked at it", vec![late, answers()], 2, SocketError, 1),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_once_more_where_a_kept_connection_had_gone_and_only_there() {
    for (row, connections, body, want, dialled) in rows() {
        let net = Arc::new(Net::new(Transport::Plain, connections));
        let client = client(&net, None);
        assert_eq!(attempt(&client, PLAIN, 2).await.0, status(200), "{row}");
        sleep(Duration::from_secs(5)).await;
        let answer = attempt(&client, PLAIN, body).await.0;
        assert_eq!((answer.outcome, net.dialled().len()), (want, dialled), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_on_a_fresh_connection_is_never_sent_once_more() {
    let net = Arc::new(Net::new(Transport::Plain, vec![vec![Step::Requests(1)], answers()]));
    let client = client(&net, None);
    assert_eq!(attempt(&client, PLAIN, 2).await.0, outcome(Outcome::SocketError));
    assert_eq!((net.dialled().len(), net.requests.load(Ordering::Relaxed)), (1, 1));
}

/// A server that takes an assertion once may have taken it before it closed the connection.
#[tokio::test(start_paused = true)]
async fn what_may_be_seen_once_alone_is_sent_on_a_connection_of_its_own() {
    for (is_sent_once, want) in [(false, (3, 4)), (true, (3, 3))] {
        let closes = vec![Step::Requests(1)];
        let net = Arc::new(Net::new(Transport::Plain, vec![stale(), closes, answers()]));
        let client = client(&net, None);
        let request = HandshakeRequest {
            method: Method::POST,
            url: Secret::new(PLAIN),
            headers: Vec::new(),
            attributes: Vec::new(),
            body: b"client_assertion=a".to_vec(),
            authentication: None,
            is_sent_once,
            wait: Duration::from_secs(10),
        };
        assert_eq!(attempt(&client, PLAIN, 2).await.0, status(200));
        client.exchange(request.clone()).await.expect_err("it closes");
        client.exchange(request).await.expect("an answer");
        let requests = net.requests.load(Ordering::Relaxed);
        assert_eq!((net.dialled().len(), requests), want, "{is_sent_once}");
    }
}

/// If one pooled connection is dead, others may be too.
#[tokio::test(start_paused = true)]
async fn the_second_time_the_connection_is_a_new_one() {
    let net = Arc::new(Net::new(Transport::Plain, vec![stale(), stale(), answers()]));
    let client = client(&net, None);
    let first = || attempt(&client, PLAIN, 2);
    assert_eq!(tokio::join!(first(), first()), ((status(200), None), (status(200), None)));
    assert_eq!(net.dialled().len(), 2);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(attempt(&client, PLAIN, 2).await.0, status(200));
    assert_eq!((net.dialled().len(), net.requests.load(Ordering::Relaxed)), (3, 4));
}

/// The time for the response is the response's alone, whatever the connection takes.
#[tokio::test(start_paused = true)]
async fn thirty_seconds_count_from_when_the_request_is_sent() {
    const TICK: Duration = Duration::from_millis(1);
    let table = [
        ("in time", RESPONSE_WAIT - TICK, (status(200), None)),
        ("late", RESPONSE_WAIT + TICK, (outcome(Outcome::TimedOut), Some(status(200)))),
        ("last", LATE_RESPONSE_WAIT - TICK, (outcome(Outcome::TimedOut), Some(status(200)))),
        ("too late", LATE_RESPONSE_WAIT + TICK, (outcome(Outcome::TimedOut), None)),
    ];
    for (row, wait, want) in table {
        let steps = vec![Step::Requests(1), Step::Wait(wait), send(OK), Step::Hang];
        let dials_for = Duration::from_secs(9);
        let net = Net { dials_for, ..Net::new(Transport::Plain, vec![steps]) };
        let client = client(&Arc::new(net), None);
        assert_eq!(attempt(&client, PLAIN, 2).await, want, "{row}");
    }
}
