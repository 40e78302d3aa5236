//! The health of endpoints, shown and reset.

use std::time::Duration;

use gridpost_core::{
    delivery::state::{DeliveryState, DeliveryStatus},
    journal::{Count, Counted, Owner},
    retry::{
        attempts::Attempts,
        health::{Delayed, Health, Probe, Row},
        outcome::Outcome,
    },
    time::Timestamp,
};
use gridpost_testkit::journal_reader::JournalSettings;
use serde_json::json;
use uuid::Uuid;

use super::{Fixture, NOW, body, code, key};

const SHOW: &str = "GET /topics/demo/eventSubscriptions/s-1/health";
const RESET: &str = "POST /topics/demo/eventSubscriptions/s-1/health:reset";

fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() - seconds * 1_000)
}

/// Delayed delivery since 20 s, for 40 s more.
fn delayed() -> Health {
    let until = NOW + Duration::from_secs(40);
    let (outcome, status) = (Outcome::Busy, Some(503));
    Health {
        row: Row { failures: 10, since: Some(ago(30)), last_at: Some(ago(20)) },
        delayed: Some(Delayed { step: 1, since: ago(20), until, outcome, status }),
        revision: 4,
        ..Health::default()
    }
}

fn store(fixture: &Fixture, health: Health) {
    let uid = fixture.subscription_uid("s-1").expect("s-1");
    fixture.deployment.tables.put_health(uid, health);
}

fn stored(fixture: &Fixture) -> Health {
    let uid = fixture.subscription_uid("s-1").expect("s-1");
    let all = fixture.deployment.tables.healths();
    all.into_iter().find(|(of, _)| *of == uid).expect("a health").1
}

#[tokio::test(start_paused = true)]
async fn a_health_says_why_and_until_when() {
    let fixture = Fixture::with_subscription().await;
    let healthy = json!({
        "state": "Healthy", "newEvents": "Attempted", "failuresInRow": 0,
        "waitingDeliveries": {"count": 0, "isComplete": true},
    });
    assert_eq!(body(&fixture.call(SHOW).await), &healthy);
    let waiting = |id: u128| DeliveryState {
        id: Uuid::from_u128(id),
        subscription: key("demo", "s-1"),
        subscription_uid: fixture.subscription_uid("s-1").expect("s-1"),
        publish_time: ago(60),
        events: 1,
        done: Default::default(),
        attempts: Attempts::default(),
        status: DeliveryStatus::Waiting { due: NOW },
        past: Vec::new(),
        receipt: None,
        copies_until: None,
        resend: None,
        redriven_at: None,
        revision: 1,
    };
    [waiting(1), waiting(2)].into_iter().for_each(|state| fixture.put_state(state));
    store(&fixture, delayed());
    let mut want = json!({
        "state": "DelayedDelivery",
        "newEvents": "Waits",
        "failuresInRow": 10,
        "failingSince": "2026-11-21T07:59:30.000Z",
        "lastFailureTime": "2026-11-21T07:59:40.000Z",
        "cause": {"outcome": "Busy", "httpStatusCode": 503},
        "since": "2026-11-21T07:59:40.000Z",
        "until": "2026-11-21T08:00:40.000Z",
        "delayedDelivery":
            {"step": 1, "since": "2026-11-21T07:59:40.000Z", "until": "2026-11-21T08:00:40.000Z"},
        "nextProbe": {"notBefore": "2026-11-21T08:00:40.000Z"},
        "waitingDeliveries":
            {"count": 2, "isComplete": true, "oldestPublishTime": "2026-11-21T07:59:00.000Z"},
    });
    assert_eq!(body(&fixture.call(SHOW).await), &want);
    super::openapi::assert_valid("Health", &want);
    // A claimed probe is shown as long as it may be under way.
    let probe = Probe { delivery: Uuid::from_u128(1), lease_until: NOW + Duration::from_secs(1) };
    store(&fixture, Health { probe: Some(probe), ..delayed() });
    want["nextProbe"]["delivery"] = json!(Uuid::from_u128(1));
    assert_eq!(body(&fixture.call(SHOW).await), &want);
    super::openapi::assert_valid("Health", &want);
}

#[tokio::test(start_paused = true)]
async fn all_that_waits_is_counted_where_the_journal_says_it_at_once() {
    let fixture = Fixture::with_subscription().await;
    let count = |counted| {
        let owner = Owner::Subscription(key("demo", "s-1"));
        fixture
            .journal
            .count(NOW, Count { owner, publish_time: NOW, counted, events: 1_000, once: None });
    };
    count(Counted::Matched);
    let list = "GET /topics/demo/healths";
    let waiting = async || {
        let (one, all) = (fixture.call(SHOW).await, fixture.call(list).await);
        assert_eq!(&body(&all)["value"][0]["health"], body(&one));
        super::openapi::assert_valid("Health", body(&one));
        body(&one).get("waitingEvents").cloned()
    };
    assert_eq!(waiting().await, None, "as on AWS");
    let settings = JournalSettings { counts_waiting: true, ..JournalSettings::default() };
    fixture.journal.set(settings);
    assert_eq!(waiting().await, Some(json!(1_000)));
    count(Counted::Dropped("x".to_owned()));
    [1, 2].into_iter().for_each(|id| fixture.put_state(super::deliveries::waiting(&fixture, id)));
    assert_eq!(waiting().await, Some(json!(2)), "never less than have failed");
}

#[tokio::test(start_paused = true)]
async fn a_reset_lets_attempts_through() {
    let fixture = Fixture::with_subscription().await;
    store(&fixture, delayed());
    // An attempt fails in between: the reset is tried again.
    let uid = fixture.subscription_uid("s-1").expect("s-1");
    fixture.interfere(5, move |tables| {
        tables.put_health(uid, Health { revision: 5, ..delayed() });
    });
    let made = fixture.made();
    let reply = fixture.call(RESET).await;
    assert_eq!(fixture.made() - made, 3 + 2 * 2 + 1, "the write met another");
    let (state, events) = (&body(&reply)["state"], &body(&reply)["newEvents"]);
    assert_eq!((reply.status, state, events), (200, &json!("Recovering"), &json!("Attempted")));
    let reset = stored(&fixture);
    assert_eq!((reset.until(), reset.row.failures, reset.revision), (None, 0, 6));
    // A healthy endpoint is not written.
    assert_eq!(fixture.call(RESET).await.status, 200);
    assert_eq!(stored(&fixture).revision, 6);
}

/// Another URL is another endpoint, with a new health.
#[tokio::test(start_paused = true)]
async fn a_changed_destination_begins_healthy() {
    let fixture = Fixture::with_subscription().await;
    store(&fixture, delayed());
    let patch = |url: &str| json!({"destination": {"properties": {"endpointUrl": url}}});
    let labels = json!({"labels": ["a"]});
    let table = [
        ("another member", labels, "DelayedDelivery"),
        ("another URL", patch("https://e.example/2?code=x"), "Healthy"),
        ("the same URL", patch("https://e.example/2?code=x"), "Healthy"),
    ];
    let mut seen = Vec::new();
    for (row, patch, state) in table {
        let patched = fixture.send("PATCH /topics/demo/eventSubscriptions/s-1", patch).await;
        assert_eq!(patched.status, 200, "{row}");
        assert_eq!(body(&fixture.call(SHOW).await)["state"], state, "{row}");
        seen.push(fixture.endpoint_uid("s-1"));
    }
    assert!(seen[0] != seen[1] && seen[1] == seen[2], "{seen:?}");
    assert_eq!(seen[0], fixture.subscription_uid("s-1"), "that of its creation");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_has_no_health() {
    let fixture = Fixture::with_subscription().await;
    for line in [
        "GET /topics/demo/eventSubscriptions/s-2/health",
        "POST /topics/none/eventSubscriptions/s-1/health:reset",
    ] {
        let reply = fixture.call(line).await;
        assert_eq!((reply.status, code(&reply)), (404, "ResourceNotFound"), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_healths_of_a_topic_come_in_pages() {
    let fixture = Fixture::with_subscription().await;
    store(&fixture, delayed());
    let one = body(&fixture.call(SHOW).await).clone();
    let all = body(&fixture.call("GET /topics/demo/healths").await).clone();
    assert_eq!(all, json!({"value": [{"name": "s-1", "health": one}]}));
    super::openapi::assert_valid("NamedHealthList", &all);
    assert_eq!(fixture.call("GET /topics/other/healths").await.status, 404);
}
