//! The world of the tests: a store that behaves like the table, an endpoint that answers, a clock
//! that stands, dice that count.

pub(super) mod dead_letters;
pub(super) mod waiting;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{resource_check::Finding, state::DeliveryState},
    retry::{outcome::Outcome, probation::Health},
    subscription::{EventSubscription, Resource, SubscriptionKey},
    time::Timestamp,
    topic::Topic,
};
use gridpost_ports::{
    Clock, Configuration, DELETED_AT_ONCE_MAX, Dice, EndpointHealths, HandshakeClient,
    HandshakeError, HandshakeRequest, HandshakeResponse, PortError, ResourceChecker, Saved,
    SubscriptionStore, TopicStore, WaitingDeliveries,
};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use uuid::Uuid;

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

/// What is stored, by name. Every topic carries its revision.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Tables {
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) subscriptions: BTreeMap<SubscriptionKey, EventSubscription>,
    pub(super) waiting: Vec<DeliveryState>,
    pub(super) healths: BTreeMap<Uuid, Health>,
}

/// What somebody else does to the tables.
type Interference = Box<dyn FnOnce(&mut Tables) + Send>;

/// A store that keeps the promises of the ports.
#[derive(Default)]
pub(super) struct MemoryStore {
    pub(super) tables: Mutex<Tables>,
    /// Each happens just before one of the next writes.
    pub(super) interference: Mutex<VecDeque<Interference>>,
    /// So many calls succeed, then all fail; `None`: all succeed.
    pub(super) calls_left: Mutex<Option<u32>>,
}

impl MemoryStore {
    pub(super) fn interfere(&self, interference: impl FnOnce(&mut Tables) + Send + 'static) {
        self.interference.lock().expect("no panic").push_back(Box::new(interference));
    }

    fn call(&self) -> Result<(), PortError> {
        match &mut *self.calls_left.lock().expect("no panic") {
            None => Ok(()),
            Some(0) => Err(PortError::new("dynamodb:Fake", "out of calls")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> Result<T, PortError> {
        self.call()?;
        Ok(read(&self.tables.lock().expect("no panic")))
    }

    /// Writes if the topic still is as it was read.
    fn write(&self, topic: &Topic, write: impl FnOnce(&mut Tables)) -> Result<Saved, PortError> {
        self.call()?;
        let interference = self.interference.lock().expect("no panic").pop_front();
        let mut tables = self.tables.lock().expect("no panic");
        if let Some(interference) = interference {
            interference(&mut tables);
        }
        let stored = tables.topics.get(&topic.name);
        let unchanged = match stored {
            None => topic.revision == 0,
            Some(stored) => {
                stored.revision == topic.revision && stored.created_at == topic.created_at
            }
        };
        if !unchanged {
            return Ok(Saved::Conflict);
        }
        write(&mut tables);
        Ok(Saved::Written)
    }
}

/// Stores the topic at its next revision.
fn next_revision(tables: &mut Tables, topic: &Topic) {
    let revision = topic.revision + 1;
    tables.topics.insert(topic.name.clone(), Topic { revision, ..topic.clone() });
}

#[async_trait]
impl Configuration for MemoryStore {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        self.read(|tables| tables.topics.get(name).cloned())
    }

    async fn subscriptions(&self, topic: &str) -> Result<Vec<EventSubscription>, PortError> {
        self.read(|tables| {
            let all = tables.subscriptions.values();
            all.filter(|subscription| subscription.key.topic == topic).cloned().collect()
        })
    }
}

#[async_trait]
impl TopicStore for MemoryStore {
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError> {
        self.read(|tables| {
            let behind = tables.topics.values().filter(|it| after.is_none_or(|at| *it.name > *at));
            behind.take(most).cloned().collect()
        })
    }

    async fn save(&self, topic: &Topic) -> Result<Saved, PortError> {
        self.write(topic, |tables| next_revision(tables, topic))
    }

    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError> {
        self.write(topic, |tables| {
            let orphans = tables.subscriptions.keys().any(|key| key.topic == topic.name);
            assert!(!orphans, "a topic was deleted before its event subscriptions");
            tables.topics.remove(&topic.name);
        })
    }
}

#[async_trait]
impl SubscriptionStore for MemoryStore {
    async fn subscription(
        &self,
        key: &SubscriptionKey,
    ) -> Result<Option<EventSubscription>, PortError> {
        self.read(|tables| tables.subscriptions.get(key).cloned())
    }

    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError> {
        self.write(topic, |tables| {
            next_revision(tables, topic);
            tables.subscriptions.insert(subscription.key.clone(), subscription.clone());
        })
    }

    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError> {
        assert!(names.len() <= DELETED_AT_ONCE_MAX, "more than a transaction takes");
        self.write(topic, |tables| {
            next_revision(tables, topic);
            for name in names {
                let key = SubscriptionKey { topic: topic.name.clone(), name: name.clone() };
                tables.subscriptions.remove(&key);
            }
        })
    }
}

#[async_trait]
impl WaitingDeliveries for MemoryStore {
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError> {
        self.read(|tables| {
            let of_it = tables.waiting.iter().filter(|state| state.subscription_uid == uid);
            let mut found: Vec<_> =
                of_it.filter(|state| after.is_none_or(|after| *state.place() > *after)).collect();
            found.sort_by_key(|state| state.place());
            found.into_iter().take(most).cloned().collect()
        })
    }

    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError> {
        Ok(self.waiting(uid, None, most).await?.len())
    }
}

#[async_trait]
impl EndpointHealths for MemoryStore {
    async fn load(&self, _: &SubscriptionKey, uid: Uuid) -> Result<Health, PortError> {
        self.read(|tables| tables.healths.get(&uid).cloned().unwrap_or_default())
    }

    async fn save(
        &self,
        _: &SubscriptionKey,
        uid: Uuid,
        health: &Health,
    ) -> Result<Saved, PortError> {
        self.call()?;
        let interference = self.interference.lock().expect("no panic").pop_front();
        let mut tables = self.tables.lock().expect("no panic");
        if let Some(interference) = interference {
            interference(&mut tables);
        }
        if tables.healths.get(&uid).map_or(0, |stored| stored.revision) != health.revision {
            return Ok(Saved::Conflict);
        }
        let revision = health.revision + 1;
        tables.healths.insert(uid, Health { revision, ..health.clone() });
        Ok(Saved::Written)
    }
}

/// An endpoint that consents, until it is told not to.
#[derive(Default)]
pub(super) struct Endpoint {
    /// Whether it answers 200 and nothing else.
    pub(super) is_silent: Mutex<bool>,
    pub(super) denies: Mutex<bool>,
    pub(super) asked: Mutex<Vec<HandshakeRequest>>,
    /// The resources that were checked.
    pub(super) checked: Mutex<Vec<String>>,
    /// What is found of those whose names end so; others are there.
    pub(super) found: Mutex<Vec<(&'static str, Finding)>>,
}

#[async_trait]
impl ResourceChecker for Endpoint {
    async fn check(&self, resource: &Resource) -> Result<Finding, PortError> {
        self.checked.lock().expect("no panic").push(resource.arn.resource.clone());
        let found = self.found.lock().expect("no panic");
        let found = found.iter().find(|(name, _)| resource.arn.resource.ends_with(name));
        let is_there = || Finding { outcome: Outcome::Delivered, says: String::new() };
        Ok(found.map_or_else(is_there, |(_, finding)| finding.clone()))
    }
}

#[async_trait]
impl HandshakeClient for Endpoint {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        let denies = *self.denies.lock().expect("no panic");
        let is_silent = *self.is_silent.lock().expect("no panic");
        let response = match (denies, &request.method) {
            _ if is_silent => response(200, HeaderMap::new(), &Value::Null),
            (true, _) => response(404, HeaderMap::new(), &Value::Null),
            (false, &Method::OPTIONS) => {
                let allowed = HeaderValue::from_static("*");
                let headers = [("webhook-allowed-origin".parse().expect("a name"), allowed)];
                response(200, headers.into_iter().collect(), &Value::Null)
            }
            (false, _) => {
                let events: Value = serde_json::from_slice(&request.body).expect("JSON");
                let code = &events[0]["data"]["validationCode"];
                response(200, HeaderMap::new(), &json!({"validationResponse": code}))
            }
        };
        self.asked.lock().expect("no panic").push(request);
        Ok(response)
    }
}

fn response(status: u16, headers: HeaderMap, body: &Value) -> HandshakeResponse {
    HandshakeResponse { status, headers, body: body.to_string().into_bytes() }
}

/// A clock that stands until it is set.
pub(super) struct Standing(Mutex<Timestamp>);

impl Default for Standing {
    fn default() -> Self {
        Self(Mutex::new(NOW))
    }
}

impl Standing {
    pub(super) fn advance(&self, by: Duration) {
        let mut now = self.0.lock().expect("no panic");
        *now = *now + by;
    }
}

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no panic")
    }
}

/// Dice that give another number each time.
#[derive(Default)]
pub(super) struct Counting(AtomicU64);

impl Counting {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl Dice for Counting {
    fn roll(&self) -> f64 {
        0.5
    }

    fn id(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.next()))
    }

    fn key(&self) -> [u8; 32] {
        let mut key = [7; 32];
        key[..8].copy_from_slice(&self.next().to_be_bytes());
        key
    }
}
