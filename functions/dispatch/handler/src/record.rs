//! What becomes of a queue's record.

use gridpost_ports::{PortError, Record};

/// What settling these takes, without their bodies.
pub fn without_bodies<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<Record> {
    records.map(Record::without_body).collect()
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its delivery has ended, or its successor is in another place: SQS may delete it.
    Delete,
    /// SQS keeps it: it was hidden until it is due, or it comes back by itself.
    Keep,
}

/// A record that could not be settled, because a call of ours failed. It comes back by itself.
pub type Settled = Result<Fate, PortError>;
