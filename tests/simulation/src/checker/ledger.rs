//! The ledger balances: the counts that the functions wrote match what happened.
//!
//! A count is written before its end is recorded, and before its message is deleted. So an end of a
//! disturbed delivery may be counted more than once, because it may happen more than once, but
//! never zero times. All other deliveries count exactly, except that a late success and the next
//! attempt's success may both count.

use std::collections::BTreeMap;

use gridpost_core::{
    ledger::{Account, Ledger},
    retry::outcome::Outcome,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use uuid::Uuid;

use super::Check;
use crate::world::Remains;
use gridpost_testkit::history::Request;

/// An event subscription and the hour in which events were published.
type Row = (SubscriptionKey, Timestamp);

/// The bounds of one row's counts.
#[derive(Default)]
struct Bounds {
    matched: u64,
    /// Events that were sent by redrives, at least and at most.
    redriven: (u64, u64),
    /// Events sent more than once, which may have ended once.
    sent_again: i64,
    least: Account,
    most: Account,
}

/// Checks every account, and what was accepted, as the functions have counted it and as the journal of one
/// machine knows it.
pub(super) fn check(check: &mut Check<'_>) {
    let remains = check.remains;
    of_ledger(check, &remains.history.ledger, Kind::Log);
    if let Some(journal) = remains.journal.as_ref().filter(|journal| !journal.is_logged) {
        of_ledger(check, &journal.ledger, Kind::Journal);
    }
}

/// Where a ledger comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Counts what was confirmed to the publisher.
    Log,
    /// Counts what is in a queue, whether or not the publisher lived to hear it.
    Journal,
}

fn of_ledger(check: &mut Check<'_>, ledger: &Ledger, kind: Kind) {
    intakes(check, ledger, kind);
    let mut rows = bounds(check);
    for row in ledger.accounts.keys() {
        rows.entry(row.clone()).or_default();
    }
    for (row, bounds) in &rows {
        let account = ledger.accounts.get(row).cloned().unwrap_or_default();
        // Dead-letter events are published by the function itself, again after each fault.
        // So are those with a key and those of sources: after a fault the work may be done, and counted,
        // again.
        let is_told = is_repeated(check, &row.0.topic) && !check.is_undisturbed();
        let is_exact = kind == Kind::Log || check.is_undisturbed();
        let is_as_matched = match is_exact {
            true => account.matched == bounds.matched,
            false => account.matched >= bounds.matched,
        };
        if !is_as_matched && !is_told {
            let (counted, matched) = (account.matched, bounds.matched);
            check.fail(format!("{row:?}: {matched} events matched, {counted} were counted"));
        }
        if !is_within(&account, bounds) && !is_told {
            let Bounds { least, most, .. } = bounds;
            check.fail(format!("{row:?}: counted {account:?}, not {least:?} to {most:?}"));
        }
        if account.latencies.events() != account.delivered {
            check.fail(format!(
                "{row:?}: latencies of other events than were delivered: {account:?}"
            ));
        }
        if !(bounds.redriven.0..=bounds.redriven.1).contains(&account.redriven) {
            let (counted, redriven) = (account.redriven, bounds.redriven);
            check.fail(format!("{row:?}: {redriven:?} redriven events, {counted} were counted"));
        }
        // The journal's own check knows what it may miss.
        if account.difference() > bounds.sent_again && !is_told && kind == Kind::Log {
            let difference = account.difference();
            check.fail(format!("{row:?}: the ledger misses {difference} events: {account:?}"));
        }
        if check.is_undisturbed() && account.difference() != 0 {
            let difference = account.difference();
            check.fail(format!("{row:?}: the ledger is open by {difference}: {account:?}"));
        }
    }
}

/// Every event of a publish that was answered 200 counts, and no other.
fn intakes(check: &mut Check<'_>, ledger: &Ledger, kind: Kind) {
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for ((topic, _), intake) in &ledger.intakes {
        *counted.entry(topic.clone()).or_default() += intake.accepted;
    }
    if let Some(told) = &check.remains.told {
        counted.remove(told);
    }
    let mut confirmed = check.remains.history.confirmed.clone();
    if !check.remains.calm {
        // A copy may die between the end of the work and its count, and may do the work twice.
        counted.retain(|topic, _| !is_repeated(check, topic));
        confirmed.retain(|topic, _| !is_repeated(check, topic));
    }
    let accepted = |topic: &String| counted.get(topic).copied().unwrap_or(0);
    let is_counted = match kind == Kind::Log || check.remains.calm {
        true => counted == confirmed,
        false => confirmed.iter().all(|(topic, events)| accepted(topic) >= *events),
    };
    if !is_counted {
        check.fail(format!("accepted were {confirmed:?}, counted {counted:?}"));
    }
}

/// Whether what is published to a topic may be published, and counted, again after a fault.
fn is_repeated(check: &Check<'_>, topic: &str) -> bool {
    let Remains { told, history, .. } = check.remains;
    told.as_deref() == Some(topic) || history.keyed.is_to(topic) || history.sourced.is_to(topic)
}

fn bounds(check: &Check<'_>) -> BTreeMap<Row, Bounds> {
    let history = &check.remains.history;
    let mut rows: BTreeMap<Row, Bounds> = BTreeMap::new();
    for (delivery, accepted) in &history.accepted {
        let row = (accepted.subscription.clone(), accepted.publish_time.hour());
        let Bounds { matched, redriven, sent_again, least, most } = rows.entry(row).or_default();
        let events = accepted.events.len() as u64;
        if accepted.redriven > 0 {
            redriven.0 += u64::from(!check.is_disturbed(*delivery));
            redriven.1 += accepted.redriven;
            *sent_again += i64::try_from(accepted.redriven - 1).unwrap_or(i64::MAX);
        } else if check.remains.told.as_ref() == Some(&accepted.subscription.topic)
            || accepted.events.iter().any(|event| history.confirmed_events.contains(event))
        {
            *matched += events;
        }
        let most_of_it = happened(check, *delivery, events);
        if check.is_disturbed(*delivery) || check.remains.history.twins.contains_key(delivery) {
            most.add(&most_of_it);
        } else {
            let to_resource = check.requests_of(*delivery).iter().any(|made| !made.met.is_empty());
            let end = if to_resource { most_of_it } else { once(most_of_it, events) };
            least.add(&end);
            most.add(&end);
        }
    }
    rows
}

/// Every end of a delivery that happened, however often.
fn happened(check: &Check<'_>, delivery: Uuid, events: u64) -> Account {
    let history = &check.remains.history;
    let is_success = |made: &&&Request| {
        let heard = made.heard.map(|(_, answer)| answer.outcome);
        made.heard_late.is_some() || heard == Some(Outcome::Delivered)
    };
    let copies =
        |made: &&Request| made.deliveries.iter().filter(|found| **found == delivery).count() as u64;
    let requests = check.requests_of(delivery);
    let by_request = |made: &&Request| match made.met.is_empty() {
        true => copies(made) * events,
        false => {
            let of_it = made.met.iter().filter(|met| met.delivery == delivery);
            of_it.filter(|met| met.answer.outcome == Outcome::Delivered).count() as u64
        }
    };
    let delivered: u64 = requests.iter().filter(is_success).map(by_request).sum();
    let stored = history.stored.get(&delivery).copied().unwrap_or(0);
    let mut account = Account {
        delivered,
        dead_lettered: BTreeMap::from([(String::new(), stored)]),
        ..Account::default()
    };
    for drop in check.drops_of(delivery) {
        *account.dropped.entry(drop.reason.clone()).or_default() += drop.count(events as usize);
    }
    account
}

/// The single end of an undisturbed delivery. A late success changes nothing if the end was decided
/// before it, or the next attempt succeeded too.
fn once(happened: Account, events: u64) -> Account {
    let Account { dead_lettered, dropped, .. } = happened;
    let is_dead = dead_lettered.values().any(|stored| *stored > 0);
    let delivered = if is_dead || !dropped.is_empty() { 0 } else { events };
    Account { delivered, dead_lettered, dropped, ..Account::default() }
}

/// Reasons of dead letters are checked in [`super::records`]: each form of record has its own
/// words.
fn is_within(account: &Account, Bounds { least, most, .. }: &Bounds) -> bool {
    let dead = |account: &Account| account.dead_lettered.values().sum::<u64>();
    let dropped = |account: &Account, reason| account.dropped.get(reason).copied().unwrap_or(0);
    let reasons = account.dropped.keys().chain(least.dropped.keys());
    let drops = reasons.map(|reason| {
        let [least, counted, most] = [least, account, most].map(|of| dropped(of, reason));
        (least..=most).contains(&counted)
    });
    (least.delivered..=most.delivered).contains(&account.delivered)
        && (dead(least)..=dead(most)).contains(&dead(account))
        && drops.into_iter().all(|within| within)
}
