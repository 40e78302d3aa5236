use gridpost_core::{
    delivery::{Delivery, queue::Queue},
    retry::{attempts::Attempts, outcome::Outcome},
    subscription::SubscriptionKey,
    trace::TraceParent,
};
use gridpost_testkit::logs;
use serde_json::{Value, json, value::RawValue};
use uuid::Uuid;

use super::*;
use crate::fixture_for_tests::{Fixture, NOW, delivery};

/// Dispatch's log lines for a delivery.
async fn logged(fixture: Fixture, of: &Delivery, queue: Queue) -> Vec<Value> {
    logs::take();
    fixture.receive(queue, std::slice::from_ref(of)).await;
    logs::take()
}

fn fixture(status: u16) -> Fixture {
    let mut fixture = Fixture::new(None);
    fixture.status = status;
    fixture
}

#[tokio::test(start_paused = true)]
async fn an_attempts_line_reads_alone() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let first = delivery(7).traced(TraceParent::parse(trace));
    let lines = logged(fixture(503), &first, Queue::Dispatch).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let want = json!({
        "message": "attempt failed", "level": "INFO",
        "delivery.id": Uuid::from_u128(7), "subscription": "orders/billing", "attempt": 1,
        "outcome": "Busy", "status": 503, "duration_ms": 0, "decision": "Retry",
        "receives": 1,
        "due": "1970-01-01T01:40:45.000Z", "because": "LeastWait", "events": 1,
        "event_ids": "[\"7\"]", "publish_time": "1970-01-01T01:40:15.000Z", "traceparent": trace,
        "target": "gridpost_ports::journal", "timestamp": line["timestamp"],
    });
    assert_eq!(line, &want);

    let lines = logged(fixture(400), &delivery(7), Queue::Dispatch).await;
    let [failed, dropped] = &lines[..] else { panic!("{lines:?}") };
    let reason = "UndeliverableDueToHttpBadRequest";
    assert_eq!((&failed["decision"], &failed["reason"]), (&json!("End"), &json!(reason)));
    assert_eq!(
        (&dropped["message"], &dropped["level"]),
        (&json!("events dropped"), &json!("WARN"))
    );
    for line in &lines {
        assert_eq!((&line["event_ids"], line["due"].is_null()), (&json!("[\"7\"]"), true));
    }
}

#[tokio::test(start_paused = true)]
async fn how_a_failed_response_began_stands_in_its_line_and_in_the_state() {
    let saying = || {
        let mut fixture = fixture(503);
        fixture.says = Some(r#"no \n {"such":1}"#.to_owned());
        fixture
    };
    let lines = logged(saying(), &delivery(7), Queue::Dispatch).await;
    assert_eq!((lines.len(), &lines[0]["response"]), (1, &json!(r#"no \n {"such":1}"#)));
    let fixture = saying();
    fixture.receive(Queue::Dispatch, &[delivery(7)]).await;
    let states = fixture.deployment.tables.states();
    let response_text = states.first().and_then(|state| state.past[0].response_text.as_deref());
    assert_eq!((states.len(), response_text), (1, fixture.says.as_deref()));
}

#[tokio::test(start_paused = true)]
async fn first_attempts_that_succeed_are_logged_where_it_is_asked_for() {
    let mut retried = delivery(7);
    retried.attempts = Attempts::default().with(NOW, Outcome::Busy, Some(503));
    let mut asked = fixture(200);
    asked.logs_successful_attempts = true;
    let table = [
        ("a first attempt", fixture(200), delivery(7), Queue::Dispatch, None),
        ("a first attempt, asked for", asked, delivery(7), Queue::Dispatch, Some(1)),
        ("a retry", fixture(200), retried, Queue::Retry(0), Some(2)),
    ];
    for (row, fixture, delivery, queue, attempt) in table {
        let lines = logged(fixture, &delivery, queue).await;
        let found: Vec<_> = lines.iter().map(|line| line["attempt"].as_u64()).collect();
        assert_eq!(found, attempt.map(Some).into_iter().collect::<Vec<_>>(), "{row}: {lines:?}");
        let all_good = lines.iter().all(|line| line["decision"] == "Delivered");
        assert!(all_good, "{row}: {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn durations_are_measured_where_it_is_asked_for() {
    let whose = "orders/billing";
    let attempt = format!("DestinationProcessingDurationInMs {whose} 0");
    let delivered = format!("DeliveryLatencyInMs {whose} 0");
    let table = [
        (false, 200, vec![]),
        (true, 200, vec![attempt.clone(), delivered]),
        (true, 503, vec![attempt]),
    ];
    for (measures, status, want) in table {
        let mut fixture = fixture(status);
        fixture.measures_latency = measures;
        fixture.receive(Queue::Dispatch, &[delivery(7)]).await;
        let counts = fixture.deployment.meter.counts();
        let durations = counts.iter().filter(|count| count.is_duration);
        let measured: Vec<_> = durations
            .map(|count| format!("{} {} {}", count.metric, count.values("/"), count.by))
            .collect();
        assert_eq!(measured, want, "{status}");
    }
}

fn ids_of(events: impl Iterator<Item = String>) -> String {
    let event = |text: String| RawValue::from_string(text).expect("JSON");
    let key = SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() };
    let (id, at, version) = (Uuid::nil(), Timestamp::default(), String::new());
    Delivery::new(id, key, id, at, version, events.map(event).collect()).event_ids()
}

#[test]
fn ids_are_bounded_and_those_of_events() {
    let with = |id: &str| json!({"id": id, "data": {"id": "inner"}}).to_string();
    let table = [
        (vec![with("a"), with("b\"c")], r#"["a","b\"c"]"#),
        (vec![r#"{"key":1}"#.to_owned(), with("a"), r#"{"id":7}"#.to_owned()], r#"["a"]"#),
        (vec![with(&"x".repeat(5_000)), with("a")], "[]"),
    ];
    for (events, want) in table {
        assert_eq!(ids_of(events.into_iter()), want);
    }
    let many: Vec<String> =
        serde_json::from_str(&ids_of((0..500).map(|number| with(&number.to_string()))))
            .expect("an array");
    assert_eq!((many.len(), many.last().map(String::as_str)), (100, Some("99")));
    let long = ids_of((0..500).map(|number| with(&format!("{number:0>400}"))));
    assert!(long.len() < 4_096 + 100, "{}", long.len());
}
