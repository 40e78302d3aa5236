//! Finds principals that may read the secrets of event subscriptions, beside dispatch and manage: items
//! of the config table whose keys begin with `SECRETS#`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Fault, Plan,
    deployer::{compare, meets, says, texts},
    plan::{Resource, list, module_of},
};

const SOURCE: &str = "DynamoDB developer guide, fine-grained access control; dynamodb:LeadingKeys";

/// The setting of functions that names their deployment's table.
const TABLE: &str = "environment.0.variables.GRIDPOST_CONFIG_TABLE";

/// All keys of items with secrets.
const SECRETS: &str = "SECRETS#*";

/// The modules of the functions that send secrets to endpoints, in their deployment's.
const READERS: [&str; 2] = ["module.dispatch", "module.manage"];

/// Actions that read items. A transaction needs `GetItem`.
const READING: [&str; 6] =
    ["GetItem", "BatchGetItem", "Query", "Scan", "PartiQLSelect", "ExportTableToPointInTime"];

/// Those of them that name no keys: they read all items.
const KEYLESS: [&str; 2] = ["Scan", "ExportTableToPointInTime"];

/// Resources with a policy of a principal.
const POLICIES: [&str; 4] =
    ["aws_iam_role_policy", "aws_iam_policy", "aws_iam_user_policy", "aws_iam_group_policy"];

/// Resources that attach policies, and the argument that says which.
const ATTACHMENTS: [(&str, &str); 8] = [
    ("aws_iam_group_policy_attachment", "policy_arn"),
    ("aws_iam_group_policy_attachments_exclusive", "policy_arns"),
    ("aws_iam_policy_attachment", "policy_arn"),
    ("aws_iam_role", "managed_policy_arns"),
    ("aws_iam_role_policy_attachment", "policy_arn"),
    ("aws_iam_role_policy_attachments_exclusive", "policy_arns"),
    ("aws_iam_user_policy_attachment", "policy_arn"),
    ("aws_iam_user_policy_attachments_exclusive", "policy_arns"),
];

/// Resources that a policy bounds, and the argument that says which. It grants them nothing.
const BOUNDED: [(&str, &str); 2] =
    [("aws_iam_role", "permissions_boundary"), ("aws_iam_user", "permissions_boundary")];

/// AWS's own policies that read every table. Source: AWS managed policy reference.
const READ_EVERYTHING: [&str; 6] = [
    "AdministratorAccess",
    "AmazonDynamoDBFullAccess",
    "AmazonDynamoDBFullAccess_v2",
    "AmazonDynamoDBReadOnlyAccess",
    "PowerUserAccess",
    "ReadOnlyAccess",
];

pub(super) fn check(plan: &Plan<'_>) -> Vec<Fault> {
    let functions = || plan.of("aws_lambda_function").filter(|it| it.text(TABLE).is_some());
    let of_plan: BTreeSet<_> = functions().filter_map(|it| it.text(TABLE)).collect();
    // The readers are in the module that has the functions: one of the same name elsewhere is another deployment's.
    let readers: BTreeSet<_> = functions()
        .flat_map(|function| {
            let own = module_of(function.address);
            let deployment = own.rfind("module.").map_or("", |start| &own[..start]);
            READERS.map(|reader| format!("{deployment}{reader}"))
        })
        .collect();
    let is_reader = |resource: &Resource<'_>| readers.contains(module_of(resource.address));
    let mut faults = Vec::new();
    for resource in POLICIES.into_iter().flat_map(|kind| plan.of(kind)) {
        let is_judged = !is_reader(resource) && !only_bounds(plan, resource);
        let policy = resource.text("policy").filter(|_| is_judged);
        faults.extend(policy.and_then(|policy| fault(resource, policy, &of_plan)));
    }
    for (kind, argument) in ATTACHMENTS {
        for resource in plan.of(kind).filter(|one| !is_reader(one)) {
            let arns = texts(resource.values, argument);
            let name = arns.iter().find_map(|arn| reads_everything(arn));
            faults.extend(name.zip(of_plan.first()).map(|(name, table)| {
                readable(resource, format!("AWS's {name} reads items {SECRETS} of {table}"))
            }));
        }
    }
    for role in plan.of("aws_iam_role") {
        let policies = role.at("inline_policy").map_or(&[][..], list).iter();
        let policies = policies.filter_map(|inline| inline["policy"].as_str());
        faults.extend(policies.filter_map(|policy| fault(role, policy, &of_plan)));
    }
    faults
}

/// Whether a policy is a permissions boundary, and attached nowhere.
fn only_bounds(plan: &Plan<'_>, policy: &Resource<'_>) -> bool {
    let is_its = |by: &Resource<'_>, argument: &str| {
        let is_arn = |arn: &str| texts(by.values, argument).iter().any(|it| it == arn);
        by.traces(argument, policy.address) || policy.text("arn").is_some_and(is_arn)
    };
    let is_of = |all: &[(&'static str, &str)]| {
        all.iter().any(|(kind, argument)| plan.of(kind).any(|by| is_its(by, argument)))
    };
    is_of(&BOUNDED) && !is_of(&ATTACHMENTS)
}

/// The name of a policy of AWS's own that reads every table, of its ARN in any partition.
fn reads_everything(arn: &str) -> Option<&'static str> {
    let (partition, name) = arn.split_once(":iam::aws:policy/")?;
    READ_EVERYTHING.into_iter().find(|it| *it == name && partition.starts_with("arn:aws"))
}

fn fault(resource: &Resource<'_>, policy: &str, of_plan: &BTreeSet<&str>) -> Option<Fault> {
    let policy: Value = serde_json::from_str(policy).ok()?;
    let statements = match &policy["Statement"] {
        one @ Value::Object(_) => std::slice::from_ref(one),
        all => list(all),
    };
    let named: Vec<_> = statements.iter().flat_map(|one| texts(one, "Resource")).collect();
    let named = named.iter().filter_map(|arn| arn.split_once(":table/").map(|(_, name)| name));
    // In a configuration of its own, a policy names the table of a deployment that is elsewhere.
    let named = named.filter(|name| {
        name.contains("gridpost") && name.ends_with("-config") && !name.contains(['*', '?'])
    });
    let tables: BTreeSet<_> = of_plan.iter().copied().chain(named).collect();
    let (table, action) = tables.into_iter().find_map(|table| {
        let action = READING.into_iter().find(|action| may_read(statements, action, table))?;
        Some((table, action))
    })?;
    Some(readable(resource, format!("dynamodb:{action} of {table} reads items {SECRETS}")))
}

fn readable(resource: &Resource<'_>, found: String) -> Fault {
    let limit = "secrets of event subscriptions for dispatch and manage alone: a condition on \
                 dynamodb:LeadingKeys, such as TOPIC#*, that leaves SECRETS# out, no Scan and no export";
    let (address, limit) = (resource.address.to_owned(), limit.to_owned());
    Fault { code: "secrets-readable", address, limit, found, source: SOURCE }
}

/// Whether statements allow to read secrets by this action. Conditions about other things are taken
/// to be met.
fn may_read(statements: &[Value], action: &str, table: &str) -> bool {
    let arn = format!("arn:*:dynamodb:*:*:table/{table}");
    let call = format!("dynamodb:{action}");
    let about =
        |one: &&Value, effect: &str| one["Effect"] == effect && says(one, &call, &arn, meets);
    let allows = |one: &Value| keys(one).iter().all(|condition| condition.lets_in(action));
    let denies = |one: &Value| match keys(one)[..] {
        [] => one.get("Condition").is_none(),
        ref all => all.iter().all(|condition| condition.takes_all(action)),
    };
    let mut allowed = statements.iter().filter(|one| about(one, "Allow"));
    let mut denied = statements.iter().filter(|one| about(one, "Deny"));
    allowed.any(allows) && !denied.any(denies)
}

/// The action whose requests can name several keys.
const BATCH: &str = "BatchGetItem";

/// A condition on the keys of items.
struct KeyCondition<'s> {
    operator: &'s str,
    patterns: Vec<String>,
}

/// The conditions of a statement on the keys of items.
fn keys(statement: &Value) -> Vec<KeyCondition<'_>> {
    let mut found = Vec::new();
    for (operator, by_key) in statement["Condition"].as_object().into_iter().flatten() {
        for key in by_key.as_object().into_iter().flat_map(|all| all.keys()) {
            if key.eq_ignore_ascii_case("dynamodb:LeadingKeys") {
                let patterns = match &by_key[key] {
                    Value::Bool(value) => vec![value.to_string()],
                    _ => texts(by_key, key),
                };
                found.push(KeyCondition { operator, patterns });
            }
        }
    }
    found
}

impl KeyCondition<'_> {
    /// Whether some request for items with secrets meets it.
    fn lets_in(&self, action: &str) -> bool {
        if let Some(is_met) = self.by_presence(action) {
            return is_met;
        }
        // One key that fits lets all others of its batch in.
        let is_one_enough = action == BATCH && self.is_of_any();
        let keys = if is_one_enough { "*" } else { SECRETS };
        match self.is_negated() {
            false => self.patterns.iter().any(|pattern| may_mean(pattern, keys)),
            true => !self.patterns.iter().any(|pattern| means(pattern, keys)),
        }
    }

    /// Whether all requests for items with secrets meet it.
    fn takes_all(&self, action: &str) -> bool {
        if let Some(is_met) = self.by_presence(action) {
            return is_met;
        }
        // One key that does not fit spares all others of its batch.
        let is_one_enough = action == BATCH && self.is_of_all();
        let keys = if is_one_enough { "*" } else { SECRETS };
        match self.is_negated() {
            false => self.patterns.iter().any(|pattern| means(pattern, keys)),
            true => !self.patterns.iter().any(|pattern| may_mean(pattern, keys)),
        }
    }

    /// Whether it is met, where it matters only that the action names keys, or none as a scan.
    fn by_presence(&self, action: &str) -> Option<bool> {
        let names_none = KEYLESS.contains(&action);
        if self.operator == "Null" {
            return Some(self.patterns.iter().any(|absent| absent == &names_none.to_string()));
        }
        // Of no keys all do, and not one does.
        let is_met_by_none = self.is_of_all()
            || self.operator.ends_with("IfExists")
            || (self.is_negated() && !self.is_of_any());
        names_none.then_some(is_met_by_none)
    }

    fn is_of_all(&self) -> bool {
        self.operator.starts_with("ForAllValues:")
    }

    fn is_of_any(&self) -> bool {
        self.operator.starts_with("ForAnyValue:")
    }

    fn is_negated(&self) -> bool {
        self.operator.contains("StringNot")
    }
}

/// Whether a pattern means some of these keys. A variable, `${aws:username}`, may be anything.
fn may_mean(pattern: &str, keys: &str) -> bool {
    let mut parts = pattern.split("${");
    let mut wide = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        wide.push('*');
        wide.push_str(part.split_once('}').map_or("", |(_, rest)| rest));
    }
    compare(&wide, keys, true)
}

/// Whether a pattern means all of these keys, whatever its variables are.
fn means(pattern: &str, keys: &str) -> bool {
    !pattern.contains("${") && compare(pattern, keys, false)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Account, check};

    /// A plan of another configuration than Gridpost's, as `terraform show -json` prints it.
    fn plan(resources: &[(&str, &str, Value)]) -> Value {
        let resources = resources.iter().map(|(kind, name, values)| {
            json!({
                "address": format!("{kind}.{name}"), "mode": "managed", "type": kind, "name": name,
                "provider_name": "registry.terraform.io/hashicorp/aws", "values": values,
            })
        });
        let resources: Vec<_> = resources.collect();
        json!({
            "format_version": "1.2", "terraform_version": "1.12.2",
            "planned_values": {"root_module": {"resources": resources}},
            "complete": true, "errored": false,
        })
    }

    fn found(document: &Value) -> Vec<String> {
        let (_, faults) = check(document, &Account::default()).expect("a plan");
        let secrets = faults.into_iter().filter(|fault| fault.code == "secrets-readable");
        secrets.map(|fault| format!("{}: {}", fault.address, fault.found)).collect()
    }

    const CONFIG: &str = "arn:aws:dynamodb:eu-central-1:123456789012:table/gridpost-config";

    fn role_policy(statements: &Value) -> Value {
        let policy = json!({"Version": "2012-10-17", "Statement": statements}).to_string();
        plan(&[(
            "aws_iam_role_policy",
            "report",
            json!({"name": "r", "role": "r", "policy": policy}),
        )])
    }

    fn allow(actions: &Value, resource: &str, condition: Option<Value>) -> Value {
        let mut one = json!({"Effect": "Allow", "Action": actions, "Resource": resource});
        one.as_object_mut()
            .expect("an object")
            .extend(condition.map(|it| ("Condition".to_owned(), it)));
        one
    }

    fn keys(operator: &str, patterns: &Value) -> Option<Value> {
        Some(json!({operator: {"dynamodb:LeadingKeys": patterns}}))
    }

    #[test]
    fn statements_that_reach_secrets_are_found() {
        const ALL: &str = "ForAllValues:StringLike";
        let get = json!("dynamodb:GetItem");
        let read = json!(["dynamodb:GetItem", "dynamodb:Query"]);
        let batch = json!("dynamodb:BatchGetItem");
        let variable = "${aws:PrincipalTag/kind}#*";
        let (topics, secrets) = (json!(["TOPIC#*"]), json!(["TOPIC#*", "SECRETS#*"]));
        let is_seen = Some(json!({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}));
        let elsewhere = CONFIG.replace("gridpost", "app");
        let table = [
            ("no condition", allow(&get, CONFIG, None), Some("GetItem")),
            ("all actions", allow(&json!("dynamodb:*"), CONFIG, None), Some("GetItem")),
            ("batches", allow(&json!(["dynamodb:Batch*"]), CONFIG, None), Some("BatchGetItem")),
            ("another condition", allow(&get, CONFIG, is_seen), Some("GetItem")),
            ("these keys", allow(&read, CONFIG, keys(ALL, &secrets)), Some("GetItem")),
            (
                "some of them",
                allow(&read, CONFIG, keys(ALL, &json!("SECRETS#orders"))),
                Some("GetItem"),
            ),
            ("all keys", allow(&read, CONFIG, keys(ALL, &json!("*"))), Some("GetItem")),
            ("keys that begin so", allow(&read, CONFIG, keys(ALL, &json!("S*"))), Some("GetItem")),
            ("other keys", allow(&read, CONFIG, keys(ALL, &topics)), None),
            (
                "a scan names none",
                allow(&json!("dynamodb:Scan"), CONFIG, keys(ALL, &topics)),
                Some("Scan"),
            ),
            (
                "an export names none",
                allow(&json!("dynamodb:Export*"), CONFIG, keys(ALL, &topics)),
                Some("ExportTableToPointInTime"),
            ),
            ("and must", allow(&json!("dynamodb:Scan"), CONFIG, keys("StringLike", &topics)), None),
            (
                "all but these",
                allow(&read, CONFIG, keys("ForAllValues:StringNotLike", &json!("SECRETS#*"))),
                None,
            ),
            (
                "all but some",
                allow(&read, CONFIG, keys("ForAllValues:StringNotLike", &topics)),
                Some("GetItem"),
            ),
            (
                "one key of a batch",
                allow(&batch, CONFIG, keys("ForAnyValue:StringLike", &topics)),
                Some("BatchGetItem"),
            ),
            ("the key", allow(&get, CONFIG, keys("ForAnyValue:StringLike", &topics)), None),
            (
                "one other key of a batch",
                allow(&batch, CONFIG, keys("ForAnyValue:StringNotLike", &json!("SECRETS#*"))),
                Some("BatchGetItem"),
            ),
            ("every key of a batch", allow(&batch, CONFIG, keys(ALL, &topics)), None),
            ("any keys", allow(&get, CONFIG, keys("Null", &json!("false"))), Some("GetItem")),
            (
                "any keys, by a bool",
                allow(&get, CONFIG, keys("Null", &json!(false))),
                Some("GetItem"),
            ),
            ("no keys", allow(&get, CONFIG, keys("Null", &json!("true"))), None),
            ("a tag's keys", allow(&get, CONFIG, keys(ALL, &json!([variable]))), Some("GetItem")),
            (
                "a topic's keys",
                allow(&get, CONFIG, keys(ALL, &json!(["TOPIC#${aws:username}"]))),
                None,
            ),
            (
                "all but a tag's",
                allow(&get, CONFIG, keys("ForAllValues:StringNotLike", &json!([variable]))),
                Some("GetItem"),
            ),
            ("writes", allow(&json!(["dynamodb:PutItem"]), CONFIG, None), None),
            ("another table", allow(&get, &elsewhere, None), None),
            ("all tables, of no known deployment", allow(&get, "*", None), None),
        ];
        for (row, statement, want) in table {
            // A statement alone may stand without a list.
            for statements in [statement.clone(), json!([statement])] {
                let want = want.map(|action| {
                    format!("aws_iam_role_policy.report: dynamodb:{action} of gridpost-config reads items SECRETS#*")
                });
                assert_eq!(found(&role_policy(&statements)), Vec::from_iter(want), "{row}");
            }
        }
    }

    #[test]
    fn what_is_denied_is_not_read() {
        let all = allow(&json!("dynamodb:*"), CONFIG, None);
        let deny = |condition: Option<Value>| {
            let mut one = allow(&json!("dynamodb:*"), CONFIG, condition);
            one["Effect"] = json!("Deny");
            json!([all, one])
        };
        assert_eq!(found(&role_policy(&deny(None))), [""; 0]);
        let by_key =
            found(&role_policy(&deny(keys("ForAnyValue:StringLike", &json!("SECRETS#*")))));
        assert!(by_key[0].contains("dynamodb:Scan"), "it names no keys: {by_key:?}");
        let others = found(&role_policy(&deny(keys("ForAnyValue:StringLike", &json!("KEYS#*")))));
        assert!(others[0].contains("dynamodb:GetItem"), "{others:?}");
        let of = |operator: &str, patterns: &str| {
            let found = found(&role_policy(&deny(keys(operator, &json!(patterns)))));
            found.first().and_then(|fault| {
                fault.split("dynamodb:").nth(1)?.split(' ').next().map(str::to_owned)
            })
        };
        let table = [
            ("ForAllValues:StringLike", "SECRETS#*", Some("BatchGetItem")),
            ("ForAllValues:StringLike", "*", None),
            ("ForAllValues:StringNotLike", "TOPIC#*", Some("BatchGetItem")),
            ("StringNotLike", "TOPIC#*", None),
            ("ForAnyValue:StringNotLike", "TOPIC#*", Some("Scan")),
            ("ForAnyValue:StringLike", "${aws:username}#*", Some("GetItem")),
            ("Null", "false", Some("Scan")),
        ];
        for (operator, patterns, want) in table {
            assert_eq!(of(operator, patterns).as_deref(), want, "{operator} {patterns}");
        }
    }

    /// A configuration with a deployment under another name, and roles of its own beside it.
    #[test]
    fn every_kind_of_policy_beside_a_deployment_is_judged() {
        let everything = |resource: &str| {
            let statement = allow(&json!("*"), resource, None);
            json!({"Version": "2012-10-17", "Statement": [statement]}).to_string()
        };
        let function = |name: &str| {
            let variables = json!({"GRIDPOST_CONFIG_TABLE": "events-config"});
            json!({"function_name": name, "environment": [{"variables": variables}]})
        };
        let of_table = everything("arn:aws:dynamodb:*:*:table/events-*");
        let mut document = plan(&[
            ("aws_iam_policy", "admin", json!({"name": "admin", "policy": everything("*")})),
            ("aws_iam_user_policy", "auditor", json!({"user": "auditor", "policy": of_table})),
            ("aws_iam_role", "old", json!({"inline_policy": [{"name": "i", "policy": of_table}]})),
            ("aws_iam_role_policy", "later", json!({"role": "r"})),
            (
                "aws_iam_role_policy",
                "other",
                json!({"policy": everything("arn:aws:s3:::bucket/*")}),
            ),
        ]);
        let of = |module: &str| {
            let at = |kind: &str| format!("module.events.module.{module}.{kind}.this");
            json!({"address": format!("module.events.module.{module}"), "resources": [
                {"address": at("aws_lambda_function"), "type": "aws_lambda_function",
                    "values": function(&format!("events-{module}"))},
                {"address": at("aws_iam_role_policy"), "type": "aws_iam_role_policy",
                    "values": {"policy": of_table}},
            ]})
        };
        document["planned_values"]["root_module"]["child_modules"] =
            json!([{"child_modules": [of("dispatch"), of("manage"), of("ingest")]}]);
        let addresses: Vec<_> = found(&document)
            .iter()
            .map(|fault| fault.split(':').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(
            addresses,
            [
                "aws_iam_policy.admin",
                "aws_iam_role.old",
                "aws_iam_user_policy.auditor",
                "module.events.module.ingest.aws_iam_role_policy.this",
            ]
        );
    }

    /// A function of a deployment, by which its table is known.
    fn deployed() -> (&'static str, &'static str, Value) {
        let variables = json!({"GRIDPOST_CONFIG_TABLE": "events-config"});
        ("aws_lambda_function", "wake", json!({"environment": [{"variables": variables}]}))
    }

    #[test]
    fn a_policy_that_only_bounds_grants_nothing() {
        let everything = json!({"Statement": allow(&json!("*"), "*", None)}).to_string();
        let arn = "arn:aws:iam::123456789012:policy/boundary";
        let found = |resources: &[(&str, &str, Value)], names: &[(&str, Value)]| {
            let mut all = vec![deployed()];
            all.extend_from_slice(resources);
            let mut document = plan(&all);
            let configured = names.iter().map(
                |(address, expressions)| json!({"address": address, "expressions": expressions}),
            );
            document["configuration"]["root_module"]["resources"] = configured.collect();
            found(&document).len()
        };
        let policy =
            |arn: Value| ("aws_iam_policy", "boundary", json!({"arn": arn, "policy": everything}));
        let role = ("aws_iam_role", "r", json!({"permissions_boundary": arn}));
        let user = ("aws_iam_user", "u", json!({"permissions_boundary": arn}));
        let attached = ("aws_iam_role_policy_attachment", "a", json!({"policy_arn": arn}));
        let managed = ("aws_iam_role", "m", json!({"managed_policy_arns": [arn]}));
        let known = policy(json!(arn));
        assert_eq!(found(std::slice::from_ref(&known), &[]), 1);
        assert_eq!(found(&[known.clone(), role.clone()], &[]), 0);
        assert_eq!(found(&[known.clone(), user], &[]), 0);
        assert_eq!(found(&[known.clone(), role.clone(), attached], &[]), 1, "it grants, too");
        assert_eq!(found(&[known, role, managed], &[]), 1);
        let later = [
            policy(Value::Null),
            ("aws_iam_role", "r", json!({})),
            ("aws_iam_policy_attachment", "a", json!({})),
        ];
        let named = |address, argument: &str, policy: &str| {
            let references = json!([format!("{policy}.arn"), policy]);
            (address, json!({argument: {"references": references}}))
        };
        let boundary = named("aws_iam_role.r", "permissions_boundary", "aws_iam_policy.boundary");
        let attachment = |policy| named("aws_iam_policy_attachment.a", "policy_arn", policy);
        let other = attachment("aws_iam_policy.other");
        assert_eq!(found(&later, &[boundary.clone(), other]), 0);
        assert_eq!(found(&later, &[boundary, attachment("aws_iam_policy.boundary")]), 1);
    }

    #[test]
    fn policies_of_aws_that_read_every_table_are_found() {
        let of = |kind: &str, argument: &str, arn: &str, has_table: bool| {
            let arns = if argument.ends_with('s') { json!([arn]) } else { json!(arn) };
            let mut resources = vec![(kind, "a", json!({argument: arns}))];
            resources.extend(has_table.then(deployed));
            found(&plan(&resources))
        };
        let arn = |name: &str| format!("arn:aws-cn:iam::aws:policy/{name}");
        for (kind, argument) in super::ATTACHMENTS {
            let told = of(kind, argument, &arn("PowerUserAccess"), true);
            let want =
                format!("{kind}.a: AWS's PowerUserAccess reads items SECRETS#* of events-config");
            assert_eq!(told, [want]);
        }
        let attached = |arn: &str, has_table| {
            of("aws_iam_role_policy_attachment", "policy_arn", arn, has_table).len()
        };
        for name in super::READ_EVERYTHING {
            assert_eq!(attached(&arn(name), true), 1, "{name}");
            assert_eq!(attached(&arn(name), false), 0, "{name} without a table of ours");
        }
        for name in ["SecurityAudit", "service-role/AWSLambdaBasicExecutionRole"] {
            assert_eq!(attached(&arn(name), true), 0, "{name}");
        }
        assert_eq!(attached("arn:aws:iam::123456789012:policy/ReadOnlyAccess", true), 0);
    }
}
