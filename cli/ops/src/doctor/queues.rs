//! Rules about queues and who reads and sends to them, of which an emulator shows nothing: it hands out
//! at once what is sent, and asks no key.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Fault, Plan,
    deployer::covers,
    plan::{Resource, list},
    rules::{ESM, FUNCTION, QUEUE, fault},
};

const BATCHING: &str = "Lambda developer guide, using Lambda with Amazon SQS, batching behavior and queue configuration";
const PARAMETERS: &str =
    "Lambda developer guide, Lambda parameters for Amazon SQS event source mappings";
const SCALING: &str =
    "Lambda developer guide, configuring scaling behavior for SQS event source mappings";
const DEAD_LETTERS: &str = "SQS API reference, SetQueueAttributes (RedrivePolicy)";
const RETENTION: &str = "SQS developer guide, setting up dead-letter queue retention";
const KEYS: &str = "SQS developer guide, key management, permissions for AWS services";

const KEY: &str = "aws_kms_key";

/// For how long Lambda asks a queue that has next to nothing, where there is a batching window at all.
/// Source: [`BATCHING`].
const QUIET_S: i64 = 20;

/// A mapping with a tag of this key may wait.
const MAY_WAIT: &str = "gridpost:may-wait";

/// The longest retention. Source: SQS API reference, SetQueueAttributes.
const RETENTION_MAX_S: i64 = 1_209_600;

/// The services that send to queues by themselves, with the resources that have them do so, and the argument
/// that names the queue. Sources: [`KEYS`]; SNS developer guide, dead-letter queues; EventBridge user guide,
/// using dead-letter queues.
const SENDERS: [(&str, &str, &str); 5] = [
    ("events.amazonaws.com", "aws_cloudwatch_event_target", "arn"),
    ("events.amazonaws.com", "aws_cloudwatch_event_target", "dead_letter_config"),
    ("s3.amazonaws.com", "aws_s3_bucket_notification", "queue"),
    ("sns.amazonaws.com", "aws_sns_topic_subscription", "endpoint"),
    ("sns.amazonaws.com", "aws_sns_topic_subscription", "redrive_policy"),
];

/// Beginnings of conditions' keys that a request of a service does not have. Source: IAM user guide, AWS
/// global condition context keys.
const OF_PRINCIPALS: [&str; 2] = ["aws:principal", "aws:sourcevpc"];

/// Finds what makes messages late, shows them twice, lets them expire or keeps them away.
pub(super) fn check(plan: &Plan<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for mapping in plan.of(ESM) {
        faults.extend(late_when_quiet(plan, mapping));
        faults.extend(shown_twice(plan, mapping));
        faults.extend(not_of_fifo(plan, mapping));
        faults.extend(two_limits(mapping));
    }
    for queue in plan.of(QUEUE) {
        faults.extend(expires_sooner(plan, queue));
        faults.extend(of_another_kind(plan, queue));
        faults.extend(locked(plan, queue));
    }
    faults
}

fn window_of(mapping: &Resource<'_>) -> i64 {
    mapping.number("maximum_batching_window_in_seconds").unwrap_or(0)
}

/// A window that is shorter than what Lambda may wait on a quiet queue.
fn late_when_quiet(plan: &Plan<'_>, mapping: &Resource<'_>) -> Option<Fault> {
    let window = window_of(mapping);
    let is_of_queue = || match mapping.text("event_source_arn") {
        Some(arn) => arn.split(':').nth(2) == Some("sqs") && !arn.ends_with(".fifo"),
        // Streams and Kafka need a position, MQ the names of its queues. SQS takes neither.
        None => mapping.at("starting_position").is_none() && mapping.at("queues.0").is_none(),
    };
    // There a window is refused.
    let is_of_fifo =
        || plan.named(mapping, "event_source_arn", QUEUE).iter().any(|queue| is_fifo(queue));
    let is_tagged = |tags| mapping.at(tags).is_some_and(|tags| tags.get(MAY_WAIT).is_some());
    // One value that is not known yet hides all others of its map.
    let is_hidden = mapping.is_unknown("tags")
        || (mapping.at("tags").is_none() && mapping.is_unknown("tags_all"));
    let may_wait = is_tagged("tags") || is_tagged("tags_all") || is_hidden;
    let is_off = mapping.at("enabled") == Some(&Value::Bool(false));
    if !(1..QUIET_S).contains(&window) || may_wait || is_off || !is_of_queue() || is_of_fifo() {
        return None;
    }
    let limit = format!(
        "no window, or one of at least {QUIET_S} s: with one, Lambda may wait {QUIET_S} s on a queue with few \
         messages. A tag {MAY_WAIT} says that these may be late"
    );
    let found = format!("a window of {window} s");
    Some(fault("mapping-window-quiet", mapping.address, limit, found, BATCHING))
}

/// A queue that shows messages again before the function they waited for has ended.
fn shown_twice(plan: &Plan<'_>, mapping: &Resource<'_>) -> Option<Fault> {
    let [queue] = plan.named(mapping, "event_source_arn", QUEUE)[..] else { return None };
    let [function] = plan.named(mapping, "function_name", FUNCTION)[..] else { return None };
    let window = window_of(mapping);
    if window < 1 {
        return None;
    }
    let waits = window.max(QUIET_S);
    let hidden = queue.number("visibility_timeout_seconds")?;
    let timeout = function.number("timeout")?;
    // Lambda itself refuses a queue that hides messages for less than the timeout.
    if !(timeout..timeout + waits).contains(&hidden) {
        return None;
    }
    let limit = format!(
        "the queue hides messages for at least {} s: they may wait {waits} s for their batch, then run for the \
         function's {timeout} s",
        timeout + waits
    );
    let found = format!("{hidden} s");
    Some(fault("mapping-visibility-window", mapping.address, limit, found, BATCHING))
}

fn is_fifo(queue: &Resource<'_>) -> bool {
    queue.at("fifo_queue") == Some(&Value::Bool(true))
}

/// What a FIFO queue's mapping can't have.
fn not_of_fifo(plan: &Plan<'_>, mapping: &Resource<'_>) -> Option<Fault> {
    let [queue] = plan.named(mapping, "event_source_arn", QUEUE)[..] else { return None };
    let batch = mapping.number("batch_size").unwrap_or(10);
    let window = window_of(mapping);
    if !is_fifo(queue) || (batch <= 10 && window < 1) {
        return None;
    }
    let limit = "batches of at most 10, and no batching window, of a FIFO queue";
    let found = format!("batches of {batch}, a window of {window} s");
    Some(fault("mapping-fifo", mapping.address, limit, found, PARAMETERS))
}

/// A maximum concurrency beside pollers of its own.
fn two_limits(mapping: &Resource<'_>) -> Option<Fault> {
    let most = mapping.number("scaling_config.0.maximum_concurrency")?;
    mapping.at("provisioned_poller_config.0")?;
    let limit = "a maximum concurrency or provisioned pollers, not both";
    let found = format!("both, with a maximum of {most}");
    Some(fault("mapping-pollers", mapping.address, limit, found, SCALING))
}

/// A dead-letter queue of the other kind.
fn of_another_kind(plan: &Plan<'_>, queue: &Resource<'_>) -> Option<Fault> {
    let target = target_of(plan, queue)?;
    if is_fifo(queue) == is_fifo(target) {
        return None;
    }
    let kind = |queue| if is_fifo(queue) { "a FIFO queue" } else { "a standard queue" };
    let limit = format!("{} for what comes from {}", kind(queue), queue.address);
    Some(fault("dead-letter-kind", target.address, limit, kind(target), DEAD_LETTERS))
}

/// A dead-letter queue that deletes messages before, or as soon as, the queue they come from would.
fn expires_sooner(plan: &Plan<'_>, queue: &Resource<'_>) -> Option<Fault> {
    // In a FIFO queue the time begins anew.
    if is_fifo(queue) {
        return None;
    }
    let target = target_of(plan, queue)?;
    let kept = queue.number("message_retention_seconds")?;
    let kept_after = target.number("message_retention_seconds")?;
    let is_longest = kept == RETENTION_MAX_S && kept_after == RETENTION_MAX_S;
    if kept_after > kept || is_longest {
        return None;
    }
    let limit = format!(
        "over {kept} s, the retention of {}: a message that SQS moves keeps the time at which it was first sent",
        queue.address
    );
    let found = format!("{kept_after} s");
    Some(fault("dead-letter-retention", target.address, limit, found, RETENTION))
}

/// The queue that a queue's messages are moved to.
fn target_of<'p>(plan: &'p Plan<'_>, queue: &Resource<'_>) -> Option<&'p Resource<'p>> {
    const POLICY: &str = "redrive_policy";
    let is_its = |other: &&Resource<'_>| is_only(&plan.named(other, "queue_url", QUEUE), queue);
    let by = match plan.of("aws_sqs_queue_redrive_policy").find(is_its) {
        Some(separate) => separate,
        None => queue,
    };
    let policy = by.text(POLICY).and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(arn) = policy.as_ref().and_then(|policy| policy["deadLetterTargetArn"].as_str()) {
        return plan.of(QUEUE).find(|other| other.text("arn") == Some(arn));
    }
    match plan.named(by, POLICY, QUEUE)[..] {
        [target] => Some(target),
        _ => None,
    }
}

fn is_only(found: &[&Resource<'_>], one: &Resource<'_>) -> bool {
    matches!(found, [only] if only.address == one.address)
}

/// An encrypted queue to which a service may send, with a key that this service may not use.
fn locked(plan: &Plan<'_>, queue: &Resource<'_>) -> Option<Fault> {
    let is_its = |other: &&Resource<'_>| is_only(&plan.named(other, "queue_url", QUEUE), queue);
    let separate = plan.of("aws_sqs_queue_policy").filter(is_its);
    let policies = separate.chain([queue]).filter_map(|one| document(one.text("policy")?));
    let policies: Vec<_> = policies.collect();
    let senders = SENDERS.into_iter().filter_map(|(sender, kind, argument)| {
        let is_told = || plan.of(kind).any(|one| one.traces(argument, queue.address));
        let may_send = || policies.iter().any(|policy| may(policy, sender, "sqs:sendmessage"));
        (is_told() || may_send()).then_some(sender)
    });
    let senders: BTreeSet<_> = senders.collect();
    let managed = queue.text("kms_master_key_id").filter(|key| key.ends_with("alias/aws/sqs"));
    let (shut_out, found) = match managed {
        Some(key) => (senders, key.to_owned()),
        None => {
            let [key] = plan.named(queue, "kms_master_key_id", KEY)[..] else { return None };
            let policy = policy_of_key(plan, key)?;
            let may_not = |sender: &&str| !may(&policy, sender, "kms:generatedatakey");
            (senders.into_iter().filter(may_not).collect(), key.address.to_owned())
        }
    };
    if shut_out.is_empty() {
        return None;
    }
    let shut_out: Vec<_> = shut_out.into_iter().collect();
    let limit = format!(
        "a customer managed key whose policy allows kms:GenerateDataKey and kms:Decrypt to {}, which may \
         send to the queue",
        shut_out.join(", ")
    );
    Some(fault("queue-key", queue.address, limit, found, KEYS))
}

/// The policy of a key; empty for AWS's default one, in which no service may use it. None where it is not
/// known.
fn policy_of_key(plan: &Plan<'_>, key: &Resource<'_>) -> Option<Value> {
    let separate = plan.of("aws_kms_key_policy");
    let separate = separate.map(|one| (one, plan.named(one, "key_id", KEY)));
    // One that names no key here may be this one's.
    let is_its =
        |of: &[&Resource<'_>]| of.is_empty() || of.iter().any(|one| one.address == key.address);
    let mut separate = separate.filter(|(_, of)| is_its(of));
    match separate.next() {
        Some((policy, of)) if is_only(&of, key) => document(policy.text("policy")?),
        Some(_) => None,
        None if key.is_set("policy") => document(key.text("policy")?),
        None => Some(Value::Null),
    }
}

fn document(policy: &str) -> Option<Value> {
    serde_json::from_str(policy).ok()
}

/// Whether a policy of a resource may allow an action, in small letters, to a service. Conditions are taken
/// to hold, but for those on who asks in a statement for everyone.
fn may(policy: &Value, service: &str, action: &str) -> bool {
    let statement = &policy["Statement"];
    let statements = statement.as_array().map_or(std::slice::from_ref(statement), Vec::as_slice);
    statements.iter().any(|statement| {
        let principal = &statement["Principal"];
        let named = ["AWS", "Service"].into_iter().flat_map(|kind| texts(&principal[kind]));
        let is_service =
            |name: &str| name == service || (name == "*" && !is_of_principals(statement));
        let is_for = texts(principal).chain(named).any(is_service)
            || statement.get("NotPrincipal").is_some();
        let is_action = |pattern: &str| covers(&pattern.to_ascii_lowercase(), action);
        let is_about =
            texts(&statement["Action"]).any(is_action) || statement.get("NotAction").is_some();
        statement["Effect"] == "Allow" && is_for && is_about
    })
}

/// Whether a statement has a condition that only principals of an account meet.
fn is_of_principals(statement: &Value) -> bool {
    let operators = statement["Condition"].as_object().into_iter().flatten();
    let mut keys =
        operators.filter_map(|(_, by_key)| by_key.as_object()).flat_map(|all| all.keys());
    keys.any(|key| {
        let key = key.to_ascii_lowercase();
        OF_PRINCIPALS.iter().any(|start| key.starts_with(start))
    })
}

/// The text, or the texts of a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_str().into_iter().chain(list(value).iter().filter_map(Value::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::Account;

    /// A plan of resources at the root: address, values, and what arguments name.
    fn plan(resources: &[(&str, Value, Value)]) -> Value {
        let kind = |address: &str| address.split('.').next().unwrap_or_default().to_owned();
        let planned = resources.iter().map(|(address, values, _)| {
            json!({"address": address, "type": kind(address), "values": values})
        });
        let all = |address: &str| address.split('[').next().unwrap_or_default().to_owned();
        // Terraform names the attribute, then its resource, then all instances of that.
        let references = |(argument, name): (&String, &Value)| {
            let block = name.as_array().and_then(|blocks| blocks[0].as_object()?.iter().next());
            let name = block.map_or(name, |(_, name)| name);
            let resource = name.as_str().and_then(|name| name.rsplit_once('.'));
            let resource = resource.map_or("", |(resource, _)| resource);
            let references = json!({"references": [name, resource, all(resource)]});
            let expression = match block {
                Some((of_block, _)) => json!([{of_block: references}]),
                None => references,
            };
            (argument.clone(), expression)
        };
        let configured = resources.iter().map(|(address, _, names)| {
            let names = names.as_object().into_iter().flatten().map(references);
            json!({"address": all(address), "expressions": Value::Object(names.collect())})
        });
        json!({
            "planned_values": {"root_module": {"resources": planned.collect::<Vec<_>>()}},
            "configuration": {"root_module": {"resources": configured.collect::<Vec<_>>()}},
        })
    }

    fn found(resources: &[(&str, Value, Value)]) -> Vec<(&'static str, String, String)> {
        let (_, faults) =
            crate::doctor::check(&plan(resources), &Account::default()).expect("a plan");
        faults.into_iter().map(|fault| (fault.code, fault.address, fault.found)).collect()
    }

    fn codes(resources: &[(&str, Value, Value)]) -> Vec<&'static str> {
        found(resources).into_iter().map(|(code, ..)| code).collect()
    }

    /// A mapping of an own queue, with what differs, between a queue that hides for so long and a function of
    /// 60 s.
    fn mapped(hidden: Value, mapping: Value) -> Vec<(&'static str, Value, Value)> {
        let mut values = json!({"batch_size": 10, "enabled": true, "scaling_config":
            [{"maximum_concurrency": 5}]});
        mapping.as_object().into_iter().flatten().for_each(|(k, v)| values[k] = v.clone());
        let names = json!({"event_source_arn": "aws_sqs_queue.a.arn",
            "function_name": "aws_lambda_function.f.arn"});
        vec![
            ("aws_sqs_queue.a", json!({"visibility_timeout_seconds": hidden}), json!({})),
            ("aws_lambda_function.f", json!({"timeout": 60}), json!({})),
            ("aws_lambda_event_source_mapping.m", values, names),
        ]
    }

    #[test]
    fn messages_that_a_second_look_shows_twice_are_found() {
        let window = |seconds: u32| json!({"maximum_batching_window_in_seconds": seconds});
        let twice = &["mapping-visibility-window"][..];
        let table = [
            (json!(60), window(0), &[][..]),
            (json!(79), window(20), twice),
            (json!(80), window(20), &[]),
            (json!(159), window(100), twice),
            (json!(160), window(100), &[]),
            // Lambda refuses it, whatever the window.
            (json!(59), window(100), &["mapping-visibility"]),
            (Value::Null, window(100), &[]),
            (json!(61), json!({}), &[]),
        ];
        for (hidden, mapping, want) in table {
            assert_eq!(codes(&mapped(hidden.clone(), mapping.clone())), want, "{hidden} {mapping}");
        }
        let mut short = window(5);
        short["tags"] = json!({MAY_WAIT: ""});
        assert_eq!(codes(&mapped(json!(79), short.clone())), twice, "it waits 20 s all the same");
        assert_eq!(codes(&mapped(json!(80), short)), [""; 0]);
        let of = |queue| {
            let mut resources = mapped(json!(60), window(20));
            resources[2].2["event_source_arn"] = json!(queue);
            codes(&resources)
        };
        assert_eq!(of("var.queue_arn"), [""; 0], "another's queue");
        assert_eq!(of("aws_sqs_queue.a.arn"), twice);
    }

    #[test]
    fn one_of_several_instances_is_told_from_the_others() {
        let mut resources = mapped(json!(79), json!({"maximum_batching_window_in_seconds": 20}));
        resources[0].0 = "aws_sqs_queue.q[1]";
        resources.push((
            "aws_sqs_queue.q[0]",
            json!({"visibility_timeout_seconds": 80}),
            json!({}),
        ));
        resources[2].0 = "aws_lambda_event_source_mapping.m[0]";
        resources[2].2["event_source_arn"] = json!("aws_sqs_queue.q[1].arn");
        assert_eq!(
            codes(&resources),
            ["mapping-visibility-window"],
            "it is not the queue of its index"
        );

        let kept = |days: i64| json!({"message_retention_seconds": days * 86_400});
        let names = json!({"redrive_policy": "aws_sqs_queue.dlq[\"main\"].arn"});
        let queues = [
            ("aws_sqs_queue.a", kept(4), names),
            ("aws_sqs_queue.dlq[\"main\"]", kept(3), json!({})),
            ("aws_sqs_queue.dlq[\"other\"]", kept(14), json!({})),
        ];
        assert_eq!(codes(&queues), ["dead-letter-retention"]);

        let managed = || json!({"kms_master_key_id": "alias/aws/sqs"});
        let told = |address| {
            let endpoint = json!({"endpoint": "aws_sqs_queue.q[\"uploads\"].arn"});
            codes(&[
                (address, managed(), json!({})),
                ("aws_sns_topic_subscription.s", json!({}), endpoint),
            ])
        };
        assert_eq!(told("aws_sqs_queue.q[\"uploads\"]"), ["queue-key"]);
        assert_eq!(told("aws_sqs_queue.q[\"internal\"]"), [""; 0]);
    }

    #[test]
    fn a_mapping_that_is_late_on_a_quiet_queue_is_found() {
        let with = |window: u32, more: Value| {
            let mut mapping = json!({"maximum_batching_window_in_seconds": window});
            more.as_object().into_iter().flatten().for_each(|(k, v)| mapping[k] = v.clone());
            mapped(json!(500), mapping)
        };
        let late = &["mapping-window-quiet"][..];
        let tags = json!({MAY_WAIT: "yes", "a": "b"});
        let table = [
            (0, json!({}), &[][..]),
            (1, json!({}), late),
            (19, json!({"batch_size": 100}), late),
            (20, json!({}), &[]),
            (300, json!({}), &[]),
            (1, json!({"tags": {"a": "b"}}), late),
            (1, json!({"tags": tags}), &[]),
            (1, json!({"tags": null, "tags_all": tags}), &[]),
            (1, json!({"enabled": false}), &[]),
            (1, json!({"event_source_arn": "arn:aws:sqs:eu-central-1:1:a"}), late),
            (1, json!({"event_source_arn": "arn:aws:kinesis:eu-central-1:1:stream/a"}), &[]),
        ];
        for (window, more, want) in table {
            assert_eq!(codes(&with(window, more.clone())), want, "{window} {more}");
        }
        let of = |source: &str, more: Value| {
            let mut resources = with(1, more);
            resources[2].2["event_source_arn"] = json!(source);
            codes(&resources)
        };
        let stream = json!({"starting_position": "LATEST", "scaling_config": []});
        assert_eq!(of("aws_kinesis_stream.a.arn", stream.clone()), [""; 0]);
        assert_eq!(of("each.value.arn", stream), [""; 0]);
        assert_eq!(
            of("var.arn", json!({"queues": ["orders"], "scaling_config": []})),
            [""; 0],
            "MQ"
        );
        for source in ["var.queue_arn", "each.value.arn", "local.arn"] {
            assert_eq!(of(source, json!({})), late, "{source}");
        }
        let arn = json!({"event_source_arn": "arn:aws:sqs:eu-central-1:1:a.fifo"});
        assert_eq!(of("var.queue_arn", arn), [""; 0]);
    }

    #[test]
    fn a_mapping_whose_tags_are_not_known_yet_may_wait() {
        let with = |tags: Value, unknown: Value| {
            let window = json!({"maximum_batching_window_in_seconds": 1, "tags": tags});
            let resources = mapped(json!(500), window);
            let mut document = plan(&resources);
            document["resource_changes"] =
                json!([{"address": resources[2].0, "change": {"after_unknown": unknown}}]);
            let (_, faults) = crate::doctor::check(&document, &Account::default()).expect("a plan");
            faults.len()
        };
        let table = [
            (Value::Null, json!({"tags": true, "tags_all": true}), 0),
            (Value::Null, json!({"tags": true}), 0),
            (Value::Null, json!({"tags_all": true}), 0),
            (json!({"a": "b"}), json!({"tags": {}, "tags_all": true}), 1),
            (Value::Null, json!({"tags_all": {}}), 1),
        ];
        for (tags, unknown, want) in table {
            assert_eq!(with(tags.clone(), unknown.clone()), want, "{tags} {unknown}");
        }
    }

    #[test]
    fn a_dead_letter_queue_that_keeps_no_longer_is_found() {
        const DAY: i64 = 86_400;
        let arn = "arn:aws:sqs:eu-central-1:1:dead";
        let queue = |days: i64| json!({"message_retention_seconds": days * DAY});
        let by_name = json!({"redrive_policy": "aws_sqs_queue.dead.arn"});
        let of = |kept: i64, kept_after: i64| {
            found(&[
                ("aws_sqs_queue.a", queue(kept), by_name.clone()),
                ("aws_sqs_queue.dead", queue(kept_after), json!({})),
            ])
        };
        let fault = |found: &str| {
            vec![("dead-letter-retention", "aws_sqs_queue.dead".to_owned(), found.to_owned())]
        };
        let table = [
            (of(4, 4), fault("345600 s")),
            (of(4, 1), fault("86400 s")),
            (of(14, 13), fault("1123200 s")),
            (of(4, 14), vec![]),
            // SQS has no longer one.
            (of(14, 14), vec![]),
        ];
        for (found, want) in table {
            assert_eq!(found, want);
        }
        let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 5}).to_string();
        let dead = json!({"message_retention_seconds": DAY, "arn": arn});
        let source = json!({"message_retention_seconds": DAY, "redrive_policy": policy});
        let known = [
            ("aws_sqs_queue.a", source.clone(), json!({"redrive_policy": "local.policy"})),
            ("aws_sqs_queue.dead", dead.clone(), json!({})),
        ];
        assert_eq!(found(&known), fault("86400 s"), "by its ARN");
        let fifo = |mut queue: Value| {
            queue["fifo_queue"] = json!(true);
            queue
        };
        let known = [
            ("aws_sqs_queue.a", fifo(source.clone()), json!({})),
            ("aws_sqs_queue.dead", fifo(dead.clone()), json!({})),
        ];
        assert_eq!(found(&known), [], "in a FIFO queue the time begins anew");
        let separate =
            json!({"queue_url": "aws_sqs_queue.a.id", "redrive_policy": "aws_sqs_queue.dead.arn"});
        let apart = [
            ("aws_sqs_queue.a", queue(4), json!({})),
            ("aws_sqs_queue.other", queue(4), json!({})),
            ("aws_sqs_queue.dead", queue(4), json!({})),
            ("aws_sqs_queue_redrive_policy.a", json!({}), separate),
        ];
        assert_eq!(found(&apart), fault("345600 s"), "by a resource of its own");
        let elsewhere = [("aws_sqs_queue.a", queue(4), json!({"redrive_policy": "var.dead_arn"}))];
        assert_eq!(found(&elsewhere), []);
    }

    #[test]
    fn a_dead_letter_queue_of_another_kind_is_found() {
        let table = [
            (json!({}), json!({}), &[][..]),
            (json!({"fifo_queue": true}), json!({"fifo_queue": true}), &[]),
            (json!({"fifo_queue": true}), json!({"fifo_queue": false}), &["dead-letter-kind"]),
            (json!({"fifo_queue": null}), json!({"fifo_queue": true}), &["dead-letter-kind"]),
        ];
        for (from, to, want) in table {
            let by_name = json!({"redrive_policy": "aws_sqs_queue.dead.arn"});
            let queues = [
                ("aws_sqs_queue.a", from.clone(), by_name),
                ("aws_sqs_queue.dead", to.clone(), json!({})),
            ];
            assert_eq!(codes(&queues), want, "{from} {to}");
        }
    }

    #[test]
    fn what_lambda_refuses_of_a_mapping_is_found() {
        let of = |is_fifo: bool, mapping: Value| {
            let mut resources = mapped(json!(1_000), mapping);
            resources[0].1["fifo_queue"] = json!(is_fifo);
            codes(&resources)
        };
        let window = json!({"maximum_batching_window_in_seconds": 20});
        let short = json!({"maximum_batching_window_in_seconds": 5});
        let large = json!({"maximum_batching_window_in_seconds": 20, "batch_size": 11});
        let pollers = json!([{"minimum_pollers": 2, "maximum_pollers": 20}]);
        let both = json!({"provisioned_poller_config": pollers});
        let alone = json!({"provisioned_poller_config": pollers, "scaling_config": []});
        let none = json!({"provisioned_poller_config": []});
        let table = [
            (true, json!({}), &[][..]),
            (true, window.clone(), &["mapping-fifo"]),
            (true, short, &["mapping-fifo"]),
            (true, large.clone(), &["mapping-fifo"]),
            (false, window, &[]),
            (false, large, &[]),
            (false, both, &["mapping-pollers"]),
            (false, alone, &[]),
            (false, none, &[]),
        ];
        for (is_fifo, mapping, want) in table {
            assert_eq!(of(is_fifo, mapping.clone()), want, "{is_fifo} {mapping}");
        }
    }

    fn allow(principal: Value, action: Value) -> String {
        let statement = json!({"Effect": "Allow", "Principal": principal, "Action": action});
        json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
    }

    #[test]
    fn a_queue_whose_sender_may_not_use_its_key_is_found() {
        let service = |name: &str| json!({"Service": name});
        let from_s3 = allow(service("s3.amazonaws.com"), json!("SQS:SendMessage"));
        let ours = |action: &str| allow(json!({"AWS": "arn:aws:iam::1:root"}), json!(action));
        let locked = &["queue-key"][..];
        let managed = |policy: &str| {
            let values = json!({"kms_master_key_id": "alias/aws/sqs", "policy": policy});
            codes(&[("aws_sqs_queue.a", values, json!({}))])
        };
        assert_eq!(managed(&from_s3), locked);
        assert_eq!(managed(&allow(service("events.amazonaws.com"), json!(["sqs:Send*"]))), locked);
        assert_eq!(managed(&ours("sqs:SendMessage")), [""; 0], "roles of the account may use it");
        assert_eq!(managed(&allow(service("s3.amazonaws.com"), json!("sqs:GetQueueUrl"))), [""; 0]);

        let own = |queue_policy: &str, key_policy: Value| {
            let names = json!({"kms_master_key_id": "aws_kms_key.k.arn"});
            let named = json!({"queue_url": "aws_sqs_queue.a.id"});
            codes(&[
                ("aws_sqs_queue.a", json!({}), names),
                ("aws_sqs_queue_policy.a", json!({"policy": queue_policy}), named),
                ("aws_kms_key.k", json!({"policy": key_policy}), json!({"policy": "local.policy"})),
            ])
        };
        let to_s3 = |action: Value| json!(allow(service("s3.amazonaws.com"), action));
        let table = [
            (json!(ours("kms:*")), locked),
            (to_s3(json!(["kms:Decrypt"])), locked),
            (to_s3(json!(["kms:Decrypt", "kms:GenerateDataKey*"])), &[]),
            (json!(allow(json!("*"), json!("kms:*"))), &[]),
            (json!(allow(service("sns.amazonaws.com"), json!("kms:*"))), locked),
            (Value::Null, &[]),
        ];
        for (key_policy, want) in table {
            assert_eq!(own(&from_s3, key_policy.clone()), want, "{key_policy}");
        }
        let by_default = |separate: Option<&'static str>| {
            let names = json!({"kms_master_key_id": "aws_kms_key.k.arn"});
            let mut resources = vec![
                ("aws_sqs_queue.a", json!({"policy": from_s3}), names),
                ("aws_kms_key.k", json!({}), json!({})),
                ("aws_kms_key.other", json!({}), json!({})),
            ];
            let policy = |of| ("aws_kms_key_policy.p", json!({}), json!({"key_id": of}));
            resources.extend(separate.map(policy));
            codes(&resources)
        };
        assert_eq!(by_default(None), locked);
        assert_eq!(by_default(Some("aws_kms_key.other.id")), locked);
        assert_eq!(by_default(Some("aws_kms_key.k.id")), [""; 0], "it is not known yet");
        assert_eq!(by_default(Some("each.value")), [""; 0], "perhaps this key's");
        assert_eq!(own(&ours("sqs:*"), json!(ours("kms:*"))), [""; 0]);

        for everyone in [json!("*"), json!({"AWS": "*"})] {
            let if_equal = |key: &str| {
                json!({"Statement": {"Effect": "Allow", "Principal": everyone, "Action": "sqs:*",
                    "Condition": {"StringEquals": {key: "a"}}}})
                .to_string()
            };
            assert_eq!(managed(&if_equal("aws:SourceArn")), locked, "{everyone}");
            assert_eq!(managed(&if_equal("aws:PrincipalOrgID")), [""; 0], "{everyone}");
            assert_eq!(managed(&if_equal("aws:SourceVpce")), [""; 0], "{everyone}");
        }
    }

    /// A first plan does not know the queue's policy: it names the queue's ARN.
    #[test]
    fn a_queue_that_a_service_is_told_to_send_to_is_found() {
        let told = |sender: &str, argument: &str, key: Value| {
            let queue = match argument {
                "dead_letter_config" => json!([{"arn": "aws_sqs_queue.a.arn"}]),
                _ => json!("aws_sqs_queue.a.arn"),
            };
            codes(&[
                ("aws_sqs_queue.a", key, json!({})),
                ("aws_sqs_queue.b", json!({"kms_master_key_id": "alias/aws/sqs"}), json!({})),
                (sender, json!({}), json!({argument: queue})),
            ])
        };
        let managed = || json!({"kms_master_key_id": "alias/aws/sqs"});
        let table = [
            ("aws_cloudwatch_event_target.t", "arn", managed(), &["queue-key"][..]),
            ("aws_s3_bucket_notification.n", "queue", managed(), &["queue-key"]),
            ("aws_sns_topic_subscription.s", "endpoint", managed(), &["queue-key"]),
            ("aws_cloudwatch_event_target.t", "dead_letter_config", managed(), &["queue-key"]),
            ("aws_sns_topic_subscription.s", "redrive_policy", managed(), &["queue-key"]),
            ("aws_sns_topic_subscription.s", "filter_policy", managed(), &[]),
            ("aws_sns_topic_subscription.s", "endpoint", json!({}), &[]),
        ];
        for (sender, argument, key, want) in table {
            assert_eq!(told(sender, argument, key.clone()), want, "{sender} {argument} {key}");
        }
    }
}
