//! Rules about several values or several resources.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use serde_json::Value;

use super::{Account, Fault, Plan, limits::policy_characters, plan::Resource};

const LAMBDA: &str = "Lambda, quotas; CreateFunction";
const MAPPING: &str = "Lambda developer guide, event source mappings for SQS";
const HTTP_API: &str = "API Gateway, quotas and routes of HTTP APIs";
const ALARM: &str = "CloudWatch API reference, PutMetricAlarm";

pub(super) const FUNCTION: &str = "aws_lambda_function";
pub(super) const ESM: &str = "aws_lambda_event_source_mapping";
pub(super) const QUEUE: &str = "aws_sqs_queue";

/// The largest message that AWS providers before [`LARGE_MESSAGES_SINCE`] take, in bytes.
const MESSAGE_BEFORE: i64 = 262_144;

/// The AWS provider that takes messages of 1 MiB. Source: its changelog.
const LARGE_MESSAGES_SINCE: [u64; 3] = [6, 8, 0];

/// A mapping without a maximum. Source: [`MAPPING`].
const MAPPING_CONCURRENCY_MAX: i64 = 1_000;

/// The concurrency that Lambda leaves unreserved. Source: [`LAMBDA`].
const UNRESERVED: i64 = 100;

/// Source: CloudWatch Logs API reference, PutRetentionPolicy; 0 is for ever.
const RETENTIONS: [i64; 23] = [
    0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1_096, 1_827, 2_192, 2_557,
    2_922, 3_288, 3_653,
];

/// Types of resources with a name that is unique in an account, in all its regions. Two providers
/// may be for two accounts with the same names of roles: that is found, too.
const ANYWHERE: [&str; 2] = ["aws_iam_role", "aws_s3_bucket"];

/// Names that must be there once in an account and region, or [more](ANYWHERE).
const NAMES: [(&str, &str); 8] = [
    (FUNCTION, "function_name"),
    (QUEUE, "name"),
    ("aws_iam_role", "name"),
    ("aws_s3_bucket", "bucket"),
    ("aws_dynamodb_table", "name"),
    ("aws_cloudwatch_metric_alarm", "alarm_name"),
    ("aws_cloudwatch_log_group", "name"),
    ("aws_scheduler_schedule", "name"),
];

pub(super) fn check(plan: &Plan<'_>, account: &Account) -> Vec<Fault> {
    let mut faults = routes(plan);
    faults.extend(role_policies(plan));
    faults.extend(concurrency(plan, account));
    faults.extend(throttles(plan, account));
    faults.extend(names(plan));
    faults.extend(plan.of(ESM).flat_map(|mapping| of_mapping(plan, mapping)));
    let provider = lower_bound(plan.provider.unwrap_or_default());
    faults.extend(plan.of(QUEUE).filter_map(|queue| of_message(queue, provider)));
    faults.extend(plan.of(QUEUE).filter_map(of_redrive));
    faults.extend(plan.of(FUNCTION).filter_map(of_environment));
    faults.extend(plan.of("aws_apigatewayv2_integration").flat_map(|one| behind_api(plan, one)));
    faults.extend(plan.of("aws_cloudwatch_log_group").filter_map(of_retention));
    faults.extend(plan.of("aws_cloudwatch_metric_alarm").flat_map(of_alarm));
    faults.extend(plan.of("aws_s3_bucket").filter_map(of_bucket));
    faults.extend(plan.resources.iter().filter_map(of_tags));
    faults
}

pub(super) fn fault(
    code: &'static str,
    address: impl Into<String>,
    limit: impl Into<String>,
    found: impl Into<String>,
    source: &'static str,
) -> Fault {
    Fault { code, address: address.into(), limit: limit.into(), found: found.into(), source }
}

fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

/// Routes of each API: one name for the variable of a level, no key twice, at most 300.
fn routes(plan: &Plan<'_>) -> Vec<Fault> {
    let mut apis: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for route in plan.of("aws_apigatewayv2_route") {
        let named = plan.named(route, "api_id", "aws_apigatewayv2_api");
        let api = route.text("api_id").or_else(|| named.first().map(|api| api.address));
        if let (Some(api), Some(key)) = (api, route.text("route_key")) {
            apis.entry(api).or_default().push((route.address, key));
        }
    }
    let mut faults = Vec::new();
    for (api, routes) in apis {
        if routes.len() > 300 {
            let found = routes.len().to_string();
            faults.push(fault("route-count", api, "300 routes", found, HTTP_API));
        }
        let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut levels: BTreeMap<String, BTreeMap<&str, &str>> = BTreeMap::new();
        for (address, key) in &routes {
            keys.entry(key).or_default().push(address);
            for (level, variable) in variables(key) {
                levels.entry(level).or_default().insert(variable, address);
            }
        }
        for (key, addresses) in keys.into_iter().filter(|(_, addresses)| addresses.len() > 1) {
            let addresses = joined(addresses);
            faults.push(fault("route-twice", addresses, "a route once", key, HTTP_API));
        }
        for (level, named) in levels.into_iter().filter(|(_, named)| named.len() > 1) {
            let limit = format!("one name for the variable behind {level}");
            let found = joined(named.keys().copied());
            let addresses = joined(named.values().copied());
            faults.push(fault("route-variables", addresses, limit, found, HTTP_API));
        }
    }
    faults
}

/// The variables of a route's path, each with what stands before it, where variables have no names.
fn variables(route_key: &str) -> Vec<(String, &str)> {
    let path = route_key.split_once(' ').map_or(route_key, |(_, path)| path);
    let mut level = String::new();
    let mut found = Vec::new();
    for part in path.split('/').skip(1) {
        level.push('/');
        let variable = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        match variable {
            Some(name) => {
                found.push((level.clone(), name));
                level.push_str("{}");
            }
            None => level.push_str(part),
        }
    }
    found
}

fn role_policies(plan: &Plan<'_>) -> Vec<Fault> {
    let mut roles: BTreeMap<String, usize> = BTreeMap::new();
    for policy in plan.of("aws_iam_role_policy") {
        let named = plan.named(policy, "role", "aws_iam_role");
        let role = named.first().map(|role| role.address).or_else(|| policy.text("role"));
        let role = role.unwrap_or(policy.address).to_owned();
        *roles.entry(role).or_default() += policy.text("policy").map_or(0, policy_characters);
    }
    let most = 10_240;
    let of = |(role, characters): (String, usize)| {
        let limit = format!("{most} characters of inline policies together, without white space");
        let found = format!("{characters} characters");
        (characters > most)
            .then(|| fault("role-policies", role, limit, found, "IAM and STS quotas"))
    };
    roles.into_iter().filter_map(of).collect()
}

/// Returns a function's reserved concurrency; `None` for its share of the account's.
fn reserved(function: &Resource<'_>) -> Option<i64> {
    function.number("reserved_concurrent_executions").filter(|reserved| *reserved >= 0)
}

/// Sums up the concurrency of queues, and what is left unreserved, by provider: each may be for
/// another region or account.
fn concurrency(plan: &Plan<'_>, account: &Account) -> Vec<Fault> {
    let providers: BTreeSet<_> = plan.resources.iter().map(|resource| resource.provider).collect();
    providers.into_iter().flat_map(|provider| concurrency_of(plan, account, provider)).collect()
}

fn concurrency_of(plan: &Plan<'_>, account: &Account, provider: &str) -> Vec<Fault> {
    let of = |kind| plan.of(kind).filter(|resource| resource.provider == provider);
    let mut used: BTreeMap<&str, i64> = BTreeMap::new();
    let mut mappings = Vec::new();
    let mut faults = Vec::new();
    // One that is not enabled runs nothing.
    for mapping in of(ESM).filter(|mapping| mapping.at("enabled") != Some(&Value::Bool(false))) {
        let most = mapping.number("scaling_config.0.maximum_concurrency");
        let most = most.unwrap_or(MAPPING_CONCURRENCY_MAX);
        mappings.push(mapping.address);
        let functions = plan.named(mapping, "function_name", FUNCTION);
        let function = functions.first();
        *used.entry(function.map_or(mapping.address, |it| it.address)).or_default() += most;
        if let Some(reserved) = function.and_then(|it| reserved(it)).filter(|it| *it < most) {
            let limit = format!("at most the function's reserved concurrency, {reserved}");
            let found = most.to_string();
            faults.push(fault("mapping-over-reserved", mapping.address, limit, found, MAPPING));
        }
    }
    let mut all_reserved = 0;
    for function in of(FUNCTION) {
        if let Some(reserved) = reserved(function) {
            all_reserved += reserved;
            used.insert(function.address, reserved);
        }
    }
    let sum: i64 = used.values().sum();
    let quota = i64::try_from(account.concurrency).unwrap_or(i64::MAX);
    if sum > quota {
        let limit = format!("{quota} concurrent executions in the account");
        let found = format!("{sum} by queues and reserved together");
        faults.push(fault("concurrency", joined(mappings), limit, found, LAMBDA));
    }
    if all_reserved > 0 && quota - all_reserved < UNRESERVED {
        let who = of(FUNCTION).filter(|it| reserved(it).is_some()).map(|it| it.address);
        let limit = format!("{UNRESERVED} of {quota} unreserved");
        let found = format!("{} unreserved", quota - all_reserved);
        faults.push(fault("reserved-concurrency", joined(who), limit, found, LAMBDA));
    }
    faults
}

/// A stage's throttle that promises more than the account has.
fn throttles(plan: &Plan<'_>, account: &Account) -> Vec<Fault> {
    let quotas = [
        ("throttle-rate", "throttling_rate_limit", account.api_rate),
        ("throttle-burst", "throttling_burst_limit", account.api_burst),
    ];
    let of = |stage: &Resource<'_>| {
        quotas.map(|(code, member, quota)| {
            let found = stage.at(&format!("default_route_settings.0.{member}"))?.as_f64()?;
            #[expect(clippy::cast_precision_loss, reason = "quotas are small")]
            let is_over = found > quota as f64;
            let limit = format!("{quota} in the account");
            is_over.then(|| fault(code, stage.address, limit, found.to_string(), HTTP_API))
        })
    };
    plan.of("aws_apigatewayv2_stage").flat_map(of).flatten().collect()
}

fn names(plan: &Plan<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (kind, path) in NAMES {
        let mut by_name: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for resource in plan.of(kind) {
            // Others may be had once more in another region.
            let place = match ANYWHERE.contains(&kind) {
                true => "",
                false => resource.provider,
            };
            if let Some(name) = resource.text(path) {
                by_name.entry((place, name)).or_default().push(resource.address);
            }
        }
        for ((_, name), addresses) in by_name.into_iter().filter(|(_, of)| of.len() > 1) {
            let limit = match ANYWHERE.contains(&kind) {
                true => "a name once in an account, a bucket's once in all of AWS",
                false => "a name once in an account and region",
            };
            let limit = limit.to_owned();
            faults.push(fault("name-twice", joined(addresses), limit, name, "each service's API"));
        }
    }
    faults
}

/// A mapping's window, and what its queue hides messages for.
fn of_mapping(plan: &Plan<'_>, mapping: &Resource<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let batch = mapping.number("batch_size").unwrap_or(10);
    let window = mapping.number("maximum_batching_window_in_seconds").unwrap_or(0);
    if batch > 10 && window < 1 {
        let limit = "a batching window of at least 1 s for batches of over 10";
        let found = format!("batches of {batch}, a window of {window} s");
        faults.push(fault("mapping-window-needed", mapping.address, limit, found, MAPPING));
    }
    let queues = plan.named(mapping, "event_source_arn", QUEUE);
    let functions = plan.named(mapping, "function_name", FUNCTION);
    let hidden = |queue: &&Resource<'_>| queue.number("visibility_timeout_seconds");
    let timeout = |function: &&Resource<'_>| function.number("timeout");
    let (hidden, timeout) = (queues.first().and_then(hidden), functions.first().and_then(timeout));
    if let (Some(hidden), Some(timeout)) = (hidden, timeout)
        && hidden < timeout
    {
        let limit = format!("the queue hides messages for at least the function's {timeout} s");
        let found = format!("{hidden} s");
        faults.push(fault("mapping-visibility", mapping.address, limit, found, MAPPING));
    }
    faults
}

/// Messages that not every provider which the constraint allows can set.
fn of_message(queue: &Resource<'_>, provider: [u64; 3]) -> Option<Fault> {
    let size = queue.number("max_message_size").filter(|size| *size > MESSAGE_BEFORE)?;
    if provider >= LARGE_MESSAGES_SINCE {
        return None;
    }
    let limit = format!("{MESSAGE_BEFORE} bytes, or AWS provider 6.8 or later alone");
    let [major, minor, patch] = provider;
    let found = format!("{size} bytes, provider {major}.{minor}.{patch} allowed");
    Some(fault("provider-version", queue.address, limit, found, "AWS provider, changelog of 6.8.0"))
}

/// The oldest version that a constraint allows: `>= 5.90.0, < 7.0.0` allows 5.90.0.
fn lower_bound(constraint: &str) -> [u64; 3] {
    let bound = |part: &str| {
        let part = part.trim();
        if part.starts_with(['<', '!']) {
            return [0; 3];
        }
        let version = part.trim_start_matches(['>', '=', '~', ' ']);
        let mut numbers = version.split(['.', '-']).map_while(|number| number.parse().ok());
        [(); 3].map(|()| numbers.next().unwrap_or(0))
    };
    constraint.split(',').map(bound).max().unwrap_or_default()
}

/// How often a message is received before it is set aside.
fn of_redrive(queue: &Resource<'_>) -> Option<Fault> {
    let policy: Value = serde_json::from_str(queue.text("redrive_policy")?).ok()?;
    let count = policy["maxReceiveCount"].as_i64()?;
    let limit = "a maxReceiveCount of 1 to 1000";
    (!(1..=1_000).contains(&count))
        .then(|| fault("queue-receives", queue.address, limit, count.to_string(), "SQS quotas"))
}

/// Environment variables of a function, names and values together.
fn of_environment(function: &Resource<'_>) -> Option<Fault> {
    let variables = function.at("environment.0.variables")?.as_object()?;
    let value = |value: &Value| value.as_str().map_or(0, str::len);
    let bytes: usize = variables.iter().map(|(name, text)| name.len() + value(text)).sum();
    let limit = "4096 bytes of environment variables, names and values together";
    (bytes > 4_096).then(|| {
        fault("function-environment", function.address, limit, format!("{bytes} bytes"), LAMBDA)
    })
}

/// A function that runs for longer than API Gateway waits.
fn behind_api(plan: &Plan<'_>, integration: &Resource<'_>) -> Vec<Fault> {
    let wait_s = integration.number("timeout_milliseconds").unwrap_or(30_000).min(30_000) / 1_000;
    let functions = plan.named(integration, "integration_uri", FUNCTION);
    let of = |function: &&Resource<'_>| {
        let timeout = function.number("timeout").filter(|timeout| *timeout > wait_s)?;
        let limit = format!("{wait_s} s behind {}", integration.address);
        let found = format!("{timeout} s");
        Some(fault("function-behind-api", function.address, limit, found, HTTP_API))
    };
    functions.iter().filter_map(of).collect()
}

fn of_retention(group: &Resource<'_>) -> Option<Fault> {
    let days = group.number("retention_in_days").filter(|days| !RETENTIONS.contains(days))?;
    let limit = format!("{:?} days", &RETENTIONS[1..]);
    let source = "CloudWatch Logs API reference, PutRetentionPolicy";
    Some(fault("log-retention", group.address, limit, days.to_string(), source))
}

/// An alarm's metrics, period, and how far it looks back.
fn of_alarm(alarm: &Resource<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let queries = alarm.at("metric_query").and_then(Value::as_array);
    let metrics: Vec<_> = queries.into_iter().flatten().collect();
    let metrics = metrics.iter().filter_map(|query| query["metric"].as_array()?.first());
    let metrics: Vec<_> = metrics.collect();
    if metrics.len() > 10 {
        let found = metrics.len().to_string();
        faults.push(fault("alarm-metrics", alarm.address, "10 metrics", found, ALARM));
    }
    let own = alarm.number("period").filter(|_| metrics.is_empty());
    let periods = metrics.iter().filter_map(|metric| metric["period"].as_i64()).chain(own);
    let evaluations = alarm.number("evaluation_periods").unwrap_or(1);
    for period in periods.collect::<BTreeSet<_>>() {
        if ![10, 20, 30].contains(&period) && (period < 60 || period % 60 != 0) {
            let limit = "a period of 10, 20, 30, or a multiple of 60 s";
            let found = format!("{period} s");
            faults.push(fault("alarm-period", alarm.address, limit, found, ALARM));
        }
        let most = if period >= 3_600 { 604_800 } else { 86_400 };
        if period * evaluations > most {
            let limit = format!("{most} s looked at together");
            let found = format!("{evaluations} times {period} s");
            faults.push(fault("alarm-range", alarm.address, limit, found, ALARM));
        }
    }
    faults
}

/// Names of buckets that S3 keeps for itself.
const RESERVED_BEGINNINGS: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];
const RESERVED_ENDS: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

fn of_bucket(bucket: &Resource<'_>) -> Option<Fault> {
    let name = bucket.text("bucket")?;
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: &u8| is_end(byte) || matches!(byte, b'-' | b'.');
    let bytes = name.as_bytes();
    let is_reserved = RESERVED_BEGINNINGS.iter().any(|reserved| name.starts_with(reserved))
        || RESERVED_ENDS.iter().any(|reserved| name.ends_with(reserved))
        || name.parse::<Ipv4Addr>().is_ok();
    let is_sound = bytes.iter().all(is_inner)
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && !name.contains("..")
        && !is_reserved;
    let limit = "small letters, digits, '-' and '.', a letter or digit at both ends, no reserved \
                 beginning or end, no IP address";
    let source = "S3 user guide, bucket naming rules";
    (!is_sound).then(|| fault("bucket-characters", bucket.address, limit, name, source))
}

fn of_tags(resource: &Resource<'_>) -> Option<Fault> {
    // With those that the provider adds, where they are known.
    let tags = resource.at("tags_all").or_else(|| resource.at("tags"))?.as_object()?.len();
    let source = "AWS tagging, limits";
    (tags > 50).then(|| fault("tags", resource.address, "50 tags", tags.to_string(), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_has_an_oldest_version() {
        let table = [
            (">= 5.90.0, < 7.0.0", [5, 90, 0]),
            ("~> 6.8", [6, 8, 0]),
            ("6.28.1", [6, 28, 1]),
            ("< 7", [0, 0, 0]),
            ("", [0, 0, 0]),
            (">= 6.0, != 6.5.0, >= 6.8.0", [6, 8, 0]),
        ];
        for (constraint, want) in table {
            assert_eq!(lower_bound(constraint), want, "{constraint}");
        }
    }
}
