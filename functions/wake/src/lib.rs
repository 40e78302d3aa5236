//! wake: sends parked deliveries that are due soon back to their retry queue, once a minute.
//!
//! It keeps one page of a few partitions in memory, and stops in time: the next run does the rest.
//! It parks what can't be sent again, so that no minute waits for it forever.

mod cursors;
mod lot;
mod page;
mod send;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{
    select_biased,
    stream::{FuturesUnordered, StreamExt},
};
use gridpost_core::{error::chain, time::Timestamp};
use gridpost_ports::{
    Clock, Configuration, DueDeliveries, Meter, ParkingLot, Payloads, PortError, QueueSender,
    Result, WakeCursor,
};
use serde::Serialize;
use uuid::Uuid;

use self::{
    cursors::{PartitionCursor, PartitionCursors},
    lot::{Lot, ParkedWatches},
    page::Page,
};

/// The ports of wake.
pub struct Context {
    pub clock: Arc<dyn Clock>,
    pub sender: Arc<dyn QueueSender>,
    pub parking: Arc<dyn ParkingLot>,
    pub due: Arc<dyn DueDeliveries>,
    pub cursor: Arc<dyn WakeCursor>,
    /// Read for paused event subscriptions only.
    pub configuration: Arc<dyn Configuration>,
    /// Stores the events of messages that no longer fit a queue.
    pub payloads: Arc<dyn Payloads>,
    pub meter: Arc<dyn Meter>,
    pub settings: Settings,
}

/// The deployment's settings.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub retry_shards: usize,
    pub queue_message_bytes_max: usize,
    /// How long dispatch may use cached configuration.
    pub configuration_kept_for: Duration,
    /// How long dispatch may use it if the table can't be read.
    pub configuration_stale_for: Duration,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Woken {
    /// Deliveries that were sent to their retry queues.
    pub sent: usize,
    /// Deliveries that could not be sent and were parked again.
    pub postponed: usize,
}

/// How far back the first run looks: nothing was parked before.
const FIRST_LOOK_BACK_MINUTES: i64 = 60;

/// Pages in memory at the same time, of at most 1 MB each. With the SDK's copies, the function's
/// 256 MB hold three times as many.
const PAGES_AT_ONCE: usize = 8;

/// Lots drained concurrently; one page of each is in memory.
const LOTS_AT_ONCE: usize = 4;

/// How often a run tries to read a partition of a minute. An unread one holds back the cursor, and
/// with many minutes to catch up on, some read always fails.
const READS_MAX: u32 = 3;

/// Sends every parked delivery that is due by the end of the next minute back to its retry queue,
/// with the rest of its wait as delay, and then removes it. A crash in between sends it again: a
/// duplicate, never a loss. It catches up on unfinished and missed minutes, the oldest first, one
/// page each in turn. After `until` it begins no page.
///
/// When it finds a watch of a paused event subscription whose pause is over, it empties the lot
/// concurrently with the following pages.
/// After an error, what could be read was sent, and the next run begins where this one failed.
pub async fn wake(context: &Context, until: Timestamp) -> Result<Woken> {
    let this_minute = context.clock.now().as_minutes();
    let noted = context.cursor.load().await?;
    let from = noted.unwrap_or(this_minute - FIRST_LOOK_BACK_MINUTES);
    let mut run = Run {
        noted: from,
        woken: Woken::default(),
        failed: None,
        watched: BTreeSet::new(),
        lots: VecDeque::new(),
    };
    let kept = Mutex::new(ParkedWatches::default());
    let mut cursors = PartitionCursors::new(from, this_minute + 1);
    let (mut pages, mut lots) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        while pages.len() < PAGES_AT_ONCE && context.clock.now() < until {
            let Some(cursor) = cursors.next() else { break };
            let is_past = cursor.minute < this_minute;
            pages.push(page::send(context, &kept, cursor, (is_past, this_minute), until));
        }
        while lots.len() < LOTS_AT_ONCE {
            let Some(lot) = run.lots.pop_front() else { break };
            lots.push(lot::take_turn(context, lot, until));
        }
        if pages.is_empty() && lots.is_empty() {
            break;
        }
        select_biased! {
            page = pages.select_next_some() => run.count(&mut cursors, page),
            turn = lots.select_next_some() => run.count_lot(turn),
        }
        let come = cursors.first_unfinished().min(this_minute);
        if come > run.noted {
            // If this run dies, the next one begins here. In a quiet minute only the write below is
            // made. A failure does not end the run: what was sent must still be removed.
            run.noted = come;
            if let Err(error) = context.cursor.save(come).await {
                tracing::warn!(error = %chain(&error), "how far this run has come was not noted");
                run.failed.get_or_insert(error);
                // Retries would hold up the pages; the last write follows anyway.
                run.noted = this_minute;
            }
        }
    }
    let come = cursors.first_unfinished().min(this_minute + 1);
    if come <= this_minute {
        tracing::warn!(
            minutes = this_minute + 1 - come,
            "parked deliveries are left for the next run"
        );
    }
    context.cursor.save(come).await?;
    run.failed.map_or(Ok(run.woken), Err)
}

struct Run {
    noted: i64,
    woken: Woken,
    failed: Option<PortError>,
    /// The event subscriptions whose watches were found: each change of a pause has one.
    watched: BTreeSet<Uuid>,
    /// Their lots that are not empty yet.
    lots: VecDeque<Lot>,
}

impl Run {
    fn count_lot(&mut self, turn: Result<(Lot, bool)>) {
        match turn {
            Ok((lot, true)) => self.lots.push_back(lot),
            Ok((lot, false)) => self.woken.sent += usize::try_from(lot.sent).unwrap_or(usize::MAX),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "a lot is left for the next run");
                self.failed.get_or_insert(error);
            }
        }
    }

    fn count(&mut self, cursors: &mut PartitionCursors, page: Page) {
        let watched = &mut self.watched;
        self.lots.extend(page.lots.into_iter().filter(|lot| watched.insert(lot.uid)));
        self.woken.sent += page.done.sent;
        self.woken.postponed += page.done.postponed;
        if page.is_unread && page.cursor.reads + 1 < READS_MAX {
            cursors.put_back(PartitionCursor { reads: page.cursor.reads + 1, ..page.cursor });
        } else if let Some(error) = page.failed {
            tracing::warn!(
                minute = page.cursor.minute,
                partition = page.cursor.partition,
                error = %chain(&error),
                "failed to finish a page of parked deliveries; the next run takes it up again",
            );
            self.failed.get_or_insert(error);
        } else if let Some(cursor) = page.rest {
            cursors.put_back(cursor);
        } else if page.is_whole {
            cursors.finish(page.cursor.minute);
        }
    }
}

#[cfg(test)]
mod tests;
