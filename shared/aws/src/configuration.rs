//! Topics and event subscriptions in the configuration table.
//!
//! | item | `pk` | `sk` |
//! |---|---|---|
//! | topic | `TOPIC` | its name |
//! | event subscription | `TOPIC#<topic>` | its name |
//!
//! Each item carries its model as JSON in `document`. `revision` and `createdAt` of a topic stand
//! beside it, because every write is conditional on them; an event subscription's `revision` is the
//! topic's at which it was written. All reads are strongly consistent.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::{
    Client,
    error::{BuildError, SdkError},
    operation::{
        delete_item::DeleteItemError, put_item::PutItemError, query::builders::QueryFluentBuilder,
        transact_write_items::TransactWriteItemsError,
    },
    types::{Delete, Put, TransactWriteItem, Update},
};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    port_error,
    table::{Item, Table, document, number, text},
};
use gridpost_core::{
    subscription::{EventSubscription, SubscriptionKey},
    topic::Topic,
};
use gridpost_ports::{Configuration, PortError, Saved, SubscriptionStore, TopicStore};

/// The partition of all topics.
const TOPICS: &str = "TOPIC";

/// The topic still is what the write was decided on. One that was deleted and created again counts
/// its revisions from the start, so the time of its creation is asked too.
const UNCHANGED: &str = "revision = :revision AND createdAt = :created";

/// No topic has a name that short.
const NO_TOPIC: &str = "-";

/// How long the first connection is waited for. Lambda lets a start take 10 s.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// Topics and event subscriptions in the configuration table.
#[derive(Clone, Debug)]
pub struct ConfigurationTable {
    table: Table,
}

impl ConfigurationTable {
    /// The table of that name.
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }

    /// Opens the connection, by reading an item that is not there: while it starts a function, Lambda
    /// gives it a whole processor, which a handshake of TLS would wait for later. Nothing depends on
    /// it.
    pub async fn connect(&self) {
        if timeout(CONNECT_WAIT, self.topic(NO_TOPIC)).await.is_err() {
            tracing::warn!("DynamoDB has not answered yet");
        }
    }

    /// Reads a partition by sort key.
    fn partition(&self, pk: String) -> QueryFluentBuilder {
        let query = self.table.client.query().table_name(&self.table.name).consistent_read(true);
        query.key_condition_expression("pk = :pk").expression_attribute_values(":pk", text(pk))
    }

    /// All items of a partition by sort key, however many pages they take.
    async fn all(&self, pk: String) -> Result<Vec<Item>, PortError> {
        self.partition(pk)
            .into_paginator()
            .items()
            .send()
            .collect::<Result<Vec<_>, _>>()
            .await
            .map_err(|error| port_error("dynamodb:Query", error))
    }

    /// Makes the writes and moves the topic to its next revision: all of it, or nothing if the topic
    /// has changed since it was read.
    async fn write_with(
        &self,
        topic: &Topic,
        mut writes: Vec<TransactWriteItem>,
    ) -> Result<Saved, PortError> {
        const CALL: &str = "dynamodb:TransactWriteItems";
        let next_revision = Update::builder()
            .table_name(&self.table.name)
            .key("pk", text(TOPICS))
            .key("sk", text(&topic.name))
            .update_expression("SET revision = :next")
            .condition_expression(UNCHANGED)
            .expression_attribute_values(":next", number(topic.revision + 1))
            .expression_attribute_values(":revision", number(topic.revision))
            .expression_attribute_values(":created", number(topic.created_at.as_millis()))
            .build()
            .map_err(|error| PortError::new(CALL, error))?;
        writes.push(TransactWriteItem::builder().update(next_revision).build());
        let call = self.table.client.transact_write_items().set_transact_items(Some(writes));
        match call.send().await {
            Ok(_) => Ok(Saved::Written),
            Err(error) if lost_a_race(&error) => Ok(Saved::Conflict),
            Err(error) => Err(port_error(CALL, error)),
        }
    }

    fn put(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<TransactWriteItem, PortError> {
        let key = &subscription.key;
        let put = Put::builder()
            .table_name(&self.table.name)
            .item("pk", text(subscriptions_pk(&key.topic)))
            .item("sk", text(&key.name))
            .item("revision", number(topic.revision + 1))
            .item("document", text(json(subscription)?))
            .build();
        put.map(|put| TransactWriteItem::builder().put(put).build()).map_err(unbuilt)
    }

    fn deletion(&self, topic: &Topic, name: &str) -> Result<TransactWriteItem, PortError> {
        let delete = Delete::builder()
            .table_name(&self.table.name)
            .key("pk", text(subscriptions_pk(&topic.name)))
            .key("sk", text(name))
            .build();
        delete.map(|delete| TransactWriteItem::builder().delete(delete).build()).map_err(unbuilt)
    }
}

#[async_trait]
impl Configuration for ConfigurationTable {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        let found = self.table.load::<Topic>(TOPICS.to_owned(), name).await?;
        Ok(found.map(|(topic, revision)| Topic { revision, ..topic }))
    }

    async fn subscriptions(&self, topic: &str) -> Result<Vec<EventSubscription>, PortError> {
        let items = self.all(subscriptions_pk(topic)).await?;
        items.iter().map(|item| Ok(document(item)?.0)).collect()
    }
}

#[async_trait]
impl TopicStore for ConfigurationTable {
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError> {
        let mut query = self.partition(TOPICS.to_owned());
        if let Some(after) = after {
            query = query
                .key_condition_expression("pk = :pk AND sk > :after")
                .expression_attribute_values(":after", text(after));
        }
        // A page of DynamoDB's ends at 1 MiB too.
        let limit = i32::try_from(most).unwrap_or(i32::MAX);
        let mut items = query.limit(limit).into_paginator().items().send();
        let mut topics = Vec::new();
        while topics.len() < most {
            let Some(item) = items.next().await else { break };
            let item = item.map_err(|error| port_error("dynamodb:Query", error))?;
            let (topic, revision) = document(&item)?;
            topics.push(Topic { revision, ..topic });
        }
        Ok(topics)
    }

    async fn save(&self, topic: &Topic) -> Result<Saved, PortError> {
        let created = number(topic.created_at.as_millis());
        let put = self
            .table
            .client
            .put_item()
            .table_name(&self.table.name)
            .item("pk", text(TOPICS))
            .item("sk", text(&topic.name))
            .item("revision", number(topic.revision + 1))
            .item("createdAt", created.clone())
            .item("document", text(json(topic)?));
        let put = if topic.revision == 0 {
            put.condition_expression("attribute_not_exists(pk)")
        } else {
            put.condition_expression(UNCHANGED)
                .expression_attribute_values(":revision", number(topic.revision))
                .expression_attribute_values(":created", created)
        };
        match put.send().await {
            Ok(_) => Ok(Saved::Written),
            Err(SdkError::ServiceError(error))
                if matches!(
                    error.err(),
                    PutItemError::ConditionalCheckFailedException(_)
                        | PutItemError::TransactionConflictException(_)
                ) =>
            {
                Ok(Saved::Conflict)
            }
            Err(error) => Err(port_error("dynamodb:PutItem", error)),
        }
    }

    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError> {
        let call = self
            .table
            .client
            .delete_item()
            .table_name(&self.table.name)
            .key("pk", text(TOPICS))
            .key("sk", text(&topic.name))
            .condition_expression(UNCHANGED)
            .expression_attribute_values(":revision", number(topic.revision))
            .expression_attribute_values(":created", number(topic.created_at.as_millis()));
        match call.send().await {
            Ok(_) => Ok(Saved::Written),
            Err(SdkError::ServiceError(error))
                if matches!(
                    error.err(),
                    DeleteItemError::ConditionalCheckFailedException(_)
                        | DeleteItemError::TransactionConflictException(_)
                ) =>
            {
                Ok(Saved::Conflict)
            }
            Err(error) => Err(port_error("dynamodb:DeleteItem", error)),
        }
    }
}

#[async_trait]
impl SubscriptionStore for ConfigurationTable {
    async fn subscription(
        &self,
        key: &SubscriptionKey,
    ) -> Result<Option<EventSubscription>, PortError> {
        let found = self.table.load(subscriptions_pk(&key.topic), &key.name).await?;
        Ok(found.map(|(subscription, _)| subscription))
    }

    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError> {
        self.write_with(topic, vec![self.put(topic, subscription)?]).await
    }

    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError> {
        let writes = names.iter().map(|name| self.deletion(topic, name));
        self.write_with(topic, writes.collect::<Result<_, _>>()?).await
    }
}

/// Whether a transaction was cancelled because somebody else has written, or was writing.
///
/// Source: Amazon DynamoDB API reference, `TransactWriteItems`, cancellation reasons.
fn lost_a_race<R>(error: &SdkError<TransactWriteItemsError, R>) -> bool {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
        error.as_service_error()
    else {
        return false;
    };
    let codes = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code());
    codes.into_iter().any(|code| matches!(code, "ConditionalCheckFailed" | "TransactionConflict"))
}

fn subscriptions_pk(topic: &str) -> String {
    format!("{TOPICS}#{topic}")
}

fn json(value: &impl Serialize) -> Result<String, PortError> {
    serde_json::to_string(value).map_err(|error| PortError::new("dynamodb: writing an item", error))
}

fn unbuilt(error: BuildError) -> PortError {
    PortError::new("dynamodb:TransactWriteItems", error)
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
