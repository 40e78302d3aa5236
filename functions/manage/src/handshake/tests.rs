use gridpost_ports::Clock;
use gridpost_testkit::{
    clock::VirtualClock,
    consent::{ConsentAnswer, Consents, Reply, response},
};
use serde_json::Value;

use super::*;

const CODE: Uuid = Uuid::from_u128(0xabcd_ef01_2345_6789_abcd_ef01_2345_6789);
const CODE_TEXT: &str = "ABCDEF01-2345-6789-ABCD-EF0123456789";
const LATER: &str = "https://manage.example/validate?token=hush";
const ALLOWED: &str = "webhook-allowed-origin";

type Header = (&'static str, &'static str);

/// What API Gateway's 30 s leave.
const BUDGET: Duration = Duration::from_secs(25);

fn event_grid() -> Handshake {
    let attributes = vec![("X-Key".to_owned(), Secret::new("v"))];
    Handshake {
        key: SubscriptionKey { topic: "demo".to_owned(), name: "My-sub".to_owned() },
        url: Secret::new("https://e.example/hook?code=hush"),
        attributes,
        authentication: None,
        signing: None,
        code: CODE,
        asked_at: Timestamp::from_millis(0),
        origin: None,
        validation_url: Some(Secret::new(LATER)),
        wait: BUDGET,
    }
}

fn cloud_events() -> Handshake {
    Handshake { origin: Some("eventgrid.azure.net".to_owned()), ..event_grid() }
}

#[test]
fn what_is_neither_yes_nor_no_may_become_a_yes_later() {
    let code = format!("{{\"validationResponse\": \"{CODE_TEXT}\"}}");
    let allowed: &[Header] = &[(ALLOWED, "*")];
    let origin: &[Header] = &[(ALLOWED, "example.com")];
    // Question, status, headers, body, and the refusal; `None`: consent.
    let table: [(&str, u16, &[Header], &str, &str); 8] = [
        ("yes", 200, &[], &code, ""),
        ("no", 404, &[], "", "it answered status 404; expected status 200 with the body"),
        ("no", 200, &[], "{\"validationResponse\": \"x\"}", "with another validationResponse"),
        ("later", 200, &[], "{}", "it answered status 200 with an object without"),
        ("yes", 204, allowed, "", ""),
        ("no", 405, allowed, "", "nothing there takes OPTIONS"),
        ("no", 200, origin, "", "WebHook-Allowed-Origin: \"example.com\"; expected status 2xx"),
        ("later", 200, &[], "", "without the header WebHook-Allowed-Origin; expected"),
    ];
    for (position, (want, status, headers, body, says)) in table.into_iter().enumerate() {
        let handshake = if position < 4 { event_grid() } else { cloud_events() };
        let (got, told) = match judge(&handshake, &response(status, headers, body)) {
            Ok(Consent::Given { .. }) => ("yes", String::new()),
            Ok(Consent::Later(why)) => ("later", why),
            Err(refused) => ("no", refused.to_string()),
        };
        assert_eq!(got, want, "{status} {headers:?} {body}");
        assert!(told.contains(says) && told.is_empty() == says.is_empty(), "{body}: {told}");
        assert!(!told.contains(CODE_TEXT), "{body}: {told}");
    }
}

#[test]
fn namespace_topics_know_no_later_and_no_rate() {
    let without_url = |handshake| Handshake { validation_url: None, ..handshake };
    assert!(judge(&without_url(event_grid()), &response(200, &[], "")).is_err());
    assert!(judge(&without_url(cloud_events()), &response(200, &[], "")).is_err());
    let headers = [(ALLOWED, "*"), ("webhook-allowed-rate", "10")];
    let judged = judge(&without_url(cloud_events()), &response(200, &headers, ""));
    assert_eq!(judged, Ok(Consent::Given { allowed_rate: None }));
}

#[test]
fn requests_are_event_grids() {
    let post = request(&event_grid(), BUDGET);
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
        "data": {"validationCode": CODE_TEXT, "validationUrl": LATER},
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
        "eventTime": "1970-01-01T00:00:00.000Z", "metadataVersion": "1", "dataVersion": "1",
    }]);
    assert_eq!(body, want);

    let options = request(&cloud_events(), BUDGET);
    assert_eq!(options.method, Method::OPTIONS);
    let want = [
        ("webhook-request-origin", "eventgrid.azure.net".to_owned()),
        ("webhook-request-callback", LATER.to_owned()),
    ];
    assert_eq!(options.headers, want);
    assert!(!format!("{options:?}{post:?}").contains("hush"));
    assert!(options.body.is_empty());
}

/// Returns the result, the seconds at which the endpoint was asked, and how many it took.
async fn asked(replies: Vec<Reply>) -> (Result<Consent, Refused>, Vec<u64>, u64) {
    let clock = VirtualClock::start();
    let endpoint = Consents::new(clock);
    endpoint.answer(ConsentAnswer::Replies(replies));
    let began = clock.now();
    let result = ask(&endpoint, &cloud_events()).await;
    let took = clock.now().since(began);
    assert!(took <= BUDGET, "API Gateway would have given up");
    let asked_at = endpoint.asked().into_iter().map(|asked| asked.at.since(began).as_secs());
    (result, asked_at.collect(), took.as_secs())
}

fn consent() -> Reply {
    Reply::now(Ok(response(200, &[(ALLOWED, "*")], "")))
}

#[tokio::test(start_paused = true)]
async fn only_who_is_slow_is_asked_again() {
    let given = Ok(Consent::Given { allowed_rate: None });
    assert_eq!(asked(vec![consent()]).await, (given.clone(), vec![0], 0));
    assert_eq!(asked(vec![Reply::never(), consent()]).await, (given, vec![0, 15], 15));

    let (result, asked_at, took) = asked(vec![Reply::never()]).await;
    assert_eq!((asked_at, took), (vec![0, 15], 25));
    let message = result.expect_err("no consent").to_string();
    assert!(message.contains("no response within 25 s); expected status 2xx"), "{message}");

    let unreachable = HandshakeError::Unreachable("connection refused".to_owned());
    let (result, asked_at, _) = asked(vec![Reply::now(Err(unreachable))]).await;
    assert_eq!(asked_at, [0]);
    let message = result.expect_err("no consent").to_string();
    assert!(message.contains("no answer (connection refused); expected"), "{message}");

    let (result, asked_at, _) = asked(vec![Reply::now(Ok(response(500, &[], "")))]).await;
    assert!(result.is_err());
    assert_eq!(asked_at, [0]);
}

/// The first question is answered after 20 s, the second never.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_counts_although_it_was_asked_again() {
    let slow = consent().after(Duration::from_secs(20));
    let consent = Ok(Consent::Given { allowed_rate: None });
    assert_eq!(asked(vec![slow, Reply::never()]).await, (consent, vec![0, 15], 20));
}
