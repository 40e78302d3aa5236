//! Plans what happens to a received delivery before anything is attempted, as one table.
//!
//! dispatch loads the facts and carries the plan out. The rows ask in order: has it ended, does its
//! event subscription exist, is it due, alive, may its endpoint be called, and in which lane?

use std::time::Duration;

use super::{parking::LAST_SECOND, queue::Queue, state::DeliveryStatus};
use crate::{
    retry::{
        EndReason,
        health::{Admission, Health},
    },
    time::Timestamp,
};

/// The queue that a delivery was received from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The dispatch queue.
    First,
    /// A retry queue.
    Retry,
    /// Where requests to slow endpoints are made: the slow queue, or a retry queue of a deployment
    /// without one.
    Slow,
}

impl Lane {
    /// Tells the lane of a queue that dispatch reads.
    pub fn of(queue: Queue, sends_to_slow: bool) -> Self {
        match queue {
            Queue::Dispatch => Self::First,
            Queue::Retry(_) if sends_to_slow => Self::Retry,
            _ => Self::Slow,
        }
    }
}

/// The facts about a received delivery and its endpoint.
#[derive(Clone, Debug)]
pub struct Facts {
    pub lane: Lane,
    /// `None` without a state.
    pub status: Option<DeliveryStatus>,
    /// As its message says.
    pub due: Option<Timestamp>,
    pub resend_requested: bool,
    /// Read after the receive; `None` if deleted.
    pub subscription: Option<SubscriptionFacts>,
}

/// The facts of a delivery's event subscription and its endpoint.
#[derive(Clone, Debug)]
pub struct SubscriptionFacts {
    pub expires_at: Timestamp,
    /// Set if the event subscription is paused.
    pub held_until: Option<Timestamp>,
    /// Until when the endpoint may still consent; `None` if it has consented.
    pub consent_until: Option<Timestamp>,
    pub admission: Admission,
    pub is_slow: bool,
}

/// The action for a delivery now.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    Attempt {
        /// Whether its requests under way are counted, because its endpoint is slow.
        leased: bool,
    },
    /// An attempt, once this health has been written conditionally.
    Probe(Box<Health>),
    /// Look again, without an attempt, at about this time.
    RecheckAt {
        until: Timestamp,
    },
    Wait {
        due: Timestamp,
    },
    /// Held by a pause, until that or the delivery's life ends.
    Hold {
        until: Timestamp,
    },
    /// Due within a second: the function waits.
    WaitInProcess(Duration),
    /// To the slow lane without an attempt: its endpoint is slow.
    MoveLane,
    End(EndReason),
    /// The event subscription no longer exists.
    Drop(EndReason),
    /// Carry out the state's decision again.
    Follow(DeliveryStatus),
}

/// Chooses what becomes of a delivery at `now`.
pub fn plan(facts: Facts, now: Timestamp) -> Plan {
    if let Some(status @ (DeliveryStatus::Delivered | DeliveryStatus::Ended)) = facts.status {
        return Plan::Follow(status);
    }
    let Some(subscription) = facts.subscription else {
        return Plan::Drop(EndReason::SubscriptionDeleted);
    };
    let due = match facts.status {
        None => facts.due,
        Some(DeliveryStatus::Waiting { due }) if facts.lane != Lane::First => Some(due),
        // Its end was not carried out, or a crash left a first message without a successor.
        Some(status) => return Plan::Follow(status),
    };
    let early = due.map_or(Duration::ZERO, |due| due.since(now));
    match due {
        Some(due) if early >= LAST_SECOND => return Plan::Wait { due },
        // Queues count in whole seconds.
        _ if !early.is_zero() => return Plan::WaitInProcess(early),
        _ => {}
    }
    if now >= subscription.expires_at {
        return Plan::End(EndReason::TimeToLiveExceeded);
    }
    if let Some(until) = subscription.held_until {
        // A pause holds even what an operator asked to resend.
        return Plan::Hold { until };
    }
    if let Some(until) = subscription.consent_until {
        return Plan::Wait { due: until.min(subscription.expires_at) };
    }
    if facts.resend_requested {
        return Plan::Attempt { leased: false };
    }
    match (subscription.admission, facts.lane) {
        (Admission::Wait { until }, _) => {
            Plan::RecheckAt { until: until.min(subscription.expires_at) }
        }
        (Admission::End, _) => Plan::End(EndReason::UndeliverableDueToProbationCausedByClientError),
        (_, Lane::First | Lane::Retry) if subscription.is_slow => Plan::MoveLane,
        (Admission::Attempt, _) => Plan::Attempt { leased: subscription.is_slow },
        (Admission::Probe(claimed), _) => Plan::Probe(claimed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EndReason::{
        SubscriptionDeleted, TimeToLiveExceeded, UndeliverableDueToProbationCausedByClientError,
    };

    const NOW_MS: i64 = 100_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(NOW_MS + ms)
    }

    /// A delivery that may be attempted at once.
    fn facts(lane: Lane) -> Facts {
        let subscription = SubscriptionFacts {
            expires_at: at(60_000),
            held_until: None,
            consent_until: None,
            admission: Admission::Attempt,
            is_slow: false,
        };
        Facts {
            lane,
            status: None,
            due: None,
            resend_requested: false,
            subscription: Some(subscription),
        }
    }

    type Row = (&'static str, Lane, fn(&mut Facts, &mut SubscriptionFacts), Plan);

    fn rows() -> Vec<Row> {
        use DeliveryStatus::{Delivered, Ended, Ending, Waiting};
        use Lane::{First, Retry, Slow};
        const ENDING: DeliveryStatus = Ending {
            reason: EndReason::MaxDeliveryAttemptsExceeded,
            at: Timestamp::from_millis(NOW_MS - 5),
        };
        let attempt = |leased| Plan::Attempt { leased };
        vec![
            ("a first attempt", First, |_, _| {}, attempt(false)),
            ("a retry", Retry, |_, _| {}, attempt(false)),
            ("delivered", Retry, |f, _| f.status = Some(Delivered), Plan::Follow(Delivered)),
            ("ended", First, |f, _| f.status = Some(Ended), Plan::Follow(Ended)),
            (
                "its end to be carried out",
                Retry,
                |f, _| f.status = Some(ENDING),
                Plan::Follow(ENDING),
            ),
            (
                "a first message whose successor may not have been sent",
                First,
                |f, _| f.status = Some(Waiting { due: at(7) }),
                Plan::Follow(Waiting { due: at(7) }),
            ),
            (
                "the state's time counts, not the message's",
                Retry,
                |f, _| (f.status, f.due) = (Some(Waiting { due: at(1_000) }), Some(at(-5))),
                Plan::Wait { due: at(1_000) },
            ),
            (
                "early by a second",
                Retry,
                |f, _| f.due = Some(at(1_000)),
                Plan::Wait { due: at(1_000) },
            ),
            (
                "early by less",
                Retry,
                |f, _| f.due = Some(at(999)),
                Plan::WaitInProcess(Duration::from_millis(999)),
            ),
            ("due", Retry, |f, _| f.due = Some(at(0)), attempt(false)),
            ("expired", First, |_, s| s.expires_at = at(0), Plan::End(TimeToLiveExceeded)),
            (
                "early and expired: it ends when due",
                Retry,
                |f, s| (f.due, s.expires_at) = (Some(at(2_000)), at(-1)),
                Plan::Wait { due: at(2_000) },
            ),
            ("paused", First, |_, s| s.held_until = Some(at(9)), Plan::Hold { until: at(9) }),
            (
                "paused, whatever else holds",
                Retry,
                |f, s| {
                    (f.resend_requested, f.due) = (true, Some(at(0)));
                    s.held_until = Some(at(9));
                    (s.admission, s.consent_until) = (Admission::End, Some(at(5)));
                },
                Plan::Hold { until: at(9) },
            ),
            (
                "paused, and not yet due",
                Retry,
                |f, s| (f.due, s.held_until) = (Some(at(2_000)), Some(at(9_000))),
                Plan::Wait { due: at(2_000) },
            ),
            (
                "paused, and expired",
                Retry,
                |_, s| (s.expires_at, s.held_until) = (at(0), Some(at(0))),
                Plan::End(TimeToLiveExceeded),
            ),
            ("consent", First, |_, s| s.consent_until = Some(at(9)), Plan::Wait { due: at(9) }),
            (
                "consent comes later than its life ends",
                First,
                |_, s| s.consent_until = Some(at(90_000)),
                Plan::Wait { due: at(60_000) },
            ),
            (
                "asked for, whatever its endpoint's health",
                Retry,
                |f, s| (f.resend_requested, s.is_slow, s.admission) = (true, true, Admission::End),
                attempt(false),
            ),
            (
                "the endpoint waits",
                First,
                |_, s| s.admission = Admission::Wait { until: at(5_000) },
                Plan::RecheckAt { until: at(5_000) },
            ),
            (
                "the endpoint waits longer than the delivery lives",
                Retry,
                |_, s| s.admission = Admission::Wait { until: at(90_000) },
                Plan::RecheckAt { until: at(60_000) },
            ),
            (
                "the endpoint refuses",
                Retry,
                |_, s| s.admission = Admission::End,
                Plan::End(UndeliverableDueToProbationCausedByClientError),
            ),
            (
                "the probe",
                First,
                |_, s| s.admission = Admission::Probe(Box::default()),
                Plan::Probe(Box::default()),
            ),
            ("slow", First, |_, s| s.is_slow = true, Plan::MoveLane),
            ("a retry of a slow endpoint", Retry, |_, s| s.is_slow = true, Plan::MoveLane),
            ("slow, in its lane", Slow, |_, s| s.is_slow = true, attempt(true)),
            ("no longer slow", Slow, |_, _| {}, attempt(false)),
            (
                "early in the slow lane",
                Slow,
                |f, _| f.status = Some(Waiting { due: at(1_000) }),
                Plan::Wait { due: at(1_000) },
            ),
            (
                "the probe of a slow endpoint",
                First,
                |_, s| (s.is_slow, s.admission) = (true, Admission::Probe(Box::default())),
                Plan::MoveLane,
            ),
            (
                "the same in its lane",
                Slow,
                |_, s| (s.is_slow, s.admission) = (true, Admission::Probe(Box::default())),
                Plan::Probe(Box::default()),
            ),
            (
                "slow, and it waits",
                First,
                |_, s| (s.is_slow, s.admission) = (true, Admission::Wait { until: at(5_000) }),
                Plan::RecheckAt { until: at(5_000) },
            ),
        ]
    }

    #[test]
    fn lane_table() {
        for (queue, sends_to_slow, want) in [
            (Queue::Dispatch, true, Lane::First),
            (Queue::Dispatch, false, Lane::First),
            (Queue::Retry(1), true, Lane::Retry),
            (Queue::Retry(1), false, Lane::Slow),
            (Queue::Slow, true, Lane::Slow),
        ] {
            assert_eq!(Lane::of(queue, sends_to_slow), want, "{queue}, {sends_to_slow}");
        }
    }

    #[test]
    fn plan_table() {
        for (row, lane, change, want) in rows() {
            let mut facts = facts(lane);
            let mut subscription = facts.subscription.take().expect("there is one");
            change(&mut facts, &mut subscription);
            facts.subscription = Some(subscription);
            assert_eq!(plan(facts, at(0)), want, "{row}");
        }
    }

    #[test]
    fn without_its_event_subscription_it_is_dropped_unless_it_has_ended() {
        let (ended, waiting) = (DeliveryStatus::Ended, DeliveryStatus::Waiting { due: at(9_000) });
        for (status, want) in [
            (None, Plan::Drop(SubscriptionDeleted)),
            (Some(waiting), Plan::Drop(SubscriptionDeleted)),
            (Some(ended), Plan::Follow(ended)),
        ] {
            let facts = Facts { status, subscription: None, ..facts(Lane::Retry) };
            assert_eq!(plan(facts, at(0)), want, "{status:?}");
        }
    }
}
