//! Publishes an event for each object of dead letters, to a topic that the operators chose.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use gridpost_core::{
    delivery::dead_letter::{Ended, Folder},
    event::{ParseError, ParsedEvent, cloud_events, event_grid},
    name,
    publish::pack::Acceptance,
    time::Timestamp,
    topic::InputSchema,
};
use gridpost_ingest::publish::{Accepted, DeliverySink, SendLimits, send};
use gridpost_ports::{PortError, Result, configuration::ConfigurationCache};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Context;

/// The type of the events.
pub const EVENT_TYPE: &str = "Gridpost.DeadLettersWritten";

const DATA_VERSION: &str = "1";

/// The topic of the notifications, and how to publish to it.
pub struct Notifier {
    pub topic: String,
    pub configuration: ConfigurationCache,
    pub queue_message_bytes_max: usize,
    /// Whether the log says already that the topic can't be used.
    pub has_complained: AtomicBool,
}

/// An object that was written.
#[derive(Clone, Copy, Debug)]
pub struct Written<'w> {
    pub id: Uuid,
    pub folder: &'w Folder,
    pub key: &'w str,
    /// The deliveries in it, at least one.
    pub ended: &'w [&'w Ended],
}

/// Publishes an event about an object, if a notifier is set. A repetition sends the same ids.
/// After an error, the caller must send it again.
pub async fn notify(context: &Context, written: Written<'_>) -> Result<()> {
    let Some(notifier) = &context.notifier else { return Ok(()) };
    let Some(first) = written.ended.first() else { return Ok(()) };
    // Dead letters of these notifications cause no further ones: that would never end.
    if name::is_same(&first.delivery.subscription.topic, &notifier.topic) {
        return Ok(());
    }
    let Some(topic) = notifier.configuration.topic(&notifier.topic).await? else {
        notifier.complain("is not there: create it, or set no dead_letter_topic");
        return Ok(());
    };
    let now = context.clock.now();
    let topic_id = topic.topic.id();
    let body = match topic.topic.input_schema {
        InputSchema::EventGridSchema => event_grid_body(&written, now),
        InputSchema::CloudEventSchemaV1_0 => cloud_event_body(&written, &topic_id, now),
        InputSchema::CustomEventSchema => {
            notifier.complain("takes events of its own schema, which these are not");
            return Ok(());
        }
    };
    let body = body.to_string();
    let events: Result<Vec<ParsedEvent<'_>>, ParseError> = match topic.topic.input_schema {
        InputSchema::CloudEventSchemaV1_0 => cloud_events::parse(body.as_bytes()),
        _ => event_grid::parse(body.as_bytes(), &topic_id),
    };
    let events = events.map_err(|error| PortError::new("telling of dead letters", error))?;
    let revision = topic.topic.at();
    let acceptance = Acceptance { id: written.id, time: now, revision, trace_parent: None };
    let matched = topic.matcher().match_events(&events, now);
    let publish = Accepted {
        topic: &topic.topic.name,
        matched: &matched,
        events: &events,
        acceptance,
        own_id: written.id,
        is_repeatable: true,
    };
    let limits = SendLimits {
        sink: DeliverySink { sender: &*context.sender, payloads: &*context.payloads },
        journal: &*context.journal,
        queue_message_bytes_max: notifier.queue_message_bytes_max,
        // One event is never stored as a large publish: dead-letter does not write those.
        inline_fan_out: usize::MAX,
        piece_deliveries_max: usize::MAX,
    };
    send(limits, publish).await
}

impl Notifier {
    fn complain(&self, why: &str) {
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            tracing::warn!(topic = self.topic, "nobody is told of dead letters: the topic {why}");
        }
    }
}

fn data(written: &Written<'_>) -> Value {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut events = 0;
    for ended in written.ended {
        let count = ended.delivery.event_count();
        *reasons.entry(ended.reason.to_string()).or_default() += count;
        events += count;
    }
    let whose = written.ended.first().map(|ended| &ended.delivery.subscription);
    json!({
        "bucketName": written.folder.bucket,
        "objectName": written.key,
        "topic": whose.map(|key| &key.topic),
        "eventSubscription": whose.map(|key| &key.name),
        "eventCount": events,
        "reasons": reasons,
    })
}

fn subject(written: &Written<'_>) -> String {
    let whose = written.ended.first().map(|ended| &ended.delivery.subscription);
    whose.map_or_else(String::new, |key| {
        format!("/topics/{}/eventSubscriptions/{}", key.topic, key.name)
    })
}

fn event_grid_body(written: &Written<'_>, now: Timestamp) -> Value {
    json!([{
        "id": written.id,
        "subject": subject(written),
        "eventType": EVENT_TYPE,
        "eventTime": now.to_iso_8601(),
        "dataVersion": DATA_VERSION,
        "data": data(written),
    }])
}

fn cloud_event_body(written: &Written<'_>, topic_id: &str, now: Timestamp) -> Value {
    json!({
        "specversion": "1.0",
        "id": written.id,
        "source": topic_id,
        "type": EVENT_TYPE,
        "subject": subject(written),
        "time": now.to_iso_8601(),
        "data": data(written),
    })
}

#[cfg(test)]
mod tests;
