//! What a request without a response head has failed by.

use hyper_util::client::legacy::Error;

use gridpost_core::{
    error::chain,
    retry::outcome::{Answer, Outcome},
};

use super::meter;
use crate::connect::ResolutionError;

/// The answer for an error without a response head.
pub(super) fn answer_without_head(error: &Error) -> Answer {
    tracing::debug!(error = %chain(error), "no response from an endpoint");
    // The status is known; only what follows it exceeds the limit.
    let is_too_large = found::<hyper::Error>(error).is_some_and(hyper::Error::is_parse_too_large);
    let status = error.connect_info().and_then(meter).and_then(|meter| meter.status());
    match status.filter(|_| is_too_large) {
        Some(status) => Answer::of_status(status, None),
        None if found::<ResolutionError>(error).is_some() => {
            Answer::without_status(Outcome::ResolutionError)
        }
        None => Answer::without_status(Outcome::SocketError),
    }
}

/// Whether the endpoint says that it has not begun with the request: it refused the stream, or
/// named an older one as its last. The pool itself resends requests that were never written.
/// Source: RFC 9113, section 8.7.
pub(super) fn is_untouched(error: &Error) -> bool {
    found::<h2::Error>(error).is_some_and(|error| {
        let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (is_refused || error.is_go_away())
    })
}

/// Finds an error of this type in the chain.
fn found<E: std::error::Error + 'static>(error: &Error) -> Option<&E> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}
