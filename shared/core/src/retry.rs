//! Decides when a delivery is attempted again, and when it ends.
//!
//! [`decide`] chooses between retry and end by the tables in [`profile`] and [`policy`]. [`health`]
//! decides whether an endpoint may be called, and [`slow_endpoint`] how often at once.

pub mod attempts;
pub mod health;
pub mod outcome;
pub mod policy;
pub mod profile;
pub mod response_text;
pub mod slow_endpoint;
pub mod timeline;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::{
    outcome::{Answer, Outcome},
    policy::RetryPolicy,
    profile::{DEFAULT_MIN_S, EndpointKind, ProfileName, Rule},
};
use crate::time::Timestamp;

const JITTER_SHARE: f64 = 0.1;
const JITTER_MAX: Duration = Duration::from_secs(5 * 60);

/// The rules for one delivery.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub profile: ProfileName,
    pub kind: EndpointKind,
    pub policy: &'a RetryPolicy,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// This one included.
    pub attempts: u32,
    pub first_attempt_at: Timestamp,
    pub ended_at: Timestamp,
    pub answer: Answer,
    /// When the endpoint's probation or delayed delivery ends.
    pub not_before: Option<Timestamp>,
    pub expires_at: Timestamp,
    /// Whether further attempts can separate the answered events: none ends while some are left.
    pub is_separable: bool,
}

/// The decision after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Retry { due: Timestamp, because: DelayReason },
    End(EndReason),
}

/// The reason for a wait, the longest that applies. Documents keep the names of the first version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(strum::Display, strum::VariantNames, Serialize, Deserialize)]
pub enum DelayReason {
    /// The next step of the schedule.
    Schedule,
    /// The minimum wait of the outcome's rule.
    #[serde(rename = "LeastWait")]
    #[strum(serialize = "LeastWait")]
    MinimumDelay,
    RetryAfter,
    #[serde(rename = "EndpointWaits")]
    #[strum(serialize = "EndpointWaits")]
    Probation,
}

/// The reason why a delivery ended undelivered (`deadLetterReason`, or the reason of a drop).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(strum::Display, strum::VariantArray, Serialize, Deserialize)]
pub enum EndReason {
    MaxDeliveryAttemptsExceeded,
    TimeToLiveExceeded,
    /// 400, not retried.
    UndeliverableDueToHttpBadRequest,
    /// 413, not retried.
    UndeliverableDueToHttpPayloadTooLarge,
    /// 401, not retried.
    UndeliverableDueToHttpUnauthorized,
    /// 403, not retried.
    UndeliverableDueToHttpForbidden,
    /// 404, not retried.
    UndeliverableDueToHttpNotFound,
    /// Another outcome that is not retried.
    UndeliverableDueToClientError,
    /// The endpoint accepted the request but rejected this event for good.
    RejectedByEndpoint,
    /// It came during a probation whose cause is not retried.
    UndeliverableDueToProbationCausedByClientError,
    SubscriptionDeleted,
    CanceledByOperator,
    /// Something else deleted its events from the payload bucket.
    PayloadMissing,
}

impl EndReason {
    /// All reasons, in the order of their documentation.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Returns the reason for an outcome that is not retried.
    pub fn not_retried(outcome: Outcome) -> Self {
        match outcome {
            Outcome::BadRequest => Self::UndeliverableDueToHttpBadRequest,
            Outcome::PayloadTooLarge => Self::UndeliverableDueToHttpPayloadTooLarge,
            Outcome::Unauthorized => Self::UndeliverableDueToHttpUnauthorized,
            Outcome::Forbidden => Self::UndeliverableDueToHttpForbidden,
            Outcome::NotFound => Self::UndeliverableDueToHttpNotFound,
            Outcome::EventRejected => Self::RejectedByEndpoint,
            _ => Self::UndeliverableDueToClientError,
        }
    }
}

/// Decides what follows a failed attempt. `dice` is a draw from 0 up to 1.
///
/// The next attempt is due at the schedule's next step, but not before the rule's minimum wait
/// (raised by `Retry-After`, up to time-to-live), nor before the endpoint's wait ends; then a
/// small jitter is added. [`is_expired`] checks time-to-live when the attempt is due.
pub fn decide(rules: Rules<'_>, failure: Failure, dice: f64) -> Decision {
    let Answer { outcome, status, retry_after } = failure.answer;
    let min_s = match rules.policy.rule(rules.profile, rules.kind, status, outcome) {
        Rule::End if failure.is_separable && failure.attempts < rules.policy.max_attempts => {
            DEFAULT_MIN_S
        }
        Rule::End => return Decision::End(EndReason::not_retried(outcome)),
        Rule::Retry { min_s } => min_s,
    };
    if failure.attempts >= rules.policy.max_attempts {
        return Decision::End(EndReason::MaxDeliveryAttemptsExceeded);
    }
    let elapsed_s = failure.ended_at.since(failure.first_attempt_at).as_secs_f64();
    let step_s = rules.policy.step_after(rules.profile, elapsed_s);
    let asked = retry_after
        .map_or(Duration::ZERO, |wait| wait.min(failure.expires_at.since(failure.ended_at)));
    let least = Duration::from_secs(u64::from(min_s)).max(asked);
    let step = (failure.first_attempt_at + Duration::from_secs(step_s), DelayReason::Schedule);
    let of_rule = if asked >= least && !asked.is_zero() {
        DelayReason::RetryAfter
    } else {
        DelayReason::MinimumDelay
    };
    let endpoint = (failure.not_before.unwrap_or_default(), DelayReason::Probation);
    let longer = |one: (Timestamp, DelayReason), other: (Timestamp, DelayReason)| {
        if other.0 > one.0 { other } else { one }
    };
    let (due, because) = longer(longer(step, (failure.ended_at + least, of_rule)), endpoint);
    Decision::Retry { due: due + jitter(due.since(failure.ended_at), dice), because }
}

/// Returns a small delay on top of a wait, so that what failed together does not return together.
pub fn jitter(wait: Duration, dice: f64) -> Duration {
    wait.mul_f64(JITTER_SHARE * dice.clamp(0.0, 1.0)).min(JITTER_MAX)
}

/// Returns when the time-to-live ends.
pub fn expires_at(policy: &RetryPolicy, publish_time: Timestamp) -> Timestamp {
    publish_time + time_to_live(policy)
}

/// Returns the time-to-live, without pauses.
pub fn time_to_live(policy: &RetryPolicy) -> Duration {
    Duration::from_secs(u64::from(policy.time_to_live_minutes) * 60)
}

/// Returns whether an attempt now would be too late.
pub fn is_expired(policy: &RetryPolicy, publish_time: Timestamp, now: Timestamp) -> bool {
    now >= expires_at(policy, publish_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decide_table() {
        use Outcome::{Busy, NotFound, ServerError, TimedOut};
        let at = |seconds: u64| Timestamp::default() + Duration::from_secs(seconds);
        let retry = |seconds, because| Decision::Retry { due: at(seconds), because };
        let (step, least) = (DelayReason::Schedule, DelayReason::MinimumDelay);
        let (asked, waits) = (DelayReason::RetryAfter, DelayReason::Probation);
        let end = Decision::End;
        let status = |status| Answer::of_status(status, None);
        let after = |code, wait| Answer::of_status(code, Some(Duration::from_secs(wait)));
        let none = Answer::without_status;
        let table = [
            // (row, attempts, ended at s, not before s, answer, dice, decision)
            ("first failure, first step", 1, 0, 0, status(500), 0.0, retry(10, step)),
            ("a step passed over is skipped", 2, 45, 0, status(500), 0.0, retry(60, step)),
            ("the status minimum beats the step", 1, 0, 0, status(404), 0.0, retry(300, least)),
            ("the step beats the status minimum", 4, 60, 0, status(503), 0.0, retry(300, step)),
            ("probation beats both", 2, 10, 700, status(429), 0.0, retry(700, waits)),
            ("Retry-After raises the minimum", 1, 0, 0, after(503, 90), 0.0, retry(90, asked)),
            ("Retry-After never lowers it", 1, 0, 0, after(503, 1), 0.0, retry(30, least)),
            (
                "Retry-After ends at time-to-live",
                1,
                0,
                0,
                after(503, 9_000_000),
                0.0,
                retry(86_400, asked),
            ),
            ("jitter is a tenth of the wait", 1, 0, 0, status(404), 1.0, retry(330, least)),
            ("jitter stops at five minutes", 6, 3_600, 0, status(500), 1.0, retry(11_100, step)),
            ("no response, the step after it", 1, 30, 0, none(TimedOut), 0.0, retry(60, step)),
            (
                "attempts spent",
                9,
                600,
                0,
                status(500),
                0.0,
                end(EndReason::MaxDeliveryAttemptsExceeded),
            ),
            (
                "not retried",
                1,
                0,
                0,
                status(400),
                0.0,
                end(EndReason::UndeliverableDueToHttpBadRequest),
            ),
            (
                "not retried, though attempts are spent too",
                9,
                0,
                0,
                status(413),
                0.0,
                end(EndReason::UndeliverableDueToHttpPayloadTooLarge),
            ),
        ];
        let policy = RetryPolicy { max_attempts: 9, ..RetryPolicy::default_of(ProfileName::Basic) };
        let rules =
            Rules { profile: ProfileName::Basic, kind: EndpointKind::Webhook, policy: &policy };
        for (row, attempts, ended_s, not_before_s, answer, dice, want) in table {
            let failure = Failure {
                attempts,
                first_attempt_at: at(0),
                ended_at: at(ended_s),
                answer,
                not_before: Some(at(not_before_s)),
                expires_at: at(86_400),
                is_separable: false,
            };
            assert_eq!(decide(rules, failure, dice), want, "{row}");
        }
        // Outcomes that end have a special reason or the general one.
        let reasons = [
            (Outcome::Unauthorized, EndReason::UndeliverableDueToHttpUnauthorized),
            (Outcome::Forbidden, EndReason::UndeliverableDueToHttpForbidden),
            (NotFound, EndReason::UndeliverableDueToHttpNotFound),
            (Busy, EndReason::UndeliverableDueToClientError),
            (ServerError, EndReason::UndeliverableDueToClientError),
        ];
        for (outcome, reason) in reasons {
            assert_eq!(EndReason::not_retried(outcome), reason, "{outcome}");
        }
    }

    #[test]
    fn expired_at_the_very_moment() {
        let policy =
            RetryPolicy { time_to_live_minutes: 30, ..RetryPolicy::default_of(ProfileName::Basic) };
        let at = |seconds| Timestamp::default() + Duration::from_secs(seconds);
        assert!(!is_expired(&policy, at(0), at(1_799)));
        assert!(is_expired(&policy, at(0), at(1_800)));
    }
}
