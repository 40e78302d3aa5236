//! What this function instance knows of endpoints' health: a short memory over the table.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_core::{retry::health::Health, subscription::EventSubscription, time::Timestamp};
use gridpost_ports::{EndpointHealths, PortError, Saved};
use uuid::Uuid;

/// How long a health is believed without looking again.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// How often a conditional write is tried against others that write too.
const WRITES_MAX: usize = 20;

/// Healths kept in memory, at most; beyond it all are forgotten and read again.
const KEPT_MAX: usize = 10_000;

/// Healths of endpoints, read at most once in [`KEPT_FOR`] for each, written only on change.
pub struct HealthBook {
    table: Arc<dyn EndpointHealths>,
    pages: Mutex<HashMap<Uuid, Page>>,
}

#[derive(Clone, Default)]
struct Page {
    read_at: Option<Timestamp>,
    health: Health,
    last_success_at: Option<Timestamp>,
    admitted: (i64, u64),
    /// Whose turn it is to write: within one instance nobody writes against another.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl HealthBook {
    /// A book over that table.
    pub fn new(table: Arc<dyn EndpointHealths>) -> Self {
        Self { table, pages: Mutex::default() }
    }

    /// The health of a subscription's endpoint, a few seconds old at most.
    ///
    /// # Errors
    ///
    /// The table could not be read.
    pub async fn look(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let page = self.page(subscription.uid);
        match page.read_at {
            Some(at) if now.since(at) < KEPT_FOR => Ok(page.health),
            _ => self.read(subscription, now).await,
        }
    }

    /// Changes a health by `change`, which is asked again when somebody else has written meanwhile;
    /// it says `None` when there is nothing to write. Returns the health in force.
    ///
    /// # Errors
    ///
    /// The table could not be read or written, or others wrote every time.
    pub async fn change(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
        change: impl Fn(&Health) -> Option<Health>,
    ) -> Result<Health, PortError> {
        let turn = self.turn(subscription.uid);
        let _turn = turn.lock().await;
        let mut health = self.look(subscription, now).await?;
        for _ in 0..WRITES_MAX {
            let Some(next) = change(&health) else { return Ok(health) };
            if self.write(subscription, now, &next).await? {
                return Ok(Health { revision: next.revision + 1, ..next });
            }
            health = self.read(subscription, now).await?;
        }
        Err(PortError::new("writing an endpoint's health", "others wrote at the same time"))
    }

    /// Writes a health that was made from one just looked at; `false` if somebody else was faster.
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
        let saved = self.table.save(&subscription.key, subscription.uid, health).await;
        if !matches!(saved, Ok(Saved::Written)) {
            self.forget(subscription.uid);
        }
        let written = saved? == Saved::Written;
        if written {
            let health = Health { revision: health.revision + 1, ..health.clone() };
            self.keep(subscription.uid, now, health);
        }
        Ok(written)
    }

    /// Notes a success, in memory alone.
    pub fn note_success(&self, subscription: &EventSubscription, at: Timestamp) {
        let mut pages = self.pages.lock().expect("no panic while held");
        let page = pages.entry(subscription.uid).or_default();
        page.last_success_at = page.last_success_at.max(Some(at));
    }

    /// The last success this instance has seen.
    pub fn last_success_at(&self, subscription: &EventSubscription) -> Option<Timestamp> {
        self.page(subscription.uid).last_success_at
    }

    /// How many deliveries this instance has let through in this second.
    pub fn admitted(&self, subscription: &EventSubscription, now: Timestamp) -> u64 {
        let (second, count) = self.page(subscription.uid).admitted;
        if second == now.as_seconds() { count } else { 0 }
    }

    /// Notes that one more was let through.
    pub fn note_admitted(&self, subscription: &EventSubscription, now: Timestamp) {
        let count = self.admitted(subscription, now) + 1;
        let mut pages = self.pages.lock().expect("no panic while held");
        pages.entry(subscription.uid).or_default().admitted = (now.as_seconds(), count);
    }

    async fn read(
        &self,
        subscription: &EventSubscription,
        now: Timestamp,
    ) -> Result<Health, PortError> {
        let health = self.table.load(&subscription.key, subscription.uid).await?;
        self.keep(subscription.uid, now, health.clone());
        Ok(health)
    }

    fn turn(&self, uid: Uuid) -> Arc<tokio::sync::Mutex<()>> {
        let mut pages = self.pages.lock().expect("no panic while held");
        Arc::clone(&pages.entry(uid).or_default().turn)
    }

    fn page(&self, uid: Uuid) -> Page {
        self.pages.lock().expect("no panic while held").get(&uid).cloned().unwrap_or_default()
    }

    fn keep(&self, uid: Uuid, now: Timestamp, health: Health) {
        let mut pages = self.pages.lock().expect("no panic while held");
        if pages.len() >= KEPT_MAX {
            pages.clear();
        }
        let page = pages.entry(uid).or_default();
        (page.read_at, page.health) = (Some(now), health);
    }

    fn forget(&self, uid: Uuid) {
        let mut pages = self.pages.lock().expect("no panic while held");
        if let Some(page) = pages.get_mut(&uid) {
            page.read_at = None;
        }
    }
}
