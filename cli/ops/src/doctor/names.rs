//! Names that a plan would take, and what an account has of them.
//!
//! What a plan creates is not in Terraform's state. If it is in the account all the same, it belongs to
//! something else: another deployment of the same prefix, or one whose state is lost.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::Fault;
use crate::{aws_refusal::AwsRefusal, failure::chain};

/// A kind of resource whose name can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Alarm,
    Api,
    Bucket,
    Function,
    LogGroup,
    Queue,
    Role,
    Schedule,
    Table,
}

/// Type of resource, kind, argument that has the name, what is said of several, and what AWS does with a
/// name that is taken.
type Named = (&'static str, Kind, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const NAMED: [Named; 9] = [
    ("aws_cloudwatch_metric_alarm", Kind::Alarm, "alarm_name", "alarms", "CloudWatch API reference, PutMetricAlarm: it replaces the other"),
    ("aws_apigatewayv2_api", Kind::Api, "name", "HTTP APIs", ""),
    ("aws_s3_bucket", Kind::Bucket, "bucket", "buckets", "S3 API reference, CreateBucket: BucketAlreadyExists"),
    ("aws_lambda_function", Kind::Function, "function_name", "functions", "Lambda API reference, CreateFunction: ResourceConflictException"),
    ("aws_cloudwatch_log_group", Kind::LogGroup, "name", "log groups", "CloudWatch Logs API reference, CreateLogGroup: ResourceAlreadyExistsException"),
    ("aws_sqs_queue", Kind::Queue, "name", "queues", "SQS API reference, CreateQueue: QueueNameExists, or the other is taken over"),
    ("aws_iam_role", Kind::Role, "name", "roles", "IAM API reference, CreateRole: EntityAlreadyExists"),
    ("aws_scheduler_schedule", Kind::Schedule, "name", "schedules", "EventBridge Scheduler API reference, CreateSchedule: ConflictException"),
    ("aws_dynamodb_table", Kind::Table, "name", "tables", "DynamoDB API reference, CreateTable: ResourceInUseException"),
];

fn named(kind: Kind) -> &'static Named {
    NAMED.iter().find(|(_, of, ..)| *of == kind).unwrap_or(&NAMED[0])
}

/// A name that a plan would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub kind: Kind,
    pub name: String,
    pub address: String,
}

/// What an account has of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameState {
    Free,
    Taken,
    Unclear(String),
    /// The call was refused: its permission, and AWS's sentence.
    Refused(String, String),
    Unreachable(String),
}

/// A fact worth knowing that is no fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The kind of note, for programs: `not-checked`.
    pub code: &'static str,
    pub message: String,
}

pub(crate) trait Look {
    async fn look(&self, kind: Kind, name: &str) -> anyhow::Result<NameState>;
}

/// The names that a plan would take, by kind; none where it does not say what it would change. A name that is
/// known only after the apply is left out, and so is what would be replaced: its name is our own.
pub fn wanted(document: &Value) -> Option<Vec<Wanted>> {
    let changes = document["resource_changes"].as_array()?;
    let of = |change: &Value| {
        let kind = change["type"].as_str()?;
        let (_, kind, argument, ..) = NAMED.iter().find(|(name, ..)| *name == kind)?;
        let actions = change["change"]["actions"].as_array()?;
        let is_new = change["mode"] == "managed" && *actions == ["create"];
        let name = change["change"]["after"][*argument].as_str().filter(|_| is_new)?.to_owned();
        let address = change["address"].as_str().unwrap_or_default().to_owned();
        Some(Wanted { kind: *kind, name, address })
    };
    let mut wanted: Vec<_> = changes.iter().filter_map(of).collect();
    wanted.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    Some(wanted)
}

/// Looks all names up, one after the other. A kind that can't be read is not asked about again.
pub(crate) async fn look_up(account: &impl Look, wanted: &[Wanted]) -> Vec<NameState> {
    let mut unread: BTreeMap<Kind, NameState> = BTreeMap::new();
    let mut all = Vec::new();
    for Wanted { kind, name, .. } in wanted {
        let found = match unread.get(kind) {
            Some(found) => found.clone(),
            None => account.look(*kind, name).await.unwrap_or_else(|error| unreadable(&error)),
        };
        if matches!(found, NameState::Refused(..) | NameState::Unreachable(_)) {
            unread.insert(*kind, found.clone());
        }
        all.push(found);
    }
    all
}

fn unreadable(error: &anyhow::Error) -> NameState {
    match error.downcast_ref::<AwsRefusal>() {
        Some(AwsRefusal { call, code, message }) => {
            NameState::Refused(call.clone(), format!("{code}: {message}"))
        }
        None => NameState::Unreachable(chain(error)),
    }
}

/// Returns a fault for each name that is taken and each service that gives no answer, and a note
/// for what could not be checked.
pub fn judge(wanted: &[Wanted], found: &[NameState]) -> (Vec<Fault>, Vec<Note>) {
    let (mut faults, mut notes) = (Vec::new(), Vec::new());
    let mut unread: BTreeMap<Kind, (&NameState, Vec<&Wanted>)> = BTreeMap::new();
    for (wanted, found) in wanted.iter().zip(found) {
        let (_, kind, _, plural, source) = named(wanted.kind);
        let Wanted { name, address, .. } = wanted;
        match found {
            NameState::Free => {}
            // API Gateway takes a name twice, but people then take one for the other.
            NameState::Taken if *kind == Kind::Api => notes.push(Note {
                code: "api-name",
                message: format!("another HTTP API is called {name}, too, as {address} would be"),
            }),
            NameState::Taken => faults.push(Fault {
                code: "name-taken",
                address: address.clone(),
                limit: "a name that is free: this one is in the account and the region of your \
                        environment, and not in Terraform's state. If the plan is for another region, \
                        set AWS_REGION; else import it, or take another name_prefix"
                    .to_owned(),
                found: name.clone(),
                source,
            }),
            NameState::Unclear(why) => notes.push(Note {
                code: "not-checked",
                message: format!("whether {name} is free among {plural}: {why}"),
            }),
            NameState::Refused(..) | NameState::Unreachable(_) => {
                unread.entry(*kind).or_insert((found, Vec::new())).1.push(wanted);
            }
        }
    }
    for (kind, (found, wanted)) in unread {
        let plural = named(kind).3;
        match found {
            NameState::Unreachable(why) => faults.push(Fault {
                code: "service-unreachable",
                address: wanted.iter().map(|it| it.address.as_str()).collect::<Vec<_>>().join(", "),
                limit: format!("a service for {plural} that answers in this region"),
                found: why.clone(),
                source: "AWS general reference, service endpoints",
            }),
            NameState::Refused(call, why) => notes.push(Note {
                code: "not-checked",
                message: format!(
                    "whether the names of {} {plural} are free: {call} was refused ({why})",
                    wanted.len()
                ),
            }),
            _ => {}
        }
    }
    (faults, notes)
}

#[cfg(test)]
mod tests {
    use anyhow::{anyhow, bail};
    use serde_json::json;

    use super::*;

    fn change(kind: &str, actions: Value, after: Value) -> Value {
        json!({"address": format!("module.gridpost.{kind}.a"), "mode": "managed", "type": kind,
            "change": {"actions": actions, "after": after}})
    }

    fn names(changes: &[Value]) -> Vec<String> {
        let wanted = wanted(&json!({"resource_changes": changes})).expect("a plan");
        wanted.into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn only_what_is_created_has_a_name_to_take() {
        let queue =
            |actions: Value, name: Value| change("aws_sqs_queue", actions, json!({"name": name}));
        let table = [
            (queue(json!(["create"]), json!("q")), vec!["q"]),
            (queue(json!(["no-op"]), json!("q")), vec![]),
            (queue(json!(["update"]), json!("q")), vec![]),
            (queue(json!(["delete", "create"]), json!("q")), vec![]),
            (queue(json!(["create"]), Value::Null), vec![]),
            (change("aws_sqs_queue_policy", json!(["create"]), json!({"name": "q"})), vec![]),
        ];
        for (change, want) in table {
            assert_eq!(names(std::slice::from_ref(&change)), want, "{change}");
        }
        let mut data = queue(json!(["create"]), json!("q"));
        data["mode"] = json!("data");
        assert_eq!(names(&[data]), Vec::<String>::new());
        assert_eq!(wanted(&json!({"planned_values": {}})), None, "it does not say what is new");
        let each = NAMED.map(|(kind, _, argument, ..)| {
            change(kind, json!(["create"]), json!({argument: kind}))
        });
        assert_eq!(names(&each).len(), NAMED.len());
    }

    /// An account in which queues are taken, functions may not be read and tables do not answer.
    struct Fake;

    impl Look for Fake {
        async fn look(&self, kind: Kind, name: &str) -> anyhow::Result<NameState> {
            assert!(!name.ends_with("-again"), "{name} is asked although its kind can't be read");
            match kind {
                Kind::Queue | Kind::Api => Ok(NameState::Taken),
                Kind::Bucket => Ok(NameState::Unclear("another account's, perhaps".to_owned())),
                Kind::Function => bail!(AwsRefusal {
                    call: "lambda:GetFunctionConfiguration".to_owned(),
                    code: "AccessDeniedException".to_owned(),
                    message: "no".to_owned(),
                }),
                Kind::Table => Err(anyhow!("no answer")),
                _ => Ok(NameState::Free),
            }
        }
    }

    #[tokio::test]
    async fn what_is_taken_is_a_fault_and_what_may_not_be_read_is_said() {
        let one = |kind, name: &str| Wanted {
            kind,
            name: name.to_owned(),
            address: format!("address.{name}"),
        };
        let wanted = [
            one(Kind::Alarm, "a"),
            one(Kind::Api, "api"),
            one(Kind::Bucket, "b"),
            one(Kind::Function, "f"),
            one(Kind::Function, "f-again"),
            one(Kind::Queue, "q"),
            one(Kind::Table, "t"),
            one(Kind::Table, "t-again"),
        ];
        let found = look_up(&Fake, &wanted).await;
        let (faults, notes) = judge(&wanted, &found);
        let told: Vec<_> =
            faults.iter().map(|it| (it.code, it.address.as_str(), it.found.as_str())).collect();
        let want = [
            ("name-taken", "address.q", "q"),
            ("service-unreachable", "address.t, address.t-again", "no answer"),
        ];
        assert_eq!(told, want);
        let told: Vec<_> =
            notes.iter().map(|note| format!("{}: {}", note.code, note.message)).collect();
        let want = [
            "api-name: another HTTP API is called api, too, as address.api would be",
            "not-checked: whether b is free among buckets: another account's, perhaps",
            "not-checked: whether the names of 2 functions are free: lambda:GetFunctionConfiguration \
             was refused (AccessDeniedException: no)",
        ];
        assert_eq!(told, want);
    }
}
