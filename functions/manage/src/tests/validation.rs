//! Validation by hand: an endpoint that neither consents nor refuses, and the URL it was given.

use std::time::Duration;

use gridpost_core::subscription::ProvisioningState;
use gridpost_testkit::consent::ConsentAnswer;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Fixture, S1, S1_DELETE, S1_GET, body, code, message, webhook};

/// Creates an event subscription that waits for its validation. Returns the URL's path and query.
async fn waiting(schema: &str) -> (Fixture, String) {
    let fixture = Fixture::new();
    assert_eq!(fixture.send("PUT /topics/demo", json!({})).await.status, 201);
    fixture.consent(ConsentAnswer::IsSilent);
    let mut document = webhook("https://e.example/hook?code=hush");
    document["properties"]["eventDeliverySchema"] = json!(schema);
    let created = fixture.send(S1, document).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(body(&created)["properties"]["provisioningState"], "AwaitingManualAction");
    let url = validation_url(&fixture);
    assert!(!body(&created).to_string().contains("token"), "{created:?}");
    let validation = &body(&created)["properties"]["validation"];
    let why = validation["reason"].as_str().expect("a reason");
    assert!(why.starts_with("it answered status 200 "), "{why}");
    assert!(validation["until"].is_string(), "{validation}");
    super::openapi::assert_valid("EventSubscription", body(&created));
    (fixture, url)
}

/// The URL that the endpoint got last.
fn validation_url(fixture: &Fixture) -> String {
    let asked = fixture.last_asked();
    let callback = asked.headers.iter().find(|(name, _)| *name == "webhook-request-callback");
    let url = match callback {
        Some((_, url)) => url.clone(),
        None => {
            let events: Value = serde_json::from_slice(&asked.body).expect("JSON");
            events[0]["data"]["validationUrl"].as_str().expect("a URL").to_owned()
        }
    };
    let beginning = "https://events.example/topics/demo/eventSubscriptions/s-1/validate?id=";
    assert!(url.starts_with(beginning), "{url}");
    url.replace("https://events.example", "")
}

/// Waits until so many seconds after the endpoint was asked last.
async fn until_asked(fixture: &Fixture, seconds_ago: u64) {
    let asked = fixture.deployment.consents.asked().pop().expect("asked");
    fixture.deployment.clock.sleep_until(asked.at + Duration::from_secs(seconds_ago)).await;
}

async fn state(fixture: &Fixture) -> String {
    let read = fixture.call(S1_GET).await;
    body(&read)["properties"]["provisioningState"].as_str().expect("a state").to_owned()
}

fn stored_state(fixture: &Fixture) -> ProvisioningState {
    fixture.deployment.tables.stored_subscriptions().first().expect("s-1").provisioning_state
}

/// No request has failed, and still nothing comes.
#[tokio::test(start_paused = true)]
async fn a_health_says_that_no_event_comes_before_consent() {
    const HEALTH: &str = "GET /topics/demo/eventSubscriptions/s-1/health";
    let (fixture, url) = waiting("EventGridSchema").await;
    let waits = fixture.call(HEALTH).await;
    let (state, events) = (&body(&waits)["state"], &body(&waits)["newEvents"]);
    assert_eq!((state, events), (&json!("NotValidated"), &json!("NotMatched")));
    let why = body(&waits)["validation"]["reason"].as_str().expect("a reason");
    assert!(why.contains("status 200 with an empty body; expected status 200"), "{why}");
    super::openapi::assert_valid("Health", body(&waits));
    assert_eq!(fixture.call(&format!("GET {url}")).await.status, 200);
    let consented = fixture.call(HEALTH).await;
    assert_eq!(body(&consented)["newEvents"], "Attempted");
    assert_eq!(body(&consented)["state"], "Healthy");
    assert!(body(&consented).get("validation").is_none(), "{consented:?}");
}

#[tokio::test(start_paused = true)]
async fn the_validation_url_completes_what_the_endpoint_left_open() {
    for (schema, method) in [("EventGridSchema", "GET"), ("CloudEventSchemaV1_0", "POST")] {
        let (fixture, url) = waiting(schema).await;
        until_asked(&fixture, 599).await;
        assert_eq!(state(&fixture).await, "AwaitingManualAction");
        let done = fixture.call(&format!("{method} {url}")).await;
        assert_eq!((done.status, &body(&done)["provisioningState"]), (200, &json!("Succeeded")));
        assert_eq!(state(&fixture).await, "Succeeded");
        assert_eq!(stored_state(&fixture), ProvisioningState::Succeeded);
        // A second look at the same URL is no error, even later.
        sleep(Duration::from_secs(60)).await;
        assert_eq!(fixture.call(&format!("GET {url}")).await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_callback_may_bring_a_rate() {
    let (fixture, url) = waiting("CloudEventSchemaV1_0").await;
    let headers = [("webhook-allowed-rate", "120")];
    assert_eq!(fixture.send_with(&format!("POST {url}"), &headers, Vec::new()).await.status, 200);
    assert_eq!(body(&fixture.call(S1_GET).await)["properties"]["allowedRate"], 120);
}

#[tokio::test(start_paused = true)]
async fn after_ten_minutes_a_validation_has_failed() {
    let (fixture, url) = waiting("EventGridSchema").await;
    until_asked(&fixture, 600).await;
    assert_eq!(state(&fixture).await, "Failed");
    let late = fixture.call(&format!("GET {url}")).await;
    assert_eq!((late.status, code(&late)), (410, "ValidationExpired"));
    assert_eq!(state(&fixture).await, "Failed");
    // The same document again is a new question, and the old URL is void.
    let again = fixture.send(S1, webhook("https://e.example/hook?code=hush")).await;
    assert_eq!(again.status, 200);
    assert_eq!(body(&again)["properties"]["provisioningState"], "AwaitingManualAction");
    let new = validation_url(&fixture);
    assert_eq!(fixture.call(&format!("GET {url}")).await.status, 403);
    assert_eq!(fixture.call(&format!("GET {new}")).await.status, 200);
    assert_eq!(state(&fixture).await, "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_validation_url_that_is_none_says_nothing() {
    let (fixture, url) = waiting("EventGridSchema").await;
    let elsewhere = |from: &str, to: &str| format!("GET {}", url.replace(from, to));
    let path = url.split('?').next().expect("a path");
    let shorter = &url[..url.len() - 1];
    let rows = [
        format!("GET {path}"),
        format!("GET {path}?token="),
        format!("GET {path}?token=abc"),
        format!("GET {shorter}"),
        format!("GET {url}a"),
        elsewhere("/demo/", "/none/"),
        elsewhere("/s-1/", "/none/"),
    ];
    let revision = fixture.topic("demo").map(|topic| topic.revision);
    let mut messages: Vec<String> = Vec::new();
    for line in rows {
        let refused = fixture.call(&line).await;
        assert_eq!((refused.status, code(&refused)), (403, "Forbidden"), "{line}");
        messages.push(message(&refused).to_owned());
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "what exists must not be told");
    assert_eq!(fixture.topic("demo").map(|topic| topic.revision), revision);
    assert_eq!(fixture.call(&format!("DELETE {path}")).await.status, 405);
    // Deleted, it can not be validated.
    assert_eq!(fixture.call(S1_DELETE).await.status, 200);
    assert_eq!(fixture.call(&format!("GET {url}")).await.status, 403);
}

/// The route is open to all: a request without a valid token must be cheap.
#[tokio::test(start_paused = true)]
async fn a_validation_url_that_is_none_costs_little() {
    let (fixture, url) = waiting("EventGridSchema").await;
    let path = url.split('?').next().expect("a path");
    let guess = "A".repeat(43);
    let elsewhere = path.replace("/demo/", "/none/");
    let rows = [
        (format!("GET {path}?token=abc"), 0, 0),
        (format!("GET {path}"), 0, 0),
        (format!("GET {elsewhere}?token={guess}"), 1, 0),
        (format!("POST {elsewhere}?token={guess}"), 1, 0),
        // The owner may be faster than the answer to the handshake.
        (format!("GET {path}?token={guess}"), 9, 800),
    ];
    for (line, calls, millis) in rows {
        let (made, began) = (fixture.made(), tokio::time::Instant::now());
        assert_eq!(fixture.call(&line).await.status, 403, "{line}");
        let took = began.elapsed().as_millis();
        assert_eq!((fixture.made() - made, took), (calls, millis), "{line}");
    }
}

/// A change of the URL stops the events until the new endpoint has consented.
#[tokio::test(start_paused = true)]
async fn a_new_endpoint_waits_for_its_own_consent() {
    let fixture = Fixture::with_subscription().await;
    fixture.consent(ConsentAnswer::IsSilent);
    let patch = json!({"destination": {"properties": {"endpointUrl": "https://e.example/2"}}});
    let patched = fixture.send("PATCH /topics/demo/eventSubscriptions/s-1", patch).await;
    assert_eq!(patched.status, 200);
    assert_eq!(state(&fixture).await, "AwaitingManualAction");
    let url = validation_url(&fixture);
    assert_eq!(fixture.call(&format!("GET {url}")).await.status, 200);
    assert_eq!(state(&fixture).await, "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn namespace_topics_take_consent_at_once_or_not_at_all() {
    let fixture = Fixture::new();
    assert_eq!(fixture.send("PUT /topics/demo", json!({"kind": "namespace"})).await.status, 201);
    fixture.consent(ConsentAnswer::IsSilent);
    let refused = fixture.send(S1, webhook("https://e.example/hook")).await;
    assert_eq!((refused.status, code(&refused)), (400, "Endpoint validation"));
    let asked = fixture.last_asked();
    assert_eq!(asked.headers, [("webhook-request-origin", "eventgrid.azure.net".to_owned())]);
    assert_eq!(fixture.call(S1_GET).await.status, 404);
}
