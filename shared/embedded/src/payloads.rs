//! The payload bucket.

use async_trait::async_trait;
use gridpost_ports::{Payloads, PortError};

/// The payload bucket, as rows: an object is committed together with what waits at the same time.
pub struct PayloadStore {}

#[async_trait]
impl Payloads for PayloadStore {
    async fn put(&self, _key: &str, _object: Vec<u8>) -> Result<(), PortError> {
        Err(PortError::new("payload", "it is not built yet"))
    }

    async fn get(&self, _key: &str) -> Result<Option<Vec<u8>>, PortError> {
        Err(PortError::new("payload", "it is not built yet"))
    }
}
