//! A short-lived cache of endpoints' health in front of the table.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::FutureExt;
use gridpost_core::{
    delivery::{Delivery, parking},
    error::chain,
    retry::{
        health::{
            Durations, FailedAttempt, Health, SeenAttempts, SuccessfulAttempt, after_failures,
            after_success, evidence,
        },
        slow_endpoint::{self, SlowEndpointReport, SlowEndpointSettings, Slowness},
    },
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{Dice, EndpointHealths, PortError, Saved};
use uuid::Uuid;

use crate::Context;

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

    /// The health of a subscription's endpoint, about a second old at most. Each read of the table
    /// also writes what this copy has seen itself, if that is newer.
    pub async fn look(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let entry = self.entry(subscription);
        if let Some(health) = entry.believed(now) {
            return Ok(health);
        }
        let _turn = entry.turn.lock().await;
        match entry.believed(now) {
            Some(health) => Ok(health),
            None => self.read_and_tell(&entry, subscription, now).await,
        }
    }

    /// The last known health, of any age.
    pub fn known(&self, subscription: &EventSubscription) -> Health {
        self.entry(subscription).known().health.clone()
    }

    /// Whether the endpoint was waiting when its health was last read.
    fn is_waiting(&self, subscription: &EventSubscription) -> bool {
        self.entry(subscription).known().health.is_waiting()
    }

    /// Writes a health that was derived from one just read; `false` if another copy was faster.
    pub async fn write(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
        health: &Health,
    ) -> Result<bool, PortError> {
        self.save(&self.entry(subscription), subscription, now, health).await
    }

    /// Records a success. Reads only if the cached health is old, and writes only if the success
    /// changes it. `spread` comes from [`spread`].
    pub async fn note_success(
        &self,
        subscription: &EventSubscription,
        success: SuccessfulAttempt,
        spread: Duration,
    ) -> Result<(), PortError> {
        let (entry, now) = (self.entry(subscription), success.ended_at);
        let change = |health: &Health| after_success(health, success, spread);
        let is_news = {
            let mut known = entry.known();
            known.seen.last_success_at = known.seen.last_success_at.max(Some(now));
            let is_believed = known.believed_until.is_some_and(|until| now < until);
            !is_believed || change(&known.health).is_some()
        };
        if is_news {
            self.change(subscription, now, change).boxed().await?;
        }
        Ok(())
    }

    /// Records a failed attempt and returns the health in force. Concurrent failures of this copy at
    /// the same endpoint share one write.
    pub async fn note_failure(
        &self,
        subscription: &EventSubscription,
        durations: &Durations,
        failed: FailedAttempt,
    ) -> Result<Health, PortError> {
        let entry = self.entry(subscription);
        let now = failed.ended_at;
        let last_success_at = {
            let mut known = entry.known();
            known.seen.last_failure_at = known.seen.last_failure_at.max(Some(now));
            known.seen.last_success_at
        };
        entry.failures().push(FailedAttempt { last_success_at, ..failed });
        let _turn = entry.turn.lock().await;
        let together = std::mem::take(&mut *entry.failures());
        let change = |health: &Health| after_failures(health, durations, &together);
        let changed = self.change_in_turn(&entry, subscription, now, change).await;
        if changed.is_err() {
            // Each of the other failures still tries its own write.
            let request = |it: &FailedAttempt| (it.delivery, it.began_at);
            let others = together.iter().filter(|other| request(other) != request(&failed));
            entry.failures().extend(others.copied());
        }
        changed
    }

    /// Votes that this many first attempts have just become slow. Returns whether the endpoint is
    /// marked as slow, by this copy or another.
    pub async fn vote(
        &self,
        subscription: &EventSubscription,
        requests: u32,
        now: Timestamp,
        settings: &SlowEndpointSettings,
    ) -> Result<bool, PortError> {
        let vote = |health: &Health| {
            let slow = slow_endpoint::vote(&health.slow, requests, now, settings)?;
            Some(Health { slow, ..health.clone() })
        };
        Ok(self.change(subscription, now, vote).await?.slow.is_slow(now))
    }

    /// Takes a lease for up to `wanted` requests to a slow endpoint. Returns the number granted.
    /// After an error no request may begin.
    pub async fn take(
        &self,
        subscription: &EventSubscription,
        holder: Uuid,
        wanted: u32,
        now: Timestamp,
        settings: &SlowEndpointSettings,
    ) -> Result<u32, PortError> {
        let take = |slow: &Slowness| slow_endpoint::take(slow, holder, wanted, now, settings).0;
        let health = self.change(subscription, now, |health| with_lane(health, take)).await?;
        Ok(health.slow.held_by(holder, now))
    }

    /// Returns a lease, or a part of it, with what was learned. If the write fails, it expires.
    pub async fn give_back(
        &self,
        subscription: &EventSubscription,
        holder: Uuid,
        answered: SlowEndpointReport,
        now: Timestamp,
        settings: &SlowEndpointSettings,
    ) {
        let give_back =
            |slow: &Slowness| slow_endpoint::give_back(slow, holder, answered, now, settings);
        let given = self.change(subscription, now, |health| with_lane(health, give_back)).await;
        if let Err(error) = given {
            let subscription = &subscription.key;
            tracing::warn!(%subscription, error = %chain(&error), "failed to return a lease; it expires by itself");
        }
    }

    /// How many deliveries this copy has admitted in this second.
    pub fn admitted(&self, subscription: &EventSubscription, now: Timestamp) -> u64 {
        let (second, count) = self.entry(subscription).known().admitted;
        if second == now.as_seconds() { count } else { 0 }
    }

    pub fn note_admitted(&self, subscription: &EventSubscription, now: Timestamp) {
        let entry = self.entry(subscription);
        let mut known = entry.known();
        let (second, count) = known.admitted;
        let count = if second == now.as_seconds() { count } else { 0 };
        known.admitted = (now.as_seconds(), count + 1);
    }

    /// Changes a health by `change`, which returns `None` if there is nothing to write. Tries again
    /// if another copy has written meanwhile, and fails if that happens each time. Returns the
    /// health in force.
    async fn change(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
        change: impl Fn(&Health) -> Option<Health>,
    ) -> Result<Health, PortError> {
        let entry = self.entry(subscription);
        let _turn = entry.turn.lock().await;
        self.change_in_turn(&entry, subscription, now, change).await
    }

    async fn change_in_turn(
        &self,
        entry: &Entry,
        subscription: &EventSubscription,
        now: Timestamp,
        change: impl Fn(&Health) -> Option<Health>,
    ) -> Result<Health, PortError> {
        let mut health = match entry.believed(now) {
            Some(health) => health,
            None => self.read_and_tell(entry, subscription, now).await?,
        };
        for tries in 0..WRITES_MAX {
            let Some(next) = change(&health) else { return Ok(health) };
            if self.save(entry, subscription, now, &next).await? {
                return Ok(Health { revision: next.revision + 1, ..next });
            }
            tokio::time::sleep((BACK_OFF * 2_u32.pow(tries)).mul_f64(self.dice.roll())).await;
            health = self.read(entry, subscription, now).await?;
        }
        Err(PortError::new("writing an endpoint's health", "others wrote at the same time"))
    }

    /// Reads a health and adds this copy's newer results. If the write fails, the next read retries.
    async fn read_and_tell(
        &self,
        entry: &Entry,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let health = self.read(entry, subscription, now).await?;
        let seen = entry.known().seen;
        let Some(next) = evidence(&health, seen, now) else { return Ok(health) };
        match self.save(entry, subscription, now, &next).await {
            Ok(true) => Ok(Health { revision: next.revision + 1, ..next }),
            Ok(false) => self.read(entry, subscription, now).await,
            Err(error) => {
                let subscription = &subscription.key;
                tracing::warn!(%subscription, error = %chain(&error), "failed to share a success with other copies");
                Ok(health)
            }
        }
    }

    async fn read(
        &self,
        entry: &Entry,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let health = self.table.load(&subscription.key, subscription.endpoint_uid()).await?;
        self.keep(entry, now, health.clone());
        Ok(health)
    }

    async fn save(
        &self,
        entry: &Entry,
        subscription: &EventSubscription,
        now: Timestamp,
        health: &Health,
    ) -> Result<bool, PortError> {
        let uid = subscription.endpoint_uid();
        let saved = self.table.save(&subscription.key, uid, health).await;
        match saved {
            Ok(Saved::Written) => {
                let health = Health { revision: health.revision + 1, ..health.clone() };
                self.keep(entry, now, health);
            }
            _ => entry.known().believed_until = None,
        }
        Ok(saved? == Saved::Written)
    }

    fn keep(&self, entry: &Entry, now: Timestamp, health: Health) {
        let kept_for = KEPT_FOR.mul_f64(1.0 - KEPT_LESS * self.dice.roll());
        let mut known = entry.known();
        (known.believed_until, known.health) = (Some(now + kept_for), health);
    }

    fn entry(&self, subscription: &EventSubscription) -> Arc<Entry> {
        let mut entries = self.entries.lock().expect("no panic while held");
        let uid = subscription.endpoint_uid();
        if let Some(entry) = entries.get(&uid) {
            return Arc::clone(entry);
        }
        if entries.len() >= KEPT_MAX {
            forget(&mut entries);
        }
        Arc::clone(entries.entry(uid).or_default())
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

/// Returns how long the end of this endpoint's wait is spread, by the backlog of its retry queue.
/// Makes no call unless the endpoint is known to wait.
pub async fn spread(
    context: &Context,
    subscription: &EventSubscription,
    now: Timestamp,
) -> Duration {
    if !context.healths.is_waiting(subscription) {
        return Duration::ZERO;
    }
    let queue = Delivery::retry_queue_of(subscription.uid, context.settings.retry_shards);
    parking::spread(context.in_flight.backlog(queue, now).await)
}

#[cfg(test)]
mod tests;
