//! Deliveries that wait.

use std::time::Duration;

use gridpost_core::{
    delivery::{
        parking::Parked,
        queue::Queue,
        state::{AttemptRecord, DeliveryState, DeliveryStatus, PartRecord},
    },
    retry::{
        DelayReason, EndReason,
        attempts::Attempts,
        health::{Health, Probation},
        outcome::{Answer, Outcome},
    },
    time::Timestamp,
};
use gridpost_ports::{Outgoing, QueueSender};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Fixture, NOW, body, code, key, poison};

const LIST: &str = "GET /topics/demo/eventSubscriptions/s-1/deliveries";

fn state(fixture: &Fixture, id: u128, seconds_ago: i64, status: DeliveryStatus) -> DeliveryState {
    DeliveryState {
        id: Uuid::from_u128(id),
        subscription: key("demo", "s-1"),
        subscription_uid: fixture.subscription_uid("s-1").expect("s-1"),
        publish_time: Timestamp::from_millis(NOW.as_millis() - seconds_ago * 1_000),
        events: 3,
        done: Default::default(),
        attempts: Attempts::default(),
        status,
        past: Vec::new(),
        receipt: None,
        copies_until: None,
        resend: None,
        redriven_at: None,
        revision: 1,
    }
}

/// A delivery that waits for its third attempt.
pub(super) fn waiting(fixture: &Fixture, id: u128) -> DeliveryState {
    let due = NOW + Duration::from_secs(3_600);
    let mut state = state(fixture, id, 60, DeliveryStatus::Waiting { due });
    let (first, second) = (ago(60), ago(50));
    state.attempts = state.attempts.with(first, Outcome::TimedOut, None);
    state.attempts = state.attempts.with(second, Outcome::Busy, Some(503));
    let took = |at: Timestamp, millis| (at, at + Duration::from_millis(millis));
    let timed_out = Answer::without_status(Outcome::TimedOut);
    state.past = vec![
        AttemptRecord::of(timed_out, took(first, 5_000), Some(DelayReason::Schedule)),
        AttemptRecord::of(
            Answer::of_status(503, None),
            took(second, 41),
            Some(DelayReason::RetryAfter),
        )
        .with_response_text(Some("come back \\n later".to_owned())),
    ];
    state
}

fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() - seconds * 1_000)
}

fn store(fixture: &Fixture, states: impl IntoIterator<Item = DeliveryState>) {
    states.into_iter().for_each(|state| fixture.put_state(state));
}

async fn list(fixture: &Fixture, line: &str) -> Value {
    let reply = fixture.call(line).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    body(&reply).clone()
}

#[tokio::test(start_paused = true)]
async fn waiting_deliveries_say_what_is_known_of_them() {
    let fixture = Fixture::with_subscription().await;
    let due = NOW + Duration::from_secs(30);
    let mut failed = state(&fixture, 1, 5, DeliveryStatus::Waiting { due });
    failed.attempts = failed.attempts.with(NOW, Outcome::ServerError, Some(500));
    let reason = EndReason::UndeliverableDueToProbationCausedByClientError;
    let mut ending = state(&fixture, 2, 4, DeliveryStatus::Ending { reason, at: NOW });
    ending.attempts.last_outcome = Some(Outcome::Probation);
    ending.redriven_at = Some(NOW);
    let mut of_another = state(&fixture, 3, 4, DeliveryStatus::Waiting { due });
    of_another.subscription_uid = Uuid::from_u128(4_711);
    store(&fixture, [of_another, ending, failed]);
    let want = json!({"value": [
        {
            "id": "00000000-0000-0000-0000-000000000001",
            "publishTime": "2026-11-21T07:59:55.000Z",
            "events": 3,
            "deliveryAttempts": 1,
            "lastDeliveryAttemptTime": "2026-11-21T08:00:00.000Z",
            "lastDeliveryOutcome": "ServerError",
            "lastHttpStatusCode": 500,
            "status": "Waiting",
            "due": "2026-11-21T08:00:30.000Z",
        },
        {
            "id": "00000000-0000-0000-0000-000000000002",
            "publishTime": "2026-11-21T07:59:56.000Z",
            "redrivenTime": "2026-11-21T08:00:00.000Z",
            "events": 3,
            "deliveryAttempts": 0,
            "lastDeliveryOutcome": "Probation",
            "status": "Ending",
            "reason": "UndeliverableDueToProbationCausedByClientError",
            "endedAt": "2026-11-21T08:00:00.000Z",
        },
    ]});
    let found = list(&fixture, LIST).await;
    assert_eq!(found, want);
    super::openapi::assert_valid("DeliveryList", &found);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_counted_by_the_hour_of_its_publish() {
    const COUNT: &str = "GET /topics/demo/eventSubscriptions/s-1/deliveries:count";
    let fixture = Fixture::with_subscription().await;
    let none = json!({"deliveries": 0, "events": 0, "byPublishHour": {}});
    assert_eq!(list(&fixture, COUNT).await, none);
    let status = DeliveryStatus::Waiting { due: NOW };
    let mut of_another = state(&fixture, 9, 4, status);
    of_another.subscription_uid = Uuid::from_u128(4_711);
    let ended = state(&fixture, 8, 4, DeliveryStatus::Ended);
    // It is eight o'clock sharp: 0 s ago is in this hour, 5 s ago in the one before.
    let waiting = [(1, 5), (2, 9), (3, 0)].map(|(id, ago)| state(&fixture, id, ago, status));
    store(&fixture, waiting.into_iter().chain([of_another, ended]));
    let want = json!({
        "deliveries": 3, "events": 9,
        "byPublishHour": {
            "2026-11-21T07:00:00.000Z": {"deliveries": 2, "events": 6},
            "2026-11-21T08:00:00.000Z": {"deliveries": 1, "events": 3},
        },
    });
    let found = list(&fixture, COUNT).await;
    assert_eq!(found, want);
    super::openapi::assert_valid("DeliveryCount", &found);
}

/// One request counts 10,000.
#[tokio::test(start_paused = true)]
async fn a_count_of_very_many_goes_on_behind_its_next_link() {
    let fixture = Fixture::with_subscription().await;
    let status = DeliveryStatus::Waiting { due: NOW };
    store(&fixture, (0..10_001).map(|id| state(&fixture, id, 5, status)));
    let first = list(&fixture, "GET /topics/demo/eventSubscriptions/s-1/deliveries:count").await;
    assert_eq!(first["deliveries"], 10_000);
    let (_, path) =
        first["nextLink"].as_str().and_then(|it| it.split_once("/topics/")).expect("more");
    let rest = list(&fixture, &format!("GET /topics/{path}")).await;
    assert_eq!((&rest["deliveries"], rest.get("nextLink")), (&json!(1), None));
}

#[tokio::test(start_paused = true)]
async fn every_waiting_delivery_is_on_one_page() {
    let fixture = Fixture::with_subscription().await;
    // Seven publishes at the same moment, twenty times: only the ids tell them apart.
    let states = (0..140).map(|index| {
        let status = DeliveryStatus::Waiting { due: NOW };
        state(&fixture, 1_000 - index, i64::try_from(index / 7).expect("small"), status)
    });
    let states: Vec<_> = states.collect();
    store(&fixture, states.clone());
    let (mut found, mut next) = (Vec::new(), Some(format!("{LIST}?$top=30")));
    while let Some(line) = next {
        let page = list(&fixture, &line).await;
        let ids = page["value"].as_array().expect("a list").iter().map(|one| one["id"].clone());
        found.extend(ids);
        next = page["nextLink"].as_str().map(|link| {
            let rest = link.strip_prefix("https://manage.example/").expect("absolute");
            format!("GET /{rest}")
        });
    }
    let mut want = states;
    want.sort_by_key(|state| (state.publish_time, state.id));
    let want: Vec<_> = want.iter().map(|state| json!(state.id)).collect();
    assert_eq!(found, want);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_has_no_deliveries() {
    let fixture = Fixture::with_subscription().await;
    for line in [
        "GET /topics/demo/eventSubscriptions/s-2/deliveries",
        "GET /topics/none/eventSubscriptions/s-1/deliveries",
        "GET /topics/demo/eventSubscriptions/s-1/deliveries/1",
        "GET /topics/demo/eventSubscriptions/s-1/deliveries/00000000-0000-0000-0000-000000000009",
        "POST /topics/demo/eventSubscriptions/s-1/deliveries/x/resend",
    ] {
        let reply = fixture.call(line).await;
        assert_eq!((reply.status, code(&reply)), (404, "ResourceNotFound"), "{line}");
    }
}

fn one(id: u128) -> String {
    format!("GET /topics/demo/eventSubscriptions/s-1/deliveries/{}", Uuid::from_u128(id))
}

fn resend(id: u128) -> String {
    format!("POST /topics/demo/eventSubscriptions/s-1/deliveries/{}/resend", Uuid::from_u128(id))
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_shown_with_every_attempt_and_what_comes_next() {
    let fixture = Fixture::with_subscription().await;
    fixture.put_state(waiting(&fixture, 7));
    let shown = list(&fixture, &one(7)).await;
    super::openapi::assert_valid("DeliveryShown", &shown);
    let attempts = json!([
        {"attempt": 1, "startTime": "2026-11-21T07:59:00.000Z", "durationInMs": 5000,
            "outcome": "TimedOut", "waitBecause": "Schedule"},
        {"attempt": 2, "startTime": "2026-11-21T07:59:10.000Z", "durationInMs": 41,
            "outcome": "Busy", "httpStatusCode": 503, "waitBecause": "RetryAfter",
            "response": "come back \\n later"},
    ]);
    let mut next = json!({"attempt": 3, "notBefore": "2026-11-21T09:00:00.000Z",
        "because": "RetryAfter", "expires": "2026-11-22T07:59:00.000Z"});
    assert_eq!((&shown["attempts"], &shown["next"]), (&attempts, &next));

    // A batch that was split, and its rest as a whole again.
    let mut parted = waiting(&fixture, 7);
    let at = |seconds| NOW + Duration::from_secs(seconds);
    let record = |seconds, status, part: (u32, u32)| {
        let answer = Answer::of_status(status, None);
        let wait = (seconds == 9).then_some(DelayReason::Schedule);
        AttemptRecord::of(answer, (at(seconds), at(seconds)), wait)
            .of_part(Some(PartRecord(part.0, part.1)))
    };
    parted.past.truncate(1);
    parted.past.extend([record(7, 400, (2, 4)), record(8, 400, (3, 2)), record(9, 200, (3, 2))]);
    fixture.put_state(parted.clone());
    let shown = list(&fixture, &one(7)).await;
    super::openapi::assert_valid("DeliveryShown", &shown);
    let said = shown["attempts"].as_array().expect("attempts").iter();
    let said: Vec<_> = said.map(|one| (one["attempt"].as_u64(), one["events"].as_u64())).collect();
    let want = [(1, None), (2, Some(4)), (3, Some(2)), (3, Some(2))];
    assert_eq!(said, want.map(|(number, events)| (Some(number), events)));
    fixture.put_state(waiting(&fixture, 7));

    // The endpoint waits for longer than this delivery does.
    let uid = fixture.subscription_uid("s-1").expect("s-1");
    let until = NOW + Duration::from_secs(7_200);
    let wait = Some(Probation { since: NOW, until, outcome: Outcome::Busy, status: Some(503) });
    let health = Health { probation: wait, ..Health::default() };
    fixture.deployment.tables.put_health(uid, health);
    next["because"] = json!("EndpointWaits");
    next["endpointWaitsUntil"] = json!("2026-11-21T10:00:00.000Z");
    let shown = list(&fixture, &one(7)).await;
    assert_eq!(shown["next"], next);
    super::openapi::assert_valid("DeliveryShown", &shown);

    // A redrive restarts time-to-live.
    fixture.put_state(DeliveryState { redriven_at: Some(ago(10)), ..waiting(&fixture, 7) });
    assert_eq!(list(&fixture, &one(7)).await["next"]["expires"], "2026-11-22T07:59:50.000Z");

    // A success is its last attempt, and is not counted.
    let mut delivered = waiting(&fixture, 8);
    delivered.status = DeliveryStatus::Delivered;
    let good = Answer::of_status(200, None);
    delivered.past.push(AttemptRecord::of(good, (NOW, NOW), None));
    fixture.put_state(delivered);
    let shown = list(&fixture, &one(8)).await;
    assert_eq!((&shown["attempts"][2]["attempt"], shown.get("next")), (&json!(3), None));
    assert_eq!(shown["attempts"][2]["outcome"], "Delivered");
    // Deliveries of another event subscription are not shown.
    let mut of_another = waiting(&fixture, 9);
    of_another.subscription_uid = Uuid::from_u128(4_711);
    fixture.put_state(of_another);
    assert_eq!(fixture.call(&one(9)).await.status, 404);
}

/// The delivery 7, parked until it is due.
fn parked() -> Parked {
    let delivery = poison::delivery(7);
    let due = NOW + Duration::from_secs(3_600);
    let (id, body) = (delivery.id, delivery.due_at(due).encode());
    Parked {
        id,
        due,
        shard: 2,
        postponed: 0,
        lot: None,
        parked_at: Timestamp::default(),
        watch: None,
        group: "demo/s-1".to_owned(),
        body,
    }
}

#[tokio::test(start_paused = true)]
async fn a_resend_reaches_a_delivery_where_it_can_be_reached() {
    // Parked until it is due, or later: deliveries that wait together come back spread.
    for later_s in [Some(0), Some(9 * 60), None] {
        let is_parked = later_s.is_some();
        let fixture = Fixture::with_subscription().await;
        let uid = fixture.subscription_uid("s-1").expect("s-1").as_u128();
        let queue = Queue::Retry(usize::try_from(uid % 4).expect("small"));
        let queues = &fixture.deployment.queues;
        let (group, text) = ("demo/s-1".to_owned(), poison::delivery(7).encode());
        queues.send(queue, vec![Outgoing::new(text, group, 0)]).await.remove(0).expect("sent");
        let hidden = queues.receive(queue, 1).await.remove(0);
        let receipt = Some(hidden.receipt.clone());
        fixture.put_state(DeliveryState { receipt, ..waiting(&fixture, 7) });
        if let Some(later_s) = later_s {
            let parked = parked();
            let due = parked.due + Duration::from_secs(later_s);
            fixture.park(Parked { due, ..parked }).await;
        }
        fixture.forget_calls();
        let reply = fixture.call(&resend(7)).await;
        assert_eq!((reply.status, &body(&reply)["result"]), (200, &json!("Sent")));
        super::openapi::assert_valid("Resent", body(&reply));
        let state = fixture.state(7).expect("a state");
        assert_eq!(state.status, DeliveryStatus::Waiting { due: NOW });
        assert_eq!(state.resend.map(|resend| resend.at), Some(NOW));
        let want: &[&str] = match is_parked {
            true => &["write the state", "send to retry-2", "remove what was parked"],
            false => &["write the state", &format!("show {} in {queue}", hidden.receipt)],
        };
        assert_eq!(fixture.calls(), want);
        let sent = &fixture.sent()[1..];
        assert!(sent.iter().all(|(queue, _)| *queue == Queue::Retry(2)));
        assert_eq!((sent.len(), fixture.parked()), (usize::from(is_parked), 0));
        if !is_parked {
            let shown = queues.receive(queue, 1).await.remove(0);
            assert_eq!((shown.message_id, shown.at), (hidden.message_id, NOW));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resend_that_reaches_nothing_says_when_it_comes() {
    let fixture = Fixture::with_subscription().await;
    fixture.put_state(waiting(&fixture, 7));
    for _ in 0..2 {
        let reply = fixture.call(&resend(7)).await;
        assert_eq!((reply.status, &body(&reply)["result"]), (200, &json!("Requested")));
        assert_eq!(
            body(&reply)["expectedBy"],
            "2026-11-21T09:00:06.000Z",
            "as it was due at first"
        );
        super::openapi::assert_valid("Resent", body(&reply));
    }
    let shown = list(&fixture, &one(7)).await;
    assert_eq!(shown["next"]["because"], "Resend");
    super::openapi::assert_valid("DeliveryShown", &shown);
    let mut ended = waiting(&fixture, 8);
    ended.status = DeliveryStatus::Ended;
    fixture.put_state(ended);
    let reply = fixture.call(&resend(8)).await;
    assert_eq!((reply.status, code(&reply)), (409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_resend_that_stops_halfway_loses_nothing() {
    // Reads of the topic, the event subscription, its secrets, the state, the health and what is parked; then
    // the three writes, of which the second is tried twice.
    for calls in 0..9 {
        let fixture = Fixture::with_subscription().await;
        fixture.put_state(waiting(&fixture, 7));
        fixture.park(parked()).await;
        fixture.fails_after(Some(calls));
        assert_eq!(fixture.call(&resend(7)).await.status, 503, "{calls}");
        assert_eq!(fixture.parked(), 1, "{calls}: it is removed last");
        assert_eq!(fixture.sent().len(), usize::from(calls == 8), "{calls}");
        // A second request continues.
        fixture.fails_after(None);
        let reply = fixture.call(&resend(7)).await;
        assert_eq!((reply.status, &body(&reply)["result"]), (200, &json!("Sent")), "{calls}");
        assert!(fixture.parked() == 0 && !fixture.sent().is_empty());
    }
}
