//! Objects in S3: dead letters in any bucket, and the payload bucket.

use std::sync::OnceLock;

use async_trait::async_trait;
use aws_sdk_s3::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::get_object::GetObjectError,
    primitives::{ByteStream, DateTime},
};
use gridpost_core::{
    delivery::dead_letter::{Labels, Origin},
    time::Timestamp,
};
use gridpost_ports::{Bucket, BucketError, DeadLetters, Listed, Payloads, PortError};

use super::{Clients, Timeouts, port_error};

/// Buckets of S3.
#[derive(Clone, Debug)]
pub struct S3Bucket {
    client: Client,
}

impl S3Bucket {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// Errors of one object while others can be read: it was archived, or the key that encrypts it is
/// disabled, deleted or about to be.
const UNREADABLE: [&str; 4] = [
    "InvalidObjectState",
    "KMS.DisabledException",
    "KMS.KMSInvalidStateException",
    "KMS.NotFoundException",
];

fn bucket_error<E, R>(call: &'static str, error: SdkError<E, R>) -> BucketError
where
    SdkError<E, R>: ProvideErrorMetadata + std::error::Error,
{
    match error.code() {
        Some("NoSuchBucket") => BucketError::NotFound,
        _ => BucketError::Unavailable(port_error(call, error)),
    }
}

#[async_trait]
impl Bucket for S3Bucket {
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        labels: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError> {
        let mut put = self
            .client
            .put_object()
            .bucket(bucket)
            .key(key)
            .content_type("application/json")
            .body(body.into());
        for (name, value) in labels {
            put = put.metadata(*name, value);
        }
        put.send().await.map_err(|error| bucket_error("s3:PutObject", error))?;
        Ok(())
    }
}

#[async_trait]
impl DeadLetters for S3Bucket {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        let list = self.client.list_objects_v2().bucket(bucket).prefix(prefix);
        let list = list.set_start_after(after.map(str::to_owned)).send().await;
        let list = list.map_err(|error| bucket_error("s3:ListObjectsV2", error))?;
        let listed = list.contents().iter().filter_map(|object| {
            let name = object.key()?.to_owned();
            let bytes = object.size().and_then(|bytes| u64::try_from(bytes).ok());
            let written_at = object.last_modified().and_then(timestamp).unwrap_or_default();
            Some(Listed { name, bytes: bytes.unwrap_or(0), written_at })
        });
        Ok(listed.collect())
    }

    async fn get(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError> {
        const CALL: &str = "s3:GetObject";
        let object = match self.client.get_object().bucket(bucket).key(name).send().await {
            Ok(object) => object,
            Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => {
                return Ok(None);
            }
            Err(error) if error.code().is_some_and(|code| UNREADABLE.contains(&code)) => {
                return Err(BucketError::Unreadable(port_error(CALL, error)));
            }
            Err(error) => return Err(bucket_error(CALL, error)),
        };
        let origin = object
            .metadata()
            .and_then(|labels| Origin::of(|wanted: &str| labels.get(wanted).cloned()));
        Ok(Some((whole(CALL, object.body).await?, origin)))
    }

    async fn delete(&self, bucket: &str, name: &str) -> Result<(), BucketError> {
        let delete = self.client.delete_object().bucket(bucket).key(name).send().await;
        delete.map_err(|error| bucket_error("s3:DeleteObject", error))?;
        Ok(())
    }
}

fn timestamp(time: &DateTime) -> Option<Timestamp> {
    time.to_millis().ok().map(Timestamp::from_millis)
}

/// The payload bucket.
#[derive(Debug)]
pub struct PayloadBucket {
    clients: Clients,
    name: String,
    /// Created at the first use: most functions never see a large event.
    client: OnceLock<Client>,
}

impl PayloadBucket {
    pub fn new(clients: Clients, name: String) -> Self {
        Self { clients, name, client: OnceLock::new() }
    }

    fn client(&self) -> &Client {
        self.client.get_or_init(|| self.clients.s3())
    }
}

#[async_trait]
impl Payloads for PayloadBucket {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        let put = self.client().put_object().bucket(&self.name).key(key).body(object.into());
        put.send().await.map_err(|error| port_error("s3:PutObject", error))?;
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        const CALL: &str = "s3:GetObject";
        let get = self.client().get_object().bucket(&self.name).key(key).send().await;
        let object = match get {
            Ok(object) => object,
            Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => {
                return Ok(None);
            }
            Err(error) => return Err(port_error(CALL, error)),
        };
        Ok(Some(whole(CALL, object.body).await?))
    }
}

/// Reads the bytes of an object, within a timeout: the SDK's ends at the head of the response.
async fn whole(call: &'static str, body: ByteStream) -> Result<Vec<u8>, PortError> {
    let all = tokio::time::timeout(Timeouts::OBJECT.operation, body.collect()).await;
    let all = all.map_err(|_| PortError::new(call, "the object did not come in time"))?;
    Ok(all.map_err(|error| port_error(call, error))?.to_vec())
}
