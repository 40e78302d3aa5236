//! `docs/openapi.json` is generated from the routes, has API Gateway's routes, and describes the
//! handler's answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
};

use gridpost_api::{
    dead_letter::{DeadLetterCount, DeadLetterList, DeadLetterShown, DeadLettersPurged},
    delivery::{DeliveryCount, DeliveryList, DeliveryShown},
    error::Error,
    health::{Health, HealthList},
    journal::JournalQuery,
    redrive::{Redrive, RedriveList},
    subscription::{DeliveryAttributes, PauseStanding, SigningSecrets},
    trial::{Explained, TestEventSent, TestResult},
    waiting::{Handled, HandledDeliveryList, ParkedList, PoisonList, PoisonShown},
};
use gridpost_ports::JournalError;
use gridpost_testkit::journal_reader::Instead;
use jsonschema::Validator;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema, openapi::PathItem};

use super::{Fixture, S1, S1_GET, body, code, webhook};
use crate::{Reply, routes};

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
/// With this variable, the test writes the document.
const WRITE: &str = "GRIDPOST_WRITE_OPENAPI";
const MANAGE_API: &str = include_str!("../../../../infra/manage_api.tf");
const PUBLISH_API: &str = include_str!("../../../../infra/publish_api.tf");

type Header = (&'static str, &'static str);

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

fn document() -> Value {
    serde_json::from_str(DOCUMENT).expect("JSON")
}

/// `METHOD /path` of every operation with this tag.
pub(super) fn operations(tag: &str) -> BTreeSet<String> {
    let document = document();
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, item)| {
        let there = METHODS.into_iter().filter(|method| item[*method]["tags"][0] == tag);
        there.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.collect()
}

/// The route keys in a Terraform file: strings that are a method and a path.
fn route_keys(terraform: &str) -> BTreeSet<String> {
    let lines = terraform.lines().map(|line| line.trim().trim_end_matches(','));
    let strings = lines.filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    let keys = strings.filter(|text| {
        text.split_once(" /")
            .is_some_and(|(method, _)| METHODS.contains(&method.to_ascii_lowercase().as_str()))
    });
    // A route can't match part of a segment.
    let whole = |key: &str| match key {
        "POST /topics/{topic}" => "POST /topics/{topic}:publish".to_owned(),
        key => key.to_owned(),
    };
    keys.map(whole).collect()
}

/// A schema of the document, with the others in reach.
fn schema(name: &str) -> Validator {
    let components = document()["components"].clone();
    let schema = json!({"$ref": format!("#/components/schemas/{name}"), "components": components});
    jsonschema::validator_for(&schema).expect("a schema")
}

pub(super) fn assert_valid(name: &str, value: &Value) {
    let errors: Vec<_> = schema(name).iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?} in {value}");
    let again = read_and_written(name, value);
    assert!(again.is_none_or(|again| again == *value), "{name}: {value}");
}

/// Reads and writes an answer as a client.
fn read_and_written(name: &str, value: &Value) -> Option<Value> {
    fn of<T: Serialize + DeserializeOwned>(value: &Value) -> Value {
        json!(T::deserialize(value).expect("the type of an answer"))
    }
    let of = match name {
        "DeadLetterCount" => of::<DeadLetterCount>,
        "DeadLetterList" => of::<DeadLetterList>,
        "DeadLetterShown" => of::<DeadLetterShown>,
        "DeadLettersPurged" => of::<DeadLettersPurged>,
        "DeliveryAttributes" => of::<DeliveryAttributes>,
        "DeliveryCount" => of::<DeliveryCount>,
        "DeliveryList" => of::<DeliveryList>,
        "DeliveryShown" => of::<DeliveryShown>,
        "Error" => of::<Error>,
        "Explained" => of::<Explained>,
        "Handled" => of::<Handled>,
        "HandledDeliveryList" => of::<HandledDeliveryList>,
        "Health" => of::<Health>,
        "JournalQuery" => of::<JournalQuery>,
        "NamedHealthList" => of::<HealthList>,
        "ParkedList" => of::<ParkedList>,
        "PauseStanding" => of::<PauseStanding>,
        "PoisonList" => of::<PoisonList>,
        "PoisonShown" => of::<PoisonShown>,
        "Redrive" => of::<Redrive>,
        "RedriveList" => of::<RedriveList>,
        "SigningSecrets" => of::<SigningSecrets>,
        "TestEventSent" => of::<TestEventSent>,
        "TestResult" => of::<TestResult>,
        _ => return None,
    };
    Some(of(value))
}

/// The document with its members in order.
#[derive(Serialize)]
struct Generated {
    openapi: Value,
    info: Value,
    servers: Value,
    security: Value,
    tags: Value,
    paths: BTreeMap<String, Item>,
    components: Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Own(Box<PathItem>),
    Other(Value),
}

/// The document with the manage API's routes and documents as the code has them. All else in it, the
/// publish API and the schemas of its documents, is written by hand there.
fn generated() -> String {
    let mut rest = document();
    let mut take = |name: &str| rest[name].take();
    let mut paths: BTreeMap<String, Item> = BTreeMap::new();
    for (path, item) in routes::document().paths.paths.clone() {
        paths.insert(path, Item::Own(Box::new(of_manage(item))));
    }
    let Value::Object(others) = take("paths") else { panic!("paths") };
    for (path, item) in others.into_iter().filter(|(_, item)| item["post"]["tags"][0] == "publish")
    {
        let before = paths.insert(path.clone(), Item::Other(item));
        assert!(before.is_none(), "{path} is of both APIs");
    }
    let mut components = take("components");
    let written = json!([paths, components["responses"]]);
    components["schemas"] = schemas(&written, components["schemas"].take());
    let mut info = take("info");
    info["version"] = json!(env!("CARGO_PKG_VERSION"));
    let document = Generated {
        openapi: take("openapi"),
        info,
        servers: take("servers"),
        security: take("security"),
        tags: take("tags"),
        paths,
        components,
    };
    let parameters = document.components["parameters"].as_object().expect("parameters").clone();
    compact(&serde_json::to_string_pretty(&document).expect("JSON"), &parameters)
}

/// The schemas that a part of the document reaches, of types or written by hand.
fn schemas(written: &Value, by_hand: Value) -> Value {
    let mut all: BTreeMap<String, Value> = serde_json::from_value(by_hand).expect("schemas");
    let collected = &routes::document().components.as_ref().expect("components").schemas;
    let mut of_types = vec![(Error::name().into_owned(), Error::schema())];
    Error::schemas(&mut of_types);
    of_types.extend(collected.clone());
    let mut own = BTreeMap::new();
    for (name, schema) in &of_types {
        let before = own.insert(name.clone(), json!(schema));
        assert!(before.is_none_or(|before| before == json!(schema)), "two types are called {name}");
    }
    all.extend(own);
    let asked: Vec<_> = written[0].as_object().expect("paths").values().flat_map(bodies).collect();
    let asked = in_reach(&json!(asked), &all);
    for (name, _) in of_types {
        leave_out_null(all.get_mut(&name).expect("its schema"), asked.contains(&name));
    }
    all.values_mut().for_each(tidy);
    let used = in_reach(written, &all);
    all.retain(|name, _| used.contains(name));
    json!(all)
}

/// What the operations of a path take.
fn bodies(path: &Value) -> impl Iterator<Item = &Value> {
    METHODS.into_iter().filter_map(|method| path[method].get("requestBody"))
}

/// The names of the schemas that a part of the document refers to.
fn in_reach(part: &Value, schemas: &BTreeMap<String, Value>) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![part]);
    while let Some(part) = open.pop() {
        let mut names = Vec::new();
        references(part, &mut names);
        for name in names.iter().filter_map(|one| one.strip_prefix("#/components/schemas/")) {
            if found.insert(name.to_owned()) {
                open.extend(schemas.get(name));
            }
        }
    }
    found
}

/// Has members without null: utoipa gives it to each that may be left out, and to those that must not.
/// Only members of requests may be null instead of left out.
fn leave_out_null(schema: &mut Value, is_asked: bool) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let may_be_null = |name: &String| {
        is_asked && !required.as_array().is_some_and(|all| all.contains(&json!(name)))
    };
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, member) in members.into_iter().flatten().filter(|(name, _)| !may_be_null(name)) {
        if let Some([one, _]) = member.get("type").and_then(Value::as_array).map(Vec::as_slice) {
            member["type"] = one.clone();
        }
        if let Some([one, _]) = member.get("oneOf").and_then(Value::as_array).map(Vec::as_slice) {
            *member = one.clone();
        }
    }
    let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
    parts.into_iter().flatten().for_each(|part| leave_out_null(part, is_asked));
}

/// Has descriptions in one line, for doc comments are broken into several, and integers without the
/// formats of Rust's: a `u32` is no `int32`.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| {
                !(name == "format" && (*value == "int32" || *value == "int64"))
                    && !(name == "default" && value.is_null())
            });
            members.values_mut().for_each(tidy);
        }
        Value::Array(elements) => elements.iter_mut().for_each(tidy),
        Value::String(text) => *text = text.replace('\n', " "),
        _ => {}
    }
}

/// The targets of all references in a part of the document.
fn references<'d>(value: &'d Value, found: &mut Vec<&'d str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|one| references(one, found)),
        _ => {}
    }
}

/// Puts what fits on a line on one, and refers to parameters that components has.
fn compact(pretty: &str, parameters: &Map<String, Value>) -> String {
    let (mut lines, mut open): (Vec<String>, Vec<usize>) = (Vec::new(), Vec::new());
    for line in pretty.lines() {
        lines.push(line.to_owned());
        if line.ends_with(['{', '[']) {
            open.push(lines.len() - 1);
        } else if line.trim_start().starts_with(['}', ']']) {
            let start = open.pop().expect("it was opened");
            let inner: Vec<_> = lines[start + 1..].iter().map(|line| line.trim_start()).collect();
            let (end, inner) = inner.split_last().expect("its end");
            let mut joined = format!("{}{}{end}", lines[start], inner.join(" "));
            if let Some(reference) = reference(&joined, parameters) {
                joined = reference;
            }
            if joined.len() <= 100 {
                lines.truncate(start);
                lines.push(joined);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// What refers to a parameter that components has, if this object is one.
fn reference(object: &str, parameters: &Map<String, Value>) -> Option<String> {
    let (text, comma) = object.strip_suffix(',').map_or((object, ""), |text| (text, ","));
    let (indent, _) = text.split_once('{').filter(|(before, _)| before.trim().is_empty())?;
    let value: Value = serde_json::from_str(text).expect("JSON");
    let (name, _) = parameters.iter().find(|(_, one)| **one == value)?;
    Some(format!(r##"{indent}{{"$ref": "#/components/parameters/{name}"}}{comma}"##))
}

/// A path with the tag of its API.
fn of_manage(mut item: PathItem) -> PathItem {
    let all = [&mut item.put, &mut item.get, &mut item.patch, &mut item.delete, &mut item.post];
    for operation in all.into_iter().flatten() {
        operation.tags = Some(vec!["manage".to_owned()]);
    }
    item
}

#[test]
fn it_is_what_the_routes_say() {
    let generated = generated();
    if env::var_os(WRITE).is_some() {
        fs::write(PATH, generated).expect("written");
        return;
    }
    assert!(
        generated == DOCUMENT,
        "docs/openapi.json is not what the code says. Write it anew, and look at the difference: \
         {WRITE}=1 cargo test -p gridpost-manage openapi"
    );
}

/// Terraform and the handler agree on the routes without IAM.
#[test]
fn the_same_routes_are_open() {
    let open = MANAGE_API.split_once("validation_routes = toset([").expect("open routes").1;
    let open = route_keys(open.split_once("])").expect("their end").0);
    assert_eq!(open.len(), 2);
    let own = routes::all().iter().filter(|route| route.is_open);
    assert_eq!(own.map(|route| route.key.clone()).collect::<BTreeSet<_>>(), open);
    let document = document();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for method in METHODS {
            let line = format!("{} {path}", method.to_uppercase());
            let is_open = item[method]["security"] == json!([{}]);
            assert_eq!(is_open, open.contains(&line), "{line}");
        }
    }
}

#[test]
fn its_routes_are_those_of_api_gateway() {
    let own: BTreeSet<_> = routes::all().iter().map(|route| route.key.clone()).collect();
    assert_eq!(own, route_keys(MANAGE_API));
    assert_eq!(operations("manage"), own);
    assert_eq!(operations("publish"), route_keys(PUBLISH_API));
    assert!(operations("manage").len() > 12);
}

#[tokio::test(start_paused = true)]
async fn its_routes_are_those_of_the_handler() {
    let documented = operations("manage");
    let paths: BTreeSet<_> = documented.iter().filter_map(|it| it.split_once(' ')).collect();
    let paths: BTreeSet<_> = paths.into_iter().map(|(_, path)| path).collect();
    for path in paths {
        for method in METHODS.map(str::to_uppercase) {
            let fixture = Fixture::with_subscription().await;
            fixture.lay("m-1", "rubbish", None, None);
            let waiting = super::deliveries::waiting(&fixture, 7);
            let id = waiting.id.to_string();
            fixture.put_state(waiting);
            let id = match path {
                path if path.contains("/deliveries/") => &id,
                path if path.starts_with("/journalQueries/") => &super::journal::id(),
                _ => "m-1",
            };
            let place = path.replace("{topic}", "demo").replace("{name}", "s-1");
            let reply = fixture.call(&format!("{method} {}", place.replace("{id}", id))).await;
            let is_known = reply.status != 405 && reply.status != 404;
            let line = format!("{method} {path}");
            assert_eq!(is_known, documented.contains(&line), "{line}: {reply:?}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50, "{}", found.len());
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("inside");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let kinds = document["components"]["schemas"].as_object().expect("schemas").keys();
    kinds.for_each(|name| drop(schema(name)));
}

/// Requests and answers have the document's form.
#[tokio::test(start_paused = true)]
async fn documents_have_the_form_that_it_says() {
    let fixture = Fixture::with_subscription().await;
    let mut full = webhook("https://e.example/hook?code=hush");
    full["properties"]["retryPolicy"] = json!({
        "maxDeliveryAttempts": 5, "schedule": [1, 2],
        "statusRules": {"404": "deadLetter", "5xx": {"retryAfterSeconds": 9}},
    });
    full["properties"]["deadLetterDestination"] =
        json!({"endpointType": "S3Bucket", "properties": {"bucketName": "dead-letters"}});
    full["properties"]["labels"] = json!(["a"]);
    full["properties"]["expirationTimeUtc"] = json!("2100-01-01T00:00:00Z");
    full["properties"]["filter"] = json!({
        "includedEventTypes": ["T"],
        "advancedFilters": [{"operatorType": "NumberIn", "key": "data.n", "values": [1]}],
    });
    full["properties"]["destination"]["properties"]["deliveryAttributeMappings"] = json!([
        {"name": "X-Key", "type": "Static", "properties": {"value": "v", "isSecret": true}},
        {"name": "X-Order", "type": "Dynamic", "properties": {"sourceField": "data.n"}},
    ]);
    full["properties"]["signing"] = json!({"scheme": "StandardWebhooks"});
    full["properties"]["destination"]["properties"]["authentication"] = json!({
        "type": "OAuth2ClientCredentials",
        "properties": {"tokenUrl": "https://id.example/token", "clientId": "c", "clientSecret": "hush"},
    });
    let event = json!({
        "id": "1", "eventType": "T", "subject": "", "eventTime": "2026-01-01T00:00:00Z", "data": {},
    });
    let sample = json!({"name": "s-1", "events": [event]});
    let event = json!({"event": sample["events"][0]});
    let overlap = json!({"overlapInSeconds": 5});
    let pause = json!({"timeToLiveRuns": false});
    let topic = json!({"properties": {"disableLocalAuth": true}});
    let key = json!({"keyName": "key1"});
    let table = [
        ("PUT /topics/demo", Some(("TopicInput", &topic)), "Topic"),
        ("PUT /topics/ns1", Some(("TopicInput", &json!({"kind": "namespace"}))), "Topic"),
        ("PATCH /topics/demo", Some(("TopicPatch", &topic)), "Topic"),
        ("GET /topics/ns1", None, "Topic"),
        ("GET /topics?$top=1", None, "TopicList"),
        ("POST /topics/demo/listKeys", None, "Keys"),
        ("POST /topics/demo/regenerateKey", Some(("KeyName", &key)), "Keys"),
        (S1, Some(("EventSubscriptionInput", &full)), "EventSubscription"),
        (S1_GET, None, "EventSubscription"),
        ("GET /topics/demo/eventSubscriptions", None, "EventSubscriptionList"),
        ("GET /topics/demo/eventSubscriptions/s-1/deliveries", None, "DeliveryList"),
        ("POST /topics/demo/eventSubscriptions/s-1/getFullUrl", None, "FullUrl"),
        ("POST /topics/demo/eventSubscriptions:test", Some(("TestInput", &sample)), "TestResult"),
        ("POST /topics/demo/explain", Some(("ExplainInput", &event)), "Explained"),
        (
            "POST /topics/demo/eventSubscriptions/s-1/getDeliveryAttributes",
            None,
            "DeliveryAttributes",
        ),
        ("POST /topics/demo/eventSubscriptions/s-1/getSigningSecrets", None, "SigningSecrets"),
        (
            "POST /topics/demo/eventSubscriptions/s-1/rotateSigningSecret",
            Some(("RotateInput", &overlap)),
            "SigningSecrets",
        ),
        (
            "POST /topics/demo/eventSubscriptions/s-1/pause",
            Some(("PauseInput", &pause)),
            "PauseStanding",
        ),
        ("GET /topics/demo/eventSubscriptions/s-1", None, "EventSubscription"),
        ("GET /topics/demo/eventSubscriptions/s-1/health", None, "Health"),
        ("POST /topics/demo/eventSubscriptions/s-1/resume", None, "PauseStanding"),
    ];
    for (line, sent, answered) in table {
        if let Some((name, document)) = sent {
            assert_valid(name, document);
        }
        let document = sent.map_or_else(|| json!({}), |(_, document)| document.clone());
        let reply = fixture.send(line, document).await;
        assert!(matches!(reply.status, 200 | 201), "{line}: {reply:?}");
        assert_valid(answered, body(&reply));
    }
    // An answer can be sent back, and the document allows that.
    let read = fixture.call(S1_GET).await;
    assert_valid("EventSubscriptionInput", body(&read));
    // It refuses what the handler refuses.
    let refused = schema("EventSubscriptionInput");
    for policy in [json!({"maxDeliveryAttempts": 31}), json!({"schedule": []}), json!([])] {
        let mut document = webhook("https://e.example/");
        document["properties"]["retryPolicy"] = policy;
        assert!(!refused.is_valid(&document), "{document}");
        assert_eq!(fixture.send(S1, document).await.status, 400);
    }
}

/// The same for the poison queue and parked deliveries.
#[tokio::test(start_paused = true)]
async fn what_waits_has_the_form_that_it_says() {
    let fixture = Fixture::new();
    let delivery = super::poison::delivery(1);
    fixture.lay("m-1", &delivery.encode(), Some("gridpost-retry-1"), None);
    fixture.lay("m-2", "rubbish", None, Some("poison:dispatch"));
    for id in 1..=3 {
        let body = if id == 3 { "rubbish".to_owned() } else { delivery.encode() };
        let (id, due, group) = (uuid::Uuid::from_u128(id), super::NOW, "demo/s-1".to_owned());
        let parked = gridpost_core::delivery::parking::Parked {
            id,
            due,
            shard: 0,
            postponed: 0,
            lot: None,
            parked_at: gridpost_core::time::Timestamp::default(),
            watch: None,
            group,
            body,
        };
        fixture.park(parked).await;
    }
    let all = json!({"all": true});
    let ids = json!({"ids": ["m-2", "m-9"], "to": "retry"});
    let topic = json!({"topic": "demo", "ids": [uuid::Uuid::from_u128(1)]});
    let table = [
        ("GET /poison", None, "PoisonList"),
        ("GET /poison/m-1", None, "PoisonShown"),
        ("GET /poison/m-2", None, "PoisonShown"),
        ("POST /poison:resend", Some(("ResendInput", &all)), "Handled"),
        ("POST /poison:resend", Some(("ResendInput", &ids)), "Handled"),
        ("POST /poison:purge", Some(("PurgeInput", &all)), "Handled"),
        ("GET /parked", None, "ParkedList"),
        ("GET /parked?$top=1", None, "ParkedList"),
        ("POST /parked:release", Some(("ParkedInput", &topic)), "HandledDeliveryList"),
        ("POST /parked:cancel", Some(("ParkedInput", &all)), "HandledDeliveryList"),
    ];
    for (line, sent, answered) in table {
        if let Some((name, document)) = sent {
            assert_valid(name, document);
        }
        let document = sent.map_or_else(|| json!({}), |(_, document)| document.clone());
        let reply = fixture.send(line, document).await;
        assert_eq!(reply.status, 200, "{line}: {reply:?}");
        assert_valid(answered, body(&reply));
    }
    assert!(!schema("PurgeInput").is_valid(&json!({"ids": []})));
    for input in [json!({}), json!({"all": true, "ids": ["m"]}), json!({"ids": []})] {
        assert_eq!(fixture.send("POST /poison:purge", input).await.status, 400);
    }
}

/// The same for dead letters and redrives.
#[tokio::test(start_paused = true)]
async fn dead_letters_have_the_form_that_it_says() {
    let fixture = super::dead_letters::filled().await;
    super::letters::store(&fixture.letters, 20, 1, &["7".to_owned()]);
    let id = super::letters::id(3, 3, 1);
    let s = "/topics/demo/eventSubscriptions/s-1";
    let reason = json!({"reason": "TimeToLiveExceeded", "from": "2026-01-01T00:00:00Z"});
    let redrive = json!({"target": {"eventSubscription": "s-1"}, "dryRun": true, "eventType": "A"});
    let table = [
        (format!("GET {s}/deadLetters"), None, "DeadLetterList"),
        (format!("GET {s}/deadLetters?$top=1"), None, "DeadLetterList"),
        (format!("GET {s}/deadLetters:count"), None, "DeadLetterCount"),
        (format!("GET {s}/deadLetters/{id}"), None, "DeadLetterShown"),
        (
            format!("POST {s}/deadLetters:purge"),
            Some(("PurgeDeadLettersInput", &reason)),
            "DeadLettersPurged",
        ),
        (format!("POST {s}/deadLetters:redrive"), Some(("RedriveInput", &redrive)), "Redrive"),
        (format!("GET {s}/redrives"), None, "RedriveList"),
    ];
    for (line, sent, answered) in table {
        if let Some((name, document)) = sent {
            assert_valid(name, document);
        }
        let document = sent.map_or_else(|| json!({}), |(_, document)| document.clone());
        let reply = fixture.send(&line, document).await;
        assert!(matches!(reply.status, 200 | 201), "{line}: {reply:?}");
        assert_valid(answered, body(&reply));
    }
    let jobs = fixture.call(&format!("GET {s}/redrives")).await;
    let job = body(&jobs)["value"][0]["id"].as_str().expect("an id");
    for line in ["GET {}", "POST {}/cancel", "POST {}/resume"] {
        let line = line.replace("{}", &format!("{s}/redrives/{job}"));
        assert_valid("Redrive", body(&fixture.call(&line).await));
    }
}

/// API Gateway answers other methods itself: 405 comes only without it.
#[test]
fn no_operation_has_a_method_that_is_not_allowed() {
    let document = document();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for method in METHODS {
            assert!(item[method]["responses"].get("405").is_none(), "{method} {path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn errors_have_the_form_that_it_says() {
    let fixture = Fixture::with_subscription().await;
    let one = "/topics/demo/eventSubscriptions/s-1";
    let mut seen = BTreeSet::new();
    let mut note = |reply: Reply| {
        assert_valid("Error", body(&reply));
        seen.insert(code(&reply).to_owned());
    };
    let lines: [(&str, &[Header], &str); 10] = [
        ("GET /topics/none", &[], ""),
        ("POST /topics/demo/explain", &[], "{\"event\": {\"id\": 1}}"),
        ("POST /topics", &[], ""),
        (S1, &[], "{"),
        (S1, &[], "{}"),
        (S1, &[("content-type", "text/xml")], "{}"),
        ("DELETE /topics/demo", &[("if-match", "x")], ""),
        ("DELETE /topics/demo", &[("if-match", "\"x\"")], ""),
        ("GET /topics/demo/eventSubscriptions/s-1/validate", &[], ""),
        ("PUT /topics/demo", &[], "{\"properties\": {\"inputSchema\": \"CloudEventSchemaV1_0\"}}"),
    ];
    for (line, headers, sent) in lines {
        note(fixture.send_with(line, headers, sent.as_bytes().to_vec()).await);
    }
    note(fixture.send_bytes(&format!("PUT {one}"), vec![b' '; 300_000]).await);
    let test = "POST /topics/demo/eventSubscriptions:test";
    let event = json!({
        "id": "1", "eventType": "T", "subject": "", "eventTime": "2026-01-01T00:00:00Z", "data": {},
    });
    note(fixture.send(test, json!({"name": "s-1", "events": vec![event; 5_001]})).await);
    let too_large = json!({"name": "s-1", "events": ["x".repeat(1_100_000)]});
    note(fixture.send(test, too_large).await);
    fixture.consent(gridpost_testkit::consent::ConsentAnswer::Denies);
    note(fixture.send(S1, webhook("https://e.example/else")).await);
    fixture.fails_after(Some(0));
    note(fixture.call("GET /topics/demo").await);
    note(Reply::validation_over());
    note(Reply::without_token());
    for error in [JournalError::Denied(String::new()), JournalError::Busy] {
        fixture.journal.instead([Instead::Error(error)]);
        note(fixture.send("POST /journalQueries", json!({"series": {}})).await);
    }
    let named = document()["components"]["schemas"]["ErrorCode"]["enum"].clone();
    let named: BTreeSet<String> = serde_json::from_value(named).expect("names");
    assert_eq!(seen, named, "codes that the document lists, and codes that are answered");
}
