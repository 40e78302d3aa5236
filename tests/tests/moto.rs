//! The ports' contract on AWS's adapters and moto, another emulation of AWS than that of the end-to-end
//! cases: what holds on both is no mistake that one of them makes. Beside it, the limits that the emulator of the
//! end-to-end cases is given.
//!
//! It needs Python, so `tests/complete` runs it and `cargo test` does not.

#[path = "moto/fixture.rs"]
mod fixture;
#[path = "moto/quotas.rs"]
mod quotas;
#[path = "moto/server.rs"]
mod server;
#[path = "moto/signed.rs"]
mod signed;

use std::sync::Arc;

use gridpost_aws::{
    configuration::ConfigurationTable,
    parking::ParkingTable,
    s3::{PayloadBucket, S3Bucket},
    sqs::{QueueUrls, SqsQueues},
    state::StateTable,
};
use gridpost_core::time::Timestamp;
use gridpost_ports::PoisonQueue;
use gridpost_testkit::contract::{
    self, BUCKET, OF_MOTO, configuration, objects, parking, poison, publishes, queues, tables,
};

use fixture::{Fixture, clients, table};

#[tokio::test]
async fn what_is_sent_comes_back_until_it_is_deleted() {
    queues::what_is_sent_comes_back_until_it_is_deleted(&Fixture::new("sent").await).await;
}

#[tokio::test]
async fn messages_wait_for_their_time() {
    let (delayed, hidden) = tokio::join!(Fixture::new("delayed"), Fixture::new("hidden"));
    let (long, group, old) =
        tokio::join!(Fixture::new("long"), Fixture::new("group"), Fixture::new("old"));
    tokio::join!(
        queues::a_delayed_message_comes_in_its_time(&delayed),
        queues::a_hidden_message_waits_for_its_time(&hidden),
        queues::no_message_is_hidden_for_more_than_12_hours(&long),
        queues::messages_of_a_group_do_not_wait_for_each_other(&group),
        queues::what_is_too_old_is_forgotten(&old),
    );
}

#[tokio::test]
async fn queues_answer_for_each_message() {
    queues::what_a_queue_does_not_take_fails_alone(&Fixture::new("limits").await).await;
    let clients = clients().await;
    let url = format!("{}/123456789012/missing", server::url().await);
    let urls = QueueUrls { dispatch: url.clone(), poison: url, ..QueueUrls::default() };
    let missing = SqsQueues::new(clients.sqs(), urls);
    queues::a_queue_that_refuses_has_done_nothing(&missing).await;
    assert!(missing.receive(60).await.is_err(), "it is not empty");
    assert!(PoisonQueue::count(&missing).await.is_err(), "no number is known");
}

#[tokio::test]
async fn what_is_received_too_often_is_poison() {
    let fixture = Fixture::giving_up_after("worn", 2).await;
    poison::a_message_that_is_received_too_often_is_poison(&fixture, 2).await;
}

/// Tables of that name, empty: states, and what is parked in the same one.
async fn tables_of(name: &str) -> (StateTable, ParkingTable) {
    let clients = clients().await;
    let name = table(&clients, name).await;
    (StateTable::new(clients.dynamodb(), name.clone()), ParkingTable::new(clients.dynamodb(), name))
}

#[tokio::test]
async fn tables_tell_races_from_refusals() {
    let (states, _) = tables_of("races").await;
    tables::what_is_not_stored_is_not_found(&states).await;
    tables::one_of_those_that_write_at_once_has_written(&states).await;
    // By now both have been written under revision 0, and nothing under revision 3.
    tables::a_lost_race_is_a_conflict(&states).await;
    let clients = clients().await;
    let missing = StateTable::new(clients.dynamodb(), "missing".to_owned());
    tables::a_table_that_refuses_says_nothing(&missing).await;
    let missing = ParkingTable::new(clients.dynamodb(), "missing".to_owned());
    tables::a_table_that_refuses_parks_nothing(&missing).await;
}

#[tokio::test]
async fn states_healths_and_counts_are_kept() {
    let (states, _) = tables_of("states").await;
    tables::a_state_is_read_as_it_was_written(&states).await;
    tables::a_health_is_kept_under_its_uid(&states).await;
    tables::requests_are_counted_for_all(&states).await;
    let (states, _) = tables_of("waiting").await;
    tables::waiting_deliveries_are_found_by_their_place(&states).await;
    // It expired decades ago.
    let (states, _) = tables_of("expired").await;
    tables::what_has_expired_is_gone(&states, contract::state(7), async || (), OF_MOTO).await;
}

#[tokio::test]
async fn parked_deliveries_wait_for_wake() {
    let (_, parked) = tables_of("parked").await;
    parking::parked_deliveries_are_found_when_they_are_due(&parked).await;
    parking::a_lot_is_found_in_the_order_of_its_ends(&parked).await;
    parking::what_is_parked_again_is_not_removed(&parked, OF_MOTO).await;
    parking::how_far_wake_has_come_is_noted(&parked).await;
    let (states, parked) = tables_of("listed").await;
    parking::a_list_finds_each_parked_delivery_once(&states, &parked).await;
}

#[tokio::test]
async fn jobs_and_listeners_are_kept() {
    let clients = clients().await;
    let name = table(&clients, "jobs").await;
    let jobs = StateTable::new(clients.dynamodb(), name.clone());
    tables::jobs_are_kept_by_event_subscription(&jobs).await;
    tables::only_so_many_listen(&StateTable::new(clients.dynamodb(), name)).await;
}

#[tokio::test]
async fn publishes_are_recorded_under_their_keys() {
    let clients = clients().await;
    let empty = async |name| StateTable::new(clients.dynamodb(), table(&clients, name).await);
    let now = Timestamp::from_millis(1_795_248_000_000);
    publishes::a_record_is_written_under_its_revision(&empty("publishes").await, now).await;
    publishes::one_of_those_that_begin_at_once_has_begun(&empty("begun").await, now).await;
    let old = empty("replaced").await;
    publishes::what_has_expired_can_be_replaced(&old, now, async || ()).await;
    let missing = StateTable::new(clients.dynamodb(), "missing".to_owned());
    publishes::a_table_that_refuses_records_nothing(&missing).await;
}

#[tokio::test]
async fn configuration_is_written_under_its_revision() {
    let clients = clients().await;
    let empty =
        async |name| ConfigurationTable::new(clients.dynamodb(), table(&clients, name).await);
    configuration::topics_are_listed_by_name(&empty("topics").await).await;
    let one = empty("changes").await;
    configuration::a_write_under_an_older_revision_of_a_topic_changes_nothing(&one).await;
    configuration::what_is_deleted_is_gone(&empty("deletions").await).await;
    configuration::names_are_found_in_any_spelling(&empty("spellings").await).await;
    let one = Arc::new(empty("secrets").await);
    configuration::secrets_are_apart_and_come_and_go_with_their_event_subscription(&one).await;
}

#[tokio::test]
async fn buckets_keep_what_was_stored() {
    let clients = clients().await;
    let letters = S3Bucket::new(clients.s3());
    objects::a_missing_bucket_is_not_found(&letters).await;
    clients.s3().create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    objects::dead_letters_are_listed_by_name(&letters).await;
    objects::a_name_is_no_path(&letters).await;
    objects::a_list_has_a_thousand_names_at_most(&letters).await;
    let payloads = PayloadBucket::new(clients.clone(), "payloads".to_owned());
    objects::an_object_that_is_refused_is_an_error(&payloads).await;
    clients.s3().create_bucket().bucket("payloads").send().await.expect("a bucket");
    objects::an_object_that_is_not_there_is_none(&payloads).await;
    objects::payloads_are_found_by_name(&payloads).await;
}
