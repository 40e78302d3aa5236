//! Parked deliveries by their due minute, and wake's cursor.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::{delivery::parking::Parked, error::chain, time::Timestamp};
use gridpost_ports::{
    DueDeliveries, DuePage, ParkedCursor, ParkedDeliveries, ParkedPage, ParkingLot, PortError,
    WakeCursor, parked_partition,
};
use rusqlite::{Connection, OptionalExtension, Row, Rows};
use uuid::Uuid;

use super::{Tables, json};
use crate::named::{note_of, set_note};

const PAGE_ROWS_MAX: usize = 500;

/// Without its last row.
const PAGE_BYTES_MAX: usize = 1_048_576;
const WAKE: &str = "wake";

/// The `parked_at` of an unreadable row.
const UNREADABLE: Timestamp = Timestamp::from_millis(0);
const READING: &str = "parked: reading";
const COLUMNS: &str = "minute, part, id, document, body";

struct ParkedRow {
    minute: i64,
    part: u32,
    id: String,
    document: String,
    body: String,
}

impl ParkedRow {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (minute, part, id) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Self { minute, part, id, document: row.get(3)?, body: row.get(4)? })
    }

    fn place(&self) -> ParkedCursor {
        ParkedCursor { partition: format!("{}/{}", self.minute, self.part), sort: self.id.clone() }
    }

    /// Decodes the delivery. An unreadable document must not block others: its message goes to the first
    /// retry queue with what its key says.
    fn parked(self) -> Option<Parked> {
        let Self { minute, id, document, body, .. } = self;
        match serde_json::from_str::<Parked>(&document) {
            Ok(parked) => Some(Parked { body, ..parked }),
            Err(error) => {
                let error = chain(&error);
                tracing::error!(minute, id, %error, "unreadable parked row; its message goes to the first retry queue");
                let due = Timestamp::from_millis(minute.checked_mul(60_000)?);
                let (id, group) = (id.parse().ok()?, "unreadable".to_owned());
                let (lot, watch, parked_at) = (None, None, UNREADABLE);
                Some(Parked { id, due, parked_at, shard: 0, group, postponed: 0, lot, watch, body })
            }
        }
    }
}

/// Reads a page of rows. Also returns whether there are more.
fn page(mut rows: Rows<'_>) -> rusqlite::Result<(Vec<ParkedRow>, bool)> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if found.len() >= PAGE_ROWS_MAX || bytes >= PAGE_BYTES_MAX {
            return Ok((found, true));
        }
        let row = ParkedRow::of(row)?;
        bytes += row.body.len();
        found.push(row);
    }
    Ok((found, false))
}

type Key = (i64, u32, String);

fn key_of(parked: &Parked) -> Key {
    (parked.due_minute(), parked_partition(parked.id), parked.place())
}

/// Removes a row unless it was parked again since it was read: its message may have been sent,
/// received and parked under the same key.
fn remove(
    connection: &Connection,
    ((minute, part, id), parked_at): &(Key, Timestamp),
) -> rusqlite::Result<()> {
    let key = (minute, part, id);
    let of_key = "FROM parked WHERE minute = ?1 AND part = ?2 AND id = ?3";
    let mut select = connection.prepare_cached(&format!("SELECT document {of_key}"))?;
    let document: Option<String> = select.query_row(key, |row| row.get(0)).optional()?;
    let Some(document) = document else { return Ok(()) };
    let stored = serde_json::from_str::<Parked>(&document).map(|parked| parked.parked_at);
    if stored.unwrap_or(UNREADABLE) != *parked_at {
        return Ok(());
    }
    connection.prepare_cached(&format!("DELETE {of_key}"))?.execute(key).map(drop)
}

#[async_trait]
impl ParkingLot for Tables {
    async fn park(&self, parked: &Parked) -> Result<(), PortError> {
        const CALL: &str = "parked: writing";
        let (minute, part, id) = key_of(parked);
        let (document, body) = (json(CALL, parked)?, parked.body.clone());
        let (delivery, journal) = (parked.id, Arc::clone(&self.database.journal));
        let write = move |connection: &Connection| {
            let insert = "INSERT OR REPLACE INTO parked (minute, part, id, document, body) \
                          VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = (minute, part, &id, &document, &body);
            connection.prepare_cached(insert)?.execute(values)?;
            journal.take_delivery(delivery);
            Ok(())
        };
        self.database.write(CALL, write).await
    }

    async fn remove(&self, parked: &Parked) -> Result<(), PortError> {
        let read = (key_of(parked), parked.parked_at);
        let write = move |connection: &Connection| remove(connection, &read);
        self.database.write("parked: removing", write).await
    }
}

#[async_trait]
impl DueDeliveries for Tables {
    async fn due_in(
        &self,
        minute: i64,
        partition: u32,
        after: Option<String>,
    ) -> Result<DuePage, PortError> {
        let (found, is_cut) = self.database.read(READING, |connection| {
            let select = format!(
                "SELECT {COLUMNS} FROM parked \
                 WHERE minute = ?1 AND part = ?2 AND id > ?3 ORDER BY id"
            );
            let mut select = connection.prepare_cached(&select)?;
            page(select.query((minute, partition, after.unwrap_or_default()))?)
        })?;
        let next = found.last().filter(|_| is_cut).map(|last| last.id.clone());
        Ok(DuePage { due: found.into_iter().filter_map(ParkedRow::parked).collect(), next })
    }

    async fn remove_all(&self, parked: &[Parked]) -> Result<(), PortError> {
        let all: Vec<_> = parked.iter().map(|it| (key_of(it), it.parked_at)).collect();
        let write =
            move |connection: &Connection| all.iter().try_for_each(|read| remove(connection, read));
        self.database.write("parked: removing", write).await
    }
}

#[async_trait]
impl ParkedDeliveries for Tables {
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError> {
        let unknown = || PortError::new(READING, "not the position of a parked delivery");
        let place = place.map(|place| {
            let (minute, part) = place.partition.split_once('/')?;
            let (minute, part): (i64, u32) = (minute.parse().ok()?, part.parse().ok()?);
            Some((minute, part, place.sort.clone()))
        });
        let (minute, part, id) = match place {
            Some(place) => place.ok_or_else(unknown)?,
            None => (i64::MIN, 0, String::new()),
        };
        let (found, is_cut) = self.database.read(READING, |connection| {
            let select = format!(
                "SELECT {COLUMNS} FROM parked \
                 WHERE (minute, part, id) > (?1, ?2, ?3) ORDER BY minute, part, id"
            );
            let mut select = connection.prepare_cached(&select)?;
            page(select.query((minute, part, id))?)
        })?;
        let next = found.last().filter(|_| is_cut).map(ParkedRow::place);
        let found = found.into_iter().filter_map(|row| Some((row.place(), row.parked()?)));
        Ok(ParkedPage { found: found.collect(), next })
    }

    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError> {
        let found = self.database.read(READING, |connection| {
            let select =
                format!("SELECT {COLUMNS} FROM parked WHERE minute = ?1 AND part = ?2 AND id = ?3");
            let values = (minute, parked_partition(id), id.to_string());
            connection.prepare_cached(&select)?.query_row(values, ParkedRow::of).optional()
        })?;
        Ok(found.and_then(ParkedRow::parked))
    }
}

#[async_trait]
impl WakeCursor for Tables {
    /// Returns the first minute that has rows, if earlier than the saved cursor: with a fast clock, a row
    /// may be written after wake has read its minute.
    async fn load(&self) -> Result<Option<i64>, PortError> {
        self.database.read("wake: reading", |connection| {
            let Some(noted) = note_of(connection, WAKE)? else { return Ok(None) };
            // Negative minutes are the lots of paused event subscriptions.
            let first = "SELECT MIN(minute) FROM parked WHERE minute >= 0";
            let first: Option<i64> =
                connection.prepare_cached(first)?.query_row([], |row| row.get(0))?;
            Ok(Some(first.map_or(noted, |first| first.min(noted))))
        })
    }

    async fn save(&self, minute: i64) -> Result<(), PortError> {
        let write = move |connection: &Connection| set_note(connection, WAKE, minute);
        self.database.write("wake: writing", write).await
    }
}
