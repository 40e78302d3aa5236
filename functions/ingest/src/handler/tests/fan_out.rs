//! Large fan-outs, from publish to deliveries.

use std::collections::BTreeSet;

use gridpost_core::publish::fan_out::Piece;
use gridpost_expand::{self as expander, expand};
use gridpost_ports::{QueueReceiver, Record};
use gridpost_testkit::queue::Received;
use uuid::Uuid;

use super::*;

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

fn fixture(inline_fan_out: usize) -> Fixture {
    failing_fixture(inline_fan_out, Plan::default(), Plan::default())
}

fn failing_fixture(inline_fan_out: usize, stores: Plan, sends: Plan) -> Fixture {
    let mut fixture = Fixture::failing(three(), stores, sends);
    fixture.context.inline_fan_out = inline_fan_out;
    fixture.context.piece_deliveries_max = 7;
    fixture
}

impl Fixture {
    fn expander(&self) -> expander::Context {
        let Context { clock, sender, payloads, meter, .. } = &self.context;
        expander::Context {
            clock: Arc::clone(clock),
            sender: Arc::clone(sender),
            payloads: Arc::clone(payloads),
            meter: Arc::clone(meter),
            queue_message_bytes_max: self.context.queue_message_bytes_max,
        }
    }

    /// Receives the pieces in the fan-out queue, in the order sent.
    fn pieces(&self) -> Vec<Received> {
        self.deployment.queues.hand_all(Queue::FanOut)
    }

    /// Expands pieces. Returns the positions of those that are kept.
    async fn expand(&self, pieces: &[Received], deadline: Timestamp) -> Vec<usize> {
        let sent = self.deployment.queues.sent_to(Queue::FanOut);
        assert!(sent.iter().all(|message| message.group == "orders"));
        let records = pieces.iter().map(|piece| piece.record(Queue::FanOut)).collect();
        let kept = expand(&self.expander(), records, deadline).await;
        let place = |id: &String| pieces.iter().position(|piece| piece.message_id == *id);
        kept.iter().map(|id| place(id).expect("it was handed over")).collect()
    }

    /// Expands everything in the fan-out queue and deletes what is not kept. Returns the kept positions.
    async fn expand_all(&self, deadline: Timestamp) -> Vec<usize> {
        let pieces = self.pieces();
        let kept = self.expand(&pieces, deadline).await;
        let gone = pieces.iter().enumerate().filter(|(place, _)| !kept.contains(place));
        let gone = gone.map(|(_, piece)| piece.receipt.clone()).collect();
        self.deployment.queues.delete(Queue::FanOut, gone).await.expect("deleted");
        kept
    }

    fn stored(&self) -> usize {
        let history = self.deployment.history.lock().expect("no panic while held");
        assert!(history.payloads.is_empty(), "each event fits into a message");
        history.publishes.len()
    }

    /// Subscriptions and ids of the events in the dispatch queue, in order.
    fn events(&self) -> Vec<(String, String)> {
        let ids = |delivery: Delivery| {
            let id = |event: &serde_json::value::RawValue| {
                let event: Value = serde_json::from_str(event.get()).expect("JSON");
                event["id"].as_str().expect("an id").to_owned()
            };
            let name = delivery.subscription.name.clone();
            let ids: Vec<_> = delivery.events().iter().map(|event| id(event)).collect();
            ids.into_iter().map(move |id| (name.clone(), id))
        };
        self.deliveries().into_iter().flat_map(ids).collect()
    }
}

fn all(events: usize) -> BTreeSet<(String, String)> {
    let of = |name: usize| (0..events).map(move |id| (format!("s{name}"), id.to_string()));
    (1..=3).flat_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn above_the_limit_a_publish_is_stored_and_expanded_in_pieces() {
    // Twelve events: twelve deliveries for each of two, and two batches.
    for (inline_fan_out, stored) in [(26, 0), (25, 1), (0, 1)] {
        let fixture = fixture(inline_fan_out);
        assert_eq!(fixture.publish(&request(&events(12, 1))).await.status().as_u16(), 200);
        assert_eq!(fixture.stored(), stored, "{inline_fan_out}");
        assert_eq!(fixture.call_sizes().is_empty(), stored > 0);
        assert_eq!(fixture.expand_all(DEADLINE).await, [0; 0]);
        let events = fixture.events();
        assert_eq!((events.len(), events.into_iter().collect()), (36, all(12)));
        let sizes = if stored > 0 { vec![7, 7, 7, 5] } else { vec![26] };
        assert_eq!(fixture.call_sizes(), sizes);
        // Counted once, when it was accepted.
        assert_eq!(fixture.counts().len(), 4, "{:?}", fixture.counts());
    }
}

#[tokio::test(start_paused = true)]
async fn more_bytes_than_a_request_can_send_are_stored_too() {
    let mut stored = three();
    stored.subscriptions = (0..300)
        .map(|number| EventSubscription {
            uid: Uuid::from_u128(number),
            ..subscription("orders", &format!("s{number}"))
        })
        .collect();
    let fixture = Fixture::new(stored);
    assert_eq!(fixture.publish(&request(&events(1, 250_000))).await.status().as_u16(), 200);
    assert_eq!(fixture.call_sizes(), [0; 0]);
    assert_eq!(fixture.expand_all(DEADLINE).await, [0; 0]);
    assert_eq!(fixture.deliveries().len(), 300);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_stored_or_not_sent_is_not_accepted() {
    let failing = failing_fixture(0, Plan::failing([1, 2]), Plan::default());
    assert_eq!(failing.publish(&request(&events(12, 1))).await.status().as_u16(), 503);
    let queues = &failing.deployment.queues;
    assert!(queues.sent().is_empty(), "no message without its publish");
    assert!(queues.call_sizes(Queue::FanOut).is_empty(), "nor a try to send one");

    let once = failing_fixture(0, Plan::default(), Plan::failing(1..=4));
    assert_eq!(once.publish(&request(&events(12, 1))).await.status().as_u16(), 200);
    let sizes = once.deployment.queues.call_sizes(Queue::FanOut);
    assert_eq!((sizes, once.pieces().len()), (vec![4, 4], 4), "four, and each again");

    let twice = failing_fixture(0, Plan::default(), Plan::failing(1..=8));
    assert_eq!(twice.publish(&request(&events(12, 1))).await.status().as_u16(), 503);
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_is_expanded_again_makes_the_same_deliveries() {
    let fixture = fixture(0);
    assert_eq!(fixture.publish(&request(&events(12, 1))).await.status().as_u16(), 200);
    let pieces = fixture.pieces();
    for _ in 0..2 {
        assert_eq!(fixture.expand(&pieces, DEADLINE).await, [0; 0]);
    }
    assert_eq!(fixture.call_sizes(), [7, 7, 7, 5, 7, 7, 7, 5]);
    let bodies: Vec<_> = fixture.dispatched().into_iter().map(|message| message.body).collect();
    assert_eq!(bodies[..26], bodies[26..]);
}

#[tokio::test(start_paused = true)]
async fn what_changes_after_acceptance_changes_no_delivery() {
    let mut fixture = fixture(0);
    assert_eq!(fixture.publish(&request(&events(12, 1))).await.status().as_u16(), 200);
    // Topic and event subscriptions are deleted.
    let history = Arc::clone(&fixture.deployment.history);
    let nothing = Arc::new(Tables::new(*fixture.deployment.clock, history));
    fixture.context.configuration = configuration(&fixture.deployment, nothing);
    assert_eq!(fixture.expand_all(DEADLINE).await, [0; 0]);
    assert_eq!(fixture.events().into_iter().collect::<BTreeSet<_>>(), all(12));
}

#[tokio::test(start_paused = true)]
async fn what_an_invocation_has_no_time_for_is_passed_on() {
    let mut fixture = fixture(0);
    fixture.context.piece_deliveries_max = 5_000;
    assert_eq!(fixture.publish(&request(&events(1_000, 1))).await.status().as_u16(), 200);
    // Two for each event, and a hundred batches: 2,100 deliveries in waves of 500.
    let soon = Timestamp::from_millis(NOW.as_millis() + 9_000);
    for waves in 1..=4 {
        assert_eq!(fixture.expand_all(soon).await, [0; 0]);
        assert_eq!(fixture.call_sizes(), vec![500; waves]);
    }
    assert_eq!(fixture.expand_all(soon).await, [0; 0]);
    assert_eq!(fixture.call_sizes().last(), Some(&100));
    assert!(fixture.deployment.queues.is_empty(Queue::FanOut));
    let events = fixture.events();
    assert_eq!((events.len(), events.into_iter().collect()), (3_000, all(1_000)));
}

/// A message for the rest is sent, so earlier waves are not repeated.
#[tokio::test(start_paused = true)]
async fn a_wave_that_can_not_be_sent_repeats_no_wave_before_it() {
    let mut fixture = fixture(0);
    fixture.context.piece_deliveries_max = 5_000;
    assert_eq!(fixture.publish(&request(&events(1_000, 1))).await.status().as_u16(), 200);
    // A message of the third wave of 500, and its retry.
    let injector = &fixture.deployment.injector;
    *injector.plan() = Plan::failing([1_100, 1_501].map(|number| injector.made() + number));
    assert_eq!(fixture.expand_all(DEADLINE).await, [0; 0]);
    assert!(!fixture.deployment.queues.is_empty(Queue::FanOut), "the rest");
    *fixture.deployment.injector.plan() = Plan::default();
    assert_eq!(fixture.expand_all(DEADLINE).await, [0; 0]);
    assert!(fixture.deployment.queues.is_empty(Queue::FanOut));
    let events = fixture.events();
    let twice = events.len() - 3_000;
    assert!(twice < 500, "{twice} events of more than one wave were sent twice");
    assert_eq!(events.into_iter().collect::<BTreeSet<_>>(), all(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_can_not_be_sent_comes_back() {
    let fixture = fixture(0);
    assert_eq!(fixture.publish(&request(&events(12, 1))).await.status().as_u16(), 200);
    // The fourth message of the first piece's seven, and its retry.
    let injector = &fixture.deployment.injector;
    *injector.plan() = Plan::failing([4, 8].map(|number| injector.made() + number));
    assert_eq!(fixture.expand_all(DEADLINE).await, [0], "the first of four pieces");
    let kept = || fixture.counts().iter().filter(|line| *line == "KeptCount  1").count();
    assert_eq!(kept(), 0, "a single failure happens");
    assert_eq!(fixture.call_sizes(), [7, 1, 7, 7, 5]);
    assert!(!fixture.deployment.queues.is_empty(Queue::FanOut), "it stays in the queue");
    *fixture.deployment.injector.plan() = Plan::failing(1..1_000);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(fixture.expand_all(DEADLINE).await, [0], "the same again");
    assert_eq!(kept(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_no_repetition_would_help_goes_to_the_poison_queue() {
    let fixture = fixture(0);
    assert_eq!(fixture.publish(&request(&events(12, 1))).await.status().as_u16(), 200);
    let received = fixture.pieces().swap_remove(0);
    let piece = received.body.clone();
    let publish = Piece::decode(&piece).expect("a piece").publish;
    let records = |bodies: &[&str]| -> Vec<_> {
        let record =
            |body: &&str| Record { body: (*body).to_owned(), ..received.record(Queue::FanOut) };
        bodies.iter().map(record).collect()
    };
    let unknown = piece.replace(&publish.to_string(), &Uuid::max().to_string());
    let newer = piece.replace(r#""v":1"#, r#""v":2"#);
    let bodies = ["", "{}", &unknown, &newer];
    assert_eq!(expand(&fixture.expander(), records(&bodies), DEADLINE).await, [""; 0]);
    let key = gridpost_core::publish::fan_out::key(publish);
    fixture.deployment.payloads.put(&key, b"{}".to_vec()).await.expect("stored");
    assert_eq!(expand(&fixture.expander(), records(&[&piece]), DEADLINE).await, [""; 0]);

    let poisoned = fixture.deployment.queues.sent_to(Queue::Poison);
    let poisoned: Vec<_> = poisoned.iter().map(|message| &*message.body).collect();
    assert_eq!(poisoned, ["", "{}", &unknown, &newer, &piece]);
    assert_eq!(fixture.deployment.queues.sent_to(Queue::FanOut).len(), 4, "and nothing else");
    assert!(fixture.call_sizes().is_empty());
    let counts = fixture.counts();
    assert_eq!(counts.iter().filter(|line| *line == "PoisonCount Queue=FanOut 1").count(), 5);
}
