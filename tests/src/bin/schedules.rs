//! Plays the conformance tables' schedules on `gridpost dev` with a fast clock: see
//! `tests/src/dev/schedules.rs`.
//!
//! `cargo run -p gridpost-tests --bin schedules`

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use gridpost_tests::{
    dev::schedules::{Pace, Played, Scenario, play, scenarios},
    program,
};

/// How fast the clock runs for schedules of up to an hour, and by how many of its seconds attempts
/// may be off.
const SHORT: (u32, f64) = (60, 5.0);

/// The same for longer ones.
const LONG: (u32, f64) = (600, 60.0);

/// If a process is ended and restarted, this is between two attempts of most schedules.
const KILLED_AT: Duration = Duration::from_secs(150);

/// Plays the schedules in real deliveries and says by how much attempts were off.
#[derive(Debug, Parser)]
struct Arguments {
    /// The program `gridpost`, instead of building it
    #[arg(long)]
    gridpost: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let gridpost = match arguments.gridpost {
        Some(gridpost) => gridpost,
        None => program::gridpost().await?.to_owned(),
    };
    let (short, long): (Vec<_>, Vec<_>) = scenarios()?.into_iter().partition(Scenario::is_short);
    let again = short.iter().filter(|scenario| !scenario.is_silent()).cloned().collect();
    let (short, again, long) = tokio::join!(
        held(&gridpost, SHORT, None, short),
        held(&gridpost, SHORT, Some(KILLED_AT), again),
        held(&gridpost, LONG, None, long),
    );
    let hold = short? & again? & long?;
    Ok(if hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays scenarios at a speed; returns whether all of them hold.
async fn held(
    gridpost: &Path,
    (speed, tolerance_s): (u32, f64),
    killed_at: Option<Duration>,
    scenarios: Vec<Scenario>,
) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let played = play(gridpost, folder.path(), Pace { speed, killed_at }, scenarios).await?;
    let killed = killed_at.map_or_else(String::new, |at| format!(", killed at {} s", at.as_secs()));
    let holds = |played: &Played| {
        let holds = played.holds(tolerance_s);
        println!("{} --speed {speed}{killed}: {played}", if holds { "✓" } else { "✗" });
        holds
    };
    Ok(played.iter().map(holds).fold(true, |all, one| all & one))
}
