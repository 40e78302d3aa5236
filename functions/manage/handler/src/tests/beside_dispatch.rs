//! What operators do to deliveries, with dispatch beside it on the same tables and queues: copies of a
//! message meet at its state, whatever the operator has sent and wherever that stopped.

use std::{sync::Arc, time::Duration};

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
        health::{Durations, Health, Probation},
        lane::LaneSettings,
        outcome::{Answer, Outcome},
    },
};
use gridpost_dispatch_handler::{
    Context, Settings, handler::handle, health::HealthCache, in_flight::InFlight, rate::Rates,
    record::Record, resources::NoResources,
};
use gridpost_ports::{
    Clock, QueueReceiver,
    configuration::{ConfigurationCache, Limits},
};
use gridpost_testkit::{
    endpoint::{Reaction, Script},
    queue::Received,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{World, body, fakes::NOW, key};

const ID: Uuid = Uuid::from_u128(7);

const LONG: Duration = Duration::from_secs(3 * 60 * 60);

/// Its endpoint answers 200 now.
async fn world() -> World {
    let world = World::with_subscription().await;
    let answers = Script::Answers(vec![Reaction::status(200)]);
    world.deployment.endpoints.behave(key("demo", "s-1"), answers);
    world
}

/// A copy of dispatch that has just started.
fn dispatch(world: &World) -> Context {
    let deployment = &world.deployment;
    let (tables, queues, dice) = (&deployment.tables, &deployment.queues, &deployment.dice);
    let clock: Arc<dyn Clock> = Arc::clone(&deployment.clock) as _;
    let configuration = ConfigurationCache::new(
        Arc::clone(tables) as _,
        Arc::clone(&clock),
        Arc::clone(dice) as _,
        Limits::default(),
    );
    Context {
        clock,
        dice: Arc::clone(dice) as _,
        sender: Arc::clone(queues) as _,
        receiver: Arc::clone(queues) as _,
        in_flight: InFlight::new(Arc::clone(queues) as _),
        states: Arc::clone(tables) as _,
        parking: Arc::clone(tables) as _,
        payloads: Arc::clone(&deployment.payloads) as _,
        healths: HealthCache::new(Arc::clone(tables) as _, Arc::clone(dice) as _),
        rates: Rates::new(Arc::clone(tables) as _),
        listeners: Arc::clone(tables) as _,
        configuration,
        client: Arc::clone(&deployment.endpoints) as _,
        resources: Arc::new(NoResources),
        meter: Arc::clone(&deployment.meter) as _,
        settings: Settings {
            probation: Durations::default(),
            retry_shards: 4,
            lanes: LaneSettings::default(),
            first_listeners_max: 10,
            retry_listeners_max: 5,
            retry_in_flight_limit: 60_000,
            dead_letter_delay_s: 300,
            log_successful_attempts: false,
            latency_metrics: false,
            origin: "example.com".to_owned(),
        },
    }
}

/// Lets dispatch take what the retry queues give out for so long.
async fn run(world: &World, time: Duration) {
    let (queues, until) = (&world.deployment.queues, world.deployment.clock.now() + time);
    while world.deployment.clock.now() < until {
        for queue in (0..4).map(Queue::Retry) {
            let received = queues.hand_all(queue);
            if received.is_empty() {
                continue;
            }
            let record = |received: &Received| Record {
                message_id: received.message_id.clone(),
                receipt: received.receipt.clone(),
                body: received.body.clone(),
                receive_count: received.count,
                queue,
                received_at: received.at,
            };
            let records = received.iter().map(record).collect();
            let deadline = world.deployment.clock.now() + Duration::from_secs(60);
            let kept = handle(&dispatch(world), records, deadline).await;
            let gone = received.into_iter().filter(|one| !kept.contains(&one.message_id));
            let gone = gone.map(|one| one.receipt).collect();
            queues.delete(queue, gone).await.expect("deleted");
        }
        tokio::time::advance(Duration::from_secs(5)).await;
    }
}

/// A delivery of `s-1` that has failed once and waits, parked, for three hours. Another copy of its
/// message was received, and comes again.
async fn parked(world: &World) -> Delivery {
    let subscription_uid = world.subscription_uid("s-1").expect("s-1");
    let event = json!({"id": "1", "subject": "demo/s-1", "eventType": "t", "data": "x"});
    let event = serde_json::value::to_raw_value(&event).expect("JSON");
    let of = key("demo", "s-1");
    let mut delivery = Delivery::new(ID, of, subscription_uid, NOW, String::new(), vec![event]);
    let answer = Answer::of_status(500, None);
    delivery.attempts = Attempts::default().with(NOW, answer.outcome, answer.status);
    let delivery = delivery.due_at(NOW + LONG);
    let queue = delivery.retry_queue(4);
    world.deployment.queues.hand(queue, delivery.encode());
    world.put_state(DeliveryState {
        id: ID,
        subscription: delivery.subscription.clone(),
        subscription_uid,
        publish_time: NOW,
        redriven_at: None,
        events: 1,
        done: Default::default(),
        attempts: delivery.attempts.clone(),
        standing: DeliveryStatus::Waiting { due: NOW + LONG },
        past: vec![AttemptRecord::of(answer, (NOW, NOW), Some(DelayReason::Schedule))],
        receipt: None,
        resend: None,
        revision: 1,
    });
    let Queue::Retry(shard) = queue else { panic!("{queue}") };
    let (group, body) = ("demo/s-1".to_owned(), delivery.encode());
    world.park(Parked { id: ID, due: NOW + LONG, shard, group, postponed: 0, body }).await;
    delivery
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

fn standing(world: &World) -> DeliveryStatus {
    world.state(7).expect("a state").standing
}

async fn change(world: &World, line: &str) -> Value {
    let reply = world.send(line, json!({"ids": [ID]})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    body(&reply).clone()
}

/// It is attempted once, though two messages of it are under way.
#[tokio::test(start_paused = true)]
async fn a_released_delivery_is_attempted_once_and_soon() {
    let world = world().await;
    parked(&world).await;
    change(&world, "POST /parked:release").await;
    run(&world, Duration::from_secs(60)).await;
    assert_eq!((requests(&world), standing(&world)), (1, DeliveryStatus::Delivered));
    run(&world, LONG + LONG).await;
    assert_eq!((requests(&world), world.parked()), (1, 0), "the other copy has met its state");
    assert_eq!(dropped(&world), []);
}

/// It waits for its endpoint, and goes when that may be asked.
#[tokio::test(start_paused = true)]
async fn a_released_delivery_waits_for_its_endpoint() {
    let world = world().await;
    parked(&world).await;
    let until = NOW + Duration::from_secs(1_800);
    on_probation(&world, until);
    change(&world, "POST /parked:release").await;
    run(&world, Duration::from_secs(1_700)).await;
    assert_eq!(requests(&world), 0);
    run(&world, Duration::from_secs(900)).await;
    assert_eq!((requests(&world), standing(&world)), (1, DeliveryStatus::Delivered));
}

/// It is not attempted any more, and ends once, though two messages of it are under way.
#[tokio::test(start_paused = true)]
async fn a_canceled_delivery_ends_once_and_is_attempted_no_more() {
    let world = world().await;
    parked(&world).await;
    change(&world, "POST /parked:cancel").await;
    run(&world, LONG + LONG).await;
    assert_eq!((requests(&world), standing(&world)), (0, DeliveryStatus::Ended));
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
            let world = world().await;
            parked(&world).await;
            world.fails_after(Some(calls));
            world.send(line, json!({"ids": [ID]})).await;
            world.fails_after(None);
            run(&world, Duration::from_secs(900)).await;
            change(&world, line).await;
            run(&world, LONG).await;
            let ends = dropped(&world).iter().map(|(_, events)| events).sum::<u64>();
            let is_canceled = line.ends_with("cancel");
            let want = if is_canceled { (0, 1) } else { (1, 0) };
            assert_eq!((requests(&world), ends), want, "{line} after {calls} calls");
            assert_eq!(world.parked(), 0, "{line} after {calls} calls");
        }
    }
}

fn on_probation(world: &World, until: gridpost_core::time::Timestamp) {
    let wait = Probation { since: NOW, until, outcome: Outcome::NotFound, status: Some(503) };
    let health = Health { probation: Some(wait), revision: 1, ..Health::default() };
    let uid = world.endpoint_uid("s-1").expect("s-1");
    world.deployment.tables.put_health(uid, health);
}

/// It is attempted though its endpoint has to wait, and once.
#[tokio::test(start_paused = true)]
async fn a_resent_delivery_is_attempted_once_whatever_its_endpoint_waits_for() {
    let world = world().await;
    parked(&world).await;
    on_probation(&world, NOW + LONG);
    let line = format!("POST /topics/demo/eventSubscriptions/s-1/deliveries/{ID}/resend");
    let reply = world.call(&line).await;
    assert_eq!((reply.status, &body(&reply)["result"]), (200, &json!("Sent")), "{reply:?}");
    run(&world, Duration::from_secs(60)).await;
    assert_eq!((requests(&world), standing(&world)), (1, DeliveryStatus::Delivered));
    run(&world, LONG + LONG).await;
    assert_eq!((requests(&world), world.parked()), (1, 0), "the other copy has met its state");
    assert_eq!(dropped(&world), []);
}
