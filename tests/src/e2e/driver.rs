//! Runs the cases and prints like Rust's own test harness.
//!
//! Cases are independent and wait most of their time, so many of a phase run at once.

mod beside;
mod run;

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::{case::Case, cases, ground, needs::Place};

/// The command line. Flags of Rust's harness that have no meaning here are ignored.
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
        // No case is ever ignored.
        !self.ignored
            && (self.filters.is_empty() || self.filters.iter().any(hits))
            && !self.skips.iter().any(hits)
    }
}

/// A case in one of its places.
#[derive(Clone, Copy)]
struct Turn {
    case: Case,
    place: Place,
    is_complete: bool,
}

impl Turn {
    /// Its name in that place, which says so if only some cases run on `gridpost dev`.
    fn name(&self) -> String {
        match (self.place, self.is_complete) {
            (Place::Dev, true) => format!("{} on dev", self.case.name),
            _ => self.case.name.to_owned(),
        }
    }
}

/// The turns of a command, and the cases that have no turn.
fn turns(is_complete: bool) -> (Vec<Turn>, Vec<Case>) {
    let (mut turns, mut left_out) = (Vec::new(), Vec::new());
    for case in cases::all() {
        let before = turns.len();
        let places = [Place::Stack, Place::Dev].into_iter();
        let places = places.filter(|place| case.needs.allow(*place, is_complete));
        turns.extend(places.map(|place| Turn { case, place, is_complete }));
        left_out.extend((turns.len() == before).then_some(case));
    }
    (turns, left_out)
}

/// Runs the selected cases of `cargo test`: those that need only Rust, on `gridpost dev`. Lists the
/// others.
pub fn rust_alone(temporary: &Path) -> ExitCode {
    main(temporary, false)
}

/// Runs the selected cases of `tests/complete`: all of them on a stack, and on `gridpost dev` those
/// that `cargo test` can't run there.
pub fn complete(temporary: &Path) -> ExitCode {
    main(temporary, true)
}

fn main(temporary: &Path, is_complete: bool) -> ExitCode {
    let wanted = Wanted::parse(env::args().skip(1));
    let (turns, left_out) = turns(is_complete);
    let all = turns.len();
    let chosen: Vec<_> = turns.into_iter().filter(|turn| wanted.wants(&turn.name())).collect();
    if wanted.list {
        chosen.iter().for_each(|turn| println!("{}: test", turn.name()));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} end-to-end tests", chosen.len());
    let left_out: Vec<_> = left_out.into_iter().filter(|case| wanted.wants(case.name)).collect();
    for Case { name, needs, .. } in &left_out {
        println!("test {name} ... ignored, tests/complete runs it; needs: {}", needs.text());
    }
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let failed = match runtime {
        _ if chosen.is_empty() => Vec::new(),
        Ok(runtime) => runtime.block_on(interruptible(temporary, &chosen)),
        Err(err) => vec![("the tests' runtime".to_owned(), err.into())],
    };
    print!("{}", report(&failed));
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = chosen.len().saturating_sub(failed.len());
    println!(
        "\ntest result: {verdict}. {passed} passed; {} failed; {} ignored; 0 measured; {} filtered out; \
         finished in {:.2}s\n",
        failed.len(),
        left_out.len(),
        all - chosen.len(),
        started.elapsed().as_secs_f64(),
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// The failed cases by name, and why they failed.
type Failures = Vec<(String, anyhow::Error)>;

fn report(failed: &Failures) -> String {
    let mut text = String::new();
    for (name, error) in failed {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n---- {name} ----\n{error:#}\n");
    }
    text
}

/// Runs the cases until they end or are interrupted. In both cases the stack goes down and
/// processes end.
async fn interruptible(temporary: &Path, chosen: &[Turn]) -> Failures {
    tokio::select! {
        failed = run::run(temporary, chosen) => failed,
        () = interrupted() => {
            eprintln!("interrupted; taking down what was started");
            let mut failed = vec![("interrupted".to_owned(), anyhow!("the run was interrupted"))];
            if chosen.iter().any(|turn| turn.place == Place::Stack)
                && let Err(err) = ground::clean(temporary).await
            {
                failed.push(("taking the stack down".to_owned(), err));
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
    fn no_case_is_without_a_turn() {
        let (alone, left_out) = turns(false);
        assert_eq!(alone.len() + left_out.len(), cases::all().len());
        assert!(alone.iter().all(|turn| turn.place == Place::Dev));
        let (complete, left_out) = turns(true);
        assert!(left_out.is_empty(), "the complete command leaves out what nothing else runs");
        let on_stack = complete.iter().filter(|turn| turn.place == Place::Stack).count();
        assert_eq!(on_stack, cases::all().len());
        let mut names: Vec<_> = complete.iter().map(Turn::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), complete.len());
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
