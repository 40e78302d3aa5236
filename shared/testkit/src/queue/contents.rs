//! The contents of a queue, and the order of receipt.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};

use super::{Carried, RETENTION, Received, fair::Groups, receipt::received};
use crate::dice::SeededDice;

/// More visible messages are not counted: callers ask whether there are many.
const VISIBLE_COUNTED_MAX: usize = 1_000;

/// A message in a queue.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) body: String,
    pub(super) sent_at: Timestamp,
    pub(super) visible_at: Timestamp,
    pub(super) receives: u32,
    pub(super) received_at: Timestamp,
    pub(super) receipt: u64,
    /// How many were put into the queue before it.
    pub(super) number: u64,
    pub(super) group: Arc<str>,
    pub(super) carried: Carried,
}

/// The contents of one queue.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) messages: BTreeMap<u64, Message>,
    /// How many were ever put in.
    pub(super) count: u64,
    pub(super) by_visibility: BTreeSet<(Timestamp, u64)>,
    /// Received messages, by the time they become visible again; the first ones may already be.
    pub(super) received: BTreeSet<(Timestamp, u64)>,
    pub(super) forgot_at: Timestamp,
    /// The groups of its messages, where quiet ones are preferred.
    pub(super) groups: Option<Groups>,
    /// Second hand-overs that are still to come: when, the message, its body and receive count.
    pub(super) ghosts: BTreeMap<(Timestamp, u64), (u64, String, u32)>,
    /// The details of messages of the poison queue.
    pub(super) notes: BTreeMap<u64, Note>,
}

impl Contents {
    pub(super) fn next(&self) -> Option<Timestamp> {
        let visible = self.by_visibility.first().map(|(at, _)| *at);
        let ghost = self.ghosts.keys().next().map(|(at, _)| *at);
        visible.into_iter().chain(ghost).min()
    }

    pub(super) fn in_flight(&mut self, now: Timestamp) -> usize {
        while let Some((_, id)) = self.received.first().filter(|(at, _)| *at <= now).copied() {
            self.received.pop_first();
            if let (Some(groups), Some(message)) = (&mut self.groups, self.messages.get(&id)) {
                groups.landed(&message.group);
            }
        }
        self.received.len()
    }

    pub(super) fn visible_count(&self, now: Timestamp) -> usize {
        let ready = self.by_visibility.iter().take_while(|(at, _)| *at <= now);
        ready.take(VISIBLE_COUNTED_MAX).count()
    }

    /// Drops messages that are too old; need not run often.
    pub(super) fn forget(&mut self, now: Timestamp) {
        if now.since(self.forgot_at) < Duration::from_secs(3_600) {
            return;
        }
        self.forgot_at = now;
        let old = |message: &Message| now.since(message.sent_at) >= RETENTION;
        let old: Vec<_> =
            self.messages.iter().filter(|(_, found)| old(found)).map(|(id, _)| *id).collect();
        for id in old {
            self.remove(id);
        }
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Message> {
        self.take_out(id);
        let message = self.messages.remove(&id)?;
        self.notes.remove(&id);
        Some(message)
    }

    /// Hides a message that was received.
    pub(super) fn move_to(&mut self, id: u64, visible_at: Timestamp) {
        self.take_out(id);
        if let Some(message) = self.messages.get_mut(&id) {
            message.visible_at = visible_at;
            self.by_visibility.insert((visible_at, id));
            self.received.insert((visible_at, id));
            if let Some(groups) = &mut self.groups {
                groups.show(&message.group, (visible_at, id));
                groups.took_off(&message.group);
            }
        }
    }

    pub(super) fn add(&mut self, id: u64, message: Message) {
        self.by_visibility.insert((message.visible_at, id));
        if let Some(groups) = &mut self.groups {
            groups.sent(&message.group, message.sent_at);
            groups.show(&message.group, (message.visible_at, id));
        }
        self.messages.insert(id, message);
    }

    /// Takes a message out of every order.
    fn take_out(&mut self, id: u64) {
        let Some(message) = self.messages.get(&id) else { return };
        let place = (message.visible_at, id);
        self.by_visibility.remove(&place);
        let was_received = self.received.remove(&place);
        if let Some(groups) = &mut self.groups {
            groups.hide(&message.group, place);
            if was_received {
                groups.landed(&message.group);
            }
        }
    }

    /// The messages to hand over now, at most so many of each: the oldest of quiet groups, and those that
    /// go after them. Where no group is preferred, all are quiet.
    pub(super) fn visible(&mut self, now: Timestamp, most: usize) -> (Vec<u64>, Vec<u64>) {
        let in_flight = self.in_flight(now);
        if let Some(groups) = &mut self.groups {
            return groups.visible(now, in_flight, most);
        }
        let visible = self.by_visibility.range(..=(now, u64::MAX));
        (visible.map(|(_, id)| *id).take(most).collect(), Vec::new())
    }

    pub(super) fn hand_over(
        &mut self,
        queue: Queue,
        id: u64,
        now: Timestamp,
        hidden_for: Duration,
        dice: &SeededDice,
    ) -> Received {
        self.move_to(id, now + hidden_for);
        let message = self.messages.get_mut(&id).expect("it was just found");
        message.receives += 1;
        message.received_at = now;
        message.receipt = dice.number(0..u64::MAX);
        let (receipt, body) = (message.receipt, message.body.clone());
        let carried = message.carried;
        Received { carried, ..received(queue, id, receipt, body, message.receives, now) }
    }
}

/// The details of a message in the poison queue.
#[derive(Debug, Default)]
pub(super) struct Note {
    /// The id given by [`Queues::lay`], if any.
    pub(super) id: Option<String>,
    /// The name in SQS of the queue that SQS moved it from.
    pub(super) moved_from: Option<String>,
    pub(super) group: Option<String>,
}

impl Note {
    /// Makes the place of a message that our code sent.
    pub(super) fn sent(group: String) -> Self {
        Self { group: Some(group), ..Self::default() }
    }

    /// Makes the place of a message that SQS moved.
    pub(super) fn moved(from: Queue) -> Self {
        Self { moved_from: Some(format!("gridpost-{from}")), ..Self::default() }
    }
}
