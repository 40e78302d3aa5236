//! Publishers that repeat under a key, in worlds of their own: answers are lost on their way, copies
//! of ingest die, calls fail.

use std::collections::BTreeSet;

use gridpost_simulation::{
    checker,
    scenario::repeated,
    world::{self, Stores},
};

/// Seeds of one run, and how many of them are lived on the stores of one machine, too.
const SEEDS: u64 = 600;
const EMBEDDED_SEEDS: u64 = 60;

/// Counts of what occurred.
#[derive(Debug, Default)]
struct Seen {
    publishes: usize,
    tries: usize,
    /// Publishes that were sent again and had no fault.
    calm: usize,
    /// Publishes that were enqueued again.
    again: usize,
    kinds: BTreeSet<&'static str>,
}

impl Seen {
    fn note(&mut self, remains: &world::Remains) {
        let history = &remains.history;
        for (_, publish) in history.keyed.publishes() {
            self.publishes += 1;
            self.tries += publish.tries;
            self.calm += usize::from(publish.tries > 1 && publish.troubled == 0);
        }
        self.again += history.resent.len();
        self.kinds.extend(history.fault_kinds.iter().copied());
    }
}

fn live(stores: Stores, seed: u64) -> (world::Remains, Vec<String>) {
    let remains = world::run_on(stores, &repeated(seed), seed, false);
    let failures = checker::check(&remains);
    (remains, failures)
}

#[test]
fn a_key_makes_no_second_delivery_and_loses_none() {
    let (mut lines, mut seen) = (Vec::new(), Seen::default());
    for seed in 1..=SEEDS {
        let (remains, failures) = live(Stores::Fakes, seed);
        seen.note(&remains);
        let replay = format!("GRIDPOST_SIM_WORLD=repeated GRIDPOST_SIM_SEED={seed}");
        lines.extend(failures.first().map(|first| format!("{replay} # {first}")));
    }
    for seed in 1..=EMBEDDED_SEEDS {
        let failures = live(Stores::Embedded, seed).1;
        lines.extend(failures.first().map(|first| format!("embedded, seed {seed} # {first}")));
    }
    assert!(lines.is_empty(), "{} failed\n{}", lines.len(), lines.join("\n"));
    // A checker proves nothing about what never happens.
    assert!(seen.tries > 2 * seen.publishes && seen.calm > 100 && seen.again > 20, "{seen:?}");
    for kind in ["the caller died", "a call failed", "a call took effect but failed"] {
        assert!(seen.kinds.contains(kind), "{kind}: never");
    }
}
