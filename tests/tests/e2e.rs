//! The end-to-end cases that need Rust alone, on `gridpost dev`. See `src/e2e.rs`.

use std::path::Path;
use std::process::ExitCode;

use gridpost_tests::e2e::driver::{Setting, rust_alone};

fn main() -> ExitCode {
    rust_alone(Setting {
        temporary: Path::new(env!("CARGO_TARGET_TMPDIR")),
        program: Path::new(env!("CARGO_BIN_EXE_gridpost-on-dev")),
    })
}
