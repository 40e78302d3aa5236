//! Runs the cases on one stack and prints in the manner of Rust's own test harness.
//!
//! Cases are independent and wait most of their time, so nearly all of a [`Phase`] run at once.

use std::env;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{
    cases::{self, quotas},
    ground::{self, Ground},
    world::World,
};

/// No case waits longer; one that does is stuck.
const CASE_MAX: Duration = Duration::from_secs(10 * 60);

/// One case. Its name says what it shows.
#[derive(Clone, Copy)]
pub struct Case {
    /// `module::fact`.
    pub name: &'static str,
    /// When it runs.
    pub phase: Phase,
    /// Runs it.
    pub run: fn(Arc<World>) -> BoxFuture<'static, anyhow::Result<()>>,
}

/// Phase after phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It disturbs nobody.
    Together,
    /// It kills functions, or busies the emulator, or bears both: nothing that is timed may run beside it.
    Disturbing,
    /// It restarts the emulator, or changes the deployment: one after the other.
    Alone,
    /// It takes the deployment away.
    Last,
}

/// What the command line asks for. Flags of Rust's harness that mean nothing here are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    list: bool,
    exact: bool,
    ignored: bool,
    filters: Vec<String>,
    skips: Vec<String>,
}

impl Wanted {
    fn parse(arguments: impl Iterator<Item = String>) -> Self {
        const WITH_VALUE: [&str; 5] =
            ["--format", "--test-threads", "--color", "--logfile", "--report-time"];
        let mut wanted = Self::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => wanted.list = true,
                "--exact" => wanted.exact = true,
                "--ignored" => wanted.ignored = true,
                "--skip" => wanted.skips.extend(arguments.next()),
                name if WITH_VALUE.contains(&name) => drop(arguments.next()),
                flag if flag.starts_with('-') => {}
                _ => wanted.filters.push(argument),
            }
        }
        wanted
    }

    fn wants(&self, name: &str) -> bool {
        let hits = |filter: &String| match self.exact {
            true => name == filter,
            false => name.contains(filter.as_str()),
        };
        // None of ours is ignored.
        !self.ignored
            && (self.filters.is_empty() || self.filters.iter().any(hits))
            && !self.skips.iter().any(hits)
    }
}

/// Runs what the command line asks for; `temporary` is a folder below the target folder.
pub fn main(temporary: &Path) -> ExitCode {
    let wanted = Wanted::parse(env::args().skip(1));
    let (chosen, left_out): (Vec<Case>, Vec<Case>) =
        cases::all().into_iter().partition(|case| wanted.wants(case.name));
    if wanted.list {
        chosen.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} end-to-end tests", chosen.len());
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let failed = match (runtime, chosen.is_empty()) {
        (_, true) => Vec::new(),
        (Ok(runtime), false) => runtime.block_on(interruptible(temporary, &chosen)),
        (Err(err), false) => vec![("the tests' runtime", err.into())],
    };
    print!("{}", report(&failed));
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = chosen.len().saturating_sub(failed.len());
    println!(
        "\ntest result: {verdict}. {passed} passed; {} failed; 0 ignored; 0 measured; {} filtered out; \
         finished in {:.2}s\n",
        failed.len(),
        left_out.len(),
        started.elapsed().as_secs_f64(),
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

type Failures = Vec<(&'static str, anyhow::Error)>;

fn report(failed: &Failures) -> String {
    let mut text = String::new();
    for (name, error) in failed {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n---- {name} ----\n{error:#}\n");
    }
    text
}

/// Runs the cases, or until somebody interrupts: the stack goes down in either case.
async fn interruptible(temporary: &Path, chosen: &[Case]) -> Failures {
    tokio::select! {
        failed = run(temporary, chosen) => failed,
        () = interrupted() => {
            eprintln!("interrupted; taking the stack down");
            let mut failed = vec![("interrupted", anyhow!("the run was interrupted"))];
            if let Err(err) = ground::clean(temporary).await {
                failed.push(("taking the stack down", err));
            }
            failed
        }
    }
}

async fn interrupted() {
    let (Ok(mut terminate), Ok(mut hang_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}

async fn run(temporary: &Path, chosen: &[Case]) -> Failures {
    let world = match raise(temporary).await {
        Ok(world) => Arc::new(world),
        // Without a stack none of the cases has shown anything.
        Err(err) => {
            let mut failed = vec![("bringing the stack up", err)];
            failed.extend(ground::clean(temporary).await.err().map(|err| ("taking it down", err)));
            let others = chosen.iter().skip(failed.len());
            failed.extend(others.map(|case| (case.name, anyhow!("there is no stack to run on"))));
            return failed;
        }
    };
    let mut failed = Vec::new();
    for phase in [Phase::Together, Phase::Disturbing, Phase::Alone, Phase::Last] {
        let cases: Vec<_> = chosen.iter().filter(|case| case.phase == phase).collect();
        let at_once = if phase == Phase::Alone { 1 } else { cases.len().max(1) };
        for cases in cases.chunks(at_once) {
            failed.extend(run_at_once(&world, cases).await);
        }
    }
    failed.extend(quotas::kept(&world).err().map(|err| ("AWS's quotas", err)));
    if let Err(err) = world.ground.down().await {
        failed.push(("taking the stack down", err));
    }
    failed
}

async fn raise(temporary: &Path) -> anyhow::Result<World> {
    World::on(Ground::up(temporary).await?).await
}

async fn run_at_once(world: &Arc<World>, cases: &[&Case]) -> Failures {
    let mut running = JoinSet::new();
    for case in cases.iter().map(|case| **case) {
        let world = Arc::clone(world);
        running.spawn(async move { (case.name, Instant::now(), outcome(case, world).await) });
    }
    let mut failed = Vec::new();
    while let Some(Ok((name, started, outcome))) = running.join_next().await {
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({:.1} s)", started.elapsed().as_secs_f64());
        failed.extend(outcome.err().map(|err| (name, err)));
    }
    failed
}

/// Runs one case; a panic in it or an endless wait is a failure of that case alone.
async fn outcome(case: Case, world: Arc<World>) -> anyhow::Result<()> {
    let run = AssertUnwindSafe((case.run)(world)).catch_unwind();
    let run = timeout(CASE_MAX, run).await.context("it did not end in time")?;
    run.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow!("panicked: {}", text.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Wanted {
        Wanted::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_harness_flags_are_understood() {
        let wants = |line: &str| parse(line).wants("retrying::late_success");
        for (line, want) in [
            ("", true),
            ("late", true),
            ("other late", true),
            ("--exact late", false),
            ("--exact retrying::late_success", true),
            ("--skip retrying", false),
            ("--format terse --nocapture", true),
            ("--test-threads 1 dead", false),
            ("--ignored", false),
        ] {
            assert_eq!(wants(line), want, "{line}");
        }
        assert!(parse("--list --format terse").list);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = cases::all().into_iter().map(|case| case.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
