//! Queues.

use gridpost_core::delivery::queue::Queue;
use gridpost_embedded::Received;
use gridpost_ports::{Clock, Outgoing, PoisonQueue, QueueReceiver, QueueSender};
use gridpost_testkit::contract;

use super::world::World;

const DISPATCH: Queue = Queue::Dispatch;

async fn send(world: &World, queue: Queue, bodies: &[&str]) {
    let message =
        |body: &&str| Outgoing { body: (*body).to_owned(), group: "t/s".to_owned(), delay_s: 0 };
    let answers = world.stores.queues().send(queue, bodies.iter().map(message).collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

async fn receive(world: &World, queue: Queue) -> Vec<Received> {
    world.stores.receive(queue, 10).await.expect("messages")
}

fn bodies(received: &[Received]) -> Vec<&str> {
    received.iter().map(|message| message.body.as_str()).collect()
}

#[tokio::test]
async fn each_message_has_its_own_answer() {
    let world = World::on_disk();
    world.tamper(
        "CREATE TRIGGER refuse BEFORE INSERT ON messages WHEN NEW.body IN ('3', '11') \
         BEGIN SELECT RAISE(ABORT, 'refused'); END",
    );
    contract::a_refused_message_fails_alone(&*world.stores.queues(), 12, &[3, 11]).await;
    let received = world.stores.receive(DISPATCH, 100).await.expect("messages");
    let sent = ["0", "1", "2", "4", "5", "6", "7", "8", "9", "10"];
    assert_eq!(bodies(&received), sent, "what is refused is not there");
}

#[tokio::test]
async fn closed_queues_do_nothing() {
    for world in World::both() {
        send(&world, DISPATCH, &["a"]).await;
        let queues = world.stores.queues();
        world.stores.close().await;
        contract::a_queue_that_refuses_has_done_nothing(&*queues).await;
        assert!(world.stores.receive(DISPATCH, 1).await.is_err());
        assert!(world.stores.next_visible(DISPATCH).await.is_err());
    }
}

#[tokio::test]
async fn a_queue_that_is_not_there_takes_nothing() {
    for world in World::both() {
        let answers = world.stores.queues().send(Queue::Retry(1), contract::messages(2)).await;
        assert!(answers.len() == 2 && answers.iter().all(Result::is_err), "{answers:?}");
    }
}

#[tokio::test]
async fn messages_that_sqs_would_refuse_are_refused() {
    for world in World::both() {
        let message = |bytes: usize, delay_s| Outgoing {
            body: "x".repeat(bytes),
            group: "t/s".to_owned(),
            delay_s,
        };
        let table = [(262_144, 900, true), (262_145, 0, false), (1, 901, false)];
        for (bytes, delay_s, is_taken) in table {
            let sent = vec![message(bytes, delay_s), message(1, 0)];
            let answers = world.stores.queues().send(DISPATCH, sent).await;
            assert_eq!([answers[0].is_ok(), answers[1].is_ok()], [is_taken, true], "{bytes}");
        }
    }
}

#[tokio::test]
async fn a_received_message_is_hidden_and_comes_back() {
    for world in World::both() {
        send(&world, DISPATCH, &["a", "b"]).await;
        let first = world.stores.receive(DISPATCH, 1).await.expect("a message");
        assert_eq!((bodies(&first), first[0].receives), (vec!["a"], 1));
        assert_eq!((first[0].group.as_str(), first[0].sent_at), ("t/s", world.clock.now()));
        let others = receive(&world, DISPATCH).await;
        assert_eq!(bodies(&others), ["b"]);
        assert_eq!(receive(&world, DISPATCH).await.len(), 0);
        world.clock.pass(239);
        assert_eq!(receive(&world, DISPATCH).await.len(), 0);
        world.clock.pass(1);
        let again = receive(&world, DISPATCH).await;
        assert_eq!((bodies(&again), again[0].receives), (vec!["a", "b"], 2));
        assert_eq!(again[0].message_id, first[0].message_id);
        assert_ne!(again[0].receipt, first[0].receipt);
    }
}

#[tokio::test]
async fn a_deleted_message_is_gone_and_an_old_receipt_does_nothing() {
    for world in World::both() {
        let queues = world.stores.queues();
        send(&world, DISPATCH, &["a", "b"]).await;
        let old = receive(&world, DISPATCH).await;
        world.clock.pass(240);
        let new = receive(&world, DISPATCH).await;
        assert!(queues.hide(DISPATCH, &old[0].receipt, 5).await.is_err(), "it is not its newest");
        let receipts = vec![old[0].receipt.clone(), new[1].receipt.clone(), "r".to_owned()];
        world.stores.delete(DISPATCH, receipts.clone()).await.expect("deleted");
        world.stores.delete(DISPATCH, receipts).await.expect("deleted already");
        assert!(queues.hide(DISPATCH, &new[1].receipt, 5).await.is_err(), "it is gone");
        assert_eq!(queues.backlog(DISPATCH).await.expect("a number"), 1);
        world.clock.pass(240);
        assert_eq!(bodies(&receive(&world, DISPATCH).await), ["a"]);
    }
}

#[tokio::test]
async fn hidden_messages_wait_for_their_time() {
    for world in World::both() {
        let (queues, retry) = (world.stores.queues(), Queue::Retry(0));
        send(&world, retry, &["a"]).await;
        let received = receive(&world, retry).await;
        queues.hide(retry, &received[0].receipt, 3_600).await.expect("hidden");
        let due = world.clock.now() + std::time::Duration::from_secs(3_600);
        assert_eq!(world.stores.next_visible(retry).await.expect("a time"), Some(due));
        world.clock.pass(3_599);
        assert_eq!(receive(&world, retry).await.len(), 0);
        // An operator asks for it now, with the receipt from before it was hidden.
        queues.hide(retry, &received[0].receipt, 0).await.expect("shown");
        let again = receive(&world, retry).await;
        assert_eq!((bodies(&again), again[0].receives), (vec!["a"], 2));
        world.stores.delete(retry, vec![again[0].receipt.clone()]).await.expect("deleted");
        assert_eq!(world.stores.next_visible(retry).await.expect("no time"), None);
    }
}

#[tokio::test]
async fn queues_are_counted() {
    for world in World::both() {
        let queues = world.stores.queues();
        send(&world, DISPATCH, &["a", "b", "c"]).await;
        let delayed = Outgoing { body: "d".to_owned(), group: "t/s".to_owned(), delay_s: 60 };
        let answers = queues.send(DISPATCH, vec![delayed]).await;
        assert!(answers[0].is_ok());
        world.stores.receive(DISPATCH, 1).await.expect("a message");
        let counts = || async {
            (
                queues.backlog(DISPATCH).await.expect("a number"),
                queues.in_flight(DISPATCH).await.expect("a number"),
                queues.visible(DISPATCH).await.expect("a number"),
            )
        };
        assert_eq!(counts().await, (4, 1, 2));
        world.clock.pass(60);
        assert_eq!(counts().await, (4, 1, 3));
        world.clock.pass(180);
        assert_eq!(counts().await, (4, 0, 4));
    }
}

#[tokio::test]
async fn a_message_that_is_received_too_often_is_poison() {
    for world in World::both() {
        let world = world.set(|options| options.max_receives = 2).await;
        send(&world, DISPATCH, &["a", "b"]).await;
        let sent_at = world.clock.now();
        for receives in 1..=2 {
            let received = receive(&world, DISPATCH).await;
            let counts: Vec<_> = received.iter().map(|message| message.receives).collect();
            assert_eq!(counts, [receives, receives]);
            world.clock.pass(240);
        }
        assert_eq!(receive(&world, DISPATCH).await.len(), 0);
        let queues = world.stores.queues();
        let left = queues.backlog(DISPATCH).await.expect("a number");
        assert_eq!((left, PoisonQueue::count(&*queues).await.expect("a number")), (0, 2));
        let poisoned = PoisonQueue::receive(&*queues, 30).await.expect("messages");
        let first = &poisoned[0];
        assert_eq!((poisoned.len(), first.body.as_str(), first.sent_at), (2, "a", sent_at));
        assert_eq!(first.moved_from.as_deref(), Some("gridpost-dispatch"));
        assert_eq!(PoisonQueue::receive(&*queues, 30).await.expect("none").len(), 0, "hidden");
        queues.delete(Queue::Poison, vec![first.receipt.clone()]).await.expect("deleted");
        assert_eq!(PoisonQueue::count(&*queues).await.expect("a number"), 1);
    }
}

#[tokio::test]
async fn a_waiter_hears_of_what_arrives() {
    for world in World::both() {
        let waiter = {
            let stores = world.stores.clone();
            async move { stores.arrived(DISPATCH).await }
        };
        let waiter = tokio::spawn(waiter);
        send(&world, DISPATCH, &["a"]).await;
        waiter.await.expect("it has heard");
        let received = receive(&world, DISPATCH).await;
        world.stores.queues().hide(DISPATCH, &received[0].receipt, 0).await.expect("shown");
        // What came before is heard of, too.
        world.stores.arrived(DISPATCH).await;
        assert_eq!(receive(&world, DISPATCH).await.len(), 1);
    }
}
