//! A short-lived cache of endpoints' health in front of the table, and what results of requests
//! change in it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::FutureExt;
use gridpost_core::{
    delivery::{Delivery, parking, queue::Queue},
    error::chain,
    retry::{
        health::{
            Durations, FailedAttempt, Health, SeenAttempts, SuccessfulAttempt, after_failures,
            after_success, evidence,
        },
        outcome::Answer,
        slow_endpoint::{self, SlowEndpointReport, SlowEndpointSettings, Slowness},
    },
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{Dice, EndpointHealths, PortError, Result, Saved};
use uuid::Uuid;

use crate::{
    Context, count,
    loaded::LoadedDelivery,
    response::{Response, Times},
};

/// How long a health is cached at most.
const KEPT_FOR: Duration = Duration::from_millis(1_250);

/// The fraction by which each cache time is shortened at random, so that copies do not stay in step.
const KEPT_LESS: f64 = 0.2;

const WRITES_MAX: u32 = 8;

/// How long a write that lost a race waits at most before the next try; it doubles each time.
const BACK_OFF: Duration = Duration::from_millis(10);

/// Cached healths at most; beyond it, the older half is removed.
const KEPT_MAX: usize = 10_000;

/// Endpoints' health: read about once a second per endpoint at most, written only on change.
pub struct HealthCache {
    table: Arc<dyn EndpointHealths>,
    dice: Arc<dyn Dice>,
    entries: Mutex<HashMap<Uuid, Arc<Entry>>>,
}

#[derive(Default)]
struct Entry {
    known: Mutex<Known>,
    /// Failures that the next writer includes in its write.
    failures: Mutex<Vec<FailedAttempt>>,
    /// Held while reading or writing, so that tasks of one copy do not compete with each other.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Default)]
struct Known {
    believed_until: Option<Timestamp>,
    health: Health,
    seen: SeenAttempts,
    admitted: (i64, u64),
}

impl Entry {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panic while held")
    }

    fn failures(&self) -> MutexGuard<'_, Vec<FailedAttempt>> {
        self.failures.lock().expect("no panic while held")
    }

    fn believed(&self, now: Timestamp) -> Option<Health> {
        let known = self.known();
        known.believed_until.filter(|until| now < *until).map(|_| known.health.clone())
    }
}

impl HealthCache {
    pub fn new(table: Arc<dyn EndpointHealths>, dice: Arc<dyn Dice>) -> Self {
        Self { table, dice, entries: Mutex::default() }
    }

    /// Returns the health of a subscription's endpoint.
    pub fn of<'c>(&'c self, subscription: &'c EventSubscription) -> EndpointHealth<'c> {
        let mut entries = self.entries.lock().expect("no panic while held");
        let uid = subscription.endpoint_uid();
        if entries.len() >= KEPT_MAX && !entries.contains_key(&uid) {
            forget(&mut entries);
        }
        let entry = Arc::clone(entries.entry(uid).or_default());
        EndpointHealth { cache: self, subscription, entry }
    }
}

/// The health of one endpoint, as this copy knows it.
pub struct EndpointHealth<'c> {
    cache: &'c HealthCache,
    subscription: &'c EventSubscription,
    entry: Arc<Entry>,
}

impl EndpointHealth<'_> {
    /// Returns the health, about a second old at most. Each read of the table also writes what this
    /// copy has seen itself, if that is newer.
    pub async fn look(&self, now: Timestamp) -> Result<Health> {
        if let Some(health) = self.entry.believed(now) {
            return Ok(health);
        }
        let _turn = self.entry.turn.lock().await;
        match self.entry.believed(now) {
            Some(health) => Ok(health),
            None => self.read_and_tell(now).await,
        }
    }

    /// Returns the last known health, of any age.
    pub fn known(&self) -> Health {
        self.entry.known().health.clone()
    }

    /// Writes a health that was derived from one just read; `false` if another copy was faster.
    pub async fn write(&self, now: Timestamp, health: &Health) -> Result<bool> {
        let uid = self.subscription.endpoint_uid();
        let saved = self.cache.table.save(&self.subscription.key, uid, health).await;
        match saved {
            Ok(Saved::Written) => {
                self.keep(now, Health { revision: health.revision + 1, ..health.clone() });
            }
            _ => self.entry.known().believed_until = None,
        }
        Ok(saved? == Saved::Written)
    }

    /// Takes back a delivery's claim of the probe, which was not made: others need not wait for it. If the write
    /// fails, the claim expires.
    pub async fn unclaim(&self, delivery: Uuid, now: Timestamp) {
        let unclaimed = |health: &Health| {
            health.probe.filter(|probe| probe.delivery == delivery)?;
            Some(Health { probe: None, ..health.clone() })
        };
        if let Err(error) = self.change(now, unclaimed).await {
            let subscription = &self.subscription.key;
            tracing::warn!(%subscription, error = %chain(&error), "failed to return a probe; its claim expires by itself");
        }
    }

    /// Records a success. Reads only if the cached health is old, and writes only if the success
    /// changes it. `spread` comes from [`spread`].
    pub async fn note_success(&self, success: SuccessfulAttempt, spread: Duration) -> Result<()> {
        let now = success.ended_at;
        let change = |health: &Health| after_success(health, success, spread);
        let is_news = {
            let mut known = self.entry.known();
            known.seen.last_success_at = known.seen.last_success_at.max(Some(now));
            let is_believed = known.believed_until.is_some_and(|until| now < until);
            !is_believed || change(&known.health).is_some()
        };
        if is_news {
            self.change(now, change).boxed().await?;
        }
        Ok(())
    }

    /// Records a failed attempt and returns the health in force. Concurrent failures of this copy at
    /// the same endpoint share one write.
    pub async fn note_failure(
        &self,
        durations: &Durations,
        failed: FailedAttempt,
    ) -> Result<Health> {
        let (entry, now) = (&self.entry, failed.ended_at);
        let last_success_at = {
            let mut known = entry.known();
            known.seen.last_failure_at = known.seen.last_failure_at.max(Some(now));
            known.seen.last_success_at
        };
        entry.failures().push(FailedAttempt { last_success_at, ..failed });
        let _turn = entry.turn.lock().await;
        let together = std::mem::take(&mut *entry.failures());
        let change = |health: &Health| after_failures(health, durations, &together);
        let changed = self.change_in_turn(now, change).await;
        if changed.is_err() {
            // Each of the other failures still tries its own write.
            let request = |it: &FailedAttempt| (it.delivery, it.began_at);
            let others = together.iter().filter(|other| request(other) != request(&failed));
            entry.failures().extend(others.copied());
        }
        changed
    }

    /// Votes that a first attempt has just become slow. Returns whether the endpoint is marked as
    /// slow, by this copy or another.
    pub async fn vote(&self, now: Timestamp, lanes: &SlowEndpointSettings) -> Result<bool> {
        let vote = |health: &Health| {
            let slow = slow_endpoint::vote(&health.slow, 1, now, lanes)?;
            Some(Health { slow, ..health.clone() })
        };
        Ok(self.change(now, vote).await?.slow.is_slow(now))
    }

    /// Takes a lease for up to `wanted` requests to a slow endpoint. Returns the number granted.
    /// After an error no request may begin.
    pub async fn take(
        &self,
        holder: Uuid,
        wanted: u32,
        now: Timestamp,
        lanes: &SlowEndpointSettings,
    ) -> Result<u32> {
        let take = |slow: &Slowness| slow_endpoint::take(slow, holder, wanted, now, lanes).0;
        let health = self.change(now, |health| with_lane(health, take)).await?;
        Ok(health.slow.held_by(holder, now))
    }

    /// Returns a lease, or a part of it, with what was learned. If the write fails, it expires.
    pub async fn give_back(
        &self,
        holder: Uuid,
        answered: SlowEndpointReport,
        now: Timestamp,
        lanes: &SlowEndpointSettings,
    ) {
        let give_back =
            |slow: &Slowness| slow_endpoint::give_back(slow, holder, answered, now, lanes);
        if let Err(error) = self.change(now, |health| with_lane(health, give_back)).await {
            let subscription = &self.subscription.key;
            tracing::warn!(%subscription, error = %chain(&error), "failed to return a lease; it expires by itself");
        }
    }

    /// Returns how many deliveries this copy has admitted in this second.
    pub fn admitted(&self, now: Timestamp) -> u64 {
        let (second, count) = self.entry.known().admitted;
        if second == now.as_seconds() { count } else { 0 }
    }

    pub fn note_admitted(&self, now: Timestamp) {
        let mut known = self.entry.known();
        let (second, count) = known.admitted;
        let count = if second == now.as_seconds() { count } else { 0 };
        known.admitted = (now.as_seconds(), count + 1);
    }

    /// Changes a health by `change`, which returns `None` if there is nothing to write. Tries again
    /// if another copy has written meanwhile, and fails if that happens each time. Returns the
    /// health in force.
    async fn change(
        &self,
        now: Timestamp,
        change: impl Fn(&Health) -> Option<Health>,
    ) -> Result<Health> {
        let _turn = self.entry.turn.lock().await;
        self.change_in_turn(now, change).await
    }

    async fn change_in_turn(
        &self,
        now: Timestamp,
        change: impl Fn(&Health) -> Option<Health>,
    ) -> Result<Health> {
        let mut health = match self.entry.believed(now) {
            Some(health) => health,
            None => self.read_and_tell(now).await?,
        };
        for tries in 0..WRITES_MAX {
            let Some(next) = change(&health) else { return Ok(health) };
            if self.write(now, &next).await? {
                return Ok(Health { revision: next.revision + 1, ..next });
            }
            let back_off = BACK_OFF * 2_u32.pow(tries);
            tokio::time::sleep(back_off.mul_f64(self.cache.dice.roll())).await;
            health = self.read(now).await?;
        }
        Err(PortError::new("writing an endpoint's health", "others wrote at the same time"))
    }

    /// Reads a health and adds this copy's newer results. If the write fails, the next read retries.
    async fn read_and_tell(&self, now: Timestamp) -> Result<Health> {
        let health = self.read(now).await?;
        let seen = self.entry.known().seen;
        let Some(next) = evidence(&health, seen, now) else { return Ok(health) };
        match self.write(now, &next).await {
            Ok(true) => Ok(Health { revision: next.revision + 1, ..next }),
            Ok(false) => self.read(now).await,
            Err(error) => {
                let subscription = &self.subscription.key;
                tracing::warn!(%subscription, error = %chain(&error), "failed to share a success with other copies");
                Ok(health)
            }
        }
    }

    async fn read(&self, now: Timestamp) -> Result<Health> {
        let uid = self.subscription.endpoint_uid();
        let health = self.cache.table.load(&self.subscription.key, uid).await?;
        self.keep(now, health.clone());
        Ok(health)
    }

    fn keep(&self, now: Timestamp, health: Health) {
        let kept_for = KEPT_FOR.mul_f64(1.0 - KEPT_LESS * self.cache.dice.roll());
        let mut known = self.entry.known();
        (known.believed_until, known.health) = (Some(now + kept_for), health);
    }
}

/// Makes room by removing the half of the entries that were read longest ago. Entries in use stay.
fn forget(entries: &mut HashMap<Uuid, Arc<Entry>>) {
    let mut ages: Vec<_> = entries.values().map(|entry| entry.known().believed_until).collect();
    let middle = ages.len() / 2;
    let (_, oldest_kept, _) = ages.select_nth_unstable(middle);
    let oldest_kept = *oldest_kept;
    entries.retain(|_, entry| {
        Arc::strong_count(entry) > 1 || entry.known().believed_until > oldest_kept
    });
}

fn with_lane(health: &Health, change: impl Fn(&Slowness) -> Slowness) -> Option<Health> {
    let slow = change(&health.slow);
    (slow != health.slow).then(|| Health { slow, ..health.clone() })
}

/// Returns how long the end of this endpoint's wait is spread, by the backlog of its queues.
/// Makes no call unless the endpoint is known to wait.
pub async fn spread(
    context: &Context,
    subscription: &EventSubscription,
    now: Timestamp,
) -> Duration {
    if !context.healths.of(subscription).known().is_waiting() {
        return Duration::ZERO;
    }
    let queue = Delivery::retry_queue_of(subscription.uid, context.settings.retry_shards);
    let backlog = context.in_flight.backlog(queue, now).await;
    let held_back = match context.settings.sends_to_slow {
        true => context.in_flight.backlog(Queue::Slow, now).await,
        false => 0,
    };
    parking::spread(backlog + held_back)
}

/// Records the result of a request, once for all its deliveries. Returns until when the endpoint
/// waits.
///
/// An endpoint that accepts the request or some of its events works: refused events wait alone, so
/// that one hot shard does not stop a whole stream.
pub async fn note_response(
    context: &Context,
    deliveries: &[LoadedDelivery],
    response: &Response,
) -> Option<Timestamp> {
    let mut answers = response.results.iter().flat_map(|result| result.answers());
    let delivered = answers.clone().find(|answer| answer.outcome.is_accepted());
    let answer = delivered.or_else(|| answers.next())?;
    let (began_at, ended_at) = response.times;
    if delivered.is_some() {
        let asked_for = deliveries.iter().any(|loaded| loaded.resend.is_some());
        let success = SuccessfulAttempt { began_at, ended_at, asked_for };
        note_success(context, deliveries[0].subscription(), success).await;
        return None;
    }
    note_failure(context, &deliveries[0], answer, response.times).boxed().await
}

/// Records a success, which writes nothing on the happy path.
pub async fn note_success(
    context: &Context,
    subscription: &EventSubscription,
    success: SuccessfulAttempt,
) {
    let spread = spread(context, subscription, success.ended_at).await;
    let noted = context.healths.of(subscription).note_success(success, spread).await;
    if let Err(error) = noted {
        // The events are delivered; the next success tries again.
        let (key, error) = (&subscription.key, chain(&error));
        tracing::warn!(subscription = %key, %error, "failed to record a recovery");
    }
}

/// Records a failure. Returns until when the endpoint waits; if others wrote the health first each
/// time, by this outcome alone.
pub async fn note_failure(
    context: &Context,
    loaded: &LoadedDelivery,
    answer: Answer,
    (began_at, ended_at): Times,
) -> Option<Timestamp> {
    let subscription = loaded.subscription();
    let delivery = loaded.delivery.id;
    let durations = &context.settings.probation;
    let failed = FailedAttempt { delivery, began_at, ended_at, answer, last_success_at: None };
    match context.healths.of(subscription).note_failure(durations, failed).await {
        Ok(health) => {
            if health.began_waiting_at(ended_at) {
                count::probation(context, &subscription.key, answer);
            }
            health.until()
        }
        Err(error) => {
            let (key, error) = (&subscription.key, chain(&error));
            tracing::warn!(subscription = %key, %error, "failed to record a failure");
            durations.of(answer.outcome).map(|wait| ended_at + wait)
        }
    }
}

#[cfg(test)]
mod tests;
