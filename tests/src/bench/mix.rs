//! What is measured, as data.

use gridpost_core::{subscription::EventSubscription, topic::Topic};
use serde_json::{Value, json};

use super::filters::Values;

/// How publishes follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A fixed number of publishes is in flight; each arrival starts the next one.
    Closed {
        /// Publishes on their way.
        publishes: usize,
    },
    /// A fixed number of publishes per second, whatever happens to them.
    Open {
        /// Publishes in a second.
        per_second: u32,
    },
    /// First all publishes, then all deliveries: dispatch gets full batches.
    Backlog,
}

/// What is wrong with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Nothing: it answers 200.
    Works,
    /// It answers 503.
    Fails,
    /// Nothing listens at its port.
    Dead,
}

/// How `gridpost dev` is built and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Whether it is a debug build, as `cargo run -- dev` makes it.
    pub is_debug: bool,
    /// Whether every commit waits for the disk.
    pub is_synced: bool,
}

/// One thing to measure.
#[derive(Clone, Debug)]
pub struct Mix {
    /// What it is called.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// How publishes follow each other.
    pub load: Load,
    /// Events in a publish.
    pub events_per_publish: usize,
    /// Bytes of an event as it is published.
    pub event_bytes: usize,
    /// Topics, published to in turn.
    pub topics: usize,
    /// Event subscriptions of each topic.
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
    /// What is wrong with the first topic's endpoints.
    pub first_topic: Conduct,
    /// Whether endpoints are called over TLS.
    pub https: bool,
    /// The deployment's largest queue message in bytes.
    pub message_bytes_max: usize,
    /// How to run `gridpost dev` instead of the functions, if the mix measures it.
    pub dev: Option<Host>,
}

const KILOBYTE: usize = 1_024;

/// The defaults of a mix: one event of 1 KiB for one endpoint.
const PLAIN: Mix = Mix {
    name: "",
    about: "",
    load: Load::Closed { publishes: 16 },
    events_per_publish: 1,
    event_bytes: KILOBYTE,
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
};

/// A backlog of events of 1 KiB.
const BACKLOG: Mix = Mix { load: Load::Backlog, ..PLAIN };

/// At 50 events in a second.
const OPEN: Mix = Mix { load: Load::Open { per_second: 50 }, ..PLAIN };

/// One event of 1 KiB for one endpoint, by `gridpost dev` as it is started without flags.
const DEV: Mix = Mix {
    load: Load::Closed { publishes: 64 },
    dev: Some(Host { is_debug: false, is_synced: false }),
    ..PLAIN
};

/// The same, with `--sync full`.
const DEV_SYNCED: Mix = Mix { dev: Some(Host { is_debug: false, is_synced: true }), ..DEV };

/// The same, as `cargo run -- dev` builds it.
const DEV_DEBUG: Mix = Mix { dev: Some(Host { is_debug: true, is_synced: false }), ..DEV };

/// All mixes.
pub const MIXES: &[Mix] = &[
    Mix { name: "one", about: "one event per publish, saturated", ..PLAIN },
    Mix { name: "one-50", about: "50 publishes of one event in a second", ..OPEN },
    Mix { name: "one-backlog", about: "one event per publish, full batches", ..BACKLOG },
    Mix { name: "ten", about: "10 events per publish, saturated", events_per_publish: 10, ..PLAIN },
    Mix {
        name: "ten-backlog",
        about: "10 events per publish, full batches",
        events_per_publish: 10,
        ..BACKLOG
    },
    Mix {
        name: "hundred",
        about: "100 events per publish, saturated",
        load: Load::Closed { publishes: 4 },
        events_per_publish: 100,
        ..PLAIN
    },
    Mix {
        name: "hundred-backlog",
        about: "100 events per publish, full batches",
        events_per_publish: 100,
        ..BACKLOG
    },
    Mix {
        name: "batch",
        about: "100 events per publish to an endpoint that takes 100 in a request",
        load: Load::Closed { publishes: 4 },
        events_per_publish: 100,
        batching: Some((100, 1_024)),
        ..PLAIN
    },
    Mix {
        name: "fan-10",
        about: "one event to 10 event subscriptions",
        load: Load::Closed { publishes: 8 },
        subscriptions: 10,
        ..PLAIN
    },
    Mix {
        name: "fan-100",
        about: "one event to 100 event subscriptions",
        load: Load::Closed { publishes: 2 },
        subscriptions: 100,
        ..PLAIN
    },
    Mix {
        name: "custom-schema",
        about: "one event of the publisher's own schema, mapped",
        custom_schema: true,
        ..PLAIN
    },
    Mix {
        name: "filters",
        about: "one event to one of 500 event subscriptions with 25 filter values each",
        subscriptions: 500,
        wanting: 1,
        values: Values::Mixed,
        ..PLAIN
    },
    Mix { name: "https", about: "one event per publish over TLS", https: true, ..PLAIN },
    Mix { name: "https-backlog", about: "full batches over TLS", https: true, ..BACKLOG },
    Mix {
        name: "failing",
        about: "20 endpoints, one of which answers 503",
        topics: 20,
        first_topic: Conduct::Fails,
        ..PLAIN
    },
    Mix { name: "neighbours", about: "10 endpoints at 50 events in a second", topics: 10, ..OPEN },
    Mix {
        name: "neighbour-dead",
        about: "the same with one of them dead",
        topics: 10,
        first_topic: Conduct::Dead,
        ..OPEN
    },
    Mix { name: "bytes-200", about: "events of 200 B", event_bytes: 200, ..PLAIN },
    Mix {
        name: "bytes-64k",
        about: "events of 64 KiB",
        load: Load::Closed { publishes: 8 },
        event_bytes: 64 * KILOBYTE,
        ..PLAIN
    },
    Mix {
        name: "bytes-1m",
        about: "events of 1 MiB, through the payload bucket",
        load: Load::Closed { publishes: 4 },
        event_bytes: 1_024 * KILOBYTE - 8_192,
        ..PLAIN
    },
    Mix {
        name: "bytes-1m-queued",
        about: "the same in queue messages of 1 MiB",
        load: Load::Closed { publishes: 4 },
        event_bytes: 1_024 * KILOBYTE - 8_192,
        message_bytes_max: 1_024 * KILOBYTE,
        ..PLAIN
    },
    Mix { name: "dev", about: "`gridpost dev`, one event per publish, saturated", ..DEV },
    Mix { name: "dev-50", about: "the same at 50 in a second", load: OPEN.load, ..DEV },
    Mix { name: "dev-full", about: "`--sync full`, saturated", ..DEV_SYNCED },
    Mix {
        name: "dev-full-50",
        about: "`--sync full` at 50 in a second",
        load: OPEN.load,
        ..DEV_SYNCED
    },
    Mix { name: "dev-debug", about: "its debug build, saturated", ..DEV_DEBUG },
    Mix {
        name: "dev-debug-50",
        about: "its debug build at 50 in a second",
        load: OPEN.load,
        ..DEV_DEBUG
    },
];

/// The access key of every topic of a benchmark.
pub const KEY: &str = "YmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmVuY2gtYmU=";

/// An endpoint of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its topic.
    pub topic: usize,
    /// Its number among all.
    pub number: usize,
    /// What is wrong with it.
    pub conduct: Conduct,
    /// Whether its event subscription wants the events.
    pub wants: bool,
}

impl Mix {
    /// The mix of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MIXES.iter().find(|mix| mix.name == name)
    }

    /// All endpoints by number.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |number: usize| {
            let topic = number / self.subscriptions;
            let conduct = if topic == 0 { self.first_topic } else { Conduct::Works };
            Endpoint { topic, number, conduct, wants: number % self.subscriptions < self.wanting }
        };
        (0..self.topics * self.subscriptions).map(endpoint).collect()
    }

    /// How many working endpoints want an event of a topic.
    pub fn arrivals_of(&self, topic: usize) -> usize {
        let endpoints = self.endpoints().into_iter();
        let works = |endpoint: &Endpoint| endpoint.wants && endpoint.conduct == Conduct::Works;
        endpoints.filter(|endpoint| endpoint.topic == topic).filter(works).count()
    }

    /// The items of the configuration table, in the form in which the product stores them.
    pub fn items(&self, url: impl Fn(&Endpoint) -> String) -> serde_json::Result<Vec<Value>> {
        let item = |pk: String, sk: String, document: String| {
            json!({
                "pk": { "S": pk }, "sk": { "S": sk }, "revision": { "N": "1" },
                "createdAt": { "N": "0" }, "document": { "S": document },
                "changes": { "S": r#"{"latest":[],"after":0}"# },
            })
        };
        let mut items = Vec::new();
        for topic in 0..self.topics {
            let name = topic_name(topic);
            let document = serde_json::to_string(&stored_topic(&name, self.custom_schema)?)?;
            items.push(item(format!("TOPIC#{name}"), "topic".to_owned(), document));
            let keys = serde_json::to_string(&[KEY, KEY])?;
            items.push(item(format!("KEYS#{name}"), "keys".to_owned(), keys));
        }
        for endpoint in self.endpoints() {
            let subscription = self.subscription(&endpoint, &url(&endpoint))?;
            let document = serde_json::to_string(&subscription)?;
            let pk = format!("TOPIC#{}", subscription.key.topic);
            items.push(item(pk, format!("subscription#{}", subscription.key.name), document));
        }
        Ok(items)
    }

    /// The event subscription of an endpoint, as it is stored.
    pub fn subscription(
        &self,
        endpoint: &Endpoint,
        url: &str,
    ) -> serde_json::Result<EventSubscription> {
        let batching = self.batching.map(
            |(events, kilobytes)| json!({ "maxEvents": events, "preferredKilobytes": kilobytes }),
        );
        let by_subject = !endpoint.wants && self.values == Values::None;
        let filter = json!({
            "subjectBeginsWith": if by_subject { "nothing/begins/so" } else { "" },
            "advanced": self.values.advanced(endpoint.number, endpoint.wants),
        });
        serde_json::from_value(json!({
            "key": { "topic": topic_name(endpoint.topic), "name": format!("s{}", endpoint.number) },
            "uid": uuid::Uuid::from_u128(endpoint.number as u128 + 1),
            "endpoint": { "type": "WebHook", "url": url },
            "batching": batching,
            "filter": filter,
            "deliverySchema": "EventGridSchema",
            "retryPolicy": { "maxAttempts": 30, "timeToLiveMinutes": 1440 },
            "probationPolicy": "EventGrid",
            "deadLetter": null,
            "labels": [],
            "expiresAt": null,
            "provisioningState": "Succeeded",
            "createdAt": 0,
        }))
    }
}

/// The name of a topic by its number.
pub fn topic_name(number: usize) -> String {
    format!("bench-{number}")
}

fn stored_topic(name: &str, custom_schema: bool) -> serde_json::Result<Topic> {
    let mapping = json!({
        "id": "order",
        "eventTime": "at",
        "eventType": { "sourceField": "what" },
        "subject": { "sourceField": "about" },
        "dataVersion": { "defaultValue": "1.0" },
    });
    serde_json::from_value(json!({
        "name": name,
        "kind": "custom",
        "inputSchema": if custom_schema { "CustomEventSchema" } else { "EventGridSchema" },
        "inputSchemaMapping": custom_schema.then_some(mapping),
        "disableLocalAuth": false,
        "deliveryProfile": "basic",
        "createdAt": 0,
        "revision": 1,
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mix_has_a_name_of_its_own_and_can_be_stored() {
        let names: BTreeSet<_> = MIXES.iter().map(|mix| mix.name).collect();
        assert_eq!(names.len(), MIXES.len());
        for mix in MIXES {
            let items = mix.items(|_| "https://example.com/hook".to_owned());
            let items = items.unwrap_or_else(|error| panic!("{}: {error}", mix.name));
            // A topic, its keys, and its event subscriptions.
            assert_eq!(items.len(), mix.topics * (2 + mix.subscriptions), "{}", mix.name);
        }
    }

    #[test]
    fn trouble_is_the_first_topics() {
        let mix = Mix { topics: 2, subscriptions: 3, first_topic: Conduct::Fails, ..PLAIN };
        let conducts: Vec<_> = mix.endpoints().iter().map(|endpoint| endpoint.conduct).collect();
        assert_eq!(conducts[..3], [Conduct::Fails; 3]);
        assert_eq!(conducts[3..], [Conduct::Works; 3]);
        assert_eq!((mix.arrivals_of(0), mix.arrivals_of(1)), (0, 3));
        let few = Mix { subscriptions: 500, wanting: 1, ..PLAIN };
        assert_eq!((few.arrivals_of(0), few.endpoints().len()), (1, 500));
    }
}
