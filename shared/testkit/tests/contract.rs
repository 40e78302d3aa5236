//! The fakes keep the contract of the ports, with and without faults.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{delivery::queue::Queue, retry::health::Health, time::Timestamp};
use gridpost_ports::{Clock, DeliveryStates, EndpointHealths, QueueSender, Saved};
use gridpost_testkit::{
    contract::{
        self, Difference, OF_FAKES, configuration, objects, parking, poison, publishes,
        queues::{self, QueueFixture},
        tables,
    },
    deployment::Deployment,
    faults::{Faulty, Plan},
    queue::{QueueSettings, Queues},
    stores::Handed,
};

const NOW: Timestamp = Timestamp::from_millis(60_000);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A fake whose calls all fail before they take effect.
fn refusing<T: ?Sized>(fixture: &Deployment, port: &Arc<T>) -> Arc<Faulty<T>> {
    fixture.apart(port, Plan { calls_max: Some(0), ..Plan::default() })
}

#[async_trait]
impl QueueFixture for Fixture {
    type Queues = Queues;

    const DIFFERS: &'static [Difference] = OF_FAKES;

    const MESSAGE_BYTES_MAX: usize = QueueSettings::CALM.message_bytes_max;

    fn queues(&self) -> Arc<Queues> {
        Arc::clone(&self.0.queues)
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    fn visibility(&self) -> Duration {
        QueueSettings::CALM.visibility
    }

    fn retention(&self) -> Duration {
        14 * DAY
    }

    async fn receive(&self, queue: Queue, most: usize) -> Vec<Handed> {
        // It waits for messages, which the fixture's other hands would send.
        let received = self.0.queues.receive(queue, most);
        let received = tokio::time::timeout(Duration::from_millis(1), received).await;
        let handed = received.unwrap_or_default().into_iter().map(|message| Handed {
            message_id: message.message_id,
            receipt: message.receipt,
            body: message.body,
            count: message.count,
        });
        handed.collect()
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Fakes that behave as well as AWS can.
struct Fixture(Deployment);

impl Fixture {
    fn new() -> Self {
        Self(Deployment::at(NOW))
    }
}

#[tokio::test(start_paused = true)]
async fn queues_answer_for_each_message() {
    let fixture = Deployment::at(NOW);
    let faulty = fixture.apart(&fixture.queues, Plan::failing([4, 12]));
    queues::a_refused_message_fails_alone(&*faulty, 12, &[3, 11]).await;
    assert_eq!(fixture.queues.sent().len(), 10, "what is refused is not there");
    queues::a_queue_that_refuses_has_done_nothing(&*refusing(&fixture, &fixture.queues)).await;
    let answers = fixture.queues.send(Queue::Dispatch, contract::messages(2)).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    queues::what_a_queue_does_not_take_fails_alone(&Fixture::new()).await;
}

#[tokio::test(start_paused = true)]
async fn queues_keep_messages_until_their_time_or_their_deletion() {
    queues::what_is_sent_comes_back_until_it_is_deleted(&Fixture::new()).await;
    queues::a_delayed_message_comes_in_its_time(&Fixture::new()).await;
    queues::a_hidden_message_waits_for_its_time(&Fixture::new()).await;
    queues::no_message_is_hidden_for_more_than_12_hours(&Fixture::new()).await;
    queues::messages_of_a_group_do_not_wait_for_each_other(&Fixture::new()).await;
    queues::what_is_too_old_is_forgotten(&Fixture::new()).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_received_too_often_is_poison() {
    let settings = QueueSettings { receives_max: 2, ..QueueSettings::CALM };
    let fixture = Fixture(Deployment::with_queues(NOW, settings));
    poison::a_message_that_is_received_too_often_is_poison(&fixture, 2).await;
}

#[tokio::test(start_paused = true)]
async fn tables_tell_races_from_refusals() {
    let fixture = Deployment::at(NOW);
    tables::what_is_not_stored_is_not_found(&*fixture.tables).await;
    tables::a_table_that_refuses_says_nothing(&*refusing(&fixture, &fixture.tables)).await;
    tables::a_table_that_refuses_parks_nothing(&*refusing(&fixture, &fixture.tables)).await;
    tables::what_is_not_stored_is_not_found(&*fixture.tables).await;
    let saved = DeliveryStates::save(&*fixture.tables, &contract::state(7)).await;
    assert_eq!(saved.expect("written"), Saved::Written);
    let (key, uid) = (contract::key(), contract::state(7).subscription_uid);
    let saved = EndpointHealths::save(&*fixture.tables, &key, uid, &Health::default()).await;
    assert_eq!(saved.expect("written"), Saved::Written);
    tables::a_lost_race_is_a_conflict(&*fixture.tables).await;
    tables::one_of_those_that_write_at_once_has_written(&*Deployment::at(NOW).tables).await;
}

#[tokio::test(start_paused = true)]
async fn tables_keep_what_was_written() {
    let tables = || Deployment::at(NOW).tables;
    tables::a_state_is_read_as_it_was_written(&*tables()).await;
    tables::a_health_is_kept_under_its_uid(&*tables()).await;
    tables::requests_are_counted_for_all(&*tables()).await;
    tables::waiting_deliveries_are_found_by_their_place(&*tables()).await;
    tables::only_so_many_listen(&*tables()).await;
    tables::jobs_are_kept_by_event_subscription(&*tables()).await;
    parking::parked_deliveries_are_found_when_they_are_due(&*tables()).await;
    parking::a_lot_is_found_in_the_order_of_its_ends(&*tables()).await;
    parking::what_is_parked_again_is_not_removed(&*tables(), OF_FAKES).await;
    let both = tables();
    parking::a_list_finds_each_parked_delivery_once(&*both, &*both).await;
    parking::how_far_wake_has_come_is_noted(&*tables()).await;
    let state = contract::state(7);
    let expire = async || tokio::time::sleep(state.forget_at().since(NOW) + 2 * DAY).await;
    tables::what_has_expired_is_gone(&*tables(), state.clone(), expire, OF_FAKES).await;
}

#[tokio::test(start_paused = true)]
async fn publishes_are_recorded_under_their_keys() {
    let tables = || Deployment::at(NOW).tables;
    publishes::a_record_is_written_under_its_revision(&*tables(), NOW).await;
    publishes::one_of_those_that_begin_at_once_has_begun(&*tables(), NOW).await;
    let expire = async || tokio::time::sleep(3 * DAY).await;
    publishes::what_has_expired_can_be_replaced(&*tables(), NOW, expire).await;
    let fixture = Deployment::at(NOW);
    publishes::a_table_that_refuses_records_nothing(&*refusing(&fixture, &fixture.tables)).await;
}

#[tokio::test(start_paused = true)]
async fn configuration_is_written_under_its_revision() {
    let tables = || Deployment::at(NOW).tables;
    configuration::a_write_under_an_older_revision_of_a_topic_changes_nothing(&*tables()).await;
    configuration::what_is_deleted_is_gone(&*tables()).await;
    configuration::names_are_found_in_any_spelling(&*tables()).await;
    configuration::topics_are_listed_by_name(&*tables()).await;
    configuration::secrets_are_apart_and_come_and_go_with_their_event_subscription(&tables()).await;
}

#[tokio::test(start_paused = true)]
async fn buckets_tell_what_is_missing_from_what_is_refused() {
    let fixture = Deployment::at(NOW);
    objects::an_object_that_is_not_there_is_none(&*fixture.payloads).await;
    objects::an_object_that_is_refused_is_an_error(&*refusing(&fixture, &fixture.payloads)).await;
    let always = Timestamp::default()..NOW + Duration::from_secs(60);
    fixture.buckets.settings().refuses = vec![always];
    objects::a_bucket_that_refuses_is_unavailable(&*fixture.buckets).await;
    fixture.buckets.settings().refuses.clear();
    fixture.buckets.settings().missing = BTreeSet::from([contract::BUCKET.to_owned()]);
    objects::a_missing_bucket_is_not_found(&*fixture.buckets).await;
}

#[tokio::test(start_paused = true)]
async fn buckets_keep_what_was_stored() {
    let fixture = Deployment::at(NOW);
    objects::dead_letters_are_listed_by_name(&*fixture.buckets).await;
    objects::a_name_is_no_path(&*fixture.buckets).await;
    objects::a_list_has_a_thousand_names_at_most(&*fixture.buckets).await;
    objects::payloads_are_found_by_name(&*fixture.payloads).await;
}
