//! The fakes keep the contract of the ports, with and without faults.

use std::{collections::BTreeSet, sync::Arc};

use gridpost_core::{delivery::queue::Queue, retry::health::Health, time::Timestamp};
use gridpost_ports::{DeliveryStates, EndpointHealths, QueueSender, Saved};
use gridpost_testkit::{
    contract,
    deployment::Deployment,
    faults::{Faulty, Plan},
};

const NOW: Timestamp = Timestamp::from_millis(60_000);

/// A fake whose calls all fail before they take effect.
fn refusing<T: ?Sized>(world: &Deployment, port: &Arc<T>) -> Arc<Faulty<T>> {
    world.apart(port, Plan { calls_max: Some(0), ..Plan::default() })
}

#[tokio::test(start_paused = true)]
async fn queues_answer_for_each_message() {
    let world = Deployment::at(NOW);
    let faulty = world.apart(&world.queues, Plan::failing([4, 12]));
    contract::a_refused_message_fails_alone(&*faulty, 12, &[3, 11]).await;
    assert_eq!(world.queues.sent().len(), 10, "what is refused is not there");
    contract::a_queue_that_refuses_has_done_nothing(&*refusing(&world, &world.queues)).await;
    let answers = world.queues.send(Queue::Dispatch, contract::messages(2)).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn tables_tell_races_from_refusals() {
    let world = Deployment::at(NOW);
    contract::what_is_not_stored_is_not_found(&*world.tables).await;
    contract::a_table_that_refuses_says_nothing(&*refusing(&world, &world.tables)).await;
    contract::a_table_that_refuses_parks_nothing(&*refusing(&world, &world.tables)).await;
    contract::what_is_not_stored_is_not_found(&*world.tables).await;
    let saved = DeliveryStates::save(&*world.tables, &contract::state(7)).await;
    assert_eq!(saved.expect("written"), Saved::Written);
    let (key, uid) = (contract::key(), contract::state(7).subscription_uid);
    let saved = EndpointHealths::save(&*world.tables, &key, uid, &Health::default()).await;
    assert_eq!(saved.expect("written"), Saved::Written);
    contract::a_lost_race_is_a_conflict(&*world.tables).await;
}

#[tokio::test(start_paused = true)]
async fn buckets_tell_what_is_missing_from_what_is_refused() {
    let world = Deployment::at(NOW);
    contract::an_object_that_is_not_there_is_none(&*world.payloads).await;
    contract::an_object_that_is_refused_is_an_error(&*refusing(&world, &world.payloads)).await;
    let always = Timestamp::default()..NOW + std::time::Duration::from_secs(60);
    world.buckets.settings().refuses = vec![always];
    contract::a_bucket_that_refuses_is_unavailable(&*world.buckets).await;
    world.buckets.settings().refuses.clear();
    world.buckets.settings().missing = BTreeSet::from([contract::BUCKET.to_owned()]);
    contract::a_missing_bucket_is_not_found(&*world.buckets).await;
}
