//! Schedules with gaps of days, and endpoints that answer late before one: what was added to worlds
//! last, with dice of its own.

use gridpost_core::{
    retry::{outcome::Outcome, policy::RetryPolicy, profile::Rule},
    subscription::Endpoint,
};
use gridpost_testkit::{
    dice::SeededDice,
    endpoint::{Reaction, Script},
};

use super::{CHANGING, Scenario, TOLD, streamed};

/// Tells these dice from those of all earlier steps.
const PATIENT: u64 = 0x9a_71e7;

/// The longest life of an event, in minutes: what a namespace topic allows.
const WEEK_MINUTES: u32 = 7 * 24 * 60;

/// A world of many kinds, chosen by a seed. Some event subscriptions that live for days have a
/// schedule with gaps of days.
pub fn mixed(seed: u64) -> Scenario {
    let mut scenario = streamed(seed);
    let dice = SeededDice::new(seed ^ PATIENT);
    for subscription in scenario.topics.iter_mut().flat_map(|(_, subscriptions)| subscriptions) {
        let (is_patient, first, gap) =
            (dice.chance(0.3), dice.number(1..120), dice.number(50_000..500_000));
        let policy = &mut subscription.retry_policy;
        if is_patient && u64::from(policy.time_to_live_minutes) * 60 > first + gap {
            set_schedule(policy, first, gap);
        }
    }
    if dice.chance(0.1) {
        set_late_answers(&dice, &mut scenario);
    }
    scenario
}

/// After no answer there is another attempt, too, so that a late success may come while a gap lasts.
fn set_schedule(policy: &mut RetryPolicy, first: u64, gap: u64) {
    policy.schedule_s = Some(vec![first as u32, (first + gap) as u32]);
    policy.status_rules.outcomes.insert(Outcome::TimedOut, Rule::Retry { min_s: 10 });
}

/// Lets the endpoints of webhooks that may live for a week answer too late, before a gap of days in
/// which their deliveries are parked: messages that are hidden come back within 12 hours, and hear of
/// the success before its mark may be forgotten.
fn set_late_answers(dice: &SeededDice, scenario: &mut Scenario) {
    let Scenario { topics, scripts, .. } = scenario;
    for subscription in topics.iter_mut().flat_map(|(_, subscriptions)| subscriptions) {
        let (first, gap) = (dice.number(1..30), dice.number(300_000..550_000));
        let answers = (0..3).map(|_| Reaction::status(200).after(dice.millis(31_000..170_000)));
        let answers: Vec<_> = answers.collect();
        let is_webhook = matches!(subscription.endpoint, Endpoint::WebHook { .. });
        let is_own = [CHANGING, TOLD].contains(&subscription.key.topic.as_str());
        let policy = &mut subscription.retry_policy;
        if is_webhook && !is_own && policy.time_to_live_minutes == WEEK_MINUTES {
            policy.max_attempts = policy.max_attempts.max(3);
            set_schedule(policy, first, gap);
            scripts.insert(subscription.key.clone(), Script::Answers(answers));
            scenario.retry_in_flight_limit = 0;
        }
    }
}
