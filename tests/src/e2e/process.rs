//! `gridpost dev` as a user starts it: the program, in its own folder.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use gridpost_ops::home::Home;
use gridpost_ops::home::connection::Connection;
use gridpost_stack::child;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Child,
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

/// Time for a start on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);

/// Time for an end, which should be immediate.
const END_MAX: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(20);

/// A running `gridpost dev`. Dropping it kills it.
#[derive(Debug)]
pub struct DevProcess {
    child: Mutex<Child>,
    /// What it printed.
    said: PathBuf,
    letters: PathBuf,
}

impl DevProcess {
    /// Starts `program` with everything it keeps in `home`, on a free port; waits until other commands
    /// find it.
    pub async fn start(program: &Path, home: &Home) -> anyhow::Result<(Self, Connection)> {
        home.create_root()?;
        let said = home.root().join("dev.out");
        let output = File::create(&said).with_context(|| said.display().to_string())?;
        let data = home.dev();
        let mut command = child::command(program);
        // Settings for a user's commands are not meant for this process.
        let own = env::vars_os().map(|(name, _)| name);
        for name in own.filter(|name| name.to_string_lossy().starts_with("GRIDPOST_")) {
            command.env_remove(name);
        }
        // The stack has them on, too.
        command.env("GRIDPOST_LATENCY_METRICS", "true");
        command.arg("--home").arg(home.root()).args(["dev", "--port", "0", "--quiet"]);
        command.arg("--data").arg(&data).current_dir(home.root());
        command.stdout(Stdio::from(output.try_clone()?)).stderr(Stdio::from(output));
        let started = command.spawn();
        let child = started.with_context(|| format!("{} cannot be started", program.display()))?;
        let letters = data.join("dead-letters");
        let process = Self { child: Mutex::new(child), said, letters };
        let connection = process.ready(home).await?;
        Ok((process, connection))
    }

    async fn ready(&self, home: &Home) -> anyhow::Result<Connection> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            if let Some(connection) = Connection::read(home)? {
                return Ok(connection);
            }
            if let Some(status) = self.child.lock().await.try_wait()? {
                bail!("`gridpost dev` ended ({status}): {}", self.said());
            }
            ensure!(Instant::now() < deadline, "`gridpost dev` is not ready: {}", self.said());
            sleep(POLL).await;
        }
    }

    /// The folder of a bucket.
    pub fn bucket(&self, name: &str) -> PathBuf {
        self.letters.join(name)
    }

    /// Ends it as Ctrl-C would.
    pub async fn stop(&self) -> anyhow::Result<()> {
        let mut child = self.child.lock().await;
        if let Some(status) = child.try_wait()? {
            bail!("`gridpost dev` had ended before ({status}): {}", self.said());
        }
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        kill_process(pid.context("a process that runs has an id")?, Signal::INT)?;
        let ended = timeout(END_MAX, child.wait()).await;
        let status = ended.context("`gridpost dev` does not end")??;
        ensure!(status.success(), "`gridpost dev` ended with {status}: {}", self.said());
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}
