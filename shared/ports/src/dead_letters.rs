//! Dead letters: buckets, listings, and redrive jobs.

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        dead_letter::{Labels, Origin},
        redrive::Job,
    },
    subscription::SubscriptionKey,
    time::Timestamp,
};
use uuid::Uuid;

use crate::{PortError, Result, Saved};

/// The reason why an object was not stored.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    #[error("the bucket does not exist")]
    NotFound,
    /// Only this object, until its owner acts: it is archived, or its key is disabled.
    #[error(transparent)]
    Unreadable(PortError),
    /// Any other failure; a retry may succeed.
    #[error(transparent)]
    Unavailable(#[from] PortError),
}

/// The place of dead letters.
#[async_trait]
pub trait Bucket: Send + Sync {
    /// Stores a JSON object with its labels, whole or not at all.
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        labels: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError>;
}

/// An object in a bucket's listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub bytes: u64,
    /// When it was written, in whole seconds.
    pub written_at: Timestamp,
}

/// Stored dead letters, for operators.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Lists up to 1,000 objects by name, from the start or after `after`. Empty means the end.
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError>;

    /// Reads an object and its labels, if it exists. It may have none of our labels.
    async fn get(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError>;

    /// Deletes an object. One that is gone already counts as deleted.
    async fn delete(&self, bucket: &str, name: &str) -> Result<(), BucketError>;
}

/// Redrive jobs, by event subscription.
#[async_trait]
pub trait Redrives: Send + Sync {
    /// Reads all jobs of an event subscription. Strongly consistent.
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>>;

    /// Reads one job. Strongly consistent.
    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>>;

    /// Writes a job as revision `job.revision + 1`, if the stored one still is `job.revision` (0:
    /// there is none).
    async fn save(&self, job: &Job) -> Result<Saved>;
}
