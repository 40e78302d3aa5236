use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use base64::Engine;
use gridpost_core::{
    delivery::{Delivery, claim, queue::Queue},
    event::{
        DeliverySchema,
        mapping::{Field, InputSchemaMapping},
    },
    publish::sas,
    retry::{policy::RetryPolicy, probation::ProbationPolicy, profile::ProfileName},
    secret::Secret,
    subscription::{Endpoint, EventSubscription, Filter, ProvisioningState, SubscriptionKey},
    time::Timestamp,
    topic::{InputSchema, Topic},
};
use gridpost_ports::{
    Clock, Configuration, Dice, Outgoing, Payloads, PortError, QueueSender,
    configuration::ConfigurationCache,
};
use http::HeaderValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::gateway::{Authorizer, GatewayEvent};

mod fan_out;

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_123);

/// Topics and subscriptions; cannot be read where `fails`.
#[derive(Default)]
struct Stored {
    topics: Vec<Topic>,
    subscriptions: Vec<EventSubscription>,
    fails: bool,
}

#[async_trait]
impl Configuration for Stored {
    async fn topic(&self, name: &str) -> Result<Option<Topic>, PortError> {
        if self.fails {
            return Err(PortError::new("dynamodb:GetItem", "it is down"));
        }
        Ok(self.topics.iter().find(|topic| topic.name == name).cloned())
    }

    async fn subscriptions(&self, topic: &str) -> Result<Vec<EventSubscription>, PortError> {
        let of_topic = |subscription: &&EventSubscription| subscription.key.topic == topic;
        Ok(self.subscriptions.iter().filter(of_topic).cloned().collect())
    }
}

/// What was sent to the dispatch queue, call by call, and to others. A body that contains `refuses`
/// fails for so many calls.
#[derive(Default)]
struct Queued {
    calls: Mutex<Vec<Vec<Outgoing>>>,
    others: Mutex<Vec<(Queue, Outgoing)>>,
    refuses: &'static str,
    refusals: AtomicU64,
}

#[async_trait]
impl QueueSender for Queued {
    async fn send(&self, queue: Queue, messages: Vec<Outgoing>) -> Vec<Result<(), PortError>> {
        let refusing = self.refusals.load(Ordering::Relaxed) > 0;
        let answer = |message: &Outgoing| {
            if refusing && message.body.contains(self.refuses) {
                Err(PortError::new("sqs:SendMessageBatch", "InternalError"))
            } else {
                Ok(())
            }
        };
        let answers = messages.iter().map(answer).collect();
        self.refusals
            .store(self.refusals.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        if queue == Queue::Dispatch {
            self.calls.lock().expect("no panic while held").push(messages);
        } else {
            let messages = messages.into_iter().map(|message| (queue, message));
            self.others.lock().expect("no panic while held").extend(messages);
        }
        answers
    }
}

impl Queued {
    fn call_sizes(&self) -> Vec<usize> {
        self.calls.lock().expect("no panic while held").iter().map(Vec::len).collect()
    }

    fn deliveries(&self) -> Vec<Delivery> {
        let calls = self.calls.lock().expect("no panic while held");
        let decode = |message: &Outgoing| Delivery::decode(&message.body).expect("a delivery");
        calls.iter().flatten().map(decode).collect()
    }
}

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        NOW
    }
}

#[derive(Default)]
struct CountingDice(AtomicU64);

impl Dice for CountingDice {
    fn roll(&self) -> f64 {
        0.0
    }

    fn id(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)))
    }

    fn key(&self) -> [u8; 32] {
        [0; 32]
    }
}

#[derive(Default)]
struct Counted(Mutex<Vec<String>>);

impl Meter for Counted {
    fn count(&self, metric: &'static str, dimensions: &[(&'static str, &str)], by: u64) {
        let values: Vec<_> =
            dimensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let line = format!("{metric} {} {by}", values.join(","));
        self.0.lock().expect("no panic while held").push(line);
    }

    fn measure(&self, metric: &'static str, dimensions: &[(&'static str, &str)], took: Duration) {
        self.count(metric, dimensions, took.as_millis() as u64);
    }

    fn count_events(
        &self,
        metric: &'static str,
        dimensions: &[(&'static str, &str)],
        published_at: Timestamp,
        by: u64,
    ) {
        assert_eq!(published_at, NOW);
        self.count(metric, dimensions, by);
    }

    fn flush(&self, _: Timestamp) {}
}

/// Stored payloads by name; fails for so many calls.
#[derive(Default)]
struct Stowed {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    failures: AtomicU64,
}

#[async_trait]
impl Payloads for Stowed {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures > 0 {
            self.failures.store(failures - 1, Ordering::Relaxed);
            return Err(PortError::new("s3:PutObject", "SlowDown"));
        }
        self.objects.lock().expect("no panic while held").insert(key.to_owned(), object);
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        Ok(self.objects.lock().expect("no panic while held").get(key).cloned())
    }
}

struct World {
    context: Context,
    queue: Arc<Queued>,
    payloads: Arc<Stowed>,
    meter: Arc<Counted>,
}

impl World {
    fn new(stored: Stored, queue: Queued) -> Self {
        let (queue, meter) = (Arc::new(queue), Arc::new(Counted::default()));
        let payloads = Arc::new(Stowed::default());
        let clock: Arc<dyn Clock> = Arc::new(StoppedClock);
        let stored: Arc<dyn Configuration> = Arc::new(stored);
        let keep_for = Duration::from_secs(2);
        let context = Context {
            configuration: ConfigurationCache::new(stored, Arc::clone(&clock), keep_for),
            clock,
            dice: Arc::new(CountingDice::default()),
            sender: Arc::clone(&queue) as _,
            payloads: Arc::clone(&payloads) as _,
            meter: Arc::clone(&meter) as _,
            authorization: Authorization::Keys,
            queue_message_bytes_max: 262_144,
            latency_metrics: false,
            inline_fan_out: 10_000,
            piece_deliveries_max: 5_000,
        };
        Self { context, queue, payloads, meter }
    }

    async fn publish(&self, request: &Request) -> Response {
        handle(&self.context, request).await
    }

    fn counts(&self) -> Vec<String> {
        let mut counts = self.meter.0.lock().expect("no panic while held").clone();
        counts.sort();
        counts
    }
}

fn topic(name: &str, kind: Kind, input_schema: InputSchema) -> Topic {
    Topic {
        name: name.to_owned(),
        kind,
        input_schema,
        input_schema_mapping: None,
        disable_local_auth: false,
        delivery_profile: ProfileName::Basic,
        keys: [Secret::new("Zmlyc3Q="), Secret::new("c2Vjb25k")],
        etag: uuid::Uuid::nil(),
        created_at: Timestamp::from_millis(0),
        revision: 1,
    }
}

fn subscription(topic: &str, name: &str) -> EventSubscription {
    EventSubscription {
        key: SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() },
        uid: Uuid::from_u128(5),
        endpoint: Endpoint::WebHook { url: Secret::new("https://example.com/hook") },
        batching: None,
        filter: Filter::default(),
        delivery_schema: DeliverySchema::EventGridSchema,
        retry_policy: RetryPolicy::default_of(ProfileName::Basic),
        probation_policy: ProbationPolicy::EventGrid,
        dead_letter: None,
        labels: Vec::new(),
        expires_at: None,
        provisioning_state: ProvisioningState::Succeeded,
        validation: None,
        allowed_rate: None,
        etag: uuid::Uuid::nil(),
        created_at: Timestamp::from_millis(0),
        delivery_attributes: Vec::new(),
        signing: None,
    }
}

/// A topic of each schema with one subscription to everything, and one that nobody can publish to.
fn stored() -> Stored {
    let grid = topic("orders", Kind::Custom, InputSchema::EventGridSchema);
    let cloud = topic("clouds", Kind::Custom, InputSchema::CloudEventSchemaV1_0);
    let namespace = topic("spaces", Kind::Namespace, InputSchema::CloudEventSchemaV1_0);
    let closed =
        Topic { disable_local_auth: true, ..topic("closed", grid.kind, grid.input_schema) };
    let cloud_event = DeliverySchema::CloudEventSchemaV1_0;
    let subject = Field { source_field: Some("path".to_owned()), default_value: None };
    let event_time = Some("at".to_owned());
    let own = Topic {
        input_schema_mapping: Some(InputSchemaMapping {
            subject,
            event_time,
            ..Default::default()
        }),
        ..topic("own", Kind::Custom, InputSchema::CustomEventSchema)
    };
    Stored {
        topics: vec![grid, cloud, namespace, closed, own],
        subscriptions: vec![
            subscription("orders", "all"),
            EventSubscription { delivery_schema: cloud_event, ..subscription("clouds", "all") },
            EventSubscription { delivery_schema: cloud_event, ..subscription("spaces", "all") },
            EventSubscription {
                delivery_schema: DeliverySchema::CustomInputSchema,
                ..subscription("own", "all")
            },
            subscription("closed", "all"),
        ],
        fails: false,
    }
}

/// A body with so many events, whose data are so many bytes.
fn events(count: usize, data_bytes: usize) -> String {
    let event = |index: usize| {
        json!({
            "id": index.to_string(), "subject": format!("s/{index}"), "eventType": "T",
            "eventTime": "2026-01-02T03:04:05Z", "data": "x".repeat(data_bytes),
        })
    };
    Value::from_iter((0..count).map(event)).to_string()
}

/// A publish to the topic `orders` with its first key.
fn request(body: &str) -> Request {
    let mut request = Request {
        method: "POST".to_owned(),
        path: "/topics/orders/api/events".to_owned(),
        query: "api-version=2018-01-01".to_owned(),
        body: body.as_bytes().to_vec(),
        ..Request::default()
    };
    request.headers.insert("content-type", HeaderValue::from_static("application/json"));
    request.headers.insert("aeg-sas-key", HeaderValue::from_static("Zmlyc3Q="));
    request
}

/// The same with another header, or without it where the value is empty.
fn with(mut request: Request, header: &'static str, value: &'static str) -> Request {
    request.headers.remove(header);
    if !value.is_empty() {
        request.headers.insert(header, HeaderValue::from_static(value));
    }
    request
}

/// The same to another path.
fn to(path: &str, request: Request) -> Request {
    Request { path: path.to_owned(), ..request }
}

fn code_and_message(response: &Response) -> (String, String) {
    let body: Value = serde_json::from_str(&response.body).expect("JSON");
    let error = &body["error"];
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    assert_eq!(text(&error["message"]), text(&error["details"][0]["message"]));
    (
        format!("{}/{}", text(&error["code"]), text(&error["details"][0]["code"])),
        text(&error["message"]),
    )
}

#[tokio::test]
async fn a_publish_is_enqueued_and_answered_with_200_and_nothing() {
    let world = World::new(stored(), Queued::default());
    let response = world.publish(&request(&events(2, 1))).await;
    let want = Response { status_code: 200, headers: BTreeMap::new(), body: String::new() };
    assert_eq!(response, want);

    let deliveries = world.queue.deliveries();
    assert_ne!(deliveries[0].id, deliveries[1].id);
    for delivery in deliveries {
        assert_eq!((delivery.publish_time, delivery.subscription.name.as_str()), (NOW, "all"));
        assert!(delivery.events()[0].get().contains(r#""topic":"/topics/orders""#));
    }
    let calls = world.queue.calls.lock().expect("no panic while held");
    assert!(calls[0].iter().all(|message| message.group == "orders/all" && message.delay_s == 0));
    assert_eq!(
        world.counts(),
        [
            "MatchedEventCount Topic=orders,EventSubscriptionName=all 2",
            "PublishSuccessCount Topic=orders 2"
        ],
    );
}

#[tokio::test]
async fn a_publishers_trace_goes_with_its_deliveries() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (given, want) in [(trace, Some(trace)), ("00-no-trace-01", None), ("", None)] {
        let world = World::new(stored(), Queued::default());
        let request = with(request(&events(2, 1)), "traceparent", given);
        assert_eq!(world.publish(&request).await.status_code, 200);
        for delivery in world.queue.deliveries() {
            let found = delivery.traceparent.map(|trace| trace.to_string());
            assert_eq!(found.as_deref(), want, "{given}");
        }
    }
}

#[tokio::test]
async fn cloud_events_go_out_as_they_came() {
    let text = r#"{ "id":"1","source":"/s","type":"T","specversion":"1.0","data":{"n":1.50} }"#;
    for (content_type, body) in [
        ("application/cloudevents+json; charset=utf-8", text.to_owned()),
        ("application/cloudevents-batch+json; charset=utf-8", format!("[{text}]")),
    ] {
        let world = World::new(stored(), Queued::default());
        let request =
            with(to("/topics/clouds/api/events", request(&body)), "content-type", content_type);
        assert_eq!(world.publish(&request).await.status_code, 200);
        let sent = world.queue.deliveries();
        assert_eq!(sent[0].events()[0].get(), text);
    }
}

#[tokio::test]
async fn a_namespace_topic_answers_an_empty_object() {
    let text = r#"{"id":"1","source":"/s","type":"T","specversion":"1.0"}"#;
    let world = World::new(stored(), Queued::default());
    let request = to("/topics/spaces:publish", request(text));
    let request = with(request, "content-type", "application/cloudevents+json");
    let request = with(request, "aeg-sas-key", "");
    let request = with(request, "authorization", "SharedAccessKey c2Vjb25k");
    let response = world.publish(&request).await;
    assert_eq!((response.status_code, &*response.body), (200, "{}"));
    assert_eq!(response.headers["content-type"], "application/json; charset=utf-8");
    assert_eq!(world.queue.deliveries()[0].events()[0].get(), text);
}

#[tokio::test]
async fn a_cloud_event_in_binary_mode_is_delivered_structured() {
    let world = World::new(stored(), Queued::default());
    let mut request = to("/topics/clouds/api/events", request("{ \"n\": 1.50 }"));
    for (name, value) in
        [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "caf%C3%A9")]
    {
        request = with(request, name, value);
    }
    assert_eq!(world.publish(&request).await.status_code, 200);
    let want = concat!(
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"café","#,
        r#""datacontenttype":"application/json","data":{ "n": 1.50 }}"#,
    );
    assert_eq!(world.queue.deliveries()[0].events()[0].get(), want);
}

#[tokio::test]
async fn a_sas_token_opens_until_it_expires() {
    let token = |seconds: i64| {
        let at = Timestamp::from_millis(NOW.as_millis() + 1_000 * seconds);
        sas::sign("https://a/topics/orders/api/events", at, "Zmlyc3Q=").expect("a token")
    };
    for (seconds, want) in [(1, 200), (0, 401)] {
        let world = World::new(stored(), Queued::default());
        let mut request = with(request(&events(1, 1)), "aeg-sas-key", "");
        let value = HeaderValue::from_str(&token(seconds)).expect("a value");
        request.headers.insert("aeg-sas-token", value);
        assert_eq!(world.publish(&request).await.status_code, want, "{seconds}");
        assert_eq!(world.queue.call_sizes().is_empty(), want != 200);
    }
}

#[tokio::test]
async fn either_key_opens_in_header_or_query() {
    let bare = || with(request(&events(1, 1)), "aeg-sas-key", "");
    let query = |query: &str| Request { query: query.to_owned(), ..bare() };
    for request in [
        with(bare(), "aeg-sas-key", "c2Vjb25k"),
        query("aeg-sas-key=c2Vjb25k"),
        query("api-version=2018-01-01&aeg-sas-key=Zmlyc3Q%3D"),
    ] {
        let world = World::new(stored(), Queued::default());
        assert_eq!(world.publish(&request).await.status_code, 200, "{request:?}");
    }
}

#[tokio::test]
async fn an_authorizer_of_api_gateway_stands_for_keys() {
    let table = [
        (Authorizer::Iam, Some(Authorizer::Iam), 200),
        (Authorizer::Jwt, Some(Authorizer::Jwt), 200),
        (Authorizer::Iam, Some(Authorizer::Jwt), 401),
        (Authorizer::Jwt, None, 401),
    ];
    for (asked, passed, want) in table {
        let mut world = World::new(stored(), Queued::default());
        world.context.authorization = Authorization::Gateway(asked);
        // Whether local authentication is disabled matters no more than what is in the headers.
        for path in ["/topics/orders/api/events", "/topics/closed/api/events"] {
            let request = with(to(path, request(&events(1, 1))), "aeg-sas-key", "no");
            let request = Request { authorizer: passed, ..request };
            assert_eq!(world.publish(&request).await.status_code, want, "{asked:?} {passed:?}");
        }
    }
}

#[tokio::test]
async fn what_nobody_wants_is_accepted_and_counted() {
    let mut stored = stored();
    stored.subscriptions[0].expires_at = Some(NOW);
    let world = World::new(stored, Queued::default());
    assert_eq!(world.publish(&request(&events(1, 1))).await.status_code, 200);
    assert_eq!(
        world.counts(),
        ["PublishSuccessCount Topic=orders 1", "UnmatchedEventCount Topic=orders 1"]
    );
    assert!(world.queue.call_sizes().is_empty());
}

#[tokio::test]
async fn no_events_are_accepted() {
    let world = World::new(stored(), Queued::default());
    assert_eq!(world.publish(&request("[]")).await.status_code, 200);
    assert!(world.counts().is_empty() && world.queue.call_sizes().is_empty());
}

#[tokio::test]
async fn refusals() {
    let good = || request(&events(1, 1));
    let bad_second = events(1, 1).replace(']', r#",{"id":"2"}]"#);
    let too_large = "x".repeat(1_048_577);
    let cloud = |body: &str, content_type| {
        with(to("/topics/clouds/api/events", request(body)), "content-type", content_type)
    };
    let table = [
        (404, "NotFound/RouteNotFound", "nothing is served", to("/topics/orders", good())),
        (404, "NotFound/RouteNotFound", "POST", Request { method: "PUT".to_owned(), ..good() }),
        (404, "NotFound/TopicNotFound", "does not exist", to("/topics/other/api/events", good())),
        (
            404,
            "NotFound/TopicNotFound",
            "does not exist",
            to("/topics/or%20ers/api/events", good()),
        ),
        (404, "NotFound/TopicNotFound", "does not exist", to("/topics//api/events", good())),
        (404, "NotFound/TopicNotFound", "does not exist", to("/topics/other:publish", good())),
        (
            401,
            "Unauthorized/CredentialsMissing",
            "has no credentials",
            with(good(), "aeg-sas-key", ""),
        ),
        (401, "Unauthorized/KeyRefused", "not one of", with(good(), "aeg-sas-key", "Zmlyc3Q")),
        (
            401,
            "Unauthorized/TokenMalformed",
            "signature that is no base64",
            with(with(good(), "aeg-sas-key", ""), "aeg-sas-token", "r=a&e=b&s=c"),
        ),
        (
            401,
            "Unauthorized/LocalAuthDisabled",
            "disabled",
            to("/topics/closed/api/events", good()),
        ),
        // Whoever may not publish learns nothing of what else is wrong.
        (401, "Unauthorized/KeyRefused", "", with(request("[{"), "aeg-sas-key", "no")),
        (401, "Unauthorized/KeyRefused", "", with(request(&too_large), "aeg-sas-key", "no")),
        (
            401,
            "Unauthorized/KeyRefused",
            "",
            with(to("/topics/spaces:publish", good()), "aeg-sas-key", "no"),
        ),
        (
            404,
            "NotFound/OtherPath",
            "kind 'custom'; publish to it with POST to /topics/orders/api/events",
            to("/topics/orders:publish", good()),
        ),
        (
            404,
            "NotFound/OtherPath",
            "kind 'namespace'; publish to it with POST to /topics/spaces:publish",
            to("/topics/spaces/api/events", good()),
        ),
        (413, "RequestEntityTooLarge/RequestTooLarge", "1048577 bytes", request(&too_large)),
        (400, "BadRequest/InputJsonInvalid", "index 0 is not valid JSON", request("[{")),
        (400, "BadRequest/InputJsonInvalid", "must be an array", request("{}")),
        (400, "BadRequest/InputJsonInvalid", "index 1: member 'subject'", request(&bad_second)),
        (400, "BadRequest/TooManyEvents", "more than 5000 events", request(&events(5_001, 0))),
        (
            400,
            "BadRequest/ContentTypeUnsupported",
            "takes application/json",
            with(good(), "content-type", "application/cloudevents+json"),
        ),
        (
            400,
            "BadRequest/ContentTypeUnsupported",
            "takes application/cloudevents+json",
            cloud("{}", "application/json"),
        ),
        (
            400,
            "BadRequest/InputHeaderInvalid",
            "header 'ce-id' is required",
            with(cloud("{}", "application/json"), "ce-specversion", "1.0"),
        ),
        (
            400,
            "BadRequest/InputJsonInvalid",
            "index 0: member 'id' is required",
            cloud("{}", "application/cloudevents+json"),
        ),
    ];
    for (status, code, text, request) in table {
        let world = World::new(stored(), Queued::default());
        let response = world.publish(&request).await;
        let row = format!("{} {}", request.path, response.body);
        assert_eq!(response.status_code, status, "{row}");
        let (got, message) = code_and_message(&response);
        assert_eq!(got, code, "{row}");
        assert!(message.contains(text), "{row}");
        assert!(!response.headers.contains_key("retry-after"), "{row}");
        assert_eq!(response.headers["content-type"], "application/json; charset=utf-8");
        assert!(world.queue.call_sizes().is_empty(), "{row}");
        let (error_type, error) = code.split_once('/').expect("two names");
        let want = format!("PublishFailCount ErrorType={error_type},Error={error} 1");
        assert_eq!(world.counts(), [want], "{row}");
    }
}

#[tokio::test]
async fn only_what_was_not_sent_is_sent_again_and_is_the_same_delivery() {
    let queue = Queued { refuses: "s/1\"", refusals: AtomicU64::new(1), ..Queued::default() };
    let world = World::new(stored(), queue);
    assert_eq!(world.publish(&request(&events(3, 1))).await.status_code, 200);
    assert_eq!(world.queue.call_sizes(), [3, 1]);
    let ids: Vec<_> = world.queue.deliveries().iter().map(|sent| sent.id).collect();
    assert!(ids[3] == ids[1] && ids[0] != ids[1] && ids[2] != ids[1], "{ids:?}");
    assert!(world.counts().contains(&"PublishSuccessCount Topic=orders 3".to_owned()));
}

#[tokio::test]
async fn what_can_not_be_sent_twice_is_503_with_a_time_to_come_back() {
    let queue = Queued { refuses: "s/1\"", refusals: AtomicU64::new(2), ..Queued::default() };
    let world = World::new(stored(), queue);
    let response = world.publish(&request(&events(3, 1))).await;
    assert_eq!((response.status_code, &*response.headers["retry-after"]), (503, "1"));
    let (code, message) = code_and_message(&response);
    assert_eq!(code, "ServiceUnavailable/ServiceUnavailable");
    assert!(message.contains("send them again") && !message.contains("sqs"), "{message}");
    let failed = "PublishFailCount ErrorType=ServiceUnavailable,Error=ServiceUnavailable 1";
    assert_eq!(world.counts(), [failed]);
}

#[tokio::test]
async fn unreadable_configuration_is_503() {
    let world = World::new(Stored { fails: true, ..stored() }, Queued::default());
    let response = world.publish(&request(&events(1, 1))).await;
    assert_eq!((response.status_code, &*response.headers["retry-after"]), (503, "1"));
    assert!(world.queue.call_sizes().is_empty());
}

#[tokio::test]
async fn many_deliveries_are_sent_in_waves() {
    let world = World::new(stored(), Queued::default());
    assert_eq!(world.publish(&request(&events(1_200, 1))).await.status_code, 200);
    assert_eq!(world.queue.call_sizes(), [500, 500, 200]);

    let mut stored = stored();
    stored.subscriptions =
        (0..100).map(|index| subscription("orders", &format!("s{index}"))).collect();
    let world = World::new(stored, Queued::default());
    assert_eq!(world.publish(&request(&events(1, 250_000))).await.status_code, 200);
    // 33 deliveries of 250 kB are the most that stay within 8 MiB.
    assert_eq!(world.queue.call_sizes(), [33, 33, 33, 1]);
}

/// A request of `refused_publishes.json` as API Gateway hands it over: what a row does not say is
/// that of a publish that is accepted.
fn gateway_event(row: &Value) -> Value {
    let text = |name: &str| row[name].as_str();
    let to = text("to").unwrap_or("orders");
    let (path, content_type, good) = match to {
        "orders" => ("/topics/orders/api/events", "application/json", events(1, 1)),
        "own" => ("/topics/own/api/events", "application/json", r#"{"path":"p"}"#.to_owned()),
        "clouds" => ("/topics/clouds/api/events", "application/cloudevents+json", cloud_event()),
        "spaces" => ("/topics/spaces:publish", "application/cloudevents+json", cloud_event()),
        other => panic!("no such topic: {other}"),
    };
    let mut headers = json!({"content-type": content_type, "aeg-sas-key": "Zmlyc3Q="});
    let headers_of_row = row["headers"].as_object().into_iter().flatten();
    for (name, value) in headers_of_row {
        let headers = headers.as_object_mut().expect("an object");
        match value {
            Value::Null => headers.remove(name),
            value => headers.insert(name.clone(), value.clone()),
        };
    }
    let body = match (text("body"), text("hex"), row["repeat"].as_array()) {
        (Some(body), None, None) => body.as_bytes().to_vec(),
        (None, Some(hex), None) => {
            let digits = hex.as_bytes().chunks(2);
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            digits.map(|pair| byte(pair).expect("two digits")).collect()
        }
        (None, None, Some(parts)) => {
            let part = |index: usize| parts[index].as_str().expect("a text");
            let count = usize::try_from(parts[2].as_u64().expect("a count")).expect("small");
            format!("{}{}{}", part(0), part(1).repeat(count), part(3)).into_bytes()
        }
        (None, None, None) => good.into_bytes(),
        _ => panic!("a row has more than one body: {row}"),
    };
    json!({
        "rawPath": text("path").unwrap_or(path),
        "rawQueryString": text("query").unwrap_or_default(),
        "headers": headers,
        "requestContext": {"http": {"method": text("method").unwrap_or("POST")}},
        "body": base64::engine::general_purpose::STANDARD.encode(body),
        "isBase64Encoded": true,
    })
}

fn cloud_event() -> String {
    r#"{"id":"1","source":"/s","type":"T","specversion":"1.0"}"#.to_owned()
}

async fn publish_row(row: &Value) -> (World, Response) {
    let event: GatewayEvent = serde_json::from_value(gateway_event(row)).expect("an event");
    let world = World::new(stored(), Queued::default());
    let response = world.publish(&event.into_request().expect("a request")).await;
    (world, response)
}

#[tokio::test]
async fn every_request_of_the_table_is_refused_and_leaves_nothing_behind() {
    // But for what a row says, its request would have been accepted.
    for to in ["orders", "own", "clouds", "spaces"] {
        let (world, response) = publish_row(&json!({"to": to})).await;
        assert_eq!((response.status_code, world.queue.call_sizes()), (200, vec![1]), "{to}");
    }
    let table = include_str!("../../../../../tests/conformance/refused_publishes.json");
    let table: Value = serde_json::from_str(table).expect("JSON");
    let rows = table["requests"].as_array().expect("rows");
    let mut problems = Vec::new();
    for row in rows {
        let (world, response) = publish_row(row).await;
        let (code, message) = code_and_message(&response);
        let as_wanted = response.status_code == row["status"]
            && code == row["error"]
            && row["says"].as_str().is_some_and(|text| message.contains(text));
        if !as_wanted {
            problems.push(format!("{}: {} {code} {message}", row["name"], response.status_code));
        }
        let nothing_left = world.queue.call_sizes().is_empty()
            && world.counts().iter().all(|count| count.starts_with("PublishFailCount"));
        assert!(nothing_left && !response.headers.contains_key("retry-after"), "{}", row["name"]);
        assert!(response.body.len() < 2_000, "{}: the answer is long", row["name"]);
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(rows.len() > 150, "{} rows", rows.len());
}

#[tokio::test]
async fn an_event_too_large_for_a_message_goes_through_the_payload_bucket() {
    let world = World::new(stored(), Queued::default());
    world.payloads.failures.store(1, Ordering::Relaxed);
    assert_eq!(world.publish(&request(&events(1, 1_000_000))).await.status_code, 200);
    let sent = world.queue.deliveries();
    assert_eq!((sent.len(), sent[0].event_count(), sent[0].events().len()), (1, 1, 0));
    let object = world.payloads.get(&claim::key(sent[0].id)).await.expect("readable");
    let object = String::from_utf8(object.expect("stored, in the second try")).expect("text");
    assert!(object.contains(&"x".repeat(1_000_000)) && object.starts_with('['));
}

#[tokio::test]
async fn a_payload_that_can_not_be_stored_is_503_and_sends_nothing() {
    let world = World::new(stored(), Queued::default());
    world.payloads.failures.store(2, Ordering::Relaxed);
    let response = world.publish(&request(&events(1, 1_000_000))).await;
    assert_eq!((response.status_code, &*response.headers["retry-after"]), (503, "1"));
    assert!(world.queue.call_sizes().is_empty());
}
