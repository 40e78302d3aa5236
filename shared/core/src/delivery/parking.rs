//! Where a wait is held: hidden in a retry queue, or parked in a table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{delivery::queue::DELAY_S_MAX, time::Timestamp};

/// The longest an SQS message may be hidden, counted from when it was received (12 h), less 30 s for
/// the clocks of both sides. Source: SQS developer guide, visibility timeout.
const HIDDEN_MAX: Duration = Duration::from_secs(12 * 60 * 60 - 30);

/// A message that was received so often is parked, whatever its wait, and comes back as a new one:
/// at 1,000 receives SQS would take it for one that our code can't settle.
pub const RECEIVES_MAX: u32 = 500;

/// The shortest time that anything is parked for: wake may be busy with the minutes before.
const PARKED_MIN: Duration = Duration::from_secs(3 * 60);

/// What may be left of a wait when its delivery is received: the smallest wait that queues know.
pub const LAST_SECOND: Duration = Duration::from_secs(1);

/// Waits from this on are rounded up to whole seconds, which adds a tenth at most.
const ROUNDED_UP_FROM: Duration = Duration::from_secs(10);

/// Three quarters of the 120,000 messages that a standard queue may have in flight. Source: SQS
/// quotas.
pub const IN_FLIGHT_HIGH_WATER: u64 = 90_000;

/// The longest message that is parked as it is, in bytes: an item of DynamoDB has at most 400 KB.
/// The events of a longer one go to the payload bucket.
pub const BODY_BYTES_MAX: usize = 300 * 1_024;

/// Deliveries of one event subscription that come back in a second at most when their wait ends,
/// as far as [`spread`] can tell.
const COME_BACK_PER_S: u64 = 500;

/// The longest that the end of a wait is spread over: after an outage nothing waits much longer
/// than the outage lasted.
pub const SPREAD_MAX: Duration = Duration::from_secs(10 * 60);

/// A parked delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    /// The delivery's id.
    pub id: Uuid,
    /// When it is due.
    pub due: Timestamp,
    /// The retry queue it goes back to.
    pub shard: usize,
    /// The fair-queue group it goes back with.
    pub group: String,
    /// Its message. Stored beside the rest: inside JSON its quotes would count twice against the
    /// 400 KB of a DynamoDB item.
    #[serde(skip)]
    pub body: String,
}

impl Parked {
    /// The minute it is due in, since the Unix epoch.
    pub fn due_minute(&self) -> i64 {
        self.due.as_minutes()
    }
}

/// How a wait is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Hidden in the queue for so many seconds; a longer wait goes on at the next wake.
    Hide {
        /// 0 to 43,170.
        seconds: u32,
    },
    /// Parked in the table until due.
    Park,
}

/// Whether a wait is hidden or parked.
///
/// Hidden messages count against the 120,000 that a standard queue may have in flight; at that wall
/// the queue answers nothing at all. So above `limit` in flight, waits longer than 15 minutes are
/// parked, and from [`IN_FLIGHT_HIGH_WATER`] on whatever is [worth asking for](is_parkable). A limit of 0
/// parks every long wait. What was received [`RECEIVES_MAX`] times is always parked.
pub fn hold(
    wait: Duration,
    since_received: Duration,
    receives: u32,
    in_flight: u64,
    limit: u64,
) -> Hold {
    let long = wait > Duration::from_secs(u64::from(DELAY_S_MAX));
    let near = is_parkable(wait) && in_flight >= IN_FLIGHT_HIGH_WATER;
    if receives >= RECEIVES_MAX || (long && in_flight >= limit) || near {
        return Hold::Park;
    }
    Hold::Hide { seconds: hidden_s(wait, since_received) }
}

/// Whether a wait is ever parked for being long: for the others nobody needs to know how many
/// messages are in flight.
pub fn is_parkable(wait: Duration) -> bool {
    wait > PARKED_MIN
}

/// When a parked delivery comes back that is due then.
pub fn parked_until(due: Timestamp, now: Timestamp) -> Timestamp {
    due.max(now + PARKED_MIN)
}

/// Over how long the end of a wait is spread that so many deliveries wait for: 500 come back in a
/// second, and the last one within [`SPREAD_MAX`]. Each delivery waits for a random part of it more.
pub fn spread(backlog: u64) -> Duration {
    Duration::from_millis(backlog.saturating_mul(1_000) / COME_BACK_PER_S).min(SPREAD_MAX)
}

/// How long a received message can be hidden for a wait: whole seconds, rounded up so that it does
/// not come back early, within the 12 hours that count from its receipt.
pub fn hidden_s(wait: Duration, since_received: Duration) -> u32 {
    let most = HIDDEN_MAX.saturating_sub(since_received);
    seconds_up(wait.min(most))
}

/// How long a queue holds a wait for the next attempt, which queues do in whole seconds.
///
/// A short wait is rounded down, and the rest of its last second passes in the function: rounded up
/// it would pass over steps of a close schedule. A long one is rounded up, for that costs nothing.
pub fn held(wait: Duration) -> Duration {
    if wait < ROUNDED_UP_FROM { Duration::from_secs(wait.as_secs()) } else { wait }
}

/// Whole seconds, rounded up.
pub fn seconds_up(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// `DelaySeconds` for a wait: the rest of a longer one is hidden on arrival.
pub fn delay_s(wait: Duration) -> u32 {
    seconds_up(wait).min(DELAY_S_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_table() {
        let hide = |seconds| Hold::Hide { seconds };
        let table = [
            ("short waits are hidden above the limit", 900, 0, 1, 89_999, 60_000, hide(900)),
            ("near the wall they are parked", 181, 0, 1, 90_000, 60_000, Hold::Park),
            ("near it by a higher limit, too", 181, 0, 1, 90_000, 120_000, Hold::Park),
            ("what is too short for it is hidden", 180, 0, 1, 120_000, 60_000, hide(180)),
            ("long waits are hidden below the limit", 901, 0, 1, 59_999, 60_000, hide(901)),
            ("long waits are parked at the limit", 901, 0, 1, 60_000, 60_000, Hold::Park),
            ("a limit of 0 parks every long wait", 901, 0, 1, 0, 0, Hold::Park),
            ("received too often, even for a short wait", 5, 0, 500, 0, 60_000, Hold::Park),
            ("received often", 5, 0, 499, 0, 60_000, hide(5)),
            ("12 h do not fit", 43_200, 0, 1, 0, 60_000, hide(43_170)),
            ("12 h count from the receipt", 43_200, 100, 1, 0, 60_000, hide(43_070)),
            ("held too long already", 60, 50_000, 1, 0, 60_000, hide(0)),
        ];
        for (row, wait_s, held_s, receives, in_flight, limit, want) in table {
            let (wait, held) = (Duration::from_secs(wait_s), Duration::from_secs(held_s));
            assert_eq!(hold(wait, held, receives, in_flight, limit), want, "{row}");
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
    fn a_part_of_a_second_is_rounded_up() {
        assert_eq!(hidden_s(Duration::from_millis(1_001), Duration::ZERO), 2);
        assert_eq!(delay_s(Duration::from_secs(1_000)), 900);
    }

    #[test]
    fn only_short_waits_are_rounded_down() {
        for (wait_ms, seconds) in [(0, 0), (999, 0), (1_040, 1), (9_999, 9), (10_001, 11)] {
            let held = held(Duration::from_millis(wait_ms));
            assert_eq!(delay_s(held), seconds, "{wait_ms} ms");
        }
    }
}
