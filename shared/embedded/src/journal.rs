//! The journal's rows: notes wait for the write that they belong to, and are committed with it.
//!
//! [`notes`] holds them until then, [`writer`] writes them at the end of the transaction, as rows of
//! [`entries`] and sums of [`counts`]. [`segments`] finds rows by event id and event subscription,
//! [`retention`] removes history, [`answers`] reads.

pub(crate) mod answers;
mod counts;
mod entries;
pub(crate) mod notes;
mod retention;
mod segments;
mod words;
mod writer;

pub(crate) use retention::Limits;
pub(crate) use writer::{Chores, JournalWriter};
