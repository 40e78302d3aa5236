//! Event source mappings: how Lambda reads a queue, and how many batches at the same time.

use std::{cell::Cell, rc::Rc};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::Clock;
use gridpost_testkit::queue::Received;
use tokio::sync::Semaphore;

use super::{
    Simulation,
    invoke::invoke,
    payload::{PAYLOAD_BYTES_MAX, bytes},
};
use crate::lambda::{Mapping, Reading};

/// Most messages that one `ReceiveMessage` gives.
const RECEIVED_MAX: usize = 10;

/// The initial and minimum number of concurrent batches of a mapping with a maximum. Source: AWS
/// Lambda developer guide, "Configuring scaling behavior for SQS event source mappings".
const BATCHES_AT_FIRST: usize = 5;

/// The concurrent batches of a mapping.
struct Slots {
    free: Semaphore,
    open: Cell<usize>,
    grew_at: Cell<Timestamp>,
}

/// One slot, freed on drop.
struct Slot(Rc<Slots>);

/// Records the wait for a slot when it ends, or when its process does.
struct Waits<'w> {
    world: &'w Simulation,
    queue: Queue,
    from: Timestamp,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.world.clock.now() > self.from && self.world.queues.has_visible(self.queue) {
            self.world.platform_waited(self.queue, self.from);
        }
    }
}

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
    async fn take(self: Rc<Self>, world: &Simulation, mapping: &Mapping) -> Slot {
        let waits = Waits { world, queue: mapping.queue, from: world.clock.now() };
        let free = self.free.acquire();
        tokio::select! { biased;
            permit = free => permit.expect("it is never closed").forget(),
            () = self.grow(world, mapping) => {}
        }
        drop(waits);
        Slot(self)
    }

    /// Adds slots as allowed. Resolves when that has freed one, which is then taken.
    async fn grow(&self, world: &Simulation, mapping: &Mapping) {
        let most = mapping.reading.concurrency;
        while let Some(ramp) = mapping.ramp.filter(|_| self.open.get() < most) {
            let next = (self.grew_at.get() + ramp.every()).max(world.clock.now());
            world.clock.sleep_until(next).await;
            if world.clock.now() < self.grew_at.get() + ramp.every() {
                // Another process was faster.
                continue;
            }
            if !world.queues.has_visible(mapping.queue) {
                world.clock.sleep(ramp.every()).await;
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
pub(super) async fn poll(world: Rc<Simulation>, mapping: Mapping) {
    let slots = Slots::of(&mapping, world.clock.now());
    let processes = match mapping.reading.window.is_zero() {
        true => 1,
        false => mapping.reading.concurrency.min(BATCHES_AT_FIRST),
    };
    let read = || read(Rc::clone(&world), mapping, Rc::clone(&slots));
    futures::future::join_all((0..processes).map(|_| read())).await;
}

async fn read(world: Rc<Simulation>, mapping: Mapping, slots: Rc<Slots>) {
    let mut over = Vec::new();
    loop {
        let slot = Rc::clone(&slots).take(&world, &mapping).await;
        let received = gather(&world, &mapping, &mut over).await;
        world.begin();
        let world = Rc::clone(&world);
        tokio::task::spawn_local(async move {
            world.while_it_lives(invoke(&world, mapping, received)).await;
            drop(slot);
            world.end();
        });
    }
}

/// Gathers a batch: full, or as old as its window when a poll ends, or as large as a payload may be. What
/// no longer fits goes to `over` and begins the next.
async fn gather(world: &Simulation, mapping: &Mapping, over: &mut Vec<Received>) -> Vec<Received> {
    let Reading { batch, window, .. } = mapping.reading;
    let most = |have: usize| RECEIVED_MAX.min(batch - have);
    let mut all = std::mem::take(over);
    if all.is_empty() {
        // A batch that waits for nothing is what one call gives, or a large one what a few give at once.
        let first = if window.is_zero() { batch } else { most(0) };
        all = world.queues.receive(mapping.queue, first).await;
    }
    let until = world.clock.now() + window;
    while all.len() < batch && world.clock.now() < until {
        let polled = mapping.reading.polled_until(world.clock.now(), until);
        tokio::select! { biased;
            more = world.queues.receive(mapping.queue, most(all.len())) => all.extend(more),
            () = world.clock.sleep_until(polled) => break,
        }
        if bytes(&all) > PAYLOAD_BYTES_MAX {
            break;
        }
    }
    while all.len() > 1 && bytes(&all) > PAYLOAD_BYTES_MAX {
        over.extend(all.pop());
    }
    if mapping.queue == Queue::Slow {
        note_gathered(world, &all);
    }
    all
}

/// What slow endpoints are sent may wait for its batch to be filled.
fn note_gathered(world: &Simulation, all: &[Received]) {
    let now = world.clock.now();
    let mut history = world.history.lock().expect("no panic while held");
    for message in all {
        if let Some(delivery) = message.carried.delivery {
            history.hold_back(delivery, message.at..now);
        }
    }
}
