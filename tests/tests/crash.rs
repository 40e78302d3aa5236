//! `gridpost dev`, killed many times under load, loses nothing that it has accepted, and its journal
//! agrees with what arrived; nor, if it syncs, when the power goes each time. `chaos dev` does the same for ten
//! minutes, on Event Grid's schedule.

use std::{path::Path, time::Duration};

use gridpost_tests::chaos::{
    dev::{Plan, run},
    disk::{self, Disk},
    machine::Machine,
};

const SEED: u64 = 7;

/// Half a minute at most, on a machine that has time.
fn plan() -> Plan {
    Plan {
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
    }
}

async fn check(plan: Plan, folder: &Path, disk: Option<&mut Disk>) {
    let program = gridpost_tests::program::gridpost().await.expect("it compiles");
    let found = run(program, folder, plan, disk).await.expect("it runs");
    println!("seed {SEED}: {found}");
    assert!(found.kills > 4 && found.tally.expected > 0, "seed {SEED}: {found}");
    assert!(found.holds() && found.differences.is_some(), "seed {SEED}: {found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_accepted_is_lost_when_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    check(plan(), folder.path(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_synced_is_lost_with_the_power() {
    // Few containers may mount anything.
    if !Disk::can_be_mounted() {
        return println!("not tried: it needs /dev/fuse and root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut disk =
        Disk::mount(folder.path(), disk::BYTES, Duration::from_millis(1)).expect("a disk");
    let arguments = vec!["--sync".to_owned(), "full".to_owned()];
    let plan = Plan { arguments, loses_power: true, ..plan() };
    check(plan, folder.path(), Some(&mut disk)).await;
}
