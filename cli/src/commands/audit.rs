//! `gridpost audit`: the ledger of a deployment, and whether it balances.
//!
//! The counts come out of the functions' logs, what waits from the resource API, what is under way
//! from the queues. [`report`] makes of them what is printed.

pub mod report;

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use gridpost_core::{ledger::Ledger, subscription::SubscriptionKey, time::Timestamp};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::aws_api::{AwsApi, Service, if_found};
use crate::document::TimeToLive;
use crate::failure::Misuse;
use crate::manage_api::{ManageApi, waiting::ParkedChoice};
use crate::output::{Output, text_at};
use crate::target::{Target, TargetArguments};
use crate::wall_clock;
use report::{Audit, Queues, Verdict};

/// The functions that count events; manage those that somebody purges.
const FUNCTIONS: [&str; 4] = ["ingest", "dispatch", "dead-letter", "manage"];

/// Every line that counts events contains it, and hardly any other.
const FILTER_PATTERN: &str = "PublishHour";

/// What is waited before the next look, while it does not balance.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What to look at.
#[derive(Args, Debug)]
pub struct AuditArguments {
    /// Only this topic
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,

    /// Only this event subscription of the topic
    #[arg(long, value_name = "NAME", requires = "topic")]
    subscription: Option<String>,

    /// Events published since so long, from the beginning of that hour on: 90m, 24h, 7d
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: TimeToLive,

    /// Look again for so many seconds while it does not balance
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
}

impl AuditArguments {
    fn wants(&self, key: &SubscriptionKey) -> bool {
        self.topic.as_ref().is_none_or(|topic| *topic == key.topic)
            && self.subscription.as_ref().is_none_or(|name| *name == key.name)
    }
}

/// Runs `gridpost audit`.
///
/// # Errors
///
/// When it does not balance, or something it needs can't be read.
pub async fn run(
    arguments: &AuditArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    let audit = look_until(arguments, target).await?;
    output.print(&audit.document(), |_| audit.text());
    match audit.verdict() {
        Verdict::Balances | Verdict::UnderWay { .. } => Ok(()),
        Verdict::Missing { events } => Err(anyhow::anyhow!(
            "the ledger does not balance: of {events} events no end is known, and no queue holds them"
        )),
    }
}

/// Looks until the ledger balances, or for as long as was asked.
///
/// # Errors
///
/// When something that it needs can't be read.
pub async fn look_until(
    arguments: &AuditArguments,
    target: &TargetArguments,
) -> anyhow::Result<Audit> {
    let target = target.resolve()?;
    let last_look = Instant::now() + Duration::from_secs(arguments.wait);
    loop {
        let audit = look(arguments, &target).await?;
        if audit.balances() || Instant::now() >= last_look {
            return Ok(audit);
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Reads everything once.
async fn look(arguments: &AuditArguments, target: &Target) -> anyhow::Result<Audit> {
    let until = Timestamp::parse_rfc_3339(&wall_clock::now_rfc3339()).unwrap_or_default();
    let back_ms = i64::from(arguments.since.minutes) * 60_000;
    let since = Timestamp::from_millis(until.as_millis() - back_ms).hour();
    // The queues before the logs: what leaves a queue meanwhile is then explained by both.
    let name_prefix = target.name_prefix();
    let queues = queues(target, name_prefix).await.map_err(|err| format!("{err:#}"));
    let mut ledger = Ledger::default();
    let logs = AwsApi::connect(Service::Logs, target).await?;
    for function in FUNCTIONS {
        let group = format!("/aws/lambda/{name_prefix}-{function}");
        read_log(&logs, &group, since, &mut ledger).await?;
    }
    ledger.accounts.retain(|(key, _), _| arguments.wants(key));
    ledger
        .intakes
        .retain(|(topic, _), _| arguments.topic.as_ref().is_none_or(|wanted| wanted == topic));
    let mut audit = Audit { since, until, ledger, queues, waiting: 0, largest_batch: 1 };
    let api = target.manage_api().await?;
    add_waiting(arguments, &api, &mut audit).await?;
    if audit.verdict() != Verdict::Balances {
        add_parked(arguments, &api, &mut audit).await?;
    }
    Ok(audit)
}

/// Reads what a function counted of events published at `since` or later.
async fn read_log(
    logs: &AwsApi,
    group: &str,
    since: Timestamp,
    ledger: &mut Ledger,
) -> anyhow::Result<()> {
    let mut ask = json!({
        "logGroupName": group, "startTime": since.as_millis(), "filterPattern": FILTER_PATTERN,
    });
    loop {
        let page = if_found(logs.call("FilterLogEvents", &ask).await)?.ok_or_else(|| {
            Misuse(format!(
                "there is no log group {group}: give the deployment's --name-prefix \
                 (GRIDPOST_NAME_PREFIX), and its region by --manage-url or AWS_REGION"
            ))
        })?;
        for event in page["events"].as_array().into_iter().flatten() {
            ledger.read(text_at(event, "/message"), since);
        }
        match page["nextToken"].as_str() {
            Some(token) => ask["nextToken"] = json!(token),
            None => return Ok(()),
        }
    }
}

/// Adds the deliveries that have failed and not ended.
async fn add_waiting(
    arguments: &AuditArguments,
    api: &ManageApi,
    audit: &mut Audit,
) -> anyhow::Result<()> {
    let topics = match &arguments.topic {
        Some(topic) => api.find_topic(topic).await?.into_iter().collect(),
        None => api.topics().await?,
    };
    for topic in topics {
        let topic = text_at(&topic, "/name");
        for subscription in api.subscriptions(topic).await? {
            let key = SubscriptionKey {
                topic: topic.to_owned(),
                name: text_at(&subscription, "/name").to_owned(),
            };
            audit.largest_batch = audit.largest_batch.max(largest_batch(&subscription));
            if !arguments.wants(&key) {
                continue;
            }
            let take = |delivery: &Value| {
                let published_at = Timestamp::parse_rfc_3339(text_at(delivery, "/publishTime"));
                let published_at = published_at.unwrap_or_default();
                let over = matches!(text_at(delivery, "/standing"), "Ended" | "Delivered");
                audit.waiting += 1;
                if published_at >= audit.since && !over {
                    let events = delivery["events"].as_u64().unwrap_or(0);
                    audit.ledger.wait(&key, published_at, events);
                }
            };
            let waiting = api.each_delivery(topic, &key.name, take).await;
            waiting.with_context(|| format!("the deliveries of {key} cannot be read"))?;
        }
    }
    Ok(())
}

/// Adds the deliveries that were parked before their first attempt: nothing else tells of them. All of
/// the state table is looked through for it.
async fn add_parked(
    arguments: &AuditArguments,
    api: &ManageApi,
    audit: &mut Audit,
) -> anyhow::Result<()> {
    let choice = ParkedChoice {
        topic: arguments.topic.clone(),
        subscription: arguments.subscription.clone(),
        ..ParkedChoice::default()
    };
    let parked = api.parked(&choice).await.context("parked deliveries cannot be read")?;
    for delivery in parked.iter().filter(|delivery| delivery["deliveryAttempts"] == 0) {
        let key = SubscriptionKey {
            topic: text_at(delivery, "/topic").to_owned(),
            name: text_at(delivery, "/eventSubscription").to_owned(),
        };
        let published_at = Timestamp::parse_rfc_3339(text_at(delivery, "/publishTime"));
        if let Some(published_at) = published_at.filter(|at| *at >= audit.since) {
            let events = delivery["events"].as_u64().unwrap_or(0);
            audit.ledger.wait(&key, published_at, events);
        }
    }
    Ok(())
}

/// The most events that a delivery of the event subscription carries.
fn largest_batch(subscription: &Value) -> u64 {
    let places = ["/properties/destination/properties/maxEventsPerBatch"];
    let most = places.iter().find_map(|place| subscription.pointer(place).and_then(Value::as_u64));
    most.unwrap_or(1)
}

/// What the deployment's queues hold, about.
async fn queues(target: &Target, name_prefix: &str) -> anyhow::Result<Queues> {
    let sqs = AwsApi::connect(Service::Sqs, target).await?;
    let mut queues = Queues::default();
    let mut ask = json!({"QueueNamePrefix": format!("{name_prefix}-"), "MaxResults": 1_000});
    loop {
        let page = sqs.call("ListQueues", &ask).await?;
        for url in page["QueueUrls"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let name = url.rsplit('/').next().unwrap_or_default();
            let role = name.strip_prefix(name_prefix).and_then(|rest| rest.strip_prefix('-'));
            if let Some(held) = role.and_then(|role| queues.of(role)) {
                let counted = sqs.call("GetQueueAttributes", &counts_of(url)).await?;
                *held += messages(&counted);
            }
        }
        match page["NextToken"].as_str() {
            Some(token) => ask["NextToken"] = json!(token),
            None => return Ok(queues),
        }
    }
}

fn counts_of(queue_url: &str) -> Value {
    json!({"QueueUrl": queue_url, "AttributeNames": COUNTS})
}

const COUNTS: [&str; 3] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
];

fn messages(answer: &Value) -> u64 {
    let count = |name: &str| answer["Attributes"][name].as_str()?.parse::<u64>().ok();
    COUNTS.into_iter().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_counts_are_numbers_as_text() {
        let answer = json!({"Attributes": {
            "ApproximateNumberOfMessages": "3", "ApproximateNumberOfMessagesNotVisible": "4",
        }});
        assert_eq!(messages(&answer), 7);
        assert_eq!(messages(&Value::Null), 0);
    }

    #[test]
    fn batches_are_as_large_as_the_event_subscription_allows() {
        let of = |properties: Value| {
            largest_batch(&json!({"properties": {"destination": {"properties": properties}}}))
        };
        assert_eq!(of(json!({"maxEventsPerBatch": 7})), 7);
        assert_eq!(of(json!({})), 1);
    }
}
