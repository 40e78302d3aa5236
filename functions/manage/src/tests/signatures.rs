//! Signed handshakes.

use gridpost_core::{
    secret::Secret,
    subscription::signing::{Previous, Signing},
    time::Timestamp,
};
use http::Method;
use serde_json::{Value, json};

use super::{body, fixture::Fixture, webhook};

/// A receiver that verifies every request can tell that the handshake is ours.
#[tokio::test(start_paused = true)]
async fn handshakes_are_signed_with_the_secret_that_deliveries_are_signed_with() {
    let fixture = Fixture::with_subscription().await;
    assert!(fixture.last_asked().headers.iter().all(|(name, _)| *name != "webhook-signature"));
    // The handshake's method, how many signatures it has, and the newest secret.
    let asked = async |line: &str, code: u32, more: Value| {
        let mut document = webhook(&format!("https://e.example/hook?code={code}"));
        for (name, value) in more.as_object().into_iter().flatten() {
            document["properties"][name] = value.clone();
        }
        let (_, path) = line.split_once(' ').expect("a method and a path");
        let stored = fixture.send(line, document).await;
        assert!(matches!(stored.status, 200 | 201), "{stored:?}");
        let secrets = fixture.call(&format!("POST {path}/getSigningSecrets")).await;
        let text = |name: &str| body(&secrets)[name].as_str();
        let asked = fixture.last_asked();
        let header = |name: &str| {
            let found = asked.headers.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| value.clone()).unwrap_or_else(|| panic!("no {name}"))
        };
        let seconds: i64 = header("webhook-timestamp").parse().expect("seconds");
        let at = Timestamp::from_millis(seconds * 1_000);
        let newest = Secret::new(text("secret").expect("a secret"));
        let until = text("previousSecretValidUntil").and_then(Timestamp::parse_rfc_3339);
        let previous = until.zip(text("previousSecret"));
        let previous = previous
            .map(|(valid_until, secret)| Previous { secret: Secret::new(secret), valid_until });
        let signing = Signing { secret: newest.clone(), previous };
        let wanted = signing.signatures(&header("webhook-id"), at, &asked.body);
        assert_eq!(header("webhook-signature"), wanted, "{line} {code}");
        (asked.method, wanted.split(' ').count(), newest)
    };
    let signed = async |name: &str, code: u32, more: Value| {
        let line = format!("PUT /topics/{name}");
        let mut document = json!({"signing": {"scheme": "StandardWebhooks"}});
        for (name, value) in more.as_object().into_iter().flatten() {
            document[name] = value.clone();
        }
        asked(&line, code, document).await
    };
    // One that had no secret, its next URL, a new one, and one that is asked by OPTIONS.
    let s1 = "demo/eventSubscriptions/s-1";
    let (method, count, secret) = signed(s1, 2, json!({})).await;
    assert_eq!((method, count), (Method::POST, 1));
    assert_eq!(signed(s1, 3, json!({})).await, (Method::POST, 1, secret.clone()));
    assert_eq!(signed("demo/eventSubscriptions/s-2", 4, json!({})).await.0, Method::POST);
    let cloud_events = json!({"eventDeliverySchema": "CloudEventSchemaV1_0"});
    assert_eq!(signed("demo/eventSubscriptions/s-3", 5, cloud_events).await.0, Method::OPTIONS);
    // A patch that names the endpoint alone.
    let patched = asked(&format!("PATCH /topics/{s1}"), 6, json!({})).await;
    assert_eq!(patched, (Method::POST, 1, secret.clone()));
    // A new secret beside the old one, then a third one at once.
    let rotate = format!("POST /topics/{s1}/rotateSigningSecret");
    assert_eq!(fixture.send(&rotate, json!({"overlapInSeconds": 60})).await.status, 200);
    let (_, count, second) = signed(s1, 7, json!({})).await;
    assert!(count == 2 && second != secret, "{count}");
    assert_eq!(fixture.send(&rotate, json!({"overlapInSeconds": 0})).await.status, 200);
    let (_, count, third) = signed(s1, 8, json!({})).await;
    assert!(count == 1 && third != second, "{count}");
    // Topics of the other kinds and schemas.
    for (topic, document, wanted) in [
        ("spaces", json!({"kind": "namespace"}), Method::OPTIONS),
        ("clouds", json!({"properties": {"inputSchema": "CloudEventSchemaV1_0"}}), Method::OPTIONS),
        ("own", json!({"properties": {"inputSchema": "CustomEventSchema"}}), Method::POST),
    ] {
        assert_eq!(fixture.send(&format!("PUT /topics/{topic}"), document).await.status, 201);
        let (method, ..) = signed(&format!("{topic}/eventSubscriptions/s-1"), 9, json!({})).await;
        assert_eq!(method, wanted, "{topic}");
    }
}
