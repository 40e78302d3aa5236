//! Parked deliveries, in the state table under their due minute. They have no TTL: only Gridpost
//! may remove them.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use aws_sdk_dynamodb::{
    Client,
    types::{DeleteRequest, WriteRequest},
};
use futures::stream::{self, StreamExt, TryStreamExt};
use uuid::Uuid;

use super::{
    port_error,
    table::{Item, Table, document, json, number, text},
};
use gridpost_core::{
    delivery::parking::{self, Parked},
    error::chain,
    time::Timestamp,
};
use gridpost_ports::{
    DueDeliveries, DuePage, ParkedCursor, ParkedDeliveries, ParkedPage, ParkingLot, PortError,
    WakeCursor, parked_partition,
};

/// Most items of a page; a page of large items ends at DynamoDB's 1 MB.
const PAGE_ITEMS_MAX: i32 = 500;

/// Most items that one call deletes. Source: DynamoDB API reference, `BatchWriteItem`.
const DELETES_MAX: usize = 25;
const DELETE_CALLS_AT_ONCE: usize = 4;

/// Tries for unprocessed items, which take seconds in total.
const DELETE_TRIES: u32 = 6;

/// The first pause between them; doubled each time.
const DELETE_PAUSE: Duration = Duration::from_millis(50);
const CURSOR_PK: &str = "WAKE";
const PK_PREFIX: &str = "PARKED#";

/// Parked deliveries in the state table.
#[derive(Clone, Debug)]
pub struct ParkingTable {
    table: Table,
}

impl ParkingTable {
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }

    /// Deletes the items of one call. Returns those that DynamoDB did not process.
    async fn delete(&self, requests: Vec<WriteRequest>) -> Result<Vec<WriteRequest>, PortError> {
        const CALL: &str = "dynamodb:BatchWriteItem";
        let name = &self.table.name;
        let write = self.table.client.batch_write_item().request_items(name, requests);
        let written = write.send().await.map_err(|error| port_error(CALL, error))?;
        Ok(written.unprocessed_items.and_then(|mut left| left.remove(name)).unwrap_or_default())
    }

    async fn page(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
        most: i32,
    ) -> Result<DuePage, PortError> {
        const CALL: &str = "dynamodb:Query";
        let pk = minute_pk(minute, partition);
        let mut query = self.table.query(&pk).limit(most);
        if let Some(after) = after {
            query =
                query.exclusive_start_key("pk", text(pk)).exclusive_start_key("sk", text(after));
        }
        let page = query.send().await.map_err(|error| port_error(CALL, error))?;
        let next = page.last_evaluated_key.as_ref().and_then(place_of).map(|place| place.sort);
        let items = page.items.unwrap_or_default();
        Ok(DuePage { due: items.into_iter().filter_map(|item| parked(&item)).collect(), next })
    }

    async fn delete_all(&self, mut requests: Vec<WriteRequest>) -> Result<(), PortError> {
        for try_number in 0..DELETE_TRIES {
            requests = self.delete(requests).await?;
            if requests.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(DELETE_PAUSE * 2_u32.pow(try_number)).await;
        }
        let left = format!("{} items were throttled each time", requests.len());
        Err(PortError::new("dynamodb:BatchWriteItem", left))
    }
}

#[async_trait]
impl ParkingLot for ParkingTable {
    async fn park(&self, parked: &Parked) -> Result<(), PortError> {
        let put = self
            .table
            .put(parked_pk(parked), parked.place())
            .item("revision", number(1))
            .item("document", text(json(parked)?))
            .item("body", text(&parked.body));
        put.send().await.map_err(|error| port_error("dynamodb:PutItem", error))?;
        Ok(())
    }

    async fn remove(&self, parked: &Parked) -> Result<(), PortError> {
        let delete = self
            .table
            .client
            .delete_item()
            .table_name(&self.table.name)
            .key("pk", text(parked_pk(parked)))
            .key("sk", text(parked.place()));
        delete.send().await.map_err(|error| port_error("dynamodb:DeleteItem", error))?;
        Ok(())
    }
}

#[async_trait]
impl DueDeliveries for ParkingTable {
    async fn due_in(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
    ) -> Result<DuePage, PortError> {
        self.page(minute, partition, after, PAGE_ITEMS_MAX).await
    }

    async fn first_due_in(
        &self,
        minute: i64,
        partition: u32,
    ) -> Result<Option<Timestamp>, PortError> {
        let page = self.page(minute, partition, None, 1).await?;
        Ok(page.due.first().map(|first| first.due))
    }

    async fn remove_all(&self, parked: &[Parked]) -> Result<(), PortError> {
        let request = |parked: &Parked| {
            let key = HashMap::from([
                ("pk".to_owned(), text(parked_pk(parked))),
                ("sk".to_owned(), text(parked.place())),
            ]);
            let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("a key is set");
            WriteRequest::builder().delete_request(delete).build()
        };
        let requests: Vec<Vec<_>> =
            parked.chunks(DELETES_MAX).map(|some| some.iter().map(request).collect()).collect();
        let calls = requests.into_iter().map(|some| self.delete_all(some));
        stream::iter(calls).buffer_unordered(DELETE_CALLS_AT_ONCE).try_collect().await
    }
}

/// Lists them by one scan of the table, which also holds states, instead of 80,000 minutes with eight
/// keys each.
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
        let pk = minute_pk(minute, parked_partition(id));
        Ok(self.table.item(pk, &id.to_string()).await?.as_ref().and_then(parked))
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
            .put(CURSOR_PK, "-")
            .item("revision", number(1))
            .item("document", text(minute.to_string()));
        put.send().await.map_err(|error| port_error("dynamodb:PutItem", error))?;
        Ok(())
    }
}

fn place_of(item: &Item) -> Option<ParkedCursor> {
    let key = |name: &str| item.get(name)?.as_s().ok().cloned();
    Some(ParkedCursor { partition: key("pk")?, sort: key("sk")? })
}

/// Reads a parked delivery. A malformed one can't be repaired, and must not hold up its minute: its
/// message goes to the first retry queue with what its key says, and dispatch decides.
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
                "unreadable parked item; its message goes to the first retry queue",
            );
            let (due, id, lot) = read_key(&place)?;
            let (group, watch, parked_at) = ("unreadable".to_owned(), None, Timestamp::default());
            Some(Parked { id, due, parked_at, shard: 0, group, postponed: 0, lot, watch, body })
        }
    }
}

/// Reads the due time (at least its minute), the delivery and the lot from an item's key.
fn read_key(place: &ParkedCursor) -> Option<(Timestamp, Uuid, Option<Uuid>)> {
    let minute = place.partition.strip_prefix(PK_PREFIX)?.split('#').next()?;
    let minute = minute.parse::<i64>().ok()?;
    let Some(lot) = parking::unreadable_lot(minute) else {
        let due = Timestamp::from_millis(minute.checked_mul(60_000)?);
        return Some((due, place.sort.parse().ok()?, None));
    };
    let (due, id) = place.sort.split_once('-')?;
    Some((Timestamp::from_millis(due.parse().ok()?), id.parse().ok()?, Some(lot)))
}

fn parked_pk(parked: &Parked) -> String {
    minute_pk(parked.due_minute(), parked_partition(parked.id))
}

fn minute_pk(minute: i64, partition: u32) -> String {
    format!("{PK_PREFIX}{minute}#{partition}")
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
            postponed: 0,
            lot: None,
            parked_at: Timestamp::default(),
            watch: None,
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
        // Removing it needs the same key.
        let unreadable = parked(&item(&[("body", "b")])).expect("its message");
        assert_eq!(unreadable.due_minute(), 3);
        assert_eq!(parked_pk(&unreadable), "PARKED#3#1");
    }

    /// It leaves its lot like the others, whose end would never come otherwise.
    #[test]
    fn one_in_a_lot_that_is_not_as_it_should_be_is_found_and_removed() {
        let held = Parked {
            lot: Some(Uuid::max()),
            due: Timestamp::from_millis(180_500),
            ..parked(&item(&[("body", "b")])).expect("its message")
        };
        let mut item = item(&[("document", "{}"), ("body", "b")]);
        item.insert("pk".to_owned(), text(parked_pk(&held)));
        item.insert("sk".to_owned(), text(held.place()));
        let read = parked(&item).expect("its message");
        assert_eq!((read.id, read.due, read.shard), (ID, held.due, 0));
        assert_eq!(read.lot, parking::unreadable_lot(held.due_minute()));
        assert_eq!((parked_pk(&read), read.place()), (parked_pk(&held), held.place()));
    }
}
