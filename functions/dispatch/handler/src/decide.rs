//! The fifth step: what follows for a delivery from what its events met. Pure.

use gridpost_core::{
    delivery::{event_set::EventSet, partial, resource_outcome::status_of},
    retry::{
        self, Decision, DelayReason, EndReason, Failure,
        outcome::{Answer, Outcome},
    },
    time::Timestamp,
};

use crate::{attempt::Met, in_hand::DeliveryInHand};

/// What follows for one delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Events that are delivered while others are not.
    pub delivered: EventSet,
    /// Events that end without the others, by what they met.
    pub ends: Vec<(Answer, EventSet)>,
    /// What the others met.
    pub answer: Answer,
    /// What follows for them.
    pub then: Then,
}

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    /// The delivery is delivered.
    Delivered,
    /// It is attempted again.
    Retry {
        /// Not before.
        due: Timestamp,
        /// What asks for that wait.
        because: DelayReason,
    },
    /// It ends undelivered.
    End(EndReason),
}

/// Decides what follows for a delivery whose attempts do not count this one yet. `not_before` is the
/// end of its endpoint's wait.
pub fn decide(
    hand: &DeliveryInHand,
    met: &Met,
    times: (Timestamp, Timestamp),
    not_before: Option<Timestamp>,
    dice: f64,
) -> Verdict {
    let (delivered, ends, answer) = match met {
        Met::Whole(answer) => (EventSet::default(), Vec::new(), *answer),
        Met::Each(each) => {
            let parted = partial::part(hand.rules(), each);
            match parted.rest {
                Some((answer, _)) => (parted.delivered, parted.ends, answer),
                None => (EventSet::default(), Vec::new(), all_delivered()),
            }
        }
    };
    Verdict { delivered, ends, answer, then: then(hand, answer, times, not_before, dice) }
}

/// The answer of a service that took every event.
fn all_delivered() -> Answer {
    let status = status_of(Outcome::Delivered);
    Answer { status, ..Answer::without_status(Outcome::Delivered) }
}

fn then(
    hand: &DeliveryInHand,
    answer: Answer,
    (began_at, ended_at): (Timestamp, Timestamp),
    not_before: Option<Timestamp>,
    dice: f64,
) -> Then {
    if answer.outcome == Outcome::Delivered {
        return Then::Delivered;
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
        Decision::Retry { due, because } => Then::Retry { due, because },
        Decision::End(reason) => Then::End(reason),
    }
}
