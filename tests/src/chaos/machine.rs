//! What may go wrong with a machine while `gridpost dev` runs on it: its disk is full, few file descriptors are to
//! be had, its clock is moved.

use std::{
    env,
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf, absolute},
    process,
    time::Duration,
};

use fastrand::Rng;
use tokio::time::{Instant, sleep};

/// The pause between two disturbances, and how long the disk is full, at least and at most, in milliseconds.
const PAUSE_MS: [u64; 2] = [3_000, 12_000];
const FULL_MS: [u64; 2] = [500, 6_000];

/// By how many seconds the clock is wrong, at most: an hour of the ledger stays.
const WRONG_S: i32 = 1_200;

const FILL: &str = "fill";
const BLOCK: usize = 64 * 1_024;

/// A machine; by default, nothing is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Whether the folder's disk is filled again and again. It should be a small one, for nothing else.
    pub fills_disk: bool,
    /// The most file descriptors of the process.
    pub open_files: Option<u32>,
    /// The library `libfaketime`, by which the process has a clock that is moved.
    pub faketime: Option<PathBuf>,
}

impl Machine {
    /// Returns what runs a program on this machine: itself, or a script in the folder.
    pub fn run_by(&self, program: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
        let mut lines = vec!["#!/bin/sh".to_owned()];
        lines.extend(self.open_files.map(|most| format!("ulimit -n {most}")));
        if let Some(library) = &self.faketime {
            let (library, clock) = (library.display(), clock());
            fs::write(&clock, "+0")?;
            lines.push("export DONT_FAKE_MONOTONIC=1 FAKETIME_NO_CACHE=1".to_owned());
            lines.push(format!("export FAKETIME_TIMESTAMP_FILE='{}'", clock.display()));
            lines.push(format!("export LD_PRELOAD='{library}'"));
        }
        if lines.len() == 1 {
            return Ok(program.to_owned());
        }
        lines.push(format!("exec '{}' \"$@\"", absolute(program)?.display()));
        fs::create_dir_all(folder)?;
        let script = folder.join("gridpost");
        fs::write(&script, lines.join("\n"))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        Ok(script)
    }

    /// Fills the disk and moves the clock at random, until then.
    pub async fn disturb_until(
        &self,
        folder: &Path,
        seed: u64,
        until: Instant,
    ) -> anyhow::Result<()> {
        let mut dice = Rng::with_seed(seed ^ 0xd157);
        let mut pause = |[least, most]: [u64; 2]| Duration::from_millis(dice.u64(least..most));
        let mut dice = Rng::with_seed(seed ^ 0xc10c);
        while Instant::now() < until {
            sleep(pause(PAUSE_MS)).await;
            if self.fills_disk {
                let file = folder.join(FILL);
                let until = Instant::now() + pause(FULL_MS);
                while Instant::now() < until {
                    fill(&file);
                    sleep(Duration::from_millis(50)).await;
                }
                let _ = fs::remove_file(&file);
            }
            if self.faketime.is_some() {
                let wrong_s = dice.i32(-WRONG_S..WRONG_S);
                // Renamed, so that it is never read half.
                let draft = clock().with_extension("draft");
                fs::write(&draft, format!("{wrong_s:+}"))?;
                fs::rename(&draft, clock())?;
                eprintln!("the clock is {wrong_s} s ahead");
            }
        }
        Ok(())
    }
}

/// Returns the file of the clock, which is not on the folder's disk.
fn clock() -> PathBuf {
    env::temp_dir().join(format!("gridpost-clock-{}", process::id()))
}

/// Writes to the end of a file until the disk is full.
fn fill(file: &Path) {
    let Ok(mut file) = File::options().create(true).append(true).open(file) else { return };
    let block = vec![0; BLOCK];
    for bytes in [BLOCK, 512, 1] {
        while file.write_all(&block[..bytes]).is_ok() {}
    }
}
