//! A deployment in which manage and dispatch share tables and queues.

use std::{sync::Arc, time::Duration};

use gridpost_core::{
    delivery::queue::Queue,
    retry::{health::Durations, slow_endpoint::SlowEndpointSettings},
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::Topic,
};
use gridpost_dispatch::{
    Context, Settings, handler::handle, health::HealthCache, in_flight::InFlight, rate::Rates,
    resources::NoResources,
};
use gridpost_manage::{Request, answer};
use gridpost_ports::{
    Clock, QueueReceiver, WithSecrets,
    configuration::{ConfigurationCache, Limits},
};
use gridpost_testkit::{
    deployment::Deployment,
    endpoint::{Reaction, Script},
    fixtures,
    queue::QueueSettings,
};
use serde_json::Value;

use crate::manage::{RETRY_SHARDS, manage_context};

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

/// manage and dispatch with the event subscription `s-1` of the topic `demo`. Calls of manage are
/// numbered, and go wrong as the injector's plan says.
pub(super) struct Fixture {
    pub(super) deployment: Deployment,
    pub(super) subscription: EventSubscription,
}

impl Fixture {
    /// At first at [`NOW`]; its endpoint answers 200.
    pub(super) fn new() -> Self {
        let queues = QueueSettings { retry_shards: RETRY_SHARDS, ..QueueSettings::CALM };
        let deployment = Deployment::with_queues(NOW, queues);
        let key = SubscriptionKey { topic: "demo".to_owned(), name: "s-1".to_owned() };
        let subscription = EventSubscription { key: key.clone(), ..fixtures::subscription("s-1") };
        let topic = Topic { name: "demo".to_owned(), ..fixtures::topic() };
        deployment.tables.configure(topic, vec![subscription.clone()]);
        let answers = Script::Answers(vec![Reaction::status(200)]);
        deployment.endpoints.behave(key, answers);
        Self { deployment, subscription }
    }

    /// Sends `METHOD /path` with a document to manage; answers status and document.
    pub(super) async fn send(&self, line: &str, document: Value) -> (u16, Value) {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let body = if document.is_null() { Vec::new() } else { document.to_string().into_bytes() };
        let method = method.parse().expect("a method");
        let reply =
            answer(&manage_context(&self.deployment), &Request::new(method, path.to_owned(), body))
                .await;
        let history = self.deployment.history.lock().expect("no panic while held");
        assert!(history.violations.is_empty(), "{line}: {:?}", history.violations);
        (reply.status, reply.body.unwrap_or_default())
    }

    /// Lets so many calls of manage succeed, and then none; `None`: all succeed.
    pub(super) fn fails_after(&self, calls: Option<u64>) {
        let injector = &self.deployment.injector;
        injector.plan().calls_max = calls.map(|calls| injector.made() + calls);
    }

    /// A copy of dispatch that has just started.
    fn dispatch(&self) -> Context {
        let deployment = &self.deployment;
        let (tables, queues, dice) = (&deployment.tables, &deployment.queues, &deployment.dice);
        let clock: Arc<dyn Clock> = Arc::clone(&deployment.clock) as _;
        let configuration = ConfigurationCache::new(
            Arc::new(WithSecrets(Arc::clone(tables))),
            Arc::clone(&clock),
            Arc::clone(dice) as _,
            Limits::default(),
        );
        Context {
            clock,
            dice: Arc::clone(dice) as _,
            sender: Arc::clone(queues) as _,
            receiver: Arc::clone(queues) as _,
            in_flight: InFlight::new(Arc::clone(queues) as _),
            states: Arc::clone(tables) as _,
            parking: Arc::clone(tables) as _,
            payloads: Arc::clone(&deployment.payloads) as _,
            healths: HealthCache::new(Arc::clone(tables) as _, Arc::clone(dice) as _),
            rates: Rates::new(Arc::clone(tables) as _),
            listeners: Arc::clone(tables) as _,
            configuration,
            client: Arc::clone(&deployment.endpoints) as _,
            resources: Arc::new(NoResources),
            meter: Arc::clone(&deployment.meter) as _,
            journal: Arc::clone(&deployment.meter) as _,
            settings: Settings {
                probation: Durations::default(),
                retry_shards: RETRY_SHARDS,
                sends_to_slow: false,
                lanes: SlowEndpointSettings::default(),
                first_listeners_max: 10,
                retry_listeners_max: 5,
                slow_listeners_max: 5,
                retry_in_flight_limit: 60_000,
                queue_message_bytes_max: 262_144,
                dead_letter_delay_s: 300,
                latency_metrics: false,
                origin: "example.com".to_owned(),
            },
        }
    }

    /// Lets dispatch take what the retry queues give out for so long.
    pub(super) async fn run(&self, time: Duration) {
        let (queues, until) = (&self.deployment.queues, self.deployment.clock.now() + time);
        while self.deployment.clock.now() < until {
            for queue in (0..RETRY_SHARDS).map(Queue::Retry) {
                let received = queues.hand_all(queue);
                if received.is_empty() {
                    continue;
                }
                let records = received.iter().map(|one| one.record(queue)).collect();
                let deadline = self.deployment.clock.now() + Duration::from_secs(60);
                let kept = handle(&self.dispatch(), records, deadline).await;
                let gone = received.into_iter().filter(|one| !kept.contains(&one.message_id));
                let gone = gone.map(|one| one.receipt).collect();
                queues.delete(queue, gone).await.expect("deleted");
            }
            tokio::time::advance(Duration::from_secs(5)).await;
        }
    }
}
