//! Invocations: a copy of a function runs, in time or not.

use std::{collections::BTreeSet, ops::Range};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_dead_letter::gather;
use gridpost_dispatch::handler::handle;
use gridpost_expand::expand;
use gridpost_ports::{Clock, QueueReceiver, Record};
use gridpost_redrive::work;
use gridpost_testkit::queue::Received;

use super::{
    Simulation,
    pool::{self, Copy},
};
use crate::lambda::{Function, Mapping};

/// Invokes a queue's function with a batch, and deletes what its reply does not name.
pub(super) async fn invoke(world: &Simulation, mapping: Mapping, received: Vec<Received>) {
    let (instance, copy, is_fresh) = pool::take(world, mapping.queue);
    let uids: BTreeSet<_> = received.iter().filter_map(|it| it.carried.subscription).collect();
    let ids = received.iter().filter_map(|it| it.carried.delivery).collect();
    instance.take(ids, uids.into_iter().collect());
    instance.hold(received.iter().map(|message| message.body.len()).sum());
    let (from, to) = if is_fresh { mapping.hop.fresh } else { mapping.hop.warm };
    tokio::time::sleep(world.dice.millis(from..to)).await;
    let began_at = world.clock.now();
    let now = instance.clock(world.clock).now();
    let during = now..now + world.clock.pace().to_clock(mapping.timeout);
    let reply = tokio::select! { biased;
        reply = world.at_its_pace(run(mapping.queue, &copy, received.clone(), during)) => Some(reply),
        () = instance.died() => None,
        () = world.injector.moment_of_death() => {
            world.injector.kill(&instance);
            None
        }
        () = tokio::time::sleep(mapping.timeout) => {
            world.injector.kill(&instance);
            if world.injector.plan().is_calm() && !world.stalls() {
                world.violation("a function ran into its timeout");
            }
            None
        }
    };
    world.note_used(Function::of(mapping.queue), &instance, began_at);
    // Only these queues can form a loop. A redrive just retries every ten seconds while its bucket
    // refuses.
    if !matches!(mapping.queue, Queue::FanOut | Queue::Redrive) {
        world.note_invoked();
    }
    let Some(kept) = reply else { return };
    copy.meter().flush(world.clock.now());
    let kept: BTreeSet<String> = kept.into_iter().collect();
    let known: BTreeSet<_> = received.iter().map(|message| message.message_id.clone()).collect();
    if !kept.is_subset(&known) {
        world.violation("a reply names a message that it was not given");
    }
    let gone = received.into_iter().filter(|message| !kept.contains(&message.message_id));
    let gone = gone.filter(|message| !world.injector.is_undeleted(message.carried.delivery));
    let gone: Vec<_> = gone.map(|message| message.receipt).collect();
    if world.dice.chance(world.injector.plan().fails_before) {
        // Lambda's own deletion may fail: then the messages come back.
        world.injector.kill(&instance);
        return;
    }
    if !gone.is_empty() {
        let _ = world.queues.delete(mapping.queue, gone).await;
    }
    world.pools.put(mapping.queue, instance, copy);
}

async fn run(
    queue: Queue,
    copy: &Copy,
    received: Vec<Received>,
    Range { start: received_at, end: deadline }: Range<Timestamp>,
) -> Vec<String> {
    // By the function's own clock, which need not be the queue's.
    let record = |message: &Received| Record { received_at, ..message.record(queue) };
    let records = received.iter().map(record).collect();
    match copy {
        Copy::Dispatch(context) => handle(context, records, deadline).await,
        Copy::DeadLetter(context) => gather(context, records).await,
        Copy::Redrive(context) => work(context, records, deadline).await,
        Copy::Expand(context) => expand(context, records, deadline).await,
    }
}
