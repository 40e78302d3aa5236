//! SNS topics, by `PublishBatch`.

use aws_sdk_sns::{
    Client,
    types::{MessageAttributeValue, PublishBatchRequestEntry},
};
use gridpost_core::{
    delivery::{queue_text, resource_request::Entry},
    subscription::Resource,
};

use super::{Sent, by_number, failure};

pub(crate) async fn publish(client: &Client, resource: &Resource, entries: Vec<Entry>) -> Sent {
    let count = entries.len();
    let is_fifo = resource.is_fifo();
    let entries = entries.into_iter().enumerate().map(|(number, entry)| {
        let mut message = PublishBatchRequestEntry::builder()
            .id(number.to_string())
            .message(queue_text(entry.body))
            .set_message_group_id(entry.key)
            .set_message_deduplication_id(is_fifo.then_some(entry.id));
        for (name, value) in &entry.attributes {
            let value = MessageAttributeValue::builder()
                .data_type("String")
                .string_value(value.expose())
                .build()
                .expect("it has a type");
            message = message.message_attributes(name, value);
        }
        message.build().expect("it has an id and a message")
    });
    let call = client
        .publish_batch()
        .topic_arn(resource.arn.to_string())
        .set_publish_batch_request_entries(Some(entries.collect()))
        .send();
    let output = call.await.map_err(|error| failure::answer(resource, &error))?;
    let accepted = output.successful().iter().filter_map(|entry| entry.id());
    let failed = output.failed().iter().map(|entry| (entry.id(), entry.code(), entry.message()));
    Ok(by_number(resource.kind, count, accepted, failed))
}
