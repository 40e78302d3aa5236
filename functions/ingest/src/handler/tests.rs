use std::collections::BTreeMap;

use gridpost_core::{
    delivery::{Delivery, claim, queue::Queue},
    event::{
        DeliverySchema,
        mapping::{Field, InputSchemaMapping},
    },
    gateway::Authorizer,
    publish::{
        origin::{ORIGIN_SECRET, OriginSecrets},
        sas,
    },
    secret::Secret,
    subscription::{EventSubscription, SubscriptionKey},
    time::Timestamp,
    topic::{AccessKeys, InputSchema, Topic},
};
use gridpost_ports::{
    Configuration, Outgoing, Payloads,
    configuration::{ConfigurationCache, Limits},
};
use gridpost_runtime::gateway;
use gridpost_testkit::{
    deployment::Deployment,
    faults::{Fault, Plan},
    fixtures,
    table::Tables,
};
use http::{HeaderValue, Method, Response};
use serde_json::{Value, json};

use super::*;

mod accepted;
mod fan_out;
mod reads;
mod refusals;
mod repeats;

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_123);

struct Stored {
    topics: Vec<Topic>,
    subscriptions: Vec<EventSubscription>,
}

/// Ingest in a deployment. Stores and sent messages are numbered separately, and fail by the plans.
struct Fixture {
    context: Context,
    deployment: Deployment,
}

impl Fixture {
    fn new(stored: Stored) -> Self {
        Self::failing(stored, Plan::default(), Plan::default())
    }

    fn failing(stored: Stored, stores: Plan, sends: Plan) -> Self {
        let deployment = Deployment::at(NOW);
        for topic in stored.topics {
            let of_topic = |one: &&EventSubscription| one.key.topic == topic.name;
            let subscriptions = stored.subscriptions.iter().filter(of_topic).cloned().collect();
            let (name, keys) = (topic.name.clone(), ["Zmlyc3Q=", "c2Vjb25k"]);
            deployment.tables.configure(topic, subscriptions);
            deployment.tables.give_keys(&name, AccessKeys(keys.map(Secret::new)));
        }
        *deployment.injector.plan() = sends;
        let context = Context {
            configuration: configuration(&deployment, Arc::clone(&deployment.tables) as _),
            clock: Arc::clone(&deployment.clock) as _,
            dice: Arc::clone(&deployment.dice) as _,
            sender: deployment.of(&deployment.queues),
            payloads: deployment.apart(&deployment.payloads, stores),
            records: Arc::clone(&deployment.tables) as _,
            meter: Arc::clone(&deployment.meter) as _,
            journal: Arc::clone(&deployment.meter) as _,
            authorization: Authorization::Keys,
            origin_secrets: OriginSecrets::default(),
            queue_message_bytes_max: 262_144,
            latency_metrics: false,
            inline_fan_out: 10_000,
            piece_deliveries_max: 5_000,
        };
        Self { context, deployment }
    }

    async fn publish(&self, request: &Request) -> Response<String> {
        let response = handle(&self.context, request).await;
        let history = self.deployment.history.lock().expect("no panic while held");
        assert_eq!(history.violations, [""; 0], "what the services would not have taken");
        response
    }

    /// Sends API Gateway's event, or a function URL's.
    async fn publish_event(&self, event: Value) -> Response<String> {
        let event: gateway::Event = serde_json::from_value(event).expect("an event");
        let publish = |request| async move { self.publish(&request).await };
        let answered = gateway::answer(event, not_base64, publish).await.expect("an HTTP request");
        let answered = serde_json::to_value(answered).expect("JSON");
        let mut response = Response::builder().status(answered["statusCode"].to_string().as_str());
        for (name, value) in answered["headers"].as_object().expect("headers") {
            response = response.header(name, value.as_str().expect("a text"));
        }
        response.body(answered["body"].as_str().expect("a body").to_owned()).expect("a response")
    }

    fn counts(&self) -> Vec<String> {
        let counts = self.deployment.meter.counts();
        assert!(counts.iter().all(|count| count.published_at.is_none_or(|at| at == NOW)));
        let mut counts: Vec<_> = counts.iter().map(ToString::to_string).collect();
        counts.sort();
        counts
    }

    /// How many messages each call tried to send to the dispatch queue.
    fn call_sizes(&self) -> Vec<usize> {
        self.deployment.queues.call_sizes(Queue::Dispatch)
    }

    /// Messages that the dispatch queue took.
    fn dispatched(&self) -> Vec<Outgoing> {
        self.deployment.queues.sent_to(Queue::Dispatch)
    }

    fn deliveries(&self) -> Vec<Delivery> {
        let decode = |message: &Outgoing| Delivery::decode(&message.body).expect("a delivery");
        self.dispatched().iter().map(decode).collect()
    }
}

fn configuration(deployment: &Deployment, source: Arc<dyn Configuration>) -> ConfigurationCache {
    let Deployment { clock, dice, tables, .. } = deployment;
    let limits = Limits::default();
    let (clock, dice) = (Arc::clone(clock), Arc::clone(dice));
    ConfigurationCache::new(source, clock, dice, limits).with_keys(Arc::clone(tables) as _)
}

fn topic(name: &str, kind: Kind, input_schema: InputSchema) -> Topic {
    Topic { name: name.to_owned(), kind, input_schema, ..fixtures::topic() }
}

fn subscription(topic: &str, name: &str) -> EventSubscription {
    let key = SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() };
    EventSubscription { key, ..fixtures::subscription(name) }
}

/// A topic of each schema with one subscription to everything, and one without local authentication.
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
    }
}

/// A body with so many events of so many bytes of data.
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
        method: Method::POST,
        path: "/topics/orders/api/events".to_owned(),
        query: "api-version=2018-01-01".to_owned(),
        body: body.as_bytes().to_vec(),
        ..Request::default()
    };
    request.headers.insert("content-type", HeaderValue::from_static("application/json"));
    request.headers.insert("aeg-sas-key", HeaderValue::from_static("Zmlyc3Q="));
    request
}

/// Sets a header, or removes it if the value is empty.
fn with(mut request: Request, header: &'static str, value: &'static str) -> Request {
    request.headers.remove(header);
    if !value.is_empty() {
        request.headers.insert(header, HeaderValue::from_static(value));
    }
    request
}

fn to(path: &str, request: Request) -> Request {
    Request { path: path.to_owned(), ..request }
}

fn code_and_message(response: &Response<String>) -> (String, String) {
    let body: Value = serde_json::from_str(response.body()).expect("JSON");
    let error = &body["error"];
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    assert_eq!(text(&error["message"]), text(&error["details"][0]["message"]));
    (
        format!("{}/{}", text(&error["code"]), text(&error["details"][0]["code"])),
        text(&error["message"]),
    )
}

#[tokio::test(start_paused = true)]
async fn a_publish_is_enqueued_and_answered_with_200_and_nothing() {
    let fixture = Fixture::new(stored());
    let response = fixture.publish(&request(&events(2, 1))).await;
    assert_eq!((response.status().as_u16(), &**response.body()), (200, ""));
    assert!(response.headers().is_empty());

    let deliveries = fixture.deliveries();
    assert_ne!(deliveries[0].id, deliveries[1].id);
    for delivery in deliveries {
        assert_eq!((delivery.publish_time, delivery.subscription.name.as_str()), (NOW, "all"));
        assert!(delivery.events()[0].get().contains(r#""topic":"/topics/orders""#));
    }
    let sent = fixture.dispatched();
    assert!(sent.iter().all(|message| message.group == "orders/all" && message.delay_s == 0));
    assert_eq!(fixture.call_sizes(), [2]);
    assert_eq!(
        fixture.counts(),
        [
            "MatchedEventCount Topic=orders,EventSubscriptionName=all 2",
            "PublishSuccessCount Topic=orders 2"
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_publishers_trace_goes_with_its_deliveries() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (given, want) in [(trace, Some(trace)), ("00-no-trace-01", None), ("", None)] {
        let fixture = Fixture::new(stored());
        let request = with(request(&events(2, 1)), "traceparent", given);
        assert_eq!(fixture.publish(&request).await.status().as_u16(), 200);
        for delivery in fixture.deliveries() {
            let found = delivery.traceparent.map(|trace| trace.to_string());
            assert_eq!(found.as_deref(), want, "{given}");
        }
    }
    // Several headers are ambiguous.
    let fixture = Fixture::new(stored());
    let mut twice = with(request(&events(1, 1)), "traceparent", trace);
    let other = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    twice.headers.append("traceparent", HeaderValue::from_static(other));
    assert_eq!(fixture.publish(&twice).await.status().as_u16(), 200);
    assert!(fixture.deliveries().iter().all(|delivery| delivery.traceparent.is_none()));
}

#[tokio::test(start_paused = true)]
async fn cloud_events_go_out_as_they_came() {
    let text = r#"{ "id":"1","source":"/s","type":"T","specversion":"1.0","data":{"n":1.50} }"#;
    for (content_type, body) in [
        ("application/cloudevents+json; charset=utf-8", text.to_owned()),
        ("application/cloudevents-batch+json; charset=utf-8", format!("[{text}]")),
    ] {
        let fixture = Fixture::new(stored());
        let request =
            with(to("/topics/clouds/api/events", request(&body)), "content-type", content_type);
        assert_eq!(fixture.publish(&request).await.status().as_u16(), 200);
        let sent = fixture.deliveries();
        assert_eq!(sent[0].events()[0].get(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_topic_answers_an_empty_object() {
    let text = r#"{"id":"1","source":"/s","type":"T","specversion":"1.0"}"#;
    let fixture = Fixture::new(stored());
    let request = to("/topics/spaces:publish", request(text));
    let request = with(request, "content-type", "application/cloudevents+json");
    let request = with(request, "aeg-sas-key", "");
    let request = with(request, "authorization", "SharedAccessKey c2Vjb25k");
    let response = fixture.publish(&request).await;
    assert_eq!((response.status().as_u16(), &**response.body()), (200, "{}"));
    assert_eq!(response.headers()["content-type"], "application/json; charset=utf-8");
    assert_eq!(fixture.deliveries()[0].events()[0].get(), text);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_event_in_binary_mode_is_delivered_structured() {
    let fixture = Fixture::new(stored());
    let mut request = to("/topics/clouds/api/events", request("{ \"n\": 1.50 }"));
    for (name, value) in
        [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "caf%C3%A9")]
    {
        request = with(request, name, value);
    }
    assert_eq!(fixture.publish(&request).await.status().as_u16(), 200);
    let want = concat!(
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"café","#,
        r#""datacontenttype":"application/json","data":{ "n": 1.50 }}"#,
    );
    assert_eq!(fixture.deliveries()[0].events()[0].get(), want);
}

#[tokio::test(start_paused = true)]
async fn a_sas_token_opens_until_it_expires() {
    let token = |seconds: i64| {
        let at = Timestamp::from_millis(NOW.as_millis() + 1_000 * seconds);
        sas::sign("https://a/topics/orders/api/events", at, "Zmlyc3Q=").expect("a token")
    };
    for (seconds, want) in [(1, 200), (0, 401)] {
        let fixture = Fixture::new(stored());
        let mut request = with(request(&events(1, 1)), "aeg-sas-key", "");
        let value = HeaderValue::from_str(&token(seconds)).expect("a value");
        request.headers.insert("aeg-sas-token", value);
        assert_eq!(fixture.publish(&request).await.status().as_u16(), want, "{seconds}");
        assert_eq!(fixture.call_sizes().is_empty(), want != 200);
    }
}

#[tokio::test(start_paused = true)]
async fn either_key_opens_in_header_or_query() {
    let bare = || with(request(&events(1, 1)), "aeg-sas-key", "");
    let query = |query: &str| Request { query: query.to_owned(), ..bare() };
    for request in [
        with(bare(), "aeg-sas-key", "c2Vjb25k"),
        query("aeg-sas-key=c2Vjb25k"),
        query("api-version=2018-01-01&aeg-sas-key=Zmlyc3Q%3D"),
    ] {
        let fixture = Fixture::new(stored());
        assert_eq!(fixture.publish(&request).await.status().as_u16(), 200, "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_authorizer_of_api_gateway_stands_for_keys() {
    let table = [
        (Authorizer::Iam, Some(Authorizer::Iam), 200),
        (Authorizer::Jwt, Some(Authorizer::Jwt), 200),
        (Authorizer::Iam, Some(Authorizer::Jwt), 401),
        (Authorizer::Jwt, None, 401),
    ];
    for (asked, passed, want) in table {
        let mut fixture = Fixture::new(stored());
        fixture.context.authorization = Authorization::Gateway(asked.clone());
        // Keys do not matter, nor whether local authentication is disabled.
        for path in ["/topics/orders/api/events", "/topics/closed/api/events"] {
            let request = with(to(path, request(&events(1, 1))), "aeg-sas-key", "no");
            let request = Request { authorizer: passed.clone(), ..request };
            assert_eq!(
                fixture.publish(&request).await.status().as_u16(),
                want,
                "{asked:?} {passed:?}"
            );
            let route = Some("POST /topics/{topic}".to_owned());
            let other = Request { route, ..request };
            assert_eq!(
                fixture.publish(&other).await.status().as_u16(),
                404,
                "matched as another route"
            );
        }
    }
}

/// Topics are found in any spelling, and events name them as they were created. Behind an authorizer
/// of API Gateway only the first spelling opens a topic: a policy that denies it by name must hold.
#[tokio::test(start_paused = true)]
async fn a_topic_is_found_in_any_spelling() {
    for (name, with_keys, behind_gateway) in
        [("orders", 200, 200), ("Orders", 200, 404), ("ORDERS", 200, 404), ("0rders", 404, 404)]
    {
        let path = format!("/topics/{name}/api/events");
        let keyed = with(to(&path, request(&events(1, 1))), "aeg-sas-key", "c2Vjb25k");
        let mut fixture = Fixture::new(stored());
        assert_eq!(fixture.publish(&keyed).await.status().as_u16(), with_keys, "{name}");
        let accepted = fixture.counts().iter().any(|it| it == "PublishSuccessCount Topic=orders 1");
        assert_eq!(accepted, with_keys == 200, "{name}: {:?}", fixture.counts());
        fixture.context.authorization = Authorization::Gateway(Authorizer::Iam);
        let signed = Request { authorizer: Some(Authorizer::Iam), ..keyed };
        assert_eq!(fixture.publish(&signed).await.status().as_u16(), behind_gateway, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_is_accepted_and_counted() {
    let mut stored = stored();
    stored.subscriptions[0].expires_at = Some(NOW);
    let fixture = Fixture::new(stored);
    assert_eq!(fixture.publish(&request(&events(1, 1))).await.status().as_u16(), 200);
    assert_eq!(
        fixture.counts(),
        ["PublishSuccessCount Topic=orders 1", "UnmatchedEventCount Topic=orders 1"]
    );
    assert!(fixture.call_sizes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_events_are_accepted() {
    let fixture = Fixture::new(stored());
    assert_eq!(fixture.publish(&request("[]")).await.status().as_u16(), 200);
    assert!(fixture.counts().is_empty() && fixture.call_sizes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_what_was_not_sent_is_sent_again_and_is_the_same_delivery() {
    // The second of three messages is taken, but the answer is lost.
    let sends = Plan { calls: BTreeMap::from([(2, Fault::FailsAfter)]), ..Plan::default() };
    let fixture = Fixture::failing(stored(), Plan::default(), sends);
    assert_eq!(fixture.publish(&request(&events(3, 1))).await.status().as_u16(), 200);
    assert_eq!(fixture.call_sizes(), [3, 1]);
    let ids: Vec<_> = fixture.deliveries().iter().map(|sent| sent.id).collect();
    assert!(ids[3] == ids[1] && ids[0] != ids[1] && ids[2] != ids[1], "{ids:?}");
    assert!(fixture.counts().contains(&"PublishSuccessCount Topic=orders 3".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_sent_twice_is_503_with_a_time_to_come_back() {
    // The second of three messages, and its retry.
    let fixture = Fixture::failing(stored(), Plan::default(), Plan::failing([2, 4]));
    let response = fixture.publish(&request(&events(3, 1))).await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
        (503, &b"1"[..])
    );
    let (code, message) = code_and_message(&response);
    assert_eq!(code, "ServiceUnavailable/ServiceUnavailable");
    assert!(message.contains("send them again") && !message.contains("plan"), "{message}");
    assert!(!message.contains("a call"), "{message}");
    let failed = "PublishFailCount ErrorType=ServiceUnavailable,Error=ServiceUnavailable 1";
    assert_eq!(fixture.counts(), [failed]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_configuration_is_503() {
    let mut fixture = Fixture::new(stored());
    let down = Plan { calls_max: Some(0), ..Plan::default() };
    let unreadable = fixture.deployment.apart(&fixture.deployment.tables, down);
    fixture.context.configuration = configuration(&fixture.deployment, unreadable);
    let response = fixture.publish(&request(&events(1, 1))).await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
        (503, &b"1"[..])
    );
    assert!(fixture.call_sizes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_deliveries_are_sent_in_waves() {
    let fixture = Fixture::new(stored());
    assert_eq!(fixture.publish(&request(&events(1_200, 1))).await.status().as_u16(), 200);
    assert_eq!(fixture.call_sizes(), [500, 500, 200]);

    let mut stored = stored();
    stored.subscriptions =
        (0..100).map(|index| subscription("orders", &format!("s{index}"))).collect();
    let fixture = Fixture::new(stored);
    assert_eq!(fixture.publish(&request(&events(1, 250_000))).await.status().as_u16(), 200);
    // 33 deliveries of 250 kB are the most that stay within 8 MiB.
    assert_eq!(fixture.call_sizes(), [33, 33, 33, 1]);
}

#[tokio::test(start_paused = true)]
async fn an_event_too_large_for_a_message_goes_through_the_payload_bucket() {
    let fixture = Fixture::failing(stored(), Plan::failing([1]), Plan::default());
    assert_eq!(fixture.publish(&request(&events(1, 1_000_000))).await.status().as_u16(), 200);
    let sent = fixture.deliveries();
    assert_eq!((sent.len(), sent[0].event_count(), sent[0].events().len()), (1, 1, 0));
    let object = fixture.deployment.payloads.get(&claim::key(sent[0].id)).await.expect("readable");
    let object = String::from_utf8(object.expect("stored, in the second try")).expect("text");
    assert!(object.contains(&"x".repeat(1_000_000)) && object.starts_with('['));
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_can_not_be_stored_is_503_and_sends_nothing() {
    let fixture = Fixture::failing(stored(), Plan::failing([1, 2]), Plan::default());
    let response = fixture.publish(&request(&events(1, 1_000_000))).await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
        (503, &b"1"[..])
    );
    assert!(fixture.call_sizes().is_empty());
}
