//! Checks the dates and times of envelopes as text, so that they stay as they were written.
//!
//! Source: RFC 3339, section 5.6.

use std::borrow::Cow;

use ::time::{Date, Month};

/// Whether a text is a date-time of RFC 3339.
pub(super) fn is_rfc_3339(text: &str) -> bool {
    zone_of(text).is_some_and(|zone| matches!(zone, Zone::Full))
}

/// Converts a date-time to RFC 3339 form.
///
/// Besides RFC 3339 it accepts the two forms that publishers of Event Grid's schema send: an offset
/// without colon (`+0000`: `date +%Y-%m-%dT%H:%M:%S%z`, as in Event Grid's own shell examples) and
/// no offset at all (.NET's unspecified kind), which means UTC.
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

/// How a date-time ends.
enum Zone {
    Full,
    NoColon,
    Missing,
}

/// The zone of a date-time whose other parts are valid.
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
    Date::from_calendar_date(i32::from(year), month, day).ok()?;
    let &[h1, h2, b':', n1, n2, b':', s1, s2] = time else { return None };
    // 60 is a leap second.
    let fits = number(&[h1, h2])? <= 23 && number(&[n1, n2])? <= 59 && number(&[s1, s2])? <= 60;
    if fits { zone(fraction(rest)?) } else { None }
}

/// What follows the fraction of a second, if there is one.
fn fraction(rest: &[u8]) -> Option<&[u8]> {
    let Some(digits) = rest.strip_prefix(b".") else { return Some(rest) };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 { None } else { Some(&digits[count..]) }
}

fn zone(text: &[u8]) -> Option<Zone> {
    let in_range = |hours: &[u8], minutes: &[u8]| {
        Some(()).filter(|()| {
            number(hours).is_some_and(|hours| hours <= 23)
                && number(minutes).is_some_and(|minutes| minutes <= 59)
        })
    };
    match text {
        b"" => Some(Zone::Missing),
        b"Z" | b"z" => Some(Zone::Full),
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            in_range(&[*h1, *h2], &[*m1, *m2]).map(|()| Zone::Full)
        }
        [b'+' | b'-', h1, h2, m1, m2] => in_range(&[*h1, *h2], &[*m1, *m2]).map(|()| Zone::NoColon),
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
            same("2024-02-29T23:59:60-23:59"),
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
