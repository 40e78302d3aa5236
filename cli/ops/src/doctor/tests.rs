use serde_json::{Value, json};

use super::*;

/// A plan of the module with its defaults, as `infra/tests/plan_fixture.py` made it.
fn plan() -> Value {
    serde_json::from_str(include_str!("plan.json")).expect("the plan is JSON")
}

fn faults(document: &Value) -> Vec<Fault> {
    check(document, &Account::default()).expect("a plan").1
}

/// The values of a resource, to be changed.
fn values<'a>(module: &'a mut Value, address: &str) -> Option<&'a mut Value> {
    let Value::Object(members) = module else { return None };
    let mut resources = Vec::new();
    let mut children = Vec::new();
    for (name, member) in members.iter_mut() {
        match (name.as_str(), member) {
            ("resources", Value::Array(found)) => resources.extend(found),
            ("child_modules", Value::Array(found)) => children.extend(found),
            _ => {}
        }
    }
    for resource in resources {
        if resource["address"] == address {
            return resource.get_mut("values");
        }
    }
    children.into_iter().find_map(|child| values(child, address))
}

fn change(document: &mut Value, address: &str, path: &str, value: Value) {
    let root = document.pointer_mut("/planned_values/root_module").expect("a root");
    let values = values(root, address).unwrap_or_else(|| panic!("no {address}"));
    let place = values.pointer_mut(path);
    match place {
        Some(place) => *place = value,
        None => {
            let (parent, member) = path.rsplit_once('/').expect("a path");
            let parent = values.pointer_mut(parent).unwrap_or_else(|| panic!("no {path}"));
            parent.as_object_mut().expect("an object").insert(member.to_owned(), value);
        }
    }
}

#[test]
fn the_modules_own_plan_has_no_faults() {
    let document = plan();
    let (resources, faults) = check(&document, &Account::default()).expect("a plan");
    assert!(resources > 100, "{resources}");
    assert!(faults.is_empty(), "{faults:#?}");
}

const ROUTE: &str = "module.gridpost.aws_apigatewayv2_route.publish[\"POST /topics/{topic}\"]";
const DISPATCH: &str = "module.gridpost.module.dispatch.aws_lambda_function.this";
const MAPPING: &str = "module.gridpost.aws_lambda_event_source_mapping.dispatch";
const SLOW: &str = "module.gridpost.aws_lambda_event_source_mapping.slow";
const QUEUE: &str = "module.gridpost.aws_sqs_queue.dispatch";
const POLICY: &str = "module.gridpost.module.manage.aws_iam_role_policy.this";
const LATE: &str = "module.gridpost.aws_cloudwatch_metric_alarm.this[\"late\"]";
const LOGS: &str = "module.gridpost.module.wake.aws_cloudwatch_log_group.this[0]";
const MANAGE: &str = "module.gridpost.module.manage.aws_lambda_function.this";
const STAGE: &str = "module.gridpost.aws_apigatewayv2_stage.publish[0]";
const BUCKET: &str = "module.gridpost.aws_s3_bucket.payloads";
const LIFECYCLE: &str = "module.gridpost.aws_s3_bucket_lifecycle_configuration.payloads";
const TABLE: &str = "module.gridpost.aws_dynamodb_table.state";
const ROLE: &str = "module.gridpost.module.wake.aws_iam_role.this";
const SCHEDULE: &str = "module.gridpost.aws_scheduler_schedule.wake";

/// One planted fault each: where, what, and what is found.
#[test]
fn every_planted_fault_is_found() {
    let long = |length: usize| json!("x".repeat(length));
    let metric = json!({"metric": [{"period": 60}]});
    let many = Value::Array(vec![metric; 11]);
    let many_tags = (0..51).map(|number| (format!("tag-{number}"), json!("")));
    let many_tags = Value::Object(many_tags.collect());
    let table: Vec<(&str, &str, Value, &str, &str)> = vec![
        (
            ROUTE,
            "/route_key",
            json!("POST /topics/{topicPublish}"),
            "route-variables",
            "topic, topicPublish",
        ),
        (
            ROUTE,
            "/route_key",
            json!("POST /topics/{topic}/api/events"),
            "route-twice",
            "POST /topics/{topic}/api/events",
        ),
        (POLICY, "/policy", long(10_241), "role-policies", "10241 characters"),
        (
            MAPPING,
            "/scaling_config/0/maximum_concurrency",
            json!(900),
            "concurrency",
            "1120 by queues and reserved together",
        ),
        (MAPPING, "/scaling_config/0/maximum_concurrency", json!(1), "mapping-concurrency", "1"),
        (
            SLOW,
            "/maximum_batching_window_in_seconds",
            json!(0),
            "mapping-window-needed",
            "batches of 100, a window of 0 s",
        ),
        (QUEUE, "/visibility_timeout_seconds", json!(200), "mapping-visibility", "200 s"),
        (
            QUEUE,
            "/max_message_size",
            json!(1_048_576),
            "provider-version",
            "1048576 bytes, provider 5.90.0 allowed",
        ),
        (QUEUE, "/max_message_size", json!(2_000_000), "queue-message-size", "2000000"),
        (QUEUE, "/name", long(81), "queue-name", "81 characters"),
        (QUEUE, "/name", json!("gridpost-poison"), "name-twice", "gridpost-poison"),
        (QUEUE, "/policy", long(8_193), "queue-policy", "8193 bytes"),
        (QUEUE, "/redrive_policy", json!("{\"maxReceiveCount\":1001}"), "queue-receives", "1001"),
        (DISPATCH, "/function_name", long(65), "function-name", "65 characters"),
        (DISPATCH, "/environment/0/variables/BIG", long(4_096), "function-environment", "bytes"),
        (DISPATCH, "/timeout", json!(901), "function-timeout", "901"),
        (DISPATCH, "/reserved_concurrent_executions", json!(40), "mapping-over-reserved", "50"),
        (
            MANAGE,
            "/reserved_concurrent_executions",
            json!(950),
            "reserved-concurrency",
            "50 unreserved",
        ),
        (MANAGE, "/timeout", json!(60), "function-behind-api", "60 s"),
        (LATE, "/metric_query", many, "alarm-metrics", "11"),
        (LATE, "/evaluation_periods", json!(1_500), "alarm-range", "1500 times 60 s"),
        (LATE, "/alarm_description", long(1_025), "alarm-description", "1025 characters"),
        (LOGS, "/retention_in_days", json!(31), "log-retention", "31"),
        (
            STAGE,
            "/default_route_settings/0/throttling_rate_limit",
            json!(20_000),
            "throttle-rate",
            "20000",
        ),
        (BUCKET, "/bucket", json!("gridpost-Payloads"), "bucket-characters", "gridpost-Payloads"),
        (BUCKET, "/bucket", long(64), "bucket-name", "64 characters"),
        (BUCKET, "/bucket", json!("sthree-payloads"), "bucket-characters", "sthree-payloads"),
        (BUCKET, "/bucket", json!("payloads--x-s3"), "bucket-characters", "payloads--x-s3"),
        (BUCKET, "/bucket", json!("192.168.1.1"), "bucket-characters", "192.168.1.1"),
        (QUEUE, "/tags_all", many_tags, "tags", "51"),
        (QUEUE, "/fifo_queue", json!(true), "queue-characters", "gridpost-dispatch"),
        (QUEUE, "/name", json!("gridpost.dispatch"), "queue-characters", "gridpost.dispatch"),
        (ROLE, "/path", json!("/platform"), "role-path", "/platform"),
        (SCHEDULE, "/schedule_expression", json!("rate(30 seconds)"), "schedule-rate", "30 sec"),
        (SCHEDULE, "/schedule_expression", json!("rate(2 minute)"), "schedule-rate", "2 minute"),
        (LIFECYCLE, "/rule/0/expiration/0/days", json!(0), "lifecycle-days", "0"),
        (TABLE, "/hash_key", json!("nowhere"), "table-keys", "pk"),
    ];
    for (address, path, value, code, found) in table {
        let mut document = plan();
        change(&mut document, address, path, value);
        let faults = faults(&document);
        let is_it = |fault: &&Fault| fault.code == code && fault.found.contains(found);
        let fault = faults.iter().find(is_it);
        let fault =
            fault.unwrap_or_else(|| panic!("{path} of {address}: no {code} in {faults:#?}"));
        assert!(!fault.address.is_empty() && !fault.limit.is_empty() && fault.source.len() > 8);
    }
}

/// What looks like a fault and is one that AWS takes.
#[test]
fn what_aws_takes_is_no_fault() {
    let table = [
        (SCHEDULE, "/schedule_expression", json!("rate(1 minutes)")),
        (SCHEDULE, "/schedule_expression", json!("cron(0/5 * * * ? *)")),
        (ROLE, "/path", json!("/")),
        (
            LIFECYCLE,
            "/rule/0/expiration/0",
            json!({"date": null, "days": 0, "expired_object_delete_marker": true}),
        ),
        (LIFECYCLE, "/rule/0/expiration", json!([])),
        (TABLE, "/attribute", Value::Null),
    ];
    for (address, path, value) in table {
        let mut document = plan();
        change(&mut document, address, path, value.clone());
        let faults = faults(&document);
        assert!(faults.is_empty(), "{value} as {path} of {address}: {faults:#?}");
    }
    let mut document = plan();
    change(&mut document, QUEUE, "/fifo_queue", json!(true));
    change(&mut document, QUEUE, "/name", json!("gridpost-dispatch.fifo"));
    let faults = faults(&document);
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A document with one text in the place of another, in all of its texts.
fn replaced(document: &Value, from: &str, to: &str) -> Value {
    let text = document.to_string().replace(from, to);
    serde_json::from_str(&text).expect("still JSON")
}

/// The same deployment once more by another provider, as a standby in another region: the names of its
/// buckets and roles end in it.
#[test]
fn another_provider_is_another_place() {
    let mut document = plan();
    let planned = &document["planned_values"]["root_module"]["child_modules"][0];
    let second = replaced(planned, "module.gridpost", "module.standby");
    let second = replaced(&second, "-eu-central-1\"", "-us-east-1\"");
    let calls = &document["configuration"]["root_module"]["module_calls"];
    let key = |provider| format!(r#""provider_config_key":"{provider}""#);
    let configured = replaced(&calls["gridpost"], &key("aws"), &key("aws.standby"));
    let modules = document.pointer_mut("/planned_values/root_module/child_modules");
    modules.and_then(Value::as_array_mut).expect("modules").push(second);
    let calls = document.pointer_mut("/configuration/root_module/module_calls");
    calls.and_then(Value::as_object_mut).expect("calls").insert("standby".to_owned(), configured);
    let found = faults(&document);
    assert!(found.is_empty(), "{found:#?}");
    let same = faults(&replaced(&document, &key("aws.standby"), &key("aws")));
    for code in ["name-twice", "concurrency"] {
        assert!(same.iter().any(|fault| fault.code == code), "{code}: {same:#?}");
    }
}

#[test]
fn a_small_account_is_too_small() {
    let account = Account { concurrency: 10, ..Account::default() };
    let (_, faults) = check(&plan(), &account).expect("a plan");
    let [fault] = faults.as_slice() else { panic!("{faults:#?}") };
    assert_eq!(
        (fault.code, fault.found.as_str()),
        ("concurrency", "770 by queues and reserved together")
    );
    assert_eq!(fault.address.matches("aws_lambda_event_source_mapping").count(), 8);
}

/// `redrive_concurrency = 0`, for an account that has nothing to spare.
#[test]
fn a_mapping_that_is_not_enabled_uses_nothing() {
    let mut document = plan();
    change(&mut document, MAPPING, "/enabled", json!(false));
    let account = Account { concurrency: 220, ..Account::default() };
    let (_, faults) = check(&document, &account).expect("a plan");
    assert!(faults.is_empty(), "the others use 220: {faults:#?}");
}

#[test]
fn a_role_has_one_sum_for_all_its_policies() {
    let mut document = plan();
    change(&mut document, POLICY, "/policy", json!(format!("x{}", " ".repeat(20_000))));
    let faults = faults(&document);
    assert!(faults.is_empty(), "white space does not count: {faults:#?}");
}

#[test]
fn what_is_not_known_yet_is_not_judged() {
    let mut document = plan();
    change(&mut document, QUEUE, "/name", Value::Null);
    change(&mut document, QUEUE, "/visibility_timeout_seconds", Value::Null);
    change(&mut document, POLICY, "/policy", Value::Null);
    let faults = faults(&document);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_is_no_plan_is_refused() {
    for document in [json!({}), json!([]), json!({"planned_values": {}}), json!("plan")] {
        assert_eq!(check(&document, &Account::default()), Err(PlanError::NoPlan));
    }
}

/// What Terraform gave up, or put off, says nothing about the rest.
#[test]
fn a_plan_that_is_not_whole_is_not_judged() {
    let of = |member: &str, value: bool| {
        let mut document = plan();
        document[member] = json!(value);
        check(&document, &Account::default()).map(|(resources, _)| resources > 0)
    };
    assert_eq!(of("errored", true), Err(PlanError::Failed));
    assert_eq!(of("errored", false), Ok(true));
    assert_eq!(of("complete", false), Err(PlanError::Incomplete));
    assert_eq!(of("complete", true), Ok(true));
}

#[test]
fn an_event_subscription_of_a_plan_is_told_of() {
    let of = |name: &str, minutes: u32| {
        json!({"address": format!("module.{name}.terraform_data.document"),
            "type": "terraform_data", "values": {"input":
                {"properties": {"retryPolicy": {"eventTimeToLiveInMinutes": minutes}}}}})
    };
    let other = json!({"address": "terraform_data.other", "type": "terraform_data",
        "values": {"input": "text"}});
    let plan = json!({"planned_values": {"root_module": {"resources":
        [of("short", 60), of("long", 1_440), other]}}});
    let found = notes(&plan).expect("a plan");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, "short-time-to-live");
    for part in ["module.short.terraform_data.document: ", "of 1 h is", "for 3 h"] {
        assert!(found[0].message.contains(part), "{part} is not in {}", found[0].message);
    }
    assert!(notes(&json!({})).is_err());
}
