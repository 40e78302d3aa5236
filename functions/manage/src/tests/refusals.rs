//! Bad input through the real handler: each row is refused with a status, a code and a message that
//! says what to do, and nothing is written and nobody asked.

use serde_json::{Value, json};

use super::{Fixture, code, message, webhook};

const JSON: &str = "application/json";
const SUBSCRIPTION: &str = "/topics/demo/eventSubscriptions/s-1";

/// A subscription's document with one member of `properties` more.
fn with(name: &str, value: Value) -> Vec<u8> {
    let mut document = webhook("https://e.example/other");
    document["properties"][name] = value;
    document.to_string().into_bytes()
}

fn endpoint(url: &str) -> Vec<u8> {
    webhook(url).to_string().into_bytes()
}

fn text(json: &str) -> Vec<u8> {
    json.as_bytes().to_vec()
}

/// Line (a path that begins with `~` is that of the event subscription), header, body, status, code,
/// and a part of the message or of a detail's.
type Row = (&'static str, (&'static str, &'static str), Vec<u8>, u16, &'static str, &'static str);

fn bodies() -> Vec<Row> {
    const NO: (&str, &str) = ("content-type", JSON);
    let deep = [vec![b'['; 5_000], vec![b']'; 5_000]].concat();
    let deep_member = format!("{}1{}", "{\"properties\":".repeat(200), "}".repeat(200));
    let many =
        format!("{{{}}}", (0..5_000).map(|n| format!("\"m{n}\":1")).collect::<Vec<_>>().join(","));
    let twice = "{\"properties\":{},\"properties\":{}}";
    let invalid = "InvalidRequest";
    vec![
        ("PUT ~", NO, text("{"), 400, "InvalidJson", "EOF while parsing"),
        ("PUT ~", NO, text("{'a':1}"), 400, "InvalidJson", "key must be a string"),
        ("PUT ~", NO, text(twice), 400, "InvalidJson", "\"properties\" stands twice"),
        ("PUT ~", NO, vec![0xff, 0xfe], 400, "InvalidJson", "not a JSON document"),
        ("PUT ~", NO, text("\u{feff}{}"), 400, "InvalidJson", "line 1 column 1"),
        ("PUT ~", NO, text("{} {}"), 400, "InvalidJson", "trailing characters"),
        ("PUT ~", NO, deep, 400, "InvalidJson", "recursion limit exceeded"),
        ("PUT ~", NO, deep_member.into_bytes(), 400, "InvalidJson", "recursion limit exceeded"),
        ("PUT ~", NO, many.into_bytes(), 400, invalid, "5001 problems"),
        ("PUT ~", NO, vec![b' '; 262_145], 413, "RequestEntityTooLarge", "limit of 262144"),
        ("PUT ~", NO, text("null"), 400, invalid, "$ must be an object, but is null"),
        ("PUT ~", NO, text("[]"), 400, invalid, "$ must be an object, but is an array"),
        ("PUT ~", NO, text("\"x\""), 400, invalid, "$ must be an object, but is a string"),
        ("PUT ~", NO, text("{}"), 400, invalid, "properties is required"),
        ("PUT ~", NO, text("{\"properties\": {}}"), 400, invalid, "destination is required"),
        ("PATCH ~", NO, text("[]"), 400, invalid, "$ must be an object, but is an array"),
        ("PATCH ~", NO, text("{\"labels\": 1}"), 400, invalid, "labels must be an array"),
        ("PATCH ~", NO, text("{\"destination\": null}"), 400, invalid, "destination is required"),
        (
            "PATCH ~",
            NO,
            text("{\"lables\": []}"),
            400,
            invalid,
            "lables is not known; members here",
        ),
        ("PUT /topics/demo", NO, text("{\"kind\": 1}"), 400, invalid, "kind must be a string"),
        ("PUT /topics/demo", NO, text("{\"hue\": 1}"), 400, invalid, "hue is not known"),
        ("PATCH /topics/demo", NO, text("{\"kind\": \"domain\"}"), 400, invalid, "'custom' or"),
        ("POST /topics/demo/regenerateKey", NO, text("{}"), 400, invalid, "'key1' or 'key2'"),
        (
            "POST /topics/demo/regenerateKey",
            NO,
            text("{\"keyName\": \"key3\"}"),
            400,
            invalid,
            "'key1' or 'key2'",
        ),
    ]
}

fn values() -> Vec<Row> {
    const NO: (&str, &str) = ("content-type", JSON);
    let long = format!("https://e.example/{}", "a".repeat(2_048));
    let past = with("expirationTimeUtc", json!("2020-01-01T00:00:00Z"));
    let policy = |policy: Value| with("retryPolicy", policy);
    let bucket = json!({"endpointType": "S3Bucket", "properties": {"bucketName": "A_B"}});
    let rows = [
        (endpoint("http://93.184.216.34/"), "a URL that must not be called"),
        (endpoint("https://10.0.0.1/"), "a URL that must not be called"),
        (endpoint("https://user:pw@e.example/"), "a URL that must not be called"),
        (endpoint("https://e.example/a b"), "without spaces"),
        (endpoint("ftp://e.example/"), "a URL that must not be called"),
        (endpoint("e.example/hook"), "must be an absolute URL"),
        (endpoint(&long), "at most 2048 characters, but has 2066"),
        (policy(json!({"maxDeliveryAttempts": 0})), "from 1 to 30 (default 30), but is 0"),
        (policy(json!({"maxDeliveryAttempts": 31})), "from 1 to 30"),
        (policy(json!({"maxDeliveryAttempts": "5"})), "but is a string"),
        (policy(json!({"maxDeliveryAttempts": 1.5})), "but is 1.5"),
        (policy(json!({"maxDeliveryAttempts": -1e300})), "from 1 to 30"),
        (policy(json!({"eventTimeToLiveInMinutes": 1441})), "from 1 to 1440"),
        (policy(json!([])), "retryPolicy must be an object"),
        (with("labels", json!([""])), "1 to 256 characters"),
        (with("labels", json!(vec!["l"; 51])), "at most 50 labels, but has 51"),
        (past, "must be in the future"),
        (with("expirationTimeUtc", json!("tomorrow")), "a date and time of RFC 3339"),
        (with("eventDeliverySchema", json!("Xml")), "but is \"Xml\""),
        (with("deadLetterDestination", bucket), "3 to 63 of a-z"),
        (with("deliveryConfiguration", json!({})), "belongs to namespace topics"),
    ];
    let row = |(body, rule)| ("PUT ~", NO, body, 400, "InvalidRequest", rule);
    rows.into_iter().map(row).collect()
}

fn lines() -> Vec<Row> {
    const NO: (&str, &str) = ("content-type", JSON);
    let other = || endpoint("https://e.example/other");
    let nothing = Vec::new;
    vec![
        (
            "PUT ~",
            ("content-type", "text/xml"),
            other(),
            415,
            "UnsupportedMediaType",
            "application/json",
        ),
        (
            "PUT ~",
            ("content-type", "application/x-www-form-urlencoded"),
            other(),
            415,
            "UnsupportedMediaType",
            "must be application/json",
        ),
        (
            "PATCH ~",
            ("content-type", "application/json; charset=utf-16"),
            other(),
            415,
            "UnsupportedMediaType",
            "charset utf-8",
        ),
        ("PUT ~", ("if-match", "abc"), other(), 400, "InvalidHeader", "quotes included"),
        ("PATCH ~", ("if-match", "\"a\"b\""), nothing(), 400, "InvalidHeader", "quotes included"),
        ("DELETE ~", ("if-none-match", ""), nothing(), 400, "InvalidHeader", "quotes included"),
        ("PUT ~", ("if-match", "\"0\""), other(), 412, "PreconditionFailed", "Read it again"),
        ("DELETE ~", ("if-match", "\"0\""), nothing(), 412, "PreconditionFailed", "Read it again"),
        (
            "DELETE /topics/demo",
            ("if-match", "W/\"0\""),
            nothing(),
            412,
            "PreconditionFailed",
            "Read it",
        ),
        ("PUT ~", ("if-none-match", "*"), other(), 412, "PreconditionFailed", "another name"),
        ("PUT /topics/ab", NO, nothing(), 400, "InvalidRequest", "3 to 50 of A-Z"),
        ("PUT /topics/a_b", NO, nothing(), 400, "InvalidRequest", "3 to 50 of A-Z"),
        ("PUT /topics/%2e%2e%2f", NO, nothing(), 400, "InvalidRequest", "3 to 50 of A-Z"),
        (
            "PUT /topics/EventGrid1",
            NO,
            nothing(),
            400,
            "InvalidRequest",
            "must not begin with EventGrid",
        ),
        (
            "PUT /topics/demo/eventSubscriptions/s",
            NO,
            other(),
            400,
            "InvalidRequest",
            "2 to 64 of A-Z",
        ),
        ("PUT /topics/demo/eventSubscriptions/s.1", NO, other(), 400, "InvalidRequest", "2 to 64"),
        ("POST ~", NO, nothing(), 405, "MethodNotAllowed", "allowed are PUT, GET, PATCH, DELETE"),
        ("DELETE /topics", NO, nothing(), 405, "MethodNotAllowed", "allowed are GET"),
        ("BREW /topics/demo", NO, nothing(), 405, "MethodNotAllowed", "allowed are PUT"),
        (
            "PUT /topics/none/eventSubscriptions/s-1",
            NO,
            other(),
            404,
            "ResourceNotFound",
            "no topic",
        ),
        (
            "PATCH /topics/demo/eventSubscriptions/s-9",
            NO,
            nothing(),
            404,
            "ResourceNotFound",
            "'s-9'",
        ),
        ("PUT /queues/demo", NO, nothing(), 404, "ResourceNotFound", "Resources are /topics"),
        ("GET /topics?$top=0", NO, nothing(), 400, "InvalidRequest", "from 1 to 100"),
        (
            "GET /topics?$skiptoken=x",
            NO,
            nothing(),
            400,
            "InvalidRequest",
            "follow nextLink as it is",
        ),
        ("GET /topics?$filter=x", NO, nothing(), 400, "InvalidRequest", "choose among them"),
    ]
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused_and_leave_no_trace() {
    let rows = [bodies(), values(), lines()].concat();
    assert!(rows.len() >= 60, "{}", rows.len());
    let fixture = Fixture::with_subscription().await;
    let tables = &fixture.deployment.tables;
    let stored = || {
        let (topics, subscriptions) = (tables.stored_topics(), tables.stored_subscriptions());
        (topics, subscriptions, tables.states(), tables.healths())
    };
    let before = stored();
    let asked = fixture.asked();
    for (line, header, bytes, status, want_code, rule) in rows {
        let line = line.replace('~', SUBSCRIPTION);
        let row = format!(
            "{line} {header:?} {}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(300)])
        );
        let refused = fixture.send_with(&line, &[header], bytes).await;
        assert_eq!(refused.status, status, "{row}");
        assert_eq!(code(&refused), want_code, "{row}");
        let body = refused.body.as_ref().expect("a document");
        let details = body["error"]["details"].as_array().into_iter().flatten();
        let said: Vec<_> = details.filter_map(|detail| detail["message"].as_str()).collect();
        let is_said = message(&refused).contains(rule) || said.iter().any(|it| it.contains(rule));
        assert!(is_said, "{row}: {} {said:?}", message(&refused));
        assert!(!body.to_string().contains("hush"), "{row}");
        assert!(body.to_string().len() < 60_000, "{row}");
        assert!(stored() == before, "{row} was written");
        assert_eq!(fixture.asked(), asked, "{row} asked the endpoint");
    }
}

/// What is not supported is reported once, without further problems about members that it lacks. The
/// documents are from `azure-rest-api-specs` (`EventSubscriptions`, `NamespaceTopicEventSubscriptions`).
#[tokio::test(start_paused = true)]
async fn what_is_refused_by_name_is_the_only_problem() {
    let fixture = Fixture::new();
    assert_eq!(fixture.send("PUT /topics/plain", json!({})).await.status, 201);
    let namespace = json!({"kind": "namespace"});
    assert_eq!(fixture.send("PUT /topics/spaced", namespace).await.status, 201);
    let queue = json!({"receiveLockDurationInSeconds": 60, "maxDeliveryCount": 4});
    let identity = json!({"identity": {"type": "SystemAssigned"}, "destination": {}});
    let delivery = |members: Value| json!({ "deliveryConfiguration": members });
    let destination = |kind: &str, properties: Value| json!({"destination": {"endpointType": kind, "properties": properties}});
    let mode = "properties.deliveryConfiguration.deliveryMode";
    let endpoint_type = "properties.destination.endpointType";
    let rows = [
        ("spaced", delivery(json!({"deliveryMode": "Queue"})), mode),
        ("spaced", delivery(json!({"deliveryMode": "Queue", "queue": queue})), mode),
        ("spaced", delivery(json!({"deliveryMode": "queue", "push": null})), mode),
        ("spaced", delivery(json!({"deliveryMode": "Pull"})), mode),
        ("spaced", delivery(json!({"deliveryMode": 1})), mode),
        (
            "spaced",
            delivery(json!({"deliveryMode": "Push", "push":
                {"deliveryWithResourceIdentity": identity, "maxDeliveryCount": 3}})),
            "properties.deliveryConfiguration.push.deliveryWithResourceIdentity",
        ),
        (
            "plain",
            json!({"deliveryWithResourceIdentity": identity}),
            "properties.deliveryWithResourceIdentity",
        ),
        (
            "plain",
            delivery(json!({"deliveryMode": "Queue", "queue": queue})),
            "properties.deliveryConfiguration",
        ),
        ("plain", destination("AzureFunction", json!({"resourceId": "/x"})), endpoint_type),
        ("plain", json!({"destination": {"endpointType": "ServiceBusQueue"}}), endpoint_type),
        ("plain", destination("HybridConnection", json!({})), endpoint_type),
        (
            "plain",
            destination(
                "WebHook",
                json!({"endpointUrl": "https://e.example/", "authentication": {"type": "Basic"}}),
            ),
            "properties.destination.properties.authentication.type",
        ),
    ];
    for (topic, properties, path) in rows {
        let line = format!("PUT /topics/{topic}/eventSubscriptions/s-1");
        let refused = fixture.send(&line, json!({ "properties": properties })).await;
        assert_eq!(refused.status, 400, "{properties}: {refused:?}");
        let details = super::body(&refused)["error"]["details"].clone();
        let paths: Vec<_> = details.as_array().into_iter().flatten().collect();
        let targets: Vec<_> = paths.iter().map(|detail| &detail["target"]).collect();
        assert_eq!(targets, [path], "{properties}: {details}");
    }
}
