//! The journal's series, its ledger and its entries agree.
//!
//! That of one machine balances exactly, after any crash and repetition: its rows commit with the messages.
//! That of AWS is the functions' logs: its ledger is the sum of what was written there, which
//! [`super::ledger`] compares with what happened.

use std::collections::{BTreeMap, BTreeSet};

use gridpost_core::{
    journal::{EntryKind, Flow, Owner, Series, Step},
    ledger::{Account, Ledger},
};
use gridpost_testkit::history::Request;
use uuid::Uuid;

use super::{Check, ends_in_parts};
use crate::world::journal::JournalRemains;

/// The reason of drops by an operator.
const PURGED: &str = "PurgedByOperator";

/// Checks the journal, if it was asked.
pub(super) fn check(check: &mut Check<'_>) {
    let remains = check.remains;
    let Some(journal) = &remains.journal else { return };
    let JournalRemains { ledger, minutes, hours, together, .. } = journal;
    let (minutes, hours) = (sums(minutes), sums(hours));
    if minutes != hours {
        check.fail(format!("minutes of the journal are {minutes:?}, hours {hours:?}"));
    }
    let sum = summed(minutes.values());
    let together = summed(together.flows.values());
    if sum != together {
        check.fail(format!("minutes of the journal are {sum:?}, all together {together:?}"));
    }
    let (minutes, totals) = (without_failed(minutes), without_failed(totals(ledger)));
    if minutes != totals {
        check.fail(format!("series of the journal are {minutes:?}, its ledger {totals:?}"));
    }
    if journal.is_logged {
        let written = &remains.history.ledger;
        if ledger != written {
            check.fail(format!("the functions have counted {written:?}, the journal {ledger:?}"));
        }
        logged_entries(check, journal);
    } else {
        balance(check, ledger);
        entries(check, journal);
    }
    if journal.has_first_successes {
        attempts(check, journal);
    }
}

/// Where calls succeed, no end is missing in the ledger. Too many may be there for a delivery that two messages
/// had: a process that is killed between sending one and deleting the other leaves both, and each delivers. A
/// failed call that took effect can't be on one machine; here it may be: then a message that was sent again
/// counts again.
fn balance(check: &mut Check<'_>, ledger: &Ledger) {
    let history = &check.remains.history;
    let mut allowed: BTreeMap<_, (i64, i64)> = BTreeMap::new();
    for (delivery, accepted) in &history.accepted {
        let row = (accepted.subscription.clone(), accepted.publish_time.hour());
        let (missing, too_many) = allowed.entry(row).or_default();
        if history.resent.contains(delivery) {
            *missing = i64::MAX;
        }
        if check.is_disturbed(*delivery) || history.twins.contains_key(delivery) {
            *too_many = i64::MAX;
        }
    }
    for (row, account) in &ledger.accounts {
        let (missing, mut too_many) = allowed.get(row).copied().unwrap_or_default();
        // What is told again after a fault has a later publish time, and is counted as matched at the first.
        if check.remains.told.as_ref() == Some(&row.0.topic) && !check.remains.calm {
            too_many = i64::MAX;
        }
        let bounds = -too_many..=if check.remains.calls_succeed { 0 } else { missing };
        let open = account.difference();
        if !bounds.contains(&open) {
            check.fail(format!("{row:?}: the journal is open by {open}: {account:?}"));
        }
    }
}

type Sums = BTreeMap<Owner, Flow>;

fn sums(series: &Series) -> Sums {
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for ((_, owner), flow) in &series.flows {
        flows.entry(owner.clone().expect("an owner")).or_default().push(flow);
    }
    flows.into_iter().map(|(owner, flows)| (owner, summed(flows))).collect()
}

fn summed<'f>(flows: impl IntoIterator<Item = &'f Flow>) -> Flow {
    let mut sum = Flow::default();
    for flow in flows {
        sum.accepted += flow.accepted;
        sum.unmatched += flow.unmatched;
        sum.account.add(&flow.account);
        for (outcome, attempts) in &flow.failed {
            *sum.failed.entry(outcome.clone()).or_default() += attempts;
        }
    }
    sum
}

/// Leaves what a ledger has.
fn without_failed(mut sums: Sums) -> Sums {
    sums.values_mut().for_each(|sum| sum.failed.clear());
    sums.retain(|_, sum| *sum != Flow::default());
    sums
}

fn totals(ledger: &Ledger) -> Sums {
    let mut sums = Sums::new();
    for ((topic, _), intake) in &ledger.intakes {
        let sum = sums.entry(Owner::Topic(topic.clone())).or_default();
        sum.accepted += intake.accepted;
        sum.unmatched += intake.unmatched;
    }
    for (key, account) in ledger.totals() {
        sums.entry(Owner::Subscription(key.clone())).or_default().account.add(&account);
    }
    sums
}

fn of_entries(journal: &JournalRemains) -> Sums {
    let mut series = Series::default();
    for entry in &journal.entries {
        if let Some(count) = entry.count() {
            series.add(Step::Minute.begin(entry.at), &count);
        }
    }
    sums(&series)
}

/// On AWS an entry is logged at once, and its count with the next flush of the same copy. So what is counted
/// has its entry, and of each event subscription
///
/// `counted <= events of entries`
///
/// holds for delivered events, for dropped ones by reason, and for failed attempts by outcome. Entries are
/// more where a copy died between the two: its work is done, logged and counted again. Where nothing is
/// disturbed they are equal.
///
/// Counted without entries are dead letters, failed requests for parts of a batch, and what an operator
/// purged.
fn logged_entries(check: &mut Check<'_>, journal: &JournalRemains) {
    let (of_entries, counted) = (of_entries(journal), sums(&journal.minutes));
    let in_parts = check.owners.values().filter(|(_, one)| ends_in_parts(one));
    let in_parts: BTreeSet<_> = in_parts.map(|(_, one)| one.key.clone()).collect();
    let of = |sums: &Sums, owner: &Owner| {
        let Flow { account, mut failed, .. } = sums.get(owner).cloned().unwrap_or_default();
        if matches!(owner, Owner::Subscription(key) if in_parts.contains(key)) {
            failed.clear();
        }
        failed.extend(account.dropped);
        failed.remove(PURGED);
        failed.extend(journal.has_first_successes.then(|| (String::new(), account.delivered)));
        failed.retain(|_, events| *events > 0);
        failed
    };
    for owner in of_entries.keys().chain(counted.keys()) {
        let (logged, counted) = (of(&of_entries, owner), of(&counted, owner));
        let has = |(what, events): (&String, &u64)| logged.get(what).is_some_and(|it| it >= events);
        let is_logged = match check.is_undisturbed() {
            true => logged == counted,
            false => counted.iter().all(has),
        };
        if !is_logged {
            check.fail(format!("{owner:?}: entries make {logged:?}, counted were {counted:?}"));
        }
    }
}

/// The entries make the same series, and no entry is there twice.
fn entries(check: &mut Check<'_>, journal: &JournalRemains) {
    let mut keys = BTreeMap::new();
    for entry in &journal.entries {
        let key = (entry.publish_time, entry.delivery, entry.attempt, entry.kind, entry.part);
        *keys.entry(key).or_insert(0) += 1;
    }
    if let Some((key, times)) = keys.iter().find(|(_, times)| **times > 1) {
        check.fail(format!("the journal has an entry {times} times: {key:?}"));
    }
    let (of_entries, counted) = (of_entries(journal), sums(&journal.minutes));
    let (of_entries, counted) = (ends(&of_entries), ends(&counted));
    if of_entries != counted {
        check.fail(format!("entries of the journal make {of_entries:?}, counted {counted:?}"));
    }
}

/// Returns what entries count: purged pieces of publishes have none.
fn ends(sums: &Sums) -> BTreeMap<&Owner, u64> {
    let ended = |account: &Account| account.delivered + account.dead_lettered.values().sum::<u64>();
    let all = sums.iter().map(|(owner, sum)| (owner, ended(&sum.account)));
    all.filter(|(_, ended)| *ended > 0).collect()
}

/// Each request that was heard to the end by a delivery that nothing disturbed has its entry.
fn attempts(check: &mut Check<'_>, journal: &JournalRemains) {
    let mut noted: BTreeMap<Uuid, usize> = BTreeMap::new();
    for entry in &journal.entries {
        if matches!(entry.kind, EntryKind::Success | EntryKind::Failure) && entry.part == 0 {
            *noted.entry(entry.delivery).or_default() += 1;
        }
    }
    let heard = |request: &&&Request| request.heard.is_some();
    let mut missing = Vec::new();
    for delivery in check.remains.history.accepted.keys() {
        let is_plain = !check.is_disturbed(*delivery)
            && !check.remains.history.twins.contains_key(delivery)
            && !check.remains.history.resent.contains(delivery);
        let requests = check.requests_of(*delivery);
        let in_parts = requests.iter().any(|request| !request.met.is_empty());
        let (made, noted) =
            (requests.iter().filter(heard).count(), noted.get(delivery).copied().unwrap_or(0));
        if is_plain && !in_parts && check.remains.calm && made != noted {
            missing.push(format!("{delivery}: {made} attempts, {noted} in the journal"));
        }
    }
    missing.into_iter().for_each(|missing| check.fail(missing));
}
