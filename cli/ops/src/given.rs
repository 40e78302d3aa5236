//! What people give as text: times, names, JSON.

use std::{error::Error, str::FromStr, time::Duration};

use gridpost_core::retry::{EndReason, outcome::Outcome};
use serde_json::Value;

/// An event time-to-live in whole minutes. Its range is for the server to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// Minutes since the publish.
    pub minutes: u32,
}

/// Why a time-to-live was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no time: write minutes, hours or days, as in 30m, 24h or 1d")]
pub struct TimeToLiveError {
    given: String,
}

impl FromStr for TimeToLive {
    type Err = TimeToLiveError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let refused = || TimeToLiveError { given: given.to_owned() };
        let unit = given.chars().last().ok_or_else(refused)?;
        let (count, unit_minutes) = match unit {
            'm' => (&given[..given.len() - 1], 1),
            'h' => (&given[..given.len() - 1], 60),
            'd' => (&given[..given.len() - 1], 1_440),
            _ => (given, 1),
        };
        if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        let count: u32 = count.parse().map_err(|_| refused())?;
        count.checked_mul(unit_minutes).map(|minutes| Self { minutes }).ok_or_else(refused)
    }
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

/// A time with its unit, as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let refused = || format!("`{given}` is no time: write 500ms, 2s, 10m or 1h");
        let digits = given.find(|c: char| !c.is_ascii_digit()).unwrap_or(given.len());
        let (count, unit) = given.split_at(digits);
        let count: u64 = count.parse().map_err(|_| refused())?;
        let seconds = |of_unit| count.checked_mul(of_unit).map(Duration::from_secs);
        let span = match unit {
            "ms" => Some(Duration::from_millis(count)),
            "s" => seconds(1),
            "m" => seconds(60),
            "h" => seconds(3_600),
            _ => None,
        };
        span.map(Self).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_live_is_read_in_minutes() {
        for (given, want) in
            [("30m", Some(30)), ("45", Some(45)), ("24h", Some(1_440)), ("1d", Some(1_440))]
        {
            assert_eq!(given.parse::<TimeToLive>().ok().map(|ttl| ttl.minutes), want, "{given}");
        }
        for given in ["", "m", "30s", "-1m", "+1m", "1.5h", "1 h", "99999999d", "ж"] {
            let refused = given.parse::<TimeToLive>().expect_err(given);
            assert_eq!(refused.given, given);
            // --since and --lasts are such times, too.
            assert!(!refused.to_string().contains("time-to-live"), "{refused}");
        }
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
        for (given, want_ms) in
            [("0s", 0), ("500ms", 500), ("2s", 2_000), ("1m", 60_000), ("2h", 7_200_000)]
        {
            assert_eq!(given.parse(), Ok(TimeSpan(Duration::from_millis(want_ms))), "{given}");
        }
        for given in
            ["", "2", "s", "-1s", "1.5s", "2d", "99999999999999999999s", "9999999999999999999h"]
        {
            assert!(given.parse::<TimeSpan>().is_err(), "{given}");
        }
    }
}
