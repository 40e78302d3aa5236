//! The state of failing deliveries.

use async_trait::async_trait;
use gridpost_core::delivery::state::{DeliveryState, DeliveryStatus};
use gridpost_core::time::Timestamp;
use gridpost_ports::{
    DeliveryStates, PortError, Saved, WaitingCount, WaitingDeliveries, WaitingTally,
};
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::{Tables, count, json, number, read, saved};

const READING: &str = "state: reading";

/// A document with its revision.
type Found = (i64, String);

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok((row.get(0)?, row.get(1)?))
}

fn state((revision, document): Found) -> Result<DeliveryState, PortError> {
    let state: DeliveryState = read(READING, &document)?;
    Ok(DeliveryState { revision: count(revision), ..state })
}

/// Whether a delivery has failed and not ended.
fn waits(state: &DeliveryState) -> bool {
    matches!(state.standing, DeliveryStatus::Waiting { .. } | DeliveryStatus::Ending { .. })
}

#[async_trait]
impl DeliveryStates for Tables {
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError> {
        let row = self.database.read(READING, |connection| {
            let select = "SELECT revision, document FROM states WHERE id = ?1";
            connection.prepare_cached(select)?.query_row([id.as_bytes()], found).optional()
        })?;
        row.map(state).transpose()
    }

    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError> {
        const CALL: &str = "state: writing";
        let document = json(CALL, state)?;
        let waiting = waits(state).then(|| (*state.subscription_uid.as_bytes(), state.place()));
        let (waiting_for, place) = waiting.unzip();
        let (id, revision) = (*state.id.as_bytes(), number(state.revision));
        let expires_at = state.forget_at().as_millis();
        let write = move |connection: &Connection| {
            let values = (id, revision, expires_at, waiting_for, place, document);
            let sql = match revision {
                0 => {
                    "INSERT INTO states (id, revision, expires_at, waiting_for, place, document) \
                     VALUES (?1, ?2 + 1, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING"
                }
                _ => {
                    "UPDATE states SET revision = ?2 + 1, expires_at = ?3, waiting_for = ?4, \
                     place = ?5, document = ?6 WHERE id = ?1 AND revision = ?2"
                }
            };
            connection.prepare_cached(sql)?.execute(values)
        };
        Ok(saved(self.database.write(CALL, write).await?))
    }
}

#[async_trait]
impl WaitingDeliveries for Tables {
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError> {
        let rows: Vec<Found> = self.database.read(READING, |connection| {
            let select = "SELECT revision, document FROM states \
                          WHERE waiting_for = ?1 AND place > ?2 ORDER BY place LIMIT ?3";
            let values = (uid.as_bytes(), after.unwrap_or_default(), number(most as u64));
            connection.prepare_cached(select)?.query_map(values, found)?.collect()
        })?;
        rows.into_iter().map(state).collect()
    }

    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError> {
        let counted: i64 = self.database.read("state: counting", |connection| {
            let select = "SELECT count(*) FROM \
                          (SELECT 1 FROM states WHERE waiting_for = ?1 LIMIT ?2)";
            let values = (uid.as_bytes(), number(most as u64));
            connection.prepare_cached(select)?.query_row(values, |row| row.get(0))
        })?;
        Ok(usize::try_from(counted).unwrap_or(0))
    }

    async fn tally(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<WaitingTally, PortError> {
        let hours: Vec<HourRow> = self.database.read("state: counting", |connection| {
            // A place begins with the publish time in milliseconds, in 13 digits.
            let select = "SELECT CAST(substr(place, 1, 13) AS INTEGER) / 3600000 AS hour, count(*), \
                          CAST(total(json_extract(document, '$.events')) AS INTEGER), max(place) \
                          FROM (SELECT place, document FROM states \
                                WHERE waiting_for = ?1 AND place > ?2 ORDER BY place LIMIT ?3) \
                          GROUP BY hour";
            let values = (uid.as_bytes(), after.unwrap_or_default(), number(most as u64));
            connection.prepare_cached(select)?.query_map(values, hour_row)?.collect()
        })?;
        let counted: i64 = hours.iter().map(|(_, deliveries, ..)| deliveries).sum();
        let last = hours.iter().map(|(.., place)| place).max();
        let next = last.filter(|_| count(counted) >= most as u64).cloned();
        let of = |(hour, deliveries, events, _): &HourRow| {
            let hour = Timestamp::from_millis(hour * 3_600_000);
            (hour, WaitingCount { deliveries: count(*deliveries), events: count(*events) })
        };
        Ok(WaitingTally { hours: hours.iter().map(of).collect(), next })
    }
}

/// Hours since the epoch, deliveries, events, the last place of them.
type HourRow = (i64, i64, i64, String);

fn hour_row(row: &Row<'_>) -> rusqlite::Result<HourRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}
