//! Operators' changes of deliveries, with dispatch beside manage on the same tables and queues:
//! copies of a message meet at its state, whatever the operator has sent and wherever that stopped.

#[path = "operators/fixture.rs"]
mod fixture;
#[path = "operators/manage.rs"]
mod manage;

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

use fixture::{Fixture, NOW};

const ID: Uuid = Uuid::from_u128(7);

const LONG: Duration = Duration::from_secs(3 * 60 * 60);

/// A delivery of `s-1` that has failed once and waits, parked, for three hours. Another copy of its
/// message was received, and comes again.
async fn park(fixture: &Fixture) {
    let subscription_uid = fixture.subscription.uid;
    let event = json!({"id": "1", "subject": "demo/s-1", "eventType": "t", "data": "x"});
    let event = serde_json::value::to_raw_value(&event).expect("JSON");
    let of = fixture.subscription.key.clone();
    let mut delivery = Delivery::new(ID, of, subscription_uid, NOW, String::new(), vec![event]);
    let answer = Answer::of_status(500, None);
    delivery.attempts = Attempts::default().with(NOW, answer.outcome, answer.status);
    let delivery = delivery.due_at(NOW + LONG);
    let queue = delivery.retry_queue(4);
    fixture.deployment.queues.hand(queue, delivery.encode());
    fixture.deployment.tables.put_state(DeliveryState {
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
    fixture.deployment.tables.park(&parked).await.expect("parked");
}

fn parked(fixture: &Fixture) -> usize {
    fixture.deployment.tables.parked_ids().len()
}

fn requests(fixture: &Fixture) -> usize {
    fixture.deployment.history.lock().expect("no panic").requests.len()
}

/// How many events were dropped, by their reasons.
fn dropped(fixture: &Fixture) -> Vec<(String, u64)> {
    let counts = fixture.deployment.meter.counts();
    let dropped = counts.iter().filter(|count| count.metric == "DroppedEventCount");
    dropped.map(|count| (count.values("/"), count.by)).collect()
}

fn delivery_status(fixture: &Fixture) -> DeliveryStatus {
    let state = fixture.deployment.tables.states().into_iter().find(|state| state.id == ID);
    state.expect("a state").status
}

async fn change(fixture: &Fixture, line: &str) -> Value {
    let (status, document) = fixture.send(line, json!({"ids": [ID]})).await;
    assert_eq!(status, 200, "{document}");
    document
}

/// A released delivery is attempted once, though two messages of it are under way.
#[tokio::test(start_paused = true)]
async fn a_released_delivery_is_attempted_once_and_soon() {
    let fixture = Fixture::new();
    park(&fixture).await;
    change(&fixture, "POST /parked:release").await;
    fixture.run(Duration::from_secs(60)).await;
    assert_eq!((requests(&fixture), delivery_status(&fixture)), (1, DeliveryStatus::Delivered));
    fixture.run(LONG + LONG).await;
    assert_eq!((requests(&fixture), parked(&fixture)), (1, 0), "the other copy has met its state");
    assert_eq!(dropped(&fixture), []);
}

/// A released delivery waits for its endpoint, and goes when that may be asked.
#[tokio::test(start_paused = true)]
async fn a_released_delivery_waits_for_its_endpoint() {
    let fixture = Fixture::new();
    park(&fixture).await;
    let until = NOW + Duration::from_secs(1_800);
    on_probation(&fixture, until);
    change(&fixture, "POST /parked:release").await;
    fixture.run(Duration::from_secs(1_700)).await;
    assert_eq!(requests(&fixture), 0);
    fixture.run(Duration::from_secs(900)).await;
    assert_eq!((requests(&fixture), delivery_status(&fixture)), (1, DeliveryStatus::Delivered));
}

/// A canceled delivery is not attempted any more, and ends once, though two messages of it are
/// under way.
#[tokio::test(start_paused = true)]
async fn a_canceled_delivery_ends_once_and_is_attempted_no_more() {
    let fixture = Fixture::new();
    park(&fixture).await;
    change(&fixture, "POST /parked:cancel").await;
    fixture.run(LONG + LONG).await;
    assert_eq!((requests(&fixture), delivery_status(&fixture)), (0, DeliveryStatus::Ended));
    let dropped = dropped(&fixture);
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
            let fixture = Fixture::new();
            park(&fixture).await;
            fixture.fails_after(Some(calls));
            fixture.send(line, json!({"ids": [ID]})).await;
            fixture.fails_after(None);
            fixture.run(Duration::from_secs(900)).await;
            change(&fixture, line).await;
            fixture.run(LONG).await;
            let ends = dropped(&fixture).iter().map(|(_, events)| events).sum::<u64>();
            let is_canceled = line.ends_with("cancel");
            let want = if is_canceled { (0, 1) } else { (1, 0) };
            assert_eq!((requests(&fixture), ends), want, "{line} after {calls} calls");
            assert_eq!(parked(&fixture), 0, "{line} after {calls} calls");
        }
    }
}

fn on_probation(fixture: &Fixture, until: Timestamp) {
    let wait = Probation { since: NOW, until, outcome: Outcome::NotFound, status: Some(503) };
    let health = Health { probation: Some(wait), revision: 1, ..Health::default() };
    fixture.deployment.tables.put_health(fixture.subscription.endpoint_uid(), health);
}

/// A resent delivery is attempted once, though its endpoint has to wait.
#[tokio::test(start_paused = true)]
async fn a_resent_delivery_is_attempted_once_whatever_its_endpoint_waits_for() {
    let fixture = Fixture::new();
    park(&fixture).await;
    on_probation(&fixture, NOW + LONG);
    let line = format!("POST /topics/demo/eventSubscriptions/s-1/deliveries/{ID}/resend");
    let (status, document) = fixture.send(&line, Value::Null).await;
    assert_eq!((status, &document["result"]), (200, &json!("Sent")), "{document}");
    fixture.run(Duration::from_secs(60)).await;
    assert_eq!((requests(&fixture), delivery_status(&fixture)), (1, DeliveryStatus::Delivered));
    fixture.run(LONG + LONG).await;
    assert_eq!((requests(&fixture), parked(&fixture)), (1, 0), "the other copy has met its state");
    assert_eq!(dropped(&fixture), []);
}
