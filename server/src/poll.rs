//! Reads the queues in the place of Lambda's event source mappings: batches, so many at the same time,
//! and what a reply does not name is deleted.

use std::{sync::Arc, time::Duration};

use gridpost_core::{delivery::queue::Queue, error::chain};
use gridpost_embedded::Received;
use gridpost_ports::Clock;
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{functions::invoke, mapping::Mapping, world::World};

/// A queue is looked at again after so long, whatever was heard of it.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// After a look that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Reads a queue for ever and invokes its function.
pub(crate) async fn poll(world: Arc<World>, mapping: Mapping) {
    let slots = Arc::new(Semaphore::new(mapping.concurrency));
    // Ends with this task, and with it all that is under way.
    let mut invocations = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let batch = gather(&world, &mapping).await;
        let world = Arc::clone(&world);
        invocations.spawn(async move {
            carry_out(&world, mapping, batch).await;
            drop(slot);
        });
        while let Some(ended) = invocations.try_join_next() {
            if let Err(error) = ended {
                // Its messages come back when they are visible again.
                tracing::error!(queue = %mapping.queue, %error, "an invocation failed");
            }
        }
    }
}

/// Invokes the function, and deletes what its reply does not name.
async fn carry_out(world: &World, mapping: Mapping, batch: Vec<Received>) {
    let receipts: Vec<_> =
        batch.iter().map(|one| (one.message_id.clone(), one.receipt.clone())).collect();
    let _in_flight = world.store.record_in_flight(&batch);
    let Some(kept) = invoke(world, mapping, batch).await else { return };
    let gone = receipts.into_iter().filter(|(id, _)| !kept.contains(id));
    let gone: Vec<_> = gone.map(|(_, receipt)| receipt).collect();
    if gone.is_empty() {
        return;
    }
    if let Err(error) = world.store.delete(mapping.queue, gone).await {
        tracing::error!(queue = %mapping.queue, error = %chain(&error), "a batch comes back");
    }
}

/// The next batch: full, or as old as its window.
async fn gather(world: &World, mapping: &Mapping) -> Vec<Received> {
    let mut batch = Vec::new();
    while batch.is_empty() {
        batch = receive(world, mapping, mapping.batch).await;
        if batch.is_empty() {
            wait(world, mapping.queue).await;
        }
    }
    let until = world.clock.now() + mapping.window;
    while batch.len() < mapping.batch && world.clock.now() < until {
        let more = receive(world, mapping, mapping.batch - batch.len()).await;
        if more.is_empty() {
            // Only a wait may be given up: what a look has received is hidden for long.
            tokio::select! {
                () = wait(world, mapping.queue) => {}
                () = world.clock.sleep_until(until) => {}
            }
        }
        batch.extend(more);
    }
    batch
}

/// What the queue holds now.
async fn receive(world: &World, mapping: &Mapping, most: usize) -> Vec<Received> {
    match world.store.receive(mapping.queue, most).await {
        Ok(received) => received,
        Err(error) => {
            tracing::error!(queue = %mapping.queue, error = %chain(&error), "it is not read");
            sleep(AFTER_FAILURE).await;
            Vec::new()
        }
    }
}

/// Waits until there may be something to receive.
async fn wait(world: &World, queue: Queue) {
    let next = world.store.next_visible(queue).await.ok().flatten();
    let due = async {
        match next {
            Some(next) => world.clock.sleep_until(next).await,
            None => sleep(LOOK_AGAIN).await,
        }
    };
    tokio::select! {
        () = world.store.arrived(queue) => {}
        () = due => {}
        () = sleep(LOOK_AGAIN) => {}
    }
}
