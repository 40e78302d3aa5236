//! Checks the dates and times of envelopes as text, so that they stay as they were written.
//!
//! Source: RFC 3339, section 5.6.

use std::borrow::Cow;

use ::time::{Date, Duration, Month};

/// Returns whether a text is a date-time of RFC 3339.
pub(super) fn is_rfc_3339(text: &str) -> bool {
    zone_of(text) == Some(Zone::Full)
}

/// Converts a date-time to RFC 3339 form.
///
/// It also accepts an offset without colon (`date +%Y-%m-%dT%H:%M:%S%z`, as in Event Grid's shell
/// examples), and no offset (.NET's unspecified kind), which means UTC.
pub(crate) fn to_rfc_3339(text: &str) -> Option<Cow<'_, str>> {
    match zone_of(text)? {
        Zone::Full => Some(Cow::Borrowed(text)),
        Zone::NoColon => {
            let (time, minutes) = text.split_at(text.len() - 2);
            Some(Cow::Owned(format!("{time}:{minutes}")))
        }
        Zone::Missing => Some(Cow::Owned(format!("{text}Z"))),
    }
}

/// The end of a date-time.
#[derive(PartialEq, Eq)]
enum Zone {
    Full,
    NoColon,
    Missing,
}

/// Returns the zone of a valid date-time.
fn zone_of(text: &str) -> Option<Zone> {
    let bytes = text.as_bytes();
    let (date_time, rest) = bytes.split_at_checked(19)?;
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T' | b't', ref time @ ..] = date_time
    else {
        return None;
    };
    let year = number(&[y1, y2, y3, y4])?;
    let month = Month::try_from(u8::try_from(number(&[m1, m2])?).ok()?).ok()?;
    let day = u8::try_from(number(&[d1, d2])?).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, day).ok()?;
    let &[h1, h2, b':', n1, n2, b':', s1, s2] = time else { return None };
    let (hours, minutes, seconds) = (number(&[h1, h2])?, number(&[n1, n2])?, number(&[s1, s2])?);
    let (zone, offset) = zone(fraction(rest)?)?;
    let minute = minutes_of_day(hours, minutes) - offset;
    let is_last_of_month = || {
        let next_day = Duration::days(i64::from(minute.div_euclid(DAY)) + 1);
        date.checked_add(next_day).is_none_or(|next| next.day() == 1)
    };
    let is_leap_second = || minute.rem_euclid(DAY) == DAY - 1 && is_last_of_month();
    let fits = hours <= 23 && minutes <= 59 && (seconds <= 59 || seconds == 60 && is_leap_second());
    fits.then_some(zone)
}

/// The minutes of a day. A leap second ends the last minute of a month, in UTC.
const DAY: i32 = minutes_of_day(24, 0);

const fn minutes_of_day(hours: u16, minutes: u16) -> i32 {
    hours as i32 * 60 + minutes as i32
}

/// Returns the text after the fraction of a second.
fn fraction(rest: &[u8]) -> Option<&[u8]> {
    let Some(digits) = rest.strip_prefix(b".") else { return Some(rest) };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 { None } else { Some(&digits[count..]) }
}

/// Reads the zone and its offset from UTC in minutes.
fn zone(text: &[u8]) -> Option<(Zone, i32)> {
    let offset = |sign: u8, hours: &[u8], minutes: &[u8]| {
        let hours = number(hours).filter(|hours| *hours <= 23)?;
        let minutes = number(minutes).filter(|minutes| *minutes <= 59)?;
        let ahead = minutes_of_day(hours, minutes);
        Some(if sign == b'-' { -ahead } else { ahead })
    };
    match text {
        b"" => Some((Zone::Missing, 0)),
        b"Z" | b"z" => Some((Zone::Full, 0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            Some((Zone::Full, offset(*sign, &[*h1, *h2], &[*m1, *m2])?))
        }
        [sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
            Some((Zone::NoColon, offset(*sign, &[*h1, *h2], &[*m1, *m2])?))
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_time_table() {
        let same = |text: &'static str| (text, true, Some(text));
        let table = [
            same("2026-01-02T03:04:05Z"),
            same("2026-01-02t03:04:05z"),
            same("2025-01-02T03:04:05.678901Z"),
            same("2025-01-02T03:04:05.1234567+05:30"),
            same("2016-12-31T23:59:60Z"),
            same("1990-12-31T15:59:60-08:00"),
            same("2017-01-01T08:59:60.5+09:00"),
            same("2017-01-01T05:29:60+05:30"),
            ("2016-12-31T23:59:60", false, Some("2016-12-31T23:59:60Z")),
            ("2017-01-01T00:59:60+0100", false, Some("2017-01-01T00:59:60+01:00")),
            same("0000-01-01T00:00:00Z"),
            ("2026-01-02T03:04:05+0000", false, Some("2026-01-02T03:04:05+00:00")),
            ("2026-01-02T03:04:05.5-0130", false, Some("2026-01-02T03:04:05.5-01:30")),
            ("2026-01-02T03:04:05", false, Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05.9", false, Some("2026-01-02T03:04:05.9Z")),
            ("2026-01-02", false, None),
            ("2026-01-02 03:04:05Z", false, None),
            ("2023-02-29T00:00:00Z", false, None),
            ("2026-13-01T00:00:00Z", false, None),
            ("2026-00-01T00:00:00Z", false, None),
            ("2026-01-02T24:00:00Z", false, None),
            ("2026-01-02T03:60:05Z", false, None),
            ("2026-01-02T03:04:61Z", false, None),
            ("2026-01-02T13:53:60Z", false, None),
            ("2016-12-31T23:59:61Z", false, None),
            ("2016-12-31T23:58:60Z", false, None),
            ("2016-12-31T23:59:60+01:00", false, None),
            ("2024-02-29T23:59:60-23:59", false, None),
            ("2026-05-14T23:59:60Z", false, None),
            same("2026-02-28T23:59:60Z"),
            ("2024-02-28T23:59:60Z", false, None),
            same("2017-01-01T00:59:60+01:00"),
            same("2016-12-31T15:59:60-08:00"),
            ("2017-01-01T15:59:60-08:00", false, None),
            ("2016-12-31T00:00:60", false, None),
            ("2016-12-31T22:59:60+0100", false, None),
            ("2026-01-02T03:04Z", false, None),
            ("2026-01-02T03:04:05.Z", false, None),
            ("2026-01-02T03:04:05+24:00", false, None),
            ("2026-01-02T03:04:05+0060", false, None),
            ("2026-01-02T03:04:05+00", false, None),
            ("2026-01-02T03:04:05ZZ", false, None),
            ("2026-01-02T03:04:05é", false, None),
            ("é026-01-02T03:04:05Z", false, None),
            ("1/1/2030 12:00:00 AM", false, None),
            ("", false, None),
        ];
        for (text, strict, lenient) in table {
            assert_eq!(is_rfc_3339(text), strict, "{text}");
            assert_eq!(to_rfc_3339(text).as_deref(), lenient, "{text}");
        }
    }
}
