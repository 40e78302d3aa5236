//! Names are unique without regard to case, found in any spelling, and shown as written first.

use serde_json::{Value, json};

use super::{Fixture, body, webhook};
use crate::{Reply, terraform};

/// Two event subscriptions of a topic, which all have letters of both cases.
async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let namespace = json!({"properties": {"deliveryProfile": "namespace"}});
    assert_eq!(fixture.send("PUT /topics/Orders-EU", namespace).await.status, 201);
    for (name, url) in [("Billing", "https://e.example/b"), ("audit", "https://e.example/a")] {
        let mut document = webhook(url);
        document["properties"]["deadLetterDestination"] =
            json!({"endpointType": "S3Bucket", "properties": {"bucketName": "letters"}});
        document["properties"]["signing"] = json!({"scheme": "StandardWebhooks"});
        let line = format!("PUT /topics/orders-eu/eventSubscriptions/{name}");
        let created = fixture.send(&line, document).await;
        assert_eq!(created.status, 201, "{created:?}");
    }
    fixture
}

fn names(reply: &Reply) -> Vec<&str> {
    let value = body(reply)["value"].as_array().expect("a list");
    value.iter().map(|one| one["name"].as_str().expect("a name")).collect()
}

#[tokio::test(start_paused = true)]
async fn another_spelling_is_no_other_topic_or_event_subscription() {
    let fixture = fixture().await;
    let uid = fixture.subscription_uid("Billing");
    for (topic, name) in [
        ("orders-eu", "billing"),
        ("ORDERS-EU", "BILLING"),
        ("oRDERS-eu", "bILLING"),
        ("Orders-EU", "BilliNG"),
        ("Orders-Eu", "Billing"),
        ("orders-EU", "bIlLiNg"),
    ] {
        let other = json!({"properties":
            {"deliveryProfile": "namespace", "disableLocalAuth": true}});
        let again = fixture.send(&format!("PUT /topics/{topic}"), other).await;
        assert_eq!((again.status, &body(&again)["name"]), (200, &json!("Orders-EU")), "{topic}");
        assert_eq!(body(&again)["id"], "/topics/Orders-EU");
        let path = format!("/topics/{topic}/eventSubscriptions/{name}");
        let changed = json!({"properties": {"labels": [topic]}});
        for line in [format!("PATCH {path}"), format!("PUT {path}")] {
            let mut document = body(&fixture.call(&format!("GET {path}")).await).clone();
            document["properties"]["destination"]["properties"]["endpointUrl"] =
                json!("https://e.example/b");
            let document = if line.starts_with("PUT") { document } else { changed.clone() };
            let reply = fixture.send(&line, document).await;
            assert_eq!(reply.status, 200, "{line}: {reply:?}");
            assert_eq!(body(&reply)["id"], "/topics/Orders-EU/eventSubscriptions/Billing");
            assert_eq!(body(&reply)["properties"]["topic"], "/topics/Orders-EU");
        }
        assert_eq!(fixture.subscription_uid("Billing"), uid, "{path}");
    }
    assert_eq!(names(&fixture.call("GET /topics").await), ["Orders-EU"]);
    let all = fixture.call("GET /topics/ORDERS-eu/eventSubscriptions").await;
    assert_eq!(names(&all), ["audit", "Billing"], "by their names in lower case");
    let first = fixture.call("GET /topics/orders-eu/eventSubscriptions?$top=1").await;
    let next = body(&first)["nextLink"].as_str().expect("a next page");
    let next = next.strip_prefix("https://manage.example").expect("ours");
    assert_eq!(names(&fixture.call(&format!("GET {next}")).await), ["Billing"]);
}

/// Every route that names an event subscription works on that one.
#[tokio::test(start_paused = true)]
async fn every_route_finds_names_in_any_spelling() {
    let fixture = fixture().await;
    let own = "/topics/orders-eu/eventSubscriptions/BILLING";
    for (line, status, document) in [
        ("POST {}/getFullUrl", 200, json!({})),
        ("POST {}/getDeliveryAttributes", 200, json!({})),
        ("POST {}/getSigningSecrets", 200, json!({})),
        ("POST {}/rotateSigningSecret", 200, json!({})),
        ("GET {}/health", 200, Value::Null),
        ("POST {}/health:reset", 200, json!({})),
        ("GET {}/deliveries", 200, Value::Null),
        ("GET {}/deliveries:count", 200, Value::Null),
        ("POST {}/pause", 200, json!({"timeToLiveRuns": true})),
        ("POST {}/resume", 200, json!({})),
        ("GET {}/redrives", 200, Value::Null),
        ("GET /topics/orders-eu/healths", 200, Value::Null),
        ("POST /topics/orders-eu/listKeys", 200, json!({})),
    ] {
        let line = line.replace("{}", own);
        let reply = match document {
            Value::Null => fixture.call(&line).await,
            document => fixture.send(&line, document).await,
        };
        assert_eq!(reply.status, status, "{line}: {reply:?}");
    }
    let begun =
        fixture.send(&format!("POST {own}/deadLetters:redrive"), json!({"dryRun": true})).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let expected = [("topic", "Orders-EU"), ("eventSubscription", "Billing")];
    assert!(expected.iter().all(|(member, want)| body(&begun)[*member] == *want), "{begun:?}");
    let id = body(&begun)["id"].as_str().expect("an id");
    let other = "/topics/ORDERS-eu/eventSubscriptions/billing";
    assert_eq!(fixture.call(&format!("GET {other}/redrives/{id}")).await.status, 200);
    let jobs =
        fixture.letters.tables.with_redrives(|jobs| jobs.values().cloned().collect::<Vec<_>>());
    assert_eq!(jobs[0].folder, "Orders-EU/Billing", "where dispatch puts them");
    assert_eq!(fixture.call(&format!("DELETE {other}")).await.status, 200);
    assert_eq!(names(&fixture.call("GET /topics/Orders-EU/eventSubscriptions").await), ["audit"]);
    assert_eq!(fixture.call("DELETE /topics/ORDERS-EU").await.status, 200);
    assert_eq!(names(&fixture.call("GET /topics").await), [""; 0]);
}

/// After a deletion, the next creation decides the spelling.
#[tokio::test(start_paused = true)]
async fn a_new_one_has_its_own_spelling() {
    let fixture = fixture().await;
    let line = |method, name| format!("{method} /topics/Orders-EU/eventSubscriptions/{name}");
    assert_eq!(fixture.call(&line("DELETE", "BILLING")).await.status, 200);
    let created = fixture.send(&line("PUT", "bILLING"), webhook("https://e.example/new")).await;
    assert_eq!((created.status, &body(&created)["name"]), (201, &json!("bILLING")));
}

/// A Terraform resource with another spelling changes and removes the existing event subscription.
#[tokio::test(start_paused = true)]
async fn terraform_finds_names_in_any_spelling() {
    let fixture = fixture().await;
    let own = |operation: &str| {
        json!({"terraform": operation, "topic": "orders-eu", "name": "billing",
            "document": webhook("https://e.example/b")})
    };
    let written = terraform::answer(&fixture.context, &own("write")).await.expect("written");
    assert_eq!(written["id"], "/topics/Orders-EU/eventSubscriptions/Billing");
}
