//! Redrive jobs.

use std::collections::BTreeMap;

use async_trait::async_trait;
use gridpost_core::{delivery::redrive::Job, subscription::SubscriptionKey};
use gridpost_ports::{PortError, Redrives, Saved};
use uuid::Uuid;

use super::{Tables, stored};

impl Tables {
    /// Looks at all jobs, by id, or changes them as no writer would: their revisions stay as they are.
    pub fn with_redrives<T>(&self, look: impl FnOnce(&mut BTreeMap<Uuid, Job>) -> T) -> T {
        look(&mut self.items().redrives)
    }
}

#[async_trait]
impl Redrives for Tables {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        let items = self.items();
        Ok(items.redrives.values().filter(|job| job.subscription == *of).cloned().collect())
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        let items = self.items();
        Ok(items.redrives.get(&id).filter(|job| job.subscription == *of).cloned())
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        let mut items = self.items();
        if items.redrives.get(&job.id).map_or(0, |before| before.revision) != job.revision {
            return Ok(Saved::Conflict);
        }
        let next = Job { revision: job.revision + 1, ..stored(job)? };
        items.redrives.insert(job.id, next);
        Ok(Saved::Written)
    }
}
