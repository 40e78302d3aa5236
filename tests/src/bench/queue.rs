//! A queue like SQS's: delays, visibility timeouts, receive counts, stale receipts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;
use serde_json::value::RawValue;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::lock;

#[derive(Clone, Debug)]
pub struct Message {
    /// Counts the queue's messages; its message id follows from it.
    pub number: u64,
    /// The body as the JSON string it was sent as: nothing unescapes and escapes it on the way.
    pub body: Arc<RawValue>,
    pub group: Arc<str>,
    pub sent_at: Instant,
    /// The time in milliseconds since the epoch, as SQS gives it.
    pub sent_ms: i64,
    pub receives: u32,
}

impl Message {
    /// SQS's id of it.
    pub fn id(&self) -> String {
        uuid::Uuid::from_u128(u128::from(self.number)).to_string()
    }

    /// Returns the receipt that deletes or hides it until it is received again.
    pub fn receipt(&self) -> String {
        format!("{}-{}", self.number, self.receives)
    }
}

/// A message's place in the order of receipt: when it is visible, and its number.
type Place = (Instant, u64);

#[derive(Debug, Default)]
struct State {
    messages: BTreeMap<Place, Message>,
    count: u64,
}

impl State {
    /// Takes out the message of a receipt, unless it was received again since. Received messages are
    /// hidden for longer than others wait: they are the last ones.
    fn take(&mut self, receipt: &str) -> Option<(Instant, Message)> {
        let mut latest = self.messages.iter().rev();
        let (place, _) = latest.find(|(_, message)| message.receipt() == receipt)?;
        let place = *place;
        Some((place.0, self.messages.remove(&place)?))
    }
}
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    /// Notified of every message.
    news: Notify,
}

impl Queue {
    /// Takes a message in; returns its id.
    pub fn send(
        &self,
        body: Arc<RawValue>,
        group: Arc<str>,
        delay: Duration,
        now: Instant,
    ) -> String {
        let mut state = lock(&self.state);
        state.count += 1;
        let number = state.count;
        let sent_ms = SystemClock.now().as_millis();
        let message = Message { number, body, group, sent_at: now, sent_ms, receives: 0 };
        let id = message.id();
        state.messages.insert((now + delay, number), message);
        self.news.notify_one();
        id
    }

    /// Receives up to `count` messages with at most `bytes_max` in total, and hides them for
    /// `visibility`.
    pub fn receive(
        &self,
        count: usize,
        bytes_max: usize,
        visibility: Duration,
        now: Instant,
    ) -> Vec<Message> {
        let mut state = lock(&self.state);
        let (mut received, mut bytes) = (Vec::<Message>::new(), 0);
        while received.len() < count
            && let Some(first) = state.messages.first_entry().filter(|first| first.key().0 <= now)
        {
            bytes += first.get().body.get().len();
            if bytes > bytes_max && !received.is_empty() {
                break;
            }
            let mut message = first.remove();
            message.receives += 1;
            received.push(message.clone());
            state.messages.insert((now + visibility, message.number), message);
        }
        received
    }

    /// Waits until something may be received.
    pub async fn news(&self) {
        let due = lock(&self.state).messages.keys().next().map(|(due, _)| *due);
        // A message's timeout may be shortened meanwhile: then it is found up to a second late.
        let later = Instant::now() + Duration::from_secs(1);
        let _ = timeout_at(due.map_or(later, |due| due.min(later)), self.news.notified()).await;
    }

    /// Deletes a message. Like SQS, it ignores a stale receipt without an error.
    pub fn delete(&self, receipt: &str) {
        lock(&self.state).take(receipt);
    }

    /// Hides a received message for `visibility` from now. Answers whether that receipt hid it.
    pub fn hide(&self, receipt: &str, visibility: Duration, now: Instant) -> bool {
        let mut state = lock(&self.state);
        let Some((visible_at, message)) = state.take(receipt) else { return false };
        let is_hidden = visible_at > now;
        let until = if is_hidden { now + visibility } else { visible_at };
        state.messages.insert((until, message.number), message);
        is_hidden
    }

    /// How many are visible, in flight, and delayed.
    pub fn counts(&self, now: Instant) -> [usize; 3] {
        let state = lock(&self.state);
        let mut counts = [0; 3];
        for ((visible_at, _), message) in &state.messages {
            let is_visible = *visible_at <= now;
            counts[if is_visible { 0 } else { 1 + usize::from(message.receives == 0) }] += 1;
        }
        counts
    }

    /// All messages, whatever they wait for.
    pub fn messages(&self) -> Vec<Message> {
        lock(&self.state).messages.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_wait_hide_and_come_back() {
        const TIMEOUT: Duration = Duration::from_secs(30);
        let (queue, began) = (Queue::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let receive = |seconds| queue.receive(10, 1_000, TIMEOUT, at(seconds));
        let texts = |received: &[Message]| -> Vec<_> {
            received.iter().map(|one| (one.body.get().to_owned(), one.receives)).collect()
        };
        for (text, delay_s) in [("\"a\"", 0), ("\"later\"", 5)] {
            let body = RawValue::from_string(text.to_owned()).expect("JSON").into();
            queue.send(body, "g".into(), Duration::from_secs(delay_s), began);
        }
        let first = receive(0);
        assert_eq!(texts(&first), [("\"a\"".to_owned(), 1)]);
        assert_eq!(queue.counts(at(0)), [0, 1, 1]);
        let second = receive(5);
        assert_eq!(texts(&second), [("\"later\"".to_owned(), 1)]);
        queue.delete(&second[0].receipt());
        assert!(receive(29).is_empty());
        let again = receive(30);
        assert_eq!(texts(&again), [("\"a\"".to_owned(), 2)]);
        queue.delete(&first[0].receipt());
        assert_eq!(queue.counts(at(30)), [0, 1, 0], "a stale receipt deletes nothing");
        assert!(!queue.hide(&first[0].receipt(), TIMEOUT, at(30)));
        assert!(queue.hide(&again[0].receipt(), Duration::from_secs(100), at(31)));
        assert!(receive(130).is_empty());
        assert_eq!((receive(131).len(), queue.messages().len()), (1, 1));
    }
}
