//! Topics and event subscriptions. Each function has empty tables.

use std::collections::BTreeSet;

use gridpost_core::{
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{Change, Topic},
};
use gridpost_ports::{
    Configuration, DELETED_AT_ONCE_MAX, Saved, SubscriptionStore, TopicKeys, TopicStore,
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
    assert_eq!(written, [(subscription.clone(), 2)]);
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
