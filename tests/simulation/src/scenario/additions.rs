//! Additions to the worlds of [`super::plain`], with dice of their own, so that the worlds of all
//! seeds stay the same except for the additions. Later ones are in [`super::conversions`].

use std::time::Duration;

use gridpost_core::publish::pack::HEADROOM_BYTES;
use gridpost_testkit::{
    clock::BEGINNING,
    dice::SeededDice,
    endpoint::Script,
    faults::{Outage, Service},
};

use super::{Pace, Scenario, Settings, filters, operations, plain};
use crate::lambda::Wakes;

/// The dice of settings that change, the last addition.
const SETTINGS: u64 = 0x5e7_71a6;

/// The dice of clocks, connections and machines, a later addition.
const PACE: u64 = 0x57a1_1ed0;

/// Tells these dice from those of the plain world.
const APART: u64 = 0xadd_ed00;

/// The dice of operators' actions, a later addition.
const OPERATED: u64 = 0x0be_7a7e;

/// Returns the world without the additions after these.
pub fn unconverted(seed: u64) -> Scenario {
    let dice = SeededDice::new(seed ^ APART);
    let mut scenario = plain(seed);
    set_faults(&dice, &mut scenario);
    set_queues(&dice, &mut scenario);
    set_wake(&dice, &mut scenario);
    filters::set(&dice, &mut scenario);
    set_functions(&dice, &mut scenario);
    let mut scenario = operations::set(&SeededDice::new(seed ^ OPERATED), scenario);
    set_settings(&SeededDice::new(seed ^ SETTINGS), &mut scenario);
    scenario.pace = pace(&SeededDice::new(seed ^ PACE));
    if dice.chance(0.5) {
        begin_later(&mut scenario, dice.millis(0..86_400_000));
    }
    scenario
}

/// Calls that the SDK repeats, and services that fail together.
fn set_faults(dice: &SeededDice, scenario: &mut Scenario) {
    let plan = &mut scenario.plan;
    let (repeats, outage) = (dice.chance(0.2), dice.chance(0.15));
    if repeats {
        plan.repeats = dice.choose(&[0.001, 0.01, 0.05]);
    }
    if outage {
        use Service::{DynamoDb, S3, Sqs};
        let of =
            [vec![Sqs], vec![DynamoDb], vec![S3], vec![Sqs, DynamoDb], vec![Sqs, DynamoDb, S3]];
        let of = of[dice.number(0..of.len() as u64) as usize].clone();
        let from = BEGINNING + dice.millis(0..3_600_000);
        let lasts = dice.millis(1_000..dice.choose(&[20_000, 120_000, 900_000]));
        plan.outages.push(Outage { of, during: from..from + lasts });
    }
}

/// Functions that are killed at any moment, messages that are not deleted, other numbers of retry
/// queues.
fn set_functions(dice: &SeededDice, scenario: &mut Scenario) {
    if dice.chance(0.2) {
        scenario.plan.killed = dice.choose(&[0.001, 0.01, 0.1]);
    }
    if dice.chance(0.2) {
        scenario.plan.undeleted = dice.choose(&[0.001, 0.01, 0.1]);
    }
    if dice.chance(0.15) {
        let at = BEGINNING + dice.millis(0..7_200_000);
        let most = scenario.queues.retry_shards as u64;
        scenario.retry_shards_from.push((at, dice.number(1..most + 1) as usize));
    }
}

/// Settings that change once or twice while deliveries wait that were sent under others.
fn set_settings(dice: &SeededDice, scenario: &mut Scenario) {
    if !dice.chance(0.15) {
        return;
    }
    let most = scenario.queues.message_bytes_max;
    // A publish that is expanded again under another size has other deliveries under the same ids.
    let fans_out = scenario.inline_fan_out < Scenario::default().inline_fan_out;
    let least = if fans_out { most } else { HEADROOM_BYTES + 800 };
    let mut at = BEGINNING;
    for _ in 0..dice.number(1..3) {
        at = at + dice.millis(0..dice.choose(&[60_000, 3_600_000]));
        let settings = Settings {
            retry_in_flight_limit: dice.choose(&[0, 3, 60_000]),
            message_bytes_max: dice.choose(&[most, most, least]).min(most),
        };
        scenario.settings_from.push((at, settings));
    }
}

/// Machines whose clocks differ by seconds or that stall, and endpoints that are slow to connect.
fn pace(dice: &SeededDice) -> Pace {
    let most = |rate, of: &[u64]| {
        Duration::from_millis(if dice.chance(rate) { dice.choose(of) } else { 0 })
    };
    Pace {
        skew_max: most(0.2, &[50, 500, 2_000]),
        dial_max: most(0.2, &[20, 300, 2_000]),
        stalls: if dice.chance(0.15) { dice.choose(&[0.01, 0.1]) } else { 0.0 },
        stall_max: Duration::from_millis(dice.choose(&[500, 5_000, 60_000])),
    }
}

/// Moves everything to a later time: other minutes of an hour, other hours of a day.
fn begin_later(scenario: &mut Scenario, by: Duration) {
    let Scenario { publishes, deletions, changes, consents, operations, .. } = scenario;
    let Scenario { bucket_refuses, plan, .. } = scenario;
    let shards = &mut scenario.retry_shards_from;
    let settings = scenario.settings_from.iter_mut().map(|(at, _)| at);
    let times = publishes.iter_mut().map(|publish| &mut publish.at);
    let times = times.chain(deletions.iter_mut().map(|(at, _)| at));
    let times = times.chain(changes.iter_mut().map(|change| &mut change.at));
    let times = times.chain(operations.iter_mut().map(|operation| &mut operation.at));
    let asked = consents.iter_mut().flat_map(|it| [Some(&mut it.asked_at), it.given_at.as_mut()]);
    let times =
        times.chain(asked.flatten()).chain(shards.iter_mut().map(|(at, _)| at)).chain(settings);
    let outages = plan.outages.iter_mut().map(|outage| &mut outage.during);
    let spans = bucket_refuses.iter_mut().chain(&mut plan.throttled).chain(outages);
    let times = times.chain(spans.flat_map(|span| [&mut span.start, &mut span.end]));
    times.for_each(|at| *at = *at + by);
    for script in scenario.scripts.values_mut() {
        if let Script::Outage { windows, .. } = script {
            let seconds = by.as_secs();
            windows
                .iter_mut()
                .for_each(|window| *window = (window.0 + seconds, window.1 + seconds));
        }
    }
}

/// Queues whose counts lag, and that give messages up early.
fn set_queues(dice: &SeededDice, scenario: &mut Scenario) {
    scenario.queues.counts_lag = dice.chance(0.25);
    if dice.chance(0.1) {
        scenario.queues.receives_max = dice.choose(&[4, 12, 40]);
    }
}

/// A schedule that hardly keeps time, and pages of few parked deliveries of which some are lost.
fn set_wake(dice: &SeededDice, scenario: &mut Scenario) {
    if dice.chance(0.4) {
        scenario.wakes = Some(Wakes {
            phase: dice.millis(0..60_000),
            late_max: dice.millis(0..dice.choose(&[1, 1_000, 30_000]) + 1),
            skipped: dice.choose(&[0.0, 0.0, 0.1]),
            twice: dice.choose(&[0.0, 0.1, 0.5]),
        });
    }
    if dice.chance(0.4) {
        scenario.parked_page_max = dice.choose(&[1, 1, 2, 5]);
        scenario.plan.pages_lost = dice.choose(&[0.0, 0.1, 0.5]);
    }
    if dice.chance(0.15) {
        // All that waits for more than a quarter of an hour is parked.
        scenario.retry_in_flight_limit = 0;
    }
}
