//! Manage with its stores, in memory.

use std::{sync::Arc, time::Duration};

use gridpost_core::{
    delivery::{parking::Parked, queue::Queue, state::DeliveryState},
    endpoint::{Allowed, arn::AllowedResources},
    poison::Poisoned,
    topic::Topic,
};
use gridpost_ports::{HandshakeRequest, Outgoing, ParkingLot, WithSecrets};
use gridpost_testkit::{
    consent::ConsentAnswer, deployment::Deployment, faults::Fault, journal_reader::FakeJournal,
    queue::QueueSettings, table::Tables,
};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{NOW, S1, key, letters, webhook};
use crate::{Authorization, Context, Reply, Request, Settings, answer};

/// How long the data plane keeps configuration in memory.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(2);

/// Manage with its stores, at first at [`NOW`]. Calls of ports are numbered, from 1 for the next one.
pub(super) struct Fixture {
    pub(super) context: Context,
    pub(super) deployment: Deployment,
    /// Dead letters and redrive jobs.
    pub(super) letters: Deployment,
    pub(super) journal: Arc<FakeJournal>,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let queues = QueueSettings { retry_shards: 4, ..QueueSettings::CALM };
        let deployment = Deployment::with_queues(NOW, queues);
        deployment.history.lock().expect("no panic").trace = Some(Vec::new());
        let tables = deployment.of(&deployment.tables);
        let queues = deployment.of(&deployment.queues);
        let consents = deployment.of(&deployment.consents);
        let letters = letters::deployment();
        let journal = Arc::<FakeJournal>::default();
        let context = Context {
            configuration: Arc::new(WithSecrets(Arc::clone(&tables))),
            without_secrets: Arc::clone(&tables) as _,
            keys: Arc::clone(&tables) as _,
            topics: Arc::clone(&tables) as _,
            subscriptions: Arc::clone(&tables) as _,
            deliveries: Arc::clone(&tables) as _,
            handshakes: Arc::clone(&consents) as _,
            endpoints: deployment.of(&deployment.endpoints),
            checker: consents,
            poison: Arc::clone(&queues) as _,
            receiver: Arc::clone(&queues) as _,
            sender: queues,
            parked: Arc::clone(&tables) as _,
            parking: Arc::clone(&tables) as _,
            states: Arc::clone(&tables) as _,
            healths: tables,
            dead_letters: Arc::clone(&letters.buckets) as _,
            payloads: Arc::clone(&deployment.payloads) as _,
            redrives: letters.of(&letters.tables),
            journal_reader: Arc::clone(&journal) as _,
            meter: Arc::clone(&deployment.meter) as _,
            journal: Arc::clone(&deployment.meter) as _,
            clock: Arc::clone(&deployment.clock) as _,
            dice: Arc::clone(&deployment.dice) as _,
            settings: Settings {
                allowed: Allowed {
                    networks: "127.0.0.0/8".parse().expect("a network"),
                    resources: AllowedResources {
                        region: "eu-central-1".to_owned(),
                        patterns: "arn:aws:sqs:*:123456789012:orders*".parse().expect("patterns"),
                    },
                    ..Allowed::default()
                },
                validation_origin: "eventgrid.azure.net".to_owned(),
                publish_url: "https://publish.example".to_owned(),
                manage_url: "https://manage.example".to_owned(),
                validation_url: "https://events.example".to_owned(),
                configuration_kept_for: KEPT_FOR,
                dispatch_keeps_configuration: 5 * KEPT_FOR,
                account: "123456789012".to_owned(),
                retry_shards: 4,
                has_slow_queue: false,
                queue_message_bytes_max: 262_144,
                authorization: Authorization::None,
            },
        };
        Self { context, deployment, letters, journal }
    }

    /// With the topic `demo` and its event subscription `s-1`. It is still [`NOW`].
    pub(super) async fn with_subscription() -> Self {
        let mut fixture = Self::new();
        assert_eq!(fixture.prepare("PUT /topics/demo", json!({})).await.status, 201);
        let document = webhook("https://e.example/hook?code=hush");
        assert_eq!(fixture.prepare(S1, document).await.status, 201);
        fixture
    }

    /// As [`Self::send`], but a change takes no time.
    pub(super) async fn prepare(&mut self, line: &str, document: Value) -> Reply {
        self.context.settings.configuration_kept_for = Duration::ZERO;
        let reply = self.send(line, document).await;
        self.context.settings.configuration_kept_for = KEPT_FOR;
        reply
    }

    /// Sends `METHOD /path` with a document.
    pub(super) async fn send(&self, line: &str, document: Value) -> Reply {
        self.send_bytes(line, document.to_string().into_bytes()).await
    }

    pub(super) async fn call(&self, line: &str) -> Reply {
        self.send_bytes(line, Vec::new()).await
    }

    pub(super) async fn send_bytes(&self, line: &str, body: Vec<u8>) -> Reply {
        self.send_with(line, &[], body).await
    }

    pub(super) async fn send_with(
        &self,
        line: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Reply {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let headers = headers.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        });
        let request = Request {
            method: method.parse().expect("a method"),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: headers.collect(),
            body,
            route: None,
            authorizer: None,
            caller: None,
        };
        let reply = answer(&self.context, &request).await;
        let history = self.deployment.history.lock().expect("no panic");
        assert!(history.violations.is_empty(), "{line}: {:?}", history.violations);
        reply
    }

    pub(super) fn consent(&self, answers: ConsentAnswer) {
        self.deployment.consents.answer(answers);
    }

    /// How often endpoints were asked for consent.
    pub(super) fn asked(&self) -> usize {
        self.deployment.consents.asked().len()
    }

    pub(super) fn last_asked(&self) -> HandshakeRequest {
        self.deployment.consents.asked().pop().expect("asked").request
    }

    pub(super) fn topic(&self, name: &str) -> Option<Topic> {
        self.deployment.tables.stored_topics().into_iter().find(|topic| topic.name == name)
    }

    pub(super) fn subscription_uid(&self, name: &str) -> Option<Uuid> {
        let key = key("demo", name);
        let all = self.deployment.tables.stored_subscriptions();
        all.into_iter().find(|subscription| subscription.key == key).map(|found| found.uid)
    }

    pub(super) fn endpoint_uid(&self, name: &str) -> Option<Uuid> {
        let key = key("demo", name);
        let all = self.deployment.tables.stored_subscriptions();
        let found = all.into_iter().find(|subscription| subscription.key == key);
        found.map(|found| found.endpoint_uid())
    }

    /// Replaces `s-1` by copies with those names.
    pub(super) fn fill(&self, names: impl IntoIterator<Item = String>) {
        let tables = &self.deployment.tables;
        let one = tables.stored_subscriptions().into_iter().next().expect("s-1");
        let named = |name: String| {
            let mut another = one.clone();
            another.key.name = name;
            another
        };
        let all = names.into_iter().map(named).collect();
        tables.configure(self.topic("demo").expect("demo"), all);
    }

    pub(super) fn state(&self, id: u128) -> Option<DeliveryState> {
        let id = Uuid::from_u128(id);
        self.deployment.tables.states().into_iter().find(|state| state.id == id)
    }

    pub(super) fn put_state(&self, state: DeliveryState) {
        self.deployment.tables.put_state(state);
    }

    pub(super) async fn park(&self, parked: Parked) {
        self.deployment.tables.park(&parked).await.expect("parked");
    }

    pub(super) fn parked(&self) -> usize {
        self.deployment.tables.parked_ids().len()
    }

    /// Puts a message into the poison queue that was received 1,000 times.
    pub(super) fn lay(&self, id: &str, body: &str, moved_from: Option<&str>, group: Option<&str>) {
        self.deployment.queues.lay(Poisoned {
            id: id.to_owned(),
            receipt: String::new(),
            body: body.to_owned(),
            sent_at: NOW,
            receive_count: 1_000,
            moved_from: moved_from.map(str::to_owned),
            group: group.map(str::to_owned),
        });
    }

    /// The ids of messages in the poison queue. Checks that none is hidden.
    pub(super) fn lying(&self) -> Vec<String> {
        let lying = self.deployment.queues.lying();
        assert!(lying.iter().all(|(_, is_hidden)| !is_hidden), "a message was left hidden");
        let hidden = self.deployment.queues.hidden();
        assert!(hidden.iter().all(|(.., seconds)| *seconds == 0), "looked at, and shown again");
        let hides = self.lines().iter().filter(|line| line.starts_with("hide ")).count();
        assert_eq!(hidden.len(), hides, "what is gone is not shown again");
        lying.into_iter().map(|(id, _)| id).collect()
    }

    pub(super) fn sent(&self) -> Vec<(Queue, Outgoing)> {
        self.deployment.queues.sent()
    }

    /// The trace without times.
    fn lines(&self) -> Vec<String> {
        let history = self.deployment.history.lock().expect("no panic");
        let lines = history.trace.iter().flatten();
        lines.map(|line| line.split_once(' ').expect("a time").1.to_owned()).collect()
    }

    /// The calls that changed waiting deliveries, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        let call = |line: String| match line.split(' ').collect::<Vec<_>>()[..] {
            ["state", ..] => Some("write the state".to_owned()),
            ["send", queue, ..] => Some(format!("send to {queue}")),
            ["hide", "poison", ..] => None,
            ["hide", queue, receipt, "0"] => Some(format!("show {receipt} in {queue}")),
            ["delete", queue, ..] => Some(format!("delete from {queue}")),
            ["unpark", ..] => Some("remove what was parked".to_owned()),
            _ => None,
        };
        self.lines().into_iter().filter_map(call).collect()
    }

    pub(super) fn forget_calls(&self) {
        self.deployment.history.lock().expect("no panic").trace = Some(Vec::new());
    }

    pub(super) fn made(&self) -> u64 {
        self.deployment.injector.made()
    }

    pub(super) fn fails(&self, calls: &[u64]) {
        let made = self.made();
        let calls = calls.iter().map(|call| (made + call, Fault::FailsBefore));
        self.deployment.injector.plan().calls = calls.collect();
    }

    /// Lets only the next `calls` calls succeed; `None`: all.
    pub(super) fn fails_after(&self, calls: Option<u64>) {
        self.deployment.injector.plan().calls_max = calls.map(|calls| self.made() + calls);
    }

    /// Lets another writer change the tables just before a call.
    pub(super) fn interfere(&self, call: u64, change: impl FnOnce(&Tables) + Send + 'static) {
        let tables = Arc::clone(&self.deployment.tables);
        self.deployment.injector.interfere(self.made() + call, move || change(&tables));
    }
}

/// Another writer's change of `demo`, which changes only its revision.
pub(super) fn touch(tables: &Tables) {
    let topic = tables.stored_topics().into_iter().find(|topic| topic.name == "demo");
    let all = tables.stored_subscriptions().into_iter().filter(|it| it.key.topic == "demo");
    tables.configure(topic.expect("demo"), all.collect());
}

/// Another writer's new event subscription of `demo`, a copy of the first.
pub(super) fn create(tables: &Tables, name: &str) {
    let mut topics = tables.stored_topics().into_iter();
    let topic = topics.find(|topic| topic.name == "demo").expect("demo");
    let mut all = tables.stored_subscriptions();
    let mut new = all[0].clone();
    new.key = key("demo", name);
    all.retain(|it| it.key.topic == "demo");
    all.push(new);
    tables.configure(topic, all);
}
