//! SQS standard queues: they hide, delay, repeat, reorder and drop messages, and return none at the
//! in-flight limit.

mod carried;
mod contents;
mod fair;
mod hand;
mod log;
mod poison;
mod ports;
mod real;
mod receipt;
mod sample;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_core::{
    delivery::{
        Delivery,
        claim::{self, Payload},
        queue::{DELAY_S_MAX, POISON_RECEIVES, Queue},
    },
    journal::Count,
    time::Timestamp,
};
use gridpost_ports::{Clock, Outgoing, PortError, Record};
use tokio::sync::Notify;
use uuid::Uuid;

pub use carried::Carried;

use self::{
    contents::{Contents, Message, Note},
    fair::Groups,
    log::Log,
    real::Real,
    receipt::{read_receipt, received},
    sample::Samples,
};
use crate::{
    clock::VirtualClock,
    dice::SeededDice,
    event,
    history::{Accepted, History},
};

/// The retention period.
const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// No message is hidden longer than this after it was received.
const HIDDEN_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// The pause before the next receive at the in-flight limit.
const WALL_WAIT: Duration = Duration::from_secs(60);

/// The settings of a deployment's queues, and of SQS's faults.
#[derive(Clone, Debug)]
pub struct QueueSettings {
    /// How many retry queues there are.
    pub retry_shards: usize,
    /// For how long a received message is hidden, by queue.
    pub visibility: Duration,
    /// For how long a received message of the slow queue is hidden.
    pub slow_visibility: Duration,
    /// For how long a received message of the dead-letter queue is hidden.
    pub dead_letter_visibility: Duration,
    /// For how long a received message of the fan-out queue is hidden.
    pub fan_out_visibility: Duration,
    /// For how long a received message of the redrive queue is hidden.
    pub redrive_visibility: Duration,
    /// How often a message is delivered twice, even if hidden or deleted.
    pub duplicates: f64,
    /// How often a sent message becomes visible late.
    pub late: f64,
    /// Whether messages of quiet groups are handed over first.
    pub fair: bool,
    /// A message received more often goes to the poison queue. As deployed: 1,000.
    pub receives_max: u32,
    /// Whether counts of messages are samples up to a minute old, a tenth too high or too low.
    pub counts_lag: bool,
    /// The most messages in flight; at this limit, none is delivered. SQS: 120,000.
    pub in_flight_max: usize,
    /// The largest message, in bytes. SQS: a setting of the queue, up to 1,048,576.
    pub message_bytes_max: usize,
    /// Whether a function may send to the poison queue, as intake does to the one of its source.
    pub takes_refused: bool,
    /// Whether the calls made are kept to be read back: what was sent, together with what, and what was
    /// hidden.
    pub keeps_log: bool,
}

impl QueueSettings {
    /// The settings as deployed, with one retry queue, without faults, and with calls logged.
    pub const CALM: Self = Self {
        retry_shards: 1,
        visibility: Duration::from_secs(240),
        slow_visibility: Duration::from_secs(261),
        dead_letter_visibility: Duration::from_secs(360),
        fan_out_visibility: Duration::from_secs(59),
        redrive_visibility: Duration::from_secs(90),
        duplicates: 0.0,
        late: 0.0,
        fair: false,
        receives_max: POISON_RECEIVES,
        counts_lag: false,
        in_flight_max: 120_000,
        message_bytes_max: 262_144,
        takes_refused: false,
        keeps_log: true,
    };
}

/// A message as it is handed over.
#[derive(Clone, Debug)]
pub struct Received {
    pub message_id: String,
    pub receipt: String,
    pub body: String,
    /// How often it was received, this time included.
    pub count: u32,
    pub at: Timestamp,
    pub carried: Carried,
}

impl Received {
    /// The message of that queue, as a handler is given it.
    pub fn record(&self, queue: Queue) -> Record {
        Record {
            message_id: self.message_id.as_str().into(),
            receipt: self.receipt.as_str().into(),
            body: self.body.clone(),
            receive_count: self.count,
            queue,
            received_at: self.at,
        }
    }
}

/// All queues of one fixture.
pub struct Queues {
    log: Mutex<Log>,
    samples: Mutex<Samples>,
    contents: Mutex<BTreeMap<Queue, Contents>>,
    changed: BTreeMap<Queue, Notify>,
    real: Option<Real>,
    settings: QueueSettings,
    clock: VirtualClock,
    dice: SeededDice,
    history: Arc<Mutex<History>>,
}

impl Queues {
    pub fn new(
        settings: QueueSettings,
        clock: VirtualClock,
        dice: SeededDice,
        history: Arc<Mutex<History>>,
    ) -> Self {
        let retry = (0..settings.retry_shards).map(Queue::Retry);
        let all = [
            Queue::Dispatch,
            Queue::Slow,
            Queue::DeadLetter,
            Queue::FanOut,
            Queue::Redrive,
            Queue::Poison,
        ];
        let all: Vec<_> = all.into_iter().chain(retry).collect();
        let contents =
            || Contents { groups: settings.fair.then(Groups::default), ..Contents::default() };
        Self {
            log: Mutex::default(),
            samples: Mutex::default(),
            contents: Mutex::new(all.iter().map(|queue| (*queue, contents())).collect()),
            changed: all.iter().map(|queue| (*queue, Notify::new())).collect(),
            real: None,
            settings,
            clock,
            dice,
            history,
        }
    }

    /// Whether a queue holds nothing, and no second hand-over is to come.
    pub fn is_empty(&self, queue: Queue) -> bool {
        if let Some(real) = &self.real {
            return real.count(queue) == 0;
        }
        self.with(queue, |contents| contents.messages.is_empty() && contents.ghosts.is_empty())
    }

    /// Whether a queue has something to hand over now.
    pub fn has_visible(&self, queue: Queue) -> bool {
        let now = self.clock.now();
        self.next(queue).is_some_and(|at| at <= now)
    }

    pub fn bodies(&self, queue: Queue) -> Vec<String> {
        if let Some(real) = &self.real {
            return real.bodies(queue);
        }
        self.with(queue, |all| all.messages.values().map(|found| found.body.clone()).collect())
    }

    /// Waits until the queue hands something over, then takes up to `most` messages.
    pub async fn receive(&self, queue: Queue, most: usize) -> Vec<Received> {
        loop {
            let next = self.next(queue);
            let changed = self.changed[&queue].notified();
            match next {
                Some(at) if at <= self.clock.now() => {
                    let taken = self.take(queue, most);
                    if !taken.is_empty() {
                        return taken;
                    }
                    // The wall: long polling gives nothing.
                    let now = self.clock.now();
                    tokio::time::sleep(WALL_WAIT).await;
                    let mut history = self.history.lock().expect("no panic while held");
                    history.platform_waited(queue, now..now + WALL_WAIT);
                }
                Some(at) => {
                    tokio::select! { biased;
                        () = changed => {}
                        () = self.clock.sleep_until(at) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// The delivery that a receipt is about.
    pub fn delivery_of(&self, queue: Queue, receipt: &str) -> Option<Uuid> {
        if let Some(real) = &self.real {
            return real.delivery_of(receipt);
        }
        let (id, _) = read_receipt(receipt)?;
        self.with(queue, |all| all.messages.get(&id).and_then(|found| found.carried.delivery))
    }

    fn with<T>(&self, queue: Queue, ask: impl FnOnce(&mut Contents) -> T) -> T {
        let mut all = self.contents.lock().expect("no panic while held");
        ask(all.get_mut(&queue).expect("the queue exists"))
    }

    /// When the next message is visible, or since when the first one is.
    fn next(&self, queue: Queue) -> Option<Timestamp> {
        match &self.real {
            Some(real) => real.next(queue),
            None => self.with(queue, |contents| contents.next()),
        }
    }

    fn take(&self, queue: Queue, most: usize) -> Vec<Received> {
        if let Some(real) = &self.real {
            return self.take_real(real, queue, most);
        }
        let now = self.clock.now();
        let mut poisoned = Vec::new();
        let receives_max = match queue {
            // A redrive replaces its message long before SQS gives it up.
            Queue::Redrive => POISON_RECEIVES,
            _ => self.settings.receives_max,
        };
        let taken = self.with(queue, |contents| {
            contents.forget(now);
            let most_in_flight = self.settings.in_flight_max;
            if contents.messages.len() >= most_in_flight
                && contents.in_flight(now) >= most_in_flight
            {
                return Vec::new();
            }
            let most = 1 + self.dice.number(0..most as u64) as usize;
            let (mut visible, mut later) = contents.visible(now, 4 * most);
            self.dice.with(|rng| rng.shuffle(&mut visible));
            self.dice.with(|rng| rng.shuffle(&mut later));
            visible.append(&mut later);
            visible.truncate(most);
            let mut taken = Vec::new();
            for id in visible {
                if contents.messages[&id].receives >= receives_max {
                    poisoned.extend(contents.remove(id));
                    continue;
                }
                let hidden_for = self.visibility(queue);
                let received = contents.hand_over(queue, id, now, hidden_for, &self.dice);
                if self.dice.chance(self.settings.duplicates) {
                    let at = now + self.dice.millis(0..600_000);
                    let ghost = (id, received.body.clone(), received.count);
                    contents.ghosts.insert((at, self.dice.number(0..u64::MAX)), ghost);
                }
                let mut history = self.history.lock().expect("no panic while held");
                history.receives_max = history.receives_max.max(received.count);
                history.in_flight_max = history.in_flight_max.max(contents.in_flight(now));
                drop(history);
                taken.push(received);
            }
            while let Some(received) = self.take_ghost(queue, contents, now) {
                taken.push(received);
            }
            taken
        });
        for message in poisoned {
            let mut history = self.history.lock().expect("no panic while held");
            if self.settings.receives_max == POISON_RECEIVES {
                history.poisoned(now, queue);
            }
            if let Some(delivery) = message.carried.delivery {
                history.disturb(now, delivery, "it was received too often");
            }
            history.fault_kinds.insert("a message went to the poison queue");
            drop(history);
            let id = self.put(Queue::Poison, message.body, &message.group, now);
            self.note(id, Note::moved(queue));
        }
        taken
    }

    /// A duplicate delivery of a message that may be hidden or deleted.
    fn take_ghost(
        &self,
        queue: Queue,
        contents: &mut Contents,
        now: Timestamp,
    ) -> Option<Received> {
        let entry = contents.ghosts.first_entry().filter(|entry| entry.key().0 <= now)?;
        let (id, body, count) = entry.remove();
        let carried = Carried::of(&body);
        if let Some(delivery) = carried.delivery {
            let mut history = self.history.lock().expect("no panic while held");
            history.disturb(now, delivery, "SQS handed it over twice");
        }
        if contents.messages.contains_key(&id) {
            let hidden_for = self.visibility(queue);
            return Some(contents.hand_over(queue, id, now, hidden_for, &self.dice));
        }
        let receipt = self.dice.number(0..u64::MAX);
        let count = count + u32::from(self.dice.chance(0.5));
        Some(Received { carried, ..received(queue, id, receipt, body, count, now) })
    }

    fn visibility(&self, queue: Queue) -> Duration {
        match queue {
            Queue::DeadLetter => self.settings.dead_letter_visibility,
            Queue::FanOut => self.settings.fan_out_visibility,
            Queue::Redrive => self.settings.redrive_visibility,
            Queue::Slow => self.settings.slow_visibility,
            _ => self.settings.visibility,
        }
    }

    /// Adds a message to a queue. Returns its id.
    fn put(&self, queue: Queue, body: String, group: &str, visible_at: Timestamp) -> u64 {
        self.put_counting(queue, body, group, visible_at, Vec::new())
    }

    /// Puts a message. Only real queues take its counts.
    fn put_counting(
        &self,
        queue: Queue,
        body: String,
        group: &str,
        visible_at: Timestamp,
        counts: Vec<Count>,
    ) -> u64 {
        let now = self.clock.now();
        if let Some(real) = &self.real {
            let delay_s = u32::try_from(visible_at.since(now).as_secs()).unwrap_or(DELAY_S_MAX);
            let message = Outgoing::new(body, group.to_owned(), delay_s).counting(counts);
            real.put(queue, message);
            self.changed[&queue].notify_one();
            return 0;
        }
        let (group, carried) = (Arc::from(group), Carried::of(&body));
        let id = self.with(queue, |contents| {
            let id = self.dice.number(0..u64::MAX);
            let message = Message {
                body,
                sent_at: now,
                visible_at,
                receives: 0,
                received_at: now,
                receipt: 0,
                number: contents.count,
                group,
                carried,
            };
            contents.count += 1;
            contents.add(id, message);
            id
        });
        self.changed[&queue].notify_one();
        id
    }

    /// Records a delivery that is now in the queue: from here on it must end.
    fn accept(&self, body: &str, visible_at: Timestamp) {
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        let Ok(delivery) = Delivery::decode(body) else {
            return history.violation(now, "the dispatch queue was sent no delivery");
        };
        let stored = match delivery.is_claimed() {
            true => match history.payloads.get(&delivery.id).map(|object| claim::decode(object)) {
                Some(Ok(Payload::Events(events))) => Cow::Owned(events),
                // A sender that was told of a failure sends again what was received and has ended.
                Some(Ok(Payload::Ended)) => return,
                _ => return history.violation(now, "a message was sent before its payload"),
            },
            false => Cow::Borrowed(delivery.events()),
        };
        let events = stored.iter().filter_map(|event| event::name(event.get()).ok());
        let events: Vec<_> = events.collect();
        let ids = stored.iter().map(|event| event::id(event.get()).unwrap_or_default()).collect();
        let carriers = history.carriers.entry(delivery.subscription.clone()).or_default();
        let before = events.iter().filter_map(|event| {
            let before = carriers.insert(event.clone(), delivery.id)?;
            (before != delivery.id).then(|| (event.clone(), before))
        });
        for (event, before) in before.collect::<Vec<_>>() {
            let of_it = (delivery.subscription.clone(), event);
            history.carried_before.entry(of_it).or_default().push(before);
        }
        let (id, publish_time) = (delivery.id, delivery.publish_time);
        let known = history.accepted.get(&id);
        let mut lives_from = known.map_or_else(Vec::new, |known| known.lives_from.clone());
        lives_from.push(delivery.ttl_starts_at());
        // A repeated message may carry another time: the first one counts.
        let publish_time = known.map_or(publish_time, |known| known.publish_time);
        let redriven = known.map_or(0, |known| known.redriven);
        let redriven = redriven + u64::from(delivery.redriven.is_some());
        if history.accepted.contains_key(&id) {
            history.disturb(now, id, "it was sent once more");
            history.resent.insert(id);
        }
        history.trace(now, || format!("publish {id} to {}", delivery.subscription));
        let (subscription, uid) = (delivery.subscription, delivery.subscription_uid);
        let accepted = Accepted {
            subscription,
            uid,
            publish_time,
            lives_from,
            redriven,
            queued_at: visible_at,
            events,
            ids,
        };
        history.accepted.insert(id, accepted);
    }

    fn trace(&self, line: impl FnOnce() -> String) {
        self.history.lock().expect("no panic while held").trace(self.clock.now(), line);
    }

    fn refuse(&self, what: String) -> PortError {
        let mut history = self.history.lock().expect("no panic while held");
        history.violation(self.clock.now(), what.clone());
        PortError::new("sqs", what)
    }

    /// Sends one entry of a call.
    pub(crate) fn send_one(&self, queue: Queue, message: Outgoing) -> Result<(), PortError> {
        if message.delay_s > DELAY_S_MAX {
            return Err(self.refuse(format!("SQS was asked to delay by {} s", message.delay_s)));
        }
        if message.body.len() > self.settings.message_bytes_max || message.group.is_empty() {
            let bytes = message.body.len();
            return Err(self.refuse(format!("SQS was sent {bytes} bytes for {}", message.group)));
        }
        let mut visible_at = self.clock.now() + Duration::from_secs(u64::from(message.delay_s));
        if self.real.is_none() && self.dice.chance(self.settings.late) {
            let late_at = visible_at + self.dice.millis(0..30_000);
            let mut history = self.history.lock().expect("no panic while held");
            let delivery = Carried::of(&message.body).delivery;
            // The rest of a delivery ends under an id of its own, of which it is not known whom it holds up.
            let is_known = delivery.is_none_or(|id| history.accepted.contains_key(&id));
            if is_known || queue != Queue::DeadLetter {
                if let Some(delivery) = delivery {
                    history.hold_back(delivery, visible_at..late_at);
                }
                visible_at = late_at;
            }
        }
        match queue {
            Queue::Dispatch => self.accept(&message.body, visible_at),
            Queue::Poison if !self.settings.takes_refused => {
                let mut history = self.history.lock().expect("no panic while held");
                history
                    .violation(self.clock.now(), "a function sent a message to the poison queue");
            }
            _ => {}
        }
        self.log(|log| log.sent.push((queue, message.clone())));
        self.trace(|| format!("send {queue} {}", message.group));
        let counts = message.counts;
        let id = self.put_counting(queue, message.body, &message.group, visible_at, counts);
        if queue == Queue::Poison {
            self.note(id, Note::sent(message.group));
        }
        Ok(())
    }
}
