//! Parked deliveries, in the state table under the minute they are due in.

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use futures::future::try_join_all;

use super::{
    port_error,
    table::{Table, document, number, text},
};
use crate::{
    delivery::parking::Parked,
    ports::{ParkingLot, PortError, WakeCursor},
};

/// A minute's deliveries are spread over so many partition keys: each takes 1,000 writes in a
/// second. Source: Amazon DynamoDB developer guide, partition limits.
const SHARDS: u128 = 8;

/// Parked deliveries are forgotten so long after they were due, should wake never remove them.
const KEPT_S: i64 = 14 * 24 * 60 * 60;

/// Where wake notes how far it has come.
const CURSOR_PK: &str = "WAKE";

/// Parked deliveries in the state table.
#[derive(Clone, Debug)]
pub struct ParkingTable {
    table: Table,
}

impl ParkingTable {
    /// The table of that name.
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }

    async fn due_in_shard(&self, minute: i64, shard: u128) -> Result<Vec<Parked>, PortError> {
        const CALL: &str = "dynamodb:Query";
        let mut pages = self
            .table
            .client
            .query()
            .table_name(&self.table.name)
            .consistent_read(true)
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", text(minute_pk(minute, shard)))
            .into_paginator()
            .items()
            .send();
        let mut found = Vec::new();
        while let Some(item) = pages.next().await {
            let item = item.map_err(|error| port_error(CALL, error))?;
            let body = item.get("body").and_then(|body| body.as_s().ok()).cloned();
            let body = body.ok_or_else(|| PortError::new(CALL, "a parked item has no body"))?;
            found.push(Parked { body, ..document::<Parked>(&item)?.0 });
        }
        Ok(found)
    }
}

#[async_trait]
impl ParkingLot for ParkingTable {
    async fn park(&self, parked: &Parked) -> Result<(), PortError> {
        const CALL: &str = "dynamodb:PutItem";
        let json = serde_json::to_string(parked).map_err(|error| PortError::new(CALL, error))?;
        let put = self
            .table
            .client
            .put_item()
            .table_name(&self.table.name)
            .item("pk", text(parked_pk(parked)))
            .item("sk", text(parked.id.to_string()))
            .item("revision", number(1))
            .item("document", text(json))
            .item("body", text(&parked.body))
            .item("expiresAt", number(parked.due.as_seconds() + KEPT_S));
        put.send().await.map_err(|error| port_error(CALL, error))?;
        Ok(())
    }

    async fn due_in(&self, minute: i64) -> Result<Vec<Parked>, PortError> {
        let shards = (0..SHARDS).map(|shard| self.due_in_shard(minute, shard));
        Ok(try_join_all(shards).await?.into_iter().flatten().collect())
    }

    async fn remove(&self, parked: &Parked) -> Result<(), PortError> {
        let delete = self
            .table
            .client
            .delete_item()
            .table_name(&self.table.name)
            .key("pk", text(parked_pk(parked)))
            .key("sk", text(parked.id.to_string()));
        delete.send().await.map_err(|error| port_error("dynamodb:DeleteItem", error))?;
        Ok(())
    }
}

#[async_trait]
impl WakeCursor for ParkingTable {
    async fn load(&self) -> Result<Option<i64>, PortError> {
        Ok(self.table.load::<i64>(CURSOR_PK.to_owned(), "-").await?.map(|(minute, _)| minute))
    }

    async fn save(&self, minute: i64) -> Result<(), PortError> {
        let put = self
            .table
            .client
            .put_item()
            .table_name(&self.table.name)
            .item("pk", text(CURSOR_PK))
            .item("sk", text("-"))
            .item("revision", number(1))
            .item("document", text(minute.to_string()));
        put.send().await.map_err(|error| port_error("dynamodb:PutItem", error))?;
        Ok(())
    }
}

fn parked_pk(parked: &Parked) -> String {
    minute_pk(parked.due_minute(), parked.id.as_u128() % SHARDS)
}

fn minute_pk(minute: i64, shard: u128) -> String {
    format!("PARKED#{minute}#{shard}")
}
