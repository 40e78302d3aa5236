//! A world: the fakes, the handlers over them, and the run to its end.

mod configuration;
mod publisher;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_core::{
    delivery::{queue::Queue, state::DeliveryState},
    metric,
    retry::health::Durations,
    secret::Secret,
    subscription::{
        EventSubscription, ProvisioningState, SubscriptionKey,
        validation::{VALID_FOR, Validation},
    },
    time::Timestamp,
    topic::Topic,
};
use gridpost_dispatch_handler::{Settings, health::HealthCache, in_flight::InFlight};
use gridpost_ports::{
    Clock, Configuration, Dice, Meter,
    configuration::{ConfigurationCache, Limits},
};
use gridpost_runtime::telemetry::EmbeddedMeter;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::metric_line;

use super::{
    lambda::{self, Mapping, Pools},
    log::LogReader,
    scenario::{
        Changed, Consent, DEAD_LETTER_DELAY_S, DISPATCH_TIMEOUT, GIVE_UP_AFTER, INGEST_TIMEOUT,
        Publish, Scenario,
    },
};
use gridpost_testkit::{
    bucket::{BucketSettings, Buckets},
    clock::VirtualClock,
    dice::{SeededDice, StillDice},
    endpoint::Endpoints,
    faults::{Faulty, Injector, Instance},
    history::History,
    payloads::PayloadBucket,
    queue::Queues,
    table::Tables,
};

/// Worlds that last longer than this hold something that waits for ever.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// More invocations for each delivery than any wait can explain.
const INVOCATIONS_MAX: u64 = 1_000;

/// For how long functions keep configuration in memory, as deployed.
const CONFIGURATION_KEPT_FOR: Duration = Duration::from_secs(2);

/// The same for dispatch, which reads anew sooner where a delivery was matched under more.
const DISPATCH_KEEPS_CONFIGURATION: Duration = Duration::from_secs(10);

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
    payloads: Arc<PayloadBucket>,
    endpoints: Arc<Endpoints>,
    handlers_dice: Arc<dyn Dice>,
    scenario: Scenario,
    ingests: RefCell<Vec<(Arc<Instance>, Rc<gridpost_ingest_handler::Context>)>>,
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
    /// The endpoints that had to consent anew.
    pub consents: Vec<Consent>,
    /// Whether nothing went wrong by plan.
    pub calm: bool,
    /// The longest that one call took.
    pub latency_max: Duration,
    /// How long it lasted.
    pub lasted: Duration,
}

/// What somebody does.
enum Act<'a> {
    Publish(&'a Publish),
    Delete(&'a SubscriptionKey),
    Change(&'a Changed),
    Ask(&'a Consent),
    Give(&'a Consent),
}

/// The counts of one copy of a function. What it has not written when it dies is lost.
struct CountingMeter {
    history: Arc<Mutex<History>>,
    unwritten: EmbeddedMeter,
}

impl CountingMeter {
    fn of(history: &Arc<Mutex<History>>) -> Arc<Self> {
        Arc::new(Self { history: Arc::clone(history), unwritten: EmbeddedMeter::default() })
    }
}

impl Meter for CountingMeter {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        self.unwritten.count(metric, dimensions, by);
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        self.unwritten.measure(metric, dimensions, took);
    }

    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    ) {
        if metric == metric::DROPPED_EVENT_COUNT {
            self.history.lock().expect("no panic while held").dropped_counted += by;
        }
        self.unwritten.count_events(metric, dimensions, published_at, by);
    }

    fn flush(&self, now: Timestamp) {
        let mut history = self.history.lock().expect("no panic while held");
        for line in self.unwritten.lines(now).lines() {
            if let Err(wrong) = metric_line::check(line) {
                history.violation(now, wrong);
            }
            history.ledger.read(line, Timestamp::from_millis(0));
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
        let buckets = BucketSettings {
            missing: scenario.missing_buckets.clone(),
            refuses: scenario.bucket_refuses.clone(),
            keeps_objects: false,
            ..BucketSettings::CALM
        };
        let buckets = Buckets::new(buckets, clock, shared());
        let injector = Injector::new(scenario.plan.clone(), dice.fork(), clock, shared());
        let endpoints = Endpoints::new(scenario.scripts.clone(), clock, dice.fork(), shared());
        Rc::new(Self {
            clock,
            queues: Arc::new(queues),
            tables: Arc::new(tables),
            pools: Pools::default(),
            injector: Arc::new(injector),
            cold_starts: scenario.cold_starts,
            buckets: Arc::new(buckets),
            payloads: Arc::new(PayloadBucket { clock, history: shared() }),
            endpoints: Arc::new(endpoints),
            handlers_dice,
            scenario: scenario.clone(),
            ingests: RefCell::default(),
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
        self.note_first();
        for mapping in self.mappings() {
            tokio::task::spawn_local(lambda::poll(Rc::clone(&self), mapping));
        }
        tokio::task::spawn_local(lambda::schedule_wake(Rc::clone(&self)));
        let world = Rc::clone(&self);
        tokio::task::spawn_local(async move {
            world.act().await;
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
        let timeout = INGEST_TIMEOUT;
        all.push(Mapping { queue: Queue::FanOut, records_max: 1, concurrency, timeout });
        all
    }

    /// Resolves when nothing is left to be done, or nothing that follows can matter.
    async fn ended(&self) {
        while !self.is_broken() && (self.busy.get() > 0 || self.anything_waits()) {
            self.idle.notified().await;
        }
    }

    /// Whether something happened that must never happen. What turns in circles counts: it would
    /// take years of virtual time to end by itself.
    fn is_broken(&self) -> bool {
        let mut history = self.history.lock().expect("no panic while held");
        let most = INVOCATIONS_MAX * (20 + history.accepted.len() as u64);
        if history.violations.is_empty() && history.invocations > most {
            let invocations = history.invocations;
            let what = format!("{invocations} invocations: deliveries turn in circles");
            history.violation(self.clock.now(), what);
        }
        !history.violations.is_empty()
    }

    fn anything_waits(&self) -> bool {
        self.mappings().iter().any(|mapping| !self.queues.is_empty(mapping.queue))
            || self.tables.any_parked()
    }

    /// Publishes, deletes and changes at the scenario's times.
    async fn act(self: &Rc<Self>) {
        let scenario = &self.scenario;
        let deleted = scenario.deletions.iter().map(|(at, key)| (*at, Act::Delete(key)));
        let published =
            scenario.publishes.iter().map(|publish| (publish.at, Act::Publish(publish)));
        let asked = scenario.consents.iter().map(|consent| (consent.asked_at, Act::Ask(consent)));
        let consents = scenario.consents.iter();
        let given = consents.filter_map(|consent| Some((consent.given_at?, Act::Give(consent))));
        let changed = scenario.changes.iter().map(|change| (change.at, Act::Change(&change.what)));
        let all = published.chain(deleted).chain(changed).chain(asked).chain(given);
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(at, _)| *at);
        for (number, (at, act)) in all.into_iter().enumerate() {
            self.clock.sleep_until(at).await;
            match act {
                Act::Publish(publish) => {
                    let (world, publish) = (Rc::clone(self), publish.clone());
                    self.begin();
                    tokio::task::spawn_local(async move {
                        world.publish(number, &publish).await;
                        world.end();
                    });
                }
                Act::Delete(key) => self.delete(key),
                Act::Change(change) => self.change(change),
                Act::Ask(consent) => self.tables.change(&consent.of, |subscription| {
                    let until = consent.asked_at + VALID_FOR;
                    subscription.provisioning_state = ProvisioningState::AwaitingManualAction;
                    subscription.validation = Some(Validation { token: Secret::new("t"), until });
                }),
                Act::Give(consent) => self.tables.change(&consent.of, |subscription| {
                    subscription.provisioning_state = ProvisioningState::Succeeded;
                }),
            }
        }
    }

    /// A fresh copy of ingest.
    pub fn ingest(&self, instance: &Arc<Instance>) -> gridpost_ingest_handler::Context {
        let clock: Arc<dyn Clock> = Arc::new(self.clock);
        let configuration: Arc<dyn Configuration> = self.faulty(instance, &self.tables);
        gridpost_ingest_handler::Context {
            clock: Arc::clone(&clock),
            dice: Arc::clone(&self.handlers_dice),
            configuration: self.cache(configuration, CONFIGURATION_KEPT_FOR),
            sender: self.faulty(instance, &self.queues),
            meter: CountingMeter::of(&self.history),
            authorization: gridpost_ingest_handler::Authorization::Keys,
            payloads: self.faulty(instance, &self.payloads),
            queue_message_bytes_max: self.scenario.queues.message_bytes_max,
            latency_metrics: true,
            inline_fan_out: self.scenario.inline_fan_out,
            piece_deliveries_max: self.scenario.piece_deliveries_max,
        }
    }

    /// A copy's own memory of the configuration.
    fn cache(&self, source: Arc<dyn Configuration>, fresh_for: Duration) -> ConfigurationCache {
        let (clock, dice) = (Arc::new(self.clock), Arc::clone(&self.handlers_dice));
        ConfigurationCache::new(source, clock, dice, Limits { fresh_for, ..Limits::default() })
    }

    fn faulty<T: ?Sized>(&self, instance: &Arc<Instance>, inner: &Arc<T>) -> Arc<Faulty<T>> {
        Arc::new(Faulty {
            injector: Arc::clone(&self.injector),
            instance: Arc::clone(instance),
            inner: Arc::clone(inner),
        })
    }

    /// A fresh copy of dispatch.
    pub fn dispatch(&self, instance: &Arc<Instance>) -> gridpost_dispatch_handler::Context {
        let (queues, tables) =
            (self.faulty(instance, &self.queues), self.faulty(instance, &self.tables));
        let clock: Arc<dyn Clock> = Arc::new(self.clock);
        let configuration: Arc<dyn Configuration> = Arc::clone(&tables) as _;
        gridpost_dispatch_handler::Context {
            clock: Arc::clone(&clock),
            dice: Arc::clone(&self.handlers_dice),
            sender: Arc::clone(&queues) as _,
            in_flight: InFlight::new(Arc::clone(&queues) as _),
            receiver: queues,
            states: Arc::clone(&tables) as _,
            parking: Arc::clone(&tables) as _,
            healths: HealthCache::new(Arc::clone(&tables) as _, Arc::clone(&self.handlers_dice)),
            rates: tables,
            configuration: self.cache(configuration, DISPATCH_KEEPS_CONFIGURATION),
            payloads: self.faulty(instance, &self.payloads),
            client: self.faulty(instance, &self.endpoints),
            resources: self.faulty(instance, &self.endpoints),
            meter: CountingMeter::of(&self.history),
            settings: Settings {
                probation: Durations::default(),
                retry_shards: self.scenario.queues.retry_shards,
                retry_in_flight_limit: self.scenario.retry_in_flight_limit,
                dead_letter_delay_s: DEAD_LETTER_DELAY_S,
                log_successful_attempts: false,
                latency_metrics: true,
                origin: "gridpost.example".to_owned(),
            },
        }
    }

    /// A fresh copy of dead-letter.
    pub fn dead_letter(&self, instance: &Arc<Instance>) -> gridpost_dead_letter_handler::Context {
        let queues = self.faulty(instance, &self.queues);
        gridpost_dead_letter_handler::Context {
            clock: Arc::new(self.clock),
            sender: Arc::clone(&queues) as _,
            receiver: queues,
            bucket: self.faulty(instance, &self.buckets),
            payloads: self.faulty(instance, &self.payloads),
            meter: CountingMeter::of(&self.history),
            notifier: None,
            give_up_after: GIVE_UP_AFTER,
        }
    }

    /// A fresh copy of wake.
    pub fn wake(&self, instance: &Arc<Instance>) -> gridpost_wake_handler::Context {
        let tables = self.faulty(instance, &self.tables);
        gridpost_wake_handler::Context {
            clock: Arc::new(self.clock),
            sender: self.faulty(instance, &self.queues),
            parking: Arc::clone(&tables) as _,
            due: Arc::clone(&tables) as _,
            cursor: tables,
            payloads: self.faulty(instance, &self.payloads),
            meter: CountingMeter::of(&self.history),
            settings: gridpost_wake_handler::Settings {
                retry_shards: self.scenario.queues.retry_shards,
                queue_message_bytes_max: self.scenario.queues.message_bytes_max,
            },
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
            topics: self.topics(),
            consents: self.scenario.consents.clone(),
            calm: self.scenario.plan.is_calm() && self.scenario.queues.duplicates == 0.0,
            latency_max: self.scenario.plan.latency_max,
            lasted: self.clock.elapsed(),
            history: std::mem::take(&mut *self.history.lock().expect("no panic while held")),
        }
    }
}
