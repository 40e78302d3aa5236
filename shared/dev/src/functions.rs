//! Invokes the functions' handlers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use gridpost_core::{delivery::queue::Queue, error::chain, time::Timestamp};
use gridpost_dead_letter_handler::{gather, redrive};
use gridpost_dispatch_handler::{handler::handle, record::Record};
use gridpost_embedded::Received;
use gridpost_ingest_handler::expand;
use gridpost_ports::{Clock, Meter};
use gridpost_wake_handler::wake;
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
    let deadline = now + world.clock.speed().by_the_clock(mapping.timeout);
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
        Queue::FanOut => &world.ingest.meter,
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
    match queue {
        Queue::Dispatch | Queue::Retry(_) => {
            let records = batch.into_iter().map(|message| Record {
                message_id: message.message_id.into(),
                receipt: message.receipt.into(),
                body: message.body,
                receive_count: message.receives,
                queue,
                received_at,
            });
            handle(&world.dispatch, records.collect(), deadline).await
        }
        Queue::DeadLetter => gather::gather(&world.dead_letter, ended(batch)).await,
        Queue::Redrive => redrive::work(&world.redrive, ended(batch), deadline).await,
        Queue::FanOut => {
            let records = batch.into_iter().map(|message| expand::Record {
                message_id: message.message_id,
                body: message.body,
            });
            expand::expand(&world.ingest, records.collect(), deadline).await
        }
        // An operator looks into it; no function reads it.
        Queue::Poison => batch.into_iter().map(|message| message.message_id).collect(),
    }
}

fn ended(batch: Vec<Received>) -> Vec<gather::Record> {
    let record = |message: Received| gather::Record {
        message_id: message.message_id,
        receipt: message.receipt,
        body: message.body,
        receive_count: message.receives,
    };
    batch.into_iter().map(record).collect()
}

/// Runs wake at once and then at each full minute of the clock. A run that takes longer leaves out the
/// minutes that it takes: no two overlap.
pub(crate) async fn wake_each_minute(world: Arc<World>) {
    loop {
        let now = world.clock.now();
        let until = now + world.clock.speed().by_the_clock(WAKE_RUN);
        let failed = match caught(wake(&world.wake, until)).await {
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
