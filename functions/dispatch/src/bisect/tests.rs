use gridpost_core::{
    delivery::{
        Delivery,
        batch::Form,
        queue::Queue,
        state::{AttemptRecord, DeliveryState, DeliveryStatus},
    },
    event::DeliverySchema,
    retry::{
        DelayReason,
        attempts::Attempts,
        health::Probation,
        outcome::{Answer, Outcome},
    },
    subscription::{BatchFailure, Batching, DeadLetterDestination},
};
use gridpost_testkit::{
    endpoint::{Reaction, Script},
    faults::Plan,
    history::{EventOutcome, Request},
    logs,
};
use serde_json::{Value, json, value::RawValue};
use uuid::Uuid;

use super::*;
use crate::fixture_for_tests::{Fixture, NOW, deliveries, delivery};

/// The bad ids of 1 to 98 for an endpoint that refuses one in 53.
const ONE_IN_53: &[u128] = &[4];

const BISECTS: BatchFailure = BatchFailure { bisects: true, reads_results: false };

const READS: BatchFailure = BatchFailure { bisects: false, reads_results: true };

/// Its endpoint refuses event 4 of 1 to 9.
fn picky(status: u16, batch_failure: BatchFailure) -> Fixture {
    let mut fixture = Fixture::new(None);
    fixture.subscription.batching = Some(Batching { max_events: 100, preferred_kilobytes: 64 });
    fixture.subscription.batch_failure = batch_failure;
    let bucket = DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() };
    fixture.subscription.dead_letter = Some(bucket);
    fixture.script = Some(Script::Picky { one_in: 53, status });
    fixture
}

fn batch(number: u128, ids: std::ops::RangeInclusive<u128>) -> Delivery {
    let one = delivery(number);
    let events = ids.map(|id| delivery(id).events()[0].clone()).collect::<Vec<Box<RawValue>>>();
    let form = Form { schema: DeliverySchema::CloudEventSchemaV1_0, batched: true };
    Delivery::new(
        one.id,
        one.subscription,
        one.subscription_uid,
        one.publish_time,
        String::new(),
        events,
    )
    .packed_as(form)
}

fn made(fixture: &Fixture) -> Vec<Request> {
    fixture.deployment.history.lock().expect("no panic while held").requests.clone()
}

/// The ids of accepted events, in order.
fn accepted(fixture: &Fixture) -> Vec<String> {
    let mut all: Vec<_> = made(fixture)
        .iter()
        .flat_map(|made| made.met.clone())
        .filter(|met| met.answer.outcome == Outcome::Delivered)
        .map(|met| met.event)
        .collect();
    all.sort();
    all
}

/// Dead letters: the ids of each message's events, its reason and its attempts.
fn dead(fixture: &Fixture) -> Vec<(Vec<String>, String, u64)> {
    let sent = fixture.deployment.queues.sent().into_iter();
    let dead = sent.filter(|(queue, _)| *queue == Queue::DeadLetter).map(|(_, message)| {
        let ended: Value = serde_json::from_str(&message.body).expect("JSON");
        let delivery = Delivery::decode(&ended["delivery"].to_string()).expect("a delivery");
        let ids = delivery.left().map(|(_, event)| {
            let event: Value = serde_json::from_str(event.get()).expect("JSON");
            event["id"].as_str().expect("an id").to_owned()
        });
        let reason = ended["reason"].as_str().expect("a reason").to_owned();
        (ids.collect(), reason, u64::from(delivery.attempts.made))
    });
    dead.collect()
}

fn delivered(fixture: &Fixture) -> u64 {
    let counts = fixture.deployment.meter.counts();
    counts.iter().filter(|one| one.metric == "DeliverySuccessCount").map(|one| one.by).sum()
}

fn ids(all: std::ops::RangeInclusive<u128>) -> Vec<String> {
    let mut ids: Vec<_> =
        all.filter(|id| !ONE_IN_53.contains(id)).map(|id| id.to_string()).collect();
    ids.sort();
    ids
}

const BAD_REQUEST: &str = "UndeliverableDueToHttpBadRequest";

#[tokio::test(start_paused = true)]
async fn a_bad_event_ends_alone() {
    for (status, reason) in [(400, BAD_REQUEST), (413, "UndeliverableDueToHttpPayloadTooLarge")] {
        let fixture = picky(status, BISECTS);
        assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
        assert_eq!(accepted(&fixture), ids(1..=9));
        // The whole, a half, a quarter and itself.
        assert_eq!(dead(&fixture), [(vec!["4".to_owned()], reason.to_owned(), 4)]);
        assert_eq!((fixture.requests(), delivered(&fixture)), (7, 8));
        let numbers: Vec<_> = made(&fixture).iter().map(|made| made.number).collect();
        assert_eq!(numbers, [1, 2, 2, 3, 3, 4, 4], "each request is an attempt");
        let states = fixture.deployment.tables.states();
        let [state] = &states[..] else { panic!("{states:?}") };
        assert_eq!(
            (state.status, state.events, state.attempts.made),
            (DeliveryStatus::Ended, 1, 4)
        );
        assert_eq!((state.done.len(), state.past.len()), (8, 7), "every request is remembered");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_has_delivered_in_part_stands_in_a_line() {
    logs::take();
    let fixture = picky(400, BISECTS);
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    let lines = logs::take().into_iter().filter(|line| !line["event_ids"].is_null());
    let told: Vec<_> = lines
        .map(|line| {
            let text = line["event_ids"].as_str().expect("a text").to_owned();
            (line["decision"].clone(), serde_json::from_str::<Vec<String>>(&text).expect("JSON"))
        })
        .filter(|(decision, _)| !decision.is_null())
        .collect();
    let want = [(json!("Delivered"), ids(1..=9)), (json!("End"), vec!["4".to_owned()])];
    assert_eq!(told, want);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_says_when_its_own_event_was_sent_last() {
    let mut fixture = picky(400, BISECTS);
    fixture.script = Some(Script::Picky { one_in: 4, status: 400 });
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    let sent = fixture.deployment.queues.sent().into_iter();
    let dead = sent.filter(|(queue, _)| *queue == Queue::DeadLetter);
    let mut said = 0;
    for (_, message) in dead {
        let ended: Value = serde_json::from_str(&message.body).expect("JSON");
        let delivery = Delivery::decode(&ended["delivery"].to_string()).expect("a delivery");
        for (_, event) in delivery.left() {
            let event: Value = serde_json::from_str(event.get()).expect("JSON");
            let id = event["id"].as_str().expect("an id");
            let with_it = |made: &Request| made.met.iter().any(|met| met.event == id);
            let last = made(&fixture).into_iter().rfind(with_it);
            assert_eq!(delivery.attempts.last_at, last.map(|made| made.began_at), "{id}");
            said += 1;
        }
    }
    assert_eq!(said, 2, "of nine ids");
}

#[tokio::test(start_paused = true)]
async fn without_being_asked_for_a_batch_ends_whole() {
    let fixture = picky(400, BatchFailure::default());
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    assert_eq!(
        (fixture.requests(), accepted(&fixture).len(), dead(&fixture)[0].0.len()),
        (1, 0, 9)
    );
}

/// Of deliveries joined into one request, those without a bad event write nothing.
#[tokio::test(start_paused = true)]
async fn joined_deliveries_are_split_event_by_event() {
    let fixture = picky(400, BISECTS);
    let form = Form { schema: DeliverySchema::CloudEventSchemaV1_0, batched: true };
    let mut all: Vec<_> = deliveries(3).into_iter().map(|one| one.packed_as(form)).collect();
    all.push(batch(10, 4..=6));
    all.push(batch(11, 7..=9));
    assert!(fixture.receive(Queue::Dispatch, &all).await.is_empty());
    assert_eq!(made(&fixture)[0].events, 9, "they share a request");
    assert_eq!((accepted(&fixture), delivered(&fixture)), (ids(1..=9), 8));
    assert_eq!(dead(&fixture), [(vec!["4".to_owned()], BAD_REQUEST.to_owned(), 4)]);
    let states = fixture.deployment.tables.states();
    assert_eq!(states.iter().map(|state| state.id).collect::<Vec<_>>(), [Uuid::from_u128(10)]);
}

/// The payload bucket has the events: those that end alone are sent as a separate part.
#[tokio::test(start_paused = true)]
async fn a_large_delivery_is_split_too() {
    let fixture = picky(400, BISECTS);
    let large = fixture.claimed(batch(1, 1..=9)).await;
    fixture.receive(Queue::Dispatch, &[large]).await;
    assert_eq!((accepted(&fixture), delivered(&fixture)), (ids(1..=9), 8));
    assert_eq!(dead(&fixture).len(), 1);
}

/// Accepted events are recorded even if calls for the state fail.
#[tokio::test(start_paused = true)]
async fn an_end_that_can_not_be_written_is_carried_out_alone() {
    let mut fixture = picky(400, BISECTS);
    fixture.state_faults = Plan::failing(1..100);
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    assert_eq!((accepted(&fixture), delivered(&fixture)), (ids(1..=9), 8));
    assert_eq!(dead(&fixture), [(vec!["4".to_owned()], BAD_REQUEST.to_owned(), 4)]);
}

/// The endpoint allows few requests a minute: events that are not separated stay in the delivery.
#[tokio::test(start_paused = true)]
async fn what_is_not_separated_goes_on_together() {
    let mut fixture = picky(400, BISECTS);
    fixture.subscription.allowed_rate = std::num::NonZeroU32::new(3);
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    assert_eq!((fixture.requests(), dead(&fixture).len()), (3, 0));
    let before = accepted(&fixture);
    assert_eq!((before.len(), delivered(&fixture)), (4, 4));
    let states = fixture.deployment.tables.states();
    let [state] = &states[..] else { panic!("{states:?}") };
    let DeliveryStatus::Waiting { due } = state.status else { panic!("{state:?}") };
    assert!(due.since(NOW).as_secs() >= 10 && due.since(NOW).as_secs() < 15, "{due}");
    assert_eq!((state.events, state.attempts.made), (5, 2));
    assert_eq!(state.attempts.last_outcome, Some(Outcome::BadRequest));
    let sent = fixture.deployment.queues.sent();
    let [(Queue::Retry(0), next)] = &sent[..] else { panic!("{sent:?}") };
    let next = Delivery::decode(&next.body).expect("a delivery");
    assert_eq!((next.event_count(), next.events().len()), (5, 9), "the message keeps its events");
    // The next attempt separates the rest, and sends nothing twice.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    fixture.subscription.allowed_rate = None;
    assert!(fixture.receive(Queue::Retry(0), &[next]).await.is_empty());
    assert_eq!((accepted(&fixture), delivered(&fixture)), (ids(1..=9), 8));
    assert_eq!(dead(&fixture).len(), 1);
}

/// A copy of the message does not know what was delivered; the state does.
#[tokio::test(start_paused = true)]
async fn what_was_delivered_is_not_dropped_when_the_event_subscription_is_deleted() {
    let mut fixture = picky(400, BISECTS);
    fixture.subscription.allowed_rate = std::num::NonZeroU32::new(3);
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    assert_eq!(delivered(&fixture), 4);
    // A new event subscription has replaced the delivery's.
    fixture.subscription.uid = Uuid::from_u128(99);
    assert!(fixture.receive(Queue::Retry(0), &[batch(1, 1..=9)]).await.is_empty());
    let counts = fixture.deployment.meter.counts();
    let dropped = counts.iter().filter(|count| count.metric == "DroppedEventCount");
    assert_eq!(dropped.map(|count| count.by).collect::<Vec<_>>(), [5]);
}

/// Its rate allows the whole batch only: nothing is separated, and nothing lost before the last attempt.
#[tokio::test(start_paused = true)]
async fn a_rate_of_one_request_a_minute_splits_nothing() {
    let mut fixture = picky(400, BISECTS);
    fixture.subscription.allowed_rate = std::num::NonZeroU32::new(1);
    fixture.subscription.retry_policy.max_attempts = 2;
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    assert_eq!((fixture.requests(), accepted(&fixture).len(), dead(&fixture).len()), (1, 0, 0));
    let sent = fixture.deployment.queues.sent();
    let next = Delivery::decode(&sent[0].1.body).expect("a delivery");
    tokio::time::sleep(Duration::from_secs(60)).await;
    fixture.receive(Queue::Retry(0), &[next]).await;
    assert_eq!((fixture.requests(), accepted(&fixture).len()), (2, 0));
    let dead = dead(&fixture);
    let [(all, reason, 2)] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((all.len(), reason.as_str()), (9, BAD_REQUEST));
}

/// It is not sent again, and the others are still separated.
#[tokio::test(start_paused = true)]
async fn a_delivery_whose_time_is_over_stops_no_other() {
    let fixture = picky(400, BISECTS);
    let day = 24 * 60 * 60 * 1_000;
    let mut old = batch(11, 8..=9);
    old.publish_time = Timestamp::from_millis(NOW.as_millis() - day + 1);
    let kept = fixture.receive(Queue::Dispatch, &[batch(10, 1..=7), old]).await;
    assert!(kept.is_empty(), "{kept:?}");
    let (whole, parts) = (made(&fixture)[0].clone(), made(&fixture).split_off(1));
    assert_eq!(whole.events, 9, "they share a request");
    let is_old = |met: &EventOutcome| ["8", "9"].contains(&met.event.as_str());
    assert!(parts.iter().all(|part| !part.met.iter().any(is_old)), "{parts:?}");
    assert_eq!((accepted(&fixture), delivered(&fixture)), (ids(1..=7), 6));
    assert_eq!(dead(&fixture), [(vec!["4".to_owned()], BAD_REQUEST.to_owned(), 4)]);
    let sent = fixture.deployment.queues.sent().into_iter();
    let next = sent.filter(|(queue, _)| *queue == Queue::Retry(0)).map(|(_, message)| message.body);
    let next: Vec<_> = next.map(|body| Delivery::decode(&body).expect("a delivery")).collect();
    assert_eq!(next.iter().map(|next| next.id.as_u128()).collect::<Vec<_>>(), [11]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(fixture.receive(Queue::Retry(0), &next).await.is_empty());
    let ended = dead(&fixture).pop().expect("two by now");
    let want = (vec!["8".to_owned(), "9".to_owned()], "TimeToLiveExceeded".to_owned(), 1);
    assert_eq!(ended, want);
}

/// Events that can't be separated with so few attempts end together.
#[tokio::test(start_paused = true)]
async fn attempts_are_never_exceeded() {
    let mut fixture = picky(400, BISECTS);
    fixture.subscription.retry_policy.max_attempts = 3;
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    assert!(made(&fixture).iter().all(|made| made.number <= 3));
    let dead = dead(&fixture);
    let [(together, reason, 3)] = &dead[..] else { panic!("{dead:?}") };
    assert_eq!((together, reason.as_str()), (&vec!["4".to_owned(), "5".to_owned()], BAD_REQUEST));
    assert_eq!(accepted(&fixture).len(), 7);
}

fn waiting(of: &Delivery, past: &[u16]) -> DeliveryState {
    let mut attempts = Attempts::default();
    let mut records = Vec::new();
    for status in past {
        let answer = Answer::of_status(*status, None);
        attempts = attempts.with(NOW, answer.outcome, answer.status);
        records.push(AttemptRecord::of(answer, (NOW, NOW), Some(DelayReason::Schedule)));
    }
    DeliveryState {
        id: of.id,
        subscription: of.subscription.clone(),
        subscription_uid: of.subscription_uid,
        publish_time: of.publish_time,
        redriven_at: None,
        events: 9,
        done: EventSet::default(),
        attempts,
        status: DeliveryStatus::Waiting { due: NOW },
        past: records,
        receipt: None,
        copies_until: None,
        resend: None,
        revision: 0,
    }
}

/// A retried status separates at the third attempt with it, not before.
#[tokio::test(start_paused = true)]
async fn what_fails_again_and_again_is_separated() {
    for (past, requests) in [(&[500][..], 1), (&[500, 500], 7), (&[503, 500], 1)] {
        let fixture = picky(500, BISECTS);
        let whole = batch(1, 1..=9);
        fixture.knows(&waiting(&whole, past)).await;
        assert_eq!(fixture.receive(Queue::Retry(0), &[whole]).await, [1], "it is hidden");
        assert_eq!((fixture.requests(), dead(&fixture).len()), (requests, 0), "{past:?}");
        let states = fixture.deployment.tables.states();
        let left = states[0].events;
        assert_eq!(left, if requests == 1 { 9 } else { 1 }, "{past:?}");
    }
}

/// If the endpoint itself fails, no half is tried.
#[tokio::test(start_paused = true)]
async fn what_is_the_endpoints_own_failure_is_not_separated() {
    for status in [401, 403, 404, 408, 429, 503] {
        let mut fixture = picky(200, BISECTS);
        (fixture.script, fixture.status) = (None, status);
        fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await;
        assert_eq!(fixture.requests(), 1, "{status}");
    }
}

/// First attempts to all other endpoints wait for the same slots.
#[tokio::test(start_paused = true)]
async fn a_first_attempt_splits_for_two_seconds_and_a_later_one_for_ten() {
    for (queue, seconds) in [(Queue::Dispatch, 2), (Queue::Retry(0), 10)] {
        let mut fixture = picky(400, BISECTS);
        let refusal = Reaction::status(400).after(Duration::from_millis(400));
        fixture.script = Some(Script::Answers(vec![refusal]));
        fixture.receive(queue, &[batch(1, 1..=100)]).await;
        let took = made(&fixture).last().expect("a request").began_at.since(NOW);
        let least = Duration::from_secs(seconds);
        let most = least + Duration::from_secs(1);
        assert!((least..most).contains(&took), "{queue:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_endpoint_gets_on() {
    let mut fixture = picky(400, BISECTS);
    (fixture.script, fixture.status) = (None, 400);
    fixture.answers_after = Duration::from_secs(11);
    fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await;
    assert_eq!(fixture.requests(), 3, "the whole and two parts");
}

/// An accepted part shows that the endpoint works; if all are refused, one failure is recorded.
#[tokio::test(start_paused = true)]
async fn refused_parts_and_the_endpoints_health() {
    let fixture = picky(400, BISECTS);
    fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await;
    // The last request was refused: the bad event, or its neighbour after it accepted.
    assert!(fixture.health_writes().await <= 1, "{}", fixture.health_writes().await);
    let mut fixture = picky(400, BISECTS);
    (fixture.script, fixture.status) = (None, 400);
    fixture.answers_after = Duration::from_millis(20);
    fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await;
    assert_eq!(fixture.requests(), 17, "each half of each part");
    assert_eq!(fixture.health_writes().await, 1, "one batch is one failure");
    assert_eq!(dead(&fixture).iter().map(|(ids, ..)| ids.len()).sum::<usize>(), 9);
}

/// The probe has a bad event: its good half ends the probation.
#[tokio::test(start_paused = true)]
async fn a_probe_with_a_bad_event_opens_the_gate() {
    let since = Timestamp::from_millis(NOW.as_millis() - 60_000);
    let until = Timestamp::from_millis(NOW.as_millis() - 1_000);
    let probation = Probation { since, until, outcome: Outcome::Busy, status: Some(503) };
    let fixture = picky(400, BISECTS).waits(probation).await;
    fixture.receive(Queue::Retry(0), &[batch(1, 1..=8)]).await;
    assert_eq!(dead(&fixture).len(), 1);
    let health = fixture.health().await;
    assert_eq!(health.probation, None);
}

#[tokio::test(start_paused = true)]
async fn named_events_are_retried_or_end() {
    let mut fixture = picky(200, READS);
    fixture.script = Some(Script::Naming { rate: 0.8, garbled: 0.0 });
    fixture.subscription.retry_policy.schedule_s = Some(vec![10]);
    let whole = batch(1, 1..=60);
    fixture.receive(Queue::Dispatch, std::slice::from_ref(&whole)).await;
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_secs(12)).await;
        fixture.receive(Queue::Retry(0), std::slice::from_ref(&whole)).await;
    }
    let met: Vec<_> = made(&fixture).into_iter().flat_map(|made| made.met).collect();
    let with = |outcome| met.iter().filter(|met| met.answer.outcome == outcome).count();
    let ended: usize = dead(&fixture).iter().map(|(ids, ..)| ids.len()).sum();
    assert!(with(Outcome::EventFailed) > 0 && with(Outcome::EventRejected) > 0, "{met:?}");
    assert_eq!(
        (with(Outcome::Delivered), with(Outcome::EventRejected)),
        (delivered(&fixture) as usize, ended)
    );
    let states = fixture.deployment.tables.states();
    assert_eq!(
        delivered(&fixture) as usize + ended,
        60,
        "each event ends once: {} {states:?}",
        fixture.requests()
    );
    assert!(dead(&fixture).iter().all(|(_, reason, _)| reason == "RejectedByEndpoint"));
    assert_eq!(fixture.health_writes().await, 0, "the endpoint works");
}

/// The dead-letter queue fails: delivered events are still recorded, and the attempt counts.
#[tokio::test(start_paused = true)]
async fn events_that_can_not_be_ended_wait_for_the_next_attempt() {
    let mut fixture = picky(200, READS);
    fixture.script = Some(Script::Naming { rate: 0.8, garbled: 0.0 });
    fixture.sender_faults = Plan::failing(1..=2);
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=60)]).await.is_empty());
    assert_eq!((fixture.requests(), dead(&fixture).len()), (1, 0));
    let states = fixture.deployment.tables.states();
    let [state] = &states[..] else { panic!("{states:?}") };
    assert!(matches!(state.status, DeliveryStatus::Waiting { due } if due > NOW), "{state:?}");
    assert!(delivered(&fixture) > 0);
    assert_eq!((state.attempts.made, state.done.len() as u64), (1, delivered(&fixture)));
}

/// The dead-letter queue refuses the bad event's own dead letter: nothing is attempted again, and no
/// attempt is beyond the most.
#[tokio::test(start_paused = true)]
async fn a_part_that_can_not_be_ended_ends_with_what_is_left() {
    let mut fixture = picky(400, BISECTS);
    fixture.script = Some(Script::Picky { one_in: 4, status: 400 });
    fixture.sender_faults = Plan::failing(1..=100);
    let whole = batch(1, 1..=20);
    assert_eq!(fixture.receive(Queue::Retry(0), std::slice::from_ref(&whole)).await, [1]);
    let (requests, good) = (fixture.requests(), delivered(&fixture));
    let states = fixture.deployment.tables.states();
    let [state] = &states[..] else { panic!("{states:?}") };
    assert!(matches!(state.status, DeliveryStatus::Ending { .. }), "{state:?}");
    tokio::time::sleep(Duration::from_secs(120)).await;
    fixture.sender_faults = Plan::default();
    assert!(fixture.receive(Queue::Retry(0), &[whole]).await.is_empty());
    assert_eq!(fixture.requests(), requests, "nothing is attempted again");
    let dead = dead(&fixture);
    let ended: usize = dead.iter().map(|(ids, ..)| ids.len()).sum();
    assert!(ended > 1 && good > 0, "{ended} ended, {good} delivered");
    assert_eq!((ended as u64 + good, delivered(&fixture)), (20, good), "each ends once");
    assert!(dead.iter().all(|(_, reason, made)| reason == BAD_REQUEST && *made <= 30), "{dead:?}");
}

/// Parts were refused for their events, then the endpoint itself fails: that is recorded.
#[tokio::test(start_paused = true)]
async fn the_endpoints_own_failure_is_noted_not_what_it_refused_before() {
    let mut fixture = picky(400, BISECTS);
    fixture.script = Some(Script::Answers([400, 503].map(Reaction::status).to_vec()));
    fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await;
    assert_eq!(fixture.requests(), 2);
    let health = fixture.health().await;
    let probation = health.probation.expect("503 puts it on probation");
    assert_eq!(probation.outcome, Outcome::Busy);
}

/// No part outlives the probe's claim or a lease of the slow lane.
#[tokio::test(start_paused = true)]
async fn no_part_begins_that_would_outlive_the_probes_claim() {
    let since = Timestamp::from_millis(NOW.as_millis() - 60_000);
    let until = Timestamp::from_millis(NOW.as_millis() - 1_000);
    let probation = Probation { since, until, outcome: Outcome::Busy, status: Some(503) };
    let mut fixture = picky(400, BISECTS).waits(probation).await;
    (fixture.script, fixture.status) = (None, 400);
    fixture.answers_after = Duration::from_secs(25);
    fixture.receive(Queue::Retry(0), &[batch(1, 1..=8)]).await;
    // The second part would begin at 50 s, and may take until 80 s; the claim ends at 60 s.
    assert_eq!(fixture.requests(), 2);
}

/// Two copies have together delivered all parts: no empty request is sent.
#[tokio::test(start_paused = true)]
async fn what_copies_have_delivered_together_is_not_attempted() {
    let fixture = picky(200, BISECTS);
    let mut whole = batch(1, 7..=9);
    let mut stored = waiting(&whole, &[400]);
    stored.done = EventSet::from_iter([0, 1]);
    fixture.knows(&stored).await;
    whole.done = EventSet::from_iter([2]);
    assert!(fixture.receive(Queue::Retry(0), &[whole]).await.is_empty());
    let states = fixture.deployment.tables.states();
    let [state] = &states[..] else { panic!("{states:?}") };
    assert_eq!((fixture.requests(), state.status), (0, DeliveryStatus::Delivered), "{state:?}");
}

/// Two copies split a batch at once: the one with more attempts keeps what the other has delivered.
#[tokio::test(start_paused = true)]
async fn a_copy_keeps_what_another_copy_has_done() {
    let fixture = picky(400, BISECTS);
    fixture.receive(Queue::Dispatch, &[batch(9, 7..=9)]).await;
    let context = fixture.context();
    let topic = context.configuration.topic(&fixture.subscription.key.topic).await;
    let topic = topic.expect("read").expect("a topic");
    let subscription = std::sync::Arc::new(fixture.subscription.clone());
    let owner = gridpost_ports::configuration::Owner { topic, subscription };
    let whole = batch(1, 1..=9);
    let record = fixture.deployment.queues.hand(Queue::Retry(0), whole.encode());
    let record = record.record(Queue::Retry(0));
    let mut stored = waiting(&whole, &[400]);
    stored.done = EventSet::from_iter([0, 1]);
    let received = crate::loaded::Received { record, delivery: whole, state: None };
    let mut loaded = received.of(&owner);
    loaded.delivery.attempts.made = 3;
    loaded.delivery.done = EventSet::from_iter([7, 8]);
    let over = loaded.state_over(&stored, DeliveryStatus::Waiting { due: NOW }).expect("it holds");
    assert_eq!((over.done, over.events), (EventSet::from_iter([0, 1, 7, 8]), 5));
    stored.done = EventSet::from_iter(0..7);
    let over = loaded.state_over(&stored, DeliveryStatus::Waiting { due: NOW });
    assert!(over.is_none(), "together they have delivered all");
}

/// The same endpoint, for an event subscription that does not read results.
#[tokio::test(start_paused = true)]
async fn bodies_mean_nothing_unless_they_are_asked_for() {
    let mut fixture = picky(200, BISECTS);
    fixture.script = Some(Script::Naming { rate: 1.0, garbled: 0.0 });
    assert!(fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await.is_empty());
    assert_eq!((fixture.requests(), delivered(&fixture)), (1, 9));
}

/// An unreadable body loses nothing.
#[tokio::test(start_paused = true)]
async fn a_garbled_body_asks_for_all_again() {
    let mut fixture = picky(200, READS);
    fixture.script = Some(Script::Naming { rate: 0.0, garbled: 1.0 });
    fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await;
    assert_eq!((delivered(&fixture), dead(&fixture).len()), (0, 0));
    let states = fixture.deployment.tables.states();
    assert_eq!(
        (states[0].events, states[0].attempts.last_outcome),
        (9, Some(Outcome::EventFailed))
    );
}

#[tokio::test(start_paused = true)]
async fn late_answers_are_not_heard_where_bodies_are_read() {
    let mut fixture = picky(200, READS);
    (fixture.script, fixture.answers_after) = (None, std::time::Duration::from_secs(45));
    fixture.receive(Queue::Dispatch, &[batch(1, 1..=9)]).await;
    assert_eq!(delivered(&fixture), 0, "a late 200 may name events in a body that is not read");
}
