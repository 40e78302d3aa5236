//! The states of failing deliveries, the health of endpoints and the counts of their requests, in
//! the state table.

mod waiting;

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::{Client, types::ReturnValue};
use uuid::Uuid;

use super::{
    port_error,
    table::{Table, number, text},
};
use gridpost_core::{
    delivery::state::DeliveryState, retry::health::Health, subscription::SubscriptionKey,
};
use gridpost_ports::{DeliveryStates, EndpointHealths, PortError, RequestRates, Saved};

/// The sort key of items that are alone under their partition key.
const ALONE: &str = "-";

/// How long a health is kept after its last change.
const HEALTH_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// A minute's count is only read in that minute; one more day allows for wrong clocks.
const COUNT_KEPT_S: i64 = 24 * 60 * 60;

/// States, healths and counts in the state table.
#[derive(Clone, Debug)]
pub struct StateTable {
    table: Table,
}

impl StateTable {
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
        let (key, forget_at) = ((delivery_pk(state.id), ALONE), Some(state.forget_at()));
        self.table.save(key, state, state.revision, forget_at, waiting::keys(state)).await
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
        let forget_at = health.last_change_at().map(|at| at + HEALTH_KEPT_FOR);
        let key = (health_pk(key, uid), ALONE);
        self.table.save(key, health, health.revision, forget_at, None).await
    }
}

#[async_trait]
impl RequestRates for StateTable {
    async fn count(&self, uid: Uuid, minute: i64, requests: u64) -> Result<u64, PortError> {
        const CALL: &str = "dynamodb:UpdateItem";
        let update = self
            .table
            .client
            .update_item()
            .table_name(&self.table.name)
            .key("pk", text(rate_pk(uid, minute)))
            .key("sk", text(ALONE))
            .update_expression("ADD requests :more SET expiresAt = :at")
            .expression_attribute_values(":more", number(requests))
            .expression_attribute_values(":at", number(minute * 60 + COUNT_KEPT_S))
            .return_values(ReturnValue::UpdatedNew);
        let updated = update.send().await.map_err(|error| port_error(CALL, error))?;
        let count = updated.attributes().and_then(|attributes| attributes.get("requests"));
        let count = count.and_then(|count| count.as_n().ok()).and_then(|count| count.parse().ok());
        count.ok_or_else(|| PortError::new(CALL, "it answered no count"))
    }
}

fn delivery_pk(id: Uuid) -> String {
    format!("DELIVERY#{id}")
}

fn health_pk(key: &SubscriptionKey, uid: Uuid) -> String {
    format!("HEALTH#{key}#{uid}")
}

fn rate_pk(uid: Uuid, minute: i64) -> String {
    format!("RATE#{uid}#{minute}")
}
