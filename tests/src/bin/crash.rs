//! Kills `gridpost dev` under load again and again: see `tests/src/dev/crash.rs`.
//!
//! `cargo run -p gridpost-tests --bin crash -- --minutes 10`

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use gridpost_tests::{
    dev::crash::{Plan, run},
    program,
};

/// Publishes to `gridpost dev` and kills it at random instants; says what is missing.
#[derive(Debug, Parser)]
struct Arguments {
    /// Minutes of publishing and killing
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,

    /// Events in a second
    #[arg(long, default_value_t = 200)]
    rate: u32,

    /// Seed of the dice
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Minutes that everything may take to end afterwards
    #[arg(long, default_value_t = 15.0)]
    settle: f64,

    /// The program `gridpost`, instead of building it
    #[arg(long)]
    gridpost: Option<PathBuf>,

    /// Where the process keeps its data; existing data is removed
    #[arg(long, default_value = "target/crash")]
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let gridpost = match arguments.gridpost {
        Some(gridpost) => gridpost,
        None => program::gridpost().await?.to_owned(),
    };
    let folder = std::path::absolute(&arguments.folder)?;
    let _ = std::fs::remove_dir_all(&folder);
    let plan = Plan {
        seed: arguments.seed,
        per_second: arguments.rate.max(1),
        lasts: Duration::from_secs_f64(arguments.minutes * 60.0),
        lives: [Duration::from_millis(100), Duration::from_secs(12)],
        long_every: 8,
        long_life: Duration::from_secs(45),
        // Longer than an attempt waits.
        hangs_for: Duration::from_secs(45),
        schedule: None,
        settles: Duration::from_secs_f64(arguments.settle * 60.0),
    };
    let told = run(&gridpost, &folder, plan).await?;
    println!("seed {}: {told}", arguments.seed);
    println!("{}", if told.holds() { "nothing is lost" } else { "IT DOES NOT HOLD" });
    Ok(if told.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
