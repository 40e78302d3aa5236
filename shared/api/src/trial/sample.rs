//! Tests sample events against a filter: whether it matches them and, if not, which part of it
//! refuses them. Nothing is published.

use std::borrow::Cow;

use gridpost_core::publish::{BODY_BYTES_MAX, PublishError, read};
use gridpost_core::{
    event::{ParsedEvent, custom::Stamps},
    subscription::filter::{Filter, Filters, advanced::Operator, compiled::Refusal},
    time::Timestamp,
    topic::Topic,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{FilterRefusal, FilterVerdict, TestResult, TestedEvent};
use crate::document::quoted;

/// Most characters of a value that an answer repeats.
const FOUND_CHARS_MAX: usize = 256;

/// Tests one event, or an array of them, against a filter of that topic. The answer has a verdict
/// for each event, in order.
/// Fails for events that a publish would refuse.
pub fn test(topic: &Topic, filter: &Filter, events: &Value) -> Result<TestResult, PublishError> {
    test_text(topic, filter, &events.to_string())
}

/// The same for the text of events: a parsed value would have lost details for which a publish
/// refuses or accepts them.
/// Fails for events that a publish would refuse.
pub fn test_text(topic: &Topic, filter: &Filter, events: &str) -> Result<TestResult, PublishError> {
    let body = match events.starts_with('[') {
        true => Cow::Borrowed(events),
        false => Cow::Owned(format!("[{events}]")),
    };
    refuse_too_large(events)?;
    let topic_id = topic.id();
    // Stamps do not matter: filters see the event as it was published.
    let stamps = Stamps { now: Timestamp::from_millis(0), id: &mut Uuid::nil };
    let events = read(topic, &topic_id, body.as_bytes(), stamps)?;
    let filters =
        Filters::compile(topic.input_schema, topic.input_schema_mapping.as_ref(), [filter]);
    let tested = |(index, event): (usize, &ParsedEvent<'_>)| {
        let verdict = FilterVerdict::of(filter, event, &filters.refusals(0, filter, event));
        TestedEvent { index, id: event.id.to_string(), verdict }
    };
    Ok(TestResult { value: events.iter().enumerate().map(tested).collect() })
}

impl FilterVerdict {
    /// Returns the verdict of a filter with these refusals.
    pub(super) fn of(filter: &Filter, event: &ParsedEvent<'_>, refusals: &[Refusal<'_>]) -> Self {
        let refused_by = refusals.iter().map(|part| refused_by(filter, event, part)).collect();
        Self { matches: refusals.is_empty(), refused_by }
    }
}

pub(super) fn refuse_too_large(events: &str) -> Result<(), PublishError> {
    let size_bytes = events.len();
    match size_bytes > BODY_BYTES_MAX {
        true => Err(PublishError::BodyTooLarge { size_bytes }),
        false => Ok(()),
    }
}

/// One part of the filter, the value that it found, and why it refuses the event.
fn refused_by(filter: &Filter, event: &ParsedEvent<'_>, refusal: &Refusal<'_>) -> FilterRefusal {
    let case = if filter.is_subject_case_sensitive { "" } else { " (in any case)" };
    let part = |name: &str, found: &str, rule: String| FilterRefusal {
        path: format!("filter.{name}"),
        found: found.into(),
        message: format!("{} {rule}", quoted(found)),
        operator_type: None,
        key: None,
        is_there: None,
    };
    match refusal {
        Refusal::EventType => {
            let rule = "is not one of the included event types, which are exact".to_owned();
            part("includedEventTypes", &event.event_type, rule)
        }
        Refusal::SubjectBeginsWith => {
            let wanted = quoted(&filter.subject_begins_with);
            part("subjectBeginsWith", &event.subject, format!("does not begin with {wanted}{case}"))
        }
        Refusal::SubjectEndsWith => {
            let wanted = quoted(&filter.subject_ends_with);
            part("subjectEndsWith", &event.subject, format!("does not end with {wanted}{case}"))
        }
        Refusal::Advanced { index, filter, found } => {
            let operator = filter.operator.name();
            let is_long = |json: &&String| json.chars().count() > FOUND_CHARS_MAX;
            let value = match found {
                None => Value::Null,
                Some(json) if is_long(&json) => {
                    Value::from(json.chars().take(FOUND_CHARS_MAX).collect::<String>() + "…")
                }
                Some(json) => serde_json::from_str(json).unwrap_or_else(|_| json!(json)),
            };
            let message = match found {
                None => format!("{} is missing; {operator} needs it", filter.key),
                Some(_) => format!("{} is {value}; {}", filter.key, wanted(&filter.operator)),
            };
            FilterRefusal {
                path: format!("filter.advancedFilters[{index}]"),
                found: value,
                message,
                operator_type: Some(operator.to_owned()),
                key: Some(filter.key.clone()),
                is_there: Some(found.is_some()),
            }
        }
    }
}

/// Most values of an operator that a message lists.
const VALUES_TOLD_MAX: usize = 10;

/// The condition of an operator, in words.
fn wanted(operator: &Operator) -> String {
    let name = operator.name();
    let document = serde_json::to_value(operator).unwrap_or_default();
    let values = match &document["values"] {
        Value::Array(values) => values.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let more = if values.len() > VALUES_TOLD_MAX { ", …" } else { "" };
    let told: Vec<_> = values.iter().take(VALUES_TOLD_MAX).map(told).collect();
    let verb = match name {
        "StringIn" | "NumberIn" => "allowed",
        "StringNotIn" | "NumberNotIn" => "not allowed",
        other => other,
    };
    match told.is_empty() {
        true => format!("{verb} does not want it"),
        false => format!("{verb}: {}{more}", told.join(", ")),
    }
}

/// A value for people; an ambiguous text keeps its quotation marks.
fn told(value: &Value) -> String {
    match value.as_str() {
        Some(text) if !text.is_empty() && !text.contains([',', ' ', '"']) => text.to_owned(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::read_filter;
    use gridpost_core::fixtures::topic;

    #[test]
    fn what_an_operator_wants_is_told() {
        let told_of = |operator: Value| {
            let filter = read_filter(&json!({"filter": {"advancedFilters": [operator]}}));
            wanted(&filter.expect("valid").advanced[0].operator)
        };
        let many: Vec<_> = (0..12).map(|number| format!("v{number}")).collect();
        let table = [
            (
                json!({"operatorType": "StringIn", "key": "k", "values": ["SE", "NO"]}),
                "allowed: SE, NO",
            ),
            (
                json!({"operatorType": "StringNotIn", "key": "k", "values": ["a, b", ""]}),
                r#"not allowed: "a, b", """#,
            ),
            (
                json!({"operatorType": "StringBeginsWith", "key": "k", "values": ["x"]}),
                "StringBeginsWith: x",
            ),
            (
                json!({"operatorType": "IsNullOrUndefined", "key": "k"}),
                "IsNullOrUndefined does not want it",
            ),
            (
                json!({"operatorType": "StringIn", "key": "k", "values": many}),
                "allowed: v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, …",
            ),
        ];
        for (operator, want) in table {
            assert_eq!(told_of(operator), want);
        }
    }

    #[test]
    fn each_event_has_a_verdict_that_names_the_part() {
        let filter = read_filter(&json!({"filter": {
            "includedEventTypes": ["T"],
            "subjectBeginsWith": "/a",
            "advancedFilters": [
                {"operatorType": "NumberGreaterThan", "key": "data.n", "value": 5},
                {"operatorType": "StringIn", "key": "data.colour", "values": ["red"]},
            ],
        }}));
        let filter = filter.expect("valid");
        let event = |id: &str, event_type: &str, subject: &str, data: Value| {
            json!({"id": id, "eventType": event_type, "subject": subject, "data": data,
                "eventTime": "2026-01-02T03:04:05Z"})
        };
        let events = json!([
            event("1", "T", "/A/b", json!({"n": 6, "colour": "RED"})),
            event("2", "U", "/b", json!({"n": 5, "colour": "red"})),
            event("3", "T", "/a", json!({"n": 6})),
        ]);
        let answer = test(&topic(), &filter, &events).expect("tested");
        let written = serde_json::to_value(&answer).expect("JSON");
        let matched = json!({"index": 0, "id": "1", "matches": true, "refusedBy": []});
        assert_eq!(written["value"][0], matched);
        let part = |event: usize, part: usize| &answer.value[event].verdict.refused_by[part];
        let paths = |event: usize| -> Vec<_> {
            answer.value[event].verdict.refused_by.iter().map(|part| part.path.clone()).collect()
        };
        let advanced = |index| format!("filter.advancedFilters[{index}]");
        let types = "filter.includedEventTypes".to_owned();
        assert_eq!(paths(1), [types, "filter.subjectBeginsWith".to_owned(), advanced(0)]);
        assert_eq!(paths(2), [advanced(1)]);
        assert_eq!(part(1, 2).found, 5);
        assert_eq!(part(1, 2).message, "data.n is 5; NumberGreaterThan: 5");
        let missing = part(2, 0);
        assert_eq!((&missing.found, missing.is_there), (&Value::Null, Some(false)));
        assert_eq!(missing.message, "data.colour is missing; StringIn needs it");
        // One event by itself, and one that no publish would take.
        let one = test(&topic(), &filter, &events[0]).expect("tested");
        assert_eq!(one.value.len(), 1);
        let refused = test(&topic(), &filter, &json!([{"id": "1"}])).expect_err("no event");
        assert_eq!(refused.status(), 400);
    }
}
