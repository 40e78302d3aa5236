//! Event subscriptions are paused and resumed.

use gridpost_ports::DueDeliveries;
use serde_json::{Value, json};

use super::{Fixture, NOW, S1, S1_DELETE, S1_GET, body, code, message, webhook};

const PAUSE: &str = "POST /topics/demo/eventSubscriptions/s-1/pause";
const RESUME: &str = "POST /topics/demo/eventSubscriptions/s-1/resume";
const HEALTH: &str = "GET /topics/demo/eventSubscriptions/s-1/health";

fn runs(runs: bool) -> Value {
    json!({"timeToLiveRuns": runs})
}

/// The watches that wake's next runs find.
async fn watches(fixture: &Fixture) -> usize {
    let mut watches = 0;
    for minute in NOW.as_minutes()..NOW.as_minutes() + 10 {
        for partition in 0..gridpost_ports::PARKED_PARTITIONS {
            let page = fixture.deployment.tables.due_in(minute, partition, None).await;
            watches += page.expect("a page").due.iter().filter(|it| it.watch.is_some()).count();
        }
    }
    watches
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_shown_until_it_is_resumed() {
    let fixture = Fixture::with_subscription().await;
    let before = fixture.call(S1_GET).await;
    assert_eq!(body(&before)["properties"].get("pause"), None);

    let paused = fixture.send(PAUSE, runs(false)).await;
    assert_eq!(paused.status, 200, "{paused:?}");
    let pause = body(&paused).clone();
    assert_eq!((&pause["isPaused"], &pause["timeToLiveRuns"]), (&json!(true), &json!(false)));
    assert_eq!(pause["since"], json!(NOW.to_iso_8601()));
    let heard = NOW + fixture.context.settings.dispatch_keeps_configuration;
    assert_eq!(pause["holdsBy"], json!(heard.to_iso_8601()));
    assert_eq!(watches(&fixture).await, 1);

    let shown = fixture.call(S1_GET).await;
    assert_eq!(body(&shown)["properties"]["pause"]["since"], pause["since"]);
    assert_ne!(shown.headers, before.headers, "another ETag");
    let health = fixture.call(HEALTH).await;
    assert_eq!(body(&health)["newEvents"], "Held");
    assert_eq!(body(&health)["pause"]["until"], pause["until"]);

    let resumed = fixture.call(RESUME).await;
    assert_eq!((resumed.status, &body(&resumed)["isPaused"]), (200, &json!(false)));
    assert!(body(&resumed)["resumedTime"].is_string(), "{resumed:?}");
    assert_eq!(body(&fixture.call(S1_GET).await)["properties"].get("pause"), None);
    assert_eq!(body(&fixture.call(HEALTH).await)["newEvents"], "Attempted");
}

#[tokio::test(start_paused = true)]
async fn no_document_pauses_or_resumes() {
    let fixture = Fixture::with_subscription().await;
    fixture.send(PAUSE, runs(true)).await;
    let read = fixture.call(S1_GET).await;
    let url = json!({"endpointUrl": "https://e.example/other"});
    for (line, document) in [
        (S1, webhook("https://e.example/hook?code=hush")),
        (S1, webhook("https://e.example/elsewhere")),
        ("PATCH /topics/demo/eventSubscriptions/s-1", json!({"properties": {"labels": ["a"]}})),
        (
            "PATCH /topics/demo/eventSubscriptions/s-1",
            json!({"properties": {"pause": null, "destination": {"properties": url}}}),
        ),
    ] {
        let reply = fixture.send(line, document).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let pause = &body(&reply)["properties"]["pause"];
        assert_eq!(*pause, body(&read)["properties"]["pause"], "{line}");
    }
    // A new event subscription of the name is not paused.
    fixture.call(S1_DELETE).await;
    let new = fixture.send(S1, webhook("https://e.example/hook")).await;
    assert_eq!(body(&new)["properties"].get("pause"), None);
}

#[tokio::test(start_paused = true)]
async fn pauses_that_are_refused() {
    let fixture = Fixture::with_subscription().await;
    let missing = fixture.send(PAUSE, json!({})).await;
    assert_eq!(missing.status, 400, "whether time-to-live runs must be said: {missing:?}");
    assert!(message(&missing).contains("timeToLiveRuns"), "{missing:?}");
    let unknown = fixture.send(&PAUSE.replace("s-1", "s-9"), runs(true)).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(fixture.call(&RESUME.replace("s-1", "s-9")).await.status, 404);

    assert_eq!(fixture.send(PAUSE, runs(true)).await.status, 200);
    let etag = fixture.call(S1_GET).await.headers;
    assert_eq!(fixture.send(PAUSE, runs(true)).await.status, 200, "asked for twice");
    assert_eq!(fixture.call(S1_GET).await.headers, etag, "nothing was written");
    let other = fixture.send(PAUSE, runs(false)).await;
    assert_eq!((other.status, code(&other)), (409, "Conflict"));
    assert!(message(&other).contains("resume it first"), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_delivery_says_why_it_waits_and_is_not_resent() {
    let fixture = Fixture::with_subscription().await;
    let waiting = super::deliveries::waiting(&fixture, 7);
    let path = format!("/topics/demo/eventSubscriptions/s-1/deliveries/{}", waiting.id);
    fixture.put_state(waiting);
    fixture.send(PAUSE, runs(false)).await;
    let shown = fixture.call(&format!("GET {path}")).await;
    assert_eq!(body(&shown)["next"]["because"], "Pause", "{shown:?}");
    let resent = fixture.call(&format!("POST {path}/resend")).await;
    assert_eq!((resent.status, code(&resent)), (409, "Conflict"), "{resent:?}");
    fixture.call(RESUME).await;
    assert_eq!(fixture.call(&format!("POST {path}/resend")).await.status, 200);
}
