//! The health of endpoints, the counts of their requests, and the listeners for late responses.

use std::time::Duration;

use async_trait::async_trait;
use gridpost_core::{retry::health::Health, subscription::SubscriptionKey, time::Timestamp};
use gridpost_ports::{EndpointHealths, LateListeners, Listener, PortError, RequestRates, Saved};
use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::{Tables, count, json, number, read, saved};

/// How long a health is kept after its last change.
const KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

#[async_trait]
impl EndpointHealths for Tables {
    async fn load(&self, key: &SubscriptionKey, uid: Uuid) -> Result<Health, PortError> {
        const CALL: &str = "health: reading";
        let found: Option<(i64, String)> = self.database.read(CALL, |connection| {
            let select =
                "SELECT revision, document FROM healths WHERE subscription = ?1 AND uid = ?2";
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let values = (key.to_string(), uid.as_bytes());
            connection.prepare_cached(select)?.query_row(values, row).optional()
        })?;
        let Some((revision, document)) = found else { return Ok(Health::default()) };
        Ok(Health { revision: count(revision), ..read(CALL, &document)? })
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
        let expires_at = health.last_change_at().map(|at| (at + KEPT_FOR).as_millis());
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
            let values = (subscription, uid, revision, expires_at, document);
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
