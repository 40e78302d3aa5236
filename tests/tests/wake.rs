//! The real program of wake, built as this test is, stays within its memory and loses nothing.
//! `cargo run --release -p gridpost-tests --bin waking` does the same with half a million deliveries.

use std::path::Path;

use gridpost_tests::bench::wake::{Load, run};

/// The part of its 256 MB that wake may use, in KiB.
const PEAK_KIB_MAX: u64 = 200 * 1_024;

async fn holds(load: Load) {
    let program = Path::new(env!("CARGO_BIN_EXE_bench-wake"));
    let logs = tempfile::tempdir().expect("a folder");
    let outcome = run(program, load, logs.path()).await.expect("wake runs");
    assert_eq!((outcome.lost, outcome.repeated), (0, 0), "{load:?}: {outcome}");
    assert!(outcome.usage.peak_kib <= PEAK_KIB_MAX, "{load:?}: {outcome}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_large_deliveries_fits_memory() {
    // 210 MB: more than its memory, in one minute.
    holds(Load { deliveries: 700, bytes: 300 * 1_024, minutes: 1 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minutes_of_small_deliveries_fit_memory() {
    holds(Load { deliveries: 10_000, bytes: 1_024, minutes: 3 }).await;
}
