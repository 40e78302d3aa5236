//! May the endpoint be asked at all? Probation and delayed delivery.
//!
//! A failed attempt with certain outcomes puts the event subscription on probation for a while;
//! ten failures in a row make its endpoint unhealthy, and every failed probe lengthens the wait.
//! When a wait ends, one delivery probes. Everything here is a value in and a value out: the health
//! is kept in a table and written under a condition.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    outcome::{Answer, Outcome},
    profile::Rule,
};
use crate::{retry::Rules, time::Timestamp};

/// What happens to an event that meets a probation caused by a client error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbationPolicy {
    /// It ends at once where the profile does not retry that error.
    #[default]
    EventGrid,
    /// It waits.
    Delay,
}

/// Failures in a row that make an endpoint unhealthy.
pub const UNHEALTHY_AFTER: u32 = 10;

/// The waits of delayed delivery, in seconds, one further with every failed probe; the last repeats.
pub const DELAYED_WAITS_S: [u32; 6] = [60, 300, 600, 1_800, 3_600, 10_800];

/// How long a claimed probe may take before another delivery may probe: longer than an attempt.
const PROBE_LEASE: Duration = Duration::from_secs(60);

/// Deliveries that find a probe under way look again after this, and up to as much again.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// After a recovery each function instance lets 1, 2, 4, … deliveries through in each second; after
/// so many seconds there is no limit.
const ADMISSION_DOUBLINGS: u64 = 10;

/// How long each outcome puts a subscription on probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations(BTreeMap<Outcome, u32>);

impl Default for Durations {
    /// Event Grid's: "Message delivery and retry", section "Probation".
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
    /// The defaults with a deployment's own durations, in seconds; 0 means no probation.
    #[must_use]
    pub fn with(mut self, own: BTreeMap<Outcome, u32>) -> Self {
        self.0.extend(own);
        self
    }

    /// How long that outcome puts a subscription on probation; `None` if it does not.
    pub fn of(&self, outcome: Outcome) -> Option<Duration> {
        let seconds = self.0.get(&outcome).copied().filter(|seconds| *seconds > 0);
        seconds.map(|seconds| Duration::from_secs(u64::from(seconds)))
    }
}

/// The health of one subscription's endpoint. The default is healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Health {
    /// Failed attempts since the last success.
    pub failures_in_row: u32,
    /// When the last of them ended.
    pub last_failure_at: Option<Timestamp>,
    /// Waits of delayed delivery taken so far; 0 while it has not begun.
    pub delayed_waits: u32,
    /// The wait in force or, once its time is over, the one that a probe must end.
    pub wait: Option<Wait>,
    /// Who probes.
    pub probe: Option<Probe>,
    /// When a success last ended a wait.
    pub recovered_at: Option<Timestamp>,
    /// The last request that was counted, by its first delivery and when it began, so that a write
    /// that is repeated counts once.
    pub counted: Option<(Uuid, Timestamp)>,
    /// Counts its writes; a write names the one it has read.
    #[serde(skip)]
    pub revision: u64,
}

/// A time in which nothing is attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// The outcome that caused it.
    pub outcome: Outcome,
    /// The HTTP status that caused it, where one came.
    pub status: Option<u16>,
}

/// A claimed probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The delivery that probes.
    pub delivery: Uuid,
    /// From then on another one may.
    pub lease_until: Timestamp,
}

/// Whether a delivery may be attempted now.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It may.
    Attempt,
    /// It may, as the probe, once this health has been written under its condition.
    Probe(Health),
    /// It waits. This is no attempt.
    Wait {
        /// Until then.
        until: Timestamp,
    },
    /// It ends at once, with outcome `Probation`.
    End,
}

/// Says whether `delivery` may be attempted now. `admitted` is how many this instance has let
/// through for the subscription in this second; `dice` spreads those that wait.
pub fn admit(
    health: &Health,
    rules: Rules<'_>,
    policy: ProbationPolicy,
    delivery: Uuid,
    now: Timestamp,
    admitted: u64,
    dice: f64,
) -> Admission {
    let look_again = now + LOOK_AGAIN + LOOK_AGAIN.mul_f64(dice);
    let Some(wait) = health.wait else {
        return match health.recovered_at {
            Some(at) if admitted >= admission_limit(now.since(at)) => {
                Admission::Wait { until: look_again }
            }
            _ => Admission::Attempt,
        };
    };
    if now < wait.until {
        return if meets_its_end(wait, rules, policy) {
            Admission::End
        } else {
            Admission::Wait { until: wait.until + LOOK_AGAIN.mul_f64(dice) }
        };
    }
    match health.probe {
        // A second copy of the probing delivery waits too: one request probes, not two.
        Some(probe) if now < probe.lease_until => Admission::Wait { until: look_again },
        _ => Admission::Probe(Health {
            probe: Some(Probe { delivery, lease_until: now + PROBE_LEASE }),
            ..health.clone()
        }),
    }
}

/// What a health comes to, for its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Condition {
    /// Attempts are made.
    Healthy,
    /// A success has just ended a wait: attempts are let through, twice as many each second.
    Recovering,
    /// A failed attempt has put the event subscription on probation.
    Probation,
    /// Ten failures in a row, or failed probes since, delay delivery.
    DelayedDelivery,
}

/// What becomes of an event that comes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Effect {
    /// It is attempted.
    Attempted,
    /// It waits, or is the probe when the wait is over.
    Waits,
    /// It ends at once, with outcome `Probation`.
    Ends,
}

impl Health {
    /// What it comes to at `now`.
    pub fn condition(&self, now: Timestamp) -> Condition {
        let recovers = |at: Timestamp| now.since(at).as_secs() < ADMISSION_DOUBLINGS;
        match self.wait {
            Some(_) if self.delayed_waits > 0 => Condition::DelayedDelivery,
            Some(_) => Condition::Probation,
            None if self.recovered_at.is_some_and(recovers) => Condition::Recovering,
            None => Condition::Healthy,
        }
    }

    /// What becomes of an event that comes at `now`.
    pub fn effect(&self, rules: Rules<'_>, policy: ProbationPolicy, now: Timestamp) -> Effect {
        match self.wait {
            None => Effect::Attempted,
            Some(wait) if now < wait.until && meets_its_end(wait, rules, policy) => Effect::Ends,
            Some(_) => Effect::Waits,
        }
    }

    /// The health without what stands in the way of attempts, as after a success at `now`; `None`
    /// when nothing does.
    pub fn reset(&self, now: Timestamp) -> Option<Self> {
        let began_at = self.wait.map_or(now, |wait| wait.since.max(now));
        after_success(self, began_at, now)
    }
}

/// How many deliveries may go in each second, so long after a recovery.
fn admission_limit(since_recovery: Duration) -> u64 {
    let seconds = since_recovery.as_secs();
    if seconds >= ADMISSION_DOUBLINGS { u64::MAX } else { 1 << seconds }
}

/// Whether events that meet this wait end: its cause is a client error that is not retried, and the
/// event subscription has not asked to wait.
fn meets_its_end(wait: Wait, rules: Rules<'_>, policy: ProbationPolicy) -> bool {
    policy == ProbationPolicy::EventGrid
        && matches!(wait.outcome, Outcome::Unauthorized | Outcome::Forbidden | Outcome::NotFound)
        && rules.policy.rule(rules.profile, rules.kind, wait.status, wait.outcome) == Rule::End
}

/// A failed attempt, as the health sees it.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// The delivery, or the first of those that went out together: one request fails once.
    pub delivery: Uuid,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What it met.
    pub answer: Answer,
    /// The last success this instance has seen from the endpoint. Successes are not written while
    /// nothing fails, so it is the failure that brings word of them.
    pub last_success_at: Option<Timestamp>,
}

/// The health after a failed attempt; `None` if there is nothing to write: this attempt was counted
/// already, or it was under way when the endpoint was found unhealthy and lengthens no wait.
pub fn after_failure(health: &Health, durations: &Durations, failed: Failed) -> Option<Health> {
    let request = (failed.delivery, failed.began_at);
    if health.counted == Some(request) {
        return None;
    }
    let mut next = health.clone();
    next.counted = Some(request);
    let broken = failed.last_success_at.zip(health.last_failure_at);
    if health.wait.is_none() && broken.is_some_and(|(success, failure)| success > failure) {
        next.failures_in_row = 0;
    }
    next.failures_in_row = next.failures_in_row.saturating_add(1);
    next.last_failure_at = health.last_failure_at.max(Some(failed.ended_at));

    // Only an attempt that began after the wait was over can speak about it: the probe.
    let probed = health.wait.is_some_and(|wait| failed.began_at >= wait.until);
    if probed {
        next.probe = None;
    }
    if probed && health.delayed_waits > 0 {
        next.delayed_waits += 1;
    } else if health.delayed_waits == 0 && next.failures_in_row >= UNHEALTHY_AFTER {
        next.delayed_waits = 1;
    }
    let lengthened = next.delayed_waits > health.delayed_waits;
    let delayed = lengthened.then(|| delayed_wait(next.delayed_waits));
    let wait = durations.of(failed.answer.outcome).max(delayed);
    let until = wait.map(|wait| failed.ended_at + wait);
    let current = health.wait.filter(|_| !probed);
    next.wait = match (current, until) {
        (Some(current), Some(until)) if until > current.until => {
            Some(Wait { since: current.since, ..wait_of(failed, until) })
        }
        (Some(current), _) => Some(current),
        (None, Some(until)) => Some(wait_of(failed, until)),
        (None, None) => None,
    };
    let counts = health.failures_in_row < UNHEALTHY_AFTER;
    (counts || next.wait != health.wait).then_some(next)
}

fn wait_of(failed: Failed, until: Timestamp) -> Wait {
    let Answer { outcome, status, .. } = failed.answer;
    Wait { since: failed.ended_at, until, outcome, status }
}

fn delayed_wait(waits: u32) -> Duration {
    let index = (waits.max(1) as usize - 1).min(DELAYED_WAITS_S.len() - 1);
    Duration::from_secs(u64::from(DELAYED_WAITS_S[index]))
}

/// The health after a success of an attempt that began at `began_at` and ended at `now`; `None` when
/// there is nothing to write, which is so on the happy path.
pub fn after_success(health: &Health, began_at: Timestamp, now: Timestamp) -> Option<Health> {
    match health.wait {
        // A request that was under way when the wait began does not end it. But a success it is, and
        // breaks the row of failures.
        Some(wait) if began_at < wait.since => {
            let breaks = health.delayed_waits == 0 && health.failures_in_row > 0;
            breaks.then(|| Health { failures_in_row: 0, ..health.clone() })
        }
        Some(_) => Some(Health {
            recovered_at: Some(now),
            counted: health.counted,
            revision: health.revision,
            ..Health::default()
        }),
        None if health.failures_in_row > 0 => Some(Health {
            recovered_at: health.recovered_at,
            counted: health.counted,
            revision: health.revision,
            ..Health::default()
        }),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{
        policy::RetryPolicy,
        profile::{EndpointKind, ProfileName},
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default() + Duration::from_secs(seconds)
    }

    /// A failure of a delivery of its own, that took no time.
    fn failed(number: u128, seconds: u64, answer: Answer) -> Failed {
        let (began_at, ended_at) = (at(seconds), at(seconds));
        let delivery = Uuid::from_u128(number);
        Failed { delivery, began_at, ended_at, answer, last_success_at: None }
    }

    fn after(health: &Health, failed: Failed) -> Health {
        after_failure(health, &Durations::default(), failed).unwrap_or_else(|| health.clone())
    }

    fn status(status: u16) -> Answer {
        Answer::of_status(status, None)
    }

    fn ten_failures() -> Health {
        (0..10).fold(Health::default(), |health, number| {
            after(&health, failed(number, number as u64, status(500)))
        })
    }

    fn admitted(health: &Health, seconds: u64, delivery: u128) -> Admission {
        let policy = RetryPolicy::default_of(ProfileName::Basic);
        let rules =
            Rules { profile: ProfileName::Basic, kind: EndpointKind::Webhook, policy: &policy };
        let delivery = Uuid::from_u128(delivery);
        admit(health, rules, ProbationPolicy::EventGrid, delivery, at(seconds), 0, 0.0)
    }

    #[test]
    fn each_outcome_waits_as_long_as_it_says() {
        let table = [
            (Outcome::Busy, Some(10)),
            (Outcome::TimedOut, Some(10)),
            (Outcome::SocketError, Some(30)),
            (Outcome::NotFound, Some(300)),
            (Outcome::InvalidFunctionDestination, Some(600)),
            (Outcome::ServerError, None),
            (Outcome::BadRequest, None),
        ];
        for (outcome, wait_s) in table {
            let health = after(&Health::default(), failed(1, 100, Answer::without_status(outcome)));
            let until = health.wait.map(|wait| wait.until);
            assert_eq!(until, wait_s.map(|wait_s| at(100 + wait_s)), "{outcome}");
        }
    }

    #[test]
    fn ten_failures_in_a_row_delay_delivery_and_failed_probes_lengthen_it() {
        let mut health = ten_failures();
        assert_eq!(health.wait.map(|wait| wait.until), Some(at(9 + 60)));
        let mut now = 9 + 60;
        for (probe, wait_s) in (100..).zip([300, 600, 1_800, 3_600, 10_800, 10_800]) {
            health = after(&health, failed(probe, now, status(500)));
            assert_eq!(health.wait.map(|wait| wait.until), Some(at(now + wait_s)), "{wait_s}");
            now += wait_s;
        }
    }

    #[test]
    fn attempts_that_were_under_way_do_not_lengthen_the_wait() {
        let health = ten_failures();
        let late = failed(50, 20, status(500));
        assert_eq!(after_failure(&health, &Durations::default(), late), None);
    }

    #[test]
    fn an_attempt_counts_once() {
        let once = after(&Health::default(), failed(1, 0, status(500)));
        assert_eq!(after_failure(&once, &Durations::default(), failed(1, 0, status(500))), None);
        assert_eq!(after(&once, failed(1, 1, status(500))).failures_in_row, 2, "made once more");
    }

    #[test]
    fn a_success_between_failures_breaks_the_row() {
        let nine = (0..9).fold(Health::default(), |health, number| {
            after(&health, failed(number, number as u64, status(500)))
        });
        let tenth = Failed { last_success_at: Some(at(20)), ..failed(9, 30, status(500)) };
        let health = after(&nine, tenth);
        assert_eq!((health.failures_in_row, health.wait), (1, None));
    }

    #[test]
    fn the_longer_of_probation_and_delayed_delivery_counts() {
        let nine = (0..9).fold(Health::default(), |health, number| {
            after(&health, failed(number, number as u64, status(500)))
        });
        let not_found = after(&nine, failed(9, 9, status(404)));
        assert_eq!(not_found.wait.map(|wait| wait.until), Some(at(9 + 300)));
    }

    #[test]
    fn one_delivery_probes_when_a_wait_ends() {
        let busy = after(&Health::default(), failed(1, 0, status(429)));
        assert_eq!(admitted(&busy, 9, 1), Admission::Wait { until: at(10) });
        let Admission::Probe(claimed) = admitted(&busy, 10, 1) else {
            panic!("nobody probes");
        };
        assert_eq!(admitted(&claimed, 10, 2), Admission::Wait { until: at(13) });
        let second_copy = admitted(&claimed, 11, 1);
        assert_eq!(
            second_copy,
            Admission::Wait { until: at(14) },
            "a copy of the prober waits too"
        );
        assert!(matches!(admitted(&claimed, 70, 2), Admission::Probe(_)), "its lease is over");
    }

    #[test]
    fn a_success_ends_the_wait_and_admission_doubles() {
        let busy = after(&Health::default(), failed(1, 0, status(429)));
        let under_way_before = after_success(&busy, Timestamp::from_millis(-1), at(5));
        let row = under_way_before.map(|health| (health.failures_in_row, health.wait));
        assert_eq!(row, Some((0, busy.wait)), "the row is broken, the wait goes on");
        let health = after_success(&busy, at(10), at(11)).expect("a recovery");
        assert_eq!((health.wait, health.recovered_at), (None, Some(at(11))));
        let limits: Vec<_> =
            [0, 1, 2, 9, 10].map(|s| admission_limit(Duration::from_secs(s))).to_vec();
        assert_eq!(limits, [1, 2, 4, 512, u64::MAX]);
        assert_eq!(after_success(&Health::default(), at(1), at(2)), None, "nothing to write");
    }

    #[test]
    fn a_client_error_that_is_not_retried_ends_what_meets_its_probation() {
        let table = [(401, true), (403, true), (404, false), (429, false)];
        for (code, ends) in table {
            let health = after(&Health::default(), failed(1, 0, status(code)));
            assert_eq!(admitted(&health, 1, 2) == Admission::End, ends, "{code}");
        }
    }

    #[test]
    fn condition_table() {
        let health = Health::default();
        let busy = after(&health, failed(1, 0, status(429)));
        let refused = after(&health, failed(1, 0, status(401)));
        let delayed = (0..10)
            .fold(health.clone(), |health, number| after(&health, failed(number, 0, status(500))));
        let recovered = busy.reset(at(4)).expect("a wait to end");
        let (basic, waits) = (ProbationPolicy::EventGrid, ProbationPolicy::Delay);
        let table = [
            ("nothing known", &health, basic, 0, Condition::Healthy, Effect::Attempted),
            ("busy", &busy, basic, 9, Condition::Probation, Effect::Waits),
            ("busy, to be probed", &busy, basic, 10, Condition::Probation, Effect::Waits),
            ("refused", &refused, basic, 9, Condition::Probation, Effect::Ends),
            ("refused, waits", &refused, waits, 9, Condition::Probation, Effect::Waits),
            ("refused, probed", &refused, basic, 300, Condition::Probation, Effect::Waits),
            ("ten failures", &delayed, basic, 9, Condition::DelayedDelivery, Effect::Waits),
            ("reset", &recovered, basic, 13, Condition::Recovering, Effect::Attempted),
            ("long ago", &recovered, basic, 14, Condition::Healthy, Effect::Attempted),
        ];
        let policy = RetryPolicy::default_of(ProfileName::Basic);
        let rules =
            Rules { profile: ProfileName::Basic, kind: EndpointKind::Webhook, policy: &policy };
        for (row, health, probation, seconds, condition, effect) in table {
            assert_eq!(health.condition(at(seconds)), condition, "{row}");
            assert_eq!(health.effect(rules, probation, at(seconds)), effect, "{row}");
        }
    }

    #[test]
    fn a_reset_leaves_nothing_in_the_way() {
        assert_eq!(Health::default().reset(at(1)), None, "nothing to write");
        // The clock that wrote the wait may be ahead of this one.
        let busy = after(&Health::default(), failed(1, 100, status(429)));
        for now in [at(99), at(105), at(500)] {
            let reset = busy.reset(now).expect("a wait to end");
            assert_eq!((reset.wait, reset.probe, reset.failures_in_row), (None, None, 0));
            assert_eq!((reset.revision, reset.counted), (busy.revision, busy.counted));
            assert_eq!(admitted(&reset, 200, 7), Admission::Attempt);
        }
        let failing = after(&Health::default(), failed(1, 0, status(500)));
        assert_eq!(failing.reset(at(1)).map(|health| health.failures_in_row), Some(0));
    }
}
