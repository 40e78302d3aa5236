//! Notes that wait for the write that they belong to.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::{
    journal::{Count, Entry},
    time::Timestamp,
};
use uuid::Uuid;

use super::{counts::Tally, entries::Prepared};

/// A note that no write has taken for this long is committed by itself.
const WAITS_FOR: Duration = Duration::from_secs(60);

/// Above this many, new notes wait for no write.
const WAITING_MAX: usize = 10_000;

/// An entry with what it counts, or a count.
pub(crate) struct Note {
    at: Timestamp,
    /// The message in hand.
    message: Option<i64>,
    delivery: Option<Uuid>,
    /// It is void if its transaction fails.
    is_tied: bool,
    pub(super) entry: Option<Box<Prepared>>,
    pub(super) tally: Option<Tally>,
}

impl Note {
    pub(crate) fn entry(now: Timestamp, entry: Entry, message: Option<i64>) -> Self {
        let tally = entry.count().map(|count| Tally::of(&count, entry.at));
        let delivery = Some(entry.delivery);
        let entry = Some(Box::new(Prepared::of(entry)));
        Self { at: now, message, delivery, is_tied: false, entry, tally }
    }

    pub(crate) fn count(now: Timestamp, count: &Count, message: Option<i64>) -> Self {
        let tally = Some(Tally::of(count, now));
        Self { at: now, message, delivery: None, is_tied: false, entry: None, tally }
    }

    /// Makes a note of what the running transaction counts.
    pub(super) fn tied(now: Timestamp, count: &Count) -> Self {
        Self { is_tied: true, ..Self::count(now, count, None) }
    }
}

#[derive(Default)]
pub(super) struct Notes {
    /// By message, in the order in which they were noted.
    waiting: BTreeMap<(Option<i64>, u64), Note>,
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

    pub(super) fn take_message(&mut self, id: i64) {
        let notes = self.waiting.extract_if((Some(id), 0)..=(Some(id), u64::MAX), |_, _| true);
        self.taken.extend(notes.map(|(_, note)| note));
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
        self.take_if(|note| now.since(note.at) >= WAITS_FOR);
        std::mem::take(&mut self.taken)
    }

    /// Lets the notes of a transaction that failed wait again.
    pub(super) fn put_back(&mut self, notes: Vec<Note>) {
        let taken = std::mem::take(&mut self.taken);
        notes.into_iter().chain(taken).filter(|note| !note.is_tied).for_each(|note| self.add(note));
    }
}
