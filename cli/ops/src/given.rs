//! Reads times, names and JSON that people give as text.

use std::{
    error::Error,
    ops::{Bound, RangeBounds},
    str::FromStr,
    time::Duration,
};

use gridpost_core::retry::{EndReason, outcome::Outcome};
use serde_json::Value;

/// The units of a span of time, in microseconds.
const UNITS: [(&str, u64); 5] =
    [("ms", 1_000), ("s", SECOND), ("m", MINUTE), ("h", 60 * MINUTE), ("d", 1_440 * MINUTE)];

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;

/// A span of time as it is written on the command line: a number and its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

impl TimeSpan {
    /// Makes a span of so many minutes.
    pub const fn minutes(minutes: u32) -> Self {
        Self(Duration::from_secs(60 * minutes as u64))
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        span(given, None)
    }
}

/// Reads a span of time; a bare number is milliseconds.
pub fn span_or_milliseconds(given: &str) -> Result<TimeSpan, String> {
    span(given, Some("ms"))
}

/// Reads a span of time; a bare number is seconds.
pub fn span_or_seconds(given: &str) -> Result<TimeSpan, String> {
    span(given, Some("s"))
}

/// Reads a span of whole seconds; a bare number is seconds.
pub fn whole_seconds(given: &str) -> Result<u32, String> {
    whole(given, span_or_seconds(given)?, SECOND, "seconds: write 30s, 10m or 1h")
}

/// Reads a span of whole minutes; a bare number is minutes.
pub fn whole_minutes_or_number(given: &str) -> Result<u32, String> {
    whole(given, span(given, Some("m"))?, MINUTE, "minutes: write 10m or 1h")
}

/// Reads a span of whole minutes.
pub fn whole_minutes(given: &str) -> Result<u32, String> {
    whole(given, given.parse()?, MINUTE, "minutes: write 30m, 24h or 1d")
}

fn whole(given: &str, span: TimeSpan, unit: u64, what: &str) -> Result<u32, String> {
    let (micros, unit) = (span.0.as_micros(), u128::from(unit));
    let count = u32::try_from(micros / unit).ok().filter(|_| micros.is_multiple_of(unit));
    count.ok_or_else(|| format!("`{given}` is not a number of whole {what}"))
}

fn span(given: &str, unit_of_numbers: Option<&str>) -> Result<TimeSpan, String> {
    let refused = || format!("`{given}` is not a time: write 500ms, 2s, 10m, 24h or 7d");
    let (number, unit) = parts(given);
    let unit = match (unit, unit_of_numbers) {
        ("", Some(unit)) => unit,
        ("", None) if number.parse::<f64>().is_ok() => {
            let units = format!("{number}s, {number}m, {number}h or {number}d");
            return Err(format!("`{given}` has no unit: write {units}"));
        }
        (unit, _) => unit,
    };
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
    let micros = scaled(number, *scale).ok_or_else(refused)?;
    Ok(TimeSpan(Duration::from_micros(micros)))
}

/// Makes the reader of counts in a range: 500, 10k, 2M, 1.5G.
pub fn count_in<T: TryFrom<u64>>(
    range: impl RangeBounds<u64> + Clone,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |given| {
        let (number, unit) = parts(given);
        let scale = match unit {
            "" => Some(1),
            "k" => Some(1_000),
            "M" => Some(1_000_000),
            "G" => Some(1_000_000_000),
            _ => None,
        };
        let count = scale.and_then(|scale| scaled(number, scale));
        let count =
            count.ok_or_else(|| format!("`{given}` is no count: write 500, 10k, 2M or 1.5G"))?;
        let fits = T::try_from(count).ok().filter(|_| range.contains(&count));
        fits.ok_or_else(|| match (range.start_bound(), range.end_bound()) {
            (Bound::Included(least), Bound::Included(most)) => {
                format!("{count} is not in {least} to {most}")
            }
            (Bound::Included(least), _) if count < *least => {
                format!("{count} is less than {least}")
            }
            _ => format!("{count} is too large"),
        })
    }
}

/// Splits a text behind its number.
fn parts(given: &str) -> (&str, &str) {
    let is_of_number = |one: char| one.is_ascii_digit() || one == '.';
    given.split_at(given.find(|one| !is_of_number(one)).unwrap_or(given.len()))
}

/// Multiplies a decimal number by its unit, if that gives a whole number.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let power = 10_u64.checked_pow(fraction.len().try_into().ok()?)?;
    let of_fraction = fraction.parse::<u64>().ok()?.checked_mul(unit)?;
    let of_fraction = of_fraction.is_multiple_of(power).then_some(of_fraction / power)?;
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(of_fraction)
}

/// The name of what an attempt met. A misspelt one would match nothing.
pub fn outcome_name(given: &str) -> Result<String, String> {
    one_of(given, Outcome::ALL)
}

/// The name of a reason for which a delivery ended.
pub fn reason_name(given: &str) -> Result<String, String> {
    one_of(given, EndReason::ALL)
}

fn one_of(given: &str, all: &[impl ToString]) -> Result<String, String> {
    let names: Vec<_> = all.iter().map(ToString::to_string).collect();
    if names.iter().any(|name| name == given) {
        return Ok(given.to_owned());
    }
    Err(format!("possible values: {}", names.join(", ")))
}

/// Reads a JSON document. A member that stands twice is refused, as the manage API refuses it: it would never
/// see the first one.
pub fn read_json(text: &[u8]) -> Result<Value, String> {
    let read = gridpost_api::document::parse(text);
    read.map_err(|error| {
        error.source().map_or_else(|| error.to_string(), |cause| cause.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_units_are_read() {
        for (given, want) in [("30m", Some(30)), ("24h", Some(1_440)), ("1d", Some(1_440))] {
            assert_eq!(whole_minutes(given).ok(), want, "{given}");
        }
        let table = [
            (whole_minutes("45"), "`45` has no unit: write 45s, 45m, 45h or 45d"),
            (whole_minutes("30s"), "`30s` is not a number of whole minutes: write 30m, 24h or 1d"),
            (whole_minutes("99999999d"), "`99999999d` is not a number of whole minutes: write "),
            (whole_seconds("1ms"), "`1ms` is not a number of whole seconds: write 30s, 10m or 1h"),
        ];
        for (read, want) in table {
            let refused = read.expect_err(want);
            assert!(refused.starts_with(want), "{refused}");
        }
        assert_eq!((whole_seconds("60"), whole_seconds("1h")), (Ok(60), Ok(3_600)));
        assert_eq!(whole_minutes_or_number("5"), Ok(5));
        assert_eq!(span_or_milliseconds("0.5"), Ok(TimeSpan(Duration::from_micros(500))));
        assert_eq!(span_or_seconds("1.5"), "1500ms".parse());
    }

    #[test]
    fn counts_are_read() {
        for (given, want) in [
            ("0", 0),
            ("500", 500),
            ("10k", 10_000),
            ("1.5M", 1_500_000),
            ("0.001k", 1),
            ("2G", 2_000_000_000),
        ] {
            assert_eq!(count_in(..)(given), Ok(want), "{given}");
        }
        for given in
            ["", "k", "10X", "1.5", "1.0005k", "-1", "+1", "1e3", "10K", "1 k", "1..5k", "1.k", "ж"]
        {
            let want = format!("`{given}` is no count: write 500, 10k, 2M or 1.5G");
            assert_eq!(count_in::<u64>(..)(given), Err(want), "{given}");
        }
        for (read, want) in [
            (count_in::<u32>(1..=500)("1k"), "1000 is not in 1 to 500"),
            (count_in(1..)("0"), "0 is less than 1"),
            (count_in(..)("5G"), "5000000000 is too large"),
        ] {
            assert_eq!(read, Err(want.to_owned()));
        }
        assert!(count_in::<u64>(..)("99999999999999999999").is_err());
    }

    #[test]
    fn a_misspelt_name_is_told_the_names() {
        assert_eq!(outcome_name("Busy"), Ok("Busy".to_owned()));
        assert_eq!(reason_name("TimeToLiveExceeded"), Ok("TimeToLiveExceeded".to_owned()));
        for (refused, part) in [
            (outcome_name("Foo"), "Busy, "),
            (outcome_name("busy"), "TimedOut"),
            (reason_name("Foo"), "TimeToLiveExceeded, "),
        ] {
            let told = refused.expect_err("misspelt");
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn times_are_read_with_their_unit() {
        for (given, want_ms) in [
            ("0s", 0),
            ("500ms", 500),
            ("2s", 2_000),
            ("1m", 60_000),
            ("2h", 7_200_000),
            ("1.5d", 129_600_000),
        ] {
            assert_eq!(given.parse(), Ok(TimeSpan(Duration::from_millis(want_ms))), "{given}");
        }
        for given in [
            "",
            "s",
            "-1s",
            "+1s",
            "2w",
            "1 h",
            "2S",
            "ж",
            "99999999999999999999s",
            "9999999999999999999h",
        ] {
            let refused = given.parse::<TimeSpan>().expect_err(given);
            let want = format!("`{given}` is not a time: write 500ms, 2s, 10m, 24h or 7d");
            assert_eq!(refused, want);
        }
        for number in ["10", "1.5"] {
            let refused = number.parse::<TimeSpan>().expect_err("no unit");
            let want = format!("write {number}s, {number}m, {number}h or {number}d");
            assert_eq!(refused, format!("`{number}` has no unit: {want}"));
        }
    }
}
