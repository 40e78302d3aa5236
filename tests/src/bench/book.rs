//! The driver's book of publishes and arrivals, with their times.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};

/// The prefix of an event's id; its number follows in [`DIGITS`] digits.
pub const MARK: &str = "gp-";

/// Digits of an event's number in its id.
pub const DIGITS: usize = 10;

/// The numbers of the events in a text of any format.
pub fn event_numbers(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let number = |at: usize| {
        let digits = text.get(at + MARK.len()..at + MARK.len() + DIGITS)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    memchr::memmem::find_iter(text, MARK).filter_map(number)
}

/// The number of the endpoint in a fair-queue group or a path, `…/s12`.
pub fn endpoint_number(text: &str) -> Option<usize> {
    text.rsplit_once("/s")?.1.parse().ok()
}

#[derive(Debug)]
struct Publish {
    /// When it was scheduled.
    due: Instant,
    handed: Option<Instant>,
    accepted: bool,
    /// Arrivals that are still missing.
    open: usize,
    done: Option<oneshot::Sender<()>>,
}

#[derive(Clone, Debug, Default)]
struct Arrival {
    handed: Option<Instant>,
    at: Option<Instant>,
    copies: u32,
}

/// How long each part of the way took, in milliseconds, unsorted.
#[derive(Clone, Debug, Default)]
pub struct Hops {
    /// From a publish's scheduled time until its arrival at the endpoint, by event.
    pub publish_to_arrival: Vec<f64>,
    /// Until ingest had it: the driver, and the wait for a free sandbox.
    pub to_ingest: Vec<f64>,
    /// Until its delivery was sent to the queue: ingest.
    pub in_ingest: Vec<f64>,
    /// Until dispatch had it: the driver, and the wait for a free sandbox.
    pub to_dispatch: Vec<f64>,
    /// Until it arrived: dispatch.
    pub in_dispatch: Vec<f64>,
}

#[derive(Debug, Default)]
struct State {
    publishes: Vec<Publish>,
    /// By endpoint and by the event's number among its topic's.
    arrivals: Vec<Vec<Arrival>>,
    hops: Hops,
    first_counted: usize,
    strangers: u64,
}

/// The book. Publish `n` goes to topic `n % topics` and carries the events from `n * per_publish`.
#[derive(Debug)]
pub struct Book {
    per_publish: usize,
    topics: usize,
    state: Mutex<State>,
}

/// How it ended.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// Events that should have arrived at working endpoints, once for each endpoint.
    pub wanted: u64,
    /// Those of them that did.
    pub arrived: u64,
    /// Those that did not, and events for failing endpoints that no queue holds.
    pub missing: u64,
    /// Arrivals beyond the first.
    pub duplicates: u64,
    /// Arrivals that were not expected.
    pub strangers: u64,
    /// Publishes that were counted, and those of them that were accepted.
    pub publishes: u64,
    /// When the first counted publish was due, and the last arrival came.
    pub span: Option<(Instant, Instant)>,
    /// The parts of the way.
    pub hops: Hops,
}

impl Book {
    /// A book for publishes of this many events each, to this many topics in turn.
    pub fn new(per_publish: usize, topics: usize) -> Self {
        Self { per_publish, topics, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn local(&self, event: usize) -> usize {
        let (publish, offset) = (event / self.per_publish, event % self.per_publish);
        publish / self.topics * self.per_publish + offset
    }

    /// Opens a publish whose events are expected at as many endpoints as `endpoints` says for its
    /// number. Returns the number, and a future that resolves when all of them have arrived.
    pub fn open(
        &self,
        due: Instant,
        endpoints: impl FnOnce(usize) -> usize,
    ) -> (usize, oneshot::Receiver<()>) {
        let (done, arrived) = oneshot::channel();
        let mut state = self.state();
        let open = endpoints(state.publishes.len()) * self.per_publish;
        let done = (open > 0).then_some(done);
        state.publishes.push(Publish { due, handed: None, accepted: false, open, done });
        (state.publishes.len() - 1, arrived)
    }

    /// Ingest gets a publish now.
    pub fn handed_to_ingest(&self, publish: usize) {
        let now = Instant::now();
        let mut state = self.state();
        let counted = publish >= state.first_counted;
        let Some(entry) = state.publishes.get_mut(publish) else { return };
        entry.handed = Some(now);
        let waited = now - entry.due;
        if counted {
            state.hops.to_ingest.push(millis(waited));
        }
    }

    /// Ingest has accepted a publish.
    pub fn accepted(&self, publish: usize) {
        if let Some(entry) = self.state().publishes.get_mut(publish) {
            entry.accepted = true;
        }
    }

    /// A message with that body was sent.
    pub fn enqueued(&self, body: &[u8]) {
        let now = Instant::now();
        let Some(event) = event_numbers(body).next() else { return };
        let publish = event / self.per_publish;
        let mut state = self.state();
        let handed = state.publishes.get(publish).and_then(|publish| publish.handed);
        if let Some(handed) = handed.filter(|_| publish >= state.first_counted) {
            state.hops.in_ingest.push(millis(now - handed));
        }
    }

    /// Dispatch gets a message now.
    pub fn handed_to_dispatch(&self, group: &str, body: &[u8], sent_at: Instant) {
        let now = Instant::now();
        let Some(endpoint) = endpoint_number(group) else { return };
        let mut state = self.state();
        let mut counted = false;
        for event in event_numbers(body) {
            counted |= event / self.per_publish >= state.first_counted;
            self.arrival(&mut state, endpoint, event).handed = Some(now);
        }
        if counted {
            state.hops.to_dispatch.push(millis(now - sent_at));
        }
    }

    /// An endpoint has got a request.
    pub fn arrived(&self, endpoint: usize, body: &[u8]) {
        let now = Instant::now();
        let mut state = self.state();
        for event in event_numbers(body) {
            let publish = event / self.per_publish;
            let Some(due) = state.publishes.get(publish).map(|publish| publish.due) else {
                state.strangers += 1;
                continue;
            };
            let counted = publish >= state.first_counted;
            let arrival = self.arrival(&mut state, endpoint, event);
            arrival.copies += 1;
            if arrival.copies > 1 {
                continue;
            }
            arrival.at = Some(now);
            let handed = arrival.handed;
            if counted {
                state.hops.publish_to_arrival.push(millis(now - due));
                state.hops.in_dispatch.extend(handed.map(|handed| millis(now - handed)));
            }
            let Some(entry) = state.publishes.get_mut(publish) else { continue };
            entry.open = entry.open.saturating_sub(1);
            if entry.open == 0
                && let Some(done) = entry.done.take()
            {
                // In an open loop nothing waits for it.
                let _ = done.send(());
            }
        }
    }

    fn arrival<'a>(&self, state: &'a mut State, endpoint: usize, event: usize) -> &'a mut Arrival {
        if state.arrivals.len() <= endpoint {
            state.arrivals.resize_with(endpoint + 1, Vec::new);
        }
        let (local, arrivals) = (self.local(event), &mut state.arrivals[endpoint]);
        if arrivals.len() <= local {
            arrivals.resize_with(local + 1, Arrival::default);
        }
        &mut arrivals[local]
    }

    /// Counts from the next publish on: the publishes so far were the warm-up.
    pub fn count_from_here(&self) {
        let mut state = self.state();
        state.first_counted = state.publishes.len();
        state.hops = Hops::default();
    }

    /// Publishes whose events have not all arrived.
    pub fn open_publishes(&self) -> usize {
        self.state().publishes.iter().filter(|publish| publish.open > 0).count()
    }

    /// Sums up. `wants` says whether an endpoint works, or `None` if it wants no events of a topic;
    /// `held` are the events (by endpoint) that wait in a queue.
    pub fn sum(
        &self,
        endpoints: usize,
        wants: impl Fn(usize, usize) -> Option<bool>,
        held: &HashSet<(usize, usize)>,
    ) -> Sum {
        let mut state = self.state();
        let mut sum = Sum { strangers: state.strangers, ..Sum::default() };
        let first = state.first_counted;
        let accepted: Vec<bool> = state.publishes.iter().map(|publish| publish.accepted).collect();
        sum.publishes = accepted.iter().skip(first).filter(|accepted| **accepted).count() as u64;
        let mut last: Option<Instant> = None;
        for endpoint in 0..endpoints {
            for event in 0..accepted.len() * self.per_publish {
                let publish = event / self.per_publish;
                let Some(works) = wants(publish % self.topics, endpoint) else { continue };
                let arrival = self.arrival(&mut state, endpoint, event).clone();
                let counted = publish >= first;
                sum.duplicates += u64::from(arrival.copies.saturating_sub(1));
                sum.wanted += u64::from(works && counted && accepted[publish]);
                sum.arrived += u64::from(works && counted && arrival.copies > 0);
                last = last.max(arrival.at.filter(|_| counted));
                let is_there = arrival.copies > 0 || held.contains(&(endpoint, event));
                sum.missing += u64::from(accepted[publish] && !is_there);
            }
        }
        sum.span = state.publishes.get(first).map(|publish| publish.due).zip(last);
        sum.hops = state.hops.clone();
        sum
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_any_text() {
        let text = br#"{\"id\":\"gp-0000000012\",\"x\":\"gp-12\"},{"id":"gp-0000000013"}"#;
        assert_eq!(event_numbers(text).collect::<Vec<_>>(), [12, 13]);
        assert_eq!(endpoint_number("bench-3/s41"), Some(41));
        assert_eq!(endpoint_number("bench"), None);
    }

    #[tokio::test]
    async fn the_book_misses_what_did_not_come_and_counts_what_came_twice() {
        // Two topics of one endpoint each; two events in each publish.
        let (book, now) = (Book::new(2, 2), Instant::now());
        let (first, mut first_done) = book.open(now, |_| 1);
        let (second, _) = book.open(now, |_| 1);
        book.accepted(first);
        book.accepted(second);
        let wants = |topic, endpoint| (topic == endpoint).then_some(true);
        let none = HashSet::new();
        book.arrived(0, b"gp-0000000000");
        assert!(first_done.try_recv().is_err());
        book.arrived(0, b"gp-0000000001 gp-0000000001");
        assert!(first_done.try_recv().is_ok());
        book.arrived(1, b"gp-0000000002");
        book.arrived(1, b"gp-0000000099");
        let sum = book.sum(2, wants, &none);
        assert_eq!((sum.wanted, sum.arrived, sum.missing), (4, 3, 1));
        assert_eq!((sum.duplicates, sum.strangers, sum.publishes), (1, 1, 2));
        let held = HashSet::from([(1, 3)]);
        assert_eq!(book.sum(2, wants, &held).missing, 0);
    }
}
