//! Tables.

use std::time::Duration;

use gridpost_core::{
    delivery::{parking::Parked, state::DeliveryState},
    retry::health::Health,
    time::Timestamp,
    topic::Topic,
};
use gridpost_embedded::Tables;
use gridpost_ports::{
    Clock, Configuration, DeliveryStates, DueDeliveries, EndpointHealths, ParkedDeliveries,
    ParkingLot, Saved, SubscriptionStore, TopicStore, WakeCursor,
};
use gridpost_testkit::{
    contract::{self, OF_EMBEDDED, configuration, parking, publishes},
    fixtures,
};
use uuid::Uuid;

use super::fixture::Fixture;

async fn save(tables: &Tables, state: &DeliveryState) -> Saved {
    DeliveryStates::save(tables, state).await.expect("an answer")
}

#[tokio::test]
async fn tables_tell_races_from_refusals() {
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        contract::tables::what_is_not_stored_is_not_found(&*tables).await;
        assert_eq!(save(&tables, &contract::state(7)).await, Saved::Written);
        let (key, uid) = (contract::key(), contract::state(7).subscription_uid);
        let saved = EndpointHealths::save(&*tables, &key, uid, &Health::default()).await;
        assert_eq!(saved.expect("written"), Saved::Written);
        contract::tables::a_lost_race_is_a_conflict(&*tables).await;
        fixture.stores.close().await;
        contract::tables::a_table_that_refuses_says_nothing(&*tables).await;
        contract::tables::a_table_that_refuses_parks_nothing(&*tables).await;
    }
}

#[tokio::test]
async fn tables_keep_what_was_written() {
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        contract::tables::a_state_is_read_as_it_was_written(&*tables).await;
        contract::tables::a_health_is_kept_under_its_uid(&*tables).await;
        contract::tables::requests_are_counted_for_all(&*tables).await;
        contract::tables::only_so_many_listen(&*tables).await;
        contract::tables::jobs_are_kept_by_event_subscription(&*tables).await;
    }
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        contract::tables::waiting_deliveries_are_found_by_their_place(&*tables).await;
    }
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        contract::tables::one_of_those_that_write_at_once_has_written(&*tables).await;
    }
}

#[tokio::test]
async fn what_has_expired_is_gone() {
    for fixture in Fixture::both() {
        let (tables, state) = (fixture.stores.tables(), contract::state(7));
        let until = state.forget_at() + Duration::from_secs(2 * 24 * 60 * 60);
        let expire = async || fixture.clock.pass_s(until.since(fixture.clock.now()).as_secs());
        contract::tables::what_has_expired_is_gone(&*tables, state, expire, OF_EMBEDDED).await;
    }
}

#[tokio::test]
async fn publishes_are_recorded_under_their_keys() {
    for fixture in Fixture::both() {
        let (tables, now) = (fixture.stores.tables(), fixture.clock.now());
        publishes::a_record_is_written_under_its_revision(&*tables, now).await;
        publishes::one_of_those_that_begin_at_once_has_begun(&*tables, now).await;
        let expire = async || fixture.clock.pass_s(3 * 24 * 60 * 60);
        publishes::what_has_expired_can_be_replaced(&*tables, now, expire).await;
        fixture.stores.close().await;
        publishes::a_table_that_refuses_records_nothing(&*tables).await;
    }
}

#[tokio::test]
async fn parked_deliveries_wait_for_wake() {
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        parking::parked_deliveries_are_found_when_they_are_due(&*tables).await;
        parking::a_lot_is_found_in_the_order_of_its_ends(&*tables).await;
        parking::what_is_parked_again_is_not_removed(&*tables, OF_EMBEDDED).await;
        parking::how_far_wake_has_come_is_noted(&*tables).await;
    }
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        parking::a_list_finds_each_parked_delivery_once(&*tables, &*tables).await;
    }
}

/// On a fast clock, a row may be written after wake has read its minute.
#[tokio::test]
async fn wake_begins_at_what_lies_behind_it() {
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        let due = Timestamp::from_millis(7 * 60_000);
        let late = Parked { due, ..contract::parked(1) };
        let held = Parked { lot: Some(Uuid::from_u128(77)), ..contract::parked(2) };
        WakeCursor::save(&*tables, 9).await.expect("noted");
        for parked in [&late, &held] {
            tables.park(parked).await.expect("parked");
        }
        assert_eq!(WakeCursor::load(&*tables).await.expect("an answer"), Some(7));
        ParkingLot::remove(&*tables, &late).await.expect("removed");
        assert_eq!(WakeCursor::load(&*tables).await.expect("an answer"), Some(9));
    }
}

#[tokio::test]
async fn configuration_is_written_under_its_revision() {
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        configuration::topics_are_listed_by_name(&*tables).await;
    }
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        configuration::a_write_under_an_older_revision_of_a_topic_changes_nothing(&*tables).await;
    }
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        configuration::what_is_deleted_is_gone(&*tables).await;
    }
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        configuration::names_are_found_in_any_spelling(&*tables).await;
    }
    for fixture in Fixture::both() {
        let tables = fixture.stores.tables();
        configuration::secrets_are_apart_and_come_and_go_with_their_event_subscription(&tables)
            .await;
    }
}

#[tokio::test]
async fn a_table_that_fails_is_no_conflict() {
    let fixture = Fixture::on_disk();
    for table in ["states", "healths", "rates", "parked"] {
        fixture.tamper(&format!("ALTER TABLE {table} RENAME TO gone_{table}"));
    }
    let tables = fixture.stores.tables();
    contract::tables::a_table_that_refuses_says_nothing(&*tables).await;
    contract::tables::a_table_that_refuses_parks_nothing(&*tables).await;
}

#[tokio::test]
async fn a_parked_row_that_can_not_be_read_goes_on() {
    let fixture = Fixture::on_disk();
    let tables = fixture.stores.tables();
    let due = Timestamp::from_millis(3 * 60_000 + 30_000);
    let parked = Parked { due, body: "b".to_owned(), ..contract::parked(9) };
    tables.park(&parked).await.expect("parked");
    fixture.tamper("UPDATE parked SET document = '{}'");
    let found = ParkedDeliveries::find(&*tables, Uuid::from_u128(9), 3).await.expect("an answer");
    let found = found.expect("its message");
    assert_eq!((found.due_minute(), found.shard, found.body.as_str()), (3, 0, "b"));
    ParkingLot::remove(&*tables, &found).await.expect("removed");
    let page = tables.due_in(3, 1, None).await.expect("a page");
    assert!(page.due.is_empty() && page.next.is_none(), "it lay in partition 9 mod 8");
}

fn new_topic(name: &str) -> Topic {
    Topic { name: name.to_owned(), revision: 0, ..fixtures::topic() }
}

#[tokio::test]
async fn a_transaction_is_written_whole_or_not_at_all() {
    let fixture = Fixture::on_disk();
    let tables = fixture.stores.tables();
    TopicStore::save(&*tables, &new_topic("t"), None).await.expect("an answer");
    fixture.tamper(
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
