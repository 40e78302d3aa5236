//! Topics and event subscriptions. Every write is conditional on the topic's revision and creation
//! time, because a recreated topic counts from the start.

use std::collections::BTreeSet;

use async_trait::async_trait;
use gridpost_core::{
    name,
    subscription::{EventSubscription, Secrets, SubscriptionKey},
    topic::{AccessKeys, Change, Topic},
};
use gridpost_ports::{
    Configuration, PortError, Saved, SubscriptionSecrets, SubscriptionStore, TopicKeys, TopicStore,
    WrittenSecrets,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{Tables, VersionedRow, count, decoded, json, number, read, saved, versioned};
use crate::{
    database::{OnFullDisk, whole},
    seal::sealed,
};

const READING: &str = "configuration: reading";
const WRITING: &str = "configuration: writing";

/// A topic's revision, its latest changes and its document.
type TopicRow = (i64, String, String);

fn topic_row(row: &Row<'_>) -> rusqlite::Result<TopicRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn topic((revision, changes, document): TopicRow) -> Result<Topic, PortError> {
    let topic: Topic = read(READING, &document)?;
    Ok(Topic { revision: count(revision), changes: read(READING, &changes)?, ..topic })
}

/// The row of an event subscription's secrets.
fn row_of_subscription(topic: &str, name: &str) -> String {
    name::folded(&format!("{topic}/{name}"))
}

/// The topic's revision that a write is based on, and its changes.
struct RevisionStep {
    name: String,
    created_at: i64,
    revision: i64,
    changes: String,
}

impl RevisionStep {
    fn of(topic: &Topic, changes: impl IntoIterator<Item = Change>) -> Result<Self, PortError> {
        Ok(Self {
            name: topic.name.clone(),
            created_at: topic.created_at.as_millis(),
            revision: number(topic.revision),
            changes: json(WRITING, &topic.next(changes).changes)?,
        })
    }

    fn take(&self, connection: &Connection) -> rusqlite::Result<Saved> {
        let update = "UPDATE topics SET revision = ?3 + 1, changes = ?4 \
                      WHERE name = ?1 AND created_at = ?2 AND revision = ?3";
        let values = (&self.name, self.created_at, self.revision, &self.changes);
        Ok(saved(connection.prepare_cached(update)?.execute(values)?))
    }
}

impl Tables {
    /// Returns the first event subscriptions by name.
    pub fn subscription_keys(&self, most: usize) -> Result<Vec<SubscriptionKey>, PortError> {
        self.database.read(READING, |connection| {
            let select = "SELECT topic, name FROM subscriptions ORDER BY topic, name LIMIT ?1";
            let key = |row: &Row<'_>| Ok(SubscriptionKey { topic: row.get(0)?, name: row.get(1)? });
            connection.prepare_cached(select)?.query_map([number(most as u64)], key)?.collect()
        })
    }

    /// Writes together with the topic's next revision, or nothing if the topic has changed.
    async fn write_with(
        &self,
        step: RevisionStep,
        mut write: impl FnMut(&Connection, &RevisionStep) -> rusqlite::Result<()> + Send + 'static,
    ) -> Result<Saved, PortError> {
        let work = move |connection: &Connection| {
            whole(connection, || {
                let saved = step.take(connection)?;
                if saved == Saved::Written {
                    write(connection, &step)?;
                }
                Ok(saved)
            })
        };
        self.database.write_then(WRITING, OnFullDisk::Fail, work, |saved| saved).await
    }
}

#[async_trait]
impl Configuration for Tables {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        let row = self.database.read(READING, |connection| {
            let select = "SELECT revision, changes, document FROM topics WHERE name = ?1";
            connection.prepare_cached(select)?.query_row([name], topic_row).optional()
        })?;
        row.map(topic).transpose()
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        let Some(names) = names else {
            let select =
                "SELECT revision, document FROM subscriptions WHERE topic = ?1 ORDER BY name";
            return self.all(READING, select, [topic]);
        };
        let rows: Vec<VersionedRow> = self.database.read(READING, |connection| {
            let select =
                "SELECT revision, document FROM subscriptions WHERE topic = ?1 AND name = ?2";
            let mut select = connection.prepare_cached(select)?;
            let mut rows = Vec::new();
            for name in names {
                rows.extend(select.query_row((topic, name), versioned).optional()?);
            }
            Ok(rows)
        })?;
        rows.into_iter().map(|row| decoded(READING, row)).collect()
    }
}

#[async_trait]
impl SubscriptionSecrets for Tables {
    async fn secrets(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<WrittenSecrets, PortError> {
        let rows: Vec<(String, VersionedRow)> = self.database.read(READING, |connection| {
            let select = "SELECT revision, secrets, name FROM subscriptions \
                          WHERE topic = ?1 AND secrets IS NOT NULL";
            let row = |row: &Row<'_>| Ok((row.get(2)?, versioned(row)?));
            connection.prepare_cached(select)?.query_map([topic], row)?.collect()
        })?;
        let rows = rows.into_iter().map(|(name, row)| (name::folded(&name), row));
        let is_asked_for = |name: &str| names.is_none_or(|names| names.contains(name));
        let asked_for = rows.filter(|(name, _)| is_asked_for(name));
        let secrets = |(name, row): (String, VersionedRow)| {
            let of = row_of_subscription(topic, &name);
            let opened = self.opened::<Secrets>(READING, &of, row)?;
            Ok((name, opened))
        };
        asked_for.map(secrets).collect()
    }
}

#[async_trait]
impl TopicKeys for Tables {
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError> {
        let row = self.database.read(READING, |connection| {
            let select = "SELECT revision, document FROM access_keys WHERE topic = ?1";
            connection.prepare_cached(select)?.query_row([topic], versioned).optional()
        })?;
        row.map(|row| self.opened(READING, &name::folded(topic), row)).transpose()
    }
}

#[async_trait]
impl TopicStore for Tables {
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError> {
        let rows: Vec<TopicRow> = self.database.read(READING, |connection| {
            let select = "SELECT revision, changes, document FROM topics \
                          WHERE name > ?1 ORDER BY name LIMIT ?2";
            let values = (after.unwrap_or_default(), number(most as u64));
            connection.prepare_cached(select)?.query_map(values, topic_row)?.collect()
        })?;
        rows.into_iter().map(topic).collect()
    }

    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError> {
        let step = RevisionStep::of(topic, keys.map(|_| Change::Keys))?;
        let document = json(WRITING, topic)?;
        let keys = keys.map(|keys| json(WRITING, keys)).transpose()?;
        let row = name::folded(&topic.name);
        let keys = keys.map(|keys| sealed(&self.sealer, &row, keys));
        let work = move |connection: &Connection| {
            whole(connection, || {
                let sql = match step.revision {
                    0 => {
                        "INSERT INTO topics (name, created_at, revision, changes, document) \
                         VALUES (?1, ?2, ?3 + 1, ?4, ?5) ON CONFLICT DO NOTHING"
                    }
                    _ => {
                        "UPDATE topics SET revision = ?3 + 1, changes = ?4, document = ?5 \
                         WHERE name = ?1 AND created_at = ?2 AND revision = ?3"
                    }
                };
                let RevisionStep { name, created_at, revision, changes } = &step;
                let values = (name, created_at, revision, changes, &document);
                let saved = saved(connection.prepare_cached(sql)?.execute(values)?);
                if let (Saved::Written, Some(keys)) = (saved, &keys) {
                    let put = "INSERT OR REPLACE INTO access_keys (topic, revision, document) \
                               VALUES (?1, ?2 + 1, ?3)";
                    connection.prepare_cached(put)?.execute((name, revision, keys))?;
                }
                Ok(saved)
            })
        };
        self.database.write_then(WRITING, OnFullDisk::Fail, work, |saved| saved).await
    }

    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError> {
        let step = RevisionStep::of(topic, [])?;
        self.write_with(step, |connection, step| {
            for sql in
                ["DELETE FROM topics WHERE name = ?1", "DELETE FROM access_keys WHERE topic = ?1"]
            {
                connection.prepare_cached(sql)?.execute([&step.name])?;
            }
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl SubscriptionStore for Tables {
    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError> {
        let name = subscription.key.name.clone();
        let step = RevisionStep::of(topic, [Change::written(&name)])?;
        let (rest, secrets) = subscription.split();
        let document = json(WRITING, &rest)?;
        let secrets = secrets.map(|secrets| json(WRITING, &secrets)).transpose()?;
        let row = row_of_subscription(&step.name, &name);
        let secrets = secrets.map(|secrets| sealed(&self.sealer, &row, secrets));
        self.write_with(step, move |connection, step| {
            let put = "INSERT OR REPLACE INTO subscriptions (topic, name, revision, document, secrets) \
                       VALUES (?1, ?2, ?3 + 1, ?4, ?5)";
            let values = (&step.name, &name, step.revision, &document, &secrets);
            connection.prepare_cached(put)?.execute(values).map(drop)
        })
        .await
    }

    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError> {
        let step = RevisionStep::of(topic, names.iter().map(|name| Change::deleted(name)))?;
        let names = names.to_vec();
        self.write_with(step, move |connection, step| {
            let delete = "DELETE FROM subscriptions WHERE topic = ?1 AND name = ?2";
            let mut delete = connection.prepare_cached(delete)?;
            names.iter().try_for_each(|name| delete.execute((&step.name, name)).map(drop))
        })
        .await
    }
}
