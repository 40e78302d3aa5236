use std::{collections::BTreeSet, sync::Arc, time::Duration};

use gridpost_core::{
    delivery::{Delivery, claim, queue::Queue},
    event::DeliverySchema,
    metric,
    retry::{EndReason, attempts::Attempts, outcome::Outcome, profile::ProfileName},
    subscription::{DeadLetterDestination, EventSubscription, Filter, SubscriptionKey},
    topic::Topic,
};
use gridpost_ports::{Configuration, Outgoing, Payloads, Record, configuration::Limits};
use gridpost_testkit::{
    bucket::PUT,
    deployment::Deployment,
    faults::{Fault, Plan},
    fixtures, logs,
};
use serde_json::value::RawValue;

use super::*;
use crate::gather;

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

const TOPIC_NAME: &str = "dead-letters";

/// A deployment with or without that topic, and with other topics that deliver all events.
fn fixture(topic: Option<Topic>, subscriptions: Vec<EventSubscription>) -> Deployment {
    let fixture = Deployment::at(NOW);
    for name in ["shop", "other"] {
        let all = fixtures::subscription("all");
        let key = SubscriptionKey { topic: name.to_owned(), ..all.key.clone() };
        let topic = Topic { name: name.to_owned(), ..fixtures::topic() };
        fixture.tables.configure(topic, vec![EventSubscription { key, ..all }]);
    }
    if let Some(topic) = topic {
        fixture.tables.configure(topic, subscriptions);
    }
    fixture
}

/// The same with a topic that delivers all events to one event subscription.
fn fixture_with_topic() -> Deployment {
    let all = subscription("all", DeliverySchema::EventGridSchema, "");
    fixture(Some(topic(InputSchema::EventGridSchema)), vec![all])
}

fn topic(input_schema: InputSchema) -> Topic {
    Topic { name: TOPIC_NAME.to_owned(), input_schema, ..fixtures::topic() }
}

fn subscription(name: &str, schema: DeliverySchema, ends_with: &str) -> EventSubscription {
    EventSubscription {
        key: SubscriptionKey { topic: TOPIC_NAME.to_owned(), name: name.to_owned() },
        filter: Filter { subject_ends_with: ends_with.to_owned(), ..Filter::default() },
        delivery_schema: schema,
        ..fixtures::subscription(name)
    }
}

fn record(id: u128, topic: &str, name: &str, reason: EndReason) -> Record {
    let event = RawValue::from_string(format!(r#"{{"id":"{id}"}}"#)).expect("JSON");
    let key = SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() };
    let (id, uid) = (Uuid::from_u128(id), Uuid::from_u128(2));
    let mut delivery = Delivery::new(id, key, uid, NOW, String::new(), vec![event]);
    delivery.attempts = Attempts::default().with(NOW, Outcome::Busy, Some(503));
    let ended = Ended {
        delivery,
        reason,
        at: NOW,
        destination: DeadLetterDestination { bucket: "b".to_owned(), prefix: "p/".to_owned() },
        schema: DeliverySchema::EventGridSchema,
        mapping: None,
        profile: ProfileName::Basic,
        attributes: Vec::new(),
    };
    Record {
        message_id: format!("m-{id}").into(),
        receipt: format!("r-{id}").into(),
        body: serde_json::to_string(&ended).expect("JSON"),
        receive_count: 1,
        queue: Queue::DeadLetter,
        received_at: NOW,
    }
}

fn context(fixture: &Deployment) -> Context {
    let configuration: Arc<dyn Configuration> = Arc::clone(&fixture.tables) as _;
    Context {
        clock: Arc::clone(&fixture.clock) as _,
        sender: fixture.of(&fixture.queues),
        receiver: fixture.of(&fixture.queues),
        bucket: Arc::clone(&fixture.buckets) as _,
        payloads: fixture.of(&fixture.payloads),
        meter: Arc::clone(&fixture.meter) as _,
        journal: Arc::clone(&fixture.meter) as _,
        notifier: Some(Notifier {
            topic: TOPIC_NAME.to_owned(),
            configuration: ConfigurationCache::new(
                configuration,
                Arc::clone(&fixture.clock) as _,
                Arc::clone(&fixture.dice) as _,
                Limits::default(),
            ),
            queue_message_bytes_max: 262_144,
            has_complained: AtomicBool::new(false),
        }),
        give_up_after: Duration::from_secs(600),
    }
}

/// A newer version has sent it: it is moved unchanged.
#[tokio::test(start_paused = true)]
async fn a_message_of_a_newer_version_goes_to_the_poison_queue() {
    let fixture = fixture_with_topic();
    let mut newer = record(1, "shop", "all", EndReason::TimeToLiveExceeded);
    newer.body = newer.body.replace("\"v\":1", "\"v\":9");
    let body = newer.body.clone();
    assert!(gather(&context(&fixture), vec![newer]).await.is_empty(), "it is moved");
    let moved: Vec<_> =
        fixture.queues.sent_to(Queue::Poison).into_iter().map(|it| it.body).collect();
    assert_eq!(moved, [body]);
    assert!(stored(&fixture).is_empty());
}

fn stored(fixture: &Deployment) -> Vec<String> {
    fixture.buckets.calls(PUT)
}

/// A batch is one object: a record that comes again in another batch is in a second object, and its
/// event has two dead letters.
#[tokio::test(start_paused = true)]
async fn a_batch_that_comes_again_makes_the_same_object_and_a_part_of_it_another() {
    let fixture = fixture_with_topic();
    let of = |ids: &[u128]| -> Vec<Record> {
        ids.iter().map(|id| record(*id, "shop", "all", EndReason::TimeToLiveExceeded)).collect()
    };
    for ids in [&[1, 2][..], &[2, 1], &[2], &[2]] {
        assert!(gather(&context(&fixture), of(ids)).await.is_empty(), "it is written");
    }
    let names = stored(&fixture);
    let [first, again, part, part_again] = &names[..] else { panic!("{names:?}") };
    assert_eq!((first, part), (again, part_again));
    assert_ne!(first, part);
}

fn sent(fixture: &Deployment) -> Vec<Delivery> {
    let delivery = |(queue, message): (Queue, Outgoing)| {
        assert_eq!(queue, Queue::Dispatch);
        Delivery::decode(&message.body).expect("a delivery")
    };
    fixture.queues.sent().into_iter().map(delivery).collect()
}

fn hidden(fixture: &Deployment) -> Vec<u32> {
    let hidden = fixture.queues.hidden();
    let receipts: BTreeSet<_> = hidden.iter().map(|(_, receipt, _)| receipt.as_str()).collect();
    assert_eq!(receipts.len(), hidden.len(), "each record is hidden once");
    for (queue, receipt, _) in &hidden {
        assert!(*queue == Queue::DeadLetter && receipt.starts_with("r-"), "{queue} {receipt}");
    }
    hidden.into_iter().map(|(_, _, seconds)| seconds).collect()
}

fn counted(fixture: &Deployment, metric: &str) -> u64 {
    let counts = fixture.meter.counts();
    assert!(counts.iter().all(|count| !count.is_duration), "of functions that serve events");
    let of_it = counts.iter().filter(|count| count.metric == metric);
    of_it.filter(|count| count.published_at.is_some()).map(|count| count.by).sum()
}

/// Kept records by the counter without dimensions, which the alarm reads.
fn counted_kept(fixture: &Deployment) -> u64 {
    let mut counts = fixture.meter.counts();
    counts.retain(|count| count.metric == metric::KEPT_COUNT && count.dimensions.is_empty());
    counts.iter().map(|count| count.by).sum()
}

fn three() -> Vec<Record> {
    use EndReason::{MaxDeliveryAttemptsExceeded, TimeToLiveExceeded};
    vec![
        record(1, "shop", "billing", TimeToLiveExceeded),
        record(2, "shop", "billing", TimeToLiveExceeded),
        record(3, "shop", "billing", MaxDeliveryAttemptsExceeded),
        record(4, "other", "billing", TimeToLiveExceeded),
    ]
}

fn event_of(delivery: &Delivery) -> Value {
    serde_json::from_str(delivery.events()[0].get()).expect("JSON")
}

#[tokio::test(start_paused = true)]
async fn an_object_is_told_of_with_what_is_in_it() {
    use DeliverySchema::{CloudEventSchemaV1_0, EventGridSchema};
    for (input, delivered) in [
        (InputSchema::EventGridSchema, EventGridSchema),
        (InputSchema::EventGridSchema, CloudEventSchemaV1_0),
        (InputSchema::CloudEventSchemaV1_0, CloudEventSchemaV1_0),
    ] {
        let shop = subscription("of-shop", delivered, "/topics/shop/eventSubscriptions/billing");
        let all = vec![shop, subscription("nobody", delivered, "x")];
        let fixture = fixture(Some(topic(input)), all);
        assert!(gather(&context(&fixture), three()).await.is_empty());
        let stored = stored(&fixture);
        assert_eq!(stored.len(), 2, "one for each event subscription");
        let sent = sent(&fixture);
        assert_eq!(sent.len(), 1, "{input:?}: whoever wants it");
        assert_eq!(fixture.injector.made(), 1, "Lambda deletes, and nothing is large");
        let event = event_of(&sent[0]);
        let (kind, source) = match delivered {
            CloudEventSchemaV1_0 => ("type", "source"),
            _ => ("eventType", "topic"),
        };
        assert_eq!(event[kind], EVENT_TYPE, "{event}");
        assert_eq!(event[source], "/topics/dead-letters", "{event}");
        assert_eq!(event["subject"], "/topics/shop/eventSubscriptions/billing");
        let data = json!({
            "bucketName": "b", "objectName": event["data"]["objectName"], "topic": "shop",
            "eventSubscription": "billing", "eventCount": 3,
            "reasons": {"TimeToLiveExceeded": 2, "MaxDeliveryAttemptsExceeded": 1},
        });
        assert_eq!(event["data"], data);
        assert!(stored.iter().any(|name| event["data"]["objectName"] == json!(name)));
        // Two were published, and one matched.
        assert_eq!(counted(&fixture, metric::PUBLISH_SUCCESS_COUNT), 2);
        assert_eq!(counted(&fixture, metric::UNMATCHED_EVENT_COUNT), 1);
        assert_eq!(counted(&fixture, metric::MATCHED_EVENT_COUNT), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn its_own_dead_letters_raise_no_more() {
    for name in [TOPIC_NAME.to_owned(), TOPIC_NAME.to_ascii_uppercase()] {
        let fixture = fixture_with_topic();
        let own = record(1, &name, "all", EndReason::TimeToLiveExceeded);
        assert!(gather(&context(&fixture), vec![own]).await.is_empty());
        assert_eq!(stored(&fixture).len(), 1);
        assert!(sent(&fixture).is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_not_told_is_told_again_as_the_same() {
    let fixture = fixture_with_topic();
    let context = context(&fixture);
    let some = || three()[..3].to_vec();
    // The notification is tried three times, by two calls each, then records are hidden.
    fixture.injector.plan().calls = (1..=6).map(|number| (number, Fault::FailsBefore)).collect();
    assert_eq!(gather(&context, some()).await.len(), 3, "they come back");
    assert_eq!(hidden(&fixture), [10, 10, 10]);
    assert_eq!(counted(&fixture, metric::DEAD_LETTERED_COUNT), 0, "not counted yet");
    assert_eq!(counted_kept(&fixture), 0, "a single failure happens");
    assert!(gather(&context, some()).await.is_empty());
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(gather(&context, some()).await.is_empty());
    let stored = stored(&fixture);
    assert!(stored.len() == 3 && stored.iter().all(|name| *name == stored[0]), "{stored:?}");
    let sent = sent(&fixture);
    assert!(sent.len() == 2 && sent[0].id == sent[1].id, "{sent:?}");
    assert_eq!(event_of(&sent[0])["id"], event_of(&sent[1])["id"]);
    assert_eq!(counted(&fixture, metric::DEAD_LETTERED_COUNT), 6);
    assert_eq!(fixture.injector.made(), 6 + 3 + 2, "nothing else is asked for");
}

#[tokio::test(start_paused = true)]
async fn after_hours_in_vain_the_dead_letters_count_all_the_same() {
    let fixture = fixture_with_topic();
    fixture.injector.plan().calls_max = Some(0);
    let context = Context { give_up_after: Duration::ZERO, ..context(&fixture) };
    assert!(gather(&context, three()).await.is_empty());
    assert_eq!(counted(&fixture, metric::DEAD_LETTERED_COUNT), 4);
    assert_eq!(counted(&fixture, metric::DROPPED_EVENT_COUNT), 0, "they are stored");
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_can_t_be_told_holds_up_nothing() {
    for topic in [None, Some(topic(InputSchema::CustomEventSchema))] {
        let fixture = fixture(topic, Vec::new());
        let context = context(&fixture);
        assert!(gather(&context, three()).await.is_empty());
        let notifier = context.notifier.expect("there");
        assert!(notifier.has_complained.load(Ordering::Relaxed), "it is said once");
        assert_eq!((stored(&fixture).len(), sent(&fixture).len()), (2, 0));
    }
}

/// The limit of messages may have changed: events too large for one are stored before it is sent.
#[tokio::test(start_paused = true)]
async fn what_no_message_can_carry_is_stored_before_it_is_told() {
    for (calls_max, told) in [(None, true), (Some(1), false)] {
        let fixture = fixture_with_topic();
        fixture.injector.plan().calls_max = calls_max;
        let mut context = context(&fixture);
        context.notifier.as_mut().expect("there").queue_message_bytes_max = 100;
        assert_eq!(gather(&context, three()[..3].to_vec()).await.is_empty(), told, "{calls_max:?}");
        let sent = sent(&fixture);
        assert_eq!(sent.len(), usize::from(told), "{calls_max:?}: sent once it is stored");
        for delivery in sent {
            assert!(delivery.is_claimed(), "{delivery:?}");
            let object = fixture.payloads.get(&claim::key(delivery.id)).await.expect("readable");
            let Ok(claim::Payload::Events(events)) = claim::decode(&object.expect("stored")) else {
                panic!("its events are in the payload bucket");
            };
            let event: Value = serde_json::from_str(events[0].get()).expect("JSON");
            assert_eq!((events.len(), &event["eventType"]), (1, &json!(EVENT_TYPE)));
        }
    }
}

/// Without a bucket, events are dropped at once; each drop is counted, and logged with its events.
#[tokio::test(start_paused = true)]
async fn what_has_no_bucket_is_counted_and_logged_as_dropped() {
    logs::watch();
    let fixture = fixture_with_topic();
    fixture.buckets.settings().missing = ["b".to_owned()].into();
    logs::take();
    assert!(gather(&context(&fixture), three()).await.is_empty(), "nothing is kept");
    assert_eq!(counted_kept(&fixture), 0);
    let reason = "DeadLetterDestinationNotFound";
    let counts = fixture.meter.counts();
    let dropped = counts.iter().filter(|count| count.values(" ").contains(reason));
    let dropped: Vec<_> = dropped.map(|count| (count.metric, count.by)).collect();
    assert_eq!(dropped, [(metric::DROPPED_EVENT_COUNT, 1); 4]);
    assert_eq!(counted(&fixture, metric::DEAD_LETTERED_COUNT), 0);
    let logged = logs::take().into_iter().filter(|line| line["reason"] == reason);
    let mut logged: Vec<_> = logged.map(|line| line["event_ids"].to_string()).collect();
    logged.sort_unstable();
    assert_eq!(logged.len(), 4, "{logged:?}");
    for (line, id) in logged.iter().zip(1..) {
        assert!(line.contains(&id.to_string()), "{line} {id}");
    }
}

/// Events that come hours late, after an outage of this function, are not dropped at the first error.
#[tokio::test(start_paused = true)]
async fn what_is_old_already_is_tried_more_than_once() {
    for (receive_count, kept, dropped) in [(1, 4, 0), (3, 4, 0), (4, 0, 4)] {
        let fixture = fixture_with_topic();
        let context = Context {
            bucket: fixture.apart(&fixture.buckets, Plan::failing(1..100)),
            give_up_after: Duration::ZERO,
            ..context(&fixture)
        };
        let records = three().into_iter().map(|record| Record { receive_count, ..record });
        let came_back = gather(&context, records.collect()).await.len() as u64;
        let told = if receive_count == 1 { 0 } else { kept };
        assert_eq!((came_back, counted_kept(&fixture)), (kept, told), "{receive_count}");
        assert_eq!(counted(&fixture, metric::DROPPED_EVENT_COUNT), dropped, "{receive_count}");
    }
}

#[tokio::test(start_paused = true)]
async fn small_dead_letters_do_not_wait_for_large_ones() {
    let fixture = fixture(None, Vec::new());
    let mut large = record(1, "shop", "billing", EndReason::TimeToLiveExceeded);
    let mut ended = Ended::decode(&large.body).expect("an ended delivery");
    let events = claim::encode(ended.delivery.events());
    fixture.payloads.put(&claim::key(ended.delivery.id), events).await.expect("stored");
    ended.delivery = ended.delivery.into_claimed();
    large.body = serde_json::to_string(&ended).expect("JSON");
    let small = record(2, "shop", "shipping", EndReason::TimeToLiveExceeded);
    assert!(gather(&context(&fixture), vec![large, small]).await.is_empty());
    let stored = fixture.buckets.calls(PUT);
    let of = |name: &str| stored.iter().position(|object| object.to_lowercase().contains(name));
    assert!(of("shipping").is_some() && of("shipping") < of("billing"), "{stored:?}");
}

/// Its events stay in the payload bucket until they are stored as dead letters. A second copy of the
/// message then stores and drops nothing.
#[tokio::test(start_paused = true)]
async fn a_large_delivery_is_stored_once_and_let_go_when_it_is() {
    let fixture = fixture(None, Vec::new());
    let mut large = record(1, "shop", "billing", EndReason::TimeToLiveExceeded);
    let mut ended = Ended::decode(&large.body).expect("an ended delivery");
    let (id, events) = (ended.delivery.id, claim::encode(ended.delivery.events()));
    fixture.payloads.put(&claim::key(id), events.clone()).await.expect("stored");
    ended.delivery = ended.delivery.into_claimed();
    large.body = serde_json::to_string(&ended).expect("JSON");
    let context = context(&fixture);
    let hour = Duration::from_secs(60 * 60);
    fixture.buckets.settings().refuses = vec![Timestamp::default()..NOW + hour];
    for told in [0, 1] {
        assert_eq!(gather(&context, vec![large.clone()]).await.len(), 1, "it comes back");
        assert_eq!((counted_kept(&fixture), fixture.meter.unwritten()), (told, 0));
        large.receive_count += 1;
    }
    let kept = fixture.payloads.get(&claim::key(id)).await.expect("readable");
    assert_eq!(kept, Some(events));
    fixture.buckets.settings().refuses.clear();
    for copy in 1..=2 {
        assert!(gather(&context, vec![large.clone()]).await.is_empty(), "copy {copy}");
        let kept = fixture.payloads.get(&claim::key(id)).await.expect("readable");
        assert_eq!(kept.as_deref(), Some(claim::ENDED), "copy {copy}");
        assert_eq!(counted(&fixture, metric::DEAD_LETTERED_COUNT), 1, "copy {copy}");
        assert_eq!(counted(&fixture, metric::DROPPED_EVENT_COUNT), 0, "copy {copy}");
    }
}
