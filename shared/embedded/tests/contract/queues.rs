//! Queues.

use gridpost_core::delivery::queue::Queue;
use gridpost_embedded::{Received, Visibility};
use gridpost_ports::{Clock, Outgoing, PoisonQueue, QueueReceiver, QueueSender};
use gridpost_testkit::contract::{self, poison};

use super::fixture::Fixture;

const DISPATCH: Queue = Queue::Dispatch;

async fn send(fixture: &Fixture, queue: Queue, bodies: &[&str]) {
    let message = |body: &&str| Outgoing::new((*body).to_owned(), "t/s".to_owned(), 0);
    let answers = fixture.stores.queues().send(queue, bodies.iter().map(message).collect()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

async fn receive(fixture: &Fixture, queue: Queue) -> Vec<Received> {
    fixture.stores.receive(queue, 10).await.expect("messages")
}

fn bodies(received: &[Received]) -> Vec<&str> {
    received.iter().map(|message| message.body.as_str()).collect()
}

#[tokio::test]
async fn queues_keep_their_contract() {
    for fixture in Fixture::both() {
        contract::queues::what_is_sent_comes_back_until_it_is_deleted(&fixture).await;
    }
    for fixture in Fixture::both() {
        contract::queues::a_delayed_message_comes_in_its_time(&fixture).await;
    }
    for fixture in Fixture::both() {
        contract::queues::a_hidden_message_waits_for_its_time(&fixture).await;
    }
    for fixture in Fixture::both() {
        contract::queues::no_message_is_hidden_for_more_than_12_hours(&fixture).await;
    }
    for fixture in Fixture::both() {
        contract::queues::messages_of_a_group_do_not_wait_for_each_other(&fixture).await;
    }
    for fixture in Fixture::both() {
        contract::queues::what_a_queue_does_not_take_fails_alone(&fixture).await;
    }
    for fixture in Fixture::both() {
        contract::queues::what_is_too_old_is_forgotten(&fixture).await;
    }
}

#[tokio::test]
async fn each_message_has_its_own_answer() {
    let fixture = Fixture::on_disk();
    fixture.tamper(
        "CREATE TRIGGER refuse BEFORE INSERT ON messages WHEN NEW.body IN ('3', '11') \
         BEGIN SELECT RAISE(ABORT, 'refused'); END",
    );
    contract::queues::a_refused_message_fails_alone(&*fixture.stores.queues(), 12, &[3, 11]).await;
    let received = fixture.stores.receive(DISPATCH, 100).await.expect("messages");
    let sent = ["0", "1", "2", "4", "5", "6", "7", "8", "9", "10"];
    assert_eq!(bodies(&received), sent, "what is refused is not there");
}

#[tokio::test]
async fn closed_queues_do_nothing() {
    for fixture in Fixture::both() {
        send(&fixture, DISPATCH, &["a"]).await;
        let queues = fixture.stores.queues();
        fixture.stores.close().await;
        contract::queues::a_queue_that_refuses_has_done_nothing(&*queues).await;
        assert!(fixture.stores.receive(DISPATCH, 1).await.is_err());
        assert!(fixture.stores.next_visible(DISPATCH).await.is_err());
    }
}

#[tokio::test]
async fn a_queue_that_is_not_there_takes_nothing() {
    for fixture in Fixture::both() {
        let answers = fixture.stores.queues().send(Queue::Retry(1), contract::messages(2)).await;
        assert!(answers.len() == 2 && answers.iter().all(Result::is_err), "{answers:?}");
    }
}

#[tokio::test]
async fn a_received_message_is_hidden_and_comes_back() {
    for fixture in Fixture::both() {
        send(&fixture, DISPATCH, &["a", "b"]).await;
        let first = fixture.stores.receive(DISPATCH, 1).await.expect("a message");
        assert_eq!((bodies(&first), first[0].receives), (vec!["a"], 1));
        assert_eq!((first[0].group.as_str(), first[0].sent_at), ("t/s", fixture.clock.now()));
        let others = receive(&fixture, DISPATCH).await;
        assert_eq!(bodies(&others), ["b"]);
        assert_eq!(receive(&fixture, DISPATCH).await.len(), 0);
        fixture.clock.pass_s(239);
        assert_eq!(receive(&fixture, DISPATCH).await.len(), 0);
        fixture.clock.pass_s(1);
        let again = receive(&fixture, DISPATCH).await;
        assert_eq!((bodies(&again), again[0].receives), (vec!["a", "b"], 2));
        assert_eq!(again[0].message_id, first[0].message_id);
        assert_ne!(again[0].receipt, first[0].receipt);
    }
}

#[tokio::test]
async fn a_deleted_message_is_gone_and_an_old_receipt_does_nothing() {
    for fixture in Fixture::both() {
        let queues = fixture.stores.queues();
        send(&fixture, DISPATCH, &["a", "b"]).await;
        let old = receive(&fixture, DISPATCH).await;
        fixture.clock.pass_s(240);
        let new = receive(&fixture, DISPATCH).await;
        assert!(queues.hide(DISPATCH, &old[0].receipt, 5).await.is_err(), "it is not its newest");
        let receipts = vec![old[0].receipt.clone(), new[1].receipt.clone(), "r".to_owned()];
        fixture.stores.delete(DISPATCH, receipts.clone()).await.expect("deleted");
        fixture.stores.delete(DISPATCH, receipts).await.expect("deleted already");
        assert!(queues.hide(DISPATCH, &new[1].receipt, 5).await.is_err(), "it is gone");
        assert_eq!(queues.backlog(DISPATCH).await.expect("a number"), 1);
        fixture.clock.pass_s(240);
        assert_eq!(bodies(&receive(&fixture, DISPATCH).await), ["a"]);
    }
}

#[tokio::test]
async fn hidden_messages_wait_for_their_time() {
    for fixture in Fixture::both() {
        let (queues, retry) = (fixture.stores.queues(), Queue::Retry(0));
        send(&fixture, retry, &["a"]).await;
        let received = receive(&fixture, retry).await;
        queues.hide(retry, &received[0].receipt, 3_600).await.expect("hidden");
        let due = fixture.clock.now() + std::time::Duration::from_secs(3_600);
        assert_eq!(fixture.stores.next_visible(retry).await.expect("a time"), Some(due));
        fixture.clock.pass_s(3_599);
        assert_eq!(receive(&fixture, retry).await.len(), 0);
        // An operator resends it, with the receipt from before it was hidden.
        queues.hide(retry, &received[0].receipt, 0).await.expect("shown");
        let again = receive(&fixture, retry).await;
        assert_eq!((bodies(&again), again[0].receives), (vec!["a"], 2));
        fixture.stores.delete(retry, vec![again[0].receipt.clone()]).await.expect("deleted");
        assert_eq!(fixture.stores.next_visible(retry).await.expect("no time"), None);
    }
}

#[tokio::test]
async fn a_message_that_is_received_too_often_is_poison() {
    for fixture in Fixture::both() {
        let fixture = fixture.set(|options| options.max_receives = 2).await;
        poison::a_message_that_is_received_too_often_is_poison(&fixture, 2).await;
    }
}

/// A batch of Lambda has no more, either.
#[tokio::test]
async fn a_batch_has_no_more_bytes_than_an_invocation_takes() {
    for fixture in Fixture::both() {
        let body = "x".repeat(250_000);
        for _ in 0..10 {
            send(&fixture, DISPATCH, &[body.as_str(); 10]).await;
        }
        // Some bodies are in memory and some are not.
        let mut left = 100;
        while left > 0 {
            let received = fixture.stores.receive(DISPATCH, 100).await.expect("messages");
            let bytes: usize = received.iter().map(|message| message.body.len()).sum();
            assert!((1..=6_500_000).contains(&bytes), "{bytes} bytes with {left} messages left");
            assert!(received.iter().all(|message| message.receives == 1), "{left}");
            left -= received.len();
        }
        assert!(receive(&fixture, DISPATCH).await.is_empty());
    }
}

#[tokio::test]
async fn what_can_not_be_read_holds_up_nothing_beside_it() {
    let fixture = Fixture::on_disk();
    send(&fixture, DISPATCH, &["a", "b", "c"]).await;
    let fixture = fixture.again().await;
    fixture.tamper("UPDATE messages SET body = x'ff' WHERE body = 'b'");
    assert_eq!(bodies(&receive(&fixture, DISPATCH).await), ["a", "c"]);
    fixture.clock.pass_s(1);
    fixture.stores.receive(DISPATCH, 10).await.expect_err("it is the only one");
    fixture.tamper("UPDATE messages SET body = 'b' WHERE body = x'ff'");
    assert!(receive(&fixture, DISPATCH).await.is_empty(), "not at once");
    fixture.clock.pass_s(1);
    let received = receive(&fixture, DISPATCH).await;
    assert_eq!((bodies(&received), received[0].receives), (vec!["b"], 2), "as after any restart");
}

#[tokio::test]
async fn a_message_that_can_not_be_given_up_holds_up_nothing_beside_it() {
    let fixture = Fixture::on_disk().set(|options| options.max_receives = 1).await;
    send(&fixture, DISPATCH, &["worn"]).await;
    assert_eq!(receive(&fixture, DISPATCH).await.len(), 1);
    let visibility = Visibility::default().delivery;
    fixture.clock.pass_s(visibility.as_secs());
    send(&fixture, DISPATCH, &["fresh"]).await;
    fixture.tamper(
        "CREATE TRIGGER refuse BEFORE UPDATE ON messages \
         BEGIN SELECT RAISE(ABORT, 'refused'); END",
    );
    assert_eq!(bodies(&receive(&fixture, DISPATCH).await), ["fresh"]);
    fixture.tamper("DROP TRIGGER refuse");
    fixture.clock.pass_s(visibility.as_secs());
    assert!(receive(&fixture, DISPATCH).await.is_empty());
    let poison = receive(&fixture, Queue::Poison).await;
    assert!(bodies(&poison).contains(&"worn"), "{poison:?}");
}

#[tokio::test]
async fn several_messages_are_given_up_together() {
    for fixture in Fixture::both() {
        let fixture = fixture.set(|options| options.max_receives = 1).await;
        send(&fixture, DISPATCH, &["a", "b"]).await;
        assert_eq!(bodies(&receive(&fixture, DISPATCH).await), ["a", "b"]);
        fixture.clock.pass_s(240);
        assert_eq!(receive(&fixture, DISPATCH).await.len(), 0);
        let poisoned = PoisonQueue::receive(&*fixture.stores.queues(), 30).await.expect("messages");
        let bodies: Vec<_> = poisoned.iter().map(|message| message.body.as_str()).collect();
        assert_eq!(bodies, ["a", "b"]);
        assert_eq!(poisoned[0].moved_from.as_deref(), Some("gridpost-dispatch"));
    }
}

#[tokio::test]
async fn a_waiter_hears_of_what_arrives() {
    for fixture in Fixture::both() {
        let waiter = {
            let stores = fixture.stores.clone();
            async move { stores.arrived(DISPATCH).await }
        };
        let waiter = tokio::spawn(waiter);
        send(&fixture, DISPATCH, &["a"]).await;
        waiter.await.expect("it has heard");
        let received = receive(&fixture, DISPATCH).await;
        fixture.stores.queues().hide(DISPATCH, &received[0].receipt, 0).await.expect("shown");
        // Earlier messages are noticed, too.
        fixture.stores.arrived(DISPATCH).await;
        assert_eq!(receive(&fixture, DISPATCH).await.len(), 1);
    }
}
