//! A disk in memory that can lose its power, be slow and be full: a file system that the kernel asks this process
//! for, by FUSE. [`contents`] is what it has, and says what a loss of power leaves of it.
//!
//! Linux only. Root mounts it; others need `fusermount3`, of the package `fuse3`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context;
use fastrand::Rng;

use contents::Contents;
#[cfg(target_os = "linux")]
use mounted::{Session, mount, unmount};

pub mod contents;
#[cfg(target_os = "linux")]
mod mounted;

/// Room on the disk, in bytes, unless said otherwise.
pub const BYTES: u64 = 4 << 30;

/// A disk with a file system, mounted while this lives.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
    drive: Arc<Drive>,
    session: Option<Session>,
}

/// The disk without its place.
#[derive(Debug)]
struct Drive {
    contents: Mutex<Contents>,
    /// How many bytes it has room for.
    bytes: u64,
    /// How long a sync takes.
    sync_takes: Duration,
    has_power: AtomicBool,
    syncs: AtomicU64,
}

impl Drive {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// Mounts an empty disk.
    pub fn mount(at: &Path, bytes: u64, sync_takes: Duration) -> anyhow::Result<Self> {
        // A process that was killed has left its mount.
        detach(at);
        std::fs::create_dir_all(at)?;
        let (contents, syncs) = (Mutex::default(), AtomicU64::new(0));
        let has_power = AtomicBool::new(true);
        let drive = Arc::new(Drive { contents, bytes, sync_takes, has_power, syncs });
        let mut disk = Self { at: at.to_owned(), drive, session: None };
        disk.mount_again()?;
        Ok(disk)
    }

    fn mount_again(&mut self) -> anyhow::Result<()> {
        let mounted = mount(&self.at, Arc::clone(&self.drive));
        self.session = Some(mounted.with_context(|| format!("no disk at {}", self.at.display()))?);
        Ok(())
    }

    /// Counts the syncs of files and folders that have ended.
    pub fn syncs(&self) -> u64 {
        self.drive.syncs.load(Relaxed)
    }

    /// Cuts the power: nothing is written or synced any more.
    pub fn cut_power(&self) {
        // Under the lock, so that no change is half made.
        let _contents = self.drive.contents();
        self.drive.has_power.store(false, Relaxed);
    }

    /// Loses what was not synced, all of it or a random part, and mounts the rest. No process may use it.
    pub fn power_on(&mut self, dice: &mut Rng) -> anyhow::Result<()> {
        // The kernel forgets what it has in memory.
        self.session.take().map_or(Ok(()), unmount)?;
        let loses_all = dice.bool();
        self.drive.contents().lose((!loses_all).then_some(dice));
        self.drive.has_power.store(true, Relaxed);
        self.mount_again()
    }
}

impl Drop for Disk {
    /// Unmounts it even while files are open: a process may still be ending.
    fn drop(&mut self) {
        detach(&self.at);
    }
}

/// Unmounts what is mounted there, if anything.
fn detach(at: &Path) {
    let _ = Command::new("umount").arg("--lazy").arg(at).stderr(Stdio::null()).status();
}

#[cfg(not(target_os = "linux"))]
type Session = ();

#[cfg(not(target_os = "linux"))]
fn mount(_: &Path, _: Arc<Drive>) -> anyhow::Result<Session> {
    anyhow::bail!("such a disk needs Linux")
}

#[cfg(not(target_os = "linux"))]
fn unmount((): Session) -> anyhow::Result<()> {
    Ok(())
}
