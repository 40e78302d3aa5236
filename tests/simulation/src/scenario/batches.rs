//! Webhooks whose batches may end in parts, with bad events in them.

use gridpost_core::{
    event::DeliverySchema,
    subscription::{BatchFailure, Batching, Endpoint},
};
use gridpost_testkit::{dice::SeededDice, endpoint::Reaction};

use super::{CHANGING, Scenario, Script, TOLD, streamed};

/// The generator of these draws apart from the others.
const BATCHED: u64 = 0xba7c_4ed5;

/// The world of a seed, in which webhooks get batches that are split or that they tell apart.
pub fn batched(seed: u64) -> Scenario {
    let mut scenario = streamed(seed);
    let dice = SeededDice::new(seed ^ BATCHED);
    let Scenario { topics, scripts, publishes, .. } = &mut scenario;
    for subscription in topics.iter_mut().flat_map(|(_, subscriptions)| subscriptions) {
        let key = subscription.key.clone();
        let is_webhook = matches!(subscription.endpoint, Endpoint::WebHook { .. });
        let is_own = [CHANGING, TOLD].contains(&key.topic.as_str());
        if !is_webhook || is_own || !dice.chance(0.8) {
            continue;
        }
        let has_ids = subscription.delivery_schema != DeliverySchema::CustomInputSchema;
        let reads_results = has_ids && dice.chance(0.5);
        let bisects = !reads_results || dice.chance(0.5);
        subscription.batch_failure = BatchFailure { bisects, reads_results };
        subscription.batching = Some(Batching {
            max_events: dice.choose(&[2, 5, 10, 100]),
            preferred_kilobytes: dice.choose(&[4, 64, 64]),
        });
        scripts.insert(key, script(&dice, reads_results));
    }
    // Most publishes are of a few events: some become batches.
    for publish in publishes.iter_mut().filter(|_| dice.chance(0.4)) {
        let (size, more) = (publish.events.first().copied().unwrap_or(20), dice.number(1..12));
        publish.events.extend((0..more).map(|_| size.min(400)));
    }
    scenario
}

/// How its endpoint behaves. It always answers soon.
fn script(dice: &SeededDice, reads_results: bool) -> Script {
    match dice.number(0..6) {
        0 | 1 if reads_results => Script::Naming {
            rate: dice.choose(&[0.05, 0.3, 0.8]),
            garbled: dice.choose(&[0.0, 0.0, 0.2]),
        },
        5 => Script::Flaky {
            rate: dice.choose(&[0.1, 0.5]),
            reactions: [400, 413, 500, 503, 404].map(Reaction::status).to_vec(),
        },
        _ => Script::Picky {
            one_in: dice.choose(&[2, 7, 7, 23, 61]),
            status: dice.choose(&[400, 400, 413, 500]),
        },
    }
}
