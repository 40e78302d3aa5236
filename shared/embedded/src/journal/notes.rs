//! Notes that wait for the write that they belong to.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::{
    journal::{Count, Entry},
    time::Timestamp,
};
use uuid::Uuid;

use super::{counts::Tally, entries::Prepared};

/// A note without a message that no write has taken for this long is committed by itself.
const WAITS_FOR: Duration = Duration::from_secs(60);

/// Longer than any handler holds a message.
const VOID_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Above this many, new notes wait for no write, and those of a transaction that failed are dropped.
const WAITING_MAX: usize = 10_000;

/// A note that has waited for longer is about a message whose handler died.
const HELD_FOR: Duration = Duration::from_secs(5 * 60);

/// A message in hand: its id, and the number of its receive.
pub(crate) type InHand = (i64, u32);

/// An entry with what it counts, or a count.
pub(crate) struct Note {
    at: Timestamp,
    /// When it happened.
    happened: Timestamp,
    message: Option<InHand>,
    delivery: Option<Uuid>,
    /// It is void if its transaction fails.
    is_tied: bool,
    pub(super) entry: Option<Box<Prepared>>,
    pub(super) tally: Option<Tally>,
}

impl Note {
    pub(crate) fn entry(now: Timestamp, entry: Entry, message: Option<InHand>) -> Self {
        let tally = entry.count().map(|count| Tally::of(&count, entry.at));
        let (happened, delivery) = (entry.at, Some(entry.delivery));
        let entry = Some(Box::new(Prepared::of(entry)));
        Self { at: now, happened, message, delivery, is_tied: false, entry, tally }
    }

    pub(crate) fn count(now: Timestamp, count: &Count, message: Option<InHand>) -> Self {
        let tally = Some(Tally::of(count, now));
        Self { at: now, happened: now, message, delivery: None, is_tied: false, entry: None, tally }
    }

    /// Makes a note of what the running transaction counts.
    pub(super) fn tied(now: Timestamp, count: &Count) -> Self {
        Self { is_tied: true, ..Self::count(now, count, None) }
    }

    /// Returns when it happened, unless it may never be committed.
    pub(super) fn pending(&self, now: Timestamp) -> Option<Timestamp> {
        (now.since(self.at) < HELD_FOR).then_some(self.happened)
    }
}

#[derive(Default)]
pub(super) struct Notes {
    /// By message, in the order in which they were noted.
    waiting: BTreeMap<(Option<InHand>, u64), Note>,
    noted: u64,
    /// To be committed with this transaction.
    taken: Vec<Note>,
}

impl Notes {
    pub(super) fn add(&mut self, note: Note) {
        let waits_for_none = note.message.is_none() && note.delivery.is_none();
        if waits_for_none || self.waiting.len() >= WAITING_MAX {
            return self.taken.push(note);
        }
        self.noted += 1;
        self.waiting.insert((note.message, self.noted), note);
    }

    pub(super) fn take_message(&mut self, in_hand: InHand) {
        let of_it = (Some(in_hand), 0)..=(Some(in_hand), u64::MAX);
        let notes = self.waiting.extract_if(of_it, |_, _| true);
        self.taken.extend(notes.map(|(_, note)| note));
    }

    /// Drops the notes of earlier receives of a message. The handler that made them can't settle the message
    /// any more: the work is done, and noted, again.
    pub(super) fn drop_before(&mut self, (id, receives): InHand) {
        let before = (Some((id, 0)), 0)..(Some((id, receives)), 0);
        self.waiting.extract_if(before, |_, _| true).for_each(drop);
    }

    pub(super) fn take_delivery(&mut self, id: Uuid) {
        self.take_if(|note| note.delivery == Some(id));
    }

    fn take_if(&mut self, is_due: impl Fn(&Note) -> bool) {
        let notes = self.waiting.extract_if(.., |_, note| is_due(note));
        self.taken.extend(notes.map(|(_, note)| note));
    }

    /// Returns the notes to commit now, the old ones included.
    pub(super) fn begin(&mut self, now: Timestamp) -> Vec<Note> {
        let has_waited = |note: &Note| now.since(note.at) >= WAITS_FOR;
        self.take_if(|note| note.message.is_none() && has_waited(note));
        // Its message is gone.
        let is_over = |note: &Note| now.since(note.at) >= VOID_AFTER;
        self.waiting.extract_if(.., |_, note| is_over(note)).for_each(drop);
        std::mem::take(&mut self.taken)
    }

    /// Lets the notes of a transaction that failed wait again. If its writes are not tried again, too many are
    /// dropped: their messages are still there, and the work is done, and noted, again.
    pub(super) fn put_back(&mut self, notes: Vec<Note>, again_at: Option<Timestamp>) {
        let most = match again_at {
            Some(_) => usize::MAX,
            None => WAITING_MAX.saturating_sub(self.waiting.len()),
        };
        let taken = std::mem::take(&mut self.taken);
        let notes = notes.into_iter().chain(taken).filter(|note| !note.is_tied);
        let notes = notes.map(|note| Note { at: again_at.unwrap_or(note.at), ..note });
        notes.take(most).for_each(|note| self.add(note));
    }

    /// Returns when the first of what is noted, and not in a transaction, happened.
    pub(super) fn earliest(&self, now: Timestamp) -> Option<Timestamp> {
        self.waiting.values().chain(&self.taken).filter_map(|note| note.pending(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use gridpost_core::journal::{Counted, Owner};

    use super::*;

    #[test]
    fn notes_of_transactions_that_fail_are_bounded() {
        let now = Timestamp::default();
        let owner = Owner::Topic("t".to_owned());
        let counted = Counted::Accepted;
        let count = Count { owner, publish_time: now, counted, events: 1, once: None };
        let mut notes = Notes::default();
        for number in 0..30_000 {
            notes.add(Note::count(now, &count, Some((number, 1))));
            if number % 100 == 0 {
                let begun = notes.begin(now);
                notes.put_back(begun, None);
            }
        }
        assert!(notes.waiting.len() + notes.taken.len() <= WAITING_MAX + 100);
    }
}
