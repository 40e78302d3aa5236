//! Redrive jobs in the state table: one partition per event subscription.

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use uuid::Uuid;

use super::{
    port_error,
    table::{Table, document, text},
};
use gridpost_core::{
    delivery::redrive::{Job, KEPT_FOR},
    subscription::SubscriptionKey,
};
use gridpost_ports::{PortError, Redrives, Saved};

/// Redrive jobs in the state table.
#[derive(Clone, Debug)]
pub struct RedriveTable {
    table: Table,
}

impl RedriveTable {
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }
}

#[async_trait]
impl Redrives for RedriveTable {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        let mut items = self
            .table
            .client
            .query()
            .table_name(&self.table.name)
            .consistent_read(true)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", text(pk(of)))
            .into_paginator()
            .items()
            .send();
        let mut found = Vec::new();
        while let Some(item) = items.next().await {
            let item = item.map_err(|error| port_error("dynamodb:Query", error))?;
            let (job, revision) = document::<Job>(&item)?;
            found.push(Job { revision, ..job });
        }
        Ok(found)
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        let found = self.table.load::<Job>(pk(of), &id.to_string()).await?;
        Ok(found.map(|(job, revision)| Job { revision, ..job }))
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        let id = job.id.to_string();
        let key = (pk(&job.subscription), id.as_str());
        let forget_at = Some(job.updated_at + KEPT_FOR);
        self.table.save(key, job, job.revision, forget_at, None).await
    }
}

fn pk(of: &SubscriptionKey) -> String {
    format!("REDRIVE#{of}")
}
