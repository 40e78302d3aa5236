//! Decides which event subscriptions get an event, by naive filters that share no code with the
//! compiled ones.

use gridpost_api::subscription::write;
use gridpost_core::{
    event::custom::Stamps, publish, subscription::EventSubscription, time::Timestamp, topic::Topic,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Check;
use gridpost_fuzz::naive_filter;
use gridpost_testkit::history::Published;

/// Checks every event that was published to a topic whose event subscriptions have filters.
pub(super) fn check(check: &mut Check<'_>) {
    let mut failures = Vec::new();
    for (topic, subscriptions) in &check.remains.topics {
        let history = &check.remains.history;
        let published = history.published.iter().filter(|(_, found)| found.topic == topic.name);
        let asked = subscriptions.iter().filter(|subscription| {
            let key = &subscription.key;
            !history.deleted.contains_key(key)
                && check.remains.consents.iter().all(|consent| consent.of != *key)
        });
        let asked: Vec<_> = asked.map(|one| (one, document(topic, one))).collect();
        for (name, published) in published {
            failures.extend(one(check, topic, &asked, (name, published)));
        }
    }
    failures.into_iter().for_each(|failure| check.fail(failure));
}

fn document(topic: &Topic, subscription: &EventSubscription) -> Value {
    json!(write(subscription, topic.delivery_profile).properties.settings.filter)
}

fn one(
    check: &Check<'_>,
    topic: &Topic,
    asked: &[(&EventSubscription, Value)],
    (name, published): (&str, &Published),
) -> Vec<String> {
    let topic_id = topic.id();
    let stamps = Stamps { now: Timestamp::default(), id: &mut Uuid::nil };
    let body = format!("[{}]", published.text);
    let events = match publish::read(topic, &topic_id, body.as_bytes(), stamps) {
        Ok(events) => events,
        Err(error) => return vec![format!("{name} can't be read: {error}")],
    };
    let history = &check.remains.history;
    let is_confirmed = history.confirmed_events.contains(name);
    let judge = |(subscription, document): &(&EventSubscription, Value)| {
        let key = &subscription.key;
        let refused = naive_filter::refused_by(document, topic.input_schema, &events[0])?;
        match (history.carrier(key, name).is_some(), refused.is_empty()) {
            (true, false) => Some(format!("{name} goes to {key}, though {refused:?} refuse it")),
            (false, true) if is_confirmed => {
                Some(format!("{name} was accepted, but does not go to {key}, which wants it"))
            }
            _ => None,
        }
    };
    asked.iter().filter_map(judge).collect()
}
