//! Buckets of dead letters, and jobs that send them again.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        dead_letter::{Origin, position::Position},
        redrive::Job,
    },
    event::DeliverySchema,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{BucketError, DeadLetters, Listed, PortError, Redrives, Saved};
use uuid::Uuid;

use super::NOW;

/// An object with what its labels say, and when it was written.
type Object = (Vec<u8>, Option<Origin>, Timestamp);

/// Everything in one bucket, and all jobs.
#[derive(Default)]
pub(crate) struct Letters {
    pub(crate) objects: Mutex<BTreeMap<String, Object>>,
    pub(crate) jobs: Mutex<BTreeMap<Uuid, Job>>,
    /// A job that somebody else stores just before the next one is stored.
    pub(crate) rival: Mutex<Option<Job>>,
    /// Names of objects in the order they were read.
    pub(crate) read: Mutex<Vec<String>>,
    /// Whether there is no bucket.
    pub(crate) is_missing: Mutex<bool>,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while held")
}

/// Objects of one page of a list.
const LISTED: usize = 3;

/// An object of `s-1` of `demo` that was written so many hours ago.
pub(crate) fn name(number: u128, hours_ago: i64) -> String {
    let at = Timestamp::from_millis(NOW.as_millis() - hours_ago * 3_600_000).utc();
    let (year, month, day, hour) = (at.year(), u8::from(at.month()), at.day(), at.hour());
    format!("dead/S-1/{year}/{month}/{day}/{hour}/{}.json", Uuid::from_u128(number))
}

/// A record of Event Grid's form.
pub(crate) fn record(id: u64, event_type: &str, reason: &str) -> String {
    format!(
        r#"{{"id":"{id}","eventType":"{event_type}","n":1.50,"data":"confidential","deadLetterReason":"{reason}","deliveryAttempts":2,"lastDeliveryOutcome":"Busy","lastHttpStatusCode":503,"publishTime":"2026-11-20T08:00:00.000Z"}}"#
    )
}

impl Letters {
    /// Stores records of `s-1` of `demo` as an object that was written so many hours ago.
    pub(crate) fn store(&self, number: u128, hours_ago: i64, records: &[String]) {
        let key = SubscriptionKey { topic: "demo".to_owned(), name: "s-1".to_owned() };
        let origin = Origin { subscription: key, schema: DeliverySchema::EventGridSchema };
        let body = format!("[{}]", records.join(",")).into_bytes();
        let at = Timestamp::from_millis(NOW.as_millis() - hours_ago * 3_600_000);
        open(&self.objects).insert(name(number, hours_ago), (body, Some(origin), at));
    }

    /// The id of a record in such an object.
    pub(crate) fn id(number: u128, hours_ago: i64, index: usize) -> String {
        let position = Position::first_of("dead/S-1", &name(number, hours_ago));
        position.expect("a position").at(index).to_string()
    }

    fn bucket(&self) -> Result<MutexGuard<'_, BTreeMap<String, Object>>, BucketError> {
        if *open(&self.is_missing) { Err(BucketError::NotFound) } else { Ok(open(&self.objects)) }
    }
}

#[async_trait]
impl DeadLetters for Letters {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        assert_eq!(bucket, "letters");
        let objects = self.bucket()?;
        let all = objects.iter().filter(|(name, _)| name.starts_with(prefix));
        let all = all.filter(|(name, _)| after.is_none_or(|after| after < name.as_str()));
        let listed = |(name, (body, _, written_at)): (&String, &Object)| Listed {
            name: name.clone(),
            bytes: body.len() as u64,
            written_at: *written_at,
        };
        Ok(all.take(LISTED).map(listed).collect())
    }

    async fn get(
        &self,
        _: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError> {
        open(&self.read).push(name.to_owned());
        let found = self.bucket()?.get(name).cloned();
        Ok(found.map(|(body, origin, _)| (body, origin)))
    }

    async fn delete(&self, _: &str, name: &str) -> Result<(), BucketError> {
        self.bucket()?.remove(name);
        Ok(())
    }
}

#[async_trait]
impl Redrives for Letters {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        let jobs = open(&self.jobs);
        Ok(jobs.values().filter(|job| job.subscription == *of).cloned().collect())
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        Ok(open(&self.jobs).get(&id).filter(|job| job.subscription == *of).cloned())
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        let mut jobs = open(&self.jobs);
        if let Some(rival) = open(&self.rival).take() {
            jobs.insert(rival.id, rival);
        }
        if jobs.get(&job.id).map_or(0, |stored| stored.revision) != job.revision {
            return Ok(Saved::Conflict);
        }
        jobs.insert(job.id, Job { revision: job.revision + 1, ..job.clone() });
        Ok(Saved::Written)
    }
}
