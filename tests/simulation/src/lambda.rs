//! Lambda: event source mappings over the queues, running copies of the functions, their timeout,
//! and the deletion of what a reply does not name.

use std::{
    collections::BTreeSet,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_core::{
    delivery::{Delivery, queue::Queue},
    time::Timestamp,
};
use gridpost_dead_letter_handler::gather;
use gridpost_dispatch_handler::{handler::handle, record::Record};
use gridpost_ingest_handler::expand;
use gridpost_ports::{Clock, Meter, QueueReceiver};
use tokio::sync::Semaphore;

use super::world::World;
use gridpost_testkit::{
    faults::Instance,
    queue::{Received, delivery_in},
};

/// A queue that a function is invoked with.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// The queue.
    pub queue: Queue,
    /// Most records of one invocation.
    pub records_max: usize,
    /// Most invocations at the same time.
    pub concurrency: usize,
    /// The function's timeout.
    pub timeout: Duration,
}

/// A running copy of a function: what it has in memory lives until it dies.
#[derive(Clone)]
enum Copy {
    Dispatch(Rc<gridpost_dispatch_handler::Context>),
    DeadLetter(Rc<gridpost_dead_letter_handler::Context>),
    /// ingest, as the fan-out queue's mapping invokes it.
    Ingest(Rc<gridpost_ingest_handler::Context>),
}

/// Copies that wait for work, by function.
#[derive(Default)]
pub struct Pools {
    dispatch: Mutex<Vec<(Arc<Instance>, Copy)>>,
    dead_letter: Mutex<Vec<(Arc<Instance>, Copy)>>,
    ingest: Mutex<Vec<(Arc<Instance>, Copy)>>,
}

impl Copy {
    fn meter(&self) -> &dyn Meter {
        match self {
            Self::Dispatch(context) => &*context.meter,
            Self::DeadLetter(context) => &*context.meter,
            Self::Ingest(context) => &*context.meter,
        }
    }
}

impl Pools {
    fn of(&self, queue: Queue) -> &Mutex<Vec<(Arc<Instance>, Copy)>> {
        match queue {
            Queue::DeadLetter => &self.dead_letter,
            Queue::FanOut => &self.ingest,
            _ => &self.dispatch,
        }
    }
}

/// Polls a queue for ever and invokes its function.
pub async fn poll(world: Rc<World>, mapping: Mapping) {
    let slots = Rc::new(Semaphore::new(mapping.concurrency));
    loop {
        let slot = Rc::clone(&slots).acquire_owned_in().await;
        let received = world.queues.receive(mapping.queue, mapping.records_max).await;
        world.begin();
        let world = Rc::clone(&world);
        tokio::task::spawn_local(async move {
            invoke(&world, mapping, received).await;
            drop(slot);
            world.end();
        });
    }
}

/// A slot of a [`Semaphore`] that is not shared between threads.
trait AcquireOwned {
    async fn acquire_owned_in(self) -> Slot;
}

struct Slot(Rc<Semaphore>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl AcquireOwned for Rc<Semaphore> {
    async fn acquire_owned_in(self) -> Slot {
        self.acquire().await.expect("it is never closed").forget();
        Slot(self)
    }
}

async fn invoke(world: &World, mapping: Mapping, received: Vec<Received>) {
    let (instance, copy) = take_copy(world, mapping.queue);
    // From the poller to the function it takes a moment, longer when a copy must be started.
    tokio::time::sleep(world.dice.millis(2..300)).await;
    let uids = received.iter().filter_map(|message| Delivery::decode(&message.body).ok());
    let uids: BTreeSet<_> = uids.map(|delivery| delivery.subscription_uid).collect();
    let ids = received.iter().filter_map(|message| delivery_in(&message.body)).collect();
    instance.take(ids, uids.into_iter().collect());
    let deadline = world.clock.now() + mapping.timeout;
    let reply = tokio::select! { biased;
        reply = run(world, mapping.queue, &copy, received.clone(), deadline) => Some(reply),
        () = instance.died() => None,
        () = tokio::time::sleep(mapping.timeout) => {
            world.injector.kill(&instance);
            if world.injector.plan().is_calm() {
                world.violation("a function ran into its timeout");
            }
            None
        }
    };
    world.history.lock().expect("no panic while held").invocations += 1;
    let Some(kept) = reply else { return };
    copy.meter().flush(world.clock.now());
    let kept: BTreeSet<String> = kept.into_iter().collect();
    let known: BTreeSet<_> = received.iter().map(|message| message.message_id.clone()).collect();
    if !kept.is_subset(&known) {
        world.violation("a reply names a message that it was not given");
    }
    let gone = received.into_iter().filter(|message| !kept.contains(&message.message_id));
    let gone: Vec<_> = gone.map(|message| message.receipt).collect();
    if world.dice.chance(world.injector.plan().fails_before) {
        // Lambda's own deletion may fail: then the messages come back.
        world.injector.kill(&instance);
        return;
    }
    if !gone.is_empty() {
        let _ = world.queues.delete(mapping.queue, gone).await;
    }
    world.pools.of(mapping.queue).lock().expect("no panic while held").push((instance, copy));
}

fn take_copy(world: &World, queue: Queue) -> (Arc<Instance>, Copy) {
    let mut idle = world.pools.of(queue).lock().expect("no panic while held");
    if idle.is_empty() || world.dice.chance(world.cold_starts) {
        let instance = Arc::new(Instance::default());
        let copy = match queue {
            Queue::DeadLetter => Copy::DeadLetter(Rc::new(world.dead_letter(&instance))),
            Queue::FanOut => Copy::Ingest(Rc::new(world.ingest(&instance))),
            _ => Copy::Dispatch(Rc::new(world.dispatch(&instance))),
        };
        return (instance, copy);
    }
    let index = world.dice.number(0..idle.len() as u64);
    idle.swap_remove(usize::try_from(index).unwrap_or(0))
}

async fn run(
    world: &World,
    queue: Queue,
    copy: &Copy,
    received: Vec<Received>,
    deadline: Timestamp,
) -> Vec<String> {
    let received_at = world.clock.now();
    match copy {
        Copy::Dispatch(context) => {
            let records = received.into_iter().map(|message| Record {
                message_id: message.message_id,
                receipt: message.receipt,
                body: message.body,
                receive_count: message.count,
                queue,
                received_at,
            });
            handle(context, records.collect(), deadline).await
        }
        Copy::DeadLetter(context) => {
            let records = received.into_iter().map(|message| gather::Record {
                message_id: message.message_id,
                receipt: message.receipt,
                body: message.body,
                receive_count: message.count,
            });
            gather::gather(context, records.collect()).await
        }
        Copy::Ingest(context) => {
            let records = received.into_iter().map(|message| expand::Record {
                message_id: message.message_id,
                body: message.body,
            });
            expand::expand(context, records.collect(), deadline).await
        }
    }
}

/// How long a run of wake begins anything: its timeout (55 s), less what it keeps for its last calls.
const WAKE_RUN: Duration = Duration::from_secs(40);

/// Invokes wake once a minute, as its schedule does. In minutes in which nothing is parked only what
/// it would note is noted, to save time.
pub async fn schedule_wake(world: Rc<World>) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        if !world.tables.any_parked() {
            world.tables.pass();
            continue;
        }
        let instance = Arc::new(Instance::default());
        instance.take(world.tables.parked_ids(), Vec::new());
        let context = world.wake(&instance);
        let until = world.clock.now() + WAKE_RUN;
        world.begin();
        tokio::select! { biased;
            _ = gridpost_wake_handler::wake(&context, until) => {}
            () = instance.died() => {}
        }
        world.end();
    }
}
