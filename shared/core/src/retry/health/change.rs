//! How attempts change the health of their endpoint.

use std::time::Duration;

use uuid::Uuid;

use super::{
    DELAYED_WAITS_S, Delayed, Durations, FAILED_PROBE_WAIT, Health, Probation, Recovery, Row,
    UNHEALTHY_AFTER,
};
use crate::{retry::outcome::Answer, time::Timestamp};

/// Successes of other copies of dispatch are known to about a second: failures this soon after a
/// known success do not lengthen the row.
const AS_FAR_AS_KNOWN: Duration = Duration::from_secs(1);

/// How old the shared time of a success is before it is rewritten, while attempts fail and succeed.
const SUCCESS_TOLD_AFTER: Duration = Duration::from_millis(600);
const _: () = assert!(SUCCESS_TOLD_AFTER.as_millis() < AS_FAR_AS_KNOWN.as_millis());

/// How long a copy of dispatch goes on sharing its successes after the last failure it has seen.
const TOLD_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// A wait that would grow by less is left as it is, to save a write.
const EXTENDED_BY_MIN: Duration = Duration::from_secs(1);

/// How old the last recorded failure is before one that changes nothing else is recorded.
const FAILURE_NOTED_AFTER: Duration = Duration::from_secs(60);

/// A failed attempt, as the health sees it.
#[derive(Clone, Copy, Debug)]
pub struct FailedAttempt {
    /// The first of those sent together: one request fails once.
    pub delivery: Uuid,
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    pub answer: Answer,
    /// The last success that this copy of dispatch has seen. Successes are not written while
    /// nothing fails, so the failure reports them.
    pub last_success_at: Option<Timestamp>,
}

/// An attempt that succeeded, as the health sees it.
#[derive(Clone, Copy, Debug)]
pub struct SuccessfulAttempt {
    pub began_at: Timestamp,
    pub ended_at: Timestamp,
    /// Whether an operator asked for it.
    pub asked_for: bool,
}

/// What a copy of dispatch has seen of an endpoint in its own attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenAttempts {
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
}

/// Returns the health after several failed attempts, in the order of their ends; `None` if
/// there is nothing to write. Attempts counted by an earlier write are not counted again.
pub fn after_failures(
    health: &Health,
    durations: &Durations,
    failed: &[FailedAttempt],
) -> Option<Health> {
    let is_counted =
        |failed: &FailedAttempt| health.counted == Some((failed.delivery, failed.began_at));
    let counted = failed.iter().rposition(is_counted).map_or(0, |last| last + 1);
    failed[counted..].iter().fold(None, |changed, failed| {
        let next = after_failure(changed.as_ref().unwrap_or(health), durations, *failed);
        next.or(changed)
    })
}

/// Returns the health after a failed attempt; `None` if there is nothing to write: the attempt
/// was counted before, or it was under way when a wait began and lengthens none.
pub fn after_failure(
    health: &Health,
    durations: &Durations,
    failed: FailedAttempt,
) -> Option<Health> {
    let request = (failed.delivery, failed.began_at);
    if health.counted == Some(request) {
        return None;
    }
    // Only an attempt that began after both waits were over is a probe.
    let probed = health.until().is_some_and(|until| failed.began_at >= until);
    let row = row_after(health, failed, probed);
    // A probe is under way, and it alone decides. A late failure must neither turn the
    // probe's success into one of a wait, nor keep its claim and so all others waiting.
    let probing = !probed
        && health.until().is_some_and(|until| failed.ended_at >= until)
        && health.probe.is_some_and(|probe| failed.ended_at < probe.lease_until);
    let (delayed, probation) = if probing {
        (health.delayed, health.probation)
    } else {
        let delayed = delayed_after(health, row, failed, probed);
        (delayed, probation_after(health, durations, delayed, failed, probed))
    };
    let broken = row.failures < health.row.failures;
    let next = Health {
        row,
        probation,
        delayed,
        probe: health.probe.filter(|_| !probed),
        last_success_at: if broken {
            known_success(health, failed)
        } else {
            health.last_success_at
        },
        counted: Some(request),
        ..health.clone()
    };
    let noted = health.row.last_at.is_some_and(|at| failed.ended_at < at + FAILURE_NOTED_AFTER);
    let same = (next.row.failures, next.row.since) == (health.row.failures, health.row.since)
        && (next.probation, next.delayed) == (health.probation, health.delayed);
    (!same || !noted).then_some(next)
}

fn known_success(health: &Health, failed: FailedAttempt) -> Option<Timestamp> {
    health.last_success_at.max(failed.last_success_at)
}

/// Returns the row of failures. A success breaks it; from [`UNHEALTHY_AFTER`] on it counts probes.
fn row_after(health: &Health, failed: FailedAttempt, probed: bool) -> Row {
    let success = known_success(health, failed);
    let mut row = health.row;
    if health.delayed.is_none() && row.since.is_some_and(|since| success >= Some(since)) {
        (row.failures, row.since) = (0, None);
    }
    let too_soon = success.is_some_and(|at| failed.ended_at < at + AS_FAR_AS_KNOWN);
    if probed || (!too_soon && row.failures < UNHEALTHY_AFTER) {
        row.failures = row.failures.saturating_add(1);
        row.since = row.since.or(Some(failed.ended_at));
    }
    row.last_at = row.last_at.max(Some(failed.ended_at));
    row
}

fn delayed_after(
    health: &Health,
    row: Row,
    failed: FailedAttempt,
    probed: bool,
) -> Option<Delayed> {
    let step = match health.delayed {
        Some(wait) if probed => wait.step.saturating_add(1),
        None if row.failures >= UNHEALTHY_AFTER => 1,
        same => return same,
    };
    let (since, Answer { outcome, status, .. }) = (failed.ended_at, failed.answer);
    Some(Delayed { step, since, until: since + delayed_wait(step), outcome, status })
}

fn delayed_wait(step: u32) -> Duration {
    let index = (step.max(1) as usize - 1).min(DELAYED_WAITS_S.len() - 1);
    Duration::from_secs(u64::from(DELAYED_WAITS_S[index]))
}

/// Returns the probation after a failed attempt. A failed probe always waits.
fn probation_after(
    health: &Health,
    durations: &Durations,
    delayed: Option<Delayed>,
    failed: FailedAttempt,
    probed: bool,
) -> Option<Probation> {
    let least = (probed && delayed.is_none()).then_some(FAILED_PROBE_WAIT);
    let asked = durations.of(failed.answer.outcome).max(least).map(|wait| failed.ended_at + wait);
    let current = health.probation.filter(|_| !probed);
    let Some(until) = asked else { return current };
    let Answer { outcome, status, .. } = failed.answer;
    match current {
        Some(wait) if until < wait.until + EXTENDED_BY_MIN => current,
        Some(wait) => Some(Probation { until, outcome, status, ..wait }),
        None => Some(Probation { since: failed.ended_at, until, outcome, status }),
    }
}

/// Returns the health after a success; usually `None`, for nothing to write. `spread` is the time
/// in which deliveries come back to a health that [waits](Health::is_waiting).
///
/// A probe, which began when both waits were over, ends them, and so does an attempt that an
/// operator asked for. An earlier attempt ends none, but its success breaks the row of failures and
/// lifts a first delayed wait that the row has caused.
pub fn after_success(
    health: &Health,
    success: SuccessfulAttempt,
    spread: Duration,
) -> Option<Health> {
    let SuccessfulAttempt { began_at, ended_at, asked_for } = success;
    let ends = health.until().is_some_and(|until| began_at >= until);
    let last_wait = health.wait_starts().max();
    if ends || (asked_for && last_wait.is_some_and(|since| began_at >= since)) {
        let over = health.bounded(spread, ended_at);
        let recovered = Some(Recovery { at: ended_at, over });
        return Some(Health { recovered, last_success_at: Some(ended_at), ..health.opened() });
    }
    broken_by(health, ended_at)
}

/// Adds a copy of dispatch's own observations to the health it has read; `None` if nothing is new.
///
/// Successes are not written while nothing fails, so one copy may count ten failures in a row while
/// others see successes. Each copy calls this at every read: its success breaks the others' row,
/// and lifts the first delayed wait. It shares a success at most twice a second.
pub fn evidence(health: &Health, seen: SeenAttempts, now: Timestamp) -> Option<Health> {
    let success = seen.last_success_at?;
    let broken = broken_by(health, success);
    if broken.is_some() {
        return broken;
    }
    let fails = seen.last_failure_at.is_some_and(|at| now < at + TOLD_AFTER_FAILURE);
    let old = health.last_success_at.is_some_and(|at| success >= at + SUCCESS_TOLD_AFTER);
    (fails && old && health.delayed.is_none())
        .then(|| Health { last_success_at: Some(success), ..health.clone() })
}

/// Returns the health after a success has broken a row; later failed probes outweigh it.
fn broken_by(health: &Health, success: Timestamp) -> Option<Health> {
    let in_row = health.row.since.is_some_and(|since| success >= since);
    if !in_row || health.delayed.is_some_and(|wait| wait.step > 1) {
        return None;
    }
    let row = Row { last_at: health.row.last_at, ..Row::default() };
    let last_success_at = health.last_success_at.max(Some(success));
    let lifted = Health { row, delayed: None, last_success_at, ..health.clone() };
    let probe = lifted.probe.filter(|_| lifted.is_waiting());
    Some(Health { probe, ..lifted })
}
