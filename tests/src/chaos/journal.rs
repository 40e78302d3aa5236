//! Compares the journal of a process with what was published and what its endpoints saw.
//!
//! Delivery is at least once, so that an endpoint may see more requests than are counted. But each event
//! ends once, each attempt is one entry, and nothing is counted as delivered that did not arrive.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::ready,
};

use gridpost_api::{
    journal::{
        JournalCounts, JournalEntry, JournalQuery, LedgerEntry, SeriesEntry,
        query::{AttemptsQuery, JournalQueryInput, LedgerQuery, SeriesQuery},
    },
    schema::Time,
};
use gridpost_core::{
    journal::{EntryKind, Step},
    ledger::Account,
    time::Timestamp,
};
use gridpost_ports::Clock;
use gridpost_runtime::system::SystemClock;

use super::endpoints::{Key, Rule, Seen, number_of};
use crate::json_api::JsonApi;

/// Most differences that a message names.
const NAMED_MAX: usize = 20;

/// All that the manage API answers about a day.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    pub ledger: Vec<LedgerEntry>,
    pub minutes: Vec<SeriesEntry>,
    pub hours: Vec<SeriesEntry>,
    pub attempts: Vec<JournalEntry>,
}

/// What publishers and endpoints know. Each event went to one event subscription, by itself.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Events that were sent, answered or not.
    pub sent: usize,
    /// Events whose publish was answered 200.
    pub accepted: BTreeSet<Key>,
    /// Requests by event.
    pub requests: HashMap<Key, Seen>,
    /// Stored dead letters by event.
    pub dead: HashMap<Key, u64>,
}

/// Asks for all pages of an answer.
async fn ask(api: &JsonApi, question: JournalQueryInput) -> anyhow::Result<JournalQuery> {
    api.0.api.ask_journal(&question, usize::MAX, |_| ready(())).await
}

/// Returns the events that an event subscription's drops have lost.
pub async fn dropped(api: &JsonApi, rule: Rule) -> anyhow::Result<BTreeSet<Key>> {
    let attempts = AttemptsQuery {
        event_subscription: Some(rule.name().to_owned()),
        from: Some(a_day_ago()),
        failed: Some(true),
        ..AttemptsQuery::default()
    };
    let attempts = JournalQueryInput { attempts: Some(attempts), ..Default::default() };
    let attempts = ask(api, attempts).await?.attempts.unwrap_or_default();
    let dropped = attempts.iter().filter(|entry| entry.kind == EntryKind::Dropped);
    Ok(dropped.flat_map(|entry| keys(rule, entry)).collect())
}

fn a_day_ago() -> Time {
    Timestamp::from_millis(SystemClock.now().as_millis() - 86_000_000).into()
}

fn keys(rule: Rule, entry: &JournalEntry) -> impl Iterator<Item = Key> {
    entry.event_ids.iter().filter_map(move |id| Some((rule, number_of(id)?)))
}

impl Journal {
    /// Reads the journal.
    pub async fn read(api: &JsonApi) -> anyhow::Result<Self> {
        let from = Some(a_day_ago());
        let series = |step| JournalQueryInput {
            series: Some(SeriesQuery { from, step: Some(step), ..SeriesQuery::default() }),
            ..JournalQueryInput::default()
        };
        let ledger = JournalQueryInput {
            ledger: Some(LedgerQuery { from, ..LedgerQuery::default() }),
            ..JournalQueryInput::default()
        };
        let attempts = JournalQueryInput {
            attempts: Some(AttemptsQuery { from, ..AttemptsQuery::default() }),
            ..JournalQueryInput::default()
        };
        Ok(Self {
            ledger: ask(api, ledger).await?.ledger.unwrap_or_default(),
            minutes: ask(api, series(Step::Minute)).await?.series.unwrap_or_default(),
            hours: ask(api, series(Step::Hour)).await?.series.unwrap_or_default(),
            attempts: ask(api, attempts).await?.attempts.unwrap_or_default(),
        })
    }

    /// Says where it differs from records of events that have all ended.
    pub fn differences(&self, rules: &[Rule], records: &Records) -> Vec<String> {
        let mut found = Differences::default();
        let ledger = self.ledger.iter().map(|entry| (&entry.event_subscription, &entry.counts));
        let ledger = Totals::of(ledger);
        for (name, series) in [("minute", &self.minutes), ("hour", &self.hours)] {
            let sums = Totals::of(series.iter().map(|it| (&it.event_subscription, &it.counts)));
            found.same(format!("the series by {name}, summed, and the ledger"), &sums, &ledger);
            found.same(format!("failed attempts by {name}"), &failed(series), &self.failures());
        }
        let waiting = self.ledger.iter().filter_map(|entry| entry.waiting).filter(|it| *it != 0);
        found.same("waiting".to_owned(), &waiting.collect::<Vec<_>>(), &Vec::new());
        self.compare_attempts(&mut found);
        let mut ended = BTreeSet::new();
        for rule in rules {
            ended.extend(self.compare_ends(*rule, &ledger, records, &mut found));
        }
        found.same("accepted".to_owned(), &ledger.accepted, &(ended.len() as u64));
        found.same("unmatched".to_owned(), &ledger.unmatched, &0);
        let lost: Vec<_> = records.accepted.difference(&ended).collect();
        found.same("accepted without an end".to_owned(), &lost, &Vec::new());
        if ended.len() > records.sent {
            found.0.push(format!("{} ended, but {} were sent", ended.len(), records.sent));
        }
        found.0
    }

    /// Failed attempts by event subscription and outcome.
    fn failures(&self) -> BTreeMap<(String, String), u64> {
        let mut sums = BTreeMap::new();
        for entry in self.attempts.iter().filter(|entry| entry.kind == EntryKind::Failure) {
            let outcome = entry.outcome.clone().unwrap_or_default();
            *sums.entry((entry.event_subscription.clone(), outcome)).or_default() += 1;
        }
        sums
    }

    /// Each delivery has one entry for each of its attempts. A process that is killed between sending a message
    /// and deleting its predecessor leaves both: then two attempts may have one number, and different results.
    fn compare_attempts(&self, found: &mut Differences) {
        let mut attempts: BTreeMap<_, Vec<(u32, EntryKind)>> = BTreeMap::new();
        for entry in &self.attempts {
            let is_attempt = !entry.kind.is_end();
            attempts
                .entry(entry.delivery_id)
                .or_default()
                .extend(is_attempt.then_some((entry.attempt, entry.kind)));
        }
        for (delivery, mut all) in attempts {
            all.sort_unstable();
            let mut once = all.clone();
            once.dedup();
            found.same(format!("attempts of {delivery}"), &all, &once);
            let mut numbers: Vec<_> = all.iter().map(|(number, _)| *number).collect();
            numbers.dedup();
            let want = (1..).take(numbers.len()).collect();
            found.same(format!("attempts of {delivery}"), &numbers, &want);
        }
    }

    /// Compares the ends of an event subscription's events. Returns those that have ended.
    fn compare_ends(
        &self,
        rule: Rule,
        ledger: &Totals,
        records: &Records,
        found: &mut Differences,
    ) -> BTreeSet<Key> {
        let name = rule.name();
        let account = ledger.accounts.get(name).cloned().unwrap_or_default();
        let mut by_kind: BTreeMap<&str, Vec<Key>> = BTreeMap::new();
        let mut entries: BTreeMap<Key, u32> = BTreeMap::new();
        for entry in self.attempts.iter().filter(|entry| entry.event_subscription == name) {
            let kind = match entry.kind {
                EntryKind::Success | EntryKind::LateSuccess => "delivered",
                EntryKind::DeadLettered => "dead-lettered",
                EntryKind::Dropped => "dropped",
                EntryKind::Failure | EntryKind::SuccessAfterEnd | EntryKind::Ending => "",
            };
            by_kind.entry(kind).or_default().extend(keys(rule, entry));
            if !entry.kind.is_end() {
                keys(rule, entry).for_each(|key| *entries.entry(key).or_default() += 1);
            }
        }
        let own = |(key, many): (&Key, bool)| (key.0 == rule && many).then_some(*key);
        let arrived = records.requests.iter().map(|(key, seen)| (key, seen.delivered > 0));
        let dead = records.dead.iter().map(|(key, times)| (key, *times > 0));
        let refused = records.requests.keys().map(|key| (key, rule.drops(key.1)));
        let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
        let ends: [(&str, u64, BTreeSet<Key>); 3] = [
            ("delivered", account.delivered, arrived.filter_map(own).collect()),
            ("dead-lettered", sum(&account.dead_lettered), dead.filter_map(own).collect()),
            ("dropped", sum(&account.dropped), refused.filter_map(own).collect()),
        ];
        let mut ended = BTreeSet::new();
        for (kind, counted, want) in ends {
            let mut keys = by_kind.remove(kind).unwrap_or_default();
            keys.sort_unstable();
            found.same(format!("{kind} of {name}"), &counted, &(want.len() as u64));
            let want: Vec<_> = want.into_iter().collect();
            found.same(format!("entries {kind} of {name}"), &keys, &want);
            ended.extend(want);
        }
        found.same(format!("matched of {name}"), &account.matched, &(ended.len() as u64));
        found.same(format!("redriven of {name}"), &account.redriven, &0);
        for (key, entries) in entries {
            let requests = records.requests.get(&key).map_or(0, |seen| seen.attempts);
            if entries > requests {
                found.0.push(format!("{entries} attempts of {key:?}, but {requests} requests"));
            }
        }
        ended
    }
}

fn failed(series: &[SeriesEntry]) -> BTreeMap<(String, String), u64> {
    let mut sums = BTreeMap::new();
    for entry in series {
        let name = entry.event_subscription.clone().unwrap_or_default();
        for (outcome, attempts) in entry.failed_attempts.iter().flatten() {
            *sums.entry((name.clone(), outcome.clone())).or_default() += attempts;
        }
    }
    sums
}

/// Sums of all topics and event subscriptions.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    accepted: u64,
    unmatched: u64,
    accounts: BTreeMap<String, Account>,
}

impl Totals {
    fn of<'c>(all: impl Iterator<Item = (&'c Option<String>, &'c JournalCounts)>) -> Self {
        let mut totals = Self::default();
        for (name, JournalCounts { topic, event_subscription }) in all {
            if let (Some(name), Some(counts)) = (name, event_subscription) {
                totals.accounts.entry(name.clone()).or_default().add(&(&**counts).into());
            }
            if let Some(counts) = topic {
                totals.accepted += counts.accepted;
                totals.unmatched += counts.unmatched;
            }
        }
        // One with failed attempts alone is in no ledger.
        totals.accounts.retain(|_, account| *account != Account::default());
        totals
    }
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, of: String, is: &T, want: &T) {
        if is != want && self.0.len() < NAMED_MAX {
            self.0.push(format!("{of}: {is:?} instead of {want:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RULES: [Rule; 3] = [Rule::Flaky, Rule::Refusing, Rule::Losing];
    const HOUR: &str = "2026-01-02T03:00:00.000Z";

    fn entry(kind: &str, rule: Rule, attempt: u32) -> JournalEntry {
        let outcome = if kind == "Success" { "Delivered" } else { "BadRequest" };
        let entry = json!({"id": "1", "time": HOUR, "kind": kind, "topic": "crash", "attempt": attempt,
            "eventSubscription": rule.name(), "publishTime": HOUR, "outcome": outcome, "events": 1,
            "deliveryId": format!("00000000-0000-0000-0000-00000000000{}", rule as u8),
            "eventIds": ["event-3"]});
        serde_json::from_value(entry).expect("an entry")
    }

    fn counts(rule: Rule) -> Value {
        let [delivered, dead, dropped] = RULES.map(|one| usize::from(one == rule));
        let reasons = |count: usize| match count {
            0 => json!({"total": 0, "byReason": {}}),
            _ => json!({"total": count, "byReason": {"BadRequest": count}}),
        };
        let latency = json!({"events": delivered, "buckets": if delivered > 0 { json!({"25": 1}) } else { json!({}) }});
        json!({"matched": 1, "redriven": 0, "delivered": delivered, "latency": latency,
            "deadLettered": reasons(dead), "dropped": reasons(dropped)})
    }

    fn journal() -> Journal {
        let of = |more: Value, counts: Value| {
            let mut document =
                json!({"topic": "crash", "period": 0, "publishHour": HOUR, "time": HOUR});
            for part in [more, counts] {
                for (name, value) in part.as_object().into_iter().flatten() {
                    document[name] = value.clone();
                }
            }
            document
        };
        let all: Vec<Value> = RULES
            .iter()
            .map(|rule| {
                let more = json!({"eventSubscription": rule.name(), "waiting": 0,
                    "failedAttempts": {"BadRequest": 1}});
                of(more, counts(*rule))
            })
            .chain([of(json!({}), json!({"accepted": 3, "unmatched": 0}))])
            .collect();
        let series: Vec<SeriesEntry> = serde_json::from_value(json!(all)).expect("a series");
        Journal {
            ledger: serde_json::from_value(json!(all)).expect("a ledger"),
            minutes: series.clone(),
            hours: series,
            attempts: vec![
                entry("Success", Rule::Flaky, 2),
                entry("Failure", Rule::Flaky, 1),
                entry("DeadLettered", Rule::Refusing, 1),
                entry("Ending", Rule::Refusing, 1),
                entry("Failure", Rule::Refusing, 1),
                entry("Dropped", Rule::Losing, 1),
                entry("Failure", Rule::Losing, 1),
            ],
        }
    }

    fn records() -> Records {
        let requests = |attempts, delivered| Seen { attempts, delivered };
        Records {
            sent: 4,
            accepted: RULES.map(|rule| (rule, 3)).into(),
            // One request more than is counted, of an attempt that a kill has undone.
            requests: HashMap::from([
                ((Rule::Flaky, 3), requests(3, 2)),
                ((Rule::Refusing, 3), requests(1, 0)),
                ((Rule::Losing, 3), requests(1, 0)),
            ]),
            dead: HashMap::from([((Rule::Refusing, 3), 1)]),
        }
    }

    /// A mistake, and how to make it.
    type Wrong<T> = (&'static str, fn(&mut T));

    #[test]
    fn each_difference_is_found() {
        let same = journal().differences(&RULES, &records());
        assert!(same.is_empty(), "{same:#?}");
        let journals: [Wrong<Journal>; 8] = [
            ("an end without an entry", |it| drop(it.attempts.remove(0))),
            ("an attempt without an entry", |it| drop(it.attempts.remove(1))),
            ("two entries of one attempt", |it| it.attempts.push(it.attempts[6].clone())),
            ("a drop without an entry", |it| drop(it.attempts.remove(5))),
            ("a minute without its counts", |it| drop(it.minutes.remove(0))),
            ("an hour without its counts", |it| drop(it.hours.remove(3))),
            ("a ledger without its counts", |it| drop(it.ledger.remove(1))),
            ("an event that waits", |it| it.ledger[0].waiting = Some(1)),
        ];
        for (what, change) in journals {
            let mut journal = journal();
            change(&mut journal);
            assert!(!journal.differences(&RULES, &records()).is_empty(), "{what}");
        }
        let others: [Wrong<Records>; 6] = [
            ("counted, and did not arrive", |it| {
                it.requests.insert((Rule::Flaky, 3), Seen { attempts: 3, delivered: 0 });
            }),
            ("more attempts than requests", |it| {
                it.requests.insert((Rule::Flaky, 3), Seen { attempts: 1, delivered: 1 });
            }),
            ("no dead letter", |it| it.dead.clear()),
            ("arrived, and is not counted", |it| {
                it.requests.insert((Rule::Flaky, 7), Seen { attempts: 1, delivered: 1 });
            }),
            ("accepted and lost", |it| {
                it.accepted.insert((Rule::Flaky, 9));
            }),
            ("fewer sent", |it| it.sent = 2),
        ];
        for (what, change) in others {
            let mut records = records();
            change(&mut records);
            assert!(!journal().differences(&RULES, &records).is_empty(), "{what}");
        }
    }
}
