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
    delivery::Delivery,
    event::{ParsedEvent, custom::Stamps},
    subscription::{EventSubscription, Filter, ProvisioningState, filter::Filters},
    time::Timestamp,
    topic::{Revision, Topic},
};
use serde_json::{Value, json};
use uuid::Uuid;

use self::sample::{refuse_too_large, refused_by};

/// A message size that no readable event exceeds.
const MESSAGE_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// The delivery to send, and the filter's verdict.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The delivery, made whatever the filter says.
    pub delivery: Delivery,
    /// Whether the filter matches the event, and which parts of it do not, as JSON: `matches` and
    /// `refusedBy`.
    pub verdict: Value,
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
    let refusals = filters.refusals(0, filter, event);
    let refused_by = refusals.iter().map(|part| refused_by(filter, event, part));
    let verdict = json!({
        "matches": refusals.is_empty(),
        "refusedBy": refused_by.collect::<Value>(),
    });
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
            let path = &verdict["refusedBy"][0]["path"];
            assert_eq!(
                (&verdict["matches"], path),
                (&json!(false), &json!("filter.subjectBeginsWith"))
            );
        }
        subscription.filter = Filter::default();
        subscription.delivery_schema = DeliverySchema::CloudEventSchemaV1_0;
        let text = event("1", "{}");
        let Trial { delivery, verdict } = of(&subscription, &text).expect("read").expect("one");
        assert!(delivery.events()[0].get().contains(r#""specversion":"1.0""#));
        assert_eq!(verdict, json!({"matches": true, "refusedBy": []}));
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
