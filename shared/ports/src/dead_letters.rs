//! What looking through dead letters, and sending them again, needs of the world.

use async_trait::async_trait;
use uuid::Uuid;

use super::{BucketError, PortError, Saved};
use gridpost_core::{
    delivery::{dead_letter::Origin, redrive::Job},
    subscription::SubscriptionKey,
    time::Timestamp,
};

/// An object of a bucket, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was written, in whole seconds.
    pub written_at: Timestamp,
}

/// Stored dead letters, for an operator who looks through them.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// The first objects, a thousand at most, whose names begin with `prefix`, by name; of all, or
    /// of those behind `after`. None means that there are no more.
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError>;

    /// An object and what its labels say, if it is there. It may have no labels of ours.
    async fn get(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError>;

    /// Deletes an object. One that is gone already counts as deleted.
    async fn delete(&self, bucket: &str, name: &str) -> Result<(), BucketError>;
}

/// Jobs that send dead letters again, by event subscription.
#[async_trait]
pub trait Redrives: Send + Sync {
    /// All jobs of the event subscription. Strongly consistent.
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError>;

    /// One job. Strongly consistent.
    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError>;

    /// Writes a job as revision `job.revision + 1`, if the stored one still is `job.revision` (0:
    /// there is none).
    async fn save(&self, job: &Job) -> Result<Saved, PortError>;
}
