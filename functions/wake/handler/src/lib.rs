//! wake: sends parked deliveries that are due soon back to their retry queue, once a minute.
//!
//! It holds a page of them at a time for a few partitions, and stops in time: what is left is the
//! next run's. What can't be sent is parked anew, so that no minute waits for it for ever.

mod page;
mod strands;

use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use gridpost_core::{error::chain, time::Timestamp};
use gridpost_ports::{
    Clock, DueDeliveries, Meter, ParkingLot, Payloads, PortError, QueueSender, WakeCursor,
};
use serde::Serialize;

use self::{
    page::Page,
    strands::{Strand, Strands},
};

/// What wake needs of the world.
pub struct Context {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Puts messages into the retry queues.
    pub sender: Arc<dyn QueueSender>,
    /// Where deliveries are parked.
    pub parking: Arc<dyn ParkingLot>,
    /// Those that are due.
    pub due: Arc<dyn DueDeliveries>,
    /// How far wake has come.
    pub cursor: Arc<dyn WakeCursor>,
    /// Where the events of messages go that no longer fit a queue.
    pub payloads: Arc<dyn Payloads>,
    /// Counts what could not be sent.
    pub meter: Arc<dyn Meter>,
    /// What an operator sets.
    pub settings: Settings,
}

/// What an operator sets.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many retry queues there are now.
    pub retry_shards: usize,
    /// The most bytes of a message that the queues take now.
    pub queue_message_bytes_max: usize,
}

/// What a run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Woken {
    /// Deliveries that were sent to their retry queues.
    pub sent: usize,
    /// Deliveries that could not be sent and were parked anew.
    pub postponed: usize,
}

/// Where wake begins when it has never run: deliveries parked longer ago than this do not exist
/// then.
const FIRST_LOOK_BACK_MINUTES: i64 = 60;

/// Pages in hand at the same time, of at most 1 MB each: with the copies that the SDK makes of one,
/// the function's 256 MB hold three times as many.
const PAGES_AT_ONCE: usize = 8;

/// How often a run reads a partition of a minute that can't be read. One that stays unread holds up
/// how far wake has come, and with many minutes to make up for there is always one.
const READS_MAX: u32 = 3;

/// Sends every parked delivery that is due by the end of the next minute back to its retry queue,
/// with the rest of its wait as delay, and then removes it. A crash between the two sends it again:
/// a duplicate, never a loss. Minutes that an earlier run did not finish, or that no run has seen,
/// are made up for, the oldest first, and each gets a page in turn. From `until` on nothing new is
/// begun; what is under way then takes as long as one page's calls.
///
/// # Errors
///
/// Parked deliveries, or how far wake has come, could not be read or written. What could be read
/// was sent, and the next run begins where this one failed.
pub async fn wake(context: &Context, until: Timestamp) -> Result<Woken, PortError> {
    let this_minute = context.clock.now().as_minutes();
    let noted = context.cursor.load().await?;
    let from = noted.unwrap_or(this_minute - FIRST_LOOK_BACK_MINUTES);
    let mut run = Run { noted: from, woken: Woken::default(), failed: None };
    let mut strands = Strands::new(from, this_minute + 1);
    let mut pages = FuturesUnordered::new();
    loop {
        while pages.len() < PAGES_AT_ONCE && context.clock.now() < until {
            let Some(strand) = strands.next() else { break };
            let is_past = strand.minute < this_minute;
            pages.push(page::send(context, strand, is_past, until));
        }
        let Some(page) = pages.next().await else { break };
        run.count(&mut strands, page);
        let come = strands.first_unfinished().min(this_minute);
        if come > run.noted {
            // A run that dies later does not begin here again. In a quiet minute it is not written:
            // there is one minute to finish, and its end is noted below.
            context.cursor.save(come).await?;
            run.noted = come;
        }
    }
    let come = strands.first_unfinished().min(this_minute + 1);
    if come <= this_minute {
        tracing::warn!(minutes = this_minute + 1 - come, "parked deliveries are left; next minute");
    }
    context.cursor.save(come).await?;
    run.failed.map_or(Ok(run.woken), Err)
}

/// What a run knows of itself.
struct Run {
    noted: i64,
    woken: Woken,
    failed: Option<PortError>,
}

impl Run {
    fn count(&mut self, strands: &mut Strands, page: Page) {
        self.woken.sent += page.done.sent;
        self.woken.postponed += page.done.postponed;
        if page.is_unread && page.strand.reads + 1 < READS_MAX {
            strands.put_back(Strand { reads: page.strand.reads + 1, ..page.strand });
        } else if let Some(error) = page.failed {
            tracing::warn!(
                minute = page.strand.minute,
                partition = page.strand.partition,
                error = %chain(&error),
                "parked deliveries stay parked; next minute",
            );
            self.failed.get_or_insert(error);
        } else if let Some(strand) = page.rest {
            strands.put_back(strand);
        } else if page.is_whole {
            strands.finish(page.strand.minute);
        }
    }
}

#[cfg(test)]
mod tests;
