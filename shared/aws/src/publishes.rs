//! Records of publishes that came with a key, in the state table. Their names are hashes, so they
//! are spread over all of its partitions.

use async_trait::async_trait;
use aws_sdk_dynamodb::{
    Client, error::SdkError, operation::put_item::PutItemError,
    types::ReturnValuesOnConditionCheckFailure::AllOld,
};

use super::{
    port_error,
    table::{Table, document, number, text},
};
use gridpost_core::publish::idempotency::{Record, RecordKey};
use gridpost_ports::{Kept, PortError, PublishRecords};

/// The sort key of items that are alone under their partition key.
const ALONE: &str = "-";

/// The records in the state table.
#[derive(Clone, Debug)]
pub struct PublishTable {
    table: Table,
}

impl PublishTable {
    pub fn new(client: Client, name: String) -> Self {
        Self { table: Table { client, name } }
    }
}

#[async_trait]
impl PublishRecords for PublishTable {
    /// One call, whatever is stored: a condition that does not hold answers with the item.
    async fn save(&self, key: &RecordKey, record: &Record) -> Result<Kept, PortError> {
        const CALL: &str = "dynamodb:PutItem";
        let json = serde_json::to_string(record).map_err(|error| PortError::new(CALL, error))?;
        let put = self
            .table
            .client
            .put_item()
            .table_name(&self.table.name)
            .item("pk", text(format!("PUBLISH#{}", key.as_str())))
            .item("sk", text(ALONE))
            .item("revision", number(record.revision + 1))
            .item("document", text(json))
            .item("expiresAt", number(record.until.as_seconds()))
            .return_values_on_condition_check_failure(AllOld);
        let put = if record.revision == 0 {
            put.condition_expression("attribute_not_exists(pk)")
        } else {
            put.condition_expression("revision = :revision")
                .expression_attribute_values(":revision", number(record.revision))
        };
        match put.send().await {
            Ok(_) => Ok(Kept::Written),
            Err(SdkError::ServiceError(error)) => match error.err() {
                PutItemError::ConditionalCheckFailedException(failed) => {
                    let stored = failed.item().map(document::<Record>).transpose()?;
                    let stored = stored.map(|(record, revision)| Record { revision, ..record });
                    Ok(Kept::Other(stored))
                }
                _ => Err(port_error(CALL, SdkError::ServiceError(error))),
            },
            Err(error) => Err(port_error(CALL, error)),
        }
    }
}
