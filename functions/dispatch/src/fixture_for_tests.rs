//! A deployment with one event subscription, for tests of what dispatch does with a batch.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{Delivery, claim, queue::Queue, request::Request, state::DeliveryState},
    event::DeliverySchema,
    retry::{
        health::{Durations, Health, Probation},
        slow_endpoint::SlowEndpointSettings,
    },
    secret::Secret,
    subscription::{
        DeliveryAttribute, Endpoint, EventSubscription, Signing, SubscriptionKey,
        attributes::AttributeValue,
    },
    time::Timestamp,
    topic::{InputSchema, Topic},
};
use gridpost_ports::{
    Attempted, DeliveryStates, EndpointClient, EndpointHealths, Payloads, PlaceWait, Saved,
    WithSecrets,
    configuration::{ConfigurationCache, Limits},
};
use gridpost_testkit::{
    deployment::Deployment,
    endpoint::{Reaction, Script},
    faults::Plan,
    fixtures,
    queue::QueueSettings,
};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    Context, Settings, handler::handle, health::HealthCache, in_flight::InFlight, rate::Rates,
    resources::NoResources,
};

/// 15 s into minute 100.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(100 * 60_000 + 15_000);

/// A deployment whose endpoint answers at once, by default with 200. Calls that count requests are
/// numbered, and fail as the injector's plan says.
pub(crate) struct Fixture {
    pub(crate) deployment: Deployment,
    pub(crate) subscription: EventSubscription,
    pub(crate) status: u16,
    /// Overrides the other answers.
    pub(crate) script: Option<Script>,
    pub(crate) answers_after: Duration,
    pub(crate) says: Option<String>,
    pub(crate) logs_successful_attempts: bool,
    pub(crate) message_bytes_max: usize,
    pub(crate) measures_latency: bool,
    pub(crate) sends_to_slow: bool,
    /// Whether no request finds a file descriptor.
    pub(crate) lacks_descriptors: bool,
    /// How long each request waits for one.
    pub(crate) waits_for_descriptors: Duration,
    /// Faults of calls, numbered from 1.
    pub(crate) state_faults: Plan,
    pub(crate) payload_faults: Plan,
    pub(crate) parking_faults: Plan,
    pub(crate) receiver_faults: Plan,
    pub(crate) sender_faults: Plan,
}

struct Saying(Arc<dyn EndpointClient>, Option<String>, Duration);

#[async_trait]
impl EndpointClient for Saying {
    async fn attempt(&self, request: Request) -> Attempted {
        let waits = PlaceWait::current();
        waits.begin();
        if !self.2.is_zero() {
            tokio::time::sleep(self.2).await;
        }
        waits.end();
        match self.0.attempt(request).await {
            Attempted::Answered { answer, body, .. } => {
                Attempted::Answered { answer, response_text: self.1.clone(), body }
            }
            late => late,
        }
    }
}

struct NoDescriptors;

#[async_trait]
impl EndpointClient for NoDescriptors {
    async fn attempt(&self, _: Request) -> Attempted {
        Attempted::NotMade
    }
}

/// A delivery and its one event have the same number.
pub(crate) fn delivery(number: u128) -> Delivery {
    let EventSubscription { key, uid, .. } = subscription(None);
    let event = format!(r#"{{"id":"{number}","subject":"{key}","data":"confidential"}}"#);
    let event = RawValue::from_string(event);
    let events = vec![event.expect("JSON")];
    Delivery::new(Uuid::from_u128(number), key, uid, NOW, String::new(), events)
}

pub(crate) fn deliveries(count: u128) -> Vec<Delivery> {
    (1..=count).map(delivery).collect()
}

fn subscription(rate: Option<u32>) -> EventSubscription {
    EventSubscription {
        key: SubscriptionKey { topic: "orders".to_owned(), name: "billing".to_owned() },
        delivery_schema: DeliverySchema::CloudEventSchemaV1_0,
        endpoint: Endpoint::WebHook { url: Secret::new("https://example.com/hook?code=hush") },
        delivery_attributes: vec![DeliveryAttribute {
            name: "x-key".to_owned(),
            value: AttributeValue::Secret { value: Secret::new("hush") },
        }],
        signing: Some(Signing { secret: Secret::new("whsec_aHVzaA=="), previous: None }),
        allowed_rate: rate.map(|rate| NonZeroU32::new(rate).expect("at least one")),
        ..fixtures::subscription("billing")
    }
}

impl Fixture {
    /// Its endpoint allows `rate` requests a minute.
    pub(crate) fn new(rate: Option<u32>) -> Self {
        Self {
            // Nothing is sent to the second retry queue any more.
            deployment: Deployment::with_queues(
                NOW,
                QueueSettings { retry_shards: 2, ..QueueSettings::CALM },
            ),
            subscription: subscription(rate),
            status: 200,
            script: None,
            answers_after: Duration::ZERO,
            says: None,
            logs_successful_attempts: false,
            message_bytes_max: 262_144,
            measures_latency: false,
            sends_to_slow: false,
            lacks_descriptors: false,
            waits_for_descriptors: Duration::ZERO,
            state_faults: Plan::default(),
            payload_faults: Plan::default(),
            parking_faults: Plan::default(),
            receiver_faults: Plan::default(),
            sender_faults: Plan::default(),
        }
    }

    /// Puts the endpoint on probation.
    pub(crate) async fn waits(self, wait: Probation) -> Self {
        self.has(Health { probation: Some(wait), ..Health::default() }).await
    }

    pub(crate) async fn has(self, health: Health) -> Self {
        let EventSubscription { key, uid, .. } = &self.subscription;
        let saved = EndpointHealths::save(&*self.deployment.tables, key, *uid, &health).await;
        assert_eq!(saved.expect("written"), Saved::Written);
        self
    }

    pub(crate) async fn health(&self) -> Health {
        let EventSubscription { key, uid, .. } = &self.subscription;
        let health = EndpointHealths::load(&*self.deployment.tables, key, *uid).await;
        health.expect("readable")
    }

    pub(crate) async fn health_writes(&self) -> u64 {
        self.health().await.revision
    }

    pub(crate) async fn knows(&self, state: &DeliveryState) {
        let saved = DeliveryStates::save(&*self.deployment.tables, state).await;
        assert_eq!(saved.expect("written"), Saved::Written);
    }

    /// Puts the events of a delivery into the payload bucket. Returns the delivery without them.
    pub(crate) async fn claimed(&self, delivery: Delivery) -> Delivery {
        let object = claim::encode(delivery.events());
        self.deployment.payloads.put(&claim::key(delivery.id), object).await.expect("stored");
        delivery.into_claimed()
    }

    /// Lets dispatch receive a message. Returns its id if it stays in the queue.
    pub(crate) async fn receive_text(&self, queue: Queue, text: String) -> Vec<String> {
        let record = self.deployment.queues.hand(queue, text).record(queue);
        handle(&self.context(), vec![record], NOW + Duration::from_secs(200)).await
    }

    /// Lets dispatch receive deliveries. Returns the numbers of those that stay in the queue. Checks that
    /// a delivery that only waits has no state, and that none is parked.
    pub(crate) async fn receive(&self, queue: Queue, deliveries: &[Delivery]) -> Vec<u128> {
        let Deployment { queues, tables, endpoints, history, .. } = &self.deployment;
        let topic = Topic {
            name: self.subscription.key.topic.clone(),
            input_schema: InputSchema::CloudEventSchemaV1_0,
            ..fixtures::topic()
        };
        tables.configure(topic, vec![self.subscription.clone()]);
        let answers =
            Script::Answers(vec![Reaction::status(self.status).after(self.answers_after)]);
        let answers = self.script.clone().unwrap_or(answers);
        endpoints.behave(self.subscription.key.clone(), answers);
        endpoints.ends_in_parts(self.subscription.key.clone());
        let is_good = self.script.is_none() && self.status == 200 && self.answers_after.is_zero();
        let is_paused = self.subscription.pauses.current(NOW).is_some();
        let may_have_state = !is_good || is_paused || !tables.states().is_empty();

        let received: Vec<_> =
            deliveries.iter().map(|delivery| queues.hand(queue, delivery.encode())).collect();
        let records = received.iter().map(|one| one.record(queue)).collect();
        let kept = handle(&self.context(), records, NOW + Duration::from_secs(200)).await;

        let states = tables.states();
        assert!(may_have_state || states.is_empty(), "it only waits: {states:?}");
        let parked = tables.parked_ids();
        assert!(is_paused || parked.is_empty(), "it waits not so long: {parked:?}");
        let violations = history.lock().expect("no panic while held").violations.clone();
        assert_eq!(violations, [""; 0]);
        let of_record = |id: &String| {
            let place = received.iter().position(|one| one.message_id == *id);
            deliveries[place.expect("it was received")].id.as_u128()
        };
        let mut kept: Vec<_> = kept.iter().map(of_record).collect();
        kept.sort_unstable();
        kept
    }

    /// Pauses the event subscription since a minute ago.
    pub(crate) fn paused(mut self, time_to_live_runs: bool) -> Self {
        let since = Timestamp::from_millis(NOW.as_millis() - 60_000);
        let pauses = self.subscription.pauses.paused(time_to_live_runs, None, since);
        self.subscription.pauses = pauses.expect("it may be");
        self
    }

    pub(crate) fn requests(&self) -> usize {
        self.deployment.history.lock().expect("no panic while held").requests.len()
    }

    /// Hidden deliveries' numbers, and for how many seconds.
    pub(crate) fn hidden(&self) -> Vec<(u128, u32)> {
        let queues = &self.deployment.queues;
        let delivery = |(queue, receipt, seconds): (Queue, String, u32)| {
            let id = queues.delivery_of(queue, &receipt).expect("it is there");
            (id.as_u128(), seconds)
        };
        queues.hidden().into_iter().map(delivery).collect()
    }

    pub(crate) fn context(&self) -> Context {
        let Deployment { clock, dice, meter, queues, tables, payloads, endpoints, .. } =
            &self.deployment;
        if self.logs_successful_attempts {
            meter.keep_first_successes();
        }
        let configuration = ConfigurationCache::new(
            Arc::new(WithSecrets(Arc::clone(tables))),
            Arc::clone(clock) as _,
            Arc::clone(dice) as _,
            Limits::default(),
        );
        Context {
            clock: Arc::clone(clock) as _,
            dice: Arc::clone(dice) as _,
            sender: self.deployment.apart(queues, self.sender_faults.clone()),
            receiver: self.deployment.apart(queues, self.receiver_faults.clone()),
            in_flight: InFlight::new(Arc::clone(queues) as _),
            states: self.deployment.apart(tables, self.state_faults.clone()),
            parking: self.deployment.apart(tables, self.parking_faults.clone()),
            payloads: self.deployment.apart(payloads, self.payload_faults.clone()),
            healths: HealthCache::new(Arc::clone(tables) as _, Arc::clone(dice) as _),
            rates: Rates::new(self.deployment.of(tables)),
            listeners: Arc::clone(tables) as _,
            configuration,
            client: match self.lacks_descriptors {
                false => {
                    let (says, waits) = (self.says.clone(), self.waits_for_descriptors);
                    Arc::new(Saying(Arc::clone(endpoints) as _, says, waits))
                }
                true => Arc::new(NoDescriptors),
            },
            resources: Arc::new(NoResources),
            meter: Arc::clone(meter) as _,
            journal: Arc::clone(meter) as _,
            settings: Settings {
                probation: Durations::default(),
                retry_shards: 1,
                sends_to_slow: self.sends_to_slow,
                lanes: SlowEndpointSettings::default(),
                first_listeners_max: 10,
                retry_listeners_max: 5,
                slow_listeners_max: 0,
                retry_in_flight_limit: 60_000,
                queue_message_bytes_max: self.message_bytes_max,
                dead_letter_delay_s: 300,
                latency_metrics: self.measures_latency,
                origin: "example.com".to_owned(),
            },
        }
    }
}
