//! Numbers by name: the table `notes`.

use rusqlite::{Connection, OptionalExtension};

pub(crate) fn note_of(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut select = connection.prepare_cached("SELECT value FROM notes WHERE name = ?1")?;
    select.query_row([name], |row| row.get(0)).optional()
}

pub(crate) fn set_note(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    let insert = "INSERT OR REPLACE INTO notes (name, value) VALUES (?1, ?2)";
    connection.prepare_cached(insert)?.execute((name, value)).map(drop)
}
