//! The poison queue for operators, with the details of each message.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{Delivery, queue::Queue},
    poison::Poisoned,
    time::Timestamp,
};
use gridpost_ports::{Clock, PoisonQueue, PortError};

use super::{
    Carried, Queues,
    contents::{Contents, Message, Note},
};
use crate::dice::SeededDice;

/// Messages that one receive hands over, at most.
const ENTRIES_MAX: usize = 10;

/// How soon a message that an operator sends back is received.
const RETURNED_WITHIN: Duration = Duration::from_secs(5);

impl Queues {
    /// Takes all messages out of the poison queue that SQS moved there, as an operator does who
    /// sends them back: each with the name of the queue it came from.
    fn take_poisoned(&self) -> Vec<(Message, Option<String>)> {
        self.with(Queue::Poison, |contents| {
            let ids: Vec<_> = contents.messages.keys().copied().collect();
            let take = |id| {
                let from = contents.notes.get(&id).and_then(|note| note.moved_from.clone());
                let message = contents.remove(id)?;
                Some((message, from))
            };
            ids.into_iter().filter_map(take).collect()
        })
    }

    /// Sends every message of the poison queue back, as an operator does: a delivery to its retry
    /// queue, never to the dispatch queue, and all else where it came from.
    pub fn return_poisoned(&self) {
        let now = self.clock.now();
        for (Message { body, group, sent_at, carried, .. }, from) in self.take_poisoned() {
            if let Some(delivery) = carried.delivery {
                let mut history = self.history.lock().expect("no panic while held");
                history.hold_back(delivery, sent_at..now + RETURNED_WITHIN);
            }
            let delivery = Delivery::decode(&body).ok();
            let queue = match (&delivery, from.as_deref()) {
                (Some(delivery), _) => delivery.retry_queue(self.settings.retry_shards),
                (None, Some("gridpost-fan-out")) => Queue::FanOut,
                (None, _) => Queue::DeadLetter,
            };
            self.trace(|| format!("send back to {queue}"));
            self.put(queue, body, &group, now);
        }
    }

    /// Notes that a message is taken out of it: until now it lay there.
    pub(super) fn note_returned(&self, id: u64) {
        let found = self.with(Queue::Poison, |contents| {
            let message = contents.messages.get(&id)?;
            Some((message.carried.delivery?, message.sent_at))
        });
        let Some((delivery, sent_at)) = found else { return };
        let until = self.clock.now() + RETURNED_WITHIN;
        let mut history = self.history.lock().expect("no panic while held");
        history.hold_back(delivery, sent_at..until);
    }

    /// Puts a message into the poison queue as if it had been moved there. It keeps its id; its receipt
    /// is new with each receive, which is counted.
    pub fn lay(&self, message: Poisoned) {
        let now = self.clock.now();
        let Poisoned { id, body, sent_at, receive_count, moved_from, group, .. } = message;
        self.with(Queue::Poison, |contents| {
            // Messages are handed over in the order they were laid.
            let number = contents.count;
            contents.count += 1;
            contents.notes.insert(number, Note { id: Some(id), moved_from, group });
            let message = Message {
                carried: Carried::of(&body),
                body,
                sent_at,
                visible_at: now,
                receives: receive_count,
                received_at: now,
                receipt: 0,
                number,
                group: Arc::from(""),
            };
            contents.add(number, message);
        });
    }

    /// The messages in the poison queue, in the order they are handed over when all are visible: their
    /// ids, and whether they are hidden.
    pub fn lying(&self) -> Vec<(String, bool)> {
        let now = self.clock.now();
        self.with(Queue::Poison, |contents| {
            let lying = contents.messages.iter();
            lying.map(|(id, it)| (contents.id_of(*id), it.visible_at > now)).collect()
        })
    }

    pub(super) fn note(&self, id: u64, note: Note) {
        self.with(Queue::Poison, |contents| contents.notes.insert(id, note));
    }
}

impl Contents {
    fn id_of(&self, id: u64) -> String {
        let laid = self.notes.get(&id).and_then(|note| note.id.clone());
        laid.unwrap_or_else(|| format!("{:?}-{id:016x}", Queue::Poison))
    }

    fn look_at(
        &mut self,
        id: u64,
        now: Timestamp,
        hidden_for: Duration,
        dice: &SeededDice,
    ) -> Poisoned {
        let received = self.hand_over(Queue::Poison, id, now, hidden_for, dice);
        let note = self.notes.get(&id);
        Poisoned {
            id: self.id_of(id),
            receipt: received.receipt,
            body: received.body,
            sent_at: self.messages[&id].sent_at,
            receive_count: received.count,
            moved_from: note.and_then(|note| note.moved_from.clone()),
            group: note.and_then(|note| note.group.clone()),
        }
    }
}

/// Hands over what is visible, without dice.
#[async_trait]
impl PoisonQueue for Queues {
    async fn receive(&self, hidden_s: u32) -> Result<Vec<Poisoned>, PortError> {
        if hidden_s == 0 {
            return Err(self.refuse("what is received would be received again at once".to_owned()));
        }
        let (now, hidden_for) = (self.clock.now(), Duration::from_secs(u64::from(hidden_s)));
        Ok(self.with(Queue::Poison, |contents| {
            let visible = contents.by_visibility.range(..=(now, u64::MAX));
            let visible: Vec<_> = visible.map(|(_, id)| *id).take(ENTRIES_MAX).collect();
            let look = |id| contents.look_at(id, now, hidden_for, &self.dice);
            visible.into_iter().map(look).collect()
        }))
    }

    async fn count(&self) -> Result<u64, PortError> {
        Ok(self.with(Queue::Poison, |contents| contents.messages.len()) as u64)
    }
}
