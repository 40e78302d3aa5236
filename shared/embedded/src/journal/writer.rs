//! Writes notes in the transaction of the writes that they belong to.

use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use gridpost_core::{journal::Count, time::Timestamp};
use rusqlite::Connection;
use uuid::Uuid;

use super::{
    counts::Sums,
    entries,
    notes::{InHand, Note, Notes},
    retention::{Limits, ONCE_SUMS, Retention},
    segments::Tail,
    words::Numbers,
};

/// The longest time from a response to its note, in milliseconds, unless the process is stuck.
const NOTED_AFTER_MS: i64 = 1_000;

/// When rows that are too old are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chores {
    /// With this transaction.
    Now,
    /// Another time: on a full disk nothing may come in the way of what must be written.
    Later,
}

/// Takes notes from handlers, and writes them within transactions.
pub(crate) struct JournalWriter {
    notes: Mutex<Notes>,
    transaction: Mutex<Transaction>,
    limits: Limits,
    /// Of free pages in the file.
    free_bytes: AtomicU64,
}

/// The state of the writing thread.
#[derive(Default)]
struct Transaction {
    /// Read anew after a failed transaction.
    store: Option<Store>,
    /// The notes that it writes.
    notes: Vec<Note>,
    has_written: bool,
}

struct Store {
    numbers: Numbers,
    tail: Tail,
    recent: Sums,
    retention: Retention,
}

impl JournalWriter {
    pub(crate) fn new(limits: Limits) -> Self {
        let (notes, transaction, free_bytes) = Default::default();
        Self { notes, transaction, limits, free_bytes }
    }

    /// Returns the bytes of free pages in the file, as of the last look.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no panic while held")
    }

    pub(crate) fn note(&self, note: Note) {
        self.notes().add(note);
    }

    /// Commits the notes about a message with this transaction.
    pub(crate) fn take_message(&self, in_hand: InHand) {
        self.notes().take_message(in_hand);
    }

    /// Drops the notes of earlier receives of a message.
    pub(crate) fn drop_before(&self, in_hand: InHand) {
        self.notes().drop_before(in_hand);
    }

    /// Commits the notes about a delivery with this transaction.
    pub(crate) fn take_delivery(&self, id: Uuid) {
        self.notes().take_delivery(id);
    }

    /// Commits counts with this transaction, or not at all.
    pub(crate) fn take_counts(&self, counts: &[Count], now: Timestamp) {
        if !counts.is_empty() {
            let mut notes = self.notes();
            counts.iter().for_each(|count| notes.add(Note::tied(now, count)));
        }
    }

    /// Returns the time up to which what happened is committed.
    pub(crate) fn known_until(&self, now: Timestamp) -> Timestamp {
        let transaction = self.transaction.lock().expect("no panic while held");
        let writing = transaction.notes.iter().filter_map(|note| note.pending(now)).min();
        let earliest = writing.into_iter().chain(self.notes().earliest(now)).min();
        let noted = Timestamp::from_millis(now.as_millis() - NOTED_AFTER_MS);
        earliest.map_or(noted, |earliest| earliest.min(noted))
    }

    /// Writes what this transaction commits, and removes history if it is time.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        now: Timestamp,
        chores: Chores,
    ) -> rusqlite::Result<()> {
        let mut transaction = self.transaction.lock().expect("no panic while held");
        let Transaction { store: state, notes, has_written } = &mut *transaction;
        *notes = self.notes().begin(now);
        *has_written = true;
        let mut store = match state.take() {
            Some(store) => store,
            None => Store::load(connection)?,
        };
        store.write(connection, notes, now)?;
        if chores == Chores::Now {
            store.retention.sweep(connection, &store.tail, &self.limits, now)?;
            self.free_bytes.store(store.retention.free_bytes(), Ordering::Relaxed);
        }
        *state = Some(store);
        Ok(())
    }

    /// Settles the notes of a transaction; if it failed, they wait again: all of them, if its writes are tried
    /// again, from then on.
    pub(crate) fn settle(&self, is_committed: bool, again_at: Option<Timestamp>) {
        let mut transaction = self.transaction.lock().expect("no panic while held");
        let notes = std::mem::take(&mut transaction.notes);
        let has_written = std::mem::take(&mut transaction.has_written);
        if !is_committed {
            self.notes().put_back(notes, again_at);
            if has_written {
                transaction.store = None;
            }
        }
    }
}

impl Store {
    fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let (tail, recent) = (entries::tail(connection)?, Sums::recent(connection)?);
        let retention = Retention::load(connection, &tail)?;
        Ok(Self { numbers: Numbers::default(), tail, recent, retention })
    }

    fn write(
        &mut self,
        connection: &Connection,
        notes: &[Note],
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let Self { numbers, tail, recent, retention } = self;
        let bytes = tail.bytes();
        let (mut sums, mut rows) = (Sums::default(), 0);
        for note in notes {
            if let Some(entry) = &note.entry
                && !entry.write(connection, numbers, tail)?
            {
                // A repetition counts nothing.
                continue;
            }
            if let Some(tally) = &note.tally {
                rows += ONCE_SUMS * sums.count(connection, numbers, tally)?;
            }
        }
        rows += sums.commit(connection, numbers, recent, now)?;
        retention.add(tail.bytes() - bytes, rows);
        tail.seal(connection)
    }
}
