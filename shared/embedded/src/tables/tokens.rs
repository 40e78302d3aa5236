//! Tokens of the manage API, without their secrets.

use gridpost_core::access::Token;
use gridpost_ports::{PortError, Saved};

use super::{Tables, json, read, saved};
use crate::database::OnFullDisk;

const READING: &str = "tokens: reading";
const WRITING: &str = "tokens: writing";

impl Tables {
    /// Lists all tokens by name.
    pub fn tokens(&self) -> Result<Vec<Token>, PortError> {
        let rows: Vec<String> = self.database.read(READING, |connection| {
            let mut select =
                connection.prepare_cached("SELECT document FROM tokens ORDER BY name")?;
            select.query_map([], |row| row.get(0))?.collect()
        })?;
        rows.iter().map(|document| read(READING, document)).collect()
    }

    /// Stores a token, unless its name is taken.
    pub async fn add_token(&self, token: &Token) -> Result<Saved, PortError> {
        let (name, document) = (token.name.clone(), json(WRITING, token)?);
        self.change_tokens("INSERT OR IGNORE INTO tokens VALUES (?1, ?2)", (name, Some(document)))
            .await
    }

    /// Deletes the token of that name, if there is one.
    pub async fn delete_token(&self, name: &str) -> Result<Saved, PortError> {
        let delete = "DELETE FROM tokens WHERE name = ?1 AND ?2 IS NULL";
        self.change_tokens(delete, (name.to_owned(), None)).await
    }

    async fn change_tokens(
        &self,
        sql: &'static str,
        values: (String, Option<String>),
    ) -> Result<Saved, PortError> {
        let work = move |connection: &rusqlite::Connection| {
            Ok(saved(connection.prepare_cached(sql)?.execute((&values.0, &values.1))?))
        };
        self.database.write_then(WRITING, OnFullDisk::Fail, work, |saved| saved).await
    }
}
