//! Parked deliveries: listed, released, canceled.

use std::time::Duration;

use gridpost_core::{
    delivery::{Delivery, parking::Parked, queue::Queue, state::DeliveryStatus},
    retry::EndReason,
    time::Timestamp,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Fixture, NOW, body, code, key,
    poison::{delivery, state},
};

const LONG: Duration = Duration::from_secs(3 * 60 * 60);

async fn park(fixture: &Fixture, id: u128, name: &str, body: Option<&str>) {
    let mut delivery = delivery(id);
    delivery.subscription = key("demo", name);
    let parked = Parked {
        id: delivery.id,
        due: NOW + LONG,
        shard: 2,
        postponed: 0,
        lot: None,
        parked_at: Timestamp::default(),
        watch: None,
        group: format!("demo/{name}"),
        body: body.map_or_else(|| delivery.due_at(NOW + LONG).encode(), str::to_owned),
    };
    fixture.park(parked).await;
}

/// With seven parked deliveries among as many other items.
async fn filled() -> Fixture {
    let fixture = Fixture::new();
    for id in 1..=7 {
        park(&fixture, id, if id <= 4 { "s-1" } else { "s-2" }, None).await;
        fixture.put_state(state(id + 100, DeliveryStatus::Ended, 1));
    }
    fixture
}

/// Follows a list or a change to its end. Returns all items.
async fn all(fixture: &Fixture, first: &str, input: Option<&Value>) -> Vec<Value> {
    let mut found = Vec::new();
    let mut next = Some(first.to_owned());
    let method = first.split(' ').next().expect("a method").to_owned();
    for _ in 0..20 {
        let Some(line) = next else { return found };
        let reply = match input {
            Some(input) => fixture.send(&line, input.clone()).await,
            None => fixture.call(&line).await,
        };
        assert_eq!(reply.status, 200, "{reply:?}");
        found.extend(body(&reply)["value"].as_array().expect("a list").iter().cloned());
        next = body(&reply)["nextLink"]
            .as_str()
            .map(|link| link.replace("https://manage.example", &format!("{method} ")));
    }
    panic!("a list without end");
}

#[tokio::test(start_paused = true)]
async fn every_parked_delivery_is_on_one_page() {
    let fixture = filled().await;
    park(&fixture, 8, "s-2", Some("rubbish")).await;
    let table = [
        ("GET /parked", 8),
        ("GET /parked?$top=1", 8),
        ("GET /parked?$top=3&api-version=1", 8),
        ("GET /parked?topic=demo", 8),
        ("GET /parked?topic=other", 0),
        ("GET /parked?eventSubscription=s-1&$top=2", 4),
        ("GET /parked?topic=demo&eventSubscription=s-2", 4),
    ];
    for (line, count) in table {
        let found = all(&fixture, line, None).await;
        let mut ids: Vec<_> = found.iter().map(|one| one["id"].to_string()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((found.len(), ids.len()), (count, count), "{line}");
    }
    let found = all(&fixture, "GET /parked", None).await;
    let one = found.iter().find(|one| one["id"] == json!(Uuid::from_u128(1))).expect("there");
    let want = json!({
        "id": Uuid::from_u128(1), "topic": "demo", "eventSubscription": "s-1", "events": 2,
        "publishTime": NOW.to_iso_8601(), "due": (NOW + LONG).to_iso_8601(), "deliveryAttempts": 1,
        "lastDeliveryOutcome": "Busy", "lastHttpStatusCode": 503,
    });
    assert_eq!(one, &want);
    let unreadable = found.iter().find(|one| one["problem"].is_string()).expect("there");
    assert_eq!(unreadable["eventSubscription"], "s-2");
    assert!(!json!(found).to_string().contains("confidential"));
}

/// Message and state agree that it is due.
#[tokio::test(start_paused = true)]
async fn a_released_delivery_is_due_at_once() {
    let fixture = filled().await;
    let waiting = DeliveryStatus::Waiting { due: NOW + LONG };
    fixture.put_state(state(1, waiting, 3));
    let ids = json!({"ids": [Uuid::from_u128(1), Uuid::from_u128(2)]});
    let released = all(&fixture, "POST /parked:release", Some(&ids)).await;
    assert_eq!(released.len(), 2);
    assert!(released.iter().all(|one| one["result"] == "Released"), "{released:?}");
    assert_eq!(fixture.parked(), 5);
    let stored = fixture.state(1).expect("a state");
    assert_eq!((stored.status, stored.revision), (DeliveryStatus::Waiting { due: NOW }, 4));
    assert_eq!(stored.attempts.made, 1);
    // A delivery without an attempt has no state: its message has the due time.
    assert_eq!(fixture.state(2), None);
    assert_eq!(fixture.sent().len(), 2);
    for (queue, message) in fixture.sent() {
        let sent = Delivery::decode(&message.body).expect("a delivery");
        assert_eq!((queue, message.delay_s, sent.due), (Queue::Retry(2), 10, Some(NOW)));
    }
}

/// The retry queue of the time of parking was removed.
#[tokio::test(start_paused = true)]
async fn what_is_parked_for_a_queue_that_is_gone_is_released_to_another_one() {
    let fixture = Fixture::new();
    let body = delivery(1).encode();
    let (id, group) = (Uuid::from_u128(1), "demo/s-1".to_owned());
    fixture
        .park(Parked {
            id,
            due: NOW + LONG,
            shard: 9,
            postponed: 2,
            lot: None,
            parked_at: Timestamp::default(),
            watch: None,
            group,
            body,
        })
        .await;
    let listed = all(&fixture, "GET /parked", None).await;
    let problem = listed[0]["problem"].as_str().expect("a problem");
    assert!(problem.starts_with("it could not be sent back, 2 times"), "{problem}");
    let released = all(&fixture, "POST /parked:release", Some(&json!({"all": true}))).await;
    assert_eq!(released[0]["result"], "Released", "{released:?}");
    assert_eq!((fixture.parked(), fixture.sent()[0].0), (0, Queue::Retry(1)));
}

#[tokio::test(start_paused = true)]
async fn a_canceled_delivery_is_to_end() {
    let fixture = filled().await;
    let waiting = DeliveryStatus::Waiting { due: NOW + LONG };
    let ending = DeliveryStatus::Ending { reason: EndReason::TimeToLiveExceeded, at: NOW };
    for (id, status) in [(1, waiting), (3, DeliveryStatus::Delivered), (4, ending)] {
        fixture.put_state(state(id, status, 3));
    }
    let choice = json!({"topic": "demo", "eventSubscription": "s-1"});
    let canceled = all(&fixture, "POST /parked:cancel?$top=3", Some(&choice)).await;
    assert_eq!(canceled.len(), 4);
    super::openapi::assert_valid("HandledDeliveryList", &json!({"value": canceled}));
    let told = |id: u128| {
        let one = canceled.iter().find(|one| one["id"] == json!(Uuid::from_u128(id)));
        let one = one.expect("there");
        (one["result"].as_str().expect("a result"), one["message"].as_str().unwrap_or_default())
    };
    assert_eq!([told(1), told(2)], [("Canceled", ""); 2]);
    let (delivered, ended) = (told(3), told(4));
    assert_eq!((delivered.0, ended.0), ("AlreadyDelivered", "AlreadyEnded"));
    assert!(delivered.1.contains("were delivered"), "{delivered:?}");
    assert!(ended.1.contains("TimeToLiveExceeded"), "{ended:?}");
    assert_eq!(fixture.parked(), 3, "those of s-2");
    let canceled = DeliveryStatus::Ending { reason: EndReason::CanceledByOperator, at: NOW };
    let want =
        [(1, canceled, 4), (2, canceled, 1), (3, DeliveryStatus::Delivered, 3), (4, ending, 3)];
    for (id, status, revision) in want {
        let stored = fixture.state(id).expect("a state");
        assert_eq!((stored.status, stored.revision), (status, revision), "{id}");
    }
    assert_eq!(fixture.sent().len(), 4);
}

/// Wherever it stops, the delivery is parked or sent, and the same request continues.
#[tokio::test(start_paused = true)]
async fn a_change_that_stops_halfway_loses_nothing() {
    for (line, done) in [("POST /parked:release", "Released"), ("POST /parked:cancel", "Canceled")]
    {
        // Found, its state read and written, sent, removed.
        for calls in 1..6 {
            let fixture = Fixture::new();
            park(&fixture, 1, "s-1", None).await;
            let waiting = state(1, DeliveryStatus::Waiting { due: NOW + LONG }, 1);
            fixture.put_state(waiting);
            fixture.fails_after(Some(calls));
            let stopped = all(&fixture, line, Some(&json!({"all": true}))).await;
            let sent = fixture.sent().len();
            assert_eq!(fixture.parked(), usize::from(calls < 5), "{line} after {calls} calls");
            assert_eq!(sent, usize::from(calls > 3), "{line} after {calls} calls");
            let want = if calls < 5 { "Failed" } else { done };
            assert_eq!(stopped[0]["result"], want, "{line} after {calls} calls");
            fixture.fails_after(None);
            let repeated = all(&fixture, line, Some(&json!({"all": true}))).await;
            assert!(repeated.iter().all(|one| one["result"] == done), "{line} after {calls} calls");
            assert_eq!(fixture.parked(), 0);
            let calls = fixture.calls().join(", ");
            assert!(calls.starts_with("write the state, "), "{calls}");
            assert!(calls.ends_with("send to retry-2, remove what was parked"), "{calls}");
        }
    }
}

/// The sent copy has ended it, and only the parked one is left.
#[tokio::test(start_paused = true)]
async fn what_has_ended_is_not_canceled_once_more() {
    let fixture = Fixture::new();
    park(&fixture, 1, "s-1", None).await;
    fixture.put_state(state(1, DeliveryStatus::Ended, 3));
    let canceled = all(&fixture, "POST /parked:cancel", Some(&json!({"all": true}))).await;
    assert_eq!(canceled[0]["result"], "AlreadyEnded", "{canceled:?}");
    assert!(canceled[0]["message"].as_str().is_some_and(|why| why.contains("a dead letter or a")));
    assert_eq!((fixture.parked(), fixture.state(1).map(|state| state.revision)), (0, Some(3)));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_one_is_released_to_become_poison_and_never_canceled() {
    let fixture = Fixture::new();
    park(&fixture, 1, "s-1", Some("rubbish")).await;
    let refused = all(&fixture, "POST /parked:cancel", Some(&json!({"all": true}))).await;
    assert_eq!(refused[0]["result"], "Refused");
    assert!(refused[0]["message"].as_str().is_some_and(|text| text.contains("release it")));
    assert_eq!(fixture.parked(), 1);
    let released = all(&fixture, "POST /parked:release", Some(&json!({"all": true}))).await;
    assert_eq!(released[0]["result"], "Released");
    assert_eq!(fixture.sent()[0].1.body, "rubbish");
}

#[tokio::test(start_paused = true)]
async fn refused_choices_name_their_members() {
    let fixture = filled().await;
    let release = "POST /parked:release";
    let table = [
        (release, json!({}), "all must be true where neither ids nor topic"),
        (release, json!({"all": true, "topic": "demo"}), "and only there"),
        (release, json!({"topic": 1}), "topic must be a string"),
        (release, json!({"ids": []}), "ids must have 1 to 100 ids"),
        (release, json!({"all": true, "x": 1}), "x is not known"),
        ("POST /parked:cancel", json!({}), "all must be true"),
        ("POST /parked:cancel?topic=demo", json!({"all": true}), "parameters here are $top, $skip"),
        ("GET /parked?$skiptoken=MTphYmM", json!({}), "is none that this API gave out"),
        ("GET /parked?topic=a&topic=b", json!({}), "must stand once"),
    ];
    for (line, input, rule) in table {
        let refused = fixture.send(line, input.clone()).await;
        assert_eq!((refused.status, code(&refused)), (400, "InvalidRequest"), "{line} {input}");
        assert!(body(&refused).to_string().contains(rule), "{refused:?}");
    }
    assert_eq!(fixture.parked(), 7);
    assert!(fixture.calls().is_empty());
}
