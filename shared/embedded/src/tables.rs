//! The tables.

use std::collections::BTreeSet;

use async_trait::async_trait;
use gridpost_core::{
    delivery::{parking::Parked, redrive::Job, state::DeliveryState},
    retry::health::Health,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, Topic},
};
use gridpost_ports::{
    Configuration, DeliveryStates, DueDeliveries, DuePage, EndpointHealths, LateListeners,
    Listener, ParkedCursor, ParkedDeliveries, ParkedPage, ParkingLot, PortError, Redrives,
    RequestRates, Saved, SubscriptionStore, TopicKeys, TopicStore, WaitingDeliveries, WakeCursor,
};
use uuid::Uuid;

/// The tables of the deployment.
pub struct Tables {}

type Answer<T> = Result<T, PortError>;

fn unbuilt<T>() -> Answer<T> {
    Err(PortError::new("table", "it is not built yet"))
}

#[async_trait]
impl DeliveryStates for Tables {
    async fn load(&self, _: Uuid) -> Answer<Option<DeliveryState>> {
        unbuilt()
    }
    async fn save(&self, _: &DeliveryState) -> Answer<Saved> {
        unbuilt()
    }
}

#[async_trait]
impl WaitingDeliveries for Tables {
    async fn waiting(&self, _: Uuid, _: Option<&str>, _: usize) -> Answer<Vec<DeliveryState>> {
        unbuilt()
    }
    async fn count(&self, _: Uuid, _: usize) -> Answer<usize> {
        unbuilt()
    }
}

#[async_trait]
impl EndpointHealths for Tables {
    async fn load(&self, _: &SubscriptionKey, _: Uuid) -> Answer<Health> {
        unbuilt()
    }
    async fn save(&self, _: &SubscriptionKey, _: Uuid, _: &Health) -> Answer<Saved> {
        unbuilt()
    }
}

#[async_trait]
impl RequestRates for Tables {
    async fn count(&self, _: Uuid, _: i64, _: u64) -> Answer<u64> {
        unbuilt()
    }
}

#[async_trait]
impl ParkingLot for Tables {
    async fn park(&self, _: &Parked) -> Answer<()> {
        unbuilt()
    }
    async fn remove(&self, _: &Parked) -> Answer<()> {
        unbuilt()
    }
}

#[async_trait]
impl DueDeliveries for Tables {
    async fn due_in(&self, _: i64, _: u32, _: Option<String>) -> Answer<DuePage> {
        unbuilt()
    }
    async fn remove_all(&self, _: &[Parked]) -> Answer<()> {
        unbuilt()
    }
}

#[async_trait]
impl ParkedDeliveries for Tables {
    async fn list_after(&self, _: Option<&ParkedCursor>) -> Answer<ParkedPage> {
        unbuilt()
    }
    async fn find(&self, _: Uuid, _: i64) -> Answer<Option<Parked>> {
        unbuilt()
    }
}

#[async_trait]
impl WakeCursor for Tables {
    async fn load(&self) -> Answer<Option<i64>> {
        unbuilt()
    }
    async fn save(&self, _: i64) -> Answer<()> {
        unbuilt()
    }
}

#[async_trait]
impl Configuration for Tables {
    async fn topic(&self, _: &str) -> Answer<Option<Topic>> {
        unbuilt()
    }
    async fn written(
        &self,
        _: &str,
        _: Option<&BTreeSet<&str>>,
    ) -> Answer<Vec<(EventSubscription, u64)>> {
        unbuilt()
    }
}

#[async_trait]
impl TopicKeys for Tables {
    async fn keys(&self, _: &str) -> Answer<Option<(AccessKeys, u64)>> {
        unbuilt()
    }
}

#[async_trait]
impl TopicStore for Tables {
    async fn topics(&self, _: Option<&str>, _: usize) -> Answer<Vec<Topic>> {
        unbuilt()
    }
    async fn save(&self, _: &Topic, _: Option<&AccessKeys>) -> Answer<Saved> {
        unbuilt()
    }
    async fn delete(&self, _: &Topic) -> Answer<Saved> {
        unbuilt()
    }
}

#[async_trait]
impl SubscriptionStore for Tables {
    async fn subscription(&self, _: &SubscriptionKey) -> Answer<Option<EventSubscription>> {
        unbuilt()
    }
    async fn save(&self, _: &Topic, _: &EventSubscription) -> Answer<Saved> {
        unbuilt()
    }
    async fn delete(&self, _: &Topic, _: &[String]) -> Answer<Saved> {
        unbuilt()
    }
}

#[async_trait]
impl LateListeners for Tables {
    async fn join(&self, _: Listener, _: usize, _: Timestamp) -> Answer<bool> {
        unbuilt()
    }
    async fn leave(&self, _: Listener) -> Answer<()> {
        unbuilt()
    }
}

#[async_trait]
impl Redrives for Tables {
    async fn jobs(&self, _: &SubscriptionKey) -> Answer<Vec<Job>> {
        unbuilt()
    }
    async fn job(&self, _: &SubscriptionKey, _: Uuid) -> Answer<Option<Job>> {
        unbuilt()
    }
    async fn save(&self, _: &Job) -> Answer<Saved> {
        unbuilt()
    }
}
