use std::sync::Mutex;

use async_trait::async_trait;
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use super::*;

const CODE: Uuid = Uuid::from_u128(0xabcd_ef01_2345_6789_abcd_ef01_2345_6789);
const CODE_TEXT: &str = "ABCDEF01-2345-6789-ABCD-EF0123456789";
const ALLOWED: &str = "webhook-allowed-origin";

/// A header's name and value.
type Header = (&'static str, &'static str);

/// What API Gateway's 30 s leave.
const BUDGET: Duration = Duration::from_secs(25);

type Answer = Result<HandshakeResponse, HandshakeError>;

fn event_grid() -> Handshake {
    handshake(Question::EventGrid { code: CODE, asked_at: Timestamp::from_millis(0) })
}

fn cloud_events() -> Handshake {
    handshake(Question::CloudEvents { origin: "eventgrid.azure.net".to_owned() })
}

fn handshake(question: Question) -> Handshake {
    let key = SubscriptionKey { topic: "demo".to_owned(), name: "My-sub".to_owned() };
    let url = Secret::new("https://e.example/hook?code=hush");
    Handshake { key, url, question, wait: wait_within(BUDGET) }
}

fn response(status: u16, headers: &[Header], body: &str) -> HandshakeResponse {
    let headers = headers.iter().map(|(name, value)| {
        let value = HeaderValue::from_str(value).expect("a value");
        (HeaderName::from_static(name), value)
    });
    HandshakeResponse { status, headers: headers.collect(), body: body.as_bytes().to_vec() }
}

#[test]
fn event_grid_responses_are_judged() {
    let code = format!("{{\"validationResponse\": \"{CODE_TEXT}\"}}");
    let more = format!("{{\"a\": [1], \"validationResponse\": \"{CODE_TEXT}\"}}");
    let capital = format!("{{\"ValidationResponse\": \"{CODE_TEXT}\"}}");
    let lower = code.replace(CODE_TEXT, &CODE_TEXT.to_lowercase());
    let table = [
        (200, code.as_str(), ""),
        (200, more.as_str(), ""),
        (201, code.as_str(), "status 201"),
        (202, code.as_str(), "status 202"),
        (204, "", "status 204"),
        (302, code.as_str(), "status 302"),
        (404, "", "status 404"),
        (200, "", "a body that is not JSON"),
        (200, "OK", "a body that is not JSON"),
        (200, "{}", "without the string validationResponse"),
        (200, "[]", "without the string validationResponse"),
        (200, "\"code\"", "without the string validationResponse"),
        (200, "{\"validationResponse\": 7}", "without the string validationResponse"),
        (200, capital.as_str(), "without the string validationResponse"),
        (200, lower.as_str(), "another validationResponse"),
        (200, "{\"validationResponse\": \"x\"}", "another validationResponse"),
    ];
    for (status, body, received) in table {
        let judged = judge(&event_grid().question, &response(status, &[], body));
        assert_judged(judged, received, "expected status 200 with the body", body);
    }
}

#[test]
fn cloud_events_responses_are_judged() {
    let table: [(u16, &[Header], &str); 9] = [
        (200, &[(ALLOWED, "eventgrid.azure.net")], ""),
        (200, &[(ALLOWED, " * "), ("webhook-allowed-rate", "10")], ""),
        (204, &[(ALLOWED, "EventGrid.azure.net")], ""),
        (299, &[(ALLOWED, "*")], ""),
        (302, &[(ALLOWED, "*")], "status 302"),
        (405, &[(ALLOWED, "*")], "status 405"),
        (200, &[], "status 200 without the header WebHook-Allowed-Origin"),
        (200, &[(ALLOWED, "")], "WebHook-Allowed-Origin: \"\""),
        (200, &[(ALLOWED, "example.com")], "WebHook-Allowed-Origin: \"example.com\""),
    ];
    for (status, headers, received) in table {
        let judged = judge(&cloud_events().question, &response(status, headers, ""));
        let expected = "expected status 2xx with the header WebHook-Allowed-Origin: \
                        eventgrid.azure.net (or *)";
        assert_judged(judged, received, expected, &format!("{status} {headers:?}"));
    }
}

fn assert_judged(judged: Result<(), Refused>, received: &str, expected: &str, row: &str) {
    match judged {
        Ok(()) => assert_eq!(received, "", "{row} was taken for consent"),
        Err(refused) => {
            let message = refused.to_string();
            assert!(!received.is_empty() && message.contains(received), "{row}: {message}");
            assert!(message.contains(expected), "{row}: {message}");
            assert!(!message.contains(CODE_TEXT), "{row}: {message}");
        }
    }
}

#[test]
fn requests_are_event_grids() {
    let post = request(&event_grid());
    assert_eq!(post.method, Method::POST);
    let want = [
        ("content-type", "application/json; charset=utf-8"),
        ("aeg-event-type", "SubscriptionValidation"),
        ("aeg-subscription-name", "MY-SUB"),
        ("aeg-delivery-count", "0"),
        ("aeg-data-version", "1"),
        ("aeg-metadata-version", "1"),
    ];
    let headers: Vec<_> =
        post.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(headers, want);
    let body: Value = serde_json::from_slice(&post.body).expect("JSON");
    let want = json!([{
        "id": CODE, "topic": "/topics/demo", "subject": "",
        "data": {"validationCode": CODE_TEXT},
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": "1970-01-01T00:00:00.000Z", "metadataVersion": "1", "dataVersion": "1",
    }]);
    assert_eq!(body, want);

    let options = request(&cloud_events());
    assert_eq!(options.method, Method::OPTIONS);
    assert_eq!(options.headers, [("webhook-request-origin", "eventgrid.azure.net".to_owned())]);
    assert!(options.body.is_empty());
}

/// Answers as scripted, the last answer again and again, and notes when it was asked.
struct Endpoint {
    answers: Mutex<Vec<Answer>>,
    asked_at: Mutex<Vec<Instant>>,
}

#[async_trait]
impl HandshakeClient for Endpoint {
    async fn exchange(&self, request: HandshakeRequest) -> Answer {
        self.asked_at.lock().expect("no panic").push(Instant::now());
        let answer = {
            let mut answers = self.answers.lock().expect("no panic");
            if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
        };
        if matches!(answer, Err(HandshakeError::TimedOut(_))) {
            sleep(request.wait).await;
        }
        answer
    }
}

/// The result, and after how many seconds the endpoint was asked.
async fn asked(answers: Vec<Answer>) -> (Result<(), Refused>, Vec<u64>) {
    let endpoint = Endpoint { answers: Mutex::new(answers), asked_at: Mutex::default() };
    let began = Instant::now();
    let result = ask(&endpoint, &cloud_events()).await;
    assert!(began.elapsed() <= BUDGET, "API Gateway would have given up");
    let asked_at = endpoint.asked_at.into_inner().expect("no panic");
    (result, asked_at.iter().map(|at| (*at - began).as_secs()).collect())
}

#[tokio::test(start_paused = true)]
async fn only_a_time_out_is_asked_again() {
    let timed_out = || Err(HandshakeError::TimedOut(WAIT_MAX));
    let (result, asked_at) =
        asked(vec![timed_out(), Ok(response(200, &[(ALLOWED, "*")], ""))]).await;
    assert_eq!((result, asked_at), (Ok(()), vec![0, 15]));

    let (result, asked_at) = asked(vec![timed_out()]).await;
    assert_eq!(asked_at, [0, 15]);
    let message = result.expect_err("no consent").to_string();
    assert!(message.contains("no response within 10 s); expected status 2xx"), "{message}");

    let unreachable = HandshakeError::Unreachable("connection refused".to_owned());
    let (result, asked_at) = asked(vec![Err(unreachable)]).await;
    assert_eq!(asked_at, [0]);
    let message = result.expect_err("no consent").to_string();
    assert!(message.contains("no answer (connection refused); expected"), "{message}");

    let (result, asked_at) = asked(vec![Ok(response(500, &[], ""))]).await;
    assert!(result.is_err());
    assert_eq!(asked_at, [0]);
}

#[test]
fn both_tries_fit_in_the_budget() {
    for (budget_s, wait_s) in [(60, 10.0), (25, 10.0), (17, 6.0), (6, 0.5), (3, 0.0)] {
        let wait = wait_within(Duration::from_secs(budget_s));
        assert_eq!(wait.as_secs_f64(), wait_s, "{budget_s}");
    }
}
