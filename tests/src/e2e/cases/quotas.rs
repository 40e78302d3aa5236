//! AWS's limits on single requests: the emulator enforces them, and no program of ours exceeds one.

use anyhow::{bail, ensure};
use gridpost_ops::aws_api::REGION;
use gridpost_stack::quotas;
use serde_json::{Value, json};

use crate::e2e::fixture::{ACCOUNT, Fixture};

/// A queue, table and bucket that do not exist: calls to them exceed limits on purpose.
const BEYOND: &str = "beyond-quotas";

/// Nothing on this stack exceeded a limit, except on purpose.
pub fn kept(fixture: &Fixture) -> anyhow::Result<()> {
    let broken = quotas::broken(fixture.ground.home())?;
    let meant = |broken: &&quotas::Broken| !broken.resource.contains(BEYOND);
    let lines: Vec<_> = broken.iter().filter(meant).map(ToString::to_string).collect();
    if !lines.is_empty() {
        bail!("AWS would have refused:\n{}", lines.join("\n"));
    }
    Ok(())
}

/// A request beyond a limit gets AWS's error for it, and is recorded.
pub async fn the_emulator_refuses_what_aws_refuses(fixture: &Fixture) -> anyhow::Result<()> {
    let queue = format!("{}/{ACCOUNT}/{BEYOND}", fixture.ground.connection.emulator_url);
    let send = |more: Value| {
        let mut message = json!({"QueueUrl": queue, "MessageBody": "x"});
        more.as_object().into_iter().flatten().for_each(|(k, v)| message[k] = v.clone());
        message
    };
    let hide = json!({"QueueUrl": queue, "ReceiptHandle": "r", "VisibilityTimeout": 43_201});
    let put = json!({"TableName": BEYOND, "Item": {"pk": {"S": "x".repeat(410_000)}}});
    let bus = json!({"EventBusName": BEYOND, "Source": "s", "DetailType": "t",
        "Detail": json!({"a": "x".repeat(270_000)}).to_string()});
    let entries = json!({"Entries": [bus]});
    let rows = [
        ("events", "AWSEvents.PutEvents", entries, "over the limit"),
        ("sqs", "AmazonSQS.SendMessage", send(json!({"DelaySeconds": 901})), "DelaySeconds"),
        ("sqs", "AmazonSQS.SendMessage", send(json!({"MessageGroupId": "a b"})), "MessageGroupId"),
        ("sqs", "AmazonSQS.SendMessage", send(json!({"MessageBody": "\u{fffe}"})), "allowed set"),
        ("sqs", "AmazonSQS.ChangeMessageVisibility", hide, "VisibilityTimeout"),
        ("dynamodb", "DynamoDB_20120810.PutItem", put, "ValidationException"),
    ];
    for (service, target, body, want) in &rows {
        let post = fixture.http.post(&fixture.ground.connection.emulator_url);
        let post = post.header("x-amz-target", *target).body(body.to_string());
        let answer = post.header("authorization", authorization(service)).send().await?;
        let (status, text) = (answer.status().as_u16(), answer.text().await?);
        ensure!(status == 400 && text.contains(want), "{target}: {status} {text}");
    }
    let key = "k".repeat(1_025);
    let url = format!("{}/{BEYOND}/{key}", fixture.ground.connection.emulator_url);
    let answer = fixture.http.put(url).header("authorization", authorization("s3")).send().await?;
    let (status, text) = (answer.status().as_u16(), answer.text().await?);
    ensure!(status == 400 && text.contains("KeyTooLongError"), "S3: {status} {text}");

    let publish = fixture.http.post(&fixture.ground.connection.publish_url);
    let answer = publish.header("x-long", "v".repeat(10_240)).send().await?;
    ensure!(answer.status().as_u16() == 431, "API Gateway: {}", answer.status());

    let broken = quotas::broken(fixture.ground.home())?;
    let noted = broken.iter().filter(|broken| broken.resource.contains(BEYOND)).count();
    ensure!(noted > rows.len(), "only {noted} of them were noted: {broken:?}");
    Ok(())
}

/// The emulator accepts any signature.
fn authorization(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=test/20300101/{REGION}/{service}/aws4_request, \
         SignedHeaders=host, Signature=0"
    )
}
