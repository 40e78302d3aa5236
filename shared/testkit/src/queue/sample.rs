//! SQS's counts of messages: approximate, and some time old.
//!
//! Source: Amazon SQS API reference, `GetQueueAttributes`: approximate counts settle within a
//! minute.

use std::{collections::BTreeMap, time::Duration};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_ports::Clock;

use super::Queues;

/// The oldest that a sample gets.
const OLD: Duration = Duration::from_secs(60);

/// The last samples: until when each is returned, and its count.
pub(super) type Samples = BTreeMap<(Queue, &'static str), (Timestamp, u64)>;

impl Queues {
    /// SQS's answer for a count that is `exact` now.
    pub(super) fn told(&self, queue: Queue, what: &'static str, exact: u64) -> u64 {
        if !self.settings.counts_lag {
            return exact;
        }
        let now = self.clock.now();
        let mut samples = self.samples.lock().expect("no panic while held");
        if let Some((until, told)) = samples.get(&(queue, what))
            && now < *until
        {
            return *told;
        }
        let told = exact * self.dice.number(90..111) / 100;
        let until = now + OLD.mul_f64(self.dice.with(fastrand::Rng::f64));
        samples.insert((queue, what), (until, told));
        told
    }
}
