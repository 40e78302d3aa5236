//! The history of a simulated fixture: only facts, in order. Fakes write it, the checker reads it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use gridpost_core::{
    delivery::queue::Queue,
    event::DeliverySchema,
    ledger::Ledger,
    retry::{
        health::{Delayed, Health, Probation, Probe, Recovery},
        outcome::{Answer, Outcome},
    },
    subscription::{Pauses, SubscriptionKey},
    time::Timestamp,
};
use serde_json::Value;
use uuid::Uuid;

mod keyed;
mod operated;
mod sourced;

pub use self::{
    keyed::{Keyed, KeyedPublish},
    operated::Operated,
    sourced::{Sourced, SourcedMessage},
};
use crate::event;

/// A disturbance that also happens in calm worlds: a schedule may invoke wake twice.
pub const TWO_WAKES: &str = "two runs of wake have sent it back";

/// All facts of one fixture.
#[derive(Debug, Default)]
pub struct History {
    /// Deliveries that were accepted, by id.
    pub accepted: BTreeMap<Uuid, Accepted>,
    /// Deliveries that were in one hand with another delivery of the same event: requests and dead
    /// letters do not tell them apart.
    pub twins: BTreeMap<Uuid, BTreeSet<Uuid>>,
    /// The delivery that carries an event, by its id, to a subscription.
    pub carriers: BTreeMap<SubscriptionKey, BTreeMap<String, Uuid>>,
    /// Deliveries that carried an event before it was redriven.
    pub carried_before: BTreeMap<(SubscriptionKey, String), Vec<Uuid>>,
    pub operated: Operated,
    /// Publishes that were repeated under a key.
    pub keyed: Keyed,
    /// Messages of sources.
    pub sourced: Sourced,
    /// Events that were accepted for a subscription before a delivery carried them.
    pub promised: BTreeSet<(SubscriptionKey, String)>,
    /// Requests made to endpoints, in the order they began.
    pub requests: Vec<Request>,
    /// Records in dead-letter objects, by object, event and delivery.
    pub dead_letters: BTreeMap<(String, String, Uuid), DeadLetter>,
    /// Objects of the payload bucket, by delivery; empty once their delivery has ended.
    pub payloads: BTreeMap<Uuid, Vec<u8>>,
    /// How often an object of the payload bucket was asked for.
    pub payload_reads: u64,
    pub publishes: BTreeMap<Uuid, Vec<u8>>,
    pub drops: Vec<Drop>,
    pub dropped_counted: u64,
    /// The counts that the functions have written.
    pub ledger: Ledger,
    /// Events of publishes that were answered 200, by topic.
    pub confirmed: BTreeMap<String, u64>,
    pub confirmed_events: BTreeSet<String>,
    /// Events stored as dead letters, by delivery, counted at each write.
    pub stored: BTreeMap<Uuid, u64>,
    /// Faults that may make a delivery repeat an attempt or an end, in order.
    pub disturbed: BTreeMap<Uuid, Vec<Disturbance>>,
    /// When any call failed while a delivery was in its caller's hand.
    pub hindered: BTreeMap<Uuid, Vec<Timestamp>>,
    /// The stored health of endpoints, by uid, at each change.
    pub healths: BTreeMap<Uuid, Vec<HealthWrite>>,
    /// Times in which a queue's messages waited for the platform: all allowed invocations were
    /// running, or SQS returned nothing.
    pub platform_waits: BTreeMap<Queue, Vec<Range<Timestamp>>>,
    /// Times in which the fixture held a delivery back: SQS showed it late, or it was in the poison
    /// queue.
    pub held_back: BTreeMap<Uuid, Vec<Range<Timestamp>>>,
    /// Parked deliveries that were removed by key after they had been parked again.
    pub removed_after_reparking: Vec<Uuid>,
    /// Each time that a delivery was parked.
    pub parks: BTreeMap<Uuid, Vec<Parking>>,
    /// Each time that a delivery was held by a pause.
    pub held: BTreeMap<Uuid, Vec<Held>>,
    /// The pauses of event subscriptions by uid, at each change, and when it was written.
    pub pauses: BTreeMap<Uuid, Vec<(Timestamp, Pauses)>>,
    /// Times in which no run of wake began, though one was due.
    pub wake_waits: Vec<Range<Timestamp>>,
    /// Deliveries that were sent to the dispatch queue more than once.
    pub resent: BTreeSet<Uuid>,
    /// The kinds of faults that happened.
    pub fault_kinds: BTreeSet<&'static str>,
    /// Calls about a subscription's health that failed, or whose caller died.
    pub health_faults: BTreeMap<Uuid, Vec<Timestamp>>,
    /// How often an endpoint's health was written.
    pub health_writes: u64,
    /// Requests counted by the functions, by their subscription's uid and the minute.
    pub counts: BTreeMap<(Uuid, i64), u64>,
    /// Event subscriptions by uid, one entry per creation.
    pub lives: BTreeMap<Uuid, SubscriptionLife>,
    /// Publishes to topics that change while events flow, which were answered 200.
    pub confirmed_publishes: Vec<Confirmed>,
    /// Events of topics whose event subscriptions have filters, by name: what was published, and
    /// where.
    pub published: BTreeMap<String, Published>,
    /// Subscriptions that were deleted, and when.
    pub deleted: BTreeMap<SubscriptionKey, Timestamp>,
    pub noted: BTreeSet<Uuid>,
    /// Things that must never happen, recorded as they happened.
    pub violations: Vec<String>,
    /// The longest that a publish took to be accepted.
    pub slowest_publish: Duration,
    /// How many calls were made to fail.
    pub faults: u64,
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

/// An event that was published.
#[derive(Clone, Debug)]
pub struct Published {
    pub topic: String,
    /// Its JSON, as it was published.
    pub text: String,
    /// Whether it is of its publisher's own schema, and as a whole the data of other schemas.
    pub is_own: bool,
    /// Its form in each schema that it is delivered in, with [nil](Uuid::nil) as an unmapped id and
    /// the [beginning of time](Timestamp::default) as an unmapped time.
    pub forms: BTreeMap<DeliverySchema, String>,
}

impl Published {
    /// Returns the delivered form in a schema, with the id and the time that ingest has stamped.
    fn delivered(&self, schema: DeliverySchema, id: &str, time: Timestamp) -> Option<String> {
        let form = self.forms.get(&schema)?;
        let (nil, beginning) = (Uuid::nil().to_string(), Timestamp::default().to_iso_8601());
        Some(form.replace(&nil, id).replace(&beginning, &time.to_iso_8601()))
    }
}

/// One creation of an event subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionLife {
    pub subscription: SubscriptionKey,
    pub from: Timestamp,
    pub until: Option<Timestamp>,
    /// The schema that it gets its events in.
    pub schema: DeliverySchema,
    /// Its webhook's URLs, and from when on each.
    pub urls: Vec<(Timestamp, String)>,
    /// The uids of its endpoints' health.
    pub endpoints: Vec<Uuid>,
}

/// A publish that was answered 200.
#[derive(Clone, Debug)]
pub struct Confirmed {
    pub to: SubscriptionKey,
    pub began_at: Timestamp,
    pub answered_at: Timestamp,
    pub events: Vec<String>,
}

/// A fault that affected a delivery.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    pub at: Timestamp,
    pub what: &'static str,
}

/// A write of an endpoint's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthWrite {
    pub at: Timestamp,
    pub probation: Option<Probation>,
    pub delayed: Option<Delayed>,
    pub probe: Option<Probe>,
    /// The success that ended its last wait.
    pub recovered: Option<Recovery>,
    /// Until when it is marked as slow, or has requests of the slow lane under way.
    pub slow_until: Option<Timestamp>,
}

/// A delivery that was parked.
#[derive(Clone, Copy, Debug)]
pub struct Parking {
    pub at: Timestamp,
    pub due: Timestamp,
    /// How often it could not be sent before.
    pub postponed: u32,
    /// When it was taken out again.
    pub gone_at: Option<Timestamp>,
}

/// A delivery in the lot of a paused event subscription.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub at: Timestamp,
    /// When it was taken out again.
    pub gone_at: Option<Timestamp>,
}

/// A delivery that was accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub subscription: SubscriptionKey,
    /// The uid of this creation of it.
    pub uid: Uuid,
    pub publish_time: Timestamp,
    /// When its time-to-live starts, for each message of it: several if a redrive or a dead-letter
    /// event has sent it again.
    pub lives_from: Vec<Timestamp>,
    /// How often it was sent by a redrive.
    pub redriven: u64,
    /// When the delivery was last put into the dispatch queue, and when SQS showed it there.
    pub queued_at: Timestamp,
    pub events: Vec<String>,
    /// The ids of those; several may have the same one.
    pub ids: Vec<String>,
}

impl Accepted {
    /// The events that have one of those ids.
    fn named<'a>(&'a self, ids: &'a [String]) -> impl Iterator<Item = &'a String> {
        let all = self.events.iter().zip(&self.ids);
        all.filter(|(_, id)| ids.contains(id)).map(|(name, _)| name)
    }
}

/// A request as the endpoint saw it.
#[derive(Clone, Debug)]
pub struct Request {
    pub subscription: SubscriptionKey,
    /// Its URL; empty for an AWS resource.
    pub url: String,
    /// The deliveries in it, in order; one may be in it twice.
    pub deliveries: Vec<Uuid>,
    pub events: usize,
    pub events_bytes: usize,
    /// A hash of its body; of all bodies, where the endpoint is an AWS resource.
    pub body_hash: u64,
    /// The attempt's number by its header, from 1.
    pub number: u32,
    pub began_at: Timestamp,
    /// When and how the endpoint answered; `None` if never.
    pub answered: Option<(Timestamp, Answer)>,
    /// When and what the sender learned: the answer, or that none came in 30 s. `None` if the
    /// sender died first.
    pub heard: Option<(Timestamp, Answer)>,
    /// When a late success reached the sender.
    pub heard_late: Option<Timestamp>,
    /// The answer for each event, if the endpoint is an AWS resource; otherwise empty. `heard` says
    /// whether the sender learned it.
    pub met: Vec<EventOutcome>,
}

/// The answer for one event of a call.
#[derive(Clone, Debug)]
pub struct EventOutcome {
    pub delivery: Uuid,
    pub event: String,
    pub answer: Answer,
}

impl Request {
    /// The answer for an event; `None` if it was not in the request. Of two copies of a delivery,
    /// the one that arrived ends the event.
    pub fn met_by(&self, delivery: Uuid, event: &str) -> Option<&EventOutcome> {
        let mut all = self.met.iter().filter(|met| met.delivery == delivery && met.event == event);
        let arrived = |met: &&EventOutcome| met.answer.outcome == Outcome::Delivered;
        all.clone().find(arrived).or_else(|| all.next())
    }
}

impl Request {
    /// Whether two copies of a delivery are in it, with separate answers for each event.
    pub fn has_twice(&self, delivery: Uuid) -> bool {
        let mut seen = BTreeSet::new();
        let mut own = self.met.iter().filter(|met| met.delivery == delivery);
        own.any(|met| !seen.insert(&met.event))
    }
}

/// A record in a dead-letter object.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub delivery: Uuid,
    /// When the object was stored first.
    pub at: Timestamp,
    pub record: Value,
    /// How often the object was stored.
    pub writes: usize,
}

/// A drop as it was logged.
#[derive(Clone, Debug)]
pub struct Drop {
    pub delivery: Uuid,
    pub reason: String,
    /// The number of events, if the log has only that.
    pub counted: Option<u64>,
    /// Why the delivery had ended, if it was dropped instead of dead-lettered.
    pub ended_by: Option<String>,
    /// The ids of its events, as logged.
    pub ids: Vec<String>,
    /// Its events, as far as ids tell them apart.
    pub events: Vec<String>,
    pub at: Timestamp,
}

impl Drop {
    /// Whether an event is certainly one of its own: it has as many ids as there are events with one
    /// of them.
    pub fn is_of(&self, event: &str) -> bool {
        self.events.len() == self.ids.len() && self.events.iter().any(|name| name == event)
    }

    /// How many events were dropped, of a delivery with so many.
    pub fn count(&self, of: usize) -> u64 {
        // Events that were never in hand have no ids in the log.
        let named = (if self.ids.is_empty() { of } else { self.ids.len() }) as u64;
        self.counted.unwrap_or(named)
    }
}

impl History {
    /// The delivery that carries an event to a subscription.
    pub fn carrier(&self, of: &SubscriptionKey, event: &str) -> Option<Uuid> {
        self.carriers.get(of)?.get(event).copied()
    }

    /// Finds the carrier for a caller with these deliveries in hand: an earlier carrier, if that is
    /// the one in hand. `said` returns how much was said about each.
    pub fn carrier_in(
        &self,
        of: &SubscriptionKey,
        event: &str,
        in_hand: &[Uuid],
        said: impl Fn(&Uuid) -> usize,
    ) -> Option<Uuid> {
        let latest = self.carrier(of, event)?;
        let before = self.carried_before.get(&(of.clone(), event.to_owned()));
        let Some(before) = before else { return Some(latest) };
        let all = before.iter().rev().chain([&latest]).filter(|one| in_hand.contains(one));
        // Of several in one hand, it is the one about which least was said.
        Some(all.min_by_key(|one| said(one)).copied().unwrap_or(latest))
    }

    /// Records the deliveries in one hand that carry an event, if there are several: what is said
    /// about the event does not tell which of them is meant.
    pub fn note_twins(&mut self, of: &SubscriptionKey, event: &str, in_hand: &[Uuid]) {
        let before = self.carried_before.get(&(of.clone(), event.to_owned()));
        let Some(before) = before else { return };
        let all = before.iter().copied().chain(self.carrier(of, event));
        let twins: BTreeSet<_> = all.filter(|one| in_hand.contains(one)).collect();
        for twin in twins.iter().filter(|_| twins.len() > 1) {
            self.twins.entry(*twin).or_default().extend(&twins);
        }
    }

    /// Returns the difference between an event as it was sent to an endpoint and what its schema
    /// makes of it, byte by byte. A redriven one is read from its dead letter, so its members alone
    /// are the same.
    pub fn wrong_with(&self, delivery: Uuid, name: &str, sent: &str) -> Option<String> {
        let published = self.published.get(name)?;
        let accepted = self.accepted.get(&delivery)?;
        let schema = self.lives.get(&accepted.uid)?.schema;
        let id = event::id(sent).unwrap_or_default();
        let Some(wanted) = published.delivered(schema, &id, accepted.publish_time) else {
            return Some(format!("an event that is not for {schema:?}"));
        };
        let changed = event::changed(&wanted, sent);
        if accepted.redriven > 0 && changed.is_none() {
            return None;
        }
        let member = changed.unwrap_or_else(|| "form".to_owned());
        (wanted != sent).then(|| {
            format!("an event whose {member} is not what was published: {sent}, not {wanted}")
        })
    }

    /// The events of a delivery that have one of those ids.
    pub fn events_of(&self, delivery: Uuid, ids: &[String]) -> Vec<String> {
        let accepted = self.accepted.get(&delivery);
        accepted.map_or(Vec::new(), |accepted| accepted.named(ids).cloned().collect())
    }

    /// Returns the delivery that a log line is about: the one with that id, or the one whose rest has it.
    pub fn delivery_in_log(&self, delivery: Uuid, subscription: &str, ids: &[String]) -> Uuid {
        if self.accepted.contains_key(&delivery) {
            return delivery;
        }
        let mut whole = self.accepted.iter().filter(|(_, accepted)| {
            accepted.subscription.to_string() == subscription
                && accepted.named(ids).next().is_some()
        });
        whole.next().map_or(delivery, |(whole, _)| *whole)
    }

    /// Records a fault that affected a delivery.
    pub fn disturb(&mut self, at: Timestamp, delivery: Uuid, what: &'static str) {
        self.disturbed.entry(delivery).or_default().push(Disturbance { at, what });
        self.hinder(at, delivery);
    }

    /// Records that a delivery may have to wait because of a failure now.
    pub fn hinder(&mut self, at: Timestamp, delivery: Uuid) {
        let all = self.hindered.entry(delivery).or_default();
        if all.last() != Some(&at) {
            all.push(at);
        }
    }

    /// The number of faults that affected a delivery.
    pub fn disturbances(&self, delivery: Uuid) -> usize {
        self.disturbed.get(&delivery).map_or(0, Vec::len)
    }

    /// Records a write of an endpoint's health.
    pub fn note_health(&mut self, at: Timestamp, uid: Uuid, health: &Health) {
        let Health { probation, delayed, probe, recovered, .. } = *health;
        let slow_until =
            health.slow.marked_until.max(health.slow.leases.iter().map(|lease| lease.until).max());
        let said = HealthWrite { at, probation, delayed, probe, recovered, slow_until };
        let all = self.healths.entry(uid).or_default();
        if all.last().is_none_or(|last| HealthWrite { at, ..*last } != said) {
            all.push(said);
        }
    }

    /// Records that the fixture held a delivery back.
    pub fn hold_back(&mut self, delivery: Uuid, during: Range<Timestamp>) {
        self.held_back.entry(delivery).or_default().push(during);
    }

    /// Records that the platform let a queue's messages wait.
    pub fn platform_waited(&mut self, queue: Queue, during: Range<Timestamp>) {
        self.platform_waits.entry(queue).or_default().push(during);
    }

    pub fn violation(&mut self, at: Timestamp, what: impl Into<String>) {
        // A broken fixture repeats itself: the first few violations say enough.
        if self.violations.len() < 20 {
            self.violations.push(format!("{at}: {}", what.into()));
        }
    }

    /// Adds a line to the trace, if one is kept.
    pub fn trace(&mut self, at: Timestamp, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{at} {}", line()));
        }
    }

    /// Records a message in the poison queue, which no delivery should ever reach.
    pub fn poisoned(&mut self, at: Timestamp, queue: Queue) {
        self.violation(at, format!("a message of {queue:?} went to the poison queue"));
    }
}
