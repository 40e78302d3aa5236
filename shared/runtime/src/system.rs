//! The machine's clock and randomness: nothing else reads them.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use gridpost_core::time::Timestamp;
use gridpost_ports::{Clock, Dice};

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the Clock port itself")]
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = since_epoch.map_or(0, |duration| duration.as_millis());
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }
}

/// The machine's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDice;

impl Dice for SystemDice {
    fn roll(&self) -> f64 {
        // The first 48 bits of a version 4 UUID are all random.
        let bits = self.id().as_u128() >> 80;
        bits as f64 / (1_u64 << 48) as f64
    }

    fn id(&self) -> Uuid {
        #[expect(clippy::disallowed_methods, reason = "this is the Dice port itself")]
        Uuid::new_v4()
    }

    fn key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        // Better no key than a weak one; ids need randomness, too.
        getrandom::fill(&mut key).expect("the operating system gives random bytes");
        key
    }
}

/// Returns when Lambda stops an invocation: its Runtime API gives milliseconds since 1970. cargo-lambda
/// gives a duration instead, ten minutes.
pub fn deadline(told_ms: u64, now: Timestamp) -> Timestamp {
    if told_ms < A_YEAR_MS {
        return now + Duration::from_millis(told_ms);
    }
    Timestamp::from_millis(i64::try_from(told_ms).unwrap_or(i64::MAX))
}

/// Smaller values are durations.
const A_YEAR_MS: u64 = 31_536_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_comes_twice() {
        assert_ne!(SystemDice.key(), SystemDice.key());
    }

    #[test]
    fn rolls_lie_between_zero_and_one() {
        let rolls: Vec<f64> = (0..1_000).map(|_| SystemDice.roll()).collect();
        assert!(rolls.iter().all(|roll| (0.0..1.0).contains(roll)));
        assert!(rolls.iter().any(|roll| *roll < 0.5) && rolls.iter().any(|roll| *roll > 0.5));
    }

    #[test]
    fn a_deadline_is_a_time_or_a_duration() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        for (told, want) in [
            (1_800_000_210_000, 1_800_000_210_000),
            (600_000, 1_800_000_600_000),
            (u64::MAX, i64::MAX),
        ] {
            assert_eq!(deadline(told, now), Timestamp::from_millis(want), "{told}");
        }
    }
}
