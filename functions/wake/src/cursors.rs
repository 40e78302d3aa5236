//! Chooses the parked deliveries that come next.

use std::collections::{BTreeMap, VecDeque};

use gridpost_ports::PARKED_PARTITIONS;

/// The most minutes read concurrently: after an outage of wake there may be thousands.
const OPEN_MINUTES_MAX: usize = 60;

/// The position in one partition of a minute's parked deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionCursor {
    /// Since the Unix epoch.
    pub(crate) minute: i64,
    pub(crate) partition: u32,
    pub(crate) after: Option<String>,
    /// Whether everything before was sent or parked again.
    pub(crate) is_whole: bool,
    /// How often this run failed to read its next page.
    pub(crate) reads: u32,
}

/// The cursors of a run: the oldest minutes first, one page each in turn.
#[derive(Debug)]
pub(crate) struct PartitionCursors {
    waiting: VecDeque<PartitionCursor>,
    /// How many cursors of each open minute are not finished.
    unfinished: BTreeMap<i64, u32>,
    /// The first minute that is not open yet.
    next: i64,
    last: i64,
}

impl PartitionCursors {
    pub(crate) fn new(from: i64, last: i64) -> Self {
        Self { waiting: VecDeque::new(), unfinished: BTreeMap::new(), next: from, last }
    }

    /// Takes the next cursor. Returns `None` if all are finished or being read.
    pub(crate) fn next(&mut self) -> Option<PartitionCursor> {
        while self.next <= self.last && self.unfinished.len() < OPEN_MINUTES_MAX {
            let minute = self.next;
            self.unfinished.insert(minute, PARKED_PARTITIONS);
            let cursor = |partition| PartitionCursor {
                minute,
                partition,
                after: None,
                is_whole: true,
                reads: 0,
            };
            self.waiting.extend((0..PARKED_PARTITIONS).map(cursor));
            self.next += 1;
        }
        self.waiting.pop_front()
    }

    pub(crate) fn put_back(&mut self, cursor: PartitionCursor) {
        self.waiting.push_back(cursor);
    }

    /// Records that a cursor of that minute has nothing left.
    pub(crate) fn finish(&mut self, minute: i64) {
        if let Some(left) = self.unfinished.get_mut(&minute) {
            *left -= 1;
            if *left == 0 {
                self.unfinished.remove(&minute);
            }
        }
    }

    pub(crate) fn first_unfinished(&self) -> i64 {
        self.unfinished.keys().next().copied().unwrap_or(self.next)
    }
}
