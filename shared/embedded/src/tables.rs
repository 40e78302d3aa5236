//! The tables of the deployment.

mod configuration;
mod parked;
mod states;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use gridpost_core::delivery::{listeners::Listeners, queue::Queue};
use gridpost_ports::{PortError, Saved};
use rusqlite::Row;
use serde::{Serialize, de::DeserializeOwned};

use crate::database::Database;

/// The tables of the deployment.
pub struct Tables {
    database: Arc<Database>,
    /// They end with the process, so they need no rows.
    listeners: Mutex<BTreeMap<Queue, Listeners>>,
}

impl Tables {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database, listeners: Mutex::default() }
    }
}

/// A revision and a document.
type VersionedRow = (i64, String);

fn versioned(row: &Row<'_>) -> rusqlite::Result<VersionedRow> {
    Ok((row.get(0)?, row.get(1)?))
}

fn json<T: Serialize>(call: &'static str, value: &T) -> Result<String, PortError> {
    serde_json::to_string(value).map_err(|error| PortError::new(call, error))
}

fn read<T: DeserializeOwned>(call: &'static str, document: &str) -> Result<T, PortError> {
    serde_json::from_str(document).map_err(|error| PortError::new(call, error))
}

/// Returns the result of a conditional write by the number of changed rows.
fn saved(rows: usize) -> Saved {
    if rows == 0 { Saved::Conflict } else { Saved::Written }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
