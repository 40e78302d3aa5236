//! Parked deliveries, in the state table under the minute they are due in.

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use futures::future::try_join_all;
use uuid::Uuid;

use super::{
    port_error,
    table::{Item, Table, document, number, text},
};
use gridpost_core::{delivery::parking::Parked, error::chain, time::Timestamp};
use gridpost_ports::{
    ParkedCursor, ParkedDeliveries, ParkedPage, ParkingLot, PortError, WakeCursor,
};

/// A minute's deliveries are spread over so many partition keys: each takes 1,000 writes in a
/// second. Source: Amazon DynamoDB developer guide, partition limits.
const SHARDS: u128 = 8;

/// Parked deliveries are forgotten so long after they were due, should wake never remove them.
const KEPT_S: i64 = 14 * 24 * 60 * 60;

/// Where wake notes how far it has come.
const CURSOR_PK: &str = "WAKE";

/// What the partition keys of parked deliveries begin with.
const PK_PREFIX: &str = "PARKED#";

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
            found.extend(parked(&item.map_err(|error| port_error(CALL, error))?));
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

/// The items lie under the minutes they are due in, up to 80,000 of them with eight keys each: to
/// look through all is one scan of the table, which holds the states of failing deliveries too.
#[async_trait]
impl ParkedDeliveries for ParkingTable {
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError> {
        const CALL: &str = "dynamodb:Scan";
        let mut scan = self
            .table
            .client
            .scan()
            .table_name(&self.table.name)
            .consistent_read(true)
            .filter_expression("begins_with(pk, :prefix)")
            .expression_attribute_values(":prefix", text(PK_PREFIX));
        if let Some(ParkedCursor { partition, sort }) = place {
            scan = scan
                .exclusive_start_key("pk", text(partition))
                .exclusive_start_key("sk", text(sort));
        }
        let scanned = scan.send().await.map_err(|error| port_error(CALL, error))?;
        let found =
            scanned.items().iter().filter_map(|item| Some((place_of(item)?, parked(item)?)));
        let next = scanned.last_evaluated_key.as_ref().and_then(place_of);
        Ok(ParkedPage { found: found.collect(), next })
    }

    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError> {
        let get = self
            .table
            .client
            .get_item()
            .table_name(&self.table.name)
            .key("pk", text(minute_pk(minute, id.as_u128() % SHARDS)))
            .key("sk", text(id.to_string()))
            .consistent_read(true);
        let got = get.send().await.map_err(|error| port_error("dynamodb:GetItem", error))?;
        Ok(got.item.as_ref().and_then(parked))
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

/// An item's key.
fn place_of(item: &Item) -> Option<ParkedCursor> {
    let key = |name: &str| item.get(name)?.as_s().ok().cloned();
    Some(ParkedCursor { partition: key("pk")?, sort: key("sk")? })
}

/// The parked delivery of an item. Nobody can mend one that is not as [`ParkingTable`] writes it, and
/// the others of its minute must not wait for that: what its key says, and the first retry queue, do
/// for its message. dispatch finds out whether that is sound.
fn parked(item: &Item) -> Option<Parked> {
    let place = place_of(item)?;
    let Some(body) = item.get("body").and_then(|body| body.as_s().ok()).cloned() else {
        tracing::error!(partition = place.partition, id = place.sort, "a parked item has no body");
        return None;
    };
    match document::<Parked>(item) {
        Ok((parked, _)) => Some(Parked { body, ..parked }),
        Err(error) => {
            tracing::error!(
                partition = place.partition,
                id = place.sort,
                error = %chain(&error),
                "a parked item can't be read; its message goes on",
            );
            let minute = place.partition.strip_prefix(PK_PREFIX)?.split('#').next()?;
            let due = Timestamp::from_millis(minute.parse::<i64>().ok()?.checked_mul(60_000)?);
            let id: Uuid = place.sort.parse().ok()?;
            Some(Parked { id, due, shard: 0, group: "unreadable".to_owned(), body })
        }
    }
}

fn parked_pk(parked: &Parked) -> String {
    minute_pk(parked.due_minute(), parked.id.as_u128() % SHARDS)
}

fn minute_pk(minute: i64, shard: u128) -> String {
    format!("{PK_PREFIX}{minute}#{shard}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(9);

    fn item(attributes: &[(&str, &str)]) -> Item {
        let key = [("pk", "PARKED#3#1".to_owned()), ("sk", ID.to_string())];
        let key = key.into_iter().map(|(name, value)| (name.to_owned(), text(value)));
        let others = attributes.iter().map(|(name, value)| ((*name).to_owned(), text(*value)));
        let mut item: Item = key.chain(others).collect();
        item.insert("revision".to_owned(), number(1));
        item
    }

    #[test]
    fn one_item_that_is_not_as_it_should_be_holds_up_no_other() {
        let sound = format!(r#"{{"id":"{ID}","due":180500,"shard":2,"group":"t/s"}}"#);
        let found = |millis, shard, group: &str| Parked {
            id: ID,
            due: Timestamp::from_millis(millis),
            shard,
            group: group.to_owned(),
            body: "b".to_owned(),
        };
        let table = [
            (vec![("document", sound.as_str()), ("body", "b")], Some(found(180_500, 2, "t/s"))),
            (vec![("document", "{}"), ("body", "b")], Some(found(180_000, 0, "unreadable"))),
            (vec![("body", "b")], Some(found(180_000, 0, "unreadable"))),
            (vec![("document", sound.as_str())], None),
            (vec![], None),
        ];
        for (attributes, want) in table {
            assert_eq!(parked(&item(&attributes)), want, "{attributes:?}");
        }
        // Removing it takes the same key.
        let unreadable = parked(&item(&[("body", "b")])).expect("its message");
        assert_eq!(unreadable.due_minute(), 3);
        assert_eq!(parked_pk(&unreadable), "PARKED#3#1");
    }
}
