//! The poison queue.

use gridpost_core::delivery::queue::Queue;
use gridpost_ports::{PoisonQueue, QueueReceiver};

use super::{
    Difference, message,
    queues::{QueueFixture, receive_all, send},
};

const DISPATCH: Queue = Queue::Dispatch;

/// With a fixture whose dispatch queue gives up a message after that many receives: it is then in the
/// poison queue with its details, and hidden from others once it was received.
pub async fn a_message_that_is_received_too_often_is_poison<W: QueueFixture>(
    fixture: &W,
    receives_max: u32,
) {
    let queues = fixture.queues();
    let before = fixture.now();
    send(fixture, DISPATCH, vec![message("a", 0)]).await;
    let after = fixture.now();
    let mut id = String::new();
    for count in 1..=receives_max {
        let received = fixture.receive(DISPATCH, 10).await;
        assert_eq!((received.len(), received[0].count), (1, count));
        id.clone_from(&received[0].message_id);
        assert_eq!(PoisonQueue::count(&*queues).await.expect("a number"), 0);
        fixture.pass(fixture.visibility()).await;
    }
    assert_eq!(receive_all(fixture, DISPATCH).await.len(), 0);
    assert_eq!(queues.backlog(DISPATCH).await.expect("a number"), 0, "it is not in two queues");
    assert_eq!(PoisonQueue::count(&*queues).await.expect("a number"), 1);
    let found = PoisonQueue::receive(&*queues, 60).await.expect("a look");
    let [poisoned] = &found[..] else { panic!("not one message: {found:?}") };
    assert_eq!(poisoned.body, "a");
    let of_dispatch = |from: &String| from.ends_with(&DISPATCH.to_string());
    let says_where_it_was = poisoned.moved_from.as_ref().is_some_and(of_dispatch);
    Difference::ForgetsWhereItWas.holds(W::DIFFERS, says_where_it_was);
    for is_as_it_was in [
        poisoned.id == id,
        (before..=after).contains(&poisoned.sent_at),
        poisoned.receive_count > receives_max,
        poisoned.group.as_deref() == Some("t/s"),
    ] {
        Difference::MovesAsNew.holds(W::DIFFERS, is_as_it_was);
    }
    let again = PoisonQueue::receive(&*queues, 60).await.expect("a look");
    assert_eq!(again.len(), 0, "others do not get it meanwhile");
    assert_eq!(PoisonQueue::count(&*queues).await.expect("a number"), 1, "hidden ones count");
    queues.delete(Queue::Poison, vec![poisoned.receipt.clone()]).await.expect("deleted");
    assert_eq!(PoisonQueue::count(&*queues).await.expect("a number"), 0);
}
