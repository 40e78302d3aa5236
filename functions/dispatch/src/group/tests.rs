use gridpost_core::{
    delivery::state::{AttemptRecord, Resend},
    retry::{
        DelayReason,
        health::{Health, Probation, Recovery},
        outcome::Answer,
    },
};

use std::time::Duration;

use gridpost_ports::{Outgoing, QueueSender};
use gridpost_testkit::faults::{Fault, Plan};

use crate::fixture_for_tests::{Fixture, NOW, deliveries, delivery};
use gridpost_core::{
    delivery::{
        Delivery,
        batch::Form,
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    retry::{attempts::Attempts, outcome::Outcome},
    subscription::{Batching, DeadLetterDestination},
    time::Timestamp,
};

/// The state of a delivery that has failed once and is due, perhaps with an operator's request.
fn state(of: &Delivery, resend_requested: bool) -> DeliveryState {
    let answer = Answer::of_status(503, None);
    DeliveryState {
        id: of.id,
        subscription: of.subscription.clone(),
        subscription_uid: of.subscription_uid,
        publish_time: of.publish_time,
        events: 1,
        done: Default::default(),
        attempts: Attempts::default().with(NOW, answer.outcome, answer.status),
        status: DeliveryStatus::Waiting { due: NOW },
        past: vec![AttemptRecord::of(answer, (NOW, NOW), Some(DelayReason::MinimumDelay))],
        receipt: None,
        redriven_at: None,
        copies_until: None,
        resend: resend_requested.then_some(Resend { at: NOW, was_due: NOW }),
        revision: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_attempted_on_probation() {
    for resend_requested in [false, true] {
        let delivery = delivery(7);
        let until = NOW + Duration::from_secs(60);
        let (outcome, status) = (Outcome::Busy, Some(503));
        let fixture =
            Fixture::new(None).waits(Probation { since: NOW, until, outcome, status }).await;
        fixture.knows(&state(&delivery, resend_requested)).await;
        let kept = fixture.receive(Queue::Retry(0), &[delivery]).await;
        assert_eq!(
            (fixture.requests(), kept.is_empty()),
            (usize::from(resend_requested), resend_requested)
        );
    }
}

/// The previous attempt ends and is recorded during the requested one.
#[tokio::test(start_paused = true)]
async fn a_requested_attempt_answers_the_request_whatever_is_recorded_beside_it() {
    let delivery = delivery(7);
    let mut fixture = Fixture::new(None);
    (fixture.status, fixture.answers_after) = (503, Duration::from_secs(10));
    let asked = state(&delivery, true);
    fixture.knows(&asked).await;
    let beside = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let attempts = asked.attempts.with(NOW, Outcome::Busy, Some(503));
        fixture.knows(&DeliveryState { attempts, revision: 1, ..asked.clone() }).await;
    };
    let received = [delivery];
    let (kept, ()) = futures::join!(fixture.receive(Queue::Retry(0), &received), beside);
    let states = fixture.deployment.tables.states();
    let [state] = &states[..] else { panic!("{states:?}") };
    assert_eq!((kept, state.resend, state.attempts.made, state.past.len()), (vec![7], None, 2, 2));
    let waits = matches!(state.status, DeliveryStatus::Waiting { due } if due > NOW);
    assert!(waits, "{state:?}");
}

/// An operator requests another attempt during one, and shows its message: another copy may have it.
#[tokio::test(start_paused = true)]
async fn an_attempt_beside_a_requested_one_leaves_it_its_message() {
    for refusals in [0, 9] {
        let delivery = delivery(7);
        let mut fixture = Fixture::new(None);
        (fixture.status, fixture.answers_after) = (503, Duration::from_secs(10));
        fixture.receiver_faults = Plan::failing(1..=refusals);
        let before = state(&delivery, false);
        fixture.knows(&before).await;
        let operator = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let asked = state(&delivery, true);
            fixture.knows(&DeliveryState { revision: 1, ..asked }).await;
        };
        let received = [delivery.clone()];
        let (kept, ()) = futures::join!(fixture.receive(Queue::Retry(0), &received), operator);
        let states = fixture.deployment.tables.states();
        let [state] = &states[..] else { panic!("{states:?}") };
        assert_eq!((kept, state.attempts.made), (vec![7], 2), "{refusals} refusals");
        assert!(state.resend.is_some(), "the request is still to be answered");
        let hidden = fixture.hidden();
        let is_soon = |hidden: &[(u128, u32)]| matches!(hidden, [(7, 1..=50)]);
        assert!(is_soon(&hidden) || refusals > 0, "{hidden:?}");
        let sent = fixture.deployment.queues.sent();
        assert_eq!(sent.len(), 0, "{refusals} refusals");
    }
}

/// Its endpoint wanted Event Grid's schema, or CloudEvents one by one, when these were accepted.
#[tokio::test(start_paused = true)]
async fn deliveries_of_other_forms_share_no_request() {
    use gridpost_core::event::DeliverySchema::{CloudEventSchemaV1_0, EventGridSchema};
    let forms = [
        (CloudEventSchemaV1_0, true),
        (CloudEventSchemaV1_0, true),
        (CloudEventSchemaV1_0, false),
        (CloudEventSchemaV1_0, false),
        (EventGridSchema, true),
        (EventGridSchema, true),
    ];
    let packed = deliveries(6).into_iter().zip(forms);
    let packed: Vec<_> = packed
        .map(|(delivery, (schema, batched))| delivery.packed_as(Form { schema, batched }))
        .collect();
    let mut fixture = Fixture::new(None);
    fixture.subscription.batching = Some(Batching { max_events: 10, preferred_kilobytes: 64 });
    assert!(fixture.receive(Queue::Dispatch, &packed).await.is_empty());
    assert_eq!(fixture.requests(), 4, "one batch, two alone, and one of the other schema");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_says_what_its_events_are() {
    use gridpost_core::event::DeliverySchema::EventGridSchema;
    let form = Form { schema: EventGridSchema, batched: false };
    let mut fixture = Fixture::new(None);
    fixture.status = 400;
    fixture.subscription.dead_letter =
        Some(DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() });
    fixture.receive(Queue::Dispatch, &[delivery(1).packed_as(form)]).await;
    let sent = fixture.deployment.queues.sent();
    let [(Queue::DeadLetter, message)] = &sent[..] else { panic!("{sent:?}") };
    let message: serde_json::Value = serde_json::from_str(&message.body).expect("JSON");
    assert_eq!(message["schema"], "EventGridSchema");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_its_message_does_not_wait_for_what_is_fetched() {
    let mut fixture = Fixture::new(None);
    fixture.payload_faults =
        Plan { calls: [(1, Fault::Slow(Duration::from_secs(9)))].into(), ..Plan::default() };
    let large = fixture.claimed(delivery(2)).await;
    assert!(fixture.receive(Queue::Dispatch, &[large, delivery(1)]).await.is_empty());
    let history = fixture.deployment.history.lock().expect("no panic while held");
    let began = |id: u128| {
        let request = history.requests.iter().find(|it| it.deliveries[0].as_u128() == id);
        request.expect("attempted").began_at.since(NOW).as_secs()
    };
    assert_eq!((began(1), began(2)), (0, 9));
}

/// They come back in another order, each from its own message, and share a request again.
#[tokio::test(start_paused = true)]
async fn a_retried_request_has_the_same_body_to_the_byte() {
    let mut fixture = Fixture::new(None);
    fixture.status = 500;
    fixture.subscription.batching = Some(Batching { max_events: 10, preferred_kilobytes: 64 });
    fixture.receive(Queue::Dispatch, &deliveries(3)).await;
    let sent = fixture.deployment.queues.sent();
    let mut again: Vec<_> =
        sent.iter().map(|(_, message)| Delivery::decode(&message.body).expect("it")).collect();
    again.rotate_left(1);
    tokio::time::advance(Duration::from_secs(60)).await;
    fixture.receive(Queue::Retry(0), &again).await;
    let history = fixture.deployment.history.lock().expect("no panic while held");
    let [first, second] = &history.requests[..] else { panic!("{:?}", history.requests) };
    assert_eq!((first.number, second.number, second.events), (1, 2, 3));
    assert_eq!(first.body_hash, second.body_hash);
}

/// One in the first second after the success, then two, four, eight, in each copy.
#[tokio::test(start_paused = true)]
async fn after_a_success_each_copy_lets_twice_as_many_through_each_second() {
    let recovered = Recovery { at: NOW, over: Duration::from_secs(40) };
    for (second, want) in [(0, 1), (1, 2), (2, 4), (3, 8), (10, 20)] {
        let fixture =
            Fixture::new(None).has(Health { recovered: Some(recovered), ..Health::default() });
        let fixture = fixture.await;
        tokio::time::advance(Duration::from_secs(second)).await;
        for copy in 1..=2 {
            let kept = fixture.receive(Queue::Retry(0), &deliveries(20)).await;
            assert_eq!(kept.len(), 20 - want, "copy {copy}, second {second}");
            assert_eq!(fixture.requests(), copy * want, "copy {copy}, second {second}");
        }
    }
}

/// Listening for late responses holds a slot that first attempts need.
#[tokio::test(start_paused = true)]
async fn late_responses_are_heard_while_the_lane_is_quiet() {
    for (visible, heard) in [(0, true), (10, true), (11, false)] {
        let mut fixture = Fixture::new(None);
        fixture.answers_after = Duration::from_secs(40);
        let others = (100..100 + visible)
            .map(|number| Outgoing::new(delivery(number).encode(), "orders/billing".to_owned(), 0));
        fixture.deployment.queues.send(Queue::Dispatch, others.collect()).await;
        fixture.receive(Queue::Dispatch, &[delivery(1)]).await;
        let states = fixture.deployment.tables.states();
        let [state] = &states[..] else { panic!("{states:?}") };
        let is_delivered = state.status == DeliveryStatus::Delivered;
        assert_eq!(is_delivered, heard, "{visible} visible");
    }
}

/// A copy that finds the empty object takes the events as already counted.
#[tokio::test(start_paused = true)]
async fn a_payload_is_let_go_when_the_end_of_its_delivery_is_counted() {
    let mut fixture = Fixture::new(None);
    // The payload is read and then released: there the function dies.
    fixture.payload_faults = Plan { calls: [(2, Fault::DiesBefore)].into(), ..Plan::default() };
    let large = [fixture.claimed(delivery(1)).await];
    let handled = fixture.receive(Queue::Dispatch, &large);
    let died = tokio::time::timeout(Duration::from_secs(600), handled).await;
    assert!(died.is_err(), "it was to die when it lets its payload go");
    let meter = &fixture.deployment.meter;
    let delivered = meter.counts().iter().any(|it| it.metric == "DeliverySuccessCount");
    assert!(delivered && meter.unwritten() == 0, "{:?}", meter.counts());
}

/// A lack of file descriptors is no failure of the endpoint, and costs it no attempt.
#[tokio::test(start_paused = true)]
async fn what_finds_no_descriptor_waits_without_an_attempt() {
    let mut fixture = Fixture::new(None);
    fixture.lacks_descriptors = true;
    assert_eq!(fixture.receive(Queue::Dispatch, &deliveries(1)).await, [0; 0]);
    let (queue, message) = fixture.deployment.queues.sent().pop().expect("it is moved");
    let moved = Delivery::decode(&message.body).expect("a delivery");
    assert_eq!((queue, moved.attempts.made), (Queue::Retry(0), 0));
    assert_eq!(moved.due, Some(NOW + Duration::from_secs(2)));

    assert_eq!(fixture.receive(Queue::Retry(0), &deliveries(1)).await, [1]);
    assert_eq!(fixture.hidden(), [(1, 2)]);
    assert_eq!((fixture.health_writes().await, fixture.deployment.tables.states().len()), (0, 0));
}

/// The others would wait for its claim, for a minute.
#[tokio::test(start_paused = true)]
async fn a_probe_that_finds_no_descriptor_returns_its_claim() {
    let (since, until) = (Timestamp::from_millis(0), NOW);
    let over = Probation { since, until, outcome: Outcome::ServerError, status: Some(500) };
    let mut fixture = Fixture::new(None).waits(over).await;
    fixture.lacks_descriptors = true;
    assert_eq!(fixture.receive(Queue::Dispatch, &deliveries(1)).await, [0; 0]);
    let health = fixture.health().await;
    assert_eq!((health.probe, health.probation, health.revision), (None, Some(over), 3));
    fixture.lacks_descriptors = false;
    assert_eq!(fixture.receive(Queue::Dispatch, &[delivery(2)]).await, [0; 0]);
    assert_eq!(fixture.requests(), 1);
}

/// The lack is no slowness of the endpoint.
#[tokio::test(start_paused = true)]
async fn the_wait_for_a_descriptor_marks_no_endpoint_as_slow() {
    for (answers_after, votes) in [(0, 0), (1, 1)] {
        let mut fixture = Fixture::new(None);
        fixture.waits_for_descriptors = Duration::from_secs(2);
        fixture.answers_after = Duration::from_secs(answers_after);
        assert_eq!(fixture.receive(Queue::Dispatch, &deliveries(1)).await, [0; 0]);
        assert_eq!(fixture.health_writes().await, votes, "answered after {answers_after} s");
    }
}
