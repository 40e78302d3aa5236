//! The ledger of a deployment, and whether it balances.
//!
//! The counts come out of the journal, what waits from the resource API, what is under way from the
//! queues. [`verdict`] says what they come to, [`report`] makes of it what is printed.

pub mod document;
pub mod report;
pub mod verdict;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context;
use gridpost_api::{
    journal::{
        JournalQuery,
        query::{JournalQueryInput, LedgerQuery},
    },
    waiting::{Parked, ParkedDelivery},
};
use gridpost_core::{ledger::Ledger, name, subscription::SubscriptionKey};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::{
    aws_api::{AwsApi, Service},
    given::TimeSpan,
    journal::{Journal, TooDear},
    lookup::no_such,
    target::{Target, before},
};
use verdict::{Audit, Queues, Verdict};
pub use waiting::Effort;
use waiting::{Budget, add_waiting, parked, waiting_of_others};

/// The wait before the next look, while it does not balance.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// The wait before the journal is asked once more, if something seems to be missing: it may know of counts
/// some seconds after they were made.
const JOURNAL_SETTLES: Duration = Duration::from_secs(10);

/// The part to look at.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    pub topic: Option<String>,
    pub subscription: Option<String>,
    /// Events published within this time, which starts on the hour.
    pub since: TimeSpan,
    /// How long to wait until it balances.
    pub wait: Duration,
    /// The most that the journal's answers may cost, in U.S. dollars; $0.10 by default.
    pub max_dollars: Option<f64>,
}

impl AuditOptions {
    fn wants_topic(&self, name: &str) -> bool {
        self.topic.as_ref().is_none_or(|wanted| name::is_same(wanted, name))
    }

    fn wants(&self, key: &SubscriptionKey) -> bool {
        self.wants_topic(&key.topic)
            && self.subscription.as_ref().is_none_or(|name| name::is_same(name, &key.name))
    }
}

/// Looks until the ledger balances, or for as long as was asked.
pub async fn look_until(arguments: &AuditOptions, target: &Target) -> anyhow::Result<Audit> {
    let last_look = Instant::now() + arguments.wait;
    let journal = Journal::connect(target, arguments.max_dollars).await?;
    let mut audit = look(arguments, target, &journal, Effort::WHOLE).await?;
    while !audit.balances() && Instant::now() < last_look {
        sleep(LOOK_AGAIN).await;
        let again = look(arguments, target, &journal, Effort::WHOLE).await;
        audit = newer(audit, again)?;
    }
    Ok(audit)
}

/// Returns the later of two looks; the earlier one, with a note, where the later one would cost too much.
fn newer(mut before: Audit, again: anyhow::Result<Audit>) -> anyhow::Result<Audit> {
    match again {
        Err(error) if error.is::<TooDear>() => {
            let note = format!("the journal was not asked again: {error}");
            before.left_out.retain(|left_out| *left_out != note);
            before.left_out.push(note);
            Ok(before)
        }
        again => again,
    }
}

/// Looks at all topics once, so far back, with so much effort.
pub async fn look_back(target: &Target, since: TimeSpan, effort: Effort) -> anyhow::Result<Audit> {
    let wait = Duration::ZERO;
    let arguments =
        AuditOptions { topic: None, subscription: None, since, wait, max_dollars: None };
    look(&arguments, target, &Journal::connect(target, None).await?, effort).await
}

/// Reads everything once. The queues are counted at the cut-off; what has left them when the states of
/// waiting deliveries are read is in the journal by then, behind the cut-off.
///
/// What seems to be under way is looked at more closely: what the queues hold of topics that were not
/// asked about, what is parked, and, before events are called missing, what has moved meanwhile or was
/// packed before a change.
async fn look(
    arguments: &AuditOptions,
    target: &Target,
    journal: &Journal,
    effort: Effort,
) -> anyhow::Result<Audit> {
    let until = target.now().await?;
    let asked = before(until, arguments.since).hour();
    let name_prefix = target.name_prefix();
    let queues = queues(target, name_prefix).await.map_err(|err| format!("{err:#}"));
    let mut waits = Audit { is_divided: !target.is_dev(), ..Audit::begun(asked, until, queues) };
    let api = target.manage_api().await?;
    let budget = Budget::of(effort.counts);
    let topics = add_waiting(arguments, &api, &budget, &mut waits).await?;
    waits.states_read_at = target.now().await?;
    let mut audit = with_journal(arguments, journal, &waits).await?;
    if audit.verdict() != Verdict::Balances {
        let others = waiting_of_others(arguments, &api, &topics).await?;
        let (parked, is_whole) = parked(&api, effort.parked_pages).await?;
        for one in [&mut waits, &mut audit] {
            one.parked_is_whole = is_whole;
            one.waiting += others.values().sum::<u64>();
            add_parked(arguments, &parked, &others, one);
        }
    }
    if matches!(audit.verdict(), Verdict::Missing { .. }) {
        let again = self::queues(target, name_prefix).await;
        if let (Ok(first), Ok(again)) = (&mut waits.queues, again) {
            *first = first.with_moved(again);
        }
        sleep(JOURNAL_SETTLES).await;
        audit.queues = waits.queues.clone();
        audit = newer(audit, with_journal(arguments, journal, &waits).await)?;
    }
    check_names(arguments, &audit, &topics)?;
    Ok(audit)
}

/// Adds what was counted before the cut-off, until the states of waiting deliveries were read, and since then.
async fn with_journal(
    arguments: &AuditOptions,
    journal: &Journal,
    waits: &Audit,
) -> anyhow::Result<Audit> {
    let query = LedgerQuery {
        topic: arguments.topic.clone(),
        from: Some(waits.asked.into()),
        cuts: Some(vec![waits.until.into(), waits.states_read_at.into()]),
        ..LedgerQuery::default()
    };
    let question = JournalQueryInput { ledger: Some(query), ..JournalQueryInput::default() };
    let mut audit = waits.clone();
    audit.add(journal.ask(question, usize::MAX).await?);
    for ledger in [&mut audit.ledger, &mut audit.after, &mut audit.later] {
        ledger.accounts.retain(|(key, _), _| arguments.wants(key));
        ledger.intakes.retain(|(topic, _), _| arguments.wants_topic(topic));
    }
    Ok(audit)
}

/// Returns what was counted of events published since the beginning of the hour so long ago, of a topic or of
/// all, without what waits; and in words, what is not known.
pub async fn counted(
    journal: &Journal,
    target: &Target,
    topic: Option<&str>,
    since: TimeSpan,
) -> anyhow::Result<(Ledger, Vec<String>)> {
    let from = Some(target.ago(since).await?.into());
    let query = LedgerQuery { topic: topic.map(str::to_owned), from, ..LedgerQuery::default() };
    let question = JournalQueryInput { ledger: Some(query), ..JournalQueryInput::default() };
    let answer: JournalQuery = journal.ask(question, usize::MAX).await?;
    Ok((answer.ledgers(0).remove(0), answer.gaps()))
}

/// Refuses names that neither exist nor have an account: a misspelt one would balance.
fn check_names(
    arguments: &AuditOptions,
    audit: &Audit,
    topics: &BTreeSet<String>,
) -> anyhow::Result<()> {
    let Some(topic) = &arguments.topic else { return Ok(()) };
    let ledger = &audit.ledger;
    let known = ledger.intakes.keys().map(|(topic, _)| topic.clone());
    let known: BTreeSet<_> = known.chain(topics.iter().cloned()).collect();
    let is_it = |known: &String| name::is_same(known, topic);
    let has_account = ledger.accounts.keys().any(|(key, _)| is_it(&key.topic));
    if !known.iter().any(is_it) && !has_account {
        return Err(no_such("topic", topic, &known).into());
    }
    let Some(name) = &arguments.subscription else { return Ok(()) };
    let counted = ledger.accounts.keys().map(|(key, _)| &key.name);
    let names: BTreeSet<_> = counted.chain(audit.batches.keys().map(|key| &key.name)).collect();
    if names.iter().any(|known| name::is_same(known, name)) {
        return Ok(());
    }
    Err(no_such(&format!("event subscription of {topic}"), name, names).into())
}

/// Adds the deliveries that were parked before their first attempt: nothing else tells of them. Those
/// that have failed are among the waiting ones already, but lie in no queue.
fn add_parked(
    arguments: &AuditOptions,
    parked: &[Parked],
    others: &BTreeMap<SubscriptionKey, u64>,
    audit: &mut Audit,
) {
    for one in parked {
        let (topic, name, delivery) = match one {
            Parked::Delivery(ParkedDelivery { delivery, .. }) => {
                (&delivery.topic, &delivery.event_subscription, Some(delivery))
            }
            Parked::Unreadable(one) => (&one.topic, &one.event_subscription, None),
        };
        let key = SubscriptionKey { topic: topic.clone(), name: name.clone() };
        let is_wanted = arguments.wants(&key);
        let is_counted = others.contains_key(&key) || is_wanted && audit.batches.contains_key(&key);
        match delivery.filter(|delivery| delivery.delivery_attempts == 0) {
            Some(delivery) if is_wanted && delivery.publish_time.0 >= audit.since => {
                audit.ledger.wait(&key, delivery.publish_time.0, delivery.events as u64);
            }
            None if is_counted => audit.waiting = audit.waiting.saturating_sub(1),
            _ => {}
        }
    }
}

/// A `ListQueues` request.
#[serde_with::skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct QueueQuery {
    queue_name_prefix: String,
    max_results: u32,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueuePage {
    #[serde(default)]
    queue_urls: Vec<String>,
    next_token: Option<String>,
}

/// A `GetQueueAttributes` request.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CountQuery<'q> {
    queue_url: &'q str,
    attribute_names: [&'q str; 3],
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QueueCounts {
    #[serde(default)]
    attributes: BTreeMap<String, String>,
}

const COUNTS: [&str; 3] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
];

impl QueueCounts {
    fn messages(&self) -> u64 {
        let count = |name: &str| self.attributes.get(name)?.parse::<u64>().ok();
        COUNTS.into_iter().filter_map(count).sum()
    }
}

/// Counts the messages in the deployment's queues, about.
async fn queues(target: &Target, name_prefix: &str) -> anyhow::Result<Queues> {
    let sqs = AwsApi::connect(Service::Sqs, target).await?;
    let mut queues = Queues::default();
    let queue_name_prefix = format!("{name_prefix}-");
    let mut query = QueueQuery { queue_name_prefix, max_results: 1_000, next_token: None };
    loop {
        let page = serde_json::from_value(sqs.call("ListQueues", &query).await?);
        let QueuePage { queue_urls, next_token } = page.context("SQS's queues can't be read")?;
        for url in &queue_urls {
            let name = url.rsplit('/').next().unwrap_or_default();
            let role = name.strip_prefix(name_prefix).and_then(|rest| rest.strip_prefix('-'));
            if let Some(held) = role.and_then(|role| queues.of(role)) {
                let query = CountQuery { queue_url: url, attribute_names: COUNTS };
                let counts = serde_json::from_value(sqs.call("GetQueueAttributes", &query).await?);
                let counts: QueueCounts =
                    counts.with_context(|| format!("the counts of {name} can't be read"))?;
                *held += counts.messages();
            }
        }
        if next_token.is_none() {
            return Ok(queues);
        }
        query.next_token = next_token;
    }
}

#[cfg(test)]
mod tests {
    use gridpost_core::{ledger::Account, time::Timestamp};
    use serde_json::json;

    use super::{verdict::Batch, *};
    use crate::{
        manage_api::ManageApi,
        testkit::{FakeApi, documents},
    };

    /// The entry of an account and an hour of that day.
    fn entry(
        period: u64,
        name: &str,
        hour: u64,
        matched: u64,
        delivered: u64,
    ) -> serde_json::Value {
        let none = json!({"total": 0, "byReason": {}});
        json!({"period": period, "topic": "t", "eventSubscription": name, "waiting": 0,
            "publishHour": format!("2026-01-01T{hour:02}:00:00Z"), "matched": matched, "redriven": 0,
            "delivered": delivered, "deadLettered": none, "dropped": none, "latency": {
                "events": 0, "buckets": {}, "p50AtMostMs": null, "p95AtMostMs": null, "p99AtMostMs": null}})
    }

    #[tokio::test]
    async fn the_journal_is_asked_for_three_periods_of_what_it_keeps() {
        let at = |text: &str| Timestamp::parse_rfc_3339(text).expect("a time");
        let key = |name: &str| SubscriptionKey { topic: "t".to_owned(), name: name.to_owned() };
        let ledger = [
            entry(0, "s", 7, 9, 0),
            entry(0, "s", 8, 5, 1),
            entry(0, "other", 8, 5, 1),
            entry(1, "s", 8, 0, 2),
            entry(2, "s", 8, 0, 1),
        ];
        let mut answer = documents::journal_query(&json!({"begins": "2026-01-01T07:20:00Z"}));
        answer["ledger"] = json!(ledger);
        answer["leavesOut"] = json!(["x"]);
        let cuts = "\"cuts\":[\"2026-01-01T09:00:00.000Z\",\"2026-01-01T09:00:03.000Z\"]";
        let api = FakeApi::naming(&[(cuts, 200, answer)]).await;
        let manage = ManageApi::connect(&api.url()).await.expect("a client");
        let mut waits = Audit {
            asked: at("2026-01-01T06:00:00Z"),
            since: at("2026-01-01T06:00:00Z"),
            until: at("2026-01-01T09:00:00Z"),
            states_read_at: at("2026-01-01T09:00:03Z"),
            ..nothing()
        };
        for hour in ["2026-01-01T06:00:00Z", "2026-01-01T08:00:00Z"] {
            waits.ledger.wait(&key("s"), at(hour), 1);
        }
        let journal = Journal::of(manage, None);
        let audit = with_journal(&arguments(Some("t"), Some("s")), &journal, &waits).await;
        let audit = audit.expect("an audit");
        let cell = (key("s"), at("2026-01-01T08:00:00Z"));
        let whole = Account { matched: 5, delivered: 1, waiting: 1, ..Account::default() };
        assert_eq!(audit.ledger.accounts, [(cell.clone(), whole)].into());
        let delivered = |ledger: &Ledger| ledger.accounts[&cell].delivered;
        assert_eq!((delivered(&audit.after), delivered(&audit.later)), (2, 1));
        assert_eq!((audit.since, audit.is_complete()), (at("2026-01-01T08:00:00Z"), false));
        assert_eq!(audit.left_out, ["x"]);
    }

    #[tokio::test]
    async fn a_look_that_would_cost_too_much_leaves_the_one_before() {
        let paid = documents::journal_query(&json!({"dollars": 0.1, "ledger": []}));
        let dear = documents::journal_query(&json!({"status": "TooDear", "dollars": 0.1}));
        let rows = [("\"maxDollars\":0.1}", 200, paid), ("\"maxDollars\":0.0}", 202, dear)];
        let api = FakeApi::naming(&rows).await;
        let journal = Journal::of(ManageApi::connect(&api.url()).await.expect("a client"), None);
        let mut audit = nothing();
        for _ in 0..3 {
            let again = with_journal(&arguments(None, None), &journal, &nothing()).await;
            audit = newer(audit, again).expect("an audit");
        }
        let [note] = &audit.left_out[..] else { panic!("{:?}", audit.left_out) };
        assert!(note.contains("not asked again: the answer reads about"), "{note}");
        assert!(newer(audit, Err(anyhow::anyhow!("no answer"))).is_err());
    }

    #[test]
    fn queue_counts_are_numbers_as_text() {
        let answer = json!({"Attributes": {
            "ApproximateNumberOfMessages": "3", "ApproximateNumberOfMessagesNotVisible": "4",
        }});
        for (answer, want) in [(answer, 7), (json!({}), 0)] {
            let counts: QueueCounts = serde_json::from_value(answer).expect("counts");
            assert_eq!(counts.messages(), want);
        }
    }

    #[test]
    fn what_is_parked_takes_no_room_in_a_queue() {
        let key = SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() };
        let parked = |attempts| {
            let delivery = documents::waiting_delivery(&json!({"topic": "t", "events": 4,
                "eventSubscription": "s", "deliveryAttempts": attempts}));
            serde_json::from_value(delivery).expect("a parked delivery")
        };
        let found = [parked(0), parked(1), parked(2)];
        let events = |audit: &Audit| audit.ledger.accounts.values().map(|it| it.waiting).sum();
        let mut audit = nothing();
        let batch = Batch { events_max: 1, since: Timestamp::from_millis(0) };
        (audit.waiting, audit.batches) = (3, [(key.clone(), batch)].into());
        let others = BTreeMap::new();
        add_parked(&arguments(None, None), &found, &others, &mut audit);
        assert_eq!((audit.waiting, events(&audit)), (1, 4_u64));
        // Of a topic that was not asked about, the queues hold what waits all the same.
        let mut audit = nothing();
        audit.waiting = 3;
        let others = BTreeMap::from([(key, 3)]);
        add_parked(&arguments(Some("other"), None), &found, &others, &mut audit);
        assert_eq!((audit.waiting, events(&audit)), (1, 0_u64));
    }

    pub(super) fn arguments(topic: Option<&str>, subscription: Option<&str>) -> AuditOptions {
        AuditOptions {
            topic: topic.map(str::to_owned),
            subscription: subscription.map(str::to_owned),
            since: TimeSpan::minutes(60),
            wait: Duration::ZERO,
            max_dollars: None,
        }
    }

    /// An audit that found nothing.
    pub(super) fn nothing() -> Audit {
        let begin = Timestamp::from_millis(0);
        Audit::begun(begin, begin, Ok(Queues::default()))
    }

    #[test]
    fn a_misspelt_name_does_not_balance() {
        let since = Timestamp::from_millis(0);
        let deleted = SubscriptionKey { topic: "old".to_owned(), name: "gone".to_owned() };
        let mut ledger = Ledger::default();
        ledger.wait(&deleted, since, 1);
        let billing = SubscriptionKey { topic: "orders".to_owned(), name: "billing".to_owned() };
        let batches = [(billing, Batch { events_max: 1, since })].into();
        let audit = Audit { ledger, batches, ..nothing() };
        let topics = BTreeSet::from(["orders".to_owned()]);
        let table = [
            (None, None, None),
            (Some("orders"), None, None),
            (Some("orders"), Some("billing"), None),
            (Some("old"), Some("gone"), None),
            (Some("order"), None, Some("no topic `order`: did you mean orders?")),
            (Some("orders"), Some("bilin"), Some("did you mean billing?")),
        ];
        for (topic, subscription, want) in table {
            match (check_names(&arguments(topic, subscription), &audit, &topics), want) {
                (Ok(()), None) => {}
                (Err(error), Some(want)) => {
                    assert!(error.to_string().contains(want), "{error}");
                    assert!(
                        error.downcast_ref::<crate::failure::Misuse>().is_some(),
                        "exit code 2"
                    );
                }
                (got, want) => panic!("{topic:?} {subscription:?}: {got:?}, want {want:?}"),
            }
        }
    }
}
