//! Rows that say nothing any more are removed: DynamoDB and S3 do that by themselves.

use std::time::Duration;

use gridpost_core::time::Timestamp;
use rusqlite::Connection;

/// How often is looked for them, while anything is written.
pub(crate) const EVERY: Duration = Duration::from_secs(10 * 60);

/// Most rows of a table that one look removes: writes wait for it meanwhile.
const AT_ONCE_MAX: i64 = 1_000;

/// A payload is removed when it was written so long ago: nothing can ask for it any more. Source: the
/// lifecycle rule of the payload bucket on AWS.
const PAYLOADS_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A minute's count of requests is asked for in that minute alone; a day more is for clocks that are
/// wrong.
const RATES_KEPT_MINUTES: i64 = 24 * 60;

/// Removes what has expired: some of it, where there is a lot.
pub(crate) fn forget(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let millis = |kept: Duration| i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    let table = [
        ("states", "expires_at", now.as_millis()),
        ("healths", "expires_at", now.as_millis()),
        ("redrives", "expires_at", now.as_millis()),
        ("payloads", "written_at", now.as_millis() - millis(PAYLOADS_KEPT_FOR)),
    ];
    for (table, column, before) in table {
        let delete = format!(
            "DELETE FROM {table} WHERE rowid IN \
             (SELECT rowid FROM {table} WHERE {column} < ?1 LIMIT ?2)"
        );
        connection.execute(&delete, (before, AT_ONCE_MAX))?;
    }
    let before = now.as_minutes() - RATES_KEPT_MINUTES;
    connection.execute("DELETE FROM rates WHERE minute < ?1", [before]).map(drop)
}
