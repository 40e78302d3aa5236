//! Healthy endpoints beside bad ones, in virtual time: see `tests/simulation/src/neighbours.rs`.
//! Needs a release build.

use std::process::ExitCode;

fn main() -> ExitCode {
    gridpost_simulation::neighbours::run()
}
