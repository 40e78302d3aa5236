//! Worlds whose publishers repeat under a key: worlds of their own, so that those of all other seeds
//! stay as they are.

use std::time::Duration;

use gridpost_core::{retry::profile::ProfileName, subscription::Batching};
use gridpost_testkit::{clock::BEGINNING, dice::SeededDice, faults::Service};

use super::{Publish, Scenario, key, seeds};

/// Tells these dice from those of other worlds.
const REPEATED: u64 = 0x1de_0b07e;

/// A world whose publishers repeat, chosen by a seed. All is published in the first ten minutes of an
/// hour.
pub fn repeated(seed: u64) -> Scenario {
    let dice = SeededDice::new(seed ^ REPEATED);
    let mut scenario = Scenario { jitter: dice.chance(0.5), ..Scenario::default() };
    for number in 0..dice.number(1..4) {
        let (name, script) = (format!("topic-{number}"), seeds::script(&dice));
        let batching =
            dice.chance(0.3).then_some(Batching { max_events: 3, preferred_kilobytes: 64 });
        scenario = scenario.with(&name, ProfileName::Basic, script, |subscription| {
            subscription.batching = batching;
            subscription.retry_policy.max_attempts = dice.choose(&[1, 3, 6]);
        });
        for _ in 0..dice.number(1..8) {
            let events = (0..dice.number(1..5)).map(|_| dice.number(0..600) as usize).collect();
            let at = BEGINNING + Duration::from_secs(60) + dice.millis(0..480_000);
            scenario.publishes.push(Publish { at, to: key(&name), events });
        }
    }
    if dice.chance(0.7) {
        seeds::set_faults(&dice, &mut scenario.plan, &[Service::Sqs, Service::DynamoDb]);
    }
    scenario.cold_starts = dice.choose(&[0.0, 0.5]);
    if dice.chance(0.2) {
        scenario.inline_fan_out = 0;
        scenario.piece_deliveries_max = dice.choose(&[1, 2]);
    }
    scenario.with_keys()
}
