//! Decides whether an endpoint may be called: probation, delayed delivery, and what ends them.
//!
//! *Probation* follows a failed attempt with certain outcomes; *delayed delivery* follows ten
//! failures in a row and grows with every failed probe. Once both are over, one delivery probes.
//! [`admit`] decides about a delivery; [`after_failure`], [`after_success`] and [`evidence`]
//! compute the next health, which is kept in a table and written conditionally.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    outcome::{Answer, Outcome, RESPONSE_WAIT},
    profile::Rule,
    slow_endpoint::Slowness,
};
use crate::{
    retry::Rules,
    time::{Pace, Timestamp},
};

/// The treatment of events that come during a probation caused by a client error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
pub enum ProbationPolicy {
    /// They end at once if the profile does not retry that error.
    #[default]
    EventGrid,
    Delay,
}

/// Failures in a row that begin delayed delivery.
pub const UNHEALTHY_AFTER: u32 = 10;

/// The waits of delayed delivery, in seconds: one more with every failed probe; the last repeats.
pub const DELAYED_WAITS_S: [u32; 6] = [60, 300, 600, 1_800, 3_600, 10_800];
pub const FAILED_PROBE_WAIT: Duration = Duration::from_secs(10);

/// When another delivery may probe, if nothing is heard of a claimed probe.
const PROBE_LEASE: Duration = Duration::from_secs(60);
const _: () = assert!(PROBE_LEASE.as_secs() > RESPONSE_WAIT.as_secs());

/// When deliveries come back that find a probe under way: half the time after which an endpoint
/// that never answers fails it, so that few come back twice.
const PROBED_LOOK_AGAIN: Duration = Duration::from_secs(20);
const _: () = assert!(2 * PROBED_LOOK_AGAIN.as_secs() > RESPONSE_WAIT.as_secs());

/// The shortest spread of the end of a wait: the size of the backlog is known late.
const SPREAD_MIN: Duration = Duration::from_secs(3);

/// In its first seconds, a copy of dispatch that has seen a success may lift the first delayed
/// wait (see [`evidence`]). Deliveries that come then return soon, ...
const LIFTED_WITHIN: Duration = Duration::from_secs(2);

/// ... after at least this, and up to twice as much.
const LIFTED_LOOK_AGAIN: Duration = Duration::from_secs(2);

/// After a recovery, each copy of dispatch admits 1, 2, 4, … deliveries per second, and after this
/// many seconds any number.
const ADMISSION_DOUBLINGS: u64 = 10;

/// When deliveries come back that a recovery does not admit yet.
const LIMITED_LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long each outcome puts an event subscription on probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations(BTreeMap<Outcome, u32>);

impl Default for Durations {
    /// Source: Event Grid, "Message delivery and retry", section "Probation".
    fn default() -> Self {
        Self(BTreeMap::from([
            (Outcome::Busy, 10),
            (Outcome::TimedOut, 10),
            (Outcome::SocketError, 30),
            (Outcome::NotFound, 300),
            (Outcome::ResolutionError, 300),
            (Outcome::Disabled, 300),
            (Outcome::Full, 300),
            (Outcome::Unauthorized, 300),
            (Outcome::Forbidden, 300),
            (Outcome::InvalidFunctionDestination, 600),
        ]))
    }
}

impl Durations {
    /// Overrides durations, in seconds; 0 means no probation.
    #[must_use]
    pub fn with(mut self, own: BTreeMap<Outcome, u32>) -> Self {
        self.0.extend(own);
        self
    }

    /// Returns how long an outcome puts an event subscription on probation, if at all.
    pub fn of(&self, outcome: Outcome) -> Option<Duration> {
        let seconds = self.0.get(&outcome).copied().filter(|seconds| *seconds > 0);
        seconds.map(|seconds| Duration::from_secs(u64::from(seconds)))
    }
}

/// The health of one event subscription's endpoint. The default is healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Health {
    pub row: Row,
    /// In force, or to be ended by a probe.
    pub probation: Option<Probation>,
    /// In force, or to be ended by a probe.
    pub delayed: Option<Delayed>,
    pub probe: Option<Probe>,
    pub recovered: Option<Recovery>,
    /// A success that a copy of dispatch has shared while attempts fail. Successes are not written
    /// while nothing fails, so there may be later ones.
    pub last_success_at: Option<Timestamp>,
    pub slow: Slowness,
    /// The last counted failed request (first delivery, start): a repeated write counts once.
    pub counted: Option<(Uuid, Timestamp)>,
    /// Counts its writes; a write is conditional on the revision it read.
    #[serde(skip)]
    pub revision: u64,
}

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Row {
    /// From [`UNHEALTHY_AFTER`] on, only failed probes are counted.
    pub failures: u32,
    /// When the first of them ended.
    pub since: Option<Timestamp>,
    /// When the last failure ended, in this row or before it. Up to a minute old while failures
    /// change nothing else.
    pub last_at: Option<Timestamp>,
}

/// A time without attempts, caused by the outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probation {
    pub since: Timestamp,
    pub until: Timestamp,
    pub outcome: Outcome,
    pub status: Option<u16>,
}

/// A time without attempts, caused by too many failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delayed {
    /// The index in [`DELAYED_WAITS_S`], from 1; beyond the last, the last repeats.
    pub step: u32,
    pub since: Timestamp,
    pub until: Timestamp,
    /// Of the last failure before it.
    pub outcome: Outcome,
    /// Of the last failure before it.
    pub status: Option<u16>,
}

/// A claimed probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    pub delivery: Uuid,
    /// When another delivery may probe.
    pub lease_until: Timestamp,
}

/// A success that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    pub at: Timestamp,
    /// The time over which waiting deliveries come back.
    pub over: Duration,
}

/// The cause of a wait, of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    pub outcome: Outcome,
    pub status: Option<u16>,
}

/// The state of a health at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    Healthy,
    /// A success has ended a wait; waiting deliveries are admitted gradually.
    Recovering {
        since: Timestamp,
        /// When all waiting deliveries should have come back.
        until: Timestamp,
    },
    Probation(Probation),
    /// There may be a probation, too.
    DelayedDelivery(Delayed),
    /// The next delivery that is due probes.
    AwaitingProbe {
        since: Timestamp,
    },
    Probing(Probe),
}

/// The state of a health, in the resource API's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Healthy,
    Recovering,
    /// Lasts until a probe has ended it.
    Probation,
    /// Lasts until a probe has ended it.
    DelayedDelivery,
}

/// The effect on an event that comes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Attempted,
    /// It waits, or probes when both waits are over.
    Waits,
    /// It ends at once, with outcome `Probation`.
    Ends,
}

impl Health {
    /// Returns whether attempts are held back, by a wait in force or one that a probe must end.
    pub fn is_waiting(&self) -> bool {
        self.until().is_some()
    }

    /// Returns when the later of the two waits ends, or ended.
    pub fn until(&self) -> Option<Timestamp> {
        let probation = self.probation.map(|wait| wait.until);
        probation.max(self.delayed.map(|wait| wait.until))
    }

    /// Returns when the earlier of the two waits began.
    pub fn since(&self) -> Option<Timestamp> {
        self.wait_starts().min()
    }

    fn wait_starts(&self) -> impl Iterator<Item = Timestamp> {
        let probation = self.probation.map(|wait| wait.since);
        probation.into_iter().chain(self.delayed.map(|wait| wait.since))
    }

    /// Returns the cause of the wait that ends later.
    pub fn cause(&self) -> Option<Cause> {
        let probation = self.probation.map(|wait| (wait.until, wait.outcome, wait.status));
        let delayed = self.delayed.map(|wait| (wait.until, wait.outcome, wait.status));
        let later = probation.into_iter().chain(delayed).max_by_key(|(until, ..)| *until);
        later.map(|(_, outcome, status)| Cause { outcome, status })
    }

    /// Returns whether one of its waits began at `at`.
    pub fn began_waiting_at(&self, at: Timestamp) -> bool {
        self.wait_starts().any(|since| since == at)
    }

    /// Returns the latest time in it, if there is any.
    pub fn last_change_at(&self) -> Option<Timestamp> {
        let seen = self.row.last_at.max(self.last_success_at);
        let recovered = self.recovered.map(|recovery| recovery.until());
        seen.max(self.until()).max(recovered).max(self.slow.last_change_at())
    }

    pub fn state(&self, now: Timestamp) -> HealthState {
        let Some(until) = self.until() else {
            return match self.recovered.map(|recovery| (recovery.at, recovery.until())) {
                Some((since, until)) if now < until => HealthState::Recovering { since, until },
                _ => HealthState::Healthy,
            };
        };
        let delayed = self.delayed.filter(|wait| now < wait.until);
        let probation = self.probation.filter(|wait| now < wait.until);
        let probe = self.probe.filter(|probe| now < probe.lease_until);
        match (delayed, probation, probe) {
            (Some(delayed), ..) => HealthState::DelayedDelivery(delayed),
            (None, Some(probation), _) => HealthState::Probation(probation),
            (None, None, Some(probe)) => HealthState::Probing(probe),
            (None, None, None) => HealthState::AwaitingProbe { since: until },
        }
    }

    /// Returns its state in the resource API's words: a wait is named until a probe has ended it.
    pub fn condition(&self, now: Timestamp) -> Condition {
        match self.state(now) {
            HealthState::Healthy => Condition::Healthy,
            HealthState::Recovering { .. } => Condition::Recovering,
            _ if self.delayed.is_some() => Condition::DelayedDelivery,
            _ => Condition::Probation,
        }
    }

    /// Returns what happens to an event that comes at `now`.
    pub fn effect(&self, rules: Rules<'_>, policy: ProbationPolicy, now: Timestamp) -> Effect {
        match self.is_waiting() {
            false => Effect::Attempted,
            true if self.ends_what_comes(rules, policy, now) => Effect::Ends,
            true => Effect::Waits,
        }
    }

    /// Removes everything that holds back attempts; `None` if nothing does.
    pub fn reset(&self, now: Timestamp) -> Option<Self> {
        let in_the_way = self.is_waiting() || self.row.failures > 0 || self.slow.is_slow(now);
        in_the_way.then(|| {
            let recovered = Recovery { at: now, over: Duration::ZERO };
            let recovered = if self.is_waiting() { Some(recovered) } else { self.recovered };
            Self { recovered, slow: self.slow.unmarked(), ..self.opened() }
        })
    }

    /// Limits a spread to the time of the endpoint's trouble: its deliveries came in that time, and
    /// may come back as fast. The backlog of a whole retry queue may be another endpoint's.
    fn bounded(&self, spread: Duration, now: Timestamp) -> Duration {
        let first = self.row.since.into_iter().chain(self.since()).min();
        let over = self.until().max(Some(now));
        first.zip(over).map_or(spread, |(first, over)| spread.min(over.since(first)))
    }

    fn opened(&self) -> Self {
        Self {
            row: Row { last_at: self.row.last_at, ..Row::default() },
            probation: None,
            delayed: None,
            probe: None,
            ..self.clone()
        }
    }

    /// Returns whether events that come now end: only during a probation by a client error
    /// that is not retried, and only if the event subscription has not asked to wait.
    fn ends_what_comes(&self, rules: Rules<'_>, policy: ProbationPolicy, now: Timestamp) -> bool {
        let Some(wait) = self.probation.filter(|wait| now < wait.until) else { return false };
        policy == ProbationPolicy::EventGrid
            && matches!(
                wait.outcome,
                Outcome::Unauthorized | Outcome::Forbidden | Outcome::NotFound
            )
            && rules.policy.rule(rules.profile, rules.kind, wait.status, wait.outcome) == Rule::End
    }
}

impl Recovery {
    /// Returns when all waiting deliveries should have come back, and attempts are no longer
    /// limited.
    fn until(&self) -> Timestamp {
        self.at + self.over.max(Duration::from_secs(ADMISSION_DOUBLINGS))
    }
}

/// The facts that [`admit`] needs besides the health.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest {
    pub delivery: Uuid,
    pub now: Timestamp,
    /// Of the clock that `now` is from.
    pub pace: Pace,
    /// Deliveries admitted for the event subscription in this second, by this copy of dispatch.
    pub admitted: u64,
    /// The spread for the size of the backlog: see `delivery::parking::spread`. May be zero
    /// while the health does not [wait](Health::is_waiting).
    pub spread: Duration,
    /// A draw from 0 up to 1.
    pub dice: f64,
}

impl AdmissionRequest {
    /// Draws a moment of the spread. Later ones are likelier: the backlog grows during the wait.
    fn moment(&self, health: &Health) -> Duration {
        let spread = health.bounded(self.spread, self.now).max(SPREAD_MIN);
        spread.mul_f64(self.dice.clamp(0.0, 1.0).sqrt())
    }
}

/// The answer to an [`AdmissionRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    Attempt,
    /// It may be attempted as the probe, once this health has been written conditionally.
    Probe(Box<Health>),
    /// Not an attempt.
    Wait {
        until: Timestamp,
    },
    /// It ends at once, with outcome `Probation`.
    End,
}

/// Decides whether a delivery may be attempted now.
pub fn admit(
    health: &Health,
    rules: Rules<'_>,
    policy: ProbationPolicy,
    asking: AdmissionRequest,
) -> Admission {
    let now = asking.now;
    let Some(until) = health.until() else { return admit_after_recovery(health, asking) };
    if now < until {
        return match health.ends_what_comes(rules, policy, now) {
            true => Admission::End,
            false => Admission::Wait { until: look_again(health, until, asking) },
        };
    }
    match health.probe {
        // A second copy of the probing delivery waits too: only one request probes.
        Some(probe) if now < probe.lease_until => Admission::Wait {
            until: now + asking.pace.to_clock(PROBED_LOOK_AGAIN) + asking.moment(health),
        },
        _ => {
            let lease_until = now + asking.pace.to_clock(PROBE_LEASE);
            let probe = Probe { delivery: asking.delivery, lease_until };
            Admission::Probe(Box::new(Health { probe: Some(probe), ..health.clone() }))
        }
    }
}

/// Returns when a delivery comes back that finds the endpoint waiting until `until`.
fn look_again(health: &Health, until: Timestamp, asking: AdmissionRequest) -> Timestamp {
    let end = until + asking.moment(health);
    let on_probation = health.probation.is_some_and(|wait| asking.now < wait.until);
    let first = health.delayed.filter(|wait| wait.step == 1 && !on_probation);
    match first {
        Some(wait) if asking.now < wait.since + LIFTED_WITHIN => {
            let again = LIFTED_LOOK_AGAIN + LIFTED_LOOK_AGAIN.mul_f64(asking.dice);
            end.min(asking.now + again)
        }
        _ => end,
    }
}

fn admit_after_recovery(health: &Health, asking: AdmissionRequest) -> Admission {
    let Some(recovery) = health.recovered else { return Admission::Attempt };
    let since = asking.now.since(recovery.at);
    if asking.admitted < admission_limit(since) {
        return Admission::Attempt;
    }
    let limited_for = Duration::from_secs(ADMISSION_DOUBLINGS).saturating_sub(since);
    let until = asking.now + LIMITED_LOOK_AGAIN + limited_for.mul_f64(asking.dice);
    Admission::Wait { until }
}

fn admission_limit(since_recovery: Duration) -> u64 {
    let seconds = since_recovery.as_secs();
    if seconds >= ADMISSION_DOUBLINGS { u64::MAX } else { 1 << seconds }
}

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

/// The attempts that a copy of dispatch has seen of an endpoint.
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

/// Returns the probation after a failed attempt. A failed probe always waits, even if neither its
/// outcome nor delayed delivery asks for that.
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

/// Adds what a copy of dispatch has seen to the health it has read; `None` if there is nothing new
/// to share.
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

/// Returns the health after a success has broken the row of failures; `None` if it breaks none. A
/// failed probe outweighs an earlier success.
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

#[cfg(test)]
mod tests;
