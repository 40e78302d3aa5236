//! The last step in making a world: schedules with gaps of days, and late responses before such a gap.

use gridpost_core::{
    retry::{outcome::Outcome, policy::RetryPolicy, profile::Rule},
    subscription::Endpoint,
};
use gridpost_testkit::{
    dice::SeededDice,
    endpoint::{Reaction, Script},
};

use super::{CHANGING, Scenario, TOLD, streamed};

/// Separates this step's random numbers from those of earlier steps.
const PATIENT: u64 = 0x9a_71e7;

/// The longest life of an event, in minutes: what a namespace topic allows.
const WEEK_MINUTES: u32 = 7 * 24 * 60;

/// Makes a mixed world from a seed. Some long-lived event subscriptions have a schedule with gaps of
/// days.
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

/// They also retry timeouts, so that a late success can arrive during a gap.
fn set_schedule(policy: &mut RetryPolicy, first: u64, gap: u64) {
    policy.schedule_s = Some(vec![first as u32, (first + gap) as u32]);
    policy.status_rules.outcomes.insert(Outcome::TimedOut, Rule::Retry { min_s: 10 });
}

/// Makes webhooks whose events live for a week respond late before a gap of days, with every long wait
/// parked. Hidden messages would not do: they come back within 12 hours, before the state of the
/// delivered event can expire.
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
