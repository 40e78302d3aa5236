//! Lambda, as a plan sets it: how its event source mappings read the queues, and how well wake's
//! schedule keeps time. What it bills is counted in [`Usage`].

mod usage;

use std::time::Duration;

use gridpost_core::{delivery::queue::Queue, time::Timestamp};

pub use self::usage::{Function, Usage, Used};

/// The most that the number of concurrent batches of a mapping grows per minute, while there are
/// messages. Source: AWS Lambda developer guide, "Configuring scaling behavior for SQS event source
/// mappings".
const MORE_A_MINUTE: usize = 300;

/// How a queue is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Most records of one invocation: 1 to 10,000.
    pub batch: usize,
    /// How long a batch waits to be filled, from its first message: up to 300 s, at least 1 s for more
    /// than 10 records. Zero: it goes as soon as there is one.
    pub window: Duration,
    /// Most invocations at the same time.
    pub concurrency: usize,
}

/// How long a poll for further messages waits. Source: AWS Lambda developer guide, "Using Lambda with
/// Amazon SQS": "If you're using a batch window and your SQS queue contains very low traffic, Lambda might
/// wait for up to 20 seconds before invoking your function. This is true even if you set a batch window
/// lower than 20 seconds."
const POLL: Duration = Duration::from_secs(20);

impl Reading {
    /// Returns when a poll that begins now ends if no message comes. The window, which ends at
    /// `window_until`, is looked at between polls.
    pub(crate) fn polled_until(&self, now: Timestamp, window_until: Timestamp) -> Timestamp {
        if self.window < POLL { now + POLL } else { window_until }
    }
}

/// How Lambda reads the queues.
#[derive(Clone, Copy, Debug)]
pub struct Readings {
    pub dispatch: Reading,
    pub retry: Reading,
    /// `None` if there is no slow queue.
    pub slow: Option<Reading>,
    pub dead_letter: Reading,
    pub fan_out: Reading,
    /// How mappings grow to their maximum; `None` if they start there.
    pub ramp: Option<Ramp>,
    pub hop: Hop,
}

/// How long a batch takes from its poller to a copy of the function, in milliseconds: at least, and
/// less than.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// To a copy that has run before.
    pub warm: (u64, u64),
    /// To a copy that must be started.
    pub fresh: (u64, u64),
}

impl Hop {
    /// As on a usual day: a copy that has run is called at once, and one that must be started takes a
    /// few tenths of a second.
    pub const NEAR: Self = Self { warm: (2, 40), fresh: (100, 400) };

    /// Worse than it is: any copy may be far away, and batches overtake each other.
    pub const FAR: Self = Self { warm: (2, 300), fresh: (2, 300) };
}

/// How a mapping grows while messages are left over. The guide says "up to 300 more a minute",
/// which has two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ramp {
    /// One more each fifth of a second.
    Continuous,
    /// 300 more at the end of each minute.
    Steps,
}

/// A queue that a function is invoked with.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub queue: Queue,
    pub reading: Reading,
    pub ramp: Option<Ramp>,
    pub hop: Hop,
    pub timeout: Duration,
}

impl Readings {
    /// The settings of a small world: no batch waits, and each queue has this many concurrent
    /// invocations.
    pub fn of(concurrency: usize) -> Self {
        let reading = |batch| Reading { batch, window: Duration::ZERO, concurrency };
        Self {
            dispatch: reading(10),
            retry: reading(10),
            slow: None,
            dead_letter: reading(100),
            fan_out: reading(1),
            ramp: None,
            hop: Hop::FAR,
        }
    }
}

impl Ramp {
    pub(crate) fn every(self) -> Duration {
        match self {
            Self::Continuous => Duration::from_secs(60) / MORE_A_MINUTE as u32,
            Self::Steps => Duration::from_secs(60),
        }
    }

    pub(crate) fn step(self) -> usize {
        match self {
            Self::Continuous => 1,
            Self::Steps => MORE_A_MINUTE,
        }
    }
}

/// How a schedule keeps time. EventBridge Scheduler invokes once at least, at some second of the
/// minute, and a throttled invocation is made later or not at all.
#[derive(Clone, Copy, Debug)]
pub struct Wakes {
    /// Seconds after the full minute.
    pub phase: Duration,
    /// How much later an invocation may be.
    pub late_max: Duration,
    /// How often one is not made.
    pub skipped: f64,
    /// How often one is made twice, so that two runs overlap.
    pub twice: f64,
}

impl Wakes {
    /// To the second, however long the runs take.
    pub const PUNCTUAL: Self =
        Self { phase: Duration::ZERO, late_max: Duration::ZERO, skipped: 0.0, twice: 0.0 };
}
