//! Parks deliveries, runs the real program of wake until all are back in their queue, and prints
//! how much memory it took. Needs wake's program: `cargo build --release --bin wake`; and some 300
//! bytes of memory for each delivery besides those of its message.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use gridpost_tests::bench::wake::{Load, run};

/// Measures wake after an outage.
#[derive(Debug, Parser)]
struct Arguments {
    /// wake's program
    #[arg(long, default_value = "target/release/wake")]
    program: PathBuf,

    /// Parked deliveries: as many as an outage of 3 h leaves at 50 events a second
    #[arg(long, default_value_t = 540_000)]
    deliveries: u64,

    /// Bytes of each message
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,

    /// Minutes that they are due in
    #[arg(long, default_value_t = 1)]
    minutes: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let Arguments { program, deliveries, bytes, minutes } = Arguments::parse();
    let logs = tempfile::tempdir()?;
    let outcome = run(&program, Load { deliveries, bytes, minutes }, logs.path()).await?;
    println!("{outcome}");
    Ok(if outcome.lost == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
