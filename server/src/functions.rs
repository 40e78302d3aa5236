//! Invokes the functions' handlers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use gridpost_core::{delivery::queue::Queue, error::chain, time::Timestamp};
use gridpost_dead_letter::gather;
use gridpost_dispatch::handler::handle;
use gridpost_embedded::Received;
use gridpost_expand::expand;
use gridpost_ports::{Clock, Meter};
use gridpost_redrive::work;
use gridpost_wake::wake;
use tokio::time::timeout;

use crate::{mapping::Mapping, tasks::caught, world::World};

/// How long a run of wake begins anything, by the machine's clock: its timeout, less what it keeps for
/// its last calls.
const WAKE_RUN: Duration = Duration::from_secs(40);

const MINUTE_MS: i64 = 60_000;

/// Invokes a queue's function with a batch; answers which messages it keeps, by id. `None`: it ran into
/// its timeout, and nothing of the batch may be deleted.
pub(crate) async fn invoke(
    world: &World,
    mapping: Mapping,
    batch: Vec<Received>,
) -> Option<BTreeSet<String>> {
    let now = world.clock.now();
    let deadline = now + world.clock.pace().to_clock(mapping.timeout);
    let run = run(world, mapping.queue, batch, (now, deadline));
    let Ok(kept) = timeout(mapping.timeout, run).await else {
        tracing::error!(queue = %mapping.queue, "an invocation ran into its timeout");
        return None;
    };
    meter(world, mapping.queue).flush(world.clock.now());
    Some(kept.into_iter().collect())
}

fn meter(world: &World, queue: Queue) -> &Arc<dyn Meter> {
    match queue {
        Queue::FanOut => &world.expand.meter,
        Queue::DeadLetter => &world.dead_letter.meter,
        Queue::Redrive => &world.redrive.meter,
        Queue::Dispatch | Queue::Retry(_) | Queue::Poison => &world.dispatch.meter,
    }
}

async fn run(
    world: &World,
    queue: Queue,
    batch: Vec<Received>,
    (received_at, deadline): (Timestamp, Timestamp),
) -> Vec<String> {
    let records = batch.into_iter().map(|message| message.into_record(queue, received_at));
    let records: Vec<_> = records.collect();
    match queue {
        Queue::Dispatch | Queue::Retry(_) => handle(&world.dispatch, records, deadline).await,
        Queue::DeadLetter => gather(&world.dead_letter, records).await,
        Queue::Redrive => work(&world.redrive, records, deadline).await,
        Queue::FanOut => expand(&world.expand, records, deadline).await,
        // An operator looks into it; no function reads it.
        Queue::Poison => records.iter().map(|record| record.message_id.to_string()).collect(),
    }
}

/// Runs wake at once and then at each full minute of the clock. A run that takes longer leaves out the
/// minutes that it takes: no two overlap.
pub(crate) async fn wake_each_minute(world: Arc<World>) {
    loop {
        let failed = match caught(wake(&world.wake, world.clock.after(WAKE_RUN))).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(chain(&error)),
            Err(panic) => Some(panic),
        };
        if let Some(error) = failed {
            tracing::error!(error, "wake failed; the next run makes up for it");
        }
        world.wake.meter.flush(world.clock.now());
        let next = (world.clock.now().as_minutes() + 1) * MINUTE_MS;
        world.clock.sleep_until(Timestamp::from_millis(next)).await;
    }
}
