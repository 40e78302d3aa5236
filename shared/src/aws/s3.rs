//! Dead-letter objects in S3.

use async_trait::async_trait;
use aws_sdk_s3::{Client, error::ProvideErrorMetadata};

use super::port_error;
use crate::ports::{Bucket, BucketError};

/// Buckets of S3.
#[derive(Clone, Debug)]
pub struct S3Bucket {
    client: Client,
}

impl S3Bucket {
    /// Through that client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Bucket for S3Bucket {
    async fn put(&self, bucket: &str, key: &str, body: Vec<u8>) -> Result<(), BucketError> {
        let put = self
            .client
            .put_object()
            .bucket(bucket)
            .key(key)
            .content_type("application/json")
            .body(body.into())
            .send()
            .await;
        match put {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("NoSuchBucket") => Err(BucketError::NotFound),
            Err(error) => Err(BucketError::Unavailable(port_error("s3:PutObject", error))),
        }
    }
}
