//! Faults of queues, buckets and endpoints.

use async_trait::async_trait;
use futures::stream::{self, StreamExt};
use gridpost_core::{
    delivery::{
        dead_letter::Labels, queue::Queue, request::Request, resource_check::Finding,
        resource_request::Entry,
    },
    retry::outcome::Answer,
    subscription::Resource,
};
use gridpost_ports::{
    Attempted, Bucket, BucketError, EndpointClient, Outgoing, Payloads, PortError, QueueReceiver,
    QueueSender, ResourceClient,
};

use super::{About, Fault, Faulty, Injector, Instance, Service};
use crate::{
    bucket::Buckets,
    endpoint::Endpoints,
    payloads::{self, PayloadBucket},
    queue::{Carried, Queues},
};

/// A call of several entries that is under way.
struct UnderWay<'f> {
    injector: &'f Injector,
    instance: &'f Instance,
    /// The deliveries of its entries; of one entry alone, its own fault tells.
    about: Option<About>,
}

impl<'f> UnderWay<'f> {
    fn of(faulty: &'f Faulty<Queues>, messages: &[Outgoing]) -> Self {
        let carried = || messages.iter().filter_map(|one| Carried::of(&one.body).delivery);
        let about = (messages.len() > 1).then(|| About::Deliveries(carried().collect()));
        Self { injector: &faulty.injector, instance: &faulty.instance, about }
    }
}

impl Drop for UnderWay<'_> {
    /// A caller that waits no longer knows of no entry whether it was sent.
    fn drop(&mut self) {
        if let Some(about) = &self.about {
            self.injector.note(self.instance, about, "a call was given up with all its entries");
        }
    }
}

#[async_trait]
impl QueueSender for Faulty<Queues> {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        self.inner.note_call(queue, messages.len());
        let mut under_way = UnderWay::of(self, &messages);
        // Each entry of a batch fails or succeeds by itself.
        let one = |message: Outgoing| async move {
            let about =
                About::Deliveries(Carried::of(&message.body).delivery.into_iter().collect());
            let effect = || async {
                self.inner.send_one(queue, message.clone())?;
                self.note_operated(|operated, at| operated.note_sent(at, &message.body));
                Ok(())
            };
            self.call(about, effect).await
        };
        let at_once = if self.injector.plan().as_adapters { messages.len().max(1) } else { 1 };
        let answers = stream::iter(messages).map(one).buffered(at_once).collect().await;
        under_way.about = None;
        answers
    }
}

#[async_trait]
impl QueueReceiver for Faulty<Queues> {
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        let about = self.inner.delivery_of(queue, receipt);
        let about = About::Deliveries(about.into_iter().collect());
        self.call(about, || self.inner.hide(queue, receipt, seconds)).await
    }

    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        let about = receipts.iter().filter_map(|receipt| self.inner.delivery_of(queue, receipt));
        let about = About::Deliveries(about.collect());
        self.call(about, || self.inner.delete(queue, receipts.clone())).await
    }

    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError> {
        self.call(About::Other, || self.inner.in_flight(queue)).await
    }

    async fn backlog(&self, queue: Queue) -> Result<u64, PortError> {
        self.call(About::Other, || self.inner.backlog(queue)).await
    }

    async fn visible(&self, queue: Queue) -> Result<u64, PortError> {
        self.call(About::Other, || self.inner.visible(queue)).await
    }
}

#[async_trait]
impl Bucket for Faulty<Buckets> {
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        labels: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError> {
        let in_hand = self.instance.deliveries();
        let effect =
            || async { Ok(self.inner.put_by(&in_hand, bucket, key, labels, body.clone())) };
        self.call(About::InHand, effect).await?
    }
}

#[async_trait]
impl Payloads for Faulty<PayloadBucket> {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        let about = About::Deliveries(payloads::delivery_of(key).into_iter().collect());
        self.call(about, || self.inner.put(key, object.clone())).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        let about = About::Deliveries(payloads::delivery_of(key).into_iter().collect());
        let object = self.call(about, || self.inner.get(key)).await?;
        self.instance.hold(object.as_ref().map_or(0, Vec::len));
        Ok(object)
    }
}

#[async_trait]
impl ResourceClient for Faulty<Endpoints> {
    async fn check(&self, resource: &Resource) -> Finding {
        self.inner.check(resource).await
    }

    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer> {
        let in_hand = self.instance.deliveries();
        match self.injector.draw(Service::None) {
            Fault::DiesBefore => self.die(&About::Other).await,
            Fault::DiesAfter => {
                let _ = self.inner.send_by(&in_hand, resource, entries).await;
                self.die(&About::Other).await
            }
            _ => self.inner.send_by(&in_hand, resource, entries).await,
        }
    }
}

#[async_trait]
impl EndpointClient for Faulty<Endpoints> {
    async fn attempt(&self, request: Request) -> Attempted {
        // An attempt never fails on our side, but its maker may die before or after it.
        let in_hand = self.instance.deliveries();
        match self.injector.draw(Service::None) {
            Fault::DiesBefore => self.die(&About::Other).await,
            Fault::DiesAfter => {
                let _ = self.inner.attempt_by(&in_hand, request).await;
                self.die(&About::Other).await
            }
            _ => self.inner.attempt_by(&in_hand, request).await,
        }
    }
}
