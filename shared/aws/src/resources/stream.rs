//! Kinesis data streams, by `PutRecords`.

use aws_sdk_kinesis::{Client, primitives::Blob, types::PutRecordsRequestEntry};
use gridpost_core::{delivery::resource_request::Entry, subscription::Resource};

use super::{Sent, delivered, failure, refused};

pub(crate) async fn put(client: &Client, resource: &Resource, entries: Vec<Entry>) -> Sent {
    let records = entries.into_iter().map(|entry| {
        PutRecordsRequestEntry::builder()
            .data(Blob::new(entry.body))
            .partition_key(entry.key.unwrap_or(entry.id))
            .build()
            .expect("it has data and a partition key")
    });
    let call = client
        .put_records()
        .stream_arn(resource.arn.to_string())
        .set_records(Some(records.collect()))
        .send();
    let output = call.await.map_err(|error| failure::answer(resource, &error))?;
    // One result for each record, in their order.
    let answer = |record: &aws_sdk_kinesis::types::PutRecordsResultEntry| match record.error_code()
    {
        Some(code) => refused(resource.kind, code, record.error_message()),
        None => delivered(),
    };
    Ok(output.records().iter().map(answer).collect())
}
