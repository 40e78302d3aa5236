//! Checks what must hold in every world, whatever its scenario.
//!
//! A delivery is *disturbed* when SQS handed one of its messages over twice, a call about it
//! failed, or a function died with it in hand. Then attempts and ends may repeat, because nothing
//! that happens once can be told from something that happened but was not noted. Each disturbance
//! pays for one repetition, and no more. What holds even then: it ends, no attempt comes before it
//! is due, none in a wait, none beyond its limits, and none later than what [held it up](waits)
//! explains.

mod batches;
mod configuration;
mod events;
mod health;
mod journal;
mod ledger;
mod load;
mod matching;
pub mod model;
mod operated;
mod pauses;
mod promptness;
mod records;
mod repeats;
mod sources;
mod waits;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gridpost_core::{
    delivery::{claim, state::DeliveryStatus},
    retry::outcome::{Answer, Outcome},
    subscription::{BatchFailure, EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::Topic,
};
use uuid::Uuid;

use super::world::Remains;
use gridpost_testkit::history::{Disturbance, Drop, Request, TWO_WAKES};

/// Clocks are read to the millisecond; rounded times may be off by this much.
const ROUNDING: Duration = Duration::from_millis(5);

/// How long after a change of an event subscription requests may still follow the old one:
/// configuration is cached for 10 s, and a delivery that was planned before the refresh waits up to
/// 2 s for its second and for the other records of its batch.
const CHANGE_NOTICED: Duration = Duration::from_secs(12);

/// A delivery whose state was loaded before a late success was recorded is attempted within this
/// time.
const IN_HAND: Duration = Duration::from_secs(10);

/// The check of one world.
struct Check<'a> {
    remains: &'a Remains,
    owners: BTreeMap<SubscriptionKey, (&'a Topic, &'a EventSubscription)>,
    requests: BTreeMap<Uuid, Vec<&'a Request>>,
    /// Events in dead letters, by delivery.
    records: BTreeMap<Uuid, Vec<&'a str>>,
    drops: BTreeMap<Uuid, Vec<&'a Drop>>,
    /// The longest time between a decision and the request that follows it.
    slack: Duration,
    failures: Vec<String>,
}

/// Returns everything that is wrong with a world.
pub fn check(remains: &Remains) -> Vec<String> {
    let mut check = Check::of(remains);
    if !check.failures.is_empty() {
        // The world was stopped there; what is left of it says nothing.
        return check.failures;
    }
    check.promises_kept();
    check.nothing_left();
    check.requests_in_bounds();
    check.requests_with_consent();
    configuration::check(&mut check);
    matching::check(&mut check);
    for delivery in remains.history.accepted.keys() {
        match remains.history.twins.get(delivery) {
            Some(twins) => check.twins(*delivery, twins),
            None => check.delivery(*delivery),
        }
    }
    for (_, subscription) in check.owners.clone().into_values() {
        check.requests_in_rate(subscription);
        health::check(&mut check, subscription);
    }
    records::check(&mut check);
    ledger::check(&mut check);
    journal::check(&mut check);
    load::check(&mut check);
    promptness::check(&mut check);
    operated::check(&mut check);
    repeats::check(&mut check);
    sources::check(&mut check);
    pauses::check(&mut check);
    batches::check(&mut check);
    check.failures
}

/// Returns what is wrong with a world whose clock ran faster than its requests and calls. Checks only
/// what holds at any speed.
pub fn check_at_any_speed(remains: &Remains) -> Vec<String> {
    let mut check = Check::of(remains);
    if !check.failures.is_empty() {
        return check.failures;
    }
    check.promises_kept();
    check.nothing_left();
    matching::check(&mut check);
    for delivery in remains.history.accepted.keys() {
        match remains.history.twins.get(delivery) {
            Some(twins) => check.twins(*delivery, twins),
            None => check.ends(*delivery, &check.requests_of(*delivery)),
        }
    }
    operated::check_redrives(&mut check);
    repeats::check(&mut check);
    pauses::check_none_held(&mut check);
    journal::check(&mut check);
    check.failures
}

impl<'a> Check<'a> {
    fn of(remains: &'a Remains) -> Self {
        let slack = remains.latency_max * 15 + Duration::from_millis(200);
        let mut check = Check {
            remains,
            owners: BTreeMap::new(),
            requests: BTreeMap::new(),
            records: BTreeMap::new(),
            drops: BTreeMap::new(),
            slack: (slack + remains.pace.lateness()) * remains.speed,
            failures: remains.history.violations.clone(),
        };
        for (topic, subscriptions) in &remains.topics {
            for subscription in subscriptions {
                check.owners.insert(subscription.key.clone(), (topic, subscription));
            }
        }
        for request in &remains.history.requests {
            let in_it: BTreeSet<_> = request.deliveries.iter().collect();
            for delivery in in_it {
                check.requests.entry(*delivery).or_default().push(request);
            }
        }
        for ((_, event, _), found) in &remains.history.dead_letters {
            check.records.entry(found.delivery).or_default().push(event);
        }
        for found in &remains.history.drops {
            check.drops.entry(found.delivery).or_default().push(found);
        }
        check
    }

    /// How long an invocation may hold a state that it has loaded, on the clock.
    fn in_hand(&self) -> Duration {
        IN_HAND * self.remains.speed
    }

    fn fail(&mut self, what: String) {
        if self.failures.len() < 20 {
            self.failures.push(what);
        }
    }

    fn is_disturbed(&self, delivery: Uuid) -> bool {
        self.disturbances(delivery) > 0
    }

    /// How many faults affected a delivery. Failed calls about its dead-letter event count too,
    /// because they make it be written again; so does an attempt that an operator requested while
    /// another one was under way.
    fn disturbances(&self, delivery: Uuid) -> usize {
        let history = &self.remains.history;
        let hindered = history.hindered.get(&delivery).filter(|_| self.remains.told.is_some());
        history.disturbances(delivery)
            + hindered.map_or(0, Vec::len)
            + operated::resent_under_way(self, delivery)
    }

    /// How many faults affected a delivery until then.
    fn disturbed_until(&self, delivery: Uuid, until: Timestamp) -> usize {
        let all = self.remains.history.disturbed.get(&delivery);
        all.map_or(0, |all| all.iter().filter(|found| found.at <= until).count())
    }

    /// How much earlier than allowed something may seem to happen.
    fn rounding(&self) -> Duration {
        ROUNDING + self.remains.pace.tolerance()
    }

    /// The earliest time at which it may seem to happen, by the slowest clock on a stalled machine.
    fn sooner(&self, at: Timestamp) -> Timestamp {
        before(at, self.remains.pace.lateness())
    }

    /// Whether a time that a copy recorded may match one of the world's.
    fn is_about(&self, noted: Timestamp, at: Timestamp) -> bool {
        let apart = noted.since(at).max(at.since(noted));
        apart <= self.remains.pace.lateness()
    }

    fn requests_of(&self, delivery: Uuid) -> Vec<&'a Request> {
        self.requests.get(&delivery).cloned().unwrap_or_default()
    }

    fn records_of(&self, delivery: Uuid) -> &[&'a str] {
        self.records.get(&delivery).map_or(&[], Vec::as_slice)
    }

    fn drops_of(&self, delivery: Uuid) -> &[&'a Drop] {
        self.drops.get(&delivery).map_or(&[], Vec::as_slice)
    }

    /// Returns the answer that the sender of a request learned for a delivery in it.
    fn heard(&self, made: &Request, delivery: Uuid) -> Option<(Timestamp, Answer)> {
        let (at, answer) = made.heard?;
        let met = made.met.iter().filter(|met| met.delivery == delivery);
        let met: Vec<_> = met.map(|met| met.answer).collect();
        if met.is_empty() {
            return Some((at, answer));
        }
        let (topic, subscription) = self.owners[&made.subscription];
        Some((at, model::decisive(topic, subscription, &met)))
    }

    fn promises_kept(&mut self) {
        let history = &self.remains.history;
        for (key, event) in &history.promised {
            if history.carrier(key, event).is_none() {
                self.fail(format!("{event} was accepted for {key}, but no delivery carries it"));
            }
        }
        let by_wake = |found: &Disturbance| found.what == TWO_WAKES;
        let two_wakes = history.disturbed.values().flatten().any(by_wake);
        let found = history.disturbed.iter().find(|(delivery, all)| {
            // The dead letter of what was sent back twice may be told of twice.
            let topic = history.accepted.get(delivery).map(|one| &one.subscription.topic);
            let is_told = two_wakes && topic.is_some() && topic == self.remains.told.as_ref();
            !is_told && !all.iter().all(by_wake)
        });
        if let Some((delivery, what)) = found.filter(|_| self.remains.calm) {
            self.fail(format!("{delivery} was disturbed in a calm world: {what:?}"));
        }
    }

    /// Whether nothing went wrong by plan, and no two runs of wake have sent one delivery back, which
    /// may happen in any world.
    fn is_undisturbed(&self) -> bool {
        self.remains.calm && self.remains.history.disturbed.is_empty()
    }

    fn nothing_left(&mut self) {
        for (queue, body) in &self.remains.in_queues {
            self.fail(format!("still in {queue:?} after {:?}: {body:.200}", self.remains.lasted));
        }
        for delivery in &self.remains.parked {
            if !self.is_disturbed(*delivery) {
                self.fail(format!("{delivery} is parked for ever"));
            }
        }
        for (delivery, object) in &self.remains.history.payloads {
            let orphan = !self.remains.history.accepted.contains_key(delivery);
            if object != claim::ENDED && !orphan && !self.is_disturbed(*delivery) {
                self.fail(format!("{delivery} is over, but its events were not let go"));
            }
        }
        for state in &self.remains.states {
            let over = matches!(state.status, DeliveryStatus::Ended | DeliveryStatus::Delivered);
            if !over && !self.is_disturbed(state.id) {
                self.fail(format!("{} is over, but its state says {:?}", state.id, state.status));
            }
        }
    }

    fn requests_in_bounds(&mut self) {
        for request in &self.remains.history.requests {
            let (_, subscription) = self.owners[&request.subscription];
            let batching = subscription.batching();
            let most = batching.max_events as usize;
            if request.events > most {
                let events = request.events;
                self.fail(format!("a request carries {events} events, more than {most}"));
            }
            if request.events > 1
                && request.events_bytes > batching.preferred_kilobytes as usize * 1_024
            {
                let bytes = request.events_bytes;
                self.fail(format!("a request carries {bytes} bytes, beyond its target"));
            }
        }
    }

    /// How long stale configuration is used because the table can't be read.
    fn unreadable(&self) -> Duration {
        Duration::from_secs(if self.remains.calm { 0 } else { 60 })
    }

    /// The time after which no request may follow the state before a change.
    fn noticed_within(&self) -> Duration {
        CHANGE_NOTICED + self.slack + self.unreadable()
    }

    fn requests_with_consent(&mut self) {
        for consent in &self.remains.consents {
            let from = consent.asked_at + self.noticed_within();
            let requests = self.remains.history.requests.iter();
            let without = requests.filter(|made| {
                made.subscription == consent.of
                    && made.began_at >= from
                    && consent.given_at.is_none_or(|given_at| made.began_at < given_at)
            });
            for request in without {
                let (key, at) = (&request.subscription, request.began_at);
                self.fail(format!("a request to {key} at {at}, without its consent"));
            }
        }
    }

    fn delivery(&mut self, delivery: Uuid) {
        let requests = self.requests_of(delivery);
        let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, request) in requests.iter().enumerate() {
            self.within_limits(delivery, request);
            let (_, subscription) = self.owners[&request.subscription];
            if ends_in_parts(subscription) {
                // What a part's number and time follow from is another part.
                continue;
            }
            self.after_its_due_time(delivery, request, &requests[..index]);
            let times = seen.entry(request.number).or_default();
            *times += 1;
            let disturbed = self.disturbed_until(delivery, request.began_at);
            let beside = operated::resent_under_way(self, delivery);
            // Each of two copies of a message may lose its answer: a disturbance may double them
            // all.
            if *times > (1 << disturbed.min(16)) + beside {
                let number = request.number;
                self.fail(format!(
                    "attempt {number} of {delivery} was made {times} times, {disturbed} disturbances"
                ));
            }
        }
        self.ends(delivery, &requests);
    }

    /// Deliveries that requests do not tell apart: together they have as many ends as deliveries.
    fn twins(&mut self, delivery: Uuid, twins: &BTreeSet<Uuid>) {
        let is_delivered = |made: &&Request| {
            let heard = made.heard.map(|(_, answer)| answer.outcome);
            made.heard_late.is_some() || heard == Some(Outcome::Delivered)
        };
        let ends = |twin: &Uuid| {
            let made = self.requests_of(*twin);
            let partly = made.iter().any(|made| !made.met.is_empty());
            let delivered = made.iter().filter(|made| partly || is_delivered(made)).count();
            delivered + self.records_of(*twin).len() + self.drops_of(*twin).len()
        };
        let ends: usize = twins.iter().map(ends).sum();
        if ends < twins.len() {
            self.fail(format!("{delivery} or one of its twins never ended: {twins:?}"));
        }
    }

    fn within_limits(&mut self, delivery: Uuid, request: &Request) {
        let (_, subscription) = self.owners[&request.subscription];
        let most = subscription.retry_policy.max_attempts;
        if request.number > most {
            self.fail(format!("attempt {} of {delivery}, of at most {most}", request.number));
        }
        let (_, expires_at) = self.expires(delivery);
        if request.began_at >= expires_at + self.slack {
            let at = request.began_at;
            self.fail(format!(
                "{delivery} was attempted at {at}, after its life ended {expires_at}"
            ));
        }
    }

    fn after_its_due_time(&mut self, delivery: Uuid, request: &Request, earlier: &[&Request]) {
        let number = request.number;
        if number == 1 {
            return;
        }
        let (topic, subscription) = self.owners[&request.subscription];
        // A failure knows of no pause that comes after it.
        let (from, life) = self.lives(delivery);
        let expires_at = from.0 + life;
        let firsts: Vec<_> = earlier.iter().filter(|made| made.number == 1).collect();
        let dues = earlier.iter().filter(|made| made.number == number - 1).filter_map(|before| {
            let (ended_at, answer) = self.heard(before, delivery)?;
            if before.has_twice(delivery) {
                // Each of two copies in one call follows its own answer.
                return Some(ended_at);
            }
            let due = |first: &&&Request| {
                let by = |(began_at, noted)| {
                    model::due(topic, subscription, (began_at, noted, expires_at), answer)
                };
                // The clocks of the copies that made the first attempt, this one and the next may
                // differ.
                let (first, sooner) = (first.began_at, self.sooner(ended_at));
                let noted = [(first, sooner), (first, ended_at), (self.sooner(first), sooner)];
                noted.into_iter().filter_map(by).min()
            };
            firsts.iter().filter_map(due).min()
        });
        // An operator may have asked for it since.
        let made = earlier.iter().filter(|made| made.number == number - 1);
        let made = made.map(|made| made.began_at).min();
        let asked = operated::hurried(self, delivery, made, request.began_at);
        match dues.chain(asked).min() {
            Some(due) if request.began_at + self.rounding() < due => self.fail(format!(
                "attempt {number} of {delivery} at {}, due no sooner than {due}",
                request.began_at,
            )),
            Some(_) => {}
            None => self.fail(format!(
                "attempt {number} of {delivery} at {}, but nothing asked for it",
                request.began_at,
            )),
        }
    }

    fn ends(&mut self, delivery: Uuid, requests: &[&Request]) {
        let history = &self.remains.history;
        let accepted = &history.accepted[&delivery];
        if requests.iter().any(|made| !made.met.is_empty()) {
            return events::check(self, delivery, requests);
        }
        let heard = |made: &&&Request| {
            made.heard.filter(|(_, answer)| answer.outcome == Outcome::Delivered)
        };
        let delivered: Vec<_> = requests.iter().filter_map(|made| heard(&made)).collect();
        let answered_late = requests
            .iter()
            .filter_map(|made| made.answered)
            .any(|(_, answer)| answer.outcome == Outcome::Delivered);
        let (records, drops) = (self.records_of(delivery).len(), self.drops_of(delivery).len());
        if delivered.is_empty() && !answered_late && records == 0 && drops == 0 {
            self.fail(format!("{delivery} to {} never ended: it is lost", accepted.subscription));
        }
        let disturbances = self.disturbances(delivery);
        let events = accepted.events.len();
        if records % events != 0 {
            self.fail(format!("{delivery} has {events} events, {records} dead letters"));
        }
        let ends = delivered.len() + records / events + drops;
        if ends > 1 + disturbances {
            self.fail(format!(
                "{delivery} ended {ends} times, {disturbances} disturbances: {} delivered, {records} dead \
                 letters, {drops} drops",
                delivered.len(),
            ));
        }
        self.nothing_after_its_end(delivery, requests);
    }

    fn nothing_after_its_end(&mut self, delivery: Uuid, requests: &[&Request]) {
        let over = |made: &&Request| {
            let (topic, subscription) = self.owners[&made.subscription];
            let ended = made.heard.filter(|(_, answer)| {
                answer.outcome == Outcome::Delivered
                    || model::follows(topic, subscription, *answer) == model::Follows::End
            });
            let late = made.heard_late.map(|at| at + self.slack + self.in_hand());
            ended.map(|(at, _)| at).into_iter().chain(late).min()
        };
        // An end that could not be recorded is unknown: what follows is as if it had not happened.
        let Some(last) = requests.iter().map(|made| made.began_at).max() else { return };
        let forgotten = requests.iter().filter_map(over).filter(|ended_at| *ended_at < last);
        let forgotten = forgotten.count();
        let disturbances = self.disturbances(delivery);
        if forgotten > disturbances {
            self.fail(format!(
                "{delivery} was attempted at {last} after {forgotten} ends, {disturbances} disturbances"
            ));
        }
    }
}

/// A time so long before another one.
fn before(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - i64::try_from(by.as_millis()).unwrap_or(0))
}

/// Whether deliveries of an event subscription may end in parts although it is no AWS resource's.
fn ends_in_parts(subscription: &EventSubscription) -> bool {
    subscription.batch_failure != BatchFailure::default()
}
