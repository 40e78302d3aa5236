//! The clock of the process: the machine's, or one that runs so many times as fast.
//!
//! A fast clock is ahead of the machine's when the process ends. The next one goes on from there, so that
//! no stored time lies in its future: after a clean end at the machine's pace, and after a crash as if it
//! had run on.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use gridpost_core::time::Timestamp;
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// How many seconds of the clock are one second of the machine's: 1 to [`Speed::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(u32);

/// A number that is no speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a speed is a whole number from 1 to {}", Speed::MAX)]
pub struct SpeedError;

impl Speed {
    /// The machine's own pace.
    pub const REAL: Self = Self(1);

    /// The fastest: a day's schedule takes 144 s.
    pub const MAX: u32 = 600;

    /// So many times as fast.
    ///
    /// # Errors
    ///
    /// The number is not from 1 to [`Speed::MAX`].
    pub fn new(times: u32) -> Result<Self, SpeedError> {
        (1..=Self::MAX).contains(&times).then_some(Self(times)).ok_or(SpeedError)
    }

    /// How many times as fast.
    pub fn times(self) -> u32 {
        self.0
    }

    /// What a time of the machine's is by the clock.
    pub fn by_the_clock(self, real: Duration) -> Duration {
        real.saturating_mul(self.0)
    }

    /// What a time of the clock's takes on the machine.
    pub fn really(self, by_the_clock: Duration) -> Duration {
        by_the_clock / self.0
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Self, SpeedError> {
        text.parse().map_err(|_| SpeedError).and_then(Self::new)
    }
}

/// What relates the clock to the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Anchor {
    /// A time of the machine's, in milliseconds since 1970.
    machine_ms: i64,
    /// What the clock showed then.
    clock_ms: i64,
    /// How fast it ran from then on.
    speed: u32,
}

impl Anchor {
    fn at(self, machine_ms: i64) -> i64 {
        // A machine's clock that is set back must not take this one along.
        let passed = machine_ms.saturating_sub(self.machine_ms).max(0);
        self.clock_ms.saturating_add(passed.saturating_mul(i64::from(self.speed)))
    }

    /// How a process that starts now goes on from what is known.
    fn resumed(known: Option<Self>, machine_ms: i64, speed: Speed) -> Self {
        let clock_ms = known.map_or(machine_ms, |known| known.at(machine_ms)).max(machine_ms);
        Self { machine_ms, clock_ms, speed: speed.0 }
    }
}

/// The clock of the process.
#[derive(Clone, Debug)]
pub struct DevClock {
    anchor: Anchor,
    speed: Speed,
    file: Option<PathBuf>,
}

impl DevClock {
    /// The clock of the data in that folder.
    ///
    /// # Errors
    ///
    /// Its file can't be read.
    pub fn open(folder: Option<&Path>, speed: Speed) -> io::Result<Self> {
        let file = folder.map(|folder| folder.join("clock.json"));
        let known = match &file {
            Some(file) => read(file)?,
            None => None,
        };
        let anchor = Anchor::resumed(known, machine_ms(), speed);
        let is_needed = known.is_some() || speed != Speed::REAL;
        Ok(Self { anchor, speed, file: file.filter(|_| is_needed) })
    }

    /// Notes from where it goes on, once this process alone has the folder.
    ///
    /// # Errors
    ///
    /// Its file can't be written.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.keep(self.anchor)
    }

    /// Notes that the process ends: until the next one the clock goes on at the machine's pace.
    pub(crate) fn stop(&self) {
        let machine_ms = machine_ms();
        let rest = Anchor { machine_ms, clock_ms: self.anchor.at(machine_ms), speed: 1 };
        if let Err(error) = self.keep(rest) {
            tracing::warn!(%error, "what the clock shows could not be noted");
        }
    }

    /// How fast it runs.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Waits until the clock shows that time.
    pub async fn sleep_until(&self, until: Timestamp) {
        let left = until.since(self.now());
        if !left.is_zero() {
            // What is less than a millisecond would end before the clock shows the time.
            sleep(self.speed.really(left).max(Duration::from_millis(1))).await;
        }
    }

    fn keep(&self, anchor: Anchor) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let draft = file.with_extension("draft");
        fs::write(&draft, serde_json::to_vec(&anchor)?)?;
        fs::rename(draft, file)
    }
}

impl Clock for DevClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.anchor.at(machine_ms()))
    }
}

fn read(file: &Path) -> io::Result<Option<Anchor>> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn machine_ms() -> i64 {
    SystemClock.now().as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_table() {
        for (text, want) in [
            ("1", Ok(Speed(1))),
            ("600", Ok(Speed(600))),
            ("0", Err(SpeedError)),
            ("601", Err(SpeedError)),
            ("1.5", Err(SpeedError)),
            ("", Err(SpeedError)),
        ] {
            assert_eq!(text.parse::<Speed>(), want, "{text}");
        }
        let speed = Speed(60);
        assert_eq!(speed.really(Duration::from_secs(60)), Duration::from_secs(1));
        assert_eq!(speed.by_the_clock(Duration::from_secs(1)), Duration::from_secs(60));
    }

    #[test]
    fn a_clock_never_goes_back() {
        let known = |machine_ms, clock_ms, speed| Some(Anchor { machine_ms, clock_ms, speed });
        // (what is known, the machine's time at the start, what the clock shows then)
        let table = [
            (None, 1_000, 1_000),
            // A crash at 60 times the pace: it has run on.
            (known(1_000, 1_000, 60), 2_000, 61_000),
            // A clean end: the machine's pace.
            (known(1_000, 61_000, 1), 2_000, 62_000),
            // The machine's clock was set back, or has overtaken it.
            (known(5_000, 61_000, 60), 2_000, 61_000),
            (known(1_000, 500, 1), 2_000, 2_000),
        ];
        for (known, machine_ms, want) in table {
            let resumed = Anchor::resumed(known, machine_ms, Speed(600));
            assert_eq!(resumed.at(machine_ms), want, "{known:?}");
            assert_eq!(resumed.at(machine_ms + 1), want + 600, "{known:?}");
        }
    }

    #[test]
    fn the_next_process_goes_on_from_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let fast = DevClock::open(Some(folder.path()), Speed(600)).expect("a clock");
        let ahead = Anchor { clock_ms: fast.anchor.clock_ms + 3_600_000, ..fast.anchor };
        fast.keep(ahead).expect("kept");
        let next = DevClock::open(Some(folder.path()), Speed::REAL).expect("a clock");
        assert!(next.now() >= Timestamp::from_millis(ahead.clock_ms));
        assert!(!folder.path().join("clock.draft").exists());
    }
}
