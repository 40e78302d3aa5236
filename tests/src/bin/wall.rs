//! A million deliveries wait behind dead endpoints, in virtual time, with SQS's wall where it is: see
//! `tests/simulation/src/wall.rs`. Wants a release build, ten minutes and 3 GB of memory.

use std::process::ExitCode;

use clap::Parser;
use gridpost_simulation::wall::{self, Plan};

/// Lives a world in which more deliveries wait than a queue may hide.
#[derive(Debug, Parser)]
struct Arguments {
    /// Deliveries to dead endpoints
    #[arg(long, default_value_t = 1_000_000)]
    deliveries: usize,

    /// Most messages of a queue in flight
    #[arg(long, default_value_t = 120_000)]
    in_flight_max: usize,

    /// From where on long waits are parked
    #[arg(long, default_value_t = 60_000)]
    retry_in_flight_limit: u64,

    /// What the dice begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let Arguments { deliveries, in_flight_max, retry_in_flight_limit, seed } = Arguments::parse();
    let found = wall::live(Plan { deliveries, in_flight_max, retry_in_flight_limit }, seed);
    println!("{found}");
    if found.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
