//! The fifth step: decides what follows from the answers to an attempt. Pure.

use gridpost_core::{
    delivery::{
        event_set::EventSet,
        partial::{self, End, EventOutcome},
        resource_outcome::status_of,
    },
    retry::{
        self, Decision, DelayReason, EndReason, Failure,
        outcome::{Answer, Outcome},
    },
    time::Timestamp,
};

use crate::{
    loaded::LoadedDelivery,
    response::{AttemptResult, Times, Try},
};

/// The decision about one delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Events that were delivered while others failed.
    pub delivered: EventSet,
    /// The answer for one of those.
    pub accepted: Option<Answer>,
    /// Events that end before the rest.
    pub ends: Vec<End>,
    pub answer: Answer,
    /// The most requests of the attempt that carried an event of the rest.
    pub requests: u32,
    /// When the request with that answer began, if it was not the attempt's first.
    pub last_at: Option<Timestamp>,
    pub tries: Vec<Try>,
    pub next_step: NextStep,
}

/// The next step for the rest of the delivery after an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NextStep {
    Delivered,
    Retry { due: Timestamp, because: DelayReason },
    End(EndReason),
}

/// Decides what follows for a delivery. Its attempts do not include this one yet. `not_before` is
/// the end of the endpoint's probation or delayed delivery.
pub fn decide(
    loaded: &LoadedDelivery,
    result: &AttemptResult,
    times: Times,
    not_before: Option<Timestamp>,
    dice: f64,
) -> Verdict {
    let whole = |answer| Verdict {
        delivered: EventSet::default(),
        accepted: None,
        ends: Vec::new(),
        answer,
        requests: 1,
        last_at: None,
        tries: Vec::new(),
        next_step: next_step(loaded, (answer, 1, false), times, not_before, dice),
    };
    let (met, tries) = match result {
        AttemptResult::Whole(answer) => return whole(*answer),
        AttemptResult::Each(met) => (met, [].as_slice()),
        AttemptResult::Parts(parts) => (&parts.met, parts.tries.as_slice()),
    };
    let split = partial::split(loaded.rules(), loaded.delivery.attempts.made, met);
    let Some(rest) = split.rest else { return whole(all_delivered(met)) };
    let decisive = (rest.answer, rest.requests, rest.is_separable);
    let mut answers = met.iter().map(|met| met.answer);
    Verdict {
        delivered: split.delivered,
        accepted: answers.find(|answer| answer.outcome == Outcome::Delivered),
        ends: split.ends,
        answer: rest.answer,
        requests: rest.requests,
        last_at: rest.last_at,
        tries: tries.to_vec(),
        next_step: next_step(loaded, decisive, times, not_before, dice),
    }
}

fn all_delivered(met: &[EventOutcome]) -> Answer {
    let status = status_of(Outcome::Delivered);
    let of_service = Answer { status, ..Answer::without_status(Outcome::Delivered) };
    met.last().map_or(of_service, |met| met.answer)
}

fn next_step(
    loaded: &LoadedDelivery,
    (answer, requests, is_separable): (Answer, u32, bool),
    (began_at, ended_at): Times,
    not_before: Option<Timestamp>,
    dice: f64,
) -> NextStep {
    if answer.outcome == Outcome::Delivered {
        return NextStep::Delivered;
    }
    let attempts = &loaded.delivery.attempts;
    let failure = Failure {
        attempts: attempts.made + requests,
        first_attempt_at: attempts.first_at.unwrap_or(began_at),
        ended_at,
        answer,
        not_before,
        expires_at: loaded.expires_at(),
        is_separable,
    };
    match retry::decide(loaded.rules(), failure, dice) {
        Decision::Retry { due, because } => NextStep::Retry { due, because },
        Decision::End(reason) => NextStep::End(reason),
    }
}
