//! The payload bucket.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_ports::{Clock, Payloads, PortError};
use rusqlite::OptionalExtension;

use crate::database::{Database, OnFullDisk};

/// The payload bucket, as rows.
pub struct PayloadStore {
    pub(crate) database: Arc<Database>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) full_disk: OnFullDisk,
}

#[async_trait]
impl Payloads for PayloadStore {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        let (key, now) = (key.to_owned(), self.clock.now().as_millis());
        let put = "INSERT OR REPLACE INTO payloads (name, written_at, object) VALUES (?1, ?2, ?3)";
        let write = move |connection: &rusqlite::Connection| {
            connection.prepare_cached(put)?.execute((&key, now, &object)).map(drop)
        };
        let written = |()| ();
        self.database.write_then("payload: writing", self.full_disk, write, written).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        self.database.read("payload: reading", |connection| {
            let get = "SELECT object FROM payloads WHERE name = ?1";
            connection.prepare_cached(get)?.query_row([key], |row| row.get(0)).optional()
        })
    }
}
