//! The process of one machine. When it is killed, all that it runs and has in memory is lost, and the
//! next process continues from the stores.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, Weak},
};

use gridpost_ports::Clock;
use gridpost_testkit::faults::Instance;
use tokio::{sync::Notify, task::spawn_local};

use super::{Simulation, mapping};

/// The current process.
#[derive(Default)]
pub(super) struct Process {
    number: Cell<u64>,
    ended: Notify,
    /// The instances that it started.
    instances: RefCell<Vec<Weak<Instance>>>,
}

impl Simulation {
    /// Runs work that ends with the process. Returns `None` if the process ended first.
    pub(super) async fn while_it_lives<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        if self.scenario.restarts.is_empty() {
            return Some(work.await);
        }
        let number = self.process.number.get();
        let ended = async {
            while self.process.number.get() == number {
                self.process.ended.notified().await;
            }
        };
        // A process that has been killed takes no further step.
        tokio::select! { biased;
            () = ended => None,
            done = work => Some(done),
        }
    }

    pub(super) fn note_begun(&self, instance: &Arc<Instance>) {
        if !self.scenario.restarts.is_empty() {
            self.process.instances.borrow_mut().push(Arc::downgrade(instance));
        }
    }

    /// Starts the tasks that poll the queues. wake's schedule stays; only its runs end with a process.
    pub(super) fn start_polling(self: &Rc<Self>) {
        for mapping in self.mappings() {
            let world = Rc::clone(self);
            spawn_local(async move {
                world.while_it_lives(mapping::poll(Rc::clone(&world), mapping)).await;
            });
        }
    }

    /// Kills the process at the planned times and starts the next one.
    pub(super) async fn restart(self: Rc<Self>) {
        for at in &self.scenario.restarts {
            self.clock.sleep_until(*at).await;
            self.end_process();
            self.start_polling();
        }
    }

    fn end_process(&self) {
        // Idle instances hold no messages.
        self.pools.clear();
        self.ingests.borrow_mut().clear();
        for instance in self.process.instances.take() {
            instance.upgrade().iter().for_each(|at_work| self.injector.kill(at_work));
        }
        self.process.number.set(self.process.number.get() + 1);
        self.process.ended.notify_waiters();
        let stores = self.embedded.as_ref().expect("the stores of one machine");
        stores.open_again();
        self.tables.go_on_with(stores.tables());
        let now = self.clock.now();
        let mut history = self.history();
        history.fault_kinds.insert(STARTED_AGAIN);
        history.trace(now, || STARTED_AGAIN.to_owned());
    }
}

const STARTED_AGAIN: &str = "the process was started again";
