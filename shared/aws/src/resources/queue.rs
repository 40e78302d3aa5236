//! SQS queues, by `SendMessageBatch`.

use aws_sdk_sqs::{
    Client,
    types::{MessageAttributeValue, SendMessageBatchRequestEntry},
};
use gridpost_core::{
    delivery::{queue_text, resource_request::Entry},
    endpoint::arn::Arn,
    subscription::Resource,
};

use super::{Sent, by_number, failure};

pub(crate) async fn send(client: &Client, resource: &Resource, entries: Vec<Entry>) -> Sent {
    let count = entries.len();
    let is_fifo = resource.is_fifo();
    let entries = entries.into_iter().enumerate().map(|(number, entry)| {
        let mut message = SendMessageBatchRequestEntry::builder()
            .id(number.to_string())
            .message_body(queue_text(entry.body))
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
        message.build().expect("it has an id and a body")
    });
    let call = client
        .send_message_batch()
        .queue_url(url(&resource.arn))
        .set_entries(Some(entries.collect()))
        .send();
    let output = call.await.map_err(|error| failure::answer(resource, &error))?;
    let accepted = output.successful().iter().map(|entry| entry.id());
    let failed = output.failed().iter().map(|entry| (entry.id(), entry.code(), entry.message()));
    Ok(by_number(resource.kind, count, accepted, failed))
}

/// Returns a queue's URL, which names the queue; calls go to the client's endpoint.
pub(crate) fn url(Arn { partition, region, account, resource, .. }: &Arn) -> String {
    let suffix = if partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://sqs.{region}.{suffix}/{account}/{resource}")
}
