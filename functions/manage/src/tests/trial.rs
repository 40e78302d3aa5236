//! Test events to one event subscription.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gridpost_core::{
    delivery::request::Request,
    retry::outcome::{Answer, Outcome},
};
use gridpost_ports::{Attempted, EndpointClient, HandshakeError};
use gridpost_testkit::consent::{self, ConsentAnswer};
use serde_json::{Value, json};

use super::{Fixture, S1, body, code, key, message, openapi::assert_valid, webhook};
use crate::Reply;

const SEND: &str = "POST /topics/demo/eventSubscriptions/s-1/sendTestEvent";

/// An endpoint that refuses everything with 503, or never answers, and remembers what came.
#[derive(Default)]
struct Refusing {
    is_silent: bool,
    requests: Mutex<Vec<Request>>,
}

#[async_trait]
impl EndpointClient for Refusing {
    async fn attempt(&self, request: Request) -> Attempted {
        self.requests.lock().expect("no panic").push(request);
        if self.is_silent {
            std::future::pending::<()>().await;
        }
        Attempted::Answered {
            answer: Answer::of_status(503, None),
            response_text: Some("no\\n".to_owned()),
            body: None,
        }
    }
}

impl Fixture {
    fn refuses(&mut self, is_silent: bool) -> Arc<Refusing> {
        let endpoint = Arc::new(Refusing { is_silent, ..Refusing::default() });
        self.context.endpoints = Arc::clone(&endpoint) as _;
        endpoint
    }

    async fn send_text(&self, event: &str) -> Reply {
        self.send_bytes(SEND, format!(r#"{{"event":{event}}}"#).into_bytes()).await
    }
}

/// With a number that no value of ours holds, and a member twice.
fn event() -> String {
    r#"{"id":"1","eventType":"T","subject":"","eventTime":"2026-01-01T00:00:00Z","data":{"n":1e400,"n":2}}"#
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_test_event_goes_to_one_endpoint_and_its_answer_is_told() {
    let mut fixture = Fixture::with_subscription().await;
    fixture.deployment.tables.change(&key("demo", "s-1"), |one| {
        one.filter.subject_begins_with = "/a".to_owned();
    });
    let endpoint = fixture.refuses(false);
    assert_valid("ExplainInput", &json!({"event": {"id": "1"}}));
    let reply = fixture.send_text(&event()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let told = body(&reply);
    assert_valid("TestEventSent", told);
    let (outcome, status, response_text) =
        (&told["outcome"], &told["httpStatusCode"], &told["response"]);
    assert_eq!((outcome, status, response_text), (&json!("Busy"), &json!(503), &json!("no\\n")));
    let last = told["steps"].as_array().and_then(|steps| steps.last()).expect("steps");
    assert_eq!(last, &json!({"step": "answer", "result": "Failed", "message": "status 503"}));
    assert!(told["advice"].as_str().is_some_and(|advice| advice.contains("busy")), "{told}");
    assert_eq!(
        (&told["matches"], told["refusedBy"].as_array().map(Vec::len)),
        (&json!(false), Some(1))
    );
    let requests = endpoint.requests.lock().expect("no panic");
    let [sent] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(sent.url.expose(), "https://e.example/hook?code=hush");
    let sent = String::from_utf8(sent.body.clone()).expect("UTF-8");
    assert!(sent.contains(r#""data":{"n":1e400,"n":2}"#), "{sent}");
    let deployment = &fixture.deployment;
    assert!(deployment.meter.counts().is_empty(), "nothing is counted");
    assert!(deployment.tables.states().is_empty(), "and nothing is tried again");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_answer_is_not_waited_for_too_long() {
    let mut fixture = Fixture::with_subscription().await;
    fixture.refuses(true);
    let began = tokio::time::Instant::now();
    let reply = fixture.send_text(&event()).await;
    let told = body(&reply);
    assert_eq!((&told["outcome"], told.get("httpStatusCode")), (&json!(Outcome::TimedOut), None));
    assert!(began.elapsed() < std::time::Duration::from_secs(29), "API Gateway gives up");
    let last = told["steps"].as_array().and_then(|steps| steps.last()).expect("steps");
    assert_eq!(last["message"], "none within 26 s");
}

struct NoDescriptors;

#[async_trait]
impl EndpointClient for NoDescriptors {
    async fn attempt(&self, _: Request) -> Attempted {
        Attempted::NotMade
    }
}

/// The endpoint is not to blame.
#[tokio::test]
async fn without_a_descriptor_the_caller_is_to_try_again() {
    let mut fixture = Fixture::with_subscription().await;
    fixture.context.endpoints = Arc::new(NoDescriptors);
    let not_made = vec![consent::Reply::now(Err(HandshakeError::NotMade))];
    fixture.consent(ConsentAnswer::Replies(not_made));
    let tested = fixture.send_text(&event()).await;
    let created = fixture.send(S1, webhook("https://e.example/else")).await;
    for reply in [tested, created] {
        assert_eq!((reply.status, code(&reply)), (503, "ServiceUnavailable"), "{reply:?}");
        assert!(message(&reply).contains("no file descriptor"), "{reply:?}");
        assert!(reply.headers.iter().any(|(name, _)| name == "retry-after"), "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_event_or_has_no_consent_is_not_sent() {
    let mut fixture = Fixture::with_subscription().await;
    let endpoint = fixture.refuses(false);
    let two = format!("[{0},{0}]", event());
    for (text, status) in [("{}", 400), (two.as_str(), 400), ("[]", 400), ("null", 400)] {
        assert_eq!(fixture.send_text(text).await.status, status, "{text}");
    }
    let none = fixture.send(&SEND.replace("s-1", "s-2"), json!({"event": {}})).await;
    assert_eq!((none.status, code(&none)), (404, "ResourceNotFound"));
    fixture.deployment.tables.change(&key("demo", "s-1"), |one| {
        one.provisioning_state = gridpost_core::subscription::ProvisioningState::Failed;
    });
    let refused = fixture.send_text(&event()).await;
    assert_eq!((refused.status, code(&refused)), (409, "Conflict"));
    assert!(message(&refused).contains("has not consented"), "{refused:?}");
    assert!(endpoint.requests.lock().expect("no panic").is_empty());
    let _: &Value = body(&refused);
}
