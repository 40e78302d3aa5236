//! The state table: failing deliveries, health and request counts of endpoints, records of publishes,
//! redrive jobs, and late listeners.

mod waiting;

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::{
    Client,
    error::SdkError,
    operation::put_item::PutItemError,
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure::AllOld},
};
use uuid::Uuid;

use super::{
    port_error,
    table::{Table, document, number, text},
};
use gridpost_core::{
    delivery::{
        listeners::Listeners,
        queue::Queue,
        redrive::{Job, KEPT_FOR as REDRIVE_KEPT_FOR},
        state::DeliveryState,
    },
    publish::idempotency::{Record, RecordKey},
    retry::health::Health,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    DeliveryStates, EndpointHealths, Kept, LateListeners, Listener, PortError, PublishRecords,
    Redrives, RequestRates, Saved,
};

/// The sort key of items that are alone under their partition key.
const ALONE: &str = "-";

/// Counted from its last change.
const HEALTH_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// A count is only read in its minute; one more day allows for wrong clocks.
const COUNT_KEPT_S: i64 = 24 * 60 * 60;

/// Counted from the end of the last listener; allows for wrong clocks.
const LISTENERS_KEPT_FOR: Duration = Duration::from_secs(60 * 60);

/// The state table.
#[derive(Clone, Debug)]
pub struct StateTable {
    table: Table,
}

impl StateTable {
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }

    async fn listeners(&self, queue: Queue) -> Result<(Listeners, u64), PortError> {
        let found = self.table.load::<Listeners>(listeners_pk(queue), ALONE).await?;
        Ok(found.unwrap_or_default())
    }

    async fn save_listeners(
        &self,
        queue: Queue,
        listeners: &Listeners,
        revision: u64,
    ) -> Result<Saved, PortError> {
        let forget_at = listeners.until().map(|until| until + LISTENERS_KEPT_FOR);
        self.table.save((listeners_pk(queue), ALONE), listeners, revision, forget_at, None).await
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
            .key("pk", text(format!("RATE#{uid}#{minute}")))
            .key("sk", text(ALONE))
            .update_expression("ADD requests :more SET expiresAt = :at")
            .expression_attribute_values(":more", number(requests))
            .expression_attribute_values(":at", number(minute * 60 + COUNT_KEPT_S))
            .return_values(ReturnValue::UpdatedNew);
        let updated = update.send().await.map_err(|error| port_error(CALL, error))?;
        let count = updated.attributes().and_then(|attributes| attributes.get("requests"));
        let count = count.and_then(|count| count.as_n().ok()).and_then(|count| count.parse().ok());
        count.ok_or_else(|| PortError::new(CALL, "the answer has no count"))
    }
}

#[async_trait]
impl PublishRecords for StateTable {
    /// Makes one call: a failed condition answers with the stored item.
    async fn save(&self, key: &RecordKey, record: &Record) -> Result<Kept, PortError> {
        const CALL: &str = "dynamodb:PutItem";
        // A key's text is a hash, which spreads the items over the table's partitions.
        let pk = format!("PUBLISH#{}", key.as_str());
        let until = Some(record.until);
        let put = self.table.put_next((pk, ALONE), record, record.revision, until)?;
        match put.return_values_on_condition_check_failure(AllOld).send().await {
            Ok(_) => Ok(Kept::Written),
            Err(SdkError::ServiceError(error)) => match error.err() {
                PutItemError::ConditionalCheckFailedException(failed) => {
                    let stored = failed.item().map(document::<Record>).transpose()?;
                    let stored = stored.map(|(record, revision)| Record { revision, ..record });
                    Ok(Kept::Other(stored))
                }
                _ => Err(port_error(CALL, SdkError::ServiceError(error))),
            },
            Err(error) => Err(port_error(CALL, error)),
        }
    }
}

#[async_trait]
impl Redrives for StateTable {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        let mut items = self.table.query(redrive_pk(of)).into_paginator().items().send();
        let mut found = Vec::new();
        while let Some(item) = items.next().await {
            let item = item.map_err(|error| port_error("dynamodb:Query", error))?;
            let (job, revision) = document::<Job>(&item)?;
            found.push(Job { revision, ..job });
        }
        Ok(found)
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        let found = self.table.load::<Job>(redrive_pk(of), &id.to_string()).await?;
        Ok(found.map(|(job, revision)| Job { revision, ..job }))
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        let id = job.id.to_string();
        let key = (redrive_pk(&job.subscription), id.as_str());
        let forget_at = Some(job.updated_at + REDRIVE_KEPT_FOR);
        self.table.save(key, job, job.revision, forget_at, None).await
    }
}

#[async_trait]
impl LateListeners for StateTable {
    /// Tried once: if many join at the same moment, the lane is not quiet.
    async fn join(
        &self,
        listener: Listener,
        most: usize,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let (listeners, revision) = self.listeners(listener.queue).await?;
        let Some(next) = listeners.join(listener.id, listener.until, most, now) else {
            return Ok(false);
        };
        Ok(self.save_listeners(listener.queue, &next, revision).await? == Saved::Written)
    }

    /// Tried once: a listener whose end is not recorded expires.
    async fn leave(&self, listener: Listener) -> Result<(), PortError> {
        let (listeners, revision) = self.listeners(listener.queue).await?;
        self.save_listeners(listener.queue, &listeners.leave(listener.id), revision).await?;
        Ok(())
    }
}

fn delivery_pk(id: Uuid) -> String {
    format!("DELIVERY#{id}")
}

fn health_pk(key: &SubscriptionKey, uid: Uuid) -> String {
    format!("HEALTH#{}#{uid}", key.folded())
}

fn redrive_pk(of: &SubscriptionKey) -> String {
    format!("REDRIVE#{}", of.folded())
}

fn listeners_pk(queue: Queue) -> String {
    format!("LISTENERS#{queue}")
}
