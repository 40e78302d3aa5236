//! The journal of one machine balances exactly, after any crash and repetition: its rows commit with the
//! messages. Its series, its ledger and its entries agree.

use std::collections::BTreeMap;

use gridpost_core::{
    journal::{EntryKind, Owner, Series, Step},
    ledger::{Account, Ledger},
};
use gridpost_testkit::history::Request;
use uuid::Uuid;

use super::Check;
use crate::world::journal::JournalRemains;

/// Checks the journal, if the world has one.
pub(super) fn check(check: &mut Check<'_>) {
    let remains = check.remains;
    let Some(journal) = &remains.journal else { return };
    balance(check, &journal.ledger);
    let JournalRemains { ledger, minutes, hours, .. } = journal;
    let sums = [("minutes", sums(minutes)), ("hours", sums(hours)), ("ledger", totals(ledger))];
    for [(one, sum), (other, other_sum)] in sums.array_windows() {
        if sum != other_sum {
            check.fail(format!("{one} of the journal are {sum:?}, {other} {other_sum:?}"));
        }
    }
    entries(check, journal);
}

/// Where calls succeed, the ledger balances exactly. A failed call that took effect can't be on one machine;
/// here it may be: then a message that was sent again counts again. Work that failed may be done again.
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
        let (missing, too_many) = allowed.get(row).copied().unwrap_or_default();
        let bounds = if check.remains.calls_succeed { 0..=0 } else { -too_many..=missing };
        let open = account.difference();
        if !bounds.contains(&open) {
            check.fail(format!("{row:?}: the journal is open by {open}: {account:?}"));
        }
    }
}

type Sums = BTreeMap<Owner, (u64, u64, Account)>;

fn sums(series: &Series) -> Sums {
    let mut sums = Sums::new();
    for ((_, owner), flow) in &series.0 {
        let (accepted, unmatched, account) = sums.entry(owner.clone()).or_default();
        *accepted += flow.accepted;
        *unmatched += flow.unmatched;
        account.add(&flow.account);
    }
    sums
}

fn totals(ledger: &Ledger) -> Sums {
    let mut sums = Sums::new();
    for ((topic, _), intake) in &ledger.intakes {
        let sum = sums.entry(Owner::Topic(topic.clone())).or_default();
        sum.0 += intake.accepted;
        sum.1 += intake.unmatched;
    }
    for (key, account) in ledger.totals() {
        sums.entry(Owner::Subscription(key.clone())).or_default().2.add(&account);
    }
    sums
}

/// The entries make the same series, no entry is there twice, and each request that was heard to the end by
/// a delivery that nothing disturbed has its entry.
fn entries(check: &mut Check<'_>, journal: &JournalRemains) {
    let mut of_entries = Series::default();
    let mut keys = BTreeMap::new();
    for entry in &journal.entries {
        if let Some(count) = entry.count() {
            of_entries.add(Step::Minute.begin(entry.at), &count);
        }
        let key = (entry.publish_time, entry.delivery, entry.attempt, entry.kind, entry.part);
        *keys.entry(key).or_insert(0) += 1;
    }
    if let Some((key, times)) = keys.iter().find(|(_, times)| **times > 1) {
        check.fail(format!("the journal has an entry {times} times: {key:?}"));
    }
    let (of_entries, counted) = (sums(&of_entries), sums(&journal.minutes));
    let (of_entries, counted) = (ends(&of_entries), ends(&counted));
    if of_entries != counted {
        check.fail(format!("entries of the journal make {of_entries:?}, counted {counted:?}"));
    }
    attempts(check, journal);
}

/// Returns what entries count: purged pieces of publishes have none.
fn ends(sums: &Sums) -> BTreeMap<&Owner, u64> {
    let ended = |account: &Account| account.delivered + account.dead_lettered.values().sum::<u64>();
    let all = sums.iter().map(|(owner, (.., account))| (owner, ended(account)));
    all.filter(|(_, ended)| *ended > 0).collect()
}

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
