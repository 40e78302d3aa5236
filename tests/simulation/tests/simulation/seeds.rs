//! Worlds of many seeds: those that ever failed, and many others.
//!
//! `GRIDPOST_SIM_SEED=<n> cargo test -p gridpost-simulation --test simulation -- replay
//! --nocapture` lives one world again and prints all that happens in it, with
//! `GRIDPOST_SIM_WORLD=plain`, `unconverted`, `converted` or `streamed` leaves out later additions to
//! worlds; `paused`, `batched`, `repeated`, `sourced`, `restarted` or `fast` selects another test's
//! worlds.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{self, Write as _},
    ops::Range,
    panic::{self, AssertUnwindSafe},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use gridpost_simulation::{
    checker, scenario,
    world::{self, Stores},
};

/// Seeds of one run, beside those that are always lived.
const SEEDS: u64 = 4_000;

/// The number of seeds of one commit.
const SEEDS_OF_COMMIT: u64 = 10_000;

/// Seeds that once failed, one per line: the number; `plain`, `unconverted`, `converted` or `streamed`
/// to leave out later additions to worlds; and after `#` what the seed found.
const CORPUS: &str = include_str!("corpus.txt");

const FAILURES_MAX: usize = 5;

/// The seed of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seed {
    pub(super) number: u64,
    pub(super) world: Made,
}

/// How far a world is made. What is added to worlds later does not change those that are made less
/// far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// Nothing is added.
    Plain,
    /// Events are delivered in the schema that they are published in.
    Unconverted,
    /// They go to no stream and to no event bus.
    Converted,
    /// Without gaps of days in schedules.
    Streamed,
    Whole,
    /// Converted, with pauses.
    Paused,
    /// Streamed, with bad events in batches.
    Batched,
    /// One of its own, with repetitions of keys.
    Repeated,
    /// One of its own, with events of AWS services.
    Sourced,
    /// Whole, on one machine whose process is killed and restarted.
    Restarted,
    /// The same, without any other fault: the journal balances exactly.
    Killed,
    /// Paused or repeated, on one machine whose clock runs fast.
    Fast,
}

impl Made {
    /// Scenarios that have a name in the corpus.
    const NAMED: [(&str, Self); 11] = [
        ("plain", Self::Plain),
        ("unconverted", Self::Unconverted),
        ("converted", Self::Converted),
        ("streamed", Self::Streamed),
        ("paused", Self::Paused),
        ("batched", Self::Batched),
        ("repeated", Self::Repeated),
        ("sourced", Self::Sourced),
        ("restarted", Self::Restarted),
        ("killed", Self::Killed),
        ("fast", Self::Fast),
    ];

    fn named(name: &str) -> Self {
        let mut all = Self::NAMED.into_iter();
        all.find(|(known, _)| *known == name).map_or(Self::Whole, |(_, world)| world)
    }
}

impl Seed {
    /// Runs its world. Returns the finished world and what is wrong with it.
    pub(super) fn live(self, traced: bool) -> (world::Remains, Vec<String>) {
        let stores = match self.world {
            Made::Restarted | Made::Killed | Made::Fast => Stores::Embedded,
            _ => Stores::Fakes,
        };
        self.live_on(stores, traced)
    }

    fn live_on(self, stores: Stores, traced: bool) -> (world::Remains, Vec<String>) {
        let make = match self.world {
            Made::Plain => scenario::plain,
            Made::Unconverted => scenario::unconverted,
            Made::Converted => scenario::converted,
            Made::Streamed => scenario::streamed,
            Made::Whole => scenario::mixed,
            Made::Paused => scenario::paused,
            Made::Batched => scenario::batched,
            Made::Repeated => scenario::repeated,
            Made::Sourced => scenario::sourced,
            Made::Restarted => scenario::restarted,
            Made::Killed => scenario::killed,
            Made::Fast => scenario::fast,
        };
        let remains = world::run_on(stores, &make(self.number), self.number, traced);
        let failures = match self.world {
            Made::Fast => checker::check_at_any_speed(&remains),
            _ => checker::check(&remains),
        };
        (remains, failures)
    }

    fn replay(self) -> String {
        let mut named = Made::NAMED.into_iter().filter(|(_, world)| *world == self.world);
        let name = named.next().map(|(name, _)| format!(" GRIDPOST_SIM_WORLD={name}"));
        let world = name.unwrap_or_default();
        format!(
            "GRIDPOST_SIM_SEED={}{world} cargo test -p gridpost-simulation --test simulation -- replay \
             --nocapture",
            self.number
        )
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

fn corpus() -> Vec<Seed> {
    let lines = CORPUS.lines().filter_map(|line| line.split('#').next());
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let read = |line: &str| {
        let (number, world) = line.split_once(' ').unwrap_or((line, ""));
        assert!(Made::named(world) != Made::Whole || world.is_empty(), "{line}");
        Seed { number: number.parse().expect("a line is a seed"), world: Made::named(world) }
    };
    lines.map(read).collect()
}

/// The first seed where `GRIDPOST_SIM_FROM` gives no number: 1, or with `commit` other ones for each
/// commit.
fn first() -> u64 {
    if env::var("GRIDPOST_SIM_FROM").as_deref() != Ok("commit") {
        return 1;
    }
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let head = head.ok().filter(|output| output.status.success());
    first_of(head.and_then(|output| String::from_utf8(output.stdout).ok()).as_deref())
}

fn first_of(commit: Option<&str>) -> u64 {
    let digits = commit.and_then(|commit| u64::from_str_radix(commit.get(..4)?, 16).ok());
    digits.unwrap_or(0) * SEEDS_OF_COMMIT + 1
}

/// How often deliveries were disturbed.
#[derive(Default)]
struct Disturbed {
    deliveries: AtomicU64,
    disturbed: AtomicU64,
    disturbances: AtomicU64,
}

impl Disturbed {
    fn count(&self, remains: &world::Remains) {
        let history = &remains.history;
        let all = &history.disturbed;
        let known = all.iter().filter(|(delivery, _)| history.accepted.contains_key(delivery));
        let (mut disturbed, mut disturbances) = (0, 0);
        for (_, found) in known {
            disturbed += 1;
            disturbances += found.len() as u64;
        }
        self.deliveries.fetch_add(history.accepted.len() as u64, Ordering::Relaxed);
        self.disturbed.fetch_add(disturbed, Ordering::Relaxed);
        self.disturbances.fetch_add(disturbances, Ordering::Relaxed);
    }

    /// The share of deliveries that were disturbed, in hundredths. Written past the test's own
    /// output, which is shown of failed tests alone.
    fn tell(&self, seeds: u64, first: u64) -> u64 {
        let [all, disturbed, disturbances] =
            [&self.deliveries, &self.disturbed, &self.disturbances]
                .map(|count| count.load(Ordering::Relaxed));
        let share = disturbed * 100 / all.max(1);
        let _ = writeln!(
            io::stderr(),
            "{seeds} seeds from {first}: {all} deliveries, {share} % of them disturbed, {disturbances} times"
        );
        share
    }
}

/// `GRIDPOST_SIM_SEEDS` sets how many beside the corpus, `GRIDPOST_SIM_FROM` where to begin: a number,
/// or `commit`.
#[test]
fn every_seed_keeps_the_promise() {
    let from = number("GRIDPOST_SIM_FROM").unwrap_or_else(first);
    let seeds = number("GRIDPOST_SIM_SEEDS").unwrap_or(SEEDS);
    let failures_max = number("GRIDPOST_SIM_FAILURES").map_or(FAILURES_MAX, |most| most as usize);
    let corpus = corpus();
    let next = AtomicU64::new(0);
    let failed = Mutex::new(BTreeMap::new());
    let disturbed = Disturbed::default();
    let work = || {
        while failed.lock().expect("no panic while held").len() < failures_max {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let further = index.checked_sub(corpus.len() as u64);
            let seed = match further {
                None => corpus[index as usize],
                Some(further) if further < seeds => {
                    Seed { number: from + further, world: Made::Whole }
                }
                Some(_) => return,
            };
            let (remains, failures) = seed.live(false);
            disturbed.count(&remains);
            if let Some(first) = failures.first() {
                let line = format!("{} # {first}", seed.replay());
                // At once: the run may take hours, or be ended.
                let _ = writeln!(io::stderr(), "{line}");
                failed.lock().expect("no panic while held").insert(index, line);
            }
        }
    };
    on_all_processors(work);
    let failed = failed.into_inner().expect("no panic while held");
    let lines: Vec<_> = failed.into_values().collect();
    assert!(lines.is_empty(), "{} failed\n{}", lines.len(), lines.join("\n"));
    let share = disturbed.tell(seeds, from);
    assert!(share < DISTURBED_MAX, "{share} % of all deliveries were disturbed");
}

/// Lives worlds on all processors, and fails with the first problem of each in which one was found.
pub(super) fn assert_all_keep(
    world: &str,
    seeds: Range<u64>,
    live: impl Fn(u64) -> Vec<String> + Sync,
) {
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let found = panic::catch_unwind(AssertUnwindSafe(|| live(seed)))
                .unwrap_or_else(|_| vec!["it panicked, as said above".to_owned()]);
            if let Some(first) = found.first() {
                let line = format!("GRIDPOST_SIM_WORLD={world} GRIDPOST_SIM_SEED={seed} # {first}");
                // Print it now: the other seeds may take long.
                let _ = writeln!(io::stderr(), "{line}");
                failed.lock().expect("no panic while held").push(line);
            }
        }
    };
    on_all_processors(work);
    let lines = failed.into_inner().expect("no panic while held");
    assert!(lines.is_empty(), "{} failed\n{}", lines.len(), lines.join("\n"));
}

/// Runs the seeds from the first of this run on; returns how much of what is counted there was.
fn assert_all_keep_and_count(
    world: &str,
    seeds: u64,
    make: fn(u64) -> scenario::Scenario,
    count: impl Fn(&world::Remains) -> usize + Sync,
) -> u64 {
    let from = number("GRIDPOST_SIM_FROM").unwrap_or_else(first);
    let counted = AtomicU64::new(0);
    assert_all_keep(world, from..from + seeds, |seed| {
        let remains = world::run_on(Stores::Fakes, &make(seed), seed, false);
        counted.fetch_add(count(&remains) as u64, Ordering::Relaxed);
        checker::check(&remains)
    });
    counted.into_inner()
}

fn on_all_processors(work: impl Fn() + Sync) {
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(2, usize::from);
        (0..threads).for_each(|_| {
            scope.spawn(&work);
        });
    });
}

/// Seeds of one run whose worlds have pauses.
const PAUSED_SEEDS: u64 = 600;

/// The worlds of other tests, with pauses and resumptions in them. `GRIDPOST_SIM_PAUSED` sets how
/// many.
#[test]
fn every_seed_keeps_the_promise_with_pauses() {
    let seeds = number("GRIDPOST_SIM_PAUSED").unwrap_or(PAUSED_SEEDS);
    let count = |remains: &world::Remains| remains.history.held.len();
    let held = assert_all_keep_and_count("paused", seeds, scenario::paused, count);
    assert!(held > seeds, "only {held} deliveries were held in {seeds} worlds");
}

/// Seeds of one run whose worlds have batches that end in parts.
const BATCHED_SEEDS: u64 = 400;

/// The worlds of other tests, with bad events in the batches of webhooks. `GRIDPOST_SIM_BATCHED` sets
/// how many.
#[test]
fn every_seed_keeps_the_promise_with_bad_events_in_batches() {
    let seeds = number("GRIDPOST_SIM_BATCHED").unwrap_or(BATCHED_SEEDS);
    let count = |remains: &world::Remains| {
        let alone = remains.history.requests.iter().filter(|made| {
            made.events == 1 && made.met.iter().any(|met| met.answer.status == Some(400))
        });
        alone.count()
    };
    let parts = assert_all_keep_and_count("batched", seeds, scenario::batched, count);
    assert!(parts > seeds / 4, "only {parts} events stood alone in {seeds} worlds");
}

/// Seeds of one run on the stores of one machine, beside those that are always lived.
const EMBEDDED_SEEDS: u64 = 100;

/// Crashes and failing calls as ever, on SQLite. Nothing is handed over twice by itself.
#[test]
fn every_seed_keeps_the_promise_on_the_stores_of_one_machine() {
    let from = number("GRIDPOST_SIM_FROM").unwrap_or_else(first);
    let further = (from..from + EMBEDDED_SEEDS).map(|number| Seed { number, world: Made::Whole });
    let (mut lines, mut kinds) = (Vec::new(), BTreeSet::new());
    for seed in corpus().into_iter().chain(further) {
        let (remains, failures) = seed.live_on(Stores::Embedded, false);
        kinds.extend(remains.history.fault_kinds.iter().copied());
        let number = seed.number;
        lines.extend(failures.first().map(|first| format!("{number} # {first}")));
    }
    assert!(lines.is_empty(), "{} failed\n{}", lines.len(), lines.join("\n"));
    for kind in ["the caller died", "a call failed", "a call took effect but failed"] {
        assert!(kinds.contains(kind), "{kind}: never");
    }
}

/// Seeds of one run with restarts.
const RESTARTED_SEEDS: u64 = 100;

/// On the stores of one machine, whose process is killed at random instants. `GRIDPOST_SIM_RESTARTED`
/// sets how many seeds.
#[test]
fn every_seed_keeps_the_promise_when_the_process_is_started_again() {
    let seeds = number("GRIDPOST_SIM_RESTARTED").unwrap_or(RESTARTED_SEEDS);
    let from = number("GRIDPOST_SIM_FROM").unwrap_or_else(first);
    let died = AtomicU64::new(0);
    assert_all_keep("restarted", from..from + seeds, |number| {
        let (remains, failures) = Seed { number, world: Made::Restarted }.live(false);
        let all = remains.history.disturbed.values().flatten();
        let in_hand = all.filter(|found| found.what == "a function died").count();
        died.fetch_add(in_hand as u64, Ordering::Relaxed);
        failures
    });
    let died = died.into_inner();
    assert!(died > seeds, "only {died} deliveries were in hand when {seeds} processes ended");
}

/// Nothing fails but the process: then the journal's ledger is what happened, to the event.
#[test]
fn the_journal_balances_exactly_when_the_process_is_killed() {
    let seeds = number("GRIDPOST_SIM_RESTARTED").unwrap_or(RESTARTED_SEEDS);
    let from = number("GRIDPOST_SIM_FROM").unwrap_or_else(first);
    assert_all_keep("killed", from..from + seeds, |number| {
        Seed { number, world: Made::Killed }.live(false).1
    });
}

/// Seeds of one run with a fast clock. Each takes seconds: wake runs for every minute of weeks.
const FAST_SEEDS: u64 = 4;

/// On the stores of one machine, whose clock runs 60 or 600 times faster than requests and calls.
/// `GRIDPOST_SIM_FAST` sets how many seeds.
#[test]
fn every_seed_keeps_the_promise_on_a_fast_clock() {
    let seeds = number("GRIDPOST_SIM_FAST").unwrap_or(FAST_SEEDS);
    let from = number("GRIDPOST_SIM_FROM").unwrap_or_else(first);
    let [held, tries, redrives] = [const { AtomicU64::new(0) }; 3];
    assert_all_keep("fast", from..from + seeds, |number| {
        let (remains, failures) = Seed { number, world: Made::Fast }.live(false);
        let publishes = remains.history.keyed.publishes();
        let again = publishes.map(|(_, publish)| publish.tries - 1).sum::<usize>();
        held.fetch_add(remains.history.held.len() as u64, Ordering::Relaxed);
        tries.fetch_add(again as u64, Ordering::Relaxed);
        redrives.fetch_add(remains.history.operated.jobs.len() as u64, Ordering::Relaxed);
        failures
    });
    let [held, tries, redrives] = [held, tries, redrives].map(AtomicU64::into_inner);
    // A few worlds need not contain everything.
    if seeds < 50 {
        return;
    }
    assert!(held > seeds / 4, "only {held} deliveries were held in {seeds} worlds");
    assert!(tries > seeds / 4, "only {tries} publishes were repeated in {seeds} worlds");
    assert!(redrives > seeds / 10, "only {redrives} redrives in {seeds} worlds");
}

/// Were more deliveries disturbed, in hundredths, hardly any would be looked at strictly.
const DISTURBED_MAX: u64 = 50;

#[test]
fn seeds_differ_with_the_commit() {
    for (commit, first) in [
        (Some("00001234"), 1),
        (Some("0001fff"), 10_001),
        (Some("ffffab"), 655_350_001),
        (Some("ab"), 1),
        (Some("not a hash"), 1),
        (None, 1),
    ] {
        assert_eq!(first_of(commit), first, "{commit:?}");
    }
}

#[test]
fn those_that_failed_are_always_lived() {
    let corpus = corpus();
    for (world, least) in [(Made::Plain, 8), (Made::Unconverted, 46)] {
        assert!(corpus.iter().filter(|seed| seed.world == world).count() >= least, "{corpus:?}");
        assert!(corpus.contains(&Seed { number: 1_905, world }), "{corpus:?}");
    }
}

#[test]
fn replay() {
    let Some(number) = number("GRIDPOST_SIM_SEED") else { return };
    let world = env::var("GRIDPOST_SIM_WORLD").unwrap_or_default();
    let (remains, failures) = Seed { number, world: Made::named(&world) }.live(true);
    for line in remains.history.trace.iter().flatten() {
        println!("{line}");
    }
    assert!(failures.is_empty(), "seed {number}:\n{}", failures.join("\n"));
}
