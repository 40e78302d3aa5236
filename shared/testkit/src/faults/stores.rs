//! Faults of the calls of operators and the resource API.

use async_trait::async_trait;
use gridpost_core::{
    delivery::{resource_check::Finding, state::DeliveryState},
    poison::Poisoned,
    subscription::{EventSubscription, Resource},
    topic::{AccessKeys, Topic},
};
use gridpost_ports::{
    HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse, PoisonQueue, PortError,
    ResourceChecker, Saved, SubscriptionStore, TopicStore, WaitingDeliveries, WaitingTally,
};
use uuid::Uuid;

use super::{About, Faulty};
use crate::{consent::Consents, queue::Queues, table::Tables};

#[async_trait]
impl TopicStore for Faulty<Tables> {
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError> {
        self.table(About::Other, &[], || self.inner.topics(after, most)).await
    }

    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError> {
        self.table(About::Other, &[], || TopicStore::save(&*self.inner, topic, keys)).await
    }

    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError> {
        self.table(About::Other, &[], || TopicStore::delete(&*self.inner, topic)).await
    }
}

#[async_trait]
impl SubscriptionStore for Faulty<Tables> {
    async fn save(
        &self,
        topic: &Topic,
        subscription: &EventSubscription,
    ) -> Result<Saved, PortError> {
        let save = || SubscriptionStore::save(&*self.inner, topic, subscription);
        self.table(About::Other, &[], save).await
    }

    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError> {
        self.table(About::Other, &[], || SubscriptionStore::delete(&*self.inner, topic, names))
            .await
    }
}

#[async_trait]
impl WaitingDeliveries for Faulty<Tables> {
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError> {
        self.table(About::Other, &[], || self.inner.waiting(uid, after, most)).await
    }

    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError> {
        self.table(About::Other, &[], || WaitingDeliveries::count(&*self.inner, uid, most)).await
    }

    async fn tally(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<WaitingTally, PortError> {
        self.table(About::Other, &[], || self.inner.tally(uid, after, most)).await
    }
}

#[async_trait]
impl PoisonQueue for Faulty<Queues> {
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>, PortError> {
        self.call(About::Other, || PoisonQueue::receive(&*self.inner, hidden_s)).await
    }

    async fn count(&self) -> Result<u64, PortError> {
        self.call(About::Other, || self.inner.count()).await
    }
}

#[async_trait]
impl HandshakeClient for Faulty<Consents> {
    async fn exchange(
        &self,
        request: HandshakeRequest,
    ) -> Result<HandshakeResponse, HandshakeError> {
        let asked = || async { Ok(self.inner.exchange(request.clone()).await) };
        let unreachable = |error: PortError| HandshakeError::Unreachable(error.to_string());
        self.call(About::Other, asked).await.map_err(unreachable)?
    }
}

#[async_trait]
impl ResourceChecker for Faulty<Consents> {
    async fn check(&self, resource: &Resource) -> Result<Finding, PortError> {
        self.call(About::Other, || self.inner.check(resource)).await
    }
}
