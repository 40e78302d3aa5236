//! End-to-end tests on the emulator. See `src/e2e.rs`.

use std::path::Path;
use std::process::ExitCode;

use gridpost_tests::e2e::driver;

fn main() -> ExitCode {
    driver::main(Path::new(env!("CARGO_TARGET_TMPDIR")))
}
