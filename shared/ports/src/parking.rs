//! Parked deliveries: a table holds their long wait instead of a queue.

use async_trait::async_trait;
use gridpost_core::{delivery::parking::Parked, time::Timestamp};
use uuid::Uuid;

use crate::Result;

/// Parks deliveries.
#[async_trait]
pub trait ParkingLot: Send + Sync {
    /// Stores a delivery under its due minute. Storing it twice is the same as once.
    async fn park(&self, parked: &Parked) -> Result<()>;

    async fn remove(&self, parked: &Parked) -> Result<()>;
}

/// The partitions of one minute's parked deliveries, which are read separately.
pub const PARKED_PARTITIONS: u32 = 8;

/// Returns the partition of a parked delivery. One partition takes 1,000 writes per second.
/// Source: Amazon DynamoDB developer guide, partition limits.
pub fn parked_partition(id: Uuid) -> u32 {
    u32::try_from(id.as_u128() % u128::from(PARKED_PARTITIONS)).expect("below the divisor")
}

/// Some of the parked deliveries that are due in a minute.
#[derive(Clone, Debug, Default)]
pub struct DuePage {
    pub due: Vec<Parked>,
    /// The beginning of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// Reads and removes due deliveries, in pages, as they may exceed memory.
#[async_trait]
pub trait DueDeliveries: Send + Sync {
    /// Reads those due in that minute (since the Unix epoch) and partition, after `after`: up to
    /// 1 MB, and at most 500. Strongly consistent.
    async fn due_in(&self, minute: i64, partition: u32, after: Option<String>) -> Result<DuePage>;

    /// Returns the due time of the first by place; in a lot, that is the one due first.
    async fn first_due_in(&self, minute: i64, partition: u32) -> Result<Option<Timestamp>> {
        let page = self.due_in(minute, partition, None).await?;
        Ok(page.due.first().map(|first| first.due))
    }

    /// Removes deliveries; missing ones are ignored. After an error, some may still exist.
    async fn remove_all(&self, parked: &[Parked]) -> Result<()>;
}

/// A position in the table of parked deliveries, meaningful only to that table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedCursor {
    pub partition: String,
    pub sort: String,
}

/// A page of all parked deliveries.
#[derive(Clone, Debug, Default)]
pub struct ParkedPage {
    /// Each with its position; may be empty.
    pub found: Vec<(ParkedCursor, Parked)>,
    /// The beginning of the next page; `None` on the last page.
    pub next: Option<ParkedCursor>,
}

/// Parked deliveries, for operators.
#[async_trait]
pub trait ParkedDeliveries: Send + Sync {
    /// Lists those after a position, in arbitrary order.
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage>;

    /// Finds a parked delivery by id and due minute (since the Unix epoch). Strongly consistent.
    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>>;
}

/// How far wake has come.
#[async_trait]
pub trait WakeCursor: Send + Sync {
    /// Returns the first minute (since the Unix epoch) whose deliveries may not all have been sent.
    async fn load(&self) -> Result<Option<i64>>;

    async fn save(&self, minute: i64) -> Result<()>;
}
