//! Keeps to the requests per minute that an endpoint allows (`WebHook-Allowed-Rate`).
//!
//! Requests are counted by clock minute, across all copies of dispatch. One too many gets a later
//! minute by its place in line, so a backlog takes as many minutes as it needs.

use std::{num::NonZeroU32, time::Duration};

use crate::time::Timestamp;

/// Waiting deliveries wake in the first 50 s of their minute: functions take time to start.
const SPREAD: Duration = Duration::from_secs(50);

/// The farthest minute given: 7 days from now, as no delivery lives longer.
const MINUTES_MAX: u64 = 7 * 24 * 60;

/// Whether a request may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    Go,
    Wait { until: Timestamp },
}

/// Decides whether request number `count` (from 1) of `minute` (since the Unix epoch) may be made.
/// `dice` spreads those that wait.
pub fn turn(minute: i64, rate: NonZeroU32, count: u64, dice: f64) -> RateDecision {
    let rate = u64::from(rate.get());
    if count <= rate {
        return RateDecision::Go;
    }
    let later = (1 + (count - rate - 1) / rate).min(MINUTES_MAX);
    let next = Timestamp::from_millis(minute.saturating_mul(60_000));
    RateDecision::Wait { until: next + Duration::from_secs(later * 60) + SPREAD.mul_f64(dice) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn rate(rate: u32) -> NonZeroU32 {
        NonZeroU32::new(rate).expect("at least one")
    }

    #[test]
    fn turn_table() {
        let wait = |minute: i64, seconds: i64| RateDecision::Wait {
            until: Timestamp::from_millis((minute * 60 + seconds) * 1_000),
        };
        let table = [
            ("the first", 10, 1, 0.5, RateDecision::Go),
            ("the last that may", 10, 10, 0.5, RateDecision::Go),
            ("the first that waits", 10, 11, 0.0, wait(101, 0)),
            ("the last for the next minute", 10, 20, 0.0, wait(101, 0)),
            ("the first for the one after", 10, 21, 0.0, wait(102, 0)),
            ("spread over the minute", 10, 20, 0.5, wait(101, 25)),
            ("all of the spread", 10, 20, 1.0, wait(101, 50)),
            ("one in a minute", 1, 2, 0.0, wait(101, 0)),
            ("one in a minute, far back", 1, 61, 0.0, wait(160, 0)),
            ("the highest rate", u32::MAX, u64::from(u32::MAX), 0.0, RateDecision::Go),
            ("beyond every life", 1, u64::MAX, 0.0, wait(100 + 10_080, 0)),
        ];
        for (row, per_minute, count, dice, want) in table {
            assert_eq!(turn(100, rate(per_minute), count, dice), want, "{row}");
        }
    }

    proptest! {
        /// A backlog takes as few minutes as the rate allows, and no minute exceeds the rate.
        #[test]
        fn a_backlog_spreads_over_the_minutes_it_needs(
            per_minute in 1_u32..50,
            dice in prop::collection::vec(0.0_f64..1.0, 1..400),
        ) {
            let backlog = dice.len() as u64;
            let mut waiting: Vec<_> = dice.into_iter().map(|dice| (0_i64, dice)).collect();
            let (mut counts, mut gone) = (BTreeMap::<i64, u64>::new(), BTreeMap::<i64, u64>::new());
            while let Some((minute, dice)) = waiting.pop() {
                let count = counts.entry(minute).or_default();
                *count += 1;
                match turn(minute, rate(per_minute), *count, dice) {
                    RateDecision::Go => *gone.entry(minute).or_default() += 1,
                    RateDecision::Wait { until } => {
                        prop_assert!(until.as_minutes() > minute);
                        waiting.push((until.as_minutes(), dice));
                    }
                }
            }
            let most = u64::from(per_minute);
            prop_assert!(gone.values().all(|gone| *gone <= most), "{gone:?}");
            prop_assert_eq!(gone.values().sum::<u64>(), backlog);
            prop_assert_eq!(gone.len() as u64, backlog.div_ceil(most));
        }
    }
}
