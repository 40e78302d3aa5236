//! Processes that end at any instant, beside everything else that happens.

use std::time::Duration;

use gridpost_testkit::{clock::BEGINNING, dice::SeededDice};

use super::{Scenario, mixed};

/// The generator of restarts draws apart from the others.
const RESTARTED: u64 = 0x2e57_a27d;

/// The world of a seed on one machine, whose process is started again several times: soon after
/// something was published, when most is under way, or at any time of the first day.
pub fn restarted(seed: u64) -> Scenario {
    let mut scenario = mixed(seed);
    let dice = SeededDice::new(seed ^ RESTARTED);
    let published: Vec<_> = scenario.publishes.iter().map(|publish| publish.at).collect();
    let mut restarts = Vec::new();
    for _ in 0..dice.number(2..9) {
        let longest_ms = dice.choose(&[300, 3_000, 60_000, 3_600_000, 86_400_000]);
        let from = if published.is_empty() { BEGINNING } else { dice.choose(&published) };
        restarts.push(from + dice.millis(1..longest_ms));
    }
    restarts.sort();
    scenario.restarts = restarts;
    // All of a process is on one machine.
    scenario.pace.skew_max = Duration::ZERO;
    scenario
}
