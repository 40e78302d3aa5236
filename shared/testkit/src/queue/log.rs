//! The log of calls to queues, for unit tests.

use gridpost_core::delivery::queue::Queue;
use gridpost_ports::Outgoing;

use super::Queues;

/// The calls, in order.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) sent: Vec<(Queue, Outgoing)>,
    pub(super) hidden: Vec<(Queue, String, u32)>,
    calls: Vec<(Queue, usize)>,
}

impl Queues {
    /// The messages that were sent and taken, in order. Panics unless a log is kept.
    pub fn sent(&self) -> Vec<(Queue, Outgoing)> {
        self.read_log(|log| log.sent.clone())
    }

    pub fn sent_to(&self, queue: Queue) -> Vec<Outgoing> {
        let sent = self.sent().into_iter().filter(|(found, _)| *found == queue);
        sent.map(|(_, message)| message).collect()
    }

    /// How many messages each call tried to send to a queue, taken or not. Panics unless a log is kept.
    pub fn call_sizes(&self, queue: Queue) -> Vec<usize> {
        let of_queue = |(found, size): &(Queue, usize)| (*found == queue).then_some(*size);
        self.read_log(|log| log.calls.iter().filter_map(of_queue).collect())
    }

    /// The hides that were asked for, each with its receipt and its seconds, whether or not SQS could
    /// do it. Panics unless a log is kept.
    pub fn hidden(&self) -> Vec<(Queue, String, u32)> {
        self.read_log(|log| log.hidden.clone())
    }

    /// Notes that a call sends so many messages, before each of them is sent.
    pub(crate) fn note_call(&self, queue: Queue, messages: usize) {
        self.log(|log| log.calls.push((queue, messages)));
    }

    /// Writes to the log, where one is kept.
    pub(super) fn log(&self, write: impl FnOnce(&mut Log)) {
        if self.settings.keeps_log {
            write(&mut self.log.lock().expect("no panic while held"));
        }
    }

    fn read_log<T>(&self, read: impl FnOnce(&Log) -> T) -> T {
        assert!(self.settings.keeps_log, "no log is kept: nothing can be said of it");
        read(&self.log.lock().expect("no panic while held"))
    }
}
