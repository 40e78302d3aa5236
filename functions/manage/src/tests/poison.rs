//! The poison queue: shown, resent, purged.

use std::sync::{Arc, Mutex};

use gridpost_core::{
    delivery::{
        Delivery,
        dead_letter::Ended,
        event_set::EventSet,
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    event::{DeliverySchema, event_grid},
    fixtures::subscription,
    publish::{
        fan_out,
        matching::Match,
        pack::{Acceptance, pack},
    },
    retry::{EndReason, attempts::Attempts, outcome::Outcome, profile::ProfileName},
    subscription::DeadLetterDestination,
    topic::Revision,
};
use gridpost_ports::Payloads;
use gridpost_testkit::meter::Count;
use serde_json::{Value, json, value::RawValue};
use uuid::Uuid;

use super::{Fixture, NOW, body, code, key, message};

const EVENT: &str = r#"{"id":"e-1","data":"confidential"}"#;

pub(super) fn delivery(id: u128) -> Delivery {
    let event = || RawValue::from_string(EVENT.to_owned()).expect("JSON");
    let mut delivery = Delivery::new(
        Uuid::from_u128(id),
        key("demo", "s-1"),
        Uuid::from_u128(5),
        NOW,
        String::new(),
        vec![event(), event()],
    );
    delivery.attempts = Attempts::default().with(NOW, Outcome::Busy, Some(503));
    delivery
}

fn ended(id: u128) -> String {
    let ended = Ended {
        delivery: delivery(id),
        reason: EndReason::TimeToLiveExceeded,
        at: NOW,
        destination: DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() },
        schema: DeliverySchema::EventGridSchema,
        mapping: None,
        profile: ProfileName::Basic,
        attributes: Vec::new(),
    };
    json!(ended).to_string()
}

pub(super) fn state(id: u128, status: DeliveryStatus, revision: u64) -> DeliveryState {
    let Delivery { id, subscription, subscription_uid, publish_time, attempts, .. } = delivery(id);
    let events = 2;
    DeliveryState {
        id,
        subscription,
        subscription_uid,
        publish_time,
        events,
        done: Default::default(),
        attempts,
        status,
        past: Vec::new(),
        receipt: None,
        copies_until: None,
        resend: None,
        redriven_at: None,
        revision,
    }
}

/// With a delivery, an ended one, an unreadable message, and one of a newer version.
fn filled() -> Fixture {
    let fixture = Fixture::new();
    let newer = delivery(3).encode().replace("\"v\":1", "\"v\":9");
    fixture.lay("m-1", &delivery(1).encode(), Some("gridpost-retry-1"), Some("demo/s-1"));
    fixture.lay("m-2", &ended(2), None, Some("poison:dead-letter"));
    fixture.lay("m-3", "rubbish", None, None);
    fixture.lay("m-4", &newer, None, Some("poison:dispatch"));
    fixture
}

fn ids(reply: &super::Reply) -> Vec<String> {
    let value = body(reply)["value"].as_array().expect("a list");
    value.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn poison_is_listed_with_where_it_came_from_and_without_what_it_carries() {
    let fixture = filled();
    let listed = fixture.call("GET /poison").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let carries = |id: u128| {
        json!({
            "id": Uuid::from_u128(id), "topic": "demo", "eventSubscription": "s-1", "events": 2,
            "publishTime": NOW.to_iso_8601(), "deliveryAttempts": 1,
            "lastDeliveryOutcome": "Busy", "lastHttpStatusCode": 503,
        })
    };
    let want = json!([
        {
            "id": "m-1", "kind": "Delivery", "movedBy": "SQS", "fromQueue": "gridpost-retry-1",
            "delivery": carries(1), "resendTo": "retry-1",
        },
        {
            "id": "m-2", "kind": "EndedDelivery", "movedBy": "Gridpost", "fromQueue": "dead-letter",
            "deadLetterReason": "TimeToLiveExceeded", "delivery": carries(2),
            "resendTo": "dead-letter",
        },
        {
            "id": "m-3", "kind": "Unreadable",
            "problem": "the message is not a delivery: expected value at line 1 column 1",
        },
        {
            "id": "m-4", "kind": "Unreadable", "movedBy": "Gridpost", "fromQueue": "dispatch",
            "problem": "the message has version 9, which this function does not read",
        },
    ]);
    let mut found = body(&listed)["value"].clone();
    for one in found.as_array_mut().expect("a list") {
        let one = one.as_object_mut().expect("an object");
        assert_eq!(one.remove("sentTime"), Some(json!(NOW.to_iso_8601())));
        assert_eq!(one.remove("receiveCount"), Some(json!(1_001)));
        assert!(one.remove("bodyBytes").is_some_and(|bytes| bytes.as_u64() > Some(6)));
    }
    assert_eq!(found, want);
    assert_eq!(body(&listed)["approximateCount"], 4);
    assert_eq!(body(&listed)["isComplete"], true);
    assert!(!body(&listed).to_string().contains("confidential"));
    // All of it is visible again.
    assert_eq!(fixture.lying().len(), 4);
    let two = fixture.call("GET /poison?$top=2").await;
    assert_eq!(
        (ids(&two), &body(&two)["isComplete"]),
        (vec!["m-1".into(), "m-2".into()], &json!(false))
    );
    assert_eq!(fixture.lying().len(), 4);
    for (query, rule) in
        [("$top=101", "from 1 to 100"), ("$skiptoken=x", "parameters here are $top and")]
    {
        let refused = fixture.call(&format!("GET /poison?{query}")).await;
        assert!(refused.status == 400 && message(&refused).contains(rule), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_message_is_shown_whole_up_to_a_bound() {
    let fixture = filled();
    fixture.lay("m-5", &"ä".repeat(70_000), None, None);
    let shown = fixture.call("GET /poison/m-1").await;
    assert_eq!(body(&shown)["body"], delivery(1).encode());
    assert_eq!(body(&shown)["isBodyCut"], false);
    let cut = fixture.call("GET /poison/m-5").await;
    assert_eq!(body(&cut)["body"].as_str().map(str::len), Some(2 * 65_536));
    assert_eq!(
        (&body(&cut)["isBodyCut"], &body(&cut)["bodyBytes"]),
        (&json!(true), &json!(140_000))
    );
    let none = fixture.call("GET /poison/m-9").await;
    assert_eq!((none.status, code(&none)), (404, "ResourceNotFound"));
    assert!(message(&none).contains("\"m-9\" in the poison queue now"), "{none:?}");
    assert_eq!(fixture.lying().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn messages_go_back_to_where_they_belong() {
    let fixture = filled();
    let all = fixture.send("POST /poison:resend", json!({"all": true})).await;
    let results: Vec<_> = body(&all)["value"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["result"].as_str().expect("a result"), one["to"].as_str()))
        .collect();
    let want = [
        ("Resent", Some("retry-1")),
        ("Resent", Some("dead-letter")),
        ("Refused", None),
        ("Refused", None),
    ];
    assert_eq!(results, want);
    assert_eq!(fixture.lying(), ["m-3", "m-4"]);
    let input = json!({"ids": ["m-4", "m-9"], "to": "retry"});
    let named = fixture.send("POST /poison:resend", input).await;
    let value = &body(&named)["value"];
    assert_eq!((&value[0]["result"], &value[0]["to"]), (&json!("Resent"), &json!("retry-0")));
    assert_eq!((&value[1]["id"], &value[1]["result"]), (&json!("m-9"), &json!("NotFound")));
    assert_eq!(fixture.lying(), ["m-3"]);
    let sent = fixture.sent();
    let sent: Vec<_> = sent.iter().map(|(queue, it)| (*queue, &*it.group, it.delay_s)).collect();
    let want = [
        (Queue::Retry(1), "demo/s-1", 0),
        (Queue::DeadLetter, "demo/s-1", 0),
        (Queue::Retry(0), "unreadable", 0),
    ];
    assert_eq!(sent, want);
}

/// Wherever it stops, the message is in one of the two queues.
#[tokio::test(start_paused = true)]
async fn a_resend_that_stops_halfway_loses_nothing() {
    // Received, sent, and sent once more where that failed; then removed.
    let table: [(&[u64], _); 3] = [
        (&[2, 3], (0, 1, "Failed", false)),
        (&[3], (1, 1, "Resent", false)),
        (&[], (1, 0, "Resent", true)),
    ];
    for (fails, want) in table {
        let fixture = Fixture::new();
        fixture.lay("m-1", &delivery(1).encode(), None, None);
        fixture.fails(fails);
        let reply = fixture.send("POST /poison:resend", json!({"ids": ["m-1"]})).await;
        let (sent, lying) = (fixture.sent().len(), fixture.lying().len());
        let one = &body(&reply)["value"][0];
        let result = one["result"].as_str().expect("a result");
        assert_eq!((sent, lying, result, one["isRemoved"] == true), want, "{fails:?} fail");
    }
}

/// An error in place of the answer would hide what was handled.
#[tokio::test(start_paused = true)]
async fn a_look_that_fails_behind_what_was_handled_does_not_hide_it() {
    // Ten are received, each with so many calls; then the next are asked for.
    let table = [("POST /poison:resend", "Resent", 2), ("POST /poison:purge", "Purged", 3)];
    for (line, result, calls) in table {
        let fixture = Fixture::new();
        for id in 1..=12 {
            fixture.lay(&format!("m-{id:02}"), &delivery(id).encode(), None, None);
        }
        fixture.fails(&[1 + 10 * calls + 1]);
        let reply = fixture.send(line, json!({"all": true})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let handled = body(&reply)["value"].as_array().expect("a list");
        assert_eq!(handled.len(), 10, "{reply:?}");
        assert!(handled.iter().all(|one| one["result"] == result), "{reply:?}");
        assert_eq!(body(&reply)["isComplete"], false, "{line}");
        super::openapi::assert_valid("Handled", body(&reply));
        // If nothing was handled, the failure is the answer.
        fixture.fails(&[1]);
        assert_eq!(fixture.send(line, json!({"all": true})).await.status, 503, "{line}");
        assert_eq!(fixture.lying(), ["m-11", "m-12"], "{line}");
    }
}

/// Checks before each call that all counts so far were flushed.
fn watch(fixture: &Fixture) -> Arc<Mutex<Vec<bool>>> {
    let seen = Arc::<Mutex<Vec<bool>>>::default();
    for call in 1..=50 {
        let (seen, meter) = (Arc::clone(&seen), Arc::clone(&fixture.deployment.meter));
        fixture.interfere(call, move |_| {
            seen.lock().expect("no panic").push(meter.unwritten() == 0);
        });
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn what_is_purged_is_counted() {
    let fixture = filled();
    fixture.lay("m-5", &delivery(5).encode(), None, None);
    for state in
        [state(1, DeliveryStatus::Waiting { due: NOW }, 3), state(5, DeliveryStatus::Delivered, 2)]
    {
        fixture.put_state(state);
    }
    let kept = watch(&fixture);
    let purged = fixture.send("POST /poison:purge", json!({"all": true})).await;
    let kept = kept.lock().expect("no panic").clone();
    assert!(!kept.is_empty() && kept.iter().all(|is_kept| *is_kept), "{kept:?}");
    let dropped: Vec<_> = body(&purged)["value"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["result"].as_str().expect("a result"), one["droppedEvents"].as_u64()))
        .collect();
    let want = [2, 2, 1, 1, 0].map(|events| ("Purged", Some(events)));
    assert_eq!(dropped, want);
    assert!(fixture.lying().is_empty());
    let known = ("DroppedEventCount PurgedByOperator demo s-1".to_owned(), Some(NOW), 2);
    let unknown = ("DroppedEventCount PurgedByOperator ? ?".to_owned(), None, 1);
    let counted = fixture.deployment.meter.counts();
    assert!(counted.iter().all(|count| !count.is_duration));
    let named = |it: &Count| (format!("{} {}", it.metric, it.values(" ")), it.published_at, it.by);
    let counted: Vec<_> = counted.iter().map(named).collect();
    assert_eq!(counted, [known.clone(), known, unknown.clone(), unknown]);
    // Copies of purged deliveries end by themselves; ended ones stay so.
    let of = |id| fixture.state(id).map(|state| (state.status, state.revision));
    assert_eq!(of(1), Some((DeliveryStatus::Ended, 4)));
    assert_eq!(of(5), Some((DeliveryStatus::Delivered, 2)));
    assert_eq!(of(2), None, "a dead letter's state is its delivery's");
    assert!(fixture.sent().is_empty());
}

/// The dropped events of a piece are counted by their event subscriptions.
#[tokio::test(start_paused = true)]
async fn a_purged_piece_counts_the_events_of_its_deliveries() {
    let body = json!([
        {"id": "1", "eventType": "T", "subject": "s", "data": {}, "eventTime": "2026-01-02T03:04:05Z"},
        {"id": "2", "eventType": "T", "subject": "s", "data": {}, "eventTime": "2026-01-02T03:04:05Z"},
    ]);
    let body = body.to_string();
    let events = event_grid::parse(body.as_bytes(), "/topics/t").expect("events");
    let wants = |name: &str, events: &[usize]| Match {
        subscription: Arc::new(subscription(name)),
        events: events.to_vec(),
    };
    let matches = [wants("s-1", &[0, 1]), wants("s-2", &[1])];
    let revision = Revision { created_at: NOW, number: 1 };
    let acceptance = Acceptance { id: Uuid::from_u128(7), time: NOW, revision, trace_parent: None };
    let packed = pack(&matches, &events, acceptance, 262_144);
    let fixture = Fixture::new();
    let pieces = fan_out::cut(&packed, acceptance.id, 5_000);
    fixture.lay("m-1", &pieces[0].encode(), None, None);
    let purge = || fixture.send("POST /poison:purge", json!({"all": true}));
    let key = fan_out::key(acceptance.id);
    fixture.deployment.payloads.put(&key, fan_out::encode(&packed)).await.expect("stored");
    assert_eq!(body_of(&purge().await), 3);
    // Without the publish, its events are unknown.
    let other = pieces[0].encode().replace(&acceptance.id.to_string(), &Uuid::nil().to_string());
    fixture.lay("m-2", &other, None, None);
    assert_eq!(body_of(&purge().await), 1);
    let counts = fixture.deployment.meter.counts();
    let counted: Vec<_> = counts.iter().map(|count| (count.values(" "), count.by)).collect();
    let want = [("t s-1", 2), ("t s-2", 1), ("? ?", 1)]
        .map(|(whose, events)| (format!("PurgedByOperator {whose}"), events));
    assert_eq!(counted, want);
}

fn body_of(reply: &super::Reply) -> u64 {
    body(reply)["value"][0]["droppedEvents"].as_u64().expect("a number")
}

/// A message in the poison queue may not know that some of its events are done.
#[tokio::test(start_paused = true)]
async fn what_is_done_with_is_not_dropped_once_more() {
    let fixture = Fixture::new();
    fixture.lay("m-1", &delivery(1).encode(), None, None);
    let waits = |id| state(id, DeliveryStatus::Waiting { due: NOW }, 3);
    let first = || EventSet::from_iter([0]);
    fixture.put_state(DeliveryState { events: 1, done: first(), ..waits(1) });
    // Its state could not be written after the second event was delivered, and its message knows.
    let mut knows_more = delivery(2);
    knows_more.done = EventSet::from_iter([1]);
    fixture.lay("m-2", &knows_more.encode(), None, None);
    fixture.put_state(DeliveryState { events: 1, done: first(), ..waits(2) });
    // Only the message knows.
    let mut without_state = delivery(3);
    without_state.done = first();
    fixture.lay("m-3", &without_state.encode(), None, None);
    let purged = fixture.send("POST /poison:purge", json!({"ids": ["m-1", "m-2", "m-3"]})).await;
    let dropped = |at: usize| body(&purged)["value"][at]["droppedEvents"].as_u64();
    assert_eq!([dropped(0), dropped(1), dropped(2)], [Some(1), Some(0), Some(1)]);
    let counted: Vec<_> = fixture.deployment.meter.counts().iter().map(|count| count.by).collect();
    assert_eq!(counted, [1, 1]);
}

/// Its dead letter may have been sent: a drop would count its events again.
#[tokio::test(start_paused = true)]
async fn what_is_about_to_end_is_not_purged_but_sent_back() {
    let fixture = Fixture::new();
    fixture.lay("m-1", &delivery(1).encode(), None, None);
    let ending = DeliveryStatus::Ending { reason: EndReason::TimeToLiveExceeded, at: NOW };
    fixture.put_state(state(1, ending, 3));
    let purged = fixture.send("POST /poison:purge", json!({"all": true})).await;
    let one = &body(&purged)["value"][0];
    assert_eq!((&one["result"], &one["isRemoved"]), (&json!("Refused"), &json!(false)));
    assert!(one["message"].as_str().is_some_and(|it| it.contains("TimeToLiveExceeded")), "{one}");
    super::openapi::assert_valid("Handled", body(&purged));
    assert!(fixture.deployment.meter.counts().is_empty());
    assert_eq!(fixture.lying(), ["m-1"]);
    let resent = fixture.send("POST /poison:resend", json!({"all": true})).await;
    assert_eq!(body(&resent)["value"][0]["result"], "Resent");
}

/// Nothing is removed before it was counted.
#[tokio::test(start_paused = true)]
async fn a_purge_that_stops_halfway_counts_rather_twice_than_never() {
    // Received, its state read, removed, its state written.
    let table: [(&[u64], _, _, _); 4] = [
        (&[2], "Failed", 1, 0),
        (&[3], "Failed", 1, 1),
        (&[4], "Purged", 0, 1),
        (&[], "Purged", 0, 1),
    ];
    for (fails, result, lying, counted) in table {
        let fixture = Fixture::new();
        fixture.lay("m-1", &delivery(1).encode(), None, None);
        fixture.fails(fails);
        let kept = watch(&fixture);
        let purged = fixture.send("POST /poison:purge", json!({"ids": ["m-1"]})).await;
        assert_eq!(body(&purged)["value"][0]["result"], result, "{fails:?} fail");
        assert_eq!(fixture.lying().len(), lying, "{fails:?} fail");
        let kept = kept.lock().expect("no panic");
        assert!(!kept.is_empty() && kept.iter().all(|is_kept| *is_kept), "{fails:?} fail");
        let meter = &fixture.deployment.meter;
        assert_eq!((meter.counts().len(), meter.unwritten()), (counted, 0), "{fails:?} fail");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_takes_a_hundred_and_says_that_there_are_more() {
    let fixture = Fixture::new();
    for index in 0..130 {
        fixture.lay(&format!("m-{index:03}"), &delivery(index + 1).encode(), None, None);
    }
    for (count, is_complete) in [(100, false), (30, true)] {
        let resent = fixture.send("POST /poison:resend", json!({"all": true})).await;
        assert_eq!(
            (ids(&resent).len(), &body(&resent)["isComplete"]),
            (count, &json!(is_complete))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refused_choices_name_their_members() {
    let fixture = filled();
    let many: Vec<_> = (0..101).map(|index| index.to_string()).collect();
    let resend = "POST /poison:resend";
    let table: [(&str, Value, &str); 8] = [
        (resend, json!({}), "ids is required, or else \"all\": true, and not both"),
        (resend, json!({"ids": ["m-1"], "all": true}), "and not both"),
        (resend, json!({"ids": []}), "ids must have 1 to 100 ids, but has 0"),
        (resend, json!({"ids": many}), "ids must have 1 to 100 ids, but has 101"),
        (resend, json!({"ids": [1]}), "ids[0] must be a string, but is a number"),
        (
            resend,
            json!({"ids": ["m"], "to": "dispatch"}),
            "to must be 'retry', 'dead-letter' or 'fan-out'",
        ),
        (resend, json!({"all": true, "to": "retry"}), "to goes with ids alone"),
        ("POST /poison:purge", json!({"ids": ["m"], "to": "retry"}), "to is not known"),
    ];
    for (line, input, rule) in table {
        let refused = fixture.send(line, input.clone()).await;
        assert_eq!((refused.status, code(&refused)), (400, "InvalidRequest"), "{input}");
        assert!(body(&refused).to_string().replace("\\\"", "\"").contains(rule), "{refused:?}");
    }
    assert_eq!(fixture.lying().len(), 4);
    assert!(fixture.calls().is_empty());
}
