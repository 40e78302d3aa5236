//! Replays the seeds of the fuzz targets, and mutations of them, through the same functions that
//! libFuzzer drives.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use gridpost_fuzz::targets;
use tokio::time::Instant;

/// Mutations of each seed.
const MUTATIONS: u64 = 200;

/// Far more than any input of a few kilobytes needs, even unoptimised on a busy machine.
const SLOW: Duration = Duration::from_secs(5);

fn seeds(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{target}: {error}"));
    let mut files: Vec<_> = files.flatten().map(|entry| entry.path()).collect();
    files.sort();
    assert!(files.len() > 2, "{target} has {} seeds", files.len());
    files
}

fn run(target: &str, run: fn(&[u8]), input: &[u8]) {
    let begun = Instant::now();
    run(input);
    let took = begun.elapsed();
    assert!(took < SLOW, "{target} takes {took:?} for {}", input.escape_ascii());
}

#[test]
fn every_seed_holds_what_its_target_asserts() {
    for (target, function) in targets::TARGETS {
        for path in seeds(target) {
            let seed = fs::read(&path).expect("a seed");
            run(target, function, &seed);
            let mut dice = fastrand::Rng::with_seed(seed.len() as u64);
            for _ in 0..MUTATIONS {
                run(target, function, &mutated(&seed, &mut dice));
            }
        }
    }
}

/// The seed with a few bytes changed, cut, doubled or moved.
fn mutated(seed: &[u8], dice: &mut fastrand::Rng) -> Vec<u8> {
    const BYTES: &[u8] = b"{}[]\",:\\0-e.tfn \n\xff\xc3%&=+";
    let mut input = seed.to_vec();
    for _ in 0..dice.usize(1..6) {
        let at = dice.usize(0..=input.len());
        match dice.u8(0..5) {
            0 => input.insert(at, BYTES[dice.usize(..BYTES.len())]),
            1 if at < input.len() => input[at] = dice.u8(..),
            2 if at < input.len() => drop(input.remove(at)),
            3 => {
                let part = input[at..(at + dice.usize(0..40)).min(input.len())].to_vec();
                let to = dice.usize(0..=input.len());
                input.splice(to..to, part);
            }
            _ => input.truncate(at.max(input.len() / 2)),
        }
    }
    input
}
