//! Lots: the held deliveries of paused event subscriptions, and the watches that find them.
//!
//! A watch is parked like a delivery, and each run that finds it parks it two minutes ahead: runs
//! without a pause search nothing. It outlasts the pause for a while, because a copy of dispatch
//! with old configuration may still hold deliveries.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use gridpost_core::{
    delivery::parking::{self, Parked, RELEASED_PER_RUN, WATCHED_BESIDES, Watch},
    error::chain,
    metric,
    time::Timestamp,
};
use gridpost_ports::{PARKED_PARTITIONS, PortError, Result};
use uuid::Uuid;

use crate::{
    Context,
    send::{SendResult, SendTimes, fit_all, send_all},
};

/// How long before its due time a delivery leaves its lot.
const AHEAD: Duration = Duration::from_secs(60);

/// The shortest delay of a sent delivery, which must be removed from its lot before: afterwards
/// dispatch may hold it again under the same key, and that must stay.
pub(crate) const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// How long a page may begin calls that send: it needs time to remove what was sent.
const SENT_WITHIN: Duration = Duration::from_secs(3);

const ANSWERED_WITHIN: Duration = Duration::from_secs(6);

/// How long after its timeout a removal may still take effect.
const GIVEN_UP_FOR: Duration = Duration::from_secs(1);

/// A lot whose watch was found, what may leave it now, and this run's progress.
pub(crate) struct Lot {
    pub(crate) uid: Uuid,
    /// The watch as it is parked now.
    watch: Parked,
    /// When the first delivery may be attempted. `None` during the pause, when only expired ones
    /// leave.
    from: Option<Timestamp>,
    /// When the pause in force ends by itself: deliveries due then leave with `from`.
    paused_until: Option<Timestamp>,
    /// Whether no delivery can be added any more.
    is_closed: bool,
    /// The partitions still to read, each with the last item read.
    cursors: VecDeque<(u32, Option<String>)>,
    pub(crate) sent: u64,
    /// Whether the partitions read so far are empty now.
    is_empty: bool,
    failed: Option<PortError>,
}

/// The watches that this run has parked for the next one.
#[derive(Default)]
pub(crate) struct ParkedWatches {
    watches: BTreeSet<Uuid>,
    /// Event subscriptions that are paused and have a watch.
    paused: BTreeSet<Uuid>,
}

impl ParkedWatches {
    /// Whether another watch makes this one redundant.
    fn has(&self, watch: Uuid, of: Uuid) -> bool {
        self.watches.contains(&watch) || self.paused.contains(&of)
    }
}

/// Reads whether the pause still holds, and parks the watch for the next run. A crash or a failure
/// in between leaves two copies. Only one copy is parked: all have the same key, whose partition may
/// not take so many writes, and copies would multiply from run to run.
/// During a pause, one watch serves all changes of pauses.
/// After an error, the watch is where it was. Its lot may be emptied all the same.
pub(crate) async fn follow_watch(
    context: &Context,
    kept: &Mutex<ParkedWatches>,
    parked: Parked,
    this_minute: i64,
) -> (Option<Lot>, Result<()>) {
    let Some(watch) = parked.watch.clone() else {
        let error = PortError::new("reading a lot's watch", "it watches nothing");
        return (None, Err(error));
    };
    // No run reads so far ahead: this one does not find it again.
    let due = Timestamp::from_millis((this_minute + 2) * 60_000);
    let uid = watch.uid;
    let all_kept = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    let is_kept = all_kept().has(parked.id, uid);
    let mut lot = None;
    if !is_kept {
        match park_watch(context, watch, Parked { due, ..parked.clone() }).await {
            Ok(found) => lot = Some(found),
            Err(error) => return (None, Err(error)),
        }
        // Only after parking: an earlier run may still be removing the copy that it parked here.
        all_kept().watches.insert(parked.id);
        if lot.as_ref().is_some_and(|lot| lot.paused_until.is_some()) {
            all_kept().paused.insert(uid);
        }
    }
    let is_moved = parked.due_minute() != due.as_minutes();
    (lot, if is_moved { context.parking.remove(&parked).await } else { Ok(()) })
}

async fn park_watch(context: &Context, mut watch: Box<Watch>, next: Parked) -> Result<Lot> {
    let now = context.clock.now();
    let uid = watch.uid;
    let read = context.configuration.subscription(&watch.subscription).await;
    let is_known = read.is_ok();
    let stored = read.unwrap_or_else(|error| {
        // Continue as if the pause lasted: other deliveries of this page do not wait for it.
        let (subscription, error) = (&watch.subscription, chain(&error));
        tracing::warn!(%subscription, %error, "not known whether it is paused");
        None
    });
    // A new event subscription of the same name has another lot.
    let stored = stored.filter(|stored| stored.uid == uid);
    let pause = stored.as_ref().and_then(|stored| stored.pauses.current(now));
    let (is_paused, paused_until) = (!is_known || pause.is_some(), pause.map(|pause| pause.until));
    if is_known {
        watch.over_since = if is_paused { None } else { watch.over_since.or(Some(now)) };
    }
    let pace = context.clock.pace();
    let watched_for = pace.to_clock(context.settings.configuration_stale_for + WATCHED_BESIDES);
    let is_over = |since: Timestamp| now.since(since) >= watched_for;
    let is_closed = is_known && watch.over_since.is_some_and(is_over);
    // Copies of dispatch with old configuration would hold earlier deliveries again.
    let (ended_at, soonest) = (
        stored.and_then(|stored| stored.pauses.ended_at(now)),
        now + pace.to_clock(REMOVED_WITHIN),
    );
    let kept_for = context.settings.configuration_kept_for;
    let heard_at = ended_at.map_or(soonest, |at| soonest.max(at + pace.to_clock(kept_for)));
    let from = (!is_paused).then_some(heard_at);
    let next = Parked { parked_at: now, watch: Some(watch), ..next };
    context.parking.park(&next).await?;
    let cursors = (0..PARKED_PARTITIONS).map(|partition| (partition, None)).collect();
    let (sent, is_empty, failed) = (0, true, None);
    Ok(Lot { uid, watch: next, from, paused_until, is_closed, cursors, sent, is_empty, failed })
}

/// Sends a page of a lot back to its retry queue, in order of due times, with limits per second and
/// per run. Returns the lot, and whether it has another page: other lots have their turn first, so
/// that a large one holds up none.
/// After an error, the next run sends again what was sent but not removed. The other partitions were
/// emptied.
pub(crate) async fn take_turn(
    context: &Context,
    mut lot: Lot,
    until: Timestamp,
) -> Result<(Lot, bool)> {
    // There is no limit for what ends during a pause.
    let is_enough = lot.from.is_some() && lot.sent >= RELEASED_PER_RUN;
    if is_enough || context.clock.now() >= until {
        lot.is_empty &= lot.cursors.is_empty();
        lot.cursors.clear();
    }
    if let Some((partition, after)) = lot.cursors.pop_front()
        && let Err(error) = send_page(context, &mut lot, (partition, after), until).await
    {
        lot.is_empty = false;
        lot.failed.get_or_insert(error);
    }
    if !lot.cursors.is_empty() {
        return Ok((lot, true));
    }
    close(context, &lot).await?;
    lot.failed.take().map_or(Ok((lot, false)), Err)
}

/// Ends a run's work on a lot. Removes its watch once it is empty and closed.
async fn close(context: &Context, lot: &Lot) -> Result<()> {
    if lot.sent > 0 {
        let (subscription, sent) = (&lot.watch.group, lot.sent);
        tracing::info!(subscription, sent, "held deliveries were sent back");
    }
    if lot.is_empty && lot.is_closed {
        context.parking.remove(&lot.watch).await?;
    }
    Ok(())
}

async fn send_page(
    context: &Context,
    lot: &mut Lot,
    (partition, after): (u32, Option<String>),
    until: Timestamp,
) -> Result<()> {
    let minute = parking::lot_minute(lot.uid);
    let soon = context.clock.now() + AHEAD;
    if lot.from.is_none() {
        // During a pause a delivery rarely leaves: one small read says whether one does.
        let first = context.due.first_due_in(minute, partition).await?;
        if first.is_none_or(|due| due > soon) {
            lot.is_empty &= first.is_none();
            return Ok(());
        }
    }
    let page = context.due.due_in(minute, partition, after).await?;
    let unreadable = parking::unreadable_lot(minute);
    let is_ours = |held: &Parked| held.lot == Some(lot.uid) || held.lot == unreadable;
    let ours = page.due.into_iter().filter(is_ours);
    let is_over = |due| due <= soon && lot.paused_until.is_none_or(|until| due < until);
    let (leaving, staying): (Vec<_>, Vec<_>) =
        ours.partition(|held| lot.from.is_some() || is_over(held.due));
    lot.is_empty &= staying.is_empty();
    let (gone, is_whole) = release(context, lot, leaving, lot.sent, until).await?;
    lot.sent += gone;
    lot.is_empty &= is_whole;
    // During a pause, no delivery after the first one that stays may leave.
    if let Some(next) = page.next.filter(|_| staying.is_empty()) {
        lot.cursors.push_back((partition, Some(next)));
    }
    Ok(())
}

/// Sends deliveries of a lot, spread behind the `before` that this run has sent. Returns how many
/// were sent and whether none is left.
async fn release(
    context: &Context,
    lot: &Lot,
    leaving: Vec<Parked>,
    before: u64,
    until: Timestamp,
) -> Result<(u64, bool)> {
    // The due time by which each is stored, for its removal: the sent message has another one. A
    // delivery may be stored twice, held by two pauses.
    let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let (fitted, refused) = fit_all(context, leaving, until).await;
    let now = context.clock.now();
    let pace = context.clock.pace();
    let soonest = now + pace.to_clock(REMOVED_WITHIN);
    let spread = fitted.into_iter().zip(before..).map(|((queue, held), count)| {
        places.entry((held.id, held.parked_at)).or_default().push(held.due);
        // If the pause is unknown, all deliveries that wait for its end may have one due time.
        let due = parking::released_at(lot.from.unwrap_or(held.due).max(soonest), count);
        (queue, Parked { due, ..held })
    });
    let spread: Vec<_> = spread.collect();
    let times = SendTimes {
        begin_until: until.min(now + pace.to_clock(SENT_WITHIN)),
        answered_until: Some(now + pace.to_clock(ANSWERED_WITHIN)),
    };
    let (mut sent, mut is_whole) = (Vec::with_capacity(spread.len()), true);
    for result in send_all(context, spread, times).await.into_iter().chain(refused) {
        match result {
            SendResult::Sent(held) => {
                let due = places
                    .get_mut(&(held.id, held.parked_at))
                    .and_then(Vec::pop)
                    .unwrap_or(held.due);
                sent.push(Parked { due, ..held });
            }
            SendResult::Kept(held, reason) => {
                is_whole = false;
                if let Some(reason) = reason {
                    tracing::warn!(delivery.id = %held.id, reason, "a held delivery was not sent");
                }
            }
            SendResult::Stuck(held, reason) => {
                is_whole = false;
                context.meter.count(metric::STUCK_PARKED_COUNT, &[], 1);
                tracing::error!(
                    delivery.id = %held.id,
                    subscription = held.group,
                    reason,
                    "failed to send a held delivery back; it stays in its lot",
                );
            }
        }
    }
    if !sent.is_empty() {
        remove_before(context, &sent, soonest).await?;
    }
    Ok((sent.len() as u64, is_whole))
}

/// Removes what was sent, before it is received at `soonest`. What can't be removed in time stays,
/// and the next run sends it again: a duplicate.
async fn remove_before(context: &Context, sent: &[Parked], soonest: Timestamp) -> Result<()> {
    let late = || PortError::new("removing held deliveries", "too slow: they are sent once more");
    let left = context.clock.left(soonest).saturating_sub(GIVEN_UP_FOR);
    if left.is_zero() {
        return Err(late());
    }
    let removed = tokio::time::timeout(left, context.due.remove_all(sent)).await;
    removed.unwrap_or_else(|_| Err(late()))
}
