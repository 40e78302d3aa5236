//! Measures the real programs of ingest and dispatch. See `docs/benchmarks.md`.

use std::path::Path;
use std::process::ExitCode;

use gridpost_tests::bench::driver;

fn main() -> anyhow::Result<ExitCode> {
    driver::main(Path::new(env!("CARGO_TARGET_TMPDIR")))
}
