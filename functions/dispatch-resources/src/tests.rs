//! The clients against answers in the shapes that AWS documents: each row names the document. They were not recorded from AWS.

use std::net::Ipv4Addr;

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_types::region::Region;
use gridpost::{
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

/// What a service says once, and what it was asked.
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
        key: Some("g".to_owned()),
        bus: Some(bus.clone()),
    };
    (0..count).map(one).collect()
}

async fn answers(kind: ResourceKind, count: usize, said: String) -> (Vec<Answer>, String) {
    let service = Service::saying(said).await;
    let answers = client(&service.url).send(&resource(kind), entries(count)).await;
    (answers, service.asked.await.expect("it was asked"))
}

fn http(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

const JSON: &str = "content-type: application/x-amz-json-1.0\r\n";

fn json_error(status: u16, of_type: &str, message: &str) -> String {
    http(status, JSON, &json!({"__type": of_type, "message": message}).to_string())
}

fn xml_error(status: u16, code: &str, message: &str) -> String {
    let body = format!(
        "<ErrorResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><Error><Type>Sender</Type>\
         <Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
    );
    http(status, "content-type: text/xml\r\n", &body)
}

fn rest_error(status: u16, of_type: &str, body: Value) -> String {
    let headers = format!("content-type: application/json\r\nx-amzn-ErrorType: {of_type}\r\n");
    http(status, &headers, &body.to_string())
}

/// Calls that are refused as a whole.
#[tokio::test]
async fn a_refused_call_is_told_by_its_documented_shape() {
    use Outcome::{
        Busy, Disabled, Forbidden, Full, InvalidFunctionDestination, NotFound, PayloadTooLarge,
        ServerError, SessionQueueNotSupported, TimedOut, Unauthorized,
    };
    use ResourceKind::{EventBridgeBus, KinesisStream, LambdaFunction, SnsTopic, SqsQueue};
    let query_error =
        format!("{JSON}x-amzn-query-error: AWS.SimpleQueueService.NonExistentQueue;Sender\r\n");
    let gone = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}"#;
    let denied = "User: arn:aws:sts::123456789012:assumed-role/r/f is not authorized to perform: sqs:sendmessage";
    let throttle = |reason: &str| {
        rest_error(
            429,
            "TooManyRequestsException",
            json!({"Reason": reason, "Type": "User", "message": "Rate Exceeded."}),
        )
    };
    let table = [
        // SQS developer guide, "Making Query API requests using AWS JSON protocol", error example, with
        // the header of "AWS JSON protocol FAQ".
        (SqsQueue, http(400, &query_error, gone), NotFound),
        (SqsQueue, http(400, JSON, gone), NotFound),
        // SQS's answers as botocore and the Java SDK record them.
        (
            SqsQueue,
            json_error(403, "com.amazon.coral.service#AccessDeniedException", denied),
            Forbidden,
        ),
        (
            SqsQueue,
            json_error(400, "com.amazonaws.sqs#RequestThrottled", "Request is throttled."),
            Busy,
        ),
        (SqsQueue, json_error(400, "com.amazonaws.sqs#OverLimit", "Too many messages"), Full),
        (SqsQueue, json_error(400, "com.amazonaws.sqs#KmsDisabled", "arn is disabled."), Disabled),
        (
            SqsQueue,
            json_error(
                400,
                "com.amazonaws.sqs#BatchRequestTooLong",
                "Batch requests cannot be longer than 1048576 bytes.",
            ),
            PayloadTooLarge,
        ),
        (
            SqsQueue,
            json_error(
                400,
                "com.amazon.coral.service#MissingParameterException",
                "The request must contain the parameter MessageGroupId.",
            ),
            SessionQueueNotSupported,
        ),
        (
            SqsQueue,
            json_error(
                403,
                "com.amazon.coral.service#ExpiredTokenException",
                "The security token included in the request is expired",
            ),
            Unauthorized,
        ),
        (SqsQueue, http(503, "", ""), Busy),
        (SqsQueue, http(500, "", "no JSON"), ServerError),
        // SNS API reference, "Common errors", and the query protocol's error document.
        (SnsTopic, xml_error(404, "NotFound", "Topic does not exist"), NotFound),
        (SnsTopic, xml_error(403, "AuthorizationError", denied), Forbidden),
        (SnsTopic, xml_error(400, "Throttling", "Rate exceeded"), Busy),
        (SnsTopic, xml_error(400, "KMSDisabled", "key is disabled"), Disabled),
        (
            SnsTopic,
            xml_error(
                400,
                "BatchRequestTooLong",
                "The length of all the messages put together is more than the limit.",
            ),
            PayloadTooLarge,
        ),
        (
            SnsTopic,
            xml_error(
                400,
                "InvalidParameter",
                "Invalid parameter: The MessageGroupId parameter is required for FIFO topics",
            ),
            SessionQueueNotSupported,
        ),
        (
            SnsTopic,
            xml_error(
                403,
                "InvalidClientTokenId",
                "The security token included in the request is invalid.",
            ),
            Unauthorized,
        ),
        // Kinesis API reference, PutRecords; developer guide, "API error responses".
        (
            KinesisStream,
            json_error(
                400,
                "ResourceNotFoundException",
                "Stream s under account 123456789012 not found.",
            ),
            NotFound,
        ),
        (
            KinesisStream,
            json_error(
                400,
                "ProvisionedThroughputExceededException",
                "Rate exceeded for shard shardId-000000000000 in stream s under account 123456789012.",
            ),
            Busy,
        ),
        (KinesisStream, json_error(400, "KMSDisabledException", "disabled"), Disabled),
        (KinesisStream, json_error(400, "AccessDeniedException", denied), Forbidden),
        // EventBridge API reference, PutEvents, and "Common errors".
        (EventBridgeBus, json_error(400, "AccessDeniedException", denied), Forbidden),
        (EventBridgeBus, json_error(400, "ThrottlingException", "Rate exceeded"), Busy),
        (
            EventBridgeBus,
            json_error(400, "ResourceNotFoundException", "Event bus b does not exist."),
            NotFound,
        ),
        (
            EventBridgeBus,
            json_error(
                400,
                "ValidationException",
                "1 validation error detected: Total size of the entries in the request is over the limit.",
            ),
            PayloadTooLarge,
        ),
        // Lambda API reference, Invoke, "Errors"; developer guide, "Troubleshoot invocation issues".
        (
            LambdaFunction,
            rest_error(
                404,
                "ResourceNotFoundException",
                json!({"Type": "User",
            "Message": "Function not found: arn:aws:lambda:us-east-1:123456789012:function:f"}),
            ),
            NotFound,
        ),
        (
            LambdaFunction,
            rest_error(403, "AccessDeniedException", json!({"Message": denied})),
            Forbidden,
        ),
        (LambdaFunction, throttle("ReservedFunctionConcurrentInvocationLimitExceeded"), Full),
        (LambdaFunction, throttle("ConcurrentInvocationLimitExceeded"), Full),
        (LambdaFunction, throttle("FunctionInvocationRateLimitExceeded"), Busy),
        (LambdaFunction, throttle("CallerRateLimitExceeded"), Busy),
        (
            LambdaFunction,
            rest_error(
                409,
                "ResourceConflictException",
                json!({"Type": "User",
            "Message": "The operation cannot be performed at this time. The function is currently in the following state: Pending"}),
            ),
            InvalidFunctionDestination,
        ),
        (
            LambdaFunction,
            rest_error(502, "InvalidZipFileException", json!({"Message": "x"})),
            InvalidFunctionDestination,
        ),
        (
            LambdaFunction,
            rest_error(502, "KMSDisabledException", json!({"Message": "x"})),
            Disabled,
        ),
        (
            LambdaFunction,
            rest_error(
                413,
                "RequestTooLargeException",
                json!({"Type": "User",
            "message": "Request must be smaller than 6291456 bytes for the InvokeFunction operation"}),
            ),
            PayloadTooLarge,
        ),
        (
            LambdaFunction,
            rest_error(500, "ServiceException", json!({"Message": "Internal server error"})),
            ServerError,
        ),
        // Lambda developer guide, "Understanding the error retry behavior": a function's own failure.
        (
            LambdaFunction,
            http(
                200,
                "x-amz-function-error: Unhandled\r\n",
                r#"{"errorMessage":"boom","errorType":"Exception","stackTrace":[]}"#,
            ),
            ServerError,
        ),
        (
            LambdaFunction,
            http(
                200,
                "x-amz-function-error: Unhandled\r\n",
                r#"{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: r Error: Task timed out after 3.00 seconds"}"#,
            ),
            TimedOut,
        ),
        (LambdaFunction, http(200, "", r#"{"ok":true}"#), Outcome::Delivered),
    ];
    for (kind, said, want) in table {
        let (answers, _) = answers(kind, 1, said.clone()).await;
        let outcomes: Vec<_> = answers.iter().map(|answer| answer.outcome).collect();
        assert_eq!(outcomes, [want], "{kind:?} {said}");
        assert_eq!(answers[0].status, status_of(want));
    }
}

/// Calls of which each entry has its own answer.
#[tokio::test]
async fn each_entry_has_its_own_answer() {
    use Outcome::{BadRequest, Busy, Delivered, PayloadTooLarge, ServerError};
    use ResourceKind::{EventBridgeBus, KinesisStream, SnsTopic, SqsQueue};
    let table = [
        // SQS API reference, SendMessageBatch, and BatchResultErrorEntry. Their order means nothing, and
        // an entry that is not named is not known to have arrived.
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

/// What the user wrote for a context must not make the call itself too large.
#[test]
fn a_context_keeps_to_its_size() {
    let mut entry = entries(1).remove(0);
    let value = "v".repeat(1_000);
    entry.attributes = (0..5).map(|number| (format!("x-{number}"), Secret::new(&*value))).collect();
    let context = function::context(&entry);
    assert!(context.len() <= 3_583, "{}", context.len());
    assert!(context.len() > 2_000, "what fits is there");
}
