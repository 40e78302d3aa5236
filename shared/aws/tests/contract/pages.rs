//! Lists of DynamoDB: a short or empty page may not be the last.

use gridpost_aws::{configuration::ConfigurationTable, parking::ParkingTable, state::StateTable};
use gridpost_core::{
    delivery::state::{DeliveryState, DeliveryStatus},
    fixtures,
    time::Timestamp,
    topic::{Changes, Topic},
};
use gridpost_ports::{
    Configuration, DueDeliveries, ParkedDeliveries, Redrives, TopicStore, WaitingDeliveries,
};
use gridpost_testkit::contract;
use serde_json::{Value, json};
use uuid::Uuid;

use super::replay::{Answer, Replay, error, ok};

fn page(items: &[Value], next: Option<&str>) -> Answer {
    let mut page = json!({"Items": items, "Count": items.len()});
    if let Some(next) = next {
        page["LastEvaluatedKey"] = json!({"pk": {"S": "p"}, "sk": {"S": next}});
    }
    ok(page)
}

fn starts(replay: &Replay) -> Vec<Value> {
    replay.asked().iter().map(|it| it.body["ExclusiveStartKey"]["sk"]["S"].clone()).collect()
}

fn item(sort: &str, document: &impl serde::Serialize) -> Value {
    let document = serde_json::to_string(document).expect("JSON");
    json!({"pk": {"S": "p"}, "sk": {"S": sort}, "revision": {"N": "4"}, "document": {"S": document}})
}

#[tokio::test(start_paused = true)]
async fn every_job_of_every_page_is_found() {
    let of = |id: u128| item("j", &contract::job(id));
    let pages = [page(&[of(1)], Some("a")), page(&[], Some("b")), page(&[of(2), of(3)], None)];
    let replay = Replay::of(pages);
    let table = states(&replay);
    let found = table.jobs(&contract::key()).await.expect("all of them");
    let ids: Vec<_> = found.iter().map(|job| (job.id.as_u128(), job.revision)).collect();
    assert_eq!(ids, [(1, 4), (2, 4), (3, 4)]);
    assert_eq!(starts(&replay), [json!(null), json!("a"), json!("b")]);
    let replay = Replay::of([page(&[of(1)], Some("a")), error(400, "x#AccessDeniedException")]);
    let table = states(&replay);
    assert!(table.jobs(&contract::key()).await.is_err());
}

fn configuration(replay: &Replay) -> ConfigurationTable {
    ConfigurationTable::new(replay.clients().dynamodb(), "config".to_owned())
}

#[tokio::test(start_paused = true)]
async fn every_event_subscription_of_every_page_is_found() {
    let of = |name: &str| item(name, &fixtures::subscription(name));
    let pages =
        [page(&[of("a"), of("b")], Some("b")), page(&[], Some("c")), page(&[of("d")], None)];
    let replay = Replay::of(pages);
    let found = configuration(&replay).written("t", None).await.expect("all of them");
    let names: Vec<_> = found.iter().map(|(one, at)| (one.key.name.as_str(), *at)).collect();
    assert_eq!(names, [("a", 4), ("b", 4), ("d", 4)]);
    assert!(replay.asked().iter().all(|it| it.body["ConsistentRead"] == true));
    let replay = Replay::of([page(&[of("a")], Some("a")), error(400, "x#AccessDeniedException")]);
    assert!(configuration(&replay).written("t", None).await.is_err(), "half of them are not all");
}

#[tokio::test(start_paused = true)]
async fn topics_are_found_over_pages_of_names_that_are_gone() {
    let name = |name: &str| json!({"pk": {"S": "TOPICS"}, "sk": {"S": name}});
    let stored = |name: &str| {
        let topic = Topic { name: name.to_owned(), ..fixtures::topic() };
        let mut item = item("topic", &topic);
        item["changes"] = json!({"S": serde_json::to_string(&Changes::default()).expect("JSON")});
        ok(json!({"Item": item}))
    };
    let replay = Replay::of([
        page(&[name("a"), name("b")], Some("b")),
        stored("a"),
        ok(json!({})),
        page(&[name("c")], None),
        stored("c"),
    ]);
    let found = configuration(&replay).topics(None, 2).await.expect("two of them");
    assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(replay.asked().len(), 5);
}

fn states(replay: &Replay) -> StateTable {
    StateTable::new(replay.clients().dynamodb(), "state".to_owned())
}

fn named(number: u128) -> Value {
    let place = contract::state(number).place();
    let pk = format!("DELIVERY#{}", Uuid::from_u128(number));
    json!({"pk": {"S": pk}, "sk": {"S": "-"}, "waitingPlace": {"S": place}})
}

/// 16 keys of the index, the first with two pages, and states that DynamoDB processes later.
#[tokio::test(start_paused = true)]
async fn all_that_wait_are_found_whatever_is_throttled() {
    let state = |number| item("-", &contract::state(number));
    let ended = DeliveryState { status: DeliveryStatus::Ended, ..contract::state(2) };
    let left = json!({"state": {"Keys": [{"pk": {"S": "DELIVERY#3"}, "sk": {"S": "-"}}]}});
    let mut answers: Vec<_> = vec![page(&[named(1), named(2)], Some("x"))];
    answers.extend((0..15).map(|_| page(&[], None)));
    answers.push(page(&[named(3)], None));
    answers.push(ok(json!({
        "Responses": {"state": [state(1), item("-", &ended)]}, "UnprocessedKeys": left,
    })));
    answers.push(ok(json!({"Responses": {"state": [state(3)]}, "UnprocessedKeys": {}})));
    let replay = Replay::of(answers);
    let found = states(&replay).waiting(Uuid::from_u128(5), None, 10).await.expect("all of them");
    let ids: Vec<_> = found.iter().map(|state| state.id.as_u128()).collect();
    assert_eq!(ids, [1, 3], "one has ended since");
    let asked = replay.asked();
    let keys = |at: usize| asked[at].body["RequestItems"]["state"]["Keys"].as_array().map(Vec::len);
    assert_eq!((keys(17), keys(18)), (Some(3), Some(1)), "only what is left is asked for again");
}

#[tokio::test(start_paused = true)]
async fn states_that_are_never_come_to_are_an_error() {
    let left = json!({"state": {"Keys": [{"pk": {"S": "DELIVERY#1"}, "sk": {"S": "-"}}]}});
    let mut answers = vec![page(&[named(1)], None)];
    answers.extend((0..15).map(|_| page(&[], None)));
    answers.extend((0..4).map(|_| ok(json!({"Responses": {}, "UnprocessedKeys": left}))));
    let replay = Replay::of(answers);
    let found = states(&replay).waiting(Uuid::from_u128(5), None, 10).await;
    assert!(found.is_err(), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_counted_over_all_pages() {
    let count = |count: u32, next: Option<&str>| {
        let mut page = json!({"Count": count});
        if let Some(next) = next {
            page["LastEvaluatedKey"] = json!({"pk": {"S": "p"}, "sk": {"S": next}});
        }
        ok(page)
    };
    let mut answers = vec![count(5, Some("x"))];
    answers.extend((0..15).map(|_| count(1, None)));
    answers.extend([count(0, Some("y")), count(2, None)]);
    let replay = Replay::of(answers);
    let counted = WaitingDeliveries::count(&states(&replay), Uuid::from_u128(5), 100).await;
    assert_eq!((counted.expect("a count"), replay.asked().len()), (22, 18));
}

/// At most two entries of each key: the first is cut behind 2, the second one's 3 follows.
#[tokio::test(start_paused = true)]
async fn what_waits_is_counted_without_gaps() {
    let at = |number: u128, millis| DeliveryState {
        publish_time: Timestamp::from_millis(millis),
        ..contract::state(number)
    };
    let entry = |state: &DeliveryState| {
        let pk = format!("DELIVERY#{}", state.id);
        json!({"pk": {"S": pk}, "sk": {"S": "-"}, "waitingPlace": {"S": state.place()}})
    };
    let [one, two, three] = [at(1, 1_000), at(2, 3_600_000), at(3, 3_700_000)];
    let mut answers = vec![page(&[entry(&one), entry(&two)], None), page(&[entry(&three)], None)];
    answers.extend((0..14).map(|_| page(&[], None)));
    answers.push(ok(json!({"Responses": {"state": [item("-", &one), item("-", &two)]}})));
    let replay = Replay::of(answers);
    let tally = states(&replay).tally(Uuid::from_u128(5), None, 32).await.expect("a count");
    let hours: Vec<_> =
        tally.hours.iter().map(|(at, it)| (at.as_millis(), it.deliveries)).collect();
    assert_eq!((hours, tally.next), (vec![(0, 1), (3_600_000, 1)], Some(two.place())));
    let asked = replay.asked();
    let keys = asked[16].body["RequestItems"]["state"]["Keys"].as_array().map(Vec::len);
    assert_eq!(keys, Some(2), "what comes behind is not read");
}

/// A page of unreadable items has a next one.
#[tokio::test(start_paused = true)]
async fn a_page_without_anything_sound_is_not_the_last() {
    let unsound = json!({"pk": {"S": "PARKED#1#0"}, "sk": {"S": "a"}, "revision": {"N": "1"}});
    let parking =
        |replay: &Replay| ParkingTable::new(replay.clients().dynamodb(), "state".to_owned());
    let replay = Replay::of([page(std::slice::from_ref(&unsound), Some("a")), page(&[], None)]);
    let first = parking(&replay).due_in(1, 0, None).await.expect("a page");
    assert_eq!((first.due.len(), first.next.as_deref()), (0, Some("a")));
    let last = parking(&replay).due_in(1, 0, first.next).await.expect("a page");
    assert_eq!((last.due.len(), last.next), (0, None));
    assert_eq!(starts(&replay), [json!(null), json!("a")]);
    let replay = Replay::of([page(&[unsound], Some("a")), page(&[], None)]);
    let first = parking(&replay).list_after(None).await.expect("a page");
    assert_eq!((first.found.len(), first.next.is_some()), (0, true));
    let last = parking(&replay).list_after(first.next.as_ref()).await.expect("a page");
    assert_eq!((last.found.len(), last.next), (0, None));
    assert_eq!(starts(&replay), [json!(null), json!("a")]);
}
