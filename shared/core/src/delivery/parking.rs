//! Chooses where a wait is held: hidden in a retry queue, or parked in a table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    delivery::queue::{DELAY_S_MAX, POISON_RECEIVES, Queue},
    subscription::SubscriptionKey,
    time::Timestamp,
};

/// The longest a message is hidden, counted from when the function was invoked. SQS allows 12 h
/// from the receive, which a batching window and a slow start make minutes earlier. Source: SQS
/// developer guide, visibility timeout.
const HIDDEN_MAX: Duration = Duration::from_secs(12 * 60 * 60 - 10 * 60);

/// A message received this often is parked and comes back as new, before SQS takes it for poison.
pub const RECEIVES_MAX: u32 = 500;
const _: () = assert!(RECEIVES_MAX < POISON_RECEIVES);

/// The shortest wait that is parked: wake may be busy with earlier minutes.
const PARKED_MIN: Duration = Duration::from_secs(3 * 60);

/// A delivery received this long before it is due waits in the function: queues count whole
/// seconds.
pub const LAST_SECOND: Duration = Duration::from_secs(1);

/// Waits from this on are rounded up to whole seconds, which adds a tenth at most.
const ROUNDED_UP_FROM: Duration = Duration::from_secs(10);

/// Source: SQS quotas.
const IN_FLIGHT_QUOTA: u64 = 120_000;

/// With this many messages in flight, every parkable wait is parked.
pub const IN_FLIGHT_HIGH_WATER: u64 = IN_FLIGHT_QUOTA / 4 * 3;

/// The longest message that is parked whole, in bytes. The events of a longer one go to the payload
/// bucket. Few should: such a delivery is attempted, leased, limited and dead-lettered alone.
pub const BODY_BYTES_MAX: usize = 300 * 1_024;

/// Source: DynamoDB developer guide, "Quotas".
const ITEM_BYTES_MAX: usize = 400 * 1_024;
const _: () = assert!(BODY_BYTES_MAX < ITEM_BYTES_MAX);

/// The most that a parked delivery may be late, unless it can't be sent.
pub const PARKED_LATER_MAX: Duration = SPREAD_MAX;

/// How long a delivery that can't be sent is parked again, at first; doubled each time, ...
const POSTPONED_FIRST: Duration = Duration::from_secs(5 * 60);

/// ... up to this.
const POSTPONED_MAX: Duration = Duration::from_secs(60 * 60);
const _: () = assert!(POSTPONED_FIRST.as_secs() < POSTPONED_MAX.as_secs());

/// The most deliveries that come back per second, as far as [`spread`] can tell.
const COME_BACK_PER_S: u64 = 500;

/// The longest spread of the end of a wait: nothing waits much longer than an outage lasted.
pub const SPREAD_MAX: Duration = Duration::from_secs(10 * 60);

/// A parked delivery.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    pub id: Uuid,
    pub due: Timestamp,
    /// Tells it from one parked later under the same key.
    #[serde(default)]
    pub parked_at: Timestamp,
    /// The shard of its retry queue.
    pub shard: usize,
    /// Its fair-queue group.
    pub group: String,
    /// How often it could not be sent when due.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub postponed: u32,
    /// Set if it lies in the lot of a paused event subscription, not under its due minute.
    pub lot: Option<Uuid>,
    /// Set if it is not a delivery but the watch over a lot.
    pub watch: Option<Box<Watch>>,
    /// A separate attribute: inside JSON its quotes would count twice against an item's 400 KB.
    #[serde(skip)]
    pub body: String,
}

impl Parked {
    /// Creates a watch, with a new id for each change of pauses; wake meets it within two runs.
    pub fn watch(subscription: &SubscriptionKey, uid: Uuid, id: Uuid, now: Timestamp) -> Self {
        let watch = Watch { subscription: subscription.clone(), uid, over_since: None };
        Self {
            id,
            due: now + WATCHED_FROM,
            parked_at: now,
            shard: 0,
            group: subscription.to_string(),
            postponed: 0,
            lot: None,
            watch: Some(Box::new(watch)),
            // Some tables do not store an empty attribute.
            body: "-".to_owned(),
        }
    }

    /// Returns its due minute since the Unix epoch, or the minute of its [lot](lot_minute).
    pub fn due_minute(&self) -> i64 {
        self.lot.map_or_else(|| self.due.as_minutes(), lot_minute)
    }

    /// Returns its key within its minute and partition: its id, in a lot preceded by its
    /// due time, so that a lot is read in order. Copies of a delivery share the key and
    /// become one; otherwise two concurrent runs of wake would double them each time.
    pub fn place(&self) -> String {
        match self.lot {
            None => self.id.to_string(),
            Some(_) => format!("{:015}-{}", self.due.as_millis().max(0), self.id),
        }
    }

    /// Postpones a delivery that could not be sent: by 5, 10, 20, 40 minutes, then every hour.
    #[must_use]
    pub fn postponed(self, now: Timestamp) -> Self {
        let wait = POSTPONED_FIRST * (1 << self.postponed.min(4));
        let postponed = self.postponed.saturating_add(1);
        Self { due: now + wait.min(POSTPONED_MAX), parked_at: now, postponed, ..self }
    }
}

/// The bits of a uid that a lot's minute keeps: as milliseconds it must fit 64.
const LOT_BITS: u32 = 46;

/// Returns the minute under which a paused event subscription's deliveries lie: a negative one,
/// which is never due. If two event subscriptions share it, each still finds its own.
pub fn lot_minute(uid: Uuid) -> i64 {
    let bits = uid.as_u128() & ((1 << LOT_BITS) - 1);
    -1 - i64::try_from(bits).unwrap_or(0)
}

/// Returns a stand-in for the event subscription of an unreadable item in a lot: a uid whose lot
/// has that minute, so that the item is found and removed. `None` if the minute is not a lot's.
pub fn unreadable_lot(minute: i64) -> Option<Uuid> {
    let bits = u128::try_from(minute.checked_neg()?.checked_sub(1)?).ok()?;
    (bits < 1 << LOT_BITS).then_some(Uuid::from_u128(bits))
}

/// How long a lot is watched after its pause, beyond the time for which dispatch may use outdated
/// configuration. Invocations that believe in the pause end within 15 minutes.
pub const WATCHED_BESIDES: Duration = Duration::from_secs(19 * 60);

/// How far ahead the first watch is parked: wake also reads the next minute, and only once, and
/// parking it may take the 29 s that manage has.
const WATCHED_FROM: Duration = Duration::from_secs(90);

/// The watch over a paused event subscription's lot; each run of wake finds it and parks it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    pub subscription: SubscriptionKey,
    pub uid: Uuid,
    /// When wake first saw no pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_since: Option<Timestamp>,
}

/// Returns when the `count`-th delivery of a lot comes back, at the same rate as after an outage.
pub fn released_at(from: Timestamp, count: u64) -> Timestamp {
    from + Duration::from_millis(count.saturating_mul(1_000) / COME_BACK_PER_S)
}

/// The most deliveries of one lot that a run of wake sends back; it runs every minute.
pub const RELEASED_PER_RUN: u64 = COME_BACK_PER_S * 60;

/// Returns the queue of a shard, even one numbered when there were more; `None` without queues.
pub fn queue_now(shard: usize, shards: usize) -> Option<Queue> {
    shard.checked_rem(shards).map(Queue::Retry)
}

/// The place that holds a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A longer wait continues at the next receive.
    Hide {
        /// 0 to 42,600.
        seconds: u32,
    },
    Park,
}

/// Chooses whether a wait is hidden or parked.
///
/// Hidden messages count against the 120,000 that a standard queue may have in flight; at that
/// limit it returns nothing at all. So above `limit` in flight, waits longer than 15 minutes
/// are parked, and from [`IN_FLIGHT_HIGH_WATER`] on every [parkable](is_parkable) wait. A limit
/// of 0 parks every long wait. A message received [`RECEIVES_MAX`] times is always parked.
pub fn place(
    wait: Duration,
    since_received: Duration,
    receives: u32,
    in_flight: u64,
    limit: u64,
) -> Place {
    let long = wait > Duration::from_secs(u64::from(DELAY_S_MAX));
    let near = is_parkable(wait) && in_flight >= IN_FLIGHT_HIGH_WATER;
    if receives >= RECEIVES_MAX || (long && in_flight >= limit) || near {
        return Place::Park;
    }
    Place::Hide { seconds: hidden_s(wait, since_received) }
}

/// Returns whether a wait is long enough to be parked. A shorter one is always hidden.
pub fn is_parkable(wait: Duration) -> bool {
    wait > PARKED_MIN
}

/// Returns when a parked delivery comes back: [spread](spread) by a `roll` from 0 up to 1, but over
/// no longer than the wait itself, because the backlog may be another endpoint's.
pub fn parked_until(due: Timestamp, now: Timestamp, backlog: u64, roll: f64) -> Timestamp {
    let due = due.max(now + PARKED_MIN);
    due + spread(backlog).min(due.since(now)).mul_f64(roll)
}

/// Returns the time in which `backlog` deliveries come back: 500 per second, up to [`SPREAD_MAX`].
pub fn spread(backlog: u64) -> Duration {
    Duration::from_millis(backlog.saturating_mul(1_000) / COME_BACK_PER_S).min(SPREAD_MAX)
}

/// Returns how long to hide a received message: whole seconds, rounded up so that it does not come
/// back early, within 12 hours of its receive.
pub fn hidden_s(wait: Duration, since_received: Duration) -> u32 {
    let most = HIDDEN_MAX.saturating_sub(since_received);
    seconds_up(wait.min(most))
}

/// Returns how long a queue holds a wait, in whole seconds.
///
/// A short wait is rounded down to skip no step of a schedule: the function waits for the rest.
pub fn queue_wait(wait: Duration) -> Duration {
    if wait < ROUNDED_UP_FROM { Duration::from_secs(wait.as_secs()) } else { wait }
}

/// Rounds up to whole seconds.
pub fn seconds_up(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// Returns `DelaySeconds` for a wait; the rest of a longer one is hidden on arrival.
pub fn delay_s(wait: Duration) -> u32 {
    seconds_up(wait).min(DELAY_S_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn hold_table() {
        let hide = |seconds| Place::Hide { seconds };
        let table = [
            ("short waits are hidden above the limit", 900, 0, 1, 89_999, 60_000, hide(900)),
            ("near the wall they are parked", 181, 0, 1, 90_000, 60_000, Place::Park),
            ("near it by a higher limit, too", 181, 0, 1, 90_000, 120_000, Place::Park),
            ("what is too short for it is hidden", 180, 0, 1, 120_000, 60_000, hide(180)),
            ("long waits are hidden below the limit", 901, 0, 1, 59_999, 60_000, hide(901)),
            ("long waits are parked at the limit", 901, 0, 1, 60_000, 60_000, Place::Park),
            ("a limit of 0 parks every long wait", 901, 0, 1, 0, 0, Place::Park),
            ("received too often, even for a short wait", 5, 0, 500, 0, 60_000, Place::Park),
            ("received often", 5, 0, 499, 0, 60_000, hide(5)),
            ("12 h do not fit", 43_200, 0, 1, 0, 60_000, hide(42_600)),
            ("12 h count from the receipt", 43_200, 100, 1, 0, 60_000, hide(42_500)),
            ("held too long already", 60, 50_000, 1, 0, 60_000, hide(0)),
        ];
        for (row, wait_s, held_s, receives, in_flight, limit, want) in table {
            let (wait, held) = (Duration::from_secs(wait_s), Duration::from_secs(held_s));
            assert_eq!(place(wait, held, receives, in_flight, limit), want, "{row}");
        }
    }

    #[test]
    fn the_end_of_a_wait_is_spread_by_the_backlog() {
        let table = [
            (0, Duration::ZERO),
            (1, Duration::from_millis(2)),
            (499, Duration::from_millis(998)),
            (60_000, Duration::from_secs(120)),
            (299_999, Duration::from_millis(599_998)),
            (300_000, SPREAD_MAX),
            (540_000, SPREAD_MAX),
            (u64::MAX, SPREAD_MAX),
        ];
        for (backlog, want) in table {
            assert_eq!(spread(backlog), want, "{backlog}");
        }
    }

    #[test]
    fn what_cannot_be_sent_comes_back_later_each_time() {
        let now = Timestamp::from_millis(1_000);
        let mut parked = Parked {
            id: Uuid::nil(),
            due: now,
            shard: 1,
            group: "t/s".to_owned(),
            postponed: 0,
            lot: None,
            parked_at: Timestamp::default(),
            watch: None,
            body: "b".to_owned(),
        };
        for (times, minutes) in [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (6, 60)] {
            parked = parked.postponed(now);
            let wait = Duration::from_secs(minutes * 60);
            assert_eq!((parked.postponed, parked.due), (times, now + wait));
        }
        assert_eq!((parked.shard, parked.body.as_str()), (1, "b"), "the rest stays as it was");
    }

    #[test]
    fn a_lot_lies_where_no_minute_comes_and_is_found_in_the_order_of_its_ends() {
        let uid = Uuid::max();
        let held = |id: u128, due: i64| Parked {
            id: Uuid::from_u128(id),
            due: Timestamp::from_millis(due),
            lot: Some(uid),
            ..Parked::watch(&SubscriptionKey { topic: "t".into(), name: "s".into() }, uid, uid, NOW)
        };
        let (first, second) = (held(9, 1_000), held(1, 20_000));
        assert!(first.due_minute() < 0 && first.due_minute() == second.due_minute());
        assert!(first.due_minute().checked_mul(60_000).is_some(), "it is a time");
        assert_ne!(lot_minute(Uuid::from_u128(1)), lot_minute(Uuid::from_u128(2)));
        assert!(first.place() < second.place());
        for uid in [uid, Uuid::nil(), Uuid::from_u128(1), Uuid::from_u128(7 << LOT_BITS)] {
            let minute = lot_minute(uid);
            assert_eq!(unreadable_lot(minute).map(lot_minute), Some(minute), "{uid}");
        }
        assert_eq!([0, 1, i64::MIN, i64::MAX].map(unreadable_lot), [None; 4], "no lot's");
        let plain = Parked { lot: None, ..first };
        assert_eq!((plain.due_minute(), plain.place()), (0, plain.id.to_string()));
    }

    #[test]
    fn a_lot_comes_back_by_its_size() {
        let table = [(0, 0), (1, 2), (499, 998), (30_000, 60_000), (1_000_000, 2_000_000)];
        for (count, ms) in table {
            assert_eq!(released_at(NOW, count), NOW + Duration::from_millis(ms), "{count}");
        }
        assert_eq!(RELEASED_PER_RUN, 30_000);
    }

    #[test]
    fn a_shard_that_is_gone_has_another_queue() {
        let table = [
            (0, 1, Some(Queue::Retry(0))),
            (3, 4, Some(Queue::Retry(3))),
            (3, 2, Some(Queue::Retry(1))),
            (31, 1, Some(Queue::Retry(0))),
            (0, 0, None),
        ];
        for (shard, shards, want) in table {
            assert_eq!(queue_now(shard, shards), want, "{shard} of {shards}");
        }
    }

    #[test]
    fn parked_deliveries_come_back_spread_and_never_early() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let table = [
            ("in time", 1_000, 0, 0.9, 1_000),
            ("not before wake looks there", 150, 0, 0.9, 180),
            ("spread by what waits with it", 1_000, 60_000, 0.5, 1_060),
            ("the first of them in time", 1_000, 60_000, 0.0, 1_000),
            ("no longer than it waits", 200, 300_000, 1.0, 400),
            ("a longer one", 1_000, 300_000, 1.0, 1_600),
        ];
        for (row, due, backlog, roll, want) in table {
            assert_eq!(parked_until(at(due), at(0), backlog, roll), at(want), "{row}");
        }
        let later = |due| parked_until(at(due), at(0), u64::MAX, 1.0).since(at(due));
        let latest = [0, 180, 600, 10_000].map(later).into_iter().max();
        assert_eq!(latest, Some(PARKED_LATER_MAX), "the latest of all");
    }

    #[test]
    fn a_part_of_a_second_is_rounded_up() {
        assert_eq!(hidden_s(Duration::from_millis(1_001), Duration::ZERO), 2);
        assert_eq!(delay_s(Duration::from_secs(1_000)), 900);
    }

    #[test]
    fn only_short_waits_are_rounded_down() {
        for (wait_ms, seconds) in [(0, 0), (999, 0), (1_040, 1), (9_999, 9), (10_001, 11)] {
            let held = queue_wait(Duration::from_millis(wait_ms));
            assert_eq!(delay_s(held), seconds, "{wait_ms} ms");
        }
    }
}
