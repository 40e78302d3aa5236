//! Writes that the SDK repeats because their answer was lost, and topics that come again meanwhile.

use std::sync::Arc;

use async_trait::async_trait;
use gridpost_core::{
    delivery::redrive::Job,
    subscription::{EventSubscription, SubscriptionKey},
    topic::{AccessKeys, Topic},
};
use gridpost_ports::{PortError, Redrives, Saved, SubscriptionStore, TopicStore};
use serde_json::json;

use uuid::Uuid;

use super::{S1, S1_DELETE, body, fixture::Fixture, key, webhook};
use crate::Reply;

/// A store whose every write is made twice; only the second answer arrives.
struct Twice<S: ?Sized>(Arc<S>);

#[async_trait]
impl TopicStore for Twice<dyn TopicStore> {
    async fn topics(&self, after: Option<&str>, most: usize) -> Result<Vec<Topic>, PortError> {
        self.0.topics(after, most).await
    }

    async fn save(&self, topic: &Topic, keys: Option<&AccessKeys>) -> Result<Saved, PortError> {
        self.0.save(topic, keys).await?;
        self.0.save(topic, keys).await
    }

    async fn delete(&self, topic: &Topic) -> Result<Saved, PortError> {
        self.0.delete(topic).await?;
        self.0.delete(topic).await
    }
}

#[async_trait]
impl SubscriptionStore for Twice<dyn SubscriptionStore> {
    async fn save(&self, topic: &Topic, one: &EventSubscription) -> Result<Saved, PortError> {
        self.0.save(topic, one).await?;
        self.0.save(topic, one).await
    }

    async fn delete(&self, topic: &Topic, names: &[String]) -> Result<Saved, PortError> {
        self.0.delete(topic, names).await?;
        self.0.delete(topic, names).await
    }
}

#[async_trait]
impl Redrives for Twice<dyn Redrives> {
    async fn jobs(&self, of: &SubscriptionKey) -> Result<Vec<Job>, PortError> {
        self.0.jobs(of).await
    }

    async fn job(&self, of: &SubscriptionKey, id: Uuid) -> Result<Option<Job>, PortError> {
        self.0.job(of, id).await
    }

    async fn save(&self, job: &Job) -> Result<Saved, PortError> {
        self.0.save(job).await?;
        self.0.save(job).await
    }
}

fn tag(reply: &Reply) -> String {
    let tag = reply.headers.iter().find(|(name, _)| *name == "etag");
    tag.map(|(_, value)| value.clone()).expect("an ETag")
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_repeated_does_not_meet_itself() {
    let mut fixture = Fixture::new();
    fixture.context.topics = Arc::new(Twice(Arc::clone(&fixture.context.topics)));
    fixture.context.subscriptions = Arc::new(Twice(Arc::clone(&fixture.context.subscriptions)));
    let guarded = |line: &'static str, header: (&'static str, String), document| {
        let fixture = &fixture;
        async move {
            let headers = [(header.0, header.1.as_str())];
            fixture.send_with(line, &headers, json!(document).to_string().into_bytes()).await
        }
    };
    let any = || ("if-none-match", "*".to_owned());
    let topic = guarded("PUT /topics/demo", any(), json!({})).await;
    assert_eq!(topic.status, 201, "{topic:?}");
    let local = json!({"properties": {"disableLocalAuth": true}});
    let topic = guarded("PUT /topics/demo", ("if-match", tag(&topic)), local).await;
    assert_eq!(
        (topic.status, &body(&topic)["properties"]["disableLocalAuth"]),
        (200, &json!(true))
    );
    let created = guarded(S1, any(), webhook("https://e.example/1")).await;
    assert_eq!(created.status, 201, "{created:?}");
    let changed = guarded(S1, ("if-match", tag(&created)), webhook("https://e.example/2")).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!(fixture.asked(), 2, "each URL is asked once");
    let deleted = guarded(S1_DELETE, ("if-match", tag(&changed)), json!(null)).await;
    assert!(matches!(deleted.status, 200 | 204), "{deleted:?}");
    let deleted = guarded("DELETE /topics/demo", ("if-match", tag(&topic)), json!(null)).await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
}

/// A second rotation would throw away the secret that endpoints have.
#[tokio::test(start_paused = true)]
async fn a_signing_secret_is_rotated_once() {
    let mut fixture = Fixture::with_subscription().await;
    let mut signed = webhook("https://e.example/hook?code=hush");
    signed["properties"]["signing"] = json!({"scheme": "StandardWebhooks"});
    assert_eq!(fixture.send(S1, signed).await.status, 200);
    let route = |name: &str| format!("POST /topics/demo/eventSubscriptions/s-1/{name}");
    let before = fixture.call(&route("getSigningSecrets")).await;
    fixture.context.subscriptions = Arc::new(Twice(Arc::clone(&fixture.context.subscriptions)));
    let rotated = fixture.call(&route("rotateSigningSecret")).await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
    assert_eq!(body(&rotated)["previousSecret"], body(&before)["secret"]);
    assert_eq!(body(&fixture.call(&route("getSigningSecrets")).await), body(&rotated));
}

/// A redrive that is written twice is one job, and is begun.
#[tokio::test(start_paused = true)]
async fn a_redrive_is_begun_once() {
    let mut fixture = super::dead_letters::filled().await;
    fixture.context.redrives = Arc::new(Twice(Arc::clone(&fixture.context.redrives)));
    let s = "/topics/demo/eventSubscriptions/s-1";
    let begun = fixture.send(&format!("POST {s}/deadLetters:redrive"), json!({})).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let jobs = fixture.call(&format!("GET {s}/redrives")).await;
    let jobs = body(&jobs)["value"].as_array().cloned().expect("a list");
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["id"], body(&begun)["id"]);
    assert_eq!(fixture.sent().len(), 1, "it is worked at");
}

/// Between the read and the deletion, others delete the event subscription and create one of the same
/// name.
#[tokio::test(start_paused = true)]
async fn an_event_subscription_that_was_created_meanwhile_is_not_deleted() {
    let fixture = Fixture::with_subscription().await;
    let new = Uuid::from_u128(0xbeef);
    // The topic, the event subscription; then the deletion meets the change.
    fixture.interfere(3, move |tables| tables.change(&key("demo", "s-1"), |one| one.uid = new));
    let deleted = fixture.call(S1_DELETE).await;
    assert_eq!(deleted.status, 200, "the one that was asked for is gone");
    assert_eq!(fixture.subscription_uid("s-1"), Some(new), "the new one stays");
}

/// Others change the topic after the check: the deletion must not hit the changed topic.
#[tokio::test(start_paused = true)]
async fn a_topic_that_was_changed_meanwhile_is_not_deleted() {
    let fixture = Fixture::with_subscription().await;
    let topic = fixture.topic("demo").expect("demo");
    let etag = format!("\"{}\"", topic.etag);
    let changed = Topic { etag: Uuid::from_u128(0xbeef), revision: topic.revision + 1, ..topic };
    // The topic, its event subscriptions; then their deletion meets the change.
    fixture.interfere(3, move |tables| {
        let all = tables.stored_subscriptions();
        tables.configure(changed, all);
    });
    let refused =
        fixture.send_with("DELETE /topics/demo", &[("if-match", &etag)], Vec::new()).await;
    assert_eq!(refused.status, 412, "{refused:?}");
    assert!(fixture.topic("demo").is_some() && fixture.subscription_uid("s-1").is_some());
}

/// After the first round, which deletes the event subscriptions, others delete the topic and create
/// one of the same name.
#[tokio::test(start_paused = true)]
async fn a_topic_that_was_created_meanwhile_is_not_deleted() {
    let fixture = Fixture::with_subscription().await;
    let old = fixture.topic("demo").expect("demo");
    let created_at = old.created_at + std::time::Duration::from_secs(1);
    let new = Topic { created_at, revision: 1, ..old.clone() };
    let again = new.clone();
    // The topic, its event subscriptions, their deletion; then the topic again.
    fixture.interfere(4, move |tables| tables.configure(again, Vec::new()));
    let deleted = fixture.call("DELETE /topics/demo").await;
    assert_eq!(deleted.status, 200, "the one that was asked for is gone");
    let stays = fixture.topic("demo").expect("the new one stays");
    assert_eq!(stays.created_at, created_at);
}
