use std::time::Duration;

use gridpost_core::{
    delivery::{
        Delivery,
        claim::{self, Payload},
        dead_letter::Ended,
        event_set::EventSet,
        parking::{self, Parked},
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    retry::{
        EndReason,
        attempts::Attempts,
        health::{Health, Probation},
        outcome::Outcome,
        slow_endpoint::{AnswerCounts, Slowness},
    },
    subscription::DeadLetterDestination,
    time::Timestamp,
};
use gridpost_ports::{DueDeliveries, PARKED_PARTITIONS, Payloads};
use gridpost_testkit::faults::Plan;

use crate::fixture_for_tests::{Fixture, NOW, deliveries, delivery};

fn without_states(status: u16) -> Fixture {
    let mut fixture = Fixture::new(None);
    (fixture.status, fixture.state_faults) = (status, Plan::failing(1..100));
    fixture
}

fn sent_to(fixture: &Fixture, queue: Queue) -> Vec<String> {
    let sent = fixture.deployment.queues.sent().into_iter();
    sent.filter(|(to, _)| *to == queue).map(|(_, message)| message.body).collect()
}

#[tokio::test(start_paused = true)]
async fn a_message_carries_on_what_could_not_be_written() {
    let fixture = without_states(503);
    let kept = fixture.receive(Queue::Dispatch, &[delivery(7)]).await;
    let sent = sent_to(&fixture, Queue::Retry(0));
    let [body] = &sent[..] else { panic!("{sent:?}") };
    let next = Delivery::decode(body).expect("a delivery");
    let want = Attempts::default().with(NOW, Outcome::Busy, Some(503));
    assert_eq!((kept, &next.attempts, next.resent), (vec![], &want, 1));
    assert!(next.due.is_some_and(|due| due.since(NOW).as_secs() >= 30), "{:?}", next.due);
}

/// A newer version has sent it: it is moved unchanged.
#[tokio::test(start_paused = true)]
async fn a_message_of_a_newer_version_goes_to_the_poison_queue() {
    let fixture = Fixture::new(None);
    let newer = delivery(7).encode().replace("\"v\":1", "\"v\":9");
    for queue in [Queue::Dispatch, Queue::Retry(0)] {
        assert!(fixture.receive_text(queue, newer.clone()).await.is_empty(), "it is moved");
    }
    assert_eq!(sent_to(&fixture, Queue::Poison), [newer.clone(), newer]);
    assert_eq!(fixture.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_carried_on_too_often_waits_as_it_is() {
    let mut often = delivery(7);
    often.resent = 8;
    let fixture = without_states(503);
    let kept = fixture.receive(Queue::Dispatch, &[often]).await;
    assert_eq!((kept, sent_to(&fixture, Queue::Retry(0)).len()), (vec![7], 0));
    let hidden = fixture.hidden();
    assert!(matches!(hidden[..], [(7, 30..=33)]), "{hidden:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_could_not_be_written_is_carried_out_at_once() {
    let fixture = without_states(400);
    assert!(fixture.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty(), "it is let go");
    let ended = sent_to(&fixture, Queue::DeadLetter).len() as u64;
    let dropped = fixture.deployment.meter.counts();
    let dropped = dropped.iter().filter(|count| count.metric == "DroppedEventCount").count();
    assert_eq!((fixture.requests(), ended + dropped as u64), (1, 1));
}

/// The limit of messages was lowered meanwhile: its events move to the payload bucket.
#[tokio::test(start_paused = true)]
async fn what_does_not_fit_a_message_any_more_goes_on_without_its_events() {
    for (status, to) in [(503, Queue::Retry(0)), (400, Queue::DeadLetter)] {
        for state_faults in [Plan::default(), Plan::failing(1..100)] {
            let mut fixture = Fixture::new(None);
            (fixture.status, fixture.state_faults) = (status, state_faults);
            let bucket = DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() };
            fixture.subscription.dead_letter = Some(bucket);
            let large = delivery(7);
            fixture.message_bytes_max = large.encode().len() - 1;
            assert!(
                fixture.receive(Queue::Dispatch, std::slice::from_ref(&large)).await.is_empty()
            );
            let sent = sent_to(&fixture, to);
            let [body] = &sent[..] else { panic!("{sent:?}") };
            assert!(!body.contains("confidential"), "{body}");
            let id = match to {
                Queue::DeadLetter => Ended::decode(body).expect("an ended delivery").delivery.id,
                _ => Delivery::decode(body).expect("a delivery").id,
            };
            // Ends of other parts of the delivery have its id, too.
            assert_eq!(id == large.id, to != Queue::DeadLetter);
            let kept = fixture.deployment.payloads.get(&claim::key(id)).await.expect("read");
            let kept = claim::decode(&kept.expect("there")).expect("a payload");
            assert!(matches!(&kept, Payload::Events(events) if events.len() == 1), "{kept:?}");
        }
    }
}

/// Nothing says that it ended: an early return would only attempt it again.
#[tokio::test(start_paused = true)]
async fn an_end_that_could_neither_be_written_nor_carried_out_comes_back_late() {
    let mut fixture = without_states(400);
    let bucket = DeadLetterDestination { bucket: "b".to_owned(), prefix: String::new() };
    fixture.subscription.dead_letter = Some(bucket);
    fixture.sender_faults = Plan::failing(1..=100);
    assert_eq!(fixture.receive(Queue::Dispatch, &[delivery(7)]).await, [7]);
    assert_eq!(
        (fixture.requests(), fixture.hidden()),
        (1, Vec::new()),
        "as long as its queue hides it"
    );
}

#[tokio::test(start_paused = true)]
async fn what_sqs_does_not_hide_is_sent_on_with_a_delay() {
    for (refusals, sent, kept) in [(1, 0, vec![7]), (2, 1, vec![])] {
        let mut fixture = Fixture::new(None);
        (fixture.status, fixture.receiver_faults) = (200, Plan::failing(1..=refusals));
        let until = NOW + std::time::Duration::from_secs(60);
        let waiting = delivery(7).due_at(until);
        assert_eq!(fixture.receive(Queue::Retry(0), &[waiting]).await, kept, "{refusals} refusals");
        let bodies = sent_to(&fixture, Queue::Retry(0));
        assert_eq!((bodies.len(), fixture.requests()), (sent, 0), "{refusals} refusals");
        for body in bodies {
            assert_eq!(Delivery::decode(&body).expect("a delivery").due, Some(until));
        }
    }
}

/// A second copy of a message has made the same attempt: the first one's state holds.
#[tokio::test(start_paused = true)]
async fn what_another_copy_has_written_is_followed() {
    let mut fixture = Fixture::new(None);
    fixture.status = 503;
    assert!(fixture.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty());
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert!(fixture.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty());
    let sent = sent_to(&fixture, Queue::Retry(0));
    let dues = sent.iter().map(|body| Delivery::decode(body).expect("a delivery").due);
    let dues: Vec<_> = dues.collect();
    assert_eq!((dues.len(), fixture.requests()), (2, 2));
    assert!(dues[0].is_some() && dues[0] == dues[1], "{dues:?}");
}

/// Another attempt ended the delivery: its dead letter keeps the payload, and counts.
#[tokio::test(start_paused = true)]
async fn a_success_beside_an_end_leaves_the_dead_letter_its_events() {
    let mut fixture = Fixture::new(None);
    (fixture.status, fixture.answers_after) = (200, Duration::from_secs(2));
    let large = fixture.claimed(delivery(7)).await;
    let mut failed = large.clone();
    failed.attempts = Attempts::default().with(NOW, Outcome::Busy, Some(503));
    let state = |status, revision| DeliveryState {
        id: failed.id,
        subscription: failed.subscription.clone(),
        subscription_uid: failed.subscription_uid,
        publish_time: failed.publish_time,
        redriven_at: None,
        events: 1,
        done: EventSet::default(),
        attempts: failed.attempts.clone(),
        status,
        past: Vec::new(),
        receipt: None,
        copies_until: None,
        resend: None,
        revision,
    };
    fixture.knows(&state(DeliveryStatus::Waiting { due: NOW }, 0)).await;
    let other = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let reason = EndReason::MaxDeliveryAttemptsExceeded;
        fixture.knows(&state(DeliveryStatus::Ending { reason, at: NOW }, 1)).await;
    };
    let (left, ()) =
        tokio::join!(fixture.receive(Queue::Retry(0), std::slice::from_ref(&large)), other);
    assert_eq!((left, fixture.requests()), (vec![], 1));
    let payload = fixture.deployment.payloads.get(&claim::key(large.id)).await.expect("readable");
    let payload = claim::decode(&payload.expect("there")).expect("a payload");
    assert!(!matches!(payload, Payload::Ended), "the dead letter has lost its events");
    let counts = fixture.deployment.meter.counts();
    assert!(counts.iter().all(|count| count.metric != "DeliverySuccessCount"), "the end counts");
}

/// The deliveries in the lot.
async fn lot(fixture: &Fixture) -> Vec<Parked> {
    let minute = parking::lot_minute(fixture.subscription.uid);
    let mut all = Vec::new();
    for partition in 0..PARKED_PARTITIONS {
        let page = fixture.deployment.tables.due_in(minute, partition, None).await;
        all.extend(page.expect("a page").due);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_new_and_retried_deliveries_without_an_attempt() {
    let life = Duration::from_secs(24 * 60 * 60);
    for (queue, runs, until) in [
        (Queue::Dispatch, false, Duration::from_secs(7 * 24 * 60 * 60 - 60)),
        (Queue::Dispatch, true, life),
        (Queue::Retry(0), true, life),
    ] {
        let fixture = Fixture::new(None).paused(runs);
        let kept = fixture.receive(queue, &[delivery(7), delivery(8)]).await;
        let held = lot(&fixture).await;
        assert_eq!((kept, held.len(), fixture.requests()), (vec![], 2, 0), "{queue:?}");
        for one in held {
            assert_eq!((one.due, one.shard, one.postponed), (NOW + until, 0, 0));
            let message = Delivery::decode(&one.body).expect("a delivery");
            assert_eq!(message.attempts, Attempts::default(), "none is counted");
        }
        assert_eq!(sent_to(&fixture, Queue::Retry(0)).len(), 0, "no message holds it");
        assert_eq!(fixture.health_writes().await, 0, "its endpoint's health is not touched");
    }
}

/// Many messages hidden in the dispatch queue would hold up all first attempts.
#[tokio::test(start_paused = true)]
async fn what_a_pause_can_t_hold_leaves_the_dispatch_queue() {
    for (queue, moved) in [(Queue::Dispatch, 1), (Queue::Retry(0), 0)] {
        let mut fixture = Fixture::new(None).paused(true);
        fixture.parking_faults = Plan::failing(1..100);
        let kept = fixture.receive(queue, &[delivery(7)]).await;
        let sent = sent_to(&fixture, Queue::Retry(0));
        assert_eq!((kept.len(), sent.len()), (1 - moved, moved), "{queue:?}");
        assert_eq!((lot(&fixture).await.len(), fixture.requests()), (0, 0), "{queue:?}");
        for body in sent {
            let next = Delivery::decode(&body).expect("a delivery");
            assert_eq!(next.due, None, "it is held when its queue deliveries it out");
        }
    }
}

/// Retry queues that are no longer used are emptied, however long their deliveries wait.
#[tokio::test(start_paused = true)]
async fn what_fails_leaves_a_retry_queue_that_is_emptied() {
    for (shard, moved) in [(0, 0), (1, 1)] {
        let mut fixture = Fixture::new(None);
        fixture.status = 503;
        let kept = fixture.receive(Queue::Retry(shard), &[delivery(7)]).await;
        let sent = sent_to(&fixture, Queue::Retry(0));
        assert_eq!((kept.len(), sent.len()), (1 - moved, moved), "shard {shard}");
        for body in sent {
            let next = Delivery::decode(&body).expect("a delivery");
            assert!(next.due.is_some_and(|due| due.since(NOW).as_secs() >= 30), "{:?}", next.due);
        }
    }
}

/// The endpoint of a row: whether it is slow, and what it answers.
#[derive(Clone, Copy, Debug)]
enum Endpoint {
    SlowAndWell,
    /// It answers within a second.
    SlowAndQuick,
    Failing,
    Waiting,
}

/// Only what is held back waits in the slow queue, whose batches wait to be filled; and what waits for long
/// stays where it is hidden.
#[tokio::test(start_paused = true)]
async fn what_slow_endpoints_hold_back_is_in_the_slow_queue_table() {
    use Endpoint::{Failing, SlowAndQuick, SlowAndWell, Waiting};
    let table = [
        (Queue::Dispatch, SlowAndWell, true, Some(Queue::Slow), 0),
        (Queue::Dispatch, SlowAndWell, false, Some(Queue::Retry(0)), 0),
        (Queue::Retry(0), SlowAndWell, true, Some(Queue::Slow), 0),
        (Queue::Retry(0), SlowAndWell, false, None, 1),
        (Queue::Slow, SlowAndWell, true, None, 1),
        (Queue::Dispatch, SlowAndQuick, true, Some(Queue::Retry(0)), 0),
        (Queue::Retry(0), SlowAndQuick, true, None, 1),
        (Queue::Slow, Failing, true, Some(Queue::Retry(0)), 1),
        (Queue::Retry(0), Failing, true, None, 1),
        (Queue::Dispatch, Waiting, true, Some(Queue::Slow), 0),
        (Queue::Slow, Waiting, true, None, 0),
        (Queue::Retry(0), Waiting, true, None, 0),
        // Nothing is sent to the slow queue any more: it is emptied.
        (Queue::Slow, Failing, false, Some(Queue::Retry(0)), 1),
        (Queue::Slow, SlowAndWell, false, None, 1),
    ];
    for (queue, endpoint, sends_to_slow, want, requests) in table {
        let row = format!("{queue}, {endpoint:?}, {sends_to_slow}");
        let mut fixture = Fixture::new(None);
        fixture.sends_to_slow = sends_to_slow;
        let marked_until = Some(NOW + Duration::from_secs(10));
        let took_ms = Some(if matches!(endpoint, SlowAndQuick) { 1_000 } else { 30_000 });
        let answers = AnswerCounts { took_ms, ..AnswerCounts::default() };
        let slow = Slowness { marked_until, answers, ..Slowness::default() };
        let health = match endpoint {
            SlowAndWell | SlowAndQuick => Health { slow, ..Health::default() },
            Failing => Health::default(),
            Waiting => {
                let until = NOW + Duration::from_secs(3_600);
                let (since, outcome, status) = (NOW, Outcome::Busy, Some(503));
                let probation = Some(Probation { since, until, outcome, status });
                Health { probation, slow, ..Health::default() }
            }
        };
        fixture.status = if matches!(endpoint, Failing) { 500 } else { 200 };
        let fixture = fixture.has(health).await;
        fixture.receive(queue, &[delivery(7)]).await;
        let all = [Queue::Slow, Queue::Retry(0)].into_iter();
        let sent: Vec<_> = all.filter(|queue| !sent_to(&fixture, *queue).is_empty()).collect();
        assert_eq!((sent, fixture.requests()), (Vec::from_iter(want), requests), "{row}");
    }
}

/// It may have been removed, or its policy; the retry queues are always there.
#[tokio::test(start_paused = true)]
async fn what_the_slow_queue_refuses_is_in_a_retry_queue() {
    let mut fixture = Fixture::new(None);
    (fixture.sends_to_slow, fixture.sender_faults) = (true, Plan::failing(1..=1));
    let marked_until = Some(NOW + Duration::from_secs(10));
    let slow = Slowness { marked_until, ..Slowness::default() };
    let fixture = fixture.has(Health { slow, ..Health::default() }).await;
    assert_eq!(fixture.receive(Queue::Dispatch, &[delivery(7)]).await, [0_u128; 0]);
    let sent = [Queue::Slow, Queue::Retry(0)].map(|queue| sent_to(&fixture, queue).len());
    assert_eq!((sent, fixture.requests()), ([0, 1], 0));
}

/// Lambda stops what goes round sixteen times.
#[tokio::test(start_paused = true)]
async fn a_delivery_moves_between_the_queues_a_few_times() {
    let mut moved = delivery(7);
    for (queue, resent, want) in [
        (Queue::Dispatch, 0, vec![0]),
        (Queue::Retry(0), 0, vec![1]),
        (Queue::Retry(0), 3, vec![4]),
        (Queue::Retry(0), 4, vec![]),
    ] {
        moved.resent = resent;
        let mut fixture = Fixture::new(None);
        fixture.sends_to_slow = true;
        let marked_until = Some(NOW + Duration::from_secs(10));
        let answers = AnswerCounts { took_ms: Some(30_000), ..AnswerCounts::default() };
        let slow = Slowness { marked_until, answers, ..Slowness::default() };
        let fixture = fixture.has(Health { slow, ..Health::default() }).await;
        fixture.receive(queue, std::slice::from_ref(&moved)).await;
        let sent = sent_to(&fixture, Queue::Slow);
        let resent: Vec<_> =
            sent.iter().map(|body| Delivery::decode(body).expect("a delivery").resent).collect();
        assert_eq!(resent, want, "{queue}, {}", moved.resent);
        assert_eq!(fixture.requests(), usize::from(want.is_empty()), "else it is attempted");
    }
}

/// Each may have 3 MiB of events, and a function has 512 MB.
#[tokio::test(start_paused = true)]
async fn an_invocation_fetches_the_events_of_twenty_deliveries() {
    let fixture = Fixture::new(None);
    let mut claimed = Vec::new();
    for delivery in deliveries(100) {
        claimed.push(fixture.claimed(delivery).await);
    }
    let kept = fixture.receive(Queue::Retry(0), &claimed).await;
    let read = fixture.deployment.history.lock().expect("no panic while held").payload_reads;
    assert_eq!((kept.len(), read, fixture.requests()), (80, 20, 20));
    assert!(
        fixture.hidden().iter().all(|(_, seconds)| (5..=7).contains(seconds)),
        "they come soon"
    );
}

/// A delivery that failed before the pause waits until it is due, and is held then.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_what_is_due_and_lets_its_state_be() {
    let mut fixture = Fixture::new(None);
    fixture.status = 503;
    fixture.receive(Queue::Dispatch, &[delivery(7)]).await;
    let states = fixture.deployment.tables.states();
    let fixture = fixture.paused(false);
    let sent = sent_to(&fixture, Queue::Retry(0));
    let next = Delivery::decode(&sent[0]).expect("a delivery");
    assert_eq!(fixture.receive(Queue::Retry(0), std::slice::from_ref(&next)).await, [7], "early");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.receive(Queue::Retry(0), &[next]).await, [], "due");
    let held = lot(&fixture).await;
    assert_eq!((held.len(), fixture.requests()), (1, 1));
    assert_eq!(Delivery::decode(&held[0].body).expect("a delivery").attempts.made, 1);
    assert_eq!(
        fixture.deployment.tables.states(),
        states,
        "nothing was attempted, nothing is written"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_over_ends_during_a_pause_and_what_time_to_live_stood_still_for_does_not() {
    for (runs, held) in [(true, 0), (false, 1)] {
        let fixture = Fixture::new(None).paused(runs);
        let life = Duration::from_secs(24 * 60 * 60);
        let mut old = delivery(7);
        // Its time-to-live ended half a minute ago, during the pause.
        old.publish_time = Timestamp::from_millis(
            NOW.as_millis() - i64::try_from(life.as_millis()).expect("a day") - 30_000,
        );
        assert!(fixture.receive(Queue::Retry(0), &[old]).await.is_empty());
        assert_eq!((lot(&fixture).await.len(), fixture.requests()), (held, 0), "runs: {runs}");
    }
}
