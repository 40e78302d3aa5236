//! Finds and ends the processes of a local stack, by the stack's folder in their command line: a recorded id
//! may be another process's by now.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

const KILL_MAX: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// Otherwise it is a function that the emulator started.
    pub is_emulator: bool,
}

/// Finds the processes that run `launcher`, and those whose program is below `folder`.
pub fn of_stack(folder: &Path, launcher: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // It may be gone, or a zombie, whose command line is empty.
        let command_line = fs::read(entry.path().join("cmdline")).ok()?;
        let is_emulator = belongs(&command_line, folder, launcher)?;
        Some(Process { pid, is_emulator })
    });
    processes.collect()
}

/// Whether a command line (arguments that end in NUL) is the stack's, and if so the emulator's.
fn belongs(command_line: &[u8], folder: &Path, launcher: &Path) -> Option<bool> {
    let mut arguments = command_line.split(|byte| *byte == 0);
    let program = arguments.next()?;
    if arguments.next() == Some(launcher.as_os_str().as_bytes()) {
        return Some(true);
    }
    let program = Path::new(std::ffi::OsStr::from_bytes(program));
    program.starts_with(folder).then_some(false)
}

/// Ends the emulator and then all of the stack. Returns whether the emulator ended by itself within
/// `patience`, which saves its state. Fails if something survives `SIGKILL`.
pub async fn stop(folder: &Path, launcher: &Path, patience: Duration) -> anyhow::Result<bool> {
    let emulators = || of_stack(folder, launcher).into_iter().filter(|process| process.is_emulator);
    emulators().for_each(|process| signal(process.pid, Signal::TERM));
    let has_saved = wait_until(patience, || emulators().next().is_none()).await;
    of_stack(folder, launcher).iter().for_each(|process| signal(process.pid, Signal::KILL));
    if !wait_until(KILL_MAX, || of_stack(folder, launcher).is_empty()).await {
        let left = of_stack(folder, launcher);
        bail!("these processes cannot be ended: {left:?}");
    }
    Ok(has_saved)
}

async fn wait_until(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !is_so() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL).await;
    }
    true
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn belongs_table() {
        let (folder, launcher) = (Path::new("/h/emulator"), Path::new("/h/emulator/launcher.py"));
        let table: [(&str, &[u8], Option<bool>); 6] = [
            ("the emulator", b"/h/cache/python/bin/python\0/h/emulator/launcher.py\0", Some(true)),
            ("a function", b"/h/emulator/tmp/code/bootstrap\0", Some(false)),
            ("an editor", b"vim\0-R\0/h/emulator/launcher.py\0", None),
            ("another stack", b"/h2/cache/python/bin/python\0/h2/emulator/launcher.py\0", None),
            ("a folder that begins alike", b"/h/emulator2/tmp/bootstrap\0", None),
            ("a zombie", b"", None),
        ];
        for (row, command_line, want) in table {
            assert_eq!(belongs(command_line, folder, launcher), want, "{row}");
        }
    }

    #[tokio::test]
    async fn what_runs_from_the_folder_is_ended() {
        let folder = tempfile::tempdir().expect("folder");
        let launcher = folder.path().join("launcher.py");
        let program = folder.path().join("sleep");
        fs::copy("/bin/sleep", &program).expect("copied");
        let mut child = std::process::Command::new(&program).arg("60").spawn().expect("started");
        // Its command line is there a moment after it was started.
        let want = [Process { pid: child.id(), is_emulator: false }];
        let found = wait_until(PATIENCE, || of_stack(folder.path(), &launcher) == want).await;
        assert!(found, "{:?}", of_stack(folder.path(), &launcher));
        assert!(stop(folder.path(), &launcher, PATIENCE).await.expect("stopped"));
        assert!(!child.wait().expect("ended").success());
        assert_eq!(of_stack(folder.path(), &launcher), []);
    }

    #[tokio::test]
    async fn an_emulator_that_had_to_be_killed_is_told() {
        let folder = tempfile::tempdir().expect("folder");
        let launcher = folder.path().join("launcher.sh");
        let ready = folder.path().join("ready");
        let script = format!("trap '' TERM; : > {}; while :; do sleep 0.1; done", ready.display());
        fs::write(&launcher, script).expect("written");
        let mut command = std::process::Command::new("/bin/sh");
        let mut child = command.arg(&launcher).spawn().expect("started");
        assert!(wait_until(PATIENCE, || ready.exists()).await);
        let patience = Duration::from_millis(300);
        assert!(!stop(folder.path(), &launcher, patience).await.expect("stopped"));
        assert!(!child.wait().expect("ended").success());
    }
}
