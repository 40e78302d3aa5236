//! What the operating system says about a process, seen from outside.

use std::fs;

use anyhow::{Context, ensure};
use serde::Serialize;

/// Linux counts a process's time in hundredths of a second (`USER_HZ`) on all of its architectures.
const TICK_MS: f64 = 10.0;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// CPU time, in milliseconds.
    pub cpu_ms: f64,
    /// CPU time in user mode, in milliseconds, to 10 ms.
    pub user_ms: f64,
    /// CPU time in the kernel, in milliseconds, to 10 ms.
    pub system_ms: f64,
    /// The most memory that was resident, in KiB.
    pub peak_kib: u64,
}

impl Usage {
    /// Of a running process: all its threads together, including those that have ended.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{process}/{file}");
            fs::read_to_string(&path).with_context(|| format!("{path} can't be read"))
        };
        let times = times(&read("stat")?).context("/proc/…/stat is not of its form")?;
        // The scheduler counts each running thread in nanoseconds. Only the ticks include threads
        // that have ended, and they never exceed what was used.
        let cpu_ms = scheduled_ms(process)?.max(times.0 + times.1);
        let status = read("status")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse().ok());
        let peak_kib = peak.unwrap_or(0);
        Ok(Self { cpu_ms, user_ms: times.0, system_ms: times.1, peak_kib })
    }

    /// What two processes have used together; the peak is the higher one.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms + other.cpu_ms,
            user_ms: self.user_ms + other.user_ms,
            system_ms: self.system_ms + other.system_ms,
            peak_kib: self.peak_kib.max(other.peak_kib),
        }
    }

    /// What was used since `before`; the peak is the process's.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms - before.cpu_ms,
            user_ms: self.user_ms - before.user_ms,
            system_ms: self.system_ms - before.system_ms,
            peak_kib: self.peak_kib,
        }
    }
}

/// What the scheduler has given the process's threads so far, in milliseconds.
fn scheduled_ms(process: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{process}/task");
    let mut nanos = 0.0;
    for thread in fs::read_dir(&path).with_context(|| format!("{path} can't be read"))? {
        // A thread may end while it is being read.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let first = text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
        nanos += first.with_context(|| format!("{path}/…/schedstat is not of its form"))?;
    }
    Ok(nanos / 1_000_000.0)
}

/// User and system time from `/proc/…/stat`. The name in it may contain anything, even brackets.
fn times(stat: &str) -> Option<(f64, f64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11).map(|field| field.parse::<f64>().ok());
    Some((fields.next()?? * TICK_MS, fields.next()?? * TICK_MS))
}

/// The CPU time of this process so far, in milliseconds.
pub fn own_cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1_000.0 + time.tv_nsec as f64 / 1_000_000.0
}

/// The machine, so that figures can be judged.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many processors this process may use.
    pub processors: usize,
    /// Runnable tasks on average over the last minute, before the benchmark began.
    pub load: f64,
}

impl Machine {
    /// This machine now.
    pub fn now() -> anyhow::Result<Self> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| path.to_owned());
        let cpus = read("/proc/cpuinfo")?;
        let name = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = read("/proc/loadavg")?;
        let load = load.split(' ').next().and_then(|load| load.parse().ok());
        let processors = std::thread::available_parallelism()?.get();
        ensure!(processors > 0, "no processor");
        Ok(Self {
            processor: name.map_or("unknown", |(_, name)| name).to_owned(),
            processors,
            load: load.unwrap_or(f64::NAN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 1 0 9 9 9";
        assert_eq!(times(stat), Some((1_500.0, 250.0)));
    }

    #[test]
    fn this_process_uses_something() {
        let before = own_cpu_ms();
        let mut sum = 0_u64;
        while own_cpu_ms() - before < 30.0 {
            sum = std::hint::black_box(sum + 1);
        }
        let usage = Usage::of(std::process::id()).expect("this process");
        assert!(usage.cpu_ms >= 20.0 && usage.peak_kib > 1_000, "{usage:?}");
        let scheduled = scheduled_ms(std::process::id()).expect("this process");
        assert!(scheduled > 0.0, "the scheduler counts this process's threads");
    }
}
