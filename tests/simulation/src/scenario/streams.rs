//! Kinesis streams and event buses among the AWS resources, calls of many entries as the adapters
//! make them, and a punctual schedule of wake: what was added to worlds last, with dice of its own.

use gridpost_core::subscription::{Endpoint, EventSubscription, KeySource, ResourceKind};
use gridpost_testkit::dice::SeededDice;

use super::{CHANGING, Scenario, TOLD, converted};
use crate::lambda::Wakes;

/// Tells these dice from those of all earlier steps.
const STREAMED: u64 = 0x057e_a3ed;

/// A world of many kinds, chosen by a seed.
pub fn streamed(seed: u64) -> Scenario {
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
    scenario
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
