//! Answers that AWS Lambda would not take.

use serde_json::{Value, json};

use super::{Fixture, message};

/// Source: AWS Lambda, "Quotas": 6 MB for an answer, which has the document as a string.
const ANSWER_BYTES_MAX: usize = 6_291_556;

/// Sample events within all limits, each refused by every part of the filter.
#[tokio::test(start_paused = true)]
async fn an_answer_that_lambda_would_not_take_is_refused() {
    let fixture = Fixture::with_subscription().await;
    let sample = |events| {
        let filter =
            |number| json!({"operatorType": "IsNotNull", "key": format!("data.k{number}")});
        let event = |number: u32| {
            json!({"id": number.to_string(), "eventType": "T", "subject": "s",
                "eventTime": "2026-01-02T03:04:05Z"})
        };
        let filters: Value = (0..25).map(filter).collect();
        let events: Value = (0..events).map(event).collect();
        json!({"properties": {"filter": {"advancedFilters": filters}}, "events": events})
    };
    for (events, status) in [(1_000, 200), (2_000, 413)] {
        let test = "POST /topics/demo/eventSubscriptions:test";
        let reply = fixture.send(test, sample(events)).await;
        let document = reply.body.as_ref().map(Value::to_string);
        let bytes = json!({"body": document}).to_string().len();
        assert!(bytes < ANSWER_BYTES_MAX, "{events} events: {bytes} bytes");
        assert_eq!(reply.status, status, "{events} events: {bytes} bytes");
        assert!(status != 413 || message(&reply).contains("Ask for less"), "{reply:?}");
    }
}
