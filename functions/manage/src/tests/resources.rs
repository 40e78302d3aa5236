//! AWS resources as endpoints: no handshake, but they must be there, and only what the deployment may
//! deliver to is taken.

use gridpost_core::{delivery::resource_check::Finding, retry::outcome::Outcome};
use serde_json::{Value, json};

use super::{Fixture, S1, S1_GET, body, message, openapi::assert_valid};

fn queue(name: &str) -> Value {
    json!({"properties": {"destination": {"endpointType": "SqsQueue", "properties": {
        "resourceId": format!("arn:aws:sqs:eu-central-1:123456789012:{name}")}}}})
}

#[tokio::test(start_paused = true)]
async fn a_resource_in_the_allowance_is_subscribed_without_a_handshake() {
    let fixture = Fixture::new();
    assert_eq!(fixture.send("PUT /topics/demo", json!({})).await.status, 201);
    let created = fixture.send(S1, queue("orders")).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(body(&created)["properties"]["provisioningState"], "Succeeded");
    assert_eq!(fixture.asked(), 0);
    let read = fixture.call(S1_GET).await;
    assert_valid("EventSubscription", body(&read));
    assert_valid("EventSubscriptionInput", &queue("orders"));
    assert_eq!(body(&read)["properties"]["destination"]["endpointType"], "SqsQueue");
    let again = fixture.send(S1, body(&read).clone()).await;
    assert_eq!((again.status, body(&again)), (200, body(&read)));
    let url = fixture.call(&format!("{}/getFullUrl", S1.replace("PUT", "POST"))).await;
    assert_eq!(url.status, 409, "{url:?}");

    let refused = fixture.send(S1, queue("others")).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let said = message(&refused).to_owned() + &body(&refused).to_string();
    assert!(said.contains("to the Terraform variable resource_destinations"), "{said}");
}

/// What is not there, or refuses dispatch, is refused, and nothing is stored. What an event subscription
/// has already is not asked for again.
#[tokio::test(start_paused = true)]
async fn a_resource_is_checked_before_it_is_an_endpoint() {
    let fixture = Fixture::new();
    assert_eq!(fixture.send("PUT /topics/demo", json!({})).await.status, 201);
    let found = |outcome, says: &str| Finding { outcome, says: says.to_owned() };
    let consents = &fixture.deployment.consents;
    let gone = found(Outcome::NotFound, "QueueDoesNotExist: The queue does not exist.");
    consents.find("-gone", gone);
    consents.find("-closed", found(Outcome::Forbidden, "AccessDenied: explicit deny"));
    consents.find("-busy", found(Outcome::Busy, ""));
    for (name, status, want) in [
        (
            "orders-gone",
            400,
            "NotFound (QueueDoesNotExist: The queue does not exist.). Create it first.",
        ),
        (
            "orders-closed",
            400,
            "dispatch's role may sqs:GetQueueAttributes by the deployment's policy",
        ),
        ("orders-busy", 503, "failed: Busy. Try again. Nothing was stored."),
    ] {
        let refused = fixture.send(S1, queue(name)).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(message(&refused).contains(want), "{refused:?}");
        assert_eq!(fixture.call(S1_GET).await.status, 404);
    }
    assert_eq!(fixture.send(S1, queue("orders")).await.status, 201);
    let checked = || consents.checked().len();
    assert_eq!(checked(), 4);
    let mut other = queue("orders");
    other["properties"]["labels"] = json!(["billing"]);
    assert_eq!(fixture.send(S1, other).await.status, 200);
    assert_eq!(checked(), 4, "it has this queue already");
    assert_eq!(fixture.send(S1, queue("orders-gone")).await.status, 400);
    assert_eq!(checked(), 5);
}
