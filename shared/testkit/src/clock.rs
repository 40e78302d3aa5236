//! Virtual time: tokio's paused clock, which jumps to the next timer when nothing else is to do.

use gridpost_core::time::Timestamp;
use gridpost_ports::Clock;
use tokio::time::{Duration, Instant};

/// When every world begins: 2026-01-01T00:00:00Z.
pub const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The clock of one world.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    start: Instant,
}

impl VirtualClock {
    /// A clock that stands at [`BEGINNING`] now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Sleeps until that time.
    pub async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep_until(self.start + at.since(BEGINNING)).await;
    }

    /// How long the world has lasted.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        BEGINNING + self.start.elapsed()
    }
}
