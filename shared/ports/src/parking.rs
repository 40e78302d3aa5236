//! Parked deliveries, whose long wait a table holds instead of a queue.

use async_trait::async_trait;
use gridpost_core::{delivery::parking::Parked, time::Timestamp};
use uuid::Uuid;

use crate::PortError;

/// Parks deliveries: a table holds their long wait instead of a queue.
#[async_trait]
pub trait ParkingLot: Send + Sync {
    /// Stores a delivery under its due minute. Storing it twice is the same as once.
    async fn park(&self, parked: &Parked) -> Result<(), PortError>;

    /// Removes one, if it exists.
    async fn remove(&self, parked: &Parked) -> Result<(), PortError>;
}

/// The number of partitions of the parked deliveries of one minute, each of which is read by
/// itself.
pub const PARKED_PARTITIONS: u32 = 8;

/// The partition of its minute for a parked delivery. Spreading them keeps a minute within what one
/// partition takes: 1,000 writes per second. Source: Amazon DynamoDB developer guide, partition
/// limits.
pub fn parked_partition(id: Uuid) -> u32 {
    u32::try_from(id.as_u128() % u128::from(PARKED_PARTITIONS)).expect("below the divisor")
}

/// Some of the parked deliveries that are due in a minute.
#[derive(Clone, Debug, Default)]
pub struct DuePage {
    /// Those that can be sent; may be empty.
    pub due: Vec<Parked>,
    /// The last one of this page, after which the next begins; `None` on the last page.
    pub next: Option<String>,
}

/// Reads and removes due deliveries, a page at a time: there may be more than memory holds.
#[async_trait]
pub trait DueDeliveries: Send + Sync {
    /// Those due in that minute (since the Unix epoch) in that one of [`PARKED_PARTITIONS`], after
    /// `after`: as many as fit 1 MB, and at most 500. Strongly consistent.
    async fn due_in(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
    ) -> Result<DuePage, PortError>;

    /// The due time of the first of them, by their places: in a lot, of the one that is due first.
    async fn first_due_in(
        &self,
        minute: i64,
        partition: u32,
    ) -> Result<Option<Timestamp>, PortError> {
        let page = self.due_in(minute, partition, None).await?;
        Ok(page.due.first().map(|first| first.due))
    }

    /// Removes some; missing ones are ignored. After an error, some may still exist.
    async fn remove_all(&self, parked: &[Parked]) -> Result<(), PortError>;
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
    /// Parked deliveries, each with its position; may be empty.
    pub found: Vec<(ParkedCursor, Parked)>,
    /// The position after which the next page begins; `None` on the last page.
    pub next: Option<ParkedCursor>,
}

/// Parked deliveries, for operators.
#[async_trait]
pub trait ParkedDeliveries: Send + Sync {
    /// A page of those after a position, in arbitrary order.
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError>;

    /// The parked delivery with that id and due minute (since the Unix epoch), if it exists.
    /// Strongly consistent.
    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError>;
}

/// How far wake has come.
#[async_trait]
pub trait WakeCursor: Send + Sync {
    /// The first minute (since the Unix epoch) whose parked deliveries may not all have been sent.
    async fn load(&self) -> Result<Option<i64>, PortError>;

    async fn save(&self, minute: i64) -> Result<(), PortError>;
}
