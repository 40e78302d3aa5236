//! The ledger's lines in the functions' logs.

use std::collections::BTreeSet;

use anyhow::Context;
use gridpost_core::{ledger::Ledger, metric, subscription::SubscriptionKey, time::Timestamp};
use serde::{Deserialize, Serialize};

use super::verdict::Audit;
use crate::{
    aws_api::{AwsApi, Service},
    aws_refusal::if_found,
    failure::Misuse,
    given::TimeSpan,
    target::Target,
};

/// The functions that count events; manage those that are purged. The first two count none that end,
/// and expand counts none at all: ingest and intake have, when they accepted them.
const FUNCTIONS: [&str; 6] = ["ingest", SOURCES, "dispatch", "dead-letter", "redrive", "manage"];

/// The log group that the functions of all AWS sources share. It exists only with `aws_sources`.
const SOURCES: &str = "intake";

/// Reads what all functions counted of events that were published in the audit's time, before its
/// cut-off and from then on.
pub(super) async fn read(target: &Target, audit: &mut Audit) -> anyhow::Result<()> {
    let logs = AwsApi::connect(Service::Logs, target).await?;
    let since = audit.since;
    let take = |at_ms, line: &str| audit.take(at_ms, line);
    audit.without_log = counts(&logs, target.name_prefix(), &FUNCTIONS, since, take).await?;
    Ok(())
}

/// The first hour that the log groups still hold whole: the least of them all.
pub(super) async fn kept_since(target: &Target, now: Timestamp) -> anyhow::Result<Timestamp> {
    let logs = AwsApi::connect(Service::Logs, target).await?;
    let days = kept_days(&logs, target.name_prefix()).await?;
    Ok(days.map_or_else(Timestamp::default, |days| first_whole_hour(days, now)))
}

fn first_whole_hour(days: i64, now: Timestamp) -> Timestamp {
    const HOUR_MS: i64 = 3_600_000;
    Timestamp::from_millis(now.as_millis() - days * 24 * HOUR_MS + HOUR_MS - 1).hour()
}

/// A `DescribeLogGroups` request.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupQuery {
    log_group_name_prefix: String,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupPage {
    #[serde(default)]
    log_groups: Vec<LogGroup>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogGroup {
    log_group_name: String,
    retention_in_days: Option<i64>,
}

/// Returns for how many days the log groups keep lines, the least of them; `None` if all keep them for ever.
async fn kept_days(logs: &AwsApi, prefix: &str) -> anyhow::Result<Option<i64>> {
    let mut days = Vec::new();
    let own = FUNCTIONS.map(|function| group_of(prefix, function));
    let mut query = GroupQuery { log_group_name_prefix: group_of(prefix, ""), next_token: None };
    loop {
        let page = logs.call("DescribeLogGroups", &query).await?;
        let GroupPage { log_groups, next_token } =
            serde_json::from_value(page).context("the log groups can't be read")?;
        // Another deployment's names may begin with the same words.
        let groups = log_groups.into_iter().filter(|group| own.contains(&group.log_group_name));
        days.extend(groups.filter_map(|group| group.retention_in_days));
        if next_token.is_none() {
            return Ok(days.into_iter().min());
        }
        query.next_token = next_token;
    }
}

/// Event subscriptions that manage has created or changed since then.
pub(super) async fn changed(
    target: &Target,
    since: Timestamp,
) -> anyhow::Result<BTreeSet<SubscriptionKey>> {
    let logs = AwsApi::connect(Service::Logs, target).await?;
    let mut found = BTreeSet::new();
    let group = group(target, "manage");
    let take = |event: LogEvent| {
        found.extend(changed_subscription(&event.message));
        true
    };
    match each_event(&logs, query(&group, since, CHANGED), take).await? {
        true => Ok(found),
        false => Err(no_group(&group).into()),
    }
}

/// A filter pattern that manage's lines about changes of event subscriptions match.
const CHANGED: &str = "\"event subscription\"";

/// A line of manage about an event subscription.
#[derive(Deserialize)]
struct ManageLine {
    message: String,
    #[serde(rename = "topic.name")]
    topic: String,
    #[serde(rename = "subscription.name")]
    name: String,
}

fn changed_subscription(line: &str) -> Option<SubscriptionKey> {
    let ManageLine { message, topic, name } = serde_json::from_str(line).ok()?;
    let is_change = ["created", "replaced"].iter().any(|verb| message.ends_with(verb));
    is_change.then_some(SubscriptionKey { topic, name })
}

/// Returns all functions' counts of events published since the beginning of the hour so long ago,
/// without what waits.
pub async fn counted(target: &Target, since: TimeSpan) -> anyhow::Result<Ledger> {
    counted_by(&FUNCTIONS, target, since).await
}

/// The ends among them: delivered, dead-lettered, dropped.
pub(crate) async fn ended(target: &Target, since: TimeSpan) -> anyhow::Result<Ledger> {
    counted_by(&FUNCTIONS[2..], target, since).await
}

async fn counted_by(
    functions: &[&str],
    target: &Target,
    since: TimeSpan,
) -> anyhow::Result<Ledger> {
    let logs = AwsApi::connect(Service::Logs, target).await?;
    let since = target.ago(since).await?.hour();
    let mut ledger = Ledger::default();
    let take = |_, line: &str| {
        ledger.read(line, since);
    };
    counts(&logs, target.name_prefix(), functions, since, take).await?;
    Ok(ledger)
}

/// Takes each line in which one of these functions counted events, and when it was logged. Returns which of
/// them have no log group. A function that has never run may have none, as one that a deployment of an earlier
/// version does not have: it has counted nothing. Fails where a log can't be read, or none of them is
/// there: then the deployment is another.
async fn counts<'f>(
    logs: &AwsApi,
    prefix: &str,
    functions: &[&'f str],
    since: Timestamp,
    mut take: impl FnMut(i64, &str),
) -> anyhow::Result<Vec<&'f str>> {
    let mut without_log = Vec::new();
    for function in functions {
        // Every line that counts events contains it, and hardly any other.
        let query = query(&group_of(prefix, function), since, metric::PUBLISH_HOUR);
        let take = |event: LogEvent| {
            take(event.timestamp, &event.message);
            true
        };
        if !each_event(logs, query, take).await? {
            without_log.push(*function);
        }
    }
    if let Some(first) = functions.first().filter(|_| without_log.len() == functions.len()) {
        return Err(no_group(&group_of(prefix, first)).into());
    }
    without_log.retain(|function| *function != SOURCES);
    Ok(without_log)
}

pub(crate) fn group(target: &Target, function: &str) -> String {
    group_of(target.name_prefix(), function)
}

pub(crate) fn group_of(prefix: &str, function: &str) -> String {
    format!("/aws/lambda/{prefix}-{function}")
}

pub(crate) fn no_group(group: &str) -> Misuse {
    Misuse(format!(
        "there is no log group {group}: give the deployment's --name-prefix (GRIDPOST_NAME_PREFIX), and its \
         region by --manage-url or AWS_REGION"
    ))
}

/// A `FilterLogEvents` request.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogQuery {
    pub(crate) log_group_name: String,
    /// Milliseconds since the Unix epoch.
    pub(crate) start_time: i64,
    pub(crate) end_time: Option<i64>,
    pub(crate) filter_pattern: String,
    pub(crate) next_token: Option<String>,
}

fn query(group: &str, since: Timestamp, word: &str) -> LogQuery {
    LogQuery {
        log_group_name: group.to_owned(),
        start_time: since.as_millis(),
        filter_pattern: word.to_owned(),
        ..LogQuery::default()
    }
}

/// Takes each line with a word that was logged from one time to another, until `take` wants no more.
pub(crate) async fn lines_between(
    logs: &AwsApi,
    group: &str,
    (from, to): (Timestamp, Timestamp),
    word: &str,
    mut take: impl FnMut(&str) -> bool,
) -> anyhow::Result<()> {
    let query = LogQuery { end_time: Some(to.as_millis()), ..query(group, from, word) };
    match each_event(logs, query, |event| take(&event.message)).await? {
        true => Ok(()),
        false => Err(no_group(group).into()),
    }
}

/// An event of CloudWatch Logs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogEvent {
    pub(crate) event_id: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub(crate) timestamp: i64,
    pub(crate) message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPage {
    #[serde(default)]
    events: Vec<LogEvent>,
    next_token: Option<String>,
}

/// Takes each event that a query finds, page after page, until `take` wants no more.
/// Returns whether the log group exists.
pub(crate) async fn each_event(
    logs: &AwsApi,
    mut query: LogQuery,
    mut take: impl FnMut(LogEvent) -> bool,
) -> anyhow::Result<bool> {
    loop {
        let answer = logs.call("FilterLogEvents", &query).await;
        let Some(page) = if_found(answer)? else { return Ok(false) };
        let LogPage { events, next_token } =
            serde_json::from_value(page).context("the lines of a log group can't be read")?;
        if !events.into_iter().all(&mut take) {
            return Ok(true);
        }
        if next_token.is_none() {
            return Ok(true);
        }
        query.next_token = next_token;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::FakeApi;

    /// CloudWatch Logs' answers about the function whose group a request names.
    async fn logs(groups: &[&str]) -> (FakeApi, AwsApi) {
        let named = |group: &&str| format!("\"logGroupName\":\"{group}\"");
        let named: Vec<_> = groups.iter().map(named).collect();
        let found = json!({"events": [{"timestamp": 7, "message": "x"}]});
        let missing = json!({"__type": "ResourceNotFoundException", "message": "no such group"});
        let there = named.iter().map(|name| (name.as_str(), 200, found.clone()));
        let rows: Vec<_> = there.chain([("", 400, missing)]).collect();
        let api = FakeApi::naming(&rows).await;
        let logs = AwsApi::at(Service::Logs, &api.url());
        (api, logs)
    }

    #[tokio::test]
    async fn a_function_without_a_log_group_has_counted_nothing() {
        let all = FUNCTIONS.map(|function| group_of("g", function));
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        // (the groups that are there, the functions without one)
        let table = [
            (all.clone(), vec![]),
            (vec![all[0], all[1], all[2], all[3], all[5]], vec!["redrive"]),
            // Most deployments have no AWS sources.
            (vec![all[0], all[2], all[3], all[4], all[5]], vec![]),
            (vec![all[0]], FUNCTIONS[2..].to_vec()),
        ];
        for (groups, want) in table {
            let (_api, logs) = logs(&groups).await;
            let mut lines = 0;
            let since = Timestamp::from_millis(0);
            let without = counts(&logs, "g", &FUNCTIONS, since, |_, _| lines += 1).await;
            assert_eq!(without.expect("read"), want);
            assert_eq!(lines, groups.len(), "{groups:?}");
        }
        let (_api, logs) = logs(&[]).await;
        let since = Timestamp::from_millis(0);
        let refused = counts(&logs, "g", &FUNCTIONS, since, |_, _| {}).await.expect_err("none");
        assert!(refused.is::<Misuse>() && refused.to_string().contains("/aws/lambda/g-ingest"));
    }

    #[tokio::test]
    async fn the_log_group_that_keeps_least_says_since_when_there_is_a_ledger() {
        let group = |name: &str, days: Option<u64>| json!({"logGroupName": format!("/aws/lambda/{name}"), "retentionInDays": days});
        // (log groups, days)
        let table = [
            (vec![], None),
            (vec![group("g-ingest", None)], None),
            (vec![group("g-ingest", None), group("g-dispatch", Some(30))], Some(30)),
            (vec![group("g-ingest", Some(7)), group("g-dispatch", Some(30))], Some(7)),
            // Of another deployment, and of a function that counts nothing.
            (vec![group("g-ingest-ingest", Some(1)), group("g-wake", Some(1))], None),
        ];
        for (groups, want) in table {
            let (first, second) = groups.split_at(groups.len() / 2);
            let api = FakeApi::naming(&[
                ("\"nextToken\":\"t\"", 200, json!({"logGroups": second})),
                ("", 200, json!({"logGroups": first, "nextToken": "t"})),
            ])
            .await;
            let logs = AwsApi::at(Service::Logs, &api.url());
            let days = kept_days(&logs, "g").await.expect("read");
            assert_eq!(days, want, "{groups:?}");
        }
    }

    #[test]
    fn an_hour_is_whole_from_its_first_line_on() {
        let at = |text: &str| Timestamp::parse_rfc_3339(text).expect("a time");
        for (now, want) in [
            ("2026-11-27T08:00:00Z", "2026-11-20T08:00:00Z"),
            ("2026-11-27T08:00:00.001Z", "2026-11-20T09:00:00Z"),
            ("2026-11-27T08:59:59Z", "2026-11-20T09:00:00Z"),
        ] {
            assert_eq!(first_whole_hour(7, at(now)), at(want), "{now}");
        }
    }

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
            assert_eq!(changed_subscription(&line(message)), want, "{message}");
        }
        assert_eq!(changed_subscription("START RequestId: event subscription"), None);
    }
}
