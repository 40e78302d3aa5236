//! Worlds of neighbours of many kinds.

use std::time::Duration;

use gridpost_testkit::dice::SeededDice;

use super::{Plan, Spec};
use crate::lambda::Ramp;

const SPECS: [&str; 11] = [
    "never",
    "never",
    "500",
    "503",
    "404",
    "200@5",
    "200@20",
    "200@45",
    "500@25",
    "half:never",
    "half:500",
];

/// How long a healthy endpoint's event may wait for its first attempt where Lambda reads as much as it ever
/// does; and where it has to grow.
const WITHIN: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(5)];

/// Neighbours of many kinds, chosen by a seed. In half of the worlds calls fail, functions die and
/// messages come twice; then waiting times are not checked.
pub fn mixed(seed: u64) -> Plan {
    let dice = SeededDice::new(seed);
    let spec = |_| dice.choose(&SPECS).parse::<Spec>().expect("a word of those");
    let mut plan = Plan {
        bad: (0..dice.number(1..5)).map(spec).collect(),
        rate: dice.choose(&[5.0, 20.0, 50.0]),
        seconds: dice.choose(&[10, 30]),
        ttl_minutes: dice.choose(&[5, 30, 180]),
        ramp: dice.chance(0.3).then_some(Ramp::Continuous),
        fair: dice.chance(0.5),
        seed,
        ..Plan::default()
    };
    if dice.chance(0.5) {
        plan.faults.fails_before = 0.001;
        plan.faults.fails_after = 0.001;
        plan.faults.dies = 0.0005;
        plan.duplicates = 0.001;
    } else {
        plan.first_attempt_within = Some(WITHIN[usize::from(plan.ramp.is_some())]);
    }
    plan
}
