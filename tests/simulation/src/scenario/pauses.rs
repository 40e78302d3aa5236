//! Pauses and resumptions beside everything else that happens.

use std::time::Duration;

use gridpost_testkit::{clock::BEGINNING, dice::SeededDice};

use super::{CHANGING, Operate, Operation, Scenario, converted};

/// The generator of pauses draws apart from the others.
const PAUSED: u64 = 0x7061_7573;

/// The world of a seed, in which operators also pause and resume event subscriptions.
pub fn paused(seed: u64) -> Scenario {
    let mut scenario = converted(seed);
    let dice = SeededDice::new(seed ^ PAUSED);
    let from = scenario.publishes.iter().map(|publish| publish.at).min().unwrap_or(BEGINNING);
    let all = scenario.topics.iter().filter(|(topic, _)| topic.name != CHANGING);
    let mut pauses = Vec::new();
    for subscription in all.flat_map(|(_, all)| all).filter(|_| dice.chance(0.7)) {
        let mut at = from;
        let mut act = |at, what| {
            pauses.push(Operation { at, of: subscription.key.clone(), what });
        };
        for _ in 0..dice.number(1..4) {
            let longest_ms = dice.choose(&[20_000, 600_000, 7_200_000]);
            at = at + dice.millis(0..longest_ms);
            act(at, Operate::Pause { time_to_live_runs: dice.chance(0.5) });
            at = at + dice.millis(1_000..dice.choose(&[30_000, 1_200_000, 14_400_000]));
            act(at, Operate::Resume);
        }
        // Whatever an operator did not manage to do: it is not paused for ever.
        act(at + Duration::from_secs(3_600), Operate::Resume);
    }
    scenario.operations.extend(pauses);
    scenario.operations.sort_by_key(|operation| operation.at);
    scenario
}
