//! Filters: compiled ones against naive ones, and the reasons for a refusal against both.

use std::sync::Arc;

use gridpost_api::{
    document,
    subscription::{read_filter, write},
    trial::{FilterVerdict, sample},
};
use gridpost_core::{
    event::{ParsedEvent, custom::Stamps},
    publish::{self, matching::Matcher},
    subscription::{
        EventSubscription, Filter,
        filter::{Filters, compiled::Refusal},
    },
    topic::{InputSchema, Topic},
};
use serde_json::json;
use uuid::Uuid;

use super::publish::{NOW, subscription, topic};
use crate::naive_filter;

/// The longest text that the naive filters can take in time.
const NAIVE_BYTES_MAX: usize = 8_192;

/// The first line is a filter's document. What follows is an event, events, or the data of an event.
pub(crate) fn filter(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(document) = document::parse(&input[..end]) else { return };
    let filter = match read_filter(&json!({ "filter": document })) {
        Ok(filter) => filter,
        Err(problems) => return assert!(!problems.is_empty()),
    };
    let Ok(text) = std::str::from_utf8(&input[end + 1..]) else { return };
    use InputSchema::{CloudEventSchemaV1_0, CustomEventSchema, EventGridSchema};
    let in_event_grid = format!(
        r#"[{{"id":"1","eventType":"T","subject":"/a/B","eventTime":"2026-01-02T03:04:05Z","data":{text}}}]"#
    );
    let in_cloud_event =
        format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"T","data":{text}}}"#);
    let array = format!("[{text}]");
    for (schema, body) in [
        (EventGridSchema, in_event_grid.as_str()),
        (EventGridSchema, &array),
        (EventGridSchema, text),
        (CloudEventSchemaV1_0, &in_cloud_event),
        (CloudEventSchemaV1_0, text),
        (CustomEventSchema, text),
    ] {
        published(&topic(schema), &filter, body);
    }
}

/// Publishes to a topic with two event subscriptions: one that has the filter, and one that has none.
fn published(topic: &Topic, filter: &Filter, body: &str) {
    let topic_id = topic.id();
    let stamps = Stamps { now: NOW, id: &mut Uuid::nil };
    let Ok(events) = publish::read(topic, &topic_id, body.as_bytes(), stamps) else { return };
    let anything = subscription(topic, schema(topic), None);
    let some = EventSubscription { filter: filter.clone(), ..anything.clone() };
    let document = &json!(write(&some, topic.delivery_profile).properties.settings.filter);
    let matcher = Matcher::new(
        topic.input_schema,
        topic.input_schema_mapping.as_ref(),
        &[Arc::new(some), Arc::new(anything)],
    );
    let matched = matcher.match_events(&events, NOW);
    let [wanted, all] = [filter, &Filter::default()].map(|of| {
        let of = matched.matches.iter().find(|found| found.subscription.filter == *of);
        of.map(|found| found.events.clone()).unwrap_or_default()
    });
    assert_eq!(
        (all.len(), matched.unmatched),
        (events.len(), 0),
        "without a filter all are wanted"
    );
    let filters =
        Filters::compile(topic.input_schema, topic.input_schema_mapping.as_ref(), [filter]);
    for (position, event) in events.iter().enumerate() {
        let is_wanted = wanted.contains(&position);
        let refusals = filters.refusals(0, filter, event);
        assert_eq!(is_wanted, refusals.is_empty(), "{refusals:?}");
        if event.text.len() <= NAIVE_BYTES_MAX {
            let naive = naive_filter::refused_by(document, topic.input_schema, event);
            let refused_by: Vec<_> = refusals.iter().map(part).collect();
            assert_eq!(naive.as_ref().unwrap_or(&refused_by), &refused_by, "{refusals:?}");
        }
    }
    tested(topic, filter, &events, &wanted);
}

/// The part of the filter's document that refuses.
fn part(refusal: &Refusal<'_>) -> String {
    match refusal {
        Refusal::EventType => "includedEventTypes".to_owned(),
        Refusal::SubjectBeginsWith => "subjectBeginsWith".to_owned(),
        Refusal::SubjectEndsWith => "subjectEndsWith".to_owned(),
        Refusal::Advanced { index, .. } => format!("advancedFilters[{index}]"),
    }
}

fn schema(topic: &Topic) -> gridpost_core::event::DeliverySchema {
    super::publish::schemas(topic.input_schema)[0]
}

/// The test of sample events says the same, and says why.
fn tested(topic: &Topic, filter: &Filter, events: &[ParsedEvent<'_>], wanted: &[usize]) {
    let texts: Vec<_> = events.iter().map(|event| &*event.text).collect();
    let Ok(sample) = serde_json::from_str(&format!("[{}]", texts.join(","))) else { return };
    let answer = sample::test(topic, filter, &sample).expect("what can be published can be tested");
    assert_eq!(answer.value.len(), events.len());
    for (position, tested) in answer.value.iter().enumerate() {
        let FilterVerdict { matches, refused_by } = &tested.verdict;
        assert_eq!(*matches, refused_by.is_empty(), "{tested:?}");
        // A sample is written anew: where a CloudEvent's attribute is a number, its digits may change.
        if topic.input_schema != InputSchema::CloudEventSchemaV1_0 {
            assert_eq!(*matches, wanted.contains(&position), "{tested:?}");
        }
    }
}
