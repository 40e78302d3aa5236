//! The end-to-end cases that need Rust alone, on `gridpost dev`. See `src/e2e.rs`.

use std::path::Path;
use std::process::ExitCode;

use gridpost_tests::e2e::driver::rust_alone;

fn main() -> ExitCode {
    rust_alone(Path::new(env!("CARGO_TARGET_TMPDIR")))
}
