//! EventBridge event buses, by `PutEvents`.

use aws_sdk_eventbridge::{Client, primitives::DateTime, types::PutEventsRequestEntry};
use gridpost_core::{delivery::resource_request::Entry, subscription::Resource};

use super::{Sent, delivered, failure, refused};

pub(crate) async fn put(client: &Client, resource: &Resource, entries: Vec<Entry>) -> Sent {
    let name = resource.arn.to_string();
    let entries = entries.into_iter().map(|entry| {
        let event = PutEventsRequestEntry::builder().event_bus_name(&name).detail(entry.body);
        let Some(members) = entry.bus else { return event.build() };
        event
            .source(members.source)
            .detail_type(members.detail_type)
            .set_time(members.time.map(|at| DateTime::from_millis(at.as_millis())))
            .set_trace_header(members.trace_header)
            .build()
    });
    let call = client.put_events().set_entries(Some(entries.collect())).send();
    let output = call.await.map_err(|error| failure::answer(resource, &error))?;
    // One result for each entry, in their order.
    let answer = |entry: &aws_sdk_eventbridge::types::PutEventsResultEntry| match entry.error_code()
    {
        Some(code) => refused(resource.kind, code, entry.error_message()),
        None => delivered(),
    };
    Ok(output.entries().iter().map(answer).collect())
}
