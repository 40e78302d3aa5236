//! Deliveries that wait.

use std::time::Duration;

use gridpost::{
    delivery::{
        Attempts,
        outcome::Outcome,
        retry::EndReason,
        state::{DeliveryState, Standing},
    },
    time::Timestamp,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{World, body, code, fakes::NOW, key};

const LIST: &str = "GET /topics/demo/eventSubscriptions/s-1/deliveries";

/// A delivery of `s-1`, published so many seconds ago.
fn state(world: &World, id: u128, seconds_ago: i64, standing: Standing) -> DeliveryState {
    DeliveryState {
        id: Uuid::from_u128(id),
        subscription: key("demo", "s-1"),
        subscription_uid: world.subscription_uid("s-1").expect("s-1"),
        publish_time: Timestamp::from_millis(NOW.as_millis() - seconds_ago * 1_000),
        events: 3,
        attempts: Attempts::default(),
        standing,
        revision: 1,
    }
}

fn store(world: &World, states: impl IntoIterator<Item = DeliveryState>) {
    world.store.tables.lock().expect("no panic").waiting.extend(states);
}

async fn list(world: &World, line: &str) -> Value {
    let reply = world.call(line).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    body(&reply).clone()
}

#[tokio::test(start_paused = true)]
async fn waiting_deliveries_say_what_is_known_of_them() {
    let world = World::with_subscription().await;
    let due = NOW + Duration::from_secs(30);
    let mut failed = state(&world, 1, 5, Standing::Waiting { due });
    failed.attempts = failed.attempts.with(NOW, Outcome::ServerError, Some(500));
    let reason = EndReason::UndeliverableDueToProbationCausedByClientError;
    let mut ending = state(&world, 2, 4, Standing::Ending { reason, at: NOW });
    ending.attempts.last_outcome = Some(Outcome::Probation);
    let mut of_another = state(&world, 3, 4, Standing::Waiting { due });
    of_another.subscription_uid = Uuid::from_u128(4_711);
    store(&world, [of_another, ending, failed]);
    let want = json!({"value": [
        {
            "id": "00000000-0000-0000-0000-000000000001",
            "publishTime": "2026-11-21T07:59:55.000Z",
            "events": 3,
            "deliveryAttempts": 1,
            "lastDeliveryAttemptTime": "2026-11-21T08:00:00.000Z",
            "lastDeliveryOutcome": "ServerError",
            "lastHttpStatusCode": 500,
            "standing": "Waiting",
            "due": "2026-11-21T08:00:30.000Z",
        },
        {
            "id": "00000000-0000-0000-0000-000000000002",
            "publishTime": "2026-11-21T07:59:56.000Z",
            "events": 3,
            "deliveryAttempts": 0,
            "lastDeliveryOutcome": "Probation",
            "standing": "Ending",
            "reason": "UndeliverableDueToProbationCausedByClientError",
            "endedAt": "2026-11-21T08:00:00.000Z",
        },
    ]});
    let found = list(&world, LIST).await;
    assert_eq!(found, want);
    super::openapi::assert_valid("DeliveryList", &found);
}

#[tokio::test(start_paused = true)]
async fn every_waiting_delivery_is_on_one_page() {
    let world = World::with_subscription().await;
    // Seven publishes at the same moment, twenty times: only the ids tell them apart.
    let states = (0..140).map(|index| {
        let standing = Standing::Waiting { due: NOW };
        state(&world, 1_000 - index, i64::try_from(index / 7).expect("small"), standing)
    });
    let states: Vec<_> = states.collect();
    store(&world, states.clone());
    let (mut found, mut next) = (Vec::new(), Some(format!("{LIST}?$top=30")));
    while let Some(line) = next {
        let page = list(&world, &line).await;
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
    let world = World::with_subscription().await;
    for line in [
        "GET /topics/demo/eventSubscriptions/s-2/deliveries",
        "GET /topics/none/eventSubscriptions/s-1/deliveries",
        "GET /topics/demo/eventSubscriptions/s-1/deliveries/1",
    ] {
        let reply = world.call(line).await;
        assert_eq!((reply.status, code(&reply)), (404, "ResourceNotFound"), "{line}");
    }
}
