//! Failing deliveries, health and request counts of endpoints, late listeners, redrive jobs, and records
//! of publishes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        redrive::{Job, KEPT_FOR as REDRIVE_KEPT_FOR},
        state::{DeliveryState, DeliveryStatus},
    },
    publish::idempotency::{Record, RecordKey},
    retry::health::Health,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    DeliveryStates, EndpointHealths, Kept, LateListeners, Listener, PortError, PublishRecords,
    Redrives, RequestRates, Saved, WaitingCount, WaitingDeliveries, WaitingTally,
};
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::{Tables, VersionedRow, count, decoded, json, number, saved, versioned};
use crate::database::OnFullDisk;

const READING: &str = "state: reading";
const REDRIVE_READING: &str = "redrive: reading";

/// Counted from its last change.
const HEALTH_KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

fn with_revision((state, revision): (DeliveryState, u64)) -> DeliveryState {
    DeliveryState { revision, ..state }
}

fn waits(state: &DeliveryState) -> bool {
    matches!(state.status, DeliveryStatus::Waiting { .. } | DeliveryStatus::Ending { .. })
}

#[async_trait]
impl DeliveryStates for Tables {
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError> {
        let select = "SELECT revision, document FROM states WHERE id = ?1";
        Ok(self.one(READING, select, [id.as_bytes()])?.map(with_revision))
    }

    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError> {
        const CALL: &str = "state: writing";
        let document = json(CALL, state)?;
        let waiting = waits(state).then(|| (*state.subscription_uid.as_bytes(), state.place()));
        let (waiting_for, place) = waiting.unzip();
        let (id, revision) = (*state.id.as_bytes(), number(state.revision));
        let expires_at = state.forget_at().as_millis();
        let (delivery, journal) = (state.id, Arc::clone(&self.database.journal));
        let write = move |connection: &Connection| {
            let values = (id, revision, expires_at, waiting_for, &place, &document);
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
            let saved = saved(connection.prepare_cached(sql)?.execute(values)?);
            if saved == Saved::Written {
                journal.take_delivery(delivery);
            }
            Ok(saved)
        };
        self.database.write(CALL, write).await
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
        let select = "SELECT revision, document FROM states \
                      WHERE waiting_for = ?1 AND place > ?2 ORDER BY place LIMIT ?3";
        let values = (uid.as_bytes(), after.unwrap_or_default(), number(most as u64));
        Ok(self.all(READING, select, values)?.into_iter().map(with_revision).collect())
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
            // A place begins with the publish time: 13 digits of milliseconds.
            let select = "SELECT CAST(substr(place, 1, 13) AS INTEGER) / 3600000 AS hour, count(*), \
                          CAST(total(events) AS INTEGER), max(place) \
                          FROM (SELECT place, events FROM states \
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

#[async_trait]
impl EndpointHealths for Tables {
    async fn load(&self, key: &SubscriptionKey, uid: Uuid) -> Result<Health, PortError> {
        let select = "SELECT revision, document FROM healths WHERE subscription = ?1 AND uid = ?2";
        let found = self.one("health: reading", select, (key.to_string(), uid.as_bytes()))?;
        Ok(found.map_or_else(Health::default, |(health, revision)| Health { revision, ..health }))
    }

    async fn save(
        &self,
        key: &SubscriptionKey,
        uid: Uuid,
        health: &Health,
    ) -> Result<Saved, PortError> {
        const CALL: &str = "health: writing";
        let (subscription, uid) = (key.to_string(), *uid.as_bytes());
        let (document, revision) = (json(CALL, health)?, number(health.revision));
        let expires_at = health.last_change_at().map(|at| (at + HEALTH_KEPT_FOR).as_millis());
        let write = move |connection: &Connection| {
            let sql = match revision {
                0 => {
                    "INSERT INTO healths (subscription, uid, revision, expires_at, document) \
                     VALUES (?1, ?2, ?3 + 1, ?4, ?5) ON CONFLICT DO NOTHING"
                }
                _ => {
                    "UPDATE healths SET revision = ?3 + 1, expires_at = ?4, document = ?5 \
                     WHERE subscription = ?1 AND uid = ?2 AND revision = ?3"
                }
            };
            let values = (&subscription, uid, revision, expires_at, &document);
            connection.prepare_cached(sql)?.execute(values)
        };
        Ok(saved(self.database.write(CALL, write).await?))
    }
}

#[async_trait]
impl RequestRates for Tables {
    async fn count(&self, uid: Uuid, minute: i64, requests: u64) -> Result<u64, PortError> {
        let (uid, more) = (*uid.as_bytes(), number(requests));
        let write = move |connection: &Connection| {
            let sql = "INSERT INTO rates (uid, minute, requests) VALUES (?1, ?2, ?3) \
                       ON CONFLICT DO UPDATE SET requests = requests + excluded.requests \
                       RETURNING requests";
            let values = (uid, minute, more);
            connection.prepare_cached(sql)?.query_row(values, |row| row.get::<_, i64>(0))
        };
        Ok(count(self.database.write("rate: counting", write).await?))
    }
}

#[async_trait]
impl LateListeners for Tables {
    async fn join(
        &self,
        listener: Listener,
        most: usize,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let mut all = self.listeners.lock().expect("no panic while held");
        let listeners = all.entry(listener.queue).or_default();
        let next = listeners.join(listener.id, listener.until, most, now);
        let joined = next.is_some();
        *listeners = next.unwrap_or_else(|| std::mem::take(listeners));
        Ok(joined)
    }

    async fn leave(&self, listener: Listener) -> Result<(), PortError> {
        let mut all = self.listeners.lock().expect("no panic while held");
        let listeners = all.entry(listener.queue).or_default();
        *listeners = listeners.leave(listener.id);
        Ok(())
    }
}

#[async_trait]
impl Redrives for Tables {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        let select = "SELECT revision, document FROM redrives WHERE subscription = ?1 ORDER BY id";
        let found = self.all(REDRIVE_READING, select, [of.to_string()])?;
        Ok(found.into_iter().map(|(job, revision)| Job { revision, ..job }).collect())
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        let select = "SELECT revision, document FROM redrives WHERE subscription = ?1 AND id = ?2";
        let found = self.one(REDRIVE_READING, select, (of.to_string(), id.as_bytes()))?;
        Ok(found.map(|(job, revision)| Job { revision, ..job }))
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        const CALL: &str = "redrive: writing";
        let (subscription, id) = (job.subscription.to_string(), *job.id.as_bytes());
        let (document, revision) = (json(CALL, job)?, number(job.revision));
        let expires_at = (job.updated_at + REDRIVE_KEPT_FOR).as_millis();
        let write = move |connection: &Connection| {
            let sql = match revision {
                0 => {
                    "INSERT INTO redrives (subscription, id, revision, expires_at, document) \
                     VALUES (?1, ?2, ?3 + 1, ?4, ?5) ON CONFLICT DO NOTHING"
                }
                _ => {
                    "UPDATE redrives SET revision = ?3 + 1, expires_at = ?4, document = ?5 \
                     WHERE subscription = ?1 AND id = ?2 AND revision = ?3"
                }
            };
            let values = (&subscription, id, revision, expires_at, &document);
            connection.prepare_cached(sql)?.execute(values)
        };
        Ok(saved(self.database.write(CALL, write).await?))
    }
}

#[async_trait]
impl PublishRecords for Tables {
    async fn save(&self, key: &RecordKey, record: &Record) -> Result<Kept, PortError> {
        const CALL: &str = "publish record: writing";
        let (name, document) = (key.as_str().to_owned(), json(CALL, record)?);
        let (revision, expires_at) = (number(record.revision), record.until.as_millis());
        let write = move |connection: &Connection| {
            let sql = match revision {
                0 => {
                    "INSERT INTO publishes (name, revision, expires_at, document) \
                     VALUES (?1, ?2 + 1, ?3, ?4) ON CONFLICT DO NOTHING"
                }
                _ => {
                    "UPDATE publishes SET revision = ?2 + 1, expires_at = ?3, document = ?4 \
                     WHERE name = ?1 AND revision = ?2"
                }
            };
            let values = (&name, revision, expires_at, &document);
            if connection.prepare_cached(sql)?.execute(values)? > 0 {
                return Ok(None);
            }
            let select = "SELECT revision, document FROM publishes WHERE name = ?1";
            let mut select = connection.prepare_cached(select)?;
            Ok(Some(select.query_row([&name], versioned).optional()?))
        };
        let full_disk = OnFullDisk::Fail;
        let stored: Option<Option<VersionedRow>> =
            self.database.write_then(CALL, full_disk, write, |stored| stored).await?;
        let Some(stored) = stored else { return Ok(Kept::Written) };
        let stored = stored.map(|row| decoded(CALL, row)).transpose()?;
        Ok(Kept::Other(stored.map(|(record, revision)| Record { revision, ..record })))
    }
}
