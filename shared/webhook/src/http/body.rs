//! What is read of a response's body. The head has decided before.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use gridpost_core::retry::response_text::{ResponseBytes, response_text};

/// At most so many bytes of a response are read, so that the connection can be used again.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// And for at most so long: the outcome is known already.
pub(super) const BODY_WAIT: Duration = Duration::from_secs(2);

/// How long the first bytes of a failed response are waited for: the attempt is not over before.
const FIRST_BYTES_WAIT: Duration = Duration::from_millis(500);

/// How a body began, as far as it is there soon; the rest of it is read aside.
pub(super) async fn first_bytes(body: Option<Incoming>, most: ResponseBytes) -> Option<String> {
    let mut body = body?;
    let mut bytes = Vec::new();
    let until = Instant::now() + FIRST_BYTES_WAIT;
    while bytes.len() < most.get() {
        let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await else { break };
        let data = frame.into_data().unwrap_or_default();
        bytes.extend_from_slice(&data[..data.len().min(most.get() - bytes.len())]);
    }
    read_aside(body);
    response_text(&bytes, most)
}

/// Reads a body for its connection's sake alone: the head has decided.
pub(super) fn read_aside(body: Incoming) {
    if !body.is_end_stream() {
        tokio::spawn(timeout(BODY_WAIT, read(body, BODY_BYTES_MAX)));
    }
}

/// Reads a bounded part of a body. What is longer costs its connection.
pub(super) async fn read(mut body: Incoming, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        bytes.extend_from_slice(&data[..data.len().min(bytes_max - bytes.len())]);
        if bytes.len() == bytes_max {
            break;
        }
    }
    bytes
}
