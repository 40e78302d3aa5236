//! `gridpost rollout`: leads the functions to another version by steps, and back when an alarm goes off.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::{output::columns, target::Common};
use gridpost_ops::{
    failure::Misuse,
    given::{count_in, whole_minutes_or_number},
    progress::Progress,
    rollout::{
        alarms::{Alarm, off, see_errors},
        aws::Aws,
        plan::{Choice, Shift, left_behind, left_out, shifts},
        run::{Ended, Rollout, functions},
        steps::Pace,
    },
};

/// What goes where, and how fast.
#[derive(Args, Debug)]
pub struct RolloutArguments {
    /// Percent of the invocations that each step shifts
    #[arg(long, value_name = "PERCENT", default_value = "25", value_parser = count_in::<u8>(1..=100))]
    step: u8,

    /// How long each step is watched, including the last one, 1m to 24h; a bare number is minutes
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = watched)]
    every: u32,

    /// Only this function, optionally to another version than its newest: dispatch, ingest=7; may be given
    /// several times
    #[arg(long, value_name = "NAME[=VERSION]")]
    function: Vec<Choice>,

    /// An alarm that must not end the rollout; may be given several times
    #[arg(long, value_name = "ALARM")]
    ignore_alarm: Vec<String>,

    /// Watch no alarm: for deployments without alarms, or to go back while one is in ALARM. With --step 100
    /// it ends as soon as everything is shifted
    #[arg(long)]
    unwatched: bool,

    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Revert a rollout that was killed
    #[arg(long, conflicts_with_all = ["step", "every", "ignore_alarm", "unwatched", "dry_run"])]
    revert: bool,
}

/// Reads the minutes of a step.
fn watched(given: &str) -> Result<u32, String> {
    let minutes = whole_minutes_or_number(given)?;
    let fits = (1..=1_440).contains(&minutes);
    fits.then_some(minutes).ok_or_else(|| format!("`{given}` is not in 1m to 24h"))
}

/// Fails with [`Misuse`] when an alias is not ours to lead. It also fails when what was shifted was
/// taken back.
pub async fn run(arguments: &RolloutArguments, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    if target.is_dev() {
        let told =
            "`gridpost dev` has no versions to shift: name a deployment on AWS (--deployment)";
        return Err(Misuse(told.to_owned()).into());
    }
    let account = Aws::connect(&target).await?;
    let (prefix, progress) = (target.name_prefix(), Progress::on_stderr());
    let (found, missing) = functions(&account, &arguments.function).await?;
    if let Some(told) = left_out(prefix, &missing, &arguments.function)? {
        progress.line(&told);
    }
    let shifts = match arguments.revert {
        true => left_behind(prefix, &found)?,
        false => shifts(prefix, &found, &arguments.function)?,
    };
    // Nothing is watched, and no further step waits.
    let minutes = if arguments.unwatched && arguments.step == 100 { 0 } else { arguments.every };
    let every = Duration::from_secs(u64::from(minutes) * 60);
    let rollout = Rollout {
        account: &account,
        prefix,
        shifts: &shifts,
        pace: Pace { step: arguments.step, every },
        ignored: &arguments.ignore_alarm,
        may_be_unwatched: arguments.unwatched,
        progress: &progress,
    };
    if shifts.is_empty() {
        let told = match arguments.revert {
            true => {
                "no function is between two versions; one that is wholly at its new version goes back by \
                 --function NAME=VERSION --step 100 --unwatched"
            }
            false => "every function is at its version already",
        };
        common
            .output
            .print(&json!({"outcome": "NothingToDo", "functions": []}), |_| told.to_owned());
        return Ok(());
    }
    if arguments.revert {
        let left = rollout.take_back().await;
        common.output.tell(&taken_back(&shifts, &left), |_| rows(&shifts));
        return all_back(&left);
    }
    let alarms = rollout.alarms().await?;
    if !see_errors(&alarms) && !alarms.is_empty() {
        progress.line(
            "! no alarm sees failed runs themselves (alarms = \"ALL\" has …-function-errors): what fails \
             of a small share may go unseen",
        );
    }
    if arguments.dry_run {
        common.output.print(&planned(&rollout, &alarms), |_| planned_text(&rollout, &alarms));
        return Ok(());
    }
    progress.line(&rows(&shifts));
    let began = Instant::now();
    let ended = rollout.run(stopped()?).await;
    common.output.tell(&document(&rollout, &alarms, &ended, began.elapsed()), |_| told(&ended));
    outcome(&ended)
}

/// Resolves when the command is told to end; from then on it is told in vain, while it takes back what it
/// has shifted.
fn stopped() -> anyhow::Result<impl Future<Output = ()>> {
    let (mut interrupted, mut terminated, mut hung_up) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    );
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            _ = hung_up.recv() => {}
        }
    })
}

fn rows(shifts: &[Shift]) -> String {
    let row =
        |Shift { function, from, to }: &Shift| [function.clone(), format!("version {from} → {to}")];
    columns(&shifts.iter().map(row).collect::<Vec<_>>())
}

fn planned<A>(rollout: &Rollout<'_, A>, alarms: &[Alarm]) -> Value {
    json!({
        "outcome": "Planned",
        "functions": rollout.shifts,
        "steps": rollout.pace.steps(),
        "minutes": rollout.pace.every.as_secs() / 60,
        "alarms": alarms,
        "mayBegin": off(alarms).is_empty(),
    })
}

fn planned_text<A>(rollout: &Rollout<'_, A>, alarms: &[Alarm]) -> String {
    let minutes = rollout.pace.every.as_secs() / 60;
    let mut lines = vec![rows(rollout.shifts), String::new()];
    let at =
        |(number, percent): (u64, &u8)| format!("minute {}  {percent} percent", number * minutes);
    let steps = rollout.pace.steps();
    lines.extend((0..).zip(&steps).map(at));
    lines.push(format!("minute {}  over", steps.len() as u64 * minutes));
    lines.push(String::new());
    lines.extend(alarms.iter().map(|alarm| format!("watches {}: {}", alarm.name, alarm.state)));
    let told = match off(alarms).len() {
        0 => "nothing was changed; it could begin",
        _ => "nothing was changed; it would not begin while an alarm says that something is wrong",
    };
    lines.push(told.to_owned());
    lines.join("\n")
}

fn taken_back(shifts: &[Shift], left: &[String]) -> Value {
    json!({"outcome": "Reverted", "functions": shifts, "left": left})
}

fn document<A>(
    rollout: &Rollout<'_, A>,
    alarms: &[Alarm],
    ended: &Ended,
    lasted: Duration,
) -> Value {
    let names: Vec<_> = alarms.iter().map(|alarm| alarm.name.as_str()).collect();
    let mut document =
        json!({"functions": rollout.shifts, "alarms": names, "seconds": lasted.as_secs()});
    let members = match ended {
        Ended::Shifted => json!({"outcome": "Shifted", "percent": 100}),
        Ended::NotBegun(reason) => {
            json!({"outcome": "NotBegun", "percent": 0, "reason": reason.to_string()})
        }
        Ended::Reverted { percent, reason, left } => {
            let reason = reason.to_string();
            json!({"outcome": "Reverted", "percent": percent, "reason": reason, "left": left})
        }
    };
    for (name, value) in members.as_object().into_iter().flatten() {
        document[name] = value.clone();
    }
    document
}

fn told(ended: &Ended) -> String {
    match ended {
        Ended::Shifted => "everything goes to the new versions".to_owned(),
        Ended::NotBegun(_) => "nothing was shifted".to_owned(),
        Ended::Reverted { percent, left, .. } if left.is_empty() => {
            format!("reverted at {percent} percent: everything goes to the versions of before")
        }
        Ended::Reverted { percent, .. } => format!("reverted at {percent} percent, not all of it"),
    }
}

fn outcome(ended: &Ended) -> anyhow::Result<()> {
    match ended {
        Ended::Shifted => Ok(()),
        Ended::NotBegun(reason) => bail!("not begun: {reason}"),
        Ended::Reverted { reason, left, .. } => {
            all_back(left)?;
            bail!("reverted: {reason}")
        }
    }
}

fn all_back(left: &[String]) -> anyhow::Result<()> {
    if left.is_empty() {
        return Ok(());
    }
    bail!(
        "could not be led back: {}. `gridpost rollout --revert` tries it again; a function that is wholly at \
         its new version goes back by --function NAME=VERSION --step 100 --unwatched",
        left.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_ops::rollout::steps::Reason;

    fn rollout<'a>(shifts: &'a [Shift], progress: &'a Progress) -> Rollout<'a, ()> {
        Rollout {
            account: &(),
            prefix: "gridpost",
            shifts,
            pace: Pace { step: 50, every: Duration::from_secs(600) },
            ignored: &[],
            may_be_unwatched: false,
            progress,
        }
    }

    #[test]
    fn a_plan_says_when_what_is_shifted_and_what_is_watched() {
        let shifts = [Shift { function: "dispatch".to_owned(), from: 7, to: 12 }];
        let progress = Progress::silent();
        let rollout = rollout(&shifts, &progress);
        let alarm = |state: &str| Alarm {
            name: "gridpost-late".to_owned(),
            state: state.to_owned(),
            reason: String::new(),
        };
        let text = planned_text(&rollout, &[alarm("OK")]);
        let want = "dispatch  version 7 → 12\n\nminute 0  50 percent\nminute 10  100 percent\nminute 20  over\n\n\
                    watches gridpost-late: OK\nnothing was changed; it could begin";
        assert_eq!(text, want);
        assert!(planned_text(&rollout, &[alarm("ALARM")]).contains("would not begin"));
        let document = planned(&rollout, &[alarm("ALARM")]);
        assert_eq!((&document["steps"], &document["mayBegin"]), (&json!([50, 100]), &json!(false)));
    }

    #[test]
    fn what_was_reverted_is_a_failure_and_says_what_is_left() {
        let reverted = |left| Ended::Reverted { percent: 50, reason: Reason::Stopped, left };
        let table = [
            (Ended::Shifted, None, "Shifted"),
            (Ended::NotBegun(Reason::Stopped), Some("not begun: the command"), "NotBegun"),
            (reverted(vec![]), Some("reverted: the command was told to end"), "Reverted"),
            (
                reverted(vec!["g-wake: no".into()]),
                Some("could not be led back: g-wake: no."),
                "Reverted",
            ),
        ];
        let progress = Progress::silent();
        for (ended, want, word) in table {
            let told = outcome(&ended).err().map(|error| error.to_string());
            assert_eq!(told.is_some(), want.is_some(), "{ended:?}");
            assert!(told.unwrap_or_default().starts_with(want.unwrap_or_default()), "{ended:?}");
            let document = document(&rollout(&[], &progress), &[], &ended, Duration::from_secs(9));
            assert_eq!((&document["outcome"], &document["seconds"]), (&json!(word), &json!(9)));
        }
    }
}
