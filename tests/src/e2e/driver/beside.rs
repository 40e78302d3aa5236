//! Other work of the machine, as CI compiles a release meanwhile: it stands still while cases are timed.

use std::env;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

/// Names the process group of that work.
const VARIABLE: &str = "GRIDPOST_TESTS_BESIDE";

/// A process that works beside the run, if there is any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside(Option<Pid>);

impl Beside {
    /// Reads the groups that the environment names.
    pub(super) fn named() -> anyhow::Result<Self> {
        let Some(group) = env::var_os(VARIABLE) else { return Ok(Self(None)) };
        let group = group.to_str().and_then(|group| group.parse().ok()).and_then(Pid::from_raw);
        group
            .map(|group| Self(Some(group)))
            .with_context(|| format!("{VARIABLE} is no process group"))
    }

    /// Lets it go on, or stops it for now. Work that is over already needs neither.
    pub(super) fn goes_on(self, may: bool) {
        let signal = if may { Signal::CONT } else { Signal::STOP };
        if let Self(Some(group)) = self {
            let _ = kill_process_group(group, signal);
        }
    }
}
