//! Items with one JSON document, written conditionally on its revision.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    error::SdkError,
    operation::{
        put_item::{PutItemError, builders::PutItemFluentBuilder},
        query::builders::QueryFluentBuilder,
    },
    types::AttributeValue,
};
use serde::{Serialize, de::DeserializeOwned};

use super::port_error;
use gridpost_core::time::Timestamp;
use gridpost_ports::{PortError, Saved};

pub(super) type Item = HashMap<String, AttributeValue>;

/// A table of documents with partition key (`pk`) and sort key (`sk`).
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) client: Client,
    pub(super) name: String,
}

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(super) fn json(value: &impl Serialize) -> Result<String, PortError> {
    serde_json::to_string(value).map_err(|error| PortError::new("dynamodb: writing an item", error))
}

impl Table {
    /// Begins to write the item under these keys.
    pub(super) fn put(&self, pk: impl Into<String>, sk: impl Into<String>) -> PutItemFluentBuilder {
        let put = self.client.put_item().table_name(&self.name);
        put.item("pk", text(pk)).item("sk", text(sk))
    }

    /// Begins to read a partition by sort key. Strongly consistent.
    pub(super) fn query(&self, pk: impl Into<String>) -> QueryFluentBuilder {
        let query = self.client.query().table_name(&self.name).consistent_read(true);
        query.key_condition_expression("pk = :pk").expression_attribute_values(":pk", text(pk))
    }

    /// Reads the document under these keys with its revision. Strongly consistent.
    pub(super) async fn load<T: DeserializeOwned>(
        &self,
        pk: String,
        sk: &str,
    ) -> Result<Option<(T, u64)>, PortError> {
        self.item(pk, sk).await?.map(|item| document(&item)).transpose()
    }

    /// Reads the item under these keys. Strongly consistent.
    pub(super) async fn item(&self, pk: String, sk: &str) -> Result<Option<Item>, PortError> {
        let got = self
            .client
            .get_item()
            .table_name(&self.name)
            .key("pk", text(pk))
            .key("sk", text(sk))
            .consistent_read(true)
            .send()
            .await;
        Ok(got.map_err(|error| port_error("dynamodb:GetItem", error))?.item)
    }

    /// Writes a document as revision `revision + 1`, if the stored one still is `revision` (0:
    /// there is none). `indexed` are further attributes, for an index.
    pub(super) async fn save<T: Serialize>(
        &self,
        (pk, sk): (String, &str),
        value: &T,
        revision: u64,
        forget_at: Option<Timestamp>,
        indexed: Option<Item>,
    ) -> Result<Saved, PortError> {
        let mut put = self.put_next((pk, sk), value, revision, forget_at)?;
        for (name, value) in indexed.into_iter().flatten() {
            put = put.item(name, value);
        }
        match put.send().await {
            Ok(_) => Ok(Saved::Written),
            Err(SdkError::ServiceError(error))
                if matches!(error.err(), PutItemError::ConditionalCheckFailedException(_)) =>
            {
                Ok(Saved::Conflict)
            }
            Err(error) => Err(port_error("dynamodb:PutItem", error)),
        }
    }

    /// Begins to write a document as [`Self::save`] does.
    pub(super) fn put_next<T: Serialize>(
        &self,
        (pk, sk): (String, &str),
        value: &T,
        revision: u64,
        forget_at: Option<Timestamp>,
    ) -> Result<PutItemFluentBuilder, PortError> {
        let put = self.put(pk, sk).item("revision", number(revision + 1));
        let put = put.item("document", text(json(value)?));
        let put = match forget_at {
            Some(at) => put.item("expiresAt", number(at.as_seconds())),
            None => put,
        };
        if revision == 0 {
            return Ok(put.condition_expression("attribute_not_exists(pk)"));
        }
        let put = put.condition_expression("revision = :revision");
        Ok(put.expression_attribute_values(":revision", number(revision)))
    }
}

/// Decodes the document of an item, with its revision.
pub(super) fn document<T: DeserializeOwned>(item: &Item) -> Result<(T, u64), PortError> {
    const CALL: &str = "dynamodb: reading an item";
    let attribute = |name: &str| {
        item.get(name).ok_or_else(|| PortError::new(CALL, format!("it has no attribute {name}")))
    };
    let json = attribute("document")?
        .as_s()
        .map_err(|_| PortError::new(CALL, "its document is not text"))?;
    let revision = attribute("revision")?.as_n().ok().and_then(|number| number.parse().ok());
    let value = serde_json::from_str(json).map_err(|error| PortError::new(CALL, error))?;
    Ok((value, revision.ok_or_else(|| PortError::new(CALL, "its revision is not a number"))?))
}
