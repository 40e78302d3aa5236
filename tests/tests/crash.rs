//! `gridpost dev`, killed many times under load, loses nothing that it has accepted, and its journal
//! agrees with what arrived. `chaos dev` does the same for ten minutes, on Event Grid's schedule, and `chaos dev
//! --power-loss` also takes what was not synced each time.

use std::time::Duration;

use gridpost_tests::chaos::{
    dev::{Plan, run},
    machine::Machine,
};

const SEED: u64 = 7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_accepted_is_lost_when_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan {
        seed: SEED,
        per_second: 60,
        lasts: Duration::from_secs(12),
        lives: [Duration::from_millis(100), Duration::from_millis(1_500)],
        long_every: 0,
        long_life: Duration::ZERO,
        // An attempt would wait for 30 s.
        hangs_for: Duration::from_millis(300),
        schedule: Some(vec![1, 2, 3, 5, 8, 13]),
        // A busy machine takes longer than others; what still waits then must be in the ledger.
        settles: Duration::from_secs(300),
        machine: Machine::default(),
        arguments: Vec::new(),
        loses_power: false,
    };
    let program = gridpost_tests::program::gridpost().await.expect("it compiles");
    let found = run(program, folder.path(), plan, None).await.expect("it runs");
    println!("seed {SEED}: {found}");
    assert!(found.kills > 4 && found.tally.expected > 0, "seed {SEED}: {found}");
    assert!(found.holds() && found.differences.is_some(), "seed {SEED}: {found}");
}
