//! Checks whether an AWS resource can become an endpoint, by a call that changes nothing.

use serde::{Deserialize, Serialize};

use crate::{
    retry::outcome::Outcome,
    subscription::{Resource, ResourceKind},
};

/// The answer of the resource's service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The outcome that a delivery would have, as far as the call tells.
    pub outcome: Outcome,
    /// The service's code and message, if it refused.
    pub says: String,
}

/// The reason why a resource can't become an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Needs a change: what was found, and what to do.
    Lasting(String),
    /// May pass: the service did not answer in time.
    Passing(String),
}

/// Returns whether a resource can be checked from this `account`: other accounts' buses can't.
///
/// Source: EventBridge API reference, `DescribeEventBus`.
pub fn is_askable(resource: &Resource, account: &str) -> bool {
    resource.kind != ResourceKind::EventBridgeBus || resource.arn.account == account
}

/// Returns why a resource can't become an endpoint now. `account` is the deployment's.
///
/// Only Lambda can be asked for the permission to deliver (`DryRun`); others are asked to describe
/// the resource. Another account may allow sending alone: a refused description says nothing.
pub fn obstacle(resource: &Resource, account: &str, finding: &Finding) -> Option<Obstacle> {
    let is_foreign = resource.arn.account != account;
    let action = resource.kind.rules().check_action;
    let Finding { outcome, says } = finding;
    let says = if says.is_empty() { String::new() } else { format!(" ({says})") };
    let advice = match outcome {
        Outcome::Delivered => return None,
        Outcome::Forbidden if is_foreign && resource.kind != ResourceKind::LambdaFunction => {
            return None;
        }
        Outcome::NotFound => "Create it first".to_owned(),
        Outcome::Forbidden if is_foreign => {
            format!("Its policy, in its own account, must allow {action} to dispatch's role")
        }
        Outcome::Forbidden => format!(
            "dispatch's role may {action} by the deployment's policy: try again if the resource was \
             added to it just now, or look for a policy that denies it"
        ),
        Outcome::Disabled | Outcome::InvalidFunctionDestination => "Make it ready first".to_owned(),
        Outcome::BadRequest => "Compare its ARN with the one that its service shows".to_owned(),
        _ => return Some(Obstacle::Passing(format!("{outcome}{says}"))),
    };
    Some(Obstacle::Lasting(format!("{outcome}{says}. {advice}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacle_table() {
        use Outcome::{
            Busy, Delivered, Forbidden, InvalidFunctionDestination, NotFound, TimedOut,
            Unauthorized,
        };
        use ResourceKind::{EventBridgeBus, KinesisStream, LambdaFunction, SnsTopic, SqsQueue};
        let (own, other) = ("111122223333", "444455556666");
        let table = [
            (SqsQueue, own, Delivered, None),
            (SqsQueue, own, NotFound, Some("Create it first")),
            (SnsTopic, other, NotFound, Some("Create it first")),
            (SqsQueue, own, Forbidden, Some("may sqs:GetQueueAttributes by")),
            (SqsQueue, other, Forbidden, None),
            (SnsTopic, other, Forbidden, None),
            (KinesisStream, other, Forbidden, None),
            (EventBridgeBus, other, Forbidden, None),
            (EventBridgeBus, own, NotFound, Some("Create it first")),
            (LambdaFunction, own, Forbidden, Some("may lambda:InvokeFunction by")),
            (LambdaFunction, other, Forbidden, Some("Its policy, in its own account, must allow")),
            (LambdaFunction, own, InvalidFunctionDestination, Some("Make it ready first")),
            (SqsQueue, own, Busy, Some("Passing")),
            (SqsQueue, other, TimedOut, Some("Passing")),
            (SqsQueue, own, Unauthorized, Some("Passing")),
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
            let found = obstacle(&resource, own, &finding).map(|found| format!("{found:?}"));
            assert_eq!(is_askable(&resource, own), kind != EventBridgeBus || account == own);
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
