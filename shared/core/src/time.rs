//! Points in time, as milliseconds since the Unix epoch.

use std::{fmt, time::Duration};

use ::time::{
    OffsetDateTime, UtcOffset,
    format_description::{
        BorrowedFormatItem,
        well_known::{Rfc2822, Rfc3339},
    },
    macros::format_description,
};
use serde::{Deserialize, Serialize};

/// A point in time, UTC, in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// ISO 8601 with milliseconds, as Event Grid's parsers take it.
const ISO_8601: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

impl Timestamp {
    /// The latest time that all formats can write: the end of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole minutes since the Unix epoch, rounded down.
    pub const fn as_minutes(self) -> i64 {
        self.0.div_euclid(60_000)
    }

    /// The beginning of the hour, UTC, that this is in.
    #[must_use]
    pub const fn hour(self) -> Self {
        Self(self.0 - self.0.rem_euclid(3_600_000))
    }

    /// How long `earlier` was before this; zero if it was not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This time as ISO 8601 with milliseconds, `2026-11-21T08:00:00.000Z`.
    pub fn to_iso_8601(self) -> String {
        self.utc().format(ISO_8601).unwrap_or_else(|_| self.0.to_string())
    }

    /// Reads an RFC 3339 date and time (any offset, any number of fraction digits).
    pub fn parse_rfc_3339(text: &str) -> Option<Self> {
        OffsetDateTime::parse(text, &Rfc3339).ok().map(Self::from_date_time)
    }

    /// Reads an HTTP date, `Sun, 06 Nov 1994 08:49:37 GMT`.
    ///
    /// Source: RFC 9110, section 5.6.7 (its preferred form).
    pub fn parse_http_date(text: &str) -> Option<Self> {
        OffsetDateTime::parse(text, &Rfc2822).ok().map(Self::from_date_time)
    }

    /// The calendar form, for dates in names.
    pub fn utc(self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    fn from_date_time(value: OffsetDateTime) -> Self {
        let nanos = value.to_offset(UtcOffset::UTC).unix_timestamp_nanos();
        Self(i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(i64::MAX))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_iso_8601())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let at = Timestamp::from_millis(1_795_248_000_123);
        assert_eq!(at.to_iso_8601(), "2026-11-21T08:00:00.123Z");
        assert_eq!(Timestamp::parse_rfc_3339("2026-11-21T09:00:00.1234567+01:00"), Some(at));
        let date = Timestamp::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.map(Timestamp::as_seconds), Some(784_111_777));
        assert_eq!(Timestamp::parse_rfc_3339("yesterday"), None);
    }

    #[test]
    fn an_hour_begins_at_or_before_what_is_in_it() {
        for (at, hour) in [(0, 0), (3_599_999, 0), (3_600_000, 3_600_000), (-1, -3_600_000)] {
            assert_eq!(Timestamp::from_millis(at).hour().as_millis(), hour, "{at}");
        }
    }

    #[test]
    fn a_time_is_never_before_zero_after_another() {
        let early = Timestamp::from_millis(5);
        assert_eq!(early.since(early + Duration::from_secs(1)), Duration::ZERO);
    }
}
