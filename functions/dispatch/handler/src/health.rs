//! What this copy of dispatch knows of endpoints' health: a short memory over the table.

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
            Durations, Failed, Health, Seen, Succeeded, after_failures, after_success, evidence,
        },
        lane::{self, Answered, LaneSettings, Slow},
    },
    subscription::EventSubscription,
    time::Timestamp,
};
use gridpost_ports::{Dice, EndpointHealths, PortError, Saved};
use uuid::Uuid;

use crate::Context;

/// How long a health is believed without another look, at most.
const KEPT_FOR: Duration = Duration::from_millis(1_250);

/// Copies that began to look together do not go on so: each look is believed for up to a fifth less.
const KEPT_LESS: f64 = 0.2;

/// How often a conditional write is tried against other copies that write too.
const WRITES_MAX: u32 = 8;

/// How long a write that met another waits at most before it is tried again; twice as long each time.
const BACK_OFF: Duration = Duration::from_millis(10);

/// Healths kept in memory, at most; beyond it those that are believed no more are forgotten.
const KEPT_MAX: usize = 10_000;

/// Healths of endpoints, read at most once in about a second for each, written only on change.
pub struct HealthCache {
    table: Arc<dyn EndpointHealths>,
    dice: Arc<dyn Dice>,
    pages: Mutex<HashMap<Uuid, Arc<Page>>>,
}

/// One endpoint.
#[derive(Default)]
struct Page {
    known: Mutex<Known>,
    /// Failures that the next one to write takes along.
    failures: Mutex<Vec<Failed>>,
    /// Whose turn it is to read or write: tasks of one copy do not work against each other.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Clone, Default)]
struct Known {
    believed_until: Option<Timestamp>,
    health: Health,
    seen: Seen,
    admitted: (i64, u64),
}

impl Page {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panic while held")
    }

    fn failures(&self) -> MutexGuard<'_, Vec<Failed>> {
        self.failures.lock().expect("no panic while held")
    }

    fn believed(&self, now: Timestamp) -> Option<Health> {
        let known = self.known();
        known.believed_until.filter(|until| now < *until).map(|_| known.health.clone())
    }
}

impl HealthCache {
    /// A memory over that table.
    pub fn new(table: Arc<dyn EndpointHealths>, dice: Arc<dyn Dice>) -> Self {
        Self { table, dice, pages: Mutex::default() }
    }

    /// The health of a subscription's endpoint, about a second old at most. Each look at the table
    /// also tells what this copy has seen itself, where that says more.
    ///
    /// # Errors
    ///
    /// The table could not be read.
    pub async fn look(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let page = self.page(subscription);
        if let Some(health) = page.believed(now) {
            return Ok(health);
        }
        let _turn = page.turn.lock().await;
        match page.believed(now) {
            Some(health) => Ok(health),
            None => self.read_and_tell(&page, subscription, now).await,
        }
    }

    /// What was last known of the health, however old.
    pub fn known(&self, subscription: &EventSubscription) -> Health {
        self.page(subscription).known().health.clone()
    }

    /// Whether it waits, as far as was last known, however long ago.
    fn is_waiting(&self, subscription: &EventSubscription) -> bool {
        self.page(subscription).known().health.is_waiting()
    }

    /// Writes a health that was made from one just looked at; `false` if another copy was faster.
    ///
    /// # Errors
    ///
    /// The table could not be written.
    pub async fn write(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
        health: &Health,
    ) -> Result<bool, PortError> {
        self.save(&self.page(subscription), subscription, now, health).await
    }

    /// Notes a success. Nothing is read while the last look is believed, and nothing written unless
    /// the health has something in it that a success ends. `spread` is [`spread`]'s.
    ///
    /// # Errors
    ///
    /// The table could not be read or written, or others wrote every time.
    pub async fn note_success(
        &self,
        subscription: &EventSubscription,
        success: Succeeded,
        spread: Duration,
    ) -> Result<(), PortError> {
        let (page, now) = (self.page(subscription), success.ended_at);
        let change = |health: &Health| after_success(health, success, spread);
        let is_news = {
            let mut known = page.known();
            known.seen.last_success_at = known.seen.last_success_at.max(Some(now));
            let is_believed = known.believed_until.is_some_and(|until| now < until);
            !is_believed || change(&known.health).is_some()
        };
        if is_news {
            self.change(subscription, now, change).boxed().await?;
        }
        Ok(())
    }

    /// Notes a failed attempt; answers the health in force. Failures of this copy that wait for the
    /// same endpoint's turn are noted together, in one write.
    ///
    /// # Errors
    ///
    /// The table could not be read or written, or others wrote every time.
    pub async fn note_failure(
        &self,
        subscription: &EventSubscription,
        durations: &Durations,
        failed: Failed,
    ) -> Result<Health, PortError> {
        let page = self.page(subscription);
        let now = failed.ended_at;
        let last_success_at = {
            let mut known = page.known();
            known.seen.last_failure_at = known.seen.last_failure_at.max(Some(now));
            known.seen.last_success_at
        };
        page.failures().push(Failed { last_success_at, ..failed });
        let _turn = page.turn.lock().await;
        let together = std::mem::take(&mut *page.failures());
        let change = |health: &Health| after_failures(health, durations, &together);
        let changed = self.change_in_turn(&page, subscription, now, change).await;
        if changed.is_err() {
            // This one has failed; each of the others still tries itself.
            let request = |it: &Failed| (it.delivery, it.began_at);
            let others = together.iter().filter(|other| request(other) != request(&failed));
            page.failures().extend(others.copied());
        }
        changed
    }

    /// Tells that so many first attempts to it have just become slow; answers whether it is marked.
    /// Stops when another copy has marked it.
    ///
    /// # Errors
    ///
    /// The table could not be read or written, or others wrote every time.
    pub async fn vote(
        &self,
        subscription: &EventSubscription,
        requests: u32,
        now: Timestamp,
        settings: &LaneSettings,
    ) -> Result<bool, PortError> {
        let vote = |health: &Health| {
            let slow = lane::vote(&health.slow, requests, now, settings)?;
            Some(Health { slow, ..health.clone() })
        };
        Ok(self.change(subscription, now, vote).await?.slow.is_slow(now))
    }

    /// Takes a lease for up to `wanted` requests to a slow endpoint; answers for how many.
    ///
    /// # Errors
    ///
    /// The table could not be read or written, or others wrote every time: no request may begin.
    pub async fn take(
        &self,
        subscription: &EventSubscription,
        holder: Uuid,
        wanted: u32,
        now: Timestamp,
        settings: &LaneSettings,
    ) -> Result<u32, PortError> {
        let take = |slow: &Slow| lane::take(slow, holder, wanted, now, settings).0;
        let health = self.change(subscription, now, |health| with_lane(health, take)).await?;
        Ok(health.slow.held_by(holder, now))
    }

    /// Gives a lease back, or a part of it, with what was learned. Where that can't be written the
    /// lease ends by itself.
    pub async fn give_back(
        &self,
        subscription: &EventSubscription,
        holder: Uuid,
        answered: Answered,
        now: Timestamp,
        settings: &LaneSettings,
    ) {
        let give_back = |slow: &Slow| lane::give_back(slow, holder, answered, now, settings);
        let given = self.change(subscription, now, |health| with_lane(health, give_back)).await;
        if let Err(error) = given {
            let subscription = &subscription.key;
            tracing::warn!(%subscription, error = %chain(&error), "a lease was not given back");
        }
    }

    /// How many deliveries this copy has let through in this second.
    pub fn admitted(&self, subscription: &EventSubscription, now: Timestamp) -> u64 {
        let (second, count) = self.page(subscription).known().admitted;
        if second == now.as_seconds() { count } else { 0 }
    }

    /// Notes that one more was let through.
    pub fn note_admitted(&self, subscription: &EventSubscription, now: Timestamp) {
        let page = self.page(subscription);
        let mut known = page.known();
        let (second, count) = known.admitted;
        let count = if second == now.as_seconds() { count } else { 0 };
        known.admitted = (now.as_seconds(), count + 1);
    }

    /// Changes a health by `change`, which is asked again when another copy has written meanwhile; it
    /// says `None` when there is nothing to write. Answers the health in force.
    async fn change(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
        change: impl Fn(&Health) -> Option<Health>,
    ) -> Result<Health, PortError> {
        let page = self.page(subscription);
        let _turn = page.turn.lock().await;
        self.change_in_turn(&page, subscription, now, change).await
    }

    async fn change_in_turn(
        &self,
        page: &Page,
        subscription: &EventSubscription,
        now: Timestamp,
        change: impl Fn(&Health) -> Option<Health>,
    ) -> Result<Health, PortError> {
        let mut health = match page.believed(now) {
            Some(health) => health,
            None => self.read_and_tell(page, subscription, now).await?,
        };
        for tries in 0..WRITES_MAX {
            let Some(next) = change(&health) else { return Ok(health) };
            if self.save(page, subscription, now, &next).await? {
                return Ok(Health { revision: next.revision + 1, ..next });
            }
            tokio::time::sleep((BACK_OFF * 2_u32.pow(tries)).mul_f64(self.dice.roll())).await;
            health = self.read(page, subscription, now).await?;
        }
        Err(PortError::new("writing an endpoint's health", "others wrote at the same time"))
    }

    /// Reads a health and adds what this copy knows better. Where that can't be written, it is told
    /// at another look.
    async fn read_and_tell(
        &self,
        page: &Page,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let health = self.read(page, subscription, now).await?;
        let seen = page.known().seen;
        let Some(next) = evidence(&health, seen, now) else { return Ok(health) };
        match self.save(page, subscription, now, &next).await {
            Ok(true) => Ok(Health { revision: next.revision + 1, ..next }),
            Ok(false) => self.read(page, subscription, now).await,
            Err(error) => {
                let subscription = &subscription.key;
                tracing::warn!(%subscription, error = %chain(&error), "a success was not told");
                Ok(health)
            }
        }
    }

    async fn read(
        &self,
        page: &Page,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let health = self.table.load(&subscription.key, subscription.endpoint_uid()).await?;
        self.keep(page, now, health.clone());
        Ok(health)
    }

    async fn save(
        &self,
        page: &Page,
        subscription: &EventSubscription,
        now: Timestamp,
        health: &Health,
    ) -> Result<bool, PortError> {
        let uid = subscription.endpoint_uid();
        let saved = self.table.save(&subscription.key, uid, health).await;
        match saved {
            Ok(Saved::Written) => {
                let health = Health { revision: health.revision + 1, ..health.clone() };
                self.keep(page, now, health);
            }
            _ => page.known().believed_until = None,
        }
        Ok(saved? == Saved::Written)
    }

    fn keep(&self, page: &Page, now: Timestamp, health: Health) {
        let kept_for = KEPT_FOR.mul_f64(1.0 - KEPT_LESS * self.dice.roll());
        let mut known = page.known();
        (known.believed_until, known.health) = (Some(now + kept_for), health);
    }

    fn page(&self, subscription: &EventSubscription) -> Arc<Page> {
        let mut pages = self.pages.lock().expect("no panic while held");
        let uid = subscription.endpoint_uid();
        if let Some(page) = pages.get(&uid) {
            return Arc::clone(page);
        }
        if pages.len() >= KEPT_MAX {
            forget(&mut pages);
        }
        Arc::clone(pages.entry(uid).or_default())
    }
}

/// Makes room: the endpoints go that were looked at first, half of them. What is in use stays.
fn forget(pages: &mut HashMap<Uuid, Arc<Page>>) {
    let mut ages: Vec<_> = pages.values().map(|page| page.known().believed_until).collect();
    let middle = ages.len() / 2;
    let (_, oldest_kept, _) = ages.select_nth_unstable(middle);
    let oldest_kept = *oldest_kept;
    pages
        .retain(|_, page| Arc::strong_count(page) > 1 || page.known().believed_until > oldest_kept);
}

fn with_lane(health: &Health, change: impl Fn(&Slow) -> Slow) -> Option<Health> {
    let slow = change(&health.slow);
    (slow != health.slow).then(|| Health { slow, ..health.clone() })
}

/// Over how long the end of a wait of this endpoint is spread, by the backlog of its retry queue;
/// zero, without asking, while it is not known to wait.
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
