//! The whole pipeline in virtual time. Which seeds are lived, and how one is lived again:
//! [`seeds`].

#[path = "simulation/changes.rs"]
mod changes;
#[path = "simulation/examples.rs"]
mod examples;
#[path = "simulation/repeats.rs"]
mod repeats;
#[path = "simulation/seeds.rs"]
mod seeds;
#[path = "simulation/sources.rs"]
mod sources;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gridpost_core::{
    delivery::state::{DeliveryState, DeliveryStatus},
    retry::outcome::Outcome,
    subscription::{Endpoint, EventSubscription, ResourceKind},
    time::Timestamp,
};
use gridpost_simulation::{scenario, world};
use gridpost_testkit::history::{DeadLetter, EventOutcome, History, Request};
use serde_json::Value;
use uuid::Uuid;

use self::seeds::{Made, Seed};

/// The worlds with which most examples compare themselves, in which anything may occur.
fn live(seed: u64, traced: bool) -> (world::Remains, Vec<String>) {
    Seed { number: seed, world: Made::Whole }.live(traced)
}

#[test]
fn the_same_seed_makes_the_same_world() {
    for (world, seeds) in [(Made::Whole, 20), (Made::Restarted, 5), (Made::Fast, 5)] {
        for number in 1..=seeds {
            let trace = || Seed { number, world }.live(true).0.history.trace;
            assert_eq!(trace(), trace(), "seed {number}, {world:?}");
        }
    }
}

/// Seeds in which everything of the next test must occur.
const MIX: u64 = 700;

/// A checker proves nothing about what never happens.
#[test]
fn the_mix_of_worlds_has_everything_in_it() {
    let mut seen = BTreeSet::new();
    for seed in 1..=MIX {
        let remains = live(seed, false).0;
        notes(&remains, &mut |what| {
            seen.insert(what);
        });
    }
    let wanted = [
        // Every way to end, but those that only AWS endpoints meet.
        "dead letter MaxDeliveryAttemptsExceeded",
        "dead letter TimeToLiveExceeded",
        "dead letter UndeliverableDueToHttpBadRequest",
        "dead letter UndeliverableDueToHttpPayloadTooLarge",
        "dead letter UndeliverableDueToHttpUnauthorized",
        "dead letter UndeliverableDueToHttpForbidden",
        "dead letter UndeliverableDueToHttpNotFound",
        "dead letter UndeliverableDueToClientError",
        "dead letter UndeliverableDueToProbationCausedByClientError",
        "dead letter of profile namespace",
        "drop MaxDeliveryAttemptsExceeded",
        "drop TimeToLiveExceeded",
        "drop SubscriptionDeleted",
        "drop DeadLetterDestinationNotFound",
        "drop DeadLetterDestinationUnavailable",
        // What requests meet.
        "outcome Delivered",
        "outcome BadRequest",
        "outcome Busy",
        "outcome Forbidden",
        "outcome NotFound",
        "outcome PayloadTooLarge",
        "outcome ResolutionError",
        "outcome ServerError",
        "outcome SocketError",
        "outcome TimedOut",
        "outcome Unauthorized",
        "a late success",
        "Retry-After",
        "several deliveries in one request",
        "several events in one delivery",
        "a second attempt of a batch",
        "a call of which a part was delivered",
        "a call of which a part ended and a part was retried",
        "a resource that answered too late",
        // Settings.
        "profile Basic",
        "profile Basic2021",
        "profile Namespace",
        "a schedule of its own",
        "status rules of its own",
        "probation policy EventGrid",
        "probation policy Delay",
        "a request that waited for its rate",
        "a delivery that waited for consent",
        "a delivery that ended without consent",
        // The ways of the queues and tables.
        "a parked delivery",
        "events in the payload bucket",
        "a large fan-out",
        "a piece of a fan-out that was expanded again",
        "a wait of more than 12 hours",
        "a wait of more than two days",
        "a mark of a copy that comes after days",
        "a disturbed delivery",
        "an event that a filter refuses",
        "equal ids",
        "a fault in an endpoint's health",
        "a calm world",
        "fault a partition was full",
        "fault a call hung",
        "fault a call took effect but hung",
        "fault DynamoDB throttled",
        "fault the caller died",
        "fault a call took effect and was repeated",
        "fault a message was not deleted",
        "fault a message went to the poison queue",
        "fault a further page could not be read",
        // Operators.
        "operator label",
        "operator move",
        "operator reset",
        "operator resend",
        "operator release",
        "operator cancel",
        "operator redrive",
        "operator stop",
        "operator resume",
        "operator resend poison",
        "operator purge poison",
        "a redriven event",
        "a dead letter of a redriven event",
        "a canceled delivery",
        "a topic told of dead letters",
        // Schemas, and where they are delivered to.
        "EventGridSchema as EventGridSchema",
        "EventGridSchema as CloudEventSchemaV1_0",
        "CloudEventSchemaV1_0 as CloudEventSchemaV1_0",
        "CustomEventSchema as EventGridSchema",
        "CustomEventSchema as CloudEventSchemaV1_0",
        "CustomEventSchema as CustomInputSchema",
        "a dead letter of its publisher's own schema",
        "kind Namespace",
        "LambdaFunction",
        "SqsQueue",
        "SqsQueue FIFO",
        "SnsTopic",
        "SnsTopic FIFO",
        "KinesisStream",
        "EventBridgeBus",
        "a stream or bus that took a part",
        "a second attempt of a stream or bus",
    ];
    let missing: Vec<_> = wanted.into_iter().filter(|what| !seen.contains(*what)).collect();
    assert!(
        missing.is_empty(),
        "in {MIX} worlds there was never: {missing:?}\nthere was: {seen:?}"
    );
}

/// How long the state of an ended delivery is kept.
const TWO_DAYS: Duration = Duration::from_secs(2 * 24 * 3_600);

/// Returns whether it ended and a copy of its message comes back after that time.
fn waits_for_a_copy(state: &DeliveryState) -> bool {
    let last_at = state.attempts.last_at.unwrap_or(state.ttl_starts_at());
    let is_over = matches!(state.status, DeliveryStatus::Ended | DeliveryStatus::Delivered);
    is_over && state.copies_until.is_some_and(|until| until > last_at + TWO_DAYS)
}

/// Notes what occurred in a world.
fn notes(remains: &world::Remains, note: &mut impl FnMut(String)) {
    let history = &remains.history;
    for dead_letter in history.dead_letters.values() {
        note(format!("dead letter {}", reason(dead_letter)));
    }
    history.drops.iter().for_each(|drop| note(format!("drop {}", drop.reason)));
    history.fault_kinds.iter().for_each(|kind| note(format!("fault {kind}")));
    let mut began: BTreeMap<_, Timestamp> = BTreeMap::new();
    for request in &history.requests {
        if let Some((_, answer)) = request.heard {
            note(format!("outcome {}", answer.outcome));
            answer.retry_after.iter().for_each(|_| note("Retry-After".to_owned()));
        }
        let met = |status| request.met.iter().any(|met| met.answer.status == Some(status));
        let facts = [
            (request.heard_late.is_some(), "a late success"),
            (request.deliveries.len() > 1, "several deliveries in one request"),
            (request.events > request.deliveries.len(), "several events in one delivery"),
            (request.events > 1 && request.number > 1, "a second attempt of a batch"),
            (met(200) && met(503), "a call of which a part was delivered"),
            (met(413) && met(503), "a call of which a part ended and a part was retried"),
            (is_late(request), "a resource that answered too late"),
        ];
        for (_, what) in facts.into_iter().filter(|(so, _)| *so) {
            note(what.to_owned());
        }
        for delivery in &request.deliveries {
            let before = began.insert(*delivery, request.began_at);
            let waited = before.map(|before| request.began_at.since(before));
            if waited.is_some_and(|waited| waited > Duration::from_secs(12 * 3_600)) {
                note("a wait of more than 12 hours".to_owned());
            }
            if waited.is_some_and(|waited| waited > TWO_DAYS) {
                note("a wait of more than two days".to_owned());
            }
        }
    }
    for (topic, subscriptions) in &remains.topics {
        note(format!("profile {:?}", topic.delivery_profile));
        for subscription in subscriptions {
            let policy = &subscription.retry_policy;
            policy.schedule_s.iter().for_each(|_| note("a schedule of its own".to_owned()));
            if !policy.status_rules.is_empty() {
                note("status rules of its own".to_owned());
            }
            note(format!("probation policy {:?}", subscription.probation_policy));
        }
    }
    note_waits(remains, note);
    note_operated(remains, note);
    note_schemas(remains, note);
    let facts = [
        (history.parked > 0, "a parked delivery"),
        (!history.payloads.is_empty(), "events in the payload bucket"),
        (!history.promised.is_empty(), "a large fan-out"),
        (was_expanded_again(remains), "a piece of a fan-out that was expanded again"),
        (!history.disturbed.is_empty(), "a disturbed delivery"),
        (is_refused_somewhere(remains), "an event that a filter refuses"),
        (has_equal_ids(remains), "equal ids"),
        (!history.health_faults.is_empty(), "a fault in an endpoint's health"),
        (remains.calm, "a calm world"),
        (remains.states.iter().any(waits_for_a_copy), "a mark of a copy that comes after days"),
    ];
    for (_, what) in facts.into_iter().filter(|(so, _)| *so) {
        note(what.to_owned());
    }
}

fn note_operated(remains: &world::Remains, note: &mut impl FnMut(String)) {
    let history = &remains.history;
    for (name, _) in history.operated.answers.iter().filter(|(_, status)| *status < 300) {
        note(format!("operator {name}"));
    }
    let is_redriven = |delivery: &Uuid| history.accepted[delivery].redriven > 0;
    let told = remains.told.as_ref().map(|told| scenario::key(told));
    let dies = |one: &DeadLetter| is_redriven(&one.delivery);
    let facts = [
        (history.accepted.keys().any(is_redriven), "a redriven event"),
        (history.dead_letters.values().any(dies), "a dead letter of a redriven event"),
        (!history.operated.canceled.is_empty(), "a canceled delivery"),
        (
            told.is_some_and(|told| history.carriers.contains_key(&told)),
            "a topic told of dead letters",
        ),
    ];
    for (_, what) in facts.into_iter().filter(|(so, _)| *so) {
        note(what.to_owned());
    }
}

/// Notes the schemas and kinds of event subscriptions to which something was sent.
fn note_schemas(remains: &world::Remains, note: &mut impl FnMut(String)) {
    let history = &remains.history;
    let sent_to: BTreeSet<_> = history.requests.iter().map(|made| &made.subscription).collect();
    for (topic, subscriptions) in &remains.topics {
        note(format!("kind {:?}", topic.kind));
        for subscription in subscriptions.iter().filter(|one| sent_to.contains(&one.key)) {
            note(format!("{:?} as {:?}", topic.input_schema, subscription.delivery_schema));
            if let Endpoint::Resource(resource) = &subscription.endpoint {
                let fifo = if resource.is_fifo() { " FIFO" } else { "" };
                note(format!("{:?}{fifo}", resource.kind));
                note_streamed(history, subscription, resource.kind, note);
            }
        }
    }
    let is_own = |name: &String| history.published.get(name).is_some_and(|one| one.is_own);
    if history.dead_letters.keys().any(|(_, event, _)| is_own(event)) {
        note("a dead letter of its publisher's own schema".to_owned());
    }
}

/// Notes what happened to a stream or an event bus.
fn note_streamed(
    history: &History,
    subscription: &EventSubscription,
    kind: ResourceKind,
    note: &mut impl FnMut(String),
) {
    if ![ResourceKind::KinesisStream, ResourceKind::EventBridgeBus].contains(&kind) {
        return;
    }
    for made in history.requests.iter().filter(|made| made.subscription == subscription.key) {
        let is_delivered = |met: &&EventOutcome| met.answer.outcome == Outcome::Delivered;
        let delivered = made.met.iter().filter(is_delivered).count();
        if (1..made.met.len()).contains(&delivered) {
            note("a stream or bus that took a part".to_owned());
        }
        if made.number > 1 {
            note("a second attempt of a stream or bus".to_owned());
        }
    }
}

fn is_refused_somewhere(remains: &world::Remains) -> bool {
    let history = &remains.history;
    remains.topics.iter().any(|(topic, subscriptions)| {
        let of_it = history.published.iter().filter(|(_, found)| found.topic == topic.name);
        let mut confirmed = of_it.filter(|(name, _)| history.confirmed_events.contains(*name));
        confirmed.any(|(name, _)| {
            let goes = |one: &&EventSubscription| history.carrier(&one.key, name).is_some();
            (1..subscriptions.len()).contains(&subscriptions.iter().filter(goes).count())
        })
    })
}

/// Whether two events of a topic have the same id.
fn has_equal_ids(remains: &world::Remains) -> bool {
    let mut seen = BTreeSet::new();
    let id =
        |text: &str| serde_json::from_str::<Value>(text).ok()?["id"].as_str().map(str::to_owned);
    remains.history.published.values().any(|one| !seen.insert((&one.topic, id(&one.text))))
}

fn is_late(request: &Request) -> bool {
    let timed_out = |met: &EventOutcome| met.answer.outcome == Outcome::TimedOut;
    request.heard.is_some() && request.met.iter().any(timed_out)
}

fn was_expanded_again(remains: &world::Remains) -> bool {
    let history = &remains.history;
    let large = |delivery: &Uuid| {
        let accepted = &history.accepted[delivery];
        let mut owners =
            accepted.events.iter().map(|id| (accepted.subscription.clone(), id.clone()));
        owners.any(|owner| history.promised.contains(&owner))
    };
    history.resent.iter().any(large)
}

fn reason(dead_letter: &DeadLetter) -> &str {
    let record = &dead_letter.record;
    let reason = record.get("deadLetterReason").or(record.get("deadletterreason"));
    reason.and_then(|reason| reason.as_str()).unwrap_or("of profile namespace")
}

/// Notes what waited for its endpoint's rate or consent.
fn note_waits(remains: &world::Remains, note: &mut impl FnMut(String)) {
    let history = &remains.history;
    let subscriptions: BTreeMap<_, _> =
        remains.topics.iter().flat_map(|(_, all)| all).map(|one| (one.uid, one)).collect();
    for ((uid, _), count) in &history.counts {
        let rate = subscriptions[uid].allowed_rate.map_or(0, u32::from);
        if *count > u64::from(rate) {
            note("a request that waited for its rate".to_owned());
        }
    }
    for consent in &remains.consents {
        let waited = |delivery: &Uuid| {
            let accepted = &history.accepted[delivery];
            accepted.subscription == consent.of && accepted.publish_time < consent.asked_at
        };
        match consent.given_at {
            Some(given_at) => {
                let mut after = history.requests.iter().filter(|made| made.began_at >= given_at);
                if after.any(|made| made.deliveries.iter().any(waited)) {
                    note("a delivery that waited for consent".to_owned());
                }
            }
            None => {
                let dead = history.dead_letters.values();
                let dead = dead.map(|dead| (dead.delivery, dead.at, reason(dead)));
                let drops = history.drops.iter();
                let drops = drops.map(|drop| (drop.delivery, drop.at, drop.reason.as_str()));
                if dead.chain(drops).any(|(delivery, at, reason)| {
                    reason == "TimeToLiveExceeded" && at > consent.asked_at && waited(&delivery)
                }) {
                    note("a delivery that ended without consent".to_owned());
                }
            }
        }
    }
}
