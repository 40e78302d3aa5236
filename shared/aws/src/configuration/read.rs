//! Reads the configuration.

use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use futures::future::try_join_all;
use gridpost_core::{
    subscription::EventSubscription,
    topic::{AccessKeys, Topic},
};
use gridpost_ports::{Configuration, PortError, TopicKeys};

use super::{
    ConfigurationTable, KEYS, SUBSCRIPTION, TOPIC, TOPICS, keys_pk, subscription_sk, topic_pk,
};
use crate::{
    port_error,
    table::{document, text},
};

impl ConfigurationTable {
    /// Reads a partition by sort key.
    fn partition(&self, pk: String) -> QueryFluentBuilder {
        let query = self.table.client.query().table_name(&self.table.name).consistent_read(true);
        query.key_condition_expression("pk = :pk").expression_attribute_values(":pk", text(pk))
    }

    /// All event subscriptions of a topic, however many pages they take.
    async fn all(&self, topic: &str) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        let items = self
            .partition(topic_pk(topic))
            .key_condition_expression("pk = :pk AND begins_with(sk, :subscription)")
            .expression_attribute_values(":subscription", text(SUBSCRIPTION))
            .into_paginator()
            .items()
            .send()
            .collect::<Result<Vec<_>, _>>()
            .await
            .map_err(|error| port_error("dynamodb:Query", error))?;
        items.iter().map(document).collect()
    }

    /// The first `most` topics, from the start or after the name `after`.
    pub(super) async fn topics_after(
        &self,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Topic>, PortError> {
        let mut query = self.partition(TOPICS.to_owned());
        if let Some(after) = after {
            query = query
                .key_condition_expression("pk = :pk AND sk > :after")
                .expression_attribute_values(":after", text(after));
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
        let Some(names) = names else { return self.all(topic).await };
        let found = names.iter().map(|name| async move {
            self.table.load(topic_pk(topic), &subscription_sk(name)).await
        });
        Ok(try_join_all(found).await?.into_iter().flatten().collect())
    }
}

#[async_trait]
impl TopicKeys for ConfigurationTable {
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError> {
        self.table.load(keys_pk(topic), KEYS).await
    }
}
