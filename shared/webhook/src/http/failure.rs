//! Reads the causes of client errors.

use std::{error::Error as StdError, io};

use gridpost_core::{
    delivery::probe::{Failure, Stage},
    endpoint::Refusal,
    error::chain,
};
use hyper_util::client::legacy::Error;
use rustls::Error as TlsError;

use super::identity::is_refusal;
use crate::connect::{self, ConnectTimedOut, ResolutionError};

/// Finds an error of this type in the chain.
pub(super) fn found<E: StdError + 'static>(error: &Error) -> Option<&E> {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The error inside an IO error is not its source, but takes its place.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        source = match inside {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}

/// Returns the alert by which an endpoint refuses a client's certificate. `was_asked` says whether it
/// asked for one.
pub(super) fn refusal_in(error: &Error, was_asked: bool) -> Option<String> {
    match found::<TlsError>(error)? {
        TlsError::AlertReceived(alert) if is_refusal(*alert, was_asked) => {
            Some(format!("{alert:?}"))
        }
        _ => None,
    }
}

/// Whether a connection ended before anything of the request was written.
pub(super) fn is_unwritten(error: &Error) -> bool {
    found::<hyper::Error>(error).is_some_and(hyper::Error::is_canceled)
}

pub(super) fn stage_of(stage: connect::Stage) -> Stage {
    match stage {
        connect::Stage::Name => Stage::Name,
        connect::Stage::Connection => Stage::Connection,
        connect::Stage::Tls => Stage::Tls,
    }
}

/// Returns how far a request came. The texts never repeat the URL.
pub(super) fn failure_of(error: &Error) -> Failure {
    if found::<ResolutionError>(error).is_some() {
        return Failure::at(Stage::Name, "the host name does not resolve");
    }
    if let Some(refusal) = found::<Refusal>(error) {
        return Failure::at(Stage::Address, refusal.to_string());
    }
    if let Some(late) = found::<ConnectTimedOut>(error) {
        return Failure::at(stage_of(late.0), late.to_string());
    }
    match found::<TlsError>(error) {
        Some(TlsError::AlertReceived(alert)) if is_refusal(*alert, true) => {
            let says = format!("the endpoint ended TLS with the alert {alert:?}");
            Failure::at(Stage::WantsCertificate, says)
        }
        Some(tls) => Failure::at(Stage::Tls, tls.to_string()),
        None if error.is_connect() => Failure::at(Stage::Connection, chain(error)),
        None => Failure::at(Stage::Answer, chain(error)),
    }
}
