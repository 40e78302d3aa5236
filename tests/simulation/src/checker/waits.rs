//! Finds what really held a delivery up: times that excuse a late attempt or end.
//!
//! Each is a fact of the history, and lasts as long as its effects may last.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use gridpost_core::{
    delivery::{parking, queue::Queue},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_testkit::history::HealthWrite;
use uuid::Uuid;

use super::Check;

/// A time.
pub(super) type Span = Range<Timestamp>;

/// A message whose function died, or that could not be hidden, comes back after the queue's
/// timeout; one that a failed call kept from being settled comes back after at most two minutes. If
/// the endpoint's health could not be written, the delivery alone waits as long as its outcome asks
/// for: at most ten minutes, and a tenth more.
const COMES_BACK: Duration = Duration::from_secs(261 + 600 + 60 + 10);

/// The time after which a message of the dead-letter queue comes back.
const DEAD_LETTER_COMES_BACK: Duration = Duration::from_secs(360 + 10);

/// The time until an attempt after an endpoint's wait: a delivery comes back within three seconds,
/// finds a probe under way and comes back again after 20 s and three more.
const AFTER_A_WAIT: Duration = Duration::from_secs(3 + 20 + 3 + 4);

/// After a success has ended the waits, deliveries are admitted gradually for ten seconds; one that
/// comes too early comes back after as long, and two seconds more.
const RECOVERY: Duration = Duration::from_secs(10 + 12 + 2);

/// A delivery without room in the slow lane comes back within a minute.
const SLOW_LANE: Duration = Duration::from_secs(60 + 4);

/// The shortest wait that is parked.
const PARKED_MIN: Duration = Duration::from_secs(3 * 60 + 4);

pub(super) const WAKE_EVERY: Duration = Duration::from_secs(60);

/// Deliveries that wait for consent check each minute.
const ASKED_EVERY: Duration = Duration::from_secs(60 + 4);

/// Times that hold up all deliveries of one kind, joined and in order.
#[derive(Default)]
pub(super) struct Waits {
    attempts: Vec<Span>,
    dead_letters: Vec<Span>,
    wake: Vec<Span>,
    endpoints: BTreeMap<SubscriptionKey, Vec<Span>>,
}

impl Waits {
    pub(super) fn of(check: &Check<'_>) -> Self {
        let history = &check.remains.history;
        let platform = |wanted: &dyn Fn(Queue) -> bool| {
            let of_it = history.platform_waits.iter().filter(|(queue, _)| wanted(**queue));
            of_it.flat_map(|(_, spans)| spans.clone()).collect::<Vec<_>>()
        };
        let attempts =
            platform(&|queue| matches!(queue, Queue::Dispatch | Queue::Retry(_) | Queue::Slow));
        let mut dead_letters = platform(&|queue| queue == Queue::DeadLetter);
        // A refused record looks again after five minutes at most.
        let refuses = check.remains.bucket_refuses.iter();
        dead_letters.extend(refuses.map(|span| span.start..span.end + DEAD_LETTER_COMES_BACK));
        let mut endpoints: BTreeMap<_, Vec<Span>> = BTreeMap::new();
        for (key, (_, subscription)) in &check.owners {
            let mut spans = Vec::new();
            for uid in check.endpoints_of(subscription) {
                let said = history.healths.get(&uid).map_or(&[][..], Vec::as_slice);
                spans.extend(said.iter().flat_map(endpoint));
                let faults = history.health_faults.get(&uid).into_iter().flatten();
                spans.extend(faults.map(|at| *at..*at + COMES_BACK));
            }
            let asked = check.remains.consents.iter().filter(|consent| consent.of == *key);
            spans.extend(asked.map(|consent| {
                let until = consent.given_at.unwrap_or(Timestamp::from_millis(i64::MAX / 2));
                consent.asked_at..until + ASKED_EVERY
            }));
            endpoints.insert(key.clone(), joined(spans));
        }
        let wake = joined(history.wake_waits.clone());
        let (attempts, dead_letters) = (joined(attempts), joined(dead_letters));
        Self { attempts, dead_letters, wake, endpoints }
    }

    /// How late an attempt was that was due at the beginning of `span` and came at its end, without
    /// what held it up.
    pub(super) fn late(&self, check: &Check<'_>, delivery: Uuid, span: &Span) -> Duration {
        let mut spans = Vec::new();
        self.add_own(check, delivery, COMES_BACK, &mut spans);
        self.add_endpoint(check, delivery, span, &mut spans);
        add(&self.attempts, span, &mut spans);
        uncovered(span, &joined(spans))
    }

    /// Returns how late an end was, which also waits for its dead letter. After `life`, its
    /// endpoint's waits no longer hold it up.
    pub(super) fn end_late(
        &self,
        check: &Check<'_>,
        delivery: Uuid,
        span: &Span,
        life: Option<Timestamp>,
    ) -> Duration {
        let mut spans = Vec::new();
        self.add_endpoint(check, delivery, span, &mut spans);
        if let Some(over) = life {
            spans.iter_mut().for_each(|one| one.end = one.end.min(over));
        }
        self.add_own(check, delivery, DEAD_LETTER_COMES_BACK, &mut spans);
        add(&self.attempts, span, &mut spans);
        add(&self.dead_letters, span, &mut spans);
        uncovered(span, &joined(spans))
    }

    /// Returns how late wake sent it back. The run after a failed one may have too little time to
    /// catch up.
    pub(super) fn woken_late(&self, check: &Check<'_>, delivery: Uuid, span: &Span) -> Duration {
        let mut spans = hindrances(check, delivery, WAKE_EVERY * 3);
        add(&self.wake, span, &mut spans);
        uncovered(span, &joined(spans))
    }

    /// Adds the times of what happened to the delivery alone.
    fn add_own(&self, check: &Check<'_>, delivery: Uuid, each: Duration, to: &mut Vec<Span>) {
        let history = &check.remains.history;
        to.extend(hindrances(check, delivery, each));
        to.extend(history.held_back.get(&delivery).into_iter().flatten().cloned());
        let spread = parking::spread(u64::try_from(history.in_flight_max).expect("small"));
        let spread_ms = i64::try_from(spread.as_millis()).expect("ten minutes at most");
        for park in history.parks.get(&delivery).into_iter().flatten() {
            // A delivery that could not be sent back is parked again, longer each time.
            let least = if park.postponed > 0 { park.due } else { park.at + PARKED_MIN };
            to.push(park.at..least);
            // It may have been due by as much earlier.
            let due = Timestamp::from_millis(park.due.as_millis() - spread_ms);
            to.push(due..park.due + WAKE_EVERY);
            add(&self.wake, &(park.at..park.due + WAKE_EVERY * 2), to);
        }
    }

    fn add_endpoint(&self, check: &Check<'_>, delivery: Uuid, span: &Span, to: &mut Vec<Span>) {
        let key = &check.remains.history.accepted[&delivery].subscription;
        add(self.endpoints.get(key).map_or(&[], Vec::as_slice), span, to);
    }
}

/// Adds those that meet a time.
fn add(from: &[Span], span: &Span, to: &mut Vec<Span>) {
    let first = from.partition_point(|one| one.end <= span.start);
    to.extend(from[first..].iter().take_while(|one| one.start < span.end).cloned());
}

fn hindrances(check: &Check<'_>, delivery: Uuid, each: Duration) -> Vec<Span> {
    let hindered = check.remains.history.hindered.get(&delivery);
    hindered.into_iter().flatten().map(|at| *at..*at + each).collect()
}

/// The times that a stored health asks deliveries to wait for.
fn endpoint(said: &HealthWrite) -> Vec<Span> {
    let waits = [
        said.probation.map(|wait| wait.since..wait.until),
        said.delayed.map(|wait| wait.since..wait.until),
    ];
    let waits = waits.into_iter().flatten().map(|wait| {
        // A delivery that fails meanwhile is due when the wait is over, plus a tenth of it.
        let jitter = (wait.end.since(wait.start) / 10).min(Duration::from_secs(300));
        wait.start..wait.end + AFTER_A_WAIT + jitter
    });
    let probe = said.probe.map(|probe| said.at..probe.lease_until + AFTER_A_WAIT);
    let recovered = said.recovered.map(|success| success.at..success.at + success.over + RECOVERY);
    let slow = said.slow_until.map(|until| said.at..until + SLOW_LANE);
    waits.chain(probe).chain(recovered).chain(slow).collect()
}

/// Joins times where they overlap.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|span| span.start < span.end);
    spans.sort_by_key(|span| span.start);
    let mut all: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut().filter(|last| span.start <= last.end) {
            Some(last) => last.end = last.end.max(span.end),
            None => all.push(span),
        }
    }
    all
}

/// How much of a time is outside of those, which are joined.
fn uncovered(span: &Span, by: &[Span]) -> Duration {
    let covered = by.iter().map(|one| one.end.min(span.end).since(one.start.max(span.start)));
    span.end.since(span.start).saturating_sub(covered.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_covered_twice_counts_once() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let span = |from, until| at(from)..at(until);
        let table = [
            (vec![], 10),
            (vec![span(2, 4), span(3, 6)], 6),
            (vec![span(3, 6), span(2, 4), span(6, 7)], 5),
            (vec![span(-5, 1), span(9, 20)], 8),
            (vec![span(-5, -1), span(11, 20)], 10),
            (vec![span(-5, 20)], 0),
        ];
        for (by, seconds) in table {
            let left = uncovered(&span(0, 10), &joined(by.clone()));
            assert_eq!(left, Duration::from_secs(seconds), "{by:?}");
        }
    }
}
