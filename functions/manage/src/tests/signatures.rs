//! Signed handshakes.

use gridpost_core::{secret::Secret, subscription::signing::Signing, time::Timestamp};
use http::Method;
use serde_json::{Value, json};

use super::{body, webhook, world::World};

/// A receiver that verifies every request can tell that the handshake is ours.
#[tokio::test(start_paused = true)]
async fn handshakes_are_signed_with_the_secret_that_deliveries_are_signed_with() {
    let world = World::with_subscription().await;
    assert!(world.last_asked().headers.iter().all(|(name, _)| *name != "webhook-signature"));
    let signed = async |name: &str, code: u32, more: Value| {
        let mut document = webhook(&format!("https://e.example/hook?code={code}"));
        document["properties"]["signing"] = json!({"scheme": "StandardWebhooks"});
        for (name, value) in more.as_object().into_iter().flatten() {
            document["properties"][name] = value.clone();
        }
        let path = format!("/topics/demo/eventSubscriptions/{name}");
        let stored = world.send(&format!("PUT {path}"), document).await;
        assert!(matches!(stored.status, 200 | 201), "{stored:?}");
        let secrets = world.call(&format!("POST {path}/getSigningSecrets")).await;
        let secret = Secret::new(body(&secrets)["secret"].as_str().expect("a secret"));
        let asked = world.last_asked();
        let header = |name: &str| {
            let found = asked.headers.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| value.clone()).unwrap_or_else(|| panic!("no {name}"))
        };
        let seconds: i64 = header("webhook-timestamp").parse().expect("seconds");
        let at = Timestamp::from_millis(seconds * 1_000);
        let signing = Signing { secret: secret.clone(), previous: None };
        let wanted = signing.signatures(&header("webhook-id"), at, &asked.body);
        assert_eq!(header("webhook-signature"), wanted, "{name} {code}");
        (asked.method, secret)
    };
    // One that had no secret, its next URL, a new one, and one that is asked by OPTIONS.
    let (method, secret) = signed("s-1", 2, json!({})).await;
    assert_eq!(method, Method::POST);
    assert_eq!(signed("s-1", 3, json!({})).await, (Method::POST, secret));
    assert_eq!(signed("s-2", 4, json!({})).await.0, Method::POST);
    let cloud_events = json!({"eventDeliverySchema": "CloudEventSchemaV1_0"});
    assert_eq!(signed("s-3", 5, cloud_events).await.0, Method::OPTIONS);
}
