//! AWS resources as endpoints: nobody is asked, and only what the deployment may deliver to is taken.

use serde_json::{Value, json};

use super::{S1, S1_GET, World, body, message, openapi::assert_valid};

fn queue(name: &str) -> Value {
    json!({"properties": {"destination": {"endpointType": "SqsQueue", "properties": {
        "resourceId": format!("arn:aws:sqs:eu-central-1:123456789012:{name}")}}}})
}

#[tokio::test(start_paused = true)]
async fn a_resource_in_the_allowance_is_subscribed_without_a_handshake() {
    let world = World::new();
    assert_eq!(world.send("PUT /topics/demo", json!({})).await.status, 201);
    let created = world.send(S1, queue("orders")).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(body(&created)["properties"]["provisioningState"], "Succeeded");
    assert!(world.endpoint.asked.lock().expect("no panic").is_empty());
    let read = world.call(S1_GET).await;
    assert_valid("EventSubscription", body(&read));
    assert_valid("EventSubscriptionInput", &queue("orders"));
    assert_eq!(body(&read)["properties"]["destination"]["endpointType"], "SqsQueue");
    let again = world.send(S1, body(&read).clone()).await;
    assert_eq!((again.status, body(&again)), (200, body(&read)));
    let url = world.call(&format!("{}/getFullUrl", S1.replace("PUT", "POST"))).await;
    assert_eq!(url.status, 409, "{url:?}");

    let refused = world.send(S1, queue("others")).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let said = message(&refused).to_owned() + &body(&refused).to_string();
    assert!(said.contains("to the Terraform variable resource_destinations"), "{said}");
}
