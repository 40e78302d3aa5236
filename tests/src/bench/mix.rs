//! Measurements as data: the mixes in `mixes.json`, and what each stores and expects.

use anyhow::Context;
use gridpost_core::{
    fixtures,
    secret::Secret,
    subscription::{Batching, Endpoint as Destination, EventSubscription, SubscriptionKey},
    topic::Topic,
};
use serde::Deserialize;
use serde_json::json;

use super::filters::Values;

/// How publishes follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Load {
    /// Keeps this number of publishes in flight: each arrival starts the next one.
    Closed(usize),
    /// Makes this number of publishes per second, whatever happens to them.
    Open(u32),
    /// First all publishes, then all deliveries: dispatch gets full batches.
    Backlog,
}

/// An endpoint's misconduct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Conduct {
    /// Answers 200.
    Works,
    /// Answers 503.
    Fails,
    /// Nothing listens at its port.
    Dead,
}

/// One thing to measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Mix {
    pub name: String,
    /// The claim that it shows.
    pub about: String,
    /// How publishes follow each other.
    pub load: Load,
    pub events_per_publish: usize,
    /// Bytes of an event as it is published.
    pub event_bytes: usize,
    /// Topics, published to in turn.
    pub topics: usize,
    pub subscriptions: usize,
    /// How many of them match the events; the others' filters refuse them.
    pub wanting: usize,
    /// The values by which each event subscription filters; a filter that refuses does so at the
    /// last one.
    pub values: Values,
    /// Whether events have a custom schema, with a mapping.
    pub custom_schema: bool,
    /// Most events of a request and its preferred kilobytes, if batching is on.
    pub batching: Option<(u32, u32)>,
    /// The conduct of the first topic's endpoints.
    pub first_topic: Conduct,
    /// Whether endpoints are called over TLS.
    pub https: bool,
    /// The deployment's largest queue message in bytes.
    pub message_bytes_max: usize,
    /// The `--sync` of `gridpost dev`, which the mix measures instead of the functions.
    pub dev: Option<String>,
}

/// One event of 1 KiB for one endpoint.
impl Default for Mix {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            load: Load::Closed(16),
            events_per_publish: 1,
            event_bytes: 1_024,
            topics: 1,
            subscriptions: 1,
            wanting: usize::MAX,
            values: Values::None,
            custom_schema: false,
            batching: None,
            first_topic: Conduct::Works,
            https: false,
            message_bytes_max: 262_144,
            dev: None,
        }
    }
}

/// The access key of every topic of a benchmark.
pub const KEY: &str = "YmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmU=";

#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub topic: usize,
    pub number: usize,
    pub conduct: Conduct,
    /// Whether its event subscription wants the events.
    pub wants: bool,
}

impl Mix {
    /// All mixes.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        serde_json::from_str(include_str!("mixes.json")).context("the mixes are not of their form")
    }

    /// The mix of that name.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        let found = Self::all()?.into_iter().find(|mix| mix.name == name);
        found.with_context(|| format!("there is no mix '{name}'; --list shows all"))
    }

    pub fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |number: usize| {
            let topic = number / self.subscriptions;
            let conduct = if topic == 0 { self.first_topic } else { Conduct::Works };
            Endpoint { topic, number, conduct, wants: number % self.subscriptions < self.wanting }
        };
        (0..self.topics * self.subscriptions).map(endpoint).collect()
    }

    /// The documents of the configuration table with their keys, in the form in which the product
    /// stores them.
    pub fn documents(
        &self,
        url: impl Fn(&Endpoint) -> String,
    ) -> serde_json::Result<Vec<([String; 2], String)>> {
        let mut documents = Vec::new();
        for topic in 0..self.topics {
            let topic = stored_topic(topic_name(topic), self.custom_schema)?;
            let [of_topic, of_keys] =
                ["TOPIC", "KEYS"].map(|kind| format!("{kind}#{}", topic.name));
            documents.push(([of_topic, "topic".to_owned()], serde_json::to_string(&topic)?));
            documents.push(([of_keys, "keys".to_owned()], serde_json::to_string(&[KEY, KEY])?));
        }
        for endpoint in self.endpoints() {
            let subscription = self.subscription(&endpoint, &url(&endpoint))?;
            let SubscriptionKey { topic, name } = &subscription.key;
            let keys = [format!("TOPIC#{topic}"), format!("subscription#{name}")];
            documents.push((keys, serde_json::to_string(&subscription)?));
        }
        Ok(documents)
    }

    /// The event subscription of an endpoint, as it is stored.
    pub fn subscription(
        &self,
        endpoint: &Endpoint,
        url: &str,
    ) -> serde_json::Result<EventSubscription> {
        let name = format!("s{}", endpoint.number);
        let by_subject = !endpoint.wants && self.values == Values::None;
        let filter = json!({
            "subjectBeginsWith": if by_subject { "nothing/begins/so" } else { "" },
            "advanced": self.values.advanced(endpoint.number, endpoint.wants),
        });
        let batching = self
            .batching
            .map(|(max_events, preferred_kilobytes)| Batching { max_events, preferred_kilobytes });
        Ok(EventSubscription {
            key: SubscriptionKey { topic: topic_name(endpoint.topic), name: name.clone() },
            uid: uuid::Uuid::from_u128(endpoint.number as u128 + 1),
            endpoint: Destination::WebHook { url: Secret::new(url) },
            batching,
            filter: serde_json::from_value(filter)?,
            ..fixtures::subscription(&name)
        })
    }
}

pub fn topic_name(number: usize) -> String {
    format!("bench-{number}")
}

fn stored_topic(name: String, has_custom_schema: bool) -> serde_json::Result<Topic> {
    let mut topic = Topic { name, ..fixtures::topic() };
    if has_custom_schema {
        topic.input_schema = serde_json::from_value(json!("CustomEventSchema"))?;
        topic.input_schema_mapping = serde_json::from_value(json!({
            "id": "order",
            "eventTime": "at",
            "eventType": { "sourceField": "what" },
            "subject": { "sourceField": "about" },
            "dataVersion": { "defaultValue": "1.0" },
        }))?;
    }
    Ok(topic)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mix_has_a_name_of_its_own_and_can_be_stored() {
        let mixes = Mix::all().expect("mixes");
        let names: BTreeSet<_> = mixes.iter().map(|mix| &mix.name).collect();
        assert_eq!(names.len(), mixes.len());
        for mix in &mixes {
            let stored = mix.documents(|_| "https://example.com/hook".to_owned()).expect(&mix.name);
            // A topic, its keys, and its event subscriptions.
            assert_eq!(stored.len(), mix.topics * (2 + mix.subscriptions), "{}", mix.name);
        }
    }
}
