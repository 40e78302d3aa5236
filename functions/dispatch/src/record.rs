//! The disposition of a queue record.

use gridpost_ports::{PortError, Record};

/// Copies without the bodies, enough to settle them.
pub fn without_bodies<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<Record> {
    records.map(Record::without_body).collect()
}

/// What SQS does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// SQS may delete it: its delivery has ended, or its successor is stored elsewhere.
    Delete,
    /// SQS keeps it: it was hidden until it is due, or it comes back by itself.
    Keep,
}

/// A disposition, or the error of a failed call: then the record comes back by itself.
pub type Settled = Result<Disposition, PortError>;
