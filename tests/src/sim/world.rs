//! A world: the fakes, the handlers over them, and the run to its end.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost::{
    configuration::ConfigurationCache,
    delivery::{Delivery, probation::Durations, state::DeliveryState},
    ports::{Clock, Configuration, Dice, Meter, Outgoing, Queue, QueueSender},
    subscription::{DeliverySchema, EventSubscription},
    telemetry::metric,
    topic::Topic,
};
use gridpost_dispatch::{Settings, health::HealthBook};
use serde_json::{json, value::RawValue};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    bucket::Buckets,
    clock::VirtualClock,
    dice::{SeededDice, StillDice},
    endpoint::Endpoints,
    faults::{Faulty, Injector, Instance},
    history::{Accepted, History},
    lambda::{self, Mapping, Pools},
    log::LogReader,
    queue::Queues,
    scenario::{DEAD_LETTER_DELAY_S, DISPATCH_TIMEOUT, GIVE_UP_AFTER, Publish, Scenario},
    table::Tables,
};

/// Worlds that last longer than this hold something that waits for ever.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A world that runs.
pub struct World {
    /// The time.
    pub clock: VirtualClock,
    /// What happens.
    pub history: Arc<Mutex<History>>,
    /// The queues.
    pub queues: Arc<Queues>,
    /// The tables.
    pub tables: Arc<Tables>,
    /// Copies of functions that wait for work.
    pub pools: Pools,
    /// The world's own dice.
    pub dice: SeededDice,
    /// What goes wrong.
    pub injector: Arc<Injector>,
    /// How often a fresh copy is started.
    pub cold_starts: f64,
    buckets: Arc<Buckets>,
    endpoints: Arc<Endpoints>,
    handlers_dice: Arc<dyn Dice>,
    scenario: Scenario,
    busy: Cell<u64>,
    idle: Notify,
}

/// What is left of a world at its end.
pub struct Remains {
    /// What happened.
    pub history: History,
    /// Bodies that were still in a queue.
    pub in_queues: Vec<(Queue, String)>,
    /// Deliveries that were still parked.
    pub parked: Vec<Uuid>,
    /// The stored states.
    pub states: Vec<DeliveryState>,
    /// The topics and event subscriptions that there were.
    pub topics: Vec<(Topic, Vec<EventSubscription>)>,
    /// Whether nothing went wrong by plan.
    pub calm: bool,
    /// The longest that one call took.
    pub latency_max: Duration,
    /// How long it lasted.
    pub lasted: Duration,
}

struct CountingMeter(Arc<Mutex<History>>);

impl Meter for CountingMeter {
    fn count(&self, metric: &'static str, _: &[(&'static str, &str)], by: u64) {
        if metric == metric::DROPPED_EVENT_COUNT {
            self.0.lock().expect("no panic while held").dropped_counted += by;
        }
    }
}

/// Runs a world to its end. `traced` keeps a line of everything.
pub fn run(scenario: &Scenario, seed: u64, traced: bool) -> Remains {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing");
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let world = World::new(scenario, seed, traced);
        let reader = LogReader { clock: world.clock, history: Arc::clone(&world.history) };
        let _guard = tracing::subscriber::set_default(reader);
        world.live().await
    }))
}

impl World {
    fn new(scenario: &Scenario, seed: u64, traced: bool) -> Rc<Self> {
        let dice = SeededDice::new(seed ^ 0x5eed);
        let clock = VirtualClock::start();
        let history = History { trace: traced.then(Vec::new), ..History::default() };
        let history = Arc::new(Mutex::new(history));
        let shared = || Arc::clone(&history);
        let queues = Queues::new(scenario.queues.clone(), clock, dice.fork(), shared());
        let tables = Tables::new(clock, shared());
        for (topic, subscriptions) in &scenario.topics {
            tables.configure(topic.clone(), subscriptions.clone());
        }
        let handlers_dice = dice.fork();
        let handlers_dice: Arc<dyn Dice> = if scenario.jitter {
            Arc::new(handlers_dice)
        } else {
            Arc::new(StillDice(handlers_dice))
        };
        let buckets = Buckets {
            missing: scenario.missing_buckets.clone(),
            refuses: scenario.bucket_refuses.clone(),
            clock,
            history: shared(),
        };
        let injector =
            Injector { plan: scenario.plan.clone(), dice: dice.fork(), clock, history: shared() };
        let endpoints = Endpoints::new(scenario.scripts.clone(), clock, dice.fork(), shared());
        Rc::new(Self {
            clock,
            queues: Arc::new(queues),
            tables: Arc::new(tables),
            pools: Pools::default(),
            injector: Arc::new(injector),
            cold_starts: scenario.cold_starts,
            buckets: Arc::new(buckets),
            endpoints: Arc::new(endpoints),
            handlers_dice,
            scenario: scenario.clone(),
            busy: Cell::new(0),
            idle: Notify::new(),
            dice,
            history,
        })
    }

    /// Notes that something is under way.
    pub fn begin(&self) {
        self.busy.set(self.busy.get() + 1);
    }

    /// Notes that it is over.
    pub fn end(&self) {
        self.busy.set(self.busy.get() - 1);
        self.idle.notify_one();
    }

    /// Notes what must never happen.
    pub fn violation(&self, what: &str) {
        self.history.lock().expect("no panic while held").violation(self.clock.now(), what);
    }

    async fn live(self: Rc<Self>) -> Remains {
        self.begin();
        for mapping in self.mappings() {
            tokio::task::spawn_local(lambda::poll(Rc::clone(&self), mapping));
        }
        tokio::task::spawn_local(lambda::schedule_wake(Rc::clone(&self)));
        let world = Rc::clone(&self);
        tokio::task::spawn_local(async move {
            world.publish_all().await;
            world.end();
        });
        tokio::select! { biased;
            () = self.ended() => {}
            () = tokio::time::sleep(LONGEST) => {}
        }
        self.remains()
    }

    fn mappings(&self) -> Vec<Mapping> {
        let concurrency = self.scenario.concurrency;
        let timeout = DISPATCH_TIMEOUT;
        let mut all: Vec<_> = (0..self.scenario.queues.retry_shards)
            .map(|shard| Mapping {
                queue: Queue::Retry(shard),
                records_max: 10,
                concurrency,
                timeout,
            })
            .collect();
        all.push(Mapping { queue: Queue::Dispatch, records_max: 10, concurrency, timeout });
        let timeout = Duration::from_secs(60);
        all.push(Mapping { queue: Queue::DeadLetter, records_max: 100, concurrency, timeout });
        all
    }

    /// Resolves when nothing is left to be done.
    async fn ended(&self) {
        while self.busy.get() > 0 || self.waiting() > 0 {
            self.idle.notified().await;
        }
    }

    fn waiting(&self) -> usize {
        let in_queues: usize =
            self.mappings().iter().map(|mapping| self.queues.len(mapping.queue)).sum();
        in_queues + self.tables.parked()
    }

    async fn publish_all(&self) {
        let deleted = self.scenario.deletions.iter().map(|(at, key)| (*at, Err(key)));
        let published = self.scenario.publishes.iter().map(|publish| (publish.at, Ok(publish)));
        let mut all: Vec<_> = published.chain(deleted).collect();
        all.sort_by_key(|(at, _)| *at);
        for (number, (at, what)) in all.into_iter().enumerate() {
            self.clock.sleep_until(at).await;
            match what {
                Ok(publish) => self.publish(number, publish).await,
                Err(key) => {
                    for (topic, subscriptions) in &self.scenario.topics {
                        if topic.name == key.topic {
                            let rest = subscriptions.iter().filter(|found| found.key != *key);
                            self.tables.configure(topic.clone(), rest.cloned().collect());
                        }
                    }
                    let mut history = self.history.lock().expect("no panic while held");
                    history.deleted.insert(key.clone(), at);
                }
            }
        }
    }

    async fn publish(&self, number: usize, publish: &Publish) {
        let all = self.scenario.topics.iter().flat_map(|(_, subscriptions)| subscriptions);
        let Some(to) = all.into_iter().find(|found| found.key == publish.to) else { return };
        {
            let history = self.history.lock().expect("no panic while held");
            if history.deleted.contains_key(&publish.to) {
                return;
            }
        }
        let now = self.clock.now();
        let ids: Vec<_> =
            (0..publish.events.len()).map(|event| format!("e{number}-{event}")).collect();
        let events = ids.iter().zip(&publish.events);
        let events = events.map(|(id, bytes)| event(to, id, *bytes)).collect();
        let id = self.dice.id();
        let delivery = Delivery::new(id, to.key.clone(), to.uid, now, String::new(), events);
        {
            let mut history = self.history.lock().expect("no panic while held");
            for event in &ids {
                history.carriers.insert((to.key.clone(), event.clone()), id);
            }
            let accepted =
                Accepted { subscription: to.key.clone(), publish_time: now, events: ids };
            history.accepted.insert(id, accepted);
            history.trace(now, || format!("publish {id} to {}", to.key));
        }
        let group = to.key.to_string();
        let message = Outgoing { body: delivery.encode(), group, delay_s: 0 };
        let sent = self.queues.send(Queue::Dispatch, vec![message]).await;
        assert!(sent.iter().all(Result::is_ok), "a publish is small enough for the queue");
    }

    fn faulty<T: ?Sized>(&self, instance: &Arc<Instance>, inner: &Arc<T>) -> Arc<Faulty<T>> {
        Arc::new(Faulty {
            injector: Arc::clone(&self.injector),
            instance: Arc::clone(instance),
            inner: Arc::clone(inner),
        })
    }

    /// A fresh copy of dispatch.
    pub fn dispatch(&self, instance: &Arc<Instance>) -> gridpost_dispatch::Context {
        let (queues, tables) =
            (self.faulty(instance, &self.queues), self.faulty(instance, &self.tables));
        let clock: Arc<dyn Clock> = Arc::new(self.clock);
        let configuration: Arc<dyn Configuration> = Arc::clone(&tables) as _;
        let kept_for = Duration::from_secs(2);
        gridpost_dispatch::Context {
            clock: Arc::clone(&clock),
            dice: Arc::clone(&self.handlers_dice),
            sender: Arc::clone(&queues) as _,
            receiver: queues,
            states: Arc::clone(&tables) as _,
            parking: Arc::clone(&tables) as _,
            healths: HealthBook::new(tables),
            configuration: ConfigurationCache::new(configuration, clock, kept_for),
            client: self.faulty(instance, &self.endpoints),
            meter: Arc::new(CountingMeter(Arc::clone(&self.history))),
            settings: Settings {
                probation: Durations::default(),
                retry_shards: self.scenario.queues.retry_shards,
                retry_in_flight_limit: self.scenario.retry_in_flight_limit,
                dead_letter_delay_s: DEAD_LETTER_DELAY_S,
                origin: "gridpost.example".to_owned(),
            },
        }
    }

    /// A fresh copy of dead-letter.
    pub fn dead_letter(&self, instance: &Arc<Instance>) -> gridpost_dead_letter::Context {
        let queues = self.faulty(instance, &self.queues);
        gridpost_dead_letter::Context {
            clock: Arc::new(self.clock),
            sender: Arc::clone(&queues) as _,
            receiver: queues,
            bucket: self.faulty(instance, &self.buckets),
            meter: Arc::new(CountingMeter(Arc::clone(&self.history))),
            give_up_after: GIVE_UP_AFTER,
        }
    }

    /// A fresh copy of wake.
    pub fn wake(&self, instance: &Arc<Instance>) -> gridpost_wake::Context {
        let tables = self.faulty(instance, &self.tables);
        gridpost_wake::Context {
            clock: Arc::new(self.clock),
            sender: self.faulty(instance, &self.queues),
            parking: Arc::clone(&tables) as _,
            cursor: tables,
        }
    }

    fn remains(&self) -> Remains {
        let queues = self.mappings().into_iter().map(|mapping| mapping.queue);
        let in_queues = queues
            .flat_map(|queue| self.queues.bodies(queue).into_iter().map(move |body| (queue, body)));
        Remains {
            in_queues: in_queues.collect(),
            parked: self.tables.parked_ids(),
            states: self.tables.states(),
            topics: self.scenario.topics.clone(),
            calm: self.scenario.plan.is_calm() && self.scenario.queues.duplicates == 0.0,
            latency_max: self.scenario.plan.latency_max,
            lasted: self.clock.elapsed(),
            history: std::mem::take(&mut *self.history.lock().expect("no panic while held")),
        }
    }
}

/// An event that says whose it is.
fn event(to: &EventSubscription, id: &str, data_bytes: usize) -> Box<RawValue> {
    let data = "x".repeat(data_bytes);
    let subject = to.key.to_string();
    let event = match to.delivery_schema {
        DeliverySchema::EventGridSchema => json!({
            "id": id, "subject": subject, "eventType": "simulated", "data": data,
            "dataVersion": "1", "eventTime": "2026-01-01T00:00:00Z",
        }),
        DeliverySchema::CloudEventSchemaV1_0 => json!({
            "specversion": "1.0", "id": id, "source": "/simulation", "type": "simulated",
            "subject": subject, "data": data,
        }),
    };
    RawValue::from_string(event.to_string()).expect("JSON is JSON")
}
