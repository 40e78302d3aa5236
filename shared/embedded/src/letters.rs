//! Dead letters.

use async_trait::async_trait;
use gridpost_core::delivery::dead_letter::{Labels, Origin};
use gridpost_ports::{Bucket, BucketError, DeadLetters, Listed, PortError};

/// The dead-letter buckets: each is a folder in `dead-letters` of the deployment's folder, and each
/// object a JSON file in it that anybody can open.
pub struct Letters {}

fn unbuilt() -> PortError {
    PortError::new("dead letters", "it is not built yet")
}

impl Letters {
    /// Makes a bucket, unless it is there.
    ///
    /// # Errors
    ///
    /// The name is no bucket's, or its folder can't be made.
    pub async fn create(&self, _bucket: &str) -> Result<(), PortError> {
        Err(unbuilt())
    }
}

#[async_trait]
impl Bucket for Letters {
    async fn put(
        &self,
        _bucket: &str,
        _key: &str,
        _labels: &Labels,
        _body: Vec<u8>,
    ) -> Result<(), BucketError> {
        Err(unbuilt().into())
    }
}

#[async_trait]
impl DeadLetters for Letters {
    async fn list(
        &self,
        _bucket: &str,
        _prefix: &str,
        _after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        Err(unbuilt().into())
    }

    async fn get(
        &self,
        _bucket: &str,
        _name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError> {
        Err(unbuilt().into())
    }

    async fn delete(&self, _bucket: &str, _name: &str) -> Result<(), BucketError> {
        Err(unbuilt().into())
    }
}
