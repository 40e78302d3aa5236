//! The driver's book of publishes and arrivals, with their times.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Mutex,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    lock,
    mix::{Conduct, Endpoint, Mix},
    queue::Message,
};

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

/// From a publish's scheduled time until its arrival at the endpoint, by event.
pub const ARRIVAL: &str = "arrival";
/// From there until ingest had it: the driver, and the wait for a free sandbox.
pub const TO_INGEST: &str = "driver to ingest";
/// Until its delivery was sent to the queue: ingest.
pub const IN_INGEST: &str = "in ingest";
/// Until dispatch had it: the driver, and the wait for a free sandbox.
pub const TO_DISPATCH: &str = "driver to dispatch";
/// Until it arrived: dispatch.
pub const IN_DISPATCH: &str = "in dispatch";

/// How long each part of the way took, in milliseconds, unsorted.
pub type Hops = BTreeMap<&'static str, Vec<f64>>;

struct Publish {
    due: Instant,
    handed: Option<Instant>,
    accepted: bool,
    /// Arrivals that are still missing.
    open: usize,
    done: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Arrival {
    handed: Option<Instant>,
    copies: u64,
}

#[derive(Default)]
struct State {
    publishes: Vec<Publish>,
    arrivals: HashMap<(usize, usize), Arrival>,
    hops: Hops,
    first_counted: usize,
    strangers: u64,
}

impl State {
    /// Notes a part of the way of a publish that ends now.
    fn hop(&mut self, name: &'static str, publish: usize, since: Option<Instant>, now: Instant) {
        if let Some(since) = since.filter(|_| publish >= self.first_counted) {
            let ms = (now - since).as_secs_f64() * 1_000.0;
            self.hops.entry(name).or_default().push(ms);
        }
    }
}

/// The book. Publish `n` goes to topic `n % topics` and carries the events from `n * per_publish`.
pub struct Book {
    mix: Mix,
    endpoints: Vec<Endpoint>,
    state: Mutex<State>,
}

/// How it ended.
#[derive(Debug, Default)]
pub struct Sum {
    /// Events that have arrived at working endpoints, once for each endpoint.
    pub arrived: u64,
    /// Events that have not arrived, and events for failing endpoints that no queue holds.
    pub missing: u64,
    /// Arrivals beyond the first.
    pub duplicates: u64,
    /// Arrivals that were not expected.
    pub strangers: u64,
    /// Accepted publishes that were counted.
    pub publishes: u64,
    pub hops: Hops,
}

impl Book {
    /// An empty book for the publishes of a mix.
    pub fn new(mix: &Mix) -> Self {
        Self { mix: mix.clone(), endpoints: mix.endpoints(), state: Mutex::default() }
    }

    /// Opens a publish. Returns its number, and a future that resolves when all its events have
    /// arrived at all working endpoints that want them.
    pub fn open(&self, due: Instant) -> (usize, oneshot::Receiver<()>) {
        let (done, arrived) = oneshot::channel();
        let mut state = lock(&self.state);
        let number = state.publishes.len();
        let endpoints = self.wanting(number).filter(|(_, works)| *works).count();
        let open = endpoints * self.mix.events_per_publish;
        let done = (open > 0).then_some(done);
        state.publishes.push(Publish { due, handed: None, accepted: false, open, done });
        (number, arrived)
    }

    /// The endpoints that want a publish's events, by number, and whether each works.
    fn wanting(&self, publish: usize) -> impl Iterator<Item = (usize, bool)> + '_ {
        let topic = publish % self.mix.topics;
        let of_topic = self.endpoints.iter().filter(move |one| one.topic == topic && one.wants);
        of_topic.map(|one| (one.number, one.conduct == Conduct::Works))
    }

    /// Ingest gets a publish now.
    pub fn handed_to_ingest(&self, publish: usize) {
        let (now, mut state) = (Instant::now(), lock(&self.state));
        let entry = &mut state.publishes[publish];
        entry.handed = Some(now);
        let due = entry.due;
        state.hop(TO_INGEST, publish, Some(due), now);
    }

    /// Ingest has accepted a publish.
    pub fn accepted(&self, publish: usize) {
        lock(&self.state).publishes[publish].accepted = true;
    }

    /// A message with that body was sent.
    pub fn enqueued(&self, body: &[u8]) {
        let (now, mut state) = (Instant::now(), lock(&self.state));
        let Some(event) = event_numbers(body).next() else { return };
        let publish = event / self.mix.events_per_publish;
        let handed = state.publishes.get(publish).and_then(|publish| publish.handed);
        state.hop(IN_INGEST, publish, handed, now);
    }

    /// Dispatch gets a message now.
    pub fn handed_to_dispatch(&self, message: &Message) {
        let (now, mut state) = (Instant::now(), lock(&self.state));
        let Some(endpoint) = endpoint_number(&message.group) else { return };
        let mut last = 0;
        for event in event_numbers(message.body.get().as_bytes()) {
            last = event;
            state.arrivals.entry((endpoint, event)).or_default().handed = Some(now);
        }
        let publish = last / self.mix.events_per_publish;
        state.hop(TO_DISPATCH, publish, Some(message.sent_at), now);
    }

    /// An endpoint has got a request.
    pub fn arrived(&self, endpoint: usize, body: &[u8]) {
        let (now, mut state) = (Instant::now(), lock(&self.state));
        for event in event_numbers(body) {
            let publish = event / self.mix.events_per_publish;
            let Some(due) = state.publishes.get(publish).map(|publish| publish.due) else {
                state.strangers += 1;
                continue;
            };
            let arrival = state.arrivals.entry((endpoint, event)).or_default();
            arrival.copies += 1;
            if arrival.copies > 1 {
                continue;
            }
            let handed = arrival.handed;
            state.hop(ARRIVAL, publish, Some(due), now);
            state.hop(IN_DISPATCH, publish, handed, now);
            let entry = &mut state.publishes[publish];
            entry.open = entry.open.saturating_sub(1);
            if entry.open == 0
                && let Some(done) = entry.done.take()
            {
                // In an open loop nothing waits for it.
                let _ = done.send(());
            }
        }
    }

    /// Counts from the next publish on: the publishes so far were the warm-up.
    pub fn count_from_here(&self) {
        let mut state = lock(&self.state);
        state.first_counted = state.publishes.len();
        state.hops.clear();
    }

    /// Publishes whose events have not all arrived.
    pub fn open_publishes(&self) -> usize {
        lock(&self.state).publishes.iter().filter(|publish| publish.open > 0).count()
    }

    /// Sums up; `held` are the events (by endpoint) that wait in a queue.
    pub fn sum(&self, held: &HashSet<(usize, usize)>) -> Sum {
        let state = lock(&self.state);
        let mut sum =
            Sum { strangers: state.strangers, hops: state.hops.clone(), ..Sum::default() };
        let per_publish = self.mix.events_per_publish;
        for (number, publish) in state.publishes.iter().enumerate() {
            let is_counted = number >= state.first_counted;
            sum.publishes += u64::from(is_counted && publish.accepted);
            for (endpoint, works) in self.wanting(number) {
                for event in number * per_publish..(number + 1) * per_publish {
                    let copies = state.arrivals.get(&(endpoint, event)).map_or(0, |one| one.copies);
                    sum.duplicates += copies.saturating_sub(1);
                    sum.arrived += u64::from(works && is_counted && copies > 0);
                    let is_there = copies > 0 || held.contains(&(endpoint, event));
                    sum.missing += u64::from(publish.accepted && !is_there);
                }
            }
        }
        sum
    }
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
        let mix = Mix { events_per_publish: 2, topics: 2, ..Mix::default() };
        let (book, now) = (Book::new(&mix), Instant::now());
        let (first, mut first_done) = book.open(now);
        let (second, _) = book.open(now);
        book.accepted(first);
        book.accepted(second);
        book.arrived(0, b"gp-0000000000");
        assert!(first_done.try_recv().is_err());
        book.arrived(0, b"gp-0000000001 gp-0000000001");
        assert!(first_done.try_recv().is_ok());
        book.arrived(1, b"gp-0000000002");
        book.arrived(1, b"gp-0000000099");
        let sum = book.sum(&HashSet::new());
        assert_eq!((sum.arrived, sum.missing, sum.publishes), (3, 1, 2));
        assert_eq!((sum.duplicates, sum.strangers, book.open_publishes()), (1, 1, 1));
        assert_eq!(book.sum(&HashSet::from([(1, 3)])).missing, 0);
    }
}
