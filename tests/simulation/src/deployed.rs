//! How a deployment is set where its operator sets nothing: the defaults of `infra/variables.tf`.

use std::time::Duration;

use crate::lambda::{Reading, Readings};

/// Most invocations of dispatch for first attempts (`first_attempt_concurrency`).
pub const FIRST_ATTEMPT_CONCURRENCY: usize = 100;

/// Most invocations of dispatch for each retry queue (`retry_concurrency`).
pub const RETRY_CONCURRENCY: usize = 20;

/// How many retry queues there are (`retry_queue_count`).
pub const RETRY_QUEUES: usize = 4;

/// From so many hidden messages of a retry queue on, long waits are parked (`retry_in_flight_limit`).
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
        retry: Reading { batch: 10, window: at_once, concurrency: RETRY_CONCURRENCY },
        dead_letter: Reading {
            batch: DEAD_LETTER_BATCH,
            window: DEAD_LETTER_WINDOW,
            concurrency: 10,
        },
        fan_out: Reading { batch: 1, window: at_once, concurrency: 5 },
        ramp: None,
    }
}
