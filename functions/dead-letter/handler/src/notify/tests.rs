use std::{sync::Mutex, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{Delivery, dead_letter::Labels},
    event::DeliverySchema,
    retry::{
        EndReason, attempts::Attempts, outcome::Outcome, policy::RetryPolicy,
        probation::ProbationPolicy, profile::ProfileName,
    },
    secret::Secret,
    subscription::{
        DeadLetterDestination, Endpoint, EventSubscription, Filter, ProvisioningState,
        SubscriptionKey,
    },
    topic::{Kind, Topic},
};
use gridpost_ports::{Bucket, BucketError, Clock, Meter, Payloads, QueueReceiver, QueueSender};
use serde_json::value::RawValue;

use super::*;
use crate::gather::{Record, gather};

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

const TOPIC_NAME: &str = "dead-letters";

/// A bucket, a topic with event subscriptions, and queues.
#[derive(Default)]
struct World {
    topic: Option<Topic>,
    subscriptions: Vec<EventSubscription>,
    stored: Mutex<Vec<String>>,
    sent: Mutex<Vec<Delivery>>,
    hidden: Mutex<Vec<u32>>,
    counted: Mutex<Vec<(String, u64)>>,
    refuses: AtomicBool,
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        NOW
    }
}

#[async_trait]
impl Configuration for World {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        assert_eq!(name, TOPIC_NAME, "no other topic is asked for");
        Ok(self.topic.clone())
    }

    async fn subscriptions(&self, _: &str) -> Result<Vec<EventSubscription>, PortError> {
        Ok(self.subscriptions.clone())
    }
}

#[async_trait]
impl QueueSender for World {
    async fn send(&self, queue: Queue, all: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        assert_eq!(queue, Queue::Dispatch);
        if self.refuses.load(Ordering::Relaxed) {
            return all.iter().map(|_| Err(PortError::new("sqs:Fake", "by plan"))).collect();
        }
        let read = |message: &Outgoing| Delivery::decode(&message.body).expect("a delivery");
        self.sent.lock().expect("no panic").extend(all.iter().map(read));
        all.iter().map(|_| Ok(())).collect()
    }
}

#[async_trait]
impl QueueReceiver for World {
    async fn hide(&self, _: Queue, _: &str, seconds: u32) -> Result<(), PortError> {
        self.hidden.lock().expect("no panic").push(seconds);
        Ok(())
    }

    async fn delete(&self, _: Queue, _: Vec<String>) -> Result<(), PortError> {
        unreachable!("Lambda deletes")
    }

    async fn in_flight(&self, _: Queue) -> Result<u64, PortError> {
        unreachable!("nobody asks")
    }
}

#[async_trait]
impl Bucket for World {
    async fn put(&self, _: &str, key: &str, _: &Labels, _: Vec<u8>) -> Result<(), BucketError> {
        self.stored.lock().expect("no panic").push(key.to_owned());
        Ok(())
    }
}

#[async_trait]
impl Payloads for World {
    async fn put(&self, _: &str, _: Vec<u8>) -> Result<(), PortError> {
        unreachable!("nothing is large")
    }

    async fn get(&self, _: &str) -> Result<Option<Vec<u8>>, PortError> {
        unreachable!("nothing is large")
    }
}

impl Meter for World {
    fn measure(&self, metric: &'static str, _: &[(&'static str, &str)], _: std::time::Duration) {
        panic!("{metric} is of functions that serve events");
    }

    fn count(&self, _: &'static str, _: &[(&'static str, &str)], _: u64) {}

    fn count_events(
        &self,
        metric: &'static str,
        _: &[(&'static str, &str)],
        _: Timestamp,
        by: u64,
    ) {
        self.counted.lock().expect("no panic").push((metric.to_owned(), by));
    }

    fn flush(&self, _: Timestamp) {}
}

fn topic(input_schema: InputSchema) -> Topic {
    Topic {
        name: TOPIC_NAME.to_owned(),
        kind: Kind::Custom,
        input_schema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile: ProfileName::Basic,
        keys: [Secret::new("a2V5MQ=="), Secret::new("a2V5Mg==")],
        etag: Uuid::nil(),
        created_at: NOW,
        revision: 1,
    }
}

fn subscription(name: &str, schema: DeliverySchema, ends_with: &str) -> EventSubscription {
    let filter = Filter { subject_ends_with: ends_with.to_owned(), ..Filter::default() };
    EventSubscription {
        key: SubscriptionKey { topic: TOPIC_NAME.to_owned(), name: name.to_owned() },
        uid: Uuid::from_u128(5),
        endpoint: Endpoint::WebHook { url: Secret::new("https://example.com/hook") },
        batching: None,
        filter,
        delivery_schema: schema,
        retry_policy: RetryPolicy::default_of(ProfileName::Basic),
        probation_policy: ProbationPolicy::EventGrid,
        dead_letter: None,
        labels: Vec::new(),
        expires_at: None,
        provisioning_state: ProvisioningState::Succeeded,
        validation: None,
        allowed_rate: None,
        created_at: NOW,
        etag: Uuid::nil(),
        delivery_attributes: Vec::new(),
        signing: None,
    }
}

/// An ended delivery of an event subscription, as a record.
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
        message_id: format!("m-{id}"),
        receipt: format!("r-{id}"),
        body: serde_json::to_string(&ended).expect("JSON"),
        receive_count: 1,
    }
}

fn context(world: &Arc<World>) -> Context {
    let clock: Arc<dyn Clock> = Arc::clone(world) as _;
    let configuration: Arc<dyn Configuration> = Arc::clone(world) as _;
    let keep_for = Duration::from_secs(2);
    Context {
        clock: Arc::clone(&clock),
        sender: Arc::clone(world) as _,
        receiver: Arc::clone(world) as _,
        bucket: Arc::clone(world) as _,
        payloads: Arc::clone(world) as _,
        meter: Arc::clone(world) as _,
        notifier: Some(Notifier {
            topic: TOPIC_NAME.to_owned(),
            configuration: ConfigurationCache::new(configuration, clock, keep_for),
            queue_message_bytes_max: 262_144,
            has_complained: AtomicBool::new(false),
        }),
        give_up_after: Duration::from_secs(600),
    }
}

fn counted(world: &World, metric: &str) -> u64 {
    let counted = world.counted.lock().expect("no panic");
    counted.iter().filter(|(name, _)| name == metric).map(|(_, by)| by).sum()
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

#[tokio::test]
async fn an_object_is_told_of_with_what_is_in_it() {
    use DeliverySchema::{CloudEventSchemaV1_0, EventGridSchema};
    for (input, delivered) in [
        (InputSchema::EventGridSchema, EventGridSchema),
        (InputSchema::EventGridSchema, CloudEventSchemaV1_0),
        (InputSchema::CloudEventSchemaV1_0, CloudEventSchemaV1_0),
    ] {
        let shop = subscription("of-shop", delivered, "/topics/shop/eventSubscriptions/billing");
        let world = Arc::new(World {
            topic: Some(topic(input)),
            subscriptions: vec![shop, subscription("nobody", delivered, "x")],
            ..World::default()
        });
        assert!(gather(&context(&world), three()).await.is_empty());
        let stored = world.stored.lock().expect("no panic").clone();
        assert_eq!(stored.len(), 2, "one for each event subscription");
        let sent = world.sent.lock().expect("no panic").clone();
        assert_eq!(sent.len(), 1, "{input:?}: whoever wants it");
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
        // Two were published, one of them was wanted.
        assert_eq!(counted(&world, metric::PUBLISH_SUCCESS_COUNT), 2);
        assert_eq!(counted(&world, metric::UNMATCHED_EVENT_COUNT), 1);
        assert_eq!(counted(&world, metric::MATCHED_EVENT_COUNT), 1);
    }
}

#[tokio::test]
async fn its_own_dead_letters_raise_no_more() {
    let world = Arc::new(World {
        topic: Some(topic(InputSchema::EventGridSchema)),
        subscriptions: vec![subscription("all", DeliverySchema::EventGridSchema, "")],
        ..World::default()
    });
    let own = record(1, TOPIC_NAME, "all", EndReason::TimeToLiveExceeded);
    assert!(gather(&context(&world), vec![own]).await.is_empty());
    assert_eq!(world.stored.lock().expect("no panic").len(), 1);
    assert!(world.sent.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn what_was_not_told_is_told_again_as_the_same() {
    let world = Arc::new(World {
        topic: Some(topic(InputSchema::EventGridSchema)),
        subscriptions: vec![subscription("all", DeliverySchema::EventGridSchema, "")],
        ..World::default()
    });
    let context = context(&world);
    let some = || three()[..3].to_vec();
    world.refuses.store(true, Ordering::Relaxed);
    assert_eq!(gather(&context, some()).await.len(), 3, "they come back");
    assert_eq!(*world.hidden.lock().expect("no panic"), [10, 10, 10]);
    assert_eq!(counted(&world, metric::DEAD_LETTERED_COUNT), 0, "not counted yet");
    world.refuses.store(false, Ordering::Relaxed);
    assert!(gather(&context, some()).await.is_empty());
    assert!(gather(&context, some()).await.is_empty());
    let stored = world.stored.lock().expect("no panic").clone();
    assert!(stored.len() == 3 && stored.iter().all(|name| *name == stored[0]), "{stored:?}");
    let sent = world.sent.lock().expect("no panic").clone();
    assert!(sent.len() == 2 && sent[0].id == sent[1].id, "{sent:?}");
    assert_eq!(counted(&world, metric::DEAD_LETTERED_COUNT), 6);
}

#[tokio::test]
async fn after_hours_in_vain_the_dead_letters_count_all_the_same() {
    let world = Arc::new(World {
        topic: Some(topic(InputSchema::EventGridSchema)),
        subscriptions: vec![subscription("all", DeliverySchema::EventGridSchema, "")],
        refuses: AtomicBool::new(true),
        ..World::default()
    });
    let context = Context { give_up_after: Duration::ZERO, ..context(&world) };
    assert!(gather(&context, three()).await.is_empty());
    assert_eq!(counted(&world, metric::DEAD_LETTERED_COUNT), 4);
    assert_eq!(counted(&world, metric::DROPPED_EVENT_COUNT), 0, "they are stored");
}

#[tokio::test]
async fn a_topic_that_can_t_be_told_holds_up_nothing() {
    for topic in [None, Some(topic(InputSchema::CustomEventSchema))] {
        let world = Arc::new(World { topic, ..World::default() });
        let context = context(&world);
        assert!(gather(&context, three()).await.is_empty());
        let notifier = context.notifier.expect("there");
        assert!(notifier.has_complained.load(Ordering::Relaxed), "it is said once");
        assert_eq!(world.stored.lock().expect("no panic").len(), 2);
    }
}
