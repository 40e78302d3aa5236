//! The settings of a deployment by default, from `infra/variables.tf`.

use std::time::Duration;

use crate::lambda::{Hop, Reading, Readings};

/// Most invocations of dispatch for first attempts (`first_attempt_concurrency`).
pub const FIRST_ATTEMPT_CONCURRENCY: usize = 550;

/// Most invocations of dispatch for each retry queue (`retry_concurrency`).
pub const RETRY_CONCURRENCY: usize = 50;

/// Most deliveries of one invocation for retries. None waits for others: see [`Reading::window`].
const RETRY_BATCH: usize = 10;

/// Most invocations of dispatch for the slow queue (`slow_concurrency`).
pub const SLOW_CONCURRENCY: usize = 50;

/// Most deliveries that one of them gets (`slow_batch_size`).
const SLOW_BATCH: usize = 100;

/// How long it waits to be filled (`slow_window_seconds`).
const SLOW_WINDOW: Duration = Duration::from_secs(1);

/// How many retry queues there are (`retry_queue_count`).
pub const RETRY_QUEUES: usize = 3;

/// The number of hidden messages of a retry queue from which long waits are parked
/// (`retry_in_flight_limit`).
pub const RETRY_IN_FLIGHT_LIMIT: u64 = 60_000;

/// Most deliveries that one invocation of dead-letter gathers (`dead_letter_batch_size`).
const DEAD_LETTER_BATCH: usize = 100;

/// How long it waits to be filled (`dead_letter_window_seconds`).
const DEAD_LETTER_WINDOW: Duration = Duration::from_secs(20);

/// How Lambda reads the queues of a deployment.
pub fn readings() -> Readings {
    let at_once = Duration::ZERO;
    Readings {
        dispatch: Reading { batch: 10, window: at_once, concurrency: FIRST_ATTEMPT_CONCURRENCY },
        retry: Reading { batch: RETRY_BATCH, window: at_once, concurrency: RETRY_CONCURRENCY },
        slow: Some(slow()),
        dead_letter: Reading {
            batch: DEAD_LETTER_BATCH,
            window: DEAD_LETTER_WINDOW,
            concurrency: 10,
        },
        fan_out: Reading { batch: 1, window: at_once, concurrency: 5 },
        ramp: None,
        hop: Hop::FAR,
    }
}

/// How Lambda reads the slow queue of a deployment.
pub fn slow() -> Reading {
    Reading { batch: SLOW_BATCH, window: SLOW_WINDOW, concurrency: SLOW_CONCURRENCY }
}
