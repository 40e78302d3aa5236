//! The contents of one queue, and the order of receipt.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use gridpost_core::time::Timestamp;

/// Messages are counted one by one up to this.
const COUNTED_MAX: usize = 10_000;

/// The visibility of a released crash suspect: before all other messages.
pub(super) const RELEASED: Timestamp = Timestamp::from_millis(0);

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) sent_at: Timestamp,
    pub(super) visible_at: Timestamp,
    pub(super) receives: u32,
    /// Its queue before the poison queue.
    pub(super) moved_from: Option<String>,
    pub(super) group: Arc<str>,
    pub(super) body: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Contents {
    messages: HashMap<i64, Message>,
    /// All messages, by visibility, then in the order they were sent.
    by_visibility: BTreeSet<(Timestamp, i64)>,
    /// The received messages; the first ones may be visible again.
    received: BTreeSet<(Timestamp, i64)>,
}

/// The reason why a receipt has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiptError {
    Gone,
    Stale,
    Visible,
}

impl ReceiptError {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Gone => "the message is gone",
            Self::Stale => "the message was received again",
            Self::Visible => "the message is not in flight",
        }
    }
}

impl Contents {
    pub(super) fn add(&mut self, id: i64, message: Message) {
        self.by_visibility.insert((message.visible_at, id));
        self.messages.insert(id, message);
    }

    /// Receives up to `most` messages that are visible at `visible_since`, and hides them until `until`.
    /// Also returns, hidden too, the messages that were received too often.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        visible_since: Timestamp,
        until: Timestamp,
        most: usize,
        max_receives: u32,
    ) -> (Vec<(i64, Message)>, Vec<i64>) {
        let (mut taken, mut worn_out) = (Vec::new(), Vec::new());
        while taken.len() < most {
            let first = self.by_visibility.first().filter(|(at, _)| *at <= visible_since);
            let Some((at, id)) = first.copied() else { break };
            self.by_visibility.pop_first();
            self.received.remove(&(at, id));
            // Otherwise the same message could be taken twice.
            let until = until.max(now + std::time::Duration::from_millis(1));
            self.by_visibility.insert((until, id));
            self.received.insert((until, id));
            let Some(message) = self.messages.get_mut(&id) else { continue };
            message.visible_at = until;
            if message.receives >= max_receives {
                worn_out.push(id);
                continue;
            }
            message.receives += 1;
            let body = message.body.take();
            taken.push((id, Message { body, ..message.clone() }));
        }
        (taken, worn_out)
    }

    /// Undoes a receive: the message becomes visible at `visible_at`.
    pub(super) fn give_back(&mut self, id: i64, taken: &mut Message, visible_at: Timestamp) {
        let is_same = self.hide(id, taken.receives, visible_at).is_ok();
        if let Some(message) = self.messages.get_mut(&id).filter(|_| is_same) {
            message.receives -= 1;
            message.body = taken.body.take();
            self.received.remove(&(visible_at, id));
        }
    }

    /// Hides a message until it is [released](Self::release). Returns whether it was not hidden that way.
    pub(super) fn withhold(&mut self, id: i64) -> bool {
        self.messages.get(&id).is_some_and(|it| it.visible_at != Timestamp::MAX)
            && self.show_at(id, Timestamp::MAX)
    }

    pub(super) fn release(&mut self, id: i64) {
        if self.messages.get(&id).is_some_and(|it| it.visible_at == Timestamp::MAX) {
            self.show_at(id, RELEASED);
        }
    }

    fn show_at(&mut self, id: i64, visible_at: Timestamp) -> bool {
        let Some(message) = self.messages.get_mut(&id) else { return false };
        self.by_visibility.remove(&(message.visible_at, id));
        message.visible_at = visible_at;
        self.by_visibility.insert((visible_at, id))
    }

    pub(super) fn has(&self, id: i64) -> bool {
        self.messages.contains_key(&id)
    }

    /// Checks that a receipt is the latest, and that its message is in flight.
    pub(super) fn check(&self, id: i64, receives: u32, now: Timestamp) -> Result<(), ReceiptError> {
        let message = self.messages.get(&id).ok_or(ReceiptError::Gone)?;
        if message.receives != receives {
            return Err(ReceiptError::Stale);
        }
        if message.visible_at <= now {
            return Err(ReceiptError::Visible);
        }
        Ok(())
    }

    pub(super) fn is_newest(&self, id: i64, receives: u32) -> bool {
        self.messages.get(&id).is_some_and(|message| message.receives == receives)
    }

    /// Changes when a received message is visible, unless it was received again.
    pub(super) fn hide(
        &mut self,
        id: i64,
        receives: u32,
        until: Timestamp,
    ) -> Result<(), ReceiptError> {
        let message = self.messages.get_mut(&id).ok_or(ReceiptError::Gone)?;
        if message.receives != receives {
            return Err(ReceiptError::Stale);
        }
        let before = (message.visible_at, id);
        message.visible_at = until;
        self.by_visibility.remove(&before);
        self.received.remove(&before);
        self.by_visibility.insert((until, id));
        self.received.insert((until, id));
        Ok(())
    }

    pub(super) fn remove(&mut self, id: i64) -> Option<Message> {
        let message = self.messages.remove(&id)?;
        let place = (message.visible_at, id);
        self.by_visibility.remove(&place);
        self.received.remove(&place);
        Some(message)
    }

    /// Returns when the first message is or was visible.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_visibility.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn in_flight(&mut self, now: Timestamp) -> usize {
        while self.received.first().is_some_and(|(at, _)| *at <= now) {
            self.received.pop_first();
        }
        self.received.len()
    }

    /// Counts visible messages. Above [`COUNTED_MAX`], delayed ones count too.
    pub(super) fn visible(&mut self, now: Timestamp) -> usize {
        let visible = self.by_visibility.range(..=(now, i64::MAX)).take(COUNTED_MAX).count();
        match visible {
            COUNTED_MAX => self.len() - self.in_flight(now),
            _ => visible,
        }
    }
}
