//! Processes whose clock runs many times as fast as the machine's: `gridpost dev --speed`.

use std::time::Duration;

use gridpost_core::topic::Idempotency;
use gridpost_testkit::dice::SeededDice;

use super::{Scenario, paused, repeated};

/// The generator of speeds draws apart from the others.
const FAST: u64 = 0xfa57_c10c;

/// A world of pauses, operators and redrives, or one of repeated keys, whose plan is lived 60 or 600
/// times as fast as requests and calls.
pub fn fast(seed: u64) -> Scenario {
    let dice = SeededDice::new(seed ^ FAST);
    let mut scenario = if dice.chance(0.7) { paused(seed) } else { repeated(seed) };
    scenario.speed = dice.choose(&[60, 600]);
    // A process has one clock, and runs wake itself; calls stay on its machine.
    scenario.pace.skew_max = Duration::ZERO;
    scenario.wakes = None;
    scenario.plan.latency_max = Duration::from_millis(dice.choose(&[2, 20]));
    // A call that hangs for 6 s would hold wake up for an hour of minutes: no file does that.
    scenario.plan.hangs = 0.0;
    if dice.chance(0.5) {
        // As it has it.
        scenario.retry_in_flight_limit = 0;
    }
    // A publisher waits by the machine's clock: the record must be there for as long.
    for (topic, _) in &mut scenario.topics {
        let window = topic.idempotency.map(|_| Idempotency { window_in_seconds: 30 * 86_400 });
        topic.idempotency = window;
    }
    scenario
}
