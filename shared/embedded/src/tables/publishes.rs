//! Records of publishes that came with a key.

use async_trait::async_trait;
use gridpost_core::publish::idempotency::{Record, RecordKey};
use gridpost_ports::{Kept, PortError, PublishRecords};
use rusqlite::{Connection, OptionalExtension};

use super::{Tables, count, json, number, read};

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
            let values = (&name, revision, expires_at, document);
            if connection.prepare_cached(sql)?.execute(values)? > 0 {
                return Ok(None);
            }
            let select = "SELECT revision, document FROM publishes WHERE name = ?1";
            let mut select = connection.prepare_cached(select)?;
            let found = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            Ok(Some(select.query_row([&name], found).optional()?))
        };
        let stored: Option<Option<(i64, String)>> = self.database.write(CALL, write).await?;
        let Some(stored) = stored else { return Ok(Kept::Written) };
        let record = |(revision, document): (i64, String)| {
            let record: Record = read(CALL, &document)?;
            Ok(Record { revision: count(revision), ..record })
        };
        Ok(Kept::Other(stored.map(record).transpose()?))
    }
}
