//! Figures of the operating system about a process, seen from outside.

use std::{fs, path::Path, time::Duration};

use procfs_core::{
    CpuInfo, FromRead, LoadAverage,
    process::{Schedstat, Stat, Status},
};
use serde::{Deserialize, Serialize};

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
    /// Reads the figures of a running process: all its threads together, including those that have
    /// ended.
    pub fn of(process: u32) -> anyhow::Result<Self> {
        let folder = Path::new("/proc").join(process.to_string());
        let stat = Stat::from_file(folder.join("stat"))?;
        let [user_ms, system_ms] = [stat.utime, stat.stime].map(|ticks| ticks as f64 * TICK_MS);
        let mut scheduled_ns = 0;
        for thread in fs::read_dir(folder.join("task"))? {
            // A thread may end while it is being read.
            let Ok(stat) = Schedstat::from_file(thread?.path().join("schedstat")) else { continue };
            scheduled_ns += stat.sum_exec_runtime;
        }
        let peak_kib = Status::from_file(folder.join("status"))?.vmhwm.unwrap_or(0);
        // The scheduler counts each running thread in nanoseconds. Only the ticks include threads
        // that have ended, and they never exceed what was used.
        let cpu_ms = (scheduled_ns as f64 / 1_000_000.0).max(user_ms + system_ms);
        Ok(Self { cpu_ms, user_ms, system_ms, peak_kib })
    }
}

/// A program that is measured.
#[derive(Clone, Debug)]
pub struct Measured {
    pub name: &'static str,
    pub processes: Vec<u32>,
    /// How long the last process took from its start until it was ready.
    pub ready_after: Duration,
}

impl Measured {
    /// Reads the usage of each process so far.
    pub fn usages(&self) -> anyhow::Result<Vec<Usage>> {
        self.processes.iter().map(|process| Usage::of(*process)).collect()
    }
}

/// The machine, so that figures can be judged.
#[derive(Debug, Deserialize, Serialize)]
pub struct Machine {
    pub processor: String,
    /// How many processors this process may use.
    pub processors: usize,
    /// Runnable tasks on average over the last minute, before the benchmark began.
    pub load: f32,
}

impl Machine {
    /// This machine now.
    pub fn now() -> anyhow::Result<Self> {
        let processors = CpuInfo::from_file("/proc/cpuinfo")?;
        Ok(Self {
            processor: processors.model_name(0).unwrap_or("unknown").to_owned(),
            processors: std::thread::available_parallelism()?.get(),
            load: LoadAverage::from_file("/proc/loadavg")?.one,
        })
    }
}
