use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{Delivery, parking::Parked, queue::Queue, request::Request, state::DeliveryState},
    event::DeliverySchema,
    retry::{
        outcome::{Answer, Outcome},
        policy::RetryPolicy,
        probation::{Durations, Health, ProbationPolicy, Wait},
        profile::ProfileName,
    },
    secret::Secret,
    subscription::{
        Batching, Endpoint, EventSubscription, Filter, ProvisioningState, SubscriptionKey,
    },
    time::Timestamp,
    topic::{InputSchema, Kind, Topic},
};
use gridpost_ports::{
    Attempted, Clock, Configuration, DeliveryStates, Dice, EndpointClient, EndpointHealths, Meter,
    Outgoing, ParkingLot, Payloads, PortError, QueueReceiver, QueueSender, RequestRates, Saved,
    configuration::ConfigurationCache,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    Context, Settings, handler::handle, health::HealthBook, in_flight::InFlight, record::Record,
};

/// 15 s into minute 100.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(100 * 60_000 + 15_000);

/// All ports of a deployment with one event subscription, whose endpoint answers 200 unless told
/// otherwise.
pub(crate) struct World {
    pub(crate) subscription: EventSubscription,
    pub(crate) status: u16,
    pub(crate) logs_successful_attempts: bool,
    pub(crate) measures_latency: bool,
    pub(crate) measured: Mutex<Vec<String>>,
    /// The state of whatever delivery is asked for.
    pub(crate) state: Option<DeliveryState>,
    now: Mutex<Timestamp>,
    /// How long a count takes.
    count_takes: Duration,
    counting_fails: AtomicBool,
    counts: Mutex<BTreeMap<i64, u64>>,
    pub(crate) health: Mutex<Health>,
    health_writes: AtomicU64,
    payload_reads: AtomicU64,
    /// The bodies of requests.
    requests: Mutex<Vec<String>>,
    sent: Mutex<Vec<(Queue, Outgoing)>>,
    hidden: Mutex<Vec<(String, u32)>>,
}

impl World {
    pub(crate) fn new(rate: Option<u32>) -> Self {
        Self {
            subscription: subscription(rate),
            status: 200,
            logs_successful_attempts: false,
            state: None,
            measures_latency: false,
            measured: Mutex::default(),
            now: Mutex::new(NOW),
            count_takes: Duration::ZERO,
            counting_fails: AtomicBool::default(),
            counts: Mutex::default(),
            health: Mutex::default(),
            health_writes: AtomicU64::default(),
            payload_reads: AtomicU64::default(),
            requests: Mutex::default(),
            sent: Mutex::default(),
            hidden: Mutex::default(),
        }
    }

    fn batched(mut self) -> Self {
        self.subscription.batching = Some(Batching { max_events: 100, preferred_kilobytes: 64 });
        self
    }

    /// A wait of the endpoint is over, and nobody has probed yet.
    fn waits_for_a_probe(self) -> Self {
        let (since, until) = (Timestamp::from_millis(0), NOW);
        let wait = Wait { since, until, outcome: Outcome::ServerError, status: Some(500) };
        self.health.lock().expect("no panic while held").wait = Some(wait);
        self
    }

    /// So many requests of this minute have been counted.
    fn counted(self, count: u64) -> Self {
        self.counts.lock().expect("no panic while held").insert(100, count);
        self
    }

    fn counts(&self) -> Vec<(i64, u64)> {
        let counts = self.counts.lock().expect("no panic while held");
        counts.iter().map(|(minute, count)| (*minute, *count)).collect()
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.lock().expect("no panic while held").len()
    }

    /// When what went to a retry queue is due, in seconds from the beginning of minute 100.
    fn waits_until_s(&self) -> Vec<i64> {
        let sent = self.sent.lock().expect("no panic while held");
        let due = |(queue, message): &(Queue, Outgoing)| {
            assert_eq!(*queue, Queue::Retry(0));
            let due = Delivery::decode(&message.body).expect("a delivery").due.expect("it waits");
            due.as_seconds() - 100 * 60
        };
        sent.iter().map(due).collect()
    }

    /// Hands these records to dispatch; the ids of those that are kept.
    pub(crate) async fn receive(self: &Arc<Self>, records: Vec<Record>) -> Vec<String> {
        let deadline = NOW + Duration::from_secs(200);
        let mut kept = handle(&context(self), records, deadline).await;
        kept.sort();
        kept
    }
}

fn subscription(rate: Option<u32>) -> EventSubscription {
    EventSubscription {
        key: SubscriptionKey { topic: "orders".to_owned(), name: "billing".to_owned() },
        uid: Uuid::from_u128(5),
        endpoint: Endpoint::WebHook { url: Secret::new("https://example.com/hook") },
        batching: None,
        filter: Filter::default(),
        delivery_schema: DeliverySchema::CloudEventSchemaV1_0,
        retry_policy: RetryPolicy::default_of(ProfileName::Basic),
        probation_policy: ProbationPolicy::EventGrid,
        dead_letter: None,
        labels: Vec::new(),
        expires_at: None,
        provisioning_state: ProvisioningState::Succeeded,
        validation: None,
        allowed_rate: rate.map(|rate| NonZeroU32::new(rate).expect("at least one")),
        created_at: Timestamp::default(),
        etag: Uuid::nil(),
        delivery_attributes: Vec::new(),
        signing: None,
    }
}

fn context(world: &Arc<World>) -> Context {
    let configuration: Arc<dyn Configuration> = Arc::clone(world) as _;
    let clock: Arc<dyn Clock> = Arc::clone(world) as _;
    Context {
        clock: Arc::clone(&clock),
        dice: Arc::clone(world) as _,
        sender: Arc::clone(world) as _,
        receiver: Arc::clone(world) as _,
        in_flight: InFlight::new(Arc::clone(world) as _),
        states: Arc::clone(world) as _,
        parking: Arc::clone(world) as _,
        payloads: Arc::clone(world) as _,
        healths: HealthBook::new(Arc::clone(world) as _),
        rates: Arc::clone(world) as _,
        configuration: ConfigurationCache::new(configuration, clock, Duration::from_secs(2)),
        client: Arc::clone(world) as _,
        resources: Arc::new(crate::resources::NoResources),
        meter: Arc::clone(world) as _,
        settings: Settings {
            probation: Durations::default(),
            retry_shards: 1,
            retry_in_flight_limit: 60_000,
            dead_letter_delay_s: 300,
            log_successful_attempts: world.logs_successful_attempts,
            latency_metrics: world.measures_latency,
            origin: "example.com".to_owned(),
        },
    }
}

pub(crate) fn delivery(number: u128) -> Delivery {
    let subscription = subscription(None);
    let event = RawValue::from_string(format!(r#"{{"id":"{number}"}}"#)).expect("JSON");
    let (key, uid) = (subscription.key, subscription.uid);
    Delivery::new(Uuid::from_u128(number), key, uid, NOW, String::new(), vec![event])
}

pub(crate) fn record(queue: Queue, delivery: &Delivery) -> Record {
    let id = delivery.id.as_u128().to_string();
    Record {
        message_id: id.clone(),
        receipt: id,
        body: delivery.encode(),
        receive_count: 1,
        queue,
        received_at: NOW,
    }
}

/// Records of that queue with one event each, numbered from 1.
fn records(queue: Queue, count: u128) -> Vec<Record> {
    (1..=count).map(|number| record(queue, &delivery(number))).collect()
}

#[tokio::test]
async fn what_a_minute_has_no_room_for_waits_without_an_attempt() {
    let table = [
        ("all have room", 3, 0, 3, vec![]),
        ("one has none", 2, 0, 2, vec![60]),
        ("none has: the next two minutes have", 2, 2, 0, vec![60, 60, 120]),
        ("far back in the row", 1, 10, 0, vec![600, 660, 720]),
    ];
    for (row, rate, counted, requests, waits) in table {
        let world = Arc::new(World::new(Some(rate)).counted(counted));
        let kept = world.receive(records(Queue::Dispatch, 3)).await;
        assert!(kept.is_empty(), "{row}: {kept:?}");
        assert_eq!((world.requests(), world.waits_until_s()), (requests, waits), "{row}");
        assert_eq!(world.counts(), [(100, counted + 3)], "{row}");
    }
}

#[tokio::test]
async fn a_retry_that_has_no_room_is_hidden() {
    let world = Arc::new(World::new(Some(1)).counted(1));
    assert_eq!(world.receive(records(Queue::Retry(0), 1)).await, ["1"]);
    let hidden = world.hidden.lock().expect("no panic while held").clone();
    assert_eq!((world.requests(), hidden), (0, vec![("1".to_owned(), 45)]));
}

#[tokio::test]
async fn a_wait_ends_with_time_to_live() {
    let mut world = World::new(Some(1)).counted(500);
    world.subscription.retry_policy.time_to_live_minutes = 1;
    let world = Arc::new(world);
    world.receive(records(Queue::Dispatch, 1)).await;
    assert_eq!((world.requests(), world.waits_until_s()), (0, vec![75]));
}

#[tokio::test]
async fn deliveries_of_one_request_take_one_slot_and_wait_together() {
    for (counted, requests, waits) in [(0, 1, vec![]), (3, 0, vec![180, 180, 180])] {
        let world = Arc::new(World::new(Some(1)).batched().counted(counted));
        assert!(world.receive(records(Queue::Dispatch, 3)).await.is_empty());
        assert_eq!((world.requests(), world.waits_until_s()), (requests, waits));
        assert_eq!(world.counts(), [(100, counted + 1)]);
    }
}

#[tokio::test]
async fn without_a_rate_nothing_is_counted() {
    let world = Arc::new(World::new(None));
    world.receive(records(Queue::Dispatch, 3)).await;
    assert_eq!((world.requests(), world.counts()), (3, vec![]));
}

#[tokio::test]
async fn a_count_that_fails_gives_the_record_back() {
    for probes in [false, true] {
        let world = World::new(Some(10));
        let world = Arc::new(if probes { world.waits_for_a_probe() } else { world });
        world.counting_fails.store(true, Ordering::Relaxed);
        assert_eq!(world.receive(records(Queue::Dispatch, 1)).await, ["1"]);
        let hidden = world.hidden.lock().expect("no panic while held").clone();
        assert_eq!((world.requests(), hidden), (0, vec![("1".to_owned(), 5)]));
        assert_eq!(world.health_writes.load(Ordering::Relaxed), 0, "no probe is claimed");
    }
}

#[tokio::test]
async fn the_probe_takes_its_slot_before_it_is_claimed() {
    // Written twice: the claim, and the recovery.
    for (counted, requests, health_writes, waits) in [(0, 1, 2, vec![]), (1, 0, 0, vec![60])] {
        let world = Arc::new(World::new(Some(1)).waits_for_a_probe().counted(counted));
        assert!(world.receive(records(Queue::Dispatch, 1)).await.is_empty());
        assert_eq!((world.requests(), world.waits_until_s()), (requests, waits));
        assert_eq!(world.health_writes.load(Ordering::Relaxed), health_writes);
        assert_eq!(world.counts(), [(100, counted + 1)], "one slot for one request");
    }
}

#[tokio::test]
async fn a_slot_is_good_in_its_own_minute_alone() {
    let slow = World { count_takes: Duration::from_secs(50), ..World::new(Some(1)) };
    let world = Arc::new(slow);
    assert!(world.receive(records(Queue::Dispatch, 1)).await.is_empty());
    // The first answer came in minute 101.
    assert_eq!((world.requests(), world.counts()), (1, vec![(100, 1), (101, 1)]));
}

#[tokio::test]
async fn a_large_delivery_is_fetched_when_it_may_go() {
    for (counted, requests) in [(0, 1), (1, 0)] {
        let world = Arc::new(World::new(Some(1)).counted(counted));
        let large = record(Queue::Dispatch, &delivery(1).into_claimed());
        assert!(world.receive(vec![large]).await.is_empty());
        let reads = world.payload_reads.load(Ordering::Relaxed);
        assert_eq!((world.requests() as u64, reads), (requests, requests));
        assert_eq!(world.counts(), [(100, counted + 1)]);
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        *self.now.lock().expect("no panic while held")
    }
}

impl Dice for World {
    fn roll(&self) -> f64 {
        0.0
    }

    fn id(&self) -> Uuid {
        Uuid::nil()
    }

    fn key(&self) -> [u8; 32] {
        [0; 32]
    }
}

impl Meter for World {
    fn count(&self, _: &'static str, _: &[(&'static str, &str)], _: u64) {}

    fn count_events(&self, _: &'static str, _: &[(&'static str, &str)], _: Timestamp, _: u64) {}

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        let values: Vec<_> = dimensions.iter().map(|(_, value)| *value).collect();
        let line = format!("{metric} {} {}", values.join("/"), took.as_millis());
        self.measured.lock().expect("no panic while held").push(line);
    }

    fn flush(&self, _: Timestamp) {}
}

#[async_trait]
impl RequestRates for World {
    async fn count(&self, uid: Uuid, minute: i64) -> Result<u64, PortError> {
        assert_eq!(uid, self.subscription.uid);
        if self.counting_fails.load(Ordering::Relaxed) {
            return Err(PortError::new("dynamodb:UpdateItem", "throttled"));
        }
        let mut now = self.now.lock().expect("no panic while held");
        *now = *now + self.count_takes;
        let mut counts = self.counts.lock().expect("no panic while held");
        let count = counts.entry(minute).or_default();
        *count += 1;
        Ok(*count)
    }
}

#[async_trait]
impl EndpointClient for World {
    async fn attempt(&self, request: Request) -> Attempted {
        let body = String::from_utf8(request.body).expect("JSON is text");
        self.requests.lock().expect("no panic while held").push(body);
        Attempted::Answered(Answer::of_status(self.status, None))
    }
}

#[async_trait]
impl QueueSender for World {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        let answers = messages.iter().map(|_| Ok(())).collect();
        let messages = messages.into_iter().map(|message| (queue, message));
        self.sent.lock().expect("no panic while held").extend(messages);
        answers
    }
}

#[async_trait]
impl QueueReceiver for World {
    async fn hide(&self, _: Queue, receipt: &str, seconds: u32) -> Result<(), PortError> {
        let hidden = (receipt.to_owned(), seconds);
        self.hidden.lock().expect("no panic while held").push(hidden);
        Ok(())
    }

    async fn delete(&self, _: Queue, _: Vec<String>) -> Result<(), PortError> {
        Ok(())
    }

    async fn in_flight(&self, _: Queue) -> Result<u64, PortError> {
        Ok(0)
    }
}

#[async_trait]
impl DeliveryStates for World {
    async fn load(&self, _: Uuid) -> Result<Option<DeliveryState>, PortError> {
        Ok(self.state.clone())
    }

    async fn save(&self, state: &DeliveryState) -> Result<Saved, PortError> {
        let has_one = self.status != 200 || self.state.is_some();
        assert!(has_one, "a delivery that only waits has no state: {state:?}");
        Ok(Saved::Written)
    }
}

#[async_trait]
impl EndpointHealths for World {
    async fn load(&self, _: &SubscriptionKey, _: Uuid) -> Result<Health, PortError> {
        Ok(self.health.lock().expect("no panic while held").clone())
    }

    async fn save(
        &self,
        _: &SubscriptionKey,
        _: Uuid,
        health: &Health,
    ) -> Result<Saved, PortError> {
        self.health_writes.fetch_add(1, Ordering::Relaxed);
        let health = Health { revision: health.revision + 1, ..health.clone() };
        *self.health.lock().expect("no panic while held") = health;
        Ok(Saved::Written)
    }
}

#[async_trait]
impl ParkingLot for World {
    async fn park(&self, parked: &Parked) -> Result<(), PortError> {
        panic!("nothing here waits long enough to be parked: {parked:?}")
    }

    async fn due_in(&self, _: i64) -> Result<Vec<Parked>, PortError> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: &Parked) -> Result<(), PortError> {
        Ok(())
    }
}

#[async_trait]
impl Payloads for World {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), PortError> {
        Ok(())
    }

    async fn get(&self, _: &str) -> Result<Option<Vec<u8>>, PortError> {
        self.payload_reads.fetch_add(1, Ordering::Relaxed);
        Ok(Some(br#"[{"id":"1"}]"#.to_vec()))
    }
}

#[async_trait]
impl Configuration for World {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        Ok(Some(Topic {
            name: name.to_owned(),
            kind: Kind::Custom,
            input_schema: InputSchema::CloudEventSchemaV1_0,
            input_schema_mapping: None,
            disable_local_auth: false,
            delivery_profile: ProfileName::Basic,
            keys: [Secret::new("a"), Secret::new("b")],
            created_at: Timestamp::default(),
            etag: Uuid::nil(),
            revision: 1,
        }))
    }

    async fn subscriptions(&self, _: &str) -> Result<Vec<EventSubscription>, PortError> {
        Ok(vec![self.subscription.clone()])
    }
}
