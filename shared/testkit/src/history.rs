//! What happened in a simulated world: facts alone, in the order they happened. Fakes write it, the
//! checker reads it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gridpost_core::{
    delivery::queue::Queue, ledger::Ledger, retry::outcome::Answer, subscription::SubscriptionKey,
    time::Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

/// All facts of one world.
#[derive(Debug, Default)]
pub struct History {
    /// Deliveries that were accepted, by id.
    pub accepted: BTreeMap<Uuid, Accepted>,
    /// Which delivery carries an event, by its id, to a subscription.
    pub carriers: BTreeMap<SubscriptionKey, BTreeMap<String, Uuid>>,
    /// Events that were accepted for a subscription before a delivery carried them.
    pub promised: BTreeSet<(SubscriptionKey, String)>,
    /// Requests made to endpoints, in the order they began.
    pub requests: Vec<Request>,
    /// Records that stand in dead-letter objects, by object and event.
    pub dead_letters: BTreeMap<(String, String), DeadLetter>,
    /// Objects of the payload bucket, by delivery; empty once their delivery has ended.
    pub payloads: BTreeMap<Uuid, Vec<u8>>,
    /// How often an object of the payload bucket was asked for.
    pub payload_reads: u64,
    /// Stored publishes.
    pub publishes: BTreeMap<Uuid, Vec<u8>>,
    /// Drops that were logged.
    pub drops: Vec<Drop>,
    /// Events counted as dropped.
    pub dropped_counted: u64,
    /// What the functions have written of their counts.
    pub ledger: Ledger,
    /// Events of publishes that were answered 200, by topic.
    pub confirmed: BTreeMap<String, u64>,
    /// The ids of those events.
    pub confirmed_events: BTreeSet<String>,
    /// Events stored as dead letters, by delivery; once more with each time.
    pub stored: BTreeMap<Uuid, u64>,
    /// Deliveries in whose way something went wrong that may repeat an attempt or an end.
    pub disturbed: BTreeMap<Uuid, &'static str>,
    /// Deliveries that were sent to the dispatch queue more than once.
    pub resent: BTreeSet<Uuid>,
    /// What kinds of faults there were.
    pub fault_kinds: BTreeSet<&'static str>,
    /// Calls about a subscription's health that failed, or whose caller died.
    pub health_faults: BTreeMap<Uuid, Vec<Timestamp>>,
    /// How often an endpoint's health was written.
    pub health_writes: u64,
    /// Requests counted by the functions, by their subscription's uid and the minute.
    pub counts: BTreeMap<(Uuid, i64), u64>,
    /// Event subscriptions by uid, each creation by itself.
    pub lives: BTreeMap<Uuid, Life>,
    /// Publishes to topics that change while events flow, which were answered 200.
    pub confirmed_publishes: Vec<Confirmed>,
    /// Subscriptions that were deleted, and when.
    pub deleted: BTreeMap<SubscriptionKey, Timestamp>,
    /// Deliveries whose state was written.
    pub noted: BTreeSet<Uuid>,
    /// What must never happen, seen at the moment it happened.
    pub violations: Vec<String>,
    /// The longest that a publish took to be accepted.
    pub slowest_publish: Duration,
    /// How many calls were made to fail.
    pub faults: u64,
    /// How many invocations ran.
    pub invocations: u64,
    /// How often the most received message was received.
    pub receives_max: u32,
    /// Most messages of one queue that were in flight at once.
    pub in_flight_max: usize,
    /// Parked deliveries, in all.
    pub parked: u64,
    /// Every line of the trace, kept only when asked for.
    pub trace: Option<Vec<String>>,
}

/// One creation of an event subscription.
#[derive(Clone, Debug)]
pub struct Life {
    /// Topic and name.
    pub subscription: SubscriptionKey,
    /// When it was created.
    pub from: Timestamp,
    /// When it was deleted.
    pub until: Option<Timestamp>,
    /// Its webhook's URLs, and from when on each.
    pub urls: Vec<(Timestamp, String)>,
}

/// A publish that was answered 200.
#[derive(Clone, Debug)]
pub struct Confirmed {
    /// Whom its events are for.
    pub to: SubscriptionKey,
    /// When it began.
    pub began_at: Timestamp,
    /// When it was answered.
    pub answered_at: Timestamp,
    /// The ids of its events.
    pub events: Vec<String>,
}

/// A delivery that was accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The event subscription.
    pub subscription: SubscriptionKey,
    /// Which creation of it.
    pub uid: Uuid,
    /// When the publish was accepted.
    pub publish_time: Timestamp,
    /// The ids of its events.
    pub events: Vec<String>,
}

/// A request as the endpoint saw it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The event subscription.
    pub subscription: SubscriptionKey,
    /// Where it went; empty for an AWS resource.
    pub url: String,
    /// The deliveries in it, in order; one may be in it twice.
    pub deliveries: Vec<Uuid>,
    /// How many events it carries.
    pub events: usize,
    /// Their bytes.
    pub events_bytes: usize,
    /// A hash of its body; of all bodies, where the endpoint is an AWS resource.
    pub body_hash: u64,
    /// The attempt's number by its header, from 1.
    pub number: u32,
    /// When it arrived.
    pub began_at: Timestamp,
    /// When and how the endpoint answered; `None` where it never did.
    pub answered: Option<(Timestamp, Answer)>,
    /// When and what the sender learned: the answer, or that none came in 30 s. `None` where the
    /// sender died first.
    pub heard: Option<(Timestamp, Answer)>,
    /// When a late success reached the sender.
    pub heard_late: Option<Timestamp>,
    /// What each event met, where the endpoint is an AWS resource; empty otherwise. `heard` says whether the
    /// sender learned it.
    pub met: Vec<Met>,
}

/// What one event of a call met.
#[derive(Clone, Debug)]
pub struct Met {
    /// The delivery.
    pub delivery: Uuid,
    /// The event's id.
    pub event: String,
    /// What was answered for it.
    pub answer: Answer,
}

impl Request {
    /// What an event met, as far as the sender learned it; `None` if it was not in it.
    pub fn met_by(&self, delivery: Uuid, event: &str) -> Option<&Met> {
        self.met.iter().find(|met| met.delivery == delivery && met.event == event)
    }
}

/// A record in a dead-letter object.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The delivery.
    pub delivery: Uuid,
    /// When the object was stored.
    pub at: Timestamp,
    /// The record.
    pub record: Value,
}

/// A drop as it was logged.
#[derive(Clone, Debug)]
pub struct Drop {
    /// The delivery.
    pub delivery: Uuid,
    /// Why, as logged.
    pub reason: String,
    /// The ids of its events, as logged.
    pub events: Vec<String>,
    /// When.
    pub at: Timestamp,
}

impl Drop {
    /// How many events were dropped, of a delivery with so many.
    pub fn count(&self, of: usize) -> u64 {
        // Events that were never in hand have no ids in the log.
        (if self.events.is_empty() { of } else { self.events.len() }) as u64
    }
}

impl History {
    /// The delivery that carries an event to a subscription.
    pub fn carrier(&self, of: &SubscriptionKey, event: &str) -> Option<Uuid> {
        self.carriers.get(of)?.get(event).copied()
    }

    /// Notes that something went wrong in the way of a delivery.
    pub fn disturb(&mut self, delivery: Uuid, what: &'static str) {
        self.disturbed.entry(delivery).or_insert(what);
    }

    /// Notes what must never happen.
    pub fn violation(&mut self, at: Timestamp, what: impl Into<String>) {
        // A world gone wrong repeats itself: the first few say enough.
        if self.violations.len() < 20 {
            self.violations.push(format!("{at}: {}", what.into()));
        }
    }

    /// Adds a line to the trace, where one is kept.
    pub fn trace(&mut self, at: Timestamp, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{at} {}", line()));
        }
    }

    /// Notes a message of a queue that no delivery should ever reach.
    pub fn poisoned(&mut self, at: Timestamp, queue: Queue) {
        self.violation(at, format!("a message of {queue:?} went to the poison queue"));
    }
}
