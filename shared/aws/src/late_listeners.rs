//! The invocations that listen for late responses, in the state table: one item per queue.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;

use super::table::Table;
use gridpost_core::{
    delivery::{listeners::Listeners, queue::Queue},
    time::Timestamp,
};
use gridpost_ports::{LateListeners, Listener, PortError, Saved};

/// The sort key of items that are alone under their partition key.
const ALONE: &str = "-";

/// The item is obsolete when its last listener has stopped; one more hour allows for wrong clocks.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);

/// The listeners in the state table.
#[derive(Clone, Debug)]
pub struct ListenerTable {
    table: Table,
}

impl ListenerTable {
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }

    async fn load(&self, queue: Queue) -> Result<(Listeners, u64), PortError> {
        let found = self.table.load::<Listeners>(pk(queue), ALONE).await?;
        Ok(found.unwrap_or_default())
    }

    async fn save(
        &self,
        queue: Queue,
        listeners: &Listeners,
        revision: u64,
    ) -> Result<Saved, PortError> {
        let forget_at = listeners.until().map(|until| until + KEPT_FOR);
        self.table.save((pk(queue), ALONE), listeners, revision, forget_at, None).await
    }
}

fn pk(queue: Queue) -> String {
    format!("LISTENERS#{queue}")
}

#[async_trait]
impl LateListeners for ListenerTable {
    /// Tried once: if many join at the same moment, the lane is not quiet.
    async fn join(
        &self,
        listener: Listener,
        most: usize,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let (listeners, revision) = self.load(listener.queue).await?;
        let Some(next) = listeners.join(listener.id, listener.until, most, now) else {
            return Ok(false);
        };
        Ok(self.save(listener.queue, &next, revision).await? == Saved::Written)
    }

    /// Tried once: a listener whose end is not recorded expires.
    async fn leave(&self, listener: Listener) -> Result<(), PortError> {
        let (listeners, revision) = self.load(listener.queue).await?;
        self.save(listener.queue, &listeners.leave(listener.id), revision).await?;
        Ok(())
    }
}
