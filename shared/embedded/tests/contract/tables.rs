//! Tables.

use std::collections::BTreeSet;

use gridpost_core::{
    delivery::{
        parking::Parked,
        queue::Queue,
        redrive::{Counts, Job, Phase, RedriveFilter, Status},
        state::{DeliveryState, DeliveryStatus},
    },
    event::DeliverySchema,
    retry::health::Health,
    time::Timestamp,
    topic::{Change, Topic},
};
use gridpost_embedded::Tables;
use gridpost_ports::{
    Configuration, DeliveryStates, DueDeliveries, EndpointHealths, LateListeners, Listener,
    PARKED_PARTITIONS, ParkedDeliveries, ParkingLot, Redrives, RequestRates, Saved,
    SubscriptionStore, TopicKeys, TopicStore, WaitingDeliveries, WakeCursor,
};
use gridpost_testkit::{contract, fixtures};
use uuid::Uuid;

use super::world::World;

async fn save(tables: &Tables, state: &DeliveryState) -> Saved {
    DeliveryStates::save(tables, state).await.expect("an answer")
}

async fn load(tables: &Tables, number: u128) -> Option<DeliveryState> {
    DeliveryStates::load(tables, Uuid::from_u128(number)).await.expect("an answer")
}

#[tokio::test]
async fn tables_tell_races_from_refusals() {
    for world in World::both() {
        let tables = world.stores.tables();
        contract::what_is_not_stored_is_not_found(&*tables).await;
        assert_eq!(save(&tables, &contract::state(7)).await, Saved::Written);
        let (key, uid) = (contract::key(), contract::state(7).subscription_uid);
        let saved = EndpointHealths::save(&*tables, &key, uid, &Health::default()).await;
        assert_eq!(saved.expect("written"), Saved::Written);
        contract::a_lost_race_is_a_conflict(&*tables).await;
        world.stores.close().await;
        contract::a_table_that_refuses_says_nothing(&*tables).await;
        contract::a_table_that_refuses_parks_nothing(&*tables).await;
    }
}

#[tokio::test]
async fn a_table_that_fails_is_no_conflict() {
    let world = World::on_disk();
    for table in ["states", "healths", "rates", "parked"] {
        world.tamper(&format!("ALTER TABLE {table} RENAME TO gone_{table}"));
    }
    let tables = world.stores.tables();
    contract::a_table_that_refuses_says_nothing(&*tables).await;
    contract::a_table_that_refuses_parks_nothing(&*tables).await;
}

#[tokio::test]
async fn a_state_is_read_as_it_was_written() {
    for world in World::both() {
        let tables = world.stores.tables();
        let first = contract::state(7);
        assert_eq!(save(&tables, &first).await, Saved::Written);
        let stored = DeliveryState { revision: 1, ..first.clone() };
        assert_eq!(load(&tables, 7).await, Some(stored.clone()));
        assert_eq!(save(&tables, &first).await, Saved::Conflict);
        let standing = DeliveryStatus::Ended;
        let ended = DeliveryState { standing, ..stored };
        assert_eq!(save(&tables, &ended).await, Saved::Written);
        assert_eq!(load(&tables, 7).await, Some(DeliveryState { revision: 2, ..ended }));
        assert_eq!(load(&tables, 8).await, None);
    }
}

#[tokio::test]
async fn waiting_deliveries_are_found_by_their_place() {
    for world in World::both() {
        let tables = world.stores.tables();
        let uid = contract::state(0).subscription_uid;
        let at = |millis| Timestamp::from_millis(millis);
        for (number, millis) in [(3, 10), (1, 20), (2, 20), (4, 5)] {
            let state = DeliveryState { publish_time: at(millis), ..contract::state(number) };
            assert_eq!(save(&tables, &state).await, Saved::Written);
        }
        let other = DeliveryState { subscription_uid: Uuid::from_u128(6), ..contract::state(9) };
        assert_eq!(save(&tables, &other).await, Saved::Written);
        let ended = load(&tables, 4).await.expect("a state");
        let ended = DeliveryState { standing: DeliveryStatus::Delivered, ..ended };
        assert_eq!(save(&tables, &ended).await, Saved::Written);
        let found = tables.waiting(uid, None, 2).await.expect("states");
        let ids: Vec<_> = found.iter().map(|state| state.id.as_u128()).collect();
        assert_eq!((ids, found[0].revision), (vec![3, 1], 1));
        let rest = tables.waiting(uid, Some(&found[1].place()), 2).await.expect("states");
        assert_eq!(rest.iter().map(|state| state.id.as_u128()).collect::<Vec<_>>(), [2]);
        let count = |most| WaitingDeliveries::count(&*tables, uid, most);
        assert_eq!(count(10).await.expect("a number"), 3);
        assert_eq!(count(2).await.expect("a number"), 2);
    }
}

#[tokio::test]
async fn healths_and_counts_are_kept() {
    for world in World::both() {
        let (tables, uid) = (world.stores.tables(), Uuid::from_u128(5));
        let key = contract::key();
        for revision in 0..2 {
            let health = EndpointHealths::load(&*tables, &key, uid).await.expect("a health");
            assert_eq!(health.revision, revision);
            let saved = EndpointHealths::save(&*tables, &key, uid, &health).await;
            assert_eq!(saved.expect("an answer"), Saved::Written);
        }
        let table = [(1, 2, 2), (1, 3, 5), (2, 1, 1)];
        for (minute, requests, sum) in table {
            let counted = RequestRates::count(&*tables, uid, minute, requests).await;
            assert_eq!(counted.expect("a number"), sum, "minute {minute}");
        }
    }
}

fn parked(number: u128, minute: i64, body: &str) -> Parked {
    let due = Timestamp::from_millis(minute * 60_000 + 30_000);
    Parked { due, body: body.to_owned(), ..contract::parked(number) }
}

async fn due(tables: &Tables, minute: i64) -> Vec<u128> {
    let mut ids = Vec::new();
    for partition in 0..PARKED_PARTITIONS {
        let mut after = None;
        loop {
            let page = tables.due_in(minute, partition, after).await.expect("a page");
            ids.extend(page.due.iter().map(|parked| parked.id.as_u128()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn parked_deliveries_are_found_when_they_are_due() {
    for world in World::both() {
        let tables = world.stores.tables();
        let numbers: Vec<u128> = (0..20).collect();
        for number in &numbers {
            tables.park(&parked(*number, 7, &"x".repeat(200_000))).await.expect("parked");
        }
        let late = parked(30, 8, "late");
        tables.park(&late).await.expect("parked");
        tables.park(&late).await.expect("the same as once");
        assert_eq!(due(&tables, 7).await, numbers);
        assert_eq!(due(&tables, 8).await, [30]);
        let found = ParkedDeliveries::find(&*tables, late.id, 8).await.expect("an answer");
        assert_eq!(found.as_ref(), Some(&late));
        assert_eq!(ParkedDeliveries::find(&*tables, late.id, 7).await.expect("an answer"), None);
        let (mut all, mut place) = (Vec::new(), None);
        loop {
            let page = tables.list_after(place.as_ref()).await.expect("a page");
            all.extend(page.found.iter().map(|(_, parked)| parked.id.as_u128()));
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        all.sort_unstable();
        assert_eq!(all, [numbers, vec![30]].concat());
        ParkingLot::remove(&*tables, &late).await.expect("removed");
        ParkingLot::remove(&*tables, &late).await.expect("removed already");
        let some: Vec<_> = (0..19).map(|number| parked(number, 7, "")).collect();
        tables.remove_all(&some).await.expect("removed");
        assert_eq!((due(&tables, 7).await, due(&tables, 8).await), (vec![19], vec![]));
    }
}

#[tokio::test]
async fn a_parked_row_that_can_not_be_read_goes_on() {
    let world = World::on_disk();
    let tables = world.stores.tables();
    tables.park(&parked(9, 3, "b")).await.expect("parked");
    world.tamper("UPDATE parked SET document = '{}'");
    let found = ParkedDeliveries::find(&*tables, Uuid::from_u128(9), 3).await.expect("an answer");
    let found = found.expect("its message");
    assert_eq!((found.due_minute(), found.shard, found.body.as_str()), (3, 0, "b"));
    ParkingLot::remove(&*tables, &found).await.expect("removed");
    assert_eq!(due(&tables, 3).await, []);
}

#[tokio::test]
async fn how_far_wake_has_come_is_noted() {
    for world in World::both() {
        let tables = world.stores.tables();
        assert_eq!(WakeCursor::load(&*tables).await.expect("an answer"), None);
        for minute in [5, 6] {
            WakeCursor::save(&*tables, minute).await.expect("noted");
            assert_eq!(WakeCursor::load(&*tables).await.expect("an answer"), Some(minute));
        }
    }
}

#[tokio::test]
async fn a_write_under_an_older_revision_of_a_topic_changes_nothing() {
    for world in World::both() {
        let tables = world.stores.tables();
        let (topic, subscription) = (new_topic("t"), fixtures::subscription("s"));
        let keys = fixtures::access_keys();
        let saved = TopicStore::save(&*tables, &topic, Some(&keys)).await.expect("an answer");
        assert_eq!(saved, Saved::Written);
        assert_eq!(
            TopicStore::save(&*tables, &topic, Some(&keys)).await.expect("an answer"),
            Saved::Conflict
        );
        assert_eq!(tables.keys("t").await.expect("keys"), Some((keys, 1)));
        let stored = tables.topic("t").await.expect("an answer").expect("a topic");
        assert_eq!(stored, topic.next([Change::Keys]));
        let write = |topic: Topic| {
            let (tables, subscription) = (&tables, &subscription);
            async move {
                SubscriptionStore::save(&**tables, &topic, subscription).await.expect("an answer")
            }
        };
        assert_eq!(write(topic.clone()).await, Saved::Conflict);
        let another = Timestamp::from_millis(stored.created_at.as_millis() + 1);
        assert_eq!(write(Topic { created_at: another, ..stored.clone() }).await, Saved::Conflict);
        assert_eq!(tables.subscriptions("t").await.expect("an answer"), []);
        assert_eq!(write(stored.clone()).await, Saved::Written);
        let written = tables.written("t", None).await.expect("an answer");
        assert_eq!(written, [(subscription.clone(), 2)]);
        let names = BTreeSet::from(["other", "s"]);
        assert_eq!(tables.written("t", Some(&names)).await.expect("an answer"), written);
        let stored = tables.topic("t").await.expect("an answer").expect("a topic");
        assert_eq!(stored.revision, 2);
        let name = ["s".to_owned()];
        let deleted = SubscriptionStore::delete(&*tables, &stored, &name).await;
        assert_eq!(deleted.expect("an answer"), Saved::Written);
        assert_eq!(tables.subscription(&subscription.key).await.expect("an answer"), None);
        let deleted = TopicStore::delete(&*tables, &stored).await.expect("an answer");
        assert_eq!(deleted, Saved::Conflict);
        let stored = tables.topic("t").await.expect("an answer").expect("a topic");
        let deleted = TopicStore::delete(&*tables, &stored).await.expect("an answer");
        assert_eq!(deleted, Saved::Written);
        assert_eq!(tables.topic("t").await.expect("an answer"), None);
        assert_eq!(tables.keys("t").await.expect("an answer"), None);
    }
}

fn new_topic(name: &str) -> Topic {
    Topic { name: name.to_owned(), revision: 0, ..fixtures::topic() }
}

#[tokio::test]
async fn topics_are_listed_by_name() {
    for world in World::both() {
        let tables = world.stores.tables();
        for name in ["b", "c", "a"] {
            let saved = TopicStore::save(&*tables, &new_topic(name), None).await;
            assert_eq!(saved.expect("an answer"), Saved::Written);
        }
        let names = |topics: Vec<Topic>| topics.into_iter().map(|topic| topic.name).collect();
        let first: Vec<_> = names(tables.topics(None, 2).await.expect("topics"));
        let rest: Vec<_> = names(tables.topics(Some("b"), 2).await.expect("topics"));
        assert_eq!((first, rest), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]));
    }
}

#[tokio::test]
async fn a_transaction_is_written_whole_or_not_at_all() {
    let world = World::on_disk();
    let tables = world.stores.tables();
    TopicStore::save(&*tables, &new_topic("t"), None).await.expect("an answer");
    world.tamper(
        "CREATE TRIGGER refuse BEFORE INSERT ON subscriptions \
         BEGIN SELECT RAISE(ABORT, 'refused'); END",
    );
    let stored = tables.topic("t").await.expect("an answer").expect("a topic");
    let subscription = fixtures::subscription("s");
    let saved = SubscriptionStore::save(&*tables, &stored, &subscription).await;
    assert!(saved.is_err(), "{saved:?}");
    let after = tables.topic("t").await.expect("an answer").expect("a topic");
    assert_eq!(after.revision, stored.revision, "it has not moved");
}

#[tokio::test]
async fn only_so_many_listen() {
    for world in World::both() {
        let tables = world.stores.tables();
        let listener = |number: u128, until: i64| Listener {
            queue: Queue::Dispatch,
            id: Uuid::from_u128(number),
            until: Timestamp::from_millis(until),
        };
        let at = Timestamp::from_millis;
        assert!(tables.join(listener(1, 100), 1, at(0)).await.expect("an answer"));
        assert!(!tables.join(listener(2, 100), 1, at(0)).await.expect("an answer"));
        tables.leave(listener(1, 100)).await.expect("it has left");
        assert!(tables.join(listener(2, 100), 1, at(0)).await.expect("an answer"));
        assert!(tables.join(listener(3, 200), 1, at(100)).await.expect("an answer"));
    }
}

fn job(number: u128) -> Job {
    let subscription = fixtures::subscription("s");
    let at = Timestamp::from_millis(1_767_225_600_000);
    Job {
        id: Uuid::from_u128(number),
        subscription: subscription.key.clone(),
        bucket: contract::BUCKET.to_owned(),
        folder: "S".to_owned(),
        wanted: RedriveFilter::default(),
        to: subscription.key,
        to_uid: subscription.uid,
        schema: DeliverySchema::EventGridSchema,
        source_schema: None,
        events_per_second: 8,
        max_redrives: 3,
        send_again: false,
        dry_run: false,
        created_at: at,
        updated_at: at,
        status: Status::Running,
        phase: Phase::Counting,
        next: None,
        counts: Counts::default(),
        total: None,
        problem: None,
        lease: None,
        revision: 0,
    }
}

#[tokio::test]
async fn jobs_are_kept_by_event_subscription() {
    for world in World::both() {
        let tables = world.stores.tables();
        let job = job(1);
        assert_eq!(Redrives::save(&*tables, &job).await.expect("an answer"), Saved::Written);
        assert_eq!(Redrives::save(&*tables, &job).await.expect("an answer"), Saved::Conflict);
        let stored = tables.job(&job.subscription, job.id).await.expect("an answer");
        let stored = stored.expect("a job");
        assert_eq!(stored, Job { revision: 1, ..job });
        assert_eq!(Redrives::save(&*tables, &stored).await.expect("an answer"), Saved::Written);
        let jobs = tables.jobs(&stored.subscription).await.expect("jobs");
        assert_eq!(jobs, [Job { revision: 2, ..stored.clone() }]);
        let other = fixtures::subscription("other").key;
        assert_eq!(tables.jobs(&other).await.expect("jobs"), []);
        assert_eq!(tables.job(&other, stored.id).await.expect("an answer"), None);
    }
}
