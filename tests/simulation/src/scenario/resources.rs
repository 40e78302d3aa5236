//! AWS resources in the mix of worlds.

use std::collections::BTreeSet;

use gridpost_core::{
    retry::outcome::{Answer, Outcome},
    subscription::{Endpoint, Resource, ResourceKind},
};

use super::{Scenario, Script, SeededDice};

/// Makes some endpoints AWS resources: those without a consent request, and without a rate.
pub(super) fn set(dice: &SeededDice, scenario: &mut Scenario) {
    let asked: BTreeSet<_> = scenario.consents.iter().map(|consent| consent.of.clone()).collect();
    for (topic, subscriptions) in &mut scenario.topics {
        let subscription = &mut subscriptions[0];
        let is_free = subscription.allowed_rate.is_none() && !asked.contains(&subscription.key);
        if !dice.chance(0.25) || !is_free {
            continue;
        }
        let is_function = dice.chance(0.3);
        let (kind, arn) = if is_function {
            (ResourceKind::LambdaFunction, format!("lambda:r:123456789012:function:{}", topic.name))
        } else {
            (ResourceKind::SqsQueue, format!("sqs:r:123456789012:{}", topic.name))
        };
        let arn = format!("arn:aws:{arn}").parse().expect("an ARN");
        subscription.endpoint =
            Endpoint::Resource(Resource { kind, arn, message_group_id: None, partition_key: None });
        if !is_function {
            subscription.batching = None;
            if dice.chance(0.6) {
                let answers = (0..dice.number(1..4)).map(|_| entry_failure(dice)).collect();
                let script = Script::Partly { rate: dice.choose(&[0.05, 0.3, 0.7]), answers };
                scenario.scripts.insert(subscription.key.clone(), script);
            }
        }
    }
}

/// Chooses an answer that refuses one entry of a batch.
fn entry_failure(dice: &SeededDice) -> Answer {
    let without = [Outcome::Disabled, Outcome::Full, Outcome::SessionQueueNotSupported];
    match dice.number(0..5) {
        0 => Answer::without_status(dice.choose(&without)),
        1 => Answer::of_status(dice.choose(&[400, 403, 413]), None),
        2 => Answer::of_status(dice.choose(&[401, 404]), None),
        _ => Answer::of_status(dice.choose(&[500, 503, 503]), None),
    }
}
