//! Reads a bounded part of a response's body, when the head has already decided the outcome.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use super::hidden::Hidden;
use gridpost_core::{
    delivery::partial_results::{RESULTS_BYTES_MAX, ResponseBody},
    retry::response_text::{ResponseBytes, response_text},
};

/// The most bytes that are read to reuse a connection.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;
const _: () = assert!(BODY_BYTES_MAX == RESULTS_BYTES_MAX);
pub(super) const BODY_WAIT: Duration = Duration::from_secs(2);

/// The attempt lasts until these bytes have come.
const FIRST_BYTES_WAIT: Duration = Duration::from_millis(500);

/// Reads the beginning of a body, without what is `hidden`. The rest is read in the background.
pub(super) async fn first_bytes(
    mut body: Incoming,
    most: ResponseBytes,
    hidden: &Hidden<'_>,
) -> Option<String> {
    let mut bytes = Vec::new();
    let until = Instant::now() + FIRST_BYTES_WAIT;
    while bytes.len() < most.get() {
        let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await else { break };
        let data = frame.into_data().unwrap_or_default();
        bytes.extend_from_slice(&data[..data.len().min(most.get() - bytes.len())]);
    }
    read_aside(body);
    response_text(&hidden.taken_from(&bytes), most)
}

/// Reads the body of an accepted response that may report on single events.
pub(super) async fn results(mut body: Incoming) -> ResponseBody {
    let mut read = ResponseBody { bytes: Vec::new(), is_whole: false };
    let until = Instant::now() + BODY_WAIT;
    loop {
        match timeout_at(until, body.frame()).await {
            Ok(None) => return ResponseBody { is_whole: true, ..read },
            Ok(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                let left = BODY_BYTES_MAX - read.bytes.len();
                read.bytes.extend_from_slice(&data[..data.len().min(left)]);
                if data.len() > left {
                    return read;
                }
            }
            Ok(Some(Err(_))) | Err(_) => return read,
        }
    }
}

/// Reads a body in the background, so that its connection can be reused.
pub(super) fn read_aside(body: Incoming) {
    if !body.is_end_stream() {
        tokio::spawn(timeout(BODY_WAIT, read(body, BODY_BYTES_MAX)));
    }
}

/// Reads a bounded part of a body. Longer ones cost their connection.
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
