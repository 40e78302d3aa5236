//! Counts what waits, as an audit needs it: by the API, without loading it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use gridpost_api::{
    delivery::{DeliveryCount, WaitingCount},
    requests::ParkedInput,
    schema::Time,
    waiting::Parked,
};
use gridpost_core::subscription::SubscriptionKey;

use super::AuditOptions;
use super::verdict::{Audit, Batch, largest_batch};
use crate::{lookup::if_there, manage_api::ManageApi};

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

/// Requests that may still be made, by all that count at the same time.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    /// Allows this many calls.
    pub(super) fn of(calls: usize) -> Self {
        Self(AtomicUsize::new(calls))
    }

    fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Counts the deliveries that have failed and not ended. Returns the names of all topics.
pub(super) async fn add_waiting(
    arguments: &AuditOptions,
    api: &ManageApi,
    budget: &Budget,
    audit: &mut Audit,
) -> anyhow::Result<BTreeSet<String>> {
    let topics: BTreeSet<_> = api.topics().await?.into_iter().map(|topic| topic.name).collect();
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
        for (Time(hour), WaitingCount { deliveries, events }) in hours {
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

/// Returns the event subscriptions of a topic: the size of the deliveries of each, and those of which deliveries
/// wait. A topic that was deleted just now has none.
async fn of_topic(
    api: &ManageApi,
    topic: String,
) -> anyhow::Result<(Vec<(SubscriptionKey, Batch)>, Vec<SubscriptionKey>)> {
    let both = async { tokio::try_join!(api.subscriptions(&topic), api.healths(&topic)) };
    let (all, healths) = if_there(both.await)?.unwrap_or_default();
    let key = |name| SubscriptionKey { topic: topic.clone(), name };
    let waiting = healths.into_iter().filter(|one| one.health.waiting_deliveries.count > 0);
    let waiting = waiting.map(|one| key(one.name)).collect();
    let batches = all.into_iter().map(|one| {
        let destination = one.properties.settings.destination.as_ref();
        let events_max = destination.map_or(1, largest_batch);
        (key(one.name), Batch { events_max, since: one.system_data.last_modified_at.0 })
    });
    Ok((batches.collect(), waiting))
}

struct Counted {
    key: SubscriptionKey,
    hours: Vec<(Time, WaitingCount)>,
    is_whole: bool,
}

/// Counts an event subscription's deliveries by the hour of their publish, as far as the budget goes.
async fn counted(
    api: &ManageApi,
    budget: &Budget,
    key: SubscriptionKey,
) -> anyhow::Result<Counted> {
    let mut hours = Vec::new();
    if !budget.take() {
        return Ok(Counted { key, hours, is_whole: false });
    }
    let take = |count: &DeliveryCount| {
        hours.extend(count.by_publish_hour.iter().map(|(hour, count)| (*hour, *count)));
        match count.next_link.is_none() || budget.take() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let is_whole = if_there(api.count_deliveries(&key.topic, &key.name, take).await)
        .with_context(|| format!("the deliveries of {key} cannot be counted"))?;
    Ok(Counted { key, hours, is_whole: is_whole.unwrap_or(true) })
}

/// Counts the deliveries that have failed and not ended of event subscriptions that are not audited: the
/// queues hold theirs, too.
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
            found.insert(key, hours.iter().map(|(_, count)| count.deliveries).sum());
        }
    }
    Ok(found)
}

/// Reads parked deliveries, so many pages at most. Returns whether these are all. Each page is searched for in
/// all of the state table.
pub(super) async fn parked(
    api: &ManageApi,
    pages_max: usize,
) -> anyhow::Result<(Vec<Parked>, bool)> {
    let (mut parked, mut after) = (Vec::new(), None);
    for _ in 0..pages_max {
        let page = api.parked_page(&ParkedInput::default(), after.as_deref()).await;
        let page = page.context("parked deliveries cannot be read")?;
        parked.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok((parked, true));
        }
    }
    Ok((parked, false))
}

#[cfg(test)]
mod tests {
    use gridpost_core::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        audit::tests::{arguments, nothing},
        testkit::{FakeApi, documents},
    };

    const OLD: &str = "2026-11-21T06:00:00.000Z";
    const LATE: &str = "2026-11-21T08:00:00.000Z";
    const CHANGED: &str = "2026-11-20T07:30:00.000Z";

    /// Returns a count of two deliveries that were published in that hour.
    fn count(hour: &str, events: u64, next: Option<&str>) -> Value {
        let count = json!({"deliveries": 2, "events": events});
        json!({"deliveries": 2, "events": events, "byPublishHour": {hour: count}, "nextLink": next})
    }

    /// What waits is counted and not listed; the one that a look has no request left for is partial.
    #[tokio::test]
    async fn what_waits_is_counted_as_far_as_the_effort_goes() {
        let health = |name: &str, count: u64| {
            let health = documents::health(&json!({"waitingDeliveries": {"count": count}}));
            json!({"name": name, "health": health})
        };
        let changed = json!({"systemData": {"lastModifiedAt": CHANGED}});
        let subscription = |name: &str| documents::subscription(name, &changed);
        let at = "GET /topics/t/eventSubscriptions";
        let [a, b] = ["a", "b"].map(|name| format!("{at}/{name}/deliveries:count"));
        let healths = [health("a", 2), health("b", 2), health("idle", 0)];
        let api = FakeApi::answering(&[
            (&a, 200, count(OLD, 3, None)),
            (&b, 200, count(LATE, 7, None)),
            (at, 200, documents::list(&["a", "b", "idle"].map(subscription))),
            ("GET /topics/t/healths", 200, documents::list(&healths)),
            ("GET /topics ", 200, documents::list(&[documents::topic("t", &json!({}))])),
        ])
        .await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        let arguments = arguments(None, None);
        for (calls, waiting, partial) in [(2, 4, 0), (1, 2, 1)] {
            let since = Timestamp::parse_rfc_3339(LATE).expect("a time");
            let mut audit = Audit { since, ..nothing() };
            let budget = Budget::of(calls);
            let topics = add_waiting(&arguments, &client, &budget, &mut audit).await;
            assert_eq!(topics.expect("counted").len(), 1);
            assert_eq!((audit.waiting, audit.partial.len()), (waiting, partial), "{calls} calls");
            // Those that were published before the time asked for are in the queues all the same.
            let events: u64 = audit.ledger.accounts.values().map(|it| it.waiting).sum();
            assert!(events == 7 || partial == 1 && events == 0, "{events}");
            assert_eq!(audit.batches.len(), 3);
            for batch in audit.batches.values() {
                assert_eq!((batch.events_max, Time(batch.since).to_string()), (1, CHANGED.into()));
            }
        }
    }

    #[tokio::test]
    async fn a_count_goes_on_as_far_as_its_budget() {
        let path = "/topics/orders/eventSubscriptions/one/deliveries:count";
        let [first, second, third] = [" ", "?a ", "?b "].map(|query| format!("GET {path}{query}"));
        let next = |query| Some(format!("{path}{query}"));
        let api = FakeApi::answering(&[
            (&first, 200, count(OLD, 5, next("?a").as_deref())),
            (&second, 200, count(OLD, 5, next("?b").as_deref())),
            (&third, 200, count(LATE, 5, None)),
        ])
        .await;
        let client = ManageApi::connect(&api.url()).await.expect("a client");
        for (calls, want, whole) in [(9, 3, true), (3, 3, true), (2, 2, false), (0, 0, false)] {
            let key = SubscriptionKey { topic: "orders".to_owned(), name: "one".to_owned() };
            let counted = counted(&client, &Budget::of(calls), key).await.expect("counts");
            assert_eq!((counted.hours.len(), counted.is_whole), (want, whole), "{calls}");
        }
    }
}
