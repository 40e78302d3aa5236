//! Queues whose messages a real implementation holds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::{Clock, Outgoing};
use uuid::Uuid;

use super::{Carried, Queues, Received};
use crate::stores::{MessageStores, at_once};

/// The implementation, and records about the messages that it has delivered.
pub(super) struct Real {
    pub(super) messages: Arc<dyn MessageStores>,
    deliveries: Mutex<HashMap<String, Option<Uuid>>>,
}

impl Real {
    pub(super) fn of(messages: Arc<dyn MessageStores>) -> Self {
        Self { messages, deliveries: Mutex::default() }
    }

    pub(super) fn next(&self, queue: Queue) -> Option<Timestamp> {
        at_once(self.messages.next_visible(queue)).expect("it is readable")
    }

    pub(super) fn count(&self, queue: Queue) -> u64 {
        at_once(self.messages.backlog(queue)).expect("it is countable")
    }

    /// The delivery that a message carried, by the receipt with which it was handed over.
    pub(super) fn delivery_of(&self, receipt: &str) -> Option<Uuid> {
        self.deliveries.lock().expect("no panic while held").get(receipt).copied().flatten()
    }

    pub(super) fn put(&self, queue: Queue, message: Outgoing) {
        let answers = at_once(self.messages.send(queue, vec![message]));
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }

    /// The bodies of a queue that is used no more.
    pub(super) fn bodies(&self, queue: Queue) -> Vec<String> {
        let all = at_once(self.messages.receive(queue, usize::MAX)).expect("they are readable");
        all.into_iter().map(|message| message.body).collect()
    }
}

impl Queues {
    /// Puts the messages into those queues. Duplicates, late messages and the wall of messages in
    /// flight are left out, and so is the preference of fair queues.
    #[must_use]
    pub fn on(self, messages: Arc<dyn MessageStores>) -> Self {
        Self { real: Some(Real::of(messages)), ..self }
    }

    pub(super) fn take_real(&self, real: &Real, queue: Queue, most: usize) -> Vec<Received> {
        let at = self.clock.now();
        let most = 1 + self.dice.number(0..most as u64) as usize;
        let handed = at_once(real.messages.receive(queue, most)).expect("it is readable");
        let mut deliveries = real.deliveries.lock().expect("no panic while held");
        let note = |message: crate::stores::Handed| {
            let carried = Carried::of(&message.body);
            deliveries.insert(message.receipt.clone(), carried.delivery);
            let mut history = self.history.lock().expect("no panic while held");
            history.receives_max = history.receives_max.max(message.count);
            let crate::stores::Handed { message_id, receipt, body, count } = message;
            Received { message_id, receipt, body, count, at, carried }
        };
        handed.into_iter().map(note).collect()
    }
}
