//! Processes that are killed at any instant, besides all other faults.

use std::time::Duration;

use gridpost_testkit::{clock::BEGINNING, dice::SeededDice, faults::Plan, queue::QueueSettings};

use super::{Scenario, mixed};

/// Separates this step's random numbers from those of other steps.
const RESTARTED: u64 = 0x2e57_a27d;

/// Makes a world on one machine whose process is killed and started again several times: soon after a
/// publish, when most work is under way, or at any time of the first day.
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
    // One process has one clock and one pace.
    scenario.pace.skew_max = Duration::ZERO;
    scenario
}

/// The same, without any other fault. Calls take time, so that a process dies between any two of them.
pub fn killed(seed: u64) -> Scenario {
    let mut scenario = restarted(seed);
    let latency_max = scenario.plan.latency_max;
    scenario.plan = Plan { latency_max, ..Plan::default() };
    scenario.queues.receives_max = QueueSettings::CALM.receives_max;
    scenario
}
