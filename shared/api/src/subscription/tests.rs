use gridpost_core::{
    retry::{outcome::Outcome, profile::Rule},
    secret::Secret,
    subscription::{EventSubscription, Filter},
    topic::Kind,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    document::parse,
    error::{Error, ErrorDetail},
    topic as topic_resource,
    topic::defaults,
};

mod attributes;
mod authentication;
mod aws;
mod batches;
mod changes;
mod filters;
mod words;

use filters::every_operator;

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

fn topic(kind: Kind) -> Topic {
    let settings = defaults(kind);
    Topic {
        name: "demo".to_owned(),
        kind,
        input_schema: settings.input_schema,
        input_schema_mapping: settings.input_schema_mapping,
        disable_local_auth: false,
        delivery_profile: settings.delivery_profile,
        idempotency: settings.idempotency,
        etag: uuid::Uuid::nil(),
        created_at: NOW,
        revision: 3,
        changes: Default::default(),
    }
}

fn write(subscription: &EventSubscription, profile: ProfileName) -> Value {
    json!(super::write(subscription, profile))
}

fn read_for(kind: Kind, document: &Value) -> Result<Settings, Problems> {
    let allowed = Allowed::default();
    read(document, &Context { topic: &topic(kind), existing: None, now: NOW, allowed: &allowed })
}

fn stored(settings: Settings) -> EventSubscription {
    let key = SubscriptionKey { topic: "demo".to_owned(), name: "s1".to_owned() };
    let (created_at, modified_at) = (NOW, NOW);
    let (uid, etag) = (Uuid::nil(), Uuid::nil());
    let identity = Identity { uid, endpoint_uid: None, created_at, etag, modified_at };
    let state = ProvisioningState::Succeeded;
    settings.into_subscription(
        key,
        identity,
        Consent { state, validation: None, allowed_rate: None },
    )
}

/// A valid document with one member of `properties` more.
fn with(name: &str, value: Value) -> Value {
    let mut document = webhook(json!({"endpointUrl": "https://example.com/hook?code=hush"}));
    document["properties"][name] = value;
    document
}

fn webhook(properties: Value) -> Value {
    json!({"properties": {"destination": {"endpointType": "WebHook", "properties": properties}}})
}

fn url(url: impl Into<Value>) -> Value {
    webhook(json!({"endpointUrl": url.into()}))
}

fn webhook_with(name: &str, value: Value) -> Value {
    let mut properties = json!({"endpointUrl": "https://example.com/"});
    properties[name] = value;
    webhook(properties)
}

fn destination(value: Value) -> Value {
    json!({"properties": {"destination": value}})
}

fn retry_policy(value: Value) -> Value {
    with("retryPolicy", value)
}

fn rules(value: Value) -> Value {
    retry_policy(json!({"statusRules": value}))
}

fn bucket(name: impl Into<Value>) -> Value {
    with(
        "deadLetterDestination",
        json!({"endpointType": "S3Bucket", "properties": {"bucketName": name.into()}}),
    )
}

fn prefix(prefix: impl Into<Value>) -> Value {
    let mut document = bucket("dead-letters");
    document["properties"]["deadLetterDestination"]["properties"]["prefix"] = prefix.into();
    document
}

/// Every row breaks one rule, and the answer has just that problem: at this path, with these words.
fn assert_refused(kind: Kind, table: Vec<(Value, &str, &str)>) {
    for (document, path, rule) in table {
        let problems = read_for(kind, &document).expect_err(&document.to_string());
        let listed: Vec<_> = problems.iter().collect();
        assert_eq!(listed.len(), 1, "{document}: {listed:?}");
        assert_eq!(listed[0].path, path, "{document}: {}", listed[0]);
        assert!(listed[0].rule.contains(rule), "{document}: {}", listed[0]);
        let told = format!("{:?}", Error::from(&problems));
        assert!(!told.contains("hush"), "{document} gives a key away");
    }
}

const URL: &str = "properties.destination.properties.endpointUrl";
const BATCH_COUNT: &str = "properties.destination.properties.maxEventsPerBatch";
const BATCH_SIZE: &str = "properties.destination.properties.preferredBatchSizeInKilobytes";
const TYPE: &str = "properties.destination.endpointType";
const TYPES: &str = "properties.filter.includedEventTypes";
const SCHEMA: &str = "properties.eventDeliverySchema";
const ATTEMPTS: &str = "properties.retryPolicy.maxDeliveryAttempts";
const TIME_TO_LIVE: &str = "properties.retryPolicy.eventTimeToLiveInMinutes";
const DURATION: &str = "properties.retryPolicy.eventTimeToLive";
const SCHEDULE: &str = "properties.retryPolicy.schedule";
const BUCKET: &str = "properties.deadLetterDestination.properties.bucketName";
const PREFIX: &str = "properties.deadLetterDestination.properties.prefix";

#[test]
fn documents_of_another_shape_are_refused() {
    assert_refused(
        Kind::Custom,
        vec![
            (json!(null), "$", "must be an object, but is null"),
            (json!([1]), "$", "must be an object, but is an array"),
            (json!({}), "properties", "is required"),
            (json!({"properties": null}), "properties", "is required"),
            (json!({"properties": 1}), "properties", "must be an object, but is a number"),
            (json!({"properties": {}}), "properties.destination", "is required"),
            (with("colour", json!("red")), "properties.colour", "is not known; members here are"),
            (with("re try", json!(1)), "properties[\"re try\"]", "is not known"),
            (
                {
                    let mut document = url("https://example.com/");
                    document["colour"] = json!({});
                    document
                },
                "colour",
                "is not known; members here are properties",
            ),
            (
                with("deliveryWithResourceIdentity", json!({})),
                "properties.deliveryWithResourceIdentity",
                "not supported yet by this deployment; write the endpoint into destination",
            ),
            (
                with("deadLetterWithResourceIdentity", json!({})),
                "properties.deadLetterWithResourceIdentity",
                "write the bucket into deadLetterDestination",
            ),
            (
                with("deliveryConfiguration", json!({})),
                "properties.deliveryConfiguration",
                "belongs to namespace topics; here write destination, retryPolicy, dead",
            ),
            (
                with("filtersConfiguration", json!({})),
                "properties.filtersConfiguration",
                "belongs to namespace topics; here write filter",
            ),
        ],
    );
}

#[test]
fn destinations_are_refused() {
    let hook = json!({"endpointUrl": "https://example.com/"});
    assert_refused(
        Kind::Custom,
        vec![
            (destination(json!("https://e.com")), "properties.destination", "must be an object"),
            (destination(json!({"properties": hook})), TYPE, "is required: 'WebHook'"),
            (
                destination(json!({"endpointType": "Fax"})),
                TYPE,
                "must be 'WebHook', 'SqsQueue', 'SnsTopic'",
            ),
            (
                destination(json!({"endpointType": "EventHub"})),
                TYPE,
                "counterpart here is 'KinesisStream'",
            ),
            (
                destination(json!({"endpointType": "WebHook"})),
                "properties.destination.properties",
                "is required: an object with endpointUrl",
            ),
            (
                destination(json!({"endpointType": "WebHook", "properties": hook, "x": 1})),
                "properties.destination.x",
                "is not known; members here are endpointType, properties",
            ),
            (webhook(json!({})), URL, "is required: an absolute https URL"),
            (webhook(json!({"endpointBaseUrl": "https://e.com"})), URL, "is required"),
            (
                webhook_with("url", json!("https://e.com")),
                "properties.destination.properties.url",
                "is not known; members here are authentication, azureActive",
            ),
            (
                webhook_with("azureActiveDirectoryTenantId", json!("t")),
                "properties.destination.properties.azureActiveDirectoryTenantId",
                "not supported yet",
            ),
            (
                webhook_with("minimumTlsVersionAllowed", json!("1.0")),
                "properties.destination.properties.minimumTlsVersionAllowed",
                "must be '1.2' (the default)",
            ),
            (
                webhook_with("maxEventsPerBatch", json!(0)),
                BATCH_COUNT,
                "from 1 to 5000 (default 1)",
            ),
            (
                webhook_with("maxEventsPerBatch", json!(5001)),
                BATCH_COUNT,
                "from 1 to 5000 (default 1), but is 5001",
            ),
            (webhook_with("maxEventsPerBatch", json!(1.5)), BATCH_COUNT, "whole number"),
            (webhook_with("maxEventsPerBatch", json!("2")), BATCH_COUNT, "but is a string"),
            (
                webhook_with("preferredBatchSizeInKilobytes", json!(0)),
                BATCH_SIZE,
                "from 1 to 1024 (default 64)",
            ),
            (
                webhook_with("preferredBatchSizeInKilobytes", json!(1025)),
                BATCH_SIZE,
                "from 1 to 1024 (default 64), but is 1025",
            ),
        ],
    );
}

#[test]
fn urls_are_refused_without_being_repeated() {
    let long = format!("https://example.com/{}?code=hush", "a".repeat(2_048));
    assert_refused(
        Kind::Custom,
        vec![
            (url(7), URL, "must be a string, but is a number"),
            (url(""), URL, "must be an absolute URL"),
            (url("/hook?code=hush"), URL, "must be an absolute URL"),
            (url("example.com/hook?code=hush"), URL, "must be an absolute URL"),
            (url("https:example.com?code=hush"), URL, "'//' and a host behind the scheme"),
            (url("https:///example.com?code=hush"), URL, "'//' and a host behind the scheme"),
            (url("https://?code=hush"), URL, "must be an absolute URL"),
            (url(" https://example.com/?code=hush"), URL, "without spaces"),
            (url("https://example.com/\t?code=hush"), URL, "without spaces, control characters"),
            (url("https:\\\\example.com?code=hush"), URL, "and '\\'"),
            (url("https://example.com:0/?code=hush"), URL, "the port must be 1 to 65535"),
            (url("https://example.com:65536/?code=hush"), URL, "must be an absolute URL"),
            (url(long), URL, "at most 2048 characters"),
            (url("http://example.com/?code=hush"), URL, "the scheme 'http' is not allowed"),
            (url("ftp://example.com/?code=hush"), URL, "the scheme 'ftp' is not allowed"),
            (url("https://u:hush@example.com/"), URL, "user name or password"),
            (url("https://example.com/?code=hush#top"), URL, "fragment"),
            (url("https://127.0.0.1/?code=hush"), URL, "endpoint_allowed_networks"),
            (url("https://10.1.2.3/?code=hush"), URL, "the address 10.1.2.3 is not public"),
            (url("https://[::1]/?code=hush"), URL, "is not public"),
            (url("https://localhost/?code=hush"), URL, "'localhost' means this machine"),
        ],
    );
}

#[test]
fn filters_are_refused() {
    let filter = |value| with("filter", value);
    assert_refused(
        Kind::Custom,
        vec![
            (filter(json!([])), "properties.filter", "must be an object"),
            (filter(json!({"includedEventTypes": "A"})), TYPES, "must be an array"),
            (
                filter(json!({"includedEventTypes": []})),
                TYPES,
                "1 to 250 included event types, but has 0",
            ),
            (filter(json!({"includedEventTypes": ["A", "All"]})), TYPES, "'All' alone"),
            (
                filter(json!({"includedEventTypes": ["A", 1]})),
                "properties.filter.includedEventTypes[1]",
                "must be a string",
            ),
            (
                filter(json!({"includedEventTypes": [""]})),
                "properties.filter.includedEventTypes[0]",
                "1 to 512 characters, but has 0",
            ),
            (
                filter(json!({"subjectBeginsWith": 1})),
                "properties.filter.subjectBeginsWith",
                "must be a string",
            ),
            (
                filter(json!({"subjectEndsWith": "a".repeat(1_025)})),
                "properties.filter.subjectEndsWith",
                "at most 1024 characters, but has 1025",
            ),
            (
                filter(json!({"isSubjectCaseSensitive": "no"})),
                "properties.filter.isSubjectCaseSensitive",
                "must be true or false (default false)",
            ),
            (filter(json!({"types": []})), "properties.filter.types", "is not known"),
        ],
    );
}

#[test]
fn conversion_table() {
    use DeliverySchema::{CloudEventSchemaV1_0, CustomInputSchema, EventGridSchema};
    let inputs = [
        (
            InputSchema::EventGridSchema,
            EventGridSchema,
            vec![EventGridSchema, CloudEventSchemaV1_0],
        ),
        (InputSchema::CloudEventSchemaV1_0, CloudEventSchemaV1_0, vec![CloudEventSchemaV1_0]),
        (
            InputSchema::CustomEventSchema,
            EventGridSchema,
            vec![EventGridSchema, CloudEventSchemaV1_0, CustomInputSchema],
        ),
    ];
    for (input_schema, default, allowed) in inputs {
        let topic = Topic { input_schema, ..topic(Kind::Custom) };
        let networks = Allowed::default();
        let context = Context { topic: &topic, existing: None, now: NOW, allowed: &networks };
        let read = |schema: Value| read(&with("eventDeliverySchema", schema), &context);
        assert_eq!(read(Value::Null).expect("valid").delivery_schema, default, "{input_schema:?}");
        for schema in [EventGridSchema, CloudEventSchemaV1_0, CustomInputSchema] {
            match read(json!(schema)) {
                Ok(settings) => {
                    assert_eq!(settings.delivery_schema, schema);
                    assert!(allowed.contains(&schema), "{input_schema:?} {schema:?}");
                }
                Err(problems) => {
                    let listed: Vec<_> = problems.iter().map(ToString::to_string).collect();
                    assert!(
                        listed.len() == 1 && listed[0].contains("the topic takes"),
                        "{listed:?}"
                    );
                    assert!(!allowed.contains(&schema), "{input_schema:?} {schema:?}");
                }
            }
        }
    }
}

#[test]
fn schemas_labels_and_expirations_are_refused() {
    let many: Vec<_> = (0..51).map(|n| json!(n.to_string())).collect();
    assert_refused(
        Kind::Custom,
        vec![
            (
                with("eventDeliverySchema", json!("Xml")),
                SCHEMA,
                "'CloudEventSchemaV1_0' or 'CustomInputSchema', but is",
            ),
            (with("eventDeliverySchema", json!(1)), SCHEMA, "must be a string"),
            (
                with("eventDeliverySchema", json!("CustomInputSchema")),
                SCHEMA,
                "the topic takes Event Grid's schema, and CustomInputSchema is for topics of",
            ),
            (
                with("probationPolicy", json!("Wait")),
                "properties.probationPolicy",
                "must be 'EventGrid' or 'Delay' (default EventGrid)",
            ),
            (with("labels", json!("a")), "properties.labels", "must be an array"),
            (with("labels", json!(many)), "properties.labels", "at most 50 labels, but has 51"),
            (with("labels", json!(["a", 2])), "properties.labels[1]", "must be a string"),
            (with("labels", json!([""])), "properties.labels[0]", "1 to 256 characters"),
            (
                with("expirationTimeUtc", json!("tomorrow")),
                "properties.expirationTimeUtc",
                "must be a date and time of RFC 3339",
            ),
            (
                with("expirationTimeUtc", json!("2020-01-01T00:00:00Z")),
                "properties.expirationTimeUtc",
                "must be in the future",
            ),
        ],
    );
    assert_refused(
        Kind::Namespace,
        vec![(
            with("eventDeliverySchema", json!("EventGridSchema")),
            SCHEMA,
            "they can't be turned into Event Grid's schema",
        )],
    );
}

#[test]
fn retry_policies_are_refused() {
    let steps: Vec<u32> = (1..=31).collect();
    let attempts = |value| retry_policy(json!({"maxDeliveryAttempts": value}));
    let time_to_live = |value| retry_policy(json!({"eventTimeToLiveInMinutes": value}));
    let schedule = |value| retry_policy(json!({"schedule": value}));
    assert_refused(
        Kind::Custom,
        vec![
            (retry_policy(json!("basic")), "properties.retryPolicy", "must be an object"),
            (attempts(json!(0)), ATTEMPTS, "from 1 to 30 (default 30), but is 0"),
            (attempts(json!(31)), ATTEMPTS, "from 1 to 30 (default 30), but is 31"),
            (attempts(json!(-1)), ATTEMPTS, "but is -1"),
            (attempts(json!(4_294_967_297_u64)), ATTEMPTS, "but is 4294967297"),
            (attempts(json!(true)), ATTEMPTS, "but is a boolean"),
            (time_to_live(json!(0)), TIME_TO_LIVE, "from 1 to 1440 (default 1440), but is 0"),
            (time_to_live(json!(1441)), TIME_TO_LIVE, "from 1 to 1440 (default 1440), but is 1441"),
            (
                retry_policy(json!({"maxDeliveryCount": 5})),
                "properties.retryPolicy.maxDeliveryCount",
                "write maxDeliveryAttempts",
            ),
            (
                retry_policy(json!({"eventTimeToLive": "PT1H"})),
                DURATION,
                "eventTimeToLiveInMinutes",
            ),
            (
                retry_policy(json!({"maxAttempts": 5})),
                "properties.retryPolicy.maxAttempts",
                "is not known; members here are eventTimeToLive, eventTimeToLiveInMinutes, \
                 maxDeliveryAttempts, maxDeliveryCount, schedule, statusRules",
            ),
            (schedule(json!(5)), SCHEDULE, "must be an array"),
            (schedule(json!([])), SCHEDULE, "1 to 30 elements"),
            (schedule(json!(steps)), SCHEDULE, "1 to 30 elements, but has 31"),
            (schedule(json!([-5])), "properties.retryPolicy.schedule[0]", "from 1 to 604800"),
            (
                schedule(json!([5, 4])),
                "properties.retryPolicy.schedule[1]",
                "greater than the step",
            ),
            (schedule(json!([0])), "properties.retryPolicy.schedule[0]", "from 1 to 604800"),
            (schedule(json!([1, 1.5])), "properties.retryPolicy.schedule[1]", "whole number"),
            (schedule(json!([5, 5])), "properties.retryPolicy.schedule[1]", "before it, 5"),
            (schedule(json!([5, 9, 7])), "properties.retryPolicy.schedule[2]", "before it, 9"),
            (schedule(json!([86_401])), "properties.retryPolicy.schedule[0]", "time-to-live"),
            (
                retry_policy(json!({"eventTimeToLiveInMinutes": 1, "schedule": [10, 61]})),
                "properties.retryPolicy.schedule[1]",
                "from 1 to 60",
            ),
        ],
    );
}

#[test]
fn status_rules_are_refused() {
    const ROWS: &str = "properties.retryPolicy.statusRules";
    let wait = json!({"retryAfterSeconds": 1});
    let table = [
        (json!({"200": wait}), "[\"200\"]", "200 is a success"),
        (json!({"204": "deadLetter"}), "[\"204\"]", "204 is a success"),
        (json!({"100": wait}), "[\"100\"]", "(205 to 599)"),
        (json!({"600": wait}), "[\"600\"]", "(205 to 599)"),
        (json!({"1xx": wait}), "[\"1xx\"]", "a class (2xx to 5xx)"),
        (json!({"5XX": wait}), "[\"5XX\"]", "a class (2xx to 5xx)"),
        (json!({"+40": wait}), "[\"+40\"]", "is no row"),
        (json!({"Timeout": wait}), ".Timeout", "an outcome (such as SocketError)"),
        (json!({"Delivered": wait}), ".Delivered", "is a success"),
        (json!({"Probation": wait}), ".Probation", "write probationPolicy"),
        (json!({"404": "retry"}), "[\"404\"]", "must be \"deadLetter\" or"),
        (json!({"404": 60}), "[\"404\"]", "{\"retryAfterSeconds\": 0 to 86400}"),
        (json!({"404": {}}), "[\"404\"].retryAfterSeconds", "is required"),
        (json!({"404": {"retryAfterSeconds": -1}}), "[\"404\"].retryAfterSeconds", "0 to 86400"),
        (json!({"404": {"retryAfterSeconds": 86_401}}), "[\"404\"].retryAfterSeconds", "86401"),
        (json!({"404": {"retryAfterSeconds": 1, "x": 1}}), "[\"404\"].x", "is not known"),
    ];
    let table: Vec<_> = table
        .into_iter()
        .map(|(rows, at, rule)| (rules(rows), format!("{ROWS}{at}"), rule))
        .collect();
    let rows = table.iter().map(|(document, path, rule)| (document.clone(), path.as_str(), *rule));
    assert_refused(Kind::Custom, rows.collect());
    assert_refused(Kind::Custom, vec![(rules(json!([])), ROWS, "must be an object")]);
}

#[test]
fn retry_policies_of_namespace_topics_are_refused() {
    let count = |value| retry_policy(json!({"maxDeliveryCount": value}));
    let time_to_live = |value: &str| retry_policy(json!({"eventTimeToLive": value}));
    const COUNT: &str = "properties.retryPolicy.maxDeliveryCount";
    const RANGE: &str = "from PT1M to P7D (default P7D)";
    assert_refused(
        Kind::Namespace,
        vec![
            (count(json!(0)), COUNT, "from 1 to 10 (default 10), but is 0"),
            (count(json!(11)), COUNT, "from 1 to 10 (default 10), but is 11"),
            (
                retry_policy(json!({"schedule": [604_801]})),
                "properties.retryPolicy.schedule[0]",
                "from 1 to 604800",
            ),
            (
                retry_policy(json!({"eventTimeToLive": "PT2M", "schedule": [60, 121]})),
                "properties.retryPolicy.schedule[1]",
                "from 1 to 120",
            ),
            (attempts_of_a_custom_topic(), ATTEMPTS, "write maxDeliveryCount"),
            (time_to_live("PT0M"), DURATION, RANGE),
            (time_to_live("P7DT1M"), DURATION, RANGE),
            (time_to_live("PT30S"), DURATION, RANGE),
            (time_to_live("P1M"), DURATION, RANGE),
            (time_to_live("P1W"), DURATION, RANGE),
            (time_to_live("1 hour"), DURATION, RANGE),
            (retry_policy(json!({"eventTimeToLive": 60})), DURATION, "must be a string"),
        ],
    );
}

fn attempts_of_a_custom_topic() -> Value {
    retry_policy(json!({"maxDeliveryAttempts": 5}))
}

#[test]
fn dead_letter_destinations_are_refused() {
    let destination = |value| with("deadLetterDestination", value);
    const DESTINATION: &str = "properties.deadLetterDestination";
    const DESTINATION_TYPE: &str = "properties.deadLetterDestination.endpointType";
    assert_refused(
        Kind::Custom,
        vec![
            (destination(json!("b")), DESTINATION, "must be an object"),
            (
                destination(json!({"properties": {"bucketName": "bbb"}})),
                DESTINATION_TYPE,
                "required",
            ),
            (
                destination(json!({"endpointType": "StorageBlob", "properties": {}})),
                DESTINATION_TYPE,
                "must be 'S3Bucket', but is \"StorageBlob\"",
            ),
            (
                destination(json!({"endpointType": "S3Bucket"})),
                "properties.deadLetterDestination.properties",
                "is required: an object with bucketName",
            ),
            (
                destination(json!({"endpointType": "S3Bucket", "properties": {"prefix": "p"}})),
                BUCKET,
                "is required: the name of an S3 bucket",
            ),
            (bucket(1), BUCKET, "must be a string"),
            (bucket("ab"), BUCKET, "3 to 63"),
            (bucket("a".repeat(64)), BUCKET, "3 to 63"),
            (bucket("Dead"), BUCKET, "of a-z, 0-9"),
            (bucket("dead_letters"), BUCKET, "of a-z, 0-9"),
            (bucket("-dead"), BUCKET, "begin and end with a letter or digit"),
            (bucket("dead."), BUCKET, "begin and end with a letter or digit"),
            (bucket("a..b"), BUCKET, "without '..'"),
            (bucket("192.168.5.4"), BUCKET, "must not look like an IP address"),
            (bucket("xn--abc"), BUCKET, "must not begin with 'xn--'"),
            (bucket("abc-s3alias"), BUCKET, "must not end with '-s3alias'"),
            (prefix(1), PREFIX, "must be a string"),
            (prefix("é".repeat(101)), PREFIX, "at most 200 bytes (default none), but has 202"),
            (prefix("a\nb"), PREFIX, "no control characters"),
        ],
    );
}

#[test]
fn every_problem_is_listed_at_once() {
    let document = json!({"colour": 1, "properties": {
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "http://example.com/?code=hush", "maxEventsPerBatch": 0, "x": 1}},
        "retryPolicy": {"maxDeliveryAttempts": 99, "schedule": [3, 2]},
        "labels": [1],
    }});
    let problems = read_for(Kind::Custom, &document).expect_err("refused");
    let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let want = [
        "colour",
        BATCH_COUNT,
        "properties.destination.properties.x",
        "properties.labels[0]",
        ATTEMPTS,
        URL,
        "properties.retryPolicy.schedule[1]",
    ];
    assert_eq!(paths, want);
    let error = Error::from(&problems).error;
    assert_eq!(error.code, "InvalidRequest");
    let want = ErrorDetail {
        code: "OutOfRange".to_owned(),
        target: ATTEMPTS.to_owned(),
        message: format!("{ATTEMPTS} must be a whole number from 1 to 30 (default 30), but is 99"),
    };
    assert_eq!(error.details[4], want);
}

#[test]
fn defaults_are_event_grids() {
    let settings = read_for(Kind::Custom, &url("https://example.com/")).expect("valid");
    let want = Settings {
        endpoint: Endpoint::WebHook { url: Secret::new("https://example.com/") },
        batching: None,
        filter: Filter::default(),
        delivery_schema: DeliverySchema::EventGridSchema,
        retry_policy: policy::RetryPolicy::default_of(defaults(Kind::Custom).delivery_profile),
        probation_policy: ProbationPolicy::EventGrid,
        dead_letter: None,
        labels: vec![],
        expires_at: None,
        delivery_attributes: vec![],
        is_signed: false,
        signing: None,
        authentication: None,
        batch_failure: BatchFailure::default(),
    };
    assert_eq!(settings, want);
    let namespace = read_for(Kind::Namespace, &url("https://example.com/")).expect("valid");
    assert_eq!(namespace.delivery_schema, DeliverySchema::CloudEventSchemaV1_0);
    assert_eq!(namespace.retry_policy.max_attempts, 10);
    assert_eq!(namespace.retry_policy.time_to_live_minutes, 7 * 24 * 60);
}

/// The whole document of Event Grid's own read of a webhook subscription with its defaults.
#[test]
fn a_document_of_event_grids_own_ports_over() {
    let document = json!({
        "id": "/subscriptions/x/providers/Microsoft.EventGrid/eventSubscriptions/es1",
        "name": "es1", "type": "Microsoft.EventGrid/eventSubscriptions",
        "systemData": null,
        "properties": {
            "topic": "/subscriptions/x/topics/t", "provisioningState": "Succeeded",
            "destination": {"endpointType": "WebHook", "properties": {
                "endpointUrl": "https://h.example/x?code=s", "endpointBaseUrl": "https://h.example/x",
                "maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 64,
                "azureActiveDirectoryTenantId": null,
                "azureActiveDirectoryApplicationIdOrUri": null,
                "minimumTlsVersionAllowed": "1.2", "deliveryAttributeMappings": []}},
            "filter": {"subjectBeginsWith": "", "subjectEndsWith": "",
                "isSubjectCaseSensitive": false, "includedEventTypes": ["All"],
                "enableAdvancedFilteringOnArrays": false, "advancedFilters": []},
            "labels": null, "expirationTimeUtc": null, "eventDeliverySchema": "EventGridSchema",
            "retryPolicy": {"maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440},
            "deadLetterDestination": null,
        },
    });
    let settings = read_for(Kind::Custom, &document).expect("valid");
    assert_eq!(settings.batching, None);
    assert_eq!(settings.filter, Filter::default());
}

#[test]
fn batching_is_on_where_either_setting_differs_from_its_default() {
    let table = [
        (json!({}), None),
        (json!({"maxEventsPerBatch": 1, "preferredBatchSizeInKilobytes": 64}), None),
        (json!({"maxEventsPerBatch": 5000}), Some((5_000, 64))),
        (json!({"preferredBatchSizeInKilobytes": 1024}), Some((1, 1_024))),
        (json!({"maxEventsPerBatch": 10, "preferredBatchSizeInKilobytes": 1}), Some((10, 1))),
    ];
    for (mut properties, want) in table {
        properties["endpointUrl"] = json!("https://example.com/");
        let settings = read_for(Kind::Custom, &webhook(properties.clone())).expect("valid");
        let want = want
            .map(|(max_events, preferred_kilobytes)| Batching { max_events, preferred_kilobytes });
        assert_eq!(settings.batching, want, "{properties}");
    }
}

#[test]
fn status_rules_are_read() {
    let document = rules(json!({
        "404": "deadLetter", "409": {"retryAfterSeconds": 60}, "5xx": {"retryAfterSeconds": 0},
        "SocketError": {"retryAfterSeconds": 86_400}, "410": null,
    }));
    let rules = read_for(Kind::Custom, &document).expect("valid").retry_policy.status_rules;
    let wait = |min_s| Rule::Retry { min_s };
    assert_eq!(rules.statuses.into_iter().collect::<Vec<_>>(), [(404, Rule::End), (409, wait(60))]);
    assert_eq!(rules.classes.into_iter().collect::<Vec<_>>(), [(5, wait(0))]);
    let outcomes: Vec<_> = rules.outcomes.into_iter().collect();
    assert_eq!(outcomes, [(Outcome::SocketError, wait(86_400))]);
}

#[test]
fn durations_are_read_and_written() {
    for (text, minutes) in [
        ("PT1M", 1),
        ("PT1H", 60),
        ("PT1H30M", 90),
        ("P1D", 1_440),
        ("P1DT1M", 1_441),
        ("P7D", 10_080),
        ("P2DT3H4M", 3_064),
    ] {
        assert_eq!(retry::parse_duration(text), Some(minutes), "{text}");
        assert_eq!(retry::write_duration(minutes), text);
    }
    assert_eq!(retry::parse_duration("PT90M"), Some(90));
    assert_eq!(retry::parse_duration("P0DT5M"), Some(5));
    // As Azure's clients write them.
    for (text, minutes) in [("P1DT0H0M0S", 1_440), ("PT5M0S", 5), ("PT1H00S", 60)] {
        assert_eq!(retry::parse_duration(text), Some(minutes), "{text}");
    }
    for text in ["P1DT0H0M1S", "PT0S1M", "P1S", "PT0.0S", "PTS"] {
        assert_eq!(retry::parse_duration(text), None, "{text}");
    }
    for text in
        ["", "P", "PT", "P1", "PT1", "PTM", "PT-1M", "PT+1M", "PT1.5M", "P1H", "PT1D", "T1M"]
    {
        assert_eq!(retry::parse_duration(text), None, "{text}");
    }
    for text in ["PT1M1H", "P1DT", "p1d", "PT1S", "P99999999999D", "PT4294967295H", "P1Y", " PT1M"]
    {
        assert_eq!(retry::parse_duration(text), None, "{text}");
    }
}

fn full_document(kind: Kind) -> Value {
    let limits = match kind {
        Kind::Custom => json!({"maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 90}),
        Kind::Namespace => json!({"maxDeliveryCount": 3, "eventTimeToLive": "PT1H30M"}),
    };
    let mut document = json!({"properties": {
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "https://example.com/hook?code=hush",
            "maxEventsPerBatch": 10, "preferredBatchSizeInKilobytes": 32}},
        "filter": {"includedEventTypes": ["A", "B"], "subjectBeginsWith": "/a",
            "subjectEndsWith": ".txt", "isSubjectCaseSensitive": true,
            "enableAdvancedFilteringOnArrays": true, "advancedFilters": every_operator()},
        "eventDeliverySchema": "CloudEventSchemaV1_0",
        "retryPolicy": limits,
        "probationPolicy": "Delay",
        "deadLetterDestination": {"endpointType": "S3Bucket",
            "properties": {"bucketName": "dead-letters", "prefix": "demo/"}},
        "labels": ["x", "y"],
        "expirationTimeUtc": "2030-01-01T00:00:00.000Z",
    }});
    let policy = &mut document["properties"]["retryPolicy"];
    policy["schedule"] = json!([2, 5, 60]);
    policy["statusRules"] = json!({"404": "deadLetter", "4xx": {"retryAfterSeconds": 5},
        "TimedOut": {"retryAfterSeconds": 0}});
    document
}

#[test]
fn what_is_read_can_be_written_back() {
    for kind in [Kind::Custom, Kind::Namespace] {
        for document in [full_document(kind), url("https://example.com/hook?code=hush")] {
            let settings = read_for(kind, &document).expect("valid");
            let existing = stored(settings.clone());
            let topic = topic(kind);
            let written = write(&existing, topic.delivery_profile);
            assert!(!written.to_string().contains("hush"), "{written}");
            let allowed = Allowed::default();
            let context =
                Context { topic: &topic, existing: Some(&existing), now: NOW, allowed: &allowed };
            let again = read(&written, &context).expect("what a read answers can be written back");
            assert_eq!(again, settings);
            assert!(!again.needs_consent(Some(&existing)));
            // Every member of the first document comes back with its value, but for the URL.
            let mut want = document["properties"].clone();
            let got = &written["properties"];
            let webhook = want["destination"]["properties"].as_object_mut().expect("an object");
            webhook.remove("endpointUrl");
            for (name, value) in want.as_object().expect("an object") {
                if name != "destination" {
                    assert_eq!(&got[name], value, "{name}");
                }
            }
            let base = &got["destination"]["properties"]["endpointBaseUrl"];
            assert_eq!(base, "https://example.com/hook");
            let full = json!(full_url(&existing));
            let want = json!({"endpointUrl": "https://example.com/hook?code=hush"});
            assert_eq!(full, want);
        }
    }
}

/// Less of a filter is read than was given: that is no filter that is stored already.
#[test]
fn what_can_not_be_read_is_no_stored_filter() {
    let is_in =
        |values: Value| json!({"operatorType": "StringIn", "key": "subject", "values": values});
    let advanced = |filters: Value| json!({ "advancedFilters": filters });
    let misspelt = json!({"operatorType": "StringInn", "key": "subject", "values": ["b"]});
    let table = [
        (json!({}), json!({"subjectBeginsWiht": "orders/"})),
        (json!({}), json!("orders/")),
        (json!({}), json!({"includedEventTypes": "OrderCreated"})),
        (json!({}), advanced(json!([misspelt.clone()]))),
        (json!({}), advanced(json!(vec![is_in(json!(["a"])); 26]))),
        (advanced(json!([is_in(json!(["a"]))])), advanced(json!([is_in(json!(["a"])), misspelt]))),
        (advanced(json!([is_in(json!(["a"]))])), advanced(json!([is_in(json!(["a", 5]))]))),
    ];
    let (topic, allowed) = (topic(Kind::Custom), Allowed::default());
    for (stored_filter, given) in table {
        let mut document = url("https://example.com/hook");
        document["properties"]["filter"] = stored_filter;
        let existing = stored(read_for(Kind::Custom, &document).expect("valid"));
        let context =
            Context { topic: &topic, existing: Some(&existing), now: NOW, allowed: &allowed };
        assert!(read(&document, &context).is_ok(), "the stored one may be written again");
        document["properties"]["filter"] = given.clone();
        assert!(read(&document, &context).is_err(), "{given}");
    }
}

#[test]
fn another_base_url_keeps_nothing() {
    let settings =
        read_for(Kind::Custom, &url("https://example.com/hook?code=hush")).expect("valid");
    let existing = stored(settings.clone());
    let (topic, allowed) = (topic(Kind::Custom), Allowed::default());
    let context = Context { topic: &topic, existing: Some(&existing), now: NOW, allowed: &allowed };
    let moved = webhook(json!({"endpointBaseUrl": "https://elsewhere.example/hook"}));
    let problems = read(&moved, &context).expect_err("refused");
    assert_eq!(problems.iter().next().map(|problem| problem.path.as_str()), Some(URL));
    let other = read(&url("https://example.com/hook?code=2"), &context).expect("valid");
    assert!(other.needs_consent(Some(&existing)) && settings.needs_consent(None));
}

#[test]
fn names_are_checked() {
    for name in ["s1", "abc", "My-Blob-Subscription", "1-1", "system"] {
        check_name(name).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
    let (longest, longer) = ("a".repeat(64), "a".repeat(65));
    assert!(check_name(&longest).is_ok());
    for name in ["", "a", "a.b", "a/b", "größe", "a b c", longer.as_str()] {
        let problem = check_name(name).expect_err(name);
        assert!(problem.rule.contains("2 to 64 of A-Z, a-z, 0-9 and '-'"), "{problem}");
    }
}

/// Any JSON, made of the names and values that documents have, so that it gets far.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "WebHook",
        "S3Bucket",
        "All",
        "https://example.com/?a=b",
        "PT1H",
        "P7DT",
        "deadLetter",
        "EventGridSchema",
        "CustomInputSchema",
        "1.2",
        "dead-letters",
        "é",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0..100_u32).prop_map(Value::from),
        words.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "properties",
        "destination",
        "endpointType",
        "endpointUrl",
        "endpointBaseUrl",
        "filter",
        "includedEventTypes",
        "retryPolicy",
        "schedule",
        "statusRules",
        "404",
        "5xx",
        "TimedOut",
        "eventTimeToLive",
        "maxDeliveryCount",
        "labels",
        "expirationTimeUtc",
        "bucketName",
        "prefix",
        "deadLetterDestination",
        "eventDeliverySchema",
        "kind",
        "inputSchema",
        "keyName",
        "ü\n",
        "maxEventsPerBatch",
        "subjectBeginsWith",
        "retryAfterSeconds",
        "deliveryProfile",
    ]);
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..8).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn no_document_makes_a_reader_panic(document in any_json()) {
        for kind in [Kind::Custom, Kind::Namespace] {
            let nested = json!({"properties": document.clone()});
            for document in [&document, &nested] {
                if let Err(problems) = read_for(kind, document) {
                    prop_assert!(problems.iter().next().is_some());
                }
            }
        }
        drop(topic_resource::read(&document));
        drop(topic_resource::read_key_name(&document));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in prop::collection::vec(any::<u8>(), 0..64)) {
        let strict = parse(&text).is_ok();
        let plain = serde_json::from_slice::<Value>(&text).is_ok();
        // The parser is stricter than serde's, never laxer.
        prop_assert!(!strict || plain);
    }

    #[test]
    fn durations_survive_a_round_trip(minutes in 1..100_000_u32) {
        prop_assert_eq!(retry::parse_duration(&retry::write_duration(minutes)), Some(minutes));
    }
}

/// What a namespace topic's document says, in the form that they have there.
fn namespace_form() -> Value {
    json!({"properties": {
        "deliveryConfiguration": {"deliveryMode": "Push", "push": {
            "maxDeliveryCount": 5, "eventTimeToLive": "PT1H",
            "destination": {"endpointType": "WebHook", "properties":
                {"endpointUrl": "https://example.com/hook?code=hush", "maxEventsPerBatch": 7}},
            "deadLetterDestination":
                {"endpointType": "S3Bucket", "properties": {"bucketName": "dead-letters"}},
        }},
        "filtersConfiguration": {"includedEventTypes": ["T"]},
    }})
}

#[test]
fn namespace_topics_take_the_form_of_their_documents() {
    let push = &namespace_form()["properties"]["deliveryConfiguration"]["push"];
    let plain = json!({"properties": {
        "destination": push["destination"],
        "retryPolicy": {"maxDeliveryCount": 5, "eventTimeToLive": "PT1H"},
        "deadLetterDestination": push["deadLetterDestination"],
        "filter": {"includedEventTypes": ["T"]},
    }});
    let want = read_for(Kind::Namespace, &plain).expect("valid");
    assert_eq!(read_for(Kind::Namespace, &namespace_form()), Ok(want));
    let table = [
        ("deliveryMode", json!("Queue"), "deliveryMode", "pull delivery, which is not supported"),
        ("queue", json!({}), "queue", "is not supported yet"),
        ("push", json!(null), "push", "is required: an object with destination"),
    ];
    for (member, value, path, rule) in table {
        let mut document = namespace_form();
        document["properties"]["deliveryConfiguration"][member] = value;
        let problems = read_for(Kind::Namespace, &document).expect_err("refused");
        let first = problems.iter().next().expect("one").to_string();
        let path = format!("properties.deliveryConfiguration.{path} ");
        assert!(first.starts_with(&path) && first.contains(rule), "{first}");
    }
    let mut document = namespace_form();
    let push = &mut document["properties"]["deliveryConfiguration"]["push"];
    push["deliveryWithResourceIdentity"] = json!({"destination": {}});
    push["maxDeliveryCount"] = json!(11);
    document["properties"]["filter"] = json!({});
    let problems = read_for(Kind::Namespace, &document).expect_err("refused");
    let listed: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let push = "properties.deliveryConfiguration.push";
    let want = [
        format!("{push}.deliveryWithResourceIdentity"),
        "properties.filter".to_owned(),
        format!("{push}.maxDeliveryCount"),
    ];
    assert_eq!(listed, want);
}

/// Reads a patch against an event subscription of that kind of topic, which has every member.
fn patched(kind: Kind, existing: &Value, patch: &Value) -> Result<Settings, Problems> {
    let topic = topic(kind);
    let existing = stored(read_for(kind, existing).expect("valid"));
    let allowed = Allowed::default();
    // Its expiration has passed meanwhile.
    let now = NOW + std::time::Duration::from_secs(3_600);
    let context = Context { topic: &topic, existing: Some(&existing), now, allowed: &allowed };
    read_patch(patch, &existing, &context)
}

fn to_be_patched() -> Value {
    let mut document = webhook(json!({
        "endpointUrl": "https://example.com/hook?code=hush", "maxEventsPerBatch": 7,
    }));
    let soon = NOW + std::time::Duration::from_secs(60);
    let properties = &mut document["properties"];
    properties["labels"] = json!(["a", "b"]);
    properties["filter"] = json!({"includedEventTypes": ["T"], "subjectBeginsWith": "/s"});
    properties["retryPolicy"] = json!({"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 9});
    properties["expirationTimeUtc"] = json!(soon.to_iso_8601());
    properties["deadLetterDestination"] =
        json!({"endpointType": "S3Bucket", "properties": {"bucketName": "dead-letters"}});
    document
}

#[test]
fn a_patch_changes_what_it_names_and_nothing_else() {
    let before = read_for(Kind::Custom, &to_be_patched()).expect("valid");
    let after =
        |patch: Value| patched(Kind::Custom, &to_be_patched(), &patch).expect("a valid patch");
    assert_eq!(after(json!({})), before);
    assert_eq!(after(json!({"properties": {}})), before);
    assert_eq!(after(json!({"retryPolicy": {"maxDeliveryAttempts": 5}})), before);
    // Clients write null for members that they know and that say nothing here.
    let nothing = json!({"deliveryConfiguration": null, "filtersConfiguration": null});
    assert_eq!(after(nothing), before);
    let labels = after(json!({"labels": ["c"]}));
    assert_eq!(labels, Settings { labels: vec!["c".to_owned()], ..before.clone() });
    assert_eq!(after(json!({"properties": {"labels": ["c"]}})), labels);
    assert_eq!(after(json!({"labels": null})), Settings { labels: vec![], ..before.clone() });
    let policy = after(json!({"retryPolicy": {"maxDeliveryAttempts": null}})).retry_policy;
    assert_eq!((policy.max_attempts, policy.time_to_live_minutes), (30, 9));
    let without = Settings { dead_letter: None, expires_at: None, ..before.clone() };
    assert_eq!(after(json!({"deadLetterDestination": null, "expirationTimeUtc": null})), without);
    let moved =
        after(json!({"destination": {"properties": {"endpointUrl": "https://e.example/"}}}));
    let url = Secret::new("https://e.example/");
    assert_eq!(moved, Settings { endpoint: Endpoint::WebHook { url }, ..before });
}

#[test]
fn a_patch_may_have_the_form_of_a_namespace_topics_documents() {
    let patch = json!({"properties": {
        "deliveryConfiguration": {"push": {"maxDeliveryCount": 3}},
        "filtersConfiguration": {"includedEventTypes": null},
    }});
    let after = patched(Kind::Namespace, &namespace_form(), &patch).expect("valid");
    let before = read_for(Kind::Namespace, &namespace_form()).expect("valid");
    let mut want = Settings { filter: Filter::default(), ..before };
    want.retry_policy.max_attempts = 3;
    assert_eq!(after, want);
}

#[test]
fn a_refused_patch_names_its_own_members() {
    let attempts = json!({"retryPolicy": {"maxDeliveryAttempts": 31}});
    let past = json!({"expirationTimeUtc": "2020-01-01T00:00:00Z"});
    let table = [
        (json!([]), "$ must be an object, but is an array"),
        (attempts, "retryPolicy.maxDeliveryAttempts must"),
        (json!({"properties": {"labels": 1}}), "properties.labels must be an array"),
        (json!({"destination": null}), "destination is required"),
        (json!({"labls": []}), "labls is not known; members here are"),
        (json!({"la bels": []}), "[\"la bels\"] is not known; members here are"),
        (json!({"destination": {"endpointType": "Fax"}}), "destination.endpointType must be"),
        (past, "expirationTimeUtc must be in the future"),
        (
            json!({"destination": {"deliveryAttributeMappings": {"value": [{"name": 5, "type": "Static", "value": "v"}]}}}),
            "destination.deliveryAttributeMappings.value[0].name must be a string",
        ),
    ];
    for (patch, want) in table {
        let problems = patched(Kind::Custom, &to_be_patched(), &patch).expect_err("refused");
        let listed: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(listed.len() == 1 && listed[0].starts_with(want), "{want}: {listed:?}");
    }
}
