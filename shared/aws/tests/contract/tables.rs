//! DynamoDB's items: conditions, refusals, unprocessed items.

use std::time::Duration;

use gridpost_aws::{parking::ParkingTable, state::StateTable};
use gridpost_core::{
    delivery::{
        queue::Queue,
        redrive::JobPhase,
        state::{DeliveryState, DeliveryStatus},
    },
    publish::idempotency::Record,
    retry::health::Health,
    time::Timestamp,
};
use gridpost_ports::{
    DeliveryStates, DueDeliveries, EndpointHealths, Kept, LateListeners, Listener, ParkingLot,
    PublishRecords, Redrives, RequestRates, Saved, WakeCursor,
};
use gridpost_testkit::contract;
use serde_json::{Value, json};
use uuid::Uuid;

use super::replay::{Answer, Replay, error, ok, refusal};

const CONDITION: &str = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";

/// DynamoDB's refusals: throttled table or account, internal failure, no permission, no table.
fn refusals() -> [Answer; 6] {
    [
        error(400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"),
        error(400, "com.amazonaws.dynamodb.v20120810#ThrottlingException"),
        error(400, "com.amazonaws.dynamodb.v20120810#RequestLimitExceeded"),
        error(500, "com.amazonaws.dynamodb.v20120810#InternalServerError"),
        error(400, "com.amazon.coral.service#AccessDeniedException"),
        error(400, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"),
    ]
}

fn states(replay: &Replay) -> StateTable {
    StateTable::new(replay.clients().dynamodb(), "state".to_owned())
}

fn parking(replay: &Replay) -> ParkingTable {
    ParkingTable::new(replay.clients().dynamodb(), "state".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_does_not_hold_is_a_conflict() {
    let replay = Replay::always(error(400, CONDITION));
    contract::tables::a_lost_race_is_a_conflict(&states(&replay)).await;
    let asked = replay.asked();
    assert_eq!(asked.len(), 3, "a conflict is asked for once");
    let condition = |at: usize| asked[at].body["ConditionExpression"].as_str();
    assert_eq!(condition(0), Some("attribute_not_exists(pk)"));
    assert_eq!(condition(1), Some("revision = :revision"));
    assert_eq!(asked[1].body["ExpressionAttributeValues"], json!({":revision": {"N": "3"}}));
    assert_eq!(asked[1].body["Item"]["revision"], json!({"N": "4"}));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_there_is_answered_by_the_write_that_met_it() {
    let now = Timestamp::from_millis(1_795_248_000_000);
    let (key, record) = contract::publishes::keyed("k", now);
    let document = serde_json::to_string(&record).expect("JSON");
    let item = json!({"document": {"S": document}, "revision": {"N": "3"}});
    let refused = json!({"__type": CONDITION, "message": "as recorded", "Item": item});
    let replay = Replay::always(refusal(400, refused));
    let kept = PublishRecords::save(&states(&replay), &key, &record).await.expect("an answer");
    assert_eq!(kept, Kept::Other(Some(Record { revision: 3, ..record.clone() })));
    let kept =
        PublishRecords::save(&states(&replay), &key, &Record { revision: 2, ..record }).await;
    assert!(kept.is_ok(), "{kept:?}");
    let asked = replay.asked();
    assert_eq!(asked.len(), 2, "what is stored came with the refusal");
    let (first, next) = (&asked[0].body, &asked[1].body);
    assert_eq!(first["Item"]["pk"]["S"], format!("PUBLISH#{}", key.as_str()));
    assert_eq!(first["ConditionExpression"], "attribute_not_exists(pk)");
    assert_eq!(first["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
    assert_eq!(first["Item"]["expiresAt"]["N"], "1795334400", "the end of its window");
    assert_eq!(next["ConditionExpression"], "revision = :revision");
    assert_eq!(next["Item"]["revision"], json!({"N": "3"}));
    let gone = Replay::always(error(400, CONDITION));
    let (key, record) = contract::publishes::keyed("k", now);
    let kept = PublishRecords::save(&states(&gone), &key, &Record { revision: 2, ..record }).await;
    assert_eq!(kept.expect("an answer"), Kept::Other(None), "deleted since it was read");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_refused_is_an_error_and_no_conflict() {
    for refusal in refusals() {
        let replay = Replay::always(refusal);
        contract::tables::a_table_that_refuses_says_nothing(&states(&replay)).await;
        contract::tables::a_table_that_refuses_parks_nothing(&parking(&replay)).await;
        contract::publishes::a_table_that_refuses_records_nothing(&states(&replay)).await;
        assert!(WakeCursor::load(&parking(&replay)).await.is_err());
        assert!(WakeCursor::save(&parking(&replay), 1).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_not_there_is_none() {
    let replay = Replay::always(ok(json!({})));
    contract::tables::what_is_not_stored_is_not_found(&states(&replay)).await;
    assert_eq!(WakeCursor::load(&parking(&replay)).await.expect("an answer"), None);
    for asked in replay.asked() {
        assert_eq!(asked.body["ConsistentRead"], true, "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_comes_back_as_it_was_written() {
    let written = Replay::of([ok(json!({}))]);
    let state = DeliveryState { revision: 6, ..contract::state(7) };
    let saved = DeliveryStates::save(&states(&written), &state).await;
    assert_eq!(saved.expect("written"), Saved::Written);
    let item = written.asked().remove(0).body["Item"].clone();
    let number = |name: &str| item[name]["N"].as_str().and_then(|text| text.parse::<i64>().ok());
    assert_eq!(number("expiresAt"), Some(state.forget_at().as_seconds()), "{item}");
    // It is in the index, under one of its event subscription's keys.
    assert_eq!(item["waitingFor"]["S"], json!(format!("{}#7", Uuid::from_u128(5))), "{item}");
    assert_eq!(item["waitingPlace"]["S"], json!(state.place()), "{item}");
    let read = Replay::of([ok(json!({"Item": item}))]);
    let loaded = DeliveryStates::load(&states(&read), state.id).await.expect("readable");
    assert_eq!(loaded, Some(DeliveryState { revision: 7, ..state }));
    let of_delivery =
        json!({"pk": {"S": format!("DELIVERY#{}", Uuid::from_u128(7))}, "sk": {"S": "-"}});
    assert_eq!(read.asked()[0].body["Key"], of_delivery);
}

/// An ended delivery leaves the index.
#[tokio::test(start_paused = true)]
async fn what_has_ended_waits_no_more() {
    for status in [DeliveryStatus::Ended, DeliveryStatus::Delivered] {
        let replay = Replay::of([ok(json!({}))]);
        let state = DeliveryState { status, ..contract::state(7) };
        DeliveryStates::save(&states(&replay), &state).await.expect("written");
        let item = replay.asked().remove(0).body["Item"].clone();
        assert!(item["waitingFor"].is_null() && item["waitingPlace"].is_null(), "{item}");
    }
}

/// An unreadable item is not an absent one.
#[tokio::test(start_paused = true)]
async fn an_item_that_can_not_be_read_is_an_error() {
    let items = [
        json!({"pk": {"S": "p"}, "sk": {"S": "-"}, "revision": {"N": "1"}}),
        json!({"document": {"S": "{"}, "revision": {"N": "1"}}),
        json!({"document": {"N": "1"}, "revision": {"N": "1"}}),
        json!({"document": {"S": "{}"}}),
    ];
    for item in items {
        let replay = Replay::of([ok(json!({"Item": item}))]);
        let loaded = DeliveryStates::load(&states(&replay), Uuid::from_u128(7)).await;
        assert!(loaded.is_err(), "{item}: {loaded:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_the_table() {
    let counted = |count: &str| ok(json!({"Attributes": {"requests": {"N": count}}}));
    let replay = Replay::of([counted("41"), ok(json!({})), counted("many")]);
    let table = states(&replay);
    let (uid, minute) = (Uuid::from_u128(5), 100);
    assert_eq!(table.count(uid, minute, 3).await.expect("a count"), 41);
    for _ in 0..2 {
        assert!(table.count(uid, minute, 3).await.is_err(), "no count is not nought");
    }
    let asked = replay.asked().remove(0).body;
    assert_eq!(asked["UpdateExpression"], "ADD requests :more SET expiresAt = :at");
    let values = json!({":more": {"N": "3"}, ":at": {"N": (100 * 60 + 86_400).to_string()}});
    assert_eq!(
        (&asked["ExpressionAttributeValues"], &asked["ReturnValues"]),
        (&values, &json!("UPDATED_NEW"))
    );
    assert_eq!(asked["Key"]["pk"]["S"], json!(format!("RATE#{uid}#100")));
}

fn deletions(asked: &Value) -> Vec<String> {
    let requests = asked["RequestItems"]["state"].as_array().into_iter().flatten();
    requests.map(|one| one["DeleteRequest"]["Key"]["sk"]["S"].to_string()).collect()
}

/// `BatchWriteItem` answers 200 even if it processed only some of its items.
#[tokio::test(start_paused = true)]
async fn what_was_not_come_to_is_deleted_again_and_alone() {
    let left = |ids: &[u128]| {
        let request = |id: &u128| {
            let key = json!({"pk": {"S": "p"}, "sk": {"S": Uuid::from_u128(*id).to_string()}});
            json!({"DeleteRequest": {"Key": key}})
        };
        let requests: Vec<_> = ids.iter().map(request).collect();
        ok(json!({"UnprocessedItems": {"state": requests}}))
    };
    let replay = Replay::of([left(&[2, 3]), left(&[3]), ok(json!({"UnprocessedItems": {}}))]);
    let parked: Vec<_> = (1..=3).map(contract::parked).collect();
    parking(&replay).remove_all(&parked).await.expect("deleted");
    let asked: Vec<_> = replay.asked().iter().map(|one| deletions(&one.body).len()).collect();
    assert_eq!(asked, [3, 2, 1]);
    let replay = Replay::always(left(&[3]));
    assert!(parking(&replay).remove_all(&parked).await.is_err());
    // A call takes 25.
    let replay = Replay::always(ok(json!({})));
    let parked: Vec<_> = (1..=60).map(contract::parked).collect();
    parking(&replay).remove_all(&parked).await.expect("deleted");
    let mut deleted: Vec<_> = replay.asked().iter().map(|it| deletions(&it.body)).collect();
    deleted.sort_by_key(Vec::len);
    assert_eq!(deleted.iter().map(Vec::len).collect::<Vec<_>>(), [10, 25, 25]);
    let mut all: Vec<_> = deleted.concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 60, "each of them");
}

/// Removing it needs the key with its due minute.
#[tokio::test(start_paused = true)]
async fn what_is_parked_comes_back_from_its_minute() {
    let written = Replay::of([ok(json!({})), ok(json!({}))]);
    let parked = contract::parked(7);
    parking(&written).park(&parked).await.expect("parked");
    ParkingLot::remove(&parking(&written), &parked).await.expect("removed");
    let asked = written.asked();
    let item = &asked[0].body["Item"];
    assert_eq!(item["pk"], json!({"S": "PARKED#1#7"}));
    assert!(item["expiresAt"].is_null(), "it is removed by our code alone: {item}");
    assert_eq!(asked[1].body["Key"], json!({"pk": item["pk"], "sk": item["sk"]}));
    let read = Replay::of([ok(json!({"Items": [item]}))]);
    let page = parking(&read).due_in(1, 7, None).await.expect("a page");
    assert_eq!((page.due, page.next), (vec![parked], None));
    let asked = read.asked().remove(0).body;
    assert_eq!(asked["ConsistentRead"], true);
    assert_eq!(asked["ExpressionAttributeValues"], json!({":pk": {"S": "PARKED#1#7"}}));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_written_by_one_and_remembered_for_a_long_time() {
    let job = contract::job(3);
    let replay = Replay::of([error(400, CONDITION), ok(json!({}))]);
    let table = states(&replay);
    assert_eq!(Redrives::save(&table, &job).await.expect("an answer"), Saved::Conflict);
    assert_eq!(Redrives::save(&table, &job).await.expect("an answer"), Saved::Written);
    let item = replay.asked().remove(1).body["Item"].clone();
    assert_eq!(item["expiresAt"]["N"], json!((400 * 86_400).to_string()), "400 days");
    let read = Replay::of([ok(json!({"Item": item})), ok(json!({}))]);
    let found = states(&read).job(&contract::key(), job.id).await.expect("readable");
    assert!(found.is_some_and(|it| (it.revision, it.phase) == (1, JobPhase::Counting)));
    assert!(states(&read).job(&contract::key(), job.id).await.expect("readable").is_none());
    for refusal in refusals() {
        let replay = Replay::always(refusal);
        assert!(Redrives::save(&states(&replay), &job).await.is_err(), "no conflict");
        assert!(states(&replay).job(&contract::key(), job.id).await.is_err());
        assert!(states(&replay).jobs(&contract::key()).await.is_err(), "not empty");
    }
}

#[tokio::test(start_paused = true)]
async fn who_lost_a_race_does_not_listen() {
    let now = Timestamp::from_millis(1_000);
    let until = now + Duration::from_secs(60);
    let listener = Listener { queue: Queue::Dispatch, id: Uuid::from_u128(1), until };
    let table = [(ok(json!({})), Some(true)), (error(400, CONDITION), Some(false))];
    for (answer, want) in table {
        let replay = Replay::of([ok(json!({})), answer]);
        let joined = states(&replay).join(listener, 1, now).await;
        assert_eq!(joined.ok(), want);
    }
    for refusal in refusals() {
        let joined = states(&Replay::always(refusal)).join(listener, 1, now).await;
        assert!(joined.is_err(), "{joined:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_health_is_kept_for_as_long_as_it_says_something() {
    let replay = Replay::of([ok(json!({}))]);
    let (key, uid) = (contract::key(), Uuid::from_u128(5));
    let saved = EndpointHealths::save(&states(&replay), &key, uid, &Health::default()).await;
    assert_eq!(saved.expect("written"), Saved::Written);
    let item = replay.asked().remove(0).body["Item"].clone();
    assert_eq!(item["pk"]["S"], json!(format!("HEALTH#{key}#{uid}")), "one of each creation");
}
