//! A queue like SQS's: delays, visibility timeouts, receive counts, stale receipts.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;
use tokio::{sync::Notify, time::Instant};

/// SQS's longest visibility timeout, 12 h. Source: SQS API reference, `ChangeMessageVisibility`.
pub const VISIBILITY_MAX: Duration = Duration::from_secs(43_200);

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Counts the queue's messages; its message id follows from it.
    pub number: u64,
    /// The body as the JSON string it was sent as: nothing unescapes and escapes it on the way.
    pub body: Arc<RawValue>,
    /// The fair-queue group.
    pub group: Arc<str>,
    /// When it was sent.
    pub sent_at: Instant,
    /// The same in milliseconds since the epoch, as SQS gives it.
    pub sent_ms: i64,
    /// How often it was received.
    pub receives: u32,
}

impl Message {
    /// SQS's id of it.
    pub fn id(&self) -> String {
        uuid::Uuid::from_u128(u128::from(self.number)).to_string()
    }
}

/// A message that was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The message.
    pub message: Message,
    /// What deletes or hides it.
    pub receipt: u64,
}

#[derive(Debug)]
struct Hidden {
    message: Message,
    /// With its receipt, if it was received and is not just delayed.
    received: Option<(u64, Instant)>,
}

#[derive(Debug, Default)]
struct State {
    visible: VecDeque<Message>,
    /// Delayed or received messages, by the time when they become visible.
    hidden: BTreeMap<(Instant, u64), Hidden>,
    receipts: HashMap<u64, (Instant, u64)>,
    next: u64,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Makes visible what is due.
    fn wake(&mut self, now: Instant) {
        while let Some(entry) = self.hidden.first_entry()
            && entry.key().0 <= now
        {
            let hidden = entry.remove();
            if let Some((receipt, _)) = hidden.received {
                self.receipts.remove(&receipt);
            }
            self.visible.push_back(hidden.message);
        }
    }
}

/// A queue.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    /// Notified of every message that is visible as soon as it is sent.
    news: Notify,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message in; returns its number.
    pub fn send(
        &self,
        body: Arc<RawValue>,
        group: Arc<str>,
        delay: Duration,
        (now, now_ms): (Instant, i64),
    ) -> u64 {
        let mut state = self.state();
        let number = state.number();
        let message = Message { number, body, group, sent_at: now, sent_ms: now_ms, receives: 0 };
        if delay.is_zero() {
            state.visible.push_back(message);
        } else {
            state.hidden.insert((now + delay, number), Hidden { message, received: None });
        }
        drop(state);
        self.news.notify_one();
        number
    }

    /// Receives up to `count` messages with at most `bytes_max` in total, and hides them for
    /// `visibility`.
    pub fn receive(
        &self,
        count: usize,
        bytes_max: usize,
        visibility: Duration,
        now: Instant,
    ) -> Vec<Received> {
        let mut state = self.state();
        state.wake(now);
        let mut received: Vec<Received> = Vec::new();
        let mut bytes = 0;
        while received.len() < count
            && let Some(message) = state.visible.front()
        {
            bytes += message.body.get().len();
            if bytes > bytes_max && !received.is_empty() {
                break;
            }
            let Some(mut message) = state.visible.pop_front() else { break };
            message.receives += 1;
            let receipt = state.number();
            let key = (now + visibility, receipt);
            state.receipts.insert(receipt, key);
            let hidden = Hidden { message: message.clone(), received: Some((receipt, now)) };
            state.hidden.insert(key, hidden);
            received.push(Received { message, receipt });
        }
        received
    }

    /// Waits until something may be received.
    pub async fn news(&self) {
        let due = {
            let mut state = self.state();
            state.wake(Instant::now());
            if !state.visible.is_empty() {
                return;
            }
            state.hidden.keys().next().map(|(due, _)| *due)
        };
        // A message's timeout may be shortened meanwhile: then it is found up to a second late.
        let later = Instant::now() + Duration::from_secs(1);
        let due = due.map_or(later, |due| due.min(later));
        tokio::select! {
            () = self.news.notified() => {}
            () = tokio::time::sleep_until(due) => {}
        }
    }

    /// Deletes a message. Like SQS, it ignores a stale receipt without an error.
    pub fn delete(&self, receipt: u64) {
        let mut state = self.state();
        if let Some(key) = state.receipts.remove(&receipt) {
            state.hidden.remove(&key);
        }
    }

    /// Hides a received message for `visibility` from now.
    ///
    /// # Errors
    ///
    /// SQS's error code: the receipt is stale, or the 12 h since the receive would be exceeded.
    pub fn hide(
        &self,
        receipt: u64,
        visibility: Duration,
        now: Instant,
    ) -> Result<(), &'static str> {
        let mut state = self.state();
        state.wake(now);
        let Some(key) = state.receipts.get(&receipt).copied() else {
            return Err("MessageNotInflight");
        };
        let received_at = state.hidden.get(&key).and_then(|hidden| hidden.received);
        if received_at.is_some_and(|(_, at)| now + visibility > at + VISIBILITY_MAX) {
            return Err("InvalidParameterValue");
        }
        if let Some(hidden) = state.hidden.remove(&key) {
            let key = (now + visibility, receipt);
            state.hidden.insert(key, hidden);
            state.receipts.insert(receipt, key);
        }
        Ok(())
    }

    /// How many are visible, in flight, and delayed.
    pub fn counts(&self, now: Instant) -> [usize; 3] {
        let mut state = self.state();
        state.wake(now);
        let in_flight = state.receipts.len();
        [state.visible.len(), in_flight, state.hidden.len() - in_flight]
    }

    /// All messages, whatever they wait for.
    pub fn messages(&self) -> Vec<Message> {
        let state = self.state();
        let hidden = state.hidden.values().map(|hidden| &hidden.message);
        state.visible.iter().chain(hidden).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Arc<RawValue> {
        RawValue::from_string(format!("\"{text}\"")).expect("JSON").into()
    }

    fn texts(received: &[Received]) -> Vec<(String, u32)> {
        let text = |one: &Received| (one.message.body.get().to_owned(), one.message.receives);
        received.iter().map(text).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn messages_wait_hide_and_come_back() {
        const TIMEOUT: Duration = Duration::from_secs(30);
        let (queue, began) = (Queue::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let receive = |seconds| queue.receive(10, 1_000, TIMEOUT, at(seconds));
        queue.send(body("a"), "g".into(), Duration::ZERO, (began, 0));
        queue.send(body("later"), "g".into(), Duration::from_secs(5), (began, 0));
        let first = receive(0);
        assert_eq!(texts(&first), [("\"a\"".to_owned(), 1)]);
        assert_eq!(queue.counts(at(0)), [0, 1, 1]);
        let second = receive(5);
        assert_eq!(texts(&second), [("\"later\"".to_owned(), 1)]);
        queue.delete(second[0].receipt);
        assert!(receive(29).is_empty());
        let again = receive(30);
        assert_eq!(texts(&again), [("\"a\"".to_owned(), 2)]);
        queue.delete(first[0].receipt);
        assert_eq!(queue.counts(at(30)), [0, 1, 0], "a stale receipt deletes nothing");
        assert_eq!(queue.hide(first[0].receipt, TIMEOUT, at(30)), Err("MessageNotInflight"));
        let receipt = again[0].receipt;
        assert_eq!(queue.hide(receipt, VISIBILITY_MAX, at(31)), Err("InvalidParameterValue"));
        assert_eq!(queue.hide(receipt, Duration::from_secs(100), at(31)), Ok(()));
        assert!(receive(130).is_empty());
        assert_eq!(receive(131).len(), 1);
        assert_eq!(queue.messages().len(), 1);
    }

    #[tokio::test]
    async fn a_batch_ends_where_it_would_be_too_large() {
        let (queue, now) = (Queue::default(), Instant::now());
        for _ in 0..3 {
            queue.send(body("1234"), "g".into(), Duration::ZERO, (now, 0));
        }
        let receive = |bytes| queue.receive(10, bytes, Duration::from_secs(9), now).len();
        assert_eq!((receive(12), receive(1)), (2, 1));
    }
}
