//! Virtual time: tokio's paused clock, which jumps to the next timer when nothing else is to do.

use gridpost_core::time::{Pace, Timestamp};
use gridpost_ports::Clock;
use tokio::time::{Duration, Instant};

/// When simulations begin: 2026-01-01T00:00:00Z.
pub const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The clock of one fixture. Needs a tokio runtime whose time is paused.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    start: Instant,
    beginning: Timestamp,
    pace: Pace,
}

impl VirtualClock {
    /// A clock that shows [`BEGINNING`] now.
    pub fn start() -> Self {
        Self::starting_at(BEGINNING)
    }

    /// A clock that shows that time now.
    pub fn starting_at(beginning: Timestamp) -> Self {
        Self { start: Instant::now(), beginning, pace: Pace::REAL }
    }

    /// Returns the same clock, running that many times faster than tokio's.
    #[must_use]
    pub fn at_speed(self, speed: u32) -> Self {
        Self { pace: Pace::times(speed), ..self }
    }

    /// Returns the same clock, this many milliseconds ahead, or behind if negative.
    #[must_use]
    pub fn ahead_by(self, millis: i64) -> Self {
        let beginning = Timestamp::from_millis(self.beginning.as_millis() + millis);
        Self { beginning, ..self }
    }

    pub async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep_until(self.start + self.pace.to_real(at.since(self.beginning))).await;
    }

    /// Sleeps for a duration of this clock.
    pub async fn sleep(&self, on_clock: Duration) {
        tokio::time::sleep(self.pace.to_real(on_clock)).await;
    }

    /// Returns how long the fixture has lasted on this clock.
    pub fn elapsed(&self) -> Duration {
        self.pace.to_clock(self.start.elapsed())
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.beginning + self.elapsed()
    }

    fn pace(&self) -> Pace {
        self.pace
    }
}
