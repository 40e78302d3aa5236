//! Operators' actions take effect, and nothing else does: canceled deliveries are not attempted
//! again, redriven dead letters are sent again once, and if a topic is configured for dead-letter
//! events, it gets one for each.

use std::collections::{BTreeMap, BTreeSet};

use gridpost_core::{
    delivery::redrive::{Job, JobStatus},
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
};
use gridpost_testkit::history::{Drop, Request};
use uuid::Uuid;

use super::Check;

pub(super) fn check(check: &mut Check<'_>) {
    check_redrives(check);
    told(check);
}

/// Checks those that hold whatever the clock's speed.
pub(super) fn check_redrives(check: &mut Check<'_>) {
    nothing_after_a_cancellation(check);
    redrives(check);
}

impl Check<'_> {
    /// The uids by which the health of an event subscription's endpoints was ever known.
    pub(super) fn endpoints_of(&self, subscription: &EventSubscription) -> BTreeSet<Uuid> {
        let life = self.remains.history.lives.get(&subscription.uid);
        let known = life.into_iter().flat_map(|life| life.endpoints.iter().copied());
        known.chain([subscription.endpoint_uid()]).collect()
    }
}

fn times(of: &BTreeMap<Uuid, Vec<Timestamp>>, delivery: Uuid) -> &[Timestamp] {
    of.get(&delivery).map_or(&[], Vec::as_slice)
}

/// When an operator made a delivery due, between the attempt before, which began at `made`, and one
/// that began then.
pub(super) fn hurried(
    check: &Check<'_>,
    delivery: Uuid,
    made: Option<Timestamp>,
    began_at: Timestamp,
) -> Option<Timestamp> {
    let all = times(&check.remains.history.operated.hurried, delivery).iter().copied();
    // An attempt that began after it may have been in hand before, and counts without it.
    all.filter(|at| made.is_some_and(|made| made <= *at + check.in_hand()) && *at <= began_at).min()
}

/// Whether a request contains a delivery that an operator resent whatever its endpoint's health,
/// and that was attempted since then no more often than disturbances explain.
pub(super) fn is_resent(check: &Check<'_>, request: &Request) -> bool {
    let is_it = |delivery: &Uuid| {
        let resent = times(&check.remains.history.operated.resent, *delivery);
        let Some(at) = resent.iter().filter(|at| **at <= request.began_at).max() else {
            return false;
        };
        // An attempt that was in hand before does not answer it.
        let after = *at + check.slack;
        let since = check.requests_of(*delivery).into_iter();
        let since = since.filter(|made| made.began_at >= after && made.began_at < request.began_at);
        since.count() <= check.disturbed_until(*delivery, request.began_at)
    };
    request.deliveries.iter().any(is_it)
}

/// How often a delivery was attempted while an attempt of the same number was under way, because an
/// operator had requested it meanwhile.
pub(super) fn resent_under_way(check: &Check<'_>, delivery: Uuid) -> usize {
    let resent = times(&check.remains.history.operated.resent, delivery);
    if resent.is_empty() {
        return 0;
    }
    let requests = check.requests_of(delivery);
    let beside = |number: usize, made: &Request| {
        requests[..number].iter().any(|other| {
            let over = other.heard.map_or(other.began_at + check.in_hand(), |(over, _)| over);
            let asked = |at: &Timestamp| {
                other.began_at <= *at + check.in_hand() && *at <= made.began_at + check.slack
            };
            other.number == made.number
                && made.began_at <= over + check.slack
                && resent.iter().any(asked)
        })
    };
    (0..requests.len()).filter(|number| beside(*number, requests[*number])).count()
}

/// When the end of a delivery was decided by an operator, before `at`: known is when it was written.
pub(super) fn canceled(
    check: &Check<'_>,
    delivery: Uuid,
    at: Timestamp,
) -> Option<(Timestamp, Timestamp)> {
    let all = times(&check.remains.history.operated.canceled, delivery);
    let before = all.iter().filter(|canceled| **canceled <= at);
    let slack = i64::try_from(check.slack.as_millis()).unwrap_or(0);
    let decided = |written: &Timestamp| Timestamp::from_millis(written.as_millis() - slack);
    before.clone().min().map(decided).zip(before.max().copied())
}

/// Checks that what was purged had gone to the poison queue.
pub(super) fn purged(check: &mut Check<'_>, drop: &Drop) {
    let disturbed = check.remains.history.disturbed.get(&drop.delivery);
    let is_poison = |what: &str| what == "it was received too often";
    if !disturbed.into_iter().flatten().any(|found| is_poison(found.what)) {
        check.fail(format!("{} was purged at {}, but was no poison", drop.delivery, drop.at));
    }
}

/// A canceled delivery is not attempted again.
fn nothing_after_a_cancellation(check: &mut Check<'_>) {
    let canceled = &check.remains.history.operated.canceled;
    let mut failures = Vec::new();
    for (delivery, all) in canceled {
        let Some(first) = all.iter().min() else { continue };
        let after = check.requests_of(*delivery).into_iter();
        let after =
            after.filter(|made| made.began_at > *first + check.in_hand() + check.slack).count();
        let disturbances = check.disturbances(*delivery);
        if after > disturbances {
            failures.push(format!(
                "{delivery}, canceled at {first}, was attempted {after} times after that, {disturbances} \
                 disturbances"
            ));
        }
    }
    failures.into_iter().for_each(|failure| check.fail(failure));
}

/// Dead letters by event subscription and event: for each object that holds it, the time of the
/// write, their number, and the delivery.
type Letters<'a> = BTreeMap<(&'a SubscriptionKey, &'a str), Vec<(Timestamp, usize, Uuid)>>;

fn letters<'a>(check: &Check<'a>) -> Letters<'a> {
    let history = &check.remains.history;
    let mut letters = Letters::new();
    for ((_, event, _), dead) in &history.dead_letters {
        let key = &history.accepted[&dead.delivery].subscription;
        let of_it = letters.entry((key, event)).or_default();
        of_it.push((dead.at, dead.writes, dead.delivery));
    }
    letters
}

/// A finished redrive has sent every dead letter that it selects, and no two redrives have sent the
/// same one. An object that was stored again counts as new: S3 reports the last time.
fn redrives(check: &mut Check<'_>) {
    let history = &check.remains.history;
    let mut sent: BTreeMap<(&SubscriptionKey, &str), BTreeSet<Uuid>> = BTreeMap::new();
    for (delivery, accepted) in history.accepted.iter().filter(|(_, one)| one.redriven > 0) {
        for event in &accepted.events {
            sent.entry((&accepted.subscription, event)).or_default().insert(*delivery);
        }
    }
    let letters = letters(check);
    let mut failures = Vec::new();
    for ((key, event), redriven) in &sent {
        let found = letters.get(&(key, *event)).map(Vec::as_slice).unwrap_or_default();
        let objects: usize = found.iter().map(|(_, writes, _)| writes).sum();
        // A job that died knows nothing of its batch in flight: if it is not resumed, another one
        // sends that again.
        let left = history.operated.jobs.iter().filter(|job| {
            job.subscription == **key && job.status != JobStatus::Completed && !check.remains.calm
        });
        if redriven.len() > objects + left.count() {
            let times = redriven.len();
            failures.push(format!(
                "{event} of {key} was stored as a dead letter {objects} times and was redriven {times} times"
            ));
        }
    }
    for job in history.operated.jobs.iter().filter(|job| job.status == JobStatus::Completed) {
        for ((key, event), objects) in
            letters.iter().filter(|((key, _), _)| **key == job.subscription)
        {
            let asked = objects.iter().any(|(at, writes, delivery)| {
                *writes == 1 && is_asked_for(job, *at) && history.accepted[delivery].redriven == 0
            });
            if asked && !sent.contains_key(&(*key, *event)) {
                let id = job.id;
                failures
                    .push(format!("the redrive {id} is over, but has not sent {event} of {key}"));
            }
        }
    }
    failures.into_iter().for_each(|failure| check.fail(failure));
}

/// Whether a job selects a letter that was written then. S3 reports whole seconds.
fn is_asked_for(job: &Job, written_at: Timestamp) -> bool {
    let written_at = Timestamp::from_millis(written_at.as_seconds() * 1_000);
    job.to == job.subscription && job.wanted.has_time(written_at)
}

/// If a topic is configured for dead-letter events, it gets one for each dead letter: about one of
/// the objects that hold it, because an object without an event is written again, perhaps among
/// others. Without faults, it gets one for each object.
fn told(check: &mut Check<'_>) {
    let Some(told) = &check.remains.told else { return };
    let to = crate::scenario::key(told);
    let history = &check.remains.history;
    let is_told = |object: &str| {
        let id = object.rsplit('/').next().and_then(|name| name.strip_suffix(".json"));
        id.is_some_and(|id| history.carrier(&to, id).is_some())
    };
    let told_of = history.dead_letters.keys().filter(|(object, ..)| is_told(object));
    let told_of: BTreeSet<_> = told_of.map(|(_, event, delivery)| (event, delivery)).collect();
    let mut failures = BTreeSet::new();
    for ((object, event, delivery), dead) in &history.dead_letters {
        let is_own = history.accepted[delivery].subscription.topic == *told;
        let is_known = match check.remains.calm {
            true => is_told(object),
            false => told_of.contains(&(event, delivery)),
        };
        // A letter that was written, but whose message was not deleted, may have been given up when
        // its bucket refused.
        let given_up = !is_own && !check.drops_of(*delivery).is_empty();
        if is_known == is_own && !given_up && !history.deleted.contains_key(&to) {
            let what = if is_own { "its own letters are told of" } else { "it was not told of" };
            failures.insert(format!("{told}: {what}: {object}, written at {}", dead.at));
        }
    }
    failures.into_iter().for_each(|failure| check.fail(failure));
}
