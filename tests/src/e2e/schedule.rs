//! Judges when attempts arrived. No IO.

use std::time::Duration;

use anyhow::ensure;

use super::receiver::{Arrival, describe};

/// Clocks and rounding may make an attempt look this much early.
pub const EARLY: Duration = Duration::from_millis(100);

/// The longest delay that scheduling on a busy machine may add beyond the schedule's own jitter.
/// Two steps are never nearer to each other.
const LATE: Duration = Duration::from_secs(5);

/// Checks that attempts came when they were due: at `due_s` seconds after the first, plus at most a
/// tenth of the wait and 5 s; and that `aeg-delivery-count` counts the earlier attempts.
pub fn check(attempts: &[Arrival], due_s: &[u64]) -> anyhow::Result<()> {
    let all = || describe(attempts);
    ensure!(
        attempts.len() == due_s.len(),
        "{} attempts instead of {}:\n{}",
        attempts.len(),
        due_s.len(),
        all()
    );
    let Some(first) = attempts.first() else { return Ok(()) };
    let mut before_s = 0;
    for (index, (attempt, due_s)) in attempts.iter().zip(due_s).enumerate() {
        let offset = attempt.at - first.at;
        ensure!(
            is_in_time(offset, before_s, *due_s),
            "attempt {} is not in time:\n{}",
            index + 1,
            all()
        );
        let count = attempt.header("aeg-delivery-count");
        ensure!(
            count == index.to_string(),
            "aeg-delivery-count {count} on attempt {}:\n{}",
            index + 1,
            all()
        );
        before_s = *due_s;
    }
    Ok(())
}

fn is_in_time(offset: Duration, before_s: u64, due_s: u64) -> bool {
    let due = Duration::from_secs(due_s);
    let jitter = Duration::from_secs(due_s - before_s) / 10;
    offset + EARLY >= due && offset <= due + jitter + LATE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_time_table() {
        for (offset_ms, before_s, due_s, want) in [
            (0, 0, 0, true),
            (9_800, 0, 10, false),
            (10_000, 0, 10, true),
            (16_000, 0, 10, true),
            (16_001, 0, 10, false),
            (37_000, 10, 30, true),
            (37_001, 10, 30, false),
        ] {
            let offset = Duration::from_millis(offset_ms);
            assert_eq!(is_in_time(offset, before_s, due_s), want, "{offset_ms} ms, due {due_s} s");
        }
    }
}
