//! Sends one page of parked deliveries, removes them, and parks again what can't be sent.

use std::sync::Mutex;

use gridpost_core::{delivery::parking::Parked, metric, time::Timestamp};
use gridpost_ports::{PortError, Result};

use crate::{
    Context, Woken,
    cursors::PartitionCursor,
    lot::{self, Lot, ParkedWatches},
    send::{SendResult, SendTimes, fit_all, send_all},
};

pub(crate) struct Page {
    pub(crate) cursor: PartitionCursor,
    pub(crate) done: Woken,
    /// The cursor of the next page, if there is one.
    pub(crate) rest: Option<PartitionCursor>,
    /// Whether the last page leaves nothing of the cursor.
    pub(crate) is_whole: bool,
    pub(crate) failed: Option<PortError>,
    /// Whether it failed before anything was sent: reading it again makes no duplicates.
    pub(crate) is_unread: bool,
    pub(crate) lots: Vec<Lot>,
}

/// Sends the next page of a cursor. A refused delivery stays parked; once its minute `is_past`, it
/// is parked again, so that the next minutes do not wait for it.
pub(crate) async fn send(
    context: &Context,
    kept: &Mutex<ParkedWatches>,
    cursor: PartitionCursor,
    (is_past, this_minute): (bool, i64),
    until: Timestamp,
) -> Page {
    let read = context.due.due_in(cursor.minute, cursor.partition, cursor.after.clone()).await;
    let page = match read {
        Ok(page) => page,
        Err(error) => {
            return Page { is_unread: true, ..Page::failed(cursor, Woken::default(), error) };
        }
    };
    let (watches, due): (Vec<_>, Vec<_>) =
        page.due.into_iter().partition(|parked| parked.watch.is_some());
    let mut lots = Vec::new();
    for watch in watches {
        let (lot, moved) = lot::follow_watch(context, kept, watch, this_minute).await;
        lots.extend(lot);
        if let Err(error) = moved {
            // The watch is where it was, and the next run finds it.
            return Page { lots, ..Page::failed(cursor, Woken::default(), error) };
        }
    }
    let (mut sent, mut postponed, mut is_whole) = (Vec::new(), Vec::new(), cursor.is_whole);
    let (fitted, refused) = fit_all(context, due, until).await;
    let times = SendTimes { begin_until: until, answered_until: None };
    for result in send_all(context, fitted, times).await.into_iter().chain(refused) {
        match result {
            SendResult::Sent(parked) => sent.push(parked),
            SendResult::Stuck(parked, reason) => postponed.push((parked, reason)),
            SendResult::Kept(parked, Some(reason)) if is_past => postponed.push((parked, reason)),
            SendResult::Kept(..) => is_whole = false,
        }
    }
    let mut done = Woken { sent: sent.len(), postponed: 0 };
    let removed = if sent.is_empty() { Ok(()) } else { context.due.remove_all(&sent).await };
    if let Err(error) = removed {
        // The next run sends them again. Another page would only add more duplicates.
        return Page { lots, ..Page::failed(cursor, done, error) };
    }
    for (parked, reason) in postponed {
        if let Err(error) = postpone(context, parked, &reason).await {
            return Page { lots, ..Page::failed(cursor, done, error) };
        }
        done.postponed += 1;
    }
    let goes_on =
        |after| PartitionCursor { after: Some(after), is_whole, reads: 0, ..cursor.clone() };
    let rest = page.next.map(goes_on);
    Page { cursor, done, rest, is_whole, failed: None, is_unread: false, lots }
}

impl Page {
    fn failed(cursor: PartitionCursor, done: Woken, error: PortError) -> Self {
        let failed = Some(error);
        let (rest, lots) = (None, Vec::new());
        Self { cursor, done, rest, is_whole: false, failed, is_unread: false, lots }
    }
}

/// Parks an unsendable delivery again. A crash in between leaves it twice: a duplicate.
async fn postpone(context: &Context, parked: Parked, reason: &str) -> Result<()> {
    let later = parked.clone().postponed(context.clock.now());
    context.parking.park(&later).await?;
    context.parking.remove(&parked).await?;
    context.meter.count(metric::STUCK_PARKED_COUNT, &[], 1);
    tracing::error!(
        delivery.id = %later.id,
        subscription = later.group,
        times = later.postponed,
        next = %later.due.to_iso_8601(),
        reason,
        "failed to send a parked delivery back; it is parked again",
    );
    Ok(())
}
