//! Brings up the stack or processes, runs the cases, and takes everything down.

use std::{
    num::NonZero, panic::AssertUnwindSafe, path::Path, sync::Arc, thread::available_parallelism,
    time::Duration,
};

use anyhow::{Context, anyhow};
use futures::{FutureExt, future::join_all};
use gridpost_ops::home::remove_folder;
use gridpost_stack::python::Environment;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{Failures, Turn, beside::Beside};
use crate::e2e::{
    case::{Case, Phase},
    cases::quotas,
    fixture::Fixture,
    ground::{self, Ground},
    needs::{Needs, Place, Program},
};

/// No case waits longer; one that does is stuck.
const CASE_MAX: Duration = Duration::from_secs(10 * 60);

/// Cases wait most of their time.
const CASES_PER_PROCESSOR: usize = 10;

/// The data folders of `gridpost dev` processes, below the temporary folder.
const DEV_FOLDER: &str = "dev";

/// Runs the turns; returns the failures.
pub(super) async fn run(temporary: &Path, turns: &[Turn]) -> Failures {
    let (on_dev, on_stack): (Vec<_>, Vec<_>) =
        turns.iter().copied().partition(|turn| turn.place == Place::Dev);
    match on_stack.is_empty() {
        true => run_on_dev(temporary, &on_dev).await,
        false => run_on_stack(temporary, &on_stack, &on_dev).await,
    }
}

/// Runs one phase after the other. Cases on `gridpost dev` share only the machine with them, and
/// run beside the phase that tolerates that.
async fn run_on_stack(temporary: &Path, turns: &[Turn], on_dev: &[Turn]) -> Failures {
    let (fixture, beside) = match raise(temporary).await {
        Ok((fixture, beside)) => (Arc::new(fixture), beside),
        Err(err) => {
            let taken_down = ground::clean(temporary).await.err();
            return without_ground(err, taken_down, turns.iter().chain(on_dev));
        }
    };
    let mut failed = Vec::new();
    for phase in [Phase::Together, Phase::Disturbing, Phase::Alone, Phase::Last] {
        let of_phase: Vec<_> =
            turns.iter().filter(|turn| turn.case.phase.order() == phase).collect();
        let on_dev = if phase == Phase::Disturbing { on_dev } else { &[] };
        let (of_phase, on_dev) =
            tokio::join!(run_phase(&fixture, &of_phase, beside), run_on_dev(temporary, on_dev));
        failed.extend(of_phase.into_iter().chain(on_dev));
    }
    failed.extend(quotas::kept(&fixture).err().map(|err| ("AWS's quotas".to_owned(), err)));
    if let Err(err) = fixture.ground.down().await {
        failed.push(("taking the stack down".to_owned(), err));
    }
    failed
}

async fn raise(temporary: &Path) -> anyhow::Result<(Fixture, Beside)> {
    let beside = Beside::named()?;
    beside.goes_on(true);
    let ground = Ground::up(temporary).await?;
    Ok((Fixture::on(ground).await?, beside))
}

/// Runs the turns of a phase on the stack. What goes on beside them stands still for timed cases.
async fn run_phase(fixture: &Arc<Fixture>, turns: &[&Turn], beside: Beside) -> Failures {
    let mut failed = Vec::new();
    for turns in turns.chunk_by(|one, next| one.case.phase == next.case.phase) {
        let [Turn { case: Case { phase, .. }, .. }, ..] = turns else { continue };
        beside.goes_on(!phase.needs_quiet());
        let at_once = if phase.is_alone() { 1 } else { stack_holds() };
        failed.extend(run_turns(fixture, turns, at_once).await);
    }
    beside.goes_on(true);
    failed
}

/// Without a stack or process, every case has failed.
fn without_ground<'t>(
    error: anyhow::Error,
    taken_down: Option<anyhow::Error>,
    turns: impl Iterator<Item = &'t Turn>,
) -> Failures {
    let mut failed = vec![("bringing up what the cases run on".to_owned(), error)];
    failed.extend(taken_down.map(|err| ("taking it down".to_owned(), err)));
    let others = turns.skip(failed.len());
    failed.extend(others.map(|turn| (turn.name(), anyhow!("there is nothing to run on"))));
    failed
}

/// Runs all at once: most cases share one process, and each of the others has its own.
async fn run_on_dev(temporary: &Path, turns: &[Turn]) -> Failures {
    if turns.is_empty() {
        return Vec::new();
    }
    let ready = async {
        let lock = ground::lock(temporary, "dev.lock")?;
        let needs_python = |turn: &Turn| turn.case.needs == Needs::Program(Program::Python);
        let environment = match turns.iter().any(needs_python) {
            true => Some(ground::install_python(temporary).await?),
            false => None,
        };
        anyhow::Ok((lock, environment))
    };
    let (_lock, environment) = match ready.await {
        Ok(ready) => ready,
        Err(err) => return without_ground(err, None, turns.iter()),
    };
    let (alone, together): (Vec<_>, Vec<_>) =
        turns.iter().partition(|turn| turn.case.phase.is_alone());
    let groups = alone.into_iter().map(|turn| vec![turn]).chain([together]);
    let groups = groups.filter(|group| !group.is_empty()).enumerate();
    let runs = groups.map(|(number, group)| {
        let environment = environment.clone();
        async move { run_on_process(temporary, &number.to_string(), &group, environment).await }
    });
    join_all(runs).await.into_iter().flatten().collect()
}

/// Runs all at once on a process. Its folder stays when one fails: the log is there.
async fn run_on_process(
    temporary: &Path,
    name: &str,
    turns: &[&Turn],
    environment: Option<Environment>,
) -> Failures {
    let folder = temporary.join(DEV_FOLDER).join(name);
    let fixture = async { Fixture::on(Ground::on_dev(&folder, environment).await?).await };
    let fixture = match fixture.await {
        Ok(fixture) => Arc::new(fixture),
        Err(err) => return without_ground(err, None, turns.iter().copied()),
    };
    let mut failed = run_turns(&fixture, turns, turns.len()).await;
    if let Err(err) = fixture.ground.down().await {
        failed.push(("ending `gridpost dev`".to_owned(), err));
    }
    if failed.is_empty() {
        // If it can't be removed, the next run removes it or fails.
        let _ = remove_folder(&folder);
    } else {
        eprintln!("what `gridpost dev` kept and logged of the failed cases: {}", folder.display());
    }
    failed
}

/// Returns how many cases the stack takes at once: functions, emulator and clients share these
/// processors, and an emulator that answers nothing for 30 s fails whatever waits for it.
fn stack_holds() -> usize {
    CASES_PER_PROCESSOR * available_parallelism().map_or(1, NonZero::get)
}

/// Runs turns, so many at once.
async fn run_turns(fixture: &Arc<Fixture>, turns: &[&Turn], at_once: usize) -> Failures {
    let (mut waiting, mut running) = (turns.iter(), JoinSet::new());
    let mut failed = Vec::new();
    loop {
        while running.len() < at_once {
            let Some(turn) = waiting.next().map(|turn| **turn) else { break };
            let fixture = Arc::clone(fixture);
            running.spawn(async move {
                (turn.name(), Instant::now(), outcome(turn.case, fixture).await)
            });
        }
        let Some(Ok((name, started, outcome))) = running.join_next().await else { break };
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({:.1} s)", started.elapsed().as_secs_f64());
        failed.extend(outcome.err().map(|err| (name, err)));
    }
    failed
}

/// Runs one case; a panic in it or an endless wait is a failure of that case alone.
async fn outcome(case: Case, fixture: Arc<Fixture>) -> anyhow::Result<()> {
    let run = AssertUnwindSafe((case.run)(fixture)).catch_unwind();
    let run = timeout(CASE_MAX, run).await.context("it did not end in time")?;
    run.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow!("panicked: {}", text.unwrap_or_default()))
    })
}
