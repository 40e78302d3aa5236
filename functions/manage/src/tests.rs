//! The resource API over a store that behaves like the table.

mod answers;
mod changes;
mod dead_letters;
mod deliveries;
mod fixture;
mod gate;
mod health;
mod journal;
mod letters;
mod names;
mod openapi;
mod pages;
mod parked;
mod pauses;
mod poison;
mod redrives;
mod refusals;
mod repeated;
mod resources;
mod signatures;
mod terraform;
mod tokens;
mod trial;
mod validation;

use std::time::Duration;

use gridpost_core::{subscription::SubscriptionKey, time::Timestamp, topic::Topic};
use gridpost_testkit::consent::ConsentAnswer;
use http::{Method, header::RETRY_AFTER};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::fixture::{Fixture, KEPT_FOR, create, touch};
use crate::{Reply, TRIES_MAX};

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

const S1: &str = "PUT /topics/demo/eventSubscriptions/s-1";
const S1_GET: &str = "GET /topics/demo/eventSubscriptions/s-1";
const S1_DELETE: &str = "DELETE /topics/demo/eventSubscriptions/s-1";

fn key(topic: &str, name: &str) -> SubscriptionKey {
    SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() }
}

fn webhook(url: &str) -> Value {
    json!({"properties": {"destination":
        {"endpointType": "WebHook", "properties": {"endpointUrl": url}}}})
}

fn body(reply: &Reply) -> &Value {
    reply.body.as_ref().expect("a document")
}

fn message(reply: &Reply) -> &str {
    body(reply)["error"]["message"].as_str().expect("a message")
}

fn code(reply: &Reply) -> &str {
    body(reply)["error"]["code"].as_str().expect("a code")
}

#[tokio::test(start_paused = true)]
async fn a_topic_lives_and_goes() {
    let fixture = Fixture::new();
    let created = fixture.call("PUT /topics/demo").await;
    let want = json!({
        "id": "/topics/demo", "name": "demo", "type": "Gridpost/topics", "kind": "custom",
        "properties": {
            "inputSchema": "EventGridSchema", "disableLocalAuth": false, "deliveryProfile": "basic",
            "endpoint": "https://publish.example/topics/demo/api/events",
            "provisioningState": "Succeeded",
        },
    });
    assert_eq!((created.status, body(&created)), (201, &want));
    assert_eq!(fixture.call("GET /topics/demo").await, Reply { status: 200, ..created.clone() });
    assert_eq!(body(&fixture.call("GET /topics").await), &json!({"value": [want]}));

    let keys = body(&fixture.call("POST /topics/demo/listKeys").await).clone();
    assert_eq!(keys["key1"].as_str().map(str::len), Some(44), "32 bytes in base64");
    assert_ne!(keys["key1"], keys["key2"]);

    let mut changed = want.clone();
    changed["properties"]["disableLocalAuth"] = json!(true);
    changed["properties"]["deliveryProfile"] = json!("basic2021");
    let replaced = fixture.send("PUT /topics/demo", changed.clone()).await;
    assert_eq!((replaced.status, body(&replaced)), (200, &changed));
    assert_eq!(body(&fixture.call("POST /topics/demo/listKeys").await), &keys, "keys stay");

    assert_eq!(fixture.call("DELETE /topics/demo").await.status, 200);
    assert_eq!(fixture.call("DELETE /topics/demo").await.status, 204);
    assert_eq!(fixture.call("GET /topics/demo").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn one_key_is_replaced_and_the_other_stays() {
    let fixture = Fixture::with_subscription().await;
    let before = body(&fixture.call("POST /topics/demo/listKeys").await).clone();
    let reply = fixture.send("POST /topics/demo/regenerateKey", json!({"keyName": "key2"})).await;
    assert_eq!(reply.status, 200);
    assert_eq!(body(&reply)["key1"], before["key1"]);
    assert_ne!(body(&reply)["key2"], before["key2"]);
    assert_eq!(fixture.call("POST /topics/demo/listKeys").await, reply);
    let refused = fixture.send("POST /topics/demo/regenerateKey", json!({"keyName": "k"})).await;
    assert_eq!(refused.status, 400);
    assert!(message(&refused).contains("keyName must be 'key1' or 'key2'"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn what_hangs_on_a_topic_limits_its_changes() {
    let fixture = Fixture::with_subscription().await;
    let table = [
        (json!({"kind": "namespace"}), "kind", "The kind of a topic can't change"),
        (
            json!({"properties": {"inputSchema": "CloudEventSchemaV1_0"}}),
            "properties.inputSchema",
            "The inputSchema of a topic can't change",
        ),
        (
            json!({"properties": {"deliveryProfile": "namespace"}}),
            "properties.deliveryProfile",
            "at most 10 attempts and 10080 minutes of time-to-live; the retry policies of 1 event \
             subscriptions ask for more, first s-1",
        ),
    ];
    let before = fixture.topic("demo");
    for (document, target, rule) in table {
        let refused = fixture.send("PUT /topics/demo", document).await;
        assert_eq!((refused.status, code(&refused)), (409, "Conflict"));
        assert_eq!(body(&refused)["error"]["details"][0]["target"], target);
        assert!(message(&refused).contains(rule), "{refused:?}");
    }
    assert_eq!(fixture.topic("demo"), before, "nothing was stored");
    // A policy within the other profile's ranges is no obstacle.
    let mut document = webhook("https://e.example/hook?code=hush");
    document["properties"]["retryPolicy"] = json!({"maxDeliveryAttempts": 10});
    assert_eq!(fixture.send(S1, document).await.status, 200);
    let profile = json!({"properties": {"deliveryProfile": "namespace"}});
    assert_eq!(fixture.send("PUT /topics/demo", profile).await.status, 200);
    let read = fixture.call(S1_GET).await;
    let policy = json!({"maxDeliveryCount": 10, "eventTimeToLive": "P1D"});
    assert_eq!(body(&read)["properties"]["retryPolicy"], policy);
}

#[tokio::test(start_paused = true)]
async fn an_event_subscription_lives_and_goes() {
    let fixture = Fixture::with_subscription().await;
    let uid = fixture.subscription_uid("s-1");
    assert_eq!(fixture.asked(), 1);
    let read = fixture.call(S1_GET).await;
    assert_eq!(read.status, 200);
    assert_eq!(body(&read)["id"], "/topics/demo/eventSubscriptions/s-1");
    let destination = &body(&read)["properties"]["destination"]["properties"];
    assert_eq!(destination["endpointBaseUrl"], "https://e.example/hook");
    assert!(!body(&read).to_string().contains("hush"));
    let list = fixture.call("GET /topics/demo/eventSubscriptions").await;
    assert_eq!(body(&list), &json!({"value": [body(&read)]}));
    let full = fixture.call("POST /topics/demo/eventSubscriptions/s-1/getFullUrl").await;
    assert_eq!(body(&full), &json!({"endpointUrl": "https://e.example/hook?code=hush"}));

    // Written back as read, it stays unchanged, and no endpoint is asked.
    let replaced = fixture.send(S1, body(&read).clone()).await;
    assert_eq!(replaced, read);
    assert_eq!((fixture.asked(), fixture.subscription_uid("s-1")), (1, uid));
    // Another URL, if only in its query, must consent. Another schema is another event subscription.
    assert_eq!(fixture.send(S1, webhook("https://e.example/hook?code=2")).await.status, 200);
    assert_eq!((fixture.asked(), fixture.subscription_uid("s-1")), (2, uid));
    let mut cloud_events = webhook("https://e.example/hook?code=2");
    cloud_events["properties"]["eventDeliverySchema"] = json!("CloudEventSchemaV1_0");
    assert_eq!(fixture.send(S1, cloud_events.clone()).await.status, 400);
    let s2 = "PUT /topics/demo/eventSubscriptions/s-2";
    assert_eq!(fixture.send(s2, cloud_events).await.status, 201);
    let asked = fixture.last_asked();
    assert_eq!(asked.method, Method::OPTIONS);
    assert_eq!(asked.headers[0], ("webhook-request-origin", "eventgrid.azure.net".to_owned()));

    assert_eq!(fixture.call(S1_DELETE).await.status, 200);
    assert_eq!(fixture.call(S1_DELETE).await.status, 204);
    assert_eq!(fixture.call(S1_GET).await.status, 404);
    assert_eq!(fixture.send(S1, webhook("https://e.example/hook?code=hush")).await.status, 201);
    assert_ne!(fixture.subscription_uid("s-1"), uid, "created again, it is another one");
}

#[tokio::test(start_paused = true)]
async fn without_consent_nothing_is_stored() {
    let fixture = Fixture::with_subscription().await;
    fixture.consent(ConsentAnswer::Denies);
    let before = body(&fixture.call(S1_GET).await).clone();
    let s2 = "PUT /topics/demo/eventSubscriptions/s-2";
    for line in [S1, s2] {
        let refused = fixture.send(line, webhook("https://other.example/h?code=hush")).await;
        assert_eq!((refused.status, code(&refused)), (400, "Endpoint validation"));
        let want = "The attempt to validate the provided endpoint https://other.example/h failed: \
                    it answered status 404; expected status 200 with the body";
        assert!(message(&refused).starts_with(want), "{refused:?}");
        assert!(!message(&refused).contains("hush"));
    }
    assert_eq!(body(&fixture.call(S1_GET).await), &before);
    assert_eq!(fixture.subscription_uid("s-2"), None);
}

#[tokio::test(start_paused = true)]
async fn a_refused_document_asks_nobody_and_stores_nothing() {
    let fixture = Fixture::with_subscription().await;
    let (asked, revision) = (fixture.asked(), fixture.topic("demo").map(|topic| topic.revision));
    let mut document = webhook("https://10.0.0.1/?code=hush");
    document["properties"]["retryPolicy"] = json!({"maxDeliveryAttempts": 31, "x": 1});
    let refused = fixture.send(S1, document).await;
    assert_eq!((refused.status, code(&refused)), (400, "InvalidRequest"));
    let details = body(&refused)["error"]["details"].as_array().expect("details").clone();
    let targets: Vec<_> = details.iter().filter_map(|detail| detail["target"].as_str()).collect();
    let want = [
        "properties.retryPolicy.maxDeliveryAttempts",
        "properties.retryPolicy.x",
        "properties.destination.properties.endpointUrl",
    ];
    assert_eq!(targets, want);
    assert!(!body(&refused).to_string().contains("hush"));
    assert_eq!(fixture.asked(), asked);
    assert_eq!(fixture.topic("demo").map(|topic| topic.revision), revision);
    // Where the deployment names the network, plain http to it is fine.
    assert_eq!(fixture.send(S1, webhook("http://127.0.0.1:9000/hook")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn requests_that_lead_nowhere() {
    let fixture = Fixture::with_subscription().await;
    let table = [
        ("GET /", 404, "ResourceNotFound", "There is nothing at '/'"),
        ("GET /topics/", 404, "ResourceNotFound", "There is nothing at"),
        ("GET /topics/demo/events", 404, "ResourceNotFound", "There is nothing at"),
        ("GET /topics/demo/eventSubscriptions/", 404, "ResourceNotFound", "nothing at"),
        ("GET /topics/demo/eventSubscriptions/s-1/x", 404, "ResourceNotFound", "nothing at"),
        ("GET /topics/none", 404, "ResourceNotFound", "There is no topic 'none'"),
        ("POST /topics/none/listKeys", 404, "ResourceNotFound", "no topic 'none'"),
        ("GET /topics/none/eventSubscriptions", 404, "ResourceNotFound", "no topic 'none'"),
        ("GET /topics/none/eventSubscriptions/s-1", 404, "ResourceNotFound", "no topic 'none'"),
        ("PUT /topics/none/eventSubscriptions/s-1", 404, "ResourceNotFound", "no topic 'none'"),
        ("PATCH /topics/none/eventSubscriptions/s-1", 404, "ResourceNotFound", "'none'"),
        ("PATCH /topics/demo/eventSubscriptions/none", 404, "ResourceNotFound", "'none'"),
        ("PATCH /topics/none", 404, "ResourceNotFound", "no topic 'none'"),
        (
            "GET /topics/demo/eventSubscriptions/none",
            404,
            "ResourceNotFound",
            "The topic 'demo' has no event subscription 'none'",
        ),
        (
            "POST /topics/demo/eventSubscriptions/none/getFullUrl",
            404,
            "ResourceNotFound",
            "no event subscription 'none'",
        ),
        ("PUT /topics/a b", 400, "InvalidRequest", "name must be 3 to 50 of A-Z, a-z, 0-9"),
        ("PUT /topics/System-1", 400, "InvalidRequest", "must not begin with System"),
        ("GET /topics/x%20", 400, "InvalidRequest", "as a topic's name, but is \"x%20\""),
        (
            "PUT /topics/demo/eventSubscriptions/s",
            400,
            "InvalidRequest",
            "name must be 2 to 64 of A-Z, a-z, 0-9 and '-', as an event subscription's name",
        ),
        ("POST /topics", 405, "MethodNotAllowed", "POST is not allowed here; allowed are GET"),
        ("POST /topics/demo", 405, "MethodNotAllowed", "allowed are PUT, GET, PATCH, DELETE"),
        ("GET /topics/demo/listKeys", 405, "MethodNotAllowed", "allowed are POST"),
        ("GET /poison/", 404, "ResourceNotFound", "There is nothing at '/poison/'"),
        ("GET /poison/a/b", 404, "ResourceNotFound", "/parked and /journalQueries"),
        ("DELETE /poison/m-1", 405, "MethodNotAllowed", "allowed are GET"),
        ("GET /parked:release", 405, "MethodNotAllowed", "allowed are POST"),
    ];
    for (line, status, want_code, rule) in table {
        let reply = fixture.call(line).await;
        assert_eq!((reply.status, code(&reply)), (status, want_code), "{line}");
        assert!(message(&reply).contains(rule), "{line}: {}", message(&reply));
        let allow = reply.headers.iter().any(|(name, _)| *name == "allow");
        assert_eq!(allow, status == 405, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_no_documents() {
    let fixture = Fixture::with_subscription().await;
    let table = [
        (b"{".to_vec(), 400, "InvalidJson", "EOF while parsing an object at line 1 column 1"),
        (b"{\"a\":1,\"a\":2}".to_vec(), 400, "InvalidJson", "member \"a\" stands twice"),
        (vec![0xff], 400, "InvalidJson", "the body is not a JSON document"),
        (Vec::new(), 400, "InvalidRequest", "properties is required"),
        (vec![b' '; 262_145], 413, "RequestEntityTooLarge", "262145 bytes, over the limit"),
    ];
    for (bytes, status, want_code, rule) in table {
        let reply = fixture.send_bytes(S1, bytes).await;
        assert_eq!((reply.status, code(&reply)), (status, want_code));
        assert!(message(&reply).contains(rule), "{}", message(&reply));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_answered_when_the_data_plane_has_seen_it() {
    let fixture = Fixture::with_subscription().await;
    let url = webhook("https://e.example/hook?code=hush");
    let table = [
        ("GET /topics/demo", json!({}), false),
        (S1_GET, json!({}), false),
        ("PUT /topics/demo", json!({"kind": 1}), false),
        (S1, json!({}), false),
        ("PUT /topics/demo", json!({}), true),
        (S1, url, true),
        (S1, webhook("https://e.example/other?code=hush"), true),
        ("PUT /topics/demo/eventSubscriptions/s-2", webhook("https://e.example/2"), true),
        ("DELETE /topics/demo/eventSubscriptions/s-2", json!({}), true),
        ("POST /topics/demo/regenerateKey", json!({"keyName": "key1"}), true),
        (S1_DELETE, json!({}), true),
        (S1_DELETE, json!({}), false),
        ("DELETE /topics/demo", json!({}), true),
        ("DELETE /topics/demo", json!({}), false),
    ];
    for (line, document, waits) in table {
        let began = Instant::now();
        fixture.send(line, document).await;
        let want = if waits { KEPT_FOR } else { Duration::ZERO };
        assert_eq!(began.elapsed().as_secs(), want.as_secs(), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_that_meet_are_decided_anew() {
    // After both reads and the handshake. One that has secrets is read twice.
    const SAVE: u64 = 4;
    let fixture = Fixture::with_subscription().await;
    let uid = fixture.subscription_uid("s-1");
    // The other writer's settings are not lost, and the endpoint is asked once.
    let (asked, made) = (fixture.asked(), fixture.made());
    fixture.interfere(SAVE + 1, touch);
    assert_eq!(fixture.send(S1, webhook("https://e.example/2")).await.status, 200);
    assert_eq!((fixture.asked() - asked, fixture.subscription_uid("s-1")), (1, uid));
    assert_eq!(fixture.made() - made, SAVE + 1 + 4, "the write met another");
    // Deleted meanwhile: it is created anew, under another identity.
    fixture.interfere(SAVE, |tables| {
        tables.configure(tables.stored_topics().remove(0), Vec::new());
    });
    assert_eq!(fixture.send(S1, webhook("https://e.example/4")).await.status, 201);
    assert_ne!(fixture.subscription_uid("s-1"), uid);
    // The topic is gone: nothing can be stored under it.
    fixture.interfere(SAVE, |tables| tables.forget_topic("demo"));
    assert_eq!(fixture.send(S1, webhook("https://e.example/3")).await.status, 404);
    assert_eq!(fixture.subscription_uid("s-1"), None);
}

#[tokio::test(start_paused = true)]
async fn endless_changes_of_others_end_in_a_conflict() {
    let fixture = Fixture::with_subscription().await;
    // The calls of each try, and those of the first one alone: the endpoint is asked once.
    let table =
        [("PUT /topics/demo", 2, 0), (S1, 4, 1), (S1_DELETE, 3, 0), ("DELETE /topics/demo", 3, 0)];
    for (line, of_each, of_first) in table {
        let made = fixture.made();
        // Immediately before each write.
        (1..=u64::from(TRIES_MAX))
            .for_each(|write| fixture.interfere(write * of_each + of_first, touch));
        let document = match line {
            S1 => webhook("https://e.example/hook?code=2"),
            _ => json!({"properties": {"disableLocalAuth": true}}),
        };
        let reply = fixture.send(line, document).await;
        assert_eq!((reply.status, code(&reply)), (409, "Conflict"), "{line}");
        assert!(message(&reply).contains("nothing was written"), "{line}");
        let want = u64::from(TRIES_MAX) * of_each + of_first;
        assert_eq!(fixture.made() - made, want, "{line}: so often, and no more");
    }
    assert!(fixture.subscription_uid("s-1").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_topic_goes_with_all_its_event_subscriptions_even_after_a_crash() {
    let fixture = Fixture::with_subscription().await;
    let many = (0..249).map(|index| format!("many-{index:03}"));
    fixture.fill(many.chain(["s-1".to_owned()]));
    let tables = &fixture.deployment.tables;
    let mut elsewhere = tables.stored_subscriptions().remove(0);
    elsewhere.key = key("other", "s-1");
    let other = Topic { name: "other".to_owned(), ..fixture.topic("demo").expect("demo") };
    tables.configure(other, vec![elsewhere]);
    // Dies after the first 49 are gone.
    fixture.fails_after(Some(3));
    let died = fixture.call("DELETE /topics/demo").await;
    assert_eq!((died.status, code(&died)), (503, "ServiceUnavailable"));
    assert!(died.headers.contains(&(RETRY_AFTER, "1".to_owned())));
    assert_eq!(tables.stored_subscriptions().len(), 251 - 49);
    assert!(fixture.topic("demo").is_some(), "the topic goes last");
    fixture.fails_after(None);
    // One that is created meanwhile goes too: just before the first are deleted, and just before the
    // topic is.
    let made = fixture.made();
    for (call, name) in [(3, "new-1"), (21, "new-2")] {
        fixture.interfere(call, move |tables| create(tables, name));
    }
    assert_eq!(fixture.call("DELETE /topics/demo").await.status, 200);
    let left = tables.stored_subscriptions();
    let left: Vec<_> = left.into_iter().map(|subscription| subscription.key).collect();
    assert_eq!(left, [key("other", "s-1")]);
    assert_eq!(fixture.topic("demo"), None);
    // Two writes conflicted; five deleted the rest, one the new one, one the topic.
    assert_eq!(fixture.made() - made, 3 * (2 + 5 + 1 + 1));
}

#[tokio::test(start_paused = true)]
async fn a_topic_takes_500_event_subscriptions() {
    let fixture = Fixture::with_subscription().await;
    let many = (0..499).map(|index| format!("many-{index:03}"));
    fixture.fill(many.chain(["s-1".to_owned()]));
    let one_more = "PUT /topics/demo/eventSubscriptions/one-more";
    let refused = fixture.send(one_more, webhook("https://e.example/")).await;
    assert_eq!(refused.status, 409);
    assert!(message(&refused).contains("has 500 event subscriptions, the most"), "{refused:?}");
    assert_eq!(fixture.send(S1, webhook("https://e.example/")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_table_that_fails_is_unavailable() {
    let fixture = Fixture::with_subscription().await;
    // The fourth call is the question, whose failure is the endpoint's.
    for (calls, want) in [(0, 503), (1, 503), (2, 503), (3, 400), (4, 503), (5, 200)] {
        fixture.fails_after(Some(calls));
        let reply = fixture.send(S1, webhook("https://e.example/hook?code=2")).await;
        assert_eq!(reply.status, want, "after {calls} calls");
        match want {
            503 => assert_eq!(message(&reply), "a call failed. Try again."),
            400 => assert!(message(&reply).contains("it gave no answer (a call failed")),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sample_events_are_tested_against_a_document_or_an_event_subscription() {
    const TEST: &str = "POST /topics/demo/eventSubscriptions:test";
    let fixture = Fixture::with_subscription().await;
    let event = |subject: &str| json!({"id": "1", "eventType": "T", "subject": subject, "eventTime": "2026-01-02T03:04:05Z"});
    let events = json!([event("/a"), event("/b")]);
    let verdicts = |reply: Reply| -> Vec<bool> {
        let body = reply.body.expect("a body");
        let value = body["value"].as_array().expect("verdicts");
        value.iter().map(|verdict| verdict["matches"] == true).collect()
    };
    let named = fixture.send(TEST, json!({"name": "s-1", "events": events})).await;
    assert_eq!((named.status, verdicts(named)), (200, vec![true, true]));
    let filter = json!({"filter": {"subjectEndsWith": "B"}});
    let document = fixture.send(TEST, json!({"properties": filter, "events": events})).await;
    assert_eq!((document.status, verdicts(document)), (200, vec![false, true]));
    for (line, document, status) in [
        (TEST, json!({"name": "s-2", "events": events}), 404),
        (TEST, json!({"name": "s-1"}), 400),
        (TEST, json!({"name": "s-1", "events": [{"id": "1"}]}), 400),
        (
            "POST /topics/other/eventSubscriptions:test",
            json!({"properties": {}, "events": []}),
            404,
        ),
        ("GET /topics/demo/eventSubscriptions:test", json!({}), 405),
    ] {
        assert_eq!(fixture.send(line, document.clone()).await.status, status, "{line} {document}");
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_have_routes_of_their_own() {
    let fixture = Fixture::with_subscription().await;
    let route = |action: &str| format!("POST /topics/demo/eventSubscriptions/s-1/{action}");
    assert_eq!(fixture.call(&route("getSigningSecrets")).await.status, 409);
    assert_eq!(fixture.call(&route("rotateSigningSecret")).await.status, 409);
    let mut document = webhook("https://e.example/hook?code=hush");
    document["properties"]["signing"] = json!({"scheme": "StandardWebhooks"});
    document["properties"]["destination"]["properties"]["deliveryAttributeMappings"] = json!([
        {"name": "Authorization", "type": "Static", "properties": {"value": "tell no one", "isSecret": true}},
    ]);
    let replaced = fixture.send(S1, document).await;
    assert_eq!(replaced.status, 200);
    assert!(!replaced.body.expect("a document").to_string().contains("tell no one"));
    let attributes = fixture.call(&route("getDeliveryAttributes")).await.body.expect("a document");
    assert_eq!(attributes["value"][0]["properties"]["value"], "tell no one");
    let first = fixture.call(&route("getSigningSecrets")).await.body.expect("a document");
    assert!(first["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")));
    assert_eq!(first["previousSecret"], Value::Null);
    let rotated =
        fixture.send(&route("rotateSigningSecret"), json!({"overlapInSeconds": 60})).await;
    let rotated = rotated.body.expect("a document");
    assert_eq!(rotated["previousSecret"], first["secret"]);
    assert_ne!(rotated["secret"], first["secret"]);
    assert_eq!(fixture.call(&route("getSigningSecrets")).await.body, Some(rotated));
}

/// Every copy of ingest and dispatch keeps all of it in memory.
#[tokio::test(start_paused = true)]
async fn the_configuration_of_a_topic_is_bounded() {
    const BYTES_MAX: usize = 8 * 1_024 * 1_024;
    let mut fixture = Fixture::with_subscription().await;
    let types: Vec<_> = (0..250).map(|number| format!("{number:03}{}", "x".repeat(500))).collect();
    let mut large = webhook("https://e.example/hook?code=hush");
    large["properties"]["filter"] = json!({"includedEventTypes": types});
    assert_eq!(fixture.prepare(S1, large.clone()).await.status, 200);
    let bytes = |fixture: &Fixture| -> Vec<usize> {
        let all = fixture.deployment.tables.stored_subscriptions();
        all.iter().map(|one| serde_json::to_vec(one).expect("JSON").len()).collect()
    };
    let one = bytes(&fixture)[0];
    fixture.fill((2..BYTES_MAX / one).map(|number| format!("large-{number}")));
    let put = |name: &str| format!("PUT /topics/demo/eventSubscriptions/{name}");
    let mut refused = None;
    for number in 0..4 {
        let reply = fixture.prepare(&put(&format!("more-{number}")), large.clone()).await;
        if reply.status != 201 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("one of them is too much");
    assert_eq!((refused.status, code(&refused)), (409, "Conflict"), "{refused:?}");
    assert!(message(&refused).contains("more than the 8388608"), "{refused:?}");
    let sum = bytes(&fixture).iter().sum::<usize>();
    assert!((BYTES_MAX - 2 * one..=BYTES_MAX).contains(&sum), "{sum}");
    // A small one always fits, and so does a smaller one in the place of a large one.
    let small = webhook("https://e.example/small");
    assert_eq!(fixture.prepare(&put("small"), small.clone()).await.status, 201);
    assert_eq!(fixture.prepare(&put("large-2"), small).await.status, 200);
}

/// Tests of filters and explanations take and refuse the same events as a publish.
#[tokio::test(start_paused = true)]
async fn samples_are_read_as_a_publish_reads_them() {
    let fixture = Fixture::with_subscription().await;
    let event = |more: &str| {
        format!(
            r#"{{"id":"1","subject":"s","eventType":"T","eventTime":"2026-01-02T03:04:05Z"{more}}}"#
        )
    };
    let deep = format!(r#","data":{}{}"#, "[".repeat(500), "]".repeat(500));
    let large = format!(r#","data":"{}""#, "x".repeat(400_000));
    let too_large = format!(r#","data":"{}""#, "x".repeat(1_048_576));
    let table = [
        ("plain", event(""), 200),
        ("a member of data twice", event(r#","data":{"a":1,"a":2}"#), 200),
        ("deep data", event(&deep), 200),
        ("a number that no float has", event(r#","data":{"n":1e400}"#), 200),
        ("over 256 KiB", event(&large), 200),
        ("over 1 MiB", event(&too_large), 413),
        ("a member of the event twice", event(r#","id":"2""#), 400),
        ("an unknown member", event(r#","nope":1"#), 400),
        ("half of a surrogate pair", event(r#","dataVersion":"\ud800""#), 400),
        ("no event", "5".to_owned(), 400),
    ];
    for (row, event, status) in table {
        let tests = [
            ("eventSubscriptions:test", format!(r#"{{"name":"s-1","events":{event}}}"#)),
            ("eventSubscriptions:test", format!(r#"{{"name":"s-1","events":[{event}]}}"#)),
            ("explain", format!(r#"{{"event":{event}}}"#)),
        ];
        for (route, document) in tests {
            let line = format!("POST /topics/demo/{route}");
            let reply = fixture.send_bytes(&line, document.into_bytes()).await;
            assert_eq!(reply.status, status, "{row}, {route}: {:?}", reply.body);
        }
    }
    for document in [r#"{"name":"s-1","events":null}"#, r#"{"name":"s-1"}"#, "", "[]", "{"] {
        let line = "POST /topics/demo/eventSubscriptions:test";
        let reply = fixture.send_bytes(line, document.as_bytes().to_vec()).await;
        assert_eq!(reply.status, 400, "{document}");
    }
    let reply = fixture.call("POST /topics/demo/explain").await;
    assert_eq!(reply.status, 400, "{reply:?}");
}
