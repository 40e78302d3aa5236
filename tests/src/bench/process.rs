//! What the operating system says about a process, seen from outside.

use std::fs;

use anyhow::Context;
use serde::Serialize;

/// Linux counts a process's time in hundredths of a second (`USER_HZ`) on all of its architectures.
const TICK_MS: f64 = 10.0;

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
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
        let folder = format!("/proc/{process}");
        let read = |file: &str| {
            let path = format!("{folder}/{file}");
            fs::read_to_string(&path).with_context(|| format!("{path} can't be read"))
        };
        let [user_ms, system_ms] = times(&read("stat")?).context("stat is not of its form")?;
        let mut scheduled_ms = 0.0;
        for thread in fs::read_dir(format!("{folder}/task"))? {
            // A thread may end while it is being read.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            let nanos = text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok());
            scheduled_ms += nanos.context("schedstat is not of its form")? / 1_000_000.0;
        }
        let status = read("status")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse().ok());
        // The scheduler counts each running thread in nanoseconds. Only the ticks include threads
        // that have ended, and they never exceed what was used.
        let cpu_ms = scheduled_ms.max(user_ms + system_ms);
        Ok(Self { cpu_ms, user_ms, system_ms, peak_kib: peak.unwrap_or(0) })
    }
}

/// User and system time from `/proc/…/stat`. The name in it may contain anything, even brackets.
fn times(stat: &str) -> Option<[f64; 2]> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11).map(|field| field.parse::<f64>().ok());
    Some([fields.next()?? * TICK_MS, fields.next()?? * TICK_MS])
}

/// The CPU time of this process so far, in milliseconds.
pub fn own_cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1_000.0 + time.tv_nsec as f64 / 1_000_000.0
}

/// The machine, so that figures can be judged.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub processor: String,
    /// How many processors this process may use.
    pub processors: usize,
    /// Runnable tasks on average over the last minute, before the benchmark began.
    pub load: f64,
}

impl Machine {
    /// This machine now.
    pub fn now() -> anyhow::Result<Self> {
        let cpus = fs::read_to_string("/proc/cpuinfo")?;
        let name = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = fs::read_to_string("/proc/loadavg")?;
        Ok(Self {
            processor: name.map_or("unknown", |(_, name)| name).to_owned(),
            processors: std::thread::available_parallelism()?.get(),
            load: load.split(' ').next().unwrap_or_default().parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 1 0 9 9 9";
        assert_eq!(times(stat), Some([1_500.0, 250.0]));
    }
}
