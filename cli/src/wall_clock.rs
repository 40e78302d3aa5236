//! The only place of the command line that asks the system for the date and for randomness.
//!
//! Elapsed time is measured with `tokio::time::Instant` instead, which tests can pause.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The current date and time, UTC.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line's one clock: event times, signatures"
)]
pub fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

/// The current date and time as events carry it, such as `2030-01-02T03:04:05.678Z`.
pub fn now_rfc3339() -> String {
    let now = now();
    let to_ms = now.replace_nanosecond(now.nanosecond() / 1_000_000 * 1_000_000).unwrap_or(now);
    to_ms.format(&Rfc3339).unwrap_or_else(|_| to_ms.to_string())
}

/// A random id for an event that was given none.
#[expect(clippy::disallowed_methods, reason = "the command line's one source of ids")]
pub fn random_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
