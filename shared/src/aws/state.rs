//! The state of failing deliveries and the health of endpoints, in the state table.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use uuid::Uuid;

use super::table::Table;
use crate::{
    delivery::{probation::Health, state::DeliveryState},
    ports::{DeliveryStates, EndpointHealths, PortError, Saved},
    subscription::SubscriptionKey,
};

/// The sort key of items that are alone under their partition key.
const ALONE: &str = "-";

/// A health that nothing was written to for so long says nothing any more.
const HEALTH_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Deliveries and healths in the state table.
#[derive(Clone, Debug)]
pub struct StateTable {
    table: Table,
}

impl StateTable {
    /// The table of that name.
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }
}

#[async_trait]
impl DeliveryStates for StateTable {
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError> {
        let found = self.table.load::<DeliveryState>(delivery_pk(id), ALONE).await?;
        Ok(found.map(|(state, revision)| DeliveryState { revision, ..state }))
    }

    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError> {
        let forget_at = Some(state.forget_at());
        self.table.save(delivery_pk(state.id), ALONE, state, state.revision, forget_at).await
    }
}

#[async_trait]
impl EndpointHealths for StateTable {
    async fn load(&self, key: &SubscriptionKey, uid: Uuid) -> Result<Health, PortError> {
        let found = self.table.load::<Health>(health_pk(key, uid), ALONE).await?;
        Ok(found.map(|(health, revision)| Health { revision, ..health }).unwrap_or_default())
    }

    async fn save(
        &self,
        key: &SubscriptionKey,
        uid: Uuid,
        health: &Health,
    ) -> Result<Saved, PortError> {
        let last = health.wait.map(|wait| wait.until).max(health.last_failure_at);
        let forget_at = last.max(health.recovered_at).map(|at| at + HEALTH_KEPT_FOR);
        self.table.save(health_pk(key, uid), ALONE, health, health.revision, forget_at).await
    }
}

fn delivery_pk(id: Uuid) -> String {
    format!("DELIVERY#{id}")
}

fn health_pk(key: &SubscriptionKey, uid: Uuid) -> String {
    format!("HEALTH#{key}#{uid}")
}
