//! A world: the fakes, the handlers over them, and the run to its end.

mod configuration;
mod copies;
mod embedded;
mod invoke;
pub mod journal;
pub(crate) mod logs;
mod mapping;
mod meter;
mod operators;
mod pace;
mod payload;
mod pool;
mod process;
mod publisher;
mod repeats;
mod sources;
mod wake;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    ops::Range,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_core::{
    delivery::{queue::Queue, state::DeliveryState},
    secret::Secret,
    subscription::{
        BatchFailure, EventSubscription, ProvisioningState, SubscriptionKey,
        validation::{VALID_FOR, Validation},
    },
    time::Timestamp,
    topic::Topic,
};
use gridpost_ports::{Clock, Dice};
use gridpost_runtime::telemetry;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    lambda::{Function, Mapping, Reading, Readings, Usage, Wakes},
    log::LogReader,
    scenario::{
        Changed, Consent, DEAD_LETTER_TIMEOUT, DISPATCH_TIMEOUT, INGEST_TIMEOUT, Operation, Pace,
        Publish, Scenario, Strange,
    },
};
use gridpost_testkit::{
    bucket::{BucketSettings, Buckets},
    clock::VirtualClock,
    consent::Consents,
    dice::{SeededDice, StillDice},
    endpoint::Endpoints,
    faults::{Injector, Instance, Limits},
    history::History,
    payloads::PayloadBucket,
    queue::{QueueSettings, Queues},
    table::Tables,
};

pub use self::embedded::Stores;
use self::{
    embedded::EmbeddedStores, journal::JournalRemains, logs::FunctionLogs, pool::Pools,
    process::Process, sources::Sources,
};

/// In a world that lasts longer than this, something waits for ever.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// More invocations per delivery than any wait explains. Each copy of a delivery checks every ten
/// minutes, for days, whether its endpoint has been validated.
const INVOCATIONS_MAX: u64 = 3_000;

/// How often an operator looks into the poison queue.
pub const OPERATES_EVERY: Duration = Duration::from_secs(10 * 60);

/// For how long functions keep configuration in memory, as deployed.
const CONFIGURATION_KEPT_FOR: Duration = Duration::from_secs(2);

/// A world that runs.
pub struct Simulation {
    pub clock: VirtualClock,
    pub history: Arc<Mutex<History>>,
    pub queues: Arc<Queues>,
    pub tables: Arc<Tables>,
    /// The stores behind queues and tables; `None` if only the fakes are used.
    embedded: Option<Arc<EmbeddedStores>>,
    /// The functions' logs on AWS, if the journal is asked in the end.
    logs: Option<Arc<FunctionLogs>>,
    process: Process,
    /// Copies of functions that wait for work.
    pools: Pools,
    pub dice: SeededDice,
    pub injector: Arc<Injector>,
    /// How often a fresh copy is started.
    pub cold_starts: f64,
    /// Whether of the copies that wait the one that was used last is taken.
    pub last_used_first: bool,
    pub wakes: Option<Wakes>,
    usage: RefCell<Usage>,
    buckets: Arc<Buckets>,
    payloads: Arc<PayloadBucket>,
    endpoints: Arc<Endpoints>,
    consents: Arc<Consents>,
    handlers_dice: Arc<dyn Dice>,
    /// The dice for the pace of copies, separate so that everything else stays the same without it.
    pace_dice: SeededDice,
    scenario: Scenario,
    ingests: RefCell<Vec<(Arc<Instance>, Rc<gridpost_ingest::Context>)>>,
    sources: Sources,
    busy: Cell<u64>,
    idle: Notify,
}

/// A finished world.
pub struct Remains {
    pub history: History,
    pub journal: Option<JournalRemains>,
    /// Bodies that were still in a queue.
    pub in_queues: Vec<(Queue, String)>,
    pub parked: Vec<Uuid>,
    pub states: Vec<DeliveryState>,
    /// The topics and event subscriptions that there were.
    pub topics: Vec<(Topic, Vec<EventSubscription>)>,
    /// The endpoints that had to consent again.
    pub consents: Vec<Consent>,
    /// The topic for dead-letter events, if any.
    pub told: Option<String>,
    /// When the process was killed.
    pub restarts: Vec<Timestamp>,
    /// Whether nothing went wrong by plan.
    pub calm: bool,
    /// Whether no call failed and no copy died alone; the whole process may have been killed.
    pub calls_succeed: bool,
    /// The key of a table that was written most in one second, and how often.
    pub busiest_key: Option<(String, u32)>,
    /// Calls that were throttled because a key had used up DynamoDB's limits for a second; 0 if the
    /// scenario has lower limits.
    pub hot_key_refusals: u64,
    /// The longest that one call took.
    pub latency_max: Duration,
    pub lasted: Duration,
    /// How much the functions were used.
    pub usage: Usage,
    /// How long an event of a healthy endpoint may wait for its first attempt.
    pub first_attempt_within: Option<Duration>,
    /// How long a batch of dead letters waits to be filled.
    pub dead_letter_window: Duration,
    /// When the buckets of dead letters refused.
    pub bucket_refuses: Vec<Range<Timestamp>>,
    /// The buckets that do not exist.
    pub missing_buckets: BTreeSet<String>,
    /// Messages in the poison queues of sources.
    pub refused: Vec<String>,
    pub pace: Pace,
    /// How many times faster than tokio's its clock ran.
    pub speed: u32,
}

/// An action at a time.
enum Act<'a> {
    Publish(&'a Publish),
    Delete(&'a SubscriptionKey),
    Change(&'a Changed),
    Ask(&'a Consent),
    Give(&'a Consent),
    Operate(&'a Operation),
    SendStrange(&'a Strange),
}

/// Runs a world to its end. `traced` keeps a line of everything.
pub fn run(scenario: &Scenario, seed: u64, traced: bool) -> Remains {
    run_on(Stores::Fakes, scenario, seed, traced)
}

pub fn run_on(stores: Stores, scenario: &Scenario, seed: u64, traced: bool) -> Remains {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing");
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(async {
        let world = Simulation::new(stores, scenario, seed, traced);
        let (clock, history) = (world.clock, Arc::clone(&world.history));
        let logs = world.logs.clone();
        let lines = logs.map(|logs| Box::new(telemetry::lines(logs)) as Box<_>);
        let reader = LogReader { clock, history, ended_by: Default::default(), lines };
        let _guard = tracing::subscriber::set_default(reader);
        world.live().await
    }))
}

impl Simulation {
    fn new(stores: Stores, scenario: &Scenario, seed: u64, traced: bool) -> Rc<Self> {
        let dice = SeededDice::new(seed ^ 0x5eed);
        let clock = VirtualClock::start().at_speed(scenario.speed);
        let history = History { trace: traced.then(Vec::new), ..History::default() };
        let history = Arc::new(Mutex::new(history));
        let shared = || Arc::clone(&history);
        let queues = Queues::new(scenario.queues.clone(), clock, dice.fork(), shared());
        let tables = Tables::new(clock, shared()).with_pages_of(scenario.parked_page_max);
        let embedded = (stores == Stores::Embedded)
            .then(|| Arc::new(EmbeddedStores::open(&scenario.queues, clock)));
        let (queues, tables) = match &embedded {
            None => (queues, tables),
            Some(stores) => (queues.on(Arc::clone(stores) as _), tables.on(stores.tables())),
        };
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
            keeps_objects: !scenario.operations.is_empty(),
            ..BucketSettings::CALM
        };
        let buckets = Buckets::new(buckets, clock, shared());
        let injector = Injector::new(scenario.plan.clone(), dice.fork(), clock, shared());
        let endpoints = Endpoints::new(scenario.scripts.clone(), clock, dice.fork(), shared())
            .with_dials_of(scenario.pace.dial_max, pace::dials(seed));
        for subscription in scenario.topics.iter().flat_map(|(_, subscriptions)| subscriptions) {
            if subscription.batch_failure != BatchFailure::default() {
                endpoints.ends_in_parts(subscription.key.clone());
            }
        }
        let is_logged = embedded.is_none() && scenario.asks_journal;
        Rc::new(Self {
            clock,
            logs: is_logged.then(|| FunctionLogs::start(clock, !seed.is_multiple_of(2))),
            queues: Arc::new(queues),
            tables: Arc::new(tables),
            embedded,
            process: Process::default(),
            pools: Pools::default(),
            injector: Arc::new(injector),
            cold_starts: scenario.cold_starts,
            last_used_first: scenario.last_used_first,
            wakes: scenario.wakes,
            usage: RefCell::default(),
            buckets: Arc::new(buckets),
            payloads: Arc::new(PayloadBucket { clock, history: shared() }),
            endpoints: Arc::new(endpoints),
            consents: Arc::new(Consents::new(clock)),
            handlers_dice,
            pace_dice: pace::dice(seed),
            scenario: scenario.clone(),
            ingests: RefCell::default(),
            sources: scenario.sources.keys().map(|it| (it.clone(), Default::default())).collect(),
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

    pub fn end(&self) {
        self.busy.set(self.busy.get() - 1);
        self.idle.notify_one();
    }

    /// Notes an invocation of a copy that ends now.
    pub fn note_used(&self, function: Function, instance: &Instance, began_at: Timestamp) {
        let took = self.clock.now().since(began_at);
        self.usage.borrow_mut().note(function, took, instance.held());
    }

    /// Notes an invocation that deliveries which turn in circles would have.
    pub fn note_invoked(&self) {
        self.history.lock().expect("no panic while held").invocations += 1;
    }

    /// Notes that a queue's messages waited since then for an invocation that may run.
    pub fn platform_waited(&self, queue: Queue, from: Timestamp) {
        let now = self.clock.now();
        self.history.lock().expect("no panic while held").platform_waited(queue, from..now);
    }

    /// Notes that wake was to run then, and ran so much later.
    pub fn wake_waited(&self, due: Timestamp, late: Duration) {
        self.history.lock().expect("no panic while held").wake_waits.push(due..due + late);
    }

    pub fn violation(&self, what: &str) {
        self.history.lock().expect("no panic while held").violation(self.clock.now(), what);
    }

    async fn live(self: Rc<Self>) -> Remains {
        self.begin();
        self.note_first();
        self.start_polling();
        tokio::task::spawn_local(Rc::clone(&self).restart());
        for topic in self.sources.keys() {
            tokio::task::spawn_local(Rc::clone(&self).read_source(topic.clone()));
        }
        tokio::task::spawn_local(wake::schedule_wake(Rc::clone(&self)));
        if self.operates() {
            tokio::task::spawn_local(Rc::clone(&self).operate());
        }
        let world = Rc::clone(&self);
        tokio::task::spawn_local(async move {
            world.act().await;
            world.end();
        });
        tokio::select! { biased;
            () = self.ended() => {}
            () = self.clock.sleep(LONGEST) => {}
        }
        let journal = match (&self.embedded, &self.logs) {
            (Some(stores), _) => Some(JournalRemains::of_machine(stores, self.clock).await),
            (None, Some(logs)) if logs.is_small() => {
                Some(JournalRemains::of_logs(logs, self.clock).await)
            }
            (None, _) => None,
        };
        self.remains(journal)
    }

    /// How the slow queue is read, if there is one.
    pub(crate) fn slow(&self) -> Option<Reading> {
        self.scenario.readings.slow.filter(|_| self.embedded.is_none())
    }

    fn mappings(&self) -> Vec<Mapping> {
        let Readings { dispatch, retry, dead_letter, fan_out, ramp, hop, .. } =
            self.scenario.readings;
        let mapping = |queue, reading, timeout| Mapping { queue, reading, ramp, hop, timeout };
        (0..self.scenario.queues.retry_shards)
            .map(|shard| mapping(Queue::Retry(shard), retry, DISPATCH_TIMEOUT))
            .chain(self.slow().map(|slow| mapping(Queue::Slow, slow, DISPATCH_TIMEOUT)))
            .chain([
                mapping(Queue::Dispatch, dispatch, DISPATCH_TIMEOUT),
                mapping(Queue::DeadLetter, dead_letter, DEAD_LETTER_TIMEOUT),
                mapping(Queue::FanOut, fan_out, INGEST_TIMEOUT),
                mapping(Queue::Redrive, fan_out, DEAD_LETTER_TIMEOUT),
            ])
            .collect()
    }

    /// Resolves when nothing is left to be done, or nothing that follows can matter.
    async fn ended(&self) {
        while !self.is_broken() && (self.busy.get() > 0 || self.anything_waits()) {
            self.idle.notified().await;
        }
    }

    /// Whether something happened that must never happen, including loops: they would take years of
    /// virtual time to end by themselves.
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
            || self.anything_comes()
            || self.operates() && !self.queues.is_empty(Queue::Poison)
    }

    /// Whether sound messages go to the poison queue, so that an operator sends them back.
    fn operates(&self) -> bool {
        self.scenario.queues.receives_max < QueueSettings::CALM.receives_max
    }

    /// Sends back the messages of the poison queue from time to time.
    async fn operate(self: Rc<Self>) {
        loop {
            self.clock.sleep(OPERATES_EVERY).await;
            self.begin();
            match self.scenario.operations.is_empty() {
                true => self.queues.return_poisoned(),
                false => self.resend_poison().await,
            }
            self.end();
        }
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
        let operations = scenario.operations.iter();
        let operated = operations.map(|operation| (operation.at, Act::Operate(operation)));
        let all = published.chain(deleted).chain(changed).chain(asked).chain(given);
        let strange = scenario.strange.iter();
        let strange = strange.map(|strange| (strange.at, Act::SendStrange(strange)));
        let all = all.chain(operated).chain(strange);
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
                Act::Operate(operation) => {
                    let (world, operation) = (Rc::clone(self), operation.clone());
                    self.begin();
                    tokio::task::spawn_local(async move {
                        world.operate_on(&operation).await;
                        world.end();
                    });
                }
                Act::SendStrange(strange) => self.send_strange(number, &strange.topic),
                Act::Delete(key) => self.delete(key),
                Act::Change(change) => self.change(change),
                Act::Ask(consent) => self.tables.change(&consent.of, |subscription| {
                    let until = consent.asked_at + VALID_FOR;
                    subscription.provisioning_state = ProvisioningState::AwaitingManualAction;
                    let token = Secret::new("t");
                    subscription.validation = Some(Validation { token, until, reason: None });
                }),
                Act::Give(consent) => self.tables.change(&consent.of, |subscription| {
                    subscription.provisioning_state = ProvisioningState::Succeeded;
                }),
            }
        }
    }

    fn remains(&self, journal: Option<JournalRemains>) -> Remains {
        let jobs = self.tables.with_redrives(|jobs| jobs.values().cloned().collect());
        self.history().operated.jobs = jobs;
        let queues = self.mappings().into_iter().map(|mapping| mapping.queue);
        let in_queues = queues
            .flat_map(|queue| self.queues.bodies(queue).into_iter().map(move |body| (queue, body)));
        let partitions = self.injector.partitions();
        let busiest_key = partitions.busiest().map(|(key, most)| (key.to_owned(), most));
        let as_dynamodb = self.scenario.plan.partition == Some(Limits::DYNAMODB);
        let hot_key_refusals = if as_dynamodb { partitions.refused() } else { 0 };
        drop(partitions);
        Remains {
            journal,
            in_queues: in_queues.collect(),
            parked: self.tables.parked_ids(),
            states: self.tables.states(),
            topics: self.topics(),
            consents: self.scenario.consents.clone(),
            told: self.scenario.told.clone(),
            restarts: self.scenario.restarts.clone(),
            calm: self.scenario.plan.is_calm()
                && self.scenario.queues.duplicates == 0.0
                && self.scenario.restarts.is_empty()
                && !self.operates()
                && !self.stalls(),
            calls_succeed: self.scenario.plan.is_calm(),
            busiest_key,
            hot_key_refusals,
            latency_max: if self.scenario.plan.hangs > 0.0 || !self.scenario.plan.outages.is_empty()
            {
                // Two calls that hang, a second each of the slack's fifteen.
                self.scenario.plan.latency_max.max(Duration::from_secs(1))
            } else {
                self.scenario.plan.latency_max
            },
            lasted: self.clock.elapsed(),
            usage: self.usage.take(),
            first_attempt_within: self.scenario.first_attempt_within,
            dead_letter_window: self.scenario.readings.dead_letter.window,
            bucket_refuses: self.scenario.bucket_refuses.clone(),
            missing_buckets: self.scenario.missing_buckets.clone(),
            refused: match self.scenario.queues.takes_refused {
                true => self.queues.bodies(Queue::Poison),
                false => Vec::new(),
            },
            pace: self.scenario.pace,
            speed: self.scenario.speed,
            history: std::mem::take(&mut *self.history.lock().expect("no panic while held")),
        }
    }
}
