//! Queues.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::queue::{DELAY_S_MAX, Queue},
    time::Timestamp,
};
use gridpost_ports::{Outgoing, PoisonQueue, QueueReceiver, QueueSender};

use super::{Difference, message, messages};
use crate::stores::Handed;

/// Queues with their platform, which receives messages and lets time pass.
#[async_trait]
pub trait QueueFixture: Sync {
    /// The ports.
    type Queues: QueueSender + QueueReceiver + PoisonQueue;

    const DIFFERS: &'static [Difference];

    /// The largest message that the queues are set to take, in bytes.
    const MESSAGE_BYTES_MAX: usize;

    fn queues(&self) -> Arc<Self::Queues>;

    /// The time that messages are stamped with.
    fn now(&self) -> Timestamp;

    /// For how long a received message of the dispatch queue and of retry queues is hidden: whole
    /// seconds, and an even number.
    fn visibility(&self) -> Duration;

    /// For how long the redrive queue keeps a message.
    fn retention(&self) -> Duration;

    /// Receives up to `most` visible messages, at most ten, without waiting.
    async fn receive(&self, queue: Queue, most: usize) -> Vec<Handed>;

    /// Lets that much time pass, or a little more.
    async fn pass(&self, time: Duration);
}

const DISPATCH: Queue = Queue::Dispatch;
const RETRY: Queue = Queue::Retry(0);

pub(super) async fn receive_all<W: QueueFixture>(fixture: &W, queue: Queue) -> Vec<Handed> {
    let mut all = Vec::new();
    loop {
        let some = fixture.receive(queue, 10).await;
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

/// Sends messages that the queue accepts.
pub(super) async fn send<W: QueueFixture>(fixture: &W, queue: Queue, all: Vec<Outgoing>) {
    let answers = fixture.queues().send(queue, all).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

fn bodies(received: &[Handed]) -> BTreeSet<&str> {
    received.iter().map(|message| message.body.as_str()).collect()
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).expect("a short while")
}

/// More messages than one call takes: each is received once; if it is not deleted in time, it comes
/// back under the same id with another receipt; once deleted, it never comes back.
pub async fn what_is_sent_comes_back_until_it_is_deleted<W: QueueFixture>(fixture: &W) {
    let queues = fixture.queues();
    send(fixture, DISPATCH, messages(12)).await;
    let first = receive_all(fixture, DISPATCH).await;
    let numbers: Vec<_> = (0..12).map(|number| number.to_string()).collect();
    assert_eq!(first.len(), 12, "each once");
    assert_eq!(bodies(&first), numbers.iter().map(String::as_str).collect());
    assert!(first.iter().all(|message| message.count == 1), "{first:?}");
    let ids: BTreeSet<_> = first.iter().map(|message| &message.message_id).collect();
    assert_eq!(ids.len(), 12, "each has its own id");
    let (kept, others) = first.split_first().expect("messages");
    let receipts: Vec<_> = others.iter().map(|message| message.receipt.clone()).collect();
    queues.delete(DISPATCH, receipts.clone()).await.expect("deleted");
    fixture.pass(fixture.visibility()).await;
    let again = receive_all(fixture, DISPATCH).await;
    assert_eq!(bodies(&again), [kept.body.as_str()].into(), "what was deleted stays away");
    assert_eq!((&again[0].message_id, again[0].count), (&kept.message_id, 2));
    assert_ne!(again[0].receipt, kept.receipt, "each receive has a receipt of its own");
    // One that is already deleted and one that never existed cause no error beside one that exists.
    let mixed = vec![receipts[0].clone(), "r".to_owned(), again[0].receipt.clone()];
    queues.delete(DISPATCH, mixed).await.expect("deleted, or gone already");
    assert!(queues.hide(DISPATCH, &again[0].receipt, 60).await.is_err(), "it is gone");
    assert!(queues.hide(DISPATCH, "r", 60).await.is_err(), "it never was");
    fixture.pass(fixture.visibility()).await;
    assert_eq!(receive_all(fixture, DISPATCH).await.len(), 0);
    assert_eq!(queues.backlog(DISPATCH).await.expect("a number"), 0);
}

/// Delayed, visible and received messages are counted apart, and a delayed one comes in its time.
pub async fn a_delayed_message_comes_in_its_time<W: QueueFixture>(fixture: &W) {
    let (queues, delay) = (fixture.queues(), fixture.visibility() / 2);
    let delayed = message("delayed", seconds(delay));
    send(fixture, DISPATCH, vec![message("a", 0), delayed, message("b", 0)]).await;
    let received = fixture.receive(DISPATCH, 1).await;
    assert_eq!(received.len(), 1);
    let counts = async || {
        let backlog = queues.backlog(DISPATCH).await.expect("a number");
        let in_flight = queues.in_flight(DISPATCH).await.expect("a number");
        (backlog, in_flight, queues.visible(DISPATCH).await.expect("a number"))
    };
    assert_eq!(counts().await, (3, 1, 1), "all, in flight, visible");
    assert_eq!(receive_all(fixture, DISPATCH).await.len(), 1, "the delayed one is not among them");
    assert_eq!(counts().await, (3, 2, 0));
    fixture.pass(delay).await;
    assert_eq!(counts().await, (3, 2, 1));
    assert_eq!(bodies(&receive_all(fixture, DISPATCH).await), ["delayed"].into());
    fixture.pass(fixture.visibility()).await;
    assert_eq!(counts().await, (3, 0, 3));
}

/// A hidden message comes when its own time is over, not the queue's; an operator may request it
/// now. Once it is visible, its receipt hides nothing.
pub async fn a_hidden_message_waits_for_its_time<W: QueueFixture>(fixture: &W) {
    let (queues, visibility) = (fixture.queues(), fixture.visibility());
    send(fixture, RETRY, vec![message("a", 0)]).await;
    let first = fixture.receive(RETRY, 10).await;
    queues.hide(RETRY, &first[0].receipt, 2 * seconds(visibility)).await.expect("hidden");
    assert_eq!(queues.in_flight(RETRY).await.expect("a number"), 1);
    fixture.pass(visibility).await;
    assert_eq!(fixture.receive(RETRY, 10).await.len(), 0, "it is hidden for twice as long");
    fixture.pass(visibility).await;
    let second = fixture.receive(RETRY, 10).await;
    assert_eq!((bodies(&second), second[0].count), (["a"].into(), 2));
    // The receipt from before it was hidden still shows it.
    queues.hide(RETRY, &second[0].receipt, 3_600).await.expect("hidden");
    queues.hide(RETRY, &second[0].receipt, 0).await.expect("shown");
    fixture.pass(Duration::from_millis(1)).await;
    let third = fixture.receive(RETRY, 10).await;
    assert_eq!((bodies(&third), third[0].count), (["a"].into(), 3));
    fixture.pass(visibility).await;
    let is_refused = queues.hide(RETRY, &third[0].receipt, 60).await.is_err();
    Difference::HidesWhatIsVisible.holds(W::DIFFERS, is_refused);
}

/// A message may be hidden for 12 hours, counted from when it was received.
pub async fn no_message_is_hidden_for_more_than_12_hours<W: QueueFixture>(fixture: &W) {
    let queues = fixture.queues();
    send(fixture, RETRY, vec![message("a", 0)]).await;
    let received = fixture.receive(RETRY, 10).await;
    fixture.pass(Duration::from_secs(1)).await;
    let is_refused = queues.hide(RETRY, &received[0].receipt, 43_200).await.is_err();
    Difference::HidesForLonger.holds(W::DIFFERS, is_refused);
    let receipt = &received[0].receipt;
    queues.hide(RETRY, receipt, 43_200 - 30).await.expect("30 s less are taken");
}

/// A group implies no order: its messages are received concurrently.
pub async fn messages_of_a_group_do_not_wait_for_each_other<W: QueueFixture>(fixture: &W) {
    send(fixture, DISPATCH, messages(3)).await;
    let mut received = Vec::new();
    for _ in 0..3 {
        received.extend(fixture.receive(DISPATCH, 1).await);
    }
    assert_eq!(bodies(&received), ["0", "1", "2"].into());
}

/// A message that a queue refuses fails alone, and is not in the queue.
pub async fn what_a_queue_does_not_take_fails_alone<W: QueueFixture>(fixture: &W) {
    let queues = fixture.queues();
    let sized = |bytes: usize, delay_s| message(&"x".repeat(bytes), delay_s);
    let most = vec![sized(W::MESSAGE_BYTES_MAX, DELAY_S_MAX), sized(1, 0)];
    send(fixture, DISPATCH, most).await;
    let late = queues.send(DISPATCH, vec![sized(2, DELAY_S_MAX + 1), sized(3, 0)]).await;
    assert_eq!([late[0].is_ok(), late[1].is_ok()], [false, true], "{late:?}");
    let large = queues.send(DISPATCH, vec![sized(W::MESSAGE_BYTES_MAX + 1, 0), sized(5, 0)]).await;
    assert!(large.len() == 2 && large[0].is_err(), "{large:?}");
    Difference::FailsWholeCall.holds(W::DIFFERS, large[1].is_ok());
    let received = receive_all(fixture, DISPATCH).await;
    let mut sizes: Vec<_> = received.iter().map(|message| message.body.len()).collect();
    sizes.sort_unstable();
    let other = large[1].is_ok().then_some(5);
    assert_eq!(sizes, [1, 3].into_iter().chain(other).collect::<Vec<_>>(), "what was answered for");
}

/// A queue drops a message after its retention period, received or not.
pub async fn what_is_too_old_is_forgotten<W: QueueFixture>(fixture: &W) {
    send(fixture, Queue::Redrive, vec![message("a", 0)]).await;
    fixture.pass(fixture.retention()).await;
    let is_forgotten = fixture.receive(Queue::Redrive, 10).await.is_empty();
    Difference::KeepsMessages.holds(W::DIFFERS, is_forgotten);
}

/// Sends `count` messages to the dispatch queue with a fixture that refuses those numbers: these
/// fail and all others succeed. A refused message is not in the queue, so its result decides
/// whether a publish is confirmed and a record deleted.
pub async fn a_refused_message_fails_alone(
    queues: &dyn QueueSender,
    count: usize,
    refused: &[usize],
) {
    let answers = queues.send(Queue::Dispatch, messages(count)).await;
    assert_eq!(answers.len(), count, "an answer for each message");
    let failed = answers.iter().enumerate().filter(|(_, answer)| answer.is_err());
    assert_eq!(failed.map(|(number, _)| number).collect::<Vec<_>>(), refused);
}

/// With a fixture that refuses every call to a queue, nothing counts as sent, hidden, deleted or counted.
pub async fn a_queue_that_refuses_has_done_nothing<T: QueueSender + QueueReceiver>(queues: &T) {
    let answers = queues.send(Queue::Dispatch, messages(3)).await;
    assert!(answers.len() == 3 && answers.iter().all(Result::is_err), "{answers:?}");
    let of_dispatch = Queue::Dispatch;
    assert!(queues.hide(of_dispatch, "r", 60).await.is_err(), "it is not hidden");
    assert!(queues.delete(of_dispatch, vec!["r".to_owned()]).await.is_err(), "it is not deleted");
    assert!(queues.in_flight(of_dispatch).await.is_err(), "no number is known");
    assert!(queues.backlog(of_dispatch).await.is_err(), "no number is known");
    assert!(queues.visible(of_dispatch).await.is_err(), "no number is known");
}
