//! The AWS emulator: a detached process on loopback that saves its state when stopped.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

use crate::{child, fingerprint::Fingerprint, processes, python::Environment, quotas};
use gridpost_ops::{
    home::{Home, remove_folder, state::EmulatorRecord},
    http_client,
};

/// The first port tried. Below the range for outgoing connections, so that it is free after a restart.
const PORT_FIRST: u16 = 14_566;
const PORTS_TRIED: u16 = 200;

/// The time to answer after a start; half a second on an idle machine.
const START_MAX: Duration = Duration::from_secs(60);

/// The time to save its state and end.
const STOP_MAX: Duration = Duration::from_secs(20);

/// The longest wait for a stop that saves the state: a busy emulator finishes its work first.
const SAVED_WITHIN: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);

/// How much of its log a failed start shows.
const LOG_TAIL_BYTES: u64 = 4_000;
const LAUNCHER: &str = include_str!("../emulator/launcher.py");

/// The emulator of one local stack.
#[derive(Clone, Debug)]
pub struct Emulator {
    home: Home,
}

impl Emulator {
    /// Returns the emulator of the stack in `home`, running or not.
    pub fn of(home: &Home) -> Self {
        Self { home: home.clone() }
    }

    /// Returns a fingerprint of launcher and packages.
    pub fn version() -> String {
        let programs = Fingerprint::default().text(LAUNCHER).text(quotas::CHECKS);
        programs.text(quotas::FRONT).text(&Environment::version()).value()
    }

    /// Returns its URL.
    pub fn url(port: u16) -> String {
        format!("http://127.0.0.1:{port}")
    }

    /// Returns whether the recorded emulator runs and answers.
    pub async fn runs(&self, record: &EmulatorRecord) -> bool {
        let is_alive = self.processes().iter().any(|process| process.is_emulator);
        is_alive && answers(record.port).await
    }

    /// Finds the processes of the emulator and its functions.
    pub fn processes(&self) -> Vec<processes::Process> {
        processes::of_stack(&self.home.emulator(), &self.launcher())
    }

    /// Starts it on `port` with its saved state, if any, and waits for an answer. Fails if it ends, or does not
    /// answer in a minute, with the end of its log.
    pub async fn start(
        &self,
        environment: &Environment,
        port: u16,
    ) -> anyhow::Result<EmulatorRecord> {
        let folder = self.home.emulator();
        for name in ["state", "s3", "tmp"] {
            fs::create_dir_all(folder.join(name))?;
        }
        fs::write(self.launcher(), LAUNCHER)?;
        fs::write(folder.join("quotas.py"), quotas::CHECKS)?;
        fs::write(folder.join("strict.py"), quotas::FRONT)?;
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let log_start = log.metadata()?.len();
        let mut command = child::command(&environment.python());
        command.arg(self.launcher()).current_dir(&folder).kill_on_drop(false);
        // Functions inherit this environment: they must not have the user's proxy or AWS profile.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(self.settings(port));
        command.stdout(Stdio::from(log.try_clone()?)).stderr(Stdio::from(log));
        let mut process = command.spawn().context("the emulator cannot be started")?;
        let pid = process.id().context("the emulator ended at once")?;
        if let Err(err) = wait_for_answer(&mut process, port).await {
            bail!(
                "{err}; its log, {}, ends in:\n{}",
                self.log().display(),
                self.log_tail(log_start)
            );
        }
        Ok(EmulatorRecord { pid, port, version: Self::version() })
    }

    /// Stops it and its functions, if running.
    pub async fn stop(&self) -> anyhow::Result<()> {
        processes::stop(&self.home.emulator(), &self.launcher(), STOP_MAX).await.map(drop)
    }

    /// Stops it. Fails if it does not save its state within three minutes.
    pub async fn stop_saved(&self) -> anyhow::Result<()> {
        let (folder, launcher) = (self.home.emulator(), self.launcher());
        let has_saved = processes::stop(&folder, &launcher, SAVED_WITHIN).await?;
        let seconds = SAVED_WITHIN.as_secs();
        ensure!(has_saved, "the emulator did not save its state within {seconds} s: it is lost");
        Ok(())
    }

    /// Removes its state. It must be stopped.
    pub fn wipe(&self) -> anyhow::Result<()> {
        remove_folder(&self.home.emulator())
    }

    fn launcher(&self) -> PathBuf {
        self.home.emulator().join("launcher.py")
    }

    fn log(&self) -> PathBuf {
        self.home.logs().join("emulator.log")
    }

    fn settings(&self, port: u16) -> Vec<(&'static str, String)> {
        let folder = |name: &str| self.home.emulator().join(name).display().to_string();
        vec![
            // By default it listens on every interface.
            ("BIND_HOST", "127.0.0.1".to_owned()),
            ("GATEWAY_PORT", port.to_string()),
            ("MINISTACK_HOST", "127.0.0.1".to_owned()),
            ("SFTP_ENABLED", "0".to_owned()),
            ("IOT_MTLS_ENABLED", "0".to_owned()),
            ("PERSIST_STATE", "1".to_owned()),
            ("STATE_DIR", folder("state")),
            ("S3_PERSIST", "1".to_owned()),
            ("S3_DATA_DIR", folder("s3")),
            ("TMPDIR", folder("tmp")),
            ("HOME", folder("tmp")),
            // It would look for containers to remove.
            ("DOCKER_HOST", "unix:///nonexistent/docker.sock".to_owned()),
            ("LOG_LEVEL", "INFO".to_owned()),
            ("PYTHONUNBUFFERED", "1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_DEFAULT_REGION", gridpost_ops::aws_api::REGION.to_owned()),
        ]
    }

    fn log_tail(&self, from: u64) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = fs::File::open(self.log())?;
            let end = file.metadata()?.len();
            file.seek(SeekFrom::Start(from.max(end.saturating_sub(LOG_TAIL_BYTES))))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_else(|err| err.to_string())
    }
}

/// Returns whether `port` on 127.0.0.1 is free.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok()
}

/// Finds a free port on 127.0.0.1.
pub fn free_port() -> anyhow::Result<u16> {
    let mut ports = PORT_FIRST..PORT_FIRST + PORTS_TRIED;
    let last = PORT_FIRST + PORTS_TRIED - 1;
    let free = ports.find(|port| is_free(*port));
    free.with_context(|| format!("every port from {PORT_FIRST} to {last} on 127.0.0.1 is taken"))
}

async fn wait_for_answer(process: &mut Child, port: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + START_MAX;
    while !answers(port).await {
        if let Some(status) = process.try_wait()? {
            bail!("the emulator ended ({status})");
        }
        if Instant::now() >= deadline {
            // The next try starts another.
            process.start_kill()?;
            bail!("the emulator did not answer within {} s", START_MAX.as_secs());
        }
        sleep(POLL).await;
    }
    Ok(())
}

async fn answers(port: u16) -> bool {
    let url = format!("{}/_ministack/health", Emulator::url(port));
    let Ok(client) = http_client::for_url(&url) else { return false };
    let answer = client.get(&url).timeout(Duration::from_secs(3)).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_not_free() {
        let port = free_port().expect("some port is free");
        let _taken = TcpListener::bind(("127.0.0.1", port)).expect("free");
        assert!(!is_free(port));
        assert_ne!(free_port().expect("another"), port);
    }
}
