//! Counts what waits, as an audit needs it: by the API, without loading it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use gridpost_core::{subscription::SubscriptionKey, time::Timestamp};
use serde_json::{Value, json};

use super::AuditOptions;
use super::verdict::{Audit, largest_batch};
use crate::{
    lookup::if_there,
    manage_api::{
        ManageApi,
        counted::{Budget, Waiting},
        waiting::ParkedChoice,
    },
    output::text_at,
};

/// Topics that are read, and event subscriptions whose deliveries are counted, at the same time.
const AT_ONCE: usize = 8;

/// How much a look may cost. What it leaves out, the audit says.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Requests that count what waits: each counts 10,000 deliveries.
    pub(crate) counts: usize,
    pub(crate) parked_pages: usize,
}

impl Effort {
    /// All that there is: a server that never ends is no reason to hang.
    pub(super) const WHOLE: Self = Self { counts: 100_000, parked_pages: 100_000 };

    /// The effort for a page that a person waits for: two and a half million deliveries, or what
    /// waits of 250 event subscriptions.
    pub const OF_A_PAGE: Self = Self { counts: 250, parked_pages: 20 };
}

/// Counts the deliveries that have failed and not ended; answers the names of the topics that there are.
pub(super) async fn add_waiting(
    arguments: &AuditOptions,
    api: &ManageApi,
    budget: &Budget,
    audit: &mut Audit,
) -> anyhow::Result<BTreeSet<String>> {
    let topics: BTreeSet<_> =
        api.topics().await?.iter().map(|topic| text_at(topic, "/name").to_owned()).collect();
    let wanted: Vec<_> =
        topics.iter().filter(|topic| arguments.wants_topic(topic)).cloned().collect();
    let mut failing = Vec::new();
    let mut lists = stream::iter(wanted).map(|topic| of_topic(api, topic)).buffered(AT_ONCE);
    while let Some((batches, waiting)) = lists.try_next().await? {
        audit.batches.extend(batches);
        failing.extend(waiting.into_iter().filter(|key| arguments.wants(key)));
    }
    let counts = failing.into_iter().map(|key| counted(api, budget, key));
    let mut counts = stream::iter(counts.collect::<Vec<_>>()).buffered(AT_ONCE);
    while let Some(counted) = counts.try_next().await? {
        let Counted { key, hours, is_whole } = counted;
        for (hour, Waiting { deliveries, events }) in hours {
            audit.waiting += deliveries;
            if hour >= audit.since {
                audit.ledger.wait(&key, hour, events);
            }
        }
        if !is_whole {
            audit.partial.insert(key);
        }
    }
    Ok(topics)
}

/// The event subscriptions of a topic: the most events that a delivery of each carries, and those of which
/// deliveries wait. A topic that was deleted just now has none.
async fn of_topic(
    api: &ManageApi,
    topic: String,
) -> anyhow::Result<(Vec<(SubscriptionKey, u64)>, Vec<SubscriptionKey>)> {
    let both = async { tokio::try_join!(api.subscriptions(&topic), api.healths(&topic)) };
    let (all, healths) = if_there(both.await)?.unwrap_or_default();
    let key = |one: &Value| SubscriptionKey {
        topic: topic.clone(),
        name: text_at(one, "/name").to_owned(),
    };
    let waits = |one: &&Value| one.pointer("/health/waitingDeliveries/count") != Some(&json!(0));
    let waiting = healths.iter().filter(waits).map(key).collect();
    Ok((all.iter().map(|one| (key(one), largest_batch(one))).collect(), waiting))
}

struct Counted {
    key: SubscriptionKey,
    hours: BTreeMap<Timestamp, Waiting>,
    is_whole: bool,
}

async fn counted(
    api: &ManageApi,
    budget: &Budget,
    key: SubscriptionKey,
) -> anyhow::Result<Counted> {
    let mut hours: BTreeMap<_, Waiting> = BTreeMap::new();
    let take = |hour: &str, more: Waiting| {
        if let Some(hour) = Timestamp::parse_rfc_3339(hour) {
            let sum = hours.entry(hour).or_default();
            sum.deliveries += more.deliveries;
            sum.events += more.events;
        }
    };
    let counting = if_there(api.count_waiting(&key.topic, &key.name, budget, take).await);
    let is_whole =
        counting.with_context(|| format!("the deliveries of {key} cannot be counted"))?;
    Ok(Counted { key, hours, is_whole: is_whole.unwrap_or(true) })
}

/// How many deliveries have failed and not ended of the event subscriptions that were not asked about:
/// the queues hold theirs, too.
pub(super) async fn waiting_of_others(
    arguments: &AuditOptions,
    api: &ManageApi,
    topics: &BTreeSet<String>,
) -> anyhow::Result<BTreeMap<SubscriptionKey, u64>> {
    let mut found = BTreeMap::new();
    if arguments.topic.is_none() {
        return Ok(found);
    }
    let budget = Budget::of(Effort::WHOLE.counts);
    for topic in topics {
        let (_, waiting) = of_topic(api, topic.clone()).await?;
        for key in waiting.into_iter().filter(|key| !arguments.wants(key)) {
            let Counted { key, hours, .. } = counted(api, &budget, key).await?;
            found.insert(key, hours.values().map(|waiting| waiting.deliveries).sum());
        }
    }
    Ok(found)
}

/// Parked deliveries, of so many pages at most; whether these are all. All of the state table is looked
/// through for it.
pub(super) async fn parked(
    api: &ManageApi,
    pages_max: usize,
) -> anyhow::Result<(Vec<Value>, bool)> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..pages_max {
        let page = api.parked_page(&ParkedChoice::default(), after.as_deref()).await;
        let page = page.context("parked deliveries cannot be read")?;
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok((found, true));
        }
    }
    Ok((found, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::tests::{arguments, nothing},
        testkit::FakeApi,
    };

    /// What waits is counted and not listed; the one that a look has no request left for is partial.
    #[tokio::test]
    async fn what_waits_is_counted_as_far_as_the_effort_goes() {
        let count = |at: &str, events: u64| json!({"byPublishHour": {at: {"deliveries": 2, "events": events}}});
        let of = |found: Value| json!({ "value": found });
        let health = |name: &str, count: u64| json!({"name": name, "health": {"waitingDeliveries": {"count": count}}});
        let (old, late) = ("2026-11-21T06:00:00.000Z", "2026-11-21T08:00:00.000Z");
        let at = "GET /topics/t/eventSubscriptions";
        let [a, b] = ["a", "b"].map(|name| format!("{at}/{name}/deliveries:count"));
        let api = FakeApi::answering(&[
            (&a, 200, count(old, 3)),
            (&b, 200, count(late, 7)),
            (at, 200, of(json!([{"name": "a"}, {"name": "b"}, {"name": "idle"}]))),
            (
                "GET /topics/t/healths",
                200,
                of(json!([health("a", 2), health("b", 2), health("idle", 0)])),
            ),
            ("GET /topics ", 200, of(json!([{"name": "t"}]))),
        ])
        .await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        let arguments = arguments(None, None);
        for (calls, waiting, partial) in [(2, 4, 0), (1, 2, 1)] {
            let since = Timestamp::parse_rfc_3339(late).expect("a time");
            let mut audit = Audit { since, ..nothing() };
            let budget = Budget::of(calls);
            let topics = add_waiting(&arguments, &client, &budget, &mut audit).await;
            assert_eq!(topics.expect("counted").len(), 1);
            assert_eq!((audit.waiting, audit.partial.len()), (waiting, partial), "{calls} calls");
            // Those that were published before the time asked for are in the queues all the same.
            let events: u64 = audit.ledger.accounts.values().map(|it| it.waiting).sum();
            assert!(events == 7 || partial == 1 && events == 0, "{events}");
            assert_eq!(audit.batches.len(), 3);
        }
    }
}
