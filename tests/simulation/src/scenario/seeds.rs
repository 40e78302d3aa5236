//! Worlds of many kinds.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use gridpost_core::{
    event::DeliverySchema,
    publish::pack::HEADROOM_BYTES,
    retry::{
        health::ProbationPolicy,
        outcome::Outcome,
        policy::StatusRules,
        profile::{ProfileName, Rule},
    },
    subscription::{Batching, EventSubscription},
};
use gridpost_ports::Dice;
use gridpost_testkit::{
    clock::BEGINNING,
    dice::SeededDice,
    endpoint::{Reaction, Script},
    faults::{Limits, Outage, Plan, Service},
};

use super::{Publish, Scenario, changes, key, resources};
use crate::{
    deployed,
    lambda::{Ramp, Reading, Readings},
};

/// A world of many kinds, chosen by a seed, without later additions.
pub fn plain(seed: u64) -> Scenario {
    let dice = SeededDice::new(seed);
    let mut scenario = Scenario { jitter: dice.chance(0.8), ..Scenario::default() };
    for number in 0..dice.number(1..5) {
        let profile = dice.choose(&[
            ProfileName::Basic,
            ProfileName::Basic,
            ProfileName::Basic2021,
            ProfileName::Namespace,
        ]);
        let name = format!("topic-{number}");
        let script = script(&dice);
        scenario = scenario.with(&name, profile, script, |subscription| {
            set_subscription(&dice, profile, subscription);
        });
        let batched = scenario.topics.last().and_then(|(_, all)| all[0].batching);
        scenario.publishes.extend(publishes(&dice, &name, batched));
        if dice.chance(0.05) {
            let at = BEGINNING + dice.millis(0..3_600_000);
            scenario.deletions.push((at, key(&name)));
        }
    }
    set_world(&dice, &mut scenario);
    set_rates(&dice, &mut scenario);
    let mut scenario = set_consents(&dice, scenario);
    resources::set(&dice, &mut scenario);
    if dice.chance(0.25) {
        scenario.inline_fan_out = dice.choose(&[0, 0, 1, 4]);
        scenario.piece_deliveries_max = dice.choose(&[1, 2, 5]);
    }
    let mut scenario = changes::set(&dice, scenario);
    set_lambda(&dice, &mut scenario);
    scenario
}

/// Calls that fail and copies that die, in worlds that are over within an hour but for retries; at
/// times one of those services is down.
pub(super) fn set_faults(dice: &SeededDice, plan: &mut Plan, services: &[Service]) {
    let rates = [0.0, 0.01, 0.05, 0.1];
    plan.fails_before = dice.choose(&rates);
    plan.fails_after = dice.choose(&rates);
    plan.repeats = dice.choose(&rates);
    plan.dies = dice.choose(&[0.0, 0.01, 0.04]);
    plan.killed = dice.choose(&[0.0, 0.02, 0.2]);
    if dice.chance(0.3) {
        plan.latency_max = Duration::from_millis(400);
    }
    if dice.chance(0.3) {
        let from = BEGINNING + dice.millis(60_000..400_000);
        let of = dice.choose(services);
        plan.outages.push(Outage { of: vec![of], during: from..from + dice.millis(1_000..60_000) });
    }
}

/// How Lambda and SQS hand over.
fn set_lambda(dice: &SeededDice, scenario: &mut Scenario) {
    scenario.queues.fair = dice.chance(0.5);
    scenario.last_used_first = dice.chance(0.5);
    if dice.chance(0.3) {
        let batch = dice.choose(&[20, 100]);
        scenario.readings.slow = Some(Reading { batch, ..deployed::slow() });
    }
    if dice.chance(0.2) {
        scenario.readings.ramp = Some(dice.choose(&[Ramp::Continuous, Ramp::Steps]));
    }
}

fn set_rates(dice: &SeededDice, scenario: &mut Scenario) {
    for subscription in scenario.topics.iter_mut().flat_map(|(_, subscriptions)| subscriptions) {
        if dice.chance(0.2) {
            subscription.allowed_rate = NonZeroU32::new(dice.choose(&[1, 2, 5, 10, 30]));
        }
    }
}

fn set_consents(dice: &SeededDice, mut scenario: Scenario) -> Scenario {
    let names: Vec<_> = scenario.topics.iter().map(|(topic, _)| topic.name.clone()).collect();
    for name in names {
        if dice.chance(0.1) {
            let asked_at_s = dice.number(0..dice.choose(&[60, 3_600]));
            let given_at_s = dice.chance(0.7).then(|| asked_at_s + dice.number(1..600));
            scenario = scenario.ask(&name, asked_at_s, given_at_s);
        }
    }
    scenario
}

fn failure(dice: &SeededDice) -> Reaction {
    let transport =
        [Outcome::SocketError, Outcome::ResolutionError, Outcome::SocketError, Outcome::TimedOut];
    match dice.number(0..12) {
        0 => Reaction::NEVER,
        1 => Reaction::failing(dice.choose(&transport[..3])),
        2 => Reaction::status(200).after(dice.millis(31_000..240_000)),
        3 => Reaction::status(dice.choose(&[401, 403, 404, 410])),
        4 => Reaction::status(dice.choose(&[400, 413, 414])),
        5 => Reaction::status(429).with_retry_after(dice.number(0..900)),
        6 => Reaction::status(503).with_retry_after(dice.number(0..200_000)),
        7 => Reaction::status(dice.choose(&[408, 504, 302, 205])),
        _ => Reaction::status(dice.choose(&[500, 500, 502, 503, 429])),
    }
    .delayed(dice.millis(0..500))
}

pub(super) fn script(dice: &SeededDice) -> Option<Script> {
    let hour = 3_600;
    Some(match dice.number(0..10) {
        0 | 1 => return None,
        2 => Script::Answers(vec![failure(dice)]),
        3 => {
            let mut answers: Vec<_> = (0..dice.number(1..15)).map(|_| failure(dice)).collect();
            answers.push(Reaction::status(200));
            Script::Answers(answers)
        }
        4 | 5 => {
            let longest = dice.choose(&[60, 600, hour, 6 * hour, 24 * hour, 96 * hour]);
            let from = dice.number(0..600);
            let windows = vec![(from, from + 1 + dice.number(0..longest))];
            Script::Outage { windows, reaction: failure(dice) }
        }
        6 | 7 => Script::Flaky {
            rate: dice.choose(&[0.02, 0.2, 0.6]),
            reactions: (0..dice.number(1..4)).map(|_| failure(dice)).collect(),
        },
        8 => {
            let retry_after = dice.chance(0.5).then(|| dice.millis(0..60_000));
            Script::Limited { per_second: dice.number(1..5) as usize, retry_after }
        }
        _ if dice.chance(0.5) => {
            Script::Picky { one_in: dice.number(2..9), status: dice.choose(&[400, 413, 500, 404]) }
        }
        _ => Script::Slow {
            seconds_max: dice.choose(&[1, 40, 250]),
            status: dice.choose(&[200, 200, 500]),
        },
    })
}

pub(super) fn set_subscription(
    dice: &SeededDice,
    profile: ProfileName,
    subscription: &mut EventSubscription,
) {
    let policy = &mut subscription.retry_policy;
    let (attempts_max, minutes_max) = (policy.max_attempts, policy.time_to_live_minutes);
    if dice.chance(0.5) {
        policy.max_attempts = 1 + dice.number(0..u64::from(attempts_max)) as u32;
    }
    if dice.chance(0.7) {
        let minutes = dice.choose(&[1, 5, 30, 60, 300, 1_440]);
        policy.time_to_live_minutes = minutes.min(minutes_max);
    }
    if dice.chance(0.2) {
        let life_s = policy.time_to_live_minutes * 60;
        let mut steps = BTreeSet::new();
        for _ in 0..dice.number(1..8) {
            steps.insert(1 + dice.number(0..u64::from(life_s.min(3_600))) as u32);
        }
        policy.schedule_s = Some(steps.into_iter().collect());
    }
    if dice.chance(0.2) {
        policy.status_rules = status_rules(dice);
    }
    if dice.chance(0.3) {
        subscription.batching = Some(Batching {
            max_events: dice.choose(&[1, 2, 5, 100]),
            preferred_kilobytes: dice.choose(&[1, 4, 64]),
        });
    }
    if dice.chance(0.3) {
        subscription.probation_policy = ProbationPolicy::Delay;
    }
    if dice.chance(0.3) {
        subscription.dead_letter = None;
    }
    if profile == ProfileName::Namespace || dice.chance(0.3) {
        subscription.delivery_schema = DeliverySchema::CloudEventSchemaV1_0;
    }
}

/// Rows of every kind, against the profile's and in its way.
fn status_rules(dice: &SeededDice) -> StatusRules {
    let wait = |most| Rule::Retry { min_s: dice.number(1..most) as u32 };
    let mut rules = StatusRules::default();
    rules.statuses.insert(404, Rule::End);
    rules.statuses.insert(400, wait(60));
    if dice.chance(0.5) {
        rules.statuses.insert(dice.choose(&[429, 500, 502]), Rule::End);
    }
    if dice.chance(0.3) {
        rules.statuses.insert(dice.choose(&[401, 403]), wait(600));
    }
    rules.classes.insert(5, wait(120));
    rules.outcomes.insert(Outcome::SocketError, wait(30));
    if dice.chance(0.3) {
        rules.outcomes.insert(Outcome::TimedOut, Rule::End);
    }
    rules
}

fn publishes(dice: &SeededDice, topic: &str, batched: Option<Batching>) -> Vec<Publish> {
    let spread_ms = dice.choose(&[1, 1_000, 60_000, 3_600_000]);
    let most = if batched.is_some() || dice.chance(0.2) { 12 } else { 1 };
    let count = dice.choose(if most > 1 { &[1, 3, 6] } else { &[1, 5, 12, 40] });
    let one = |_| {
        let events = (0..1 + dice.number(0..most)).map(|_| dice.number(0..600) as usize);
        let at = BEGINNING + dice.millis(0..spread_ms);
        Publish { at, to: key(topic), events: events.collect() }
    };
    (0..dice.number(1..count + 1)).map(one).collect()
}

fn set_world(dice: &SeededDice, scenario: &mut Scenario) {
    let hour_ms = 3_600_000;
    let window = |longest_ms| {
        let from = BEGINNING + dice.millis(0..2 * hour_ms);
        from..from + dice.millis(1_000..longest_ms)
    };
    let rate = |dice: &SeededDice| dice.choose(&[0.001, 0.01, 0.05]);
    if dice.chance(0.6) {
        let plan = &mut scenario.plan;
        for share in [&mut plan.fails_before, &mut plan.fails_after, &mut plan.dies] {
            if dice.chance(0.6) {
                *share = rate(dice);
            }
        }
        plan.dies /= 4.0;
        if dice.chance(0.15) {
            plan.throttled.push(window(hour_ms));
        }
        if dice.chance(0.15) {
            plan.hangs = rate(dice);
        }
        if dice.chance(0.15) {
            let writes = dice.number(1..10) as u32;
            plan.partition = Some(Limits { writes, reads: 3 * writes });
        }
        if dice.chance(0.1) {
            plan.latency_max = Duration::from_millis(500);
        }
    }
    if dice.chance(0.4) {
        scenario.queues.duplicates = rate(dice);
    }
    if dice.chance(0.3) {
        scenario.queues.late = 0.1;
    }
    if dice.chance(0.15) {
        scenario.bucket_refuses.push(window(dice.choose(&[1, 6, 24]) * hour_ms));
    }
    if dice.chance(0.05) {
        scenario.missing_buckets.insert("dead-letters".to_owned());
    }
    if dice.chance(0.15) {
        scenario.retry_in_flight_limit = dice.choose(&[0, 3]);
    }
    if dice.chance(0.1) {
        scenario.queues.in_flight_max = 30;
        scenario.retry_in_flight_limit = 5;
    }
    scenario.queues.retry_shards = dice.choose(&[1, 2, 4]);
    scenario.readings = Readings::of(dice.choose(&[2, 3, 10]));
    scenario.cold_starts = dice.choose(&[0.0, 0.1, 0.5]);
    if dice.chance(0.15) {
        // Events of 300 to 600 bytes then do not fit a message.
        scenario.queues.message_bytes_max = HEADROOM_BYTES + 800;
    }
    // Other draws must not change when this function does.
    let _ = dice.roll();
}
