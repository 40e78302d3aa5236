use gridpost_core::{
    delivery::{Delivery, queue::Queue},
    retry::{attempts::Attempts, outcome::Outcome},
};
use gridpost_testkit::faults::Plan;

use crate::world::{NOW, World, delivery};

fn without_states(status: u16) -> World {
    let mut world = World::new(None);
    (world.status, world.state_faults) = (status, Plan::failing(1..100));
    world
}

/// What was sent to a queue.
fn sent_to(world: &World, queue: Queue) -> Vec<String> {
    let sent = world.deployment.queues.sent().into_iter();
    sent.filter(|(to, _)| *to == queue).map(|(_, message)| message.body).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_carries_on_what_could_not_be_written() {
    let world = without_states(503);
    let kept = world.receive(Queue::Dispatch, &[delivery(7)]).await;
    let sent = sent_to(&world, Queue::Retry(0));
    let [body] = &sent[..] else { panic!("{sent:?}") };
    let next = Delivery::decode(body).expect("a delivery");
    let want = Attempts::default().with(NOW, Outcome::Busy, Some(503));
    assert_eq!((kept, &next.attempts, next.resent), (vec![], &want, 1));
    assert!(next.due.is_some_and(|due| due.since(NOW).as_secs() >= 30), "{:?}", next.due);
}

/// A newer version has sent it: nothing of it is attempted, and it stays whole.
#[tokio::test(start_paused = true)]
async fn a_message_of_a_newer_version_goes_to_the_poison_queue() {
    let world = World::new(None);
    let newer = delivery(7).encode().replace("\"v\":1", "\"v\":9");
    for queue in [Queue::Dispatch, Queue::Retry(0)] {
        assert!(world.receive_text(queue, newer.clone()).await.is_empty(), "it is moved");
    }
    assert_eq!(sent_to(&world, Queue::Poison), [newer.clone(), newer]);
    assert_eq!(world.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_carried_on_too_often_waits_as_it_is() {
    let mut often = delivery(7);
    often.resent = 8;
    let world = without_states(503);
    let kept = world.receive(Queue::Dispatch, &[often]).await;
    assert_eq!((kept, sent_to(&world, Queue::Retry(0)).len()), (vec![7], 0));
    let hidden = world.hidden();
    assert!(matches!(hidden[..], [(7, 30..=33)]), "{hidden:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_could_not_be_written_is_carried_out_at_once() {
    let world = without_states(400);
    assert!(world.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty(), "it is let go");
    let ended = sent_to(&world, Queue::DeadLetter).len() as u64;
    let dropped = world.deployment.meter.counts();
    let dropped = dropped.iter().filter(|count| count.metric == "DroppedEventCount").count();
    assert_eq!((world.requests(), ended + dropped as u64), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_sqs_does_not_hide_is_sent_on_with_a_delay() {
    for (refusals, sent, kept) in [(1, 0, vec![7]), (2, 1, vec![])] {
        let mut world = World::new(None);
        (world.status, world.receiver_faults) = (200, Plan::failing(1..=refusals));
        let until = NOW + std::time::Duration::from_secs(60);
        let waiting = delivery(7).due_at(until);
        assert_eq!(world.receive(Queue::Retry(0), &[waiting]).await, kept, "{refusals} refusals");
        let bodies = sent_to(&world, Queue::Retry(0));
        assert_eq!((bodies.len(), world.requests()), (sent, 0), "{refusals} refusals");
        for body in bodies {
            assert_eq!(Delivery::decode(&body).expect("a delivery").due, Some(until));
        }
    }
}

/// A second copy of a message has made the same attempt: what the first one has written holds.
#[tokio::test(start_paused = true)]
async fn what_another_copy_has_written_is_followed() {
    let mut world = World::new(None);
    world.status = 503;
    assert!(world.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty());
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert!(world.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty());
    let sent = sent_to(&world, Queue::Retry(0));
    let dues = sent.iter().map(|body| Delivery::decode(body).expect("a delivery").due);
    let dues: Vec<_> = dues.collect();
    assert_eq!((dues.len(), world.requests()), (2, 2));
    assert!(dues[0].is_some() && dues[0] == dues[1], "{dues:?}");
}
