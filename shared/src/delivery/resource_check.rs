//! Whether an AWS resource can become an endpoint: asked before an event subscription with it is stored,
//! by a call that changes nothing.

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::subscription::{Resource, ResourceKind};

/// What the resource's service said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What a delivery would meet, as far as the call tells; `Delivered`: nothing stands in its way.
    pub outcome: Outcome,
    /// The service's code and message, where it refused.
    pub says: String,
}

/// Why a resource can't become an endpoint now, and what to do; `None`: it can. `account` is the
/// deployment's own.
///
/// Lambda alone can be asked for the permission to deliver (`DryRun`). The other services are asked to
/// describe the resource. The owner of one in another account need only allow to send to it, so there a
/// refused description says nothing.
pub fn obstacle(resource: &Resource, account: &str, finding: &Finding) -> Option<String> {
    let is_foreign = resource.arn.account != account;
    let asks_to_describe = resource.kind != ResourceKind::LambdaFunction;
    let action = resource.kind.rules().action;
    let advice = match finding.outcome {
        Outcome::Delivered => return None,
        Outcome::Forbidden if asks_to_describe && is_foreign => return None,
        Outcome::NotFound => "Create it first".to_owned(),
        Outcome::Forbidden | Outcome::Unauthorized if is_foreign => {
            format!("Its policy, in its own account, must allow {action} to dispatch's role")
        }
        Outcome::Forbidden | Outcome::Unauthorized => {
            format!(
                "Look for a policy that denies it to dispatch's role: the deployment allows {action}"
            )
        }
        Outcome::InvalidFunctionDestination | Outcome::Disabled => "Make it ready first".to_owned(),
        _ => "Try again".to_owned(),
    };
    let Finding { outcome, says } = finding;
    let says = if says.is_empty() { String::new() } else { format!(" ({says})") };
    Some(format!("{outcome}{says}. {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacle_table() {
        use Outcome::{Busy, Delivered, Forbidden, InvalidFunctionDestination, NotFound, TimedOut};
        use ResourceKind::{EventBridgeBus, KinesisStream, LambdaFunction, SnsTopic, SqsQueue};
        let (own, other) = ("111122223333", "444455556666");
        let table = [
            (SqsQueue, own, Delivered, None),
            (SqsQueue, own, NotFound, Some("Create it first")),
            (SnsTopic, other, NotFound, Some("Create it first")),
            (SqsQueue, own, Forbidden, Some("Look for a policy that denies it")),
            (SqsQueue, other, Forbidden, None),
            (SnsTopic, other, Forbidden, None),
            (KinesisStream, other, Forbidden, None),
            (EventBridgeBus, other, Forbidden, None),
            (LambdaFunction, own, Forbidden, Some("Look for a policy that denies it")),
            (LambdaFunction, other, Forbidden, Some("Its policy, in its own account, must allow")),
            (LambdaFunction, own, InvalidFunctionDestination, Some("Make it ready first")),
            (SqsQueue, own, Busy, Some("Try again")),
            (SqsQueue, other, TimedOut, Some("Try again")),
        ];
        for (kind, account, outcome, want) in table {
            let service = kind.rules().service;
            let arn = format!("arn:aws:{service}:eu-central-1:{account}:x");
            let resource = Resource {
                kind,
                arn: arn.parse().expect("an ARN"),
                message_group_id: None,
                partition_key: None,
            };
            let finding = Finding { outcome, says: "Code: message".to_owned() };
            let found = obstacle(&resource, own, &finding);
            match (&found, want) {
                (None, None) => {}
                (Some(found), Some(want)) => {
                    assert!(found.contains(want), "{found}");
                    assert!(found.contains("(Code: message)"), "{found}");
                }
                _ => panic!("{kind:?} of {account}, {outcome}: {found:?}, not {want:?}"),
            }
        }
    }
}
