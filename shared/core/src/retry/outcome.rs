//! Outcomes of attempts, by Event Grid's names.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use crate::time::Timestamp;

/// How long a response head may take. Source: Event Grid, "Message delivery and retry".
pub const RESPONSE_WAIT: Duration = Duration::from_secs(30);

/// How long after sending a late response still counts. Source: the same.
pub const LATE_RESPONSE_WAIT: Duration = Duration::from_secs(180);

/// The outcome of an attempt (`lastDeliveryOutcome`).
///
/// Source: Event Grid, "Message delivery and retry", section "Delivery outcomes".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Display, EnumString, VariantArray, strum::VariantNames, Serialize, Deserialize)]
#[strum(parse_err_ty = UnknownOutcome, parse_err_fn = UnknownOutcome::from)]
pub enum Outcome {
    Delivered,
    /// 400 or 414.
    BadRequest,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404 or 410.
    NotFound,
    /// No response head within 30 s, 408 or 504.
    TimedOut,
    /// 413.
    PayloadTooLarge,
    /// 429 or 503.
    Busy,
    Disabled,
    /// The resource's quota is reached.
    Full,
    /// Connect, TLS, reset, or something that is not HTTP.
    SocketError,
    ResolutionError,
    /// A FIFO destination without a message group.
    SessionQueueNotSupported,
    InvalidFunctionDestination,
    /// Not attempted: there is no token for the request.
    EndpointAuthenticationFailed,
    /// The endpoint accepted the request but asks for this event again.
    EventFailed,
    /// The endpoint accepted the request but refuses this event for good.
    EventRejected,
    /// Not attempted: the event subscription is on probation.
    Probation,
    /// Cancelled by shutdown.
    Canceled,
    /// Given up by Gridpost.
    Aborted,
    ServerError,
}

impl Outcome {
    /// Returns whether the endpoint accepted the request, whatever it said about the event.
    pub fn is_accepted(self) -> bool {
        matches!(self, Self::Delivered | Self::EventFailed | Self::EventRejected)
    }

    /// All outcomes, in the order of Event Grid's table; ours come before the last ones.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the outcome of a webhook's HTTP status. Success is 200 to 204; redirects fail.
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=204 => Self::Delivered,
            400 | 414 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 | 410 => Self::NotFound,
            408 | 504 => Self::TimedOut,
            413 => Self::PayloadTooLarge,
            429 | 503 => Self::Busy,
            _ => Self::ServerError,
        }
    }
}

/// A name that is not an outcome.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is no outcome; the names are those of lastDeliveryOutcome, e.g. TimedOut")]
pub struct UnknownOutcome(String);

impl From<&str> for UnknownOutcome {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// The answer to one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    pub status: Option<u16>,
    /// `Retry-After`, counted from the response.
    pub retry_after: Option<Duration>,
}

impl Answer {
    /// Creates the answer for an HTTP response.
    pub fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        Self { outcome: Outcome::of_status(status), status: Some(status), retry_after }
    }

    /// Creates the answer for a missing response.
    pub const fn without_status(outcome: Outcome) -> Self {
        Self { outcome, status: None, retry_after: None }
    }
}

/// Reads `Retry-After`: seconds, or an HTTP date. Anything else counts as absent.
///
/// Source: RFC 9110, section 10.2.3.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    match value.parse::<u32>() {
        Ok(seconds) => Some(Duration::from_secs(u64::from(seconds))),
        // A number too long to parse exceeds any time-to-live, which caps it.
        Err(_) if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(Duration::from_secs(u64::from(u32::MAX)))
        }
        Err(_) => Timestamp::parse_http_date(value).map(|at| at.since(now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_in_both_forms() {
        let now = Timestamp::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        let table = [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", Some(0)),
            ("99999999999999999999", Some(u64::from(u32::MAX))),
            ("Fri, 31 Dec 9999 23:59:59 -0100", Some(252_618_189_022)),
            ("Sunday, 06-Nov-94 08:59:37 GMT", Some(600)),
            ("Sun Nov  6 08:59:37 1994", Some(600)),
            ("Mon Nov 14 08:49:37 1994", Some(691_200)),
            ("Saturday, 28-Nov-26 01:23:51 GMT", Some(1_011_717_254)),
            ("Thursday, 01-Jan-70 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 09:49:37 +0100", Some(0)),
            ("Sunday, 06-Nov-94 08:49:36 GMT", Some(0)),
            ("Tue Feb 29 00:00:00 2000", Some(167_670_623)),
            ("Thu, 31 Dec 1998 23:59:60 GMT", Some(131_037_022)),
            ("0600", Some(600)),
            ("600, 600", None),
            ("Sun, 06-Nov-1994 08:59:37 GMT", None),
            ("Sunday, 06-Nov-94 08:59:37 gmt", None),
            ("Wed, 30 Feb 2000 00:00:00 GMT", None),
            ("Sunday, 06-Nov-94 08:59:37", None),
            ("Sun Nov 06 1994 08:59:37", None),
            ("1994-11-06T08:59:37Z", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (value, seconds) in table {
            let read = parse_retry_after(value, now).map(|wait| wait.as_secs());
            assert_eq!(read, seconds, "{value:?}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for &outcome in Outcome::ALL {
            assert_eq!(outcome.to_string().parse::<Outcome>().expect("a name"), outcome);
        }
        assert!("timedout".parse::<Outcome>().is_err());
    }
}
