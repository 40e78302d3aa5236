//! Deployments made up out of a seed: the counts of their functions until the cut-off and after it,
//! the messages in their queues then, and what waited. Some have lost events.

use std::time::Duration;

use gridpost_core::ledger::{Count, Counted, Ledger, Owner};

use super::super::*;

const HOUR_MS: i64 = 3_600_000;

/// Twenty minutes into the open hour.
pub(super) const CUT_OFF: Timestamp =
    Timestamp::from_millis(1_795_248_000_000 + 4 * HOUR_MS + 1_200_000);

/// When the states of waiting deliveries had been read.
pub(super) const STATES_READ_AT: Timestamp = Timestamp::from_millis(CUT_OFF.as_millis() + 3_000);

/// Event subscriptions: name, most events in a delivery. The last one is a Kinesis stream.
const SUBSCRIPTIONS: [(&str, u64); 4] = [("a", 1), ("b", 1), ("c", 10), ("stream", 500)];

/// The four hours before the open one.
pub(super) fn closed_hour(index: i64) -> Timestamp {
    Timestamp::from_millis(1_795_248_000_000 + index * HOUR_MS)
}

pub(super) fn key(name: &str) -> SubscriptionKey {
    SubscriptionKey { topic: "shop".to_owned(), name: name.to_owned() }
}

/// What was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Some events of an hour of which all else has ended.
    QuietHour,
    /// Some events, while thousands of others are on their way.
    BesideTraffic,
    /// Some events, and in the next hour more were delivered twice.
    AmongDuplicates,
    /// A delivery to an AWS resource.
    Resource,
    /// A piece of a large publish.
    Piece,
}

/// Where a delivery is at the cut-off, or how it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Delivered,
    DeliveredTwice,
    DeadLettered,
    Dropped,
    InDispatchQueue,
    Deferred,
    Waiting,
    Parked,
    OnItsWayToS3,
    EndsBehindTheCutOff,
    /// It waited when the states were read, and ended before the logs were.
    WaitsAndEnds,
    /// It was parked at the cut-off, and ended when what is parked was read.
    EndsLate,
    Lost,
}

#[derive(Debug, Default)]
pub(super) struct Fixture {
    random: u64,
    /// Counts with the milliseconds between the cut-off and them.
    counts: Vec<(i64, Count)>,
    queues: Queues,
    waiting: Vec<(SubscriptionKey, Timestamp, u64)>,
    waiting_in_queues: u64,
    planted: Option<(SubscriptionKey, Timestamp, u64)>,
}

impl Fixture {
    pub(super) fn new(seed: u64, loss: Option<Loss>) -> Self {
        let mut fixture =
            Self { random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, ..Self::default() };
        for hour in 0..=4 {
            for (name, batch) in SUBSCRIPTIONS {
                fixture.hour(name, batch, hour, loss);
            }
        }
        fixture.plant(loss);
        fixture
    }

    pub(super) fn planted(&self) -> Option<(SubscriptionKey, Timestamp, u64)> {
        self.planted.clone()
    }

    /// A number below `below`.
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Deliveries of an event subscription and hour. Messages are full where a loss is planted, so that
    /// the queues have no room that nothing needs.
    fn hour(&mut self, name: &str, batch: u64, hour: i64, loss: Option<Loss>) {
        let is_open = hour == 4;
        let count = match loss {
            Some(Loss::BesideTraffic) if is_open => 3_000,
            _ => 20 + self.draw(30),
        };
        for _ in 0..count {
            let events = if loss.is_some() { batch } else { 1 + self.draw(batch) };
            let fate = self.fate(is_open, loss);
            self.deliver(name, hour, events, fate);
        }
        if loss.is_none() && is_open && self.draw(2) == 0 {
            // A large publish whose piece has not been expanded.
            self.count(name, hour, Counted::Matched, 400 * batch);
            self.queues.fan_out += 1;
        }
    }

    fn fate(&mut self, is_open: bool, loss: Option<Loss>) -> Fate {
        use Fate::{
            DeadLettered, Deferred, Delivered, DeliveredTwice, Dropped, EndsBehindTheCutOff,
            EndsLate, InDispatchQueue, OnItsWayToS3, Parked, Waiting, WaitsAndEnds,
        };
        let on_its_way = is_open || (loss.is_none() && self.draw(5) == 0);
        let fates = match (on_its_way, loss) {
            (true, None) => [
                WaitsAndEnds,
                InDispatchQueue,
                Deferred,
                EndsLate,
                Parked,
                OnItsWayToS3,
                EndsBehindTheCutOff,
            ],
            (true, Some(_)) => [
                Delivered,
                InDispatchQueue,
                Deferred,
                Waiting,
                Parked,
                OnItsWayToS3,
                EndsBehindTheCutOff,
            ],
            (false, None) => {
                [Delivered, Delivered, Delivered, DeliveredTwice, DeadLettered, Dropped, Waiting]
            }
            (false, Some(_)) => {
                [Delivered, Delivered, Waiting, Parked, DeadLettered, Dropped, EndsBehindTheCutOff]
            }
        };
        fates[self.draw(7) as usize]
    }

    fn plant(&mut self, loss: Option<Loss>) {
        let Some(loss) = loss else { return };
        let hour = self.draw(3) as i64;
        let (name, deliveries, events) = match loss {
            Loss::QuietHour | Loss::BesideTraffic => ("a", 1 + self.draw(5), 1),
            Loss::AmongDuplicates => ("b", 1 + self.draw(5), 1),
            Loss::Resource => ("stream", 1, 1 + self.draw(500)),
            Loss::Piece => ("c", 500, 10),
        };
        for _ in 0..deliveries {
            self.deliver(name, hour, events, Fate::Lost);
        }
        if loss == Loss::AmongDuplicates {
            for _ in 0..deliveries + 3 {
                self.deliver(name, hour + 1, events, Fate::DeliveredTwice);
            }
        }
        self.planted = Some((key(name), closed_hour(hour), deliveries * events));
    }

    fn deliver(&mut self, name: &str, hour: i64, events: u64, fate: Fate) {
        self.count(name, hour, Counted::Matched, events);
        let dead = Counted::DeadLettered("MaxDeliveryAttemptsExceeded".to_owned());
        let dropped = Counted::Dropped("SubscriptionDeleted".to_owned());
        match fate {
            Fate::Delivered => self.ends(name, hour, events, -1),
            Fate::DeliveredTwice => self.ends(name, hour, 2 * events, -1),
            Fate::DeadLettered => self.count(name, hour, dead, events),
            Fate::Dropped => self.count(name, hour, dropped, events),
            Fate::InDispatchQueue => self.queues.dispatch += 1,
            Fate::Deferred => self.queues.retry += 1,
            Fate::OnItsWayToS3 => self.queues.dead_letter += 1,
            Fate::Waiting => {
                self.queues.retry += 1;
                self.waiting_in_queues += 1;
                self.waiting.push((key(name), closed_hour(hour), events));
            }
            Fate::Parked => self.waiting.push((key(name), closed_hour(hour), events)),
            Fate::EndsBehindTheCutOff => self.ends(name, hour, events, 1_000),
            Fate::WaitsAndEnds => {
                self.queues.retry += 1;
                self.waiting_in_queues += 1;
                self.waiting.push((key(name), closed_hour(hour), events));
                self.ends(name, hour, events, 5_000);
            }
            Fate::EndsLate => self.ends(name, hour, events, 5_000),
            Fate::Lost => {}
        }
    }

    fn count(&mut self, name: &str, hour: i64, counted: Counted, events: u64) {
        self.counts.push((-1, count(name, hour, counted, events)));
    }

    fn ends(&mut self, name: &str, hour: i64, events: u64, behind_ms: i64) {
        let counted = Counted::Delivered { took: Duration::ZERO };
        self.counts.push((behind_ms, count(name, hour, counted, events)));
    }

    pub(super) fn audit(&self) -> Audit {
        let since = Timestamp::from_millis(0);
        let batches =
            SUBSCRIPTIONS.map(|(name, events_max)| (key(name), Batch { events_max, since }));
        let [ledger, after, later] = [(); 3].map(|()| Ledger::default());
        let mut audit = Audit {
            asked: closed_hour(0),
            since: closed_hour(0),
            until: CUT_OFF,
            ledger,
            after,
            later,
            is_divided: true,
            states_read_at: STATES_READ_AT,
            queues: Ok(self.queues),
            waiting: self.waiting_in_queues,
            batches: batches.into_iter().collect(),
            left_out: Vec::new(),
            partial: Default::default(),
            parked_is_whole: true,
        };
        for (behind_ms, count) in &self.counts {
            let ledger = match behind_ms {
                ..0 => &mut audit.ledger,
                0..3_000 => &mut audit.after,
                _ => &mut audit.later,
            };
            ledger.count(count);
        }
        for (key, hour, events) in &self.waiting {
            audit.ledger.wait(key, *hour, *events);
        }
        audit
    }
}

fn count(name: &str, hour: i64, counted: Counted, events: u64) -> Count {
    let owner = Owner::Subscription(key(name));
    Count { owner, publish_time: closed_hour(hour), counted, events, once: None }
}
