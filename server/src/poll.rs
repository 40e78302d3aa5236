//! Reads the queues as Lambda's event source mappings do: concurrent batches, of which a reply keeps
//! messages, and the rest is deleted.

use std::{sync::Arc, time::Duration};

use gridpost_core::{delivery::queue::Queue, error::chain};
use gridpost_embedded::Received;
use gridpost_ports::Clock;
use tokio::{
    sync::Semaphore,
    task::{JoinError, JoinSet},
    time::{Instant, sleep},
};

use crate::{functions::invoke, mapping::Mapping, process::Process, tasks::Stopping};

/// The longest wait between two receives of a queue.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The wait after a failed receive.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Reads a queue and invokes its function. Once the process stops, finishes what is under way. What was received
/// and not begun is visible at the next start.
pub(crate) async fn poll(process: Arc<Process>, mapping: Mapping, stopping: Stopping) {
    let slots = Arc::new(Semaphore::new(mapping.concurrency));
    // Dropped with this task, which ends all invocations.
    let mut invocations = JoinSet::new();
    let told = |ended: Result<(), JoinError>| {
        if let Err(error) = ended {
            // Its messages come back when they are visible again.
            tracing::error!(queue = %mapping.queue, %error, "an invocation failed");
        }
    };
    let next = async || {
        let slot = tokio::select! {
            biased;
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = room_is_missing(&process) => return None,
        };
        gather(&process, &mapping).await.map(|batch| (slot, batch))
    };
    while let Some(next) = stopping.unless(next()).await {
        let Some((slot, batch)) = next else {
            let full_since = Instant::now();
            let end = async {
                while process.store.waits_for_room() {
                    sleep(AFTER_FAILURE).await;
                }
                // After so long, what is in hand may be visible again: it ends first. After less nothing waits for
                // it, for an invocation may listen to an endpoint for minutes.
                while full_since.elapsed() >= mapping.timeout / 2
                    && let Some(ended) = invocations.join_next().await
                {
                    told(ended);
                }
            };
            stopping.unless(end).await;
            continue;
        };
        let process = Arc::clone(&process);
        invocations.spawn(async move {
            carry_out(&process, mapping, batch).await;
            drop(slot);
        });
        while let Some(ended) = invocations.try_join_next() {
            told(ended);
        }
    }
    while let Some(ended) = invocations.join_next().await {
        told(ended);
    }
}

/// Invokes the function, and deletes what its reply does not keep.
async fn carry_out(process: &Process, mapping: Mapping, batch: Vec<Received>) {
    let receipts: Vec<_> =
        batch.iter().map(|one| (one.message_id.clone(), one.receipt.clone())).collect();
    let _in_flight = process.store.record_in_flight(&batch);
    let Some(kept) = invoke(process, mapping, batch).await else { return };
    let gone = receipts.into_iter().filter(|(id, _)| !kept.contains(id));
    let gone: Vec<_> = gone.map(|(_, receipt)| receipt).collect();
    if gone.is_empty() {
        return;
    }
    if let Err(error) = process.store.delete(mapping.queue, gone).await {
        tracing::error!(queue = %mapping.queue, error = %chain(&error), "failed to delete a batch; it is received again");
    }
}

/// Waits until writes wait for room on the disk.
async fn room_is_missing(process: &Process) {
    while !process.store.waits_for_room() {
        sleep(AFTER_FAILURE).await;
    }
}

/// Collects the next batch: full, or as old as its window. Returns `None` while writes wait for room on the disk,
/// because deliveries could not be recorded.
async fn gather(process: &Process, mapping: &Mapping) -> Option<Vec<Received>> {
    let mut batch = Vec::new();
    while batch.is_empty() {
        if process.store.waits_for_room() {
            return None;
        }
        batch = receive(process, mapping, mapping.batch).await;
        if batch.is_empty() {
            wait(process, mapping.queue).await;
        }
    }
    let until = process.clock.now() + mapping.window;
    while batch.len() < mapping.batch && process.clock.now() < until {
        let more = receive(process, mapping, mapping.batch - batch.len()).await;
        if more.is_empty() {
            // Only a wait may be cancelled: received messages are hidden for long.
            tokio::select! {
                () = wait(process, mapping.queue) => {}
                () = process.clock.sleep_until(until) => {}
            }
        }
        batch.extend(more);
    }
    Some(batch)
}

async fn receive(process: &Process, mapping: &Mapping, most: usize) -> Vec<Received> {
    match process.store.receive(mapping.queue, most).await {
        Ok(received) => received,
        Err(error) => {
            tracing::error!(queue = %mapping.queue, error = %chain(&error), "failed to receive messages");
            sleep(AFTER_FAILURE).await;
            Vec::new()
        }
    }
}

async fn wait(process: &Process, queue: Queue) {
    let next = process.store.next_visible(queue).await.ok().flatten();
    let due = async {
        match next {
            Some(next) => process.clock.sleep_until(next).await,
            None => sleep(LOOK_AGAIN).await,
        }
    };
    tokio::select! {
        () = process.store.arrived(queue) => {}
        () = due => {}
        () = sleep(LOOK_AGAIN) => {}
    }
}
