//! The resources of a deployment that exist in the emulator, whatever Terraform's state says.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::fixture::Fixture;

/// The parts of a deployment: their Terraform types, and for each the attribute that the emulator
/// lists and that is unique there.
const KINDS: [(&str, &str); 10] = [
    ("aws_sqs_queue", "name"),
    ("aws_dynamodb_table", "name"),
    ("aws_s3_bucket", "bucket"),
    ("aws_lambda_function", "function_name"),
    ("aws_lambda_event_source_mapping", "uuid"),
    ("aws_iam_role", "name"),
    ("aws_apigatewayv2_api", "id"),
    ("aws_cloudwatch_log_group", "name"),
    ("aws_cloudwatch_metric_alarm", "alarm_name"),
    ("aws_scheduler_schedule", "name"),
];

/// Resources by type and name.
pub type Named = BTreeSet<(&'static str, String)>;

/// The resources of a state that exist in the emulator.
pub async fn still_there(fixture: &Fixture, resources: &[Value]) -> anyhow::Result<Named> {
    let mut found = BTreeSet::new();
    for (kind, attribute) in KINDS {
        let of_kind = resources.iter().filter(|resource| resource["type"] == kind);
        let instances = of_kind.flat_map(|one| one["instances"].as_array().into_iter().flatten());
        let listed = listing(fixture, kind).await.with_context(|| format!("the list of {kind}"))?;
        for instance in instances {
            let name = instance["attributes"][attribute].as_str();
            let name = name.with_context(|| format!("{kind} without {attribute}"))?;
            if listed.contains(name) {
                found.insert((kind, name.to_owned()));
            }
        }
    }
    Ok(found)
}

/// Whether there is something of every kind. Otherwise a misread list would look as if nothing were
/// left.
pub fn has_every_kind(there: &Named) -> anyhow::Result<()> {
    for (kind, _) in KINDS {
        let has = there.iter().any(|(of, _)| *of == kind);
        ensure!(has, "the emulator lists no {kind} of the deployment: {there:?}");
    }
    Ok(())
}

/// All resources of a kind, as one text.
async fn listing(fixture: &Fixture, kind: &str) -> anyhow::Result<String> {
    let call = async |service: &str, target: &str, ask: Value| {
        Ok(fixture.aws_json(service, target.to_owned(), ask).await?.to_string())
    };
    let path = async |service: &str, path: &str| {
        fixture.aws_rest(service, "GET", path, &Value::Null).await
    };
    match kind {
        "aws_sqs_queue" => call("sqs", "AmazonSQS.ListQueues", json!({})).await,
        "aws_dynamodb_table" => call("dynamodb", "DynamoDB_20120810.ListTables", json!({})).await,
        "aws_s3_bucket" => {
            let told = fixture.s3().list_buckets().send().await?;
            let names = told.buckets().iter().filter_map(|bucket| bucket.name());
            Ok(names.collect::<Vec<_>>().join(" "))
        }
        "aws_lambda_function" => {
            let told = path("lambda", "/2015-03-31/functions/?MaxItems=1000").await?;
            // Only by name: the cases' own functions have roles named like ours.
            names(&told, "Functions", "FunctionName")
        }
        "aws_lambda_event_source_mapping" => {
            let told = path("lambda", "/2015-03-31/event-source-mappings/?MaxItems=1000").await?;
            names(&told, "EventSourceMappings", "UUID")
        }
        "aws_iam_role" => fixture.aws_query("iam", "ListRoles", &[("MaxItems", "1000")]).await,
        "aws_apigatewayv2_api" => names(&path("apigateway", "/v2/apis").await?, "items", "apiId"),
        "aws_cloudwatch_log_group" => log_groups(fixture).await,
        "aws_cloudwatch_metric_alarm" => {
            let ask = json!({"MaxRecords": 100});
            call("monitoring", "GraniteServiceVersion20100801.DescribeAlarms", ask).await
        }
        "aws_scheduler_schedule" => {
            names(&path("scheduler", "/schedules?MaxResults=100").await?, "Schedules", "Name")
        }
        other => anyhow::bail!("there is no list of {other}"),
    }
}

/// Log groups come in pages of fifty.
async fn log_groups(fixture: &Fixture) -> anyhow::Result<String> {
    let (mut text, mut ask) = (String::new(), json!({}));
    loop {
        let target = "Logs_20140328.DescribeLogGroups".to_owned();
        let page = fixture.aws_json("logs", target, ask.clone()).await?;
        text.push_str(&names(&page, "logGroups", "logGroupName")?);
        if page["nextToken"].is_null() {
            return Ok(text);
        }
        ask["nextToken"] = page["nextToken"].clone();
        text.push(' ');
    }
}

/// The names in a list of an answer.
fn names(told: &Value, list: &str, member: &str) -> anyhow::Result<String> {
    let list = told[list].as_array().with_context(|| format!("no {list} in {told}"))?;
    Ok(list.iter().filter_map(|one| one[member].as_str()).collect::<Vec<_>>().join(" "))
}
