//! Faults of tables, and the units that calls use.

use std::collections::BTreeSet;

use async_trait::async_trait;
use gridpost_core::{
    delivery::state::{DeliveryState, DeliveryStatus},
    publish::idempotency::{Record, RecordKey},
    retry::health::Health,
    subscription::{EventSubscription, SubscriptionKey},
    topic::{AccessKeys, Topic},
};
use gridpost_ports::{
    Configuration, DeliveryStates, EndpointHealths, Kept, PortError, PublishRecords, RequestRates,
    Saved, SubscriptionSecrets, TopicKeys, WrittenSecrets,
};
use uuid::Uuid;

use super::{About, Faulty, Units};
use crate::table::Tables;

/// The number of index keys for the waiting deliveries of an event subscription.
const WAITING_KEYS: u128 = 16;

#[async_trait]
impl DeliveryStates for Faulty<Tables> {
    async fn load(&self, id: Uuid) -> Result<Option<DeliveryState>, PortError> {
        let units = [(format!("delivery {id}"), Units::Read(1))];
        let about = About::Deliveries(vec![id]);
        self.table(about, &units, || DeliveryStates::load(&*self.inner, id)).await
    }

    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError> {
        let about = About::Deliveries(vec![state.id]);
        let mut units = vec![(format!("delivery {}", state.id), Units::Write(1))];
        if matches!(state.status, DeliveryStatus::Waiting { .. }) {
            let number = state.id.as_u128() % WAITING_KEYS;
            units.push((format!("waiting {}#{number}", state.subscription_uid), Units::Write(1)));
        }
        let save = || async {
            let saved = DeliveryStates::save(&*self.inner, state).await;
            if matches!(saved, Ok(Saved::Written)) {
                self.note_operated(|operated, at| operated.note_state(at, state));
            }
            saved
        };
        self.table(about, &units, save).await
    }
}

#[async_trait]
impl EndpointHealths for Faulty<Tables> {
    async fn load(&self, key: &SubscriptionKey, uid: Uuid) -> Result<Health, PortError> {
        let units = [(format!("health {uid}"), Units::Read(1))];
        let load = || EndpointHealths::load(&*self.inner, key, uid);
        self.table(About::Health(uid), &units, load).await
    }

    async fn save(
        &self,
        key: &SubscriptionKey,
        uid: Uuid,
        health: &Health,
    ) -> Result<Saved, PortError> {
        let units = [(format!("health {uid}"), Units::Write(1))];
        let save = || async {
            let saved = EndpointHealths::save(&*self.inner, key, uid, health).await;
            if matches!(saved, Ok(Saved::Written)) {
                self.note_operated(|operated, at| {
                    operated.resets.entry(uid).or_default().push(at);
                });
            }
            saved
        };
        self.table(About::Health(uid), &units, save).await
    }
}

#[async_trait]
impl RequestRates for Faulty<Tables> {
    async fn count(&self, uid: Uuid, minute: i64, requests: u64) -> Result<u64, PortError> {
        let units = [(format!("rate {uid} {minute}"), Units::Write(1))];
        self.table(About::Other, &units, || self.inner.count(uid, minute, requests)).await
    }
}

#[async_trait]
impl PublishRecords for Faulty<Tables> {
    async fn save(&self, key: &RecordKey, record: &Record) -> Result<Kept, PortError> {
        let units = [(format!("publish {}", key.as_str()), Units::Write(1))];
        let save = || PublishRecords::save(&*self.inner, key, record);
        self.table(About::Other, &units, save).await
    }
}

#[async_trait]
impl Configuration for Faulty<Tables> {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        let units = [(format!("topic {name}"), Units::Read(1))];
        self.table(About::Other, &units, || self.inner.topic(name)).await
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        let units = [(format!("event subscriptions {topic}"), read_of(names))];
        self.table(About::Other, &units, || self.inner.written(topic, names)).await
    }
}

#[async_trait]
impl SubscriptionSecrets for Faulty<Tables> {
    async fn secrets(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<WrittenSecrets, PortError> {
        let units = [(format!("secrets {topic}"), read_of(names))];
        self.table(About::Other, &units, || self.inner.secrets(topic, names)).await
    }
}

/// The units for reading these items, or all of a partition.
fn read_of(names: Option<&BTreeSet<&str>>) -> Units {
    let read = names.map_or(1, |names| u32::try_from(names.len()).unwrap_or(u32::MAX));
    Units::Read(read.max(1))
}

#[async_trait]
impl TopicKeys for Faulty<Tables> {
    async fn keys(&self, topic: &str) -> Result<Option<(AccessKeys, u64)>, PortError> {
        let units = [(format!("keys {topic}"), Units::Read(1))];
        self.table(About::Other, &units, || self.inner.keys(topic)).await
    }
}
