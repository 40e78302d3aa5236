use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{
        Delivery,
        claim::{self, Payload},
        queue::Queue,
    },
    event::DeliverySchema,
    intake::{Carries, Content, Envelope},
    subscription::{EventSubscription, SubscriptionKey},
    topic::{InputSchema, Kind},
};
use gridpost_ports::{Outgoing, configuration::Limits};
use gridpost_testkit::{
    deployment::Deployment,
    faults::{Fault, Plan},
    fixtures,
    queue::QueueSettings,
};
use serde_json::{Value, json};

use super::*;

/// 2026-11-21T08:00:00.123Z
const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_123);

/// Intake in a deployment. Its calls fail by the test's plan, numbered together.
struct Fixture {
    context: Context,
    deployment: Deployment,
}

fn source(carries: Carries) -> Source {
    Source {
        name: "uploads".to_owned(),
        topic: "orders".to_owned(),
        queue_arn: "arn:aws:sqs:eu-central-1:1:q".to_owned(),
        source: "arn:aws:sqs:eu-central-1:1:q".to_owned(),
        event_type: "com.amazonaws.sqs.message".to_owned(),
        envelope: Envelope::None,
        carries,
        content: Content::Auto,
        blobs: true,
    }
}

fn subscription(name: &str) -> EventSubscription {
    let key = SubscriptionKey { topic: "orders".to_owned(), name: name.to_owned() };
    EventSubscription {
        key,
        delivery_schema: DeliverySchema::CloudEventSchemaV1_0,
        ..fixtures::subscription(name)
    }
}

impl Fixture {
    fn new(carries: Carries, plan: Plan) -> Self {
        let topic = Topic {
            name: "orders".to_owned(),
            input_schema: InputSchema::CloudEventSchemaV1_0,
            ..fixtures::topic()
        };
        Self::of(Some(topic), carries, plan)
    }

    fn of(topic: Option<Topic>, carries: Carries, plan: Plan) -> Self {
        // A source's queues take as much as a message's sender was allowed.
        let message_bytes_max = 1_048_576;
        let settings =
            QueueSettings { message_bytes_max, takes_refused: true, ..QueueSettings::CALM };
        let deployment = Deployment::with_queues(NOW, settings);
        if let Some(topic) = topic {
            let delivery_schema = match topic.input_schema {
                InputSchema::EventGridSchema => DeliverySchema::EventGridSchema,
                InputSchema::CloudEventSchemaV1_0 => DeliverySchema::CloudEventSchemaV1_0,
                InputSchema::CustomEventSchema => DeliverySchema::CustomInputSchema,
            };
            let all = EventSubscription { delivery_schema, ..subscription("all") };
            deployment.tables.configure(topic, vec![all]);
        }
        *deployment.injector.plan() = plan;
        Self { context: context(&deployment, carries), deployment }
    }

    /// Starts the next copy of the function, without faults.
    fn begun_again(mut self) -> Self {
        *self.deployment.injector.plan() = Plan::default();
        self.deployment.instance = Arc::default();
        let source = self.context.source;
        Self { context: Context { source, ..context(&self.deployment, Carries::S3) }, ..self }
    }

    async fn take(&self, bodies: &[&str]) -> Vec<String> {
        let kept = take(&self.context, messages(bodies)).await;
        let history = self.deployment.history.lock().expect("no panic while held");
        let violations = &history.violations;
        assert!(violations.is_empty(), "what the services would not have taken: {violations:?}");
        kept
    }

    fn sent(&self, queue: Queue) -> Vec<String> {
        let body = |message: Outgoing| message.body;
        self.deployment.queues.sent_to(queue).into_iter().map(body).collect()
    }

    fn events(&self) -> Vec<Value> {
        self.deliveries().iter().flat_map(events_of).collect()
    }

    fn deliveries(&self) -> Vec<Delivery> {
        let decode = |body: &String| Delivery::decode(body).expect("a delivery");
        self.sent(Queue::Dispatch).iter().map(decode).collect()
    }

    fn counts(&self) -> Vec<String> {
        let mut counts: Vec<_> =
            self.deployment.meter.counts().iter().map(ToString::to_string).collect();
        counts.sort();
        counts
    }
}

fn context(deployment: &Deployment, carries: Carries) -> Context {
    let (clock, dice) = (Arc::clone(&deployment.clock), Arc::clone(&deployment.dice));
    let tables = deployment.of(&deployment.tables);
    Context {
        source: source(carries),
        clock: Arc::clone(&deployment.clock) as _,
        dice: Arc::clone(&deployment.dice) as _,
        configuration: ConfigurationCache::new(tables, clock, dice, Limits::default()),
        sender: deployment.of(&deployment.queues),
        payloads: deployment.of(&deployment.payloads),
        meter: Arc::clone(&deployment.meter) as _,
        journal: Arc::clone(&deployment.meter) as _,
        queue_message_bytes_max: 262_144,
        inline_fan_out: 10_000,
        piece_deliveries_max: 5_000,
    }
}

fn events_of(delivery: &Delivery) -> Vec<Value> {
    let read = |event: &serde_json::value::RawValue| serde_json::from_str(event.get());
    delivery.events().iter().map(|event| read(event).expect("JSON")).collect()
}

/// Messages `m0`, `m1` and so on.
fn messages(bodies: &[&str]) -> Vec<SourceMessage> {
    let message = |(index, body): (usize, &&str)| SourceMessage {
        message_id: format!("m{index}").into(),
        body: (*body).to_owned(),
        sent_at: NOW,
    };
    bodies.iter().enumerate().map(message).collect()
}

fn object(key: &str) -> String {
    json!({"Records": [{
        "eventSource": "aws:s3", "awsRegion": "eu-central-1", "eventName": "ObjectCreated:Put",
        "eventTime": "2026-01-02T03:04:05.000Z", "responseElements": {"x-amz-request-id": "R1"},
        "s3": {"bucket": {"name": "b"}, "object": {"key": key, "size": 5, "sequencer": "0A"}},
    }]})
    .to_string()
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_publish_and_counted_as_one() {
    let fixture = Fixture::new(Carries::Messages, Plan::default());
    let kept = fixture.take(&[r#"{"n":1}"#, "two", "[3]"]).await;
    assert_eq!(kept, [""; 0]);
    let events = fixture.events();
    let ids: Vec<_> = events.iter().map(|event| event["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["m0", "m1", "m2"]);
    assert_eq!(events[0]["data"], json!({"n": 1}));
    assert!(fixture.deliveries().iter().all(|delivery| delivery.publish_time == NOW));
    assert_eq!(
        fixture.counts(),
        [
            "MatchedEventCount Topic=orders,EventSubscriptionName=all 3",
            "PublishSuccessCount Topic=orders 3",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn topics_of_every_schema_and_kind_take_them() {
    use InputSchema::{CloudEventSchemaV1_0, CustomEventSchema, EventGridSchema};
    for (kind, input_schema) in [
        (Kind::Custom, EventGridSchema),
        (Kind::Custom, CloudEventSchemaV1_0),
        (Kind::Custom, CustomEventSchema),
        (Kind::Namespace, CloudEventSchemaV1_0),
    ] {
        let name = "orders".to_owned();
        let topic = Topic { name, kind, input_schema, ..fixtures::topic() };
        let fixture = Fixture::of(Some(topic), Carries::S3, Plan::default());
        assert_eq!(fixture.take(&[&object("a"), &object("b")]).await, [""; 0]);
        let events = fixture.events();
        let type_member = if input_schema == EventGridSchema { "eventType" } else { "type" };
        for (event, key) in events.iter().zip(["a", "b"]) {
            let data = if input_schema == CustomEventSchema { event } else { &event["data"] };
            assert_eq!(data["url"], format!("https://b.s3.eu-central-1.amazonaws.com/{key}"));
            if input_schema != CustomEventSchema {
                assert_eq!(event[type_member], "Microsoft.Storage.BlobCreated");
            }
        }
        assert_eq!(events.len(), 2, "{input_schema:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_messages_again_are_recognisable() {
    let fixture = Fixture::new(Carries::S3, Plan::default());
    for _ in 0..2 {
        assert_eq!(fixture.take(&[&object("a"), &object("b")]).await, [""; 0]);
    }
    let [first, second] =
        &fixture.deliveries().chunks(2).map(<[_]>::to_vec).collect::<Vec<_>>()[..]
    else {
        panic!("two each")
    };
    for (one, other) in first.iter().zip(second) {
        assert_eq!(events_of(one), events_of(other));
        // A copy is a delivery of its own, so that each has an end in the ledger.
        assert_ne!(one.id, other.id);
    }
    assert_ne!(first[0].id, first[1].id);
}

#[tokio::test(start_paused = true)]
async fn one_that_can_not_be_mapped_goes_to_the_poison_queue_alone_and_as_it_came() {
    let fixture = Fixture::new(Carries::S3, Plan::default());
    let confidential = r#"{"Records":[{"eventSource":"confidential"}]}"#;
    let typed = object("c").replace("\"size\":5", "\"size\":\"confidential\"");
    let kept = fixture.take(&[&object("a"), confidential, &typed, &object("b")]).await;
    assert_eq!(kept, [""; 0]);
    assert_eq!(fixture.sent(Queue::Poison), [confidential, &typed]);
    assert_eq!(fixture.events().len(), 2);
    assert_eq!(
        fixture.counts(),
        [
            "MatchedEventCount Topic=orders,EventSubscriptionName=all 2",
            "PublishSuccessCount Topic=orders 2",
            "SourceRefusedCount Reason=Unmappable 1",
            "SourceRefusedCount Reason=Unmappable 1",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_topic_refuses_is_kept_in_the_poison_queue_with_its_reason() {
    let event_bridge = |detail_type: &str, time: &str| {
        json!({"id": "1", "source": "my.app", "detail-type": detail_type, "time": time, "detail": {}})
            .to_string()
    };
    let record = json!({
        "eventSource": "aws:s3", "awsRegion": "r", "eventName": "ObjectCreated:Put",
        "eventTime": "2026-01-02T03:04:05Z", "s3": {"bucket": {"name": "b"}, "object": {"key": "k"}},
    });
    // As blobs they take over a mebibyte.
    let many = json!({"Records": vec![record; 2_000]}).to_string();
    let table = [
        (Carries::S3, many, "RequestTooLarge"),
        (Carries::EventBridge, event_bridge("", "2026-01-02T03:04:05Z"), "InputJsonInvalid"),
        (Carries::EventBridge, event_bridge("T", "yesterday"), "InputJsonInvalid"),
        (Carries::EventBridge, event_bridge("a\nb", "2026-01-02T03:04:05Z"), "InputJsonInvalid"),
    ];
    for (carries, text, reason) in table {
        let fixture = Fixture::new(carries, Plan::default());
        assert_eq!(fixture.take(&[&text]).await, [""; 0], "{reason}");
        assert_eq!(fixture.sent(Queue::Poison).len(), 1, "{reason}");
        assert_eq!(fixture.sent(Queue::Dispatch), [""; 0], "{reason}");
        assert_eq!(fixture.counts(), [format!("SourceRefusedCount Reason={reason} 1")]);
    }
    let fixture = Fixture::of(None, Carries::Messages, Plan::default());
    assert_eq!(fixture.take(&["a", "b"]).await, [""; 0]);
    assert_eq!(fixture.sent(Queue::Poison), ["a", "b"]);
    assert_eq!(fixture.counts(), ["SourceRefusedCount Reason=TopicNotFound 1"; 2]);
}

#[tokio::test(start_paused = true)]
async fn s3s_test_event_is_let_go_and_counted() {
    let fixture = Fixture::new(Carries::S3, Plan::default());
    let test = r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}"#;
    assert_eq!(fixture.take(&[test]).await, [""; 0]);
    assert_eq!(fixture.sent(Queue::Poison), [""; 0]);
    assert_eq!(fixture.counts(), ["SourceIgnoredCount  1"]);
}

#[tokio::test(start_paused = true)]
async fn a_large_event_goes_by_the_payload_bucket_and_a_large_batch_by_expand() {
    let fixture = Fixture::new(Carries::Messages, Plan::default());
    assert_eq!(fixture.take(&[&"x".repeat(500_000)]).await, [""; 0]);
    assert!(fixture.deliveries()[0].events().is_empty(), "claimed");
    let mut fixture = Fixture::new(Carries::Messages, Plan::default());
    fixture.context.inline_fan_out = 1;
    assert_eq!(fixture.take(&["a", "b"]).await, [""; 0]);
    assert_eq!((fixture.sent(Queue::Dispatch).len(), fixture.sent(Queue::FanOut).len()), (0, 1));
}

/// The bodies of a batch of all kinds: two events, one of them large, S3's test, one unmappable.
fn batch() -> [String; 4] {
    let test = r#"{"Event":"s3:TestEvent"}"#.to_owned();
    let large = object("b")
        .replace("\"size\":5", &format!("\"size\":5,\"more\":\"{}\"", "x".repeat(300_000)));
    [object("a"), large, test, "rubbish".to_owned()]
}

/// Takes the batch while calls fail by that plan, then the kept messages again without faults.
async fn after(plan: Plan) -> (Vec<Value>, Vec<String>) {
    let mut fixture = Fixture::new(Carries::S3, plan);
    fixture.context.source.blobs = false;
    let texts = batch();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    // After a crash, SQS has kept all of them.
    let kept = tokio::time::timeout(Duration::from_secs(600), fixture.take(&texts)).await;
    let kept = kept.unwrap_or_else(|_| (0..texts.len()).map(|index| format!("m{index}")).collect());
    let fixture = fixture.begun_again();
    let again = messages(&texts).into_iter();
    let again: Vec<_> =
        again.filter(|message| kept.contains(&message.message_id.to_string())).collect();
    assert_eq!(take(&fixture.context, again).await, [""; 0], "without faults all is taken");
    let mut events = Vec::new();
    for delivery in fixture.deliveries() {
        events.extend(match delivery.events().is_empty() {
            false => events_of(&delivery),
            true => stored(&fixture, &delivery).await,
        });
    }
    (events, fixture.sent(Queue::Poison))
}

async fn stored(fixture: &Fixture, delivery: &Delivery) -> Vec<Value> {
    let object = fixture.context.payloads.get(&claim::key(delivery.id)).await.expect("readable");
    let object = object.expect("stored before it is sent");
    let Payload::Events(events) = claim::decode(&object).expect("events") else { panic!("ended") };
    events.iter().map(|event| serde_json::from_str(event.get()).expect("JSON")).collect()
}

#[tokio::test(start_paused = true)]
async fn any_fault_at_any_call_repeats_and_loses_nothing() {
    let (events, poison) = after(Plan::default()).await;
    assert_eq!((events.len(), poison.len()), (2, 1));
    let ids = |events: &[Value]| -> BTreeSet<String> {
        events.iter().map(|event| event["id"].to_string()).collect()
    };
    let faults = [
        Fault::FailsBefore,
        Fault::FailsAfter,
        Fault::DiesBefore,
        Fault::DiesAfter,
        Fault::HangsBefore,
        Fault::HangsAfter,
    ];
    let mut repeated = 0;
    for fault in faults {
        for call in 1..=8 {
            // The call's repetition fails as well.
            let calls = [(call, fault), (call + 1, fault)].into();
            let (found, refused) = after(Plan { calls, ..Plan::default() }).await;
            assert_eq!(ids(&found), ids(&events), "{fault:?} at call {call}");
            assert!(refused.iter().all(|text| text == "rubbish"), "{fault:?} at call {call}");
            assert!(!refused.is_empty(), "{fault:?} at call {call}: lost");
            repeated += usize::from(found.len() > events.len() || refused.len() > 1);
        }
    }
    assert!(repeated > 3, "the faults were not met: {repeated}");
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_can_not_be_read_keeps_every_message() {
    let fixture = Fixture::new(Carries::Messages, Plan { calls_max: Some(0), ..Plan::default() });
    assert_eq!(fixture.take(&["a", "b"]).await, ["m0", "m1"]);
    assert_eq!(fixture.counts(), ["SourceKeptCount Source=uploads 1"; 2]);
    assert_eq!(fixture.sent(Queue::Poison), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_back_are_counted() {
    // Whatever call is the last that succeeds: the topic can't be read, or the poison queue takes nothing.
    let mut kept_with_topic = 0;
    for calls in 0..6 {
        let fixture = Fixture::new(Carries::S3, Plan { calls_max: Some(calls), ..Plan::default() });
        let kept = fixture.take(&["rubbish", &object("a")]).await;
        let count = "SourceKeptCount Source=uploads 1";
        let counted = fixture.counts().iter().filter(|found| **found == count).count();
        assert_eq!(counted, kept.len(), "after {calls} calls");
        kept_with_topic += usize::from(kept == ["m0"]);
    }
    assert!(kept_with_topic > 0, "the poison queue refused at no call");
}

/// Ports at which a bug shows: the queue can't take a delivery that names it, nor the meter a test event.
struct Broken(Arc<dyn QueueSender>);

#[async_trait]
impl QueueSender for Broken {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        assert!(!messages.iter().any(|message| message.body.contains("a bug")), "it breaks");
        self.0.send(queue, messages).await
    }
}

impl Meter for Broken {
    fn count(&self, metric: &'static str, _dimensions: &[(&'static str, &str)], _by: u64) {
        assert_ne!(metric, metric::SOURCE_IGNORED_COUNT, "it breaks");
    }

    fn measure(&self, _: &'static str, _: &[(&'static str, &str)], _: Duration) {}

    fn flush(&self, _: Timestamp) {}
}

#[tokio::test(start_paused = true)]
async fn a_message_at_which_the_code_panics_comes_back_alone() {
    let test = r#"{"Event":"s3:TestEvent"}"#;
    let texts = [object("a"), object("a bug"), test.to_owned(), object("b"), "rubbish".to_owned()];
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let mut fixture = Fixture::new(Carries::S3, Plan::default());
    fixture.context.source.blobs = false;
    let broken = Arc::new(Broken(Arc::clone(&fixture.context.sender)));
    fixture.context.sender = Arc::clone(&broken) as _;
    fixture.context.meter = broken;
    let mut kept = fixture.take(&texts).await;
    kept.sort();
    assert_eq!(kept, ["m1", "m2"]);
    let keys: BTreeSet<_> =
        fixture.events().iter().map(|event| event["subject"].to_string()).collect();
    assert_eq!(keys, ["\"a\"".to_owned(), "\"b\"".to_owned()].into());
    assert_eq!(fixture.sent(Queue::Poison), ["rubbish"]);
}
