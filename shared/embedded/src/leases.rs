//! Leases of the process before.

use rusqlite::Connection;

/// Ends them all: of requests to slow endpoints, of probes, of redrive jobs and of publishes with a key. Only
/// one process has the folder, so nothing that they are waited for is under way.
pub(crate) fn end_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "UPDATE healths SET document = json_remove(document, '$.slow.leases', '$.probe') \
         WHERE json_array_length(document, '$.slow.leases') > 0 \
            OR json_extract(document, '$.probe') IS NOT NULL; \
         UPDATE redrives SET document = json_set(document, '$.lease', NULL) \
         WHERE json_extract(document, '$.lease') IS NOT NULL; \
         UPDATE publishes SET document = json_set(document, '$.standing.begun.leaseUntil', 0) \
         WHERE instr(document, '\"begun\"') > 0;",
    )
}
