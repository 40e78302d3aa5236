//! Runs a tool to its end. Its lines are passed on and logged, and a failure shows the last ones.

use std::collections::VecDeque;
use std::env;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::fs::OpenOptions;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;

const LAST_LINES: usize = 25;

/// Makes a command without Cargo's variables, which would make a Cargo below it build everything again.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_set_by_cargo) {
            command.env_remove(&name);
        }
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn is_set_by_cargo(variable: &str) -> bool {
    const NAMES: [&str; 4] = ["CARGO", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
    const PREFIXES: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CFG_"];
    NAMES.contains(&variable) || PREFIXES.iter().any(|prefix| variable.starts_with(prefix))
}

/// Runs `command` to its end. `on_line` gets each line; `log` is replaced. The error has the last lines.
pub async fn run(
    name: &str,
    mut command: Command,
    log: &Path,
    mut on_line: impl FnMut(&str),
) -> anyhow::Result<()> {
    let mut log_file = OpenOptions::new().create(true).write(true).truncate(true).open(log).await?;
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{name} cannot be started"))?;
    let (sender, mut lines) = mpsc::channel(256);
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(forward(stdout, sender.clone()));
    }
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(forward(stderr, sender));
    }
    let mut last = VecDeque::with_capacity(LAST_LINES);
    while let Some(line) = lines.recv().await {
        on_line(&line);
        log_file.write_all(line.as_bytes()).await?;
        log_file.write_all(b"\n").await?;
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line);
    }
    log_file.flush().await?;
    let status = child.wait().await?;
    if status.success() {
        return Ok(());
    }
    let last = last.into_iter().map(|line| format!("  {line}\n")).collect::<String>();
    bail!("{name} failed ({status}); the last lines of {}:\n{last}", log.display())
}

/// Reads lines until the stream ends, replacing invalid UTF-8.
async fn forward(stream: impl AsyncRead + Unpin, lines: mpsc::Sender<String>) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    while matches!(reader.read_until(b'\n', &mut bytes).await, Ok(1..)) {
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        bytes.clear();
        if lines.send(line).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = command(Path::new("sh"));
        command.arg("-c").arg(script);
        command
    }

    #[tokio::test]
    async fn lines_are_handed_on_and_logged() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("log");
        let mut seen = Vec::new();
        let script = "echo one; echo two >&2; printf three";
        run("sh", shell(script), &log, |line| seen.push(line.to_owned())).await.expect("exits 0");
        seen.sort();
        assert_eq!(seen, ["one", "three", "two"]);
        assert_eq!(std::fs::read_to_string(log).expect("log").lines().count(), 3);
    }

    #[tokio::test]
    async fn a_failure_shows_the_last_lines() {
        let folder = tempfile::tempdir().expect("folder");
        let script = "for i in $(seq 100); do echo line $i; done; exit 3";
        let failed = run("tool", shell(script), &folder.path().join("log"), |_| ()).await;
        let message = failed.expect_err("exits 3").to_string();
        assert!(message.contains("tool failed (exit status: 3)"), "{message}");
        assert!(message.contains("line 100") && !message.contains("line 75\n"), "{message}");
    }

    #[test]
    fn the_users_own_cargo_settings_are_kept() {
        for (variable, want) in [
            ("CARGO_MANIFEST_DIR", true),
            ("CARGO_PKG_NAME", true),
            ("CARGO", true),
            ("CARGO_HOME", false),
            ("CARGO_TARGET_DIR", false),
            ("CARGO_REGISTRIES_X_INDEX", false),
            ("PATH", false),
        ] {
            assert_eq!(is_set_by_cargo(variable), want, "{variable}");
        }
    }
}
