//! The clock of the process: the machine's, or a faster one.
//!
//! It never goes back, or what is hidden would wait for so much longer. If the machine's clock is set back it is
//! ahead of that from then on, as a fast clock is when the process ends. The next process continues from there:
//! after a clean end at the machine's pace, otherwise from the latest time that the stores saved, at most a second
//! before their contents. A fast clock must not run on meanwhile, or waiting deliveries would expire without
//! attempts.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_core::time::{Pace, Timestamp};
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

/// Seconds of the clock in one second of the machine's: 1 to [`Speed::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(u32);

/// A number out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a speed is a whole number from 1 to {}", Speed::MAX)]
pub struct SpeedError;

impl Speed {
    /// The machine's own pace.
    pub const REAL: Self = Self(1);

    /// The fastest: a day's schedule takes 144 s.
    pub const MAX: u32 = 600;

    /// Checks the range.
    pub fn new(times: u32) -> Result<Self, SpeedError> {
        (1..=Self::MAX).contains(&times).then_some(Self(times)).ok_or(SpeedError)
    }

    /// Returns the number.
    pub fn times(self) -> u32 {
        self.0
    }

    /// Returns the pace of a clock.
    pub fn pace(self) -> Pace {
        Pace::times(self.0)
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Self, SpeedError> {
        text.parse().map_err(|_| SpeedError).and_then(Self::new)
    }
}

/// Relates the clock to the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Anchor {
    /// Milliseconds since 1970.
    machine_ms: i64,
    clock_ms: i64,
    speed: u32,
}

/// Less is no step back of the machine's clock, but a correction of its pace.
const STEP_MS: i64 = 1_000;

/// How far a clock may be ahead of the machine's without a word at the start.
const AHEAD_MS: i64 = 60_000;

/// The machine's time, with all that it was set back by since the start.
#[derive(Debug)]
struct Steady {
    began: Instant,
    /// The latest look: the machine's time, and the milliseconds since the start.
    machine_ms: i64,
    passed_ms: i64,
    ahead_ms: i64,
    shown_ms: i64,
}

impl Steady {
    fn from(machine_ms: i64) -> Self {
        let (began, shown_ms) = (Instant::now(), machine_ms);
        Self { began, machine_ms, passed_ms: 0, ahead_ms: 0, shown_ms }
    }

    /// Looks at the machine's time, and at the time that has passed since the start. Returns the steady time, and by
    /// how much the machine's clock was set back since the last look, in milliseconds.
    fn look(&mut self, machine_ms: i64, passed_ms: i64) -> (i64, i64) {
        let wanted = self.machine_ms.saturating_add(passed_ms - self.passed_ms);
        let back = wanted.saturating_sub(machine_ms);
        let step = if back.abs() < STEP_MS { 0 } else { back };
        (self.machine_ms, self.passed_ms) = (machine_ms, passed_ms);
        // A step forward takes steps back away, and is followed beyond that.
        self.ahead_ms = self.ahead_ms.saturating_add(step).max(0);
        self.shown_ms = self.shown_ms.max(machine_ms.saturating_add(self.ahead_ms));
        (self.shown_ms, step.max(0))
    }
}

impl Anchor {
    fn at(self, machine_ms: i64) -> i64 {
        let passed = machine_ms.saturating_sub(self.machine_ms).max(0);
        self.clock_ms.saturating_add(passed.saturating_mul(i64::from(self.speed)))
    }

    /// Continues from the known anchor and the latest time of the stores. Without an anchor, which users may
    /// remove, the machine's time counts.
    fn resumed(
        known: Option<Self>,
        last_seen_ms: Option<i64>,
        machine_ms: i64,
        speed: Speed,
    ) -> Self {
        let known = known.map(|known| {
            // A clean end leaves the machine's pace.
            let goes_on = known.speed == Speed::REAL.0;
            let shown = if goes_on { known.at(machine_ms) } else { known.clock_ms };
            last_seen_ms.map_or(shown, |seen| shown.max(seen))
        });
        let clock_ms = known.map_or(machine_ms, |known| known.max(machine_ms));
        Self { machine_ms, clock_ms, speed: speed.0 }
    }
}

/// The clock of the process.
#[derive(Clone, Debug)]
pub struct DevClock {
    anchor: Anchor,
    steady: Arc<Mutex<Steady>>,
    speed: Speed,
    file: Option<PathBuf>,
    trouble: Option<String>,
}

impl DevClock {
    /// Opens the clock of a data folder whose stores last saved that time. If its file can't be read,
    /// it continues from that time only, and the log says so.
    pub fn open(folder: Option<&Path>, speed: Speed, last_seen: Option<Timestamp>) -> Self {
        let file = folder.map(|folder| folder.join("clock.json"));
        let machine_ms = machine_ms();
        let (known, trouble) = match file.as_deref().map_or(Ok(None), read) {
            Ok(known) => (known, None),
            // There was a fast clock, without a clean end.
            Err(error) => {
                let unknown = Anchor { machine_ms, clock_ms: machine_ms, speed: Speed::MAX };
                (Some(unknown), Some(error.to_string()))
            }
        };
        let last_seen_ms = last_seen.map(Timestamp::as_millis);
        let anchor = Anchor::resumed(known, last_seen_ms, machine_ms, speed);
        let steady = Arc::new(Mutex::new(Steady::from(machine_ms)));
        Self { anchor, steady, speed, file, trouble }
    }

    /// Logs what was wrong with its file, and how far it is ahead, once there is a log.
    pub(crate) fn report(&self) {
        let ahead_ms = self.anchor.clock_ms - self.anchor.machine_ms;
        if ahead_ms > AHEAD_MS {
            let ahead_s = ahead_ms / 1_000;
            tracing::warn!(
                ahead_s,
                "the clock goes on from where it was, ahead of the machine's: that was set back, or this one \
                 was fast; without clock.json it is the machine's at the next start, and what waits then waits longer"
            );
        }
        if let Some(error) = &self.trouble {
            tracing::warn!(
                %error,
                "clock.json can't be read; the clock goes on from the time of the latest commit"
            );
        }
    }

    /// Saves where it starts, once this process owns the folder.
    pub(crate) fn begin(&self) -> io::Result<()> {
        self.keep(self.anchor)
    }

    /// Saves where it ends: until the next process it runs at the machine's pace.
    pub(crate) fn stop(&self) {
        let (machine_ms, clock_ms) = (machine_ms(), self.now().as_millis());
        let rest = Anchor { machine_ms, clock_ms, speed: 1 };
        if let Err(error) = self.keep(rest) {
            tracing::warn!(%error, "failed to save the clock's time");
        }
    }

    /// Returns how fast it runs.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Waits until the clock shows that time.
    pub async fn sleep_until(&self, until: Timestamp) {
        if until > self.now() {
            // Shorter sleeps would end before the clock shows the time.
            sleep(self.left(until).max(Duration::from_millis(1))).await;
        }
    }

    fn keep(&self, anchor: Anchor) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let draft = file.with_extension("draft");
        let mut written = File::create(&draft)?;
        written.write_all(&serde_json::to_vec(&anchor)?)?;
        // Otherwise a loss of power may leave an empty file.
        written.sync_all()?;
        fs::rename(draft, file)
    }
}

impl Clock for DevClock {
    fn now(&self) -> Timestamp {
        let (steady_ms, back_ms) = {
            let mut steady = self.steady.lock().expect("no panic while held");
            let passed = i64::try_from(steady.began.elapsed().as_millis()).unwrap_or(i64::MAX);
            let (steady_ms, back_ms) = steady.look(machine_ms(), passed);
            match self.speed {
                Speed::REAL => (steady_ms, back_ms),
                // An hour that the machine sleeps is no day of a fast clock.
                _ => (self.anchor.machine_ms.saturating_add(passed), back_ms),
            }
        };
        if back_ms > 0 {
            tracing::warn!(back_ms, "the machine's clock was set back; this one goes on");
        }
        Timestamp::from_millis(self.anchor.at(steady_ms))
    }

    fn machine(&self) -> Timestamp {
        Timestamp::from_millis(machine_ms())
    }

    fn pace(&self) -> Pace {
        self.speed.pace()
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
        let pace = Speed(60).pace();
        assert_eq!(pace.to_real(Duration::from_secs(60)), Duration::from_secs(1));
        assert_eq!(pace.to_clock(Duration::from_secs(1)), Duration::from_secs(60));
    }

    #[test]
    fn a_clock_never_goes_back() {
        let known = |machine_ms, clock_ms, speed| Some(Anchor { machine_ms, clock_ms, speed });
        // (what is known, what the stores noted, the machine's time at the start, what the clock
        // shows then)
        let table = [
            (None, None, 1_000, 1_000),
            // Its file was removed: the machine's time, wherever that was put.
            (None, Some(5_000), 1_000, 1_000),
            // An end that was not clean at 60 times the pace: it has not run on.
            (known(1_000, 1_000, 60), Some(31_000), 2_000, 31_000),
            (known(1_000, 61_000, 60), Some(31_000), 2_000, 61_000),
            (known(1_000, 61_000, 60), None, 2_000, 61_000),
            // A clean end: the machine's pace, and what was written at the very end.
            (known(1_000, 61_000, 1), Some(60_500), 2_000, 62_000),
            (known(1_000, 61_000, 1), Some(63_000), 2_000, 63_000),
            // The machine's clock was set back, or has overtaken it.
            (known(5_000, 61_000, 60), None, 2_000, 61_000),
            (known(1_000, 500, 1), None, 2_000, 2_000),
            (known(1_000, 1_000, 60), Some(31_000), 90_000, 90_000),
        ];
        for (known, last_seen_ms, machine_ms, want) in table {
            let resumed = Anchor::resumed(known, last_seen_ms, machine_ms, Speed(600));
            assert_eq!(resumed.at(machine_ms), want, "{known:?} {last_seen_ms:?}");
            assert_eq!(resumed.at(machine_ms + 1), want + 600, "{known:?} {last_seen_ms:?}");
        }
    }

    #[test]
    fn a_machine_that_is_set_back_takes_no_time_back() {
        // (the machine's time, what has passed, what is shown, how much it was set back by)
        let table = [
            (10_000, 0, 10_000, 0),
            (11_000, 1_000, 11_000, 0),
            // An hour back; it goes on at its pace.
            (-3_588_000, 2_000, 12_000, 3_600_000),
            (-3_587_000, 3_000, 13_000, 0),
            // Put right again.
            (14_000, 4_000, 14_000, 0),
            // A little late, by a correction of its pace.
            (14_500, 5_000, 14_500, 0),
            (14_400, 5_100, 14_500, 0),
            (14_600, 5_200, 14_600, 0),
            // Set forward, as after a sleep.
            (99_000, 5_300, 99_000, 0),
        ];
        let mut steady = Steady::from(10_000);
        for (machine_ms, passed_ms, shown_ms, back_ms) in table {
            let want = (shown_ms, back_ms);
            assert_eq!(steady.look(machine_ms, passed_ms), want, "{machine_ms} {passed_ms}");
        }
    }

    #[test]
    fn the_next_process_goes_on_from_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let fast = DevClock::open(Some(folder.path()), Speed(600), None);
        let ahead = Anchor { clock_ms: fast.anchor.clock_ms + 3_600_000, ..fast.anchor };
        fast.keep(ahead).expect("kept");
        let next = DevClock::open(Some(folder.path()), Speed::REAL, None);
        assert!(next.now() >= Timestamp::from_millis(ahead.clock_ms));
        assert!(!folder.path().join("clock.draft").exists());
    }

    #[test]
    fn a_file_that_says_nothing_is_no_reason_to_go_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let seen = Timestamp::from_millis(machine_ms() + 3_600_000);
        for text in ["", "{", "{\"machineMs\": 1}"] {
            fs::write(folder.path().join("clock.json"), text).expect("written");
            let clock = DevClock::open(Some(folder.path()), Speed::REAL, Some(seen));
            assert!(clock.now() >= seen, "{text}");
            assert!(clock.trouble.is_some(), "{text}");
            clock.begin().expect("kept");
            let next = DevClock::open(Some(folder.path()), Speed::REAL, None);
            assert!(next.now() >= seen && next.trouble.is_none(), "{text}");
        }
    }
}
