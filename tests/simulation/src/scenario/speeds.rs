//! Processes whose clock runs many times as fast as the machine's: `gridpost dev --speed`.

use std::time::Duration;

use gridpost_core::topic::Idempotency;
use gridpost_testkit::dice::SeededDice;

use super::{Scenario, paused, repeated};

/// Separates this step's random numbers from those of other steps.
const FAST: u64 = 0xfa57_c10c;

/// Makes a world with pauses, operators and redrives, or one with idempotent publishes, whose clock runs
/// 60 or 600 times faster than its requests and calls.
pub fn fast(seed: u64) -> Scenario {
    let dice = SeededDice::new(seed ^ FAST);
    let mut scenario = if dice.chance(0.7) { paused(seed) } else { repeated(seed) };
    scenario.speed = dice.choose(&[60, 600]);
    // One process has one clock, runs wake itself, and makes no calls over a network.
    scenario.pace.skew_max = Duration::ZERO;
    scenario.wakes = None;
    scenario.plan.latency_max = Duration::from_millis(dice.choose(&[2, 20]));
    // A call that hangs for 6 s would delay wake by an hour on this clock. Files do not hang that long.
    scenario.plan.hangs = 0.0;
    if dice.chance(0.5) {
        // The setting of `gridpost dev`.
        scenario.retry_in_flight_limit = 0;
    }
    // Publishers wait in real time, so the record must exist for long on this clock.
    for (topic, _) in &mut scenario.topics {
        let window = topic.idempotency.map(|_| Idempotency { window_in_seconds: 30 * 86_400 });
        topic.idempotency = window;
    }
    scenario
}
