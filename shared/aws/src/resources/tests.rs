//! What the clients send, and how they read answers. `shapes.json` has more answers.

use std::net::Ipv4Addr;

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_types::region::Region;
use gridpost_core::{
    delivery::resource_request::{BusMembers, Entry},
    secret::Secret,
    subscription::KeySource,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;

struct Service {
    url: String,
    asked: JoinHandle<String>,
}

impl Service {
    /// Answers the first request with these bytes, and closes.
    async fn saying(answer: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a call");
            let mut request = Vec::new();
            while !is_whole(&request) {
                let mut some = [0; 4_096];
                let read = stream.read(&mut some).await.expect("a request");
                request.extend_from_slice(&some[..read]);
            }
            stream.write_all(answer.as_bytes()).await.expect("it listens");
            stream.shutdown().await.expect("it listens");
            String::from_utf8(request).expect("text")
        });
        Self { url, asked }
    }
}

fn is_whole(request: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(head)) = parsed.parse(request) else { return false };
    let length = parsed.headers.iter().find(|it| it.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|it| std::str::from_utf8(it.value).ok()?.parse().ok());
    request.len() >= head + length.unwrap_or(0)
}

fn client(url: &str) -> AwsResources {
    let credentials = Credentials::new("key", "secret", None, None, "a test");
    let tls = Provider::Rustls(CryptoMode::AwsLc);
    let config = SdkConfig::builder()
        .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(Builder::new().tls_provider(tls).build_https())
        .endpoint_url(url)
        .build();
    AwsResources::new(&config)
}

fn resource(kind: ResourceKind) -> Resource {
    let name = match kind {
        ResourceKind::LambdaFunction => "function:f",
        ResourceKind::SqsQueue | ResourceKind::SnsTopic => "q.fifo",
        ResourceKind::KinesisStream => "stream/s",
        ResourceKind::EventBridgeBus => "event-bus/b",
    };
    let arn = format!("arn:aws:{}:us-east-1:123456789012:{name}", kind.rules().service);
    let group = KeySource::Static { value: "g".to_owned() };
    Resource {
        kind,
        arn: arn.parse().expect("an ARN"),
        message_group_id: Some(group),
        partition_key: None,
    }
}

fn entries(count: usize) -> Vec<Entry> {
    let bus = BusMembers {
        source: "/s".to_owned(),
        detail_type: "t".to_owned(),
        time: None,
        trace_header: None,
    };
    let one = |number| Entry {
        id: format!("delivery-{number}"),
        body: format!(r#"{{"id":"{number}"}}"#),
        attributes: vec![("aeg-delivery-count".to_owned(), Secret::new("0"))],
        attempts_made: 0,
        key: Some("g".to_owned()),
        bus: Some(bus.clone()),
    };
    (0..count).map(one).collect()
}

pub(crate) async fn answers(
    kind: ResourceKind,
    count: usize,
    said: String,
) -> (Vec<Answer>, String) {
    let service = Service::saying(said).await;
    let answers = client(&service.url).send(&resource(kind), entries(count)).await;
    (answers, service.asked.await.expect("it was asked"))
}

pub(crate) fn http(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

pub(crate) const JSON: &str = "content-type: application/x-amz-json-1.0\r\n";

#[tokio::test]
async fn a_function_that_answers_has_its_event() {
    let (answers, _) =
        answers(ResourceKind::LambdaFunction, 1, http(200, "", r#"{"ok":true}"#)).await;
    assert_eq!(answers, [delivered()]);
}

/// Calls of which each entry has its own answer.
#[tokio::test]
async fn each_entry_has_its_own_answer() {
    use Outcome::{BadRequest, Busy, Delivered, PayloadTooLarge, ServerError};
    use ResourceKind::{EventBridgeBus, KinesisStream, SnsTopic, SqsQueue};
    let table = [
        // SQS API reference, SendMessageBatch, and BatchResultErrorEntry. Their order means nothing; entries
        // that are not named may not have arrived.
        (
            SqsQueue,
            http(200, JSON, &json!({
                "Successful": [{"Id": "2", "MessageId": "m", "MD5OfMessageBody": "x"}],
                "Failed": [
                    {"Id": "1", "SenderFault": false, "Code": "InternalError", "Message": "try again"},
                    {"Id": "0", "SenderFault": true, "Code": "InvalidParameterValue",
                        "Message": "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes."},
                ]}).to_string()),
            vec![PayloadTooLarge, ServerError, Delivered, ServerError],
        ),
        // SNS API reference, PublishBatch, example response.
        (
            SnsTopic,
            http(200, "content-type: text/xml\r\n", "<PublishBatchResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\">\
                <PublishBatchResult><Failed><member><Id>1</Id><Code>Throttling</Code><SenderFault>false</SenderFault></member></Failed>\
                <Successful><member><Id>0</Id><MessageId>m</MessageId></member></Successful></PublishBatchResult>\
                <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishBatchResponse>"),
            vec![Delivered, Busy],
        ),
        // Kinesis API reference, PutRecords, example "a response with partial failures".
        (
            KinesisStream,
            http(200, JSON, &json!({"FailedRecordCount": 2, "Records": [
                {"SequenceNumber": "49543463076548007577105092703039560359975228518395012686", "ShardId": "shardId-000000000000"},
                {"ErrorCode": "ProvisionedThroughputExceededException",
                    "ErrorMessage": "Rate exceeded for shard shardId-000000000001 in stream exampleStreamName under account 111111111111."},
                {"ErrorCode": "InternalFailure", "ErrorMessage": "Internal service failure."},
            ]}).to_string()),
            vec![Delivered, Busy, ServerError],
        ),
        // EventBridge API reference, PutEvents, example response with a failed entry.
        (
            EventBridgeBus,
            http(200, JSON, &json!({"FailedEntryCount": 2, "Entries": [
                {"ErrorCode": "ThrottlingException", "ErrorMessage": "m"},
                {"EventId": "11710aed-b79e-4468-a20b-bb3c0c3b4860"},
                {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."},
            ]}).to_string()),
            vec![Busy, Delivered, BadRequest],
        ),
    ];
    for (kind, said, want) in table {
        let (answers, _) = answers(kind, want.len(), said).await;
        let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome).collect();
        assert_eq!(outcomes, want, "{kind:?}");
    }
}

#[tokio::test]
async fn nobody_who_listens_is_a_socket_error() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    for (_, kind) in ResourceKind::ALL {
        let answers = client(&url).send(&resource(kind), entries(2)).await;
        assert_eq!(answers, vec![Answer::without_status(Outcome::SocketError); 2], "{kind:?}");
    }
    let (client, queue) = (client("http://nobody.invalid"), resource(ResourceKind::SqsQueue));
    assert_eq!(client.send(&queue, entries(1)).await[0].outcome, Outcome::ResolutionError);
}

#[tokio::test]
async fn what_is_sent_has_attributes_groups_and_ids() {
    let ask = |kind| async move {
        let (_, asked) = answers(kind, 1, http(200, JSON, "{}")).await;
        let (head, body) = asked.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    };
    let (_, body) = ask(ResourceKind::SqsQueue).await;
    let sent: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(sent["QueueUrl"], "https://sqs.us-east-1.amazonaws.com/123456789012/q.fifo");
    let entry = json!({"Id": "0", "MessageBody": r#"{"id":"0"}"#, "MessageGroupId": "g",
        "MessageDeduplicationId": "delivery-0", "MessageAttributes":
            {"aeg-delivery-count": {"DataType": "String", "StringValue": "0"}}});
    assert_eq!(sent["Entries"], json!([entry]));

    let (_, body) = ask(ResourceKind::SnsTopic).await;
    for part in
        ["member.1.MessageGroupId=g", "MessageDeduplicationId=delivery-0", "aeg-delivery-count"]
    {
        assert!(body.contains(part), "{part}: {body}");
    }

    let (_, body) = ask(ResourceKind::KinesisStream).await;
    let sent: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(sent["StreamARN"], "arn:aws:kinesis:us-east-1:123456789012:stream/s");
    assert_eq!(sent["Records"], json!([{"Data": "eyJpZCI6IjAifQ==", "PartitionKey": "g"}]));

    let (_, body) = ask(ResourceKind::EventBridgeBus).await;
    let sent: Value = serde_json::from_str(&body).expect("JSON");
    let bus = "arn:aws:events:us-east-1:123456789012:event-bus/b";
    let entry =
        json!({"EventBusName": bus, "Source": "/s", "DetailType": "t", "Detail": r#"{"id":"0"}"#});
    assert_eq!(sent["Entries"], json!([entry]));

    let (head, body) = ask(ResourceKind::LambdaFunction).await;
    assert_eq!(body, r#"{"id":"0"}"#);
    // {"custom":{"aeg-delivery-count":"0"}}
    let context = "x-amz-client-context: eyJjdXN0b20iOnsiYWVnLWRlbGl2ZXJ5LWNvdW50IjoiMCJ9fQ==";
    assert!(head.to_ascii_lowercase().contains(&context.to_ascii_lowercase()), "{head}");
}

#[tokio::test]
async fn a_resource_is_asked_for_and_left_alone() {
    let is_there = Finding { outcome: Outcome::Delivered, says: String::new() };
    let stream = |status: &str| {
        json!({"StreamDescriptionSummary": {"StreamName": "s", "StreamARN": "a",
            "StreamStatus": status, "RetentionPeriodHours": 24, "StreamCreationTimestamp": 1,
            "EnhancedMonitoring": [], "OpenShardCount": 1}})
        .to_string()
    };
    let gone = Finding { outcome: Outcome::NotFound, says: "it is being deleted".to_owned() };
    let none =
        "<GetTopicAttributesResponse><GetTopicAttributesResult/></GetTopicAttributesResponse>";
    let table = [
        (
            ResourceKind::LambdaFunction,
            http(204, "", ""),
            "x-amz-invocation-type: dryrun",
            &is_there,
        ),
        (ResourceKind::SqsQueue, http(200, JSON, "{}"), "amazonsqs.getqueueattributes", &is_there),
        (ResourceKind::SnsTopic, http(200, "", none), "action=gettopicattributes", &is_there),
        (
            ResourceKind::KinesisStream,
            http(200, JSON, &stream("ACTIVE")),
            "kinesis_20131202.describestreamsummary",
            &is_there,
        ),
        (ResourceKind::KinesisStream, http(200, JSON, &stream("DELETING")), "stream/s", &gone),
        (ResourceKind::EventBridgeBus, http(200, JSON, "{}"), r#""name":"b""#, &is_there),
    ];
    for (kind, said, asks, want) in table {
        let service = Service::saying(said).await;
        let found = client(&service.url).check(&resource(kind)).await;
        let asked = service.asked.await.expect("it was asked").to_ascii_lowercase();
        assert!(asked.contains(asks), "{kind:?}: {asked}");
        assert_eq!(found, *want, "{kind:?}");
    }
    let missing = json!({"__type": "ResourceNotFoundException", "message": "no bus"}).to_string();
    let service = Service::saying(http(400, JSON, &missing)).await;
    let found = client(&service.url).check(&resource(ResourceKind::EventBridgeBus)).await;
    let says = "ResourceNotFoundException: no bus".to_owned();
    assert_eq!(found, Finding { outcome: Outcome::NotFound, says });
}

/// Lambda can follow what an invocation sends.
#[tokio::test]
async fn calls_carry_the_trace_of_their_invocation() {
    gridpost_runtime::lineage::begin(Some("Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0"));
    let (_, asked) = answers(ResourceKind::SqsQueue, 1, http(200, JSON, "{}")).await;
    let trace = "x-amzn-trace-id: Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0";
    assert!(asked.contains(trace), "{asked}");
}

/// A user's context must not make the call too large.
#[test]
fn a_context_keeps_to_its_size() {
    let mut entry = entries(1).remove(0);
    let value = "v".repeat(1_000);
    entry.attributes = (0..5).map(|number| (format!("x-{number}"), Secret::new(&*value))).collect();
    let context = function::context(&entry);
    assert!(context.len() <= 3_583, "{}", context.len());
    assert!(context.len() > 2_000, "what fits is there");
}
