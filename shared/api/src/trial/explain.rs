//! Explains which event subscriptions of a topic match an event, and why the others do not.

use std::sync::Arc;

use gridpost_core::publish::{PublishError, read};
use gridpost_core::{
    event::custom::Stamps,
    subscription::{EventSubscription, ProvisioningState, filter::Filters},
    time::Timestamp,
    topic::Topic,
};
use uuid::Uuid;

use super::{
    Explained, ExplainedSubscription, FilterVerdict, SubscriptionState, sample::refuse_too_large,
};

/// The verdict of every event subscription, in their order, on an event that is published at `now`.
/// `event` is its text.
/// Fails for an event that a publish would refuse.
pub fn explain(
    topic: &Topic,
    subscriptions: &[Arc<EventSubscription>],
    event: &str,
    now: Timestamp,
) -> Result<Explained, PublishError> {
    refuse_too_large(event)?;
    let body = format!("[{event}]");
    let topic_id = topic.id();
    // Stamps do not matter: filters see the event as it was published.
    let stamps = Stamps { now, id: &mut Uuid::nil };
    let events = read(topic, &topic_id, body.as_bytes(), stamps)?;
    let filters = subscriptions.iter().map(|subscription| &subscription.filter);
    let filters =
        Filters::compile(topic.input_schema, topic.input_schema_mapping.as_ref(), filters);
    let verdict = |(position, subscription): (usize, &Arc<EventSubscription>)| {
        let event = events.first()?;
        let filter = &subscription.filter;
        let mut verdict =
            FilterVerdict::of(filter, event, &filters.refusals(position, filter, event));
        let state = state(subscription, now);
        verdict.matches &= state == SubscriptionState::Active;
        let event_subscription = subscription.key.name.clone();
        Some(ExplainedSubscription { event_subscription, state, verdict })
    };
    Ok(Explained { value: subscriptions.iter().enumerate().filter_map(verdict).collect() })
}

/// The state of an event subscription: only an active one matches any event.
fn state(subscription: &EventSubscription, now: Timestamp) -> SubscriptionState {
    match subscription.state(now) {
        _ if subscription.is_expired(now) => SubscriptionState::Expired,
        ProvisioningState::Succeeded => SubscriptionState::Active,
        ProvisioningState::AwaitingManualAction => SubscriptionState::AwaitingManualAction,
        ProvisioningState::Failed => SubscriptionState::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::subscription::read_filter;
    use gridpost_core::{
        event::event_grid,
        fixtures::{subscription, topic},
        publish::matching::Matcher,
        subscription::Filter,
        topic::InputSchema,
    };

    const NOW: Timestamp = Timestamp::from_millis(10_000);

    fn event(event_type: &str, subject: &str, n: Option<i64>) -> Value {
        json!({"id": "1", "eventType": event_type, "subject": subject,
            "eventTime": "2026-01-02T03:04:05Z", "data": n.map(|n| json!({"n": n}))})
    }

    #[test]
    fn verdict_table() {
        use SubscriptionState::{Active, Expired, Failed};
        let mut all = ["wants", "type", "number", "expired", "pending"].map(subscription);
        let filter = json!({"filter": {"includedEventTypes": ["U"]}});
        all[1].filter = read_filter(&filter).expect("a filter");
        let filter = json!({"filter": {"advancedFilters":
            [{"operatorType": "NumberGreaterThan", "key": "data.n", "value": 5}]}});
        all[2].filter = read_filter(&filter).expect("a filter");
        all[3].expires_at = Some(NOW);
        all[4].provisioning_state = ProvisioningState::Failed;
        let all = all.map(Arc::new);
        let answer =
            explain(&topic(), &all, &event("T", "s", Some(5)).to_string(), NOW).expect("explained");
        let table = [
            ("wants", true, Active, None),
            ("type", false, Active, Some("filter.includedEventTypes")),
            ("number", false, Active, Some("filter.advancedFilters[0]")),
            ("expired", false, Expired, None),
            ("pending", false, Failed, None),
        ];
        for (found, (name, matches, state, path)) in answer.value.iter().zip(table) {
            let ExplainedSubscription { event_subscription, state: found_state, verdict } = found;
            assert_eq!(event_subscription, name);
            assert_eq!((verdict.matches, *found_state), (matches, state), "{name}");
            let refused_by = verdict.refused_by.first();
            assert_eq!(refused_by.map(|part| part.path.as_str()), path, "{name}");
        }
        assert_eq!(answer.value[2].verdict.refused_by[0].found, 5);
        let refused = explain(&topic(), &all, r#"{"id":"1"}"#, NOW).expect_err("no event");
        assert_eq!(refused.status(), 400);
    }

    fn filters() -> impl Strategy<Value = Filter> {
        let types = prop::option::of(prop::collection::vec("[TU]", 1..3));
        let numbers = prop::option::of((0..3_i64, prop::bool::ANY));
        (types, "[ab]{0,2}", "[ab]{0,2}", prop::bool::ANY, numbers).prop_map(
            |(types, begins, ends, case, number)| {
                let advanced = number.map(|(value, is_negative)| {
                    let operator = if is_negative { "NumberNotIn" } else { "NumberIn" };
                    json!({"operatorType": operator, "key": "data.n", "values": [value]})
                });
                read_filter(&json!({"filter": {
                    "includedEventTypes": types, "subjectBeginsWith": begins,
                    "subjectEndsWith": ends, "isSubjectCaseSensitive": case,
                    "advancedFilters": Value::from_iter(advanced),
                }}))
                .expect("a filter")
            },
        )
    }

    proptest! {
        #[test]
        fn verdicts_are_those_of_matching(
            filters in prop::collection::vec((filters(), 0..3_i64, prop::bool::ANY), 0..8),
            event_type in "[TU]",
            subject in "[abAB]{0,3}",
            n in prop::option::of(0..3_i64),
        ) {
            let subscriptions = filters.into_iter().enumerate().map(|(index, (filter, lives, ok))| {
                let state =
                    if ok { ProvisioningState::Succeeded } else { ProvisioningState::Failed };
                let ends = NOW + Duration::from_secs(1);
                Arc::new(EventSubscription {
                    filter,
                    provisioning_state: state,
                    expires_at: [None, Some(NOW), Some(ends)][usize::try_from(lives).expect("few")],
                    ..subscription(&format!("s{index}"))
                })
            });
            let subscriptions: Vec<_> = subscriptions.collect();
            let event = event(&event_type, &subject, n);
            let body = format!("[{event}]");
            let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
            let matched = Matcher::new(InputSchema::EventGridSchema, None, &subscriptions)
                .match_events(&events, NOW);
            let want: Vec<_> =
                matched.matches.iter().map(|it| it.subscription.key.name.clone()).collect();
            let answer = explain(&topic(), &subscriptions, &event.to_string(), NOW).expect("explained");
            prop_assert_eq!(answer.value.len(), subscriptions.len());
            let wants = answer.value.into_iter().filter(|it| it.verdict.matches);
            let found: Vec<_> = wants.map(|it| it.event_subscription).collect();
            prop_assert_eq!(found, want);
        }
    }
}
