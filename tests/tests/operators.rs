//! What operators do to deliveries, with dispatch beside manage on the same tables and queues: copies of a
//! message meet at its state, whatever the operator has sent and wherever that stopped.

#[path = "operators/manage.rs"]
mod manage;
#[path = "operators/world.rs"]
mod world;

use std::time::Duration;

use gridpost_core::{
    delivery::{
        Delivery,
        parking::Parked,
        queue::Queue,
        state::{AttemptRecord, DeliveryState, DeliveryStatus},
    },
    retry::{
        DelayReason,
        attempts::Attempts,
        health::{Health, Probation},
        outcome::{Answer, Outcome},
    },
    time::Timestamp,
};
use gridpost_ports::ParkingLot;
use serde_json::{Value, json};
use uuid::Uuid;

use world::{NOW, World};

const ID: Uuid = Uuid::from_u128(7);

const LONG: Duration = Duration::from_secs(3 * 60 * 60);

/// A delivery of `s-1` that has failed once and waits, parked, for three hours. Another copy of its
/// message was received, and comes again.
async fn park(world: &World) {
    let subscription_uid = world.subscription.uid;
    let event = json!({"id": "1", "subject": "demo/s-1", "eventType": "t", "data": "x"});
    let event = serde_json::value::to_raw_value(&event).expect("JSON");
    let of = world.subscription.key.clone();
    let mut delivery = Delivery::new(ID, of, subscription_uid, NOW, String::new(), vec![event]);
    let answer = Answer::of_status(500, None);
    delivery.attempts = Attempts::default().with(NOW, answer.outcome, answer.status);
    let delivery = delivery.due_at(NOW + LONG);
    let queue = delivery.retry_queue(4);
    world.deployment.queues.hand(queue, delivery.encode());
    world.deployment.tables.put_state(DeliveryState {
        id: ID,
        subscription: delivery.subscription.clone(),
        subscription_uid,
        publish_time: NOW,
        redriven_at: None,
        events: 1,
        done: Default::default(),
        attempts: delivery.attempts.clone(),
        status: DeliveryStatus::Waiting { due: NOW + LONG },
        past: vec![AttemptRecord::of(answer, (NOW, NOW), Some(DelayReason::Schedule))],
        receipt: None,
        copies_until: None,
        resend: None,
        revision: 1,
    });
    let Queue::Retry(shard) = queue else { panic!("{queue}") };
    let (group, body) = ("demo/s-1".to_owned(), delivery.encode());
    let parked = Parked {
        id: ID,
        due: NOW + LONG,
        shard,
        group,
        postponed: 0,
        lot: None,
        parked_at: Timestamp::default(),
        watch: None,
        body,
    };
    world.deployment.tables.park(&parked).await.expect("parked");
}

fn parked(world: &World) -> usize {
    world.deployment.tables.parked_ids().len()
}

fn requests(world: &World) -> usize {
    world.deployment.history.lock().expect("no panic").requests.len()
}

/// How many events were dropped, by their reasons.
fn dropped(world: &World) -> Vec<(String, u64)> {
    let counts = world.deployment.meter.counts();
    let dropped = counts.iter().filter(|count| count.metric == "DroppedEventCount");
    dropped.map(|count| (count.values("/"), count.by)).collect()
}

fn delivery_status(world: &World) -> DeliveryStatus {
    let state = world.deployment.tables.states().into_iter().find(|state| state.id == ID);
    state.expect("a state").status
}

async fn change(world: &World, line: &str) -> Value {
    let (status, document) = world.send(line, json!({"ids": [ID]})).await;
    assert_eq!(status, 200, "{document}");
    document
}

/// It is attempted once, though two messages of it are under way.
#[tokio::test(start_paused = true)]
async fn a_released_delivery_is_attempted_once_and_soon() {
    let world = World::new();
    park(&world).await;
    change(&world, "POST /parked:release").await;
    world.run(Duration::from_secs(60)).await;
    assert_eq!((requests(&world), delivery_status(&world)), (1, DeliveryStatus::Delivered));
    world.run(LONG + LONG).await;
    assert_eq!((requests(&world), parked(&world)), (1, 0), "the other copy has met its state");
    assert_eq!(dropped(&world), []);
}

/// It waits for its endpoint, and goes when that may be asked.
#[tokio::test(start_paused = true)]
async fn a_released_delivery_waits_for_its_endpoint() {
    let world = World::new();
    park(&world).await;
    let until = NOW + Duration::from_secs(1_800);
    on_probation(&world, until);
    change(&world, "POST /parked:release").await;
    world.run(Duration::from_secs(1_700)).await;
    assert_eq!(requests(&world), 0);
    world.run(Duration::from_secs(900)).await;
    assert_eq!((requests(&world), delivery_status(&world)), (1, DeliveryStatus::Delivered));
}

/// It is not attempted any more, and ends once, though two messages of it are under way.
#[tokio::test(start_paused = true)]
async fn a_canceled_delivery_ends_once_and_is_attempted_no_more() {
    let world = World::new();
    park(&world).await;
    change(&world, "POST /parked:cancel").await;
    world.run(LONG + LONG).await;
    assert_eq!((requests(&world), delivery_status(&world)), (0, DeliveryStatus::Ended));
    let dropped = dropped(&world);
    assert!(
        matches!(&dropped[..], [(whose, 1)] if whose.contains("CanceledByOperator")),
        "{dropped:?}"
    );
}

/// The operator's call dies after each of its steps; dispatch goes on with what it left; the operator
/// asks again. The delivery ends once, in the way that was asked for.
#[tokio::test(start_paused = true)]
async fn a_change_that_dies_and_is_repeated_beside_dispatch_ends_each_delivery_once() {
    for line in ["POST /parked:release", "POST /parked:cancel"] {
        for calls in 0..6 {
            let world = World::new();
            park(&world).await;
            world.fails_after(Some(calls));
            world.send(line, json!({"ids": [ID]})).await;
            world.fails_after(None);
            world.run(Duration::from_secs(900)).await;
            change(&world, line).await;
            world.run(LONG).await;
            let ends = dropped(&world).iter().map(|(_, events)| events).sum::<u64>();
            let is_canceled = line.ends_with("cancel");
            let want = if is_canceled { (0, 1) } else { (1, 0) };
            assert_eq!((requests(&world), ends), want, "{line} after {calls} calls");
            assert_eq!(parked(&world), 0, "{line} after {calls} calls");
        }
    }
}

fn on_probation(world: &World, until: Timestamp) {
    let wait = Probation { since: NOW, until, outcome: Outcome::NotFound, status: Some(503) };
    let health = Health { probation: Some(wait), revision: 1, ..Health::default() };
    world.deployment.tables.put_health(world.subscription.endpoint_uid(), health);
}

/// It is attempted though its endpoint has to wait, and once.
#[tokio::test(start_paused = true)]
async fn a_resent_delivery_is_attempted_once_whatever_its_endpoint_waits_for() {
    let world = World::new();
    park(&world).await;
    on_probation(&world, NOW + LONG);
    let line = format!("POST /topics/demo/eventSubscriptions/s-1/deliveries/{ID}/resend");
    let (status, document) = world.send(&line, Value::Null).await;
    assert_eq!((status, &document["result"]), (200, &json!("Sent")), "{document}");
    world.run(Duration::from_secs(60)).await;
    assert_eq!((requests(&world), delivery_status(&world)), (1, DeliveryStatus::Delivered));
    world.run(LONG + LONG).await;
    assert_eq!((requests(&world), parked(&world)), (1, 0), "the other copy has met its state");
    assert_eq!(dropped(&world), []);
}
