//! Event source mappings: how Lambda reads a queue, and how many batches at the same time.

use std::{cell::Cell, rc::Rc, time::Duration};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::Clock;
use gridpost_testkit::queue::Received;
use tokio::sync::Semaphore;

use super::invoke::invoke;
use crate::world::World;

/// Most messages that one `ReceiveMessage` gives.
const RECEIVED_MAX: usize = 10;

/// The largest payload of an invocation, in bytes: a batch ends before it.
/// Source: AWS Lambda developer guide, "Batching behavior".
const BATCH_BYTES_MAX: usize = 6 * 1_024 * 1_024;

/// The initial and minimum number of concurrent batches of a mapping with a maximum. Source: AWS
/// Lambda developer guide, "Configuring scaling behavior for SQS event source mappings".
const BATCHES_AT_FIRST: usize = 5;

/// The most that this number grows per minute, while there are messages. Source: as above.
const MORE_A_MINUTE: usize = 300;

/// How a queue is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Most records of one invocation: 1 to 10,000.
    pub batch: usize,
    /// How long a batch waits to be filled, from its first message: up to 300 s, at least 1 s for more
    /// than 10 records. Zero: it goes as soon as there is one.
    pub window: Duration,
    /// Most invocations at the same time.
    pub concurrency: usize,
}

/// How Lambda reads the queues.
#[derive(Clone, Copy, Debug)]
pub struct Readings {
    pub dispatch: Reading,
    pub retry: Reading,
    pub dead_letter: Reading,
    pub fan_out: Reading,
    /// How mappings grow to their maximum; `None` if they start there.
    pub ramp: Option<Ramp>,
    pub hop: Hop,
}

/// How long a batch takes from its poller to a copy of the function, in milliseconds: at least, and
/// less than.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// To a copy that has run before.
    pub warm: (u64, u64),
    /// To a copy that must be started.
    pub fresh: (u64, u64),
}

impl Hop {
    /// As on a usual day: a copy that has run is called at once, and one that must be started takes a
    /// few tenths of a second.
    pub const NEAR: Self = Self { warm: (2, 40), fresh: (100, 400) };

    /// Worse than it is: any copy may be far away, and batches overtake each other.
    pub const FAR: Self = Self { warm: (2, 300), fresh: (2, 300) };
}

/// How a mapping grows while messages are left over. The guide says "up to 300 more a minute",
/// which has two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ramp {
    /// One more each fifth of a second.
    Continuous,
    /// 300 more at the end of each minute.
    Steps,
}

/// A queue that a function is invoked with.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub queue: Queue,
    pub reading: Reading,
    pub ramp: Option<Ramp>,
    pub hop: Hop,
    pub timeout: Duration,
}

impl Readings {
    /// The settings of a small world: no batch waits, and each queue has this many concurrent
    /// invocations.
    pub fn of(concurrency: usize) -> Self {
        let reading = |batch| Reading { batch, window: Duration::ZERO, concurrency };
        Self {
            dispatch: reading(10),
            retry: reading(10),
            dead_letter: reading(100),
            fan_out: reading(1),
            ramp: None,
            hop: Hop::FAR,
        }
    }
}

impl Ramp {
    fn every(self) -> Duration {
        match self {
            Self::Continuous => Duration::from_secs(60) / MORE_A_MINUTE as u32,
            Self::Steps => Duration::from_secs(60),
        }
    }

    fn step(self) -> usize {
        match self {
            Self::Continuous => 1,
            Self::Steps => MORE_A_MINUTE,
        }
    }
}

/// The concurrent batches of a mapping.
struct Slots {
    free: Semaphore,
    open: Cell<usize>,
    grew_at: Cell<Timestamp>,
}

/// One slot, freed on drop.
struct Slot(Rc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.free.add_permits(1);
    }
}

impl Slots {
    fn of(mapping: &Mapping, now: Timestamp) -> Rc<Self> {
        let most = mapping.reading.concurrency;
        let open = mapping.ramp.map_or(most, |_| most.min(BATCHES_AT_FIRST));
        Rc::new(Self { free: Semaphore::new(open), open: Cell::new(open), grew_at: Cell::new(now) })
    }

    /// Takes the next free slot. While all are taken and messages wait, their number grows.
    async fn take(self: Rc<Self>, world: &World, mapping: &Mapping) -> Slot {
        let from = world.clock.now();
        let free = self.free.acquire();
        tokio::select! { biased;
            permit = free => permit.expect("it is never closed").forget(),
            () = self.grow(world, mapping) => {}
        }
        if world.clock.now() > from && world.queues.has_visible(mapping.queue) {
            world.platform_waited(mapping.queue, from);
        }
        Slot(self)
    }

    /// Adds slots as allowed. Resolves when that has freed one, which is then taken.
    async fn grow(&self, world: &World, mapping: &Mapping) {
        let most = mapping.reading.concurrency;
        while let Some(ramp) = mapping.ramp.filter(|_| self.open.get() < most) {
            let next = (self.grew_at.get() + ramp.every()).max(world.clock.now());
            world.clock.sleep_until(next).await;
            if world.clock.now() < self.grew_at.get() + ramp.every() {
                // Another process was faster.
                continue;
            }
            if !world.queues.has_visible(mapping.queue) {
                tokio::time::sleep(ramp.every()).await;
                continue;
            }
            let more = ramp.step().min(most - self.open.get());
            self.open.set(self.open.get() + more);
            self.grew_at.set(world.clock.now());
            self.free.add_permits(more - 1);
            return;
        }
        std::future::pending().await
    }
}

/// Polls a queue for ever and invokes its function. Batches that wait to be filled are filled
/// concurrently, by as many processes as Lambda begins with: they share the messages of a quiet
/// queue.
pub async fn poll(world: Rc<World>, mapping: Mapping) {
    let slots = Slots::of(&mapping, world.clock.now());
    let processes = match mapping.reading.window.is_zero() {
        true => 1,
        false => mapping.reading.concurrency.min(BATCHES_AT_FIRST),
    };
    let read = || read(Rc::clone(&world), mapping, Rc::clone(&slots));
    futures::future::join_all((0..processes).map(|_| read())).await;
}

async fn read(world: Rc<World>, mapping: Mapping, slots: Rc<Slots>) {
    let mut over = Vec::new();
    loop {
        let slot = Rc::clone(&slots).take(&world, &mapping).await;
        let received = gather(&world, &mapping, &mut over).await;
        world.begin();
        let world = Rc::clone(&world);
        tokio::task::spawn_local(async move {
            invoke(&world, mapping, received).await;
            drop(slot);
            world.end();
        });
    }
}

/// Gathers a batch: full, or as old as its window, or as large as a payload may be. What no longer
/// fits goes to `over` and begins the next.
async fn gather(world: &World, mapping: &Mapping, over: &mut Vec<Received>) -> Vec<Received> {
    let Reading { batch, window, .. } = mapping.reading;
    let most = |have: usize| RECEIVED_MAX.min(batch - have);
    let mut all = std::mem::take(over);
    if all.is_empty() {
        // A batch that waits for nothing is what one call gives, or a large one what a few give at once.
        let first = if window.is_zero() { batch } else { most(0) };
        all = world.queues.receive(mapping.queue, first).await;
    }
    let until = world.clock.now() + window;
    while !window.is_zero() && all.len() < batch {
        tokio::select! { biased;
            more = world.queues.receive(mapping.queue, most(all.len())) => all.extend(more),
            () = world.clock.sleep_until(until) => break,
        }
        if bytes(&all) > BATCH_BYTES_MAX {
            break;
        }
    }
    while all.len() > 1 && bytes(&all) > BATCH_BYTES_MAX {
        over.extend(all.pop());
    }
    all
}

fn bytes(all: &[Received]) -> usize {
    all.iter().map(|message| message.body.len()).sum()
}
