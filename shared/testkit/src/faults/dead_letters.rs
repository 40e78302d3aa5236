//! Faults of listing dead letters, and of redrive jobs.

use async_trait::async_trait;
use gridpost_core::{
    delivery::{dead_letter::Origin, redrive::Job},
    subscription::SubscriptionKey,
};
use gridpost_ports::{BucketError, DeadLetters, Listed, PortError, Redrives, Saved};
use uuid::Uuid;

use super::{About, Faulty};
use crate::{bucket::Buckets, table::Tables};

impl Faulty<Buckets> {
    async fn bucket<R, F>(&self, effect: impl Fn() -> F) -> Result<R, BucketError>
    where
        F: Future<Output = Result<R, BucketError>>,
    {
        self.call(About::Other, || async { Ok(effect().await) }).await?
    }
}

#[async_trait]
impl DeadLetters for Faulty<Buckets> {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        self.bucket(|| self.inner.list(bucket, prefix, after)).await
    }

    async fn get(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError> {
        self.bucket(|| self.inner.get(bucket, name)).await
    }

    async fn delete(&self, bucket: &str, name: &str) -> Result<(), BucketError> {
        self.bucket(|| self.inner.delete(bucket, name)).await
    }
}

#[async_trait]
impl Redrives for Faulty<Tables> {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        self.table(About::Other, &[], || self.inner.jobs(of)).await
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        self.table(About::Other, &[], || self.inner.job(of, id)).await
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        self.table(About::Other, &[], || Redrives::save(&*self.inner, job)).await
    }
}
