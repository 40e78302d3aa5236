//! Messages handed over on demand, to a unit test that invokes a function itself.

use gridpost_core::delivery::{Delivery, queue::Queue};
use gridpost_ports::Clock;

use super::{Queues, Received};

impl Queues {
    /// Puts a message into a queue and hands it over at once. Its receipt is good, and nothing of it is
    /// in the log. The first message of a delivery makes it an accepted one, in whichever queue: its
    /// payload must be stored before, where it has one.
    pub fn hand(&self, queue: Queue, body: String) -> Received {
        let is_new = |delivery: Delivery| {
            let history = self.history.lock().expect("no panic while held");
            !history.accepted.contains_key(&delivery.id)
        };
        if Delivery::decode(&body).is_ok_and(is_new) {
            self.accept(&body, self.clock.now());
        }
        let now = self.clock.now();
        let id = self.put(queue, body, "", now);
        self.hand_over(queue, id)
    }

    /// Hands over every message of a queue that is visible now, in the order in which they were put in.
    /// Waits for nothing, unlike [`Self::receive`].
    pub fn hand_all(&self, queue: Queue) -> Vec<Received> {
        let now = self.clock.now();
        let visible = self.with(queue, |contents| {
            let all = contents.by_visibility.range(..=(now, u64::MAX)).map(|(_, id)| *id);
            let mut all: Vec<_> = all.collect();
            all.sort_by_key(|id| contents.messages[id].number);
            all
        });
        visible.into_iter().map(|id| self.hand_over(queue, id)).collect()
    }

    fn hand_over(&self, queue: Queue, id: u64) -> Received {
        let (now, hidden_for) = (self.clock.now(), self.visibility(queue));
        self.with(queue, |contents| contents.hand_over(queue, id, now, hidden_for, &self.dice))
    }
}
