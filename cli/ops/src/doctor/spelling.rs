//! Rules on how a value is written, where AWS wants more than a length.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Fault, Plan, plan::Resource};

const SQS: &str = "SQS API reference, CreateQueue";
const IAM: &str = "IAM API reference, CreateRole";
const SCHEDULER: &str = "EventBridge Scheduler user guide, schedule types";
const LIFECYCLE: &str = "S3 API reference, LifecycleExpiration";
const TABLE: &str = "DynamoDB API reference, CreateTable";

/// Finds spellings that AWS refuses.
pub(super) fn check(plan: &Plan<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    faults.extend(plan.of("aws_sqs_queue").filter_map(of_queue));
    faults.extend(plan.of("aws_iam_role").filter_map(of_role));
    faults.extend(plan.of("aws_scheduler_schedule").filter_map(of_schedule));
    let lifecycles = plan.of("aws_s3_bucket_lifecycle_configuration");
    faults.extend(lifecycles.filter_map(of_lifecycle));
    faults.extend(plan.of("aws_dynamodb_table").filter_map(of_table));
    faults
}

fn fault(
    code: &'static str,
    resource: &Resource<'_>,
    limit: &str,
    found: &str,
    source: &'static str,
) -> Fault {
    let (address, limit) = (resource.address.to_owned(), limit.to_owned());
    Fault { code, address, limit, found: found.to_owned(), source }
}

/// Letters, digits, '-' and '_'; a FIFO queue's name ends in `.fifo`, and no other's has a dot.
fn of_queue(queue: &Resource<'_>) -> Option<Fault> {
    let name = queue.text("name")?;
    let is_fifo = queue.at("fifo_queue").and_then(Value::as_bool).unwrap_or(false);
    let (stem, limit) = if is_fifo {
        (name.strip_suffix(".fifo"), "letters, digits, '-' and '_', then .fifo for a FIFO queue")
    } else {
        (Some(name), "letters, digits, '-' and '_' for a standard queue")
    };
    let is_taken = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let is_sound = stem.is_some_and(|stem| stem.chars().all(is_taken));
    (!is_sound).then(|| fault("queue-characters", queue, limit, name, SQS))
}

fn of_role(role: &Resource<'_>) -> Option<Fault> {
    let path = role.text("path")?;
    let is_sound = path.starts_with('/')
        && path.ends_with('/')
        && path.len() <= 512
        && path.bytes().all(|byte| byte.is_ascii_graphic());
    let limit = "a path of at most 512 characters with '/' at both ends";
    (!is_sound).then(|| fault("role-path", role, limit, path, IAM))
}

/// A rate of whole minutes, hours or days, one of them in the singular. Other expressions are not
/// judged.
fn of_schedule(schedule: &Resource<'_>) -> Option<Fault> {
    let expression = schedule.text("schedule_expression")?;
    let rate = expression.strip_prefix("rate(")?;
    let limit = "rate(N minutes), rate(N hours) or rate(N days), or rate(1 minute)";
    let is_sound = rate.strip_suffix(')').and_then(|rate| rate.split_once(' ')).is_some_and(
        |(count, unit)| match count.parse::<u32>() {
            Ok(0) | Err(_) => false,
            // Plurals are taken of one, too.
            Ok(1) => ["minute", "hour", "day"].contains(&unit.strip_suffix('s').unwrap_or(unit)),
            Ok(_) => ["minutes", "hours", "days"].contains(&unit),
        },
    );
    (!is_sound).then(|| fault("schedule-rate", schedule, limit, expression, SCHEDULER))
}

/// Days after which objects are removed.
fn of_lifecycle(lifecycle: &Resource<'_>) -> Option<Fault> {
    let rules = lifecycle.at("rule")?.as_array()?;
    let days = |rule: &Value| rule.pointer("/expiration/0/days").and_then(Value::as_i64);
    // Terraform writes 0 where an expiration has a date, or is of delete markers alone.
    let is_of_days = |rule: &&Value| {
        let expiration = &rule["expiration"][0];
        !expiration["date"].is_string() && expiration["expired_object_delete_marker"] != true
    };
    let found = rules.iter().filter(is_of_days).filter_map(days).find(|days| *days < 1)?;
    let limit = "an expiration after at least 1 day";
    Some(fault("lifecycle-days", lifecycle, limit, &found.to_string(), LIFECYCLE))
}

/// The attributes that a table declares are those that are keys of it or of its indexes.
fn of_table(table: &Resource<'_>) -> Option<Fault> {
    let names = |of: &Resource<'_>, list: &str, members: &[&str]| -> BTreeSet<String> {
        let entries = of.at(list).and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        let texts = entries.flat_map(|entry| members.iter().map(move |member| &entry[*member]));
        texts.filter_map(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned).collect()
    };
    let declared = names(table, "attribute", &["name"]);
    let members = ["hash_key", "range_key"];
    let mut keys = names(table, "global_secondary_index", &members);
    keys.extend(names(table, "local_secondary_index", &members));
    let own = members.iter().filter_map(|member| table.text(member));
    keys.extend(own.filter(|key| !key.is_empty()).map(str::to_owned));
    if declared.is_empty() || keys == declared {
        return None;
    }
    let joined = |texts: &BTreeSet<String>| texts.iter().cloned().collect::<Vec<_>>().join(", ");
    let limit = format!("attributes that are keys, and all of them: {}", joined(&keys));
    Some(fault("table-keys", table, &limit, &joined(&declared), TABLE))
}
