//! All fakes that a unit test of a function needs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use gridpost_core::time::Timestamp;

use crate::{
    bucket::{BucketSettings, Buckets},
    clock::VirtualClock,
    consent::Consents,
    dice::{CountingDice, SeededDice},
    endpoint::Endpoints,
    faults::{Faulty, Injector, Instance, Plan},
    history::History,
    logs,
    meter::RecordingMeter,
    payloads::PayloadBucket,
    queue::{QueueSettings, Queues},
    table::Tables,
};

/// One of each fake. There are no faults until the injector's plan has some, and no call takes
/// time. Everything logged from then on is checked for secrets, see [`logs`].
pub struct Deployment {
    /// The time. Needs a tokio runtime whose time is paused.
    pub clock: Arc<VirtualClock>,
    /// Ids that count from 0; every roll is 0.
    pub dice: Arc<CountingDice>,
    pub meter: Arc<RecordingMeter>,
    pub queues: Arc<Queues>,
    pub tables: Arc<Tables>,
    /// S3, where dead letters are.
    pub buckets: Arc<Buckets>,
    /// S3, where large events are.
    pub payloads: Arc<PayloadBucket>,
    pub endpoints: Arc<Endpoints>,
    /// The receivers of consent requests.
    pub consents: Arc<Consents>,
    /// The faults of calls that are made through [`Self::of`].
    pub injector: Arc<Injector>,
    /// The tested copy of the function.
    pub instance: Arc<Instance>,
    pub history: Arc<Mutex<History>>,
}

impl Deployment {
    /// An empty one, at that time.
    pub fn at(now: Timestamp) -> Self {
        Self::with_queues(now, QueueSettings::CALM)
    }

    /// Makes a deployment with other settings for queues.
    pub fn with_queues(now: Timestamp, settings: QueueSettings) -> Self {
        logs::watch();
        let clock = VirtualClock::starting_at(now);
        let history = Arc::<Mutex<History>>::default();
        let shared = || Arc::clone(&history);
        let dice = || SeededDice::new(1);
        Self {
            clock: Arc::new(clock),
            dice: Arc::default(),
            meter: Arc::default(),
            queues: Arc::new(Queues::new(settings, clock, dice(), shared())),
            tables: Arc::new(Tables::new(clock, shared())),
            buckets: Arc::new(Buckets::new(BucketSettings::CALM, clock, shared())),
            payloads: Arc::new(PayloadBucket { clock, history: shared() }),
            endpoints: Arc::new(Endpoints::new(BTreeMap::new(), clock, dice(), shared())),
            consents: Arc::new(Consents::new(clock)),
            injector: Arc::new(Injector::new(Plan::default(), dice(), clock, shared())),
            instance: Arc::default(),
            history,
        }
    }

    /// A port whose calls are numbered, with faults by the injector's plan.
    pub fn of<T: ?Sized>(&self, port: &Arc<T>) -> Arc<Faulty<T>> {
        let (injector, instance) = (Arc::clone(&self.injector), Arc::clone(&self.instance));
        Arc::new(Faulty { injector, instance, inner: Arc::clone(port) })
    }

    /// A port whose calls are numbered separately, with faults by a plan of its own.
    pub fn apart<T: ?Sized>(&self, port: &Arc<T>, plan: Plan) -> Arc<Faulty<T>> {
        let (dice, history) = (SeededDice::new(1), Arc::clone(&self.history));
        let injector = Arc::new(Injector::new(plan, dice, *self.clock, history));
        Arc::new(Faulty { injector, instance: Arc::clone(&self.instance), inner: Arc::clone(port) })
    }
}
