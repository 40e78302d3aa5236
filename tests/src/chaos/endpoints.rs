//! The endpoints of a run: they answer by rules that depend only on an event's number, so that
//! each event's end is known in advance, and count how often it arrived.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gridpost_testkit::server::{Server, consent, response};
use serde_json::Value;
use tokio::time::sleep;

/// How long a late answer takes: dispatch waits for 30 s, and still accepts a success a while
/// later.
const LATE_AFTER: Duration = Duration::from_secs(33);

/// How an endpoint behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Answers 200.
    Steady,
    /// Answers 500 to the first attempt of some events, and to the second of some of these.
    Flaky,
    /// Answers 503 to the first attempt of some events.
    Busy,
    /// Always answers 400 to some events, which become dead letters.
    Refusing,
    /// Answers 200, and takes ten events at once.
    Batched,
    /// Answers 200, but to the first attempts of a few events only after dispatch has given up on
    /// them.
    Late,
    /// Does not answer the first attempt of some events.
    Hanging,
    /// Always answers 400 to some events, which are lost: they become no dead letters.
    Losing,
}

/// An event at an endpoint, by its number.
pub type Key = (Rule, usize);

impl Rule {
    /// The name of its event subscription and of its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Flaky => "flaky",
            Self::Busy => "busy",
            Self::Refusing => "refusing",
            Self::Batched => "batched",
            Self::Late => "late",
            Self::Hanging => "hanging",
            Self::Losing => "losing",
        }
    }

    /// Returns whether it refuses the event for good.
    pub fn refuses(self, number: usize) -> bool {
        matches!(self, Self::Refusing | Self::Losing) && is_failed(number)
    }

    /// Returns whether the event is lost.
    pub fn drops(self, number: usize) -> bool {
        self == Self::Losing && is_failed(number)
    }

    /// The status of an event's attempt, counted from 1, and after how long; without a status, the
    /// connection is closed then.
    fn answer(self, number: usize, attempt: u32, hangs_for: Duration) -> (Option<u16>, Duration) {
        let fails = match number % 6 {
            0 => 1,
            3 => 2,
            _ => 0,
        };
        let status = match self {
            Self::Hanging if attempt == 1 && fails > 0 => return (None, hangs_for),
            Self::Late if attempt == 1 && number % 50 == 5 => return (Some(200), LATE_AFTER),
            Self::Refusing | Self::Losing if self.refuses(number) => 400,
            Self::Flaky if attempt <= fails => 500,
            Self::Busy if attempt == 1 && fails > 0 => 503,
            _ => 200,
        };
        (Some(status), Duration::ZERO)
    }
}

/// Returns whether endpoints fail the event: one in three. An endpoint that failed them all would
/// only get a probe now and then.
fn is_failed(number: usize) -> bool {
    number.is_multiple_of(3)
}

/// The number of an event, which is the end of its id.
pub fn number_of(id: &str) -> Option<usize> {
    id.rsplit('-').next()?.parse().ok()
}

/// The numbers of the events of a request.
fn numbers(body: &[u8]) -> Vec<usize> {
    let events: Vec<Value> = serde_json::from_slice(body).unwrap_or_default();
    events.iter().filter_map(|event| number_of(event["id"].as_str()?)).collect()
}

/// How often an event was attempted, and how often that was answered 200.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub attempts: u32,
    pub delivered: u64,
}

#[derive(Debug, Default)]
struct Book {
    hangs_for: Duration,
    is_well: AtomicBool,
    seen: Mutex<HashMap<Key, Seen>>,
}

impl Book {
    /// The answer to a request with these events.
    fn take(&self, rule: Rule, events: &[usize]) -> (Option<u16>, Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let at_once = (Some(200), Duration::ZERO);
        let mut answer = at_once;
        for number in events {
            let seen = seen.entry((rule, *number)).or_default();
            seen.attempts += 1;
            let is_well = self.is_well.load(Ordering::Relaxed) && !rule.refuses(*number);
            let own = rule.answer(*number, seen.attempts, self.hangs_for);
            let own = if is_well { at_once } else { own };
            // Only the batched one takes several events at once, and it fails none.
            answer = if own == at_once { answer } else { own };
            seen.delivered += u64::from(own.0 == Some(200));
        }
        answer
    }
}

/// Running endpoints.
#[derive(Debug)]
pub struct Endpoints {
    book: Arc<Book>,
    server: Server,
}

impl Endpoints {
    /// Opens one for each rule; a hanging one closes connections after that time.
    pub async fn open(rules: &'static [Rule], hangs_for: Duration) -> anyhow::Result<Self> {
        let book = Arc::new(Book { hangs_for, ..Book::default() });
        let own = Arc::clone(&book);
        let server = Server::start(move |parts, body| {
            let book = Arc::clone(&own);
            async move {
                let consent = consent(&parts, &body);
                if consent.is_some() {
                    return consent;
                }
                let name = parts.uri.path().trim_start_matches('/');
                let rule = rules.iter().find(|rule| rule.name() == name)?;
                let (status, after) = book.take(*rule, &numbers(&body));
                sleep(after).await;
                Some(response(status?, ""))
            }
        });
        Ok(Self { book, server: server.await? })
    }

    /// The URL of one of them.
    pub fn url(&self, rule: Rule) -> String {
        format!("{}/{}", self.server.url(), rule.name())
    }

    /// How often each event was answered 200, if it ever was.
    pub fn arrivals(&self) -> HashMap<Key, u64> {
        let seen = self.book.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let delivered = seen.iter().filter(|(_, seen)| seen.delivered > 0);
        delivered.map(|(key, seen)| (*key, seen.delivered)).collect()
    }

    /// The requests of each event.
    pub fn requests(&self) -> HashMap<Key, Seen> {
        self.book.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes them refuse only the events that they always refuse, so that all others can end.
    pub fn recover(&self) {
        self.book.is_well.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_depend_on_the_event_alone_and_only_200_is_an_arrival() {
        let book = Book { hangs_for: Duration::from_secs(45), ..Book::default() };
        let prompt = |status: u16| (Some(status), Duration::ZERO);
        let silence = (None, book.hangs_for);
        // (endpoint, event, what its attempts are answered, how often it has arrived then)
        let table = [
            (Rule::Steady, 6, vec![prompt(200), prompt(200)], 2),
            (Rule::Flaky, 6, vec![prompt(500), prompt(200)], 1),
            (Rule::Flaky, 9, vec![prompt(500), prompt(500), prompt(200)], 1),
            (Rule::Flaky, 7, vec![prompt(200)], 1),
            (Rule::Busy, 6, vec![prompt(503)], 0),
            (Rule::Refusing, 6, vec![prompt(400), prompt(400), prompt(400)], 0),
            (Rule::Refusing, 7, vec![prompt(200)], 1),
            (Rule::Losing, 6, vec![prompt(400)], 0),
            (Rule::Late, 5, vec![(Some(200), LATE_AFTER), prompt(200)], 2),
            (Rule::Late, 6, vec![prompt(200)], 1),
            (Rule::Hanging, 6, vec![silence, prompt(200)], 1),
        ];
        for (rule, number, want, arrived) in table {
            let answers: Vec<_> = want.iter().map(|_| book.take(rule, &[number])).collect();
            assert_eq!(answers, want, "{rule:?} {number}");
            let delivered = book.seen.lock().expect("free")[&(rule, number)].delivered;
            assert_eq!(delivered, arrived, "{rule:?} {number}");
        }
        book.is_well.store(true, Ordering::Relaxed);
        let well = [Rule::Hanging, Rule::Flaky, Rule::Refusing].map(|rule| book.take(rule, &[12]));
        assert_eq!(well, [prompt(200), prompt(200), prompt(400)]);
    }

    #[test]
    fn a_batch_is_counted_event_by_event() {
        let book = Book::default();
        assert_eq!(book.take(Rule::Batched, &[1, 2, 3]), (Some(200), Duration::ZERO));
        assert_eq!(book.seen.lock().expect("free").len(), 3);
    }
}
