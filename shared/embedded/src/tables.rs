//! The tables of the deployment.

mod configuration;
mod parked;
mod states;
mod tokens;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use gridpost_core::delivery::{listeners::Listeners, queue::Queue};
use gridpost_ports::{PortError, Saved};
use rusqlite::{OptionalExtension, Params, Row};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    database::Database,
    seal::{Sealer, opened},
};

/// The tables of the deployment.
pub struct Tables {
    database: Arc<Database>,
    sealer: Sealer,
    /// They end with the process, so they need no rows.
    listeners: Mutex<BTreeMap<Queue, Listeners>>,
}

impl Tables {
    pub(crate) fn new(database: Arc<Database>, sealer: Sealer) -> Self {
        Self { database, sealer, listeners: Mutex::default() }
    }

    /// Reads the document that a statement selects after its revision. Returns both.
    fn one<T: DeserializeOwned>(
        &self,
        call: &'static str,
        select: &str,
        values: impl Params,
    ) -> Result<Option<(T, u64)>, PortError> {
        let row = self.database.read(call, |connection| {
            connection.prepare_cached(select)?.query_row(values, versioned).optional()
        })?;
        row.map(|row| decoded(call, row)).transpose()
    }

    /// Reads a document with secrets. `row` is lower(its key), as [`seal`](crate::seal) knows it.
    fn opened<T: DeserializeOwned>(
        &self,
        call: &'static str,
        row: &str,
        (revision, document): VersionedRow,
    ) -> Result<(T, u64), PortError> {
        let document = opened(&self.sealer, row, document);
        let document = document.map_err(|error| PortError::new(call, error))?;
        decoded(call, (revision, document))
    }

    /// Reads all documents that a statement selects, like [`Self::one`].
    fn all<T: DeserializeOwned>(
        &self,
        call: &'static str,
        select: &str,
        values: impl Params,
    ) -> Result<Vec<(T, u64)>, PortError> {
        let rows: Vec<VersionedRow> = self.database.read(call, |connection| {
            connection.prepare_cached(select)?.query_map(values, versioned)?.collect()
        })?;
        rows.into_iter().map(|row| decoded(call, row)).collect()
    }
}

/// A revision and a document.
type VersionedRow = (i64, String);

fn versioned(row: &Row<'_>) -> rusqlite::Result<VersionedRow> {
    Ok((row.get(0)?, row.get(1)?))
}

fn decoded<T: DeserializeOwned>(
    call: &'static str,
    (revision, document): VersionedRow,
) -> Result<(T, u64), PortError> {
    Ok((read(call, &document)?, count(revision)))
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
