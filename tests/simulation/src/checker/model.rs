//! The rules again, read from the specification's own tables: a second opinion that shares no code
//! with the one it judges.

use std::sync::OnceLock;

use gridpost_core::{
    retry::{
        outcome::{Answer, Outcome},
        profile::{ProfileName, Rule},
    },
    subscription::{Endpoint, EventSubscription},
    time::Timestamp,
    topic::Topic,
};
use serde_json::Value;

/// The next step after a failure, by the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    End,
    /// Another attempt, no sooner than this many milliseconds after the attempt ended.
    Retry(i64),
}

fn tables() -> &'static (Value, Value) {
    static TABLES: OnceLock<(Value, Value)> = OnceLock::new();
    TABLES.get_or_init(|| {
        let read = |text| serde_json::from_str(text).expect("the tables are JSON");
        let profiles = read(include_str!("../../../conformance/profiles.json"));
        (profiles, read(include_str!("../../../conformance/health.json")))
    })
}

fn profile(topic: &Topic) -> &'static Value {
    let name = match topic.delivery_profile {
        ProfileName::Basic => "basic",
        ProfileName::Basic2021 => "basic2021",
        ProfileName::Namespace => "namespace",
    };
    &tables().0["profiles"][name]
}

/// The answer that decides about a delivery: that everything was delivered, or of the retried
/// answers the one with the longest wait, or one that ends it.
pub fn decisive(topic: &Topic, subscription: &EventSubscription, met: &[Answer]) -> Answer {
    let wait_ms = |answer: &Answer| match follows(topic, subscription, *answer) {
        Follows::Retry(wait_ms) => {
            let asked = answer.retry_after.map_or(0, |wait| wait.as_millis() as i64);
            Some(wait_ms.max(asked))
        }
        Follows::End => None,
    };
    let failed = || met.iter().filter(|answer| answer.outcome != Outcome::Delivered);
    let retried = failed().filter(|answer| wait_ms(answer).is_some());
    let longest = retried.max_by_key(|answer| wait_ms(answer));
    *longest.or_else(|| failed().next_back()).unwrap_or(&met[0])
}

pub fn follows(topic: &Topic, subscription: &EventSubscription, answer: Answer) -> Follows {
    // An endpoint has decided about one event of a request that it has accepted.
    let answer = match answer.outcome {
        Outcome::EventRejected => return Follows::End,
        Outcome::EventFailed => Answer { status: None, ..answer },
        _ => answer,
    };
    let own = &subscription.retry_policy.status_rules;
    let by_status = answer.status.and_then(|status| own.statuses.get(&status));
    let class = answer.status.and_then(|status| own.classes.get(&((status / 100) as u8)));
    let own = by_status.or(class).or_else(|| own.outcomes.get(&answer.outcome));
    match own {
        Some(Rule::End) => return Follows::End,
        Some(Rule::Retry { min_s }) => return Follows::Retry(i64::from(*min_s) * 1_000),
        None => {}
    }
    let column = match subscription.endpoint {
        Endpoint::WebHook { .. } => "webhook",
        Endpoint::Resource(_) => "resource",
    };
    let rows = &profile(topic)[column];
    let row = answer.status.map_or(answer.outcome.to_string(), |status| status.to_string());
    let row = rows.get(&row).unwrap_or(&rows["default"]);
    let Some(wait_s) = row["retryAfterSeconds"].as_i64() else { return Follows::End };
    let lifted = wait_s <= 10 && subscription.retry_policy.schedule_s.is_some();
    Follows::Retry(if lifted { 0 } else { wait_s * 1_000 })
}

/// The first step of the schedule later than `elapsed_ms`, in milliseconds from the first attempt.
fn step_after(topic: &Topic, subscription: &EventSubscription, elapsed_ms: i64) -> i64 {
    let (steps, gap) = match &subscription.retry_policy.schedule_s {
        Some(own) => {
            let own: Vec<_> = own.iter().map(|step| i64::from(*step)).collect();
            let before = if own.len() > 1 { own[own.len() - 2] } else { 0 };
            let gap = own[own.len() - 1] - before;
            (own, gap)
        }
        None => {
            let steps = profile(topic)["scheduleSeconds"].as_array().expect("a list");
            let steps = steps.iter().filter_map(Value::as_i64).collect();
            (steps, profile(topic)["thenEverySeconds"].as_i64().expect("a number"))
        }
    };
    let mut steps = steps.into_iter();
    let mut step = 0;
    while step * 1_000 <= elapsed_ms {
        step = steps.next().unwrap_or(step + gap);
    }
    step * 1_000
}

/// When the next attempt is due at the earliest, without the endpoint's waits; `None` if there is
/// none.
pub fn due(
    topic: &Topic,
    subscription: &EventSubscription,
    (first_at, ended_at, expires_at): (Timestamp, Timestamp, Timestamp),
    answer: Answer,
) -> Option<Timestamp> {
    let Follows::Retry(min_ms) = follows(topic, subscription, answer) else { return None };
    let left = (expires_at.as_millis() - ended_at.as_millis()).max(0);
    let asked = answer.retry_after.map_or(0, |wait| (wait.as_millis() as i64).min(left));
    let step = step_after(topic, subscription, ended_at.as_millis() - first_at.as_millis());
    let by_step = first_at.as_millis() + step;
    Some(Timestamp::from_millis(by_step.max(ended_at.as_millis() + min_ms.max(asked))))
}

/// How many seconds of probation that outcome causes; 0 for none.
pub fn probation_s(outcome: Outcome) -> i64 {
    tables().1["probationSeconds"][outcome.to_string()].as_i64().unwrap_or(0)
}

/// The number of failures in a row that delay delivery.
pub fn unhealthy_after() -> usize {
    tables().1["delayedDelivery"]["afterConsecutiveFailures"].as_u64().expect("a number") as usize
}

/// How long the wait of that level (from 1) is, in seconds.
pub fn delayed_wait_s(level: usize) -> i64 {
    let waits = tables().1["delayedDelivery"]["waitSeconds"].as_array().expect("a list");
    waits[(level - 1).min(waits.len() - 1)].as_i64().expect("a number")
}
