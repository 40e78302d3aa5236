//! What the operating system says about a process, seen from outside.

use std::{fs, time::Duration};

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
        let number = |text: &str| text.parse::<f64>().with_context(|| format!("no number: {text}"));
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        // The program's name before it may contain spaces, even brackets.
        let (_, stat) = stat.rsplit_once(") ").context("stat is not of its form")?;
        let mut ticks = stat.split(' ').skip(11);
        let mut time_ms = || Ok(number(ticks.next().unwrap_or_default())? * TICK_MS);
        let [user_ms, system_ms]: [anyhow::Result<f64>; 2] = [time_ms(), time_ms()];
        let (user_ms, system_ms) = (user_ms?, system_ms?);
        let mut scheduled_ms = 0.0;
        for thread in fs::read_dir(format!("{folder}/task"))? {
            // A thread may end while it is being read.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            scheduled_ms += number(text.split(' ').next().unwrap_or_default())? / 1_000_000.0;
        }
        let status = fs::read_to_string(format!("{folder}/status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse().ok());
        // The scheduler counts each running thread in nanoseconds. Only the ticks include threads
        // that have ended, and they never exceed what was used.
        let cpu_ms = scheduled_ms.max(user_ms + system_ms);
        Ok(Self { cpu_ms, user_ms, system_ms, peak_kib: peak.unwrap_or(0) })
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
    /// What each process has used so far.
    pub fn usages(&self) -> anyhow::Result<Vec<Usage>> {
        self.processes.iter().map(|process| Usage::of(*process)).collect()
    }
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
