//! Writes of topics and event subscriptions: transactions, and why they were cancelled.

use gridpost_aws::configuration::ConfigurationTable;
use gridpost_core::{
    fixtures,
    secret::Secret,
    subscription::{Endpoint, EventSubscription},
    topic::Topic,
};
use gridpost_ports::{
    Configuration, PortError, Saved, SubscriptionSecrets, SubscriptionStore, TopicKeys, TopicStore,
};
use serde_json::{Value, json};

use super::replay::{Answer, Replay, error, ok, refusal};

fn table(replay: &Replay) -> ConfigurationTable {
    ConfigurationTable::new(replay.clients().dynamodb(), "config".to_owned())
}

fn cancelled(reasons: &[&str]) -> Answer {
    let reasons: Vec<_> = reasons.iter().map(|code| json!({"Code": code})).collect();
    let code = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
    refusal(400, json!({"__type": code, "Message": "cancelled", "CancellationReasons": reasons}))
}

async fn writes(table: &ConfigurationTable) -> [Result<Saved, PortError>; 5] {
    let (topic, one) = (fixtures::topic(), fixtures::subscription("s"));
    let new = Topic { revision: 0, ..fixtures::topic() };
    [
        TopicStore::save(table, &new, Some(&fixtures::access_keys())).await,
        TopicStore::save(table, &topic, None).await,
        TopicStore::delete(table, &topic).await,
        SubscriptionStore::save(table, &topic, &one).await,
        SubscriptionStore::delete(table, &topic, &["s".to_owned()]).await,
    ]
}

#[tokio::test(start_paused = true)]
async fn only_a_lost_race_is_a_conflict() {
    let table_of_answers: [(&str, Answer, Option<Saved>); 8] = [
        ("written", ok(json!({})), Some(Saved::Written)),
        ("condition", cancelled(&["ConditionalCheckFailed", "None"]), Some(Saved::Conflict)),
        ("at the same moment", cancelled(&["None", "TransactionConflict"]), Some(Saved::Conflict)),
        ("throttled", cancelled(&["ThrottlingError", "None"]), None),
        ("too large", cancelled(&["None", "ItemCollectionSizeLimitExceeded"]), None),
        ("no reason", cancelled(&[]), None),
        ("throttled whole", error(400, "x#ProvisionedThroughputExceededException"), None),
        ("not allowed", error(400, "x#AccessDeniedException"), None),
    ];
    for (row, answer, want) in table_of_answers {
        for (number, saved) in writes(&table(&Replay::always(answer))).await.into_iter().enumerate()
        {
            assert_eq!(saved.ok(), want, "{row}, write {number}");
        }
    }
}

/// Each transaction writes the topic's revision, on the condition that it is unchanged.
#[tokio::test(start_paused = true)]
async fn every_write_names_what_it_was_decided_on() {
    let replay = Replay::always(ok(json!({})));
    let written = writes(&table(&replay)).await;
    assert!(written.iter().all(Result::is_ok), "{written:?}");
    let asked = replay.asked();
    let unchanged = "revision = :revision AND createdAt = :created";
    let wanted = ["attribute_not_exists(pk)", unchanged, unchanged, unchanged, unchanged];
    for (asked, want) in asked.iter().zip(wanted) {
        let items = asked.body["TransactItems"].as_array().expect("items");
        let calls = items.iter().flat_map(|item| item.as_object().expect("a call").values());
        let of_topic = calls.filter(|call| {
            let key = if call["Item"].is_null() { &call["Key"] } else { &call["Item"] };
            key["pk"] == json!({"S": "TOPIC#t"}) && key["sk"] == json!({"S": "topic"})
        });
        let conditions: Vec<_> = of_topic.map(|call| call["ConditionExpression"].clone()).collect();
        assert_eq!(conditions, [Value::from(want)], "{}", asked.body);
    }
}

/// A topic's keys and its place in lists come and go with it.
#[tokio::test(start_paused = true)]
async fn a_topic_comes_and_goes_with_its_keys_and_its_name() {
    let replay = Replay::always(ok(json!({})));
    let written = writes(&table(&replay)).await;
    assert!(written.iter().all(Result::is_ok), "{written:?}");
    let asked = replay.asked();
    let places = |at: usize| {
        let items = asked[at].body["TransactItems"].as_array().expect("items").iter();
        let calls = items.flat_map(|item| item.as_object().expect("a call").values().cloned());
        let keys = calls.map(|call| {
            let key = if call["Item"].is_null() { &call["Key"] } else { &call["Item"] };
            format!("{} {}", key["pk"]["S"].as_str().expect("a key"), key["sk"]["S"])
        });
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        keys
    };
    let all = [r#"KEYS#t "keys""#, r#"TOPIC#t "topic""#, r#"TOPICS "t""#];
    assert_eq!(places(0), all);
    assert_eq!(places(1), [all[1]], "a change of a topic has nothing to do with its keys");
    assert_eq!(places(2), all);
    let of_one = [r#"SECRETS#t "subscription#s""#, r#"TOPIC#t "subscription#s""#, all[1]];
    assert_eq!(places(3), of_one);
    assert_eq!(places(4), of_one, "one goes with its secrets");
}

/// Who may read `TOPIC#t` reads no secret. Both items have one revision, and change together.
#[tokio::test(start_paused = true)]
async fn secrets_are_written_apart_in_the_same_transaction_and_removed_with_the_last() {
    let (topic, one) = (fixtures::topic(), fixtures::subscription("s"));
    let plain = Endpoint::WebHook { url: Secret::new("https://e.example/") };
    let plain = EventSubscription { endpoint: plain, ..one.clone() };
    let replay = Replay::always(ok(json!({})));
    for one in [&one, &plain] {
        let saved = SubscriptionStore::save(&table(&replay), &topic, one).await;
        assert_eq!(saved.expect("an answer"), Saved::Written);
    }
    let asked = replay.asked();
    let items = |at: usize| asked[at].body["TransactItems"].as_array().expect("items");
    let [document, secrets, _] = &items(0)[..] else { panic!("{}", asked[0].body) };
    let of = |put: &Value, pk: &str| {
        let item = &put["Put"]["Item"];
        assert_eq!((&item["pk"]["S"], &item["revision"]["N"]), (&json!(pk), &json!("2")));
        item["document"]["S"].as_str().expect("a document").contains("code=hush")
    };
    assert!(!of(document, "TOPIC#t") && of(secrets, "SECRETS#t"), "{}", asked[0].body);
    let removed = json!({"pk": {"S": "SECRETS#t"}, "sk": {"S": "subscription#s"}});
    assert_eq!(items(1)[1]["Delete"]["Key"], removed, "{}", asked[1].body);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_can_not_be_read_is_not_gone() {
    for answer in [
        error(400, "x#ProvisionedThroughputExceededException"),
        error(400, "x#AccessDeniedException"),
        error(500, "x#InternalServerError"),
        ok(json!({"Item": {"document": {"S": "{}"}, "revision": {"N": "1"}}})),
    ] {
        let replay = Replay::always(answer);
        assert!(table(&replay).topic("t").await.is_err());
        assert!(table(&replay).keys("t").await.is_err());
        assert!(table(&replay).written("t", Some(&["s"].into())).await.is_err());
        assert!(table(&replay).secrets("t", Some(&["s"].into())).await.is_err());
    }
    let replay = Replay::always(ok(json!({})));
    assert!(table(&replay).topic("t").await.expect("readable").is_none());
    assert!(table(&replay).keys("t").await.expect("readable").is_none());
    assert_eq!(table(&replay).written("t", Some(&["s"].into())).await.expect("readable").len(), 0);
    assert_eq!(table(&replay).secrets("t", Some(&["s"].into())).await.expect("readable").len(), 0);
    assert!(replay.asked().iter().all(|asked| asked.body["ConsistentRead"] == true));
}
