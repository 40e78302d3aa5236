//! Topics and event subscriptions in the configuration table.
//!
//! | item | `pk` | `sk` | who reads it |
//! |---|---|---|---|
//! | topic | `TOPIC#<topic>` | `topic` | all |
//! | event subscription | `TOPIC#<topic>` | `subscription#<name>` | all |
//! | its secrets, if it has some | `SECRETS#<topic>` | `subscription#<name>` | dispatch, manage |
//! | a topic's access keys | `KEYS#<topic>` | `keys` | ingest, manage |
//! | a topic's name, for lists | `TOPICS` | the name | manage |
//!
//! Names in keys are folded: see [`gridpost_core::name`]. Each topic has its own partition, so traffic
//! to one does not affect another. IAM restricts each function to its keys. Secrets are an event
//! subscription's secret headers, the query of its URL and the like: see [`gridpost_core::subscription::secrets`].
//!
//! Items carry their model as JSON in `document`. A topic's `revision`, `createdAt` and `changes` are
//! separate attributes: every write is conditional on the first two, and moves the revision in the same
//! transaction. On all other items `revision` is the topic's at which they were written. All reads are
//! strongly consistent.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use aws_sdk_dynamodb::{
    Client,
    error::{BuildError, SdkError},
    operation::transact_write_items::TransactWriteItemsError,
    types::{
        Delete, Put, TransactWriteItem, Update,
        builders::{DeleteBuilder, PutBuilder},
    },
};
use futures::future::try_join_all;
use gridpost_core::{
    name,
    subscription::{EventSubscription, Secrets, SubscriptionKey},
    topic::{AccessKeys, Change, Topic},
};
use gridpost_ports::{
    Configuration, PortError, Saved, SubscriptionSecrets, SubscriptionStore, TopicKeys, TopicStore,
    WrittenSecrets,
};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    port_error,
    table::{Item, Table, document, json, number, text},
};

const TOPICS: &str = "TOPICS";
const TOPIC: &str = "topic";
const KEYS: &str = "keys";
const SUBSCRIPTION: &str = "subscription#";

/// The topic is the one that the write is based on. A recreated topic counts its revisions
/// from the start, so its creation time is checked too.
const UNCHANGED: &str = "revision = :revision AND createdAt = :created";

/// Too short for the name of a topic.
const NO_TOPIC: &str = "-";
const CALL: &str = "dynamodb:TransactWriteItems";

/// How long to wait for the first connection. Lambda allows 10 s for a start.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// The configuration table.
#[derive(Clone, Debug)]
pub struct ConfigurationTable {
    table: Table,
}

impl ConfigurationTable {
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }

    /// Opens the connection by reading a missing item: during a start Lambda gives the function a whole
    /// processor, which speeds up the TLS handshake. Failures do not matter.
    pub async fn connect(&self) {
        if timeout(CONNECT_WAIT, self.topic(NO_TOPIC)).await.is_err() {
            tracing::warn!("DynamoDB has not answered yet");
        }
    }

    /// Reads the items of all event subscriptions in a partition.
    async fn all(&self, pk: String) -> Result<Vec<Item>, PortError> {
        self.table
            .query(pk)
            .key_condition_expression("pk = :pk AND begins_with(sk, :subscription)")
            .expression_attribute_values(":subscription", text(SUBSCRIPTION))
            .into_paginator()
            .items()
            .send()
            .collect::<Result<Vec<_>, _>>()
            .await
            .map_err(|error| port_error("dynamodb:Query", error))
    }

    /// Reads the items of these event subscriptions in a partition, or of all.
    async fn items(
        &self,
        pk: String,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<Item>, PortError> {
        let Some(names) = names else { return self.all(pk).await };
        let pk = pk.as_str();
        let found = names.iter().map(|name| async move {
            self.table.item(pk.to_owned(), &subscription_sk(name)).await
        });
        Ok(try_join_all(found).await?.into_iter().flatten().collect())
    }

    /// Makes the writes and moves the topic to its next revision, or nothing if the topic has changed.
    async fn write_with(
        &self,
        topic: &Topic,
        mut writes: Vec<TransactWriteItem>,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<Saved, PortError> {
        let next = topic.next(changes);
        let next_revision = Update::builder()
            .table_name(&self.table.name)
            .key("pk", text(topic_pk(&topic.name)))
            .key("sk", text(TOPIC))
            .update_expression("SET revision = :next, changes = :changes")
            .condition_expression(UNCHANGED)
            .expression_attribute_values(":next", number(next.revision))
            .expression_attribute_values(":changes", text(json(&next.changes)?))
            .expression_attribute_values(":revision", number(topic.revision))
            .expression_attribute_values(":created", number(topic.created_at.as_millis()))
            .build()
            .map_err(unbuilt)?;
        writes.push(TransactWriteItem::builder().update(next_revision).build());
        self.write(writes).await
    }

    /// Makes all writes, or none if a condition fails.
    async fn write(&self, writes: Vec<TransactWriteItem>) -> Result<Saved, PortError> {
        let call = self.table.client.transact_write_items().set_transact_items(Some(writes));
        match call.send().await {
            Ok(_) => Ok(Saved::Written),
            Err(error) if lost_a_race(&error) => Ok(Saved::Conflict),
            Err(error) => Err(port_error(CALL, error)),
        }
    }

    fn put(&self, pk: String, sk: impl Into<String>) -> PutBuilder {
        Put::builder().table_name(&self.table.name).item("pk", text(pk)).item("sk", text(sk))
    }

    /// Begins to write a document at the topic's next revision.
    fn put_at(
        &self,
        topic: &Topic,
        pk: String,
        sk: impl Into<String>,
        document: &impl Serialize,
    ) -> Result<PutBuilder, PortError> {
        let put = self.put(pk, sk).item("revision", number(topic.revision + 1));
        Ok(put.item("document", text(json(document)?)))
    }

    fn delete_item(&self, pk: String, sk: impl Into<String>) -> DeleteBuilder {
        Delete::builder().table_name(&self.table.name).key("pk", text(pk)).key("sk", text(sk))
    }

    /// Writes the topic at its next revision, if unchanged.
    fn put_topic(&self, topic: &Topic, next: &Topic) -> Result<PutBuilder, PortError> {
        let created = number(topic.created_at.as_millis());
        let put = self
            .put(topic_pk(&topic.name), TOPIC)
            .item("revision", number(next.revision))
            .item("createdAt", created.clone())
            .item("changes", text(json(&next.changes)?))
            .item("document", text(json(next)?));
        Ok(match topic.revision {
            0 => put.condition_expression("attribute_not_exists(pk)"),
            revision => put
                .condition_expression(UNCHANGED)
                .expression_attribute_values(":revision", number(revision))
                .expression_attribute_values(":created", created),
        })
    }
}

#[async_trait]
impl Configuration for ConfigurationTable {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        const CALL: &str = "dynamodb: reading a topic";
        let Some(item) = self.table.item(topic_pk(name), TOPIC).await? else { return Ok(None) };
        let (topic, revision) = document::<Topic>(&item)?;
        let changes = item.get("changes").and_then(|changes| changes.as_s().ok());
        let changes = changes.ok_or_else(|| PortError::new(CALL, "it has no changes"))?;
        let changes = serde_json::from_str(changes).map_err(|error| PortError::new(CALL, error))?;
        Ok(Some(Topic { revision, changes, ..topic }))
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        self.items(topic_pk(topic), names).await?.iter().map(document).collect()
    }
}

#[async_trait]
impl SubscriptionSecrets for ConfigurationTable {
    async fn secrets(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<WrittenSecrets, PortError> {
        let items = self.items(secrets_pk(topic), names).await?;
        items.iter().map(|item| Ok((name_of(item)?, document::<Secrets>(item)?))).collect()
    }
}

#[async_trait]
impl TopicKeys for ConfigurationTable {
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError> {
        self.table.load(keys_pk(topic), KEYS).await
    }
}

#[async_trait]
impl TopicStore for ConfigurationTable {
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError> {
        let mut query = self.table.query(TOPICS);
        if let Some(after) = after {
            query = query
                .key_condition_expression("pk = :pk AND sk > :after")
                .expression_attribute_values(":after", text(name::folded(after)));
        }
        let limit = i32::try_from(most).unwrap_or(i32::MAX);
        let mut pages = query.limit(limit).into_paginator().send();
        let mut topics = Vec::new();
        while topics.len() < most
            && let Some(page) = pages.next().await
        {
            let page = page.map_err(|error| port_error("dynamodb:Query", error))?;
            let names = page.items().iter().filter_map(|item| item.get("sk")?.as_s().ok());
            // A topic may have been deleted since its name was read.
            let found = try_join_all(names.map(|name| self.topic(name))).await?;
            topics.extend(found.into_iter().flatten());
        }
        topics.truncate(most);
        Ok(topics)
    }

    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError> {
        let next = topic.next(keys.map(|_| Change::Keys));
        let mut puts = vec![self.put_topic(topic, &next)?];
        if let Some(keys) = keys {
            puts.push(self.put_at(topic, keys_pk(&next.name), KEYS, keys)?);
        }
        if topic.revision == 0 {
            puts.push(self.put(TOPICS.to_owned(), name::folded(&topic.name)));
        }
        self.write(puts.into_iter().map(put_write).collect::<Result<_, _>>()?).await
    }

    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError> {
        let unchanged = self
            .delete_item(topic_pk(&topic.name), TOPIC)
            .condition_expression(UNCHANGED)
            .expression_attribute_values(":revision", number(topic.revision))
            .expression_attribute_values(":created", number(topic.created_at.as_millis()));
        let keys = self.delete_item(keys_pk(&topic.name), KEYS);
        let listed = self.delete_item(TOPICS.to_owned(), name::folded(&topic.name));
        let writes = [unchanged, keys, listed].into_iter().map(delete_write);
        self.write(writes.collect::<Result<_, _>>()?).await
    }
}

#[async_trait]
impl SubscriptionStore for ConfigurationTable {
    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError> {
        let SubscriptionKey { topic: of, name } = &subscription.key;
        let (rest, secrets) = subscription.split();
        let (pk, sk) = (secrets_pk(of), subscription_sk(name));
        let secrets = match secrets {
            Some(secrets) => put_write(self.put_at(topic, pk, sk, &secrets)?)?,
            None => delete_write(self.delete_item(pk, sk))?,
        };
        let put = put_write(self.put_at(topic, topic_pk(of), subscription_sk(name), &rest)?)?;
        self.write_with(topic, vec![put, secrets], [Change::written(name)]).await
    }

    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError> {
        let of = |name| {
            let pks = [topic_pk(&topic.name), secrets_pk(&topic.name)];
            pks.map(|pk| delete_write(self.delete_item(pk, subscription_sk(name))))
        };
        let writes = names.iter().flat_map(|name| of(name));
        let deleted = names.iter().map(|name| Change::deleted(name));
        self.write_with(topic, writes.collect::<Result<_, _>>()?, deleted).await
    }
}

/// Whether a transaction was cancelled because of another writer. Source: Amazon DynamoDB API
/// reference, `TransactWriteItems`, cancellation reasons.
fn lost_a_race<R>(error: &SdkError<TransactWriteItemsError, R>) -> bool {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
        error.as_service_error()
    else {
        return false;
    };
    let codes = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code());
    codes.into_iter().any(|code| matches!(code, "ConditionalCheckFailed" | "TransactionConflict"))
}

fn topic_pk(topic: &str) -> String {
    format!("TOPIC#{}", name::folded(topic))
}

fn keys_pk(topic: &str) -> String {
    format!("KEYS#{}", name::folded(topic))
}

fn secrets_pk(topic: &str) -> String {
    format!("SECRETS#{}", name::folded(topic))
}

/// Returns the folded name of the event subscription that an item belongs to.
fn name_of(item: &Item) -> Result<String, PortError> {
    let sk = item.get("sk").and_then(|sk| sk.as_s().ok());
    let name = sk.and_then(|sk| sk.strip_prefix(SUBSCRIPTION)).map(str::to_owned);
    name.ok_or_else(|| {
        PortError::new("dynamodb: reading secrets", "they belong to no event subscription")
    })
}

fn subscription_sk(name: &str) -> String {
    format!("{SUBSCRIPTION}{}", name::folded(name))
}

fn put_write(put: PutBuilder) -> Result<TransactWriteItem, PortError> {
    Ok(TransactWriteItem::builder().put(put.build().map_err(unbuilt)?).build())
}

fn delete_write(delete: DeleteBuilder) -> Result<TransactWriteItem, PortError> {
    Ok(TransactWriteItem::builder().delete(delete.build().map_err(unbuilt)?).build())
}

fn unbuilt(error: BuildError) -> PortError {
    PortError::new(CALL, error)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::{
        CancellationReason, error::TransactionCanceledException as Cancelled,
    };

    use super::*;

    #[test]
    fn only_conditions_and_conflicts_are_lost_races() {
        let table: [(&[&str], bool); 5] = [
            (&["ConditionalCheckFailed", "None"], true),
            (&["None", "TransactionConflict"], true),
            (&["None", "ThrottlingError"], false),
            (&["ItemCollectionSizeLimitExceeded", "None"], false),
            (&[], false),
        ];
        for (codes, want) in table {
            let reasons =
                codes.iter().map(|code| CancellationReason::builder().code(*code).build());
            let cancelled =
                Cancelled::builder().set_cancellation_reasons(Some(reasons.collect())).build();
            let error = SdkError::service_error(
                TransactWriteItemsError::TransactionCanceledException(cancelled),
                (),
            );
            assert_eq!(lost_a_race(&error), want, "{codes:?}");
        }
    }
}
