//! All end-to-end cases: what `tests/complete` runs when all that it needs is there. See `src/e2e.rs`.

use std::path::Path;
use std::process::ExitCode;

use gridpost_tests::e2e::driver::complete;

fn main() -> ExitCode {
    complete(Path::new(env!("CARGO_TARGET_TMPDIR")))
}
