//! The port for invocations that listen for late responses.

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use uuid::Uuid;

use crate::PortError;

/// An invocation that wants to listen for late responses.
#[derive(Clone, Copy, Debug)]
pub struct Listener {
    /// The queue whose slot it holds.
    pub queue: Queue,
    pub id: Uuid,
    /// How long it listens at most.
    pub until: Timestamp,
}

/// The invocations that listen for late responses, across all copies of dispatch.
#[async_trait]
pub trait LateListeners: Send + Sync {
    /// Lets one more listen; `false` if `most` already do at `now`, or others join at the same
    /// moment.
    async fn join(
        &self,
        listener: Listener,
        most: usize,
        now: Timestamp,
    ) -> Result<bool, PortError>;

    /// Records that it has stopped listening. Otherwise it expires by its time.
    async fn leave(&self, listener: Listener) -> Result<(), PortError>;
}
