//! The ledger's lines in the functions' logs.

use std::collections::BTreeSet;

use gridpost_core::{ledger::Ledger, metric, subscription::SubscriptionKey, time::Timestamp};
use serde_json::{Value, json};

use super::verdict::Audit;
use crate::aws_api::{AwsApi, Service, if_found};
use crate::document::TimeToLive;
use crate::failure::Misuse;
use crate::output::text_at;
use crate::target::Target;

/// The functions that count events; manage those that are purged. The first one counts none that end,
/// and expand counts none at all: ingest has, when it accepted them.
const FUNCTIONS: [&str; 5] = ["ingest", "dispatch", "dead-letter", "redrive", "manage"];

/// Reads what all functions counted of events that were published in the audit's time, before its
/// cut-off and from then on.
///
/// # Errors
///
/// A log that is not there or can't be read.
pub(super) async fn read(target: &Target, audit: &mut Audit) -> anyhow::Result<()> {
    let logs = AwsApi::connect(Service::Logs, target).await?;
    for function in FUNCTIONS {
        let group = group(target, function);
        // Every line that counts events contains it, and hardly any other.
        let since = audit.since;
        let take = |at_ms: Option<i64>, line: &str| audit.take(at_ms, line);
        each_line(&logs, &group, since, metric::PUBLISH_HOUR, take).await?;
    }
    Ok(())
}

/// Event subscriptions that manage has created or changed since then.
///
/// # Errors
///
/// As above.
pub(super) async fn changed(
    target: &Target,
    since: Timestamp,
) -> anyhow::Result<BTreeSet<SubscriptionKey>> {
    let logs = AwsApi::connect(Service::Logs, target).await?;
    let mut found = BTreeSet::new();
    let group = group(target, "manage");
    each_line(&logs, &group, since, CHANGED, |_, line| found.extend(changed_one(line))).await?;
    Ok(found)
}

/// What manage's lines about changes of event subscriptions contain, as a filter pattern.
const CHANGED: &str = "\"event subscription\"";

/// The event subscription whose change the line tells.
fn changed_one(line: &str) -> Option<SubscriptionKey> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    let told = text("message")?;
    let is_change = ["created", "replaced"].iter().any(|verb| told.ends_with(verb));
    let key = SubscriptionKey { topic: text("topic.name")?, name: text("subscription.name")? };
    is_change.then_some(key)
}

/// What all functions counted of events that were published since the beginning of the hour so long ago,
/// without what waits.
///
/// # Errors
///
/// As above.
pub(crate) async fn counted(target: &Target, since: TimeToLive) -> anyhow::Result<Ledger> {
    counted_by(&FUNCTIONS, target, since).await
}

/// The ends among them: delivered, dead-lettered, dropped.
///
/// # Errors
///
/// As above.
pub(crate) async fn ended(target: &Target, since: TimeToLive) -> anyhow::Result<Ledger> {
    counted_by(&FUNCTIONS[1..], target, since).await
}

async fn counted_by(
    functions: &[&str],
    target: &Target,
    since: TimeToLive,
) -> anyhow::Result<Ledger> {
    let logs = AwsApi::connect(Service::Logs, target).await?;
    let since = target.ago(since).await?.hour();
    let mut ledger = Ledger::default();
    for function in functions {
        let take = |_: Option<i64>, line: &str| {
            ledger.read(line, since);
        };
        each_line(&logs, &group(target, function), since, metric::PUBLISH_HOUR, take).await?;
    }
    Ok(ledger)
}

/// The log group of a function.
pub(crate) fn group(target: &Target, function: &str) -> String {
    format!("/aws/lambda/{}-{function}", target.name_prefix())
}

/// Hands over each line with that word, and when it was logged, in milliseconds.
pub(crate) async fn each_line(
    logs: &AwsApi,
    group: &str,
    since: Timestamp,
    word: &str,
    mut take: impl FnMut(Option<i64>, &str),
) -> anyhow::Result<()> {
    let ask = json!({
        "logGroupName": group, "startTime": since.as_millis(), "filterPattern": word,
    });
    let all = |event: &Value| {
        take(event["timestamp"].as_i64(), text_at(event, "/message"));
        true
    };
    pages(logs, ask, all).await
}

/// Hands over each line with that word that was logged from one time to another, until `take` wants no more.
pub(crate) async fn lines_between(
    logs: &AwsApi,
    group: &str,
    (from, to): (Timestamp, Timestamp),
    word: &str,
    mut take: impl FnMut(&str) -> bool,
) -> anyhow::Result<()> {
    let ask = json!({
        "logGroupName": group, "startTime": from.as_millis(), "endTime": to.as_millis(),
        "filterPattern": word,
    });
    pages(logs, ask, |event| take(text_at(event, "/message"))).await
}

/// Hands over what is asked for, page after page, until `take` wants no more.
async fn pages(
    logs: &AwsApi,
    mut ask: Value,
    mut take: impl FnMut(&Value) -> bool,
) -> anyhow::Result<()> {
    loop {
        let page = if_found(logs.call("FilterLogEvents", &ask).await)?.ok_or_else(|| {
            Misuse(format!(
                "there is no log group {}: give the deployment's --name-prefix \
                 (GRIDPOST_NAME_PREFIX), and its region by --manage-url or AWS_REGION",
                text_at(&ask, "/logGroupName")
            ))
        })?;
        if !page["events"].as_array().into_iter().flatten().all(&mut take) {
            return Ok(());
        }
        match page.get("nextToken").and_then(Value::as_str) {
            Some(token) => ask["nextToken"] = json!(token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_manages_lines() {
        let line = |message: &str| {
            json!({"level": "INFO", "message": message, "topic.name": "shop",
                "subscription.name": "a"})
            .to_string()
        };
        let key = SubscriptionKey { topic: "shop".to_owned(), name: "a".to_owned() };
        let table = [
            ("event subscription shop/a replaced", Some(key.clone())),
            ("event subscription shop/a created", Some(key)),
            ("event subscription shop/a deleted", None),
            ("event subscription shop/a given a new signing secret", None),
        ];
        for (message, want) in table {
            assert_eq!(changed_one(&line(message)), want, "{message}");
        }
        assert_eq!(changed_one("START RequestId: event subscription"), None);
    }
}
