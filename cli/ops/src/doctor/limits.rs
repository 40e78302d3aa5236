//! Limits on one value of one resource, as a table.

use serde_json::Value;

use self::Of::{Bytes, Characters, Count, Number, Policy};
use super::{Fault, Plan, plan::Resource};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Number,
    Characters,
    Bytes,
    /// A policy's characters, without white space.
    Policy,
    /// How many a list or a map has.
    Count,
}

/// A limit: its code, the type of resource, the path of the value, what is measured, the least and
/// the most that AWS takes, and where it says so.
type Limit = (&'static str, &'static str, &'static str, Of, u32, u32, &'static str);

const LAMBDA: &str = "Lambda API reference, CreateFunction; Lambda quotas";
const MAPPING: &str = "Lambda API reference, CreateEventSourceMapping";
const INVOKE: &str = "Lambda API reference, PutFunctionEventInvokeConfig";
const SQS: &str = "SQS API reference, SetQueueAttributes; SQS quotas";
const IAM: &str = "IAM and STS quotas";
const HTTP_API: &str = "API Gateway, quotas for HTTP APIs";
const ALARM: &str = "CloudWatch API reference, PutMetricAlarm";
const S3: &str = "S3 user guide, bucket naming rules";
const DYNAMODB: &str = "DynamoDB, quotas";
const SCHEDULER: &str = "EventBridge Scheduler API reference, CreateSchedule";

const FUNCTION: &str = "aws_lambda_function";
const ESM: &str = "aws_lambda_event_source_mapping";
const ASYNC: &str = "aws_lambda_function_event_invoke_config";
const QUEUE: &str = "aws_sqs_queue";
const ROLE: &str = "aws_iam_role";
const METRIC_ALARM: &str = "aws_cloudwatch_metric_alarm";
const LOG_GROUP: &str = "aws_cloudwatch_log_group";
const TABLE: &str = "aws_dynamodb_table";
const SCHEDULE: &str = "aws_scheduler_schedule";
const STAGE: &str = "aws_apigatewayv2_stage";
const DASHBOARD: &str = "aws_cloudwatch_dashboard";

const ALIAS: &str = "aws_lambda_alias";
const QUEUE_POLICY: &str = "aws_sqs_queue_policy";
const POLICY: &str = "aws_iam_policy";
const BUCKET: &str = "aws_s3_bucket";
const BUCKET_POLICY: &str = "aws_s3_bucket_policy";
const INTEGRATION: &str = "aws_apigatewayv2_integration";
const AUTHORIZER: &str = "aws_apigatewayv2_authorizer";
const API: &str = "aws_apigatewayv2_api";
const S3_POLICY: &str = "S3 user guide, bucket policies";
const LOGS: &str = "CloudWatch Logs API reference, CreateLogGroup";
const DASHBOARDS: &str = "CloudWatch API reference, PutDashboard";
const CREATE_API: &str = "API Gateway V2 API reference, CreateApi";

#[rustfmt::skip]
const LIMITS: [Limit; 40] = [
    ("function-name", FUNCTION, "function_name", Characters, 1, 64, LAMBDA),
    ("function-description", FUNCTION, "description", Characters, 0, 256, LAMBDA),
    ("function-timeout", FUNCTION, "timeout", Number, 1, 900, LAMBDA),
    ("function-memory", FUNCTION, "memory_size", Number, 128, 10_240, LAMBDA),
    ("function-layers", FUNCTION, "layers", Count, 0, 5, LAMBDA),
    ("function-subnets", FUNCTION, "vpc_config.0.subnet_ids", Count, 0, 16, LAMBDA),
    ("function-security-groups", FUNCTION, "vpc_config.0.security_group_ids", Count, 0, 5, LAMBDA),
    ("alias-name", ALIAS, "name", Characters, 1, 128, LAMBDA),
    ("mapping-concurrency", ESM, "scaling_config.0.maximum_concurrency", Number, 2, 1_000, MAPPING),
    ("mapping-batch", ESM, "batch_size", Number, 1, 10_000, MAPPING),
    ("mapping-window", ESM, "maximum_batching_window_in_seconds", Number, 0, 300, MAPPING),
    ("async-retries", ASYNC, "maximum_retry_attempts", Number, 0, 2, INVOKE),
    ("async-age", ASYNC, "maximum_event_age_in_seconds", Number, 60, 21_600, INVOKE),
    ("queue-name", QUEUE, "name", Characters, 1, 80, SQS),
    ("queue-policy", QUEUE, "policy", Bytes, 0, 8_192, SQS),
    ("queue-policy", QUEUE_POLICY, "policy", Bytes, 0, 8_192, SQS),
    ("queue-message-size", QUEUE, "max_message_size", Number, 1_024, 1_048_576, SQS),
    ("queue-visibility", QUEUE, "visibility_timeout_seconds", Number, 0, 43_200, SQS),
    ("queue-retention", QUEUE, "message_retention_seconds", Number, 60, 1_209_600, SQS),
    ("queue-delay", QUEUE, "delay_seconds", Number, 0, 900, SQS),
    ("role-name", ROLE, "name", Characters, 1, 64, IAM),
    ("role-description", ROLE, "description", Characters, 0, 1_000, IAM),
    ("role-trust-policy", ROLE, "assume_role_policy", Policy, 0, 2_048, IAM),
    ("managed-policy", POLICY, "policy", Policy, 0, 6_144, IAM),
    ("bucket-name", BUCKET, "bucket", Characters, 3, 63, S3),
    ("bucket-policy", BUCKET_POLICY, "policy", Bytes, 0, 20_480, S3_POLICY),
    ("table-name", TABLE, "name", Characters, 3, 255, DYNAMODB),
    ("table-indexes", TABLE, "global_secondary_index", Count, 0, 20, DYNAMODB),
    ("schedule-name", SCHEDULE, "name", Characters, 1, 64, SCHEDULER),
    ("schedule-description", SCHEDULE, "description", Characters, 0, 512, SCHEDULER),
    ("log-group-name", LOG_GROUP, "name", Characters, 1, 512, LOGS),
    ("alarm-name", METRIC_ALARM, "alarm_name", Characters, 1, 255, ALARM),
    ("alarm-description", METRIC_ALARM, "alarm_description", Characters, 0, 1_024, ALARM),
    ("alarm-actions", METRIC_ALARM, "alarm_actions", Count, 0, 5, ALARM),
    ("dashboard-name", DASHBOARD, "dashboard_name", Characters, 1, 255, DASHBOARDS),
    ("integration-timeout", INTEGRATION, "timeout_milliseconds", Number, 50, 30_000, HTTP_API),
    ("access-log-format", STAGE, "access_log_settings.0.format", Bytes, 0, 3_072, HTTP_API),
    ("authorizer-audiences", AUTHORIZER, "jwt_configuration.0.audience", Count, 0, 50, HTTP_API),
    ("api-name", API, "name", Characters, 1, 128, CREATE_API),
    ("api-description", API, "description", Characters, 0, 1_024, CREATE_API),
];

pub(super) fn check(plan: &Plan<'_>) -> Vec<Fault> {
    let of =
        |limit: &'static Limit| plan.of(limit.1).filter_map(move |resource| fault(limit, resource));
    LIMITS.iter().flat_map(of).collect()
}

fn fault(limit: &Limit, resource: &Resource<'_>) -> Option<Fault> {
    let (code, _, path, of, least, most, source) = *limit;
    let found = measure(of, resource.at(path)?)?;
    if (f64::from(least)..=f64::from(most)).contains(&found) {
        return None;
    }
    let unit = match of {
        Number => "",
        Characters => " characters",
        Bytes => " bytes",
        Policy => " characters without white space",
        Count => " entries",
    };
    Some(Fault {
        code,
        address: resource.address.to_owned(),
        limit: format!("{} of {least} to {most}{unit}", path.replace(".0.", ".")),
        found: format!("{found}{unit}"),
        source,
    })
}

#[expect(clippy::cast_precision_loss, reason = "no length comes near 2^53")]
fn measure(of: Of, value: &Value) -> Option<f64> {
    let entries = || match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    Some(match of {
        Number => value.as_f64()?,
        Characters => value.as_str()?.chars().count() as f64,
        Bytes => value.as_str()?.len() as f64,
        Policy => policy_characters(value.as_str()?) as f64,
        Count => entries() as f64,
    })
}

pub(super) fn policy_characters(policy: &str) -> usize {
    policy.chars().filter(|char| !char.is_whitespace()).count()
}
