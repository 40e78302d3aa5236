//! AWS resources as destinations.

use gridpost_core::endpoint::arn::AllowedResources;

use super::*;

fn allowed() -> Allowed {
    let patterns = [
        "arn:aws:sqs:eu-central-1:123456789012:orders*",
        "arn:aws:sns:eu-central-1:123456789012:*",
        "arn:aws:kinesis:*",
        "arn:aws:lambda:eu-central-1:123456789012:function:f",
        "arn:aws:events:eu-central-1:*:event-bus/b",
    ];
    let patterns = patterns.join(",").parse().expect("patterns");
    let resources = AllowedResources { region: "eu-central-1".to_owned(), patterns };
    Allowed { resources, ..Allowed::default() }
}

fn read_as(document: &Value, existing: Option<&EventSubscription>) -> Result<Settings, Problems> {
    let (topic, allowed) = (topic(Kind::Custom), allowed());
    read(document, &Context { topic: &topic, existing, now: NOW, allowed: &allowed })
}

fn arn(service: &str, resource: &str) -> Value {
    json!(format!("arn:aws:{service}:eu-central-1:123456789012:{resource}"))
}

fn to(kind: &str, properties: Value) -> Value {
    destination(json!({"endpointType": kind, "properties": properties}))
}

fn attribute(name: &str) -> Value {
    json!({"name": name, "type": "Static", "properties": {"value": "v", "isSecret": false}})
}

#[test]
fn where_no_setting_allows_resources_a_refusal_says_why() {
    use gridpost_core::endpoint::arn::ArnPatterns;
    let patterns = ArnPatterns::nothing("which can't be, because");
    let resources = AllowedResources { region: String::new(), patterns };
    let (topic, allowed) = (topic(Kind::Custom), Allowed { resources, ..Allowed::default() });
    let document = to("SqsQueue", json!({"resourceId": arn("sqs", "orders")}));
    let context = Context { topic: &topic, existing: None, now: NOW, allowed: &allowed };
    let problems = read(&document, &context).expect_err("refused");
    let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let id = "arn:aws:sqs:eu-central-1:123456789012:orders";
    assert_eq!(
        told,
        [format!("properties.destination.properties.resourceId is {id}, which can't be, because")]
    );
}

#[test]
fn documents_of_every_kind_round_trip() {
    let dynamic = json!({"type": "Dynamic", "properties": {"sourceField": "data.k"}});
    let table = [
        to("SqsQueue", json!({"resourceId": arn("sqs", "orders")})),
        to(
            "SqsQueue",
            json!({"resourceId": arn("sqs", "orders.fifo"), "messageGroupId": dynamic,
            "deliveryAttributeMappings": [attribute("x-a")]}),
        ),
        to(
            "SnsTopic",
            json!({"resourceId": arn("sns", "t.fifo"),
            "messageGroupId": {"type": "Static", "properties": {"value": "g"}}}),
        ),
        to(
            "KinesisStream",
            json!({"resourceId": arn("kinesis", "stream/s"), "partitionKey": dynamic}),
        ),
        to("KinesisStream", json!({"resourceId": arn("kinesis", "stream/s")})),
        to("EventBridgeBus", json!({"resourceId": arn("events", "event-bus/b")})),
        to(
            "LambdaFunction",
            json!({"resourceId": arn("lambda", "function:f"),
            "maxEventsPerBatch": 100, "preferredBatchSizeInKilobytes": 512,
            "deliveryAttributeMappings": [attribute("X-A")]}),
        ),
    ];
    for document in table {
        let first = stored(read_as(&document, None).expect("a valid document"));
        assert!(matches!(first.endpoint, Endpoint::Resource(_)));
        let written = write(&first, ProfileName::Basic);
        let asked = &document["properties"]["destination"];
        let told = &written["properties"]["destination"];
        assert_eq!(told["endpointType"], asked["endpointType"]);
        for (name, value) in asked["properties"].as_object().expect("an object") {
            assert_eq!(told["properties"][name], *value, "{name}");
        }
        let again = stored(read_as(&written, Some(&first)).expect("what a read answers"));
        assert_eq!(again, first);
        let json = serde_json::to_string(&first).expect("JSON");
        assert_eq!(serde_json::from_str::<EventSubscription>(&json).expect("stored"), first);
        assert_eq!(full_url(&first), None);
    }
}

#[test]
fn a_group_may_be_written_as_a_text() {
    let document =
        to("SqsQueue", json!({"resourceId": arn("sqs", "orders.fifo"), "messageGroupId": "g"}));
    let Endpoint::Resource(resource) = read_as(&document, None).expect("valid").endpoint else {
        panic!("a webhook")
    };
    let want = gridpost_core::subscription::KeySource::Static { value: "g".to_owned() };
    assert_eq!(resource.message_group_id, Some(want));
}

#[test]
fn each_service_takes_as_many_events_as_its_call() {
    let of =
        |document: &Value| stored(read_as(document, None).expect("valid")).batching().max_events;
    let queue = to("SqsQueue", json!({"resourceId": arn("sqs", "orders")}));
    let stream = to("KinesisStream", json!({"resourceId": arn("kinesis", "stream/s")}));
    let function = to("LambdaFunction", json!({"resourceId": arn("lambda", "function:f")}));
    assert_eq!([of(&queue), of(&stream), of(&function)], [10, 500, 1]);
}

#[test]
fn what_is_refused_is_named_with_what_is_allowed() {
    const ID: &str = "properties.destination.properties.resourceId";
    const GROUP: &str = "properties.destination.properties.messageGroupId";
    const ATTRIBUTES: &str = "properties.destination.properties.deliveryAttributeMappings";
    let queue = |resource: Value| to("SqsQueue", json!({"resourceId": resource}));
    let queue_with = |name: &str, value: Value| {
        let mut properties = json!({"resourceId": arn("sqs", "orders")});
        properties[name] = value;
        to("SqsQueue", properties)
    };
    let fifo = |group: Value| {
        to("SqsQueue", json!({"resourceId": arn("sqs", "orders.fifo"), "messageGroupId": group}))
    };
    let own = |kind: &str, id: Value, name: &str, value: Value| {
        let mut properties = json!({"resourceId": id});
        properties[name] = value;
        to(kind, properties)
    };
    let attributes: Vec<_> = (0..7).map(|number| attribute(&format!("a{number}"))).collect();
    let signed = {
        let mut document = queue(arn("sqs", "orders"));
        document["properties"]["signing"] = json!({"scheme": "StandardWebhooks"});
        document
    };
    let table: Vec<(Value, &str, &str)> = vec![
        (
            to("SqsQueue", json!({})),
            ID,
            "is required: an ARN that the deployment's resource_destinations allows",
        ),
        (queue(json!("orders")), ID, "must be the ARN of a SqsQueue"),
        (
            queue(arn("sns", "t")),
            ID,
            "must be the ARN of a SqsQueue: arn:aws:sqs:REGION:ACCOUNT:NAME",
        ),
        (queue(json!("arn:aws:sqs:eu-central-1:1234:orders")), ID, "the account has 12 digits"),
        (
            queue(json!("arn:aws:sqs:us-east-1:123456789012:orders")),
            ID,
            "must be in the region of this deployment, eu-central-1, but is in us-east-1",
        ),
        (queue(arn("sqs", "others")), ID, "to the Terraform variable resource_destinations"),
        (
            queue(json!("arn:aws:sqs:eu-central-1:210987654321:orders")),
            ID,
            "a pattern such as arn:aws:sqs:eu-central-1:210987654321:*",
        ),
        (
            to("LambdaFunction", json!({"resourceId": arn("lambda", "function:f:live")})),
            ID,
            "a pattern such as arn:aws:lambda:eu-central-1:123456789012:function:*",
        ),
        (to("SqsQueue", json!({"resourceId": arn("sqs", "orders.fifo")})), GROUP, "is required"),
        (fifo(json!("")), GROUP, "1 to 128 printable ASCII characters"),
        (fifo(json!(7)), GROUP, "must be an object"),
        (
            fifo(json!({"type": "Dynamic", "properties": {"sourceField": "a[0]"}})),
            "properties.destination.properties.messageGroupId.properties.sourceField",
            "single dots",
        ),
        (
            own("KinesisStream", arn("kinesis", "stream/s"), "messageGroupId", json!("g")),
            GROUP,
            "belongs to SqsQueue and SnsTopic",
        ),
        (
            queue_with("partitionKey", json!("p")),
            "properties.destination.properties.partitionKey",
            "belongs to KinesisStream",
        ),
        (
            queue_with("maxEventsPerBatch", json!(5)),
            "properties.destination.properties.maxEventsPerBatch",
            "belongs to WebHook and LambdaFunction",
        ),
        (
            queue_with("endpointUrl", json!("https://e")),
            "properties.destination.properties.endpointUrl",
            "is not known",
        ),
        (webhook_with("resourceId", arn("sqs", "orders")), ID, "is not known"),
        (queue_with("deliveryAttributeMappings", json!(attributes)), ATTRIBUTES, "at most 6"),
        (
            queue_with("deliveryAttributeMappings", json!([attribute("a~b")])),
            "properties.destination.properties.deliveryAttributeMappings[0].name",
            "letters, digits",
        ),
        (
            queue_with("deliveryAttributeMappings", json!([attribute("Amazon.x")])),
            "properties.destination.properties.deliveryAttributeMappings[0].name",
            "without AWS.",
        ),
        (
            own(
                "EventBridgeBus",
                arn("events", "event-bus/b"),
                "deliveryAttributeMappings",
                json!([attribute("a")]),
            ),
            ATTRIBUTES,
            "has no place in a EventBridgeBus",
        ),
        (signed, "properties.signing", "belongs to WebHook"),
    ];
    for (document, path, rule) in table {
        let problems = read_as(&document, None).expect_err(rule);
        let found = problems.iter().any(|it| it.path == path && it.rule.contains(rule));
        assert!(found, "{path}: {rule}: {problems:?}");
    }
}

#[test]
fn what_exists_outside_the_allowance_can_be_changed_otherwise() {
    let document = to("SqsQueue", json!({"resourceId": arn("sqs", "orders")}));
    let existing = stored(read_as(&document, None).expect("valid"));
    let (topic, nothing) = (topic(Kind::Custom), Allowed::default());
    let context = Context { topic: &topic, existing: Some(&existing), now: NOW, allowed: &nothing };
    let mut changed = write(&existing, ProfileName::Basic);
    changed["properties"]["labels"] = json!(["a"]);
    assert!(read(&changed, &context).is_ok());
    let patched = read_patch(&json!({"labels": ["b"]}), &existing, &context).expect("a patch");
    assert_eq!(patched.endpoint, existing.endpoint);
    let other = to("SqsQueue", json!({"resourceId": arn("sqs", "orders-2")}));
    assert!(read(&other, &context).is_err());
    // Another type leaves nothing of the one before.
    let webhook = json!({"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": "https://example.com/"}}});
    assert!(read_patch(&webhook, &existing, &context).is_ok());
}
