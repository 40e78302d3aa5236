//! The only place of the command line that asks the system for the date and for randomness.
//!
//! Elapsed time is measured with `tokio::time::Instant` instead, which tests can pause.

use time::OffsetDateTime;
use time::macros::format_description;

/// The current date and time, UTC.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line's one clock: event times, signatures"
)]
pub fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

/// The current time in milliseconds since the Unix epoch.
pub fn now_ms() -> i64 {
    i64::try_from(now().unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// The current date and time as events carry it.
pub fn now_rfc3339() -> String {
    rfc3339(now())
}

/// A date and time, UTC, such as `2030-01-02T03:04:05.670Z`.
pub fn rfc3339(time: OffsetDateTime) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    time.format(format).unwrap_or_else(|_| time.to_string())
}

/// A random id for an event that was given none.
#[expect(clippy::disallowed_methods, reason = "the command line's one source of ids")]
pub fn random_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn milliseconds_are_always_there() {
        assert_eq!(rfc3339(datetime!(2030-01-02 03:04:05.67 UTC)), "2030-01-02T03:04:05.670Z");
        assert_eq!(rfc3339(datetime!(2030-01-02 03:04:05 UTC)), "2030-01-02T03:04:05.000Z");
    }
}
