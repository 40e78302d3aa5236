//! Records of publishes that came with a key.

use async_trait::async_trait;
use gridpost_core::publish::idempotency::{Record, RecordKey};

use crate::PortError;

/// The result of writing a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Written,
    /// Nothing was changed: this is stored, or nothing.
    Other(Option<Record>),
}

/// The records of publishes that came with a key.
#[async_trait]
pub trait PublishRecords: Send + Sync {
    /// Writes a record as revision `record.revision + 1`, if the stored one still is
    /// `record.revision` (0: there is none).
    async fn save(&self, key: &RecordKey, record: &Record) -> Result<Kept, PortError>;
}
