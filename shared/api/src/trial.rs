//! Makes a trial delivery: one event for one event subscription, to see what its endpoint answers.
//! The event is read and packed as by a publish; nothing is stored.

pub mod explain;
pub mod sample;

use std::{borrow::Cow, sync::Arc};

use gridpost_core::publish::{
    PublishError,
    matching::Matcher,
    pack::{Acceptance, pack},
    read,
};
use gridpost_core::{
    delivery::{
        Delivery,
        probe::{Step, StepResult, Stepped},
    },
    event::{ParsedEvent, custom::Stamps},
    subscription::{EventSubscription, Filter, ProvisioningState, filter::Filters},
    time::Timestamp,
    topic::{Revision, Topic},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::Display;
use utoipa::ToSchema;
use uuid::Uuid;

use self::sample::refuse_too_large;
use crate::schema::stand_in;

/// A message size that no readable event exceeds.
const MESSAGE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// The delivery to send, and the filter's verdict.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The delivery, made whatever the filter says.
    pub delivery: Delivery,
    pub verdict: FilterVerdict,
}

/// Whether a filter matches an event, and which parts of it do not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterVerdict {
    /// Whether the filter wants the event.
    pub matches: bool,
    pub refused_by: Vec<FilterRefusal>,
}

/// A part of a filter that refuses an event.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterRefusal {
    /// Where it is in the document, such as filter.advancedFilters[0].
    pub path: String,
    /// The value that it found.
    pub found: Value,
    pub message: String,
    /// The operator of an advanced filter.
    pub operator_type: Option<String>,
    /// The key of an advanced filter.
    pub key: Option<String>,
    /// Whether the event has the key of an advanced filter.
    pub is_there: Option<bool>,
}

/// Verdicts on sample events, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TestResult {
    pub value: Vec<TestedEvent>,
}

/// The verdict on a sample event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TestedEvent {
    pub index: usize,
    pub id: String,
    #[serde(flatten)]
    pub verdict: FilterVerdict,
}

/// The verdicts of a topic's event subscriptions on an event, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    pub value: Vec<ExplainedSubscription>,
}

/// The verdict of an event subscription on an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedSubscription {
    pub event_subscription: String,
    /// Only an active one wants any event.
    pub state: SubscriptionState,
    #[serde(flatten)]
    pub verdict: FilterVerdict,
}

/// Whether an event subscription gets events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize, Deserialize, ToSchema)]
pub enum SubscriptionState {
    Active,
    Expired,
    AwaitingManualAction,
    Failed,
}

/// The result of a test event.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestEventSent {
    /// The delivery's id, which no log or list has.
    pub delivery: Uuid,
    #[serde(flatten)]
    pub verdict: FilterVerdict,
    pub outcome: String,
    pub http_status_code: Option<u16>,
    pub duration_in_ms: u64,
    /// The steps of the request, in order; empty where they are not known.
    pub steps: Vec<TestStep>,
    /// How a failed response began, escaped, where the Terraform variable failed_response_bytes keeps
    /// that.
    #[schema(max_length = 1_024)]
    pub response: Option<String>,
    /// Advice on a failure.
    pub advice: Option<String>,
}

/// A step of a request.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TestStep {
    #[schema(value_type = stand_in::Step)]
    pub step: Step,
    #[schema(value_type = stand_in::StepResult)]
    pub result: StepResult,
    /// How it failed.
    pub message: Option<String>,
}

impl From<Stepped> for TestStep {
    fn from((step, result, message): Stepped) -> Self {
        Self { step, result, message }
    }
}

/// The trial of an event, by itself or in an array of one, published at `now`; `None` if it is not
/// one event. `id` is for the publish, and for an event of a schema without ids.
/// Fails for an event that a publish would refuse.
pub fn trial(
    topic: &Topic,
    subscription: &EventSubscription,
    event: &str,
    now: Timestamp,
    id: Uuid,
) -> Result<Option<Trial>, PublishError> {
    refuse_too_large(event)?;
    let body = match event.trim_start().starts_with('[') {
        true => Cow::Borrowed(event),
        false => Cow::Owned(format!("[{event}]")),
    };
    let topic_id = topic.id();
    let events = read(topic, &topic_id, body.as_bytes(), Stamps { now, id: &mut || id })?;
    let [event] = events.as_slice() else { return Ok(None) };
    let filter = &subscription.filter;
    let filters =
        Filters::compile(topic.input_schema, topic.input_schema_mapping.as_ref(), [filter]);
    let verdict = FilterVerdict::of(filter, event, &filters.refusals(0, filter, event));
    let delivery = delivery(topic, subscription, &events, now, id);
    Ok(delivery.map(|delivery| Trial { delivery, verdict }))
}

/// The delivery that a publish would make if the event subscription matched everything.
fn delivery(
    topic: &Topic,
    subscription: &EventSubscription,
    events: &[ParsedEvent<'_>],
    now: Timestamp,
    id: Uuid,
) -> Option<Delivery> {
    let eager = EventSubscription {
        filter: Filter::default(),
        expires_at: None,
        provisioning_state: ProvisioningState::Succeeded,
        ..subscription.clone()
    };
    let matched =
        Matcher::new(topic.input_schema, topic.input_schema_mapping.as_ref(), &[Arc::new(eager)])
            .match_events(events, now);
    let acceptance =
        Acceptance { id, time: now, revision: Revision::default(), trace_parent: None };
    let packed = pack(&matched.matches, events, acceptance, MESSAGE_BYTES_MAX);
    packed.unsent().next().map(|one| packed.delivery(&one))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::subscription::read_filter;
    use gridpost_core::{
        event::DeliverySchema,
        fixtures::{subscription, topic},
    };

    const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

    fn of(subscription: &EventSubscription, event: &str) -> Result<Option<Trial>, PublishError> {
        trial(&topic(), subscription, event, NOW, Uuid::from_u128(7))
    }

    fn event(id: &str, data: &str) -> String {
        format!(
            r#"{{"id":"{id}","subject":"/b","eventType":"T","eventTime":"2026-01-02T03:04:05Z","data":{data}}}"#
        )
    }

    #[test]
    fn an_event_is_sent_whatever_the_filter_says_and_that_is_told() {
        let mut subscription = subscription("s");
        subscription.expires_at = Some(Timestamp::from_millis(1));
        let filter = read_filter(&json!({"filter": {"subjectBeginsWith": "/a"}}));
        subscription.filter = filter.expect("valid");
        for text in [event("1", "1.50"), format!(" [{}]", event("1", "1.50"))] {
            let Trial { delivery, verdict } =
                of(&subscription, &text).expect("read").expect("one event");
            assert_eq!((delivery.event_count(), &delivery.subscription), (1, &subscription.key));
            assert!(delivery.events()[0].get().contains(r#""data":1.50"#));
            let path = verdict.refused_by[0].path.as_str();
            assert_eq!((verdict.matches, path), (false, "filter.subjectBeginsWith"));
        }
        subscription.filter = Filter::default();
        subscription.delivery_schema = DeliverySchema::CloudEventSchemaV1_0;
        let text = event("1", "{}");
        let Trial { delivery, verdict } = of(&subscription, &text).expect("read").expect("one");
        assert!(delivery.events()[0].get().contains(r#""specversion":"1.0""#));
        assert_eq!(verdict, FilterVerdict { matches: true, refused_by: Vec::new() });
    }

    #[test]
    fn what_a_publish_refuses_is_refused_and_what_it_takes_is_taken() {
        let deep =
            |depth: usize| event("1", &format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        // the text, whether a publish takes it, and whether it is one event
        let twice = event("1", "1").replace(r#""id":"1""#, r#""id":"1","id":"2""#);
        let large = event("1", &format!("\"{}\"", "x".repeat(1_100_000)));
        let table = [
            (event("1", "1e400"), true),
            (event("1", r#"{"a":1,"a":2}"#), true),
            (event("1", "null").replace(r#""eventType""#, r#""topic":null,"eventType""#), true),
            (deep(200), true),
            (twice, false),
            (large, false),
            ("{}".to_owned(), false),
            ("5".to_owned(), false),
        ];
        for (text, is_taken) in table {
            let (topic_id, body) = (topic().id(), format!("[{text}]"));
            let stamps = Stamps { now: NOW, id: &mut Uuid::nil };
            let published = read(&topic(), &topic_id, body.as_bytes(), stamps).map(|_| ());
            let shown = &text[..text.len().min(200)];
            assert_eq!(published.is_ok(), is_taken || text.len() > 1_000_000, "{shown}");
            assert_eq!(of(&subscription("s"), &text).is_ok(), is_taken, "{shown}");
        }
        let two = format!("[{},{}]", event("1", "1"), event("2", "2"));
        for text in ["[]", &two] {
            assert!(of(&subscription("s"), text).expect("read").is_none(), "{text}");
        }
    }
}
