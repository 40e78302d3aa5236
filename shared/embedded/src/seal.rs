//! Secrets at rest: topics' keys and event subscriptions' secrets, encrypted before they are written.

use std::{fmt, sync::Arc};

use rusqlite::Connection;

/// Encrypts texts under keys that the database does not have. A text is bound to its row.
pub trait Seal: fmt::Debug + Send + Sync {
    /// Encrypts a text under the first key; JSON never looks like the result.
    fn seal(&self, row: &str, text: &str) -> Option<String>;

    /// Decrypts a text. Returns it with the number of its key; `None` if it is of none, or was changed.
    fn open(&self, row: &str, sealed: &str) -> Option<(usize, String)>;
}

/// The tables with secrets: the column, and an expression for the row that it is bound to.
const TABLES: [(&str, &str, &str); 2] = [
    ("access_keys", "document", "lower(topic)"),
    ("subscriptions", "secrets", "lower(topic) || '/' || lower(name)"),
];

/// How a sealed text begins. JSON can't.
pub const SEALED: &str = "sealed:";

/// A text that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("a secret of {row} is encrypted under a key that is not given, or was changed")]
pub struct Sealed {
    row: String,
}

/// Why the secrets of a database can't be sealed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error(transparent)]
    Sealed(#[from] Sealed),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

/// The keys, if there are any.
pub(crate) type Sealer = Option<Arc<dyn Seal>>;

/// Encrypts a text for a row, if there is a key.
pub(crate) fn sealed(sealer: &Sealer, row: &str, text: String) -> String {
    // With a whole key, encrypting does not fail.
    sealer.as_ref().and_then(|sealer| sealer.seal(row, &text)).unwrap_or(text)
}

/// Decrypts the text of a row, if it is encrypted.
pub(crate) fn opened(sealer: &Sealer, row: &str, text: String) -> Result<String, Sealed> {
    if !text.starts_with(SEALED) {
        return Ok(text);
    }
    let opened = sealer.as_ref().and_then(|sealer| sealer.open(row, &text));
    opened.map(|(_, text)| text).ok_or_else(|| Sealed { row: row.to_owned() })
}

/// Encrypts what is not, or is under another key than the first. Fails if there is no key for something.
pub(crate) fn seal_all(connection: &Connection, sealer: &Sealer) -> Result<(), SealError> {
    // Leaves no text that was written in clear in unused pages.
    connection.pragma_update(None, "secure_delete", true)?;
    for (table, column, row) in TABLES {
        let select = format!("SELECT rowid, {row}, {column} FROM {table} WHERE {column} NOT NULL");
        let update = format!("UPDATE {table} SET {column} = ?2 WHERE rowid = ?1");
        let mut select = connection.prepare(&select)?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let rows: Vec<(i64, String, String)> = rows.collect::<Result<_, _>>()?;
        for (id, row, text) in rows {
            let of_first =
                |sealer: &Arc<dyn Seal>| sealer.open(&row, &text).is_some_and(|it| it.0 == 0);
            if sealer.as_ref().is_some_and(of_first) {
                continue;
            }
            let clear = opened(sealer, &row, text)?;
            if let Some(sealed) = sealer.as_ref().and_then(|sealer| sealer.seal(&row, &clear)) {
                connection.execute(&update, (id, sealed))?;
            }
        }
    }
    connection.pragma_update(None, "secure_delete", false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seals by writing the row and the key beside the text.
    #[derive(Debug)]
    struct Labels(&'static [&'static str]);

    impl Seal for Labels {
        fn seal(&self, row: &str, text: &str) -> Option<String> {
            Some(format!("{SEALED}{row}|{}|{}", self.0[0], text.replace("hush", "....")))
        }

        fn open(&self, row: &str, sealed: &str) -> Option<(usize, String)> {
            let rest = sealed.strip_prefix(SEALED)?.strip_prefix(row)?.strip_prefix('|')?;
            let (key, text) = rest.split_once('|')?;
            let number = self.0.iter().position(|own| *own == key)?;
            Some((number, text.replace("....", "hush")))
        }
    }

    fn of(keys: &'static [&'static str]) -> Sealer {
        Some(Arc::new(Labels(keys)))
    }

    #[test]
    fn rows_are_sealed_again_under_the_first_key() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(include_str!("schema.sql")).expect("tables");
        let insert = "INSERT INTO access_keys VALUES ('Orders', 1, '{\"key1\":\"hush\"}');
            INSERT INTO subscriptions VALUES ('Orders', 'S', 1, '{}', '{\"a\":\"hush\"}'), ('Orders', 'T', 1, '{}', NULL)";
        connection.execute_batch(insert).expect("rows");
        let all = |sealer: &Sealer| seal_all(&connection, sealer);
        let texts = || {
            let select = "SELECT document FROM access_keys UNION ALL \
                          SELECT secrets FROM subscriptions WHERE secrets NOT NULL";
            let mut select = connection.prepare(select).expect("a statement");
            let rows = select.query_map([], |row| row.get::<_, String>(0)).expect("rows");
            rows.map(|row| row.expect("a text")).collect::<Vec<_>>()
        };
        all(&None).expect("nothing is sealed");
        all(&of(&["a"])).expect("sealed");
        let first = texts();
        assert!(first.iter().all(|text| text.starts_with(SEALED)), "{first:?}");
        all(&of(&["a"])).expect("left as they are");
        assert_eq!(texts(), first);
        all(&of(&["b", "a"])).expect("under the new one");
        all(&of(&["b"])).expect("the old one is not needed any more");
        for other in [None, of(&["a"])] {
            let refused = all(&other).expect_err("no key for it").to_string();
            assert!(refused.contains("orders") && !refused.contains("hush"), "{refused}");
        }
    }
}
