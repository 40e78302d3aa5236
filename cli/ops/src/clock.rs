//! How far the clock of a deployment is ahead of this machine's: its logs and its storage have times of the
//! former, and what a command does is timed by the latter.

use time::{OffsetDateTime, macros::format_description};

/// By the `Date` of answers, which has whole seconds: each bounds the difference, and several bound it
/// closely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The least and the most that it is ahead, in milliseconds; none before the first answer.
    ahead: Option<(i64, i64)>,
    /// Whether one of the clocks was set meanwhile: then both differences count, whatever comes.
    was_set: bool,
}

impl Clock {
    /// Takes an answer into account: when it was asked for and was there, by this machine's clock, and its
    /// date, all in milliseconds since the Unix epoch.
    pub fn take(&mut self, (begun_ms, ended_ms): (i64, i64), date_ms: i64) {
        let (least, most) = (date_ms - ended_ms, date_ms + 999 - begun_ms);
        self.ahead = Some(match self.ahead {
            Some((a, b)) if !self.was_set && a.max(least) <= b.min(most) => {
                (a.max(least), b.min(most))
            }
            Some((a, b)) => {
                self.was_set = true;
                (a.min(least), b.max(most))
            }
            None => (least, most),
        });
    }

    /// How far the deployment's clock is ahead at the least, in milliseconds: none where answers leave it open
    /// whether the two differ, as whole seconds say less than a clock that is kept right.
    pub fn ahead_ms(&self) -> i64 {
        let (least, most) = self.ahead.unwrap_or_default();
        0_i64.max(least).min(most)
    }

    /// A time span of this machine's as the deployment's clock has it, with all of what is uncertain.
    pub fn there(&self, from_ms: i64, to_ms: i64) -> (i64, i64) {
        let (least, most) = self.ahead.unwrap_or_default();
        (from_ms + least, to_ms + most)
    }
}

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
    use super::*;
    use time::macros::datetime;

    /// Begun, ended, date.
    type Answer = (i64, i64, i64);

    #[test]
    fn clocks_are_the_same_until_answers_say_otherwise() {
        // (answer, how far it is ahead at the least)
        let table: [(&[Answer], i64); 5] = [
            (&[], 0),
            (&[(5_000, 5_100, 5_000)], 0),
            (&[(5_900, 6_100, 5_000)], 0),
            (&[(5_000, 5_100, 65_000)], 59_900),
            (&[(65_000, 65_100, 5_000)], -59_001),
        ];
        for (answers, want) in table {
            let mut clock = Clock::default();
            for (begun, ended, date) in answers {
                clock.take((*begun, *ended), *date);
            }
            assert_eq!(clock.ahead_ms(), want, "{answers:?}");
        }
    }

    /// (row, answers, what becomes of the span from 100,000 to 200,000)
    #[test]
    fn answers_bound_the_difference() {
        let table: [(&str, &[Answer], (i64, i64)); 6] = [
            ("without an answer it is taken to be none", &[], (100_000, 200_000)),
            ("one answer tells it to a second", &[(5_000, 5_100, 5_000)], (99_900, 200_999)),
            // Ahead by 400 ms: at 5,650 it shows 6,050.
            (
                "two tell it better",
                &[(5_000, 5_100, 5_000), (5_600, 5_650, 6_000)],
                (100_350, 200_999),
            ),
            ("an hour behind", &[(3_605_000, 3_605_100, 5_000)], (-3_500_100, -3_399_001)),
            (
                "set meanwhile: both count",
                &[(5_000, 5_100, 5_000), (6_000, 6_100, 66_000)],
                (99_900, 260_999),
            ),
            (
                "set meanwhile, and answered again",
                &[(5_000, 5_100, 5_000), (6_000, 6_100, 66_000), (7_000, 7_100, 67_000)],
                (99_900, 260_999),
            ),
        ];
        for (row, answers, want) in table {
            let mut clock = Clock::default();
            for (begun, ended, date) in answers {
                clock.take((*begun, *ended), *date);
            }
            assert_eq!(clock.there(100_000, 200_000), want, "{row}");
        }
    }

    #[test]
    fn milliseconds_are_always_there() {
        assert_eq!(rfc3339(datetime!(2030-01-02 03:04:05.67 UTC)), "2030-01-02T03:04:05.670Z");
        assert_eq!(rfc3339(datetime!(2030-01-02 03:04:05 UTC)), "2030-01-02T03:04:05.000Z");
    }
}
