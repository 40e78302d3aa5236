//! Dead letters and drops report what really happened.

use std::time::Duration;

use gridpost_core::{
    event::DeliverySchema,
    retry::{
        health::ProbationPolicy,
        outcome::{Answer, Outcome},
        profile::ProfileName,
    },
    time::Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

use super::{Check, ends_in_parts, model, operated};
use crate::scenario::{DEAD_LETTER_DELAY_S, GIVE_UP_AFTER};
use gridpost_testkit::history::{DeadLetter, Drop, Request};

/// The content of a record, whatever its form.
#[derive(Debug)]
struct ParsedRecord {
    reason: String,
    attempts: u64,
    outcome: Option<String>,
    status: Option<u64>,
    publish_time: Option<String>,
    last_at: Option<String>,
}

/// Checks every record and every drop.
pub(super) fn check(check: &mut Check<'_>) {
    let history = &check.remains.history;
    for ((_, event, delivery), dead_letter) in &history.dead_letters {
        if !history.twins.contains_key(delivery) {
            record(check, event, dead_letter);
        }
    }
    let mut events = 0;
    for drop in &history.drops {
        let Some(accepted) = history.accepted.get(&drop.delivery) else {
            check.fail(format!("a drop of nobody's delivery: {}", drop.reason));
            continue;
        };
        events += drop.count(accepted.events.len());
        let subscription = &accepted.subscription;
        let (_, settings) = check.owners[subscription];
        match drop.reason.as_str() {
            // Whether it was deleted is checked with the configuration.
            "SubscriptionDeleted" => {}
            // Only messages that went to the poison queue can be purged from it.
            "PurgedByOperator" => operated::purged(check, drop),
            "DeadLetterDestinationNotFound" | "DeadLetterDestinationUnavailable" => {
                if settings.dead_letter.is_none() {
                    check.fail(format!("{} dropped: {}", drop.delivery, drop.reason));
                }
                destination_refused(check, drop);
            }
            reason => {
                if settings.dead_letter.is_some() {
                    check.fail(format!("{} dropped instead of dead-lettered", drop.delivery));
                }
                let requests = check.requests_of(drop.delivery);
                let is_part = ends_in_parts(settings);
                let dropped =
                    &drop.events[..drop.events.len().min(if is_part { usize::MAX } else { 1 })];
                let attempts = requests.iter().filter(|made| {
                    let has = |event: &String| made.met_by(drop.delivery, event).is_some();
                    made.met.is_empty() || dropped.is_empty() || dropped.iter().any(has)
                });
                let attempts = match is_part {
                    // Of what goes on together, one event has had the most attempts.
                    true => attempts.map(|made| u64::from(made.number)).max().unwrap_or(0),
                    false => attempts.count() as u64,
                };
                let ended = (drop.delivery, drop.at, attempts);
                self::reason(check, ended, reason);
            }
        }
    }
    if events != history.dropped_counted {
        let counted = history.dropped_counted;
        check.fail(format!("{events} events were logged as dropped, {counted} were counted"));
    }
}

/// Events are dropped instead of dead-lettered only if their bucket does not exist, or has refused
/// for as long as promised, and still does.
fn destination_refused(check: &mut Check<'_>, drop: &Drop) {
    let Drop { delivery, at, .. } = *drop;
    if drop.reason == "DeadLetterDestinationNotFound" {
        if check.remains.missing_buckets.is_empty() {
            check.fail(format!("{delivery} dropped at {at}: there is a bucket"));
        }
        return;
    }
    let refuses = check.remains.bucket_refuses.iter().any(|span| span.contains(&at));
    let hindered = check.remains.history.hindered.get(&delivery);
    let failed = |found: &Timestamp| *found <= at && at.since(*found) <= Duration::from_secs(10);
    if !refuses && !hindered.into_iter().flatten().any(failed) {
        check.fail(format!("{delivery} dropped at {at}: its bucket does not refuse"));
    }
    let requests = check.requests_of(delivery);
    let attempts = requests.iter().map(|made| u64::from(made.number)).max().unwrap_or(0);
    let ended_by = drop.ended_by.clone().unwrap_or_default();
    let end = reason(check, (delivery, at, attempts), &ended_by);
    if end.is_some_and(|(soonest, _)| at + check.rounding() < soonest + GIVE_UP_AFTER) {
        check
            .fail(format!("{delivery} dropped at {at}, before its bucket had refused long enough"));
    }
}

fn read(profile: ProfileName, schema: DeliverySchema, record: &Value) -> ParsedRecord {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if profile == ProfileName::Namespace {
        let said = &record["deadLetterProperties"];
        let reason = match said["deadletterreason"].as_str().unwrap_or_default() {
            "Maximum delivery attempts was exceeded." => "MaxDeliveryAttemptsExceeded",
            "Event time to live was exceeded." => "TimeToLiveExceeded",
            _ => "UndeliverableDueTo",
        };
        return ParsedRecord {
            reason: reason.to_owned(),
            attempts: said["deliveryattempts"].as_u64().unwrap_or(u64::MAX),
            outcome: text(&said["deliveryresult"]),
            status: None,
            publish_time: text(&said["publishutc"]),
            last_at: text(&said["deliveryattemptutc"]),
        };
    }
    let get = |name: &str| match schema {
        DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => &record[name],
        DeliverySchema::CloudEventSchemaV1_0 => &record[name.to_ascii_lowercase()],
    };
    ParsedRecord {
        reason: text(get("deadLetterReason")).unwrap_or_default(),
        attempts: get("deliveryAttempts").as_u64().unwrap_or(u64::MAX),
        outcome: text(get("lastDeliveryOutcome")),
        status: get("lastHttpStatusCode").as_u64(),
        publish_time: text(get("publishTime")),
        last_at: text(get("lastDeliveryAttemptTime")),
    }
}

fn record(check: &mut Check<'_>, event: &str, dead_letter: &DeadLetter) {
    let DeadLetter { delivery, at, record, .. } = dead_letter;
    let accepted = &check.remains.history.accepted[delivery];
    let (topic, subscription) = check.owners[&accepted.subscription];
    let said = read(topic.delivery_profile, subscription.delivery_schema, record);
    if subscription.dead_letter.is_none() {
        check.fail(format!("{delivery} is dead-lettered without a destination"));
    }
    let published = accepted.lives_from.iter().chain([&accepted.publish_time]);
    let published: Vec<_> = published.map(|at| Some(at.to_iso_8601())).collect();
    if !published.contains(&said.publish_time) {
        check.fail(format!(
            "the dead letter of {delivery} has publish time {:?}",
            said.publish_time
        ));
    }
    let requests = check.requests_of(*delivery);
    let with_it = |made: &&Request| made.met.is_empty() || made.met_by(*delivery, event).is_some();
    let requests: Vec<_> = requests.into_iter().filter(with_it).collect();
    let numbers = requests.iter().map(|made| u64::from(made.number)).max().unwrap_or(0);
    // Each disturbance may have kept an attempt from being recorded.
    let disturbances = check.disturbances(*delivery) as u64;
    // Of what ends together, one event has had the most attempts.
    let is_part = ends_in_parts(subscription);
    let all = check.requests_of(*delivery).iter().map(|made| u64::from(made.number)).max();
    let numbers = if is_part { all.unwrap_or(0) } else { numbers };
    // Attempts of other copies, after this one had ended, do not count.
    let before = requests.iter().filter(|made| made.began_at <= *at);
    let before = before.map(|made| u64::from(made.number)).max().unwrap_or(0);
    // A repeated publish starts counting attempts again.
    let is_anew = accepted.lives_from.len() > 1;
    let is_short = said.attempts + disturbances < before && !is_part && !is_anew;
    if said.attempts > numbers || is_short {
        let attempts = said.attempts;
        check
            .fail(format!("the dead letter of {delivery} says {attempts} attempts, not {numbers}"));
    }
    let tells = |made: &&Request| {
        // The answer that decides about a delivery may be another event's.
        let met = made.met.iter().filter(|met| met.delivery == *delivery).map(|met| met.answer);
        let whole = made.heard.map(|(_, answer)| answer).filter(|_| made.met.is_empty());
        made.heard.is_some() && met.chain(whole).any(|answer| says_so(check, &said, made, answer))
    };
    // What goes on together is told of by the request whose answer decides about it, though its own
    // may have been another. What ends by its own answer is told of by that one.
    let ends_by_its_answer = |made: &&Request| {
        let own = made.met_by(*delivery, event);
        own.is_some_and(|own| names(&said.reason, own.answer))
    };
    let is_of_its_own = said.reason == "MaxDeliveryAttemptsExceeded";
    let is_of_its_own = is_of_its_own || requests.iter().any(ends_by_its_answer);
    let together = check.requests_of(*delivery);
    // An end that could not be carried out goes on with the rest, too.
    let goes_on = !is_of_its_own || disturbances > 0;
    let told = if is_part && goes_on { &together } else { &requests };
    if said.attempts > 0 && !told.iter().any(tells) {
        check.fail(format!("the dead letter of {delivery} tells of no attempt made: {said:?}"));
    }
    if said.attempts == 0 && said.last_at.is_some() {
        check.fail(format!("the dead letter of {delivery} was never attempted, but says when"));
    }
    let ended = (*delivery, *at, said.attempts);
    let end = reason(check, ended, &said.reason);
    let soonest = end.map(|(end, _)| end + Duration::from_secs(u64::from(DEAD_LETTER_DELAY_S)));
    if soonest.is_some_and(|soonest| *at + check.rounding() < soonest) {
        check.fail(format!("the dead letter of {delivery} was written too soon, at {at}"));
    }
}

/// Whether a record's last attempt is that request.
fn says_so(check: &Check<'_>, said: &ParsedRecord, made: &Request, answer: Answer) -> bool {
    let outcome = said.outcome.as_deref();
    let met = outcome == Some(answer.outcome.to_string().as_str())
        || outcome == Some(Outcome::Probation.to_string().as_str());
    let status = said.status.is_none() || said.status == answer.status.map(u64::from);
    let noted = said.last_at.as_deref().and_then(Timestamp::parse_rfc_3339);
    met && status && noted.is_some_and(|noted| check.is_about(noted, made.began_at))
}

/// Whether a delivery can have ended for that reason, before `at` and with that many attempts.
/// Returns when it ended at the earliest and at the latest.
fn reason(
    check: &mut Check<'_>,
    (delivery, at, attempts): (Uuid, Timestamp, u64),
    reason: &str,
) -> Option<(Timestamp, Timestamp)> {
    let accepted = &check.remains.history.accepted[&delivery];
    let (topic, subscription) = check.owners[&accepted.subscription];
    let requests = check.requests_of(delivery);
    let last = requests.iter().flat_map(|made| {
        let met = made.met.iter().filter(|met| met.delivery == delivery).map(|met| met.answer);
        let whole = made.heard.map(|(_, answer)| answer).filter(|_| made.met.is_empty());
        let ended = made.heard.map(|(ended, _)| ended).filter(|ended| *ended <= at);
        met.chain(whole).filter_map(move |answer| Some((ended?, answer)))
    });
    let failures: Vec<(Timestamp, Answer)> =
        last.filter(|(_, answer)| answer.outcome != Outcome::Delivered).collect();
    let follows = |answer| model::follows(topic, subscription, answer);
    let end = match reason {
        "TimeToLiveExceeded" => {
            let expires_at = check.expires_at(delivery);
            (at + check.rounding() >= expires_at).then_some((expires_at, at))
        }
        "MaxDeliveryAttemptsExceeded" => {
            let all = attempts >= u64::from(subscription.retry_policy.max_attempts);
            let retried =
                |found: &&(Timestamp, Answer)| matches!(follows(found.1), model::Follows::Retry(_));
            let ends = failures.iter().filter(retried).map(|found| found.0);
            ends.clone().min().zip(ends.max()).filter(|_| all)
        }
        "CanceledByOperator" => operated::canceled(check, delivery, at),
        "UndeliverableDueToProbationCausedByClientError" => {
            probation_met(check, delivery, at).map(|began| (began, at))
        }
        reason if reason.starts_with("UndeliverableDueTo") || reason == "RejectedByEndpoint" => {
            let ends = |found: &&(Timestamp, Answer)| {
                follows(found.1) == model::Follows::End && names(reason, found.1)
            };
            let end = failures.iter().filter(ends).map(|found| found.0);
            // A namespace record's sentence is the same for a probation.
            let namespace = topic.delivery_profile == ProfileName::Namespace;
            let met = namespace.then(|| probation_met(check, delivery, at)).flatten();
            let met = met.map(|began| [began, at]).into_iter().flatten();
            let canceled = namespace.then(|| operated::canceled(check, delivery, at)).flatten();
            let canceled = canceled.map(|(from, until)| [from, until]).into_iter().flatten();
            let ends: Vec<_> = end.chain(met).chain(canceled).collect();
            ends.iter().min().copied().zip(ends.iter().max().copied())
        }
        _ => None,
    };
    if end.is_none() {
        check.fail(format!(
            "{delivery} can't have ended at {at} with {attempts} attempts: {reason}"
        ));
    }
    end
}

/// When the probation began that ended a delivery before `at`.
fn probation_met(check: &Check<'_>, delivery: Uuid, at: Timestamp) -> Option<Timestamp> {
    let accepted = &check.remains.history.accepted[&delivery];
    let (topic, subscription) = check.owners[&accepted.subscription];
    if subscription.probation_policy == ProbationPolicy::Delay {
        return None;
    }
    let requests = check.remains.history.requests.iter();
    let here = requests.filter(|made| made.subscription == accepted.subscription);
    let heard = here.filter_map(|made| made.heard);
    let causes = heard.filter(|(ended, answer)| {
        *ended <= at
            && matches!(
                answer.outcome,
                Outcome::Unauthorized | Outcome::Forbidden | Outcome::NotFound
            )
            && model::follows(topic, subscription, *answer) == model::Follows::End
    });
    causes.map(|(ended, _)| ended.max(accepted.publish_time)).min()
}

/// Whether an event of a delivery ended because of that answer to it.
pub(super) fn ended_by(check: &Check<'_>, delivery: Uuid, event: &str, answer: Answer) -> bool {
    let accepted = &check.remains.history.accepted[&delivery];
    let (topic, subscription) = check.owners[&accepted.subscription];
    let profile = topic.delivery_profile;
    let records = check.remains.history.dead_letters.iter();
    let records = records.filter(|((_, id, of), _)| id == event && *of == delivery);
    let records = records.map(|(_, dead)| {
        (read(profile, subscription.delivery_schema, &dead.record).reason, dead.at)
    });
    let drops = check.drops_of(delivery).iter().filter(|drop| drop.is_of(event));
    let drops = drops.map(|drop| (drop.ended_by.clone().unwrap_or(drop.reason.clone()), drop.at));
    records.chain(drops).any(|(reason, at)| {
        // A namespace record's sentence is the same for other ends.
        let is_open = profile == ProfileName::Namespace
            && (probation_met(check, delivery, at).is_some()
                || operated::canceled(check, delivery, at).is_some());
        names(&reason, answer) && !is_open
    })
}

fn names(reason: &str, answer: Answer) -> bool {
    let by_outcome = match answer.outcome {
        Outcome::BadRequest => "UndeliverableDueToHttpBadRequest",
        Outcome::PayloadTooLarge => "UndeliverableDueToHttpPayloadTooLarge",
        Outcome::Unauthorized => "UndeliverableDueToHttpUnauthorized",
        Outcome::Forbidden => "UndeliverableDueToHttpForbidden",
        Outcome::NotFound => "UndeliverableDueToHttpNotFound",
        Outcome::EventRejected => "RejectedByEndpoint",
        _ => "UndeliverableDueToClientError",
    };
    reason == by_outcome || reason == "UndeliverableDueTo"
}
