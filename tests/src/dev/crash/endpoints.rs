//! The endpoints: the answers to an event's attempts depend only on its number.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use crate::bench::{
    book::event_numbers,
    http::{Reply, Request, Service},
    sink::consent,
};

/// How an endpoint behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// 200.
    Steady,
    /// 500 to the first attempt of some events, 200 to all others.
    Flaky,
    /// 503 to the first attempt of some events, 200 to all others.
    Busy,
    /// 400 to some events, which become dead letters, 200 to all others.
    Bad,
    /// No answer to the first attempt of some events, 200 to all others.
    Hanging,
}

/// All of them.
pub const ALL: [Rule; 5] = [Rule::Steady, Rule::Flaky, Rule::Busy, Rule::Bad, Rule::Hanging];

/// The endpoint of an event: twelve of twenty events go to the one that works.
pub fn rule_of(number: usize) -> Rule {
    match number % 20 {
        0 => Rule::Hanging,
        1..=2 => Rule::Bad,
        3..=5 => Rule::Flaky,
        6..=7 => Rule::Busy,
        _ => Rule::Steady,
    }
}

impl Rule {
    /// The name of its event subscription, the type of its events and its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Flaky => "flaky",
            Self::Busy => "busy",
            Self::Bad => "bad",
            Self::Hanging => "hanging",
        }
    }

    /// The answer to an attempt, counted from 1, of an event that is failed; `None`: no answer.
    fn answer(self, attempt: u32) -> Option<u16> {
        match (self, attempt) {
            (Self::Bad, _) => Some(400),
            (Self::Flaky, 1) => Some(500),
            (Self::Busy, 1) => Some(503),
            (Self::Hanging, 1) => None,
            _ => Some(200),
        }
    }
}

/// Whether its endpoint fails an event: one in three. An endpoint that failed them all would only
/// get a probe now and then.
pub fn is_failed(number: usize) -> bool {
    (number / 20).is_multiple_of(3)
}

/// How often an event was attempted, and how often that was answered 200.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    attempts: u32,
    delivered: u32,
}

/// The endpoints.
#[derive(Debug, Default)]
pub struct Endpoints {
    hangs_for: Duration,
    is_well: AtomicBool,
    seen: Mutex<HashMap<usize, Seen>>,
}

impl Endpoints {
    /// Endpoints; the hanging one closes connections after that time.
    pub fn new(hangs_for: Duration) -> Self {
        Self { hangs_for, ..Self::default() }
    }

    /// How often each event was delivered.
    pub fn arrivals(&self) -> HashMap<usize, u32> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let delivered = seen.iter().filter(|(_, seen)| seen.delivered > 0);
        delivered.map(|(number, seen)| (*number, seen.delivered)).collect()
    }

    /// From now on they only refuse the events that they always refuse, so that all others can end.
    pub fn recover(&self) {
        self.is_well.store(true, Ordering::Relaxed);
    }

    fn take(&self, number: usize) -> Option<u16> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.entry(number).or_default();
        seen.attempts += 1;
        let rule = rule_of(number);
        let fails =
            is_failed(number) && (rule == Rule::Bad || !self.is_well.load(Ordering::Relaxed));
        let answer = if fails { rule.answer(seen.attempts) } else { Some(200) };
        seen.delivered += u32::from(answer == Some(200));
        answer
    }
}

impl Service for Endpoints {
    async fn answer(&self, request: Request) -> Option<Reply> {
        if let Some(consent) = consent(&request.body) {
            return Some(Reply::new(200, consent));
        }
        // Requests hold one event each: no event subscription asks for batches.
        let Some(number) = event_numbers(&request.body).next() else {
            return Some(Reply::new(422, "no event of this run"));
        };
        match self.take(number) {
            Some(status) => Some(Reply::new(status, "")),
            None => {
                sleep(self.hangs_for).await;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_events() {
        let of = |rule: Rule| (0..20).filter(|number| rule_of(*number) == rule).count();
        assert_eq!(ALL.map(of), [12, 3, 2, 2, 1]);
    }

    #[test]
    fn only_what_is_answered_200_has_arrived() {
        let endpoints = Endpoints::default();
        // (event, what its attempts are answered, how often it has arrived then)
        let table = [
            (8, vec![Some(200), Some(200)], Some(2)),
            (3, vec![Some(500), Some(200)], Some(1)),
            (6, vec![Some(503)], None),
            (1, vec![Some(400), Some(400)], None),
            (0, vec![None, Some(200)], Some(1)),
            (23, vec![Some(200)], Some(1)),
            (21, vec![Some(200)], Some(1)),
        ];
        for (number, want, arrived) in table {
            let answers: Vec<_> = want.iter().map(|_| endpoints.take(number)).collect();
            assert_eq!(answers, want, "{number}");
            assert_eq!(endpoints.arrivals().get(&number).copied(), arrived, "{number}");
        }
        endpoints.recover();
        assert_eq!([63, 60, 61].map(|number| endpoints.take(number)), [200, 200, 400].map(Some));
    }
}
