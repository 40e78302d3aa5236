//! Running copies of the functions.

use std::{
    rc::Rc,
    sync::{Arc, Mutex},
};

use gridpost_core::delivery::queue::Queue;
use gridpost_ports::Meter;
use gridpost_testkit::faults::Instance;

use super::Simulation;

/// A running copy of a function: what it has in memory lives until it dies.
#[derive(Clone)]
pub(super) enum Copy {
    Dispatch(Rc<gridpost_dispatch::Context>),
    DeadLetter(Rc<gridpost_dead_letter::Context>),
    Redrive(Rc<gridpost_redrive::Context>),
    Expand(Rc<gridpost_expand::Context>),
}

type Idle = Mutex<Vec<(Arc<Instance>, Copy)>>;

/// Copies that wait for work, by function.
#[derive(Default)]
pub(super) struct Pools {
    dispatch: Idle,
    dead_letter: Idle,
    redrive: Idle,
    expand: Idle,
}

impl Copy {
    pub(super) fn meter(&self) -> &dyn Meter {
        match self {
            Self::Dispatch(context) => &*context.meter,
            Self::DeadLetter(context) => &*context.meter,
            Self::Redrive(context) => &*context.meter,
            Self::Expand(context) => &*context.meter,
        }
    }
}

impl Pools {
    fn of(&self, queue: Queue) -> &Idle {
        match queue {
            Queue::DeadLetter => &self.dead_letter,
            Queue::Redrive => &self.redrive,
            Queue::FanOut => &self.expand,
            _ => &self.dispatch,
        }
    }

    /// Drops all idle copies.
    pub(super) fn clear(&self) {
        for idle in [&self.dispatch, &self.dead_letter, &self.redrive, &self.expand] {
            idle.lock().expect("no panic while held").clear();
        }
    }

    pub(super) fn put(&self, queue: Queue, instance: Arc<Instance>, copy: Copy) {
        self.of(queue).lock().expect("no panic while held").push((instance, copy));
    }
}

/// Takes an idle copy, or a fresh one: the one used last, or any if the world says so. Returns
/// whether it is fresh, too.
pub(super) fn take(world: &Simulation, queue: Queue) -> (Arc<Instance>, Copy, bool) {
    let mut idle = world.pools.of(queue).lock().expect("no panic while held");
    if !world.dice.chance(world.cold_starts)
        && let Some(last) = idle.len().checked_sub(1)
    {
        let index = match world.last_used_first {
            true => last,
            false => usize::try_from(world.dice.number(0..idle.len() as u64)).unwrap_or(last),
        };
        let (instance, copy) = idle.swap_remove(index);
        return (instance, copy, false);
    }
    let instance = world.instance(Instance::default());
    let copy = match queue {
        Queue::DeadLetter => Copy::DeadLetter(Rc::new(world.dead_letter(&instance))),
        Queue::Redrive => Copy::Redrive(Rc::new(world.redrive(&instance))),
        Queue::FanOut => Copy::Expand(Rc::new(world.expand(&instance))),
        _ => Copy::Dispatch(Rc::new(world.dispatch(&instance))),
    };
    (instance, copy, true)
}
