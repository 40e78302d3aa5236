//! Simulates a delivery to an endpoint with known answers: shows where a retry policy leads.

use std::time::Duration;

use uuid::Uuid;

use super::{
    health::{
        self, Admission, AdmissionRequest, Durations, FailedAttempt, Health, ProbationPolicy,
    },
    outcome::{Answer, Outcome},
};
use crate::{
    retry::{
        self, Decision, DelayReason, EndReason, Failure, Rules, attempts::Attempts,
        outcome::RESPONSE_WAIT,
    },
    time::{Pace, Timestamp},
};

/// The scenario to simulate.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    pub rules: Rules<'a>,
    pub probation_policy: ProbationPolicy,
    pub durations: &'a Durations,
    /// The endpoint's answers; the last one repeats. A missing response takes 30 s, others no time.
    pub answers: &'a [Answer],
    /// A draw from 0 up to 1 for each wait's jitter.
    pub dice: f64,
}

/// One attempt of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Since the publish.
    pub at: Duration,
    pub answer: Answer,
    /// The reason for the wait before it, if any.
    pub because: Option<DelayReason>,
}

/// How the delivery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Delivered,
    Undelivered(EndReason),
}

/// A delivery's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    pub attempts: Vec<Attempt>,
    /// Since the publish.
    pub ends_at: Duration,
    pub end: End,
}

/// Simulates a delivery to a healthy endpoint.
pub fn play(question: &Question<'_>) -> Timeline {
    let start = Timestamp::default();
    let id = Uuid::nil();
    let mut health = Health::default();
    let mut attempts = Attempts::default();
    let mut made = Vec::new();
    let mut now = start;
    let mut because = None;
    let end = loop {
        if retry::is_expired(question.rules.policy, start, now) {
            break End::Undelivered(EndReason::TimeToLiveExceeded);
        }
        let asking = AdmissionRequest {
            delivery: id,
            now,
            pace: Pace::REAL,
            admitted: 0,
            spread: Duration::ZERO,
            dice: 0.0,
        };
        match health::admit(&health, question.rules, question.probation_policy, asking) {
            Admission::Attempt => {}
            Admission::Probe(claimed) => health = *claimed,
            Admission::Wait { until } => {
                now = until.min(retry::expires_at(question.rules.policy, start));
                because = Some(DelayReason::Probation);
                continue;
            }
            Admission::End => {
                let reason = EndReason::UndeliverableDueToProbationCausedByClientError;
                break End::Undelivered(reason);
            }
        }
        let answer = answer(question.answers, made.len());
        let began_at = now;
        attempts = attempts.with(began_at, answer.outcome, answer.status);
        let at = began_at.since(start);
        made.push(Attempt { number: attempts.made, at, answer, because });
        if answer.outcome == Outcome::Delivered {
            break End::Delivered;
        }
        now = now + takes(answer);
        let failed =
            FailedAttempt { delivery: id, began_at, ended_at: now, answer, last_success_at: None };
        let next = health::after_failure(&health, question.durations, failed);
        health = next.unwrap_or(health);
        let failure = Failure {
            attempts: attempts.made,
            first_attempt_at: start,
            ended_at: now,
            answer,
            not_before: health.until(),
            expires_at: retry::expires_at(question.rules.policy, start),
            is_separable: false,
        };
        match retry::decide(question.rules, failure, question.dice) {
            Decision::Retry { due, because: reason } => (now, because) = (due, Some(reason)),
            Decision::End(reason) => break End::Undelivered(reason),
        }
    };
    Timeline { attempts: made, ends_at: now.since(start), end }
}

/// Returns the answer to the attempt at that position. Without any, the endpoint accepts.
fn answer(answers: &[Answer], position: usize) -> Answer {
    let answer = answers.get(position).or(answers.last());
    answer.copied().unwrap_or(Answer::of_status(200, None))
}

fn takes(answer: Answer) -> Duration {
    let no_response = answer.status.is_none() && answer.outcome == Outcome::TimedOut;
    if no_response { RESPONSE_WAIT } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{
        policy::RetryPolicy,
        profile::{EndpointKind, ProfileName},
    };

    fn seconds(answers: &[Answer], policy: &RetryPolicy) -> (Vec<u64>, u64, End) {
        let (profile, kind) = (ProfileName::Basic, EndpointKind::Webhook);
        let question = Question {
            rules: Rules { profile, kind, policy },
            probation_policy: ProbationPolicy::EventGrid,
            durations: &Durations::default(),
            answers,
            dice: 0.0,
        };
        let timeline = play(&question);
        let at = timeline.attempts.iter().map(|attempt| attempt.at.as_secs()).collect();
        (at, timeline.ends_at.as_secs(), timeline.end)
    }

    #[test]
    fn timelines() {
        let policy = |max_attempts, time_to_live_minutes| RetryPolicy {
            max_attempts,
            time_to_live_minutes,
            ..RetryPolicy::default_of(ProfileName::Basic)
        };
        let status = |status| Answer::of_status(status, None);
        let expired = End::Undelivered(EndReason::TimeToLiveExceeded);
        let spent = End::Undelivered(EndReason::MaxDeliveryAttemptsExceeded);
        let table = [
            (
                "six attempts",
                vec![status(500)],
                policy(10, 30),
                (vec![0, 10, 30, 60, 300, 600], 1_800, expired),
            ),
            (
                "five allowed",
                vec![status(500)],
                policy(5, 30),
                (vec![0, 10, 30, 60, 300], 300, spent),
            ),
            (
                "delivered",
                vec![status(503), status(200)],
                policy(5, 30),
                (vec![0, 30], 30, End::Delivered),
            ),
            (
                "no response, then probation of 10 s",
                vec![Answer::without_status(Outcome::TimedOut), status(200)],
                policy(5, 30),
                (vec![0, 60], 60, End::Delivered),
            ),
            (
                "not found waits 5 min",
                vec![status(404), status(200)],
                policy(5, 30),
                (vec![0, 300], 300, End::Delivered),
            ),
        ];
        for (row, answers, policy, want) in table {
            assert_eq!(seconds(&answers, &policy), want, "{row}");
        }
    }
}
