//! wake's schedule: once a minute, or nearly so.

use std::{rc::Rc, time::Duration};

use gridpost_ports::{Clock, Dice};
use gridpost_testkit::{clock::BEGINNING, faults::Instance};

use super::Simulation;
use crate::lambda::{Function, Wakes};

/// How long a run of wake begins new pages: its timeout (55 s), less what it keeps for its last
/// calls.
const WAKE_RUN: Duration = Duration::from_secs(40);

const MINUTE: Duration = Duration::from_secs(60);

/// Invokes wake once a minute, as its schedule does, or a minute after its last run in worlds whose
/// schedule is not told. If nothing is parked, only its cursor is written, to save time.
pub(super) async fn schedule_wake(world: Rc<Simulation>) {
    if let Some(wakes) = world.wakes {
        return loosely(world, wakes).await;
    }
    loop {
        world.clock.sleep(MINUTE).await;
        run(&world).await;
    }
}

async fn loosely(world: Rc<Simulation>, wakes: Wakes) {
    for minute in 1.. {
        let due = BEGINNING + MINUTE * minute + wakes.phase;
        let late = wakes.late_max.mul_f64(world.dice.roll());
        world.clock.sleep_until(due + late).await;
        if world.dice.chance(wakes.skipped) {
            world.wake_waited(due, MINUTE);
            continue;
        }
        world.wake_waited(due, late);
        let runs = 1 + u64::from(world.dice.chance(wakes.twice));
        for _ in 0..runs {
            let (world, after) = (Rc::clone(&world), world.dice.millis(0..2_000));
            tokio::task::spawn_local(async move {
                tokio::time::sleep(after).await;
                run(&world).await;
            });
        }
    }
}

async fn run(world: &Simulation) {
    if !world.tables.any_parked() {
        world.tables.pass();
        return;
    }
    let instance = world.instance(Instance::default());
    instance.take(world.tables.parked_ids(), Vec::new());
    let context = world.wake(&instance);
    world.begin();
    let began_at = world.clock.now();
    let until = instance.clock(world.clock).now() + world.clock.pace().to_clock(WAKE_RUN);
    let run = async {
        tokio::select! { biased;
            _ = world.at_its_pace(gridpost_wake::wake(&context, until)) => {}
            () = instance.died() => {}
            () = world.injector.moment_of_death() => world.injector.kill(&instance),
        }
    };
    world.while_it_lives(run).await;
    world.note_used(Function::Wake, &instance, began_at);
    world.end();
}
