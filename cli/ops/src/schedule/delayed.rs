//! A time-to-live beside the waits of delayed delivery: an event that is published during a longer one ends
//! without an attempt.

use std::time::Duration;

use gridpost_core::retry::health::{DELAYED_WAITS_S, UNHEALTHY_AFTER};
use gridpost_core::retry::policy::RetryPolicy;
use gridpost_core::retry::profile::ProfileName;
use serde_json::Value;

use super::{checked, hours};

/// What is wrong with a policy whose events live shorter than its endpoint may not be asked.
pub(crate) fn warning(policy: &RetryPolicy) -> Option<String> {
    let lives = Duration::from_secs(u64::from(policy.time_to_live_minutes) * 60);
    let waits = DELAYED_WAITS_S.map(|seconds| Duration::from_secs(u64::from(seconds)));
    let over = waits.iter().position(|wait| *wait > lives)?;
    let longest = waits[waits.len() - 1];
    let probes = match over {
        0 => String::new(),
        1 => " and a failed probe".to_owned(),
        probes => format!(" and {probes} failed probes"),
    };
    let later = match waits[over] == longest {
        true => String::new(),
        false => format!(", later up to {}", hours(longest)),
    };
    Some(format!(
        "a time-to-live of {} is shorter than a wait of delayed delivery: after {UNHEALTHY_AFTER} failures in a \
         row{probes} the endpoint is not asked for {}{later}, and an event that is published meanwhile may end \
         without an attempt",
        hours(lives),
        hours(waits[over]),
    ))
}

/// The same of an event subscription's document, as it is saved or is to be; none where it has no policy that
/// can be read.
pub fn warning_of(subscription: &Value) -> Option<String> {
    let policy = subscription.pointer("/properties/retryPolicy").filter(|it| it.is_object())?;
    let is_namespace = ["maxDeliveryCount", "eventTimeToLive"]
        .iter()
        .any(|member| policy.get(member).is_some_and(|value| !value.is_null()));
    let profile = if is_namespace { ProfileName::Namespace } else { ProfileName::Basic };
    warning(&checked(policy.clone(), profile).ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_to_live_that_is_shorter_than_a_wait_is_told_with_both() {
        let of = |policy: Value| warning_of(&json!({"properties": {"retryPolicy": policy}}));
        let minutes = |minutes: u32| of(json!({"eventTimeToLiveInMinutes": minutes}));
        let table = [
            (minutes(1), Some(["1 min is", "a failed probe", "for 5 min, later up to 3 h"])),
            (minutes(30), Some(["30 min is", "4 failed probes", "for 1 h, later up to 3 h"])),
            (minutes(179), Some(["2 h 59 min is", "5 failed probes", "for 3 h, and"])),
            (minutes(180), None),
            (of(json!({})), None),
            (of(json!({"eventTimeToLive": "PT2H"})), Some(["2 h is", "5 failed", "for 3 h, and"])),
            (of(json!({"eventTimeToLive": "P7D"})), None),
            (warning_of(&json!({"properties": {}})), None),
        ];
        for (told, want) in table {
            match (&told, want) {
                (None, None) => {}
                (Some(told), Some(parts)) => {
                    assert!(parts.iter().all(|part| told.contains(part)), "{parts:?}: {told}");
                }
                (told, want) => panic!("{told:?} in place of {want:?}"),
            }
        }
    }
}
