//! Points in time, as milliseconds since the Unix epoch.

use std::{fmt, time::Duration};

use ::time::{
    OffsetDateTime,
    format_description::{
        BorrowedFormatItem,
        well_known::{Rfc2822, Rfc3339},
    },
    macros::format_description,
};
use serde::{Deserialize, Serialize};

/// A point in time, UTC, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

const ISO_8601: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// How many times faster than real time a clock runs (`gridpost dev --speed`). Requests take real
/// time, so the timeouts and leases around them are scaled by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace(u32);

impl Pace {
    pub const REAL: Self = Self(1);

    /// Returns the pace of a clock that runs that many times faster.
    pub const fn times(times: u32) -> Self {
        Self(if times == 0 { 1 } else { times })
    }

    pub fn to_clock(self, real: Duration) -> Duration {
        real.saturating_mul(self.0)
    }

    pub fn to_real(self, on_clock: Duration) -> Duration {
        on_clock / self.0
    }
}

impl Timestamp {
    /// The beginning of the year 0, the earliest time that all formats can write.
    pub const MIN: Self = Self(-62_167_219_200_000);

    /// The end of the year 9999, the latest time that all formats can write.
    pub const MAX: Self = Self(253_402_300_799_999);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Rounds down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Rounds down.
    pub const fn as_minutes(self) -> i64 {
        self.0.div_euclid(60_000)
    }

    /// Returns the beginning of its hour, UTC.
    #[must_use]
    pub const fn hour(self) -> Self {
        Self(self.0.saturating_sub(self.0.rem_euclid(3_600_000)))
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Writes ISO 8601 with milliseconds, `2026-11-21T08:00:00.000Z`. A time beyond
    /// [`MIN`](Self::MIN) or [`MAX`](Self::MAX) is written as that bound.
    pub fn to_iso_8601(self) -> String {
        self.utc().format(ISO_8601).unwrap_or_else(|_| self.0.to_string())
    }

    /// Parses an RFC 3339 date and time (any offset, any number of fraction digits). A result
    /// beyond [`MIN`](Self::MIN) or [`MAX`](Self::MAX) becomes that bound.
    pub fn parse_rfc_3339(text: &str) -> Option<Self> {
        OffsetDateTime::parse(text, &Rfc3339).ok().map(Self::from_date_time)
    }

    /// Reads an HTTP date in any of its three forms: `Sun, 06 Nov 1994 08:49:37 GMT`,
    /// `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. The first may have another zone.
    ///
    /// Source: RFC 9110, section 5.6.7.
    pub fn parse_http_date(text: &str) -> Option<Self> {
        let date = httpdate::parse_http_date(text).map(OffsetDateTime::from);
        let date = date.ok().or_else(|| OffsetDateTime::parse(text, &Rfc2822).ok());
        date.map(Self::from_date_time)
    }

    /// Returns the calendar form, from [`MIN`](Self::MIN) to [`MAX`](Self::MAX).
    pub fn utc(self) -> OffsetDateTime {
        let millis = self.0.clamp(Self::MIN.0, Self::MAX.0);
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// Avoids the calendar: times beyond its last date in UTC (`9999-12-31T23:59:59-01:00`) panic.
    fn from_date_time(value: OffsetDateTime) -> Self {
        let millis = value.unix_timestamp_nanos().div_euclid(1_000_000);
        let millis = millis.clamp(i128::from(Self::MIN.0), i128::from(Self::MAX.0));
        Self(i64::try_from(millis).unwrap_or(Self::MAX.0))
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
    use proptest::{prelude::*, string::string_regex};

    use super::*;

    /// Counts the days from 1970-01-01 to a date, year by year and month by month.
    fn days_to(year: i64, month: i64, day: i64) -> i64 {
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let in_year = |year| if leap(year) { 366 } else { 365 };
        let years: i64 = if year < 1_970 {
            -(year..1_970).map(in_year).sum::<i64>()
        } else {
            (1_970..year).map(in_year).sum()
        };
        let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30];
        years + lengths.iter().take(month as usize - 1).sum::<i64>() + day - 1
    }

    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

    /// Any year, the first and the last more often.
    fn years() -> impl Strategy<Value = i64> {
        prop_oneof![0..=9_999_i64, Just(0), Just(9_999)]
    }

    /// Any day that all months have, the edges of a year more often.
    fn days() -> impl Strategy<Value = (i64, i64)> {
        prop_oneof![(1..=12_i64, 1..=28_i64), Just((1, 1)), Just((12, 31))]
    }

    proptest! {
        /// Years 0 to 9999, offsets of up to a day.
        #[test]
        fn every_time_that_can_be_written_is_read(
            year in years(),
            (month, day) in days(),
            (hour, minute, second) in (0..24_i64, 0..60_i64, 0..60_i64),
            millis in 0..1_000_i64,
            offset in -1_439..=1_439_i64,
        ) {
            let sign = if offset < 0 { '-' } else { '+' };
            let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
            let day_number = days_to(year, month, day);
            let at = day_number * 86_400 + hour * 3_600 + minute * 60 + second - offset * 60;
            let within = |millis: i64| {
                Timestamp(millis.clamp(Timestamp::MIN.0, Timestamp::MAX.0))
            };
            let text = format!(
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}\
                 {sign}{hours:02}:{minutes:02}"
            );
            let read = Timestamp::parse_rfc_3339(&text);
            prop_assert_eq!(read, Some(within(at * 1_000 + millis)), "{}", text);
            let iso_8601 = read.map(Timestamp::to_iso_8601).unwrap_or_default();
            prop_assert_eq!(Timestamp::parse_rfc_3339(&iso_8601), read, "{} {}", text, iso_8601);
            // RFC 2822 begins with the year 1900. Its reader takes minutes of an offset as if they
            // had no sign; HTTP dates have none at all.
            let weekday = WEEKDAYS[day_number.rem_euclid(7) as usize];
            let month = MONTHS[month as usize - 1];
            let text = format!(
                "{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} \
                 {sign}{hours:02}00"
            );
            let at = at + offset % 60 * 60;
            let read = Timestamp::parse_http_date(&text);
            prop_assert_eq!(read, (year >= 1_900).then(|| within(at * 1_000)), "{}", text);
        }

        #[test]
        fn no_text_and_no_number_panics(
            text in string_regex("[0-9 TZ:.,+a-zA-Z-]{0,40}").expect("a pattern"),
            number in any::<i64>(),
            wait in any::<Duration>(),
        ) {
            let at = Timestamp::from_millis(number);
            let times = [Timestamp::parse_rfc_3339(&text), Timestamp::parse_http_date(&text)];
            for at in times.into_iter().flatten().chain([at, at + wait, at.hour()]) {
                let within = Timestamp(at.0.clamp(Timestamp::MIN.0, Timestamp::MAX.0));
                prop_assert_eq!(Timestamp::parse_rfc_3339(&at.to_iso_8601()), Some(within));
            }
        }
    }

    #[test]
    fn times_at_the_edge_are_read() {
        let table = [
            ("9999-12-31T23:59:59.999Z", Timestamp::MAX, "9999-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:59-01:00", Timestamp::MAX, "9999-12-31T23:59:59.999Z"),
            ("0000-01-01T00:00:00Z", Timestamp::MIN, "0000-01-01T00:00:00.000Z"),
            ("0000-01-01T00:00:00+01:00", Timestamp::MIN, "0000-01-01T00:00:00.000Z"),
        ];
        for (text, at, written) in table {
            assert_eq!(Timestamp::parse_rfc_3339(text), Some(at), "{text}");
            assert_eq!(at.to_iso_8601(), written, "{text}");
        }
        let date = Timestamp::parse_http_date("Fri, 31 Dec 9999 23:59:59 -0100");
        assert_eq!(date, Some(Timestamp::MAX));
    }

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
