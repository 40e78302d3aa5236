//! Finds what the policies of the principal that runs Terraform lack: actions that the AWS provider
//! calls for the resources that a plan makes or changes.
//!
//! Only what no statement can allow is found: names that a plan does not know yet, and conditions,
//! are taken to fit.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Fault, Plan, PlanError,
    names::Note,
    plan::{Resource, list},
};

/// Actions by type of resource, each with the ARN that it must be allowed for, as
/// `infra/deployer_policy.py --write` makes them of what the provider was seen to call.
const NEEDED: &str = include_str!("needed.json");

/// Arguments of a provider that say as whom it calls AWS.
const IDENTITY: [&str; 7] = [
    "access_key",
    "assume_role",
    "assume_role_with_web_identity",
    "profile",
    "shared_config_files",
    "shared_credentials_files",
    "token",
];

const SOURCE: &str = "AWS provider, its recorded calls; AWS service authorization reference";

/// A document that is no IAM policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no IAM policy: it has no Statement; give a policy's document, or the answer of \
     aws iam get-policy-version"
)]
pub struct NoPolicy;

/// The statements of all policies of a principal together.
#[derive(Clone, Debug, Default)]
pub struct Policies(Vec<Value>);

impl Policies {
    /// Adds a policy's document.
    pub fn add(&mut self, document: &Value) -> Result<(), NoPolicy> {
        let document = document.pointer("/PolicyVersion/Document").unwrap_or(document);
        match &document["Statement"] {
            Value::Array(statements) => self.0.extend(statements.iter().cloned()),
            statement @ Value::Object(_) => self.0.push(statement.clone()),
            _ => return Err(NoPolicy),
        }
        Ok(())
    }

    fn may_allow(&self, action: &str, arn: &str) -> bool {
        let is_denied = |one: &&Value| {
            one["Effect"] == "Deny"
                && one.get("Condition").is_none()
                && says(one, action, arn, covers)
        };
        let is_allowed = |one: &&Value| one["Effect"] == "Allow" && says(one, action, arn, meets);
        self.0.iter().any(|one| is_allowed(&one)) && !self.0.iter().any(|one| is_denied(&one))
    }
}

/// Finds actions that a plan needs and that the policies can't allow, once for each type of
/// resource. Notes providers that call AWS as another principal than the default one.
pub fn check(document: &Value, policies: &Policies) -> Result<(Vec<Fault>, Vec<Note>), PlanError> {
    let providers = &document["configuration"]["provider_config"];
    let identity = |provider: &str| IDENTITY.map(|it| &providers[provider]["expressions"][it]);
    let is_other = |it: &str| providers.get(it).is_some() && identity(it) != identity("aws");
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    let plan = Plan::read(document)?;
    let needed: BTreeMap<String, Vec<(String, String)>> =
        serde_json::from_str(NEEDED).unwrap_or_default();
    let mut lacking: BTreeMap<(&str, &str), Vec<(&str, String)>> = BTreeMap::new();
    for resource in plan.resources.iter().filter(|resource| resource.is_changed()) {
        if is_other(resource.provider) {
            *others.entry(resource.provider).or_default() += 1;
            continue;
        }
        for (action, arn) in needed.get(resource.kind).map_or(&[][..], Vec::as_slice) {
            if !resource.is_created() && is_of_creation(action, arn) {
                continue;
            }
            let arn = filled(arn, resource);
            if !policies.may_allow(action, &arn) {
                let of_action = lacking.entry((resource.kind, action)).or_default();
                of_action.push((resource.address, arn));
            }
        }
    }
    let fault = |((kind, action), of): ((&str, &str), Vec<(&str, String)>)| {
        let (address, arn) = of.first()?;
        let found = match of.len() {
            1 => format!("{action} is not allowed for {arn}"),
            count => format!("{action} is not allowed for {arn}, one of {count} of type {kind}"),
        };
        let limit = format!("a policy that allows {action}, which the provider calls");
        let address = (*address).to_owned();
        Some(Fault { code: "deployer-lacks", address, limit, found, source: SOURCE })
    };
    let note = |(provider, count)| Note {
        code: "not-checked",
        message: format!(
            "whether the policies allow what {provider} calls, which has an identity of its own \
             (resources: {count})"
        ),
    };
    let notes = others.into_iter().map(note).collect();
    Ok((lacking.into_iter().filter_map(fault).collect(), notes))
}

/// Whether only what is made needs an action: a `Create` of the resource itself, not of its function URL or of
/// a delivery of its logs, or a POST to a collection of API Gateway's.
fn is_of_creation(action: &str, arn: &str) -> bool {
    match action.split_once(':') {
        Some(("apigateway", method)) => method == "POST" && !arn.contains("/tags/"),
        Some((_, name)) => {
            name.starts_with("Create")
                && !["CreateFunctionUrlConfig", "CreateLogDelivery"].contains(&name)
        }
        None => false,
    }
}

/// Fills a resource's arguments into an ARN; writes `*` for an argument that the plan does not know yet, and
/// an ARN of stars for one that is the whole ARN: a star alone would be a call without a resource. Of a
/// function's ARN it takes the name.
fn filled(arn: &str, resource: &Resource<'_>) -> String {
    let mut parts = arn.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (argument, rest) = part.split_once('}').unwrap_or((part, ""));
        let value = resource.text(argument).unwrap_or("*");
        text.push_str(value.rsplit_once(":function:").map_or(value, |(_, name)| name));
        text.push_str(rest);
    }
    if text == "*" && arn != "*" { "arn:*:*:*:*:*".to_owned() } else { text }
}

/// The texts of a member that is one text, or a list of them.
pub(super) fn texts(of: &Value, member: &str) -> Vec<String> {
    match &of[member] {
        Value::String(text) => vec![text.clone()],
        value => list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

/// Whether a statement is about an action and a resource, by how its patterns of resources are
/// compared.
pub(super) fn says(
    statement: &Value,
    action: &str,
    arn: &str,
    fits: fn(&str, &str) -> bool,
) -> bool {
    let texts = |member: &str| texts(statement, member);
    let action = action.to_ascii_lowercase();
    let names = |member| texts(member).iter().any(|it| covers(&it.to_ascii_lowercase(), &action));
    let is_of_action = match statement.get("NotAction") {
        Some(_) => !names("NotAction"),
        None => names("Action"),
    };
    is_of_action
        && match statement.get("NotResource") {
            Some(_) => !texts("NotResource").iter().any(|pattern| covers(pattern, arn)),
            None => texts("Resource").iter().any(|pattern| fits(pattern, arn)),
        }
}

/// Whether a pattern of a policy may mean what an ARN with stars for unknown parts means: one of
/// its six parts by one. An ARN that is a star alone is of a call that has no resource: only a star
/// allows it.
///
/// Source: IAM user guide, "IAM JSON policy elements: Resource": a star does not reach into the
/// next part.
pub(super) fn meets(pattern: &str, arn: &str) -> bool {
    let parts = |text: &str| text.splitn(6, ':').map(str::to_owned).collect::<Vec<_>>();
    let (patterns, texts) = (parts(pattern), parts(arn));
    if patterns.len() != texts.len() {
        return covers(pattern, arn);
    }
    let loose = arn != "*";
    patterns.iter().zip(&texts).all(|(pattern, text)| compare(pattern, text, loose))
}

/// Whether a pattern means a text, and with it all that a star in the text may stand for.
pub(super) fn covers(pattern: &str, text: &str) -> bool {
    compare(pattern, text, false)
}

/// Compares a pattern with a text, from their ends to their beginnings. With `loose`, stars of the
/// text stand for anything, too.
pub(super) fn compare(pattern: &str, text: &str, loose: bool) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let mut later = vec![false; text.len() + 1];
    for from in (0..=pattern.len()).rev() {
        let mut row = vec![false; text.len() + 1];
        for at in (0..=text.len()).rev() {
            row[at] = match (pattern.get(from), text.get(at)) {
                (None, None) => true,
                (Some(b'*'), None) => later[at],
                (Some(b'*'), Some(_)) => later[at] || row[at + 1],
                (None, Some(b'*')) if loose => row[at + 1],
                (Some(_), Some(b'*')) if loose => row[at + 1] || later[at],
                (Some(one), Some(other)) => (one == other || *one == b'?') && later[at + 1],
                (None, Some(_)) | (Some(_), None) => false,
            };
        }
        later = row;
    }
    later[0]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OURS: &str = include_str!("../../../../infra/deployer-policy.json");

    fn plan() -> Value {
        serde_json::from_str(include_str!("plan.json")).expect("the plan is JSON")
    }

    fn lacking(document: &Value, policies: &[Value]) -> Vec<Fault> {
        let mut all = Policies::default();
        for policy in policies {
            all.add(policy).expect("a policy");
        }
        check(document, &all).expect("a plan").0
    }

    fn ours() -> Value {
        serde_json::from_str(OURS).expect("JSON")
    }

    #[test]
    fn the_modules_own_policy_has_what_its_plan_needs() {
        let found = lacking(&plan(), &[ours()]);
        assert!(found.is_empty(), "{found:#?}");
    }

    /// As the module's documentation has a boundary asked for.
    #[test]
    fn a_policy_that_keeps_boundaries_lacks_nothing() {
        let mut kept = ours();
        for statement in kept["Statement"].as_array_mut().expect("statements") {
            let actions = statement["Action"].as_array_mut().expect("actions");
            actions.retain(|action| action != "iam:DeleteRolePermissionsBoundary");
        }
        assert_ne!(kept, ours());
        let found = lacking(&plan(), &[kept]);
        assert!(found.is_empty(), "{found:#?}");
    }

    /// The module's documentation has the policy name the ids of APIs after the first apply.
    #[test]
    fn what_only_a_creation_needs_is_asked_of_creations_alone() {
        let hardened =
            OURS.replace("::/apis*\"", "::/apis/ID\", \"arn:*:apigateway:*::/apis/ID/*\"");
        assert_ne!(hardened, OURS);
        let hardened: Value = serde_json::from_str(&hardened).expect("JSON");
        let few = json!({"Statement": {"Effect": "Allow", "Action": "sqs:Get*", "Resource": "*"}});
        let found = |kind: &str, actions: Option<Value>, policy: &Value| {
            let address = format!("{kind}.one");
            let mut plan = json!({"planned_values": {"root_module": {"resources": [
                {"address": address, "type": kind, "values": {}},
            ]}}});
            if let Some(actions) = actions {
                plan["resource_changes"] =
                    json!([{"address": address, "change": {"actions": actions}}]);
            }
            let found = lacking(&plan, std::slice::from_ref(policy)).into_iter();
            found.map(|fault| fault.found).collect::<Vec<_>>()
        };
        let (api, route) = ("aws_apigatewayv2_api", "aws_apigatewayv2_route");
        let create = &["apigateway:POST is not allowed for arn:*:apigateway:*::/apis"][..];
        let table = [
            (api, Some(json!(["no-op"])), &[][..]),
            (api, Some(json!(["read"])), &[]),
            (api, Some(json!(["update"])), &[]),
            (api, Some(json!(["create"])), create),
            (api, Some(json!(["delete", "create"])), create),
            (api, None, create),
            (route, Some(json!(["create"])), &[]),
        ];
        for (kind, actions, want) in table {
            assert_eq!(found(kind, actions.clone(), &hardened), want, "{kind} {actions:?}");
        }
        let of_queue = |actions: Value| found("aws_sqs_queue", Some(actions), &few).join(", ");
        assert_eq!(of_queue(json!(["no-op"])), "");
        assert!(of_queue(json!(["create"])).contains("sqs:CreateQueue"));
        let of_update = of_queue(json!(["update"]));
        assert!(!of_update.contains("sqs:CreateQueue"), "{of_update}");
        assert!(of_update.contains("sqs:SetQueueAttributes"), "{of_update}");
    }

    #[test]
    fn arns_that_are_unknown_or_given_whole_are_held_against_names() {
        let found = |kind: &str, values: Value, statement: Value| {
            let plan = json!({"planned_values": {"root_module": {"resources": [
                {"address": format!("{kind}.one"), "type": kind, "values": values},
            ]}}});
            let found = lacking(&plan, &[json!({"Statement": statement})]);
            found.into_iter().map(|fault| fault.found).collect::<Vec<_>>()
        };
        let allow = |of: &str, on: &str| json!({"Effect": "Allow", "Action": of, "Resource": on});
        let topic = |values: Value, on: &str| {
            let everywhere = [
                "sns:GetSubscriptionAttributes",
                "sns:SetSubscriptionAttributes",
                "sns:Unsubscribe",
            ];
            let everywhere = json!({"Effect": "Allow", "Action": everywhere, "Resource": "*"});
            let statements = json!([allow("sns:*", on), everywhere]);
            found("aws_sns_topic_subscription", values, statements).len()
        };
        let orders = "arn:aws:sns:*:*:orders*";
        let known = |name: &str| json!({"topic_arn": format!("arn:aws:sns:eu-central-1:1:{name}")});
        assert_eq!(topic(json!({}), orders), 0, "any topic may be this one");
        assert_eq!(topic(json!({}), "*"), 0);
        assert_eq!(topic(known("orders"), orders), 0);
        assert_eq!(topic(known("other"), orders), 2);

        let ours = allow("lambda:*", "arn:aws:lambda:*:*:function:gridpost-*");
        let granted = |name: &str| {
            found("aws_lambda_permission", json!({"function_name": name}), ours.clone()).len()
        };
        let arn = |name: &str| format!("arn:aws:lambda:eu-central-1:1:function:{name}");
        assert_eq!(granted("gridpost-ingest"), 0);
        assert_eq!(granted(&arn("gridpost-ingest")), 0);
        assert_eq!(granted(&arn("other")), 3);
    }

    #[test]
    fn resources_of_another_principal_are_noted_and_not_judged() {
        let resource = |name: &str| {
            json!({"address": format!("aws_sqs_queue.{name}"),
            "type": "aws_sqs_queue", "values": {"name": name}})
        };
        let configured = |name: &str, provider: &str| {
            json!({"address": format!("aws_sqs_queue.{name}"),
            "provider_config_key": provider})
        };
        let constant = |value: &str| json!({"constant_value": value});
        let role = json!([{"role_arn": constant("arn:aws:iam::1:role/deployer")}]);
        let found = |standby: Value| {
            let plan = json!({
                "planned_values": {"root_module": {"resources": [resource("main"), resource("other")]}},
                "configuration": {
                    "provider_config": {
                        "aws": {"expressions": {"region": constant("eu-central-1")}},
                        "aws.standby": {"expressions": standby},
                    },
                    "root_module": {"resources":
                        [configured("main", "aws"), configured("other", "aws.standby")]},
                },
            });
            let mut policies = Policies::default();
            let ours = json!({"Statement": {"Effect": "Allow", "Action": "*",
                "Resource": "arn:aws:sqs:*:*:main"}});
            policies.add(&ours).expect("a policy");
            let (faults, notes) = check(&plan, &policies).expect("a plan");
            (faults.is_empty(), notes.into_iter().map(|note| note.message).collect::<Vec<_>>())
        };
        let region = json!({"region": constant("us-east-1")});
        assert_eq!(found(region), (false, vec![]), "the same principal in another region");
        let told = "whether the policies allow what aws.standby calls, which has an identity of its own \
                    (resources: 1)";
        assert_eq!(found(json!({"assume_role": role})), (true, vec![told.to_owned()]));
        assert!(found(json!({"profile": constant("standby")})).0);
    }

    /// Policies as people write them, and what each lacks for a queue and an alarm.
    #[test]
    fn what_a_policy_lacks_is_found() {
        let plan = json!({"planned_values": {"root_module": {"resources": [
            {"mode": "managed", "address": "aws_sqs_queue.one", "type": "aws_sqs_queue",
                "values": {"name": "gridpost-dispatch"}},
            {"mode": "managed", "address": "aws_sqs_queue.two", "type": "aws_sqs_queue",
                "values": {}},
            {"mode": "managed", "address": "aws_cloudwatch_metric_alarm.late",
                "type": "aws_cloudwatch_metric_alarm", "values": {"alarm_name": "gridpost-late"}},
        ]}}});
        let all = json!({"Effect": "Allow", "Action": "*", "Resource": "*"});
        let alarms = json!({"Effect": "Allow", "Action": ["cloudwatch:*"], "Resource": ["*"]});
        let queues = |of: Value, on: &str| json!({"Effect": "Allow", "Action": of, "Resource": on});
        let exact = "arn:aws:sqs:eu-central-1:123456789012:gridpost-*";
        let other = "arn:aws:sqs:eu-central-1:123456789012:other-*";
        let scoped = json!({"Effect": "Allow", "Action": "cloudwatch:*",
            "Resource": "arn:aws:cloudwatch:*:*:alarm:gridpost-*"});
        let few = json!([
            "sqs:CreateQueue",
            "SQS:Get*",
            "sqs:Tag?ueue",
            "sqs:SetQueueAttributes",
            "sqs:DeleteQueue",
            "sqs:ListQueueTags"
        ]);
        let but = json!({"Effect": "Allow", "NotAction": "sqs:UntagQueue", "Resource": "*"});
        let no = json!({"Effect": "Deny", "Action": "sqs:DeleteQueue", "Resource": "*"});
        let sometimes = json!({"Effect": "Deny", "Action": "*", "Resource": "*",
            "Condition": {"Bool": {"aws:MultiFactorAuthPresent": "false"}}});
        let both = |action: &str| {
            let queue = "arn:*:sqs:*:*:gridpost-dispatch, one of 2 of type aws_sqs_queue";
            format!("{action} is not allowed for {queue}")
        };
        let (untag, delete) = (both("sqs:UntagQueue"), both("sqs:DeleteQueue"));
        let table: [(Value, &[&str]); 8] = [
            (json!({"Statement": all}), &[]),
            (json!({"Statement": [all, sometimes]}), &[]),
            (json!({"Statement": [alarms, queues(json!("sqs:*"), exact)]}), &[]),
            (
                json!({"Statement": [scoped, queues(json!("sqs:*"), exact)]}),
                &["cloudwatch:DescribeAlarms is not allowed for *"],
            ),
            (json!({"Statement": [alarms, queues(few, exact)]}), &[&untag]),
            (json!({"Statement": [but]}), &[&untag]),
            (json!({"Statement": [all, no]}), &[&delete]),
            (
                json!({"Statement": [alarms, queues(json!("sqs:UntagQueue"), other),
                    {"Effect": "Allow", "NotAction": "sqs:UntagQueue", "Resource": "*"}]}),
                &["sqs:UntagQueue is not allowed for arn:*:sqs:*:*:gridpost-dispatch"],
            ),
        ];
        for (policy, want) in table {
            let found = lacking(&plan, std::slice::from_ref(&policy));
            let found: Vec<_> = found.iter().map(|fault| fault.found.as_str()).collect();
            assert_eq!(found, want, "{policy}");
        }
    }

    /// Several policies count together, and as `aws iam get-policy-version` shows them.
    #[test]
    fn policies_are_read_in_either_form_and_together() {
        let mut statements = ours()["Statement"].as_array().expect("statements").clone();
        let last = statements.pop().expect("a statement");
        let shown = json!({"PolicyVersion": {"Document": {"Statement": last}}});
        let most = json!({"Statement": statements});
        assert!(lacking(&plan(), &[most, shown]).is_empty());
        assert_eq!(Policies::default().add(&json!({"Version": "2012-10-17"})), Err(NoPolicy));
    }
}
