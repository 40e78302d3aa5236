//! Wraps any port to inject faults: a call fails before or after it takes effect, or its caller
//! dies there.

mod dead_letters;
mod listeners;
mod outage;
mod parked;
mod partitions;
mod plan;
mod ports;
mod stores;
mod tables;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use gridpost_core::time::Timestamp;
use gridpost_ports::{Clock, PortError};
use tokio::sync::Notify;
use uuid::Uuid;

use self::outage::Served;
pub use self::{
    outage::{Outage, Service},
    partitions::{Limits, Partitions, Units},
    plan::{Fault, Plan},
};
use crate::{
    clock::VirtualClock,
    dice::SeededDice,
    history::{History, Operated},
};

/// The longest that a call to SQS or DynamoDB takes with all its tries.
const CALL_TIMEOUT: Duration = Duration::from_secs(6);

/// How long after a lost answer the SDK repeats a call.
const REPEATED_AFTER: Duration = Duration::from_millis(200);

/// How often an adapter tries what was throttled, and its first pause, which doubles each time.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A running copy of a function. When it dies, all of its calls stop where they are.
#[derive(Debug, Default)]
pub struct Instance {
    dead: AtomicBool,
    died: Notify,
    in_hand: Mutex<Vec<Uuid>>,
    endpoints_in_hand: Mutex<Vec<Uuid>>,
    /// Bytes of the bodies and objects in hand.
    bytes_in_hand: AtomicUsize,
    /// Whether it serves operators.
    serves_operators: bool,
    /// How far its machine's clock is ahead, in milliseconds; behind if negative.
    skew_ms: i64,
}

impl Instance {
    /// A copy that serves operators.
    pub fn of_operators() -> Self {
        Self { serves_operators: true, ..Self::default() }
    }

    /// Sets the clock of its machine this many milliseconds ahead, or behind if negative.
    #[must_use]
    pub fn with_skew(self, skew_ms: i64) -> Self {
        Self { skew_ms, ..self }
    }

    /// Its machine's clock, with a fixture with that one.
    pub fn clock(&self, of_fixture: VirtualClock) -> VirtualClock {
        of_fixture.ahead_by(self.skew_ms)
    }

    fn deliveries(&self) -> Vec<Uuid> {
        self.in_hand.lock().expect("no panic while held").clone()
    }

    pub fn take(&self, deliveries: Vec<Uuid>, endpoints: Vec<Uuid>) {
        *self.in_hand.lock().expect("no panic while held") = deliveries;
        *self.endpoints_in_hand.lock().expect("no panic while held") = endpoints;
        self.bytes_in_hand.store(0, Ordering::Relaxed);
    }

    /// Adds bytes in hand, until it takes other deliveries.
    pub fn hold(&self, bytes: usize) {
        self.bytes_in_hand.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many bytes it has in hand.
    pub fn held(&self) -> usize {
        self.bytes_in_hand.load(Ordering::Relaxed)
    }

    pub async fn died(&self) {
        while !self.dead.load(Ordering::Relaxed) {
            self.died.notified().await;
        }
    }
}

/// Work of another caller immediately before a call.
pub type Interference = Box<dyn FnOnce() + Send>;

/// Makes calls fail by plan.
pub struct Injector {
    plan: Mutex<Plan>,
    dice: SeededDice,
    clock: VirtualClock,
    history: Arc<Mutex<History>>,
    made: AtomicU64,
    interferences: Mutex<BTreeMap<u64, Interference>>,
    partitions: Mutex<Partitions>,
}

/// The subject of a call.
enum About {
    Deliveries(Vec<Uuid>),
    Health(Uuid),
    /// Everything in its caller's hand.
    InHand,
    Other,
}

impl Injector {
    /// Injects faults by that plan, and records them in `history`.
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

    pub fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no panic while held")
    }

    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Lets another caller act immediately before the call with that number, counted from 1.
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

    fn draw(&self, by: Service) -> Fault {
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
        if let Some(fault) = self.outage(by, &plan) {
            return fault;
        }
        let Plan { fails_before, fails_after, dies, hangs, repeats, .. } = *plan;
        if fails_before + fails_after + dies + hangs + repeats == 0.0 {
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
        } else if draw < fails_before + fails_after + dies + hangs + repeats {
            Fault::RetriedAfter
        } else {
            Fault::None
        }
    }

    /// Resolves when an invocation that begins now is killed; usually never.
    pub async fn moment_of_death(&self) {
        let rate = self.plan().killed;
        if !self.dice.chance(rate) {
            return std::future::pending().await;
        }
        // Most invocations are short; some listen for minutes.
        let longest_ms = self.dice.choose(&[20, 300, 40_000, 200_000]);
        tokio::time::sleep(self.dice.millis(0..longest_ms)).await;
    }

    /// Whether Lambda fails to delete one of the messages that it should; then it comes back.
    pub fn is_undeleted(&self, delivery: Option<Uuid>) -> bool {
        let rate = self.plan().undeleted;
        if !self.dice.chance(rate) {
            return false;
        }
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.fault_kinds.insert("a message was not deleted");
        if let Some(delivery) = delivery {
            history.disturb(now, delivery, "its message was not deleted");
        }
        true
    }

    /// Whether a page that is not the first can't be read.
    fn loses_page(&self) -> bool {
        let share = self.plan().pages_lost;
        self.dice.chance(share)
    }

    /// Why DynamoDB throttles such a call now, if it does.
    fn throttles(&self, units: &[(String, Units)]) -> Option<&'static str> {
        let (now, plan) = (self.clock.now(), self.plan());
        if plan.throttled.iter().any(|window| window.contains(&now)) {
            return Some("DynamoDB throttled");
        }
        let full = plan.partition.is_some_and(|most| self.partitions().is_full(units, most, now));
        full.then_some("a partition was full")
    }

    /// The units used of each partition.
    pub fn partitions(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().expect("no panic while held")
    }

    /// Records a fault. A fault before the effect of a call repeats nothing by itself, but a caller
    /// that then returns a record may repeat an attempt that it could not record. Whatever the call
    /// was about, everything in its caller's hand may have to wait for it.
    fn note(&self, instance: &Instance, about: &About, what: &'static str) {
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.faults += 1;
        history.fault_kinds.insert(what);
        let in_hand = instance.in_hand.lock().expect("no panic while held");
        match about {
            About::Deliveries(deliveries) => {
                deliveries.iter().for_each(|delivery| history.disturb(now, *delivery, what));
            }
            About::Health(uid) => history.health_faults.entry(*uid).or_default().push(now),
            About::InHand => {
                in_hand.iter().for_each(|delivery| history.disturb(now, *delivery, what));
            }
            About::Other => {}
        }
        in_hand.iter().for_each(|delivery| history.hinder(now, *delivery));
        history.trace(now, || format!("fault: {what}"));
    }

    /// Ends an instance: everything in its hand may be repeated.
    pub fn kill(&self, instance: &Instance) {
        self.kill_at(instance, &About::Other);
    }

    /// Kills the instance during a call with that subject.
    fn kill_at(&self, instance: &Instance, about: &About) {
        const WHAT: &str = "a function died";
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.faults += 1;
        // Each copy of a delivery that was in hand comes back.
        let mut deliveries = instance.in_hand.lock().expect("no panic while held").clone();
        if let About::Deliveries(about) = about {
            let others: BTreeSet<_> = about.iter().filter(|it| !deliveries.contains(it)).collect();
            deliveries.extend(others);
        }
        deliveries.into_iter().for_each(|delivery| history.disturb(now, delivery, WHAT));
        let mut endpoints: BTreeSet<Uuid> = BTreeSet::new();
        endpoints.extend(instance.endpoints_in_hand.lock().expect("no panic while held").iter());
        if let About::Health(uid) = about {
            endpoints.insert(*uid);
        }
        for uid in endpoints {
            history.health_faults.entry(uid).or_default().push(now);
        }
        history.trace(now, || "a function dies".to_owned());
        instance.dead.store(true, Ordering::Relaxed);
        instance.died.notify_one();
    }
}

/// A port whose calls may fail.
pub struct Faulty<T: ?Sized> {
    pub injector: Arc<Injector>,
    pub instance: Arc<Instance>,
    pub inner: Arc<T>,
}

impl<T: Served + ?Sized> Faulty<T> {
    /// Makes a call, with the fault that its plan has for it. The effect may happen twice, because
    /// SDKs repeat a call without an answer.
    async fn call<R, F>(&self, about: About, effect: impl Fn() -> F) -> Result<R, PortError>
    where
        F: Future<Output = Result<R, PortError>>,
    {
        let injector = &self.injector;
        if let About::Deliveries(ids) = &about
            && self.instance.serves_operators
        {
            self.instance.in_hand.lock().expect("no panic while held").extend(ids);
        }
        injector.take_time().await;
        let noted = |what| injector.note(&self.instance, &about, what);
        match injector.draw(T::BY) {
            Fault::None => effect().await,
            Fault::Slow(takes) => {
                tokio::time::sleep(takes).await;
                effect().await
            }
            Fault::FailsBefore => {
                noted("a call failed");
                Err(PortError::new("a call", "it failed by plan"))
            }
            Fault::FailsAfter => {
                noted("a call took effect but failed");
                effect().await?;
                Err(PortError::new("a call", "it took effect but failed by plan"))
            }
            Fault::DiesBefore => self.die(&about).await,
            Fault::DiesAfter => {
                let _ = effect().await;
                self.die(&about).await
            }
            Fault::HangsBefore => {
                noted("a call hung");
                tokio::time::sleep(CALL_TIMEOUT).await;
                Err(PortError::new("a call", "it hung by plan"))
            }
            Fault::HangsAfter => {
                noted("a call took effect but hung");
                effect().await?;
                tokio::time::sleep(CALL_TIMEOUT).await;
                Err(PortError::new("a call", "it took effect but hung by plan"))
            }
            Fault::RetriedAfter => {
                noted("a call took effect and was repeated");
                effect().await?;
                tokio::time::sleep(REPEATED_AFTER).await;
                effect().await
            }
        }
    }

    /// Waits while partitions lack these units, as an adapter does that tries again what was
    /// throttled: a few seconds in total.
    async fn room_for(&self, units: &[(String, Units)]) {
        let injector = &self.injector;
        let (most, as_adapters) = {
            let plan = injector.plan();
            (plan.partition, plan.as_adapters)
        };
        let Some(most) = most.filter(|_| as_adapters) else { return };
        for try_number in 0..TRIES {
            let now = injector.clock.now();
            if !injector.partitions().lacks(units, most, now) {
                return;
            }
            tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(try_number)).await;
        }
    }

    /// A call of DynamoDB that uses these units of partitions.
    async fn table<R, F>(
        &self,
        about: About,
        units: &[(String, Units)],
        effect: impl Fn() -> F,
    ) -> Result<R, PortError>
    where
        F: Future<Output = Result<R, PortError>>,
    {
        if let Some(what) = self.injector.throttles(units) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.injector.note(&self.instance, &about, what);
            return Err(PortError::new("dynamodb", "ThrottlingException"));
        }
        self.call(about, effect).await
    }
}

impl<T: ?Sized> Faulty<T> {
    /// Records what an operator has changed, if the caller is one.
    fn note_operated(&self, note: impl FnOnce(&mut Operated, Timestamp)) {
        if self.instance.serves_operators {
            let now = self.injector.clock.now();
            let mut history = self.injector.history.lock().expect("no panic while held");
            note(&mut history.operated, now);
        }
    }

    async fn die<R>(&self, about: &About) -> R {
        let kind = "the caller died";
        self.injector.history.lock().expect("no panic while held").fault_kinds.insert(kind);
        self.injector.kill_at(&self.instance, about);
        std::future::pending().await
    }
}
