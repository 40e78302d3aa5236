//! Publishes that are repeated under their key.

use std::time::Duration;

use gridpost_core::{
    publish::{
        fan_out::{self, Piece},
        idempotency::LEASE,
    },
    topic::Idempotency,
};

use super::*;

const KEY: &str = "idempotency-key";

/// Topics that keep idempotency keys for five minutes.
fn heeding() -> Stored {
    let Stored { mut topics, subscriptions } = stored();
    for topic in &mut topics {
        topic.idempotency = Some(Idempotency { window_in_seconds: 300 });
    }
    Stored { topics, subscriptions }
}

/// Writes of records and sends fail by these plans.
fn failing(records: Plan, sends: Plan) -> Fixture {
    let mut fixture = Fixture::failing(heeding(), Plan::default(), sends);
    fixture.context.records = fixture.deployment.apart(&fixture.deployment.tables, records);
    fixture
}

fn calls(calls: impl IntoIterator<Item = (u64, Fault)>) -> Plan {
    Plan { calls: calls.into_iter().collect(), ..Plan::default() }
}

fn keyed(body: &str) -> Request {
    with(request(body), KEY, "order-4711")
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

impl Fixture {
    /// Returns the status and `Retry-After`.
    async fn answer(&self, request: &Request) -> (u16, Option<String>) {
        let response = self.publish(request).await;
        let wait = response.headers().get("retry-after").and_then(|wait| wait.to_str().ok());
        (response.status().as_u16(), wait.map(str::to_owned))
    }

    fn ids(&self) -> Vec<uuid::Uuid> {
        self.deliveries().iter().map(|delivery| delivery.id).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_repetition_is_answered_as_the_first_one_and_makes_no_second_delivery() {
    let text = r#"[{"id":"1","source":"/s","type":"T","specversion":"1.0"}]"#;
    let cloud_event = with(request(text), "content-type", "application/cloudevents-batch+json");
    let space = with(to("/topics/spaces:publish", cloud_event), "aeg-sas-key", "");
    let space = with(space, "authorization", "SharedAccessKey c2Vjb25k");
    let table = [
        with(request(&events(1, 1)), KEY, "k"),
        with(request(&events(1, 1)), "x-ms-client-request-id", "k"),
        with(space, "x-ms-client-request-id", "k"),
    ];
    for request in table {
        let fixture = Fixture::new(heeding());
        let first = fixture.publish(&request).await;
        let counts = fixture.counts();
        for after_s in [0, 1, 40, 200] {
            pass(Duration::from_secs(after_s)).await;
            let again = fixture.publish(&request).await;
            let parts =
                |of: &Response<String>| (of.status(), of.headers().clone(), of.body().clone());
            assert_eq!(parts(&again), parts(&first), "{after_s}: {request:?}");
        }
        assert_eq!((first.status().as_u16(), fixture.dispatched().len()), (200, 1));
        assert_eq!(fixture.counts(), counts, "it was accepted once");
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let other_try = with(request.clone(), "traceparent", trace);
        assert_eq!(fixture.publish(&other_try).await.status().as_u16(), 200);
        assert_eq!(fixture.dispatched().len(), 1, "the same publish in another span");
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_is_heeded_unasked_and_nothing_is_written() {
    let plain = Fixture::new(stored());
    let heeding = Fixture::new(heeding());
    for (fixture, request) in [(&plain, keyed(&events(1, 1))), (&heeding, request(&events(1, 1)))] {
        for _ in 0..2 {
            assert_eq!(fixture.publish(&request).await.status().as_u16(), 200);
        }
        assert_eq!(fixture.dispatched().len(), 2);
        assert!(fixture.deployment.tables.publish_records().is_empty());
    }
    let unusable = with(request(&events(1, 1)), KEY, "no\ttab");
    assert_eq!(plain.publish(&unusable).await.status().as_u16(), 200, "it is not looked at");
    let response = heeding.publish(&unusable).await;
    assert_eq!(response.status().as_u16(), 400);
    assert_eq!(code_and_message(&response).0, "BadRequest/IdempotencyKeyInvalid");
}

#[tokio::test(start_paused = true)]
async fn another_body_under_the_same_key_is_409() {
    let fixture = Fixture::new(heeding());
    assert_eq!(fixture.publish(&keyed(&events(1, 1))).await.status().as_u16(), 200);
    let response = fixture.publish(&keyed(&events(1, 2))).await;
    assert_eq!((response.status().as_u16(), response.headers().get("retry-after")), (409, None));
    let (code, message) = code_and_message(&response);
    assert_eq!(code, "Conflict/IdempotencyKeyReused");
    assert!(message.contains("another body") && !message.contains("4711"), "{message}");
    assert_eq!(fixture.dispatched().len(), 1);
    // After the window the key is new.
    pass(Duration::from_secs(300)).await;
    assert_eq!(fixture.publish(&keyed(&events(1, 2))).await.status().as_u16(), 200);
    let ids = fixture.ids();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_leaves_no_record() {
    let fixture = Fixture::new(heeding());
    let refused = [
        (keyed("[{}]"), 400),
        (keyed(&" ".repeat(1_048_577)), 413),
        (with(keyed(&events(1, 1)), "aeg-sas-key", "bm8="), 401),
    ];
    for (request, status) in refused {
        assert_eq!(fixture.publish(&request).await.status().as_u16(), status);
    }
    assert!(fixture.deployment.tables.publish_records().is_empty());
    assert_eq!(fixture.publish(&keyed(&events(1, 1))).await.status().as_u16(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_leaves_a_duplicate_at_most_and_never_a_loss() {
    let record = |number, fault| (calls([(number, fault)]), Plan::default());
    let send = |fault| (Plan::default(), calls([(1, fault)]));
    // (where it dies, what a repetition a second later is answered, how many messages there are in
    // the end)
    let table = [
        ("before it has begun", record(1, Fault::DiesBefore), 200, 1),
        ("once it has begun", record(1, Fault::DiesAfter), 503, 1),
        ("before it sends", send(Fault::DiesBefore), 503, 1),
        ("once it has sent", send(Fault::DiesAfter), 503, 2),
        ("before it is done", record(2, Fault::DiesBefore), 503, 2),
        ("once it is done", record(2, Fault::DiesAfter), 200, 1),
    ];
    for (when, (records, sends), status, messages) in table {
        let fixture = failing(records, sends);
        let request = keyed(&events(1, 1));
        let first = handle(&fixture.context, &request);
        let died = tokio::time::timeout(Duration::from_millis(100), first).await;
        assert!(died.is_err(), "{when}: {died:?}");
        pass(Duration::from_secs(1)).await;
        let (answered, retry_after) = fixture.answer(&request).await;
        assert_eq!((answered, retry_after.is_some()), (status, status == 503), "{when}");
        pass(LEASE).await;
        for _ in 0..2 {
            assert_eq!(fixture.answer(&request).await, (200, None), "{when}");
        }
        let ids = fixture.ids();
        assert_eq!(ids.len(), messages, "{when}");
        assert!(ids.iter().all(|id| *id == ids[0]), "{when}: another delivery: {ids:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_one_is_under_way_others_are_told_to_wait() {
    let slow = calls([(1, Fault::Slow(Duration::from_secs(4)))]);
    let fixture = failing(Plan::default(), slow);
    let request = keyed(&events(1, 1));
    let others = async {
        for (after_ms, wait) in [(100, "1"), (1_800, "1"), (1_000, "33")] {
            pass(Duration::from_millis(after_ms)).await;
            let answer = fixture.answer(&request).await;
            assert_eq!(answer, (503, Some(wait.to_owned())), "after {after_ms} ms more");
        }
        let response = fixture.publish(&request).await;
        assert_eq!(code_and_message(&response).0, "ServiceUnavailable/PublishUnderWay");
    };
    let (first, ()) = tokio::join!(fixture.answer(&request), others);
    assert_eq!(first, (200, None));
    assert_eq!(fixture.answer(&request).await, (200, None));
    assert_eq!(fixture.dispatched().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_sent_is_sent_by_the_next_one_at_once() {
    // The first of two messages is sent, the second one fails twice.
    let fixture = failing(Plan::default(), Plan::failing([2, 3]));
    let request = keyed(&events(2, 1));
    assert_eq!(fixture.answer(&request).await, (503, Some("1".to_owned())));
    assert_eq!(fixture.answer(&request).await, (200, None));
    let ids = fixture.ids();
    assert!(ids.len() == 3 && ids[0] == ids[1] && ids[1] != ids[2], "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_table_a_publish_with_a_key_is_503() {
    let fixture = failing(Plan { calls_max: Some(0), ..Plan::default() }, Plan::default());
    assert_eq!(fixture.answer(&keyed(&events(1, 1))).await, (503, Some("1".to_owned())));
    assert!(fixture.dispatched().is_empty(), "nothing of it was sent");
    assert_eq!(fixture.answer(&request(&events(1, 1))).await, (200, None), "it has no key");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_of_the_table_cost_nothing() {
    // (the faults of the record's writes, how many messages there are after a repetition)
    let lost = [
        vec![(1, Fault::FailsBefore)],
        vec![(1, Fault::FailsAfter)],
        vec![(1, Fault::RetriedAfter)],
        vec![(2, Fault::FailsAfter)],
        vec![(2, Fault::RetriedAfter)],
    ];
    for faults in lost {
        let fixture = failing(calls(faults.clone()), Plan::default());
        let request = keyed(&events(1, 1));
        for _ in 0..2 {
            assert_eq!(fixture.answer(&request).await, (200, None), "{faults:?}");
        }
        assert_eq!(fixture.dispatched().len(), 1, "{faults:?}");
    }
    // Both tries to record that it is done.
    let fixture = failing(Plan::failing([2, 3]), Plan::default());
    let request = keyed(&events(1, 1));
    assert_eq!(fixture.answer(&request).await, (200, None), "all of it is in the queue");
    assert_eq!(fixture.answer(&request).await.0, 503);
    pass(LEASE).await;
    assert_eq!(fixture.answer(&request).await, (200, None));
    let ids = fixture.ids();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_large_fan_out_that_is_repeated_makes_the_same_deliveries_from_its_own_object() {
    let mut fixture = failing(Plan::failing([2, 3]), Plan::default());
    fixture.context.inline_fan_out = 0;
    let request = keyed(&events(2, 1));
    assert_eq!(fixture.answer(&request).await, (200, None));
    pass(LEASE).await;
    assert_eq!(fixture.answer(&request).await, (200, None));
    let sent = fixture.deployment.queues.sent_to(Queue::FanOut);
    let pieces: Vec<_> =
        sent.iter().map(|message| Piece::decode(&message.body).expect("a piece")).collect();
    assert!(pieces.len() == 2 && pieces[0].publish != pieces[1].publish, "{pieces:?}");
    let mut made = Vec::new();
    for piece in pieces {
        let object = fixture.deployment.payloads.get(&fan_out::key(piece.publish)).await;
        let object = object.expect("readable").expect("stored");
        let packed = fan_out::decode(&object, 262_144).expect("a publish");
        made.push(piece.unsent(&packed).iter().map(|one| one.id()).collect::<Vec<_>>());
    }
    assert!(made[0].len() == 2 && made[0] == made[1], "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_without_an_id_gets_the_same_one_again() {
    let mut stored = heeding();
    for one in stored.subscriptions.iter_mut().filter(|one| one.key.topic == "own") {
        one.delivery_schema = DeliverySchema::EventGridSchema;
    }
    let mapped = stored.topics.iter_mut().find(|topic| topic.name == "own").expect("it is there");
    mapped.input_schema_mapping.as_mut().expect("a mapping").id = None;
    let mut fixture = Fixture::new(stored);
    fixture.context.records =
        fixture.deployment.apart(&fixture.deployment.tables, Plan::failing([2, 3]));
    let request = to("/topics/own/api/events", keyed(r#"[{"path":"p"},{"path":"q"}]"#));
    let event = |delivery: &Delivery| -> Value {
        serde_json::from_str(delivery.events()[0].get()).expect("JSON")
    };
    let response = fixture.publish(&request).await;
    assert_eq!(response.status().as_u16(), 200, "{}", response.body());
    pass(LEASE).await;
    assert_eq!(fixture.answer(&request).await, (200, None));
    let ids: Vec<_> = fixture.deliveries().iter().map(|sent| event(sent)["id"].clone()).collect();
    assert_eq!((ids.len(), &ids[..2]), (4, &ids[2..]));
    assert_ne!(ids[0], ids[1]);
}
