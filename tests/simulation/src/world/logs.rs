//! The functions' logs, as CloudWatch has them: the lines that their own code writes.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use gridpost_aws::journal::{LoggedDeployment, LoggedJournal, Run, RunStore};
use gridpost_ports::{Clock, PortError, Saved};
use gridpost_testkit::{clock::VirtualClock, cloud_logs::CloudLogs};

const NAME_PREFIX: &str = "g";

/// A question reads 20 pages of a megabyte at most.
const READ_BYTES_MAX: usize = 5_000_000;

const FUNCTIONS: [&str; 8] =
    ["ingest", "intake", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake"];

pub(crate) struct FunctionLogs {
    cloud: Arc<CloudLogs>,
    clock: VirtualClock,
    /// Whether first attempts that succeed are logged.
    pub(super) logs_first_successes: bool,
    /// What is being written, up to the end of a call.
    unlogged: Mutex<Vec<u8>>,
    /// The bytes of all lines.
    bytes: AtomicUsize,
}

impl FunctionLogs {
    pub(super) fn start(clock: VirtualClock, logs_first_successes: bool) -> Arc<Self> {
        let cloud = Arc::<CloudLogs>::default();
        for function in FUNCTIONS {
            cloud.create_group(&group(function), clock.now(), None);
        }
        Arc::new(Self {
            cloud,
            clock,
            logs_first_successes,
            unlogged: Mutex::default(),
            bytes: AtomicUsize::new(0),
        })
    }

    /// Logs lines of a function.
    pub(super) fn log(&self, function: &str, lines: &str) {
        let (group, now) = (group(function), self.clock.now());
        self.bytes.fetch_add(lines.len(), Ordering::Relaxed);
        lines.lines().for_each(|line| self.cloud.log(&group, now, line, 1));
    }

    /// Logs what a function has written in a call that ends now.
    pub(super) fn log_written(&self, function: &str) {
        let written = std::mem::take(&mut *self.unlogged.lock().expect("no panic while held"));
        self.log(function, &String::from_utf8(written).expect("JSON is UTF-8"));
    }

    /// Whether all lines can be read by pages. Larger logs need runs of Logs Insights, which worlds do not have.
    pub(super) fn is_small(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < READ_BYTES_MAX
    }

    /// Returns manage's reader.
    pub(super) fn journal(&self) -> LoggedJournal {
        let deployment = LoggedDeployment {
            name_prefix: NAME_PREFIX.to_owned(),
            logs_first_successes: self.logs_first_successes,
        };
        let logs = Arc::clone(&self.cloud) as _;
        LoggedJournal::new(logs, Arc::new(NoRuns), Arc::new(self.clock), deployment)
    }
}

impl Write for &FunctionLogs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unlogged.lock().expect("no panic while held").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn group(function: &str) -> String {
    format!("/aws/lambda/{NAME_PREFIX}-{function}")
}

/// Keeps no runs: questions about small logs are answered at once.
struct NoRuns;

#[async_trait]
impl RunStore for NoRuns {
    async fn load(&self, _: &str) -> Result<Option<(Run, u64)>, PortError> {
        Ok(None)
    }

    async fn save(&self, _: &str, _: &Run, _: u64) -> Result<Saved, PortError> {
        Ok(Saved::Conflict)
    }
}
