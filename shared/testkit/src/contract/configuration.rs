//! Topics and event subscriptions. Each function has empty tables.

use std::{collections::BTreeSet, sync::Arc};

use gridpost_core::{
    secret::Secret,
    subscription::{Endpoint, EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{Change, Topic},
};
use gridpost_ports::{
    Configuration, DELETED_AT_ONCE_MAX, Saved, SubscriptionSecrets, SubscriptionStore, TopicKeys,
    TopicStore, WithSecrets,
};

use crate::fixtures;

fn new_topic(name: &str) -> Topic {
    Topic { name: name.to_owned(), revision: 0, ..fixtures::topic() }
}

async fn read(tables: &impl Configuration, name: &str) -> Topic {
    tables.topic(name).await.expect("an answer").expect("a topic")
}

async fn write(tables: &impl SubscriptionStore, topic: &Topic, one: &EventSubscription) -> Saved {
    tables.save(topic, one).await.expect("an answer")
}

/// A write that is based on an outdated revision is refused: of the topic, its keys, or an event
/// subscription. So is one based on an earlier topic of that name.
pub async fn a_write_under_an_older_revision_of_a_topic_changes_nothing<T>(tables: &T)
where
    T: TopicStore + TopicKeys + SubscriptionStore + Configuration,
{
    let (topic, subscription) = (new_topic("t"), fixtures::subscription("s"));
    let keys = fixtures::access_keys();
    let save = async |topic: &Topic| {
        TopicStore::save(tables, topic, Some(&keys)).await.expect("an answer")
    };
    assert_eq!(tables.topic("t").await.expect("an answer"), None);
    assert_eq!(save(&topic).await, Saved::Written);
    assert_eq!(save(&topic).await, Saved::Conflict);
    assert_eq!(tables.keys("t").await.expect("keys"), Some((keys.clone(), 1)));
    let stored = read(tables, "t").await;
    assert_eq!(stored, topic.next([Change::Keys]));
    assert_eq!(write(tables, &topic, &subscription).await, Saved::Conflict);
    let another = Timestamp::from_millis(stored.created_at.as_millis() + 1);
    let recreated = Topic { created_at: another, ..stored.clone() };
    assert_eq!(write(tables, &recreated, &subscription).await, Saved::Conflict);
    assert_eq!(tables.subscriptions("t").await.expect("an answer"), []);
    assert_eq!(write(tables, &stored, &subscription).await, Saved::Written);
    let written = tables.written("t", None).await.expect("an answer");
    assert_eq!(written, [(subscription.split().0, 2)]);
    let names = BTreeSet::from(["other", "s"]);
    assert_eq!(tables.written("t", Some(&names)).await.expect("an answer"), written);
    let stale = stored;
    let deleted = SubscriptionStore::delete(tables, &stale, &["s".to_owned()]).await;
    assert_eq!(deleted.expect("an answer"), Saved::Conflict);
    assert_eq!(tables.written("t", None).await.expect("an answer"), written);
    assert_eq!(save(&stale).await, Saved::Conflict);
    assert_eq!(tables.keys("t").await.expect("keys"), Some((keys, 1)));
}

/// Event subscriptions come and go with revisions of their topic, as many at once as a call may name; the
/// topic goes with its keys.
pub async fn what_is_deleted_is_gone<T>(tables: &T)
where
    T: TopicStore + TopicKeys + SubscriptionStore + Configuration,
{
    let keys = fixtures::access_keys();
    let saved = TopicStore::save(tables, &new_topic("t"), Some(&keys)).await.expect("an answer");
    assert_eq!(saved, Saved::Written);
    for name in ["s2", "s1", "s3"] {
        let topic = read(tables, "t").await;
        assert_eq!(write(tables, &topic, &fixtures::subscription(name)).await, Saved::Written);
    }
    let all = tables.subscriptions("t").await.expect("an answer");
    let found: Vec<_> = all.iter().map(|one| one.key.name.as_str()).collect();
    assert_eq!(found, ["s1", "s2", "s3"], "in the order of their names");
    // Most of them are gone already.
    let names: Vec<_> = (2..).take(DELETED_AT_ONCE_MAX).map(|n| format!("s{n}")).collect();
    let topic = read(tables, "t").await;
    let deleted = SubscriptionStore::delete(tables, &topic, &names).await;
    assert_eq!(deleted.expect("an answer"), Saved::Written);
    let left = tables.written("t", None).await.expect("an answer");
    assert_eq!(
        left.iter().map(|(one, at)| (&one.key, *at)).collect::<Vec<_>>(),
        [(&all[0].key, 3)]
    );
    assert_eq!(tables.subscription(&all[1].key).await.expect("an answer"), None);
    let found = tables.subscription(&all[0].key).await.expect("an answer");
    assert_eq!(found.as_ref(), Some(&all[0]));
    let stale = topic;
    let topic = read(tables, "t").await;
    let deleted = SubscriptionStore::delete(tables, &topic, &["s1".to_owned()]).await;
    assert_eq!(deleted.expect("an answer"), Saved::Written);
    let deleted = TopicStore::delete(tables, &stale).await.expect("an answer");
    assert_eq!(deleted, Saved::Conflict);
    let topic = read(tables, "t").await;
    assert_eq!(topic.revision, 6, "each change counts");
    assert_eq!(TopicStore::delete(tables, &topic).await.expect("an answer"), Saved::Written);
    assert_eq!(tables.topic("t").await.expect("an answer"), None);
    assert_eq!(tables.keys("t").await.expect("an answer"), None);
    assert_eq!(tables.topics(None, 10).await.expect("topics"), []);
}

/// A topic and its event subscriptions are found, replaced and deleted in any spelling; what comes
/// back has the spelling that was written.
pub async fn names_are_found_in_any_spelling<T>(tables: &T)
where
    T: TopicStore + TopicKeys + SubscriptionStore + Configuration,
{
    let keys = fixtures::access_keys();
    let save = async |topic: &Topic| {
        TopicStore::save(tables, topic, Some(&keys)).await.expect("an answer")
    };
    let topic = new_topic("Orders-EU");
    assert_eq!(save(&topic).await, Saved::Written);
    assert_eq!(save(&new_topic("orders-eu")).await, Saved::Conflict, "there is one");
    let stored = read(tables, "ORDERS-eu").await;
    assert_eq!(stored.name, "Orders-EU");
    assert_eq!(tables.keys("oRDERS-EU").await.expect("keys"), Some((keys.clone(), 1)));
    let of = |name: &str| {
        let key = SubscriptionKey { topic: "Orders-EU".to_owned(), name: name.to_owned() };
        EventSubscription { key, ..fixtures::subscription(name) }
    };
    for name in ["Billing", "audit", "Copy"] {
        assert_eq!(
            write(tables, &read(tables, "Orders-EU").await, &of(name)).await,
            Saved::Written
        );
    }
    let names = async |topic: &str, names: Option<&BTreeSet<&str>>| -> Vec<String> {
        let found = tables.written(topic, names).await.expect("an answer");
        found.into_iter().map(|(one, _)| one.key.name).collect()
    };
    assert_eq!(names("orders-EU", None).await, ["audit", "Billing", "Copy"], "by folded names");
    assert_eq!(names("orders-EU", Some(&BTreeSet::from(["BILLING"]))).await, ["Billing"]);
    let other = SubscriptionKey { topic: "orders-eu".to_owned(), name: "bILLING".to_owned() };
    let found = tables.subscription(&other).await.expect("an answer").expect("it is there");
    assert_eq!(found.key.to_string(), "Orders-EU/Billing");
    let topic = read(tables, "orders-eu").await;
    let deleted = SubscriptionStore::delete(tables, &topic, &["BILLING".to_owned()]).await;
    assert_eq!(deleted.expect("an answer"), Saved::Written);
    assert_eq!(names("Orders-EU", None).await, ["audit", "Copy"]);
    let listed = tables.topics(Some("oRDERS"), 10).await.expect("topics");
    assert_eq!(listed.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["Orders-EU"]);
    assert_eq!(tables.topics(Some("oRDERS-eu"), 10).await.expect("topics"), []);
}

/// The secrets of an event subscription are stored apart from it, under the same revision; they are
/// replaced and deleted with it.
pub async fn secrets_are_apart_and_come_and_go_with_their_event_subscription<T>(tables: &Arc<T>)
where
    T: TopicStore + SubscriptionStore + SubscriptionSecrets + Configuration,
{
    let saved = TopicStore::save(&**tables, &new_topic("T"), Some(&fixtures::access_keys())).await;
    assert_eq!(saved.expect("an answer"), Saved::Written);
    let of = |name: &str, url: &str| EventSubscription {
        key: SubscriptionKey { topic: "T".to_owned(), name: name.to_owned() },
        endpoint: Endpoint::WebHook { url: Secret::new(url) },
        ..fixtures::subscription(name)
    };
    let with_secrets = WithSecrets(Arc::clone(tables));
    let secrets = async |names: Option<&BTreeSet<&str>>| -> Vec<(String, u64)> {
        let found = tables.secrets("t", names).await.expect("an answer");
        found.into_iter().map(|(name, (_, revision))| (name, revision)).collect()
    };
    let [first, second] = ["hush-1", "hush-2"].map(|key| format!("https://e.example/?k={key}"));
    for (name, url) in [("A", first.as_str()), ("B", &first), ("Plain", "https://e.example/")] {
        let written = write(&**tables, &read(&**tables, "T").await, &of(name, url)).await;
        assert_eq!(written, Saved::Written);
    }
    assert_eq!(secrets(None).await, [("a".to_owned(), 2), ("b".to_owned(), 3)]);
    let names = BTreeSet::from(["b", "plain", "gone"]);
    assert_eq!(secrets(Some(&names)).await, [("b".to_owned(), 3)]);
    for (one, _) in tables.written("T", None).await.expect("an answer") {
        let document = serde_json::to_string(&one).expect("JSON");
        assert!(!document.contains("hush"), "{document}");
    }
    let all = with_secrets.subscriptions("t").await.expect("an answer");
    assert_eq!(all, [of("A", &first), of("B", &first), of("Plain", "https://e.example/")]);

    let changed = of("b", &second);
    let saved = write(&**tables, &read(&**tables, "T").await, &changed).await;
    assert_eq!(saved, Saved::Written);
    let found = with_secrets.subscription(&changed.key).await.expect("an answer");
    assert_eq!(found, Some(changed));
    let saved = write(&**tables, &read(&**tables, "T").await, &of("A", "https://e.example/")).await;
    assert_eq!(saved, Saved::Written);
    assert_eq!(secrets(None).await, [("b".to_owned(), 5)], "the other one has none by now");
    let topic = read(&**tables, "T").await;
    let deleted = SubscriptionStore::delete(&**tables, &topic, &["B".to_owned()]).await;
    assert_eq!(deleted.expect("an answer"), Saved::Written);
    assert_eq!(secrets(None).await, []);
}

/// Topics are listed by name, some at a time.
pub async fn topics_are_listed_by_name<T: TopicStore>(tables: &T) {
    for name in ["b", "c", "a"] {
        let saved = tables.save(&new_topic(name), None).await.expect("an answer");
        assert_eq!(saved, Saved::Written);
    }
    let table: [(Option<&str>, usize, &[&str]); 5] = [
        (None, 10, &["a", "b", "c"]),
        (None, 2, &["a", "b"]),
        (Some("b"), 2, &["c"]),
        (Some("aa"), 1, &["b"]),
        (Some("c"), 2, &[]),
    ];
    for (after, most, want) in table {
        let topics = tables.topics(after, most).await.expect("topics");
        let names: Vec<_> = topics.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(names, want, "{most} behind {after:?}");
    }
}
