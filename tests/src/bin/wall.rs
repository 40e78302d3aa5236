//! A million deliveries wait for dead endpoints, in virtual time, with SQS's real limit: see
//! `tests/simulation/src/wall.rs`. Needs a release build, ten minutes and 3 GB of memory.

use std::process::ExitCode;

use clap::Parser;
use gridpost_simulation::wall::{self, Plan};

/// Simulates a fixture in which more deliveries wait than a queue may hide.
#[derive(Debug, Parser)]
struct Arguments {
    /// Deliveries to dead endpoints
    #[arg(long, default_value_t = 1_000_000)]
    deliveries: usize,

    /// Most messages of a queue in flight
    #[arg(long, default_value_t = 120_000)]
    in_flight_max: usize,

    /// Number in flight above which long waits are parked
    #[arg(long, default_value_t = 60_000)]
    retry_in_flight_limit: u64,

    /// Seed of the dice
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let Arguments { deliveries, in_flight_max, retry_in_flight_limit, seed } = Arguments::parse();
    let found = wall::live(Plan { deliveries, in_flight_max, retry_in_flight_limit }, seed);
    println!("{found}");
    if found.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
