//! Carries a rollout out: reads, asks [`steps`](super::steps) what follows, and shifts.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::Account;
use super::alarms::{Alarm, watched};
use super::plan::{Alias, Choice, Function, Shift, Undo, roles, stands, undo};
use super::steps::{Next, Pace, Reason, Seen, State};
use crate::{
    failure::{Misuse, chain},
    progress::Progress,
};

/// How often an alias is led back where that fails, and what is waited after the first time; it doubles.
const UNDO_TRIES: u32 = 6;
const UNDO_WAIT: Duration = Duration::from_secs(1);

/// A rollout that may begin.
pub struct Rollout<'a, A> {
    pub account: &'a A,
    pub prefix: &'a str,
    pub shifts: &'a [Shift],
    pub pace: Pace,
    pub ignored: &'a [String],
    pub may_be_unwatched: bool,
    pub progress: &'a Progress,
}

/// The end of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Shifted,
    NotBegun(Reason),
    /// All shifts were taken back, except those in `left`.
    Reverted {
        percent: u8,
        reason: Reason,
        left: Vec<String>,
    },
}

/// The functions that were chosen, as they are, and those that the deployment does not have.
pub async fn functions(
    account: &impl Account,
    chosen: &[Choice],
) -> anyhow::Result<(Vec<Function>, Vec<&'static str>)> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for role in roles(chosen) {
        let alias = account.alias(role).await?;
        match account.versions(role).await? {
            Some(versions) => found.push(Function { role: role.to_owned(), alias, versions }),
            None => missing.push(role),
        }
    }
    Ok((found, missing))
}

impl<A: Account> Rollout<'_, A> {
    /// The alarms that are watched. Fails with [`Misuse`] when they are not those that were expected.
    pub async fn alarms(&self) -> anyhow::Result<Vec<Alarm>> {
        if self.may_be_unwatched {
            return Ok(Vec::new());
        }
        let found = self.account.alarms().await?;
        Ok(watched(self.prefix, found, self.ignored, self.may_be_unwatched)?)
    }

    /// Shifts by steps until everything is shifted, an alarm goes off, or `stop` resolves.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Ended {
        let mut stop = pin!(stop);
        let began = Instant::now();
        let (mut state, mut look_at) = (State::default(), Duration::ZERO);
        loop {
            let seen = tokio::select! {
                biased;
                () = &mut stop => Seen::Stop,
                seen = self.look(began + look_at) => seen,
            };
            let now = began.elapsed();
            if let Seen::Nothing(why) = &seen {
                self.progress.line(&format!("! the alarms can't be read: {why}"));
            }
            state = state.after(&seen, now);
            match state.next(self.pace, &seen, now) {
                Next::Look(at) => look_at = at,
                Next::Done => return Ended::Shifted,
                Next::Revert(reason) => return self.revert(state.percent, reason).await,
                Next::Shift(percent) => match self.shift(state.percent, percent).await {
                    Ok(()) => {
                        self.progress.line(&self.told(percent));
                        state = state.shifted(percent, began.elapsed());
                    }
                    // Some may be shifted.
                    Err(error) => {
                        return self.revert(percent, Reason::Refused(chain(&error))).await;
                    }
                },
            }
        }
    }

    async fn look(&self, at: Instant) -> Seen {
        sleep_until(at).await;
        match self.alarms().await {
            Ok(alarms) => Seen::Alarms(alarms),
            Err(error) => Seen::Nothing(chain(&error)),
        }
    }

    /// Makes one step, of all functions. One that stands elsewhere than the last step led it is left.
    async fn shift(&self, from: u8, to: u8) -> anyhow::Result<()> {
        for shift in self.shifts {
            let role = shift.function.as_str();
            let name = format!("{}-{role}", self.prefix);
            let alias = self.account.alias(role).await?.unwrap_or_default();
            if !stands(&alias, shift.route(from)) {
                return Err(Misuse(format!("{name} was led elsewhere meanwhile")).into());
            }
            self.account.lead(role, shift.route(to), &alias.revision).await?;
        }
        Ok(())
    }

    async fn revert(&self, percent: u8, reason: Reason) -> Ended {
        if percent == 0 {
            return Ended::NotBegun(reason);
        }
        self.progress
            .line(&format!("! {reason}: all functions go back to their versions of before"));
        let left = self.take_back().await;
        Ended::Reverted { percent, reason, left }
    }

    /// Takes all shifts back, the last one first. What can't be taken back is told, and why.
    pub async fn take_back(&self) -> Vec<String> {
        let mut left = Vec::new();
        for shift in self.shifts.iter().rev() {
            if let Err(why) = self.take_one_back(shift).await {
                left.push(format!("{}-{}: {why}", self.prefix, shift.function));
            }
        }
        left
    }

    async fn take_one_back(&self, shift: &Shift) -> Result<(), String> {
        let role = shift.function.as_str();
        let mut why = String::new();
        for tried in 0..UNDO_TRIES {
            if tried > 0 {
                sleep(UNDO_WAIT * 2_u32.pow(tried - 1)).await;
            }
            // Read anew each time: a call that failed may have been carried out.
            let alias: Alias = match self.account.alias(role).await {
                Ok(alias) => alias.unwrap_or_default(),
                Err(error) => {
                    why = chain(&error);
                    continue;
                }
            };
            match undo(shift, &alias) {
                Undo::Nothing => return Ok(()),
                Undo::Foreign => return Err("was led elsewhere meanwhile, and stays there".into()),
                Undo::Lead(revision) => {
                    match self.account.lead(role, shift.route(0), &revision).await {
                        Ok(()) => return Ok(()),
                        Err(error) => why = chain(&error),
                    }
                }
            }
        }
        Err(why)
    }

    fn told(&self, percent: u8) -> String {
        let minutes = self.pace.every.as_secs() / 60;
        let what = if percent == 100 { "everything goes" } else { "of the invocations go" };
        let share = if percent == 100 { String::new() } else { format!("{percent} percent ") };
        format!("{share}{what} to the new versions; watched for {minutes} min")
    }
}

#[cfg(test)]
mod tests;
