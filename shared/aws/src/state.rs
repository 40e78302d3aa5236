//! The state of failing deliveries, the health of endpoints and the count of their requests, in the
//! state table.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use aws_sdk_dynamodb::{
    Client,
    types::{ReturnValue, Select},
};
use uuid::Uuid;

use super::{
    port_error,
    table::{Item, Table, document, number, text},
};
use gridpost_core::{
    delivery::state::{DeliveryState, DeliveryStatus},
    retry::health::Health,
    subscription::SubscriptionKey,
};
use gridpost_ports::{
    DeliveryStates, EndpointHealths, PortError, RequestRates, Saved, WaitingDeliveries,
};

/// The sort key of items that are alone under their partition key.
const ALONE: &str = "-";

/// The index of deliveries that have failed and not ended: by the uid of their event subscription
/// and their [place](DeliveryState::place). What has not failed, or has ended, is not in it.
const WAITING_INDEX: &str = "waiting";
const WAITING_FOR: &str = "waitingFor";
const WAITING_PLACE: &str = "waitingPlace";

/// A health that nothing was written to for so long says nothing any more.
const HEALTH_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// A minute's count is asked for in that minute alone; a day more is for clocks that are wrong.
const COUNT_KEPT_S: i64 = 24 * 60 * 60;

/// Deliveries, healths and counts in the state table.
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
        let (key, forget_at) = ((delivery_pk(state.id), ALONE), Some(state.forget_at()));
        self.table.save(key, state, state.revision, forget_at, waiting(state)).await
    }
}

/// The keys of the index of waiting deliveries. A delivery that has ended has none, and leaves it.
/// They stay the same while it waits: a further failure moves nothing in the index.
fn waiting(state: &DeliveryState) -> Option<Item> {
    let waits =
        matches!(state.standing, DeliveryStatus::Waiting { .. } | DeliveryStatus::Ending { .. });
    waits.then(|| {
        let uid = text(state.subscription_uid.to_string());
        let place = text(state.place());
        HashMap::from([(WAITING_FOR.to_owned(), uid), (WAITING_PLACE.to_owned(), place)])
    })
}

#[async_trait]
impl WaitingDeliveries for StateTable {
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError> {
        const CALL: &str = "dynamodb:Query";
        let mut items = self
            .table
            .client
            .query()
            .table_name(&self.table.name)
            .index_name(WAITING_INDEX)
            .key_condition_expression("#for = :uid AND #place > :after")
            .expression_attribute_names("#for", WAITING_FOR)
            .expression_attribute_names("#place", WAITING_PLACE)
            .expression_attribute_values(":uid", text(uid.to_string()))
            // Every place is behind it.
            .expression_attribute_values(":after", text(after.unwrap_or("0")))
            .limit(i32::try_from(most).unwrap_or(i32::MAX))
            .into_paginator()
            .items()
            .send();
        let mut found = Vec::new();
        while found.len() < most {
            let Some(item) = items.next().await else { break };
            let item = item.map_err(|error| port_error(CALL, error))?;
            let (state, revision) = document::<DeliveryState>(&item)?;
            found.push(DeliveryState { revision, ..state });
        }
        Ok(found)
    }

    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError> {
        const CALL: &str = "dynamodb:Query";
        let mut pages = self
            .table
            .client
            .query()
            .table_name(&self.table.name)
            .index_name(WAITING_INDEX)
            .select(Select::Count)
            .key_condition_expression("#for = :uid")
            .expression_attribute_names("#for", WAITING_FOR)
            .expression_attribute_values(":uid", text(uid.to_string()))
            .into_paginator()
            .send();
        let mut count = 0;
        while count < most {
            let Some(page) = pages.next().await else { break };
            let page = page.map_err(|error| port_error(CALL, error))?;
            count += usize::try_from(page.count()).unwrap_or(0);
        }
        Ok(count)
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
    async fn count(&self, uid: Uuid, minute: i64) -> Result<u64, PortError> {
        const CALL: &str = "dynamodb:UpdateItem";
        let update = self
            .table
            .client
            .update_item()
            .table_name(&self.table.name)
            .key("pk", text(rate_pk(uid, minute)))
            .key("sk", text(ALONE))
            .update_expression("ADD requests :one SET expiresAt = :at")
            .expression_attribute_values(":one", number(1))
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
