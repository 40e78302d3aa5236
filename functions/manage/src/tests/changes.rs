//! Changes: patches, entity tags, and what changes nothing.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use gridpost_core::{subscription::EventSubscription, topic::Topic};
use gridpost_ports::{Configuration, PortError, SubscriptionSecrets, WithSecrets, WrittenSecrets};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Fixture, KEPT_FOR, S1, S1_DELETE, S1_GET, body, code, key, message, webhook};
use crate::Reply;

const S1_PATCH: &str = "PATCH /topics/demo/eventSubscriptions/s-1";

fn tag(reply: &Reply) -> String {
    let tag = reply.headers.iter().find(|(name, _)| *name == "etag");
    tag.map(|(_, value)| value.clone()).expect("an ETag")
}

fn modified(reply: &Reply) -> Value {
    body(reply)["systemData"]["lastModifiedAt"].clone()
}

async fn guarded(fixture: &Fixture, line: &str, header: (&str, &str), document: Value) -> Reply {
    fixture.send_with(line, &[header], document.to_string().into_bytes()).await
}

#[tokio::test(start_paused = true)]
async fn a_patch_changes_what_it_names_and_asks_only_a_new_endpoint() {
    let fixture = Fixture::with_subscription().await;
    let before = body(&fixture.call(S1_GET).await).clone();
    let (asked, uid) = (fixture.asked(), fixture.subscription_uid("s-1"));
    let patched = fixture
        .send(S1_PATCH, json!({"labels": ["a"], "retryPolicy": {"maxDeliveryAttempts": 3}}))
        .await;
    let mut want = before.clone();
    want["properties"]["labels"] = json!(["a"]);
    want["properties"]["retryPolicy"]["maxDeliveryAttempts"] = json!(3);
    want["systemData"]["lastModifiedAt"] = modified(&patched);
    assert_eq!((patched.status, body(&patched)), (200, &want));
    assert_eq!(fixture.call(S1_GET).await, patched);
    assert_eq!((fixture.asked(), fixture.subscription_uid("s-1")), (asked, uid));

    let patch =
        json!({"destination": {"properties": {"endpointUrl": "https://e.example/2?code=x"}}});
    let moved = fixture.send(S1_PATCH, patch).await;
    want["properties"]["destination"]["properties"]["endpointBaseUrl"] =
        json!("https://e.example/2");
    want["systemData"]["lastModifiedAt"] = modified(&moved);
    assert_eq!((moved.status, body(&moved)), (200, &want));
    assert_eq!((fixture.asked(), fixture.subscription_uid("s-1")), (asked + 1, uid));

    let topic =
        fixture.send("PATCH /topics/demo", json!({"properties": {"disableLocalAuth": true}})).await;
    assert_eq!(topic.status, 200);
    assert_eq!(body(&topic)["properties"]["disableLocalAuth"], true);
    assert_eq!(fixture.call("GET /topics/demo").await, topic);
    let refused = fixture
        .send("PATCH /topics/demo", json!({"properties": {"inputSchema": "CloudEventSchemaV1_0"}}))
        .await;
    assert_eq!((refused.status, code(&refused)), (409, "Conflict"));
    let refused = fixture.send("PATCH /topics/demo", json!({"colour": "red"})).await;
    assert_eq!((refused.status, code(&refused)), (400, "InvalidRequest"));
    assert!(message(&refused).contains("colour is not known"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn every_change_moves_the_time_of_the_last_one() {
    let fixture = Fixture::with_subscription().await;
    let made = fixture.call(S1_GET).await;
    let created = body(&made)["systemData"]["createdAt"].clone();
    assert_eq!(created, modified(&made));
    let mut before = made;
    tokio::time::sleep(KEPT_FOR).await;
    for (line, document) in [
        (S1_PATCH, json!({"signing": {"scheme": "StandardWebhooks"}})),
        ("POST /topics/demo/eventSubscriptions/s-1/rotateSigningSecret", json!({})),
        ("POST /topics/demo/eventSubscriptions/s-1/pause", json!({"timeToLiveRuns": true})),
        ("POST /topics/demo/eventSubscriptions/s-1/resume", json!({})),
    ] {
        assert_eq!(fixture.send(line, document).await.status, 200, "{line}");
        let after = fixture.call(S1_GET).await;
        assert!(modified(&after).as_str() > modified(&before).as_str(), "{line}");
        assert_eq!(body(&after)["systemData"]["createdAt"], created, "{line}");
        before = after;
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_writes_nothing_and_waits_all_the_same() {
    let fixture = Fixture::with_subscription().await;
    let revision = |fixture: &Fixture| fixture.topic("demo").map(|topic| topic.revision);
    let (read, asked, before) = (fixture.call(S1_GET).await, fixture.asked(), revision(&fixture));
    let rows = [
        (S1, body(&read).clone()),
        (S1, webhook("https://e.example/hook?code=hush")),
        (S1_PATCH, json!({})),
        (S1_PATCH, json!({"labels": null, "retryPolicy": {"maxDeliveryAttempts": 30}})),
    ];
    for (line, document) in rows {
        let began = Instant::now();
        assert_eq!(fixture.send(line, document).await, read, "{line}");
        assert_eq!(began.elapsed(), KEPT_FOR, "a repetition must not answer sooner");
    }
    let topic = fixture.call("GET /topics/demo").await;
    for (line, document) in
        [("PUT /topics/demo", body(&topic).clone()), ("PATCH /topics/demo", json!({}))]
    {
        assert_eq!(fixture.send(line, document).await, topic, "{line}");
    }
    assert_eq!((fixture.asked(), revision(&fixture)), (asked, before));
}

#[tokio::test(start_paused = true)]
async fn a_change_may_name_what_it_was_decided_on() {
    let fixture = Fixture::with_subscription().await;
    let (first, asked) = (tag(&fixture.call(S1_GET).await), fixture.asked());
    let topic = tag(&fixture.call("GET /topics/demo").await);
    let new = || webhook("https://e.example/new");
    let replaced = guarded(&fixture, S1, ("if-match", &first), new()).await;
    assert_eq!(replaced.status, 200);
    let second = tag(&replaced);
    assert_ne!(first, second);
    assert_eq!(tag(&fixture.call(S1_GET).await), second);
    assert_eq!(
        tag(&fixture.call("GET /topics/demo").await),
        topic,
        "the topic itself is as it was"
    );

    let other = "PUT /topics/demo/eventSubscriptions/s-2";
    let rows = [
        (S1, ("if-match", first.as_str())),
        (S1, ("if-none-match", "*")),
        (S1_PATCH, ("if-match", first.as_str())),
        (S1_DELETE, ("if-match", first.as_str())),
        (other, ("if-match", "*")),
        ("PUT /topics/demo", ("if-match", first.as_str())),
        ("PUT /topics/demo", ("if-none-match", "*")),
        ("PATCH /topics/demo", ("if-match", first.as_str())),
        ("DELETE /topics/demo", ("if-match", first.as_str())),
    ];
    let revision = fixture.topic("demo").map(|topic| topic.revision);
    for (line, header) in rows {
        let is_topic = line.ends_with("/demo");
        let document = match (is_topic, line.starts_with("PATCH")) {
            (false, false) => webhook("https://e.example/lost"),
            (false, true) => json!({"labels": ["lost"]}),
            (true, _) => json!({"properties": {"disableLocalAuth": true}}),
        };
        let refused = guarded(&fixture, line, header, document).await;
        assert_eq!((refused.status, code(&refused)), (412, "PreconditionFailed"), "{line}");
        assert!(message(&refused).contains("Nothing was written"), "{line}");
    }
    assert_eq!(fixture.topic("demo").map(|topic| topic.revision), revision);
    assert_eq!(tag(&fixture.call(S1_GET).await), second);
    assert_eq!(fixture.asked(), asked + 1, "nobody is asked for what is not written");

    assert_eq!(guarded(&fixture, other, ("if-none-match", "*"), new()).await.status, 201);
    assert_eq!(guarded(&fixture, S1_DELETE, ("if-match", &second), Value::Null).await.status, 200);
    assert_eq!(guarded(&fixture, S1_DELETE, ("if-match", &second), Value::Null).await.status, 204);
    let gone = guarded(&fixture, "DELETE /topics/demo", ("if-match", &topic), Value::Null).await;
    assert_eq!(gone.status, 200);
    assert_eq!(fixture.call(S1_DELETE).await.status, 204, "gone with its topic");
}

/// Two concurrent changes of the same version: one is refused.
#[tokio::test(start_paused = true)]
async fn of_two_writers_with_one_tag_one_is_told() {
    let fixture = Fixture::with_subscription().await;
    let read = tag(&fixture.call(S1_GET).await);
    // After both reads.
    fixture.interfere(3, |tables| {
        tables.change(&key("demo", "s-1"), |subscription| {
            subscription.etag = uuid::Uuid::from_u128(0xdead);
            subscription.labels = vec!["theirs".to_owned()];
        });
    });
    let made = fixture.made();
    let patch = json!({"labels": ["ours"]});
    let refused = guarded(&fixture, S1_PATCH, ("if-match", &read), patch).await;
    assert_eq!(fixture.made() - made, 5, "the write met another, and both are read again");
    assert_eq!((refused.status, code(&refused)), (412, "PreconditionFailed"));
    assert_eq!(body(&fixture.call(S1_GET).await)["properties"]["labels"], json!(["theirs"]));
}

/// A table in which the items with secrets were lost, as after a partial restore.
struct SecretsLost(Arc<dyn Configuration>);

#[async_trait]
impl Configuration for SecretsLost {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        self.0.topic(name).await
    }

    async fn written(
        &self,
        topic: &str,
        names: Option<&BTreeSet<&str>>,
    ) -> Result<Vec<(EventSubscription, u64)>, PortError> {
        self.0.written(topic, names).await
    }
}

#[async_trait]
impl SubscriptionSecrets for SecretsLost {
    async fn secrets(
        &self,
        _: &str,
        _: Option<&BTreeSet<&str>>,
    ) -> Result<WrittenSecrets, PortError> {
        Ok(WrittenSecrets::new())
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_lost_its_secrets_can_be_deleted() {
    for line in [S1_DELETE, "DELETE /topics/demo"] {
        let mut fixture = Fixture::with_subscription().await;
        let lost = SecretsLost(Arc::clone(&fixture.context.without_secrets));
        fixture.context.configuration = Arc::new(WithSecrets(Arc::new(lost)));
        assert_eq!(fixture.call(S1_GET).await.status, 503);
        assert_eq!(fixture.call(line).await.status, 200, "{line}");
        assert_eq!(fixture.call(S1_GET).await.status, 404, "{line}");
    }
}
