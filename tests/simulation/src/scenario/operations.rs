//! Operators' actions while events flow: the calls of the manage API that change something.

use std::time::Duration;

use gridpost_core::{
    retry::profile::ProfileName,
    subscription::{Endpoint, EventSubscription, SubscriptionKey},
    time::Timestamp,
};
use gridpost_testkit::{clock::BEGINNING, dice::SeededDice};

use super::{CHANGING, Scenario, seeds};

/// The topic for dead-letter events.
pub const TOLD: &str = "told";

/// Something that an operator does.
#[derive(Clone, Debug)]
pub struct Operation {
    pub at: Timestamp,
    pub of: SubscriptionKey,
    pub what: Operate,
}

/// An operator's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operate {
    /// Gives it another label, which does not affect deliveries.
    Label,
    /// Gives it another endpoint, which must consent.
    Move(u32),
    Reset,
    /// Has one of its waiting deliveries attempted now.
    Resend,
    /// Releases its parked deliveries.
    Release,
    /// Cancels its parked deliveries.
    Cancel,
    Redrive,
    StopRedrive,
    ResumeRedrive,
    PurgePoison,
    Pause {
        time_to_live_runs: bool,
    },
    Resume,
}

/// Adds operators to some worlds, and to some a topic for dead-letter events.
pub(super) fn set(dice: &SeededDice, mut scenario: Scenario) -> Scenario {
    if dice.chance(0.2) {
        let script = seeds::script(dice);
        let profile = dice.choose(&[ProfileName::Basic, ProfileName::Namespace]);
        scenario = scenario.with(TOLD, profile, script, |subscription| {
            seeds::set_subscription(dice, profile, subscription);
        });
        scenario.told = Some(TOLD.to_owned());
    }
    if !dice.chance(0.35) {
        return scenario;
    }
    let mut operations = Vec::new();
    let all = scenario.topics.iter().filter(|(topic, _)| topic.name != CHANGING);
    for subscription in all.flat_map(|(_, all)| all) {
        for number in 0..dice.number(0..8) {
            let longest_ms = dice.choose(&[60_000, 600_000, 3_600_000, 86_400_000]);
            let at = BEGINNING + dice.millis(0..longest_ms);
            let Some(what) = draw(dice, &scenario, subscription, number as u32) else { continue };
            operations.push(Operation { at, of: subscription.key.clone(), what });
        }
        if subscription.dead_letter.is_some() && dice.chance(0.6) {
            redrives(dice, subscription, &mut operations);
        }
    }
    operations.sort_by_key(|operation| operation.at);
    scenario.operations = operations;
    scenario
}

fn draw(
    dice: &SeededDice,
    scenario: &Scenario,
    subscription: &EventSubscription,
    number: u32,
) -> Option<Operate> {
    let asked = scenario.consents.iter().any(|consent| consent.of == subscription.key);
    let is_webhook = matches!(subscription.endpoint, Endpoint::WebHook { .. });
    let fans_out = scenario.inline_fan_out < Scenario::default().inline_fan_out;
    let what = match dice.number(0..12) {
        0 => Operate::Label,
        1 | 2 => Operate::Move(number),
        3 | 4 => Operate::Reset,
        5..=7 => Operate::Resend,
        8 | 9 => Operate::Release,
        10 => Operate::Cancel,
        _ => Operate::PurgePoison,
    };
    // A schedule that reaches beyond its time-to-live can't be written, but was once.
    let policy = &subscription.retry_policy;
    let fits = |step: &u32| *step <= policy.time_to_live_minutes * 60;
    let is_written = policy.schedule_s.iter().flatten().all(fits);
    let may = match what {
        // A consent would be given sooner than it is to be.
        Operate::Label => !asked && is_written,
        // Another endpoint may allow another rate.
        Operate::Move(_) => {
            !asked && is_written && is_webhook && subscription.allowed_rate.is_none()
        }
        // Of a piece of a publish it is not known what was in it.
        Operate::PurgePoison => !fans_out,
        _ => true,
    };
    may.then_some(what)
}

/// One or two redrives, some of which are stopped in between.
fn redrives(dice: &SeededDice, of: &EventSubscription, to: &mut Vec<Operation>) {
    let longest_ms = dice.choose(&[3_600_000, 86_400_000, 4 * 86_400_000]);
    for _ in 0..dice.number(1..4) {
        let at = BEGINNING + dice.millis(300_000..longest_ms);
        let mut act = |at, what| to.push(Operation { at, of: of.key.clone(), what });
        act(at, Operate::Redrive);
        if dice.chance(0.3) {
            let at = at + dice.millis(0..5_000);
            act(at, Operate::StopRedrive);
            act(at + Duration::from_secs(dice.number(1..600)), Operate::ResumeRedrive);
        }
    }
}
