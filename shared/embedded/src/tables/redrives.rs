//! Redrive jobs.

use async_trait::async_trait;
use gridpost_core::{
    delivery::redrive::{Job, KEPT_FOR},
    subscription::SubscriptionKey,
};
use gridpost_ports::{PortError, Redrives, Saved};
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use super::{Tables, count, json, number, read, saved};

const READING: &str = "redrive: reading";

/// A document with its revision.
type Found = (i64, String);

fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    Ok((row.get(0)?, row.get(1)?))
}

fn job((revision, document): Found) -> Result<Job, PortError> {
    let job: Job = read(READING, &document)?;
    Ok(Job { revision: count(revision), ..job })
}

#[async_trait]
impl Redrives for Tables {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        let rows: Vec<Found> = self.database.read(READING, |connection| {
            let select =
                "SELECT revision, document FROM redrives WHERE subscription = ?1 ORDER BY id";
            connection.prepare_cached(select)?.query_map([of.to_string()], found)?.collect()
        })?;
        rows.into_iter().map(job).collect()
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        let row = self.database.read(READING, |connection| {
            let select =
                "SELECT revision, document FROM redrives WHERE subscription = ?1 AND id = ?2";
            let values = (of.to_string(), id.as_bytes());
            connection.prepare_cached(select)?.query_row(values, found).optional()
        })?;
        row.map(job).transpose()
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        const CALL: &str = "redrive: writing";
        let (subscription, id) = (job.subscription.to_string(), *job.id.as_bytes());
        let (document, revision) = (json(CALL, job)?, number(job.revision));
        let expires_at = (job.updated_at + KEPT_FOR).as_millis();
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
            let values = (subscription, id, revision, expires_at, document);
            connection.prepare_cached(sql)?.execute(values)
        };
        Ok(saved(self.database.write(CALL, write).await?))
    }
}
