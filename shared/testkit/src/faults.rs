//! Wraps any port: a call fails before it takes effect, or after it, or its caller dies there.

mod dead_letters;
mod listeners;
mod parked;
mod partitions;
mod plan;
mod stores;
mod tables;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        dead_letter::Labels, queue::Queue, request::Request, resource_check::Finding,
        resource_request::Entry,
    },
    retry::outcome::Answer,
    subscription::Resource,
};
use gridpost_ports::{
    Attempted, Bucket, BucketError, Clock, EndpointClient, Outgoing, Payloads, PortError,
    QueueReceiver, QueueSender, ResourceClient,
};
use tokio::sync::Notify;
use uuid::Uuid;

pub use self::{
    partitions::{Limits, Partitions, Units},
    plan::{Fault, Plan},
};
use crate::{
    bucket::Buckets,
    clock::VirtualClock,
    dice::SeededDice,
    endpoint::Endpoints,
    history::History,
    payloads::{self, PayloadBucket},
    queue::{Carried, Queues},
};

/// The longest that a call of SQS or DynamoDB takes with all its tries: then the client gives it up.
const CALL_TIMEOUT: Duration = Duration::from_secs(6);

/// A running copy of a function. When it dies, all of its calls stop where they are.
#[derive(Debug, Default)]
pub struct Instance {
    dead: AtomicBool,
    died: Notify,
    /// The deliveries in hand.
    in_hand: Mutex<Vec<Uuid>>,
    /// Their subscriptions' uids.
    endpoints_in_hand: Mutex<Vec<Uuid>>,
    /// Bytes of the bodies and objects in hand.
    bytes_in_hand: AtomicUsize,
}

impl Instance {
    /// Takes deliveries in hand.
    pub fn take(&self, deliveries: Vec<Uuid>, endpoints: Vec<Uuid>) {
        *self.in_hand.lock().expect("no panic while held") = deliveries;
        *self.endpoints_in_hand.lock().expect("no panic while held") = endpoints;
        self.bytes_in_hand.store(0, Ordering::Relaxed);
    }

    /// Takes so many bytes more in hand, until it takes other deliveries.
    pub fn hold(&self, bytes: usize) {
        self.bytes_in_hand.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes it has in hand.
    pub fn held(&self) -> usize {
        self.bytes_in_hand.load(Ordering::Relaxed)
    }

    /// Resolves when it dies.
    pub async fn died(&self) {
        while !self.dead.load(Ordering::Relaxed) {
            self.died.notified().await;
        }
    }
}

/// What another caller does just before a call.
pub type Interference = Box<dyn FnOnce() + Send>;

/// Makes calls fail by plan.
pub struct Injector {
    plan: Mutex<Plan>,
    dice: SeededDice,
    clock: VirtualClock,
    history: Arc<Mutex<History>>,
    /// How many calls were made.
    made: AtomicU64,
    interferences: Mutex<BTreeMap<u64, Interference>>,
    partitions: Mutex<Partitions>,
}

/// What a call is about.
enum About {
    Deliveries(Vec<Uuid>),
    Health(Uuid),
    /// Everything that its caller has in hand.
    InHand,
    Other,
}

impl Injector {
    /// Faults by that plan, noted in `history`.
    pub fn new(
        plan: Plan,
        dice: SeededDice,
        clock: VirtualClock,
        history: Arc<Mutex<History>>,
    ) -> Self {
        let (made, interferences) = (AtomicU64::default(), Mutex::default());
        let partitions = Mutex::default();
        Self { plan: Mutex::new(plan), dice, clock, history, made, interferences, partitions }
    }

    /// What is planned now.
    pub fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no panic while held")
    }

    /// How many calls were made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Lets another caller act just before the call of that number, counted from 1.
    pub fn interfere(&self, number: u64, interference: impl FnOnce() + Send + 'static) {
        let mut all = self.interferences.lock().expect("no panic while held");
        all.insert(number, Box::new(interference));
    }

    async fn take_time(&self) {
        let longest = self.plan().latency_max;
        if !longest.is_zero() {
            let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).max(2);
            tokio::time::sleep(self.dice.millis(1..millis)).await;
        }
    }

    fn draw(&self) -> Fault {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let interference = self.interferences.lock().expect("no panic while held").remove(&number);
        if let Some(interfere) = interference {
            interfere();
        }
        let plan = self.plan();
        if let Some(fault) = plan.calls.get(&number) {
            return *fault;
        }
        if plan.calls_max.is_some_and(|most| number > most) {
            return Fault::FailsBefore;
        }
        let Plan { fails_before, fails_after, dies, hangs, .. } = *plan;
        if fails_before + fails_after + dies + hangs == 0.0 {
            return Fault::None;
        }
        let draw = self.dice.with(fastrand::Rng::f64);
        if draw < fails_before {
            Fault::FailsBefore
        } else if draw < fails_before + fails_after {
            Fault::FailsAfter
        } else if draw < fails_before + fails_after + dies / 2.0 {
            Fault::DiesBefore
        } else if draw < fails_before + fails_after + dies {
            Fault::DiesAfter
        } else if draw < fails_before + fails_after + dies + hangs / 2.0 {
            Fault::HangsBefore
        } else if draw < fails_before + fails_after + dies + hangs {
            Fault::HangsAfter
        } else {
            Fault::None
        }
    }

    /// Why DynamoDB refuses such a call now, if it does.
    fn throttles(&self, units: &[(String, Units)]) -> Option<&'static str> {
        let (now, plan) = (self.clock.now(), self.plan());
        if plan.throttled.iter().any(|window| window.contains(&now)) {
            return Some("DynamoDB throttled");
        }
        let full = plan.partition.is_some_and(|most| self.partitions().is_full(units, most, now));
        full.then_some("a partition was full")
    }

    /// What was used of each partition.
    pub fn partitions(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().expect("no panic while held")
    }

    /// Notes a fault. One before the effect of a call repeats nothing by itself, but a caller that
    /// then gives a record back may repeat the attempt that it could not note.
    fn note(&self, instance: &Instance, about: &About, what: &'static str) {
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.faults += 1;
        history.fault_kinds.insert(what);
        match about {
            About::Deliveries(deliveries) => {
                deliveries.iter().for_each(|delivery| history.disturb(*delivery, what));
            }
            About::Health(uid) => history.health_faults.entry(*uid).or_default().push(now),
            About::InHand => {
                for delivery in instance.in_hand.lock().expect("no panic while held").iter() {
                    history.disturb(*delivery, what);
                }
            }
            About::Other => {}
        }
        history.trace(now, || format!("fault: {what}"));
    }

    /// The end of an instance: what it had in hand may be repeated.
    pub fn kill(&self, instance: &Instance) {
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.faults += 1;
        for delivery in instance.in_hand.lock().expect("no panic while held").iter() {
            history.disturb(*delivery, "a function died");
        }
        for uid in instance.endpoints_in_hand.lock().expect("no panic while held").iter() {
            history.health_faults.entry(*uid).or_default().push(now);
        }
        history.trace(now, || "a function dies".to_owned());
        instance.dead.store(true, Ordering::Relaxed);
        instance.died.notify_one();
    }
}

/// A port whose calls may fail.
pub struct Faulty<T: ?Sized> {
    /// Decides which.
    pub injector: Arc<Injector>,
    /// Who calls.
    pub instance: Arc<Instance>,
    /// The port.
    pub inner: Arc<T>,
}

impl<T: ?Sized> Faulty<T> {
    async fn call<R>(
        &self,
        about: About,
        effect: impl Future<Output = Result<R, PortError>>,
    ) -> Result<R, PortError> {
        let injector = &self.injector;
        injector.take_time().await;
        match injector.draw() {
            Fault::None => effect.await,
            Fault::Slow(takes) => {
                tokio::time::sleep(takes).await;
                effect.await
            }
            Fault::FailsBefore => {
                injector.note(&self.instance, &about, "a call failed");
                Err(PortError::new("a call", "it failed by plan"))
            }
            Fault::FailsAfter => {
                injector.note(&self.instance, &about, "a call took effect but failed");
                effect.await?;
                Err(PortError::new("a call", "it took effect but failed by plan"))
            }
            Fault::DiesBefore => self.die(&about).await,
            Fault::DiesAfter => {
                let _ = effect.await;
                self.die(&about).await
            }
            Fault::HangsBefore => {
                injector.note(&self.instance, &about, "a call hung");
                tokio::time::sleep(CALL_TIMEOUT).await;
                Err(PortError::new("a call", "it hung by plan"))
            }
            Fault::HangsAfter => {
                injector.note(&self.instance, &about, "a call took effect but hung");
                effect.await?;
                tokio::time::sleep(CALL_TIMEOUT).await;
                Err(PortError::new("a call", "it took effect but hung by plan"))
            }
        }
    }

    async fn die<R>(&self, about: &About) -> R {
        self.injector.note(&self.instance, about, "the caller died");
        self.injector.kill(&self.instance);
        std::future::pending().await
    }

    /// A call of DynamoDB that uses these units of partitions.
    async fn table<R>(
        &self,
        about: About,
        units: &[(String, Units)],
        effect: impl Future<Output = Result<R, PortError>>,
    ) -> Result<R, PortError> {
        if let Some(what) = self.injector.throttles(units) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.injector.note(&self.instance, &about, what);
            return Err(PortError::new("dynamodb", "ThrottlingException"));
        }
        self.call(about, effect).await
    }
}

#[async_trait]
impl QueueSender for Faulty<Queues> {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        self.inner.note_call(queue, messages.len());
        let mut answers = Vec::new();
        // Each entry of a batch fails or succeeds by itself.
        for message in messages {
            let about =
                About::Deliveries(Carried::of(&message.body).delivery.into_iter().collect());
            let effect = async { self.inner.send_one(queue, message) };
            answers.push(self.call(about, effect).await);
        }
        answers
    }
}

#[async_trait]
impl QueueReceiver for Faulty<Queues> {
    async fn hide(&self, queue: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        let about = self.inner.delivery_of(queue, receipt);
        let about = About::Deliveries(about.into_iter().collect());
        self.call(about, self.inner.hide(queue, receipt, seconds)).await
    }

    async fn delete(&self, queue: Queue, receipts: Vec<String>) -> Result<(), PortError> {
        let about = receipts.iter().filter_map(|receipt| self.inner.delivery_of(queue, receipt));
        let about = About::Deliveries(about.collect());
        self.call(about, self.inner.delete(queue, receipts)).await
    }

    async fn in_flight(&self, queue: Queue) -> Result<u64, PortError> {
        self.call(About::Other, self.inner.in_flight(queue)).await
    }

    async fn backlog(&self, queue: Queue) -> Result<u64, PortError> {
        self.call(About::Other, self.inner.backlog(queue)).await
    }

    async fn visible(&self, queue: Queue) -> Result<u64, PortError> {
        self.call(About::Other, self.inner.visible(queue)).await
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
        let mut answer = Ok(());
        let effect = async {
            answer = self.inner.put(bucket, key, labels, body).await;
            Ok(())
        };
        self.call(About::InHand, effect).await?;
        answer
    }
}

#[async_trait]
impl Payloads for Faulty<PayloadBucket> {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        let about = About::Deliveries(payloads::delivery_of(key).into_iter().collect());
        self.call(about, self.inner.put(key, object)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        let about = About::Deliveries(payloads::delivery_of(key).into_iter().collect());
        let object = self.call(about, self.inner.get(key)).await?;
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
        match self.injector.draw() {
            Fault::DiesBefore => self.die(&About::Other).await,
            Fault::DiesAfter => {
                let _ = self.inner.send(resource, entries).await;
                self.die(&About::Other).await
            }
            _ => self.inner.send(resource, entries).await,
        }
    }
}

#[async_trait]
impl EndpointClient for Faulty<Endpoints> {
    async fn attempt(&self, request: Request) -> Attempted {
        // An attempt never fails on our side, but its maker may die before or after it.
        match self.injector.draw() {
            Fault::DiesBefore => self.die(&About::Other).await,
            Fault::DiesAfter => {
                let _ = self.inner.attempt(request).await;
                self.die(&About::Other).await
            }
            _ => self.inner.attempt(request).await,
        }
    }
}
