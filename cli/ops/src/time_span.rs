//! Times on the command line: 500ms, 2s, 10m, 1h.

use std::str::FromStr;
use std::time::Duration;

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
