//! Kinesis streams and event buses among the AWS resources, calls of many entries as the adapters
//! make them, a punctual schedule of wake, and schedules with gaps of days: what was added to worlds
//! last, with dice of its own.

use gridpost_core::{
    retry::{outcome::Outcome, profile::Rule},
    subscription::{Endpoint, EventSubscription, KeySource, ResourceKind},
};
use gridpost_testkit::dice::SeededDice;

use super::{CHANGING, Scenario, TOLD, converted};
use crate::lambda::Wakes;

/// Tells these dice from those of all earlier steps.
const STREAMED: u64 = 0x057e_a3ed;

/// The same of schedules with gaps of days, which came last.
const PATIENT: u64 = 0x9a_71e7;

/// A world of many kinds, chosen by a seed.
pub fn mixed(seed: u64) -> Scenario {
    let mut scenario = converted(seed);
    let dice = SeededDice::new(seed ^ STREAMED);
    for (topic, subscriptions) in &mut scenario.topics {
        let (is_other, is_bus, key) = (dice.chance(0.5), dice.chance(0.5), dice.number(0..3));
        if is_other && ![CHANGING, TOLD].contains(&topic.name.as_str()) {
            set_resource(&mut subscriptions[0], is_bus, key);
        }
    }
    let (as_adapters, is_punctual) = (dice.chance(0.5), dice.chance(0.5));
    scenario.plan.as_adapters = as_adapters;
    if is_punctual {
        scenario.wakes = scenario.wakes.or(Some(Wakes::PUNCTUAL));
    }
    set_patience(&SeededDice::new(seed ^ PATIENT), &mut scenario);
    scenario
}

/// Gives some event subscriptions that live for days a schedule with gaps of days. They have another
/// attempt after no answer, too, so that a late success may come while such a gap lasts.
fn set_patience(dice: &SeededDice, scenario: &mut Scenario) {
    for subscription in scenario.topics.iter_mut().flat_map(|(_, subscriptions)| subscriptions) {
        let (is_patient, first, gap) =
            (dice.chance(0.3), dice.number(1..120), dice.number(50_000..500_000));
        let policy = &mut subscription.retry_policy;
        if is_patient && u64::from(policy.time_to_live_minutes) * 60 > first + gap {
            policy.schedule_s = Some(vec![first as u32, (first + gap) as u32]);
            policy.status_rules.outcomes.insert(Outcome::TimedOut, Rule::Retry { min_s: 10 });
        }
    }
}

/// Makes a queue or an SNS topic a stream or an event bus. These take no attributes, and a stream
/// has a key for every event.
fn set_resource(subscription: &mut EventSubscription, is_bus: bool, key: u64) {
    let Endpoint::Resource(resource) = &mut subscription.endpoint else { return };
    if resource.kind == ResourceKind::LambdaFunction {
        return;
    }
    let (kind, place) = match is_bus {
        true => (ResourceKind::EventBridgeBus, "events:r:123456789012:event-bus/"),
        false => (ResourceKind::KinesisStream, "kinesis:r:123456789012:stream/"),
    };
    let arn = format!("arn:aws:{place}{}", subscription.key.topic);
    (resource.kind, resource.arn) = (kind, arn.parse().expect("an ARN"));
    resource.message_group_id = None;
    resource.partition_key = match key {
        _ if is_bus => None,
        0 => None,
        1 => Some(KeySource::Static { value: "all".to_owned() }),
        _ => Some(KeySource::Dynamic { source_field: "subject".to_owned() }),
    };
}
