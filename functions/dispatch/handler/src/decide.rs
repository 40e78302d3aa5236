//! The fifth step: decides what follows from the answers to an attempt. Pure.

use gridpost_core::{
    delivery::{event_set::EventSet, partial, resource_outcome::status_of},
    retry::{
        self, Decision, DelayReason, EndReason, Failure,
        outcome::{Answer, Outcome},
    },
    time::Timestamp,
};

use crate::{attempt::AttemptResult, in_hand::DeliveryInHand};

/// The decision about one delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Events that were delivered while others failed.
    pub delivered: EventSet,
    /// Events that end before the rest, by the answer that ended them.
    pub ends: Vec<(Answer, EventSet)>,
    pub answer: Answer,
    pub next_step: NextStep,
}

/// What follows an attempt for the rest of the delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NextStep {
    Delivered,
    Retry { due: Timestamp, because: DelayReason },
    End(EndReason),
}

/// Decides what follows for a delivery. Its attempts do not include this one yet. `not_before` is
/// the end of the endpoint's probation or delayed delivery.
pub fn decide(
    hand: &DeliveryInHand,
    result: &AttemptResult,
    times: (Timestamp, Timestamp),
    not_before: Option<Timestamp>,
    dice: f64,
) -> Verdict {
    let (delivered, ends, answer) = match result {
        AttemptResult::Whole(answer) => (EventSet::default(), Vec::new(), *answer),
        AttemptResult::Each(each) => {
            let split = partial::split(hand.rules(), each);
            match split.rest {
                Some((answer, _)) => (split.delivered, split.ends, answer),
                None => (EventSet::default(), Vec::new(), all_delivered()),
            }
        }
    };
    Verdict { delivered, ends, answer, next_step: next_step(hand, answer, times, not_before, dice) }
}

/// The answer of a service that took every event.
fn all_delivered() -> Answer {
    let status = status_of(Outcome::Delivered);
    Answer { status, ..Answer::without_status(Outcome::Delivered) }
}

fn next_step(
    hand: &DeliveryInHand,
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
    not_before: Option<Timestamp>,
    dice: f64,
) -> NextStep {
    if answer.outcome == Outcome::Delivered {
        return NextStep::Delivered;
    }
    let attempts = &hand.delivery.attempts;
    let failure = Failure {
        attempts: attempts.made + 1,
        first_attempt_at: attempts.first_at.unwrap_or(began_at),
        ended_at,
        answer,
        not_before,
        expires_at: hand.expires_at(),
    };
    match retry::decide(hand.rules(), failure, dice) {
        Decision::Retry { due, because } => NextStep::Retry { due, because },
        Decision::End(reason) => NextStep::End(reason),
    }
}
