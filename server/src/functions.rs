//! Invokes the functions' handlers.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use gridpost_core::{delivery::queue::Queue, error::chain, time::Timestamp};
use gridpost_dead_letter::gather;
use gridpost_dispatch::handler::handle;
use gridpost_embedded::Received;
use gridpost_expand::expand;
use gridpost_ports::{Clock, Meter};
use gridpost_redrive::work;
use gridpost_wake::wake;
use tokio::time::timeout;

use crate::{
    mapping::Mapping,
    process::Process,
    tasks::{Stopping, caught},
};

/// How long a run of wake starts work, by the machine's clock: its timeout, less time for its last calls.
const WAKE_RUN: Duration = Duration::from_secs(30);
const MINUTE_MS: i64 = 60_000;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Invokes a queue's function with a batch. Returns the ids of messages to keep; `None` after a timeout,
/// when nothing of the batch may be deleted.
pub(crate) async fn invoke(
    process: &Process,
    mapping: Mapping,
    batch: Vec<Received>,
) -> Option<BTreeSet<String>> {
    let now = process.clock.now();
    let deadline = now + process.clock.pace().to_clock(mapping.timeout);
    let mut run = pin!(run(process, mapping.queue, batch, (now, deadline)));
    let kept = loop {
        match timeout(mapping.timeout, run.as_mut()).await {
            Ok(kept) => break kept,
            // What it has delivered must be noted, however long that waits for room on the disk.
            Err(_) if process.store.waits_for_room() => {}
            Err(_) => {
                tracing::error!(queue = %mapping.queue, "an invocation ran into its timeout");
                return None;
            }
        }
    };
    meter(process, mapping.queue).flush(process.clock.now());
    Some(kept.into_iter().collect())
}

fn meter(process: &Process, queue: Queue) -> &Arc<dyn Meter> {
    match queue {
        Queue::FanOut => &process.expand.meter,
        Queue::DeadLetter => &process.dead_letter.meter,
        Queue::Redrive => &process.redrive.meter,
        Queue::Dispatch | Queue::Retry(_) | Queue::Slow | Queue::Poison => &process.dispatch.meter,
    }
}

async fn run(
    process: &Process,
    queue: Queue,
    batch: Vec<Received>,
    (received_at, deadline): (Timestamp, Timestamp),
) -> Vec<String> {
    let records = batch.into_iter().map(|message| message.into_record(queue, received_at));
    let records: Vec<_> = records.collect();
    match queue {
        Queue::Dispatch | Queue::Retry(_) | Queue::Slow => {
            handle(&process.dispatch, records, deadline).await
        }
        Queue::DeadLetter => gather(&process.dead_letter, records).await,
        Queue::Redrive => work(&process.redrive, records, deadline).await,
        Queue::FanOut => expand(&process.expand, records, deadline).await,
        // Only operators read it.
        Queue::Poison => records.iter().map(|record| record.message_id.to_string()).collect(),
    }
}

/// Removes dead letters that are older than `retention`, and labels without a file, at once and then each hour
/// of the clock. Returns once the process stops.
pub(crate) async fn sweep_letters_each_hour(
    process: Arc<Process>,
    retention: Option<Duration>,
    stopping: Stopping,
) {
    let letters = process.store.letters();
    let sweep = async || loop {
        let failed = match caught(letters.sweep(retention)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(panic) => Some(panic),
        };
        if let Some(error) = failed {
            tracing::error!(
                error,
                "old dead letters were not removed; the next hour makes up for it"
            );
        }
        process.clock.sleep_until(process.clock.now() + HOUR).await;
    };
    stopping.unless(sweep()).await;
}

/// Runs wake at once and then at each full minute of the clock. Runs never overlap: a long one skips
/// minutes. Returns once the process stops.
pub(crate) async fn wake_each_minute(process: Arc<Process>, stopping: Stopping) {
    loop {
        let failed = match caught(wake(&process.wake, process.clock.after(WAKE_RUN))).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(panic) => Some(panic),
        };
        if let Some(error) = failed {
            tracing::error!(error, "wake failed; the next run makes up for it");
        }
        process.wake.meter.flush(process.clock.now());
        let next = (process.clock.now().as_minutes() + 1) * MINUTE_MS;
        if stopping.unless(process.clock.sleep_until(Timestamp::from_millis(next))).await.is_none()
        {
            return;
        }
    }
}
