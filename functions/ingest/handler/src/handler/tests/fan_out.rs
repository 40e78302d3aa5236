//! Publishes with more deliveries than a request has time for, up to their deliveries.

use std::collections::BTreeSet;

use gridpost_core::publish::fan_out::Piece;

use super::*;
use crate::expand::{Record, expand};

/// When an invocation that begins now ends.
const DEADLINE: Timestamp = Timestamp::from_millis(NOW.as_millis() + 29_000);

/// Three event subscriptions of the topic `orders`, one of which takes batches of ten.
fn three() -> Stored {
    let mut stored = stored();
    let batching =
        Some(gridpost_core::subscription::Batching { max_events: 10, preferred_kilobytes: 64 });
    stored.subscriptions = (1..=3)
        .map(|number| EventSubscription {
            uid: Uuid::from_u128(number),
            batching: batching.filter(|_| number == 3),
            ..subscription("orders", &format!("s{number}"))
        })
        .collect();
    stored
}

fn world(inline_fan_out: usize, queue: Queued) -> World {
    let mut world = World::new(three(), queue);
    world.context.inline_fan_out = inline_fan_out;
    world.context.piece_deliveries_max = 7;
    world
}

impl World {
    /// What was sent to queues beside the dispatch queue, and is taken out of them.
    fn others(&self) -> Vec<(Queue, Outgoing)> {
        std::mem::take(&mut *self.queue.others.lock().expect("no panic while held"))
    }

    /// Expands everything in the fan-out queue; answers which messages were kept.
    async fn expand_all(&self, deadline: Timestamp) -> Vec<String> {
        let record = |(number, (queue, message)): (usize, (Queue, Outgoing))| {
            assert_eq!((queue, &*message.group), (Queue::FanOut, "orders"));
            Record { message_id: number.to_string(), body: message.body }
        };
        let records = self.others().into_iter().enumerate().map(record).collect();
        expand(&self.context, records, deadline).await
    }

    /// Subscriptions and ids of the events in the dispatch queue, in order.
    fn dispatched(&self) -> Vec<(String, String)> {
        let ids = |delivery: Delivery| {
            let id = |event: &serde_json::value::RawValue| {
                let event: Value = serde_json::from_str(event.get()).expect("JSON");
                event["id"].as_str().expect("an id").to_owned()
            };
            let name = delivery.subscription.name.clone();
            let ids: Vec<_> = delivery.events().iter().map(|event| id(event)).collect();
            ids.into_iter().map(move |id| (name.clone(), id))
        };
        self.queue.deliveries().into_iter().flat_map(ids).collect()
    }
}

/// Each of so many events, for each of the three.
fn all(events: usize) -> BTreeSet<(String, String)> {
    let of = |name: usize| (0..events).map(move |id| (format!("s{name}"), id.to_string()));
    (1..=3).flat_map(of).collect()
}

#[tokio::test]
async fn above_the_limit_a_publish_is_stored_and_expanded_in_pieces() {
    // Twelve events: twelve deliveries for each of two, and two batches.
    for (inline_fan_out, stored) in [(26, 0), (25, 1), (0, 1)] {
        let world = world(inline_fan_out, Queued::default());
        assert_eq!(world.publish(&request(&events(12, 1))).await.status_code, 200);
        let objects = world.payloads.objects.lock().expect("no panic while held").len();
        assert_eq!(objects, stored, "{inline_fan_out}");
        assert_eq!(world.queue.call_sizes().is_empty(), stored > 0);
        assert_eq!(world.expand_all(DEADLINE).await, [""; 0]);
        let dispatched = world.dispatched();
        assert_eq!((dispatched.len(), dispatched.into_iter().collect()), (36, all(12)));
        let sizes = if stored > 0 { vec![7, 7, 7, 5] } else { vec![26] };
        assert_eq!(world.queue.call_sizes(), sizes);
        // Counted when it was accepted, and not once more.
        assert_eq!(world.counts().len(), 4, "{:?}", world.counts());
    }
}

#[tokio::test]
async fn more_bytes_than_a_request_can_send_are_stored_too() {
    let mut stored = three();
    stored.subscriptions = (0..300)
        .map(|number| EventSubscription {
            uid: Uuid::from_u128(number),
            ..subscription("orders", &format!("s{number}"))
        })
        .collect();
    let world = World::new(stored, Queued::default());
    assert_eq!(world.publish(&request(&events(1, 250_000))).await.status_code, 200);
    assert_eq!(world.queue.call_sizes(), [0; 0]);
    assert_eq!(world.expand_all(DEADLINE).await, [""; 0]);
    assert_eq!(world.queue.deliveries().len(), 300);
}

#[tokio::test]
async fn what_is_not_stored_or_not_sent_is_not_accepted() {
    let failing = world(0, Queued::default());
    failing.payloads.failures.store(2, Ordering::Relaxed);
    assert_eq!(failing.publish(&request(&events(12, 1))).await.status_code, 503);
    assert!(failing.others().is_empty(), "no message without its publish");

    let queue = Queued { refuses: "publish", ..Queued::default() };
    queue.refusals.store(1, Ordering::Relaxed);
    let once = world(0, queue);
    assert_eq!(once.publish(&request(&events(12, 1))).await.status_code, 200);
    assert_eq!(once.others().len(), 8, "four, and each again");

    let queue = Queued { refuses: "publish", ..Queued::default() };
    queue.refusals.store(2, Ordering::Relaxed);
    assert_eq!(world(0, queue).publish(&request(&events(12, 1))).await.status_code, 503);
}

#[tokio::test]
async fn a_piece_that_is_expanded_again_makes_the_same_deliveries() {
    let world = world(0, Queued::default());
    assert_eq!(world.publish(&request(&events(12, 1))).await.status_code, 200);
    let pieces = world.others();
    for _ in 0..2 {
        *world.queue.others.lock().expect("no panic while held") = pieces.clone();
        assert_eq!(world.expand_all(DEADLINE).await, [""; 0]);
    }
    let calls = world.queue.calls.lock().expect("no panic while held");
    let bodies = |calls: &[Vec<Outgoing>]| -> Vec<_> {
        calls.iter().flatten().map(|message| message.body.clone()).collect()
    };
    assert_eq!(bodies(&calls[..4]), bodies(&calls[4..]));
}

#[tokio::test]
async fn what_changes_after_acceptance_changes_no_delivery() {
    let mut world = world(0, Queued::default());
    assert_eq!(world.publish(&request(&events(12, 1))).await.status_code, 200);
    // Neither topic nor event subscription can be found any more.
    let nothing: Arc<dyn Configuration> = Arc::new(Stored::default());
    let clock = Arc::clone(&world.context.clock);
    world.context.configuration = ConfigurationCache::new(nothing, clock, Duration::ZERO);
    assert_eq!(world.expand_all(DEADLINE).await, [""; 0]);
    assert_eq!(world.dispatched().into_iter().collect::<BTreeSet<_>>(), all(12));
}

#[tokio::test]
async fn what_an_invocation_has_no_time_for_is_passed_on() {
    let mut world = world(0, Queued::default());
    world.context.piece_deliveries_max = 5_000;
    assert_eq!(world.publish(&request(&events(1_000, 1))).await.status_code, 200);
    // Two for each event, and a hundred batches: 2,100 deliveries in waves of 500.
    let soon = Timestamp::from_millis(NOW.as_millis() + 9_000);
    for waves in 1..=4 {
        assert_eq!(world.expand_all(soon).await, [""; 0]);
        assert_eq!(world.queue.call_sizes(), vec![500; waves]);
    }
    assert_eq!(world.expand_all(soon).await, [""; 0]);
    assert_eq!(world.queue.call_sizes().last(), Some(&100));
    assert!(world.others().is_empty());
    let dispatched = world.dispatched();
    assert_eq!((dispatched.len(), dispatched.into_iter().collect()), (3_000, all(1_000)));
}

#[tokio::test]
async fn a_piece_that_can_not_be_sent_comes_back() {
    let queue = Queued { refuses: r#""id":"3""#, ..Queued::default() };
    let world = world(0, queue);
    assert_eq!(world.publish(&request(&events(12, 1))).await.status_code, 200);
    world.queue.refusals.store(2, Ordering::Relaxed);
    assert_eq!(world.expand_all(DEADLINE).await, ["0"], "the first of four pieces");
}

#[tokio::test]
async fn what_no_repetition_would_help_goes_to_the_poison_queue() {
    let world = world(0, Queued::default());
    assert_eq!(world.publish(&request(&events(12, 1))).await.status_code, 200);
    let piece = world.others().swap_remove(0).1.body;
    let publish = Piece::decode(&piece).expect("a piece").publish;
    let records = |bodies: &[&str]| -> Vec<_> {
        let record = |body: &&str| Record { message_id: "m".to_owned(), body: (*body).to_owned() };
        bodies.iter().map(record).collect()
    };
    let unknown = piece.replace(&publish.to_string(), &Uuid::max().to_string());
    let newer = piece.replace(r#""v":1"#, r#""v":2"#);
    let bodies = ["", "{}", &unknown, &newer];
    assert_eq!(expand(&world.context, records(&bodies), DEADLINE).await, [""; 0]);
    let key = gridpost_core::publish::fan_out::key(publish);
    world.payloads.put(&key, b"{}".to_vec()).await.expect("stored");
    assert_eq!(expand(&world.context, records(&[&piece]), DEADLINE).await, [""; 0]);

    let poisoned = world.others();
    let poisoned: Vec<_> =
        poisoned.iter().map(|(queue, message)| (*queue, &*message.body)).collect();
    let want = ["", "{}", &unknown, &newer, &piece].map(|body| (Queue::Poison, body));
    assert_eq!(poisoned, want);
    assert!(world.queue.call_sizes().is_empty());
    let counts = world.counts();
    assert_eq!(counts.iter().filter(|line| *line == "PoisonCount Queue=FanOut 1").count(), 5);
}
